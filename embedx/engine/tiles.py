"""Losses that are sums over labels, on sparse features: 32 labels, a tile, are trained at a time.

No label's row depends on another's (`Objective.separable`), so the parameters of a tile stay in the core's own cache while
examples pass. Whatever tiles run at the same time share nothing but the examples, so the result does not depend on the number
of threads.

    train_columns    dense weights: a chunk of minibatches on some columns of a table. The examples are copied in their
                     order first: every tile reads them all, three times as fast if they lie in order
    train_tile       sparse weights: all epochs; only the weights above a threshold remain, as in DiSMEC (Babbar &
                     Schölkopf 2017)
    train_tile_dual  the same by dual coordinate descent

With sparse weights a row has weights for the features of its positives alone, its sparsity mask; elsewhere they are held at 0:
a weight would meet negatives alone there, and could be positive only where features are negative. The examples are read with
the features of the tile's masks alone. An example without a positive in the tile whose coefficients were zero, as most are
under a hinge, is skipped at its next visit, after one more of these at the next three, then seven, and so on (shrinking).
The labels may be the nodes of a tree, in groups; a group is trained on the examples that reach it.
"""

from typing import Any, NamedTuple

import numpy as np

from embedx.engine.examples import Csr, Examples
from embedx.engine.select import draw_weight, set_padding, set_positive
from embedx.kernels.batch import Batch, new_batch
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.random import bits, low_half_below
from embedx.kernels.simd import SIMD_WIDTH, is_zero, load, multiply_add, splat, store, zeros
from embedx.optimizers.contract import PER_COLUMN, PER_COORDINATE, Table, UpdateRule, new_table
from embedx.optimizers.decay import clock_step, decay_row, step_size
from embedx.optimizers.descend import accumulate_columns, descend_columns

WIDTH = 2 * SIMD_WIDTH
MAX_SKIPS = 15  # visits at which an example without coefficients is skipped
TOLERANCE = np.float32(0.1)  # dual coordinate descent ends after an epoch in which no step moved its score by more


class TilePlan(NamedTuple):
    """How tiles are trained."""

    batch_size: int
    sum_over: float  # coefficients are multiplied by this and divided by the number of examples in the step
    has_bias: bool
    keeps_accidental_hits: bool
    positives: int  # SINGLE, JOINT or SUMMED
    is_masked: bool  # weights are sparse
    shrinks: bool
    optimizer: UpdateRule
    constants: np.ndarray  # of the objective
    # With sparse weights:
    epochs: int = 1
    lr: np.float32 = np.float32(0)  # at the start; it falls linearly to zero, or stays
    falls: bool = False
    threshold: np.float32 = np.float32(0)  # weights of at most this size are dropped
    key: np.uint64 = np.uint64(0)  # of the random numbers
    first_state: np.float32 = np.float32(0)  # of the optimiser, for every weight or every row
    c: np.float32 = np.float32(0)  # by dual coordinate descent: what the loss is multiplied by


class TileExamples(NamedTuple):
    """The examples as a tile sees them."""

    offsets: np.ndarray  # int64 (n + 1,)
    columns: np.ndarray  # int32: rows of the tile
    values: np.ndarray  # float32
    mask: np.ndarray  # uint32 (n,): bit k is set where label k of the tile is a positive
    weight: np.ndarray  # float32 (n,): how often each label counts as a negative
    skips: np.ndarray  # int8 (n,): visits at which the example is still to be skipped
    last_skips: np.ndarray  # int8 (n,): and how many they were the last time


def _examples_of_tile(n: int, offsets: np.ndarray, columns: np.ndarray, values: np.ndarray) -> TileExamples:
    floats, skips = np.zeros(n, dtype=np.float32), np.zeros((2, n), dtype=np.int8)
    return TileExamples(offsets, columns, values, np.zeros(n, dtype=np.uint32), floats, skips[0], skips[1])


class TileSteps(NamedTuple):
    """Buffers for the steps of a tile."""

    tile: Table  # the parameters: a row for each feature, then that of the biases; a column for each label
    gradient: np.ndarray  # float32, like the rows; zero between steps
    support: np.ndarray  # float32, like the rows: 1 where a row may have a weight, else 0; (0, WIDTH) without sparsity mask
    touched: np.ndarray  # int32 (n_features,): the rows that a step moves
    is_touched: np.ndarray  # bool (n_features,)
    active: np.ndarray  # int64 (batch_size,): the examples of a minibatch that are not skipped
    batch: Batch  # a row for each of these, WIDTH candidates
    state: np.ndarray  # float32 (1, 0): such objectives have neither state nor noise


def _new_steps(n_rows: int, batch_size: int, optimizer: UpdateRule, *, is_masked: bool) -> TileSteps:
    return TileSteps(
        tile=new_table(n_rows, WIDTH, optimizer, columns=True),
        gradient=np.zeros((n_rows, WIDTH), dtype=np.float32),
        support=np.zeros((n_rows if is_masked else 0, WIDTH), dtype=np.float32),
        touched=np.zeros(n_rows, dtype=np.int32),
        is_touched=np.zeros(n_rows, dtype=np.bool_),
        active=np.zeros(batch_size, dtype=np.int64),
        batch=new_batch(batch_size, WIDTH),
        state=np.zeros((1, 0), dtype=np.float32),
    )


# ---- a step


@kernel_part
def _step(coefficients, examples, steps, plan, chosen, n_labels, lr, now):
    """One step on the examples `chosen`, for the first n_labels columns; return the summed loss."""
    n = _choose(examples, steps, plan, chosen, 0, chosen.size, n_labels)
    if n == 0:
        return 0.0
    _decay_before(examples, steps, plan, n, now)
    _scores(examples, steps, plan, n)
    loss = coefficients(steps.batch, steps.state, plan.constants, n, WIDTH, lr)
    n_touched = _add_gradients(examples, steps, plan, n, np.float32(plan.sum_over / chosen.size))
    _update(steps, plan, n_touched, step_size(plan.optimizer, lr))
    return loss


@kernel_part
def _bias_row(steps, plan):
    """The row of the biases; -1 without."""
    return steps.tile.rows.shape[0] - 1 if plan.has_bias else -1


@kernel_part
def _choose(examples, steps, plan, order, begin, end, n_labels):
    """Write the labels of the examples order[begin:end] that are not skipped; return how many they are."""
    n = 0
    batch = steps.batch
    for position in range(begin, end):
        m = np.int64(order[position])
        if plan.shrinks and examples.skips[m] > 0:
            examples.skips[m] -= 1
            continue
        mask, weight = examples.mask[m], splat(examples.weight[m])
        for d in range(0, WIDTH, SIMD_WIDTH):
            store(batch.label, n, d, zeros())
            store(batch.sample_count, n, d, weight)
        for k in range(n_labels, WIDTH):
            set_padding(batch, n, k)
        if mask != 0:
            for k in range(n_labels):
                if (mask >> np.uint32(k)) & np.uint32(1):
                    set_positive(batch, n, k, 1, examples.weight[m], plan.keeps_accidental_hits)
        steps.active[n] = m
        n += 1
    return n


@kernel_part
def _decay_before(examples, steps, plan, n, now):
    """Apply the weight decay that is due to the rows of the active examples; to all where a state changes with any of them."""
    if plan.optimizer.l2 > 0:
        if steps.tile.state_of == PER_COLUMN and not plan.is_masked:
            _decay_all(steps, plan, steps.tile.rows.shape[0] - plan.has_bias, now)
        else:
            for e in range(n):
                m = steps.active[e]
                for f in range(examples.offsets[m], examples.offsets[m + 1]):
                    decay_row(steps.tile, np.int64(examples.columns[f]), WIDTH, plan.optimizer, now)


@kernel_part
def _decay_all(steps, plan, n_rows, now):
    """Apply the weight decay that is due to the first n_rows rows."""
    if plan.optimizer.l2 > 0:
        for row in range(n_rows):
            decay_row(steps.tile, row, WIDTH, plan.optimizer, now)


@kernel_part
def _scores(examples, steps, plan, n):
    """The scores of the n active examples; two features at a time, so that four sums are under way at once."""
    one, w, columns, values = splat(np.float32(1)), steps.tile.rows, examples.columns, examples.values
    bias_row = _bias_row(steps, plan)
    for e in range(n):
        m = steps.active[e]
        f, last = examples.offsets[m], examples.offsets[m + 1]
        a0, b0, a1, b1 = zeros(), zeros(), zeros(), zeros()
        if bias_row >= 0:
            a0, b0 = load(w, bias_row, 0), load(w, bias_row, SIMD_WIDTH)
        while f + 1 < last:
            row, x = np.int64(columns[f]), splat(values[f])
            a0, b0 = multiply_add(x, load(w, row, 0), a0), multiply_add(x, load(w, row, SIMD_WIDTH), b0)
            row, x = np.int64(columns[f + 1]), splat(values[f + 1])
            a1, b1 = multiply_add(x, load(w, row, 0), a1), multiply_add(x, load(w, row, SIMD_WIDTH), b1)
            f += 2
        if f < last:
            row, x = np.int64(columns[f]), splat(values[f])
            a0, b0 = multiply_add(x, load(w, row, 0), a0), multiply_add(x, load(w, row, SIMD_WIDTH), b0)
        store(steps.batch.z, e, 0, multiply_add(one, a0, a1))
        store(steps.batch.z, e, SIMD_WIDTH, multiply_add(one, b0, b1))


@kernel_part
def _add_gradients(examples, steps, plan, n, scale):
    """Sum the gradients of the n active examples; return how many rows they touch."""
    g, bias_row = steps.gradient, _bias_row(steps, plan)
    n_touched = 0
    for e in range(n):
        m = steps.active[e]
        a = multiply_add(splat(scale), load(steps.batch.z, e, 0), zeros())
        b = multiply_add(splat(scale), load(steps.batch.z, e, SIMD_WIDTH), zeros())
        if _is_idle(examples, plan, m, a, b):
            continue
        for f in range(examples.offsets[m], examples.offsets[m + 1]):
            row = np.int64(examples.columns[f])
            _add(g, row, splat(examples.values[f]), a, b)
            if not steps.is_touched[row]:
                steps.is_touched[row] = True
                steps.touched[n_touched] = row
                n_touched += 1
        if bias_row >= 0:
            _add(g, bias_row, splat(np.float32(1)), a, b)
    return n_touched


@kernel_part
def _is_idle(examples, plan, m, a, b):
    """Whether all coefficients of example m are zero; if so, and it has no positive in the tile, it is skipped more often."""
    is_idle = is_zero(a) and is_zero(b)
    if plan.shrinks:
        if not is_idle:
            examples.last_skips[m] = 0
        elif examples.mask[m] == 0:
            examples.last_skips[m] = min(2 * examples.last_skips[m] + 1, MAX_SKIPS)
            examples.skips[m] = examples.last_skips[m]
    return is_idle


@kernel_part
def _add(matrix, row, x, a, b):
    """Add x times 32 numbers to a row."""
    store(matrix, row, 0, multiply_add(x, a, load(matrix, row, 0)))
    store(matrix, row, SIMD_WIDTH, multiply_add(x, b, load(matrix, row, SIMD_WIDTH)))


@kernel_part
def _update(steps, plan, n_touched, rate):
    """One step of the touched rows, within the sparsity mask; the gradient is zero afterwards."""
    tile, g, touched, bias_row = steps.tile, steps.gradient, steps.touched, _bias_row(steps, plan)
    for k in range(n_touched):
        row = np.int64(touched[k])
        steps.is_touched[row] = False
        if plan.is_masked:
            for d in range(0, WIDTH, SIMD_WIDTH):
                store(g, row, d, multiply_add(load(g, row, d), load(steps.support, row, d), zeros()))
    accumulate_columns(tile, 0, touched, n_touched, bias_row, g, 0, WIDTH, plan.optimizer)
    for k in range(n_touched + plan.has_bias):
        row = np.int64(touched[k]) if k < n_touched else np.int64(bias_row)
        if not (is_zero(load(g, row, 0)) and is_zero(load(g, row, SIMD_WIDTH))):
            descend_columns(tile, row, 0, g, row, 0, WIDTH, plan.optimizer, rate)
            store(g, row, 0, zeros())
            store(g, row, SIMD_WIDTH, zeros())


# ---- dense weights: a chunk of minibatches


class ColumnsWorkspace(NamedTuple):
    """A worker's memory for `train_columns`."""

    examples: TileExamples
    steps: TileSteps
    order: np.ndarray  # int64 (n,): 0, 1, ...


def new_columns_workspace(examples: Examples, n_rows: int, batch_size: int, optimizer: UpdateRule) -> ColumnsWorkspace:
    """Memory for a table of n_rows rows, that of the biases included, and the examples of a chunk, which may be overwritten."""
    n = len(examples.offsets) - 1
    return ColumnsWorkspace(
        _examples_of_tile(n, examples.offsets, examples.columns, examples.values),
        _new_steps(n_rows, batch_size, optimizer, is_masked=False),
        np.arange(n),
    )


@kernel
def train_columns(coefficients, examples, n, table, plan, workspace, first, last, n_labels, lr, now):
    """Train table columns first:last, whole tiles, on the first n examples; return the summed loss.

    n_labels  columns of the table that are labels
    now       of the decay clock; no decay is due before or after
    """
    loss = 0.0
    steps, of_tile, order = workspace.steps, workspace.examples, workspace.order
    tile = steps.tile
    for t in range(first, last, WIDTH):
        clock = now
        _copy(table.rows, t, tile.rows, 0)
        _copy(table.state, t, tile.state, 0)
        tile.decay_clock[:] = clock
        for i in range(n):
            of_tile.mask[i], of_tile.weight[i] = 0, _negative_weight(examples, plan, i)
            for at in range(examples.label_offsets[i], examples.label_offsets[i + 1]):
                k = examples.label_ids[at] - t
                if 0 <= k < WIDTH:
                    of_tile.mask[i] |= np.uint32(1) << np.uint32(k)
        for begin in range(0, n, plan.batch_size):
            chosen = order[begin : min(begin + plan.batch_size, n)]
            loss += _step(coefficients, of_tile, steps, plan, chosen, min(n_labels - t, WIDTH), np.float32(lr), clock)
            clock += clock_step(plan.optimizer, lr)
        _decay_all(steps, plan, tile.rows.shape[0] - plan.has_bias, clock)
        _copy(tile.rows, 0, table.rows, t)
        _copy(tile.state, 0, table.state, t)
    return loss


@kernel_part
def _negative_weight(examples, plan, i):
    """How often each label of a tile counts as a negative of example i."""
    n_labels = examples.label_offsets[i + 1] - examples.label_offsets[i]
    return draw_weight(plan.positives, n_labels) if n_labels > 0 else np.float32(0)


@kernel_part
def _copy(source, source_column, target, target_column):
    """Copy 32 numbers of each row."""
    for row in range(source.shape[0]):
        for d in range(0, WIDTH, SIMD_WIDTH):
            store(target, row, target_column + d, load(source, row, source_column + d))


# ---- sparse weights: all epochs


class LabelGroups(NamedTuple):
    """Labels in groups, and their examples."""

    members: Csr  # the examples that each group is trained on
    positives: Csr  # the examples that have each label
    bias: np.ndarray  # float32 (n_labels,): the biases to start from; overwritten by those that were trained


class TileWorkspace(NamedTuple):
    """A worker's memory for `train_tile` and `train_tile_dual`."""

    local: np.ndarray  # int32 (n_features,): the row of a feature in the tile, -1 for none
    features: np.ndarray  # int32 (n_features,): the features of the tile
    place: np.ndarray  # int32 (n_examples,): the place of an example among those of the tile, -1 for none
    order: np.ndarray  # int32 (n_examples,): the order of an epoch
    square: np.ndarray  # float32 (n_examples,): the squared length of the input, with the 1 of the bias
    alpha: np.ndarray  # float32 (n_examples, WIDTH): the dual variables; (0, WIDTH) where there are none
    examples: TileExamples
    steps: TileSteps
    kept_feature: np.ndarray  # int32 (n_features * WIDTH,): the weights above the threshold
    kept_label: np.ndarray  # int32: within the tile
    kept_value: np.ndarray  # float32


def new_workspace(
    examples: Examples, n_features: int, batch_size: int, optimizer: UpdateRule, *, is_dual: bool = False
) -> TileWorkspace:
    """Memory for tiles of any examples and features of a data set."""
    n, n_values = len(examples.label_offsets) - 1, len(examples.values) + 1
    return TileWorkspace(
        local=np.full(n_features, -1, dtype=np.int32),
        features=np.zeros(n_features, dtype=np.int32),
        place=np.full(n, -1, dtype=np.int32),
        order=np.zeros(n, dtype=np.int32),
        square=np.zeros(n, dtype=np.float32),
        alpha=np.zeros((n if is_dual else 0, WIDTH), dtype=np.float32),
        examples=_examples_of_tile(
            n, np.zeros(n + 1, dtype=np.int64), np.zeros(n_values, dtype=np.int32), np.zeros(n_values, dtype=np.float32)
        ),
        steps=_new_steps(n_features + 1, batch_size, optimizer, is_masked=True),
        kept_feature=np.zeros(n_features * WIDTH, dtype=np.int32),
        kept_label=np.zeros(n_features * WIDTH, dtype=np.int32),
        kept_value=np.zeros(n_features * WIDTH, dtype=np.float32),
    )


@kernel
def train_tile(coefficients, examples, groups, group, first, last, plan, workspace):
    """Train the labels first:last of a group, at most WIDTH; return the last epoch's summed loss and the number of weights."""
    n = groups.members.indptr[group + 1] - groups.members.indptr[group]
    n_features = _begin(examples, groups, group, first, last, plan, workspace)
    now = loss = 0.0
    counter = np.uint64(0)
    n_steps = plan.epochs * ((n + plan.batch_size - 1) // plan.batch_size)
    step = 0
    for _ in range(plan.epochs):
        loss = 0.0
        counter = _shuffle(workspace.order, n, plan.key, counter)
        for begin in range(0, n, plan.batch_size):
            lr = plan.lr
            if plan.falls:
                lr = np.float32(lr * (np.float32(1) - np.float32(step) / np.float32(n_steps)))
            step += 1
            chosen = workspace.order[begin : min(begin + plan.batch_size, n)]
            loss += _step(coefficients, workspace.examples, workspace.steps, plan, chosen, last - first, lr, now)
            now += clock_step(plan.optimizer, lr)
    _decay_all(workspace.steps, plan, n_features, now)
    return loss, _end(groups, group, first, last, plan, workspace, n_features)


@kernel
def train_tile_dual(dual_steps, examples, groups, group, first, last, plan, workspace):
    """As `train_tile`, by dual coordinate descent: ½|w|² + `plan.c` times the summed loss of each label, its bias as a weight.

    The biases start from zero. Lengths of inputs are over all features of the tile; a row whose mask has fewer takes shorter
    steps for it.
    """
    n = groups.members.indptr[group + 1] - groups.members.indptr[group]
    groups.bias[first:last] = 0
    n_features = _begin(examples, groups, group, first, last, plan, workspace)
    steps, batch = workspace.steps, workspace.steps.batch
    workspace.alpha[:n] = 0
    loss = 0.0
    counter = np.uint64(0)
    for _ in range(plan.epochs):
        loss = 0.0
        longest = np.float32(0)
        counter = _shuffle(workspace.order, n, plan.key, counter)
        for at in range(n):
            if _choose(workspace.examples, steps, plan, workspace.order, at, at + 1, last - first) == 0:
                continue
            m = steps.active[0]
            batch.key[0] = m
            _scores(workspace.examples, steps, plan, 1)
            square = splat(workspace.square[m])
            store(batch.score_gain, 0, 0, square)
            store(batch.score_gain, 0, SIMD_WIDTH, square)
            loss += dual_steps(batch, workspace.alpha, plan.constants, 1, WIDTH, plan.c)
            longest = max(longest, workspace.square[m] * _dual_update(workspace.examples, steps, plan, m))
        if longest < TOLERANCE:
            break
    return loss, _end(groups, group, first, last, plan, workspace, n_features)


@kernel_part
def _dual_update(examples, steps, plan, m):
    """Move the rows by the step of example m, within the sparsity mask; return the largest coefficient."""
    a, b = load(steps.batch.z, 0, 0), load(steps.batch.z, 0, SIMD_WIDTH)
    if _is_idle(examples, plan, m, a, b):
        return np.float32(0)
    w, support = steps.tile.rows, steps.support
    for f in range(examples.offsets[m], examples.offsets[m + 1]):
        row, x = np.int64(examples.columns[f]), splat(examples.values[f])
        masked_a = multiply_add(multiply_add(x, a, zeros()), load(support, row, 0), load(w, row, 0))
        masked_b = multiply_add(multiply_add(x, b, zeros()), load(support, row, SIMD_WIDTH), load(w, row, SIMD_WIDTH))
        store(w, row, 0, masked_a)
        store(w, row, SIMD_WIDTH, masked_b)
    if plan.has_bias:
        _add(w, _bias_row(steps, plan), splat(np.float32(1)), a, b)
    longest = np.float32(0)
    for k in range(WIDTH):
        longest = max(longest, abs(steps.batch.z[0, k]))
    return longest


@kernel_part
def _shuffle(order, n, key, counter):
    """Bring order[:n] into random order; return how many random numbers of the stream have been used."""
    for m in range(n - 1, 0, -1):
        other = low_half_below(bits(key, counter), m + 1)
        counter += np.uint64(1)
        order[m], order[other] = order[other], order[m]
    return counter


@kernel_part
def _begin(examples, groups, group, first, last, plan, workspace):
    """Set up a tile; return how many features it has."""
    begin, n = groups.members.indptr[group], groups.members.indptr[group + 1] - groups.members.indptr[group]
    n_features = _find_features(examples, groups.positives, workspace, first, last)
    _read_examples(examples, groups.members, begin, n, plan, workspace)
    for p in range(first, last):
        for at in range(groups.positives.indptr[p], groups.positives.indptr[p + 1]):
            m = workspace.place[groups.positives.indices[at]]
            workspace.examples.mask[m] |= np.uint32(1) << np.uint32(p - first)
    steps = workspace.steps
    bias_row = steps.tile.rows.shape[0] - 1
    for row in range(n_features):
        _clear_row(steps.tile, row, plan.first_state)
    _clear_row(steps.tile, bias_row, plan.first_state)
    if steps.tile.state_of == PER_COLUMN:
        steps.tile.state[:] = plan.first_state
    for p in range(first, last):
        steps.tile.rows[bias_row, p - first] = groups.bias[p]
        steps.support[bias_row, p - first] = 1
    return n_features


@kernel_part
def _clear_row(tile, row, first_state):
    """Zeros for the parameters of a row, and the first state of each."""
    for d in range(0, WIDTH, SIMD_WIDTH):
        store(tile.rows, row, d, zeros())
        if tile.state_of == PER_COORDINATE:
            store(tile.state, row, d, splat(first_state))
    if tile.decay_clock.size > 0:
        tile.decay_clock[row] = 0


@kernel_part
def _find_features(examples, positives, workspace, first, last):
    """Number the features of the tile, and mark each row's own; return how many there are."""
    n, support = 0, workspace.steps.support
    for p in range(first, last):
        for at in range(positives.indptr[p], positives.indptr[p + 1]):
            i = positives.indices[at]
            for f in range(examples.offsets[i], examples.offsets[i + 1]):
                feature = examples.columns[f]
                row = workspace.local[feature]
                if row < 0:
                    row = n
                    workspace.local[feature], workspace.features[n] = row, feature
                    store(support, row, 0, zeros())
                    store(support, row, SIMD_WIDTH, zeros())
                    n += 1
                support[row, p - first] = 1
    return n


@kernel_part
def _read_examples(examples, members, begin, n, plan, workspace):
    """Copy the examples of the tile with its features alone."""
    n_values, out = 0, workspace.examples
    for m in range(n):
        i = members.indices[begin + m]
        workspace.place[i], workspace.order[m] = m, m
        out.mask[m], out.weight[m] = 0, _negative_weight(examples, plan, i)
        out.skips[m], out.last_skips[m] = 0, 0
        square = np.float32(plan.has_bias)
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            row = workspace.local[examples.columns[f]]
            out.columns[n_values] = row
            out.values[n_values] = examples.values[f]
            if row >= 0:
                square += examples.values[f] * examples.values[f]
                n_values += 1
        workspace.square[m] = square
        out.offsets[m + 1] = n_values


@kernel_part
def _end(groups, group, first, last, plan, workspace, n_features):
    """Write the biases and the weights above the threshold, and clear what the next tile does not; return how many are kept."""
    n, w = 0, workspace.steps.tile.rows
    for p in range(first, last):
        groups.bias[p] = w[w.shape[0] - 1, p - first]
    for row in range(n_features):
        for k in range(last - first):
            if abs(w[row, k]) > plan.threshold:
                workspace.kept_feature[n], workspace.kept_label[n] = workspace.features[row], k
                workspace.kept_value[n] = w[row, k]
                n += 1
        workspace.local[workspace.features[row]] = -1
    for at in range(groups.members.indptr[group], groups.members.indptr[group + 1]):
        workspace.place[groups.members.indices[at]] = -1
    return n


def like(examples: Examples, workspace: TileWorkspace, plan: TilePlan) -> tuple[Any, ...]:
    """Arguments after the objective's function, of the types that a kernel is compiled for."""
    empty = Csr(np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int32))
    return examples, LabelGroups(empty, empty, np.zeros(1, dtype=np.float32)), 0, 0, 0, plan, workspace
