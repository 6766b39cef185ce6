"""A classifier's predictions for test rows in detail: by label frequency, confusions, and
calibration.

A row may have several labels, one, or none; ids from n_labels on are unknown to the classifier,
which cannot predict them. The predictions for a row are ids, best first. A row of n labels is
judged by its n best predictions, its *share* (at most all that are given); a label is *found* if it
is among them. So a row of one label is judged by its first prediction alone.

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

THIRDS = ("head", "middle", "tail")  # of the occurrences of labels in training
UNSEEN = "not in training"
BINS = 10  # of a reliability diagram
NOT_FOUND = 2**31 - 1  # the rank of a label that is not among the predictions


@dataclass(frozen=True)
class FrequencyBin:
    """Labels that are about as frequent in training, and how their occurrences in test rows were
    predicted.
    """

    name: str
    labels: int
    min_rows: int  # of training, of a label
    max_rows: int
    occurrences: int  # in test rows
    recall: dict[int, float]  # by k: the share of the occurrences that is among the k best answers
    predicted: int  # rows whose first prediction is in this bin
    precision: float  # the share of these that is correct


@dataclass(frozen=True)
class Confusion:
    """A label that was missed while another was predicted wrongly."""

    label: int
    answer: int
    rows: int


@dataclass(frozen=True)
class Reliability:
    """First predictions by their probability."""

    n: ndarray  # int64 (bins,): answers
    confidence: ndarray  # float64 (bins,): their mean probability, nan where there are none
    accuracy: ndarray  # float64 (bins,): the share that is correct
    error: float  # ECE


def bin_of_labels(counts: ndarray) -> ndarray:
    """The frequency bin of each label, int (n_labels + 1,): 0 to 2 for THIRDS, 3 for UNSEEN, as is
    the last, of all other ids.

    counts  in how many training rows each label is, int (n_labels,)

    The labels before one, all that are more frequent, have less than a third of all occurrences
    together if it is in the head, and less than two thirds if it is in the middle. Labels of equal
    counts are in the same bin.
    """
    values, which = np.unique(-counts, return_inverse=True)  # the most frequent first
    occurrences = np.bincount(which, weights=counts, minlength=len(values))
    before = (np.cumsum(occurrences) - occurrences)[which]
    third = np.minimum(3 * before // max(counts.sum(), 1), 2).astype(int64)
    return np.append(np.where(counts > 0, third, len(THIRDS)), len(THIRDS))


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
    of_label = bins[np.minimum(labels.ids, n_labels)]
    rank = ranks(top, labels)
    first_right = hits(top[:, :1], labels)[:, 0]
    of_first = bins[top[:, 0]]
    found = []
    for k, name in enumerate((*THIRDS, UNSEEN)):
        own, mine, predicted = counts[bins[:-1] == k], of_label == k, of_first == k
        if not len(own) and not mine.any():
            continue
        n, n_predicted = int(mine.sum()), int(predicted.sum())
        recall = {best: ratio(int((rank[mine] < best).sum()), n) for best in ks}
        precision = ratio(int(first_right[predicted].sum()), n_predicted)
        min_rows, max_rows = (int(own.min()), int(own.max())) if len(own) else (0, 0)
        found.append(
            FrequencyBin(name, len(own), min_rows, max_rows, n, recall, n_predicted, precision)
        )
    return found


def confusions(top: ndarray, labels: Labels) -> list[Confusion]:
    """Which labels were missed while which others were predicted wrongly, most often first: pairs
    of a label of a row that was not found, and a wrong prediction within the row's share, with the
    rows that have the pair.
    """
    share = np.minimum(labels.n_of_row, top.shape[1])
    row, column = np.nonzero((np.arange(top.shape[1]) < share[:, None]) & ~hits(top, labels))
    of_label = labels.row_of_id
    is_missed = ranks(top, labels) >= share[of_label]
    shape = len(labels), int(max(top.max(initial=0), labels.ids.max(initial=0))) + 1
    wrong = csr_matrix((np.ones(len(row), int64), (row, top[row, column])), shape)
    missed = csr_matrix(
        (np.ones(is_missed.sum(), int64), (of_label[is_missed], labels.ids[is_missed])), shape
    )
    pairs = (missed.T @ wrong).tocoo()
    order = np.lexsort((pairs.col, pairs.row, -pairs.data))
    found = zip(
        pairs.row[order].tolist(),
        pairs.col[order].tolist(),
        pairs.data[order].tolist(),
        strict=True,
    )
    return [Confusion(*each) for each in found]


def reliability(probability: ndarray, is_right: ndarray, bins: int = BINS) -> Reliability:
    """Whether predictions are correct as often as they are probable.

    probability  float (n,) within 0 and 1; `is_right` bool (n,)
    """
    which = np.clip((probability * bins).astype(int64), 0, bins - 1)
    n = np.bincount(which, minlength=bins)
    with np.errstate(invalid="ignore"):
        confidence = np.bincount(which, weights=probability, minlength=bins) / n
        accuracy = np.bincount(which, weights=is_right, minlength=bins) / n
    error = ratio(float(np.nansum(n * np.abs(accuracy - confidence))), float(n.sum()))
    return Reliability(n, confidence, accuracy, error)


def ranks(top: ndarray, labels: Labels) -> ndarray:
    """The place of each of `labels.ids` among the predictions for its row, from 0 on; NOT_FOUND if
    it is not there.
    """
    rank = np.full(len(labels.ids), NOT_FOUND)
    row = labels.row_of_id
    for place in reversed(range(top.shape[1])):
        rank[top[row, place] == labels.ids] = place
    return rank
