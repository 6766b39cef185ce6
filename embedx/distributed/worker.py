"""A worker: trains ranges of chunks on its replica, and merges after each. It does not import Ray, so that tests need none."""

import abc
import math
import os
import platform
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from embedx.distributed.replica import ParameterReplica, compile_kernels
from embedx.distributed.server import Parameters, ParameterServer
from embedx.errors import EmbedxError
from embedx.storage.disk import amount
from embedx.storage.folder import installed_version
from embedx.training.memory import available_memory
from embedx.training.progress import Silent
from embedx.training.strategy import Strategy, Tally


class Plan(abc.ABC):
    """What a worker needs to train a strategy; it is sent to each of them."""

    @abc.abstractmethod
    def build(self, threads: int) -> Any:
        """The strategy that a worker trains; its parameters are overwritten."""

    def parameters(self, strategy: Any) -> Parameters:
        """What workers share, where all train the same tables; after `compile`."""
        raise NotImplementedError

    def server(self, strategy: Any) -> Any:
        """The server of the run's strategy, after `compile`: a `ParameterServer`, or of the same methods."""
        compile_kernels(self.parameters(strategy))  # here, where workers of this machine find them in the cache
        return ParameterServer(self.parameters(strategy))

    def replica(self, strategy: Any) -> Any:
        """The replica of a worker's strategy, after `compile`: a `ParameterReplica`, or of the same methods."""
        compile_kernels(self.parameters(strategy))
        return ParameterReplica(self.parameters(strategy))

    def is_done(self, strategy: Any, epoch: int, chunks: range) -> bool:
        """Whether nothing is left to train in these chunks."""
        return False


def check_memory(need: int, what: str, less: str) -> None:
    """Raise `EmbedxError` if a worker's machine does not have so much memory."""
    have = available_memory()
    if need > have:
        raise EmbedxError(
            f"{platform.node()}: a worker needs {amount(need)} for {what}, more than the {amount(have)} there are; lower {less}"
        )


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
        self.stopped = False

    def start(self) -> tuple[str, int, str]:
        """Build and compile; host, process and version of embedx. Raises whatever the plan does."""
        self.strategy: Strategy = self.plan.build(self.threads)
        self.strategy.compile(Silent())
        self.replica = self.plan.replica(self.strategy)
        self.pool = ThreadPoolExecutor(len(self.strategy.workers))
        self.free: queue.SimpleQueue[Any] = queue.SimpleQueue()  # workspaces that no thread uses
        for workspace in self.strategy.workers:
            self.free.put(workspace)
        return os.uname().nodename, os.getpid(), installed_version()

    def overwrite(self, initial: Any) -> None:
        """See `ParameterReplica`."""
        self.replica.overwrite(initial)
        self.strategy.forget()
        self.n_trained, self.stopped = 0, False

    def train(self, work: ChunkRange) -> tuple[Tally | None, float]:
        """Train a range: what was done, None if `stop` cut it short, and the seconds from its first chunk on.

        Threads that are free take chunks of the next range, if that was given meanwhile.
        """
        self.strategy.rate_factor, self.rate = work.rate_factor, work.rate
        left, total, began = iter(work.chunks), Tally(), math.inf

        def train_chunks() -> None:
            nonlocal total, began
            with self.lock:
                began = min(began, time.monotonic())
            workspace = self.free.get()
            try:
                while not self.stopped:
                    with self.lock:
                        chunk = next(left, None)
                    if chunk is None:
                        return
                    with self.replica.training:
                        done = self.strategy.train(workspace, work.epoch, chunk, work.rate_at(chunk)) or Tally()
                    with self.lock:
                        total += done
                        self.n_trained += done.words
            finally:
                self.free.put(workspace)

        for each in [self.pool.submit(train_chunks) for _ in self.strategy.workers]:
            each.result()
        return None if self.stopped else total, time.monotonic() - began

    def merge(self, remote: Any) -> Any:
        """See `ParameterReplica`."""
        with self.lock:
            n_trained, self.n_trained = self.n_trained, 0
        return self.replica.merge(remote, n_trained, self.rate)

    def stop(self) -> None:
        """Have `train` return soon."""
        self.stopped = True
