"""The optimum of an objective over all examples, by L-BFGS, in float64. Every output is scored.

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

# Arrays of the size of the parameters that scipy keeps.
COPIES = 49
# Update count of every state: so many that the step of a state, about 1 / count, is nothing, and it
# stays at its optimum.
MANY_UPDATES = 2**50
# Maximum number of scores, and of features as float64, in a block: two megabytes, which fit into
# the cache.
BLOCK_FLOATS = 1 << 18
# Minimum number of dense examples in a block: computing their gradient then takes much longer than
# adding it to the sum, one addition for each element of W. Of sparse examples, which are less work,
# it is the number of rows of W.
MIN_DENSE_EXAMPLES = 256


class WeightedExamples(NamedTuple):
    """Examples with their labels and weights."""

    features: Any  # float32 (n, n_features), dense or sparse
    labels: Labels  # the positives of each example
    weights: ndarray  # float (n,)

    def that_count(self) -> "WeightedExamples":
        """The examples that have labels and a weight."""
        counted = np.flatnonzero((self.labels.n_of_row > 0) & (self.weights != 0))
        if len(counted) == len(self.weights):
            return self
        return WeightedExamples(
            self.features[counted], self.labels.rows(counted), self.weights[counted]
        )

    def part(self, first: int, last: int) -> "WeightedExamples":
        """The examples first:last, or to the end if there are fewer."""
        weights = self.weights[first:last]
        return WeightedExamples(
            self.features[first:last],
            self.labels.rows(np.arange(first, first + len(weights))),
            weights,
        )


class Optimum(NamedTuple):
    """The result of `minimise`."""

    w: ndarray  # float64 (dim, n_outputs)
    loss: float  # mean per weighted example, without the penalty
    initial_loss: float  # the same at the start
    iterations: int
    evaluations: int  # passes over the data
    largest_gradient: (
        float  # largest absolute element of the gradient; above the tolerance if not converged
    )
    interrupted_by: BaseException | None  # the KeyboardInterrupt that ended it early, if any


def minimise(
    objective: Objective,
    examples: WeightedExamples,
    *,
    l2: float,
    max_iterations: int,
    tolerance: float,
    start: ndarray,
    after: Callable[[int, float], None],
) -> Optimum:
    """The optimal W, from `start`, for an objective whose loss has nothing random in it.

    examples   those without labels do not count
    start      float64 (dim, n_outputs), dim = n_features, or one more for the biases, the last row
    tolerance  the search ends when no element of the gradient is larger
    after      called after each iteration with its number and the loss without the penalty
    """
    penalised_loss = _PenalisedLoss(objective, examples.that_count(), l2, start.shape)
    search = _Search(penalised_loss, start, after)
    interrupted_by = None
    try:
        search.run(max_iterations, tolerance)
    except KeyboardInterrupt as interrupt:
        interrupted_by = interrupt
    return Optimum(
        search.point.reshape(start.shape),
        search.loss,
        search.initial_loss,
        search.iterations,
        search.evaluations,
        search.largest_gradient,
        interrupted_by,
    )


class _Search:
    """scipy's search from `start`, and its state: the last point that it accepted, and counts.

    point             float64 (dim · n_outputs,)
    largest_gradient  largest absolute element of the gradient; infinite until the search ends
    after             as of `minimise`
    """

    def __init__(
        self, penalised_loss: "_PenalisedLoss", start: ndarray, after: Callable[[int, float], None]
    ) -> None:
        self.penalised_loss = penalised_loss
        self.after = after
        self.point = start.ravel()
        self.value = np.inf
        self.initial_loss = np.nan
        self.iterations = 0
        self.evaluations = 0
        self.largest_gradient = np.inf

    @property
    def loss(self) -> float:
        """The loss of the last accepted point, without the penalty."""
        return float(self.value) - self.penalised_loss.penalty(self.point)

    def run(self, max_iterations: int, tolerance: float) -> None:
        """Search until the gradient is small, or there were too many iterations."""
        result = minimize(
            self._evaluate,
            self.point,
            method="L-BFGS-B",
            jac=True,
            callback=self._accept,
            options={
                "maxiter": max_iterations,
                "maxfun": 10 * max_iterations,
                "gtol": tolerance,
                "ftol": 1e-14,
                "maxcor": 20,
            },
        )
        self.point = result.x
        self.value = result.fun
        self.largest_gradient = float(np.abs(result.jac).max(initial=0))

    def _evaluate(self, point: ndarray) -> tuple[float, ndarray]:
        """The penalised loss of a point, and its gradient."""
        self.evaluations += 1
        loss, gradient = self.penalised_loss.loss_and_gradient(point)
        value = loss + self.penalised_loss.penalty(point)
        if self.evaluations == 1:
            self.point = point.copy()
            self.value = value
            self.initial_loss = loss
        return value, gradient

    # scipy looks at the name of the argument.
    def _accept(self, intermediate_result: Any) -> None:
        """Keep the point of an iteration, and report its loss."""
        self.iterations += 1
        self.point = intermediate_result.x.copy()
        self.value = intermediate_result.fun
        self.after(self.iterations, self.loss)


class _PenalisedLoss:
    """mean over examples of the loss + l2/2 · |W|², of points that hold W of this shape.

    Every example has a label and a weight.
    """

    def __init__(
        self,
        objective: Objective,
        examples: WeightedExamples,
        l2: float,
        shape: tuple[int, ...],
    ) -> None:
        self.objective = objective
        self.l2 = l2
        self.shape = shape
        self.n_features = examples.features.shape[1]
        self.has_bias = shape[0] > self.n_features
        self.total_weight = float(examples.weights.sum())

        min_examples = shape[0] if issparse(examples.features) else MIN_DENSE_EXAMPLES
        block_size = max(BLOCK_FLOATS // max(*shape), min_examples)
        self.blocks = [
            _block(objective, examples.part(first, first + block_size))
            for first in range(0, len(examples.weights), block_size)
        ]
        max_terms = max((len(block.entries.example) for block in self.blocks), default=0)
        n_outputs = shape[1]
        # Buffers for the terms of one block.
        self.batch = new_batch(max_terms, n_outputs, dtype=float64)
        self.batch.state_row[:] = np.arange(len(self.batch.state_row))
        self.batch.n_updates[:] = MANY_UPDATES
        self.constants = objective.constants(n_outputs, n_outputs).astype(float64)

    def penalty(self, point: ndarray) -> float:
        """The penalty of all weights but the biases."""
        w = point.reshape(self.shape)[: self.n_features]
        return self.l2 / 2 * float((w * w).sum())

    def loss_and_gradient(self, point: ndarray) -> tuple[float, ndarray]:
        """The mean loss without the penalty, and the gradient with it."""
        w = point.reshape(self.shape)
        gradient = np.zeros(self.shape)
        loss = 0.0
        for block in self.blocks:
            loss += self._add_block(block, w, gradient)
        gradient /= self.total_weight
        gradient[: self.n_features] += self.l2 * w[: self.n_features]
        return loss / self.total_weight, gradient.ravel()

    def _add_block(self, block: "_Block", w: ndarray, gradient: ndarray) -> float:
        """Add a block's gradient to `gradient`; return its summed loss."""
        n_features = self.n_features
        features = block.features
        if not issparse(features):
            features = features.astype(float64)
        z = features @ w[:n_features]
        if self.has_bias:
            z += w[-1]
        loss, d_z = _coefficients(self.objective, block, z, self.batch, self.constants)
        gradient[:n_features] += features.T @ d_z
        if self.has_bias:
            gradient[-1] += d_z.sum(axis=0)
        return loss


# ---- constant over evaluations


class _Block(NamedTuple):
    """A range of the examples, and their terms in a batch: one, or one for each positive."""

    features: Any  # float32 (n, n_features), a view; or sparse, float64
    starts: ndarray | None  # int64 (n,): first term of each example; None if every one is one term
    entries: Entries
    # Distinct weights with their terms: a slice for all terms, or int64 indices.
    groups: list[tuple[float, Any]]


def _block(objective: Objective, examples: WeightedExamples) -> _Block:
    """The block of some examples, each with at least a label."""
    features = examples.features
    labels = examples.labels
    n = features.shape[0]
    entries = entries_among_all_rows(
        labels.n_of_row,
        labels.ids,
        POSITIVES[objective.positives],
        keeps_accidental_hits=objective.traits.keeps_accidental_hits,
    )
    term_weights = examples.weights[entries.example]
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
    objective: Objective, block: _Block, z: ndarray, buffers: Batch, constants: ndarray
) -> tuple[float, ndarray]:
    """The weighted loss of a block with scores z, and ∂loss/∂z, (n, n_outputs). May overwrite z.

    buffers  of at least as many terms as the block has
    """
    entries = block.entries
    n_terms = len(entries.example)
    n_outputs = z.shape[1]
    scores = z if block.starts is None else z[entries.example]
    batch = Batch(*(array[:n_terms] for array in buffers))
    entries.write(batch.label, batch.sample_count)
    state = np.zeros((n_terms, objective.state_width))
    if objective.state_width:
        state[:] = objective.optimal_state(scores, batch.label).reshape(state.shape)
    loss = 0.0
    # A group at a time, because `coefficients` returns the sum of the losses of its terms. It
    # overwrites the scores of a group by their coefficients.
    for weight, terms in block.groups:
        group_z = np.ascontiguousarray(scores[terms])
        group_state = np.ascontiguousarray(state[terms])
        n = len(group_z)
        no_step = float64(0)
        group = Batch(*(array[:n] for array in buffers))._replace(
            z=group_z,
            label=np.ascontiguousarray(batch.label[terms]),
            sample_count=np.ascontiguousarray(batch.sample_count[terms]),
        )
        loss += weight * objective.coefficients(
            group, group_state, constants, n, n_outputs, no_step
        )
        scores[terms] = weight * group_z
    coefficients = scores
    if block.starts is not None:
        coefficients = np.add.reduceat(coefficients, block.starts, axis=0)
    return loss, coefficients
