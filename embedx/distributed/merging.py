"""Rows of tables that are sent, and the parameters of the damping of `embedx.engine.merging`.

C is the mean of h·hᵀ over rows h of the other table, weighted by their use. It is represented by
its largest eigenvalues and the mean of all others.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy import float32, int32, ndarray

from embedx.engine.merging import NONE, Damping, Delta, add_rows, gather_rows, merge_rows
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, Table, UpdateRule

# k for each unit of the learning rate, as measured (docs/merging.md).
DAMPING_PER_RATE = 0.1
# Factor of k without an accumulator: the final divisor of the learning rate of bounded Adagrad.
STATELESS_FACTOR = 70.0
# k where a table has no partner, with I for C, whatever the learning rate.
DAMPING_WITHOUT_PARTNER = 0.02
N_DIRECTIONS = 16
# C is estimated from the rows that are used most.
MAX_PARTNER_ROWS = 4096


class Partner(NamedTuple):
    """The vectors that the rows of a table are multiplied by in training: rows of another table, or
    means of rows.

    rows  the current values of those used most, float32 (n, stride)
    uses  float32 (n,): the use of each
    """

    rows: Callable[[], ndarray]
    uses: ndarray


def partner_of(rows: ndarray, uses: ndarray) -> Partner:
    """The rows of a table that are used most; `uses` is of all."""
    most = np.argsort(-uses, kind="stable")[:MAX_PARTNER_ROWS]
    return Partner(lambda: rows[most], uses[most])


def state_of(table: Table) -> ndarray:
    """The optimizer's state of each row, which is merged with it: (n, stride), (n, 1), or (n, 0) if
    there is none.
    """
    if table.keeps in (PER_ROW, PER_COORDINATE):
        return table.state
    return np.zeros((len(table.rows), 0), float32)


def empty_delta(row: ndarray, table: Table) -> Delta:
    """A delta of these rows of a table, to be written."""
    n = len(row)
    stride = table.rows.shape[1]
    state = np.empty((n, state_of(table).shape[1]), float32)
    return Delta(row, np.empty((n, stride), np.int16), state, np.empty((n, 1), float32))


def read_only(delta: Delta) -> Delta:
    """The same delta, read-only as Ray's arrays are: kernels are compiled for one kind alone."""
    for array in delta:
        array.flags.writeable = False
    return delta


def gather(table: Table, row: ndarray) -> Delta:
    """Some rows of a table."""
    delta = empty_delta(row, table)
    gather_rows(table.rows, delta)
    return delta._replace(state=state_of(table)[row])


def add(table: Table, delta: Delta, optimizer: UpdateRule) -> None:
    """Add changes to some rows of a table."""
    add_rows(table.rows, read_only(delta))
    state = state_of(table)
    state[delta.row] = np.minimum(state[delta.row] + delta.state, optimizer.limit)


def merge(
    live: Table, base: Table, remote: Delta, damping: Damping, optimizer: UpdateRule
) -> Delta:
    """Merge the remote delta into a replica, and return the local one; see `merge_rows`. Rows may
    be trained meanwhile.
    """
    n_rows, stride = live.rows.shape
    position = np.full(n_rows, NONE, int32)
    position[remote.row] = np.arange(len(remote.row), dtype=int32)
    local = empty_delta(np.empty(n_rows, int32), live)
    n = merge_rows(
        live,
        base,
        read_only(remote),
        position,
        damping,
        optimizer,
        local,
        np.empty((4, stride), float32),
    )
    return Delta(*(array[:n] for array in local))


def damping_of(table: Table, partner: Partner | None, n_updates: ndarray, lr: float) -> Damping:
    """The damping of each row, by its number of updates, (n_rows,), and the learning rate."""
    if partner is None:
        k = DAMPING_WITHOUT_PARTNER
    elif state_of(table).shape[1]:
        k = DAMPING_PER_RATE * lr
    else:
        k = DAMPING_PER_RATE * lr * STATELESS_FACTOR
    strength = (k * n_updates).astype(float32)
    stride = table.rows.shape[1]
    identity = Damping(np.zeros((0, stride), float32), np.zeros(0, float32), float32(1), strength)
    if partner is None:
        return identity
    rows = partner.rows()
    moment = (rows * (partner.uses[:, None] / max(float(partner.uses.sum()), 1e-30))).T @ rows
    # A constant column of the table is padding, or a feature that is always 1: it is not trained.
    is_fixed = np.ptp(table.rows[:MAX_PARTNER_ROWS], axis=0) == 0
    moment[is_fixed] = 0
    moment[:, is_fixed] = 0
    if not np.isfinite(moment).all():
        return identity
    eigenvalues, vectors = np.linalg.eigh(moment)
    largest_first = np.maximum(eigenvalues[::-1], 0)
    n = min(N_DIRECTIONS, stride)
    n_trained_columns = stride - int(is_fixed.sum())
    mean_of_others = float32(largest_first[n:].sum() / max(n_trained_columns - n, 1))
    directions = vectors[:, ::-1][:, :n].T.copy()
    return Damping(directions, largest_first[:n].copy(), mean_of_others, strength)
