"""The training history of a classifier: loss and validation scores of each epoch, and the
parameters of the best one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from embedx.classification.classifier import Classifier
from embedx.classification.settings import ClassifySettings
from embedx.labeled.data import Labeled
from embedx.runtime.progress import Progress
from embedx.training.state import TrainState

# See `ClassifierRun`.
Watch = Callable[[Classifier, int, float], dict[str, float]]
# Measures on validation data in the history.
NOTED = ("log_likelihood", "accuracy", "p@1", "ndcg@5")


@dataclass
class History:
    """The records of all epochs, and the parameters of the best one."""

    classifier: Classifier
    validation: Labeled | None
    # Resolved.
    settings: ClassifySettings
    watch: Watch | None
    progress: Progress
    # Seconds for fitting the sampler.
    seconds_before: float
    epochs: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, np.ndarray] | None = None
    best_value: float = -math.inf
    # Epochs since the best one.
    waited: int = 0

    def state(self) -> TrainState:
        """The history so far, for a checkpoint."""
        state = TrainState()
        for name in ("epochs", "best", "best_value", "waited"):
            state.add_attribute(f"history.{name}", self, name)
        return state

    @property
    def is_wanted(self) -> bool:
        return self.validation is not None or self.watch is not None

    def note(self, epoch: int, loss: float | None, seconds_passed: float) -> bool:
        """Record an epoch, with the classifier's current parameters; return whether to stop."""
        seconds_passed += self.seconds_before
        entry: dict[str, Any] = {
            "epoch": epoch + 1,
            "seconds": round(seconds_passed, 4),
            "loss": loss,
        }
        if self.watch is not None:
            entry |= self.watch(self.classifier, epoch, seconds_passed)
        if self.validation is not None:
            entry["validation"] = self._validate(self.validation, epoch, loss)
        self.epochs.append(entry)
        return self.waited >= self.settings.patience

    def _validate(self, validation: Labeled, epoch: int, loss: float | None) -> dict[str, float]:
        """The measures on validation data; keeps the parameters if they are the best so far."""
        measures = self.classifier.evaluate(validation, threads=self.settings.threads)
        name = self._measure_of(validation)
        value = measures[name]
        of_training = "" if loss is None else f"mean loss {loss:.4f}, "
        self.progress.note(f"epoch {epoch + 1}: {of_training}validation {name} {value:.4f}")
        if value > self.best_value:
            self.best_value = value
            self.waited = 0
            self.best = {name: array.copy() for name, array in self.classifier.arrays.items()}
        else:
            self.waited += 1
        return {name: measures[name] for name in NOTED if name in measures}

    def _measure_of(self, validation: Labeled) -> str:
        """The measure that decides the best epoch: likelihood, or nDCG for several labels."""
        takes_one = self.settings.labels in ("first", "lowest-id")
        if takes_one or (validation.labels.n_of_row <= 1).all():
            return "log_likelihood"
        return "ndcg@5"

    def restore(self) -> None:
        """Give the classifier its best parameters back."""
        if self.best is not None and self.waited:
            self.classifier.arrays = self.best
            self.classifier.parameters_changed()
