"""How long a run trains, its learning rate, and the order in which an epoch takes its data."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SCHEDULES = ("linear", "constant", "inverse-sqrt", "inverse")


@dataclass
class Schedule:
    """How long to train, and the learning rate on the way.

    The end is `epochs` passes over `n_chunks` chunks of `n_words` words or, if it is given,
    `time_budget` seconds later. The rate starts at `learning_rate` and goes by `shape`: "linear"
    falls to zero at the end, "constant" stays, "inverse-sqrt" is divided by the root of the number
    of the update, "inverse" by one plus the passes so far. On top of that it is multiplied by
    `decay` after each `decay_every` updates, or after each pass if that is None.

    epochs   infinity for as many as the strategy makes
    updates  in a chunk
    unit     what `n_words` counts, and progress shows
    """

    learning_rate: float
    n_chunks: int
    n_words: float
    epochs: float
    time_budget: float | None = None
    shape: str = "linear"
    decay: float = 1.0
    decay_every: int | None = None
    updates: float = 1.0
    unit: str = "words"
    has_epochs: bool = True

    def share_done(self, steps: int, seconds: float) -> float:
        """How much of the run is over, 0 to 1."""
        if self.time_budget:
            return min(seconds / self.time_budget, 1.0)
        return steps / (self.n_chunks * self.epochs)

    def epoch(self, steps: int) -> dict[str, float | None]:
        """The epoch that is under way after `steps` steps, and the number of epochs, if that is
        known.
        """
        number = steps // self.n_chunks + 1
        if self.time_budget or math.isinf(self.epochs):
            return {"epoch": number, "epochs": None}
        return {"epoch": min(number, math.ceil(self.epochs)), "epochs": self.epochs}

    def rate(self, share_done: float, steps: int) -> float:
        """The learning rate when a share of the run is done, after `steps` steps."""
        updates = steps * self.updates
        rate = self.learning_rate
        if self.shape == "linear":
            rate *= 1.0 - share_done
        elif self.shape == "inverse-sqrt":
            rate /= math.sqrt(updates + 1)
        elif self.shape == "inverse":
            rate /= 1 + steps / self.n_chunks
        n_decays: float = steps // self.n_chunks
        if self.decay_every:
            n_decays = updates // self.decay_every
        return rate * self.decay**n_decays


def orders(n: int, *place: int) -> Callable[[int], np.ndarray]:
    """A function that returns a random order of n things by epoch, int64 (n,), and keeps the last
    that it returned.

    place   tells these random numbers of a seed from others
    """
    return functools.lru_cache(1)(
        lambda epoch: np.random.default_rng([*place, epoch]).permutation(n)
    )
