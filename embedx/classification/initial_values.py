"""Initial values of training by steps or by L-BFGS: biases, and the optimizer's state."""

import numpy as np
from numpy import float32, ndarray

from embedx.classification.settings import EUCLIDEAN, ClassifySettings
from embedx.engine.examples import Examples
from embedx.labeled.data import Labels
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import PER_ROW, STATELESS, UpdateRule

# About the largest float32.
MAX_STATE = 1e38
# Initial accumulator of the hidden layer where scores are distances, in gradients of one positive:
# much smaller gradients are rounding errors.
MIN_HIDDEN_GRADIENT = 1e-3


def weighted_counts(labels: Labels, weights: ndarray, counts: ndarray) -> ndarray:
    """The summed weights of the rows of each label.

    weights  (n_rows,), 1 on average; if empty, `counts` are returned
    """
    if not len(weights):
        return counts
    return np.bincount(labels.ids, weights[labels.row_of_id], len(counts))


def initial_biases(
    objective: Objective, bias: str, counts: ndarray, n: int, noise: ndarray
) -> ndarray:
    """The biases that training starts from, float32 (n_outputs,): zero or, with `bias` "frequency",
    the scores by which the objective predicts how often each label occurs.

    counts  how often each label occurs in n examples
    """
    if bias != "frequency":
        return np.zeros(objective.n_outputs(len(counts)), float32)
    p = np.clip(counts, 0.5, max(n - 0.5, 0.5)) / n
    return np.asarray(objective.initial_bias(p, noise), float32)


def initial_state(
    settings: ClassifySettings, optimizer: UpdateRule, examples: Examples, batch_size: int
) -> float:
    """Initial state of the optimizer, for each weight of an output vector or for each row.

    It is the square of `initial_gradient` gradients of one positive in a minibatch. From zero, the
    first step of Adagrad would have the same length for any gradient, even a tiny one of a label of
    probability 1/1000.
    """
    if optimizer.keeps == STATELESS or optimizer.is_ema:
        return 0.0
    squares, n_values = sums_of_inputs(examples)
    n = len(examples.label_offsets) - 1
    squared_length = squares / n
    width = max(n_values / n, 1.0)
    if settings.hidden:
        # A hidden layer is a sum of rows that are uniform within ±1/√hidden.
        squared_length /= 3
        width = float(settings.hidden)
    if settings.score == EUCLIDEAN:
        # Distances have twice the input as gradient.
        squared_length *= 4
    coefficient = _in_minibatch(settings.initial_gradient, settings, n, batch_size)
    if optimizer.keeps != PER_ROW:
        squared_length /= width
    return float(min(coefficient**2 * squared_length, MAX_STATE))


def initial_hidden_state(
    settings: ClassifySettings, optimizer: UpdateRule, examples: Examples, batch_size: int
) -> float:
    """Initial state of the optimizer for the hidden layer; 0 unless scores are distances.

    While all output vectors are equal, the coefficients of an input sum to zero, and its gradient,
    -2h times their sum, is a rounding error: from zero, Adagrad would take a whole step along it.
    """
    if settings.score != EUCLIDEAN or not settings.hidden:
        return 0.0
    if optimizer.keeps == STATELESS or optimizer.is_ema:
        return 0.0
    squares, n_values = sums_of_inputs(examples)
    n = len(examples.label_offsets) - 1
    # As in `initial_state`: the rows are uniform within ±1/√hidden.
    squared_length = squares / n / 3
    if optimizer.keeps != PER_ROW:
        squared_length /= settings.hidden
    coefficient = _in_minibatch(2 * MIN_HIDDEN_GRADIENT, settings, n, batch_size)
    # Times the mean square of a feature that is not 0, by which a row's gradient is multiplied.
    state = coefficient**2 * squared_length * squares / max(n_values, 1.0)
    return float(min(state, MAX_STATE))


def _in_minibatch(gradient: float, settings: ClassifySettings, n: int, batch_size: int) -> float:
    """The coefficient of one example in a minibatch, whose gradient is a mean over its examples, or
    n times that.
    """
    n_summed = n if settings.gradient_scale == "sum" else 1
    return gradient * n_summed / batch_size


def sums_of_inputs(examples: Examples) -> tuple[float, float]:
    """The squares of all features and the number of those that are not 0, summed over the examples
    by weight.
    """
    values = examples.dense if examples.dense.size else examples.values
    values = values.ravel()
    if not examples.weight.size:
        squares = float(np.einsum("i,i->", values, values, dtype=np.float64))
        return squares, float(np.count_nonzero(values))
    n_of_example = np.diff(examples.offsets) if len(examples.offsets) > 1 else 0
    if examples.dense.size:
        n_of_example = np.full(len(examples.weight), examples.dense.shape[1])
    weights = np.repeat(examples.weight.astype(np.float64), n_of_example)
    return float(weights @ np.square(values, dtype=np.float64)), float(weights @ (values != 0))
