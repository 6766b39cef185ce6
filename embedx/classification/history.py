"""What is noted of a classifier's training after each epoch: loss, scores on validation data, the
best parameters.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from embedx.classification.classifier import Classifier
from embedx.labeled.data import Labeled
from embedx.runtime.progress import Progress
from embedx.training.state import TrainState

Watch = Callable[[Classifier, int, float], dict[str, float]]  # see `train`


@dataclass
class History:
    """What is noted after each epoch, and the parameters of the best one."""

    classifier: Classifier
    validation: Labeled | None
    settings: Any  # resolved `ClassifySettings`
    watch: Watch | None
    progress: Progress
    seconds_before: float  # that fitting the sampler took
    epochs: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, np.ndarray] | None = None
    best_value: float = -math.inf
    waited: int = 0

    def state(self) -> TrainState:
        """What was noted so far."""
        state = TrainState()
        for name in ("epochs", "best", "best_value", "waited"):
            state.add_attribute(f"history.{name}", self, name)
        return state

    @property
    def is_wanted(self) -> bool:
        return self.validation is not None or self.watch is not None

    def note(self, epoch: int, loss: float | None, seconds_passed: float) -> bool:
        """Note an epoch whose parameters the classifier holds; whether to stop."""
        seconds_passed += self.seconds_before
        entry: dict[str, Any] = {
            "epoch": epoch + 1,
            "seconds": round(seconds_passed, 4),
            "loss": loss,
        }
        if self.watch is not None:
            entry |= self.watch(self.classifier, epoch, seconds_passed)
        if self.validation is not None:
            found = self.classifier.evaluate(self.validation, threads=self.settings.threads)
            single = (
                self.settings.labels in ("first", "lowest-id")
                or (self.validation.labels.n_of_row <= 1).all()
            )
            measure = "log_likelihood" if single else "ndcg@5"
            entry["validation"] = {
                name: found[name]
                for name in ("log_likelihood", "accuracy", "p@1", "ndcg@5")
                if name in found
            }
            of_training = "" if loss is None else f"loss {loss:.4f}, "
            self.progress.note(
                f"epoch {epoch + 1}: {of_training}validation {measure} {found[measure]:.4f}"
            )
            if found[measure] > self.best_value:
                self.best_value, self.waited = found[measure], 0
                self.best = {name: array.copy() for name, array in self.classifier.arrays.items()}
            else:
                self.waited += 1
        self.epochs.append(entry)
        return bool(self.waited >= self.settings.patience)

    def restore(self) -> None:
        """Give the classifier its best parameters back."""
        if self.best is not None and self.waited:
            self.classifier.arrays = self.best
            self.classifier.parameters_changed()
