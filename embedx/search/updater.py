"""Keeps an index up to date with a table that several threads train.

A worker takes the current index, trains on a chunk of examples, marks the rows that it has changed
as stale, and has the updater refresh them at the end of the chunk: the index lags behind the table
by at most a chunk of each worker. Once enough rows have been reassigned to other lists, the index
is rebuilt with new centroids.
"""

import contextlib
import threading
import time
from typing import NamedTuple

import numpy as np
from numpy import int32, int64, ndarray

from embedx.kernels.compiled import kernel_part
from embedx.kernels.simd import aligned_zeros
from embedx.runtime.progress import Progress
from embedx.search.index import Index, build_index, empty_index, update_rows
from embedx.search.spec import SearchSpec
from embedx.training.state import TrainState

# Number of reassignments after which the index is rebuilt with new centroids, as a share of rows
# times blocks. At first that is soon, because an almost untrained table changes fast (measured:
# docs/constants.md).
REBUILD_SHARE = 0.1


class StaleRows(NamedTuple):
    """The rows that a worker has changed since its last update of the index."""

    rows: ndarray  # int32 (n_rows,): the stale rows, in the first n places
    is_stale: ndarray  # bool (n_rows,)
    n: ndarray  # int64 (1,)


def new_stale_rows(n_rows: int) -> StaleRows:
    """No stale rows of n_rows."""
    return StaleRows(
        rows=np.zeros(n_rows, int32), is_stale=np.zeros(n_rows, np.bool_), n=np.zeros(1, int64)
    )


@kernel_part
def mark_stale(rows, n, stale):
    """Add rows[:n] to the stale rows."""
    for k in range(n):
        row = rows[k]
        if not stale.is_stale[row]:
            stale.is_stale[row] = True
            stale.rows[stale.n[0]] = row
            stale.n[0] += 1


class IndexUpdater:
    """The index of table[:n_rows, :dim], shared by several threads.

    Workers query the index that `current` returns, without a lock, while others update it;
    `embedx.search` says what a query may then see. Each block is updated by one worker at a time.
    During a rebuild, `current` and `update` wait, and queries continue with the old index.
    """

    def __init__(
        self,
        table: ndarray,
        n_rows: int,
        dim: int,
        search: SearchSpec,
        *,
        seed: int,
        threads: int,
        progress: Progress,
        rebuild_share: float = REBUILD_SHARE,
    ) -> None:
        self.table = table
        self.n_rows = n_rows
        self.dim = dim
        self.search = search
        self.seed = seed
        self.threads = threads
        self.progress = progress
        self.max_reassigned = rebuild_share * n_rows * search.blocks
        self.index = empty_index(search.blocks)
        self.build_lock = threading.Lock()
        self.block_locks = [threading.Lock() for _ in range(search.blocks)]  # for writers
        # In each block, since the index was built.
        self.n_reassigned = np.zeros(search.blocks, int64)
        self.n_builds = self.n_updates = self.next_row = 0
        self.build_seconds = 0.0

    def state(self) -> TrainState:
        """The state that updates change; read it while no thread uses the index."""
        state = TrainState()
        state.add_attribute("index", self, "index")
        state.add_array("index.n_reassigned", self.n_reassigned)
        for name in ("n_builds", "n_updates", "next_row", "build_seconds"):
            state.add_attribute(f"index.{name}", self, name)
        return state

    def current(self) -> Index:
        """The current index; builds it if there is none yet, and rebuilds it if too many rows have
        been reassigned.
        """
        with self.build_lock:
            if self.n_builds == 0 or self.n_reassigned.sum() > self.max_reassigned:
                with contextlib.ExitStack() as locks:
                    for lock in self.block_locks:
                        locks.enter_context(lock)
                    self._build()
            return self.index

    def _build(self) -> None:
        """Build the index with new centroids; no thread may update it meanwhile."""
        began = time.monotonic()
        rng = np.random.default_rng([self.seed, self.n_builds])
        self.index = build_index(self.table, self.n_rows, self.dim, self.search, rng, self.threads)
        if self.n_builds == 0:
            blocks, clusters = self.index.list_sizes.shape
            where = f" in each of {blocks} blocks" if blocks > 1 else ""
            self.progress.note(
                f"search begins: {self.n_rows:,} rows in {clusters:,} clusters{where}"
            )
        self.n_builds += 1
        self.n_reassigned[:] = 0
        self.build_seconds += time.monotonic() - began

    def update(self, stale: StaleRows) -> None:
        """Update the index to a worker's stale rows, and clear these.

        Workers begin with different blocks, so that they seldom wait for each other.
        """
        rows = stale.rows[: stale.n[0]]
        self._update(rows)
        stale.is_stale[rows] = False
        stale.n[0] = 0

    def update_next(self, n: int) -> None:
        """Update the index to the next n rows, round robin, where updating all changed rows would
        take too long.
        """
        first = self.next_row
        self.next_row = (first + n) % self.n_rows
        self._update((first + np.arange(min(n, self.n_rows), dtype=int32)) % self.n_rows)

    def _update(self, rows: ndarray) -> None:
        """Update all blocks to these rows, from another one on than the update before."""
        blocks = self.search.blocks
        self.n_updates += 1
        first = self.n_updates * blocks // self.threads
        scores = aligned_zeros(1, min(self.search.clusters, self.n_rows))
        for step in range(blocks):
            j = (first + step) % blocks
            with self.block_locks[j]:
                self.n_reassigned[j] += update_rows(self.index, self.table, rows, j, scores)
