"""Full gradient steps on all input vectors and on all output vectors in turn, none of which makes
the objective worse.

A row's gradient is divided by how often the row occurs, for frequencies span six orders of
magnitude and a step that suits a frequent row would leave a rare one where it is. A row then moves
by row-wise Adagrad with momentum.

The objective is known at each point anyway, from the gradient of the step after. A step that does
not lower it is reverted and tried again at half the rate, then at a quarter of that, an eighth of
that; one that does lets the rate of its side grow. Where some of the rows are drawn
(`collapsed.Tail`), that is done again for each iteration, so that its first step is compared by two
sets of draws.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import float32, ndarray

from embedx.engine.collapsed import INPUTS, NEITHER, OUTPUTS, AllRows, Evaluation, evaluate
from embedx.optimizers.rowwise_adagrad_momentum import Means
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.progress import Progress
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally

TRIES = 8  # of a step, the last at the rate divided by 2^28
# of the learning rate after a step that lowers the loss (measured: docs/constants.md)
GROWTH = 1.2


@dataclass(frozen=True)
class Iteration:
    """Where the vectors stood after a step of the inputs and one of the outputs; number 0 is the
    start.
    """

    number: int
    loss: float  # mean per pair, in the unit of `Descent.loss_unit`
    seconds: float  # of iterations so far
    macs: int  # multiply-adds so far
    input_rate: float  # of the next step


class EndedEarlyError(Exception):
    """The time budget is used up, or the run is to end."""


@dataclass
class Side:
    """The input vectors or the output vectors, and how they move."""

    table: ndarray  # float32 (n, stride)
    columns: int  # that move; what stands in others, such as the inputs' 1 for the biases, stays
    times: ndarray  # float (n,): how often each row occurs
    rate: float

    def __post_init__(self) -> None:
        self.share = (1 / np.maximum(self.times, 1)).astype(float32)[:, None]
        self.state = Means(self.table)

    def direction(self, gradient: ndarray) -> ndarray:
        """Where the next step at rate 1 leads from here, float32 like the table; overwrites
        `gradient`.
        """
        gradient[:, self.columns :] = 0
        gradient *= self.share
        return self.state.direction(gradient)


class Descent(Strategy):
    """Alternating steps, from wherever the tables are; a chunk is an iteration. `history` has the
    loss after each.

    iterations  None for as many as there is time for
    budget      seconds of iterations; the time of `watch`, which is called after each, is not
                counted
    """

    reports_itself = True
    is_guarded = False  # no step makes the objective worse

    def __init__(
        self,
        rows: AllRows,
        inputs: Side,
        outputs: Side,
        iterations: int | None,
        budget: float,
        progress: Progress,
        watch: Callable[[Iteration], None] = lambda iteration: None,
    ) -> None:
        self.rows = rows
        self.inputs = inputs
        self.outputs = outputs
        self.loss_unit = f"nats per pair{rows.scope}"
        self.n_pairs = float(inputs.times.sum())
        self.iterations = iterations
        self.budget = budget
        self.progress = progress
        self.watch = watch
        self.workers = [None]
        self.n_chunks = 1
        self.history: list[Iteration] = []
        self.macs = 0
        # at the tables as they are, with the gradient by the inputs
        self.here: Evaluation | None = None
        self.since = 0.0  # of time.monotonic(): the beginning of this iteration
        self.finished = self.interrupted = self.was_cut = False
        self.interrupted_by: BaseException | None = None

    def run(
        self, snapshot: Mapping[str, Any] | None = None, checkpoints: Checkpoints | None = None
    ) -> trainer.Outcome:
        """Take all steps. Ctrl-C and the end of the time leave the tables as they were after the
        last whole iteration.

        `snapshot` is of the state of a run that was set up alike, to resume; `checkpoints` keep it
        on disk.
        """
        schedule = Schedule(
            1.0, 1, 1, self.iterations or math.inf, shape="constant", unit="iterations"
        )
        outcome = trainer.run(
            self, schedule, self.progress, snapshot=snapshot, checkpoints=checkpoints
        )
        losses = [each.loss for each in self.history]
        pairs = round(self.n_pairs)
        first, last = (losses[0], losses[-1]) if losses else (None, None)
        return dataclasses.replace(
            outcome,
            tally=Tally(pairs * (last or 0.0), pairs),
            seconds=self.history[-1].seconds if losses else 0.0,
            epochs=max(len(losses) - 1, 0),
            initial_loss=first,
            final_loss=last,
            interrupted_by=self.interrupted_by or outcome.interrupted_by,
        )

    def compile(self, progress: Progress) -> None:
        self.rows.compile()

    @property
    def is_finished(self) -> bool:
        return self.finished or self.was_cut

    def interrupt(self) -> None:
        self.interrupted = True

    def train(self, worker: Any, epoch: int, chunk: int, rate: float) -> Tally | None:
        """Iteration epoch + 1: a step of the inputs and one of the outputs. The rates are the
        sides' own.
        """
        self.since = time.monotonic()
        before = None
        try:
            here = self.here or self._start()
            before = self.state().snapshot()
            loss_before = here.loss
            self.rows.redraw(epoch + 1)
            here = self._step(self.inputs, here, OUTPUTS, epoch)
            here = self._step(
                self.outputs, here, NEITHER if epoch + 1 == self.iterations else INPUTS, epoch + 0.5
            )
            self._report(epoch + 1, here)
            if not here.loss < loss_before:
                self.progress.note(
                    f"no step lowers the objective any further after {epoch + 1} iterations"
                )
                self.finished = True
        except (
            EndedEarlyError,
            KeyboardInterrupt,
        ) as reason:  # the latter of `watch` or `progress`
            self.interrupted_by = reason if isinstance(reason, KeyboardInterrupt) else None
            self.was_cut = True
            if len(self.history) < epoch + 2:  # the start's and those of whole iterations
                if before is not None:
                    to_the_end(lambda: self.state().restore(before))
                return None
        self.here = here
        return Tally(here.loss, round(self.n_pairs), 1)

    def state(self) -> TrainState:
        """All that an iteration changes."""
        state = TrainState()
        for name, side in (("inputs", self.inputs), ("outputs", self.outputs)):
            state.add_array(f"{name}.rows", side.table)
            for each, array in vars(side.state).items():
                state.add_array(f"{name}.{each}", array)
            state.add_attribute(f"{name}.rate", side, "rate")
        state.add_attribute("macs", self, "macs")
        state.add_attribute("finished", self, "finished")

        def write_history(values: Any) -> None:
            self.history = [Iteration(**each) for each in values]

        state.add(
            "history", lambda: [dataclasses.asdict(each) for each in self.history], write_history
        )
        return state

    def _start(self) -> Evaluation:
        """The evaluation at the tables as they are, at the start of all iterations or where a run
        is resumed.
        """
        self.rows.refit(self.outputs.table)
        self.rows.redraw(max(len(self.history) - 1, 0))
        macs = self.macs
        here = self._evaluate(INPUTS, None)
        if self.history:
            self.macs = macs  # it was counted before
        else:
            self._report(0, here)
        return here

    def _step(self, side: Side, here: Evaluation, then: int, done: float) -> Evaluation:
        """Move one side downhill; the evaluation there, with the gradient by the side `then`.
        `done` iterations were before.
        """
        # as of the inputs while all outputs are zero
        if not here.gradient[:, : side.columns].any():
            return self._evaluate(then, done)
        direction = side.direction(here.gradient)
        kept = side.table.copy()
        for attempt in range(TRIES):
            there = self._move(side, kept - float32(side.rate) * direction, then, done)
            if there.loss < here.loss:
                side.rate *= GROWTH
                return there
            side.rate /= 2 ** (attempt + 1)
        return self._move(side, kept, then, done)

    def _move(self, side: Side, table: ndarray, then: int, done: float) -> Evaluation:
        """Overwrite the table of one side; the evaluation there."""
        side.table[:] = table
        if side is self.outputs:
            self.rows.refit(side.table)
        return self._evaluate(then, done)

    def _evaluate(self, side: int, done: float | None) -> Evaluation:
        """The objective and a gradient at the tables as they are; `done` iterations were before,
        None at the start.
        """
        n_inputs = len(self.inputs.table)

        def report(n: int) -> None:
            if self.interrupted or self._seconds() > self.budget:
                raise EndedEarlyError
            facts = (
                {"loss": self.history[-1].loss, "loss_unit": self.loss_unit} if self.history else {}
            )
            self.progress.update(0 if done is None else done + n / n_inputs / 2, **facts)

        found = evaluate(self.rows, self.inputs.table, self.outputs.table, side, report)
        self.macs += found.macs
        return found

    def _seconds(self) -> float:
        """Of iterations so far."""
        return (self.history[-1].seconds if self.history else 0.0) + time.monotonic() - self.since

    def _report(self, number: int, here: Evaluation) -> None:
        loss = here.loss / self.n_pairs
        iteration = Iteration(number, loss, self._seconds(), self.macs, self.inputs.rate)
        self.history.append(iteration)
        self.progress.note(
            f"iteration {number}: loss {iteration.loss:.4f} {self.loss_unit},"
            f" {iteration.seconds:.1f} s, {self.macs:.3g} multiply-adds, rates"
            f" {self.inputs.rate:.3g} and {self.outputs.rate:.3g}"
        )
        self.watch(iteration)
        self.since = time.monotonic()
