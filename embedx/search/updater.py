"""An index that follows a table while threads train it."""

import contextlib
import threading
import time
from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part
from embedx.run.progress import Progress
from embedx.run.state import TrainState
from embedx.search.clusters import new_seeker
from embedx.search.index import Index, build, empty, refresh
from embedx.search.spec import Search

# An index is built anew when rows have come to point to other clusters so often, by rows and blocks: at first soon, for the
# centres of a young table tell little of what it will be. They are sought from scratch: centres that go on from those before
# stay in poor optima (EURLex-4.3K, 10 epochs of `mips`: P@1 .82 beside .88).
TURNOVER = 0.1


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
        self.building = threading.Lock()
        self.locks = [threading.Lock() for _ in range(search.blocks)]  # to write to a block
        self.n_left = np.zeros(search.blocks, dtype=np.int64)  # how often rows have come to point elsewhere since it was built
        self.n_builds = self.turn = 0
        self.build_seconds = 0.0

    def state(self) -> TrainState:
        """What the index has become; to be looked at while no thread uses it."""
        state = TrainState()
        state.add_attribute("index", self, "index", "rebuild")
        state.add_array("index.n_left", self.n_left, "rebuild")
        for name in ("n_builds", "turn", "build_seconds"):
            state.add_attribute(f"index.{name}", self, name, "max")
        return state

    def current(self) -> Index:
        """The index, built if there is none or too many rows have come to point elsewhere."""
        with self.building:
            if self.n_builds == 0 or self.n_left.sum() > TURNOVER * self.n_rows * self.search.blocks:
                with contextlib.ExitStack() as held:
                    for lock in self.locks:
                        held.enter_context(lock)
                    self._build()
            return self.index

    def _build(self) -> None:
        began = time.monotonic()
        rng = np.random.default_rng([self.seed, self.n_builds])
        self.index = build(self.table, self.n_rows, self.dim, self.search, rng, self.threads)
        if self.n_builds == 0:
            blocks, clusters = self.index.in_use.shape
            of_blocks = f" in each of {blocks} blocks" if blocks > 1 else ""
            self.progress.note(f"search begins: {self.n_rows:,} rows in {clusters:,} clusters{of_blocks}")
        self.n_builds += 1
        self.n_left[:] = 0
        self.build_seconds += time.monotonic() - began

    def follow(self, moved: Moved) -> None:
        """Have the index follow the rows that a worker moved. Workers begin at different blocks, not to wait for each other."""
        blocks = self.search.blocks
        self.turn += 1
        first = self.turn * blocks // self.threads
        seeker = new_seeker(min(self.search.clusters, self.n_rows))
        for j in ((first + step) % blocks for step in range(blocks)):
            with self.locks[j]:
                self.n_left[j] += refresh(self.index, self.table, moved.rows, moved.n[0], j, seeker)
        forget(moved)
