"""Error analysis of a classifier on test rows: by label frequency, confusions, and calibration.

A row may have several labels, one, or none; ids from n_labels on are unknown to the classifier,
which cannot predict them. The predictions for a row are ids, best first. Confusions look at the n
best predictions of a row of n labels: of a row of one label, at its first prediction alone. A label
that is not among these is *missed*; a prediction among these that is no label is *wrong*.

    reliability   predictions by their probability, in bins of equal width; for each bin the mean
                  probability (confidence), and the share that is correct (accuracy). ECE = sum over
                  bins of (predictions in the bin / all) |accuracy - confidence|: the expected
                  calibration error of Naeini, Cooper & Hauskrecht 2015, of first predictions
"""

from dataclasses import dataclass

import numpy as np
from numpy import int64, ndarray
from scipy.sparse import csr_matrix

from embedx.evaluation.labels import hits, ratio
from embedx.labeled.data import Labels

# The maximum number of training rows of a label in each bin of frequency but the last, which has
# none.
MAX_ROWS_OF_BINS = (1, 5, 20, 100, 1_000, 10_000)
UNSEEN = "not in training"
# The probabilities that a first prediction may have to reach to be accepted.
THRESHOLDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
# Bins of a reliability diagram.
N_BINS = 10
# A confusion matrix of more labels is reduced to the most confused ones.
MAX_LABELS_OF_MATRIX = 30
N_MOST_CONFUSED = 20
# The rank of a label that is not among the predictions.
NOT_PREDICTED = 2**31 - 1


@dataclass(frozen=True)
class FrequencyBin:
    """Labels of similar training frequency, with recall and precision on test rows.

    labels       number of labels
    occurrences  how often they are labels of test rows
    recall       by k: the share of the occurrences that is among the k best predictions
    predicted    number of rows whose first prediction is in this bin
    precision    the share of these that is correct
    """

    name: str
    labels: int
    occurrences: int
    recall: dict[int, float]
    predicted: int
    precision: float


@dataclass(frozen=True)
class Confusion:
    """A label that was missed where another was predicted wrongly.

    rows  how often
    """

    label: int
    prediction: int
    rows: int


@dataclass(frozen=True)
class ConfusionMatrix:
    """Rows of one label each, by their label and by their first prediction.

    labels      int64 (n,): ids, sorted, of those that occur as labels or first predictions: all or,
                of more than MAX_LABELS_OF_MATRIX, the N_MOST_CONFUSED
    rows        int64 (n, n): how many rows of each label have each first prediction
    n_of_label  int64 (n,): rows of each label, those with any other prediction too
    n_labels    how many labels occur
    """

    labels: ndarray
    rows: ndarray
    n_of_label: ndarray
    n_labels: int


@dataclass(frozen=True)
class Reliability:
    """First predictions in bins by their probability.

    n           int64 (bins,): the number of predictions
    confidence  float64 (bins,): their mean probability, nan where there are none
    accuracy    float64 (bins,): the share that is correct
    error       ECE
    """

    n: ndarray
    confidence: ndarray
    accuracy: ndarray
    error: float


@dataclass(frozen=True)
class Accepted:
    """The rows whose first prediction has at least a probability.

    coverage  their share of all rows
    accuracy  the share of them whose first prediction is correct; nan where there are none
    """

    threshold: float
    coverage: float
    accuracy: float


def names_of_bins() -> list[str]:
    """The bins of labels by their training rows, from rare to frequent: `1`, `2 to 5`, ...; the
    first is that of labels without any.
    """
    names = [UNSEEN]
    first = 1
    for last in MAX_ROWS_OF_BINS:
        names.append(f"{first:,} to {last:,}" if first < last else f"{last:,}")
        first = last + 1
    return [*names, f"{first:,} and more"]


def bin_of_labels(counts: ndarray) -> ndarray:
    """The place of each label's bin in `names_of_bins`, int (n_labels + 1,). The last one is 0, the
    bin of all unknown ids.

    counts  in how many training rows each label is, int (n_labels,)
    """
    return np.append(np.searchsorted((0, *MAX_ROWS_OF_BINS), counts), 0)


def by_frequency(
    top: ndarray, labels: Labels, counts: ndarray, ks: tuple[int, ...] = (1, 3, 5)
) -> list[FrequencyBin]:
    """Recall and precision by label frequency; bins without labels and occurrences are left out.

    top     the predictions for each row, distinct ids, best first, int (n, at least max(ks), or all
            labels)
    counts  in how many training rows each label is, int (n_labels,)
    """
    n_labels = len(counts)
    bins = bin_of_labels(counts)
    bin_of_occurrence = bins[np.minimum(labels.ids, n_labels)]
    rank = ranks(top, labels)
    first_is_right = hits(top[:, :1], labels)[:, 0]
    bin_of_first = bins[top[:, 0]]
    result = []
    for k, name in enumerate(names_of_bins()):
        counts_in_bin = counts[bins[:-1] == k]
        rank_in_bin = rank[bin_of_occurrence == k]
        is_right_in_bin = first_is_right[bin_of_first == k]
        n_occurrences = len(rank_in_bin)
        if not len(counts_in_bin) and not n_occurrences:
            continue
        n_predicted = len(is_right_in_bin)
        frequency_bin = FrequencyBin(
            name=name,
            labels=len(counts_in_bin),
            occurrences=n_occurrences,
            recall={n: ratio(int((rank_in_bin < n).sum()), n_occurrences) for n in ks},
            predicted=n_predicted,
            precision=ratio(int(is_right_in_bin.sum()), n_predicted),
        )
        result.append(frequency_bin)
    return result


def confusions(top: ndarray, labels: Labels) -> list[Confusion]:
    """Pairs of a missed label and a wrong prediction of the same row, most frequent first; see
    above.
    """
    n_predictions = top.shape[1]
    max_id = int(max(top.max(initial=0), labels.ids.max(initial=0)))
    shape = (len(labels), max_id + 1)
    n_considered = np.minimum(labels.n_of_row, n_predictions)

    is_considered = np.arange(n_predictions) < n_considered[:, None]
    row, column = np.nonzero(is_considered & ~hits(top, labels))
    wrong = _indicator(row, top[row, column], shape)

    row_of_label = labels.row_of_id
    is_missed = ranks(top, labels) >= n_considered[row_of_label]
    missed = _indicator(row_of_label[is_missed], labels.ids[is_missed], shape)

    pairs = (missed.T @ wrong).tocoo()
    order = np.lexsort((pairs.col, pairs.row, -pairs.data))
    columns = (pairs.row[order], pairs.col[order], pairs.data[order])
    return [
        Confusion(label, prediction, rows)
        for label, prediction, rows in zip(*(column.tolist() for column in columns), strict=True)
    ]


def confusion_matrix(top: ndarray, labels: Labels) -> ConfusionMatrix | None:
    """How often each label has each first prediction; None where a row has several labels, or
    fewer than two labels occur.
    """
    n_of_row = np.asarray(labels.n_of_row)
    if n_of_row.max(initial=0) != 1:
        return None
    first = np.asarray(top, int64)[n_of_row == 1, 0]
    occurring, places = np.unique(np.concatenate([labels.ids, first]), return_inverse=True)
    n_labels = len(occurring)
    if n_labels < 2:
        return None
    label, prediction = places.reshape(2, -1)
    ones = np.ones(len(first), int64)
    rows = csr_matrix((ones, (label, prediction)), (n_labels, n_labels))

    n_of_label = np.bincount(label, minlength=n_labels)
    shown = np.arange(n_labels)
    if n_labels > MAX_LABELS_OF_MATRIX:
        n_predicted = np.bincount(prediction, minlength=n_labels)
        n_confused = n_of_label + n_predicted - 2 * rows.diagonal()
        shown = np.sort(np.argsort(-n_confused, kind="stable")[:N_MOST_CONFUSED])
    shown_rows = rows[shown][:, shown].toarray()
    return ConfusionMatrix(occurring[shown], shown_rows, n_of_label[shown], n_labels)


def _indicator(row: ndarray, column: ndarray, shape: tuple[int, int]) -> csr_matrix:
    """The matrix with 1 in these cells, int64."""
    return csr_matrix((np.ones(len(row), int64), (row, column)), shape)


def reliability(probability: ndarray, is_right: ndarray) -> Reliability:
    """Whether predictions are correct as often as they are probable.

    probability  float (n,) within 0 and 1; `is_right` bool (n,)
    """
    bin_of_row = np.clip((probability * N_BINS).astype(int64), 0, N_BINS - 1)
    n = np.bincount(bin_of_row, minlength=N_BINS)
    with np.errstate(invalid="ignore"):
        confidence = np.bincount(bin_of_row, weights=probability, minlength=N_BINS) / n
        accuracy = np.bincount(bin_of_row, weights=is_right, minlength=N_BINS) / n
    error = ratio(float(np.nansum(n * np.abs(accuracy - confidence))), float(n.sum()))
    return Reliability(n, confidence, accuracy, error)


def accepted(probability: ndarray, is_right: ndarray) -> list[Accepted]:
    """Coverage and accuracy at each of THRESHOLDS.

    probability  float (n,), of the first predictions; `is_right` bool (n,)
    """
    rows = []
    for threshold in THRESHOLDS:
        is_accepted = probability >= threshold
        n_accepted = int(is_accepted.sum())
        coverage = ratio(n_accepted, len(probability))
        accuracy = ratio(int(is_right[is_accepted].sum()), n_accepted)
        rows.append(Accepted(threshold, coverage, accuracy))
    return rows


def coverage_curve(probability: ndarray, is_right: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Each probability that occurs, the highest first, and coverage and accuracy with it as the
    threshold: float64 (n_distinct,) each.
    """
    order = np.argsort(-probability, kind="stable")
    falling = probability[order]
    n_right = np.cumsum(is_right[order])
    is_last = np.append(falling[1:] != falling[:-1], True)[: len(falling)]
    ends = np.flatnonzero(is_last)
    n_accepted = ends + 1.0
    return falling[ends], n_accepted / len(falling), n_right[ends] / n_accepted


def ranks(top: ndarray, labels: Labels) -> ndarray:
    """The rank of each of `labels.ids` among its row's predictions, from 0; else NOT_PREDICTED."""
    rank = np.full(len(labels.ids), NOT_PREDICTED)
    row = labels.row_of_id
    for place in reversed(range(top.shape[1])):
        rank[top[row, place] == labels.ids] = place
    return rank
