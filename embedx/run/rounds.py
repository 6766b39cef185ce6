"""Several threads and still the same result to the last bit, however many they are: stretches are trained in rounds.

A round has LANES stretches. Each is trained from the parameters that the round began with, apart from the others; then what
they have added is summed in the order of the stretches. Which thread trains which of them, and when, makes no difference.
"""

import abc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from embedx.run.progress import Progress
from embedx.run.state import TrainState
from embedx.run.strategy import Strategy
from embedx.run.tally import Tally

LANES = 4  # stretches in a round, whatever the number of threads; that many threads have something to do


class Lanes(Strategy):
    """A strategy whose `workers` are the lanes of a round: `train` with one of them does not change what the others see."""

    def begin_round(self, epoch: int, stretch: int) -> None:
        """A round is to begin with this stretch."""

    @abc.abstractmethod
    def merge(self, n_lanes: int, part: int, parts: int) -> None:
        """Add what the first lanes have added: one of `parts` equal parts of the work, which several threads do at once."""

    def end_round(self, n_lanes: int) -> None:
        """All that the first lanes have added is there."""


class InRounds(Strategy):
    """The stretches of a strategy in rounds, each of which is a stretch of this one."""

    def __init__(self, strategy: Lanes, threads: int) -> None:
        self.strategy, self.threads, self.loss_unit = strategy, threads, strategy.loss_unit
        self.workers = [None]
        self.n_stretches = -(-strategy.n_stretches // LANES)
        self.pool = ThreadPoolExecutor(threads)

    def compile(self, progress: Progress) -> None:
        self.strategy.compile(progress)

    def train(self, worker: Any, epoch: int, stretch: int, rate: float) -> Tally:
        strategy, first = self.strategy, stretch * LANES
        stretches = range(first, min(first + LANES, strategy.n_stretches))
        n = len(stretches)
        strategy.begin_round(epoch, first)
        done = list(self.pool.map(lambda lane, at: strategy.train(lane, epoch, at, rate), strategy.workers[:n], stretches))
        list(self.pool.map(lambda part: strategy.merge(n, part, self.threads), range(self.threads)))
        strategy.end_round(n)
        total = Tally()
        for each in done:
            total += each or Tally()
        return total

    def state(self) -> TrainState:
        return self.strategy.state()

    # ---- for the divergence guard, which looks at the run between two rounds

    @property
    def rate_factor(self) -> float:
        return self.strategy.rate_factor

    @rate_factor.setter
    def rate_factor(self, factor: float) -> None:
        self.strategy.rate_factor = factor

    def phase(self, step: int) -> int:
        epoch, at = divmod(step, self.n_stretches)
        return self.strategy.phase(epoch * self.strategy.n_stretches + at * LANES)

    def untrained_loss(self) -> float | None:
        return self.strategy.untrained_loss()

    def baseline_loss(self) -> float | None:
        return self.strategy.baseline_loss()

    def forget(self) -> None:
        self.strategy.forget()
