"""A worker: trains ranges of chunks on its replica, and merges after each. It does not import Ray, so that tests need none."""

import math
import os
import platform
import queue
import threading
import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from embedx.distributed.replica import ParameterReplica
from embedx.distributed.server import Parameters, ParameterServer
from embedx.storage.folder import installed_version
from embedx.training.progress import Silent
from embedx.training.strategy import Strategy, Tally


class Plan(ABC):
    """What a worker needs to train a strategy; it is sent to each of them.

    `server` and `replica` are called after the strategy's `compile`.
    """

    @abstractmethod
    def build(self, threads: int) -> Any:
        """The strategy that a worker trains; its parameters are overwritten."""

    @abstractmethod
    def server(self, strategy: Any) -> Any:
        """The server of the run's strategy: a `ParameterServer`, or of the same methods."""

    @abstractmethod
    def replica(self, strategy: Any) -> Any:
        """The replica of a worker's strategy: a `ParameterReplica`, or of the same methods."""

    def is_done(self, strategy: Any, epoch: int, chunks: range) -> bool:
        """Whether nothing is left to train in these chunks."""
        return False


class TablesPlan(Plan):
    """The plan of workers that all train the same tables."""

    @abstractmethod
    def parameters(self, strategy: Any) -> Parameters:
        """The tables, after `compile`."""

    def server(self, strategy: Any) -> ParameterServer:
        return ParameterServer(self.parameters(strategy))

    def replica(self, strategy: Any) -> ParameterReplica:
        return ParameterReplica(self.parameters(strategy))


@dataclass(frozen=True)
class ChunkRange:
    """Chunks of one epoch that a worker trains before it merges."""

    epoch: int
    chunks: range
    rate: float  # learning rate at the first chunk
    next_rate: float  # at the first chunk after it
    rate_factor: float  # see `Strategy`

    def rate_at(self, chunk: int) -> float:
        """The learning rate at a chunk."""
        share = (chunk - self.chunks.start) / len(self.chunks)
        return self.rate + share * (self.next_rate - self.rate)


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

    def overwrite(self, initial: Any) -> None:
        """See `ParameterReplica`."""
        self.replica.overwrite(initial)
        self.strategy.forget()
        self.n_trained = 0

    def train(self, work: ChunkRange) -> tuple[Tally, float]:
        """Train a range: what was done, and the seconds from its first chunk on.

        Threads that are free take chunks of the next range, if that was given meanwhile.
        """
        self.strategy.rate_factor, self.rate = work.rate_factor, work.rate
        left, total, began = iter(work.chunks), Tally(), math.inf

        def next_chunk() -> int | None:
            with self.lock:
                return next(left, None)

        def train_chunks() -> None:
            nonlocal total, began
            began = min(began, time.monotonic())
            workspace = self.free.get()
            while (chunk := next_chunk()) is not None:
                with self.replica.training:
                    done = self.strategy.train(workspace, work.epoch, chunk, work.rate_at(chunk)) or Tally()
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
