"""Scores of classifiers with huge label sets: accuracy, likelihood, P@k, nDCG@k and PSP@k.

Test rows are added a block at a time. `f1` has the scores of decisions, which are no ranking.

Every measure is over the n rows with at least one label; n_without_labels others are left out. A
classifier knows the labels 0 .. n_labels - 1; ids from n_labels on occur in test rows only, and it
cannot predict them. With y the labels of a row and best_1, best_2, ... its predictions:

    accuracy        share of the rows with best_1 in y, as p@1
    log_likelihood  mean over rows of the mean over known l in y of log p(l); n_unknown rows without
                    a known label are left out
    p@k             mean over rows of |{best_1 .. best_k} ∩ y| / k
    ndcg@k          mean over rows of Σ_{i<=k} [best_i in y] / log2(i + 1), divided by the same sum
                    for perfect predictions, which are hits at i <= min(k, |y|)
    psp@k           Σ over rows of Σ_{i<=k} [best_i in y] w(best_i), divided by Σ over rows of the k
                    largest w(l), l in y; w(l) = 1 + C (n_l + B)^-A, one over the propensity of a
                    label that n_l of N training rows have; C = (log N - 1) (B + 1)^A

An unknown label is a miss: it counts in |y|, and in psp@k as a label with n_l = 0. Propensities are
those of Jain, Prabhu & Varma 2016, eq. 1, and psp@k is a ratio of sums as in the tools of the
Extreme Classification Repository (pyxclib), so that the numbers compare with the published ones. In
p@k and ndcg@k these tools count a row without labels as a row of misses.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from numpy import int32, ndarray

from embedx.errors import Reason, SettingError
from embedx.evaluation.statistics import Score
from embedx.kernels.select import best_of_rows
from embedx.labeled.data import Labeled, Labels

# Numbers computed at a time, so that they stay in the processor's cache.
BLOCK_FLOATS = 1 << 18
# Log-likelihood of an example, at least, in the code of augment & reduce (Ruiz et al. 2018).
MIN_LOG_LIKELIHOOD = -26.0
# Groups of test rows. A standard error from 50 groups is within a tenth of the true one as a rule.
MAX_GROUPS = 50
# The k best labels are found by insertion; by sorting if k is above the first of these numbers and
# there are less than k times the second of labels.
MAX_INSERTED = 100
MIN_LABELS_PER_INSERTED = 8
# Jain et al. 2016, for all but two of their data sets.
PROPENSITY_A = 0.55
PROPENSITY_B = 1.5
# Log-likelihoods are printed to 0.01 nats, so smaller differences may be due to rounding.
ROUNDING = 0.01


class LabelMetrics:
    """The metrics above, of all rows added so far.

    n_labels      known to the classifier
    label_counts  in how many training rows each of them is, int (n_labels,); psp@k is measured only
                  with these, which need n_train, the number of training rows
    ks            the k of p@k, ndcg@k and psp@k
    propensity    A and B of psp@k
    """

    def __init__(
        self,
        n_labels: int,
        label_counts: ndarray | None = None,
        n_train: int | None = None,
        ks: tuple[int, ...] = (1, 3, 5),
        propensity: tuple[float, float] = (PROPENSITY_A, PROPENSITY_B),
    ) -> None:
        self.n_labels = n_labels
        self.ks = ks
        self.weights: ndarray | None = None
        if label_counts is not None:
            self.weights = inverse_propensity(label_counts, n_train or 0, *propensity)
        # Log-likelihoods of the rows of each block, float64.
        self.log_p: list[ndarray] = []
        # Sums over rows.
        self.sums: defaultdict[str, float] = defaultdict(int)

    def add(self, log_p: ndarray | None, scores: ndarray | None, labels: Labels) -> None:
        """Take in a block of rows.

        log_p   float (B, n_labels): log-probabilities, finite or -inf; None if the classifier has
                none
        scores  float (B, n_labels): rank the labels; of equal ones the lower id comes first; None
                if they are `add_ranked`
        labels  of these rows, each once in a row
        """
        if scores is not None:
            ids, _ = top_k(scores, max(1, *self.ks))
            self.add_ranked(ids, labels)
        if log_p is not None:
            _, log_p_of_rows = label_means(log_p, labels)
            self.log_p.append(log_p_of_rows)

    def add_ranked(self, top: ndarray, labels: Labels) -> None:
        """Take in a block of rows of which only the best labels are known.

        top  their distinct ids, best first, int (B, max(ks)) or as many as there are labels
        """
        labelled = np.flatnonzero(labels.n_of_row)
        self.sums["n_without_labels"] += len(labels) - len(labelled)
        top = top[labelled]
        labels = labels.rows(labelled)

        hit = hits(top, labels)
        rows_with_known = np.unique(labels.row_of_id[labels.ids < self.n_labels])
        self.sums["n"] += len(labels)
        self.sums["n_unknown"] += len(labels) - len(rows_with_known)
        self.sums["hits"] += np.count_nonzero(hit[:, 0])
        for k in self.ks:
            gain = 1 / np.log2(np.arange(2, k + 2))
            ideal = np.cumsum(gain)[np.minimum(labels.n_of_row, k) - 1]
            hit_at_k = hit[:, :k]
            self.sums[f"p@{k}"] += np.count_nonzero(hit_at_k) / k
            self.sums[f"ndcg@{k}"] += float((hit_at_k @ gain[: hit_at_k.shape[1]] / ideal).sum())
        if self.weights is not None:
            self._add_propensity_scored(hit, top, labels, self.weights)

    def result(self) -> dict[str, float]:
        """Each measure by its name; not a number where no row enters it.

        With label_counts also psp@k, and with log_p also

            log_likelihood
            log_likelihood_clamped         the same with each row's at least -26, as augment &
                                           reduce prints it
            log_likelihood_standard_error  of log_likelihood, by the choice of test rows
        """
        sums = self.sums
        n = sums["n"]
        measures = {name: sums[name] for name in ("n", "n_without_labels", "n_unknown")}
        measures["accuracy"] = ratio(sums["hits"], n)
        if self.log_p:
            measures |= _likelihood_measures(np.concatenate(self.log_p))
        for name in ("p", "ndcg"):
            for k in self.ks:
                measures[f"{name}@{k}"] = ratio(sums[f"{name}@{k}"], n)
        if self.weights is not None:
            for k in self.ks:
                measures[f"psp@{k}"] = ratio(sums[f"psp@{k}"], sums[f"best psp@{k}"])
        return measures

    def _add_propensity_scored(
        self, hit: ndarray, top: ndarray, labels: Labels, weights: ndarray
    ) -> None:
        """Add to the sums of psp@k, over the predictions and over the best ones possible."""
        gain = np.where(hit, weights[np.minimum(top, self.n_labels)], 0.0)
        row = labels.row_of_id
        true_weights = weights[np.minimum(labels.ids, self.n_labels)]
        largest_first = np.lexsort((-true_weights, row))
        best_gain = true_weights[largest_first]
        rank = np.arange(len(row)) - labels.offsets[row]
        for k in self.ks:
            self.sums[f"psp@{k}"] += float(gain[:, :k].sum())
            self.sums[f"best psp@{k}"] += float(best_gain[rank < k].sum())


def _likelihood_measures(log_p: ndarray) -> dict[str, float]:
    """The measures of `LabelMetrics.result` that the rows' log-likelihoods, float64 (n,), give."""
    n = len(log_p)
    mean = ratio(log_p.sum(), n)
    clamped_sum = np.maximum(log_p, MIN_LOG_LIKELIHOOD).sum()
    with np.errstate(invalid="ignore"):  # a row with log p = -inf makes the error nan
        squared_error = ratio(((log_p - mean) ** 2).sum(), (n - 1) * n)
    return {
        "log_likelihood": mean,
        "log_likelihood_clamped": ratio(clamped_sum, n),
        "log_likelihood_standard_error": math.sqrt(squared_error),
    }


def scores_by_groups(
    evaluate: Callable[[Labeled], Mapping[str, float]], data: Labeled, measures: Iterable[str]
) -> dict[str, Score]:
    """The measures that all groups of test rows have, with the sums and sizes of the groups.

    evaluate  measures of rows, as of a classifier
    """
    n = len(data)
    groups = [evaluate(data.rows(np.arange(k, n, MAX_GROUPS))) for k in range(min(MAX_GROUPS, n))]
    scores = {}
    for name in measures:
        sizes = [_n_scored_rows(group, name) for group in groups]
        if sum(sizes) == 0 or not all(name in group for group in groups):
            continue
        # A mean over no rows is not a number.
        sums = [
            group[name] * size if size else 0.0 for group, size in zip(groups, sizes, strict=True)
        ]
        scores[name] = Score.of_groups(sums, sizes)
    return scores


def _n_scored_rows(metrics: Mapping[str, float], measure: str) -> int:
    """The number of rows that enter a measure."""
    n = metrics["n"]
    if measure == "log_likelihood":
        n -= metrics["n_unknown"]
    return int(n)


def likelihood_warning(
    metrics: Mapping[str, float], n_labels: int, *, is_exact_softmax: bool
) -> Reason | None:
    """A warning for a log-likelihood below that of equal probabilities for n labels, else None.

    is_exact_softmax  whether the objective is trained for this very measure
    """
    log_likelihood = metrics.get("log_likelihood", 0.0)
    uniform = -math.log(max(n_labels, 1))
    is_below = log_likelihood < uniform - ROUNDING
    if not is_below:
        return None
    if is_exact_softmax:
        remedy = "fewer epochs or stronger L2 regularisation make them less so"
    else:
        remedy = "the objective softmax is trained for this measure"
    return Reason(
        f"log-likelihood {log_likelihood:.2f} is below {uniform:.2f}, that of equal probabilities"
        f" for all {n_labels:,} labels: scores rank labels, but as a distribution over labels they"
        f" are overconfident; {remedy}"
    )


def top_k(scores: ndarray, k: int) -> tuple[ndarray, ndarray]:
    """Ids and values of the k highest scores of each row, best first.

    These are int32 and float, both (B, min(k, K)).

    scores  float (B, K); of equal ones the lower id comes first, and what is not a number counts as
            -inf
    """
    if k < 0:
        raise SettingError("top_k", k, "must be at least 0")
    k = min(k, scores.shape[1])
    if k > MAX_INSERTED and scores.shape[1] < MIN_LABELS_PER_INSERTED * k:
        without_nan = np.fmax(scores, -np.inf)
        order = np.argsort(-without_nan, axis=1, kind="stable")[:, :k]
        return order.astype(int32), np.take_along_axis(without_nan, order, axis=1)

    ids = np.empty((len(scores), k), int32)
    values = np.empty((len(scores), k), scores.dtype)
    if k:
        best_of_rows(np.ascontiguousarray(scores), 0, len(scores), ids, values)
    return ids, values


def inverse_propensity(
    label_counts: ndarray, n_train: int, a: float = PROPENSITY_A, b: float = PROPENSITY_B
) -> ndarray:
    """1 + C (n_l + B)^-A for each label, float64 (n_labels + 1,).

    The last number is that of a label in no training row.
    """
    c = (math.log(n_train) - 1) * (b + 1) ** a
    return 1 + c * (np.append(label_counts, 0) + b) ** -a


def label_means(values: ndarray, labels: Labels) -> tuple[ndarray, ndarray]:
    """The rows with a known label, and the mean of each row's values at its known labels.

    These are int64 and float64, both (n,).
    """
    is_known = labels.ids < values.shape[1]
    row = labels.row_of_id[is_known]
    sums = np.bincount(row, weights=values[row, labels.ids[is_known]], minlength=len(labels))
    n_known = np.bincount(row, minlength=len(labels))
    rows = np.flatnonzero(n_known)
    return rows, sums[rows] / n_known[rows]


def hits(top: ndarray, labels: Labels) -> ndarray:
    """Which predictions are correct, bool like `top`, the ids predicted for each row."""
    width = int(max(top.max(initial=0), labels.ids.max(initial=0))) + 1
    true_cells = labels.row_of_id * width + labels.ids
    predicted_cells = np.arange(len(labels))[:, None] * width + top
    return np.isin(predicted_cells, true_cells)


def blocks_of_rows(n: int, width: int) -> Iterator[slice]:
    """Slices that cut n rows into blocks of about BLOCK_FLOATS numbers."""
    step = max(1, BLOCK_FLOATS // width)
    return (slice(start, start + step) for start in range(0, n, step))


def ratio(part: float, whole: float) -> float:
    """part / whole; not a number where the whole is 0."""
    return float(part / whole) if whole > 0 else math.nan
