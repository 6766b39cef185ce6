"""The training steps of classification where every output row is a candidate, over a minibatch of
inputs H:

    Z = H Wᵀ        C = coefficients of Z        W -= rate · Cᵀ H        ∂loss/∂H = C W

DenseSteps   H is dense or a hidden layer: products by BLAS. Where C is 0 outside a few columns,
             only their rows move
SparseSteps  H is sparse: the table is transposed, a row for each feature, and processed in tiles of
             64 columns, so that the part of a tile that a minibatch uses fits the core's own cache
"""

import abc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy import float32, int64, ndarray

from embedx.engine.select import SINGLE, entries_among_all_rows
from embedx.engine.shared import (
    Shared,
    backward,
    decay_outputs,
    encode,
    new_feature_workspace,
    step_output,
)
from embedx.kernels.batch import Batch, new_batch
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.maths import ONE
from embedx.kernels.simd import SIMD_WIDTH, aligned_zeros, load, multiply_add, splat, store, zeros
from embedx.labeled.data import Labels, offsets_of
from embedx.optimizers.decay import decay_row, decay_rows, step_size
from embedx.optimizers.descend import descend_columns, new_column_gradient, touch

TILE_WIDTH = 4 * SIMD_WIDTH
# Scores that one call turns into coefficients: a megabyte, which stays in the cache.
CHUNK_FLOATS = 1 << 18
# Rows with coefficients are gathered if there are at least this many rows in all for each of them:
# that takes at most half the time of all rows.
MIN_ROWS_PER_ACTIVE_ROW = 8


class FullSteps(abc.ABC):
    """Steps in which every output row is a candidate; the threads share the work of each step.

    The work is divided into `parts`, so that sums do not depend on the number of threads. `buffers`
    are overwritten by each step.
    """

    buffers: Any

    def __init__(
        self,
        coefficients: Callable[..., float],
        shared: Shared,
        *,
        threads: int,
        parts: int,
        sparse_gradient: bool = False,
    ) -> None:
        self.coefficients = coefficients
        self.shared = shared
        self.parts = parts
        self.pool = ThreadPoolExecutor(threads)
        n_scores = len(shared.outputs.rows) if shared.plan.has_h else shared.outputs.rows.shape[1]
        self.z = np.zeros((shared.plan.batch_size, n_scores), float32)
        self.sparse_gradient = sparse_gradient and not shared.optimizer.is_ema
        self.allocate()

    @abc.abstractmethod
    def allocate(self) -> None:
        """Allocate `buffers`."""

    @abc.abstractmethod
    def score(self, chosen: ndarray, z: ndarray, decay_clock: float) -> None:
        """Apply pending weight decay, then overwrite z by the scores of the chosen examples."""

    @abc.abstractmethod
    def apply(self, chosen: ndarray, z: ndarray, rate: float32) -> None:
        """Update the output rows and the hidden layer along the coefficients z of the chosen
        examples.
        """

    def step(
        self, chosen: ndarray, lr: float, decay_clock: float, rng: np.random.Generator
    ) -> tuple[float, int]:
        """One step over the chosen examples; return the summed loss and the number of its terms.

        rng  picks the one label of an example (`Plan.one_label`), and draws for the objective
        """
        plan = self.shared.plan
        optimizer = self.shared.optimizer
        z = self.z[: len(chosen)]
        labels = self.select(chosen, rng)
        self.score(chosen, z, decay_clock)
        state_lr = float32(float32(lr) * optimizer.state_rate)
        loss = self.coefficients_of_scores(chosen, labels, z, state_lr, rng)
        z *= float32(plan.sum_over / len(chosen))
        self.apply(chosen, z, float32(step_size(optimizer, lr)))
        # Examples without labels are in the batch, but do not count.
        n_counted = np.minimum(self._n_terms(labels), labels.n_of_row).sum()
        return loss, int(n_counted)

    def select(self, chosen: ndarray, rng: np.random.Generator) -> Labels:
        """The positives of the chosen examples: their labels, or one of them drawn at random."""
        examples = self.shared.examples
        labels = Labels(examples.label_offsets, examples.label_ids).rows(chosen)
        if not self.shared.plan.one_label:
            return labels
        place = np.floor(rng.random(len(chosen)) * labels.n_of_row).astype(int64)
        drawn = labels.offsets[:-1] + place
        return labels.where(drawn[labels.n_of_row > 0])

    def coefficients_of_scores(
        self, chosen: ndarray, labels: Labels, z: ndarray, lr: float32, rng: np.random.Generator
    ) -> float:
        """Overwrite the scores of the chosen examples by coefficients, in threads; return the
        summed loss.
        """
        plan = self.shared.plan
        first_term = offsets_of(self._n_terms(labels))
        uniforms = np.clip(
            rng.random((first_term[-1], plan.uniforms_width), dtype=float32),
            2.0**-24,
            1 - 2.0**-24,
        )
        n_at_once = max(1, CHUNK_FLOATS // z.shape[1])

        def work(part: int, begin: int, end: int) -> float:
            loss = 0.0
            for a in range(begin, end, n_at_once):
                b = min(a + n_at_once, end)
                loss += self._coefficients(
                    chosen[a:b],
                    labels.rows(slice(a, b)),
                    z[a:b],
                    uniforms[first_term[a] : first_term[b]],
                    lr,
                )
            return loss

        return sum(self.map_parts(len(chosen), work))

    def _n_terms(self, labels: Labels) -> ndarray:
        """The number of terms of each example, one for each of its labels, or one."""
        if self.shared.plan.positives == SINGLE:
            return labels.n_of_row
        return np.ones_like(labels.n_of_row)

    def map_parts(self, n: int, work: Callable[[int, int, int], Any]) -> list[Any]:
        """The results of work(part, first, last) on equal parts of range(n), in threads."""
        bounds = [n * part // self.parts for part in range(self.parts + 1)]
        mapped = map if self.parts == 1 else self.pool.map
        return list(mapped(work, range(self.parts), bounds[:-1], bounds[1:]))

    def _coefficients(
        self, chosen: ndarray, labels: Labels, z: ndarray, uniforms: ndarray, lr: float32
    ) -> float:
        """Overwrite scores by coefficients in this thread; return the summed loss."""
        shared = self.shared
        plan = shared.plan
        n_labels = labels.n_of_row
        entries = entries_among_all_rows(
            n_labels, labels.ids, plan.positives, keeps_accidental_hits=plan.keeps_accidental_hits
        )
        example = entries.example
        copies_scores = plan.positives == SINGLE and not (n_labels == 1).all()
        term_scores = z[example] if copies_scores else z
        batch = new_batch(len(example), z.shape[1])._replace(z=term_scores, uniforms=uniforms)
        entries.write(batch.label[:, : plan.n_outputs], batch.sample_count[:, : plan.n_outputs])
        batch.state_row[:] = chosen[example]
        if shared.state.shape[1]:
            self._count_updates(batch, example)
        loss = self.coefficients(
            batch, shared.state, shared.constants, len(example), plan.n_outputs, lr
        )
        if copies_scores:
            z[:] = 0
            np.add.at(z, example, batch.z)
        return loss

    def _count_updates(self, batch: Batch, example: ndarray) -> None:
        """Write how often the state of each term was updated before, by its example."""
        n_updates = self.shared.n_updates
        n_terms_before = np.arange(len(example)) - np.searchsorted(example, example)
        batch.n_updates[:] = n_updates[batch.state_row] + n_terms_before
        np.add.at(n_updates, batch.state_row, 1)


class DenseSteps(FullSteps):
    """Steps on dense features or a hidden layer. `sparse_gradient`: most coefficients are 0."""

    def allocate(self) -> None:
        plan = self.shared.plan
        self.h = aligned_zeros(plan.batch_size, plan.dim)
        self.h_gradient = aligned_zeros(plan.batch_size * plan.has_hidden, plan.dim)
        self.features = new_feature_workspace(self.shared.examples, plan)
        self.all_rows = np.arange(len(self.shared.outputs.rows))
        self.buffers = self.z, self.h, self.h_gradient, self.features

    def score(self, chosen: ndarray, z: ndarray, decay_clock: float) -> None:
        rows = self.shared.outputs.rows
        encode(self.shared, self.h, chosen, decay_clock)
        if self.shared.optimizer.l2 > 0:
            self.map_parts(len(rows), lambda _, a, b: decay_outputs(self.shared, a, b, decay_clock))
        np.matmul(self.h[: len(chosen)], rows.T, out=z)

    def apply(self, chosen: ndarray, z: ndarray, rate: float32) -> None:
        rows = self.all_rows
        w = self.shared.outputs.rows
        if self.sparse_gradient:
            active_rows = np.flatnonzero((z.max(axis=0) != 0) | (z.min(axis=0) != 0))
            if MIN_ROWS_PER_ACTIVE_ROW * len(active_rows) <= len(rows):
                rows = active_rows
                w = w[rows]
                z = z[:, rows]
        gradient = z.T @ self.h[: len(chosen)]
        if self.shared.plan.has_hidden:
            np.matmul(z, w, out=self.h_gradient[: len(chosen)])
        self.map_parts(
            len(rows), lambda _, a, b: step_rows(self.shared, rows, a, b, gradient, rate)
        )
        backward(self.shared, self.features, chosen, self.h, self.h_gradient, rate)


@kernel
def step_rows(shared, rows, first, last, gradient, rate):
    """Update the output rows rows[first:last] along `gradient`, (len(rows), stride)."""
    for k in range(first, last):
        step_output(shared, int64(rows[k]), gradient, k, rate)


class SparseSteps(FullSteps):
    """Steps on sparse features; the columns of the transposed table are whole tiles."""

    def allocate(self) -> None:
        self.n_tiles = self.z.shape[1] // TILE_WIDTH
        self.gradients = [
            new_column_gradient(self.shared.plan.dim, TILE_WIDTH) for _ in range(self.parts)
        ]
        self.buffers = self.z, self.gradients

    def score(self, chosen: ndarray, z: ndarray, decay_clock: float) -> None:
        shared = self.shared
        outputs = shared.outputs
        optimizer = shared.optimizer
        plan = shared.plan
        if optimizer.l2 > 0 and optimizer.max_norm > 0:
            self.map_parts(
                plan.n_inputs,
                lambda _, a, b: decay_rows(outputs, a, b, plan.n_outputs, optimizer, decay_clock),
            )
        elif optimizer.l2 > 0:
            self.map_parts(
                self.parts,
                lambda part, *_: decay_features(shared, chosen, part, self.parts, decay_clock),
            )
        self.map_parts(
            self.n_tiles,
            lambda _, a, b: score_tiles(shared, chosen, a * TILE_WIDTH, b * TILE_WIDTH, z),
        )

    def apply(self, chosen: ndarray, z: ndarray, rate: float32) -> None:
        shared = self.shared
        max_norm = shared.optimizer.max_norm
        self.map_parts(
            self.n_tiles,
            lambda part, a, b: step_tiles(
                shared, chosen, a * TILE_WIDTH, b * TILE_WIDTH, z, self.gradients[part], rate
            ),
        )
        if max_norm > 0:
            w = shared.outputs.rows[: shared.plan.n_inputs]
            w *= np.minimum(1, max_norm / np.maximum(np.sqrt(np.einsum("dk,dk->k", w, w)), 1e-30))


@kernel
def decay_features(shared, chosen, part, n_parts, decay_clock):
    """Apply pending weight decay to the features of the chosen examples: to those of one `part` of
    n_parts.
    """
    examples = shared.examples
    for e in range(chosen.size):
        for f in range(examples.offsets[chosen[e]], examples.offsets[chosen[e] + 1]):
            row = int64(examples.columns[f])
            if row % n_parts == part:
                decay_row(shared.outputs, row, shared.plan.n_outputs, shared.optimizer, decay_clock)


@kernel
def score_tiles(shared, chosen, first, last, z):
    """Overwrite z[e, first:last] by the scores of the chosen examples; the 64 sums of a tile are
    kept in registers.
    """
    examples = shared.examples
    w = shared.outputs.rows
    for t in range(first, last, TILE_WIDTH):
        for e in range(chosen.size):
            a, b, c, d = zeros(), zeros(), zeros(), zeros()
            if shared.plan.has_bias:
                a, b, c, d = _load_tile(w, w.shape[0] - 1, t)
            for f in range(examples.offsets[chosen[e]], examples.offsets[chosen[e] + 1]):
                x = splat(examples.values[f])
                w0, w1, w2, w3 = _load_tile(w, int64(examples.columns[f]), t)
                a = multiply_add(x, w0, a)
                b = multiply_add(x, w1, b)
                c = multiply_add(x, w2, c)
                d = multiply_add(x, w3, d)
            _store_tile(z, e, t, a, b, c, d)


@kernel_part
def _load_tile(matrix, row, column):
    """64 numbers of a row, as four vectors."""
    a = load(matrix, row, column)
    b = load(matrix, row, column + SIMD_WIDTH)
    return (
        a,
        b,
        load(matrix, row, column + 2 * SIMD_WIDTH),
        load(matrix, row, column + 3 * SIMD_WIDTH),
    )


@kernel_part
def _store_tile(matrix, row, column, a, b, c, d):
    """Write 64 numbers of a row."""
    store(matrix, row, column, a)
    store(matrix, row, column + SIMD_WIDTH, b)
    store(matrix, row, column + 2 * SIMD_WIDTH, c)
    store(matrix, row, column + 3 * SIMD_WIDTH, d)


@kernel
def step_tiles(shared, chosen, first, last, z, gradient, rate):
    """Update columns first:last of the table along the coefficients z of the chosen examples."""
    examples = shared.examples
    has_bias = shared.plan.has_bias
    bias_row = shared.outputs.rows.shape[0] - 1
    for t in range(first, last, TILE_WIDTH):
        n_touched = 0
        for e in range(chosen.size):
            begin = examples.offsets[chosen[e]]
            end = examples.offsets[chosen[e] + 1]
            c0, c1, c2, c3 = _load_tile(z, e, t)
            for f in range(begin, end + has_bias):
                is_feature = f < end
                row = int64(examples.columns[f]) if is_feature else bias_row
                v = splat(examples.values[f] if is_feature else ONE)
                a, b, c, d = _load_tile(gradient.sums, row, 0)
                a = multiply_add(v, c0, a)
                b = multiply_add(v, c1, b)
                c = multiply_add(v, c2, c)
                d = multiply_add(v, c3, d)
                _store_tile(gradient.sums, row, 0, a, b, c, d)
                n_touched = touch(gradient, row, n_touched)
        descend_columns(shared.outputs, t, gradient, n_touched, TILE_WIDTH, shared.optimizer, rate)
