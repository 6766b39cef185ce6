"""Predicted labels: those of a row above a threshold, its conformal set, or the likeliest."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import float32, ndarray
from scipy.sparse import csr_matrix, vstack

from embedx.classification import calibration, decisions
from embedx.classification.familiarity import NONE_OF_THESE
from embedx.classification.label_tree import CANDIDATES
from embedx.classification.ranking import TRAIN_WITH_HELD_OUT, unknown_rows
from embedx.classification.row_blocks import joined_blocks
from embedx.errors import SettingError
from embedx.labeled.data import offsets_of
from embedx.runtime.progress import SILENT, Progress

if TYPE_CHECKING:
    from embedx.classification.classifier import Classifier


def decided_or_none(
    classifier: "Classifier", features: Any, threads: int | None = None
) -> tuple[ndarray, csr_matrix]:
    """The likeliest label of each row, int (n,), NONE where "none of these" is likelier; and
    the labels of probability above 1/2, int64 (n, n_labels).
    """
    ids, p = joined_blocks(
        classifier.iter_top_k(features, CANDIDATES, threads=threads, abstain=True)
    )
    return ids[:, 0], _indicator(classifier, ids, (p > 0.5) & (ids != NONE_OF_THESE))


def _indicator(classifier: "Classifier", ids: ndarray, is_decided: ndarray) -> csr_matrix:
    """The indicator matrix of predicted labels, int64 (n, n_labels), from the best labels of
    each row.

    ids         int32 (n, k)
    is_decided  bool (n, k)
    """
    row, place = np.nonzero(is_decided)
    ones = np.ones(len(row), np.int64)
    return csr_matrix((ones, (row, ids[row, place])), (len(ids), classifier.n_labels))


def min_probability(
    classifier: "Classifier", threshold: float | None = None, coverage: float | None = None
) -> float:
    """See `Classifier.min_probability`."""
    if coverage is not None:
        if "coverage" not in classifier.arrays:
            n_needed = calibration.MIN_ROWS
            problem = f"needs a model trained with at least {n_needed} held-out rows"
            raise SettingError("coverage", None, problem, TRAIN_WITH_HELD_OUT)
        return decisions.threshold_of(classifier.arrays["coverage"], coverage)
    if not classifier.has_probabilities:
        name = classifier.objective.name
        problem = f"{name} defines no probabilities, and this model is not calibrated"
        raise SettingError("threshold", None, problem, TRAIN_WITH_HELD_OUT)
    if threshold is None:
        return float(classifier.facts.get("threshold", decisions.DEFAULT_THRESHOLD))
    return threshold


def max_labels(classifier: "Classifier", in_sets: bool) -> int:
    """The number of best labels per row that a threshold, or a conformal set, selects from."""
    if not in_sets:
        return decisions.MAX_ABOVE
    return decisions.MAX_IN_SET_OF_TREE if classifier.has_label_tree else decisions.MAX_IN_SET


def label_sets(
    classifier: "Classifier",
    features: Any,
    *,
    threshold: float | None = None,
    coverage: float | None = None,
    k: int | None = None,
    progress: Progress = SILENT,
    threads: int | None = None,
) -> csr_matrix:
    """See `Classifier.label_sets`."""
    min_p = min_probability(classifier, threshold, coverage)
    n_best = k or max_labels(classifier, in_sets=coverage is not None)
    ids, p = joined_blocks(classifier.iter_top_k(features, n_best, progress, threads))
    is_predicted = (p >= min_p) & (p > 0)
    if coverage is None:
        is_predicted[unknown_rows(classifier, features)] = False
    parts = (p[is_predicted], ids[is_predicted], offsets_of(is_predicted.sum(axis=1)))
    return csr_matrix(parts, (len(p), classifier.n_labels), dtype=float32)


def decided_labels(
    classifier: "Classifier",
    features: Any,
    may_have_several: bool,
    threads: int | None = None,
) -> csr_matrix:
    """The indicator matrix of predicted labels, int64 (n, n_labels): those of probability above
    1/2 if labels are independent, else the likeliest.

    may_have_several  whether a row may have several labels
    """
    is_independent = may_have_several and classifier.has_label_probabilities
    has_ranked_probabilities = (
        classifier.has_label_tree
        or classifier.has_neighbours
        or (is_independent and "calibration" in classifier.arrays)
    )
    if is_independent and not has_ranked_probabilities:
        # Probabilities are above 1/2 where scores are above 0.
        blocks = classifier.blocks(features, threads=threads, compute=_positive_scores)
        return vstack([marks for _, marks in blocks], "csr").astype(np.int64)

    n_best = CANDIDATES if has_ranked_probabilities else 1
    ids, p = joined_blocks(classifier.iter_top_k(features, n_best, threads=threads))
    is_decided = p > 0.5 if has_ranked_probabilities else ids >= 0
    return _indicator(classifier, ids, is_decided)


def log_probabilities(
    classifier: "Classifier", features: Any, may_have_several: bool, threads: int | None = None
) -> ndarray:
    """The log of the probability of each label, (n, n_labels), as `iter_top_k` has it.

    may_have_several  whether a row may have several labels; if not, its probabilities are scaled
                      to sum to 1
    """
    is_independent = may_have_several and classifier.has_label_probabilities

    def log_p_of(z: ndarray, log_noise: ndarray) -> ndarray:
        if not is_independent:
            return classifier.log_probability(z, log_noise)
        with np.errstate(divide="ignore"):
            return np.log(np.asarray(classifier.objective.label_probability(z)))

    is_ranked = "calibration" in classifier.arrays or classifier.has_neighbours
    if classifier.has_label_tree or not is_ranked:
        blocks = classifier.blocks(features, threads=threads, compute=log_p_of)
        return np.concatenate([log_p for _, log_p in blocks])

    ids, best = joined_blocks(classifier.iter_top_k(features, classifier.n_labels, threads=threads))
    p = np.zeros((len(best), classifier.n_labels), best.dtype)
    np.put_along_axis(p, ids, best, axis=1)
    with np.errstate(divide="ignore"):
        return np.log(p if may_have_several else p / p.sum(axis=1, keepdims=True))


def _positive_scores(z: ndarray, log_noise: ndarray) -> csr_matrix:
    """Whether each score is above 0, bool (n, n_labels)."""
    return csr_matrix(z > 0)
