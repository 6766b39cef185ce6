"""Data frames of a classifier's predictions, by kind."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from embedx.classification.detail import Detail
from embedx.errors import InapplicableError, check_kind
from embedx.evaluation.answers import BINS, ConfusionMatrix
from embedx.runtime.frames import data_frame


def frame(detail: Detail, kind: str) -> Any:
    """A `pandas.DataFrame` of that kind. Raises `EmbedxError` for an unknown kind."""
    check_kind(kind, ("metrics", *FRAMES))
    return FRAMES[kind](detail)


def labels(detail: Detail) -> Any:
    """A row for each label, with its precision and recall."""
    if not detail.by_label:
        raise InapplicableError("kind", "labels", "needs probabilities to decide by")
    return data_frame(detail.by_label)


def frequency(detail: Detail) -> Any:
    """A row for each bin of labels by their training rows."""
    rows = []
    for frequency_bin in detail.by_frequency:
        row = asdict(frequency_bin)
        recall = {f"recall@{k}": share for k, share in row.pop("recall").items()}
        rows.append({"training_rows": row.pop("name"), **row, **recall})
    return data_frame(rows)


def thresholds(detail: Detail) -> Any:
    """A row for each threshold."""
    return data_frame([asdict(accepted) for accepted in detail.thresholds])


def coverage(detail: Detail) -> Any:
    """A row for each probability of a first prediction."""
    threshold, covered, accuracy = detail.coverage
    return data_frame({"threshold": threshold, "coverage": covered, "accuracy": accuracy})


def reliability(detail: Detail) -> Any:
    """A row for each bin of probabilities."""
    bins = detail.reliability
    edges = np.linspace(0, 1, BINS + 1)
    return data_frame(
        {
            "low": edges[:-1],
            "high": edges[1:],
            "n": bins.n,
            "confidence": bins.confidence,
            "accuracy": bins.accuracy,
        }
    )


def confusion(detail: Detail) -> Any:
    """A row for each label and a column for each first prediction."""
    matrix = confusion_of(detail)
    names = detail.names_of(matrix.labels)
    square = data_frame(dict(enumerate(matrix.rows.T)))
    return square.set_axis(names, axis="index").set_axis(names, axis="columns")


def confusion_of(detail: Detail) -> ConfusionMatrix:
    """The confusion matrix; raises `InapplicableError` unless each row has one label."""
    if detail.confusion is None:
        problem = "needs at least two labels, and exactly one for each row"
        raise InapplicableError("kind", "confusion", problem)
    return detail.confusion


def confused(detail: Detail) -> Any:
    """A row for each pair of a missed label and a wrong prediction."""
    rows = [
        {
            "label": detail.name_of(confusion.label),
            "prediction": detail.name_of(confusion.answer),
            "rows": confusion.rows,
        }
        for confusion in detail.confused
    ]
    return data_frame(rows, ["label", "prediction", "rows"])


FRAMES: Mapping[str, Callable[[Detail], Any]] = {
    "labels": labels,
    "frequency": frequency,
    "thresholds": thresholds,
    "coverage": coverage,
    "reliability": reliability,
    "confusion": confusion,
    "confused": confused,
}
