"""Rows of unknown labels: held-out rows as classifiers answer them that were trained without them.

The labels are divided into N_GROUPS, and for each group a classifier is trained without it.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from embedx.classification.classifier import Classifier
from embedx.classification.row_blocks import all_rows
from embedx.labeled.data import Labeled, Labels

# Fewer groups leave more labels out than new data are likely to have, and more take more time
# (docs/labels.md).
N_GROUPS = 5
# After this many labels have been left out, no other group is; labels vary more than their rows.
ENOUGH_LABELS = 200
# Training rows of each classifier at most, which bounds its time.
MAX_TRAINING_ROWS = 3_000
# What these classifiers have in common with the one that is calibrated.
SHARED_FACTS = ("several_labels", "temperature")


class Group(NamedTuple):
    """The labels that a classifier knows, and the rows that it is trained on.

    is_known  bool (n_labels,)
    is_seen   bool (n_features,): whether these rows have a feature; the classifier has no others.
              None for dense features
    """

    is_known: ndarray
    is_seen: ndarray | None
    training: Labeled


class WithoutGroup(NamedTuple):
    """A classifier that was trained on the rows of a group."""

    group: Group
    classifier: Classifier

    def unknown_rows(self, labels: Labels) -> ndarray:
        """The rows none of whose labels it knows, int (n,)."""
        n_known = np.bincount(
            labels.row_of_id, self.group.is_known[labels.ids], minlength=len(labels)
        )
        return np.flatnonzero(n_known == 0)

    def best_two(self, features: Any, calibrated: Classifier) -> tuple[ndarray, ndarray]:
        """(scores of the two best labels of rows, the probability of the best one, by the
        calibration of another classifier): float32 (n, 2), (n,).
        """
        if self.group.is_seen is not None:
            features = features[:, self.group.is_seen]
        for name in SHARED_FACTS:
            if name in calibrated.facts:
                self.classifier.facts[name] = calibrated.facts[name]
        threads = calibrated.settings.get("threads")
        parts = self.classifier.best(features, 2, threads=threads)
        _, scores = all_rows((ids, scores) for _, ids, scores in parts)
        return scores, calibrated.probabilities(scores)[:, 0]


def groups(data: Labeled, labels: Labels) -> Iterator[Group]:
    """The training rows without a group of labels, for groups that leave two labels or more.

    data    the training rows
    labels  those of their labels that are trained on
    """
    chosen = np.flatnonzero(labels.n_of_row)
    chosen = chosen[:: max(1, -(-len(chosen) // MAX_TRAINING_ROWS))]
    data = dataclasses.replace(data.rows(chosen), labels=labels.rows(chosen), known=None)
    counts = np.bincount(data.labels.ids, minlength=data.n_labels)
    by_count = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    n_left_out = 0
    for first in range(min(N_GROUPS, len(by_count))):
        left_out = by_count[first::N_GROUPS]
        is_known = counts > 0
        is_known[left_out] = False
        if np.count_nonzero(is_known) > 1 and n_left_out < ENOUGH_LABELS:
            yield _group(data, is_known)
        n_left_out += len(left_out)


def _group(data: Labeled, is_known: ndarray) -> Group:
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
        return Group(is_known, None, training)
    is_seen = np.bincount(training.features.indices, minlength=data.n_features) > 0
    training = dataclasses.replace(training, features=training.features[:, is_seen])
    return Group(is_known, is_seen, training)
