"""A run whose stretches are ranges that workers train: to the trainer a strategy like any other.

Learning rate, progress, held-out text, checkpoints and the divergence guard are the trainer's, over the parameters in common; a
pause of the run finds all ranges merged, and the guard needs none. A range whose worker is lost is trained by another.
"""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from embedx.cluster.contract import Divided
from embedx.cluster.ray_nodes import DEPTH, LostWorkerError, Remote, Size, Workers
from embedx.cluster.worker import Build, Range
from embedx.run.memory import n_bytes
from embedx.run.progress import Progress
from embedx.run.state import TrainState
from embedx.run.strategy import Strategy
from embedx.run.tally import Tally

SLOWEST = 10.0  # times the usual seconds of a range, after which a worker is given up
LEAST_PATIENCE = 60.0  # seconds


class OnCluster(Strategy):
    """A strategy, `inner`, which has what workers have learned together, by workers that train what `build` makes."""

    def __init__(self, inner: Divided, build: Build, size: Size, per_range: int, progress: Progress) -> None:
        self.inner, self.build, self.size, self.progress = inner, build, size, progress
        self.per_range = min(per_range, inner.n_stretches)
        self.n_stretches = -(-inner.n_stretches // self.per_range)
        self.workers: Sequence[None] = [None] * (DEPTH * size.workers)
        self.is_steady, self.is_guarded, self.loss_unit = inner.is_steady, inner.is_guarded, inner.loss_unit
        self.is_over = False
        self.bytes = 0  # that travelled
        self.usual: float | None = None  # seconds of a range
        self.remote: Workers | None = None

    def compile(self, progress: Progress) -> None:
        """The kernels here, which on one machine are those of its workers, and the workers."""
        self.inner.compile(progress)
        self.common = self.inner.in_common()
        self.remote = Workers(self.build, self.size, progress)
        self.remote.wait()

    def train(self, worker: None, epoch: int, stretch: int, rate: float) -> Tally | None:
        return self.train_long(worker, epoch, stretch, rate, rate)

    def train_long(self, worker: None, epoch: int, stretch: int, rate: float, next_rate: float) -> Tally | None:
        first = stretch * self.per_range
        stretches = range(first, min(first + self.per_range, self.inner.n_stretches))
        if self.inner.is_done(epoch, stretches):
            return Tally()
        work = Range(epoch, stretches, rate, next_rate, self.rate_factor)
        assert self.remote is not None
        while (taken := self.remote.take(lambda: self.is_over)) is not None:
            try:
                tally = self._train(taken, work)
            except LostWorkerError as error:
                self.remote.lost(taken, str(error))
                continue
            self.remote.give_back(taken)
            return tally
        return None

    def _train(self, worker: Remote, work: Range) -> Tally | None:
        """Have a worker train a range and merge it. Raises `LostWorkerError`."""
        with worker.merging:
            told = self.common.beginning(worker.place)
            if told is not None:
                self.bytes += n_bytes(told)
                try:
                    worker.call("begin", told)
                except LostWorkerError:
                    worker.place.told = None  # so that its other range does not take it for begun
                    raise
        tally, seconds = worker.call("train", work, timeout=self.patience)
        self.usual = seconds if self.usual is None else 0.9 * self.usual + 0.1 * seconds
        if tally is None or not math.isfinite(tally.loss):
            return tally  # type: ignore[no-any-return]
        with worker.merging:
            news = self.common.news(worker.place)
            changes = worker.call("merge", news, timeout=LEAST_PATIENCE)
            self.common.add(worker.place, changes)
            self.bytes += n_bytes(news) + n_bytes(changes)
        return tally  # type: ignore[no-any-return]

    def held(self) -> AbstractContextManager[Any]:
        """Nothing is added to what is in common. Parts of ranges under way may be in it; a run that goes back repeats those."""
        return self.common.lock

    @property
    def patience(self) -> float | None:
        """Seconds to wait for a range, and for those that its worker was given before; None while nobody knows what is usual:
        one that dies is lost all the same.
        """
        return None if self.usual is None else max(SLOWEST * self.usual, LEAST_PATIENCE)

    def state(self) -> TrainState:
        return self.inner.state()

    def phase(self, step: int) -> int:
        epoch, at = divmod(step, self.n_stretches)
        return int(self.inner.phase(epoch * self.inner.n_stretches + at * self.per_range))

    def untrained_loss(self) -> float | None:
        return self.inner.untrained_loss()

    def baseline_loss(self) -> float | None:
        return self.inner.baseline_loss()

    def forget(self) -> None:
        """The parameters in common are others: the workers begin from them anew."""
        self.inner.forget()
        if self.remote is not None:
            for each in [*self.remote.all, *self.remote.coming]:
                each.place.told = None

    def interrupt(self) -> None:
        self.is_over = True
        if self.remote is not None:
            for each in self.remote.all:
                each.tell("stop")

    def close(self) -> None:
        """End the workers."""
        if self.remote is not None:
            self.remote.close()
