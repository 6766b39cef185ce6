"""The end of a run, its learning rate, and the order of the data in an epoch."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SCHEDULES = ("linear", "constant", "inverse-sqrt", "inverse")


@dataclass
class Schedule:
    """The end of training, and the learning rate until then.

    The end is after `epochs` over `n_chunks` chunks of `n_items` items or, if it is given, after
    `time_budget` seconds. The rate starts at `learning_rate` and follows `shape`: "linear" falls to
    zero at the end, "constant" does not change, "inverse-sqrt" is divided by √updates, "inverse" by
    1 + epochs so far. It is also multiplied by `decay` after every `decay_every` updates, or after
    each epoch if that is None.

    epochs      infinite: until the strategy is finished
    updates     number of updates in a chunk
    unit        what the items are, in messages
    has_epochs  whether progress tells the epoch
    """

    learning_rate: float
    n_chunks: int
    n_items: float
    epochs: float
    time_budget: float | None = None
    shape: str = "linear"
    decay: float = 1.0
    decay_every: int | None = None
    updates: float = 1.0
    unit: str = "words"
    has_epochs: bool = True

    def share_done(self, n_trained: int, seconds: float) -> float:
        """The share of the run that is done, from 0 to 1."""
        if self.time_budget:
            return min(seconds / self.time_budget, 1.0)
        return n_trained / (self.n_chunks * self.epochs)

    def epoch_facts(self, n_trained: int) -> dict[str, float | None]:
        """The current epoch after `n_trained` chunks, and the number of epochs if it is known."""
        number = n_trained // self.n_chunks + 1
        if self.time_budget or math.isinf(self.epochs):
            return {"epoch": number, "epochs": None}
        return {"epoch": min(number, math.ceil(self.epochs)), "epochs": self.epochs}

    def lr(self, share_done: float, n_trained: int) -> float:
        """The learning rate when a share of the run is done, after `n_trained` chunks."""
        updates = n_trained * self.updates
        lr = self.learning_rate
        if self.shape == "linear":
            lr *= 1.0 - share_done
        elif self.shape == "inverse-sqrt":
            lr /= math.sqrt(updates + 1)
        elif self.shape == "inverse":
            lr /= 1 + n_trained / self.n_chunks
        n_decays: float = n_trained // self.n_chunks
        if self.decay_every:
            n_decays = updates // self.decay_every
        return lr * self.decay**n_decays


def orders(n: int, *place: int) -> Callable[[int], np.ndarray]:
    """A function that returns a random order of n items for an epoch, int64 (n,), and caches the
    last one.

    place   the random stream, such as (seed, purpose)
    """
    return functools.lru_cache(1)(
        lambda epoch: np.random.default_rng([*place, epoch]).permutation(n)
    )
