"""A tile: the weights of 32 labels. The part of it that a minibatch uses fits the core's own cache.

    dense_tiles   dense weights: a chunk of minibatches, tile by tile
    sparse_tiles  sparse weights: all epochs of a tile, by gradient steps or dual coordinate descent

Both are for a loss that is a sum over labels (`Traits.separable`), which makes labels independent.
A step scores the chosen examples, lets the objective overwrite the scores by coefficients, and
updates the rows of their features. With sparsity masks, examples are skipped (shrinking): one
without a positive in the tile whose coefficients are zero, as most are under a hinge loss, is
skipped at its next visit; if they are zero again, at the next three visits, then seven, and so on.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray, uint32, uint64

from embedx.engine.select import draw_weight, set_negative, set_positive
from embedx.engine.weighted import weight_of
from embedx.kernels.batch import Batch, new_batch
from embedx.kernels.by_address import by_address
from embedx.kernels.compiled import kernel_part
from embedx.kernels.maths import ONE, ZERO
from embedx.kernels.simd import (
    SIMD_WIDTH,
    is_zero,
    lanes_of,
    load,
    multiply_add,
    splat,
    store,
    zeros,
)
from embedx.optimizers.contract import Table, UpdateRule, new_table
from embedx.optimizers.decay import decay_row, step_size
from embedx.optimizers.descend import ColumnGradient, descend_columns, new_column_gradient, touch

TILE_WIDTH = 2 * SIMD_WIDTH
MAX_SKIPS = 15  # visits in a row at which an example with zero coefficients is skipped


@by_address
class TilePlan(NamedTuple):
    """The settings of tiles, as plain numbers."""

    batch_size: int
    # Coefficients are multiplied by sum_over / the number of examples in the step.
    sum_over: float
    has_bias: bool
    keeps_accidental_hits: bool
    positives: int  # SINGLE, JOINT or SUMMED
    is_sparse: bool  # labels have sparsity masks, and examples are skipped
    optimizer: UpdateRule
    constants: ndarray  # float32: the objective's
    lr: float32  # with sparse weights, that of the start
    # The rest is for sparse weights.
    epochs: int = 1
    lr_falls: bool = False  # the learning rate falls linearly to 0; else it is constant
    threshold: float32 = ZERO  # weights up to this absolute value are dropped
    key: uint64 = uint64(0)  # key of the random numbers
    first_state: float32 = ZERO  # initial optimizer state of every weight
    positives_features_only: bool = True  # labels have no weights for other features
    c: float32 = ZERO  # C of dual coordinate descent, the factor of the loss


class TileExamples(NamedTuple):
    """The examples, with the features and labels of a tile alone."""

    offsets: ndarray  # int64 (n + 1,)
    columns: ndarray  # int32: rows of the tile
    values: ndarray  # float32
    positive_bits: ndarray  # uint32 (n,): bit k is set where label k of the tile is a positive
    positive_weight: ndarray  # float32 (n,): how much each positive counts
    negative_weight: ndarray  # float32 (n,): how much each other label counts as a negative
    skips: ndarray  # int8 (n,): visits at which the example is still to be skipped
    previous_skips: ndarray  # int8 (n,): the number of visits skipped the last time


@by_address
class TileSteps(NamedTuple):
    """Buffers for the steps of a tile."""

    # The parameters: a row for each feature, then the biases; a column for each label.
    tile: Table
    gradient: ColumnGradient  # of the tile
    # uint32 (n_rows,): bit k is set where label k may have a weight; (0,) without sparsity masks
    sparsity_mask: ndarray
    active: ndarray  # int64 (batch_size,): the examples of a minibatch that are not skipped
    batch: Batch  # a row for each active example, TILE_WIDTH candidates
    state: ndarray  # float32 (1, 0): separable objectives have no state


@by_address
class TileWorkspace(NamedTuple):
    """A worker's buffers."""

    examples: TileExamples  # with dense weights, only their labels and weights are used
    steps: TileSteps
    order: ndarray  # int32 (n_examples,): the order of an epoch
    # The rest is for sparse weights.
    row_of_feature: ndarray  # int32 (n_features,): its row in the tile, -1 for none
    features: ndarray  # int32 (n_features,): the features of the tile
    tile_example: ndarray  # int32 (n_examples,): its number among the examples of the tile
    # float32 (n_examples,): the squared length of the input, with the 1 of the bias
    squared_length: ndarray
    # float32 (n_examples, TILE_WIDTH): dual variables; (0, TILE_WIDTH) without
    # dual coordinate descent
    alpha: ndarray


def new_workspace(
    n_examples: int,
    n_values: int,
    n_features: int,
    batch_size: int,
    optimizer: UpdateRule,
    *,
    is_sparse: bool = True,
    is_dual: bool = False,
) -> TileWorkspace:
    """Buffers for tiles of n_examples with n_values values in all."""
    n_rows = n_features + 1
    examples = TileExamples(
        np.zeros(n_examples + 1, int64),
        np.zeros(n_values + 1, int32),
        np.zeros(n_values + 1, float32),
        np.zeros(n_examples, uint32),
        np.zeros(n_examples, float32),
        np.zeros(n_examples, float32),
        np.zeros(n_examples, np.int8),
        np.zeros(n_examples, np.int8),
    )
    steps = TileSteps(
        tile=new_table(n_rows, TILE_WIDTH, optimizer),
        gradient=new_column_gradient(n_rows, TILE_WIDTH),
        sparsity_mask=np.zeros(n_rows if is_sparse else 0, uint32),
        active=np.zeros(batch_size, int64),
        batch=new_batch(batch_size, TILE_WIDTH),
        state=np.zeros((1, 0), float32),
    )
    return TileWorkspace(
        examples,
        steps,
        np.zeros(n_examples, int32),
        np.full(n_features, -1, int32),
        np.zeros(n_features, int32),
        np.zeros(n_examples, int32),
        np.zeros(n_examples, float32),
        np.zeros((n_examples if is_dual else 0, TILE_WIDTH), float32),
    )


# ---- a tile of a table: a row for each feature, then the biases, if there are any


@kernel_part
def score_tile(examples, chosen, n, w, has_bias, t, z):
    """Overwrite z[:n, t:t + TILE_WIDTH] by the scores of chosen[:n]; two features at a time, for
    four independent sums.
    """
    columns = examples.columns
    values = examples.values
    for e in range(n):
        f = examples.offsets[chosen[e]]
        last = examples.offsets[chosen[e] + 1]
        a0, b0, a1, b1 = zeros(), zeros(), zeros(), zeros()
        if has_bias:
            a0 = load(w, w.shape[0] - 1, t)
            b0 = load(w, w.shape[0] - 1, t + SIMD_WIDTH)
        while f + 1 < last:
            row = int64(columns[f])
            x = splat(values[f])
            a0 = multiply_add(x, load(w, row, t), a0)
            b0 = multiply_add(x, load(w, row, t + SIMD_WIDTH), b0)
            row = int64(columns[f + 1])
            x = splat(values[f + 1])
            a1 = multiply_add(x, load(w, row, t), a1)
            b1 = multiply_add(x, load(w, row, t + SIMD_WIDTH), b1)
            f += 2
        if f < last:
            row = int64(columns[f])
            x = splat(values[f])
            a0 = multiply_add(x, load(w, row, t), a0)
            b0 = multiply_add(x, load(w, row, t + SIMD_WIDTH), b0)
        store(z, e, t, a0 + a1)
        store(z, e, t + SIMD_WIDTH, b0 + b1)


@kernel_part
def add_example(examples, i, a, b, has_bias, gradient, n_touched):
    """Add example i, with the coefficients a and b, to the gradient of a tile; return the number of
    rows touched.
    """
    for f in range(examples.offsets[i], examples.offsets[i + 1]):
        row = int64(examples.columns[f])
        add_to_tile(gradient.sums, row, splat(examples.values[f]), a, b)
        n_touched = touch(gradient, row, n_touched)
    if has_bias:
        row = gradient.sums.shape[0] - 1
        add_to_tile(gradient.sums, row, splat(ONE), a, b)
        n_touched = touch(gradient, row, n_touched)
    return n_touched


@kernel_part
def add_to_tile(matrix, row, x, a, b):
    """Add x times the vectors a and b to a row."""
    store(matrix, row, 0, multiply_add(x, a, load(matrix, row, 0)))
    store(matrix, row, SIMD_WIDTH, multiply_add(x, b, load(matrix, row, SIMD_WIDTH)))


# ---- a step of a tile


@kernel_part
def write_weights(examples, plan, i, tile_examples, m):
    """Write the weights of the positives and the negatives of example i, which is example m of the
    tile. The losses of labels are proportional to them.
    """
    n_labels = examples.label_offsets[i + 1] - examples.label_offsets[i]
    weight = weight_of(examples.weight, i)
    tile_examples.positive_weight[m] = weight
    tile_examples.negative_weight[m] = ZERO
    if n_labels > 0:
        tile_examples.negative_weight[m] = weight * draw_weight(plan.positives, n_labels)


@kernel_part
def train_step(coefficients, examples, steps, plan, chosen, n_labels, lr, decay_clock):
    """One step on the examples `chosen`, for the first n_labels columns; return the summed loss."""
    n = select_active(examples, steps, plan, chosen, 0, chosen.size, n_labels)
    if n == 0:
        return 0.0
    _decay_active(examples, steps, plan, n, decay_clock)
    score_tile(examples, steps.active, n, steps.tile.rows, plan.has_bias, 0, steps.batch.z)
    loss = coefficients(steps.batch, steps.state, plan.constants, n, TILE_WIDTH, lr)
    scale = float32(plan.sum_over / chosen.size)
    _apply(examples, steps, plan, n, scale, step_size(plan.optimizer, lr))
    return loss


@kernel_part
def _apply(examples, steps, plan, n, scale, rate):
    """Update the rows of a tile along the coefficients of the n active examples, within the
    sparsity mask.
    """
    gradient = steps.gradient
    n_touched = _add_gradients(examples, steps, plan, n, scale)
    if plan.is_sparse:
        for k in range(n_touched):
            row = int64(gradient.touched[k])
            for d in range(0, TILE_WIDTH, SIMD_WIDTH):
                kept = lanes_of(load(gradient.sums, row, d), steps.sparsity_mask[row] >> uint32(d))
                store(gradient.sums, row, d, kept)
    descend_columns(steps.tile, 0, gradient, n_touched, TILE_WIDTH, plan.optimizer, rate)


@kernel_part
def select_active(examples, steps, plan, order, begin, end, n_labels):
    """Write those of the examples order[begin:end] that are not skipped to the batch, with their
    labels; return their number.
    """
    n = 0
    batch = steps.batch
    for position in range(begin, end):
        m = int64(order[position])
        if plan.is_sparse and examples.skips[m] > 0:
            examples.skips[m] -= 1
            continue
        positive_bits = examples.positive_bits[m]
        negative_weight = examples.negative_weight[m]
        for d in range(0, TILE_WIDTH, SIMD_WIDTH):
            store(batch.label, n, d, zeros())
            store(batch.sample_count, n, d, splat(negative_weight))
        for k in range(n_labels, TILE_WIDTH):
            set_negative(batch, n, k, 0)
        if positive_bits != 0:
            for k in range(n_labels):
                if (positive_bits >> uint32(k)) & uint32(1):
                    set_positive(
                        batch,
                        n,
                        k,
                        examples.positive_weight[m],
                        negative_weight,
                        plan.keeps_accidental_hits,
                    )
        steps.active[n] = m
        n += 1
    return n


@kernel_part
def _decay_active(examples, steps, plan, n, decay_clock):
    """Apply pending weight decay to the rows of the active examples."""
    if plan.optimizer.l2 > 0:
        for e in range(n):
            m = steps.active[e]
            for f in range(examples.offsets[m], examples.offsets[m + 1]):
                decay_row(
                    steps.tile, int64(examples.columns[f]), TILE_WIDTH, plan.optimizer, decay_clock
                )


@kernel_part
def _add_gradients(examples, steps, plan, n, scale):
    """Sum the gradients of the n active examples; return the number of rows touched."""
    n_touched = 0
    for e in range(n):
        a = multiply_add(splat(scale), load(steps.batch.z, e, 0), zeros())
        b = multiply_add(splat(scale), load(steps.batch.z, e, SIMD_WIDTH), zeros())
        if not is_idle(examples, plan, steps.active[e], a, b):
            n_touched = add_example(
                examples, steps.active[e], a, b, plan.has_bias, steps.gradient, n_touched
            )
    return n_touched


@kernel_part
def is_idle(examples, plan, m, a, b):
    """Whether all coefficients, a and b, of example m are zero; if it has no positive in the tile,
    updates how often it is skipped.
    """
    has_no_gradient = is_zero(a) and is_zero(b)
    if plan.is_sparse:
        if not has_no_gradient:
            examples.previous_skips[m] = 0
        elif examples.positive_bits[m] == 0:
            examples.previous_skips[m] = min(2 * examples.previous_skips[m] + 1, MAX_SKIPS)
            examples.skips[m] = examples.previous_skips[m]
    return has_no_gradient
