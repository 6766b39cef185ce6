"""The training steps of classification where every output row competes: matrix products over a minibatch.

The table is kept with a row for each feature and a column for each output row, W (dim, n_rows), so that what one feature says
about neighbouring outputs lies side by side:

    Z = H W        C = coefficients of Z        W -= rate · Hᵀ C

Dense H goes through BLAS; where C is 0 outside a few columns, only these are multiplied and stepped. Sparse H meets W in tiles
of 64 columns: what a minibatch needs of a tile stays in the core's own cache while all its examples pass, and 64 scores of an
example are kept in registers along its features.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from embedx.engine.examples import Examples, FeatureWorkspace, descend_features, put, sum_rows
from embedx.engine.select import counts_among_all_rows
from embedx.kernels.batch import Batch, new_batch
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.simd import SIMD_WIDTH, load, multiply_add, splat, store, zeros
from embedx.optimizers.contract import PER_COLUMN, Table, UpdateRule
from embedx.optimizers.decay import decay_row
from embedx.optimizers.descend import accumulate_column, accumulate_columns, descend_columns, descend_few

TILE = 4 * SIMD_WIDTH
CHUNK_FLOATS = 1 << 18  # scores that are turned into coefficients in one call: a megabyte stays in the cache
FEW = 8  # one column out of so many, or fewer, are gathered: half of the time or less that all would take


@kernel
def sparse_scores(examples, order, begin, end, table, bias_row, first, last, z):
    """Overwrite z[e, first:last] by the scores of the examples order[begin:end]; whole tiles. bias_row is -1 without bias."""
    for t in range(first, last, TILE):
        for e in range(begin, end):
            i = order[e]
            if bias_row >= 0:
                a, b = load(table.rows, bias_row, t), load(table.rows, bias_row, t + SIMD_WIDTH)
                c, d = load(table.rows, bias_row, t + 2 * SIMD_WIDTH), load(table.rows, bias_row, t + 3 * SIMD_WIDTH)
            else:
                a, b, c, d = zeros(), zeros(), zeros(), zeros()
            for f in range(examples.offsets[i], examples.offsets[i + 1]):
                row, x = np.int64(examples.columns[f]), splat(examples.values[f])
                a = multiply_add(x, load(table.rows, row, t), a)
                b = multiply_add(x, load(table.rows, row, t + SIMD_WIDTH), b)
                c = multiply_add(x, load(table.rows, row, t + 2 * SIMD_WIDTH), c)
                d = multiply_add(x, load(table.rows, row, t + 3 * SIMD_WIDTH), d)
            _store_tile(z, e - begin, t, a, b, c, d)


@kernel_part
def _store_tile(matrix, row, column, a, b, c, d):
    """Write 64 floats."""
    store(matrix, row, column, a)
    store(matrix, row, column + SIMD_WIDTH, b)
    store(matrix, row, column + 2 * SIMD_WIDTH, c)
    store(matrix, row, column + 3 * SIMD_WIDTH, d)


@kernel
def sparse_steps(examples, order, begin, end, table, bias_row, first, last, z, touched, n_touched, gradient, optimizer, rate):
    """The steps of table columns first:last, whole tiles, along the coefficients z.

    `gradient`, float32 (dim, TILE), is zero before and after.
    """
    for t in range(first, last, TILE):
        for e in range(begin, end):
            i = order[e]
            a, b = load(z, e - begin, t), load(z, e - begin, t + SIMD_WIDTH)
            c, d = load(z, e - begin, t + 2 * SIMD_WIDTH), load(z, e - begin, t + 3 * SIMD_WIDTH)
            for f in range(examples.offsets[i], examples.offsets[i + 1]):
                _add_to_tile(gradient, np.int64(examples.columns[f]), splat(examples.values[f]), a, b, c, d)
            if bias_row >= 0:
                _add_to_tile(gradient, bias_row, splat(np.float32(1)), a, b, c, d)
        accumulate_columns(table, t, touched, n_touched, bias_row, gradient, 0, TILE, optimizer)
        for k in range(n_touched):
            _step_tile(table, np.int64(touched[k]), t, gradient, optimizer, rate)
        if bias_row >= 0:
            _step_tile(table, bias_row, t, gradient, optimizer, rate)


@kernel_part
def _add_to_tile(gradient, row, x, a, b, c, d):
    """Add x times 64 floats to a row."""
    a = multiply_add(x, a, load(gradient, row, 0))
    b = multiply_add(x, b, load(gradient, row, SIMD_WIDTH))
    c = multiply_add(x, c, load(gradient, row, 2 * SIMD_WIDTH))
    d = multiply_add(x, d, load(gradient, row, 3 * SIMD_WIDTH))
    _store_tile(gradient, row, 0, a, b, c, d)


@kernel_part
def _step_tile(table, row, t, gradient, optimizer, rate):
    """One step of 64 numbers of a feature's row; its gradient is zero afterwards."""
    descend_columns(table, row, t, gradient, row, 0, TILE, optimizer, rate)
    _store_tile(gradient, row, 0, zeros(), zeros(), zeros(), zeros())


@kernel
def touched_features(examples, order, begin, end, groups):
    """Write the distinct features of the examples order[begin:end] to groups.touched; return their number."""
    n = 0
    entry = 0
    for e in range(begin, end):
        for f in range(examples.offsets[order[e]], examples.offsets[order[e] + 1]):
            n = put(groups, np.int64(examples.columns[f]), entry, n)
            entry += 1
    for k in range(n):
        groups.first[groups.touched[k]] = -1
    return n


@kernel
def decay_features(table, touched, first, last, n, optimizer, decay_clock):
    """Apply the weight decay that is due to the rows touched[first:last]."""
    for k in range(first, last):
        decay_row(table, np.int64(touched[k]), n, optimizer, decay_clock)


@kernel
def accumulate_tiles(table, first, last, rows, gradient, optimizer):
    """Where there is one state a column: tell those of columns first:last, whole tiles, the squared lengths of their gradients.

    `gradient` (dim, >= last); `rows` names all of its rows.
    """
    accumulate_columns(table, first, rows, rows.size, -1, gradient, first, last - first, optimizer)


@kernel
def accumulate_few(table, columns, squares, optimizer):
    """The same for the columns named, with the squares (len(columns),)."""
    for k in range(columns.size):
        accumulate_column(table, columns[k], squares[k], optimizer)


@kernel
def dense_steps(table, first, last, gradient, n, optimizer, rate):
    """The steps of the table's rows first:last along `gradient` (dim, >= n)."""
    for row in range(first, last):
        descend_columns(table, row, 0, gradient, row, 0, n, optimizer, rate)


@kernel
def find_moving(z, first, last, moving):
    """Set moving[k], uint8, for the columns k of first:last in which some coefficient is not 0; whole tiles."""
    for t in range(first, last, TILE):
        here = moving[t : t + TILE]
        here[:] = 0
        for e in range(z.shape[0]):
            row = z[e, t : t + TILE]
            for k in range(TILE):
                here[k] |= row[k] != 0


@kernel
def few_steps(table, first, last, columns, gradient, optimizer, rate):
    """The steps of the numbers `columns` of the table's rows first:last along `gradient` (dim, len(columns))."""
    for row in range(first, last):
        descend_few(table, row, columns, gradient, optimizer, rate)


@kernel
def hidden_layer(examples, order, begin, end, table, n, optimizer, decay_clock, h):
    """Overwrite h[e] by the hidden layer of the examples order[begin:end]."""
    for e in range(begin, end):
        sum_rows(examples, order[e], table, n, optimizer, decay_clock, h, e - begin)


@kernel
def hidden_steps(table, examples, optimizer, n, workspace, h_gradient, order, begin, end, rate):
    """The steps of the features' rows along what the examples ask of their hidden layer."""
    descend_features(table, examples, optimizer, n, workspace, h_gradient, order, begin, end, rate)


# ---- a step, by several threads


class Layer(NamedTuple):
    """What the steps of a worker need beside its examples."""

    hidden: Table  # a row for each feature; empty without hidden layer
    outputs: Table  # a row for each number of h, its last one the bias; a column for each output row
    state: np.ndarray  # float32 (n_examples, state_width)
    n_updates: np.ndarray  # int64 (n_examples,)


class FullSteps:
    """Takes steps in which every output row competes."""

    def __init__(
        self,
        coefficients: Callable[..., float],
        layer: Layer,
        examples: Examples,
        optimizer: UpdateRule,
        *,
        n_rows: int,
        has_bias: bool,
        positives: str,  # how the objective takes them: "single", "joint" or "summed"
        keeps_accidental_hits: bool,
        one_label: bool,
        uniforms_width: int,
        uses_score_gain: bool,
        sparse_gradient: bool,  # most coefficients are 0
        constants: np.ndarray,
        features: FeatureWorkspace,
        threads: int,
        parts: int | None = None,  # that the work of a step comes in; by default one for each thread
        in_turn: bool = False,  # labels of an example are answered one after another
    ) -> None:
        self.in_turn = in_turn
        self.met_again = 0.0  # Σ of a line's coefficients times those of the lines before, by which its rows had moved along h
        self.coefficients, self.layer, self.examples, self.optimizer = coefficients, layer, examples, optimizer
        self.n_rows, self.has_bias = n_rows, has_bias
        self.pairs, self.positives = positives == "single", positives
        self.keeps_accidental_hits = keeps_accidental_hits
        self.one_label, self.uniforms_width, self.constants, self.features = one_label, uniforms_width, constants, features
        self.uses_score_gain, self.parts = uses_score_gain, parts or threads
        self.pool = ThreadPoolExecutor(threads)
        self.dim, self.stride = layer.outputs.rows.shape
        self.has_hidden = len(layer.hidden.rows) > 0
        self.is_sparse = examples.dense.size == 0 and not self.has_hidden
        self.bias_row = self.dim - 1 if has_bias else -1
        self.n_decaying = self.dim - has_bias
        self.sparse_gradient = sparse_gradient and not self.is_sparse and not optimizer.is_ema
        self.moving = np.zeros(self.stride if self.sparse_gradient else 0, dtype=np.uint8)
        if self.is_sparse:
            self.gradients = [np.zeros((self.dim, TILE), dtype=np.float32) for _ in range(self.parts)]
            squares = np.concatenate([[0.0], np.cumsum(examples.values.astype(np.float64) ** 2)])
            self.norms = (np.diff(squares[examples.offsets]) + has_bias).astype(np.float32)
        self.z = np.zeros((0, self.stride), dtype=np.float32)
        self.all_features = np.arange(self.dim, dtype=np.int32)

    def step(
        self, order: np.ndarray, begin: int, end: int, rate: float, step_rate: float, decay_clock: float, scale: float, rng: Any
    ) -> tuple[float, int]:
        """One step over the examples order[begin:end]; return the summed loss and the number of its terms.

        rate       learning rate; `step_rate`, of `decay.step_size`, multiplies gradients
        scale      of the coefficients of each example
        rng        numpy Generator for a label that stands for all, and for the objective
        """
        layer, optimizer = self.layer, self.optimizer
        touched, n_touched = self._touched(order, begin, end)
        if optimizer.l2 > 0:
            # A column's state changes with any of its features: then weight decay cannot wait until a feature is seen again.
            at_once = optimizer.max_norm > 0 or layer.outputs.state_of == PER_COLUMN
            rows, n = (self.all_features, self.n_decaying) if at_once else (touched, n_touched)
            self._in_parts(n, lambda w, a, b: decay_features(layer.outputs, rows, a, b, self.n_rows, optimizer, decay_clock))
        h = self._h(order, begin, end, decay_clock)
        z = self._scores(order, begin, end, h)
        told = np.float32(rate) * optimizer.state_rate
        loss, n_lines = self._coefficients(order[begin:end], z, self._score_gain(order[begin:end], h), told, rng)
        few = self._few(z)
        if few is not None:
            z = z[:, few]
        z *= np.float32(scale)
        if self.has_hidden:
            h_gradient = self._h_gradient(z, few)
            if self.in_turn:
                h_gradient[:, : self.n_decaying] -= np.float32(rate * self.met_again) * h[:, : self.n_decaying]
        if self.is_sparse:
            self._sparse_step(order, begin, end, z, touched, n_touched, np.float32(step_rate))
        else:
            gradient = h[:, : self.dim].T @ z
            self._accumulate(few, gradient)
            self._in_parts(self.dim, lambda w, a, b: self._dense_steps(a, b, few, gradient, np.float32(step_rate)))
        if self.has_hidden:
            hidden_steps(
                layer.hidden, self.examples, optimizer, self.n_decaying, self.features, h_gradient,
                order, begin, end, np.float32(step_rate),
            )  # fmt: skip
        if optimizer.max_norm > 0:
            w = layer.outputs.rows[: self.n_decaying]
            norms = np.sqrt(np.einsum("dk,dk->k", w, w))
            w *= np.minimum(1, optimizer.max_norm / np.maximum(norms, 1e-30))
        return loss, n_lines

    def _touched(self, order: np.ndarray, begin: int, end: int) -> tuple[np.ndarray, int]:
        """The features whose weights may move, and how many they are."""
        if not self.is_sparse:
            return self.all_features, self.n_decaying
        groups = self.features.groups
        return groups.touched, touched_features(self.examples, order, begin, end, groups)

    def _sparse_step(
        self, order: np.ndarray, begin: int, end: int, z: np.ndarray, touched: np.ndarray, n_touched: int, rate: np.float32
    ) -> None:
        """The step of the output rows along the coefficients z, where features are sparse."""
        outputs = self.layer.outputs
        self._in_parts(
            self.stride // TILE,
            lambda w, a, b: sparse_steps(
                self.examples, order, begin, end, outputs, self.bias_row, a * TILE, b * TILE, z, touched, n_touched,
                self.gradients[w], self.optimizer, rate,
            ),
        )  # fmt: skip

    def memory(self) -> list[Any]:
        """What is written again at each step."""
        return [self.z, self.features, *(self.gradients if self.is_sparse else [])]

    def _in_parts(self, n: int, work: Callable[[int, int, int], object]) -> None:
        """Have the threads do work(part, first, last) on equal parts of 0..n."""
        bounds = [n * w // self.parts for w in range(self.parts + 1)]
        list(self.pool.map(work, range(self.parts), bounds[:-1], bounds[1:]))

    def _h(self, order: np.ndarray, begin: int, end: int, decay_clock: float) -> np.ndarray:
        """float32 (end - begin, >= dim): dense features or the hidden layer, with 1 for the bias; empty for sparse features."""
        if self.is_sparse:
            return self.z[:0]
        h = np.ones((end - begin, -(-self.dim // SIMD_WIDTH) * SIMD_WIDTH), dtype=np.float32)
        if self.has_hidden:
            hidden_layer(self.examples, order, begin, end, self.layer.hidden, self.n_decaying, self.optimizer, decay_clock, h)
            h[:, self.dim - 1] = 1 if self.has_bias else h[:, self.dim - 1]
        else:
            h[:, : self.n_decaying] = self.examples.dense[order[begin:end]]
        return h

    def _scores(self, order: np.ndarray, begin: int, end: int, h: np.ndarray) -> np.ndarray:
        """float32 (end - begin, stride), in the same memory at every call."""
        if len(self.z) < end - begin:
            self.z = np.zeros((end - begin, self.stride), dtype=np.float32)
        z = self.z[: end - begin]
        if self.is_sparse:
            self._in_parts(
                self.stride // TILE,
                lambda w, a, b: sparse_scores(
                    self.examples, order, begin, end, self.layer.outputs, self.bias_row, a * TILE, b * TILE, z
                ),
            )
        else:
            np.matmul(h[:, : self.dim], self.layer.outputs.rows, out=z)
        return z

    def _few(self, z: np.ndarray) -> np.ndarray | None:
        """int64: the columns in which some coefficient is not 0, where they are worth gathering."""
        if not self.sparse_gradient:
            return None
        self._in_parts(self.stride // TILE, lambda w, a, b: find_moving(z, a * TILE, b * TILE, self.moving))
        few = np.flatnonzero(self.moving)
        return few if FEW * len(few) <= self.n_rows else None

    def _accumulate(self, few: np.ndarray | None, gradient: np.ndarray) -> None:
        """Where there is one state a column, tell those of all columns or of `few` their `gradient` (dim, these columns)."""
        outputs, optimizer = self.layer.outputs, self.optimizer
        if outputs.state_of == PER_COLUMN and few is not None:
            accumulate_few(outputs, few, np.einsum("dk,dk->k", gradient, gradient), optimizer)
        elif outputs.state_of == PER_COLUMN:
            rows = self.all_features
            self._in_parts(
                self.stride // TILE,
                lambda w, a, b: accumulate_tiles(outputs, a * TILE, b * TILE, rows, gradient, optimizer),
            )

    def _dense_steps(self, first: int, last: int, few: np.ndarray | None, gradient: np.ndarray, rate: np.float32) -> None:
        """The steps of the rows first:last, in all columns or in `few`, along `gradient` (dim, >= of these columns)."""
        if few is None:
            dense_steps(self.layer.outputs, first, last, gradient, self.n_rows, self.optimizer, rate)
        else:
            few_steps(self.layer.outputs, first, last, few, gradient, self.optimizer, rate)

    def _h_gradient(self, z: np.ndarray, few: np.ndarray | None) -> np.ndarray:
        """float32 (n, >= dim): what the coefficients z ask of h, those of all columns or of `few`."""
        gradient = np.zeros((len(z), -(-self.dim // SIMD_WIDTH) * SIMD_WIDTH), dtype=np.float32)
        w = self.layer.outputs.rows[: self.n_decaying]
        np.matmul(z, (w if few is None else w[:, few]).T, out=gradient[:, : self.n_decaying])
        return gradient

    def _score_gain(self, chosen: np.ndarray, h: np.ndarray) -> np.ndarray:
        """float32 (n,): |h|² of the examples, zeros where nobody asks."""
        if not self.uses_score_gain:
            return np.zeros(len(chosen), dtype=np.float32)
        if self.is_sparse:
            return np.asarray(self.norms[chosen])
        return np.asarray(np.einsum("ed,ed->e", h[:, : self.dim], h[:, : self.dim]))

    def _coefficients(
        self, chosen: np.ndarray, z: np.ndarray, score_gain: np.ndarray, rate: np.float32, rng: Any
    ) -> tuple[float, int]:
        """Overwrite the scores of the examples by coefficients; return the summed loss and the number of its terms."""
        offsets = self.examples.label_offsets
        first, n = offsets[chosen], offsets[chosen + 1] - offsets[chosen]
        if self.one_label:
            first = first + np.floor(rng.random(len(chosen)) * n).astype(np.int64)
            n = np.minimum(n, 1)
        n_lines = n if self.pairs else np.ones_like(n)
        uniforms = rng.random((int(n_lines.sum()), self.uniforms_width), dtype=np.float32)
        uniforms = np.clip(uniforms, 2.0**-24, 1 - 2.0**-24)
        step = max(1, CHUNK_FLOATS // self.stride)
        bounds = [len(chosen) * w // self.parts for w in range(self.parts + 1)]
        starts = np.concatenate([[0], np.cumsum(n_lines)])

        def work(w: int) -> tuple[float, int]:
            loss, lines = 0.0, 0
            for a in range(bounds[w], bounds[w + 1], step):
                b = min(a + step, bounds[w + 1])
                own = uniforms[starts[a] : starts[b]]
                more = self._chunk(chosen[a:b], first[a:b], n[a:b], z[a:b], own, score_gain[a:b], rate)
                loss, lines = loss + more[0], lines + more[1]
            return loss, lines

        results = list(self.pool.map(work, range(self.parts)))
        return sum(r[0] for r in results), sum(r[1] for r in results)

    def _chunk(
        self,
        chosen: np.ndarray,
        first: np.ndarray,
        n: np.ndarray,
        z: np.ndarray,
        uniforms: np.ndarray,
        score_gain: np.ndarray,
        rate: np.float32,
    ) -> tuple[float, int]:
        """The coefficients of some examples; their labels are label_ids[first:first + n]."""
        ids = np.repeat(first - np.concatenate([[0], np.cumsum(n)[:-1]]), n) + np.arange(n.sum())
        labels = self.examples.label_ids[ids]
        example = np.repeat(np.arange(len(chosen)), n)
        line = np.arange(len(labels)) if self.pairs else example
        n_lines = len(labels) if self.pairs else len(chosen)
        scores = z[example] if self.pairs and not (n == 1).all() else z
        batch = new_batch(n_lines, self.stride)
        negative, positive = counts_among_all_rows(
            np.ones(n_lines) if self.pairs else n, self.positives, keeps_accidental_hits=self.keeps_accidental_hits
        )
        batch.sample_count[:, : self.n_rows] = negative[:, None]
        batch.label[line, labels] = 1
        batch.sample_count[line, labels] = positive[line]
        batch.key[:] = chosen[example] if self.pairs else chosen
        if self.layer.state.shape[1]:
            seen_here = np.arange(n_lines) - np.repeat(np.cumsum(n) - n, n) if self.pairs else 0
            batch.n_updates[:] = self.layer.n_updates[batch.key] + seen_here
            np.add.at(self.layer.n_updates, batch.key, 1)
        if self.uses_score_gain:
            batch.score_gain[:] = (score_gain[example] if self.pairs else score_gain)[:, None]
        batch = batch._replace(z=scores, uniforms=uniforms)
        if self.in_turn:
            loss = self._one_by_one(batch, example, rate)
        else:
            loss = self.coefficients(batch, self.layer.state, self.constants, n_lines, self.n_rows, rate)
        if scores is not z:
            z[:] = 0
            np.add.at(z, example, scores)
        return loss, int((n > 0).sum()) if not self.pairs else n_lines

    def _one_by_one(self, batch: Batch, example: np.ndarray, rate: np.float32) -> float:
        """Overwrite the scores of one example's lines by coefficients, each after the steps of those before; the loss."""
        loss = self.met_again = 0.0
        total = np.zeros(batch.z.shape[1])
        for p in range(len(example)):
            before = batch.z[p].copy()
            loss += self.coefficients(
                Batch(*(array[p : p + 1] for array in batch)), self.layer.state, self.constants, 1, self.n_rows, rate
            )
            self.met_again += float(total @ batch.z[p])
            total += batch.z[p]
            if p + 1 < len(example):  # every row has moved along h
                batch.z[p + 1] = before - rate * batch.score_gain[p] * batch.z[p]
        return loss
