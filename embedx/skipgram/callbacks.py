"""Callbacks of training word vectors: called after each epoch; one may end the training."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from embedx.vectors.model import WordVectors


class EpochEnd(NamedTuple):
    """The argument of a callback."""

    epoch: int  # from 1
    loss: float | None  # mean per pair over the epoch, in nats; None if there was no pair
    words: int  # of the vocabulary that were read in it
    seconds: float  # of training so far
    model: WordVectors  # as it is now: views of tables that training changes later


Callback = Callable[[EpochEnd], object]  # what returns True ends the training


def want_an_end(callbacks: Iterable[Callback], end: EpochEnd) -> bool:
    """Call all of them; whether one returned True."""
    answers = [each(end) for each in callbacks]
    return any(isinstance(each, bool | np.bool_) and bool(each) for each in answers)
