"""What goes to and fro between a run and its workers: the two sides of it, for each way in which training is divided.

Before a worker trains a range it begins with what the run tells it, if that is anything new. After a range it hands over what
has come of it, for which it is given the news of what the others have done. What these are made of is the affair of the two
sides:

    tables that all train                   `shared`: rows that have changed, merged
    labels that are trained each by itself  `embedx.classification.shared_labels`: the weights of labels that are trained
"""

import abc
import threading
from dataclasses import dataclass
from typing import Any


@dataclass
class Place:
    """What is known in common of what a worker knows."""

    number: int
    told: int | None = None  # up to where it was told, counted as suits; None if it has to be told everything


class InCommon(abc.ABC):
    """The run's side: what all workers have learned. Every method may be called by several threads."""

    lock: threading.Lock  # while it is held nothing changes

    @abc.abstractmethod
    def beginning(self, place: Place) -> Any | None:
        """What a worker has to be told before it trains another range; None if it can just go on."""

    @abc.abstractmethod
    def news(self, place: Place) -> Any:
        """What a worker is told when it hands over what it has learned."""

    @abc.abstractmethod
    def add(self, place: Place, changes: Any) -> None:
        """Put in common what a worker has handed over, having heard the news."""


class Apart(abc.ABC):
    """The worker's side: what it has learned and not yet handed over."""

    @abc.abstractmethod
    def overwrite(self, told: Any) -> None:
        """Begin from what the run tells; what was not handed over is lost. No range is trained meanwhile."""

    @abc.abstractmethod
    def merge(self, news: Any, n_trained: float, rate: float) -> Any:
        """Hand over what was learned from so many words or examples since the last time, at that learning rate; a range may be
        trained meanwhile.
        """
