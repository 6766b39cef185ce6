"""What a worker does: it trains the ranges that it is given, and merges what came of them with what others have learned.

It knows nothing of Ray, so that tests can have workers within one process.
"""

import math
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from embedx.cluster.contract import Divided
from embedx.errors import EmbedxError
from embedx.run.folder import installed_version
from embedx.run.progress import Silent
from embedx.run.tally import Tally

Build = Callable[[int], Divided]  # from the number of threads to a strategy


@dataclass(frozen=True)
class About:
    """What a worker tells of itself."""

    host: str
    pid: int
    version: str


@dataclass(frozen=True)
class Range:
    """Stretches of one pass that a worker trains before it merges."""

    epoch: int
    stretches: range
    rate: float  # of learning, at the first stretch
    next_rate: float  # to which it goes, at the first stretch of the range after it
    rate_factor: float  # see `Strategy`

    def rate_at(self, stretch: int) -> float:
        """Of learning, at a stretch."""
        share = (stretch - self.stretches.start) / len(self.stretches)
        return self.rate + share * (self.next_rate - self.rate)


class Worker:
    """Trains with so many threads what `build` makes. Raises whatever that raises."""

    def __init__(self, build: Build, threads: int) -> None:
        self.strategy = build(threads)
        self.strategy.compile(Silent())
        self.apart = self.strategy.apart()
        self.pool = ThreadPoolExecutor(len(self.strategy.workers))
        self.free: queue.SimpleQueue[Any] = queue.SimpleQueue()  # memory that no thread trains with
        for memory in self.strategy.workers:
            self.free.put(memory)
        self.lock = threading.Lock()
        self.n_trained, self.rate = 0, 0.0  # words or examples since the last merge; learning rate of the last range begun
        self.stopped = False

    def about(self) -> About:
        """Tells that the worker is ready."""
        return About(os.uname().nodename, os.getpid(), installed_version())

    def begin(self, told: Any) -> None:
        """See `Apart.overwrite`."""
        self.apart.overwrite(told)
        self.strategy.forget()
        self.n_trained, self.stopped = 0, False

    def train(self, work: Range) -> tuple[Tally | None, float]:
        """Train a range: what was done, None if it was cut short by `stop`, and the seconds from its first stretch on.

        A thread for which nothing is left of it goes on to the range after it, if that was given meanwhile.
        """
        self.strategy.rate_factor, self.rate = work.rate_factor, work.rate
        left = iter(work.stretches)
        total, began = Tally(), math.inf

        def go_on() -> None:
            nonlocal total, began
            with self.lock:
                began = min(began, time.monotonic())
            memory = self.free.get()
            try:
                while not self.stopped:
                    with self.lock:
                        stretch = next(left, None)
                    if stretch is None:
                        return
                    done = self.strategy.train(memory, work.epoch, stretch, work.rate_at(stretch)) or Tally()
                    with self.lock:
                        total += done
                        self.n_trained += done.words
            finally:
                self.free.put(memory)

        for each in [self.pool.submit(go_on) for _ in self.strategy.workers]:
            each.result()
        return None if self.stopped else total, time.monotonic() - began

    def merge(self, news: Any) -> Any:
        """See `Apart.merge`."""
        with self.lock:
            n_trained, self.n_trained = self.n_trained, 0
        return self.apart.merge(news, n_trained, self.rate)

    def stop(self) -> None:
        """Have `train` return soon."""
        self.stopped = True


def check_same_version(workers: Sequence[About]) -> None:
    """Raise `EmbedxError` if a worker has another version of embedx, whose kernels might do something else."""
    for each in workers:
        if each.version != installed_version():
            raise EmbedxError(
                f"{each.host}: embedx {each.version}, while this is {installed_version()}; install the same on all machines"
            )
