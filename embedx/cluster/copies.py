"""A worker's copies of what all workers share, and what is to be added to that: the rule is in `embedx.engine.merging`."""

from typing import NamedTuple

import numpy as np

from embedx.engine.merging import (
    LARGEST_HALF,
    NONE,
    WAY,
    add_rows,
    changed_rows,
    from_half,
    gather_half,
    merge_rows,
    take_rows,
)
from embedx.kernels.simd import LANES as FLOATS
from embedx.kernels.simd import aligned_zeros
from embedx.optimizers.contract import NUMBER, ROW, Table, UpdateRule

SCALE = 1024  # of numbers that travel as float16


class Rows(NamedTuple):
    """Some rows of a table, whole or what is to be added to them."""

    row: np.ndarray  # int32 (n,), ascending
    values: np.ndarray  # float32, or float16 as `halved` has it, (n, stride)
    state: np.ndarray  # float32, the optimiser's: (n, stride), (n, 1), or (0, stride) if it keeps none

    @property
    def n_bytes(self) -> int:
        """Bytes that travel."""
        return self.row.nbytes + self.values.nbytes + self.state.nbytes


class Copy:
    """A worker's copy of a table, `live`, and what it knows of the table in common, the base."""

    def __init__(self, live: Table, optimizer: UpdateRule, uses: np.ndarray | None) -> None:
        self.live, self.optimizer = live, optimizer
        self.base = live._replace(rows=aligned_like(live.rows), state=aligned_like(live.state))
        self.uses = np.zeros(len(live.rows), np.float32) if uses is None else uses.astype(np.float32)
        self.place = np.full(len(live.rows), NONE, np.int32)

    def overwrite(self, news: Rows) -> None:
        """Take over rows from the table in common; what was trained of them since is lost."""
        for table in (self.live, self.base):
            table.rows[news.row] = whole(news.values)
            if table.state_of in (ROW, NUMBER):
                table.state[news.row] = news.state

    def merge(self, news: Rows, n_trained: float) -> Rows:
        """What is to be added to the table in common after so many words or examples since the last time, of which `news` are
        the rows that others have changed meanwhile; the copy is brought up to date with both.

        Threads may go on training the copy.
        """
        way = -np.expm1(-WAY * n_trained * self.uses)
        self.place[news.row] = np.arange(len(news.row), dtype=np.int32)
        row = np.zeros(len(self.place), np.int32)
        n = int(changed_rows(self.live.rows, self.base.rows, row))
        row = row[:n]
        added = aligned_zeros(n, self.live.rows.shape[1])
        state = aligned_like(self.live.state[row] if self.live.state_of in (ROW, NUMBER) else self.live.state[:0])
        theirs = Table(whole(news.values), aligned_like(news.state), self.live.decay_clock, self.live.state_of)
        merge_rows(self.live, self.base, theirs, self.place, way.astype(np.float32), row, added, state, self.optimizer)
        take_rows(self.live, self.base, theirs, news.row, row)
        self.place[news.row] = NONE
        values = halved(added, np.arange(n, dtype=np.int32))
        add_rows(
            self.base.rows, row, whole(values)
        )  # not `added`: what rounding leaves out stays a difference, for the next time
        return Rows(row, values, state)


class StateCopy:
    """A worker's copy of what an objective keeps, and how often it was updated to its knowledge."""

    def __init__(self, state: np.ndarray, n_updates: np.ndarray) -> None:
        self.state, self.n_updates = state, n_updates
        self.base = n_updates.copy()

    def overwrite(self, news: Rows) -> None:
        """Take over rows from those in common."""
        self.state[news.row] = news.values
        self.n_updates[news.row] = self.base[news.row] = news.state[:, 0]

    def merge(self, news: Rows) -> Rows:
        """The rows that were updated here, and how many updates they had more; the copy is brought up to date with both."""
        row = np.flatnonzero(self.n_updates != self.base).astype(np.int32)
        own = Rows(row, self.state[row], (self.n_updates[row] - self.base[row])[:, None])
        self.overwrite(news)
        self.base[row] += own.state[:, 0]
        self.state[row], self.n_updates[row] = own.values, self.base[row]
        return own


def aligned_like(array: np.ndarray) -> np.ndarray:
    """A copy as float32, aligned as tables are."""
    copy = aligned_zeros(*array.shape) if array.shape[1] % FLOATS == 0 else np.zeros(array.shape, np.float32)
    copy[:] = array
    return copy


def halved(rows: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Some rows of a table as float16, times SCALE, if that holds them; else as they are."""
    half = np.empty((len(row), rows.shape[1]), np.float16)
    largest = gather_half(rows.view(np.uint32), row, half.view(np.uint16))
    return half if np.uint32(largest).view(np.float32) < LARGEST_HALF else rows[row]


def whole(values: np.ndarray) -> np.ndarray:
    """What `halved` was given, but for rounding: float32, aligned as tables are."""
    if values.dtype != np.float16:
        return aligned_like(values)
    found = aligned_zeros(*values.shape)
    from_half(values.view(np.uint16), found.view(np.uint32))
    return found
