"""Resolve the settings of a classifier: what the user left open gets its value here.

`resolve_settings` is called once, when the data are known. RULES has a function for each setting
that may be open, in the order in which they depend on each other; l2 alone is chosen after them, by
`default_l2`, because it depends on the scaled features. refusals.py has the combinations that
cannot be, label_weights.py all about `--weights`. An objective declares defaults of its own as
`label_defaults`, a value or one for each kind of input (`ByInput`).

Learning rates are for inputs of length 1. Features on another scale, a hundred times larger say,
want weights a hundred times smaller, hence steps that are shorter by as much, and by plain descent
by its square. The gradients of several labels of a row add up, and say less each: rates fall with
the root of their number.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from numpy import ndarray

from embedx import optimizers, samplers
from embedx.classification.calibration import n_held_out
from embedx.classification.label_weights import choose_label_features, choose_weights, is_labelwise
from embedx.classification.problem import ALL_CANDIDATES, Choice, Problem, takes_dual
from embedx.classification.refusals import refuse
from embedx.classification.settings import (
    AUTO,
    BATCH_SIZE,
    BIAS,
    DENSE,
    DISTANCE_RATE,
    DUAL_EPOCHS,
    EUCLIDEAN,
    HIDDEN_RATE,
    MAX_EPOCHS,
    MIN_EPOCHS,
    NONE,
    PROPENSITY,
    ROOT_EPOCHS,
    SPARSE_RATE,
    ClassifySettings,
)
from embedx.engine.settings import MAX_RATE
from embedx.labeled.data import Labeled
from embedx.labeled.scaling import ARRAYS_OF, chosen_scaling, input_length, scaled, scaling_arrays
from embedx.objectives.contract import Objective
from embedx.optimizers.adagrad import Adagrad
from embedx.optimizers.contract import LABELS
from embedx.optimizers.dcd import DualCoordinateDescent
from embedx.optimizers.lbfgs import Lbfgs
from embedx.runtime.cores import usable_cores

# Rows by which the scale of the features is estimated.
N_SAMPLED = 10_000
# Why features are scaled.
SCALING_REASONS = {
    "tf-idf": "features are counts",
    "l2": "rows differ in length",
    "standard": "columns are on different scales, or far from 0",
}


@dataclasses.dataclass(frozen=True)
class ResolvedSettings:
    """Settings with nothing left to choose: None means that one is off, or has no effect here.

    features        (n_rows, n_features): those of the training rows, scaled
    scaling_arrays  what later rows are scaled by, by the names of the model folder
    origins         the reason for each value that was chosen from the data, by the name of the
                    setting
    """

    settings: ClassifySettings
    features: Any
    scaling_arrays: dict[str, ndarray]
    origins: dict[str, str]


def resolve_settings(problem: Problem) -> ResolvedSettings:
    """The settings with every open one chosen. Raises `SettingError` for what cannot be."""
    settings = problem.given
    origins: dict[str, str] = {}

    def choose(name: str, choice: Choice) -> None:
        nonlocal settings
        settings = dataclasses.replace(settings, **{name: choice.value})
        if choice.reason:
            origins[name] = choice.reason

    for name, rule in RULES.items():
        if getattr(settings, name) is None:
            choose(name, rule(settings, problem))
    refuse(settings, problem)
    settings = adapted(settings, problem)
    training = problem.training
    arrays = scaling_arrays_of(training.features, settings, problem)
    features = scaled(training.features, str(settings.scaling), arrays)
    if settings.l2 is None:
        choose("l2", default_l2(settings, features, training.weights))
    return ResolvedSettings(settings, features, arrays, origins)


def adapted(settings: ClassifySettings, problem: Problem) -> ClassifySettings:
    """The settings with values that stand for others replaced by these: L-BFGS scores all labels, a
    batch size of 0 is all rows, dense features have no neighbours.
    """
    if settings.optimizer == Lbfgs.name:
        settings = dataclasses.replace(settings, sampler=ALL_CANDIDATES)
    if settings.batch_size == 0:  # `all`
        settings = dataclasses.replace(settings, batch_size=len(problem.data))
    if not problem.data.is_sparse:
        settings = dataclasses.replace(settings, neighbours=NONE)
    return settings


def scaling_arrays_of(
    features: Any, settings: ClassifySettings, problem: Problem
) -> dict[str, ndarray]:
    """The arrays of the scaling: those of the classifier that training continues from, if there is
    one; else those of these features.
    """
    scaling = str(settings.scaling)
    previous = problem.previous_arrays
    if previous:
        return {name: previous[name] for name in ARRAYS_OF.get(scaling, ())}
    return scaling_arrays(features, scaling)


def usual_optimizer(objective: Objective) -> str:
    """The optimizer by which an objective trains dense weights, unless another is given."""
    return str(objective.label_defaults.get("optimizer", Adagrad.name))


# ---- rules: one for each setting that may be open


def choose_sampler(settings: ClassifySettings, problem: Problem) -> Choice:
    """The objective's first; all labels where that one needs dense inputs and features are
    sparse.
    """
    usual = str(problem.default("sampler", problem.objective.samplers()[0]))
    if samplers.SAMPLERS[usual].needs_dense_inputs and problem.kind == "sparse":
        return Choice(ALL_CANDIDATES, "features are sparse")
    return Choice(usual)


def choose_optimizer(settings: ClassifySettings, problem: Problem) -> Choice:
    """The objective's own; for sparse weights one that needs no learning rate, where no setting of
    another one is given.
    """
    is_dense = settings.weights == DENSE
    if not is_dense and settings.sampler == ALL_CANDIDATES and takes_dual(settings, problem):
        return Choice(DualCoordinateDescent.name, "weights are sparse")
    usual = usual_optimizer(problem.objective)
    return Choice(Adagrad.name if usual == Lbfgs.name and not is_dense else usual)


def choose_scaling(settings: ClassifySettings, problem: Problem) -> Choice:
    """tf-idf for counts, rows of unit length where they differ much in length, standardised columns
    where dense ones are unscaled, else none.
    """
    scaling = chosen_scaling(problem.data.features)
    return Choice(scaling, SCALING_REASONS.get(scaling, ""))


def choose_batch_size(settings: ClassifySettings, problem: Problem) -> Choice:
    """The objective's own, else 100 examples; dual coordinate descent has none."""
    if settings.optimizer == DualCoordinateDescent.name:
        return Choice(None)
    return Choice(int(problem.default("batch_size", BATCH_SIZE)))


def choose_learning_rate(settings: ClassifySettings, problem: Problem) -> Choice:
    """The optimizer's, for inputs of length 1; None for an optimizer without one.

    It is divided by the length of inputs, by plain descent by its square, and by the root of the
    number of labels of a row. Training of one label after another needs neither: it divides the
    inputs themselves by their length, and the labels of a row do not add up.
    """
    optimizer = optimizers.find(str(settings.optimizer), LABELS)
    rate = optimizer.rates.get(LABELS)
    if rate is not None and problem.kind == "hidden":
        rate *= HIDDEN_RATE
    if optimizer.name == usual_optimizer(problem.objective):
        rate = problem.default("learning_rate", rate)
    if rate is None:
        return Choice(None)
    if settings.score == EUCLIDEAN:
        rate *= DISTANCE_RATE
    is_stateless = optimizer.keeps == "stateless"
    if is_labelwise(settings, problem.objective):
        return Choice(rate if is_stateless else rate * SPARSE_RATE)
    rate /= math.sqrt(max(labels_per_row(problem.data), 1.0))
    length = length_of_inputs(settings, problem)
    rate /= length**2 if is_stateless else length
    return Choice(min(float(f"{rate:.3g}"), MAX_RATE), f"inputs have length {length:.3g}")


def length_of_inputs(settings: ClassifySettings, problem: Problem) -> float:
    """The root mean square length of the scaled rows, of about N_SAMPLED of them."""
    data = problem.data
    step = max(1, len(data) // N_SAMPLED)
    arrays = scaling_arrays_of(data.features, settings, problem)
    sample = scaled(data.features[::step], str(settings.scaling), arrays)
    return input_length(sample, None if data.weights is None else data.weights[::step])


def labels_per_row(data: Labeled) -> float:
    """The mean number of labels of a row, by the weights of the rows."""
    if data.weights is None:
        return len(data.labels.ids) / max(len(data), 1)
    return float(data.weights @ data.labels.n_of_row / data.weights.sum())


def choose_epochs(settings: ClassifySettings, problem: Problem) -> Choice:
    """Fewer epochs the more labels all rows have together: outputs then have more examples."""
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
    """Tried on held-out rows where `has_several_or_many_labels`; they need sparse features."""
    if not problem.data.is_sparse:
        return Choice(NONE)
    return Choice(AUTO if problem.has_several_or_many_labels else NONE)


def choose_propensity(settings: ClassifySettings, problem: Problem) -> Choice:
    """A little more for rare labels, where `has_several_or_many_labels` and probabilities are
    calibrated.
    """
    n_calibrating = n_held_out(len(problem.data), settings.calibration)
    is_calibrated = settings.validation is not None or n_calibrating > 0
    by_label = is_labelwise(settings, problem.objective)
    return Choice(
        PROPENSITY if by_label and problem.has_several_or_many_labels and is_calibrated else 0.0
    )


def choose_threads(settings: ClassifySettings, problem: Problem) -> Choice:
    """One for each usable core."""
    return Choice(usable_cores())


Rule = Callable[[ClassifySettings, Problem], Choice]
RULES: dict[str, Rule] = {
    "sampler": choose_sampler,
    "weights": choose_weights,
    "optimizer": choose_optimizer,
    "label_features": choose_label_features,
    "scaling": choose_scaling,
    "learning_rate": choose_learning_rate,
    "batch_size": choose_batch_size,
    "epochs": choose_epochs,
    "bias": choose_bias,
    "neighbours": choose_neighbours,
    "propensity": choose_propensity,
    "threads": choose_threads,
}


def default_l2(settings: ClassifySettings, features: Any, row_weights: ndarray | None) -> Choice:
    """0, no penalty; for dual coordinate descent, which needs one, mean |x|² / number of examples,
    both by the weights of the rows: C = 1 of LIBLINEAR for inputs of length 1.
    """
    if settings.optimizer != DualCoordinateDescent.name:
        return Choice(0.0)
    n = features.shape[0]
    total = n if row_weights is None else float(row_weights.sum())
    return Choice(input_length(features, row_weights) ** 2 / total, f"{n:,} examples")
