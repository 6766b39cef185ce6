"""Output rows that have numbers for some features alone.

A label's row has weights only where an example that has the label has a feature (its support): elsewhere it is a negative of
every example, and non-negative features could only push its weights down; with signed ones some weights are lost. The support
is known before training, and bounds memory by the sum over examples of their labels times their features instead of by labels
times features.

The weights stand in slots, which are the only row of a `Table`: a row's features in ascending order, or all features where it
has most of them, then the bias. A row is scored against an example whose features are scattered over a vector: its weights are
read one after another, or looked up where they are many more.
"""

from typing import NamedTuple

import numpy as np

from embedx.engine.examples import Examples
from embedx.engine.label_tiles import Lists
from embedx.kernels.compiled import kernel, kernel_part
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, STATELESS, Table, UpdateRule
from embedx.optimizers.descend import descend_few, row_rate

EMPTY = -1
MOSTLY = 2  # a row with one feature out of so many has slots for all of them
SOUGHT = 8  # times as many numbers as the example has features, from which on these are sought among them


class Slots(NamedTuple):
    """Which numbers of the output rows there are. Empty where output rows are whole."""

    offsets: np.ndarray  # int64 (n + 1,): the slots of row k are those at offsets[k]:offsets[k + 1]
    of_slot: np.ndarray  # int32 (n_slots,): the feature that each belongs to; EMPTY for none


def no_slots() -> Slots:
    """What stands for the slots of output rows that are whole."""
    return Slots(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32))


class Support(NamedTuple):
    """How many numbers output rows have."""

    of_row: np.ndarray  # int64 (n_rows,): features that each row has
    of_feature: np.ndarray  # int64 (n_features,): rows that have each feature

    def slots_by_row(self, has_bias: bool) -> np.ndarray:
        """int64 (n_rows + 1,): where the slots of each row begin."""
        n_features = len(self.of_feature)
        n = np.where(MOSTLY * self.of_row >= n_features, n_features, self.of_row) + has_bias
        return np.concatenate([[0], np.cumsum(n)]).astype(np.int64)


def support_of(examples: Examples, examples_of_row: Lists, n_features: int) -> Support:
    """The support of rows that have the features of these examples."""
    n_rows = len(examples_of_row.offsets) - 1
    support = Support(np.zeros(n_rows, dtype=np.int64), np.zeros(n_features, dtype=np.int64))
    last_row, features = np.full((2, n_features), EMPTY, dtype=np.int32)
    _count(examples, examples_of_row, last_row, features, support)
    return support


def slots_by_row(examples: Examples, examples_of_row: Lists, support: Support, has_bias: bool) -> Slots:
    """The slots of output rows, row by row."""
    n_features = len(support.of_feature)
    offsets = support.slots_by_row(has_bias)
    slots = Slots(offsets, np.full(offsets[-1], EMPTY, dtype=np.int32))
    _fill_by_row(_rows_by_feature(examples, examples_of_row, support), n_features, has_bias, offsets.copy(), slots)
    return slots


def _rows_by_feature(examples: Examples, examples_of_row: Lists, support: Support) -> Slots:
    """The rows that have each feature, ascending: the transpose of the slots."""
    offsets = np.concatenate([[0], np.cumsum(support.of_feature)]).astype(np.int64)
    rows = Slots(offsets, np.full(offsets[-1], EMPTY, dtype=np.int32))
    last_row, features = np.full((2, len(support.of_feature)), EMPTY, dtype=np.int32)
    _fill_by_feature(examples, examples_of_row, last_row, features, offsets.copy(), rows)
    return rows


@kernel_part
def _features_of(examples, examples_of_row, row, last_row, features):
    """Write the features of a row's examples to `features`, each once; their number. last_row is EMPTY before the first row."""
    n = 0
    for at in range(examples_of_row.offsets[row], examples_of_row.offsets[row + 1]):
        i = examples_of_row.items[at]
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            feature = examples.columns[f]
            if last_row[feature] != row:
                last_row[feature] = row
                features[n] = feature
                n += 1
    return n


@kernel
def _count(examples, examples_of_row, last_row, features, support):
    """Count features by row and rows by feature."""
    for row in range(examples_of_row.offsets.size - 1):
        n = _features_of(examples, examples_of_row, row, last_row, features)
        support.of_row[row] = n
        for k in range(n):
            support.of_feature[features[k]] += 1


@kernel
def _fill_by_row(by_feature, n_features, has_bias, following, slots):
    """Write the feature of each slot that has one, following[row] being the first of a row, which have EMPTY before."""
    for feature in range(n_features):
        for at in range(by_feature.offsets[feature], by_feature.offsets[feature + 1]):
            row = np.int64(by_feature.of_slot[at])
            if slots.offsets[row + 1] - has_bias - slots.offsets[row] == n_features:
                slots.of_slot[slots.offsets[row] + feature] = feature
            else:
                slots.of_slot[following[row]] = feature
                following[row] += 1
    if has_bias:
        for k in range(following.size - 1):
            slots.of_slot[slots.offsets[k + 1] - 1] = n_features


@kernel
def _fill_by_feature(examples, examples_of_row, last_row, features, following, slots):
    """Write the row of each slot, following[feature] being the first of a feature."""
    for row in range(examples_of_row.offsets.size - 1):
        for k in range(_features_of(examples, examples_of_row, row, last_row, features)):
            feature = features[k]
            slots.of_slot[following[feature]] = row
            following[feature] += 1


def new_sparse_table(slots: Slots, n_rows: int, optimizer: UpdateRule) -> Table:
    """A table whose only row are the numbers of the slots, zeros, with room for what the optimiser keeps."""
    n_slots = len(slots.of_slot)
    shape = {STATELESS: (0, 1), PER_COORDINATE: (1, n_slots), PER_ROW: (n_rows, 1)}[optimizer.keeps]
    return Table(np.zeros((1, n_slots), dtype=np.float32), np.zeros(shape, dtype=np.float32), np.zeros(0), optimizer.keeps)


# ---- row by row: a few rows for each example


@kernel_part
def scatter(examples, first, last, x):
    """Write the features first:last of an example over a vector of zeros."""
    for f in range(first, last):
        x[examples.columns[f]] = examples.values[f]


@kernel_part
def clear_scattered(examples, first, last, x):
    """Leave the vector zeros again."""
    for f in range(first, last):
        x[examples.columns[f]] = 0


@kernel_part
def _slot_of(slots, begin, end, feature):
    """The slot of a feature among begin:end, where features ascend; EMPTY if it has none."""
    while begin < end:
        middle = (begin + end) // 2
        if slots.of_slot[middle] < feature:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel_part
def is_sought(slots, has_bias, row, n_features, n_values):
    """Whether a row's numbers are looked up one by one for so many values of examples, rather than read one after another."""
    n = slots.offsets[row + 1] - has_bias - slots.offsets[row]
    return n == n_features or n > SOUGHT * n_values


@kernel_part
def score_of_row(examples, first, last, x, slots, table, has_bias, row):
    """The score of a row for the example whose features are first:last, and x the vector that they are scattered over."""
    begin, end = slots.offsets[row], slots.offsets[row + 1] - has_bias
    z = table.rows[0, end] if has_bias else np.float32(0)
    if end - begin == x.size:  # where a row has no number it is 0
        for f in range(first, last):
            z += examples.values[f] * table.rows[0, begin + examples.columns[f]]
    elif is_sought(slots, has_bias, row, x.size, last - first):
        for f in range(first, last):
            at = _slot_of(slots, begin, end, examples.columns[f])
            if at < end and slots.of_slot[at] == examples.columns[f]:
                z += examples.values[f] * table.rows[0, at]
    else:
        for at in range(begin, end):
            z += table.rows[0, at] * x[slots.of_slot[at]]
    return z


@kernel_part
def gain_of_row(x, slots, has_bias, row):
    """By how much the score of `score_of_row` changes as the row moves along the example: the squares of what it has."""
    square = np.float32(has_bias)
    for at in range(slots.offsets[row], slots.offsets[row + 1] - has_bias):
        if slots.of_slot[at] >= 0:
            square += x[slots.of_slot[at]] * x[slots.of_slot[at]]
    return square


class SlotSteps(NamedTuple):
    """A worker's memory for the slots that a step moves."""

    slots: np.ndarray  # int64 (n,)
    gradient: np.ndarray  # float32 (1, n)


def new_slot_steps(n: int) -> SlotSteps:
    return SlotSteps(np.zeros(n, dtype=np.int64), np.zeros((1, n), dtype=np.float32))


@kernel_part
def collect_bias(slots, row, g, steps):
    """Begin the slots of a row that move by its bias, if that has a gradient; their number."""
    if g == 0:
        return 0
    steps.slots[0], steps.gradient[0, 0] = slots.offsets[row + 1] - 1, g
    return 1


@kernel_part
def collect_sought(examples, first, last, slots, has_bias, row, gradient, n, steps):
    """Add the slots of a row for the features first:last, with their gradient[0, feature], to the n that move; their number.

    `gradient` is zero there afterwards, so that a feature named again does not count again.
    """
    begin, end = slots.offsets[row], slots.offsets[row + 1] - has_bias
    is_whole = end - begin == gradient.shape[1] - has_bias
    for f in range(first, last):
        feature = np.int64(examples.columns[f])
        g = gradient[0, feature]
        if g != 0:
            gradient[0, feature] = 0
            at = begin + feature if is_whole else _slot_of(slots, begin, end, feature)
            if at < end and slots.of_slot[at] == feature:
                steps.slots[n], steps.gradient[0, n] = at, g
                n += 1
    return n


@kernel_part
def collect_read(slots, has_bias, row, gradient, n, steps):
    """The same for all features at once; `gradient` stays."""
    for at in range(slots.offsets[row], slots.offsets[row + 1] - has_bias):
        g = gradient[0, slots.of_slot[at]]
        if g != 0:
            steps.slots[n], steps.gradient[0, n] = at, g
            n += 1
    return n


@kernel_part
def step_of_slots(table, row, steps, n, optimizer, rate):
    """One step of the n slots of an output row."""
    if table.state_of == PER_ROW:
        square = np.float32(0)
        for k in range(n):
            square += steps.gradient[0, k] * steps.gradient[0, k]
        rate = row_rate(table, row, square, optimizer, rate)
    descend_few(table, 0, steps.slots[:n], steps.gradient, optimizer, rate)
