"""The divergence guard: detects that a run diverges, and rolls it back to where it was good, to end there.

A run is checked after each twentieth of it, and before the end of an epoch. What is judged is the loss since the last check:
the mean per pair of eight parts of that interval, and the median of these, because where candidates are drawn a single pair
can weigh as much as all others. It is compared with the loss of the parameters that the run began with, on a little of the
data: losses may start anywhere, and what is too high a rate explodes before there is a first loss of training. Where that is
unknown, the first interval's stands for it. Parameters are checked as well.

A run is good where its loss is not above that level, nor far above the lowest so far; a copy of its state is kept there, if
there is memory for one.
"""

import math
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from embedx.training.interrupts import to_the_end
from embedx.training.memory import MAX_COPY, available_memory, n_bytes
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally

CHECKS = 20  # of a run
PARTS = 8  # of an interval
# How far a loss may be above another, in units of that and at least of one nat. At default rates no interval of any objective
# was further above the level than 3.5 (the margin, which Adagrad's first steps overshoot), on Bibtex, Omniglot, drawn digits
# and Wikipedia; at a thousand times these rates all but implicit steps were above 40.
HIGH = 20.0
SLACK = 0.5  # where the run ends after a rollback; on held-out text above the unigram baseline
GOOD = 0.1  # where the run is still worth rolling back to
MAX_PARAMETER = 1e15  # the square of a larger one comes near the limit of float32
IN_STATE = ("since", "due", "parts", "initial_loss", "level", "baseline", "best", "is_good", "has_begun")


@dataclass
class Guard:
    """What the guard knows of a run."""

    is_on: bool = True
    since: float = 0.0  # share of the run done at the last check
    due: float = 1 / CHECKS  # share of the run done at the next
    parts: list[Tally] = field(default_factory=lambda: [Tally() for _ in range(PARTS)])  # of the interval
    initial_loss: float | None = None  # per pair, before training
    baseline: float | None = None  # the loss of a model that knows only how often each class occurs
    level: float | None = None
    best: float = math.inf  # the lowest loss of an interval
    is_good: bool = False  # the last interval was
    has_begun: bool = False
    copy: dict[str, Any] | None = None  # of the state where it was good; before, of the beginning
    has_good: bool = False  # the copy is of where it was good

    def state(self) -> TrainState:
        """What is saved with the run."""
        state = TrainState()
        for name in IN_STATE:
            state.add_attribute(f"guard.{name}", self, name)
        return state

    def begin(self, strategy: Strategy, state: TrainState) -> None:
        """Make a copy of the state and measure the losses to compare with; a run that is resumed has done so already."""
        self.is_on = self.is_on and strategy.is_guarded
        if not self.is_on:
            return
        self.has_good, self.has_begun = self.has_begun, True
        if n_bytes({name: value.read() for name, value in state.values.items()}) > MAX_COPY * available_memory():
            return
        self.copy = state.snapshot()
        if not self.has_good:
            initial_loss = _if_finite(strategy.untrained_loss())
            baseline = _if_finite(strategy.baseline_loss()) if initial_loss is not None else None
            state.restore(self.copy)
            self.initial_loss = self.level = initial_loss
            self.baseline = baseline
            self.copy = state.snapshot(into=self.copy)

    # ---- while it trains

    def add(self, share: float, done: Tally) -> None:
        """Count a chunk that was begun when that share of the run was done."""
        at = int(PARTS * (share - self.since) / (self.due - self.since))
        self.parts[min(max(at, 0), PARTS - 1)] += done

    def is_due(self, share: float) -> bool:
        """Whether the run is to be checked before it continues."""
        return self.is_on and share >= self.due

    def check(self, share: float, state: TrainState, is_over: bool) -> str | None:
        """What is wrong with the run, if anything is; keeps a copy of its state if it is good."""
        if not self.is_on:
            return None
        if _has_exploded(state):
            return f"a parameter grew beyond {MAX_PARAMETER:g}"
        was_good, self.is_good = self.is_good, False
        if losses := [part.loss / part.pairs for part in self.parts if part.pairs]:
            loss = median(losses)
            self.level = loss if self.level is None else self.level
            if not math.isfinite(loss):
                return "the loss is not finite"
            if above(loss, self.level) > HIGH:
                return f"the loss went from {self.level:.4g} to {loss:.4g}"
            self.best = min(loss, self.best)
            self.is_good = above(loss, self.level) <= GOOD and above(loss, self.best) <= 1
        self.since, self.due = share, (math.floor(CHECKS * share) + 1) / CHECKS
        if self.due <= share:
            self.due += 1 / CHECKS
        self.parts = [Tally() for _ in range(PARTS)]
        # A loss is of parameters before the step that it leads to, so an interval shows that the check before was good.
        if self.is_good and was_good and self.copy is not None and not is_over:
            self.copy, self.has_good = state.snapshot(into=self.copy), True
        return None

    def end(self, strategy: Strategy, state: TrainState) -> bool:
        """Roll the run back to where it was good; False if that is not known, or its loss shows otherwise."""
        if self.copy is None or not self.has_good:
            return False
        to_the_end(lambda: self._restore(strategy, state), then_raise=True)
        if self.initial_loss is None:
            return True
        loss = strategy.untrained_loss()
        self._restore(strategy, state)
        return loss is None or above(loss, self.initial_loss) <= SLACK

    def _restore(self, strategy: Strategy, state: TrainState) -> None:
        assert self.copy is not None
        state.restore(self.copy)
        strategy.forget()


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
