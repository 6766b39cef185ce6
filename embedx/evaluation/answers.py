"""A classifier's predictions for test rows in detail: by label frequency, confusions, and
calibration.

A row may have several labels, one, or none; ids from n_labels on are unknown to the classifier,
which cannot predict them. The predictions for a row are ids, best first. A row of n labels is
judged by its n best predictions, its *share* (at most all that there are): a row of one label by
its first prediction alone. A label that is not among them is *missed*.

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

# Of the occurrences of labels in training.
THIRDS = ("head", "middle", "tail")
UNSEEN = "not in training"
# Bins of a reliability diagram.
BINS = 10
# The rank of a label that is not among the predictions.
NOT_PREDICTED = 2**31 - 1


@dataclass(frozen=True)
class FrequencyBin:
    """Labels of similar training frequency, with recall and precision on test rows.

    labels              their number
    min_rows, max_rows  training rows of a label
    occurrences         in test rows
    recall              by k: the share of the occurrences that is among the k best predictions
    predicted           rows whose first prediction is in this bin
    precision           the share of these that is correct
    """

    name: str
    labels: int
    min_rows: int
    max_rows: int
    occurrences: int
    recall: dict[int, float]
    predicted: int
    precision: float


@dataclass(frozen=True)
class Confusion:
    """A label that was missed while another was predicted wrongly."""

    label: int
    answer: int
    rows: int


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


def bin_of_labels(counts: ndarray) -> ndarray:
    """The frequency bin of each label, int (n_labels + 1,): 0 to 2 for THIRDS, 3 for UNSEEN.

    The last number, 3, is that of all other ids.

    counts  in how many training rows each label is, int (n_labels,)

    The labels before one, all that are more frequent, have less than a third of all occurrences
    together if it is in the head, and less than two thirds if it is in the middle. Labels of equal
    counts are in the same bin.
    """
    unseen = len(THIRDS)
    # groups of labels with equal counts, the most frequent first
    values, group = np.unique(-counts, return_inverse=True)
    occurrences = np.bincount(group, weights=counts, minlength=len(values))
    more_frequent = (np.cumsum(occurrences) - occurrences)[group]
    third = np.minimum(3 * more_frequent // max(counts.sum(), 1), 2).astype(int64)
    return np.append(np.where(counts > 0, third, unseen), unseen)


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
    for k, name in enumerate((*THIRDS, UNSEEN)):
        counts_in_bin = counts[bins[:-1] == k]
        rank_in_bin = rank[bin_of_occurrence == k]
        is_right_in_bin = first_is_right[bin_of_first == k]
        n_occurrences = len(rank_in_bin)
        if not len(counts_in_bin) and not n_occurrences:
            continue
        n_predicted = len(is_right_in_bin)
        largest = int(counts_in_bin.max(initial=0))
        frequency_bin = FrequencyBin(
            name=name,
            labels=len(counts_in_bin),
            min_rows=int(counts_in_bin.min(initial=largest)),
            max_rows=largest,
            occurrences=n_occurrences,
            recall={n: ratio(int((rank_in_bin < n).sum()), n_occurrences) for n in ks},
            predicted=n_predicted,
            precision=ratio(int(is_right_in_bin.sum()), n_predicted),
        )
        result.append(frequency_bin)
    return result


def confusions(top: ndarray, labels: Labels) -> list[Confusion]:
    """Pairs of a missed label and a wrong prediction of the same row, most frequent first.

    A label is missed, and a prediction wrong, within the row's share; see above.
    """
    n_predictions = top.shape[1]
    max_id = int(max(top.max(initial=0), labels.ids.max(initial=0)))
    shape = (len(labels), max_id + 1)
    share = np.minimum(labels.n_of_row, n_predictions)

    is_in_share = np.arange(n_predictions) < share[:, None]
    row, column = np.nonzero(is_in_share & ~hits(top, labels))
    wrong = _indicator(row, top[row, column], shape)

    row_of_label = labels.row_of_id
    is_missed = ranks(top, labels) >= share[row_of_label]
    missed = _indicator(row_of_label[is_missed], labels.ids[is_missed], shape)

    pairs = (missed.T @ wrong).tocoo()
    order = np.lexsort((pairs.col, pairs.row, -pairs.data))
    columns = (pairs.row[order], pairs.col[order], pairs.data[order])
    return [
        Confusion(label, answer, rows)
        for label, answer, rows in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _indicator(row: ndarray, column: ndarray, shape: tuple[int, int]) -> csr_matrix:
    """The matrix with 1 in these cells, int64."""
    return csr_matrix((np.ones(len(row), int64), (row, column)), shape)


def reliability(probability: ndarray, is_right: ndarray) -> Reliability:
    """Whether predictions are correct as often as they are probable.

    probability  float (n,) within 0 and 1; `is_right` bool (n,)
    """
    bin_of_row = np.clip((probability * BINS).astype(int64), 0, BINS - 1)
    n = np.bincount(bin_of_row, minlength=BINS)
    with np.errstate(invalid="ignore"):
        confidence = np.bincount(bin_of_row, weights=probability, minlength=BINS) / n
        accuracy = np.bincount(bin_of_row, weights=is_right, minlength=BINS) / n
    error = ratio(float(np.nansum(n * np.abs(accuracy - confidence))), float(n.sum()))
    return Reliability(n, confidence, accuracy, error)


def ranks(top: ndarray, labels: Labels) -> ndarray:
    """The rank of each of `labels.ids` among its row's predictions, from 0; else NOT_PREDICTED."""
    rank = np.full(len(labels.ids), NOT_PREDICTED)
    row = labels.row_of_id
    for place in reversed(range(top.shape[1])):
        rank[top[row, place] == labels.ids] = place
    return rank
