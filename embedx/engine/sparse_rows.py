"""Output rows that have numbers for some features alone, in inverted lists: for each feature the rows that have one there.

A label's row needs a weight only where an example that has the label has a feature (its support): elsewhere it is met as a
rival alone, and could only be pushed down. The support is known before training, and bounds memory by the sum over examples of
their labels times their features instead of by labels times features.

The numbers stand in slots, as the only row of a `Table`, and a slot knows its output row. The slots of a feature

    are as many as there are rows, one for each in order, where that is less than twice the rows that have the feature
    else twice as many as rows that have it, and a row is at its hash or, if that is taken, at the next that is free

so that a drawn row is found at once (`slot_of`), and all the rows of a feature are read one after another. The bias is the last
feature, which all rows have.
"""

from typing import NamedTuple

import numpy as np

from embedx.engine.examples import Examples, Groups, new_groups, put
from embedx.engine.label_tiles import Lists
from embedx.kernels.compiled import kernel, kernel_part
from embedx.optimizers.contract import NOTHING, NUMBER, ROW, Table, UpdateRule
from embedx.optimizers.descend import descend_few, row_rate

EMPTY = -1
MOST_SLOTS = 2**31 - 1
GOLDEN = np.uint64(2654435769)  # 2^32 over the golden ratio: multiples of it spread evenly (Knuth, section 6.4)
LOW_HALF, HALF = np.uint64(2**32 - 1), np.uint64(32)


class Slots(NamedTuple):
    """Which numbers of the output rows there are; without rows if output rows are whole."""

    offsets: np.ndarray  # int64 (n_features + has_bias + 1,): the slots of feature f are those at offsets[f]:offsets[f + 1]
    rows: np.ndarray  # int32 (n_slots,): the output row that each belongs to, EMPTY for none


def no_slots() -> Slots:
    """What stands for the slots of output rows that are whole."""
    return Slots(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32))


# ---- which there are


def slots_of(n_of_feature: np.ndarray, n_rows: int) -> np.ndarray:
    """int64 (n_features + 1,): where the slots of each feature begin, for features that so many of the rows have."""
    n_slots = np.minimum(2 * n_of_feature.astype(np.int64), n_rows)
    return np.concatenate([[0], np.cumsum(n_slots)]).astype(np.int64)


def rows_of_features(examples: Examples, examples_of_row: Lists, n_features: int) -> np.ndarray:
    """int64 (n_features,): how many rows have each feature, of rows that have those of these examples."""
    n_of_feature, last_row = np.zeros(n_features, dtype=np.int64), np.full(n_features, EMPTY, dtype=np.int32)
    _count_rows(examples, examples_of_row, last_row, n_of_feature)
    return n_of_feature


def build_slots(
    examples: Examples, examples_of_row: Lists, n_of_feature: np.ndarray, *, has_bias: bool, n_rows: int
) -> Slots:
    """The slots of rows that have the features of these examples, of which `rows_of_features` has counted the rows."""
    n_features = len(n_of_feature)
    if has_bias:
        n_of_feature = np.append(n_of_feature, n_rows)
    offsets = slots_of(n_of_feature, n_rows)
    slots = Slots(offsets, np.full(offsets[-1], EMPTY, dtype=np.int32))
    _fill_slots(examples, examples_of_row, np.full(n_features, EMPTY, dtype=np.int32), n_rows, slots)
    if has_bias:
        slots.rows[offsets[-2] :] = np.arange(n_rows)
    return slots


@kernel
def _count_rows(examples, examples_of_row, last_row, n_of_feature):
    """Count the rows of each feature; last_row is EMPTY before."""
    for row in range(examples_of_row.offsets.size - 1):
        for at in range(examples_of_row.offsets[row], examples_of_row.offsets[row + 1]):
            i = examples_of_row.items[at]
            for f in range(examples.offsets[i], examples.offsets[i + 1]):
                feature = examples.columns[f]
                if last_row[feature] != row:
                    last_row[feature] = row
                    n_of_feature[feature] += 1


@kernel
def _fill_slots(examples, examples_of_row, last_row, n_rows, slots):
    """Write the row of each slot that has one; last_row is EMPTY before."""
    for row in range(examples_of_row.offsets.size - 1):
        for at in range(examples_of_row.offsets[row], examples_of_row.offsets[row + 1]):
            i = examples_of_row.items[at]
            for f in range(examples.offsets[i], examples.offsets[i + 1]):
                feature = np.int64(examples.columns[f])
                if last_row[feature] != row:
                    last_row[feature] = row
                    slots.rows[_place(slots, n_rows, row, feature)] = row


@kernel_part
def _place(slots, n_rows, row, feature):
    """The slot of a row among those of a feature, or the empty one where it would be; the feature has slots."""
    begin, end = slots.offsets[feature], slots.offsets[feature + 1]
    if end - begin == n_rows:
        return begin + row
    spread = np.uint64(row) * GOLDEN & LOW_HALF
    at = begin + np.int64(spread * np.uint64(end - begin) >> HALF)
    while slots.rows[at] != row and slots.rows[at] != EMPTY:
        at += 1
        if at == end:
            at = begin
    return at


@kernel_part
def slot_of(slots, n_rows, row, feature):
    """The slot of a row's number for a feature; EMPTY if it has none."""
    if slots.offsets[feature] == slots.offsets[feature + 1]:
        return np.int64(EMPTY)
    at = _place(slots, n_rows, row, feature)
    return at if slots.rows[at] == row else np.int64(EMPTY)


def new_sparse_table(slots: Slots, n_rows: int, optimizer: UpdateRule) -> Table:
    """A table whose only row are the numbers of the slots, zeros, with room for what the optimiser keeps."""
    n_slots = len(slots.rows)
    shape = {NOTHING: (0, 1), NUMBER: (1, n_slots), ROW: (n_rows, 1)}[optimizer.keeps]
    return Table(
        np.zeros((1, n_slots), dtype=np.float32), np.zeros(shape, dtype=np.float32), np.zeros(0), optimizer.keeps
    )


# ---- a few rows for each example


@kernel_part
def score_of_row(examples, first, last, slots, table, n_rows, row, bias):
    """The score of a row for the example whose features are first:last; `bias` is the feature of the biases, -1 without."""
    z = np.float32(0)
    if bias >= 0:
        z = table.rows[0, slots.offsets[bias] + row]
    for f in range(first, last):
        at = slot_of(slots, n_rows, row, np.int64(examples.columns[f]))
        if at >= 0:
            z += examples.values[f] * table.rows[0, at]
    return z


@kernel_part
def gain_of_row(examples, first, last, slots, n_rows, row, bias):
    """By how much the score of `score_of_row` changes as the row moves along the example: the squares of what it has."""
    square = np.float32(bias >= 0)
    for f in range(first, last):
        if slot_of(slots, n_rows, row, np.int64(examples.columns[f])) >= 0:
            square += examples.values[f] * examples.values[f]
    return square


class SlotSteps(NamedTuple):
    """A worker's memory for the slots that a step moves."""

    slots: np.ndarray  # int64 (n,)
    gradient: np.ndarray  # float32 (1, n)


def new_slot_steps(n: int) -> SlotSteps:
    return SlotSteps(np.zeros(n, dtype=np.int64), np.zeros((1, n), dtype=np.float32))


@kernel_part
def collect_slots(examples, first, last, slots, n_rows, row, gradient, n, steps):
    """Add the slots of a row for the features first:last, with their gradient[0, feature], to the n that move; their number.

    `gradient` is zero there afterwards, so that a feature named again does not count again.
    """
    for f in range(first, last):
        feature = np.int64(examples.columns[f])
        g = gradient[0, feature]
        if g != 0:
            gradient[0, feature] = 0
            at = slot_of(slots, n_rows, row, feature)
            if at >= 0:
                steps.slots[n], steps.gradient[0, n] = at, g
                n += 1
    return n


@kernel_part
def step_of_slots(table, row, steps, n, optimizer, rate):
    """One step of the n slots of an output row."""
    if table.state_of == ROW:
        square = np.float32(0)
        for k in range(n):
            square += steps.gradient[0, k] * steps.gradient[0, k]
        rate = row_rate(table, row, square, optimizer, rate)
    descend_few(table, 0, steps.slots[:n], steps.gradient, optimizer, rate)


# ---- all rows for each example


@kernel
def all_scores(examples, order, begin, first, last, slots, table, bias, n_rows, z):
    """Overwrite z[e, :n_rows] by the scores of the examples order[begin + e], e in first:last."""
    for e in range(first, last):
        i = order[begin + e]
        for row in range(n_rows):
            z[e, row] = table.rows[0, slots.offsets[bias] + row] if bias >= 0 else np.float32(0)
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            feature, x = examples.columns[f], examples.values[f]
            for at in range(slots.offsets[feature], slots.offsets[feature + 1]):
                row = slots.rows[at]
                if row >= 0:
                    z[e, row] += x * table.rows[0, at]


class FeatureLists(NamedTuple):
    """The values of a minibatch by feature, the bias among them."""

    groups: Groups
    value: np.ndarray  # float32 (max values,)
    example: np.ndarray  # int32 (max values,): the example in the minibatch that a value belongs to


def new_feature_lists(examples: Examples, n_features: int, batch_size: int) -> FeatureLists:
    """Memory for minibatches of any examples; `n_features` includes the bias."""
    n = int(np.sort(np.diff(examples.offsets))[::-1][:batch_size].sum()) + batch_size
    return FeatureLists(new_groups(n_features, n), np.zeros(n, dtype=np.float32), np.zeros(n, dtype=np.int32))


@kernel
def list_features(examples, order, begin, end, bias, lists):
    """Write the values of the examples order[begin:end] by feature; return the number of features."""
    n = n_features = 0
    for e in range(end - begin):
        i = order[begin + e]
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            n_features = put(lists.groups, np.int64(examples.columns[f]), n, n_features)
            lists.value[n], lists.example[n] = examples.values[f], e
            n += 1
        if bias >= 0:
            n_features = put(lists.groups, bias, n, n_features)
            lists.value[n], lists.example[n] = 1, e
            n += 1
    return n_features


@kernel
def forget_features(lists, n_features):
    """Have no feature begin a list."""
    for t in range(n_features):
        lists.groups.first[lists.groups.touched[t]] = -1


@kernel_part
def _collect_gradients(lists, slots, feature, z, steps):
    """Write the slots of a feature whose gradient by the coefficients z is not 0, and that; their number."""
    n = 0
    for at in range(slots.offsets[feature], slots.offsets[feature + 1]):
        row = slots.rows[at]
        if row >= 0:
            g = np.float32(0)
            entry = lists.groups.first[feature]
            while entry >= 0:
                g += lists.value[entry] * z[lists.example[entry], row]
                entry = lists.groups.following[entry]
            if g != 0:
                steps.slots[n], steps.gradient[0, n] = at, g
                n += 1
    return n


@kernel
def add_squares(lists, slots, z, first, last, steps, square):
    """Add to square[row] what the features first:last of the lists have of the squared length of its gradient."""
    for t in range(first, last):
        n = _collect_gradients(lists, slots, np.int64(lists.groups.touched[t]), z, steps)
        for k in range(n):
            square[slots.rows[steps.slots[k]]] += steps.gradient[0, k] * steps.gradient[0, k]


@kernel
def rates_of_rows(table, square, optimizer, rate, rates):
    """Overwrite `rates` by those of rows whose gradients have these squared lengths, which their states are told."""
    for row in range(square.size):
        if square[row] > 0:
            rates[row] = row_rate(table, row, square[row], optimizer, rate)


@kernel
def step_of_features(table, lists, slots, z, first, last, steps, optimizer, rate, rates):
    """The steps of all rows' numbers for the features first:last of the lists, by the coefficients z (examples, >= rows).

    rates  float32 (n_rows,), of `rates_of_rows` where rows have a state each
    """
    for t in range(first, last):
        n = _collect_gradients(lists, slots, np.int64(lists.groups.touched[t]), z, steps)
        if table.state_of == ROW:
            for k in range(n):
                steps.gradient[0, k] *= rates[slots.rows[steps.slots[k]]]
            descend_few(table, 0, steps.slots[:n], steps.gradient, optimizer, np.float32(1))
        else:
            descend_few(table, 0, steps.slots[:n], steps.gradient, optimizer, rate)
