"""The confusion heatmap of a classifier whose rows have one label each."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import int64, ndarray

from embedx.labeled.data import Labels
from embedx.pages.charts import LETTER_WIDTH, shortened

# with more labels, only those that are confused most often are shown
MAX_LABELS = 30
N_MOST_CONFUSED = 20
# pixels
CELL = 18
LABEL_MARGIN = 10
TITLE_HEIGHT = 24
MIN_OPACITY = 0.12


def confusion_counts(top: ndarray, labels: Labels) -> tuple[ndarray, ndarray]:
    """The labels that occur as labels or best predictions, int64 sorted, and how many rows of each
    have each as best prediction, int64 (labels, labels).

    Both are empty unless every labelled row has one label.

    top  int (rows, k): ids of labels, the best first
    """
    n_of_row = np.asarray(labels.n_of_row)
    if n_of_row.max(initial=0) != 1:
        return np.zeros(0, int64), np.zeros((0, 0), int64)
    best = np.asarray(top, int64)[n_of_row == 1, 0]
    correct = np.asarray(labels.ids, int64)
    ids, places = np.unique(np.concatenate([correct, best]), return_inverse=True)
    counts = np.zeros((len(ids), len(ids)), int64)
    np.add.at(counts, (places[: len(correct)], places[len(correct) :]), 1)
    return ids, counts


def shown_labels(counts: ndarray) -> ndarray:
    """The places of the labels that a heatmap shows: all, or those confused most often, sorted."""
    if len(counts) <= MAX_LABELS:
        return np.arange(len(counts))
    wrong = counts - np.diag(np.diag(counts))
    n_wrong = wrong.sum(axis=0) + wrong.sum(axis=1)
    return np.sort(np.argsort(-n_wrong, kind="stable")[:N_MOST_CONFUSED])


def confusion_chart(
    top: ndarray, labels: Labels, name_of: Callable[[int], str]
) -> dict[str, Any] | None:
    """The heatmap of test rows with their best predictions, for the template; None where rows have
    several labels or there is one label.

    top      int (rows, k): ids of labels, the best first
    name_of  the name of a label
    """
    ids, counts = confusion_counts(top, labels)
    if len(ids) < 2:
        return None
    places = shown_labels(counts)
    names = [name_of(label) for label in ids[places].tolist()]
    n_of_label = counts.sum(axis=1)[places]
    return heatmap(names, counts[np.ix_(places, places)], len(ids), n_of_label)


def heatmap(
    names: Sequence[str], counts: ndarray, n_labels: int, n_of_label: ndarray
) -> dict[str, Any]:
    """A row for each label and a column for each best prediction, for the template.

    counts      int64 (labels, labels), as of `confusion_counts`
    n_labels    that there are, of which `names` are shown
    n_of_label  int64 (labels,): rows of each label, those with other predictions too
    """
    left = LABEL_MARGIN + TITLE_HEIGHT + LETTER_WIDTH * max(len(shortened(name)) for name in names)
    size = CELL * len(names)
    cells = []
    for row, column in np.argwhere(counts).tolist():
        n = int(counts[row, column])
        share = n / int(n_of_label[row])
        style = "c1"
        if row == column:
            style = "c0"
        cells.append(
            {
                "x": left + CELL * column,
                "y": CELL * row,
                "opacity": round(MIN_OPACITY + (1 - MIN_OPACITY) * share, 2),
                "style": style,
                "row": [names[row], names[column], n, round(share, 4)],
            }
        )
    about = "Each row of the picture is a label"
    if n_labels > len(names):
        about = f"The {len(names)} of {n_labels} labels that are confused most often: each is a row"
    return {
        "id": "confusion",
        "columns": ["label", "best prediction", "rows", "share of the label's rows"],
        "size": size,
        "cell": CELL,
        "left": left,
        "names": [(CELL * k + CELL // 2, shortened(name)) for k, name in enumerate(names)],
        "cells": cells,
        "width": left + size + LABEL_MARGIN,
        "height": size + left,
        "caption": (
            f"{about}, each column a best prediction. The stronger the colour, the larger the share"
            " of the label's test rows; the diagonal is correct."
        ),
    }
