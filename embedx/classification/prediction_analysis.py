"""Details of a classifier's predictions for `embedx eval`, pages and figures, in addition to its
metrics: sentences, labels by frequency, confusions, calibration, coverage at thresholds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy import float64, int32, ndarray

from embedx.classification.classifier import Classifier
from embedx.classification.label_metrics import scored_labels
from embedx.classification.row_blocks import joined_blocks
from embedx.evaluation import error_analysis
from embedx.evaluation.error_analysis import (
    Accepted,
    Confusion,
    ConfusionMatrix,
    FrequencyBin,
    Reliability,
)
from embedx.evaluation.f1 import LabelCounts, per_label_columns
from embedx.evaluation.labels import hits
from embedx.labeled.data import Labeled, Labels
from embedx.runtime.progress import SILENT, Progress

N_PREDICTIONS = 10
# Number of suggestions that a person is assumed to look at.
N_SUGGESTIONS = 5
# Minimum share of rows without a label of the training data, for a sentence about them.
MIN_SHARE_TO_NAME = 0.01
DASH = "–"


class Predictions(NamedTuple):
    """The best labels of the test rows that can be scored.

    top          int32 (rows, N_PREDICTIONS): ids of labels, the best first
    probability  float32 (rows, N_PREDICTIONS)
    labels       the labels that these rows have
    kept         int (rows,): places of these rows among all rows of the data
    """

    top: ndarray
    probability: ndarray
    labels: Labels
    kept: ndarray

    @property
    def first(self) -> tuple[ndarray, ndarray]:
        """The probabilities of the best labels of the rows that have labels, float64 (n,), and
        whether they are right, bool (n,).
        """
        labelled = np.flatnonzero(self.labels.n_of_row)
        is_right = hits(self.top[:, :1], self.labels)[labelled, 0]
        return self.probability[labelled, 0].astype(float64), is_right


def predictions(classifier: Classifier, data: Labeled, progress: Progress = SILENT) -> Predictions:
    """The best labels of the test rows that can be scored."""
    labels, kept = scored_labels(classifier, data.labels)
    top, probability = joined_blocks(
        classifier.iter_top_k(data.features[kept], N_PREDICTIONS, progress)
    )
    return Predictions(top.astype(int32), probability, labels, kept)


@dataclass(frozen=True)
class PredictionAnalysis:
    """Details of predictions, each computed on first use.

    counts     int (n_labels,): number of training rows with each label
    name_of    the name of a label
    decisions  number of times that each label is predicted and right; None without probabilities
    threshold  of the predicted labels; None if the best label of each row is predicted
    """

    predicted: Predictions
    counts: ndarray
    name_of: Callable[[int], str] = str
    decisions: LabelCounts | None = None
    threshold: float | None = None

    @cached_property
    def headlines(self) -> list[str]:
        """Sentences on the share of suggestions that are right, for all labels and rare ones."""
        labels = self.predicted.labels
        return [
            *_of_suggestions(self.predicted),
            *_of_rows_without_known_label(labels, self.counts),
            *_of_rarest(self.by_frequency, labels),
        ]

    @cached_property
    def by_frequency(self) -> list[FrequencyBin]:
        """Recall and precision of rare and of frequent labels."""
        return error_analysis.by_frequency(self.predicted.top, self.predicted.labels, self.counts)

    @cached_property
    def thresholds(self) -> list[Accepted]:
        """Coverage and accuracy at a few thresholds."""
        return error_analysis.accepted(*self.predicted.first)

    @cached_property
    def coverage(self) -> tuple[ndarray, ndarray, ndarray]:
        """Every threshold, with coverage and accuracy, as `error_analysis.coverage_curve`."""
        return error_analysis.coverage_curve(*self.predicted.first)

    @cached_property
    def reliability(self) -> Reliability:
        """First predictions by their probability."""
        return error_analysis.reliability(*self.predicted.first)

    @cached_property
    def confusion(self) -> ConfusionMatrix | None:
        """Labels by first predictions; None unless each row has one label."""
        return error_analysis.confusion_matrix(self.predicted.top, self.predicted.labels)

    @cached_property
    def confused(self) -> list[Confusion]:
        """Labels that are missed for another, the most frequent first."""
        return error_analysis.confusions(self.predicted.top, self.predicted.labels)

    @cached_property
    def by_label(self) -> dict[str, Sequence[Any]]:
        """The columns of a table with a row for each label; none without decisions."""
        if self.decisions is None:
            return {}
        names = [self.name_of(label) for label in range(len(self.counts))]
        return per_label_columns(names, self.counts, self.threshold, self.decisions)

    def names_of(self, labels: ndarray) -> list[str]:
        """The names of labels, int (n,)."""
        return [self.name_of(label) for label in labels.tolist()]

    def as_dict(self) -> dict[str, Any]:
        """Headlines, labels by frequency and thresholds as JSON types."""
        record: dict[str, Any] = {
            "headlines": self.headlines,
            "by_frequency": [asdict(frequency_bin) for frequency_bin in self.by_frequency],
            "thresholds": [asdict(accepted) for accepted in self.thresholds],
        }
        return {name: _without_nan(value) for name, value in record.items()}


def name_of_label(classifier: Classifier, label: int) -> str:
    """The name of a label of the test data, which the classifier may not know."""
    if label < classifier.n_labels:
        return classifier.name(label)
    return f"unknown label {label}"


def _of_suggestions(predicted: Predictions) -> list[str]:
    """Sentences on how many of the best labels are right, and how often the first is."""
    labels = predicted.labels
    labelled = np.flatnonzero(labels.n_of_row)
    if not len(labelled):
        return []
    is_right = hits(predicted.top, labels)[labelled]
    first = f"{_of_100(is_right[:, 0].mean())} first suggestions are right."
    k = min(N_SUGGESTIONS, is_right.shape[1])
    best = is_right[:, :k]
    if (labels.n_of_row <= 1).all():
        if is_right.shape[1] <= k:
            return [first]
        found = _of_100(best.any(axis=1).mean())
        return [first, f"The right label is among {k} suggestions for {found} rows."]
    n_right = best.sum(axis=1).mean()
    n_labels = labels.n_of_row[labelled].mean()
    several = f"Of {k} suggestions {n_right:.1f} are right; rows have {n_labels:.1f} labels."
    return [several, first]


def _of_rows_without_known_label(labels: Labels, counts: ndarray) -> list[str]:
    """A sentence on the rows whose labels are not in the training data, so that no prediction is
    right; none if their share is below MIN_SHARE_TO_NAME.
    """
    trained = np.flatnonzero(counts)
    is_known = np.isin(labels.ids, trained)
    n_labelled = int(np.count_nonzero(labels.n_of_row))
    n_with_known = len(np.unique(labels.row_of_id[is_known]))
    share = 1 - n_with_known / max(n_labelled, 1)
    if not n_labelled or share < MIN_SHARE_TO_NAME:
        return []
    return [f"{_of_100(share)} rows have only labels that do not occur in training."]


def _of_rarest(bins: Sequence[FrequencyBin], labels: Labels) -> list[str]:
    """A sentence on how often the rarest labels of the training data are found in test rows."""
    k = 1 if (labels.n_of_row <= 1).all() else N_SUGGESTIONS
    tested = [rare for rare in bins if rare.occurrences and rare.name != error_analysis.UNSEEN]
    if not tested:
        return []
    rarest = tested[0]
    rows = "row" if rarest.name == "1" else "rows"
    place = "the first suggestion" if k == 1 else f"among {k} suggestions"
    times = _of_100(rarest.recall[k])
    return [f"Labels with {rarest.name} training {rows} are {place} for {times} of their rows."]


def _of_100(share: float) -> str:
    """`92 of 100`, with a decimal where that is below 1 or above 99."""
    percent = 100 * float(share)
    is_extreme = 0 < percent < 1 or 99 < percent < 100
    return f"{percent:.1f} of 100" if is_extreme else f"{percent:.0f} of 100"


# ---- tables


def percent(value: float) -> str:
    """A share in percent, for a table."""
    return f"{100 * value:.1f} %" if math.isfinite(value) else DASH


def frequency_rows(bins: Sequence[FrequencyBin]) -> list[list[str]]:
    """A table of the bins."""
    ks = list(bins[0].recall) if bins else []
    head = [
        "training rows of a label",
        "labels",
        "in test rows",
        *(f"recall at {k}" for k in ks),
        "top predictions",
        "precision",
    ]
    rows = [head]
    for frequency_bin in bins:
        row = [
            frequency_bin.name,
            f"{frequency_bin.labels:,}",
            f"{frequency_bin.occurrences:,}",
            *(percent(frequency_bin.recall[k]) for k in ks),
            f"{frequency_bin.predicted:,}",
            percent(frequency_bin.precision),
        ]
        rows.append(row)
    return rows


def threshold_rows(thresholds: Sequence[Accepted]) -> list[list[str]]:
    """A table of thresholds."""
    rows = [
        [f"{row.threshold:g}", percent(row.coverage), percent(row.accuracy)] for row in thresholds
    ]
    return [["threshold", "rows accepted", "right of these"], *rows]


def _without_nan(value: Any) -> Any:
    """JSON types, with null for what is not a number."""
    if isinstance(value, dict):
        return {str(name): _without_nan(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
