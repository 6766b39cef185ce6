"""The result of a run: a classifier, and how its training went."""

import dataclasses

from numpy import ndarray

from embedx.classification.classifier import Classifier
from embedx.training.outcome import Outcome


@dataclasses.dataclass(frozen=True)
class TrainedClassifier:
    """A trained classifier and how its training went.

    optimizer_state  by table; a run that continues begins with it
    """

    classifier: Classifier
    outcome: Outcome
    optimizer_state: dict[str, ndarray] = dataclasses.field(default_factory=dict)

    @property
    def model(self) -> Classifier:
        return self.classifier

    def without_state(self) -> "TrainedClassifier":
        """The same without the memory that only training needed."""
        return TrainedClassifier(self.classifier, self.outcome.without_state())
