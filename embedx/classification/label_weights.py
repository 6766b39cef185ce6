"""`--weights`: how the weights of the labels are stored, and which trainer that takes.

    weights  candidates of the loss          trained by                        trainer
    dense    any                             steps on minibatches              StepTrainer
    dense    all labels                      L-BFGS on the whole data set      LbfgsTrainer
    sparse   drawn labels, paths of a tree   steps on sparse weights           StepTrainer
    sparse   all labels, where each has a    one label after another           LabelwiseTrainer
             loss of its own
    tree     the same                        the same, a level after another   LabelwiseTrainer

`choose_weights` chooses the default, `training_method` the trainer (trainers.py), and
`choose_label_features` whether sparse weights are of all features. What sparse weights and trees
need of the data and of other settings is in `unmet_condition`; the settings that need such weights
are in WEIGHTS_OF_SETTING. Refusals are at the end.

Other files with a case for the setting; `test_label_weights` keeps this list and the next complete:

    settings.py               declares it and the settings of a tree
    objective_choice.py       sparse weights and trees make ova the default objective
    ineffective_settings.py   refuses settings that need other weights, before data are read
    refusals.py               calls the refusals below; dual coordinate descent needs sparse weights
    resolve.py                chooses the optimizer by the weights
    run_size.py               size of the weights, and the remedy where memory is short
    setting_notes.py          warns of negative features, which sparse weights suit badly
    tree_plans.py             plans the levels and leaves of a tree
    step_trainer.py           chooses SampledSparse for steps on sparse weights
    sampled_minibatches.py    SampledSparse, whose weights are stored as a tree of one level
    labelwise.py, labelwise_trainer.py, trainers.py   train one label after another
    continued_training.py     which weights training can continue from
    estimator.py              `partial_fit` trains dense weights, or continues sparse ones
    estimator_settings.py     L-BFGS is the default for dense weights alone
    comparison/labels.py      variants that are trained label by label train to convergence
    distributed/refusals.py   a cluster does not train sparse weights by steps
    distributed/strategy.py, distributed/tiles.py   a cluster trains label by label

A trained model has no such setting: `has_sparse_weights` and `has_label_tree` of classifier.py tell
what its arrays are. Files with a case for these:

    classifier.py             scores by dense or by sparse weights; a tree does not score all labels
    label_tree.py             the tree of a model, its search, and its arrays
    model_folder.py           which arrays a folder must have
    ranking.py                the best labels by a tree; an index needs dense weights
    predictions.py            labels of probability above 1/2 by a tree; sizes of conformal sets
    decisions.py              the same sizes
    label_metrics.py          no log-likelihood where a tree does not find all labels
    held_out.py               no temperature where there are no scores of all labels
    run.py, anchors.py        the mean of old and new weights, where training continues
    linear_weights.py         coef_ and intercept_, which a tree has not
"""

from collections.abc import Iterator
from enum import Enum, auto

from embedx.classification.problem import (
    ALL_CANDIDATES,
    Choice,
    Problem,
    has_label_losses,
    scores_labels_independently,
    takes_dual,
)
from embedx.classification.settings import (
    ALL_FEATURES,
    DENSE,
    DUAL_EPOCHS,
    MANY_FOR_TREE,
    MAX_OF_ALL_FEATURES,
    MAX_PRODUCTS,
    MAX_PRODUCTS_OF_MANY,
    POINT,
    POSITIVE_FEATURES,
    SPARSE,
    TREE,
    TREE_SETTINGS,
    ClassifySettings,
)
from embedx.errors import InapplicableError, Setting, SettingError, Text, parts_of
from embedx.labeled.data import Labeled
from embedx.objectives.contract import Objective
from embedx.optimizers.dcd import DualCoordinateDescent
from embedx.optimizers.lbfgs import Lbfgs

# Thresholds that help texts quote, such as MAX_PRODUCTS, are in settings.py.

# Number of weights up to which they are dense by default where candidates are drawn.
MAX_DENSE_SAMPLED = 250_000_000
# Number of weights up to which they are dense by default where all labels are scored.
MAX_DENSE = 10_000_000
# With fewer labels, weights are dense by default if validation data are to stop the training.
FEW_LABELS = 20_000

# Settings that have an effect only with certain weights.
WEIGHTS_OF_SETTING = {
    **dict.fromkeys(TREE_SETTINGS, (TREE,)),
    "label_features": (SPARSE,),
    "weight_threshold": (SPARSE, TREE),
}


class Method(Enum):
    """How the weights of the labels are trained."""

    STEPS = auto()
    LABELWISE = auto()
    LBFGS = auto()


def is_sparse_or_tree(weights: str | None) -> bool:
    """Whether these weights, which may not be set, are sparse, by themselves or in a tree."""
    return weights in (SPARSE, TREE)


# ---- which weights


def choose_weights(settings: ClassifySettings, problem: Problem) -> Choice:
    """Of labels that are scored independently: sparse where they can be, in a tree where it saves a
    large part of the time, unless `prefers_dense`; a given propensity needs sparse ones. Else
    dense unless there are too many.
    """
    data = problem.data
    if unmet_condition(settings, problem) is not None:
        return Choice(DENSE)
    if not scores_labels_independently(settings, problem.objective):
        n_weights = problem.objective.n_outputs(data.n_labels) * data.n_features
        return Choice(SPARSE if n_weights > MAX_DENSE_SAMPLED else DENSE, size_of(data))
    if not settings.propensity and prefers_dense(settings, problem):
        return Choice(DENSE, size_of(data))
    n_products = float(data.features.nnz) * data.n_labels * (settings.epochs or DUAL_EPOCHS)
    has_many = data.n_labels >= MANY_FOR_TREE
    limit = MAX_PRODUCTS_OF_MANY if has_many else MAX_PRODUCTS
    return Choice(SPARSE if n_products <= limit else TREE, size_of(data))


def prefers_dense(settings: ClassifySettings, problem: Problem) -> bool:
    """Whether labels that are scored independently have dense weights by default: there are few
    weights, and dual coordinate descent cannot train them; or there are few labels, and validation
    data are to stop the training, which the optimum of dual coordinate descent needs not.
    """
    data = problem.data
    is_dual = settings.optimizer == DualCoordinateDescent.name or takes_dual(settings, problem)
    has_negative_features = data.features.data.min(initial=0) < 0
    is_small = data.n_labels * data.n_features < MAX_DENSE
    is_stopped = problem.is_given("patience") or problem.is_given("time_budget")
    is_watched = settings.validation is not None and (is_stopped or not is_dual)
    if is_watched and data.n_labels < FEW_LABELS:
        return True
    return is_small and (not is_dual or has_negative_features)


def choose_label_features(settings: ClassifySettings, problem: Problem) -> Choice:
    """Of labels with sparse weights, trained one after another: all features where there are few
    weights.

    A label without weights for the words of other labels cannot tell that they speak against it.
    """
    if settings.weights != SPARSE or not is_labelwise(settings, problem.objective):
        return Choice(None)
    data = problem.data
    is_small = data.n_labels * data.n_features <= MAX_OF_ALL_FEATURES
    return Choice(ALL_FEATURES if is_small else POSITIVE_FEATURES, size_of(data))


def size_of(data: Labeled) -> str:
    """The size of the output layer, as the reason of a choice."""
    return f"{data.n_labels:,} labels, {data.n_features:,} features"


# ---- how they are trained


def training_method(settings: ClassifySettings, objective: Objective) -> Method:
    """How settings train whose sampler, weights and optimizer are resolved."""
    if settings.optimizer == Lbfgs.name:
        return Method.LBFGS
    is_sum_over_labels = scores_labels_independently(settings, objective)
    if settings.weights == TREE or (settings.weights == SPARSE and is_sum_over_labels):
        return Method.LABELWISE
    return Method.STEPS


def is_labelwise(settings: ClassifySettings, objective: Objective) -> bool:
    """Whether one label is trained after another, rather than one example after another: see
    `training_method`.
    """
    return training_method(settings, objective) is Method.LABELWISE


def trains_sparse_rows(settings: ClassifySettings, objective: Objective) -> bool:
    """Whether resolved settings train sparse weights by steps, of a few rows each."""
    is_by_steps = training_method(settings, objective) is Method.STEPS
    return is_by_steps and settings.weights == SPARSE


def tree_depth(n_labels: int, settings: ClassifySettings) -> int:
    """The number of halvings until a leaf has at most `leaf_size` labels; 0 without a tree."""
    if settings.weights != TREE:
        return 0
    depth = 0
    n_leaves = 1
    while settings.leaf_size * n_leaves < n_labels and 2 * n_leaves <= n_labels:
        depth += 1
        n_leaves *= 2
    return depth


# ---- what sparse weights and trees need


def unmet_condition(settings: ClassifySettings, problem: Problem) -> Text | None:
    """What sparse weights or a tree need and do not have here; None if nothing is missing."""
    is_tree = settings.weights == TREE
    would_be_labelwise = is_tree or scores_labels_independently(settings, problem.objective)
    needs = [*_needs_of_sparse(settings, problem)]
    if would_be_labelwise:
        needs += _needs_of_labelwise(settings, problem.objective)
    else:
        needs += _needs_of_sparse_steps(settings, problem.objective)
    return next((need for is_met, need in needs if not is_met), None)


def _needs_of_sparse(settings: ClassifySettings, problem: Problem) -> Iterator[tuple[bool, Text]]:
    """Conditions of all sparse weights: (whether it is met, what is needed)."""
    yield problem.data.is_sparse, "sparse features; these are dense"
    yield not settings.hidden, ("no ", Setting("hidden"), " layer")
    yield settings.optimizer != Lbfgs.name, ("a stochastic ", Setting("optimizer"))
    yield settings.max_norm is None, ("no ", Setting("max_norm"))
    yield settings.posterior == POINT, Setting("posterior", POINT)


def _needs_of_labelwise(
    settings: ClassifySettings, objective: Objective
) -> Iterator[tuple[bool, Text]]:
    """Conditions of training one label after another: (whether it is met, what is needed)."""
    sum_over_labels = f"a loss that is a sum over labels, such as that of ova, not {objective.name}"
    yield has_label_losses(objective), sum_over_labels
    yield settings.sampler == ALL_CANDIDATES, Setting("sampler", ALL_CANDIDATES)
    yield settings.labels != "one", (Setting("labels"), " other than one")
    ends_by_epochs = settings.time_budget is None and settings.decay == 1
    has_schedule = settings.schedule in ("linear", "constant")
    yield (
        ends_by_epochs and has_schedule,
        (
            Setting("epochs"),
            ", not ",
            Setting("time_budget"),
            ", with ",
            Setting("schedule", "linear"),
            " or constant and no ",
            Setting("decay"),
        ),
    )


def _needs_of_sparse_steps(
    settings: ClassifySettings, objective: Objective
) -> Iterator[tuple[bool, Text]]:
    """Conditions of steps on sparse rows: (whether it is met, what is needed)."""
    yield not settings.l2, ("no ", Setting("l2"), " where labels are not independent")
    yield (
        settings.sampler != ALL_CANDIDATES,
        (
            "drawn candidates, or ",
            Setting("objective", "ova"),
            f"; {objective.name} here scores every label",
        ),
    )


# ---- refusals


def needed_weights(name: str) -> Text:
    """The weights that a setting applies with, for a message."""
    first, *others = WEIGHTS_OF_SETTING[name]
    return (Setting("weights", first), *(f" or {other}" for other in others))


def conditions_of_weights(settings: ClassifySettings) -> Iterator[tuple[str, bool, Text]]:
    """(setting, whether it may apply, what it needs) for the settings of certain weights; weights
    that are not chosen yet may be any.
    """
    for name, weights in WEIGHTS_OF_SETTING.items():
        yield name, settings.weights is None or settings.weights in weights, needed_weights(name)


def refuse_weights(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """Sparse weights and trees need certain data and settings."""
    unmet = unmet_condition(settings, problem)
    if settings.weights == DENSE or unmet is None:
        return None
    return SettingError("weights", settings.weights, ("needs ", *parts_of(unmet)))


def refuse_settings_of_weights(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """Settings of a tree, or of sparse weights, need such weights."""
    for name, has_effect, need in conditions_of_weights(settings):
        if problem.is_given(name) and not has_effect:
            no_effect = ("does not apply to ", Setting("weights", settings.weights))
            return InapplicableError(name, None, no_effect, ("use ", need))
    return None


def refuse_label_features(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """The features of labels are a choice where one label is trained after another."""
    if not problem.is_given("label_features") or is_labelwise(settings, problem.objective):
        return None
    no_effect = "does not apply where weights are trained by steps"
    return InapplicableError(
        "label_features", None, no_effect, ("use ", Setting("objective", "ova"))
    )


def refuse_propensity(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """Propensities scale the scores of labels that are trained independently."""
    if not settings.propensity or is_labelwise(settings, problem.objective):
        return None
    needs = (
        "needs sparse features, ",
        Setting("objective", "ova"),
        ", and ",
        Setting("weights", SPARSE),
        " or tree",
    )
    return SettingError("propensity", settings.propensity, needs)
