"""What trains a classifier (trainers.py has the ways to): what it is given, and what it can do."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from numpy import ndarray

from embedx.classification.classifier import Classifier
from embedx.classification.history import History
from embedx.classification.settings import ClassifySettings
from embedx.classification.start import Anchor, SparseAnchor
from embedx.labeled.data import Labels
from embedx.objectives.contract import Objective
from embedx.runtime.memory import MemoryPlan
from embedx.runtime.progress import Progress
from embedx.samplers.contract import Sampler
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints
from embedx.training.strategy import Wrap


@dataclasses.dataclass(frozen=True)
class TrainerInputs:
    """What a trainer is made of.

    settings         resolved
    features         (n_rows, n_features), scaled
    counts           int64 (n_labels,): how often each label occurs
    row_weights      (n_rows,): how much each row counts; None for all alike
    sampler          what draws; where a search finds candidates, what draws until it can
    pretrained       ids of words and their vectors, for the hidden layer
    before           the classifier to continue from
    anchor           what its parameters are kept near, if they are to be
    optimizer_state  of its run, by table
    is_distributed   a cluster trains in place of this machine
    """

    objective: Objective
    settings: ClassifySettings
    features: Any
    labels: Labels
    counts: ndarray
    row_weights: ndarray | None
    sampler: Sampler
    progress: Progress
    pretrained: tuple[ndarray, ndarray] | None = None
    before: Classifier | None = None
    anchor: Anchor | SparseAnchor | None = None
    optimizer_state: Mapping[str, ndarray] = dataclasses.field(default_factory=dict)
    is_distributed: bool = False


class Trainer(Protocol):
    """One of the ways to train a classifier."""

    loss_unit: str
    optimizer_state: dict[str, ndarray]

    def memory(self, keeps_best: bool) -> MemoryPlan:
        """What training needs, before it is written to."""

    def train(
        self, history: History, plan: MemoryPlan, checkpoints: Checkpoints | None, wrap: Wrap | None
    ) -> trainer.Outcome:
        """Train the classifier of the history."""
