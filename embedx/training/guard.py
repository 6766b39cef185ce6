"""The divergence guard: detects that a run diverges, and rolls it back to where it was good.

A run is checked after each twentieth of it, and before the end of an epoch. What is judged is the
loss since the last check: the mean per pair of eight parts of that interval, and the median of
these, because where candidates are drawn a single pair can weigh as much as all others. It is
compared with

    level     the loss of the parameters that the run began with, on a little of the data
    best      the lowest loss so far, of an interval or before training
    baseline  the loss of a model that knows only how often each class occurs

Losses may start anywhere, and what is too high a rate explodes before there is a first loss of
training: hence the level. Parameters are checked as well. A run is good where its loss is not above
its level; a copy of its state is kept there. When it diverges it is rolled back to that copy, or to
a checkpoint where memory is short, and continues at a tenth of the learning rate; if that does not
help at a hundredth of that, and then once more. A run that was rolled back must beat the baseline
in the end.

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
from embedx.runtime.memory import MAX_COPY, available_memory, n_bytes
from embedx.training.checkpoint import Checkpoints
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally

CHECKS = 20  # of a run
PARTS = 8  # of an interval
# What the rate is divided by, one time after the other: 100,000 in all, by steps that do not lose
# much where it was ten times too high.
DIVISORS = (10, 100, 100)
# How far a loss may be above another, in units of that and at least of one nat. At default rates no
# interval of any objective was further above the first level than 3.5 (the margin, which Adagrad's
# first steps overshoot), on Bibtex, Omniglot, drawn digits and Wikipedia; at a thousand times these
# rates all but implicit steps were above 40.
FAR = 100.0  # above the best or the level, once
VERY_FAR = 1000.0  # above the level, once, by the mean over all pairs of an interval
HIGH = 10.0  # above the level, for LASTING of the run and at MIN_HIGH checks
LASTING = 3 / CHECKS
MIN_HIGH = 3
# above the baseline at the end, in a later phase of a run that was rolled back, or on held-out text
SLACK = 0.5
GOOD = 0.1  # above the level, where the run is still worth rolling back to
MAX_PARAMETER = 1e15  # the square of a larger one comes near the limit of float32
IN_STATE = (
    "since",
    "due",
    "phase",
    "level",
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
    """

    is_on: bool = True
    keeps_copy: bool = True  # of the state, in memory
    since: float = 0.0  # share of the run done at the last check
    due: float = 1 / CHECKS  # share of the run done at the next
    parts: list[Tally] = field(default_factory=lambda: [Tally()] * PARTS)  # of the interval
    phase: int = 0
    level: float | None = None  # if it was measured before training
    best: float = math.inf  # of the phase
    baseline: float | None = None
    # shares of the run done when intervals of a high loss began
    high: list[float] = field(default_factory=list)
    step: int = 0  # the number of chunks that had been trained at the last check
    # the same when the run was good last, as the interval after that has shown; 0 if that was at
    # its start
    good_step: int = 0
    is_good: bool = False  # the last interval was
    has_begun: bool = False
    # what the rate was multiplied by after each rollback
    lowered: list[float] = field(default_factory=list)
    copy: dict[str, Any] | None = None  # of the state where it was good, or which this run resumes

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
        self.strategy, self.run, self.checkpoints = strategy, state, checkpoints
        self.is_on = self.is_on and strategy.is_guarded
        if not self.is_on:
            return
        size = n_bytes({name: value.read() for name, value in state.values.items()})
        self.keeps_copy = size <= MAX_COPY * available_memory()
        is_resumed, self.has_begun = self.has_begun, True
        if not is_resumed:
            self.phase = strategy.phase(0)
        if not self.keeps_copy or (is_resumed and checkpoints is not None):
            return
        self.copy = state.snapshot()
        if self.phase == 0 and not is_resumed:
            level = _if_finite(strategy.untrained_loss())
            baseline = _if_finite(strategy.baseline_loss()) if level is not None else None
            state.restore(self.copy)
            self.level, self.baseline, self.best = (
                level,
                baseline,
                math.inf if level is None else level,
            )
            self.copy |= {
                f"guard.{name}": getattr(self, name) for name in ("level", "baseline", "best")
            }

    # ---- while it trains

    def add(self, share: float, done: Tally) -> None:
        """Count a chunk that was begun when that share of the run was done."""
        at = int(PARTS * (share - self.since) / (self.due - self.since))
        self.parts[min(max(at, 0), PARTS - 1)] += done

    def is_due(self, share: float, phase: int) -> bool:
        """Whether the run is to be checked before it continues."""
        return self.is_on and (share >= self.due or phase != self.phase)

    def check(self, share: float, step: int, phase: int, is_over: bool) -> Reason | None:
        """What is wrong with the run, if anything is; keeps a copy of its state if it is good."""
        if not self.is_on:
            return None
        if _has_exploded(self.run):
            return Reason(f"a parameter grew beyond {MAX_PARAMETER:g}")
        losses = [part.loss / part.pairs for part in self.parts if part.pairs]
        is_good = False
        if losses:
            loss, of_all = median(losses), sum(self.parts, Tally())
            if wrong := self._judge(loss, of_all.loss / of_all.pairs, share, is_over):
                return wrong
            self.best = min(self.best, loss)
            is_good = loss - self.best <= self._unit(self.best)
            is_good &= above(loss, self.best if self.level is None else self.level) <= GOOD
        self.since, self.due = share, (math.floor(CHECKS * share) + 1) / CHECKS
        if self.due <= share:
            self.due += 1 / CHECKS
        self.parts = [Tally()] * PARTS
        # A loss is of parameters before the step that it leads to: an interval shows that the check
        # before was good, not this.
        was_good, self.is_good = self.is_good, is_good and phase == self.phase
        last, self.step = self.step, step
        if is_good:
            self.good_step = last
        if phase != self.phase:
            self.phase, self.best = phase, math.inf
        if self.is_good and was_good and self.keeps_copy and not is_over:
            self.copy = None  # frees its memory for the next
            self.copy = self.run.snapshot()
        return None

    def _judge(self, loss: float, mean: float, share: float, is_over: bool) -> Reason | None:
        """What is wrong with the loss of an interval, and with the mean over all its pairs."""
        level = self.level
        best = min(self.best, loss)
        if not math.isfinite(loss):
            return Reason("the loss is not finite")
        if loss - best > FAR * self._unit(best):
            return _increase(best, loss)
        if level is None:
            return None
        height = above(loss, level)
        self.high = [*self.high, self.since] if height > HIGH else []
        if len(self.high) >= MIN_HIGH and share - self.high[0] >= LASTING:
            return _increase(level, loss)
        baseline = level if self.baseline is None else min(self.baseline, level)
        if is_over and self.lowered and above(loss, baseline) > (0 if self.phase == 0 else SLACK):
            return Reason(
                f"the loss ended at {loss:.4g}, while that of a model that ignores its inputs is"
                f" {baseline:.4g}"
            )
        is_far = max(height / FAR, above(mean, level) / VERY_FAR) > 1
        if is_far:
            return _increase(level, max(loss, mean))
        return None

    def _unit(self, best: float) -> float:
        """What a loss above the best is measured in."""
        return max(abs(best), abs(self.level or 0) / 10, 1.0)

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
        if self.level is None or self.phase != 0:
            return True
        loss = self.strategy.untrained_loss()
        self._restore()
        return loss is None or above(loss, self.level) <= SLACK

    def _restore(self) -> bool:
        """Bring the run back to where it was good; False if there is neither a copy nor a
        checkpoint.
        """
        lowered, clock = self.lowered, self.run.values["trainer.seconds"]
        seconds = clock.read()

        def restore() -> bool:
            if self.copy is not None:
                self.run.restore(self.copy)
            elif self.checkpoints is None or not self.checkpoints.roll_back(
                self.run, self.good_step
            ):
                return False
            clock.write(seconds)
            self.lowered = lowered
            self.strategy.forget()
            return True

        return to_the_end(restore, then_raise=True)


def _increase(before: float, after: float) -> Reason:
    return Reason(f"the loss went from {before:.4g} to {after:.4g}")


def above(loss: float, level: float) -> float:
    """How far a loss is above another, in units of that and at least of a nat."""
    return (loss - level) / max(abs(level), 1.0)


def _if_finite(loss: float | None) -> float | None:
    return loss if loss is not None and math.isfinite(loss) else None


def _has_exploded(state: TrainState) -> bool:
    """Whether a parameter is not finite, or too large."""
    tables = (value.read() for name, value in state.values.items() if name.endswith(".rows"))
    return any(
        not max(float(table.max()), -float(table.min())) <= MAX_PARAMETER
        for table in tables
        if isinstance(table, np.ndarray) and table.size
    )
