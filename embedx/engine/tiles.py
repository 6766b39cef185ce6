"""Training on sparse features in tiles of 32 labels: the part of a tile that a minibatch uses stays
in the core's own cache.

    train_columns    dense weights, for a loss that is a sum over labels (`Traits.separable`): a
                     chunk of minibatches on some columns of a table. Labels are independent, so a
                     tile is copied once per chunk
    train_tile       sparse weights: all epochs; weights above a threshold are kept, as in DiSMEC
                     (Babbar & Schölkopf 2017)
    train_tile_dual  the same by dual coordinate descent

A sparse row has weights for the features of its positives alone, its sparsity mask; others are held
at 0, because their examples are all negatives. Examples are read with the features of the tile's
masks alone. Shrinking: an example without a positive in the tile whose coefficients are zero, as
most are under a hinge loss, is skipped at its next visit; if they are zero again, at the next three
visits, then seven, and so on. Labels may be the nodes of a tree, in groups; a group is trained on
the examples that reach it.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray, uint32, uint64

from embedx.engine.examples import Csr
from embedx.engine.select import draw_weight, set_negative, set_positive
from embedx.engine.weighted import weight_of
from embedx.kernels.batch import Batch, new_batch
from embedx.kernels.by_address import by_address
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.maths import ONE, ZERO
from embedx.kernels.random import bits, low_half_below
from embedx.kernels.simd import (
    SIMD_WIDTH,
    is_zero,
    lanes_of,
    load,
    multiply_add,
    prefetch,
    splat,
    store,
    zeros,
)
from embedx.optimizers.contract import PER_COORDINATE, Table, UpdateRule, new_table
from embedx.optimizers.decay import clock_step, decay_row, decay_rows, step_size
from embedx.optimizers.descend import ColumnGradient, descend_columns, new_column_gradient, touch

WIDTH = 2 * SIMD_WIDTH
MAX_SKIPS = 15  # visits in a row at which an example with zero coefficients is skipped
# Dual coordinate descent has converged after an epoch in which no step moved a score by more.
TOLERANCE = float32(0.1)


@by_address
class TilePlan(NamedTuple):
    """The settings of tiles, as plain numbers."""

    batch_size: int
    # Coefficients are multiplied by sum_over / the number of examples in the step.
    sum_over: float
    has_bias: bool
    keeps_accidental_hits: bool
    positives: int  # SINGLE, JOINT or SUMMED
    is_masked: bool  # weights are sparse, and examples are skipped
    optimizer: UpdateRule
    constants: ndarray  # float32: the objective's
    lr: float32  # with sparse weights, that of the start
    # The rest is for sparse weights.
    epochs: int = 1
    falls: bool = False  # the learning rate falls linearly to 0; else it is constant
    threshold: float32 = ZERO  # weights up to this absolute value are dropped
    key: uint64 = uint64(0)  # key of the random numbers
    first_state: float32 = ZERO  # initial optimizer state of every weight
    c: float32 = ZERO  # C of dual coordinate descent, the factor of the loss


class TileExamples(NamedTuple):
    """The examples, with the features and labels of a tile alone."""

    offsets: ndarray  # int64 (n + 1,)
    columns: ndarray  # int32: rows of the tile
    values: ndarray  # float32
    mask: ndarray  # uint32 (n,): bit k is set where label k of the tile is a positive
    positive_weight: ndarray  # float32 (n,): how much each positive counts
    negative_weight: ndarray  # float32 (n,): how much each other label counts as a negative
    skips: ndarray  # int8 (n,): visits at which the example is still to be skipped
    last_skips: ndarray  # int8 (n,): the number of visits skipped the last time


@by_address
class TileSteps(NamedTuple):
    """Buffers for the steps of a tile."""

    # The parameters: a row for each feature, then the biases; a column for each label.
    tile: Table
    gradient: ColumnGradient  # of the tile
    # uint32 (n_rows,): bit k is set where label k may have a weight; (0,) without sparsity masks
    support: ndarray
    active: ndarray  # int64 (batch_size,): the examples of a minibatch that are not skipped
    batch: Batch  # a row for each active example, WIDTH candidates
    state: ndarray  # float32 (1, 0): separable objectives have no state


@by_address
class TileWorkspace(NamedTuple):
    """A worker's buffers."""

    examples: TileExamples  # with dense weights, only their labels and weights are used
    steps: TileSteps
    order: ndarray  # int32 (n_examples,): the order of an epoch
    # The rest is for sparse weights.
    local: ndarray  # int32 (n_features,): the row of a feature in the tile, -1 for none
    features: ndarray  # int32 (n_features,): the features of the tile
    place: ndarray  # int32 (n_examples,): the place of an example among those of the tile
    # float32 (n_examples,): the squared length of the input, with the 1 of the bias
    square: ndarray
    # float32 (n_examples, WIDTH): dual variables; (0, WIDTH) without dual coordinate descent
    alpha: ndarray


def new_workspace(
    n_examples: int,
    n_values: int,
    n_features: int,
    batch_size: int,
    optimizer: UpdateRule,
    *,
    is_masked: bool = True,
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
        tile=new_table(n_rows, WIDTH, optimizer),
        gradient=new_column_gradient(n_rows, WIDTH),
        support=np.zeros(n_rows if is_masked else 0, uint32),
        active=np.zeros(batch_size, int64),
        batch=new_batch(batch_size, WIDTH),
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
        np.zeros((n_examples if is_dual else 0, WIDTH), float32),
    )


# ---- a tile of a table: a row for each feature, then the biases, if there are any


@kernel_part
def _score_tile(examples, chosen, n, w, has_bias, t, z):
    """Overwrite z[:n, t:t + WIDTH] by the scores of chosen[:n]; two features at a time, for four
    independent sums.
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
def _add_example(examples, i, a, b, has_bias, gradient, n_touched):
    """Add example i, with the coefficients a and b, to the gradient of a tile; return the number of
    rows touched.
    """
    for f in range(examples.offsets[i], examples.offsets[i + 1]):
        row = int64(examples.columns[f])
        _add(gradient.sums, row, splat(examples.values[f]), a, b)
        n_touched = touch(gradient, row, n_touched)
    if has_bias:
        row = gradient.sums.shape[0] - 1
        _add(gradient.sums, row, splat(ONE), a, b)
        n_touched = touch(gradient, row, n_touched)
    return n_touched


@kernel_part
def _add(matrix, row, x, a, b):
    """Add x times the vectors a and b to a row."""
    store(matrix, row, 0, multiply_add(x, a, load(matrix, row, 0)))
    store(matrix, row, SIMD_WIDTH, multiply_add(x, b, load(matrix, row, SIMD_WIDTH)))


# ---- a step of a tile


@kernel_part
def _step(coefficients, examples, steps, plan, chosen, n_labels, lr, now):
    """One step on the examples `chosen`, for the first n_labels columns; return the summed loss."""
    n = _select(examples, steps, plan, chosen, 0, chosen.size, n_labels)
    if n == 0:
        return 0.0
    _decay_before(examples, steps, plan, n, now)
    _score_tile(examples, steps.active, n, steps.tile.rows, plan.has_bias, 0, steps.batch.z)
    loss = coefficients(steps.batch, steps.state, plan.constants, n, WIDTH, lr)
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
    if plan.is_masked:
        for k in range(n_touched):
            row = int64(gradient.touched[k])
            for d in range(0, WIDTH, SIMD_WIDTH):
                kept = lanes_of(load(gradient.sums, row, d), steps.support[row] >> uint32(d))
                store(gradient.sums, row, d, kept)
    descend_columns(steps.tile, 0, gradient, n_touched, WIDTH, plan.optimizer, rate)


@kernel_part
def _select(examples, steps, plan, order, begin, end, n_labels):
    """Write those of the examples order[begin:end] that are not skipped to the batch, with their
    labels; return their number.
    """
    n = 0
    batch = steps.batch
    for position in range(begin, end):
        m = int64(order[position])
        if plan.is_masked and examples.skips[m] > 0:
            examples.skips[m] -= 1
            continue
        mask = examples.mask[m]
        negative_weight = examples.negative_weight[m]
        for d in range(0, WIDTH, SIMD_WIDTH):
            store(batch.label, n, d, zeros())
            store(batch.sample_count, n, d, splat(negative_weight))
        for k in range(n_labels, WIDTH):
            set_negative(batch, n, k, 0)
        if mask != 0:
            for k in range(n_labels):
                if (mask >> uint32(k)) & uint32(1):
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
def _decay_before(examples, steps, plan, n, now):
    """Apply pending weight decay to the rows of the active examples."""
    if plan.optimizer.l2 > 0:
        for e in range(n):
            m = steps.active[e]
            for f in range(examples.offsets[m], examples.offsets[m + 1]):
                decay_row(steps.tile, int64(examples.columns[f]), WIDTH, plan.optimizer, now)


@kernel_part
def _add_gradients(examples, steps, plan, n, scale):
    """Sum the gradients of the n active examples; return the number of rows touched."""
    n_touched = 0
    for e in range(n):
        a = multiply_add(splat(scale), load(steps.batch.z, e, 0), zeros())
        b = multiply_add(splat(scale), load(steps.batch.z, e, SIMD_WIDTH), zeros())
        if not _is_idle(examples, plan, steps.active[e], a, b):
            n_touched = _add_example(
                examples, steps.active[e], a, b, plan.has_bias, steps.gradient, n_touched
            )
    return n_touched


@kernel_part
def _is_idle(examples, plan, m, a, b):
    """Whether all coefficients, a and b, of example m are zero; if it has no positive in the tile,
    updates how often it is skipped.
    """
    is_idle = is_zero(a) and is_zero(b)
    if plan.is_masked:
        if not is_idle:
            examples.last_skips[m] = 0
        elif examples.mask[m] == 0:
            examples.last_skips[m] = min(2 * examples.last_skips[m] + 1, MAX_SKIPS)
            examples.skips[m] = examples.last_skips[m]
    return is_idle


# ---- dense weights: a chunk of minibatches


@kernel
def train_columns(coefficients, examples, shared, plan, workspace, first, last, now):
    """Train columns first:last of the transposed output rows, whole tiles, on the examples; return
    the summed loss.

    The examples are stored in the order of training, because every tile reads them all. `now` is
    the decay clock; no decay is pending before or after.
    """
    loss = 0.0
    steps = workspace.steps
    buffers = workspace.examples
    table = shared.outputs
    tile = steps.tile
    n = examples.label_offsets.size - 1
    for i in range(n):
        workspace.order[i] = i
    tile_examples = TileExamples(
        examples.offsets,
        examples.columns,
        examples.values,
        buffers.mask,
        buffers.positive_weight,
        buffers.negative_weight,
        buffers.skips,
        buffers.last_skips,
    )
    for t in range(first, last, WIDTH):
        clock = now
        _copy(table.rows, t, tile.rows, 0)
        _copy(table.state, t, tile.state, 0)
        tile.decay_clock[:] = clock
        for i in range(n):
            buffers.mask[i] = 0
            _write_weights(examples, plan, i, buffers, i)
            for at in range(examples.label_offsets[i], examples.label_offsets[i + 1]):
                k = examples.label_ids[at] - t
                if 0 <= k < WIDTH:
                    buffers.mask[i] |= uint32(1) << uint32(k)
        for begin in range(0, n, plan.batch_size):
            chosen = workspace.order[begin : min(begin + plan.batch_size, n)]
            loss += _step(
                coefficients,
                tile_examples,
                steps,
                plan,
                chosen,
                min(shared.plan.n_rows - t, WIDTH),
                plan.lr,
                clock,
            )
            clock += clock_step(plan.optimizer, plan.lr)
        decay_rows(tile, 0, tile.rows.shape[0] - plan.has_bias, WIDTH, plan.optimizer, clock)
        _copy(tile.rows, 0, table.rows, t)
        _copy(tile.state, 0, table.state, t)
    return loss


@kernel_part
def _write_weights(examples, plan, i, tile_examples, m):
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
def _copy(source, source_column, target, target_column):
    """Copy a tile, 32 columns of every row."""
    for row in range(source.shape[0]):
        for d in range(0, WIDTH, SIMD_WIDTH):
            store(target, row, target_column + d, load(source, row, source_column + d))


# ---- sparse weights: all epochs


class LabelGroups(NamedTuple):
    """Groups of labels, and their examples."""

    members: Csr  # the examples that each group is trained on
    positives: Csr  # the examples that have each label
    # float32 (n_labels,): initial biases; overwritten by the trained ones
    bias: ndarray


@kernel
def train_tile(coefficients, examples, groups, group, first, last, plan, workspace):
    """Train the labels first:last of a group, at most WIDTH; return the summed loss of the last
    epoch and the number of features of the tile.

    `kept_weights` reads the weights.
    """
    n = groups.members.indptr[group + 1] - groups.members.indptr[group]
    n_features = _begin(examples, groups, group, first, last, plan, workspace)
    now = loss = 0.0
    counter = uint64(0)
    n_steps = plan.epochs * ((n + plan.batch_size - 1) // plan.batch_size)
    step = 0
    for _ in range(plan.epochs):
        loss = 0.0
        counter = _shuffle(workspace.order, n, plan.key, counter)
        for begin in range(0, n, plan.batch_size):
            lr = plan.lr
            if plan.falls:
                lr = float32(lr * (ONE - float32(step) / float32(n_steps)))
            step += 1
            chosen = workspace.order[begin : min(begin + plan.batch_size, n)]
            loss += _step(
                coefficients,
                workspace.examples,
                workspace.steps,
                plan,
                chosen,
                last - first,
                lr,
                now,
            )
            now += clock_step(plan.optimizer, lr)
    decay_rows(workspace.steps.tile, 0, n_features, WIDTH, plan.optimizer, now)
    return loss, n_features


@kernel
def train_tile_dual(dual_steps, examples, groups, group, first, last, plan, workspace):
    """`train_tile` by dual coordinate descent on ½|w|² + `plan.c` · summed loss for each label,
    with the bias as one of the weights.

    Biases start at zero. The norm of an input is over all features of the tile; steps of a row
    whose mask has fewer of them are therefore shorter.
    """
    n = groups.members.indptr[group + 1] - groups.members.indptr[group]
    groups.bias[first:last] = 0
    n_features = _begin(examples, groups, group, first, last, plan, workspace)
    steps = workspace.steps
    batch = workspace.steps.batch
    workspace.alpha[:n] = 0
    loss = 0.0
    counter = uint64(0)
    for _ in range(plan.epochs):
        loss = 0.0
        longest = ZERO
        counter = _shuffle(workspace.order, n, plan.key, counter)
        for at in range(n):
            if at + 1 < n:
                _prefetch(workspace.examples, int64(workspace.order[at + 1]))
            n_active = _select(
                workspace.examples, steps, plan, workspace.order, at, at + 1, last - first
            )
            if n_active == 0:
                continue
            m = steps.active[0]
            batch.key[0] = m
            _score_tile(
                workspace.examples, steps.active, 1, steps.tile.rows, plan.has_bias, 0, batch.z
            )
            square = splat(workspace.square[m])
            store(batch.score_gain, 0, 0, square)
            store(batch.score_gain, 0, SIMD_WIDTH, square)
            loss += dual_steps(batch, workspace.alpha, plan.constants, 1, WIDTH, plan.c)
            largest_step = _dual_update(workspace.examples, steps, plan, m)
            longest = max(longest, workspace.square[m] * largest_step)
        if longest < TOLERANCE:
            break
    return loss, n_features


@kernel_part
def _prefetch(examples, m):
    """Prefetch the features of example m, which is visited next."""
    if examples.skips[m] == 0:
        for f in range(examples.offsets[m], examples.offsets[m + 1], SIMD_WIDTH):
            prefetch(examples.columns, f, 0)
            prefetch(examples.values, f, 0)


@kernel_part
def _dual_update(examples, steps, plan, m):
    """Update the rows by the step of example m, within the sparsity masks; return the largest
    coefficient.
    """
    a = load(steps.batch.z, 0, 0)
    b = load(steps.batch.z, 0, SIMD_WIDTH)
    if _is_idle(examples, plan, m, a, b):
        return ZERO
    w = steps.tile.rows
    support = steps.support
    for f in range(examples.offsets[m], examples.offsets[m + 1]):
        row = int64(examples.columns[f])
        x = splat(examples.values[f])
        _add(w, row, x, lanes_of(a, support[row]), lanes_of(b, support[row] >> uint32(SIMD_WIDTH)))
    if plan.has_bias:
        _add(w, w.shape[0] - 1, splat(ONE), a, b)
    longest = ZERO
    for k in range(WIDTH):
        longest = max(longest, abs(steps.batch.z[0, k]))
    return longest


@kernel_part
def _shuffle(order, n, key, counter):
    """Shuffle order[:n]; return the number of random numbers of the stream used so far."""
    for m in range(n - 1, 0, -1):
        other = low_half_below(bits(key, counter), m + 1)
        counter += uint64(1)
        order[m], order[other] = order[other], order[m]
    return counter


@kernel_part
def _begin(examples, groups, group, first, last, plan, workspace):
    """Set up a tile; return its number of features."""
    begin = groups.members.indptr[group]
    n = groups.members.indptr[group + 1] - begin
    n_features = _find_features(examples, groups.positives, workspace, first, last)
    _read_examples(examples, groups.members, begin, n, plan, workspace)
    for p in range(first, last):
        # `positives` has members of the group alone.
        for at in range(groups.positives.indptr[p], groups.positives.indptr[p + 1]):
            m = workspace.place[groups.positives.indices[at]]
            workspace.examples.mask[m] |= uint32(1) << uint32(p - first)
    steps = workspace.steps
    bias_row = steps.tile.rows.shape[0] - 1
    for row in range(n_features):
        _clear_row(steps.tile, row, plan.first_state)
    _clear_row(steps.tile, bias_row, plan.first_state)
    steps.support[bias_row] = 0
    for p in range(first, last):
        steps.tile.rows[bias_row, p - first] = groups.bias[p]
        steps.support[bias_row] |= uint32(1) << uint32(p - first)
    return n_features


@kernel_part
def _clear_row(tile, row, first_state):
    """Reset a row to zeros, with the initial optimizer state."""
    for d in range(0, WIDTH, SIMD_WIDTH):
        store(tile.rows, row, d, zeros())
        if tile.state_of == PER_COORDINATE:
            store(tile.state, row, d, splat(first_state))
    if tile.decay_clock.size > 0:
        tile.decay_clock[row] = 0


@kernel_part
def _find_features(examples, positives, workspace, first, last):
    """Number the features of the tile, and set the sparsity masks of its labels; return the number
    of features.
    """
    n = 0
    support = workspace.steps.support
    for p in range(first, last):
        for at in range(positives.indptr[p], positives.indptr[p + 1]):
            i = positives.indices[at]
            for f in range(examples.offsets[i], examples.offsets[i + 1]):
                feature = examples.columns[f]
                row = workspace.local[feature]
                if row < 0:
                    row = n
                    workspace.local[feature] = row
                    workspace.features[n] = feature
                    support[row] = 0
                    n += 1
                support[row] |= uint32(1) << uint32(p - first)
    return n


@kernel_part
def _read_examples(examples, members, begin, n, plan, workspace):
    """Copy the examples of the tile, with the features of the tile alone."""
    n_values = 0
    out = workspace.examples
    for m in range(n):
        i = members.indices[begin + m]
        workspace.place[i] = m
        workspace.order[m] = m
        out.mask[m] = 0
        out.skips[m] = 0
        out.last_skips[m] = 0
        _write_weights(examples, plan, i, out, m)
        square = float32(plan.has_bias)
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            row = workspace.local[examples.columns[f]]
            out.columns[n_values] = row
            out.values[n_values] = examples.values[f]
            if row >= 0:
                square += examples.values[f] * examples.values[f]
                n_values += 1
        workspace.square[m] = square
        out.offsets[m + 1] = n_values


# Weights of a tile: int32 feature, int32 label within the tile, float32 weight.
Kept = tuple[ndarray, ndarray, ndarray]


def kept_weights(
    groups: LabelGroups,
    first: int,
    last: int,
    plan: TilePlan,
    workspace: TileWorkspace,
    n_features: int,
) -> Kept:
    """The weights of a trained tile above the threshold; stores its biases, and resets the numbers
    of its features.
    """
    rows = workspace.steps.tile.rows
    n_labels = last - first
    groups.bias[first:last] = rows[-1, :n_labels]
    weights = rows[:n_features, :n_labels]
    n_kept = count_above(weights, plan.threshold)
    kept = (np.empty(n_kept, int32), np.empty(n_kept, int32), np.empty(n_kept, float32))
    write_above(weights, workspace.features, plan.threshold, *kept)
    forget_features(workspace.features, n_features, workspace.local)
    return kept


@kernel
def count_above(weights, threshold):
    """The number of weights above the threshold in absolute value."""
    n = 0
    for row in range(weights.shape[0]):
        for label in range(weights.shape[1]):
            n += abs(weights[row, label]) > threshold
    return n


@kernel
def write_above(weights, features, threshold, feature, label, weight):
    """Write the weights above the threshold in absolute value, row by row, with their features and
    columns.
    """
    n = 0
    for row in range(weights.shape[0]):
        for column in range(weights.shape[1]):
            if abs(weights[row, column]) > threshold:
                feature[n] = features[row]
                label[n] = column
                weight[n] = weights[row, column]
                n += 1


@kernel
def forget_features(features, n_features, local):
    """Reset local[feature] to -1 for the features of the tile."""
    for row in range(n_features):
        local[features[row]] = -1
