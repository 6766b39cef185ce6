"""Damping factors of rows, by the principal directions of the rows that they are multiplied by; docs/cluster.md derives them.

C, the mean of h·hᵀ over rows h of the other table by how often they are used, is taken by its largest eigenvalues one by one,
and by the mean of all others.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from embedx.engine.merging import Damping
from embedx.kernels.simd import aligned_zeros
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, Table

RATE = 0.1  # k for each unit of the learning rate, as measured (docs/cluster.md)
STATELESS_FACTOR = 70.0  # times that without an accumulator: what a bounded Adagrad divides the learning rate by in the end
ALONE = 0.02  # k where a table has no partner, with I for C, whatever the learning rate
N_DIRECTIONS = 16
MAX_ROWS = 4096  # that C is estimated from, those that are used most
PER_OCTAVE, OCTAVES = 4, 40  # numbers of updates that are tabulated, from MIN_UPDATES on
MIN_UPDATES = 2.0**-16


class Partner(NamedTuple):
    """What the rows of a table are multiplied by in training: rows of another table, or means of them."""

    rows: Callable[[], np.ndarray]  # as they are now, float32 (n, stride): those that are used most
    uses: np.ndarray  # float32 (n,): how often each is


def partner_of(rows: np.ndarray, uses: np.ndarray) -> Partner:
    """The rows of a table that are used most; `uses` is of all."""
    most = np.argsort(-uses, kind="stable")[:MAX_ROWS]
    return Partner(lambda: rows[most], uses[most])


def damping_of(table: Table, partner: Partner | None, n_updates: np.ndarray, rate: float) -> Damping:
    """For so many updates of each row, (n_rows,), at this learning rate."""
    directions, eigenvalues, rest = _principal_directions(table, partner)
    k = ALONE if partner is None else RATE * rate * (1 if table.state_of in (PER_ROW, PER_COORDINATE) else STATELESS_FACTOR)
    kU = k * MIN_UPDATES * 2.0 ** (np.arange(PER_OCTAVE * OCTAVES) / PER_OCTAVE)
    kU[0] = 0.0
    of_rest = -np.expm1(-kU * rest)
    along = -np.expm1(-np.outer(kU, eigenvalues)) - of_rest[:, None]
    level = np.floor(PER_OCTAVE * np.log2(np.maximum(n_updates, MIN_UPDATES) / MIN_UPDATES) + 0.5)
    level = np.minimum(level, len(kU) - 1).astype(np.int32)
    return Damping(directions, along.astype(np.float32), of_rest.astype(np.float32), level)


def _principal_directions(table: Table, partner: Partner | None) -> tuple[np.ndarray, np.ndarray, float]:
    """Those of C, (n, stride), the eigenvalue of each, and the mean of all other eigenvalues."""
    stride = table.rows.shape[1]
    none = aligned_zeros(0, stride), np.zeros(0), 1.0
    if partner is None:
        return none
    rows = partner.rows()
    moment = (rows * (partner.uses[:, None] / max(float(partner.uses.sum()), 1e-30))).T @ rows
    # A column in which no row of the table differs is padding, or a feature that is always 1: it is not trained.
    is_fixed = np.ptp(table.rows[:MAX_ROWS], axis=0) == 0
    moment[is_fixed], moment[:, is_fixed] = 0, 0
    if not np.isfinite(moment).all():
        return none
    eigenvalues, vectors = np.linalg.eigh(moment)
    eigenvalues, n, dim = np.maximum(eigenvalues[::-1], 0), min(N_DIRECTIONS, stride), stride - int(is_fixed.sum())
    directions = aligned_zeros(n, stride)
    directions[:] = vectors[:, ::-1][:, :n].T
    return directions, eigenvalues[:n], float(eigenvalues[n:].sum()) / max(dim - n, 1)
