"""The optimum of an objective over all rows, by L-BFGS on the whole data set, in float64.

Minimises   mean over examples of the loss + l2/2 · |W|², biases excepted,

by scipy's L-BFGS-B with the coefficients of the objective. At each evaluation the state of an
example is set to its optimum in closed form (`Objective.optimal_state`), so that the gradient at
fixed state is the whole gradient (Danskin's theorem).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy import float64, ndarray
from scipy.optimize import minimize
from scipy.sparse import issparse

from embedx.engine.select import POSITIVES, Entries, entries_among_all_rows
from embedx.kernels import Batch, new_batch
from embedx.labeled.data import Labels
from embedx.objectives.contract import Objective

COPIES = 49  # arrays of the size of the parameters that scipy keeps
FOR_EVER = 2**50  # update count at which the rate of every state is 0
# Scores, or features as float64, in a block: two megabytes, which stay in the cache.
BLOCK_FLOATS = 1 << 18
MIN_DENSE_ROWS = 256  # in a block: adding up its gradient then costs little beside computing it


class Optimum(NamedTuple):
    """The result of `minimise`."""

    w: ndarray  # float64 (dim, n_rows)
    loss: float  # mean per weighted example, without the penalty
    initial_loss: float  # the same at the start
    iterations: int
    evaluations: int  # passes over the data
    slope: float  # largest element of the gradient; above the tolerance if not converged
    interrupted_by: BaseException | None  # the KeyboardInterrupt that ended it early, if any


def minimise(
    objective: Objective,
    features: Any,
    labels: Labels,
    weights: ndarray,
    *,
    l2: float,
    max_iterations: int,
    tolerance: float,
    start: ndarray,
    after: Callable[[int, float], None],
) -> Optimum:
    """The optimal W, from `start`, for an objective whose loss has nothing random in it.

    features   float32 (n, n_features), dense or sparse
    labels     the positives of each row; a row without positives does not count
    weights    float (n,): the weight of each row
    start      float64 (dim, n_rows); row n_features, if there is one, holds the biases
    tolerance  the search ends when no element of the gradient is larger
    after      called after each iteration with its number and the loss without the penalty
    """
    n_features = features.shape[1]
    shape = start.shape
    n_rows = start.shape[1]
    has_bias = shape[0] > n_features
    counted = np.flatnonzero((labels.n_of_row > 0) & (weights != 0))
    if len(counted) < len(weights):
        features = features[counted]
        labels = labels.rows(counted)
        weights = weights[counted]
    total = float(weights.sum())
    step = max(BLOCK_FLOATS // max(*shape), shape[0] if issparse(features) else MIN_DENSE_ROWS)
    blocks = [
        _block(objective, features[a : a + step], labels, weights, a)
        for a in range(0, len(weights), step)
    ]
    batch = new_batch(
        max((len(block.entries.example) for block in blocks), default=0), n_rows, dtype=float64
    )
    batch.key[:] = np.arange(len(batch.key))
    batch.n_updates[:] = FOR_EVER
    constants = objective.constants(n_rows, n_rows).astype(float64)
    last = start.ravel(), np.inf  # the last accepted point, and its penalised loss
    iterations = evaluations = 0
    initial = np.nan
    slope = np.inf
    interrupted_by = None

    def unpenalised() -> float:
        return float(last[1]) - _penalty(last[0].reshape(shape)[:n_features], l2)

    def value(flat: ndarray) -> tuple[float, ndarray]:
        nonlocal last, evaluations, initial
        evaluations += 1
        w = flat.reshape(shape)
        gradient = np.zeros(shape)
        loss = 0.0
        for block in blocks:
            rows = block.features if issparse(block.features) else block.features.astype(float64)
            z = rows @ w[:n_features]
            if has_bias:
                z += w[-1]
            block_loss, z = _coefficients(objective, block, z, batch, constants)
            loss += block_loss
            gradient[:n_features] += rows.T @ z
            if has_bias:
                gradient[-1] += z.sum(axis=0)
        gradient /= total
        gradient[:n_features] += l2 * w[:n_features]
        penalised = loss / total + _penalty(w[:n_features], l2)
        if evaluations == 1:
            last, initial = (flat.copy(), penalised), loss / total
        return penalised, gradient.ravel()

    def callback(intermediate_result: Any) -> None:
        nonlocal last, iterations
        iterations += 1
        last = intermediate_result.x.copy(), intermediate_result.fun
        after(iterations, unpenalised())

    try:
        result = minimize(
            value,
            start.ravel(),
            method="L-BFGS-B",
            jac=True,
            callback=callback,
            options={
                "maxiter": max_iterations,
                "maxfun": 10 * max_iterations,
                "gtol": tolerance,
                "ftol": 1e-14,
                "maxcor": 20,
            },
        )
        last = result.x, result.fun
        slope = float(np.abs(result.jac).max(initial=0))
    except KeyboardInterrupt as interrupt:
        interrupted_by = interrupt
    return Optimum(
        last[0].reshape(shape),
        unpenalised(),
        initial,
        iterations,
        evaluations,
        slope,
        interrupted_by,
    )


def _penalty(w: ndarray, l2: float) -> float:
    return l2 / 2 * float((w * w).sum())


# ---- constant over evaluations


class _Block(NamedTuple):
    """A range of rows of the data, and their terms in a batch."""

    features: Any  # float32 (n, n_features), a view; or sparse, float64
    starts: ndarray | None  # int64 (n,): the first term of each row; None if every row is one term
    entries: Entries
    # Distinct weights with their terms: a slice for all terms, or int64 indices.
    groups: list[tuple[float, Any]]


def _block(
    objective: Objective, features: Any, labels: Labels, weights: ndarray, first: int
) -> _Block:
    """The block of the rows from `first` on, which have these features and at least one label."""
    n = features.shape[0]
    labels = labels.rows(np.arange(first, first + n))
    entries = entries_among_all_rows(
        labels.n_of_row,
        labels.ids,
        POSITIVES[objective.positives],
        keeps_accidental_hits=objective.traits.keeps_accidental_hits,
    )
    term_weights = weights[first : first + n][entries.example]
    levels = np.unique(term_weights).tolist()
    return _Block(
        features.astype(float64) if issparse(features) else features,
        labels.offsets[:-1] if len(entries.example) > n else None,
        entries,
        [
            (weight, slice(None) if len(levels) == 1 else np.flatnonzero(term_weights == weight))
            for weight in levels
        ],
    )


# ---- scores to coefficients


def _coefficients(
    objective: Objective, block: _Block, z: ndarray, workspace: Batch, constants: ndarray
) -> tuple[float, ndarray]:
    """The weighted loss of a block with scores z, and its weighted coefficients, like z. May
    overwrite z.
    """
    entries = block.entries
    n_terms = len(entries.example)
    n_rows = z.shape[1]
    scores = z if block.starts is None else z[entries.example]
    batch = Batch(*(array[:n_terms] for array in workspace))
    entries.write(batch.label, batch.sample_count)
    state = np.zeros((n_terms, objective.state_width))
    if objective.state_width:
        state[:] = objective.optimal_state(scores, batch.label).reshape(state.shape)
    loss = 0.0
    # A group at a time, because `coefficients` returns the sum of the losses of its terms.
    for weight, terms in block.groups:
        group_z = np.ascontiguousarray(scores[terms])
        group_state = np.ascontiguousarray(state[terms])
        n = len(group_z)
        group = Batch(*(array[:n] for array in workspace))._replace(
            z=group_z,
            label=np.ascontiguousarray(batch.label[terms]),
            sample_count=np.ascontiguousarray(batch.sample_count[terms]),
        )
        loss += weight * objective.coefficients(
            group, group_state, constants, n, n_rows, float64(0)
        )
        scores[terms] = weight * group_z
    return loss, scores if block.starts is None else np.add.reduceat(scores, block.starts, axis=0)
