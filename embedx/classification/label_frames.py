"""Data frames of a classifier's predictions, by kind."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from embedx.classification.prediction_analysis import PredictionAnalysis
from embedx.errors import InapplicableError, check_kind
from embedx.evaluation.error_analysis import N_BINS, ConfusionMatrix
from embedx.runtime.frames import data_frame


def frame(analysis: PredictionAnalysis, kind: str) -> Any:
    """A `pandas.DataFrame` of that kind. Raises `EmbedxError` for an unknown kind."""
    check_kind(kind, ("metrics", *FRAMES))
    return FRAMES[kind](analysis)


def labels(analysis: PredictionAnalysis) -> Any:
    """A row for each label, with its precision and recall."""
    if not analysis.by_label:
        raise InapplicableError("kind", "labels", "needs probabilities to decide by")
    return data_frame(analysis.by_label)


def frequency(analysis: PredictionAnalysis) -> Any:
    """A row for each bin of labels by their training rows."""
    rows = []
    for frequency_bin in analysis.by_frequency:
        row = asdict(frequency_bin)
        recall = {f"recall@{k}": share for k, share in row.pop("recall").items()}
        rows.append({"training_rows": row.pop("name"), **row, **recall})
    return data_frame(rows)


def thresholds(analysis: PredictionAnalysis) -> Any:
    """A row for each threshold."""
    return data_frame([asdict(accepted) for accepted in analysis.thresholds])


def coverage(analysis: PredictionAnalysis) -> Any:
    """A row for each probability of a first prediction."""
    threshold, covered, accuracy = analysis.coverage
    return data_frame({"threshold": threshold, "coverage": covered, "accuracy": accuracy})


def reliability(analysis: PredictionAnalysis) -> Any:
    """A row for each bin of probabilities."""
    bins = analysis.reliability
    edges = np.linspace(0, 1, N_BINS + 1)
    return data_frame(
        {
            "low": edges[:-1],
            "high": edges[1:],
            "n": bins.n,
            "confidence": bins.confidence,
            "accuracy": bins.accuracy,
        }
    )


def confusion(analysis: PredictionAnalysis) -> Any:
    """A row for each label and a column for each first prediction."""
    matrix = confusion_of(analysis)
    names = analysis.names_of(matrix.labels)
    square = data_frame(dict(enumerate(matrix.rows.T)))
    return square.set_axis(names, axis="index").set_axis(names, axis="columns")


def confusion_of(analysis: PredictionAnalysis) -> ConfusionMatrix:
    """The confusion matrix; raises `InapplicableError` unless each row has one label."""
    if analysis.confusion is None:
        problem = "needs at least two labels, and exactly one for each row"
        raise InapplicableError("kind", "confusion", problem)
    return analysis.confusion


def confused(analysis: PredictionAnalysis) -> Any:
    """A row for each pair of a missed label and a wrong prediction."""
    rows = [
        {
            "label": analysis.name_of(confusion.label),
            "prediction": analysis.name_of(confusion.prediction),
            "rows": confusion.rows,
        }
        for confusion in analysis.confused
    ]
    return data_frame(rows, ["label", "prediction", "rows"])


FRAMES: Mapping[str, Callable[[PredictionAnalysis], Any]] = {
    "labels": labels,
    "frequency": frequency,
    "thresholds": thresholds,
    "coverage": coverage,
    "reliability": reliability,
    "confusion": confusion,
    "confused": confused,
}
