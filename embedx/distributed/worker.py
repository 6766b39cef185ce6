"""A worker: trains ranges of chunks on its replica, and merges after each. It does not import Ray,
so that tests need none.
"""

import os
import platform
import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from embedx.distributed.parameters import ParameterReplica, Parameters, ParameterServer
from embedx.runtime.progress import SILENT
from embedx.storage.folder import installed_version
from embedx.training.strategy import Strategy, Tally


class Plan:
    """What a worker needs to train a strategy; it is sent to each of them.

    `parameters`, `server` and `replica` are called after the strategy's `compile`.
    """

    def build(self, threads: int) -> Any:
        """The strategy that a worker trains; its parameters come from the server."""

    def components(self) -> Sequence[Any]:
        """What the plan is made of, an objective and a sampler among it."""
        return ()

    def parameters(self, strategy: Any) -> Parameters:
        """The parameters that all workers train; those of a plan with its own server and replica
        are never asked for.
        """
        raise NotImplementedError

    def server(self, strategy: Any) -> Any:
        """The server of the run's strategy: a `ParameterServer`, or of the same methods."""
        return ParameterServer(self.parameters(strategy))

    def replica(self, strategy: Any) -> Any:
        """The replica of a worker's strategy: a `ParameterReplica`, or of the same methods."""
        return ParameterReplica(self.parameters(strategy))


class Worker:
    """Trains the strategy of a plan."""

    def __init__(self, plan: Plan, threads: int) -> None:
        self.plan = plan
        self.threads = threads
        self.lock = threading.Lock()
        # words or examples since the last merge
        self.n_trained = 0
        # learning rate of the last range
        self.rate = 0.0

    def start(self) -> tuple[str, int, str]:
        """Build and compile; host, process and version of embedx. Raises whatever the plan does."""
        self.strategy: Strategy = self.plan.build(self.threads)
        self.strategy.compile(SILENT)
        self.replica = self.plan.replica(self.strategy)
        self.pool = ThreadPoolExecutor(len(self.strategy.workers))
        # workspaces that no thread uses
        self.free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for workspace in self.strategy.workers:
            self.free.put(workspace)
        return platform.node(), os.getpid(), installed_version()

    def train(self, epoch: int, chunks: range, rate: float) -> tuple[Tally, float]:
        """Train chunks of an epoch at a learning rate: what was done, and the seconds from the
        first chunk on.

        A range that is given meanwhile waits; its chunks are taken by threads that this one has
        none for any more.
        """
        self.rate = rate
        trained = self.pool.map(lambda chunk: self._train_chunk(epoch, chunk, rate), chunks)
        starts, tallies = zip(*trained, strict=True)
        return sum(tallies, Tally()), time.monotonic() - starts[0]

    def _train_chunk(self, epoch: int, chunk: int, rate: float) -> tuple[float, Tally]:
        """When it began, and what was done."""
        began = time.monotonic()
        workspace = self.free.get()
        with self.replica.training:
            done = self.strategy.train(workspace, epoch, chunk, rate) or Tally()
        self.free.put(workspace)
        with self.lock:
            self.n_trained += done.words
        return began, done

    def merge(self, remote: Any) -> Any:
        """See `ParameterReplica`."""
        with self.lock:
            n_trained = self.n_trained
            self.n_trained = 0
        return self.replica.merge(remote, n_trained, self.rate)
