"""The divergence guard: detects that a run diverges, and rolls it back to where it was good.

A run is checked after each twentieth of it, and before the end of an epoch. What is judged is the
loss since the last check: the mean per pair of eight parts of that interval, and the median of
these, because where candidates are drawn a single pair can weigh as much as all others. It is
compared with

    untrained loss  the loss of the parameters that the run began with, on a little of the data
    best            the lowest loss so far, of an interval or before training
    baseline        the loss of a model that knows only how often each class occurs

Losses may start anywhere, and with too high a rate they explode before there is a first loss of
training: hence the untrained loss. Parameters are checked as well. A run is good where its loss is
not above that; a copy of its state is kept there. When it diverges it is rolled back to that copy,
or to a checkpoint where memory is short, and continues at a tenth of the learning rate; if that
does not help at a hundredth of that, and then once more. A run that was rolled back must beat the
baseline in the end.

Losses of different phases (`Strategy.phase`) are not quite of the same kind: the best is counted
again in each, from its first interval on, and the baseline need not be beaten to the last digit.
"""

import math
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from embedx.errors import Reason
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MAX_COPY_SHARE, available_memory, n_bytes
from embedx.training.checkpoint import Checkpoints
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally

CHECKS_OF_RUN = 20
PARTS_OF_INTERVAL = 8
# What the rate is divided by, one time after the other: 100,000 in all, by steps that do not lose
# much where it was ten times too high.
DIVISORS = (10, 100, 100)
# How far a loss may be above another, in units of that and at least of one nat (measured:
# docs/constants.md). Above the best or the untrained loss, once:
FAR = 100.0
# Above the untrained loss, once, by the mean over all pairs of an interval:
VERY_FAR = 1000.0
# Above the untrained loss, for LASTING of the run and at MIN_HIGH checks:
HIGH = 10.0
LASTING = 3 / CHECKS_OF_RUN
MIN_HIGH = 3
# Above the baseline at the end, in a later phase of a run that was rolled back, or on held-out
# text:
SLACK = 0.5
# Above the untrained loss, where the run is still worth rolling back to:
GOOD = 0.1
# The square of a larger one comes near the limit of float32.
MAX_PARAMETER = 1e15
IN_STATE = (
    "since",
    "due",
    "phase",
    "untrained_loss",
    "best",
    "baseline",
    "high",
    "step",
    "good_step",
    "is_good",
    "has_begun",
    "lowered",
    "parts",
)


@dataclass
class Guard:
    """What the guard knows of a run. What is in its `state` is rolled back with the run, but for
    `lowered`.

    keeps_copy      of the state, in memory
    since           share of the run done at the last check
    due             share of the run done at the next check
    parts           of the interval since the last check
    untrained_loss  None if it was not measured before training
    best            of the phase
    high            shares of the run done when intervals of a high loss began
    step            the number of chunks that had been trained at the last check
    good_step       the same when the run was good last, as the interval after that has shown; 0 if
                    that was at its start
    is_good         whether the last interval was
    lowered         what the rate was multiplied by after each rollback
    copy            of the state where it was good, or which this run resumes
    """

    is_on: bool = True
    keeps_copy: bool = True
    since: float = 0.0
    due: float = 1 / CHECKS_OF_RUN
    parts: list[Tally] = field(default_factory=lambda: [Tally()] * PARTS_OF_INTERVAL)
    phase: int = 0
    untrained_loss: float | None = None
    best: float = math.inf
    baseline: float | None = None
    high: list[float] = field(default_factory=list)
    step: int = 0
    good_step: int = 0
    is_good: bool = False
    has_begun: bool = False
    lowered: list[float] = field(default_factory=list)
    copy: dict[str, Any] | None = None

    @property
    def factor(self) -> float:
        """What learning rates are multiplied by."""
        return self.lowered[-1] if self.lowered else 1.0

    def state(self) -> TrainState:
        """What is saved with the run."""
        state = TrainState()
        for name in IN_STATE:
            state.add_attribute(f"guard.{name}", self, name)
        return state

    # ---- before training

    def begin(self, strategy: Strategy, state: TrainState, checkpoints: Checkpoints | None) -> None:
        """Make a copy of the state and measure the losses to compare with; a run that is resumed
        has done so already.
        """
        self.strategy = strategy
        self.state_of_run = state
        self.checkpoints = checkpoints
        self.is_on = self.is_on and strategy.is_guarded
        if not self.is_on:
            return
        size = n_bytes({name: value.read() for name, value in state.values.items()})
        self.keeps_copy = size <= MAX_COPY_SHARE * available_memory()
        is_resumed = self.has_begun
        self.has_begun = True
        if not is_resumed:
            self.phase = strategy.phase(0)
        has_copy_on_disk = is_resumed and checkpoints is not None
        if not self.keeps_copy or has_copy_on_disk:
            return
        self.copy = state.snapshot()
        if self.phase == 0 and not is_resumed:
            self._measure_references(self.copy)

    def _measure_references(self, copy: dict[str, Any]) -> None:
        """Measure the losses to compare with, and bring the run back to its start."""
        untrained_loss = _if_finite(self.strategy.sampled_loss())
        baseline = None
        if untrained_loss is not None:
            baseline = _if_finite(self.strategy.baseline_loss())
        self.state_of_run.restore(copy)
        self.untrained_loss = untrained_loss
        self.baseline = baseline
        self.best = math.inf if untrained_loss is None else untrained_loss
        for name in ("untrained_loss", "baseline", "best"):
            copy[f"guard.{name}"] = getattr(self, name)

    # ---- while it trains

    def add(self, share: float, done: Tally) -> None:
        """Count a chunk that was begun when that share of the run was done."""
        part = int(PARTS_OF_INTERVAL * (share - self.since) / (self.due - self.since))
        self.parts[min(max(part, 0), PARTS_OF_INTERVAL - 1)] += done

    def is_due(self, share: float, phase: int) -> bool:
        """Whether the run is to be checked before it continues."""
        return self.is_on and (share >= self.due or phase != self.phase)

    def check(self, share: float, step: int, phase: int, is_over: bool) -> Reason | None:
        """What is wrong with the run, if anything is; keeps a copy of its state if it is good."""
        if not self.is_on:
            return None
        if _has_exploded(self.state_of_run):
            return Reason(f"a parameter grew beyond {MAX_PARAMETER:g}")
        losses = [part.loss / part.pairs for part in self.parts if part.pairs]
        is_good = False
        if losses:
            loss = median(losses)
            total = sum(self.parts, Tally())
            wrong = self._judge(loss, total.loss / total.pairs, share, is_over)
            if wrong is not None:
                return wrong
            self.best = min(self.best, loss)
            is_good = self._is_good_loss(loss)
        self._begin_interval(share)
        # A loss is of parameters before the step that it leads to: an interval shows that the check
        # before was good, not this.
        was_good = self.is_good
        self.is_good = is_good and phase == self.phase
        if is_good:
            self.good_step = self.step
        self.step = step
        if phase != self.phase:
            self.phase = phase
            self.best = math.inf
        if self.is_good and was_good and self.keeps_copy and not is_over:
            # frees its memory for the next
            self.copy = None
            self.copy = self.state_of_run.snapshot()
        return None

    def _is_good_loss(self, loss: float) -> bool:
        """Whether a loss is not above the best and the untrained loss."""
        untrained_loss = self.best if self.untrained_loss is None else self.untrained_loss
        return loss - self.best <= self._unit(self.best) and above(loss, untrained_loss) <= GOOD

    def _begin_interval(self, share: float) -> None:
        """Begin the interval to the next check when this share of the run is done."""
        self.since = share
        self.due = (math.floor(CHECKS_OF_RUN * share) + 1) / CHECKS_OF_RUN
        if self.due <= share:
            self.due += 1 / CHECKS_OF_RUN
        self.parts = [Tally()] * PARTS_OF_INTERVAL

    def _judge(self, loss: float, mean: float, share: float, is_over: bool) -> Reason | None:
        """What is wrong with the loss of an interval, and with the mean over all its pairs."""
        untrained_loss = self.untrained_loss
        best = min(self.best, loss)
        if not math.isfinite(loss):
            return Reason("the loss is not finite")
        if loss - best > FAR * self._unit(best):
            return _increase(best, loss)
        if untrained_loss is None:
            return None
        height = above(loss, untrained_loss)
        self.high = [*self.high, self.since] if height > HIGH else []
        if len(self.high) >= MIN_HIGH and share - self.high[0] >= LASTING:
            return _increase(untrained_loss, loss)
        baseline = untrained_loss if self.baseline is None else min(self.baseline, untrained_loss)
        slack = 0 if self.phase == 0 else SLACK
        if is_over and self.lowered and above(loss, baseline) > slack:
            return Reason(
                f"the loss ended at {loss:.4g}, while that of a model that ignores its inputs is"
                f" {baseline:.4g}"
            )
        if height > FAR or above(mean, untrained_loss) > VERY_FAR:
            return _increase(untrained_loss, max(loss, mean))
        return None

    def _unit(self, best: float) -> float:
        """What a loss above the best is measured in."""
        return max(abs(best), abs(self.untrained_loss or 0) / 10, 1.0)

    # ---- when it diverges

    def roll_back(self) -> bool:
        """Bring the run back to where it was good, at a lower rate; False if that is not known, or
        it was done too often.
        """
        if not self.is_on or len(self.lowered) >= len(DIVISORS) or not self._restore():
            return False
        self.lowered = [*self.lowered, self.factor / DIVISORS[len(self.lowered)]]
        return True

    def end(self) -> bool:
        """Bring the run back to where it was good, to end there; False if that is not known, or its
        loss shows otherwise.
        """
        if self.good_step == 0 or not self._restore() or self.good_step == 0:
            return False
        if self.untrained_loss is None or self.phase != 0:
            return True
        loss = self.strategy.sampled_loss()
        self._restore()
        return loss is None or above(loss, self.untrained_loss) <= SLACK

    def _restore(self) -> bool:
        """Bring the run back to where it was good; False if there is neither a copy nor a
        checkpoint.
        """
        return to_the_end(self._restore_values, then_raise=True)

    def _restore_values(self) -> bool:
        """As `_restore`. Time and learning rates are not rolled back."""
        lowered = self.lowered
        clock = self.state_of_run.values["trainer.seconds"]
        seconds = clock.read()
        if self.copy is not None:
            self.state_of_run.restore(self.copy)
        elif self.checkpoints is None or not self.checkpoints.roll_back(
            self.state_of_run, self.good_step
        ):
            return False
        clock.write(seconds)
        self.lowered = lowered
        self.strategy.forget()
        return True


def _increase(before: float, after: float) -> Reason:
    return Reason(f"the loss went from {before:.4g} to {after:.4g}")


def above(loss: float, other: float) -> float:
    """How far a loss is above another, in units of that and at least of a nat."""
    return (loss - other) / max(abs(other), 1.0)


def _if_finite(loss: float | None) -> float | None:
    return loss if loss is not None and math.isfinite(loss) else None


def _has_exploded(state: TrainState) -> bool:
    """Whether a parameter is not finite, or too large."""
    tables = (value.read() for name, value in state.values.items() if name.endswith(".rows"))
    return any(
        not _is_bounded(table) for table in tables if isinstance(table, np.ndarray) and table.size
    )


def _is_bounded(table: np.ndarray) -> bool:
    """Whether all parameters of a table are finite, and not too large."""
    largest = max(float(table.max()), -float(table.min()))
    return largest <= MAX_PARAMETER
