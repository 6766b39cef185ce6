"""The protocol between the trainer and a task, which trains chunks of its data.

A chunk is some milliseconds of work: tokens of a corpus, examples of a data set, an iteration over
counts. The trainer (`trainer`) decides which chunk is next, its learning rate, and when to stop; a
strategy has the tables, kernels and objectives.
"""

import abc
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from embedx.runtime.progress import Progress
from embedx.training.state import TrainState


class Tally(NamedTuple):
    """Sums over one or more chunks, in float64.

    pairs  number of terms of the loss: pairs of words, labels or rows
    items  number of words of the vocabulary read, before subsampling; or of nodes, of examples, of
           iterations (`Schedule.unit`)
    """

    loss: float = 0.0
    pairs: float = 0
    items: int = 0

    def __add__(self, other: "Tally") -> "Tally":  # type: ignore[override]
        return Tally(*map(operator.add, self, other))

    def since(self, earlier: "Tally") -> "Tally":
        """The difference to an `earlier` tally."""
        return Tally(*map(operator.sub, self, earlier))

    @property
    def mean_loss(self) -> float | None:
        """Loss per pair, in the unit of the strategy; None if there was no pair."""
        return self.loss / self.pairs if self.pairs else None


class Strategy(abc.ABC):
    """A method of training chunks of data.

    workers         the workspace of each thread; its contents do not outlast a chunk
    n_chunks        number of chunks in an epoch
    reports_itself  whether it reports its progress, because a chunk takes long
    loss_unit       unit of loss / pairs of a `Tally`, such as `nats per pair`
    is_guarded      whether the divergence guard is on; False if it cannot diverge, or its losses
                    are not comparable
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
    def train_chunk(self, worker: Any, epoch: int, number: int, lr: float) -> Tally | None:
        """Train on the chunk of this number in the epoch, at the learning rate `lr`, with one of
        `workers`; return its tally.

        None if it was interrupted, by `interrupt` or by the strategy itself: the chunk is trained
        again when the run is resumed.
        """

    @abc.abstractmethod
    def state(self) -> TrainState:
        """Everything that training changes, as live values. Read it after `compile`, while no
        thread trains.
        """

    @property
    def is_finished(self) -> bool:
        """Whether training is finished before the end of the schedule."""
        return False

    @property
    def loss(self) -> float | None:
        """Loss per pair of the current parameters, where training gives it exactly; None: the loss
        of the run is the mean over its last twentieth.
        """
        return None

    def phase(self, number: int) -> int:
        """The phase of chunk `number`, counted over all epochs: losses of different phases are not
        comparable. 0 at first.
        """
        return 0

    def sampled_loss(self) -> float | None:
        """Loss per pair of the current parameters, on a little of the data; None if unknown.

        Called after `compile`, in phase 0. It may change the state, which the caller restores.
        """
        return None

    def baseline_loss(self) -> float | None:
        """Loss per pair of parameters that predict the frequencies of classes for any input.

        It overwrites the parameters; the caller restores the state.
        """
        return None

    def workspaces(self) -> Any:
        """The arrays that are overwritten in each chunk, in lists and tuples."""
        return self.workers

    def after_rollback(self) -> None:
        """Replace numbers in workspaces that are not finite, because 0 times such a number is not
        0.
        """
        zero_if_not_finite(self.workspaces())

    def identity(self) -> dict[str, Any]:
        """What a state to resume from must agree in, in addition to data and settings."""
        return {}

    def facts(self) -> dict[str, Any]:
        """Facts for the model's record, at the end of training."""
        return {}

    def interrupt(self) -> None:
        """End a chunk that takes long, because the run is ending. Called from another thread than
        `train_chunk`.
        """
        return


# Returns a strategy that trains the chunks of another, such as by the workers of a cluster.
Wrap = Callable[[Strategy], Strategy]


def zero_if_not_finite(memory: Any) -> None:
    """Replace all numbers that are not finite by 0, in arrays, or lists and tuples of them."""
    if isinstance(memory, np.ndarray):
        if memory.dtype.kind == "f":
            memory[~np.isfinite(memory)] = 0
    elif isinstance(memory, list | tuple):
        for part in memory:
            zero_if_not_finite(part)
