"""The divergence guard: detects that a run diverges, and rolls it back to its last good state.

A run is checked at each twentieth of it, and before an epoch is reported, by its loss since the
last check: the median of the mean losses per pair of eight parts of that interval. (With drawn
candidates a single pair can weigh as much as all others, hence the median.) It is compared with

    untrained loss  the loss of the initial parameters, on a little of the data
    best            the lowest loss so far, of an interval or before training
    baseline        the loss of a model that predicts the frequencies of classes

Losses may start at any level, and with too high a rate they explode before the first check: hence
the untrained loss. Parameters are checked as well. A state is good if its loss is not above the
untrained loss and the best; a copy of the last good state is kept. A run that diverges is rolled
back to it, or to a checkpoint if memory is short, and continues at a tenth of the learning rate; if
it diverges again, at a hundredth of that, and then once more. A run that was rolled back must beat
the baseline in the end.

Losses of different phases (`Strategy.phase`) are not quite comparable: the best starts again in
each phase, from its first interval on, and the baseline may be missed by a little.
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
# Divisors of the learning rate at successive rollbacks: 100,000 in all; the first is small for
# rates that are ten times too high.
DIVISORS = (10, 100, 100)
# Maximum excess of a loss over another, in units of that loss and at least of one nat (measured:
# docs/constants.md). Over the best or the untrained loss, at one check:
FAR = 100.0
# Over the untrained loss, at one check, for the mean over all pairs of an interval:
VERY_FAR = 1000.0
# Over the untrained loss, for a share LASTING of the run and at MIN_HIGH checks:
HIGH = 10.0
LASTING = 3 / CHECKS_OF_RUN
MIN_HIGH = 3
# Over the baseline at the end, in a later phase of a run that was rolled back, or on held-out text:
SLACK = 0.5
# Over the untrained loss, for a state that is worth rolling back to:
GOOD = 0.1
# The square of a larger parameter comes near the limit of float32.
MAX_PARAMETER = 1e15
IN_STATE = (
    "interval_start",
    "interval_end",
    "phase",
    "untrained_loss",
    "best",
    "baseline",
    "high_since",
    "chunks_at_check",
    "chunks_at_good_state",
    "is_good",
    "has_begun",
    "factors",
    "parts",
)


@dataclass
class Guard:
    """The guard of a run. Its `state` is rolled back with the run, except for `factors`.

    state_of_run    complete once `begin` is called
    is_on           whether the run is checked at all
    keeps_copy      whether a copy of the state is kept in memory
    interval_start  share of the run done at the last check
    interval_end    share of the run done at the next check
    parts           tallies of the parts of the interval
    untrained_loss  None if it was not measured before training
    best            best loss of the phase
    high_since      the starts of the latest intervals, as long as their loss was high
    chunks_at_check number of chunks trained at the last check
    chunks_at_good_state
                    number of chunks trained at the last good state, as the interval after it has
                    shown; 0 if that was the start
    is_good         whether the last interval was good
    factors         factor of the learning rate after each rollback
    copy            of the last good state, at first of the initial one or the one that is resumed
    """

    strategy: Strategy
    state_of_run: TrainState
    checkpoints: Checkpoints | None

    is_on: bool = field(init=False)
    keeps_copy: bool = True
    interval_start: float = 0.0
    interval_end: float = 1 / CHECKS_OF_RUN
    parts: list[Tally] = field(default_factory=lambda: [Tally()] * PARTS_OF_INTERVAL)
    phase: int = 0
    untrained_loss: float | None = None
    best: float = math.inf
    baseline: float | None = None
    high_since: list[float] = field(default_factory=list)
    chunks_at_check: int = 0
    chunks_at_good_state: int = 0
    is_good: bool = False
    has_begun: bool = False
    factors: list[float] = field(default_factory=list)
    copy: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.is_on = self.strategy.is_guarded

    @property
    def factor(self) -> float:
        """The current factor of learning rates."""
        return self.factors[-1] if self.factors else 1.0

    def state(self) -> TrainState:
        """The state of the guard, which is saved with the run."""
        state = TrainState()
        for name in IN_STATE:
            state.add_attribute(f"guard.{name}", self, name)
        return state

    # ---- before training

    def begin(self) -> None:
        """Copy the state, and measure the losses to compare with. A resumed run has these, and
        rolls back to its checkpoint; where memory is short there is neither.
        """
        if not self.is_on:
            return
        size = n_bytes(self.state_of_run.live_values())
        self.keeps_copy = size <= MAX_COPY_SHARE * available_memory()
        is_resumed = self.has_begun
        self.has_begun = True
        if not is_resumed:
            self.phase = self.strategy.phase(0)
        has_copy_on_disk = is_resumed and self.checkpoints is not None
        if not self.keeps_copy or has_copy_on_disk:
            return
        self.copy = self.state_of_run.snapshot()
        if self.phase == 0 and not is_resumed:
            self._measure_references(self.copy)

    def _measure_references(self, copy: dict[str, Any]) -> None:
        """Measure the losses to compare with, then restore the initial state."""
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

    # ---- during training

    def add(self, share: float, done: Tally) -> None:
        """Add a chunk that was started at this share of the run."""
        part = int(
            PARTS_OF_INTERVAL
            * (share - self.interval_start)
            / (self.interval_end - self.interval_start)
        )
        self.parts[min(max(part, 0), PARTS_OF_INTERVAL - 1)] += done

    def is_due(self, share: float, phase: int) -> bool:
        """Whether a check is due."""
        return self.is_on and (share >= self.interval_end or phase != self.phase)

    def check(self, share: float, n_chunks: int, phase: int, is_over: bool) -> Reason | None:
        """Why the run diverges; None if it does not. Copies its state if it is good."""
        if not self.is_on:
            return None
        if _has_exploded(self.state_of_run):
            return Reason(f"a parameter grew beyond {MAX_PARAMETER:g}")
        losses = [part.loss / part.pairs for part in self.parts if part.pairs]
        is_good = False
        if losses:
            loss = median(losses)
            total = sum(self.parts, Tally())
            self._note_height(loss)
            reason = self._judge(loss, total.loss / total.pairs, share, is_over)
            if reason is not None:
                return reason
            self.best = min(self.best, loss)
            is_good = self._is_good_loss(loss)
        self._begin_interval(share)
        # A loss is that of the parameters before an update: an interval shows whether the state at
        # the previous check was good, not at this one.
        was_good = self.is_good
        self.is_good = is_good and phase == self.phase
        if is_good:
            self.chunks_at_good_state = self.chunks_at_check
        self.chunks_at_check = n_chunks
        if phase != self.phase:
            self.phase = phase
            self.best = math.inf
        if self.is_good and was_good and self.keeps_copy and not is_over:
            # Makes room for the next one.
            self.free_copy()
            self.copy = self.state_of_run.snapshot()
        return None

    def _is_good_loss(self, loss: float) -> bool:
        """Whether a loss is not above the best and the untrained loss."""
        untrained_loss = self.best if self.untrained_loss is None else self.untrained_loss
        return loss - self.best <= self._unit(self.best) and excess(loss, untrained_loss) <= GOOD

    def _begin_interval(self, share: float) -> None:
        """Start the interval to the next check, at this share of the run."""
        self.interval_start = share
        self.interval_end = (math.floor(CHECKS_OF_RUN * share) + 1) / CHECKS_OF_RUN
        if self.interval_end <= share:
            self.interval_end += 1 / CHECKS_OF_RUN
        self.parts = [Tally()] * PARTS_OF_INTERVAL

    def _note_height(self, loss: float) -> None:
        """Keep the start of an interval whose loss is high; forget those before one that is not."""
        is_high = self.untrained_loss is not None and excess(loss, self.untrained_loss) > HIGH
        self.high_since = [*self.high_since, self.interval_start] if is_high else []

    def _judge(self, loss: float, mean: float, share: float, is_over: bool) -> Reason | None:
        """Why the loss of an interval, or its mean over all pairs, shows divergence; or None."""
        untrained_loss = self.untrained_loss
        best = min(self.best, loss)
        if not math.isfinite(loss):
            return Reason("the loss is not finite")
        if loss - best > FAR * self._unit(best):
            return _increase(best, loss)
        if untrained_loss is None:
            return None
        if len(self.high_since) >= MIN_HIGH and share - self.high_since[0] >= LASTING:
            return _increase(untrained_loss, loss)
        baseline = untrained_loss if self.baseline is None else min(self.baseline, untrained_loss)
        slack = 0 if self.phase == 0 else SLACK
        if is_over and self.factors and excess(loss, baseline) > slack:
            return Reason(
                f"the loss ended at {loss:.4g}, while that of a model that ignores its inputs is"
                f" {baseline:.4g}"
            )
        is_far = excess(loss, untrained_loss) > FAR
        if is_far or excess(mean, untrained_loss) > VERY_FAR:
            return _increase(untrained_loss, max(loss, mean))
        return None

    def _unit(self, best: float) -> float:
        """The unit of the excess of a loss over the best."""
        return max(abs(best), abs(self.untrained_loss or 0) / 10, 1.0)

    # ---- rollbacks

    def roll_back(self) -> bool:
        """Restore the last good state, and lower the rate; return False if there is no good state,
        or there were too many rollbacks.
        """
        if not self.is_on or len(self.factors) >= len(DIVISORS) or not self._restore():
            return False
        self.factors = [*self.factors, self.factor / DIVISORS[len(self.factors)]]
        return True

    def end_at_good_state(self) -> bool:
        """Restore the last good state, to end there; return False if there is none, or its loss
        shows otherwise.
        """
        if self.chunks_at_good_state == 0 or not self._restore() or self.chunks_at_good_state == 0:
            return False
        if self.untrained_loss is None or self.phase != 0:
            return True
        loss = self.strategy.sampled_loss()
        self._restore()
        return loss is None or excess(loss, self.untrained_loss) <= SLACK

    def free_copy(self) -> None:
        """Free the memory of the copy, at the end of training."""
        self.copy = None

    def _restore(self) -> bool:
        """Restore the last good state; return False if there is neither a copy nor a checkpoint."""
        return to_the_end(self._restore_values, then_raise=True)

    def _restore_values(self) -> bool:
        """`_restore`; time and learning rates are not rolled back."""
        factors = self.factors
        clock = self.state_of_run.values["trainer.seconds"]
        seconds = clock.read()
        if self.copy is not None:
            self.state_of_run.restore(self.copy)
        elif self.checkpoints is None or not self.checkpoints.roll_back(
            self.state_of_run, self.chunks_at_good_state
        ):
            return False
        clock.write(seconds)
        self.factors = factors
        self.strategy.after_rollback()
        return True


def _increase(before: float, after: float) -> Reason:
    return Reason(f"the loss went from {before:.4g} to {after:.4g}")


def excess(loss: float, other: float) -> float:
    """How far a loss is above another, in units of the latter and at least of a nat."""
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
