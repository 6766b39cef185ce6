"""Output rows that meet sparse features: rows of weights for all features, or for some alone.

With sparse rows a label's row has weights only where an example that has the label has a feature
(its support): elsewhere it is a negative of every example, and non-negative features could only
push its weights down; with signed ones some weights are lost. The support is known before training,
and bounds memory by the sum over examples of their labels times their features instead of by labels
times features.

All weights stand in slots, which are the only row of a `Table`: those of a row by ascending
feature, then the bias. A whole row has a slot for each feature, as all rows have without sparse
rows, and those have whose support is most of the features. Others are scored against an example
whose features are scattered over a vector: their weights are read one after another, or looked up
where they are many more.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray
from scipy.sparse import csr_matrix

from embedx.engine.examples import Csr, Examples
from embedx.kernels import ZERO, kernel_part, place_of
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, STATELESS, Table, UpdateRule
from embedx.optimizers.descend import descend_few, row_rate

BLOCK_ROWS = 4096  # whose sparsity masks are computed at a time
MOSTLY = 2  # a row with one feature out of so many is whole
# times as many weights as the example has features, from which on these are sought among them
SOUGHT = 8


def slots_by_row(examples: Examples, examples_of_row: Csr, n_features: int, has_bias: bool) -> Csr:
    """The feature of each slot, row by row; n_features for the bias."""
    all_features = np.arange(n_features, dtype=int32)
    bias = np.full(int(has_bias), n_features, int32)
    parts = [np.zeros(0, int32)]
    sizes = [0]
    features, has_example = (
        csr_matrix(
            (np.ones(len(indices), float32), indices, indptr), shape=(len(indptr) - 1, width)
        )
        for indices, indptr, width in (
            (examples.columns, examples.offsets, n_features),
            (examples_of_row.indices, examples_of_row.indptr, len(examples.offsets) - 1),
        )
    )
    for start in range(0, has_example.shape[0], BLOCK_ROWS):
        mask = has_example[start : start + BLOCK_ROWS] @ features
        mask.sort_indices()
        for support in np.split(mask.indices, mask.indptr[1:-1]):
            is_whole = MOSTLY * len(support) >= n_features
            features_of_row = all_features if is_whole else support
            parts += [features_of_row, bias]
            sizes.append(len(features_of_row) + has_bias)
    return Csr(np.cumsum(sizes, dtype=int64), np.concatenate(parts).astype(int32, copy=False))


def new_sparse_table(slots: Csr, n_rows: int, optimizer: UpdateRule) -> Table:
    """A table whose only row are the numbers of the slots, zeros, with room for what the optimiser
    keeps.
    """
    n_slots = len(slots.indices)
    shape = {STATELESS: (0, 1), PER_COORDINATE: (1, n_slots), PER_ROW: (n_rows, 1)}[optimizer.keeps]
    return Table(
        np.zeros((1, n_slots), float32), np.zeros(shape, float32), np.zeros(0), optimizer.keeps
    )


def flat(table: Table) -> Table:
    """The numbers of a table as its only row, a view."""
    state = table.state.reshape(1, -1) if table.state_of == PER_COORDINATE else table.state
    return table._replace(rows=table.rows.reshape(1, -1), state=state)


# ---- row by row


@kernel_part
def scatter(shared, first, last, x, is_on):
    """Write the features first:last over a vector of zeros, for sparse rows; or zeros again."""
    if shared.plan.has_sparse_rows:
        for f in range(first, last):
            x[shared.examples.columns[f]] = shared.examples.values[f] if is_on else ZERO


@kernel_part
def _slots_of(shared, row):
    """The first slot of a row, and how many features it has. The next is that of the bias."""
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
def _is_sought(shared, n, n_values):
    """Whether n weights of a row are looked up one by one for so many values of examples, or read
    one after another.
    """
    return n == shared.plan.n_features or n > SOUGHT * n_values


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
    elif _is_sought(shared, n, last - first):
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
    """How far the score of `score_of_row` moves as the row moves along the example: the squares of
    the features it has.
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
    """The step of a row along workspace.gradient, a number for each feature, which is zero
    afterwards.
    """
    table = shared.weights
    steps = workspace.slot_steps
    optimizer = shared.optimizer
    n = _collect(shared, workspace, chosen, row)
    if table.state_of == PER_ROW:
        square = ZERO
        for k in range(n):
            square += steps.gradient[0, k] * steps.gradient[0, k]
        rate = row_rate(table, row, square, optimizer, rate)
    descend_few(table, 0, steps.slots[:n], steps.gradient, optimizer, rate)


@kernel_part
def _collect(shared, workspace, chosen, row):
    """Move what of the gradient has a slot in the row, and clear the rest; return how many slots
    are moved.
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
    entry = groups.first[row]
    while entry >= 0:
        i = chosen[workspace.example[entry // width]]
        n_values += examples.offsets[i + 1] - examples.offsets[i]
        entry = groups.following[entry]
    is_sought = _is_sought(shared, n_slots, n_values)
    if not is_sought:
        for at in range(begin, begin + n_slots):
            n = _collect_one(steps, at, g, int64(shared.slots.indices[at]), n)
    entry = groups.first[row]
    while entry >= 0:
        i = chosen[workspace.example[entry // width]]
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            feature = int64(examples.columns[f])
            if is_sought and g[0, feature] != 0:
                n = _collect_one(steps, _slot_of(shared, begin, n_slots, feature), g, feature, n)
            g[0, feature] = 0
        entry = groups.following[entry]
    return n


@kernel_part
def _collect_one(steps, slot, g, feature, n):
    """Make a slot the n-th that moves, if there is one and its gradient is not zero; return how
    many move.
    """
    if slot >= 0 and g[0, feature] != 0:
        steps.slots[n] = slot
        steps.gradient[0, n] = g[0, feature]
        g[0, feature] = 0
        n += 1
    return n
