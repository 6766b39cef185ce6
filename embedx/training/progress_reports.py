"""What a run reports while it trains: share done, speed, loss and learning rate."""

import math
from typing import NamedTuple

from embedx.runtime.progress import Progress
from embedx.settings import Record
from embedx.training.schedule import Schedule
from embedx.training.strategy import Strategy, Tally


class Status(NamedTuple):
    """The status of a run, as it is reported.

    tally       sums over the chunks so far
    seconds     duration of training so far, without pauses
    n_finished  number of finished chunks, over all epochs
    loss        loss per pair, if it is known
    """

    tally: Tally
    seconds: float
    n_finished: int
    loss: float | None
    learning_rate: float


class ProgressReports:
    """Reports the status of a run to `progress`. Its speed is that since the last report."""

    def __init__(self, progress: Progress, schedule: Schedule, strategy: Strategy) -> None:
        self.progress = progress
        self.schedule = schedule
        self.strategy = strategy
        # At the last report.
        self.tally = Tally()
        self.seconds = 0.0
        self.loss: float | None = None

    def start(self, status: Status) -> None:
        """Start a bar over the seconds of a time budget, else over words or examples."""
        self.restart_interval(status)
        schedule = self.schedule
        if schedule.time_budget:
            self.progress.start("training", schedule.time_budget, "s", status.seconds)
            return
        total = schedule.n_items * schedule.epochs
        known_total = None if math.isinf(total) else total
        self.progress.start("training", known_total, schedule.unit, status.tally.items)

    def restart_interval(self, status: Status) -> None:
        """Measure the speed from here on: the run starts, or was rolled back."""
        self.tally = status.tally
        self.seconds = status.seconds

    def report(self, status: Status) -> None:
        """Report the status, if it is another one than at the last report."""
        new = status.tally.since(self.tally)
        has_news = new.items > 0 or status.loss != self.loss
        if not has_news or self.strategy.reports_itself:
            return
        facts: Record = {}
        if new.items > 0:
            pace = new.items / max(status.seconds - self.seconds, 1e-9)
            facts[f"{self.schedule.unit}_per_second"] = round(pace)
        if self.schedule.has_epochs:
            facts |= self.schedule.epoch_facts(status.n_finished)
        done: float = status.tally.items
        if self.schedule.time_budget:
            done = min(status.seconds, self.schedule.time_budget)
        self.progress.update(
            done,
            loss=status.loss,
            loss_unit=self.strategy.loss_unit,
            learning_rate=status.learning_rate,
            **facts,
        )
        self.restart_interval(status)
        self.loss = status.loss

    def finish(self) -> None:
        """End the bar."""
        self.progress.finish()
