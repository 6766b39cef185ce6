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
from embedx.storage.description import installed_version
from embedx.training.strategy import Strategy, Tally


class WorkerPlan:
    """Everything that a worker needs to train a strategy; it is sent to each worker.

    `parameters`, `server` and `replica` are called after the strategy's `compile`.
    """

    def build(self, threads: int) -> Any:
        """The strategy that a worker trains; its parameters come from the server."""

    def components(self) -> Sequence[Any]:
        """The parts of the plan, with the objective and the sampler among them."""
        return ()

    def parameters(self, strategy: Any) -> Parameters:
        """The parameters that all workers train; not called for plans with their own server and
        replica.
        """
        raise NotImplementedError

    def server(self, strategy: Any) -> Any:
        """The server of the run's strategy: a `ParameterServer`, or one with the same methods."""
        return ParameterServer(self.parameters(strategy))

    def replica(self, strategy: Any) -> Any:
        """The replica of a strategy: a `ParameterReplica`, or one with the same methods."""
        return ParameterReplica(self.parameters(strategy))


class Worker:
    """Trains the strategy of a plan.

    free  workspaces that no thread uses
    """

    # Made by `start`.
    strategy: Strategy
    replica: Any
    pool: ThreadPoolExecutor
    free: "queue.SimpleQueue[Any]"

    def __init__(self, plan: WorkerPlan, threads: int) -> None:
        self.plan = plan
        self.threads = threads
        self.lock = threading.Lock()
        # Words or examples since the last merge.
        self.n_trained = 0
        # Learning rate of the last range.
        self.lr = 0.0

    def start(self) -> tuple[str, int, str]:
        """Build and compile; return (host, process, version). Raises whatever the plan raises."""
        self.strategy = self.plan.build(self.threads)
        self.strategy.compile(SILENT)
        self.replica = self.plan.replica(self.strategy)
        self.pool = ThreadPoolExecutor(len(self.strategy.workers))
        self.free = queue.SimpleQueue()
        for workspace in self.strategy.workers:
            self.free.put(workspace)
        return platform.node(), os.getpid(), installed_version()

    def train_range(self, epoch: int, chunks: range, lr: float) -> tuple[Tally, float]:
        """Train chunks of an epoch at a learning rate; return the tally, and the seconds since the
        first chunk.

        A range that arrives meanwhile waits for threads that have no more chunks of this one.
        """
        self.lr = lr
        trained = self.pool.map(lambda chunk: self._train_chunk(epoch, chunk, lr), chunks)
        starts, tallies = zip(*trained, strict=True)
        return sum(tallies, Tally()), time.monotonic() - starts[0]

    def _train_chunk(self, epoch: int, chunk: int, lr: float) -> tuple[float, Tally]:
        """(time of its start, tally) of a chunk."""
        began = time.monotonic()
        workspace = self.free.get()
        with self.replica.training:
            done = self.strategy.train_chunk(workspace, epoch, chunk, lr) or Tally()
        self.free.put(workspace)
        with self.lock:
            self.n_trained += done.items
        return began, done

    def merge(self, remote: Any) -> Any:
        """See `ParameterReplica`."""
        with self.lock:
            n_trained = self.n_trained
            self.n_trained = 0
        return self.replica.merge(remote, n_trained, self.lr)
