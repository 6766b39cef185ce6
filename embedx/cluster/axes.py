"""How far a worker's updates lead a row, by direction: what `embedx.engine.merging` needs to know of the other table."""

from typing import NamedTuple

import numpy as np

from embedx.engine.merging import Ways
from embedx.kernels.simd import aligned_zeros
from embedx.optimizers.contract import Table

# κ of `merging` for each unit of the learning rate. 16 workers, 50 merges each, 10 MB, held-out log-likelihood and similarity:
#           ns             hs             ove            ar
#     .05   -8.844 .29     -8.871 .27     -8.885 .285    -8.828 .278
#     .1    -8.842 .297    -8.866 .263    -8.881 .280    -8.829 .277
RATE = 0.07
ALONE = 0.02  # κ where a table has no other, with I for C, whatever the learning rate
N_AXES = 16
MOST_ROWS = 4096  # that are looked at, those that are used most
PER_OCTAVE, OCTAVES = 4, 40  # numbers of updates that are told apart, from FEWEST on
FEWEST = 2.0**-16


class Partner(NamedTuple):
    """The table whose rows those of another are multiplied by, in training."""

    table: Table
    uses: np.ndarray  # float32 (n_rows,)


class Directions:
    """The axes along which a table's rows are led, by the rows of its partner, if it has any."""

    def __init__(self, table: Table, partner: Partner | None) -> None:
        self.table, self.partner = table, partner
        if partner is not None:
            self.row = np.argsort(-partner.uses, kind="stable")[:MOST_ROWS]
            self.weight = partner.uses[self.row, None] / max(float(partner.uses[self.row].sum()), 1e-30)

    def ways(self, n_updates: np.ndarray, rate: float) -> Ways:
        """For so many updates of each row, (n_rows,), at that learning rate."""
        axis, square, others = self.axes()
        strength = ALONE if self.partner is None else RATE * rate
        n = strength * FEWEST * 2.0 ** (np.arange(PER_OCTAVE * OCTAVES) / PER_OCTAVE)
        n[0] = 0.0
        way, way_of_others = -np.expm1(-np.outer(n, square)), -np.expm1(-n * others)
        level = np.floor(PER_OCTAVE * np.log2(np.maximum(n_updates, FEWEST) / FEWEST) + 0.5)
        return Ways(
            axis, (way - way_of_others[:, None]).astype(np.float32), way_of_others.astype(np.float32),
            np.minimum(level, len(n) - 1).astype(np.int32),
        )  # fmt: skip

    def axes(self) -> tuple[np.ndarray, np.ndarray, float]:
        """The largest axes, (n, stride), the mean square of the partner's rows along each, and that along all others."""
        stride = self.table.rows.shape[1]
        none = aligned_zeros(0, stride), np.zeros(0), 1.0
        if self.partner is None:
            return none
        rows = self.partner.table.rows[self.row]
        covariance = (rows * self.weight).T @ rows
        # A column in which no row of the table differs is padding, or a feature that is always 1: it is not trained.
        still = np.ptp(self.table.rows[: len(self.row)], axis=0) == 0
        covariance[still], covariance[:, still] = 0, 0
        if not np.isfinite(covariance).all():
            return none
        square, axis = np.linalg.eigh(covariance)
        square, n, dim = np.maximum(square[::-1], 0), min(N_AXES, stride), stride - int(still.sum())
        largest = aligned_zeros(n, stride)
        largest[:] = axis[:, ::-1][:, :n].T
        return largest, square[:n], float(square[n:].sum()) / max(dim - n, 1)
