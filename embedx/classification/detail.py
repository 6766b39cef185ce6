"""What `embedx eval` and pages show of a classifier beside its metrics: sentences for people,
labels by frequency, and what a threshold costs.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy import float64, int32, ndarray

from embedx.classification.classifier import Classifier
from embedx.evaluation import answers
from embedx.evaluation.answers import Accepted, FrequencyBin
from embedx.evaluation.labels import hits
from embedx.labeled.data import Labeled, Labels
from embedx.runtime.progress import SILENT, Progress

N_PREDICTIONS = 10
# Suggestions that a person looks at.
N_SUGGESTIONS = 5
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
    labels, kept = classifier.tested_labels(data.labels)
    parts = list(classifier.iter_top_k(data.features[kept], N_PREDICTIONS, progress))
    if parts:
        top = np.concatenate([ids for ids, _ in parts])
        probability = np.concatenate([probabilities for _, probabilities in parts])
    else:
        probability = np.zeros((0, min(N_PREDICTIONS, classifier.n_labels)), np.float32)
        top = probability
    return Predictions(top.astype(int32), probability, labels, kept)


@dataclass(frozen=True)
class Detail:
    """Sentences, labels by frequency, and accuracy by threshold."""

    headlines: list[str]
    by_frequency: list[FrequencyBin]
    thresholds: list[Accepted]

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON types."""
        record: dict[str, Any] = _without_nan(asdict(self))
        return record


def detail_of(predicted: Predictions, counts: ndarray) -> Detail:
    """What predictions show.

    counts  in how many training rows each label is, int (n_labels,)
    """
    by_frequency = answers.by_frequency(predicted.top, predicted.labels, counts)
    probability, is_right = predicted.first
    thresholds = answers.accepted(probability, is_right)
    headlines = [*_of_suggestions(predicted), *_of_rarest(by_frequency, predicted.labels)]
    return Detail(headlines, by_frequency, thresholds)


def _of_suggestions(predicted: Predictions) -> list[str]:
    """How many of the best labels are right, and how often the first is."""
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


def _of_rarest(bins: Sequence[FrequencyBin], labels: Labels) -> list[str]:
    """How often the rarest labels in training are found, of those that test rows have."""
    k = 1 if (labels.n_of_row <= 1).all() else N_SUGGESTIONS
    tested = [rare for rare in bins if rare.occurrences and rare.name != answers.UNSEEN]
    if not tested:
        return []
    rarest = tested[0]
    rows = "row" if rarest.name == "1" else "rows"
    place = "the first suggestion" if k == 1 else f"among {k} suggestions"
    times = _of_100(rarest.recall[k])
    return [f"Labels with {rarest.name} training {rows} are {place} in {times} cases."]


def _of_100(share: float) -> str:
    """`92 of 100`, with a decimal where that is below 1 or above 99."""
    percent = 100 * float(share)
    is_extreme = 0 < percent < 1 or 99 < percent < 100
    return f"{percent:.1f} of 100" if is_extreme else f"{percent:.0f} of 100"


# ---- tables


def percent(value: float) -> str:
    """A share as a table has it."""
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
