"""Training of sparse weights in tiles of 32 labels: all epochs of a tile, one tile after another.

    train_tile       gradient steps; weights above a threshold are kept, as in DiSMEC (Babbar &
                     Schölkopf 2017)
    train_tile_dual  the same by dual coordinate descent

A label has weights for the features in its sparsity mask: all features of its group's examples or,
where that would be too many (`TilePlan.positives_features_only`), those of its positives; others
are held at 0, because their examples are all negatives. Examples are read with the features of the
tile's masks alone. Labels may be the nodes of a tree, in groups; a group is trained on the examples
that reach it.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray, uint32, uint64

from embedx.engine.examples import Csr
from embedx.engine.tiles import (
    TILE_WIDTH,
    TilePlan,
    TileWorkspace,
    add_to_tile,
    is_idle,
    score_tile,
    select_active,
    train_step,
    write_weights,
)
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.maths import ONE, ZERO
from embedx.kernels.random import bits, low_half_below
from embedx.kernels.simd import (
    SIMD_WIDTH,
    lanes_of,
    load,
    prefetch,
    splat,
    store,
    zeros,
)
from embedx.optimizers.contract import PER_COORDINATE
from embedx.optimizers.decay import clock_step, decay_rows

# Dual coordinate descent has converged after an epoch in which no step moved a score by more.
TOLERANCE = float32(0.1)


class LabelGroups(NamedTuple):
    """Groups of labels, and their examples."""

    members: Csr  # the examples that each group is trained on
    positives: Csr  # the examples that have each label
    # float32 (n_labels,): initial biases; overwritten by the trained ones
    bias: ndarray


@kernel
def train_tile(coefficients, examples, groups, group, first, last, plan, workspace):
    """Train the labels first:last of a group, at most TILE_WIDTH; return the summed loss of the
    last epoch and the number of features of the tile.

    `kept_weights` reads the weights.
    """
    n = groups.members.indptr[group + 1] - groups.members.indptr[group]
    n_features = _set_up(examples, groups, group, first, last, plan, workspace)
    decay_clock = loss = 0.0
    counter = uint64(0)
    n_steps = plan.epochs * ((n + plan.batch_size - 1) // plan.batch_size)
    step = 0
    for _ in range(plan.epochs):
        loss = 0.0
        counter = _shuffle(workspace.order, n, plan.key, counter)
        for begin in range(0, n, plan.batch_size):
            lr = plan.lr
            if plan.lr_falls:
                lr = float32(lr * (ONE - float32(step) / float32(n_steps)))
            step += 1
            chosen = workspace.order[begin : min(begin + plan.batch_size, n)]
            loss += train_step(
                coefficients,
                workspace.examples,
                workspace.steps,
                plan,
                chosen,
                last - first,
                lr,
                decay_clock,
            )
            decay_clock += clock_step(plan.optimizer, lr)
    decay_rows(workspace.steps.tile, 0, n_features, TILE_WIDTH, plan.optimizer, decay_clock)
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
    n_features = _set_up(examples, groups, group, first, last, plan, workspace)
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
            n_active = select_active(
                workspace.examples, steps, plan, workspace.order, at, at + 1, last - first
            )
            if n_active == 0:
                continue
            m = steps.active[0]
            batch.state_row[0] = m
            score_tile(
                workspace.examples, steps.active, 1, steps.tile.rows, plan.has_bias, 0, batch.z
            )
            square = splat(workspace.squared_length[m])
            store(batch.score_gain, 0, 0, square)
            store(batch.score_gain, 0, SIMD_WIDTH, square)
            loss += dual_steps(batch, workspace.alpha, plan.constants, 1, TILE_WIDTH, plan.c)
            largest_step = _dual_update(workspace.examples, steps, plan, m)
            longest = max(longest, workspace.squared_length[m] * largest_step)
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
    if is_idle(examples, plan, m, a, b):
        return ZERO
    w = steps.tile.rows
    sparsity_mask = steps.sparsity_mask
    for f in range(examples.offsets[m], examples.offsets[m + 1]):
        row = int64(examples.columns[f])
        x = splat(examples.values[f])
        add_to_tile(
            w,
            row,
            x,
            lanes_of(a, sparsity_mask[row]),
            lanes_of(b, sparsity_mask[row] >> uint32(SIMD_WIDTH)),
        )
    if plan.has_bias:
        add_to_tile(w, w.shape[0] - 1, splat(ONE), a, b)
    longest = ZERO
    for k in range(TILE_WIDTH):
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
def _set_up(examples, groups, group, first, last, plan, workspace):
    """Set up a tile; return its number of features."""
    begin = groups.members.indptr[group]
    n = groups.members.indptr[group + 1] - begin
    n_features = _find_features(examples, groups, group, first, last, plan, workspace)
    _read_examples(examples, groups.members, begin, n, plan, workspace)
    for p in range(first, last):
        # `positives` has members of the group alone.
        for at in range(groups.positives.indptr[p], groups.positives.indptr[p + 1]):
            m = workspace.tile_example[groups.positives.indices[at]]
            workspace.examples.positive_bits[m] |= uint32(1) << uint32(p - first)
    steps = workspace.steps
    bias_row = steps.tile.rows.shape[0] - 1
    for row in range(n_features):
        _clear_row(steps.tile, row, plan.first_state)
    _clear_row(steps.tile, bias_row, plan.first_state)
    steps.sparsity_mask[bias_row] = 0
    for p in range(first, last):
        steps.tile.rows[bias_row, p - first] = groups.bias[p]
        steps.sparsity_mask[bias_row] |= uint32(1) << uint32(p - first)
    return n_features


@kernel_part
def _clear_row(tile, row, first_state):
    """Reset a row to zeros, with the initial optimizer state."""
    for d in range(0, TILE_WIDTH, SIMD_WIDTH):
        store(tile.rows, row, d, zeros())
        if tile.keeps == PER_COORDINATE:
            store(tile.state, row, d, splat(first_state))
    if tile.decay_clock.size > 0:
        tile.decay_clock[row] = 0


@kernel_part
def _find_features(examples, groups, group, first, last, plan, workspace):
    """Number the features of the tile, and set the sparsity masks of its labels; return the number
    of features.
    """
    n = 0
    every_label = uint32(0)
    for p in range(first, last):
        label = uint32(1) << uint32(p - first)
        every_label |= label
        if plan.positives_features_only:
            n = _add_features(examples, groups.positives, p, label, workspace, n)
    if not plan.positives_features_only:
        n = _add_features(examples, groups.members, group, every_label, workspace, n)
    return n


@kernel_part
def _add_features(examples, rows, r, labels, workspace, n):
    """Number the features of the examples in row r of `rows` from n on, and add labels to their
    sparsity masks; return the number of features so far.
    """
    sparsity_mask = workspace.steps.sparsity_mask
    for at in range(rows.indptr[r], rows.indptr[r + 1]):
        i = rows.indices[at]
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            feature = examples.columns[f]
            row = workspace.row_of_feature[feature]
            if row < 0:
                row = n
                workspace.row_of_feature[feature] = row
                workspace.features[n] = feature
                sparsity_mask[row] = 0
                n += 1
            sparsity_mask[row] |= labels
    return n


@kernel_part
def _read_examples(examples, members, begin, n, plan, workspace):
    """Copy the examples of the tile, with the features of the tile alone."""
    n_values = 0
    out = workspace.examples
    for m in range(n):
        i = members.indices[begin + m]
        workspace.tile_example[i] = m
        workspace.order[m] = m
        out.positive_bits[m] = 0
        out.skips[m] = 0
        out.previous_skips[m] = 0
        write_weights(examples, plan, i, out, m)
        square = float32(plan.has_bias)
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            row = workspace.row_of_feature[examples.columns[f]]
            out.columns[n_values] = row
            out.values[n_values] = examples.values[f]
            if row >= 0:
                square += examples.values[f] * examples.values[f]
                n_values += 1
        workspace.squared_length[m] = square
        out.offsets[m + 1] = n_values


# Weights of a tile: int32 feature, int32 label within the tile, float32 weight.
KeptWeights = tuple[ndarray, ndarray, ndarray]


def kept_weights(
    groups: LabelGroups,
    first: int,
    last: int,
    plan: TilePlan,
    workspace: TileWorkspace,
    n_features: int,
) -> KeptWeights:
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
    forget_features(workspace.features, n_features, workspace.row_of_feature)
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
def forget_features(features, n_features, row_of_feature):
    """Reset row_of_feature[feature] to -1 for the features of the tile."""
    for row in range(n_features):
        row_of_feature[features[row]] = -1
