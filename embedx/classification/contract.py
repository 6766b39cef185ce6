"""The contract of trainers of a classifier (trainers.py has them): their setup and methods."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from numpy import ndarray

from embedx.classification.anchors import Anchor, SparseAnchor
from embedx.classification.classifier import Classifier
from embedx.classification.history import History
from embedx.classification.settings import ClassifySettings
from embedx.labeled.data import Labels
from embedx.objectives.contract import Objective
from embedx.runtime.memory import MemoryPlan
from embedx.runtime.progress import Progress
from embedx.samplers.contract import Sampler
from embedx.samplers.search import IndexSettings
from embedx.training.checkpoint import Checkpoints
from embedx.training.outcome import Outcome
from embedx.training.strategy import Wrap


@dataclasses.dataclass(frozen=True)
class TrainerSetup:
    """What a trainer is made of.

    settings         resolved
    features         (n_rows, n_features), scaled
    counts           int64 (n_labels,): number of occurrences of each label
    row_weights      (n_rows,): weights of the rows; None if all are equal
    sampler          the sampler that draws; with a search, the one for its warm-up
    search           settings of the search, if there is one
    pretrained       ids of words and their vectors, for the hidden layer
    previous         the classifier to continue from
    anchor           pulls the parameters towards those of `previous`; None without a pull
    optimizer_state  state of the optimizer of `previous`, by table
    is_distributed   whether a cluster trains in place of this machine
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
    previous: Classifier | None = None
    anchor: Anchor | SparseAnchor | None = None
    optimizer_state: Mapping[str, ndarray] = dataclasses.field(default_factory=dict)
    is_distributed: bool = False
    search: IndexSettings | None = None


class Trainer(Protocol):
    """A method of training a classifier."""

    loss_unit: str
    optimizer_state: dict[str, ndarray]

    def memory(self, keeps_best: bool) -> MemoryPlan:
        """The memory that training needs; it is not allocated yet."""

    def train(
        self, history: History, plan: MemoryPlan, checkpoints: Checkpoints | None, wrap: Wrap | None
    ) -> Outcome:
        """Train the classifier of the history."""
