"""Output rows for sparse features, dense or sparse.

A sparse row of a label has weights only for the features of its positive examples (its sparsity
mask). For any other feature the label is always a negative, and if features are non-negative the
weight could only fall; with signed features some weights are lost. The mask is known before
training. Memory is bounded by the sum over examples of labels times features, instead of all labels
times all features.

All weights are in slots, the only row of a `Table`: those of a row in order of features, then the
bias. A dense row has a slot for every feature; rows whose mask covers most features are dense, too.
To score a sparse row, the features of an example are scattered over a vector. The weights of the
row are then read one after another, or looked up feature by feature if they are many more.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray
from scipy.sparse import csr_matrix

from embedx.engine.examples import Csr, Examples
from embedx.kernels import ZERO, kernel_part, place_of
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, STATELESS, Table, UpdateRule
from embedx.optimizers.descend import descend_few, row_rate

BLOCK_ROWS = 4096  # number of rows whose sparsity masks are computed at a time
DENSE_FRACTION = 2  # a row is dense if its mask has at least one feature in DENSE_FRACTION
# Features of an example are looked up in a row with more than LOOK_UP_RATIO times as many weights:
# as many weights are read in the time of a binary search.
LOOK_UP_RATIO = 32


def slots_by_row(examples: Examples, examples_of_row: Csr, n_features: int, has_bias: bool) -> Csr:
    """The feature of each slot, row by row; n_features for the bias."""
    all_features = np.arange(n_features, dtype=int32)
    bias = np.full(int(has_bias), n_features, int32)
    parts = [np.zeros(0, int32)]
    sizes = [0]
    features = _ones_at(examples.columns, examples.offsets, n_features)
    n_examples = len(examples.offsets) - 1
    has_example = _ones_at(examples_of_row.indices, examples_of_row.indptr, n_examples)
    for start in range(0, has_example.shape[0], BLOCK_ROWS):
        masks = has_example[start : start + BLOCK_ROWS] @ features
        masks.sort_indices()
        for mask in np.split(masks.indices, masks.indptr[1:-1]):
            is_dense = DENSE_FRACTION * len(mask) >= n_features
            features_of_row = all_features if is_dense else mask
            parts += [features_of_row, bias]
            sizes.append(len(features_of_row) + has_bias)
    return Csr(np.cumsum(sizes, dtype=int64), np.concatenate(parts).astype(int32, copy=False))


def _ones_at(columns: ndarray, offsets: ndarray, n_columns: int) -> csr_matrix:
    """A matrix whose row i has ones in columns[offsets[i]:offsets[i + 1]]."""
    ones = np.ones(len(columns), float32)
    return csr_matrix((ones, columns, offsets), shape=(len(offsets) - 1, n_columns))


def new_sparse_table(slots: Csr, n_rows: int, optimizer: UpdateRule) -> Table:
    """A table whose only row has the slots, zeros, with the optimizer's state."""
    n_slots = len(slots.indices)
    shape = {STATELESS: (0, 1), PER_COORDINATE: (1, n_slots), PER_ROW: (n_rows, 1)}[optimizer.keeps]
    return Table(
        np.zeros((1, n_slots), float32), np.zeros(shape, float32), np.zeros(0), optimizer.keeps
    )


def flat(table: Table) -> Table:
    """A view of a table with all its numbers in one row."""
    state = table.state.reshape(1, -1) if table.keeps == PER_COORDINATE else table.state
    return table._replace(rows=table.rows.reshape(1, -1), state=state)


# ---- row by row


@kernel_part
def scatter(shared, first, last, x, is_on):
    """Scatter the features first:last over a vector of zeros if `is_on`, else reset it to zeros."""
    if shared.plan.has_sparse_rows:
        for f in range(first, last):
            x[shared.examples.columns[f]] = shared.examples.values[f] if is_on else ZERO


@kernel_part
def _slots_of(shared, row):
    """(first slot, number of features) of a row. The slot behind these is that of the bias."""
    if not shared.plan.has_sparse_rows:
        return row * shared.outputs.rows.shape[1], int64(shared.plan.n_features)
    begin = shared.slots.indptr[row]
    return begin, shared.slots.indptr[row + 1] - shared.plan.has_bias - begin


@kernel_part
def _slot_of(shared, begin, n, feature):
    """The slot of a feature of the row that has slots begin:begin + n; -1 if it has none."""
    if n == shared.plan.n_features:
        return begin + feature
    return place_of(feature, shared.slots.indices, begin, begin + n)


@kernel_part
def _looks_up_features(shared, n, n_values):
    """Whether n_values features are looked up among the n weights of a row, instead of reading all
    weights.
    """
    return n == shared.plan.n_features or n > LOOK_UP_RATIO * n_values


@kernel_part
def score_of_row(shared, first, last, x, row):
    """The score of a row for the example whose features are first:last, scattered over x."""
    examples = shared.examples
    w = shared.weights.rows
    begin, n = _slots_of(shared, row)
    z = w[0, begin + n] if shared.plan.has_bias else ZERO
    if n == shared.plan.n_features:
        for f in range(first, last):
            z += examples.values[f] * w[0, begin + examples.columns[f]]
    elif _looks_up_features(shared, n, last - first):
        for f in range(first, last):
            at = _slot_of(shared, begin, n, examples.columns[f])
            if at >= 0:
                z += examples.values[f] * w[0, at]
    else:
        for at in range(begin, begin + n):
            z += w[0, at] * x[shared.slots.indices[at]]
    return z


@kernel_part
def gain_of_row(shared, first, last, x, row):
    """Change of the score of `score_of_row` when the row moves along the example: the sum of the
    squares of the features in its mask.
    """
    square = float32(shared.plan.has_bias)
    begin, n = _slots_of(shared, row)
    if n == shared.plan.n_features:
        for f in range(first, last):
            square += shared.examples.values[f] * shared.examples.values[f]
    else:
        for at in range(begin, begin + n):
            square += x[shared.slots.indices[at]] * x[shared.slots.indices[at]]
    return square


class SlotSteps(NamedTuple):
    """A worker's buffers for the slots that a step moves."""

    slots: ndarray  # int64 (n,)
    gradient: ndarray  # float32 (1, n)


def new_slot_steps(n: int) -> SlotSteps:
    return SlotSteps(np.zeros(n, int64), np.zeros((1, n), float32))


@kernel_part
def step_of_row(shared, workspace, chosen, row, rate):
    """Update a row along workspace.gradient, which has a number for each feature and is zero
    afterwards.
    """
    table = shared.weights
    steps = workspace.slot_steps
    optimizer = shared.optimizer
    n = _collect(shared, workspace, chosen, row)
    if table.keeps == PER_ROW:
        square = ZERO
        for k in range(n):
            square += steps.gradient[0, k] * steps.gradient[0, k]
        rate = row_rate(table, row, square, optimizer, rate)
    descend_few(table, 0, steps.slots[:n], steps.gradient, optimizer, rate)


@kernel_part
def _collect(shared, workspace, chosen, row):
    """Collect the gradient of the slots of a row, and zero workspace.gradient; return the number of
    slots to update.
    """
    plan = shared.plan
    examples = shared.examples
    g = workspace.gradient
    steps = workspace.slot_steps
    begin, n_slots = _slots_of(shared, row)
    n = n_values = 0
    if plan.has_bias:
        n = _collect_one(steps, begin + n_slots, g, plan.dim - 1, n)
    groups = workspace.groups
    width = workspace.batch.z.shape[1]
    entry = groups.first_entry[row]
    while entry >= 0:
        i = chosen[workspace.example[entry // width]]
        n_values += examples.offsets[i + 1] - examples.offsets[i]
        entry = groups.next_entry[entry]
    looks_up_features = _looks_up_features(shared, n_slots, n_values)
    if not looks_up_features:
        for at in range(begin, begin + n_slots):
            n = _collect_one(steps, at, g, int64(shared.slots.indices[at]), n)
    entry = groups.first_entry[row]
    while entry >= 0:
        i = chosen[workspace.example[entry // width]]
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            feature = int64(examples.columns[f])
            if looks_up_features and g[0, feature] != 0:
                n = _collect_one(steps, _slot_of(shared, begin, n_slots, feature), g, feature, n)
            g[0, feature] = 0
        entry = groups.next_entry[entry]
    return n


@kernel_part
def _collect_one(steps, slot, g, feature, n):
    """Make `slot` the n-th to update, if it is not -1 and its gradient is not zero; return the
    number of slots so far.
    """
    if slot >= 0 and g[0, feature] != 0:
        steps.slots[n] = slot
        steps.gradient[0, n] = g[0, feature]
        g[0, feature] = 0
        n += 1
    return n
