"""Classifiers that are trained without some labels: they answer held-out rows of these as the model
will answer rows of labels that it does not have (familiarity_fit.py).

The labels are divided into N_GROUPS, and for each group a classifier is trained without it.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from embedx.classification.classifier import Classifier
from embedx.classification.ranking import iter_best, probabilities
from embedx.classification.row_blocks import joined_blocks
from embedx.classification.settings import NONE, ClassifySettings
from embedx.classification.trained_classifier import TrainedClassifier
from embedx.errors import EmbedxError, Setting
from embedx.labeled.data import Labeled, Labels
from embedx.runtime.progress import Progress

# More groups take more time, fewer leave out more labels at once; 5 is a choice
# (docs/constants.md).
N_GROUPS = 5
# After this many labels have been left out, no other group is; labels vary more than their rows.
ENOUGH_LABELS = 200
# Training rows of each classifier at most, which bounds its time.
MAX_TRAINING_ROWS = 3_000


class LabelSubset(NamedTuple):
    """The labels that a classifier knows, and the rows that it is trained on.

    is_known  bool (n_labels,)
    is_seen   bool (n_features,): whether these rows have a feature; the classifier has no others.
              None for dense features
    """

    is_known: ndarray
    is_seen: ndarray | None
    training: Labeled


class SubsetClassifier(NamedTuple):
    """A classifier that was trained on a subset of the labels."""

    subset: LabelSubset
    classifier: Classifier

    def unknown_rows(self, labels: Labels) -> ndarray:
        """The rows none of whose labels it knows, int (n,)."""
        n_known = np.bincount(
            labels.row_of_id, self.subset.is_known[labels.ids], minlength=len(labels)
        )
        return np.flatnonzero(n_known == 0)

    def best_two(self, features: Any, calibrated: Classifier) -> tuple[ndarray, ndarray]:
        """(scores of the two best labels of rows, the probability of the best one, by the
        calibration of another classifier): float32 (n, 2), (n,).
        """
        if self.subset.is_seen is not None:
            features = features[:, self.subset.is_seen]
        # Its scores are those of independent labels where the other's are.
        self.classifier.facts["several_labels"] = calibrated.has_several_labels
        threads = calibrated.settings.get("threads")
        parts = iter_best(self.classifier, features, 2, threads=threads)
        _, scores = joined_blocks((ids, scores) for _, ids, scores in parts)
        return scores, probabilities(calibrated, scores)[:, 0]


def subset_classifiers(
    data: Labeled,
    labels: Labels,
    train: Callable[[Labeled], TrainedClassifier],
    progress: Progress,
) -> tuple[list[SubsetClassifier], BaseException | None]:
    """A classifier for each of `label_subsets`, and the interrupt that ended their training.

    If one of them cannot be trained, there are none.
    """
    classifiers = []
    for subset in label_subsets(data, labels):
        try:
            trained = train(subset.training)
        except KeyboardInterrupt as interrupt:
            return [], interrupt
        except EmbedxError as error:
            progress.note(
                "for ",
                Setting("abstain"),
                ", no classifier can be trained without some labels: ",
                *error.parts,
            )
            return [], None
        if not trained.outcome.is_whole:
            return [], trained.outcome.interrupted_by
        classifiers.append(SubsetClassifier(subset, trained.classifier))
    return classifiers, None


def settings_without_held_out(
    settings: ClassifySettings, given: ClassifySettings
) -> ClassifySettings:
    """Resolved settings, to train on other rows of the same data without any held out.

    given  those that the user gave: a default of l2 depends on the number of rows
    """
    defaults = ClassifySettings()
    return dataclasses.replace(
        settings,
        calibration=0.0,
        neighbours=NONE,
        l2=given.l2,
        pretrained=None,
        validation=None,
        validation_labels=None,
        patience=defaults.patience,
        posterior=defaults.posterior,
        class_weight=defaults.class_weight,
    )


def label_subsets(data: Labeled, labels: Labels) -> Iterator[LabelSubset]:
    """The training rows without a group of labels, for groups that leave two labels or more.

    data    the training rows
    labels  those of their labels that are trained on
    """
    chosen = np.flatnonzero(labels.n_of_row)
    chosen = chosen[:: max(1, -(-len(chosen) // MAX_TRAINING_ROWS))]
    data = dataclasses.replace(data.rows(chosen), labels=labels.rows(chosen), source_schema=None)
    counts = np.bincount(data.labels.ids, minlength=data.n_labels)
    by_count = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    n_left_out = 0
    for first in range(min(N_GROUPS, len(by_count))):
        left_out = by_count[first::N_GROUPS]
        is_known = counts > 0
        is_known[left_out] = False
        if np.count_nonzero(is_known) > 1 and n_left_out < ENOUGH_LABELS:
            yield _subset(data, is_known)
        n_left_out += len(left_out)


def _subset(data: Labeled, is_known: ndarray) -> LabelSubset:
    """The group without unknown labels and, if they are sparse, features that no row has."""
    known_labels = data.labels.where(is_known[data.labels.ids])
    rows = np.flatnonzero(known_labels.n_of_row)
    labels = known_labels.rows(rows)
    new_ids = np.cumsum(is_known, dtype=labels.ids.dtype) - 1
    labels = dataclasses.replace(labels, ids=new_ids[labels.ids])
    training = dataclasses.replace(
        data.rows(rows), labels=labels, n_labels=int(np.count_nonzero(is_known))
    )
    if not data.is_sparse:
        return LabelSubset(is_known, None, training)
    is_seen = np.bincount(training.features.indices, minlength=data.n_features) > 0
    training = dataclasses.replace(training, features=training.features[:, is_seen])
    return LabelSubset(is_known, is_seen, training)
