"""A worker: trains ranges of chunks on its replica, and merges after each. It does not import Ray, so that tests need none."""

import math
import os
import platform
import queue
import threading
import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from embedx.distributed.replica import ParameterReplica
from embedx.distributed.server import Parameters, ParameterServer
from embedx.storage.folder import installed_version
from embedx.training.progress import Silent
from embedx.training.strategy import Strategy, Tally


class Plan(ABC):
    """What a worker needs to train a strategy; it is sent to each of them.

    `parameters`, `server` and `replica` are called after the strategy's `compile`.
    """

    @abstractmethod
    def build(self, threads: int) -> Any:
        """The strategy that a worker trains; its parameters come from the server."""

    @abstractmethod
    def parameters(self, strategy: Any) -> Parameters:
        """The tables that all workers train."""

    def server(self, strategy: Any) -> Any:
        """The server of the run's strategy: a `ParameterServer`, or of the same methods."""
        return ParameterServer(self.parameters(strategy))

    def replica(self, strategy: Any) -> Any:
        """The replica of a worker's strategy: a `ParameterReplica`, or of the same methods."""
        return ParameterReplica(self.parameters(strategy))


class Worker:
    """Trains the strategy of a plan with so many threads."""

    def __init__(self, plan: Plan, threads: int) -> None:
        self.plan, self.threads, self.lock = plan, threads, threading.Lock()
        self.n_trained, self.rate = 0, 0.0  # words or examples since the last merge; learning rate of the last range

    def start(self) -> tuple[str, int, str]:
        """Build and compile; host, process and version of embedx. Raises whatever the plan does."""
        self.strategy: Strategy = self.plan.build(self.threads)
        self.strategy.compile(Silent())
        self.replica = self.plan.replica(self.strategy)
        self.pool = ThreadPoolExecutor(len(self.strategy.workers))
        self.free: queue.SimpleQueue[Any] = queue.SimpleQueue()  # workspaces that no thread uses
        for workspace in self.strategy.workers:
            self.free.put(workspace)
        return platform.node(), os.getpid(), installed_version()

    def train(self, epoch: int, chunks: range, rate: float) -> tuple[Tally, float]:
        """Train chunks of an epoch at a learning rate: what was done, and the seconds from the first chunk on.

        Threads that are free take chunks of the next range, if that was given meanwhile.
        """
        self.rate = rate
        left, total, began = iter(chunks), Tally(), math.inf

        def next_chunk() -> int | None:
            with self.lock:
                return next(left, None)

        def train_chunks() -> None:
            nonlocal total, began
            began = min(began, time.monotonic())
            workspace = self.free.get()
            while (chunk := next_chunk()) is not None:
                with self.replica.training:
                    done = self.strategy.train(workspace, epoch, chunk, rate) or Tally()
                with self.lock:
                    total += done
                    self.n_trained += done.words
            self.free.put(workspace)

        for each in [self.pool.submit(train_chunks) for _ in self.strategy.workers]:
            each.result()
        return total, time.monotonic() - began

    def merge(self, remote: Any) -> Any:
        """See `ParameterReplica`."""
        with self.lock:
            n_trained, self.n_trained = self.n_trained, 0
        return self.replica.merge(remote, n_trained, self.rate)
