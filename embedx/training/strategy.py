"""How a task trains a chunk of its data: the protocol between the trainer and what it trains.

A chunk is some milliseconds of work: tokens of a corpus, examples of a data set, an iteration over
counts. The trainer decides which is next, at which rate, and when to stop (`trainer`); a strategy
knows tables, kernels and objectives.
"""

import abc
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from embedx.runtime.progress import Progress
from embedx.training.state import TrainState


class Tally(NamedTuple):
    """What one or more chunks of training did, summed in float64.

    pairs  the number of terms of the loss: pairs of words, labels or rows
    words  words of the vocabulary read, before subsampling; or examples
    """

    loss: float = 0.0
    pairs: float = 0
    words: int = 0

    def __add__(self, other: "Tally") -> "Tally":  # type: ignore[override]
        return Tally(*map(operator.add, self, other))

    def since(self, earlier: "Tally") -> "Tally":
        """What was done after `earlier`."""
        return Tally(*map(operator.sub, self, earlier))

    @property
    def mean_loss(self) -> float | None:
        """Loss per pair, in the unit of the strategy; None if there was no pair."""
        return self.loss / self.pairs if self.pairs else None


class Strategy(abc.ABC):
    """A way to train chunks of data.

    workers         the workspace of each thread; nothing in it outlasts a chunk
    n_chunks        in an epoch
    reports_itself  reports its progress, because a chunk takes long
    loss_unit       of the loss in a `Tally` over its pairs, as in `nats per pair`
    is_guarded      may be rolled back by the trainer; False if it cannot diverge, or its losses
                    cannot be compared
    """

    workers: Sequence[Any]
    n_chunks: int
    reports_itself: bool = False
    loss_unit: str = ""
    is_guarded: bool = True

    @abc.abstractmethod
    def compile(self, progress: Progress) -> None:
        """Compile the kernels, or load them; called once, before anything is trained."""

    @abc.abstractmethod
    def train(self, worker: Any, epoch: int, chunk: int, rate: float) -> Tally | None:
        """Train on one chunk at this learning rate, with one of `workers`; what was done.

        None if it was cut short, by `interrupt` or by the strategy itself: the chunk is trained
        again when the run is resumed.
        """

    @abc.abstractmethod
    def state(self) -> TrainState:
        """Everything that training changes, as live values: to be read after `compile`, while no
        thread trains.
        """

    @property
    def is_finished(self) -> bool:
        """Whether training has come to its end before the schedule has."""
        return False

    def phase(self, step: int) -> int:
        """A number that changes at chunks, counted over all epochs, from which on losses are of
        another kind; 0 at first.
        """
        return 0

    def sampled_loss(self) -> float | None:
        """Loss per pair of the present parameters, on a little of the data; None if it is unknown.

        Called after `compile`, in phase 0. It may change the state, which the caller restores.
        """
        return None

    def baseline_loss(self) -> float | None:
        """The same of parameters that predict how often each class occurs, whatever the input.

        It overwrites the parameters with these; the caller restores the state.
        """
        return None

    def workspaces(self) -> Any:
        """The arrays that are overwritten in each chunk, in lists and tuples."""
        return self.workers

    def forget(self) -> None:
        """Clear the workspaces of numbers that are not finite: 0 times such a number is not 0."""
        forget(self.workspaces())

    def identity(self) -> dict[str, Any]:
        """What decides, beside data and settings, which state can be resumed from."""
        return {}

    def facts(self) -> dict[str, Any]:
        """For the model's record, at the end of training."""
        return {}

    def interrupt(self) -> None:
        """The run is to end: cut a chunk short that takes long. Called from another thread than
        `train`.
        """
        return


# What trains the chunks of a strategy in its place, such as the workers of a cluster.
Wrap = Callable[[Strategy], Strategy]


def forget(memory: Any) -> None:
    """Write 0 for all numbers that are not finite in arrays, or in lists and tuples of them."""
    if isinstance(memory, np.ndarray):
        if memory.dtype.kind == "f":
            memory[~np.isfinite(memory)] = 0
    elif isinstance(memory, list | tuple):
        for part in memory:
            forget(part)
