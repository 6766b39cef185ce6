"""A worker's copies of what all workers share, and what is to be added to that: the rule is in `embedx.engine.merging`."""

from typing import NamedTuple

import numpy as np

from embedx.cluster.axes import Directions, Partner
from embedx.engine.merging import NONE, Added, Buffers, News, from_half, gather_half, merge_rows
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

    def __init__(
        self, live: Table, optimizer: UpdateRule, uses: np.ndarray | None = None, partner: Partner | None = None
    ) -> None:
        self.live, self.optimizer = live, optimizer
        self.base = live._replace(rows=aligned_like(live.rows), state=aligned_like(live.state))
        self.uses = np.zeros(len(live.rows), np.float32) if uses is None else uses.astype(np.float32)
        self.place = np.full(len(live.rows), NONE, np.int32)
        self.directions = Directions(live, partner)
        mine, new, theirs, undone = (aligned_zeros(1, live.rows.shape[1]) for _ in range(4))
        self.buffers = Buffers(mine, mine.view(np.uint32), new, new.view(np.uint32), theirs, undone)

    def overwrite(self, news: Rows) -> None:
        """Take over rows from the table in common; what was trained of them since is lost."""
        for table in (self.live, self.base):
            table.rows[news.row] = whole(news.values)
            if table.state_of in (ROW, NUMBER):
                table.state[news.row] = news.state

    def merge(self, news: Rows, n_trained: float, rate: float) -> Rows:
        """What is to be added to the table in common after so many words or examples since the last time, at that learning
        rate; `news` are the rows that others have changed meanwhile. The copy is brought up to date with both.

        Threads may go on training the copy.
        """
        table, n = self.live, len(self.place)
        ways = self.directions.ways(n_trained * self.uses, rate)
        self.place[news.row] = np.arange(len(news.row), dtype=np.int32)
        has_states = table.state_of in (ROW, NUMBER)
        added = Added(
            np.empty(n, np.int32),
            np.empty((n, table.rows.shape[1]), np.uint16),
            aligned_zeros(*table.state.shape) if table.state_of == NUMBER else np.empty_like(table.state),
        )
        is_half = news.values.dtype == np.float16
        nothing = table.rows[:0]
        told = News(
            self.place,
            bits_of(news.values if is_half else nothing.astype(np.float16)),
            nothing if is_half else aligned_like(news.values),
            aligned_like(news.state),
        )
        n = int(merge_rows(table, self.base, told, ways, added, self.buffers, self.optimizer))
        self.place[news.row] = NONE
        state = added.state[:n] if has_states else added.state[:0]
        return Rows(added.row[:n], added.half[:n].view(np.float16), state)


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
    return half if gather_half(rows.view(np.uint32), row, half.view(np.uint16)) else rows[row]


def bits_of(half: np.ndarray) -> np.ndarray:
    """float16 as bits, which nobody changes: Ray's arrays are such, and kernels are compiled for one kind alone."""
    bits = half.view(np.uint16)
    bits.flags.writeable = False
    return bits


def whole(values: np.ndarray) -> np.ndarray:
    """What `halved` was given, but for rounding: float32, aligned as tables are."""
    if values.dtype != np.float16:
        return aligned_like(values)
    found = aligned_zeros(*values.shape)
    from_half(bits_of(values), found.view(np.uint32))
    return found
