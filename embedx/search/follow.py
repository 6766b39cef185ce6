"""An index that follows a table while threads train it."""

import threading
import time
from typing import NamedTuple

import numpy as np

from embedx.compiled import kernel, kernel_part
from embedx.engine.simd import padded
from embedx.objectives.contract import Search
from embedx.progress import Progress
from embedx.search.index import Index, build, empty, refresh

# An index is built anew when it has followed so many times as many rows as it has: at first soon, for the centres of a young
# table tell little of what it will be, then at twice the distance each time.
FIRST_TURNOVER, TURNOVER = 0.25, 16


class Moved(NamedTuple):
    """The rows that a worker has moved since the index last followed it."""

    rows: np.ndarray  # int32 (n_rows,)
    is_there: np.ndarray  # bool (n_rows,)
    n: np.ndarray  # int64 (1,)


def new_moved(n_rows: int) -> Moved:
    return Moved(np.zeros(n_rows, dtype=np.int32), np.zeros(n_rows, dtype=np.bool_), np.zeros(1, dtype=np.int64))


@kernel_part
def remember(rows, n, moved):
    """Add rows[:n] to those that moved."""
    for k in range(n):
        row = rows[k]
        if not moved.is_there[row]:
            moved.is_there[row] = True
            moved.rows[moved.n[0]] = row
            moved.n[0] += 1


@kernel
def forget(moved):
    """The index has followed: no row is known to have moved."""
    for k in range(moved.n[0]):
        moved.is_there[moved.rows[k]] = False
    moved.n[0] = 0


class Follower:
    """The index of table[:n_rows, :dim], for several threads.

    Readers use what `current` gave them while others write to it: a row may be met twice, or at its old place, for a while.
    """

    def __init__(
        self, table: np.ndarray, n_rows: int, dim: int, search: Search, *, seed: int, threads: int, progress: Progress
    ) -> None:
        self.table, self.n_rows, self.dim, self.search = table, n_rows, dim, search
        self.seed, self.threads, self.progress = seed, threads, progress
        self.index = empty(search.blocks)
        self.lock = threading.Lock()
        self.n_moved = 0  # rows that the index has followed since it was built
        self.n_builds = 0
        self.build_seconds = 0.0
        self.scores = np.zeros((1, padded(search.clusters)), dtype=np.float32)

    def current(self) -> Index:
        """The index, built if there is none or the rows have moved far."""
        with self.lock:
            turnover = min(FIRST_TURNOVER * 2 ** (self.n_builds - 1), TURNOVER)
            if self.n_builds == 0 or self.n_moved > turnover * self.n_rows:
                began = time.monotonic()
                rng = np.random.default_rng([self.seed, self.n_builds])
                self.index = build(self.table, self.n_rows, self.dim, self.search, rng, self.threads)
                if self.n_builds == 0:
                    blocks, clusters = self.index.in_use.shape
                    of_blocks = f" in each of {blocks} blocks" if blocks > 1 else ""
                    self.progress.note(f"search begins: {self.n_rows:,} rows in {clusters:,} clusters{of_blocks}")
                self.n_builds += 1
                self.n_moved = 0
                self.build_seconds += time.monotonic() - began
            return self.index

    def follow(self, moved: Moved) -> None:
        """Have the index follow the rows that a worker moved."""
        with self.lock:
            refresh(self.index, self.table, moved.rows, moved.n[0], self.scores)
            self.n_moved += int(moved.n[0])
        forget(moved)
