"""Linear classifiers with sparse output rows, trained 32 labels at a time, each to the end of its training.

Under a loss that is a sum over labels (`Objective.separable`) no label's row knows of any other, so that 32 of them, a tile,
can be trained over all passes before the next 32 begin, and only what is kept of a row needs memory. A row has weights for the
features of its positives alone (its support): elsewhere a weight meets negatives alone, and could only be negative where
features are not. With signed features it may be positive too, and sparse rows lose it. So

    the features of a tile     the union of its rows' supports; the examples are read with these alone
    the steps                  those of full.FullSteps, on rows whose weights outside their support are held at zero
    examples that are left out one without a positive in the tile whose coefficients were zero, as most are under a hinge, is
                               passed over at its next visit, after one more of these at the next three, then seven, and so on

and what is left of a row at the end are its weights above a threshold, as in DiSMEC (Babbar & Schölkopf 2017). The labels may
be the nodes of a tree, in groups; then each group has the examples that meet it. Parallel by tile: nothing is shared but the
examples, so that the result does not depend on the number of threads.
"""

from typing import Any, NamedTuple

import numpy as np

from embedx.engine.examples import Examples
from embedx.engine.full_tiled import WIDTH
from embedx.kernels.batch import Batch, new_batch
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.random import bits, low_half_below
from embedx.kernels.simd import SIMD_WIDTH, is_zero, load, multiply_add, splat, store, zeros
from embedx.optimizers.contract import Table, UpdateRule, new_table
from embedx.optimizers.decay import clock_step, decay_row, step_size
from embedx.optimizers.descend import accumulate_columns, descend_columns

LONGEST_REST = 15  # visits at which an example without coefficients is passed over
STEADY = np.float32(0.1)  # a pass of dual coordinate descent in which no step moved its score by more is the last


class Lists(NamedTuple):
    """For each of some things a list of numbers: those of k are items[offsets[k]:offsets[k + 1]]."""

    offsets: np.ndarray  # int64 (n + 1,)
    items: np.ndarray  # int32


def lists_of(keys: np.ndarray, items: np.ndarray, n: int) -> Lists:
    """For each of n keys its distinct items, ascending."""
    span = int(items.max(initial=0)) + 1
    pairs = np.unique(keys.astype(np.int64) * span + items)
    keys, items = pairs // span, (pairs % span).astype(np.int32)
    return Lists(np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=n))]).astype(np.int64), items)


class Passes(NamedTuple):
    """How a tile is trained."""

    epochs: int
    batch_size: int
    lr: np.float32  # at the start; it falls linearly to zero, or stays
    falls: bool
    sum_over: float  # coefficients are multiplied by this and divided by the number of examples in the step
    has_bias: bool
    keeps_accidental_hits: bool
    sums: bool  # every label counts once for each of the example's positives, not once
    rests: bool  # examples without coefficients are passed over now and then
    threshold: np.float32  # weights of at most this size are dropped
    key: np.uint64  # of the random numbers
    first_state: np.float32 = np.float32(0)  # of the optimiser, for every weight or every row


class TileWorkspace(NamedTuple):
    """One worker's own memory."""

    local: np.ndarray  # int32 (n_features,): the place of a feature among those of the tile, -1 for none
    features: np.ndarray  # int32 (n_features,): the features of the tile
    place: np.ndarray  # int32 (n_examples,): the place of an example among those of the tile, -1 for none
    offsets: np.ndarray  # int64 (n_examples + 1,): columns and values of the tile's examples, its features alone
    columns: np.ndarray  # int32
    values: np.ndarray  # float32
    mask: np.ndarray  # uint32 (n_examples,): bit k is set where the label k of the tile is a positive
    weight: np.ndarray  # float32 (n_examples,): how often each label counts as a negative
    order: np.ndarray  # int32 (n_examples,): as a pass takes them
    rest: np.ndarray  # int8 (n_examples,): visits at which it is still to be passed over
    last_rest: np.ndarray  # int8 (n_examples,): and how many they were the last time
    square: np.ndarray  # float32 (n_examples,): the squared length of the input, with the 1 of the bias
    alpha: np.ndarray  # float32 (n_examples, WIDTH): the dual variables; (0, WIDTH) where there are none
    active: np.ndarray  # int64 (batch_size,): the examples of a minibatch that are not passed over
    batch: Batch  # a line for each of these, WIDTH candidates
    state: np.ndarray  # float32 (1, 0): such objectives have neither state nor noise
    gradient: np.ndarray  # float32 (n_features + 1, WIDTH); zero between steps; the last row is that of the biases
    support: np.ndarray  # float32 (n_features + 1, WIDTH): 1 where a row may have a weight, else 0
    tile: Table  # the parameters, a row for each feature of the tile
    touched: np.ndarray  # int32 (n_features,): the features that a step moves
    is_touched: np.ndarray  # bool (n_features,)
    kept_feature: np.ndarray  # int32 (n_features * WIDTH,): what is left of the tile, by weight
    kept_lane: np.ndarray  # int32
    kept_value: np.ndarray  # float32


def new_workspace(
    examples: Examples, n_features: int, batch_size: int, optimizer: UpdateRule, *, is_dual: bool = False
) -> TileWorkspace:
    """Memory for tiles of any examples and features of a data set."""
    n = len(examples.label_offsets) - 1
    return TileWorkspace(
        local=np.full(n_features, -1, dtype=np.int32),
        features=np.zeros(n_features, dtype=np.int32),
        place=np.full(n, -1, dtype=np.int32),
        offsets=np.zeros(n + 1, dtype=np.int64),
        columns=np.zeros(len(examples.columns) + 1, dtype=np.int32),
        values=np.zeros(len(examples.values) + 1, dtype=np.float32),
        mask=np.zeros(n, dtype=np.uint32),
        weight=np.zeros(n, dtype=np.float32),
        order=np.zeros(n, dtype=np.int32),
        rest=np.zeros(n, dtype=np.int8),
        last_rest=np.zeros(n, dtype=np.int8),
        square=np.zeros(n, dtype=np.float32),
        alpha=np.zeros((n if is_dual else 0, WIDTH), dtype=np.float32),
        active=np.zeros(batch_size, dtype=np.int64),
        batch=new_batch(batch_size, WIDTH),
        state=np.zeros((1, 0), dtype=np.float32),
        gradient=np.zeros((n_features + 1, WIDTH), dtype=np.float32),
        support=np.zeros((n_features + 1, WIDTH), dtype=np.float32),
        tile=new_table(n_features + 1, WIDTH, optimizer, columns=True),
        touched=np.zeros(n_features, dtype=np.int32),
        is_touched=np.zeros(n_features, dtype=np.bool_),
        kept_feature=np.zeros(n_features * WIDTH, dtype=np.int32),
        kept_lane=np.zeros(n_features * WIDTH, dtype=np.int32),
        kept_value=np.zeros(n_features * WIDTH, dtype=np.float32),
    )


@kernel
def train_tile(coefficients, examples, members, positives, group, first, last, passes, constants, optimizer, workspace, bias):
    """Train the labels first:last, at most WIDTH; return the summed loss of the last pass and how many weights are kept.

    members    `Lists`  the examples that meet the labels of each group
    positives  `Lists`  the examples that have each label
    group      that the labels belong to
    bias       float32 (n_labels,)  the biases to start from; overwritten by those that were trained
    """
    n = members.offsets[group + 1] - members.offsets[group]
    n_features = _begin(examples, members, positives, group, first, last, passes, workspace, bias)
    tile = workspace.tile
    bias_row = tile.rows.shape[0] - 1
    biased = bias_row if passes.has_bias else -1
    now = 0.0
    loss = 0.0
    counter = np.uint64(0)
    n_steps = passes.epochs * ((n + passes.batch_size - 1) // passes.batch_size)
    step = 0
    for _ in range(passes.epochs):
        loss = 0.0
        counter = _shuffle(workspace.order, n, passes.key, counter)
        for begin in range(0, n, passes.batch_size):
            end = min(begin + passes.batch_size, n)
            lr = passes.lr
            if passes.falls:
                lr = np.float32(lr * (np.float32(1) - np.float32(step) / np.float32(n_steps)))
            step += 1
            n_active = _choose(passes, workspace, begin, end, last - first)
            if n_active > 0:
                _scores(workspace, optimizer, n_active, biased, now)
                loss += coefficients(workspace.batch, workspace.state, constants, n_active, WIDTH, lr)
                scale = np.float32(passes.sum_over / (end - begin))
                n_touched = _sum_gradients(workspace, n_active, biased, scale, passes.rests)
                _step(workspace, n_touched, biased, optimizer, step_size(optimizer, lr), now)
            now += clock_step(optimizer, lr)
    if optimizer.l2 > 0:
        for row in range(n_features):
            decay_row(tile, row, WIDTH, optimizer, now)
    return loss, _end(members, group, first, last, passes, workspace, n_features, bias)


@kernel
def train_tile_dual(dual_steps, examples, members, positives, group, first, last, passes, constants, c, workspace, bias):
    """As `train_tile`, by dual coordinate descent: ½|w|² + `c` times the summed loss of each label, its bias as a weight.

    Ends after a pass without a step of STEADY. The biases start from zero. Lengths of inputs are over
    all features of the tile; a row whose support has fewer takes shorter steps for it.
    """
    n = members.offsets[group + 1] - members.offsets[group]
    for p in range(first, last):
        bias[p] = 0
    n_features = _begin(examples, members, positives, group, first, last, passes, workspace, bias)
    batch = workspace.batch
    biased = workspace.tile.rows.shape[0] - 1 if passes.has_bias else -1
    for m in range(n):
        store(workspace.alpha, m, 0, zeros())
        store(workspace.alpha, m, SIMD_WIDTH, zeros())
    loss = 0.0
    counter = np.uint64(0)
    for _ in range(passes.epochs):
        loss = 0.0
        longest = np.float32(0)
        counter = _shuffle(workspace.order, n, passes.key, counter)
        for at in range(n):
            if _choose(passes, workspace, at, at + 1, last - first) == 0:
                continue
            m = workspace.active[0]
            batch.key[0] = m
            _scores_of_tile(workspace, 1, biased)
            square = splat(workspace.square[m])
            store(batch.score_gain, 0, 0, square)
            store(batch.score_gain, 0, SIMD_WIDTH, square)
            loss += dual_steps(batch, workspace.alpha, constants, 1, WIDTH, c)
            longest = max(longest, workspace.square[m] * _follow(workspace, m, biased, passes.rests))
        if longest < STEADY:
            break
    return loss, _end(members, group, first, last, passes, workspace, n_features, bias)


@kernel_part
def _begin(examples, members, positives, group, first, last, passes, workspace, bias):
    """Set up a tile; return how many features it has."""
    begin, n = members.offsets[group], members.offsets[group + 1] - members.offsets[group]
    n_features = _find_features(examples, positives, workspace, first, last)
    _read_examples(examples, members, begin, n, passes, workspace)
    _mark_positives(positives, workspace, first, last)
    _clear(workspace, n_features, n, passes.first_state)
    bias_row = workspace.tile.rows.shape[0] - 1
    for p in range(first, last):
        workspace.tile.rows[bias_row, p - first] = bias[p]
        workspace.support[bias_row, p - first] = 1
    return n_features


@kernel_part
def _end(members, group, first, last, passes, workspace, n_features, bias):
    """Hand over what a tile has become, and clear what the next one does not; return how many weights are kept."""
    bias_row = workspace.tile.rows.shape[0] - 1
    for p in range(first, last):
        bias[p] = workspace.tile.rows[bias_row, p - first]
    n_kept = _keep(workspace, n_features, last - first, passes.threshold)
    for row in range(n_features):
        workspace.local[workspace.features[row]] = -1
    for at in range(members.offsets[group], members.offsets[group + 1]):
        workspace.place[members.items[at]] = -1
    return n_kept


@kernel_part
def _find_features(examples, positives, workspace, first, last):
    """Number the features of the tile, and mark each row's own; return how many there are."""
    n = 0
    for p in range(first, last):
        for at in range(positives.offsets[p], positives.offsets[p + 1]):
            i = positives.items[at]
            for f in range(examples.offsets[i], examples.offsets[i + 1]):
                feature = examples.columns[f]
                row = workspace.local[feature]
                if row < 0:
                    row = n
                    workspace.local[feature], workspace.features[n] = row, feature
                    store(workspace.support, row, 0, zeros())
                    store(workspace.support, row, SIMD_WIDTH, zeros())
                    n += 1
                workspace.support[row, p - first] = 1
    return n


@kernel_part
def _read_examples(examples, members, begin, n, passes, workspace):
    """Copy the examples of the tile with its features alone."""
    n_values = 0
    for m in range(n):
        i = members.items[begin + m]
        workspace.place[i] = m
        workspace.mask[m] = 0
        n_labels = examples.label_offsets[i + 1] - examples.label_offsets[i]
        workspace.weight[m] = n_labels if passes.sums else min(n_labels, 1)
        workspace.order[m] = m
        square = np.float32(passes.has_bias)
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            row = workspace.local[examples.columns[f]]
            workspace.columns[n_values] = row
            workspace.values[n_values] = examples.values[f]
            if row >= 0:
                square += examples.values[f] * examples.values[f]
                n_values += 1
        workspace.square[m] = square
        workspace.offsets[m + 1] = n_values


@kernel_part
def _mark_positives(positives, workspace, first, last):
    """Set the bits of the labels that each example has; it is one of the tile's."""
    for p in range(first, last):
        for at in range(positives.offsets[p], positives.offsets[p + 1]):
            m = workspace.place[positives.items[at]]
            workspace.mask[m] |= np.uint32(1) << np.uint32(p - first)


@kernel_part
def _clear(workspace, n_features, n, first_state):
    """Zeros for the parameters of a new tile, and the beginning of all that belongs to them."""
    tile = workspace.tile
    bias_row = tile.rows.shape[0] - 1
    for k in range(n_features + 1):
        row = k if k < n_features else bias_row
        for d in range(0, WIDTH, SIMD_WIDTH):
            store(tile.rows, row, d, zeros())
            if tile.state.shape[0] == tile.rows.shape[0]:
                store(tile.state, row, d, splat(first_state))
        if tile.decay_clock.size > 0:
            tile.decay_clock[row] = 0
    if tile.state.shape[0] == 1:
        store(tile.state, 0, 0, splat(first_state))
        store(tile.state, 0, SIMD_WIDTH, splat(first_state))
    for m in range(n):
        workspace.rest[m] = 0
        workspace.last_rest[m] = 0


@kernel_part
def _shuffle(order, n, key, counter):
    """Bring order[:n] into random order; return how many random numbers of the stream have been used."""
    for m in range(n - 1, 0, -1):
        other = low_half_below(bits(key, counter), m + 1)
        counter += np.uint64(1)
        order[m], order[other] = order[other], order[m]
    return counter


@kernel_part
def _choose(passes, workspace, begin, end, width):
    """The examples of a minibatch that are not passed over, with their labels; return how many they are."""
    n = 0
    batch = workspace.batch
    for position in range(begin, end):
        m = np.int64(workspace.order[position])
        if workspace.rest[m] > 0:
            workspace.rest[m] -= 1
            continue
        mask, weight = workspace.mask[m], splat(workspace.weight[m])
        for d in range(0, WIDTH, SIMD_WIDTH):
            store(batch.label, n, d, zeros())
            store(batch.sample_count, n, d, weight)
        for k in range(width, WIDTH):
            batch.sample_count[n, k] = 0
        if mask != 0:
            for k in range(width):
                if (mask >> np.uint32(k)) & np.uint32(1):
                    batch.label[n, k] = 1
                    if not passes.keeps_accidental_hits:
                        batch.sample_count[n, k] = 0
        workspace.active[n] = m
        n += 1
    return n


@kernel_part
def _scores(workspace, optimizer, n_active, bias_row, now):
    """The scores of a minibatch with the tile, once the weight decay that is due has been applied."""
    if optimizer.l2 > 0:
        for e in range(n_active):
            m = workspace.active[e]
            for at in range(workspace.offsets[m], workspace.offsets[m + 1]):
                decay_row(workspace.tile, np.int64(workspace.columns[at]), WIDTH, optimizer, now)
    _scores_of_tile(workspace, n_active, bias_row)


@kernel_part
def _scores_of_tile(workspace, n_active, bias_row):
    """The scores of a minibatch; two features at a time, so that four sums are under way at once."""
    one, w, columns, values = splat(np.float32(1)), workspace.tile.rows, workspace.columns, workspace.values
    for e in range(n_active):
        m = workspace.active[e]
        f, last = workspace.offsets[m], workspace.offsets[m + 1]
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
        store(workspace.batch.z, e, 0, multiply_add(one, a0, a1))
        store(workspace.batch.z, e, SIMD_WIDTH, multiply_add(one, b0, b1))


@kernel_part
def _sum_gradients(workspace, n_active, bias_row, scale, rests):
    """Add up what a minibatch asks of the tile; return how many features that are. Examples that ask nothing take a rest."""
    g, nothing = workspace.gradient, zeros()
    n_touched = 0
    for e in range(n_active):
        m = workspace.active[e]
        a = multiply_add(splat(scale), load(workspace.batch.z, e, 0), nothing)
        b = multiply_add(splat(scale), load(workspace.batch.z, e, SIMD_WIDTH), nothing)
        if is_zero(a) and is_zero(b):
            if rests and workspace.mask[m] == 0:
                workspace.last_rest[m] = min(2 * workspace.last_rest[m] + 1, LONGEST_REST)
                workspace.rest[m] = workspace.last_rest[m]
            continue
        workspace.last_rest[m] = 0
        for f in range(workspace.offsets[m], workspace.offsets[m + 1]):
            row, x = np.int64(workspace.columns[f]), splat(workspace.values[f])
            store(g, row, 0, multiply_add(x, a, load(g, row, 0)))
            store(g, row, SIMD_WIDTH, multiply_add(x, b, load(g, row, SIMD_WIDTH)))
            if not workspace.is_touched[row]:
                workspace.is_touched[row] = True
                workspace.touched[n_touched] = row
                n_touched += 1
        if bias_row >= 0:
            one = splat(np.float32(1))
            store(g, bias_row, 0, multiply_add(one, a, load(g, bias_row, 0)))
            store(g, bias_row, SIMD_WIDTH, multiply_add(one, b, load(g, bias_row, SIMD_WIDTH)))
    return n_touched


@kernel_part
def _step(workspace, n_touched, bias_row, optimizer, rate, now):
    """The step of the tile, within the supports; its gradient is zero afterwards."""
    tile, g, touched = workspace.tile, workspace.gradient, workspace.touched
    nothing = zeros()
    for k in range(n_touched):
        row = np.int64(touched[k])
        workspace.is_touched[row] = False
        store(g, row, 0, multiply_add(load(g, row, 0), load(workspace.support, row, 0), nothing))
        store(g, row, SIMD_WIDTH, multiply_add(load(g, row, SIMD_WIDTH), load(workspace.support, row, SIMD_WIDTH), nothing))
    accumulate_columns(tile, 0, touched, n_touched, bias_row, g, 0, WIDTH, optimizer)
    for k in range(n_touched + (bias_row >= 0)):
        row = np.int64(touched[k]) if k < n_touched else np.int64(bias_row)
        if not (is_zero(load(g, row, 0)) and is_zero(load(g, row, SIMD_WIDTH))):
            descend_columns(tile, row, 0, g, row, 0, WIDTH, optimizer, rate)
            store(g, row, 0, zeros())
            store(g, row, SIMD_WIDTH, zeros())


@kernel_part
def _follow(workspace, m, bias_row, rests):
    """Move the rows by the step of example m, within the supports; return its length. One without a step takes a rest."""
    a, b = load(workspace.batch.z, 0, 0), load(workspace.batch.z, 0, SIMD_WIDTH)
    if is_zero(a) and is_zero(b):
        if rests and workspace.mask[m] == 0:
            workspace.last_rest[m] = min(2 * workspace.last_rest[m] + 1, LONGEST_REST)
            workspace.rest[m] = workspace.last_rest[m]
        return np.float32(0)
    workspace.last_rest[m] = 0
    w, support, nothing = workspace.tile.rows, workspace.support, zeros()
    for f in range(workspace.offsets[m], workspace.offsets[m + 1]):
        row, x = np.int64(workspace.columns[f]), splat(workspace.values[f])
        store(w, row, 0, multiply_add(multiply_add(x, a, nothing), load(support, row, 0), load(w, row, 0)))
        store(
            w,
            row,
            SIMD_WIDTH,
            multiply_add(multiply_add(x, b, nothing), load(support, row, SIMD_WIDTH), load(w, row, SIMD_WIDTH)),
        )
    if bias_row >= 0:
        one = splat(np.float32(1))
        store(w, bias_row, 0, multiply_add(one, a, load(w, bias_row, 0)))
        store(w, bias_row, SIMD_WIDTH, multiply_add(one, b, load(w, bias_row, SIMD_WIDTH)))
    longest = np.float32(0)
    for k in range(WIDTH):
        longest = max(longest, abs(workspace.batch.z[0, k]))
    return longest


@kernel_part
def _keep(workspace, n_features, width, threshold):
    """Write the weights that are larger than the threshold; return how many they are."""
    n = 0
    for row in range(n_features):
        for k in range(width):
            value = workspace.tile.rows[row, k]
            if abs(value) > threshold:
                workspace.kept_feature[n], workspace.kept_lane[n] = workspace.features[row], k
                workspace.kept_value[n] = value
                n += 1
    return n


def like(examples: Examples, workspace: TileWorkspace, passes: Passes, constants: np.ndarray, how: Any) -> tuple[Any, ...]:
    """Arguments after the objective's function, of the types that a kernel is compiled for; `how` is the optimiser's rule of
    `train_tile`, the `c` of `train_tile_dual`.
    """
    lists = Lists(np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int32))
    return examples, lists, lists, 0, 0, 0, passes, constants, how, workspace, np.zeros(1, dtype=np.float32)
