"""Weights of rows: the weight of a row multiplies its loss, whatever the objective and the
optimizer.

Balanced weights, with s the weights that are given and S_k the sum of s over the rows of label k:

    w_i = a s_i · mean over the labels k of row i of 1 / S_k

with a such that Σ w = Σ s. With one label for each row all labels count alike, as with
class_weight="balanced" of scikit-learn. Rows without labels keep their weights. Calibration has no
weights: it estimates how often predictions are right, and each of its rows counts once.
"""

import dataclasses

import numpy as np
from numpy import float64, ndarray

from embedx.labeled.data import Labeled, Labels
from embedx.labeled.label_rules import chosen_labels

BALANCED = "balanced"


def rows_with_weight(data: Labeled) -> Labeled:
    """The rows whose weight is not 0; without weights where all are the same."""
    if data.weights is None:
        return data
    is_counted = data.weights > 0
    if not is_counted.all():
        data = data.rows(np.flatnonzero(is_counted))
    assert data.weights is not None
    are_equal = len(data) == 0 or bool((data.weights == data.weights[0]).all())
    return dataclasses.replace(data, weights=None) if are_equal else data


def balanced_rows(data: Labeled, rule: str) -> Labeled:
    """The rows with weights under which labels count alike, those that a label rule chooses."""
    weights = balanced_weights(chosen_labels(data.labels, rule), data.n_labels, data.weights)
    return rows_with_weight(dataclasses.replace(data, weights=weights))


def balanced_weights(labels: Labels, n_labels: int, weights: ndarray | None) -> ndarray:
    """float64 (n_rows,): weights under which labels count alike, with the sum of `weights`, which
    are 1 where they are None.
    """
    n_of_row = labels.n_of_row
    row_weights = np.ones(len(labels)) if weights is None else weights.astype(float64)
    row = labels.row_of_id
    label_weights = np.bincount(labels.ids, row_weights[row], n_labels)
    inverse = np.bincount(row, 1 / label_weights[labels.ids], len(labels))
    balanced = row_weights * inverse / np.maximum(n_of_row, 1)
    is_labelled = n_of_row > 0
    scale = row_weights[is_labelled].sum() / max(balanced.sum(), np.finfo(float64).tiny)
    return np.where(is_labelled, balanced * scale, row_weights)
