"""Output rows that have numbers for some features alone.

A label's row has weights only where an example that has the label has a feature (its support): elsewhere it is a negative of
every example, and non-negative features could only push its weights down; with signed ones some weights are lost. The support
is known before training, and bounds memory by the sum over examples of their labels times their features instead of by labels
times features.

The weights stand in slots, which are the only row of a `Table`: a row's features in ascending order, or all features where it
has most of them, then the bias. A row is scored against an example whose features are scattered over a vector: its weights are
read one after another, or looked up where they are many more.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from embedx.engine.examples import Csr, Examples
from embedx.kernels.compiled import kernel_part
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, STATELESS, Table, UpdateRule
from embedx.optimizers.descend import descend_few, row_rate

EMPTY = -1
BLOCK_ROWS = 4096  # whose sparsity masks are computed at a time
MOSTLY = 2  # a row with one feature out of so many has slots for all of them
SOUGHT = 8  # times as many numbers as the example has features, from which on these are sought among them


def slots_by_row(examples: Examples, examples_of_row: Csr, n_features: int, has_bias: bool) -> Csr:
    """The feature of each slot, row by row; EMPTY for none, n_features for the bias."""
    sizes = [np.zeros(0, np.int64), *(np.diff(each.indptr) for each in _masks(examples, examples_of_row, n_features))]
    counts = np.concatenate(sizes).astype(np.int64)
    n_slots = np.where(MOSTLY * counts >= n_features, n_features, counts) + has_bias
    indptr = np.concatenate([[0], np.cumsum(n_slots)]).astype(np.int64)
    indices = np.full(indptr[-1], EMPTY, dtype=np.int32)
    first = 0
    for mask in _masks(examples, examples_of_row, n_features):
        n = np.diff(mask.indptr)
        rows = np.repeat(np.arange(len(n)), n)
        place = np.where((MOSTLY * n >= n_features)[rows], mask.indices, np.arange(mask.nnz) - mask.indptr[rows])
        indices[indptr[first + rows] + place] = mask.indices
        first += len(n)
    if has_bias:
        indices[indptr[1:] - 1] = n_features
    return Csr(indptr, indices)


def _masks(examples: Examples, examples_of_row: Csr, n_features: int) -> Iterator[csr_matrix]:
    """The sparsity mask, csr_matrix (n_rows, n_features) with sorted indices, some rows at a time."""
    n = len(examples.offsets) - 1
    features, has_example = (
        csr_matrix((np.ones(len(indices), dtype=np.float32), indices, indptr), shape=(len(indptr) - 1, width))
        for indices, indptr, width in (
            (examples.columns, examples.offsets, n_features),
            (examples_of_row.indices, examples_of_row.indptr, n),
        )
    )
    for start in range(0, has_example.shape[0], BLOCK_ROWS):
        mask = has_example[start : start + BLOCK_ROWS] @ features
        mask.sort_indices()
        yield mask


def new_sparse_table(slots: Csr, n_rows: int, optimizer: UpdateRule) -> Table:
    """A table whose only row are the numbers of the slots, zeros, with room for what the optimiser keeps."""
    n_slots = len(slots.indices)
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
        if slots.indices[middle] < feature:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel_part
def is_sought(slots, has_bias, row, n_features, n_values):
    """Whether a row's numbers are looked up one by one for so many values of examples, rather than read one after another."""
    n = slots.indptr[row + 1] - has_bias - slots.indptr[row]
    return n == n_features or n > SOUGHT * n_values


@kernel_part
def score_of_row(examples, first, last, x, slots, table, has_bias, row):
    """The score of a row for the example whose features are first:last, and x the vector that they are scattered over."""
    begin, end = slots.indptr[row], slots.indptr[row + 1] - has_bias
    z = table.rows[0, end] if has_bias else np.float32(0)
    if end - begin == x.size:  # where a row has no number it is 0
        for f in range(first, last):
            z += examples.values[f] * table.rows[0, begin + examples.columns[f]]
    elif is_sought(slots, has_bias, row, x.size, last - first):
        for f in range(first, last):
            at = _slot_of(slots, begin, end, examples.columns[f])
            if at < end and slots.indices[at] == examples.columns[f]:
                z += examples.values[f] * table.rows[0, at]
    else:
        for at in range(begin, end):
            z += table.rows[0, at] * x[slots.indices[at]]
    return z


@kernel_part
def gain_of_row(x, slots, has_bias, row):
    """By how much the score of `score_of_row` changes as the row moves along the example: the squares of what it has."""
    square = np.float32(has_bias)
    for at in range(slots.indptr[row], slots.indptr[row + 1] - has_bias):
        if slots.indices[at] >= 0:
            square += x[slots.indices[at]] * x[slots.indices[at]]
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
    steps.slots[0], steps.gradient[0, 0] = slots.indptr[row + 1] - 1, g
    return 1


@kernel_part
def collect_sought(examples, first, last, slots, has_bias, row, gradient, n, steps):
    """Add the slots of a row for the features first:last, with their gradient[0, feature], to the n that move; their number.

    `gradient` is zero there afterwards, so that a feature named again does not count again.
    """
    begin, end = slots.indptr[row], slots.indptr[row + 1] - has_bias
    is_whole = end - begin == gradient.shape[1] - has_bias
    for f in range(first, last):
        feature = np.int64(examples.columns[f])
        g = gradient[0, feature]
        if g != 0:
            gradient[0, feature] = 0
            at = begin + feature if is_whole else _slot_of(slots, begin, end, feature)
            if at < end and slots.indices[at] == feature:
                steps.slots[n], steps.gradient[0, n] = at, g
                n += 1
    return n


@kernel_part
def collect_read(slots, has_bias, row, gradient, n, steps):
    """The same for all features at once; `gradient` stays."""
    for at in range(slots.indptr[row], slots.indptr[row + 1] - has_bias):
        g = gradient[0, slots.indices[at]]
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
