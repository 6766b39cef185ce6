"""How far a worker's updates lead a row, by direction: what `embedx.engine.merging` needs to know of the other table.

C, the mean of h·hᵀ over the rows h of the other table by how often they are met, is taken by its largest eigenvalues one by
one, and by the mean of all others. κ is in proportion to the learning rate, as it is for the Adagrad family; what an optimiser
divides it by is not looked at row by row: with each row's own divisor `ove` came near to diverging.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from embedx.engine.merging import Ways
from embedx.kernels.simd import aligned_zeros
from embedx.optimizers.contract import NUMBER, ROW, Table

# κ for each unit of the learning rate. 16 workers, 50 merges each, 10 MB, held-out log-likelihood and similarity:
#                   ns             hs             ove            ar
#     .07           -8.849 .300    -8.875 .268    -8.887 .284    -8.828 .277
#     .1            -8.850 .299    -8.873 .265    -8.885 .281    -8.829 .277
#     one worker    -8.853 .306    -8.871 .291    -8.878 .283    -8.822 .293
RATE = 0.1
PLAIN = 70.0  # times that where no state divides the learning rate: what a bounded Adagrad divides it by in the end
ALONE = 0.02  # κ where a table has no other, with I for C, whatever the learning rate
N_AXES = 16
MOST_ROWS = 4096  # that are looked at, those that are used most
PER_OCTAVE, OCTAVES = 4, 40  # numbers of updates that are told apart, from FEWEST on
FEWEST = 2.0**-16


class Partner(NamedTuple):
    """What the rows of a table are multiplied by, in training: the rows of another, or means of them."""

    rows: Callable[[], np.ndarray]  # as they are now, float32 (n, stride): those that are met most
    uses: np.ndarray  # float32 (n,): how often each is


def partner_of(rows: np.ndarray, uses: np.ndarray) -> Partner:
    """The rows of a table that are met most; `uses` is of all."""
    most = np.argsort(-uses, kind="stable")[:MOST_ROWS]
    return Partner(lambda: rows[most], uses[most])


class Directions:
    """The axes along which a table's rows are led, by the rows of its partner, if it has any."""

    def __init__(self, table: Table, partner: Partner | None) -> None:
        self.table, self.partner = table, partner
        if partner is not None:
            self.weight = partner.uses[:, None] / max(float(partner.uses.sum()), 1e-30)

    def ways(self, n_updates: np.ndarray, rate: float) -> Ways:
        """For so many updates of each row, (n_rows,), at that learning rate."""
        axis, square, others = self.axes()
        has_states = self.table.state_of in (ROW, NUMBER)
        strength = ALONE if self.partner is None else RATE * rate * (1 if has_states else PLAIN)
        n = strength * FEWEST * 2.0 ** (np.arange(PER_OCTAVE * OCTAVES) / PER_OCTAVE)
        n[0] = 0.0
        way, way_of_others = -np.expm1(-np.outer(n, square)), -np.expm1(-n * others)
        level = np.floor(PER_OCTAVE * np.log2(np.maximum(n_updates, FEWEST) / FEWEST) + 0.5)
        return Ways(
            axis, (way - way_of_others[:, None]).astype(np.float32), way_of_others.astype(np.float32),
            np.minimum(level, len(n) - 1).astype(np.int32),
        )  # fmt: skip

    def axes(self) -> tuple[np.ndarray, np.ndarray, float]:
        """The largest axes of C, (n, stride), its eigenvalue of each, and the mean of all other eigenvalues."""
        stride = self.table.rows.shape[1]
        none = aligned_zeros(0, stride), np.zeros(0), 1.0
        if self.partner is None:
            return none
        rows = self.partner.rows()
        moment = (rows * self.weight).T @ rows
        # A column in which no row of the table differs is padding, or a feature that is always 1: it is not trained.
        still = np.ptp(self.table.rows[:MOST_ROWS], axis=0) == 0
        moment[still], moment[:, still] = 0, 0
        if not np.isfinite(moment).all():
            return none
        square, axis = np.linalg.eigh(moment)
        square, n, dim = np.maximum(square[::-1], 0), min(N_AXES, stride), stride - int(still.sum())
        largest = aligned_zeros(n, stride)
        largest[:] = axis[:, ::-1][:, :n].T
        return largest, square[:n], float(square[n:].sum()) / max(dim - n, 1)
