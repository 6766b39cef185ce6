"""How a task trains a chunk of its data: the one protocol between the trainer and whatever is trained.

A chunk is some milliseconds of work: tokens of a corpus, examples of a data set, an iteration over counts. The trainer
decides which is next, at which rate, and when to stop (`trainer`); a strategy knows tables, kernels and objectives.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedx.training.progress import Progress
from embedx.training.state import TrainState


@dataclass
class Tally:
    """What was done, summed in float64."""

    loss: float = 0.0
    pairs: float = 0  # what the loss is a sum over: pairs of words, labels or rows
    words: int = 0  # words of the vocabulary read, before subsampling; or examples

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.loss + other.loss, self.pairs + other.pairs, self.words + other.words)

    def since(self, earlier: "Tally") -> "Tally":
        """What was done after `earlier`."""
        return Tally(self.loss - earlier.loss, self.pairs - earlier.pairs, self.words - earlier.words)

    def numbers(self) -> list[float]:
        """What `Tally(*numbers)` is made of."""
        return [self.loss, self.pairs, self.words]

    @property
    def mean_loss(self) -> float | None:
        """Loss per pair, in the unit of the strategy; None if there was no pair."""
        return self.loss / self.pairs if self.pairs else None


class Strategy(abc.ABC):
    """A way to train chunks of data."""

    workers: Sequence[Any]  # the memory of each thread that trains, one for each; nothing in it outlasts a chunk
    n_chunks: int  # in a pass over the data
    reports_itself: bool = False  # tells `progress` how far it is, because a chunk takes long
    is_steady: bool = True  # goes at the same pace throughout a phase, so that how long it takes is soon known
    loss_unit: str = ""  # of the loss in a `Tally` over its pairs, as in `nats per pair`
    is_guarded: bool = True  # may be brought back by the trainer; False if it cannot diverge
    rate_factor: float = 1.0  # what the trainer has multiplied the learning rate by, since the run diverged at that
    rate_at: Callable[[int], float]  # the learning rate of a chunk, counted over all passes; set by the trainer

    @abc.abstractmethod
    def compile(self, progress: Progress) -> None:
        """Compile the kernels, or load them; called once, before anything is trained."""

    @abc.abstractmethod
    def train(self, worker: Any, epoch: int, chunk: int, rate: float) -> Tally | None:
        """Train on one chunk of pass `epoch`, at this learning rate, with one of `workers`; what was done, or None if it was
        cut short by `interrupt` or an end of its own: it is then to be trained anew when the run goes on.
        """

    @abc.abstractmethod
    def state(self) -> TrainState:
        """Everything that training changes, as live values: to be looked at after `compile`, while no thread trains."""

    @property
    def is_finished(self) -> bool:
        """Whether training has come to its end before the schedule has."""
        return False

    def phase(self, step: int) -> int:
        """0, or another number from the chunk on, of all passes, from which losses are of another kind."""
        return 0

    def untrained_loss(self) -> float | None:
        """Loss per pair of the parameters as they are, on a little of the data; None if there is no saying.

        Called after `compile`, where the phase is 0. The caller restores the state.
        """
        return None

    def baseline_loss(self) -> float | None:
        """The same of parameters that predict how often each class occurs, whatever the input."""
        return None

    def forget(self) -> None:
        """Clear the memory of workers of what is no finite number: 0 times it is not 0, where others are left out by that."""
        forget(self.workers)

    def identity(self) -> dict[str, Any]:
        """What decides, beside data and settings, which state can be resumed from."""
        return {}

    def facts(self) -> dict[str, Any]:
        """For the model's record, at the end of training."""
        return {}

    def interrupt(self) -> None:
        """The run is to end: a chunk that takes long is to be cut short. Called from another thread than `train`."""
        return


def forget(memory: Any) -> None:
    """Write 0 for all that is no finite number in arrays, or in lists and tuples of them."""
    if isinstance(memory, np.ndarray):
        if memory.dtype.kind == "f":
            memory[~np.isfinite(memory)] = 0
    elif isinstance(memory, list | tuple):
        for each in memory:
            forget(each)
