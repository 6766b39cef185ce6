"""Refused combinations of settings: a function for each, with its reason."""

from collections.abc import Callable

from embedx import optimizers, samplers
from embedx.classification.label_weights import (
    refuse_label_features,
    refuse_propensity,
    refuse_settings_of_weights,
    refuse_weights,
)
from embedx.classification.problem import (
    ALL_CANDIDATES,
    Problem,
    has_gaussian_weights,
    ignored_by_dual,
)
from embedx.classification.settings import (
    AUTO,
    DENSE,
    EUCLIDEAN,
    GAUSSIAN,
    INNER_PRODUCT,
    NONE,
    ClassifySettings,
)
from embedx.engine.settings import check_sampler
from embedx.errors import Setting, SettingError, Text
from embedx.optimizers.contract import LABELS
from embedx.optimizers.dcd import DualCoordinateDescent
from embedx.optimizers.lbfgs import Lbfgs


def refuse(settings: ClassifySettings, problem: Problem) -> None:
    """Raise `SettingError` for the first combination that is refused."""
    check_sampler(str(settings.sampler), problem.objective.name, problem.objective.samplers())
    for refusal in REFUSALS:
        error = refusal(settings, problem)
        if error is not None:
            raise error


def refuse_proximal(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """An objective that updates after each example takes plain steps on one example."""
    is_plain = (settings.optimizer, settings.batch_size, settings.gradient_scale) == (
        "sgd",
        1,
        "mean",
    )
    if problem.objective.step != "proximal" or is_plain:
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
    is_sampled = problem.given.sampler not in (None, ALL_CANDIDATES)
    if is_sampled or settings.hidden or settings.labels == "one":
        needs = (
            "needs ",
            Setting("sampler", ALL_CANDIDATES),
            ", no ",
            Setting("hidden"),
            " layer, and ",
            Setting("labels"),
            " other than one",
        )
        return SettingError("optimizer", Lbfgs.name, needs, "set these, or use adagrad")
    return None


def needs_dense_inputs(setting: str, value: str) -> SettingError:
    """The error for a setting that needs dense inputs where the features are sparse."""
    problem = "needs dense inputs, but these features are sparse"
    return SettingError(setting, value, problem, ("give ", Setting("hidden", 100)))


def refuse_search(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """An index needs dense inputs."""
    sampler = str(settings.sampler)
    if problem.kind != "sparse" or not samplers.SAMPLERS[sampler].needs_dense_inputs:
        return None
    return needs_dense_inputs("sampler", sampler)


def refuse_distances(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """Distances need dense vectors, of which one belongs to a label, and are not linear in it."""
    if settings.score != EUCLIDEAN:
        return None
    if problem.kind == "sparse":
        return needs_dense_inputs("score", EUCLIDEAN)
    objective = problem.objective
    if samplers.SAMPLERS[str(settings.sampler)].candidates == "path":
        no_labels = f"the output vectors of {objective.name} are not those of labels"
        return SettingError("score", EUCLIDEAN, no_labels, "use another objective")
    if objective.step == "proximal":
        for_products = f"the steps of {objective.name} are for inner products"
        return SettingError("score", EUCLIDEAN, for_products, "use another objective")
    if settings.optimizer == Lbfgs.name:
        needs: Text = ("needs a stochastic ", Setting("optimizer"))
        return SettingError("score", EUCLIDEAN, needs, "use adagrad")
    return None


def refuse_hidden(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """A hidden layer is for sparse features."""
    if not settings.hidden or problem.data.is_sparse:
        return None
    return SettingError(
        "hidden", settings.hidden, "applies to sparse features; these are dense", "leave it out"
    )


def refuse_shrinking(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """Weight decay by a step of plain SGD must not change the sign of weights."""
    is_stateless = optimizers.find(str(settings.optimizer), LABELS).keeps == "stateless"
    rate = settings.learning_rate or 0
    l2 = settings.l2 or 0
    if not is_stateless or rate * l2 < 1:
        return None
    below_one = ("times ", Setting("learning_rate", rate), " must be below 1")
    return SettingError("l2", l2, below_one, "lower one of them")


def refuse_rowwise(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """Weights of all labels on sparse features are stored by feature, without a state for each
    label.
    """
    is_rowwise = optimizers.find(str(settings.optimizer), LABELS).keeps == "per_row"
    scores_all = samplers.SAMPLERS[str(settings.sampler)].candidates == "all"
    if not (is_rowwise and scores_all and problem.kind == "sparse"):
        return None
    place = "does not apply where all labels are scored on sparse features"
    return SettingError("optimizer", settings.optimizer, place, "use adagrad")


def refuse_dual(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """Dual coordinate descent is for certain losses and weights, and ignores some settings."""
    dual = DualCoordinateDescent.name
    if settings.optimizer != dual:
        return None
    is_exact = settings.sampler == ALL_CANDIDATES
    if settings.weights == DENSE or problem.objective.dual_steps is None or not is_exact:
        needs = (
            "needs ",
            Setting("objective", "ova"),
            " with ",
            Setting("loss", "squared-hinge"),
            ", ",
            Setting("sampler", ALL_CANDIDATES),
            ", and ",
            Setting("weights", "sparse"),
            " or tree",
        )
        return SettingError("optimizer", dual, needs)
    if settings.l2 == 0:
        remedy = ("leave ", Setting("l2"), " out, or give one above 0")
        return SettingError("optimizer", dual, "needs a penalty", remedy)
    ignored = ignored_by_dual(problem)
    if ignored:
        no_effect = ("has no effect with ", Setting("optimizer", dual))
        return SettingError(ignored[0], None, no_effect, "leave one of them out")
    return None


def refuse_posterior(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """Gaussian weights need inner products, and a softmax or utilities with noise."""
    if settings.posterior != GAUSSIAN:
        return None
    objective = problem.objective
    scores_path = samplers.SAMPLERS[str(settings.sampler)].candidates == "path"
    if not has_gaussian_weights(objective) or not objective.traits.calibrated or scores_path:
        no_mean = f"the probabilities of {objective.name} cannot be averaged over normal scores"
        remedy = ("use ", Setting("objective", "softmax"), ", ar, ar-probit or ar-logistic")
        return SettingError("posterior", GAUSSIAN, no_mean, remedy)
    if settings.score == EUCLIDEAN:
        needs: Text = ("needs ", Setting("score", INNER_PRODUCT))
        return SettingError("posterior", GAUSSIAN, needs, "leave one of them out")
    return None


def refuse_neighbours(settings: ClassifySettings, problem: Problem) -> SettingError | None:
    """Nearest rows are searched by their sparse features."""
    if settings.neighbours in (AUTO, NONE) or problem.data.is_sparse:
        return None
    needs = "needs sparse features; these are dense"
    return SettingError("neighbours", settings.neighbours, needs, "leave it out")


REFUSALS: tuple[Callable[[ClassifySettings, Problem], SettingError | None], ...] = (
    refuse_weights,
    refuse_settings_of_weights,
    refuse_label_features,
    refuse_proximal,
    refuse_lbfgs,
    refuse_search,
    refuse_distances,
    refuse_hidden,
    refuse_shrinking,
    refuse_rowwise,
    refuse_dual,
    refuse_posterior,
    refuse_neighbours,
    refuse_propensity,
)
