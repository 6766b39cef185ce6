"""Training where every output row competes and each minds its own business: a loss that is a sum over rows, sparse features.

Then tiles of 32 output rows can be trained one after another, each over a whole chunk of minibatches, while its parameters
stay in the core's own cache. The examples of a chunk are copied in their shuffled order first: every tile reads them all, and
reads what lies in order three times as fast. The updates are those of full.FullSteps but for the order of sums.
"""

from typing import NamedTuple

import numpy as np

from embedx.engine.examples import put
from embedx.kernels.batch import Batch, new_batch
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.simd import SIMD_WIDTH, is_zero, load, multiply_add, splat, store, zeros
from embedx.optimizers.contract import PER_COLUMN, Table, UpdateRule, new_table
from embedx.optimizers.decay import clock_step, decay_row, step_size
from embedx.optimizers.descend import accumulate_columns, descend_columns

WIDTH = 2 * SIMD_WIDTH


class TileWorkspace(NamedTuple):
    """One worker's own memory."""

    batch: Batch  # a row for each example of a minibatch, WIDTH candidates
    state: np.ndarray  # float32 (1, 0): such objectives have neither state nor noise
    gradient: np.ndarray  # float32 (dim, WIDTH); zero between steps
    tile: Table  # the tile's part of the parameters, side by side


class Steps(NamedTuple):
    """The minibatches of a chunk, and the features that each touches: touched[offsets[b]:offsets[b + 1]]."""

    offsets: np.ndarray  # int64 (n_steps + 1,)
    touched: np.ndarray  # int32


def new_workspace(batch_size: int, dim: int, optimizer: UpdateRule) -> TileWorkspace:
    return TileWorkspace(
        new_batch(batch_size, WIDTH),
        np.zeros((1, 0), dtype=np.float32),
        np.zeros((dim, WIDTH), dtype=np.float32),
        new_table(dim, WIDTH, optimizer, columns=True),
    )


@kernel
def find_touched(examples, n_examples, batch_size, groups, steps):
    """Fill `steps` for the first n_examples examples."""
    n_all = 0
    for step, begin in enumerate(range(0, n_examples, batch_size)):
        n = 0
        entry = 0
        for e in range(begin, min(begin + batch_size, n_examples)):
            for f in range(examples.offsets[e], examples.offsets[e + 1]):
                n = put(groups, np.int64(examples.columns[f]), entry, n)
                entry += 1
        for k in range(n):
            groups.first[groups.touched[k]] = -1
            steps.touched[n_all + k] = groups.touched[k]
        n_all += n
        steps.offsets[step + 1] = n_all


@kernel
def train_tiles(
    coefficients, examples, steps, table, constants, optimizer, workspace, n_examples, batch_size, sum_over,
    bias_row, n_rows, first, last, keeps_accidental_hits, sums, lr, decay_clock,
):  # fmt: skip
    """Train table columns first:last, whole tiles, on the first n_examples examples; return the summed loss."""
    loss = 0.0
    tile = workspace.tile
    for t in range(first, last, WIDTH):
        now = decay_clock
        _copy(table.rows, t, tile.rows, 0)
        _copy(table.state, t, tile.state, 0)
        tile.decay_clock[:] = now
        for step, begin in enumerate(range(0, n_examples, batch_size)):
            end = min(begin + batch_size, n_examples)
            _decay(tile, optimizer, steps, step, bias_row, now)
            _scores(examples, tile.rows, workspace.batch.z, begin, end, bias_row)
            _mark(examples, workspace, begin, end, n_rows, t, keeps_accidental_hits, sums)
            loss += coefficients(workspace.batch, workspace.state, constants, end - begin, WIDTH, np.float32(lr))
            _unmark(examples, workspace, begin, end, t)
            _sum_gradients(examples, workspace, begin, end, bias_row, np.float32(sum_over / (end - begin)))
            rate = step_size(optimizer, lr)
            touched = steps.touched[steps.offsets[step] : steps.offsets[step + 1]]
            accumulate_columns(tile, 0, touched, touched.size, bias_row, workspace.gradient, 0, WIDTH, optimizer)
            for k in range(touched.size):
                _step(tile, np.int64(touched[k]), workspace.gradient, optimizer, rate)
            if bias_row >= 0:
                _step(tile, bias_row, workspace.gradient, optimizer, rate)
            now += clock_step(optimizer, lr)
        _decay_all(tile, optimizer, bias_row, now)
        _copy(tile.rows, 0, table.rows, t)
        _copy(tile.state, 0, table.state, t)
    return loss


@kernel_part
def _copy(source, source_column, target, target_column):
    """Copy 32 numbers of each row."""
    for row in range(source.shape[0]):
        store(target, row, target_column, load(source, row, source_column))
        store(target, row, target_column + SIMD_WIDTH, load(source, row, source_column + SIMD_WIDTH))


@kernel_part
def _decay(tile, optimizer, steps, step, bias_row, now):
    """Apply the weight decay that is due to the rows of a step; to all where a state changes with any of them."""
    if tile.state_of == PER_COLUMN:
        _decay_all(tile, optimizer, bias_row, now)
    else:
        for k in range(steps.offsets[step], steps.offsets[step + 1]):
            decay_row(tile, np.int64(steps.touched[k]), WIDTH, optimizer, now)


@kernel_part
def _decay_all(tile, optimizer, bias_row, now):
    """Apply the weight decay that is due to all rows but that of the biases."""
    for row in range(tile.decay_clock.size):
        if row != bias_row:
            decay_row(tile, row, WIDTH, optimizer, now)


@kernel_part
def _scores(examples, w, z, begin, end, bias_row):
    """The scores of a minibatch with the tile; two features at a time, so that four sums are under way at once."""
    one = splat(np.float32(1))
    for e in range(begin, end):
        f, last = examples.offsets[e], examples.offsets[e + 1]
        a0, b0, a1, b1 = zeros(), zeros(), zeros(), zeros()
        if bias_row >= 0:
            a0, b0 = load(w, bias_row, 0), load(w, bias_row, SIMD_WIDTH)
        while f + 1 < last:
            row, x = np.int64(examples.columns[f]), splat(examples.values[f])
            a0, b0 = multiply_add(x, load(w, row, 0), a0), multiply_add(x, load(w, row, SIMD_WIDTH), b0)
            row, x = np.int64(examples.columns[f + 1]), splat(examples.values[f + 1])
            a1, b1 = multiply_add(x, load(w, row, 0), a1), multiply_add(x, load(w, row, SIMD_WIDTH), b1)
            f += 2
        if f < last:
            row, x = np.int64(examples.columns[f]), splat(examples.values[f])
            a0, b0 = multiply_add(x, load(w, row, 0), a0), multiply_add(x, load(w, row, SIMD_WIDTH), b0)
        store(z, e - begin, 0, multiply_add(one, a0, a1))
        store(z, e - begin, SIMD_WIDTH, multiply_add(one, b0, b1))


@kernel_part
def _mark(examples, workspace, begin, end, n_rows, t, keeps_accidental_hits, sums):
    """Write the labels of a minibatch that lie in the tile; every row of it competes, once or for each label of the example."""
    for e in range(end - begin):
        i = begin + e
        n_labels = examples.label_offsets[i + 1] - examples.label_offsets[i]
        weight = splat(np.float32(n_labels if sums else min(n_labels, 1)))
        store(workspace.batch.sample_count, e, 0, weight)
        store(workspace.batch.sample_count, e, SIMD_WIDTH, weight)
        for k in range(n_rows - t, WIDTH):
            workspace.batch.sample_count[e, k] = 0
        for at in range(examples.label_offsets[i], examples.label_offsets[i + 1]):
            k = examples.label_ids[at] - t
            if 0 <= k < WIDTH:
                workspace.batch.label[e, k] = 1
                if not keeps_accidental_hits:
                    workspace.batch.sample_count[e, k] = 0


@kernel_part
def _unmark(examples, workspace, begin, end, t):
    """Clear the labels that were marked."""
    for e in range(end - begin):
        i = begin + e
        for at in range(examples.label_offsets[i], examples.label_offsets[i + 1]):
            k = examples.label_ids[at] - t
            if 0 <= k < WIDTH:
                workspace.batch.label[e, k] = 0


@kernel_part
def _sum_gradients(examples, workspace, begin, end, bias_row, scale):
    """Add what a minibatch asks of the tile to scratch.gradient."""
    g = workspace.gradient
    nothing = zeros()
    for e in range(begin, end):
        a = multiply_add(splat(scale), load(workspace.batch.z, e - begin, 0), nothing)
        b = multiply_add(splat(scale), load(workspace.batch.z, e - begin, SIMD_WIDTH), nothing)
        if is_zero(a) and is_zero(b):  # as most are when the loss is a hinge
            continue
        for f in range(examples.offsets[e], examples.offsets[e + 1]):
            row, x = np.int64(examples.columns[f]), splat(examples.values[f])
            store(g, row, 0, multiply_add(x, a, load(g, row, 0)))
            store(g, row, SIMD_WIDTH, multiply_add(x, b, load(g, row, SIMD_WIDTH)))
        if bias_row >= 0:
            one = splat(np.float32(1))
            store(g, bias_row, 0, multiply_add(one, a, load(g, bias_row, 0)))
            store(g, bias_row, SIMD_WIDTH, multiply_add(one, b, load(g, bias_row, SIMD_WIDTH)))


@kernel_part
def _step(tile, row, gradient, optimizer, rate):
    """One step of a row of the tile; its gradient is zero afterwards."""
    if is_zero(load(gradient, row, 0)) and is_zero(load(gradient, row, SIMD_WIDTH)):
        return
    descend_columns(tile, row, 0, gradient, row, 0, WIDTH, optimizer, rate)
    store(gradient, row, 0, zeros())
    store(gradient, row, SIMD_WIDTH, zeros())
