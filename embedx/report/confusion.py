"""The confusion heatmap of a classifier whose rows have one label each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from embedx.evaluation.error_analysis import ConfusionMatrix
from embedx.pages.charts import LETTER_WIDTH, shortened

# Pixels of a cell, and of the matrix if cells can have that size.
MIN_CELL = 18
MAX_CELL = 48
MATRIX_SIZE = 300
# From this size on a cell shows its number of rows.
CELL_WITH_NUMBER = 30
LABEL_MARGIN = 10
TITLE_HEIGHT = 24
MIN_OPACITY = 0.12


def heatmap(names: Sequence[str], matrix: ConfusionMatrix) -> dict[str, Any]:
    """A row for each label and a column for each best prediction, for the template.

    names  those of the labels of the matrix
    """
    left = LABEL_MARGIN + TITLE_HEIGHT + LETTER_WIDTH * max(len(shortened(name)) for name in names)
    cell = max(MIN_CELL, min(MAX_CELL, MATRIX_SIZE // len(names)))
    size = cell * len(names)
    about = "Each row of the picture is a label"
    if matrix.n_labels > len(names):
        about = (
            f"The {len(names)} of {matrix.n_labels} labels that are confused most often: each is a"
            " row"
        )
    return {
        "id": "confusion",
        "columns": ["label", "best prediction", "rows", "share of the label's rows"],
        "size": size,
        "cell": cell,
        "has_numbers": cell >= CELL_WITH_NUMBER,
        "left": left,
        "names": [(cell * k + cell // 2, shortened(name)) for k, name in enumerate(names)],
        "cells": _cells(names, matrix, cell, left),
        "width": left + size + LABEL_MARGIN,
        "height": size + left,
        "caption": (
            f"{about}, each column a best prediction. The stronger the colour, the larger the share"
            " of the label's test rows; the diagonal is correct."
        ),
    }


def _cells(
    names: Sequence[str], matrix: ConfusionMatrix, size: int, left: int
) -> list[dict[str, Any]]:
    """The cells with rows: place, style and numbers."""
    cells = []
    for row, column in np.argwhere(matrix.rows).tolist():
        n = int(matrix.rows[row, column])
        share = n / int(matrix.n_of_label[row])
        is_correct = row == column
        cell = {
            "x": left + size * column,
            "y": size * row,
            "opacity": round(MIN_OPACITY + (1 - MIN_OPACITY) * share, 2),
            "style": "c0" if is_correct else "c1",
            "row": [names[row], names[column], n, round(share, 4)],
        }
        cells.append(cell)
    return cells
