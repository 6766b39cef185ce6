"""Scores of decisions which labels a row has: F1, precision and recall, by label or by row."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from embedx.evaluation.labels import ratio
from embedx.labeled.data import Labels


class LabelCounts(NamedTuple):
    """Numbers of correct predictions, predictions and true labels, by label or by row.

    Each is int64 (n,).
    """

    right: ndarray
    predicted: ndarray
    true: ndarray

    @property
    def precision(self) -> ndarray:
        """float64 (n,), 0 where nothing was predicted, as by scikit-learn."""
        return self.right / np.maximum(self.predicted, 1)

    @property
    def recall(self) -> ndarray:
        """float64 (n,), 0 where nothing is true."""
        return self.right / np.maximum(self.true, 1)

    @property
    def f1(self) -> ndarray:
        """float64 (n,), 0 where nothing is right."""
        return 2 * self.right / np.maximum(self.predicted + self.true, 1)


def label_counts(
    predicted: Labels, true: Labels, n_labels: int = 1
) -> tuple[LabelCounts, LabelCounts]:
    """The counts of each label, and those of each row.

    n_labels  the least number of labels to count; ids from it on are counted where they occur
    """
    max_id = max(predicted.ids.max(initial=0), true.ids.max(initial=0), n_labels - 1)
    width = int(max_id) + 1

    # Cells of the matrix of rows and labels.
    predicted_cells = predicted.row_of_id * width + predicted.ids
    true_cells = true.row_of_id * width + true.ids
    right_cells = predicted_cells[np.isin(predicted_cells, true_cells)]
    cells = (right_cells, predicted_cells, true_cells)

    by_label = LabelCounts(*(np.bincount(cell % width, minlength=width) for cell in cells))
    by_row = LabelCounts(*(np.bincount(cell // width, minlength=len(true)) for cell in cells))
    return by_label, by_row


def f1_measures(predicted: Labels, true: Labels) -> dict[str, float]:
    """f1_micro, f1_macro and f1_samples of decisions, as scikit-learn's f1_score defines them.

    The macro average is over the labels that occur in `true` or `predicted`, as that of f1_score is
    for one label a row.
    """
    by_label, by_row = label_counts(predicted, true)
    n_occurrences = by_label.predicted + by_label.true
    label_f1 = by_label.f1[n_occurrences > 0]
    row_f1 = by_row.f1
    return {
        "f1_micro": ratio(2 * by_label.right.sum(), n_occurrences.sum()),
        "f1_macro": ratio(label_f1.sum(), len(label_f1)),
        "f1_samples": ratio(row_f1.sum(), len(row_f1)),
    }


def per_label_columns(
    names: Sequence[str], train_counts: ndarray, threshold: float | None, counts: LabelCounts
) -> dict[str, Sequence[Any]]:
    """The columns of a table with a row for each label.

    threshold  of the decisions; None where each row of the data is given its best label
    """
    # Ids above are unknown labels.
    n_labels = len(names)
    return {
        "label": names,
        "train_count": train_counts.tolist(),
        "test_count": counts.true[:n_labels].tolist(),
        "threshold": [threshold] * n_labels,
        "precision": counts.precision[:n_labels].tolist(),
        "recall": counts.recall[:n_labels].tolist(),
        "f1": counts.f1[:n_labels].tolist(),
    }


def per_label_rows(columns: Mapping[str, Sequence[Any]]) -> list[list[str]]:
    """The table of `per_label_columns` as text, under a heading."""
    rows = [list(columns)]
    for name, n_train, n_test, threshold, *measures in zip(*columns.values(), strict=True):
        threshold_cell = "" if threshold is None else f"{threshold:.4g}"
        measure_cells = [f"{measure:.4f}" for measure in measures]
        rows.append([name, str(n_train), str(n_test), threshold_cell, *measure_cells])
    return rows
