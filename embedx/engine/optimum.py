"""The optimum of an objective in which all rows compete: the whole data set at each step, by L-BFGS, in float64.

Minimises   mean over examples of the loss + l2/2 · |W|², biases excepted,

by scipy's L-BFGS-B on the objective's own coefficients. State that an objective keeps by example is set to its best value in
closed form (`Objective.settle`) wherever scores are looked at, so that the gradient with respect to the scores is the whole
gradient (Danskin's theorem).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

from embedx.objectives.contract import Objective

FOR_EVER = 2**50  # visits at which every state stands still
CHUNK_FLOATS = 1 << 22


def minimise(
    objective: Objective,
    features: Any,
    label: Callable[[int, int], tuple[np.ndarray, np.ndarray]],
    weights: np.ndarray,
    *,
    n_rows: int,
    has_bias: bool,
    l2: float,
    max_iterations: int,
    tolerance: float,
    start: np.ndarray,
    after: Callable[[int, float], None],
) -> tuple[np.ndarray, float, int]:
    """The best W, float64 (dim, n_rows), from `start`; the loss there, per weighted example, and the iterations it took.

    features   (n, n_features), dense or sparse
    label      (first, last) -> label and times of these examples, float64 (last - first, n_rows)
    weights    float64 (n,): how much each example counts
    tolerance  the search ends when no element of the gradient is larger
    after      called after each iteration with its number and the penalised loss
    """
    dim = features.shape[1] + has_bias
    numbers = objective.numbers(n_rows, n_rows).astype(np.float64)
    total = float(weights.sum())
    step = max(1, CHUNK_FLOATS // n_rows)
    loss_now = [np.inf]

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = flat.reshape(dim, n_rows)
        gradient = np.zeros_like(w)
        loss = 0.0
        for first in range(0, features.shape[0], step):
            rows = features[first : first + step]
            z = np.asarray(rows @ w[: features.shape[1]], dtype=np.float64)
            if has_bias:
                z += w[-1]
            of_rows = weights[first : first + step]
            loss += _coefficients(objective, z, *label(first, first + len(of_rows)), numbers, of_rows)
            gradient[: features.shape[1]] += rows.T @ z
            if has_bias:
                gradient[-1] += z.sum(axis=0)
        penalised = w[: features.shape[1]]
        gradient /= total
        gradient[: features.shape[1]] += l2 * penalised
        loss_now[0] = loss / total + l2 / 2 * float((penalised * penalised).sum())
        return loss_now[0], gradient.ravel()

    iterations = [0]

    def callback(_flat: np.ndarray) -> None:
        iterations[0] += 1
        after(iterations[0], loss_now[0])

    found = minimize(
        value, start.ravel(), method="L-BFGS-B", jac=True, callback=callback,
        options={"maxiter": max_iterations, "maxfun": 10 * max_iterations, "gtol": tolerance, "ftol": 1e-14, "maxcor": 20},
    )  # fmt: skip
    w = found.x.reshape(dim, n_rows)
    penalty = l2 / 2 * float((w[: features.shape[1]] ** 2).sum())
    return w, float(found.fun) - penalty, iterations[0]


def _coefficients(
    objective: Objective, z: np.ndarray, label: np.ndarray, times: np.ndarray, numbers: np.ndarray, weights: np.ndarray
) -> float:
    """Overwrite the scores of some examples by weighted coefficients; return their weighted loss."""
    n, n_rows = z.shape
    example = np.arange(n)
    if objective.takes == "pair" and objective.paths() is None:  # one line for each positive
        example, positive = np.nonzero(label)
        line = np.arange(len(example))
        scores, one = np.ascontiguousarray(z[example]), np.zeros((len(example), n_rows))
        others = np.where(label[example] > 0, 1.0, times[example])  # the row's other positives compete
        one[line, positive] = 1
        if not objective.keeps_hits:
            others[line, positive] = 0
        label, times = one, others
    else:
        scores = z
    lines = len(scores)
    state = np.ascontiguousarray(objective.settle(scores, label), dtype=np.float64).reshape(lines, objective.state_width)
    uniforms, norm = np.zeros((lines, objective.uniforms_width)), np.zeros(lines)
    loss = 0.0
    zero = np.zeros_like(scores)
    for w in np.unique(weights):  # coefficients sum the losses of what they are handed
        mine = np.flatnonzero(weights[example] == w)
        part = np.ascontiguousarray(scores[mine])
        loss += w * objective.coefficients(
            part, np.ascontiguousarray(label[mine]), np.ascontiguousarray(times[mine]), zero[: len(mine)],
            np.ascontiguousarray(state[mine]), uniforms, numbers, np.arange(len(mine)), np.full(len(mine), FOR_EVER),
            norm, len(mine), n_rows, np.float64(0),
        )  # fmt: skip
        scores[mine] = w * part
    if scores is not z:
        z[:] = 0
        np.add.at(z, example, scores)
    return loss
