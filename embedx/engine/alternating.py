"""Full gradient steps on all input vectors and on all output vectors in turn, none of which makes the objective worse.

A row's gradient is divided by how often the row occurs, for frequencies span six orders of magnitude and a step that suits a
frequent row would leave a rare one where it is. What comes out goes to an optimiser for full gradients.

The objective is known at each point anyway, from the gradient of the step after. A step that does not lower it is taken back
and tried again at half the rate, then at a quarter of that, an eighth of that; one that does lets the rate of its side grow.
Where some of the rows are drawn (`collapsed.Tail`), that is done anew for each iteration, so that its first step is compared
by two sets of draws.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from embedx.engine.collapsed import INPUTS, NEITHER, OUTPUTS, Evaluation, Rows, evaluate
from embedx.optimizers.contract import Optimizer
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints
from embedx.training.interrupts import to_the_end
from embedx.training.progress import Progress
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally

TRIES = 8  # of a step, the last at the rate divided by 2^28
# On 10 MB of Wikipedia with 10,000 words, 15 iterations of row-wise Adagrad went from 8.155 to 7.650 nats; without growth to
# 7.715.
GROWTH = 1.2


@dataclass(frozen=True)
class Iteration:
    """Where the vectors stood after a step of the inputs and one of the outputs; number 0 is the start."""

    number: int
    loss: float  # mean per pair, in the unit of `Descent.loss_unit`
    seconds: float  # of iterations so far
    macs: int  # multiply-adds so far
    input_rate: float  # of the next step
    output_rate: float


class EndedEarlyError(Exception):
    """The time budget is used up, or the run is to end."""


@dataclass
class Side:
    """The input vectors or the output vectors, and how they move."""

    table: np.ndarray  # float32 (n, stride)
    columns: int  # that move; what stands in others, such as the inputs' 1 for the biases, stays
    times: np.ndarray  # float (n,): how often each row occurs
    rate: float
    optimizer: type[Optimizer]

    def __post_init__(self) -> None:
        self.share = (1 / np.maximum(self.times, 1)).astype(np.float32)[:, None]
        self.state = self.optimizer.full_gradient(self.table)

    def direction(self, gradient: np.ndarray) -> np.ndarray:
        """Where the next step at rate 1 leads from here, float32 like the table; overwrites `gradient`."""
        gradient[:, self.columns :] = 0
        gradient *= self.share
        return self.state.direction(gradient)


class Descent(Strategy):
    """Alternating steps, from wherever the tables are; a chunk is an iteration. `history` tells how it went.

    iterations  None for as many as there is time for
    ends_at     of time.monotonic(); moves on while `watch`, which is called after each iteration, is at work
    """

    reports_itself = True
    is_guarded = False  # no step makes the objective worse

    def __init__(
        self,
        rows: Rows,
        inputs: Side,
        outputs: Side,
        iterations: int | None,
        ends_at: float,
        progress: Progress,
        watch: Callable[[Iteration], None] = lambda iteration: None,
    ) -> None:
        self.rows, self.inputs, self.outputs = rows, inputs, outputs
        self.loss_unit = f"nats per pair{rows.scope}"
        self.n_pairs = float(inputs.times.sum())
        self.iterations, self.ends_at, self.progress, self.watch = iterations, ends_at, progress, watch
        self.workers, self.n_chunks = [None], 1
        self.history: list[Iteration] = []
        self.macs = 0
        self.halves = 0  # evaluations that stood: one at the start, two of each iteration
        self.here: Evaluation | None = None  # at the tables as they are, with the gradient by the inputs
        self.seconds_before = 0.0  # of iterations, in runs that this one goes on from
        self.started: float | None = None  # of time.monotonic(), as if all iterations had been made in one go
        self.watched = 0.0  # seconds that `watch` took
        self.before: dict[str, Any] = {}  # what the iteration under way, or the one that was cut short, began with
        self.finished = self.interrupted = self.was_cut = False
        self.interrupted_by: BaseException | None = None
        self.run_state = TrainState()  # of the run, this descent's included

    def run(self, snapshot: Mapping[str, Any] | None = None, checkpoints: Checkpoints | None = None) -> None:
        """Take all steps. Ctrl-C and the end of the time leave the tables as they were last found to be better.

        `snapshot` is of the state of a run that was set up alike, to go on from; `checkpoints` keep it on disk.
        """
        epochs = math.inf if self.iterations is None else max(self.iterations, 1)
        schedule = Schedule(1.0, 1, 1, epochs, shape="constant", unit="iterations")
        outcome = trainer.run(self, schedule, self.progress, snapshot=snapshot, checkpoints=checkpoints)
        self.interrupted_by = self.interrupted_by or outcome.interrupted_by
        self.run_state = outcome.state

    def compile(self, progress: Progress) -> None:
        began = time.monotonic()
        self.rows.compile(progress)
        self.ends_at += time.monotonic() - began

    @property
    def is_finished(self) -> bool:
        return self.finished or self.was_cut

    def interrupt(self) -> None:
        self.interrupted = True

    def train(self, worker: Any, epoch: int, chunk: int, rate: float) -> Tally | None:
        """Iteration epoch + 1: a step of the inputs and one of the outputs. The rates are the sides' own."""
        if self.started is None:
            self.started = time.monotonic() - self.seconds_before
        self.before = {name: array.copy() for name, array in self._arrays().items()}
        try:
            here = self._start() if self.here is None else self.here
            self.before |= {name: getattr(*place) for name, place in self._numbers().items()}
            if self.iterations == 0:
                self.finished = True
                return Tally()
            before = here.loss
            self.rows.redraw(epoch + 1)
            here = self._step(self.inputs, here, OUTPUTS)
            here = self._step(self.outputs, here, NEITHER if epoch + 1 == self.iterations else INPUTS)
            self._tell(epoch + 1, here)
            if not here.loss < before:
                self.progress.note(f"no step lowers the objective any further after {epoch + 1} iterations")
                self.finished = True
        except (EndedEarlyError, KeyboardInterrupt) as reason:  # the latter of `watch` or `progress`
            self.interrupted_by = reason if isinstance(reason, KeyboardInterrupt) else None
            self.was_cut = True
            if len(self.history) < epoch + 2:  # the start's and those of whole iterations
                return None
        self.here, self.before = here, {}
        return Tally(here.loss, round(self.n_pairs), 1)

    def state(self) -> TrainState:
        """Where the descent was after the last whole iteration; the tables may be further, if one was cut short."""
        state = TrainState()
        for name, array in self._arrays().items():
            state.add(name, partial(self._array, name), partial(np.copyto, array))
        for name, place in self._numbers().items():
            state.add(name, partial(self._number, name), partial(setattr, *place))

        def write_history(values: Any) -> None:
            self.history = [Iteration(**each) for each in values]
            self.seconds_before = self.history[-1].seconds if self.history else 0.0

        state.add("history", lambda: [dataclasses.asdict(each) for each in self.history], write_history)
        state.add_attribute("finished", self, "finished")
        return state

    def _arrays(self) -> dict[str, np.ndarray]:
        """The arrays that an iteration changes, in place."""
        arrays = {}
        for name, side in (("inputs", self.inputs), ("outputs", self.outputs)):
            arrays[f"{name}.rows"] = side.table
            arrays |= {f"{name}.{part}": array for part, array in side.state.arrays().items()}
        return arrays

    def _numbers(self) -> dict[str, tuple[Any, str]]:
        """The numbers that it changes: whose they are, and their attribute."""
        rates = {"inputs.rate": (self.inputs, "rate"), "outputs.rate": (self.outputs, "rate")}
        return {**rates, "macs": (self, "macs"), "halves": (self, "halves")}

    def _array(self, name: str) -> np.ndarray:
        return np.asarray(self.before.get(name, self._arrays()[name]))

    def _number(self, name: str) -> float:
        found: float = self.before.get(name, getattr(*self._numbers()[name]))
        return found

    def _start(self) -> Evaluation:
        """The evaluation at the tables as they are, at the start of all iterations or where a run goes on."""
        self.rows.refit(self.outputs.table)
        self.rows.redraw(max(len(self.history) - 1, 0))
        macs, halves = self.macs, self.halves
        here = self._evaluate(INPUTS if self.iterations != 0 else NEITHER)
        if self.history:
            self.macs, self.halves = macs, halves  # it was counted before
        else:
            self._tell(0, here)
        return here

    def _step(self, side: Side, here: Evaluation, then: int) -> Evaluation:
        """Move one side downhill; the evaluation there, with the gradient that is wanted `then`."""
        if not here.gradient[:, : side.columns].any():  # as of the inputs while all outputs are zero
            return self._evaluate(then)
        direction = side.direction(here.gradient)
        kept = side.table.copy()

        def move(rate: float) -> None:
            np.multiply(direction, np.float32(-rate), out=side.table)
            side.table += kept
            if side is self.outputs:
                self.rows.refit(side.table)

        def take_back() -> None:
            side.table[:] = kept

        try:
            for attempt in range(TRIES):
                move(side.rate)
                there = self._evaluate(then)
                if there.loss < here.loss:
                    side.rate *= GROWTH
                    return there
                side.rate /= 2 ** (attempt + 1)
                self.halves -= 1
        except BaseException:
            to_the_end(take_back)
            raise
        take_back()
        if side is self.outputs:
            self.rows.refit(side.table)
        return self._evaluate(then)

    def _evaluate(self, side: int) -> Evaluation:
        n_inputs = len(self.inputs.table)

        def tell(done: int) -> None:
            if self.interrupted or time.monotonic() > self.ends_at:
                raise EndedEarlyError
            facts = {"loss": self.history[-1].loss, "loss_unit": self.loss_unit} if self.history else {}
            self.progress.update(max(self.halves - 1 + done / n_inputs, 0) / 2, **facts)

        found = evaluate(self.rows, self.inputs.table, self.outputs.table, side, tell)
        self.macs += found.macs
        self.halves += 1
        return found

    def _tell(self, number: int, here: Evaluation) -> None:
        now = time.monotonic()
        iteration = Iteration(
            number,
            here.loss / self.n_pairs,
            now - (self.started or now) - self.watched,
            self.macs,
            self.inputs.rate,
            self.outputs.rate,
        )
        self.history.append(iteration)
        self.progress.note(
            f"iteration {number}: loss {iteration.loss:.4f} {self.loss_unit}, {iteration.seconds:.1f} s, "
            f"{self.macs:.3g} multiply-adds, rates {self.inputs.rate:.3g} and {self.outputs.rate:.3g}"
        )
        self.watch(iteration)
        pause = time.monotonic() - now
        self.watched += pause
        self.ends_at += pause
