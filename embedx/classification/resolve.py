"""Resolve the settings of a classifier: what the user left open gets its value here.

`resolve` is called once, when the data are known. RULES has a function for each setting that may be
open, in the order in which they depend on each other; REFUSALS has the combinations that cannot be.
An objective declares defaults of its own as `label_defaults`, a value or one for each kind of input
(`ByInput`).

Learning rates are for inputs of length 1. Features on another scale, a hundred times larger say,
want weights a hundred times smaller, hence steps that are shorter by as much, and by plain descent
by its square. The gradients of several labels of a row add up, and say less each: rates fall with
the root of their number.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from embedx import objectives, optimizers, samplers
from embedx.classification.calibration import n_held_out
from embedx.classification.settings import (
    AUTO,
    BIAS,
    DUAL_EPOCHS,
    HIDDEN_RATE,
    MAX_EPOCHS,
    MIN_EPOCHS,
    NONE,
    OF_STEPS,
    OF_TREE,
    ROOT_EPOCHS,
    SPARSE_RATE,
    ClassifySettings,
    share_of_rows,
)
from embedx.engine.settings import MAX_RATE, check_sampler, check_stopping
from embedx.errors import InapplicableError, Setting, SettingError, Text
from embedx.labeled.data import Labeled
from embedx.labeled.rules import chosen_labels, chosen_scaling, input_length, scaled, scaling_arrays
from embedx.objectives.contract import ByInput, Objective
from embedx.optimizers.contract import LABELS
from embedx.optimizers.dcd import DualCoordinateDescent
from embedx.optimizers.lbfgs import Lbfgs
from embedx.settings import Options, settings_of
from embedx.training import trainer

ALL_ROWS = "all"  # the sampler of exact losses
N_SAMPLED = 10_000  # rows by which the scale of the features is estimated
# Weights of drawn rows, from which on they are sparse by default.
MAX_DENSE_SAMPLED = 250_000_000
# Weights where all rows are scored, from which on they are sparse by default.
MAX_DENSE = 10_000_000
# With fewer labels weights are dense where validation data are to stop the training.
FEW_LABELS = 20_000
# Share of the features that a row of words has on average, at most.
MAX_DENSITY_OF_WORDS = 0.05
# From so many labels on, or with several labels a row, neighbours and propensities are tried.
MANY_LABELS = 1_000
# P@1 of enwiki-cat .5651 -> .5664, EURLex-4.3K .9142 -> .9167, Bibtex .6286 -> .6342, and higher
# PSP@k (eval/results/defaults.md).
PROPENSITY = 0.25
# Values × labels × epochs, from which on labels are put in a tree. With few labels (EURLex-4.3K)
# a tree costs .01 of P@1, with many none (eval/results/speed-many-labels.md).
MAX_PRODUCTS = 2e12
MAX_PRODUCTS_OF_MANY = 1e11
MANY_FOR_TREE = 10_000
# Settings without effect on dual coordinate descent.
NOT_OF_DUAL = (
    "batch_size",
    "learning_rate",
    "initial_gradient",
    "schedule",
    "gradient_scale",
    "bias",
)


class Choice(NamedTuple):
    """The value of a setting, and the reason for people; "" for a default that is always so."""

    value: Any
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Problem:
    """What the rules look at beside the settings resolved so far.

    given      the settings as the user gave them, None where they are open
    data       all rows that can be trained on
    training   those that are trained on; the others are held out
    former     arrays of the classifier that training continues from, by name
    """

    given: ClassifySettings
    objective: Objective
    data: Labeled
    training: Labeled
    former: Mapping[str, ndarray] = dataclasses.field(default_factory=dict)

    @cached_property
    def kind(self) -> str:
        """The kind of input that output rows have: `hidden`, `sparse` or `dense`."""
        if self.given.hidden:
            return "hidden"
        return "sparse" if self.data.is_sparse else "dense"

    @cached_property
    def has_many_labels(self) -> bool:
        """Whether rows have several labels that count, or there are many."""
        labels = chosen_labels(self.data.labels, self.given.labels)
        return self.data.n_labels >= MANY_LABELS or bool((labels.n_of_row > 1).any())

    def default(self, name: str, otherwise: Any) -> Any:
        """What the objective declares for a setting of the task and this kind of input."""
        value = self.objective.label_defaults.get(name, otherwise)
        return getattr(value, self.kind) if isinstance(value, ByInput) else value


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Scaled features, (n_rows, n_features), and the arrays of their scaling by name."""

    features: Any
    arrays: dict[str, ndarray]


@dataclasses.dataclass(frozen=True)
class Resolved:
    """Settings with nothing left open but `hidden`, `max_norm` and `decay_every`, which may be off.

    inputs   the training rows as they are trained on
    origins  the reason for each value that was chosen, by the name of the setting
    """

    settings: ClassifySettings
    inputs: Inputs
    origins: dict[str, str]


def resolve(problem: Problem) -> Resolved:
    """The settings with every open one chosen. Raises `SettingError` for what cannot be."""
    settings = problem.given
    origins: dict[str, str] = {}

    def choose(name: str, choice: Choice) -> None:
        nonlocal settings
        if getattr(settings, name) is None:
            settings = dataclasses.replace(settings, **{name: choice.value})
            origins[name] = choice.reason

    for name, rule in RULES.items():
        choose(name, rule(settings, problem))
    refuse(settings, problem)
    settings = adapted(settings, problem)
    inputs = scaled_inputs(settings, problem)
    choose("l2", default_l2(settings, inputs, problem.training.weights))
    return Resolved(settings, inputs, origins)


def adapted(settings: ClassifySettings, problem: Problem) -> ClassifySettings:
    """The settings with values that mean something else here by what they mean."""
    if settings.optimizer == Lbfgs.name:
        settings = dataclasses.replace(settings, sampler=ALL_ROWS)
    if settings.batch_size == 0:  # `all`
        settings = dataclasses.replace(settings, batch_size=len(problem.data))
    if not problem.data.is_sparse:
        settings = dataclasses.replace(settings, neighbours=NONE)
    return settings


def scaled_inputs(settings: ClassifySettings, problem: Problem) -> Inputs:
    """The training rows, scaled as those of the classifier that training continues from."""
    scaling = str(settings.scaling)
    features = problem.training.features
    if problem.former:
        kept = ("maxima", "idf", "label_order")
        arrays = {name: problem.former[name] for name in kept if name in problem.former}
    else:
        arrays = scaling_arrays(features, scaling)
    return Inputs(scaled(features, scaling, arrays), arrays)


# ---- the objective


def new_objective(objective: type[Objective], options: Options) -> Objective:
    """The objective with its own settings among `options`; those not given as it declares them for
    classification.
    """
    names = settings_of(objective.Settings)
    defaults = {name: v for name, v in objective.label_defaults.items() if name in names}
    return objective(objective.Settings.from_options({**defaults, **options}))


def default_objective(data: Labeled, options: Options) -> tuple[str, dict[str, Any]]:
    """The name of the objective for data where none is named, and settings of its own.

    Sparse weights and trees are for one-vs-all. On sparse features its squared hinge ranks several
    labels a row best, at the least cost, and one label a row where features are like words, but not
    where they are pixels (eval/results/defaults.md).
    """
    labels = chosen_labels(data.labels, str(options.get("labels", "all")))
    is_exact = options.get("sampler", ALL_ROWS) == ALL_ROWS
    has_hidden = options.get("hidden") or options.get("pretrained")
    if not data.is_sparse or has_hidden or not is_exact:
        return "softmax", {}
    if options.get("weights") in ("sparse", "tree"):
        return "ova", {"loss": "squared-hinge"}
    has_several = bool((labels.n_of_row > 1).any())
    is_large = data.n_labels * data.n_features > MAX_DENSE_SAMPLED
    is_like_words = data.features.nnz <= MAX_DENSITY_OF_WORDS * len(data) * data.n_features
    is_open = all(
        options.get(name) is None for name in ("time_budget", "optimizer", "learning_rate")
    )
    if has_several or is_large or (is_like_words and is_open):
        return "ova", {"loss": "squared-hinge"}
    return "softmax", {}


def given_settings(
    name: str | None, options: Options, data: Callable[[], Labeled]
) -> tuple[Objective, ClassifySettings, dict[str, Any]]:
    """The objective and the settings that options ask for, and the options with those of a default
    objective; `data` are read only where no objective is named.

    Raises `EmbedxError` for what does not apply.
    """
    check_stopping(options)
    ClassifySettings.from_options(dict(options))  # values out of range, before anything is read
    chosen: dict[str, Any] = {}
    if name is None:
        name, chosen = default_objective(data(), options)
    options = {**chosen, **options}
    objectives.check_applies(options, name)
    objective = new_objective(objectives.find(name), options)
    settings = ClassifySettings.from_options(options)
    check_given(options, settings, objective)
    return objective, settings, options


# ---- settings that have an effect only with others


def conditions(
    settings: ClassifySettings, objective: Objective
) -> Iterator[tuple[str, bool, Text]]:
    """Names of settings that need another one, whether they have an effect, and what they need."""
    optimizer = settings.optimizer or objective.label_defaults.get("optimizer")
    by_steps = optimizer != Lbfgs.name
    validates = settings.validation is not None
    validates_by_file = validates and share_of_rows(str(settings.validation)) is None
    for name in OF_TREE:
        yield name, settings.weights in (None, "tree"), Setting("weights", "tree")
    sparse_or_tree = (Setting("weights", "sparse"), " or tree")
    yield "weight_threshold", settings.weights != "dense", sparse_or_tree
    yield "validation_labels", validates_by_file, ("a file for ", Setting("validation"))
    yield "patience", validates, Setting("validation")
    yield "decay_every", settings.decay < 1, Setting("decay")
    for name in ("max_iterations", "tolerance"):
        yield name, not by_steps, Setting("optimizer", Lbfgs.name)
    for name in (*OF_STEPS, "time_budget", "replacement", "patience"):
        yield name, by_steps, ("a stochastic ", Setting("optimizer"))
    for name, need in objective.without_effect().items():
        yield name, False, need
    usual_sampler = objective.label_defaults.get("sampler", objective.samplers()[0])
    kind = samplers.SAMPLERS[str(settings.sampler or usual_sampler)].candidates
    counts_negatives = kind in ("drawn", "retrieved") or objective.traits.weighs_negatives
    yield "negatives", counts_negatives, "a sampler that draws"


def check_given(options: Options, settings: ClassifySettings, objective: Objective) -> None:
    """Raise `SettingError` if one of the options that were given has no effect."""
    for name, has_effect, need in conditions(settings, objective):
        if options.get(name) is not None and not has_effect:
            needs = need if isinstance(need, tuple) else (need,)
            raise InapplicableError(name, None, ("applies only with ", *needs))


def without_effect(settings: ClassifySettings, objective: Objective) -> set[str]:
    """The names of the settings that have no effect on a run with these."""
    names = {name for name, has_effect, _ in conditions(settings, objective) if not has_effect}
    return names | set(NOT_OF_DUAL if settings.optimizer == DualCoordinateDescent.name else ())


# ---- rules: one for each setting that may be open


def choose_sampler(settings: ClassifySettings, problem: Problem) -> Choice:
    """The objective's first; all rows where that one needs dense inputs and they are sparse."""
    usual = str(problem.default("sampler", problem.objective.samplers()[0]))
    if samplers.SAMPLERS[usual].needs_dense_inputs and problem.kind == "sparse":
        return Choice(ALL_ROWS, "features are sparse")
    return Choice(usual)


def choose_weights(settings: ClassifySettings, problem: Problem) -> Choice:
    """Dense unless there are too many; a tree where it saves a large part of the time."""
    data = problem.data
    if unmet_condition_of_sparse(settings, problem) is not None:
        return Choice("dense")
    if not scores_labels_independently(settings, problem.objective):
        n_weights = problem.objective.n_rows(data.n_labels) * data.n_features
        return Choice("sparse" if n_weights > MAX_DENSE_SAMPLED else "dense", size_of(data))
    is_dual = settings.optimizer == DualCoordinateDescent.name or takes_dual(settings, problem)
    is_negative = data.features.data.min(initial=0) < 0
    is_small = data.n_labels * data.n_features < MAX_DENSE and (not is_dual or is_negative)
    is_watched = settings.validation is not None and data.n_labels < FEW_LABELS
    if not settings.propensity and (is_small or is_watched):
        return Choice("dense", size_of(data))
    n_products = float(data.features.nnz) * data.n_labels * (settings.epochs or DUAL_EPOCHS)
    has_many = data.n_labels >= MANY_FOR_TREE
    limit = MAX_PRODUCTS_OF_MANY if has_many else MAX_PRODUCTS
    return Choice("sparse" if n_products <= limit else "tree", size_of(data))


def size_of(data: Labeled) -> str:
    """The reason of a choice by the size of the output layer."""
    return f"{data.n_labels:,} labels, {data.n_features:,} features"


def choose_optimizer(settings: ClassifySettings, problem: Problem) -> Choice:
    """The objective's own; for sparse weights one that needs no learning rate, where no setting of
    another one is given.
    """
    is_dense = settings.weights == "dense"
    if not is_dense and settings.sampler == ALL_ROWS and takes_dual(settings, problem):
        return Choice(DualCoordinateDescent.name, "weights are sparse")
    usual = str(problem.objective.label_defaults.get("optimizer", "adagrad"))
    return Choice("adagrad" if usual == Lbfgs.name and not is_dense else usual)


def choose_scaling(settings: ClassifySettings, problem: Problem) -> Choice:
    """tf-idf for counts, rows of unit length where they differ much in length, else none."""
    scaling = chosen_scaling(problem.data.features)
    reasons = {"tf-idf": "features are counts", "l2": "rows differ in length"}
    return Choice(scaling, reasons.get(scaling, ""))


def choose_batch_size(settings: ClassifySettings, problem: Problem) -> Choice:
    """The objective's own, else 100 examples; dual coordinate descent has none."""
    if settings.optimizer == DualCoordinateDescent.name:
        return Choice(None)
    return Choice(int(problem.default("batch_size", 100)))


def choose_learning_rate(settings: ClassifySettings, problem: Problem) -> Choice:
    """The optimizer's, for inputs of length 1, divided by their length and by the root of the
    labels of a row; None for an optimizer without one.
    """
    optimizer = optimizers.find(str(settings.optimizer), LABELS)
    rate = optimizer.rates.get(LABELS)
    if rate is not None and problem.kind == "hidden":
        rate *= HIDDEN_RATE
    if optimizer.name == problem.objective.label_defaults.get("optimizer", "adagrad"):
        rate = problem.default("learning_rate", rate)
    if rate is None:
        return Choice(None)
    is_stateless = optimizer.keeps == "stateless"
    if is_label_by_label(settings, problem.objective):  # on inputs of length 1
        return Choice(rate if is_stateless else rate * SPARSE_RATE)
    data = problem.data
    scaling = str(settings.scaling)
    rate /= math.sqrt(max(labels_per_row(data), 1.0))
    step = max(1, len(data) // N_SAMPLED)
    sample = scaled(data.features[::step], scaling, scaling_arrays(data.features, scaling))
    length = input_length(sample, None if data.weights is None else data.weights[::step])
    rate /= length**2 if is_stateless else length
    return Choice(min(float(f"{rate:.3g}"), MAX_RATE), f"inputs have length {length:.3g}")


def labels_per_row(data: Labeled) -> float:
    """The mean number of labels of a row, by the weights of the rows."""
    if data.weights is None:
        return len(data.labels.ids) / max(len(data), 1)
    return float(data.weights @ data.labels.n_of_row / data.weights.sum())


def choose_epochs(settings: ClassifySettings, problem: Problem) -> Choice:
    """The fewer the more labels of rows there are, as each output row then has more examples."""
    if settings.optimizer == DualCoordinateDescent.name:
        return Choice(DUAL_EPOCHS)
    n = max(len(problem.data.labels.ids), 1)
    epochs = min(max(round(ROOT_EPOCHS / math.sqrt(n)), MIN_EPOCHS), MAX_EPOCHS)
    return Choice(epochs, f"{n:,} pairs of a row and its label")


def choose_bias(settings: ClassifySettings, problem: Problem) -> Choice:
    """Log frequencies; zero where training ends at the optimum, wherever it begins."""
    if settings.optimizer in (DualCoordinateDescent.name, Lbfgs.name):
        return Choice("zero")
    return Choice(str(problem.default("bias", BIAS)))


def choose_neighbours(settings: ClassifySettings, problem: Problem) -> Choice:
    """Tried on held-out rows where there are many labels; they need sparse features."""
    if not problem.data.is_sparse:
        return Choice(NONE)
    return Choice(AUTO if problem.has_many_labels else NONE)


def choose_propensity(settings: ClassifySettings, problem: Problem) -> Choice:
    """A little more for rare labels, where there are many and probabilities are calibrated."""
    n_calibrating = n_held_out(len(problem.data), settings.calibration)
    is_calibrated = settings.validation is not None or n_calibrating > 0
    by_label = is_label_by_label(settings, problem.objective)
    return Choice(PROPENSITY if by_label and problem.has_many_labels and is_calibrated else 0.0)


def choose_threads(settings: ClassifySettings, problem: Problem) -> Choice:
    """One for each usable core."""
    return Choice(trainer.usable_cores())


Rule = Callable[[ClassifySettings, Problem], Choice]
RULES: dict[str, Rule] = {
    "sampler": choose_sampler,
    "weights": choose_weights,
    "optimizer": choose_optimizer,
    "scaling": choose_scaling,
    "learning_rate": choose_learning_rate,
    "batch_size": choose_batch_size,
    "epochs": choose_epochs,
    "bias": choose_bias,
    "neighbours": choose_neighbours,
    "propensity": choose_propensity,
    "threads": choose_threads,
}


def default_l2(settings: ClassifySettings, inputs: Inputs, weights: ndarray | None) -> Choice:
    """None; dual coordinate descent needs one, and has mean |x|² / number of examples, by their
    weights: C = 1 of LIBLINEAR for inputs of length 1.
    """
    if settings.optimizer != DualCoordinateDescent.name:
        return Choice(0.0)
    n = inputs.features.shape[0]
    total = n if weights is None else float(weights.sum())
    return Choice(input_length(inputs.features, weights) ** 2 / total, f"{n:,} examples")


# ---- what rules and refusals ask


def has_label_losses(objective: Objective) -> bool:
    """Whether the loss is a sum over labels, each of which has a probability by itself."""
    return objective.log_label_probability(np.zeros(1)) is not None


def scores_labels_independently(settings: ClassifySettings, objective: Objective) -> bool:
    """Whether all labels are scored, and the loss is a sum over them."""
    return has_label_losses(objective) and settings.sampler == ALL_ROWS


def is_label_by_label(settings: ClassifySettings, objective: Objective) -> bool:
    """Whether resolved settings train sparse weights a tile of labels after another, rather than an
    example after another.
    """
    if settings.weights == "tree":
        return True
    return settings.weights == "sparse" and scores_labels_independently(settings, objective)


def takes_dual(settings: ClassifySettings, problem: Problem) -> bool:
    """Whether dual coordinate descent is the default where all labels are scored: no setting of
    another optimizer is given.
    """
    is_open = settings.optimizer is None and settings.l2 != 0
    has_dual = problem.objective.dual_steps is not None
    return is_open and has_dual and not ignored_by_dual(problem.given)


def ignored_by_dual(given: ClassifySettings) -> list[str]:
    """The settings that are given and have no effect with dual coordinate descent, whose biases
    start at zero.
    """
    names = [name for name in NOT_OF_DUAL if getattr(given, name) != getattr(type(given), name)]
    return [name for name in names if (name, getattr(given, name)) != ("bias", "zero")]


def unmet_condition_of_sparse(settings: ClassifySettings, problem: Problem) -> Text | None:
    """What sparse weights or a tree would need and do not have here; None if they can be."""
    is_tree = settings.weights == "tree"
    objective = problem.objective
    name = objective.name
    by_label = has_label_losses(objective)
    is_exact = settings.sampler == ALL_ROWS
    needs: list[tuple[bool, Text]] = [
        (problem.data.is_sparse, "sparse features; these are dense"),
        (not settings.hidden, ("no ", Setting("hidden"), " layer")),
        (settings.optimizer != Lbfgs.name, ("a stochastic ", Setting("optimizer"))),
        (settings.max_norm is None, ("no ", Setting("max_norm"))),
    ]
    if is_tree or (by_label and is_exact):
        ends_by_epochs = settings.time_budget is None and settings.decay == 1
        has_schedule = settings.schedule in ("linear", "constant")
        needs += [
            (by_label, f"a loss that is a sum over labels, such as that of ova, not {name}"),
            (is_exact, Setting("sampler", ALL_ROWS)),
            (settings.labels != "one", (Setting("labels"), " other than one")),
            (
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
            ),
        ]
    else:
        needs += [
            (not settings.l2, ("no ", Setting("l2"), " where labels are not independent")),
            (
                not is_exact,
                (
                    "drawn candidates, or ",
                    Setting("objective", "ova"),
                    f"; {name} here scores every label",
                ),
            ),
        ]
    return next((need for is_met, need in needs if not is_met), None)


# ---- refusals: combinations that cannot be


def refuse(settings: ClassifySettings, problem: Problem) -> None:
    """Raise `SettingError` for the first combination that cannot be."""
    check_sampler(str(settings.sampler), problem.objective.name, problem.objective.samplers())
    for refusal in REFUSALS:
        error = refusal(settings, problem)
        if error is not None:
            raise error


def refuse_weights(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """Sparse weights or a tree where something that they need is missing."""
    unmet = unmet_condition_of_sparse(settings, problem)
    if settings.weights == "dense" or unmet is None:
        return None
    parts = unmet if isinstance(unmet, tuple) else (unmet,)
    return SettingError("weights", settings.weights, ("needs ", *parts))


def refuse_tree_settings(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """Settings of a tree, or of sparse weights, where weights were chosen otherwise."""
    needs: dict[str, tuple[bool, Text]] = dict.fromkeys(
        OF_TREE, (settings.weights == "tree", Setting("weights", "tree"))
    )
    sparse = (Setting("weights", "sparse"), " or tree")
    needs["weight_threshold"] = (settings.weights != "dense", sparse)
    for name, (has_effect, need) in needs.items():
        is_given = getattr(problem.given, name) != getattr(type(problem.given), name)
        if is_given and not has_effect:
            chosen = ("; here weights are ", str(settings.weights))
            return InapplicableError(name, None, ("applies only with ", need, chosen))
    return None


def refuse_proximal(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """An objective that updates after each example takes plain steps on one example."""
    is_plain = (settings.optimizer, settings.batch_size, settings.gradient_scale) == (
        "sgd",
        1,
        "mean",
    )
    if problem.objective.kind != "proximal" or is_plain:
        return None
    remedy = (
        "use ",
        Setting("optimizer", "sgd"),
        ", ",
        Setting("batch_size", 1),
        ", ",
        Setting("gradient_scale", "mean"),
    )
    return SettingError(
        "objective", problem.objective.name, "it updates after each example", remedy
    )


def refuse_lbfgs(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """L-BFGS needs the exact gradient of a loss of dense weights."""
    if settings.optimizer != Lbfgs.name:
        return None
    objective = problem.objective
    scores_path = samplers.SAMPLERS[str(settings.sampler)].candidates == "path"
    if objective.uniforms_width or scores_path:
        problem_text = f"{objective.name} does not score all labels exactly"
        return SettingError("optimizer", Lbfgs.name, problem_text, "use adagrad")
    is_sampled = problem.given.sampler not in (None, ALL_ROWS)
    if is_sampled or settings.hidden or settings.labels == "one":
        needs = (
            "needs ",
            Setting("sampler", ALL_ROWS),
            ", no ",
            Setting("hidden"),
            " layer, and ",
            Setting("labels"),
            " other than one",
        )
        return SettingError("optimizer", Lbfgs.name, needs, "or use adagrad")
    return None


def refuse_search(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """An index needs dense inputs."""
    sampler = str(settings.sampler)
    if problem.kind != "sparse" or not samplers.SAMPLERS[sampler].needs_dense_inputs:
        return None
    needs = ("needs dense features or ", Setting("hidden", 100))
    return SettingError("sampler", sampler, needs, "these features are sparse")


def refuse_hidden(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """A hidden layer is for sparse features."""
    if not settings.hidden or problem.data.is_sparse:
        return None
    return SettingError(
        "hidden", settings.hidden, "applies to sparse features; these are dense", "leave it out"
    )


def refuse_shrinking(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """A step of plain descent must not shrink weights beyond zero."""
    is_stateless = optimizers.find(str(settings.optimizer), LABELS).keeps == "stateless"
    rate = settings.learning_rate or 0
    l2 = settings.l2 or 0
    if not is_stateless or rate * l2 < 1:
        return None
    below_one = ("times ", Setting("learning_rate", rate), " must be below 1")
    return SettingError("l2", l2, below_one, "lower one of them")


def refuse_rowwise(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """All labels on sparse features are trained a feature after another, which has no state by
    row.
    """
    is_rowwise = optimizers.find(str(settings.optimizer), LABELS).keeps == "per_row"
    scores_all = samplers.SAMPLERS[str(settings.sampler)].candidates == "all"
    if not (is_rowwise and scores_all and problem.kind == "sparse"):
        return None
    place = "does not apply where all labels are scored on sparse features"
    return SettingError("optimizer", settings.optimizer, place, "use adagrad")


def refuse_dual(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """Dual coordinate descent: for which losses and weights, and with which settings."""
    dual = DualCoordinateDescent.name
    if settings.optimizer != dual:
        return None
    is_exact = settings.sampler == ALL_ROWS
    if settings.weights == "dense" or problem.objective.dual_steps is None or not is_exact:
        needs = (
            "needs ",
            Setting("objective", "ova"),
            " with ",
            Setting("loss", "squared-hinge"),
            ", ",
            Setting("sampler", ALL_ROWS),
            ", and ",
            Setting("weights", "sparse"),
            " or tree",
        )
        return SettingError("optimizer", dual, needs)
    if settings.l2 == 0:
        remedy = ("leave ", Setting("l2"), " out, or give one above 0")
        return SettingError("optimizer", dual, "needs a penalty", remedy)
    ignored = ignored_by_dual(problem.given)
    if ignored:
        no_effect = ("has no effect with ", Setting("optimizer", dual))
        return SettingError(ignored[0], None, no_effect, "leave one of them out")
    return None


def refuse_neighbours(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """Nearest rows are searched by their sparse features."""
    if settings.neighbours in (AUTO, NONE) or problem.data.is_sparse:
        return None
    needs = "needs sparse features; these are dense"
    return SettingError("neighbours", settings.neighbours, needs, "leave it out")


def refuse_propensity(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """Propensities scale the scores of labels that are trained independently."""
    if not settings.propensity or is_label_by_label(settings, problem.objective):
        return None
    needs = (
        "needs sparse features, ",
        Setting("objective", "ova"),
        ", and ",
        Setting("weights", "sparse"),
        " or tree",
    )
    return SettingError("propensity", settings.propensity, needs)


REFUSALS: tuple[Callable[[ClassifySettings, Problem], SettingError | None], ...] = (
    refuse_weights,
    refuse_tree_settings,
    refuse_proximal,
    refuse_lbfgs,
    refuse_search,
    refuse_hidden,
    refuse_shrinking,
    refuse_rowwise,
    refuse_dual,
    refuse_neighbours,
    refuse_propensity,
)
