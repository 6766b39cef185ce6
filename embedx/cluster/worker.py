"""What a worker does: it trains the ranges that it is given, and merges what came of them with what others have learned.

It knows nothing of Ray, so that tests can have workers within one process.
"""

import os
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
    rate: float
    rate_factor: float  # see `Strategy`


class Worker:
    """Trains with so many threads what `build` makes. Raises whatever that raises."""

    def __init__(self, build: Build, threads: int) -> None:
        self.strategy = build(threads)
        self.strategy.compile(Silent())
        self.apart = self.strategy.apart()
        self.pool = ThreadPoolExecutor(len(self.strategy.workers))
        self.lock = threading.Lock()
        self.n_trained = 0  # words or examples since the last merge
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
        """Train a range: what was done, None if it was cut short by `stop`, and the seconds that it took."""
        began = time.monotonic()
        self.strategy.rate_factor = work.rate_factor
        left = iter(work.stretches)
        total = Tally()

        def go_on(memory: Any) -> None:
            nonlocal total
            while not self.stopped:
                with self.lock:
                    stretch = next(left, None)
                if stretch is None:
                    return
                done = self.strategy.train(memory, work.epoch, stretch, work.rate) or Tally()
                with self.lock:
                    total += done
                    self.n_trained += done.words

        list(self.pool.map(go_on, self.strategy.workers))
        return None if self.stopped else total, time.monotonic() - began

    def merge(self, news: Any) -> Any:
        """See `Apart.merge`."""
        with self.lock:
            n_trained, self.n_trained = self.n_trained, 0
        return self.apart.merge(news, n_trained)

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
