"""The inputs of the rules of `resolve`: data, objective, and given settings."""

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from embedx.classification.settings import MANY_LABELS, ClassifySettings
from embedx.labeled.data import Labeled
from embedx.labeled.label_rules import chosen_labels
from embedx.objectives.contract import ByInput, Objective

ALL_CANDIDATES = "all"  # the sampler of exact losses
# Settings without effect on dual coordinate descent.
IGNORED_BY_DUAL = (
    "batch_size",
    "learning_rate",
    "initial_gradient",
    "schedule",
    "decay",
    "gradient_scale",
    "bias",
)


class Choice(NamedTuple):
    """The value of a setting and its reason, in words; "" for a constant default."""

    value: Any
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Problem:
    """The inputs of the rules, in addition to the settings resolved so far.

    given            the settings before they are resolved: as the user gave them, None if open, or
                     those of a run that is repeated on other rows
    data             all rows that can be trained on
    training         the rows to train on; the others are held out
    previous_arrays  arrays of the classifier that training continues from, by name
    given_names      names of the given settings; None: those that differ from their defaults
    """

    given: ClassifySettings
    objective: Objective
    data: Labeled
    training: Labeled
    previous_arrays: Mapping[str, ndarray] = dataclasses.field(default_factory=dict)
    given_names: frozenset[str] | None = None

    @cached_property
    def kind(self) -> str:
        """The kind of input that output vectors have: `hidden`, `sparse` or `dense`."""
        if self.given.hidden:
            return "hidden"
        return "sparse" if self.data.is_sparse else "dense"

    @cached_property
    def has_several_or_many_labels(self) -> bool:
        """Whether a row has several labels, or there are MANY_LABELS."""
        labels = chosen_labels(self.data.labels, self.given.labels)
        return self.data.n_labels >= MANY_LABELS or bool((labels.n_of_row > 1).any())

    def default(self, name: str, otherwise: Any) -> Any:
        """The objective's default of a setting for this kind of input."""
        value = self.objective.label_defaults.get(name, otherwise)
        return getattr(value, self.kind) if isinstance(value, ByInput) else value

    def is_given(self, name: str) -> bool:
        """Whether a setting was given, even with its default value."""
        if self.given_names is not None:
            return name in self.given_names
        return bool(getattr(self.given, name) != getattr(ClassifySettings, name))


def given_names(options: Mapping[str, Any]) -> frozenset[str]:
    """The names of the options that have a value."""
    return frozenset(name for name, value in options.items() if value is not None)


def has_label_losses(objective: Objective) -> bool:
    """Whether the loss is a sum over labels with independent probabilities."""
    return objective.log_label_probability(np.zeros(1)) is not None


def has_softmax(objective: Objective) -> bool:
    """Whether its probabilities are the softmax of the scores."""
    return type(objective).log_probability is Objective.log_probability


def has_gaussian_weights(objective: Objective) -> bool:
    """Whether its probabilities can be averaged over normal scores."""
    no_scores = np.zeros((1, 2))
    return has_softmax(objective) or (
        objective.log_mean_probability(no_scores, no_scores) is not None
    )


def scores_labels_independently(settings: ClassifySettings, objective: Objective) -> bool:
    """Whether all labels are scored, and the loss is a sum over them."""
    return has_label_losses(objective) and settings.sampler == ALL_CANDIDATES


def takes_dual(settings: ClassifySettings, problem: Problem) -> bool:
    """Whether dual coordinate descent is the default where all labels are scored: no setting of
    another optimizer is given.
    """
    is_open = settings.optimizer is None and settings.l2 != 0
    has_dual = problem.objective.dual_steps is not None
    return is_open and has_dual and not ignored_by_dual(problem)


def ignored_by_dual(problem: Problem) -> list[str]:
    """The given settings without effect on dual coordinate descent."""
    names = [name for name in IGNORED_BY_DUAL if problem.is_given(name)]
    if problem.given.bias == "zero" and "bias" in names:
        names.remove("bias")
    return names
