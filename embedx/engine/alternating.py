"""Alternating full-gradient steps on all input vectors and on all output vectors; no step is kept
that raises the objective.

A row's gradient is divided by the number of times the row occurs. Frequencies span six orders of
magnitude: without the division, a step that suits a frequent row would hardly move a rare one. Rows
move by row-wise Adagrad with momentum.

A step that does not lower the objective is undone and tried again at 1/2 of the rate, then at 1/4
of that rate, 1/8 of that, and so on. A step that lowers it multiplies the rate of its side by
RATE_GROWTH. Rows that are drawn (`collapsed.Tail`) are drawn anew for each iteration, so that the
first step of an iteration compares losses under two sets of draws.
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
from embedx.training.outcome import Outcome
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally

# The last attempt is at the rate divided by 2^28.
MAX_ATTEMPTS_PER_STEP = 8
# Factor of the learning rate after a step that lowers the loss (measured: docs/constants.md).
RATE_GROWTH = 1.2


@dataclass(frozen=True)
class Iteration:
    """Loss and cost after one step of the inputs and one of the outputs; number 0 is the start."""

    number: int
    loss: float  # mean per pair, in the unit of `Descent.loss_unit`
    seconds: float  # of all iterations up to this one
    macs: int  # multiply-adds up to now
    input_rate: float  # learning rate of the inputs' next step


class EndedEarlyError(Exception):
    """The time budget is used up, or the run is to end."""


@dataclass
class Side:
    """The input vectors or the output vectors, with the state and the rate of their steps."""

    table: ndarray  # float32 (n, stride)
    # The first `columns` are trained; the others are constant, such as the inputs' 1 for biases.
    columns: int
    counts: ndarray  # float (n,): how often each row occurs
    rate: float

    def __post_init__(self) -> None:
        self.inverse_count = (1 / np.maximum(self.counts, 1)).astype(float32)[:, None]
        self.state = Means(self.table)

    def direction(self, gradient: ndarray) -> ndarray:
        """The update that is subtracted at rate 1, float32 like the table; overwrites
        `gradient`.
        """
        gradient[:, self.columns :] = 0
        gradient *= self.inverse_count
        return self.state.direction(gradient)


class Descent(Strategy):
    """Alternating steps from the current tables; a chunk is an iteration. `history` has the loss
    after each iteration.

    iterations  number of iterations; None until `budget` is used up
    budget      seconds for iterations; the time that `watch` takes is not counted
    watch       called after each iteration
    """

    reports_itself = True
    is_guarded = False  # a step that raises the objective is undone

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
        self.n_pairs = float(inputs.counts.sum())
        self.iterations = iterations
        self.budget = budget
        self.progress = progress
        self.watch = watch
        self.workers = [None]
        self.n_chunks = 1
        self.history: list[Iteration] = []
        self.macs = 0
        # At the current tables, with the gradient of the inputs.
        self.current: Evaluation | None = None
        self.iteration_start = 0.0  # by time.monotonic()
        # No step lowers the objective any further.
        self.has_converged = False
        # The run is to end, and an iteration has ended before its end.
        self.is_interrupted = False
        self.was_cut_short = False
        self.interrupted_by: BaseException | None = None

    def run(
        self, snapshot: Mapping[str, Any] | None = None, checkpoints: Checkpoints | None = None
    ) -> Outcome:
        """Take all steps. After Ctrl-C or at the end of the time budget, the tables are those after
        the last whole iteration.

        snapshot     state of an earlier run with the same setup, to resume it
        checkpoints  where the state is saved
        """
        schedule = Schedule(
            1.0, 1, 1, self.iterations or math.inf, shape="constant", unit="iterations"
        )
        outcome = trainer.train(
            self, schedule, self.progress, snapshot=snapshot, checkpoints=checkpoints
        )
        losses = [iteration.loss for iteration in self.history]
        pairs = round(self.n_pairs)
        first = losses[0] if losses else None
        last = losses[-1] if losses else None
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
        return self.has_converged or self.was_cut_short

    def interrupt(self) -> None:
        self.is_interrupted = True

    def train_chunk(self, worker: Any, epoch: int, number: int, lr: float) -> Tally | None:
        """Run iteration epoch + 1: one step of the inputs, one of the outputs, each at its own
        rate. `lr` is not used.
        """
        self.iteration_start = time.monotonic()
        before = None
        is_last = epoch + 1 == self.iterations
        try:
            current = self.current or self._start()
            before = self.state().snapshot()
            loss_before = current.loss
            self.rows.redraw(epoch + 1)
            current = self._step(self.inputs, current, OUTPUTS, epoch)
            next_side = NEITHER if is_last else INPUTS
            current = self._step(self.outputs, current, next_side, epoch + 0.5)
            self._report(epoch + 1, current)
            if not current.loss < loss_before:
                self.progress.note(
                    f"no step lowers the objective any further after {epoch + 1} iterations"
                )
                self.has_converged = True
        # `watch` and `progress` may raise KeyboardInterrupt.
        except (EndedEarlyError, KeyboardInterrupt) as reason:
            self.interrupted_by = reason if isinstance(reason, KeyboardInterrupt) else None
            self.was_cut_short = True
            # `history` has the start and each whole iteration.
            if len(self.history) < epoch + 2:
                if before is not None:
                    to_the_end(lambda: self.state().restore(before))
                return None
        self.current = current
        return Tally(current.loss, round(self.n_pairs), 1)

    def state(self) -> TrainState:
        """All that an iteration changes."""
        state = TrainState()
        for name, side in (("inputs", self.inputs), ("outputs", self.outputs)):
            state.add_array(f"{name}.rows", side.table)
            for array_name, array in vars(side.state).items():
                state.add_array(f"{name}.{array_name}", array)
            state.add_attribute(f"{name}.rate", side, "rate")
        state.add_attribute("macs", self, "macs")
        state.add_attribute("converged", self, "has_converged")

        def write_history(values: Any) -> None:
            self.history = [Iteration(**fields) for fields in values]

        def read_history() -> list[dict[str, Any]]:
            return [dataclasses.asdict(iteration) for iteration in self.history]

        state.add("history", read_history, write_history)
        return state

    def _start(self) -> Evaluation:
        """The evaluation at the tables that a run starts or resumes from."""
        self.rows.refit(self.outputs.table)
        self.rows.redraw(max(len(self.history) - 1, 0))
        macs = self.macs
        current = self._evaluate(INPUTS, None)
        if self.history:
            # The run that was interrupted has counted this evaluation.
            self.macs = macs
        else:
            self._report(0, current)
        return current

    def _step(self, side: Side, current: Evaluation, next_side: int, done: float) -> Evaluation:
        """Move one side downhill; return the evaluation after it, with the gradient of `next_side`.

        done  number of iterations before this step
        """
        # The inputs have no gradient while all outputs are zero.
        if not current.gradient[:, : side.columns].any():
            return self._evaluate(next_side, done)
        direction = side.direction(current.gradient)
        table_before = side.table.copy()
        for attempt in range(MAX_ATTEMPTS_PER_STEP):
            table = table_before - float32(side.rate) * direction
            moved = self._move(side, table, next_side, done)
            if moved.loss < current.loss:
                side.rate *= RATE_GROWTH
                return moved
            side.rate /= 2 ** (attempt + 1)
        return self._move(side, table_before, next_side, done)

    def _move(self, side: Side, table: ndarray, next_side: int, done: float) -> Evaluation:
        """Overwrite the table of one side; return the evaluation there."""
        side.table[:] = table
        if side is self.outputs:
            self.rows.refit(side.table)
        return self._evaluate(next_side, done)

    def _evaluate(self, side: int, done: float | None) -> Evaluation:
        """The objective at the current tables, and the gradient of one side.

        done  number of iterations before this evaluation; None at the start
        """
        n_inputs = len(self.inputs.table)

        def report(n: int) -> None:
            if self.is_interrupted or self._seconds() > self.budget:
                raise EndedEarlyError
            facts = (
                {"loss": self.history[-1].loss, "loss_unit": self.loss_unit} if self.history else {}
            )
            self.progress.update(0 if done is None else done + n / n_inputs / 2, **facts)

        evaluation = evaluate(self.rows, self.inputs.table, self.outputs.table, side, report)
        self.macs += evaluation.macs
        return evaluation

    def _seconds(self) -> float:
        """Seconds that iterations have taken so far, without the time of `watch`."""
        before = self.history[-1].seconds if self.history else 0.0
        return before + time.monotonic() - self.iteration_start

    def _report(self, number: int, evaluation: Evaluation) -> None:
        """Add an iteration to `history`, write its line to the log, and call `watch`."""
        loss = evaluation.loss / self.n_pairs
        iteration = Iteration(number, loss, self._seconds(), self.macs, self.inputs.rate)
        self.history.append(iteration)
        self.progress.update(number, loss=loss, loss_unit=self.loss_unit)
        self.progress.note(
            f"iteration {number}: loss {iteration.loss:.4f} {self.loss_unit},"
            f" {iteration.seconds:.1f} s, {self.macs:.3g} multiply-adds, rates"
            f" {self.inputs.rate:.3g} and {self.outputs.rate:.3g}"
        )
        self.watch(iteration)
        self.iteration_start = time.monotonic()
