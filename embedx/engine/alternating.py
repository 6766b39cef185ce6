"""Full gradient steps on all input vectors and on all output vectors in turn, none of which makes the objective worse.

A row's gradient is divided by how often the row occurs, for frequencies span six orders of magnitude and a step that suits a
frequent row would leave a rare one where it is. What comes out goes to an optimiser for full gradients.

The objective is known at each point anyway, from the gradient of the step after. A step that does not lower it is taken back
and tried again at half the rate, then at a quarter of that, an eighth of that; one that does lets the rate of its side grow.
"""

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from embedx.engine.collapsed import INPUTS, NEITHER, OUTPUTS, Evaluation, Rows, evaluate
from embedx.optimizers.contract import Optimizer
from embedx.run.interrupts import to_the_end
from embedx.run.progress import Progress

TRIES = 8  # of a step, the last at the rate divided by 2^28
# On 10 MB of Wikipedia with 10,000 words, 15 iterations of row-wise Adagrad went from 8.155 to 7.650 nats; without growth to
# 7.715.
GROWTH = 1.2


@dataclass(frozen=True)
class Iteration:
    """Where the vectors stood after a step of the inputs and one of the outputs; number 0 is the start."""

    number: int
    objective: float  # nats per pair
    seconds: float  # of iterations so far
    macs: int  # multiply-adds so far
    input_rate: float  # of the next step
    output_rate: float


class OutOfTimeError(Exception):
    """The time budget is used up."""


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


class Descent:
    """Alternating steps, from wherever the tables are; `history` tells how it went.

    iterations  None for as many as there is time for
    ends_at     of time.monotonic(); moves on while `watch`, which is called after each iteration, is at work
    """

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
        self.n_pairs = float(inputs.times.sum())
        self.iterations, self.ends_at, self.progress, self.watch = iterations, ends_at, progress, watch
        self.history: list[Iteration] = []
        self.macs = 0
        self.halves = 0  # evaluations that stood: one at the start, two of each iteration
        self.watched = 0.0  # seconds that `watch` took
        self.interrupted_by: BaseException | None = None

    def run(self) -> None:
        """Take all steps. Ctrl-C and the end of the time leave the tables as they were last found to be better."""
        self.started = time.monotonic()
        self.progress.start("training", self.iterations, " iterations")
        try:
            self.rows.refit(self.outputs.table)
            here = self._evaluate(INPUTS if self.iterations != 0 else NEITHER)
            self._tell(0, here)
            for number in itertools.count(1):
                if number == self._last() + 1:
                    break
                before = here.loss
                here = self._step(self.inputs, here, OUTPUTS)
                here = self._step(self.outputs, here, NEITHER if number == self._last() else INPUTS)
                self._tell(number, here)
                if not here.loss < before:
                    self.progress.note(f"no step lowers the objective any further after {number} iterations")
                    break
        except OutOfTimeError:
            pass
        except KeyboardInterrupt as interrupt:
            self.interrupted_by = interrupt
        finally:
            self.progress.finish()

    def _last(self) -> float:
        return math.inf if self.iterations is None else self.iterations

    def _step(self, side: Side, here: Evaluation, then: int) -> Evaluation:
        """Move one side downhill; the evaluation there, with the gradient that is wanted `then`."""
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
            if time.monotonic() > self.ends_at:
                raise OutOfTimeError
            facts = {"objective": self.history[-1].objective} if self.history else {}
            self.progress.update(max(self.halves - 1 + done / n_inputs, 0) / 2, **facts)

        found = evaluate(self.rows, self.inputs.table, self.outputs.table, side, tell)
        self.macs += found.macs
        self.halves += 1
        return found

    def _tell(self, number: int, here: Evaluation) -> None:
        now = time.monotonic()
        iteration = Iteration(
            number, here.loss / self.n_pairs, now - self.started - self.watched, self.macs, self.inputs.rate, self.outputs.rate
        )
        self.history.append(iteration)
        self.progress.note(
            f"iteration {number}: objective {iteration.objective:.4f}, {iteration.seconds:.1f} s, "
            f"{self.macs:.3g} multiply-adds, rates {self.inputs.rate:.3g} and {self.outputs.rate:.3g}"
        )
        self.watch(iteration)
        pause = time.monotonic() - now
        self.watched += pause
        self.ends_at += pause
