"""Familiarity of rows: a factor that lowers the probabilities of rows unlike those of training.

    p'(label) = f p(label),    f = sigmoid(w0 + w · terms),    w >= 0

The terms of a row, with s_1 and s_2 the scores of its best two labels and s_0 the best score of a
row without features, are

    r s_1 + (1 - r) s_0   the best score, shrunk towards s_0
    r (s_1 - s_2)         the difference to the second best, shrunk towards 0
    r                     sqrt(known / (known + unknown)): sums over its words of squared values
                          before scaling, which are (1 + log tf) idf, with the largest idf for
                          unknown words. Where unknown words are not counted 1, or 0 without
                          features
    log(1 + n)            n: its number of features of the model

A model has two factors, both fitted to held-out rows by familiarity_fit.py. The first is of all
probabilities; it hardly changes those of rows like the training rows. The second replaces it with
`--abstain`: then 1 - f is the probability of "none of these", which is predicted like a label.

familiarity.npy  float64 (2, 6)  for each factor s_0, w0 and w
"""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64, ndarray
from scipy.sparse import csr_matrix
from scipy.special import expit

from embedx.errors import DataError
from embedx.storage.folder_files import REMEDY
from embedx.storage.schema import Array

ARRAYS = {"familiarity": Array(("factors", "terms of familiarity"), ("float64",))}
# Rows of the array: the factor of all probabilities, and the one that replaces it with --abstain.
DEFAULT_FACTOR = 0
ABSTAIN_FACTOR = 1
N_TERMS = 4
# The id of "none of these" among predicted labels.
NONE_OF_THESE = -1
# Scores are clipped to [-MAX_SCORE, MAX_SCORE].
MAX_SCORE = 1e3


class Familiarity(NamedTuple):
    """What the terms need of rows, beside scores.

    known_share  float (n,): r above
    n_features   int (n,): number of features of the model that each row has
    """

    known_share: ndarray
    n_features: ndarray


def check(arrays: Mapping[str, ndarray]) -> None:
    """Raise `DataError` if the factors, if there are any, are not valid."""
    factors = arrays.get("familiarity", np.zeros((2, 2 + N_TERMS)))
    if factors.shape != (2, 2 + N_TERMS) or (factors[:, 2:] < 0).any():
        problem = f"must have two rows of {2 + N_TERMS} numbers, the last {N_TERMS} not negative"
        raise DataError("familiarity.npy", None, problem, REMEDY)


def factor(row_of_array: ndarray, rows: Familiarity, scores: ndarray) -> ndarray:
    """f of rows, float (n,), from the scores of their best labels, best first, (n, 2 or more).

    row_of_array  s_0, w0 and w
    """
    empty_score, w0, *w = row_of_array
    z = terms(rows, scores, empty_score) @ np.array(w)
    return np.asarray(expit(z + w0))


def terms(rows: Familiarity, scores: ndarray, empty_score: float) -> ndarray:
    """The terms above, float64 (n, N_TERMS).

    scores       of the best labels, best first, (n, 1 or more)
    empty_score  s_0
    """
    best = np.clip(scores[:, 0].astype(float64), -MAX_SCORE, MAX_SCORE)
    second = best
    if scores.shape[1] > 1:
        second = np.clip(scores[:, 1].astype(float64), -MAX_SCORE, MAX_SCORE)
    r = rows.known_share
    columns = (
        empty_score + r * (best - empty_score),
        r * (best - second),
        r,
        np.log1p(rows.n_features),
    )
    return np.stack(columns, axis=1)


def factors(
    arrays: Mapping[str, ndarray], rows: Familiarity, scores: ndarray, abstain: bool = False
) -> ndarray:
    """The factor f of each row, float32 (n,); 1 if the model has none.

    abstain  use the second factor: 1 - f is the probability that no label is right
    """
    if "familiarity" not in arrays:
        return np.ones(len(scores), float32)
    place = ABSTAIN_FACTOR if abstain else DEFAULT_FACTOR
    return np.asarray(factor(arrays["familiarity"][place], rows, scores), float32)


def scaled_probabilities(
    p: ndarray, f: ndarray, rows: Familiarity, label_shares: ndarray, ids: ndarray
) -> ndarray:
    """Probabilities of labels, (n, k), times the factors of the rows, (n,); those of rows without
    features are at most the shares of the labels in training, (n_labels,).
    """
    has_no_features = rows.n_features == 0
    if has_no_features.any():
        limit = np.where(has_no_features[:, None], label_shares[ids], 1)
        p = np.minimum.accumulate(np.minimum(p, limit), axis=1)
    return np.asarray(p * f[:, None], float32)


def with_none_of_these(
    ids: ndarray, p: ndarray, none_probability: ndarray
) -> tuple[ndarray, ndarray]:
    """Labels and their probabilities, best first, (n, k), with those of NONE_OF_THESE among them:
    both (n, k + 1).
    """
    none_ids = np.full((len(ids), 1), NONE_OF_THESE, ids.dtype)
    ids = np.concatenate([ids, none_ids], axis=1)
    p = np.concatenate([p, none_probability[:, None]], axis=1)
    order = np.argsort(-p, axis=1, kind="stable")
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(p, order, axis=1)


# ---- the familiarity of rows


def split_unknown_words(features: Any, n_features: int) -> tuple[Any, ndarray | None]:
    """The features of the model, and the number of unknown words of each row, float64 (n,): it is
    the last column of the features. None in its place if the reader did not count them.
    """
    if not isinstance(features, csr_matrix) or features.shape[1] != n_features + 1:
        return features, None
    n_rows = features.shape[0]
    # scipy would check a new matrix, which takes longer than a request.
    known = copy.copy(features)
    known.indptr = features.indptr.copy()
    known.resize(n_rows, n_features)
    n_unknown = np.zeros(n_rows)
    has_unknown = np.diff(features.indptr - known.indptr) > 0
    n_unknown[has_unknown] = features.data[features.indices == n_features]
    return known, n_unknown


def familiarity_of(
    features: Any, n_unknown: ndarray | None, idf: ndarray | None, max_idf: float
) -> Familiarity:
    """The familiarity of rows of features, before they are scaled.

    n_unknown     float64 (n,): number of unknown words of each row; None if they are not counted
    idf, max_idf  of the features, float (n_features,), and of unknown words; None: features have no
                  idf
    """
    if not isinstance(features, csr_matrix):
        n = np.count_nonzero(features, axis=1)
        return Familiarity((n > 0).astype(float64), n)
    n = np.diff(features.indptr)
    if n_unknown is None:
        return Familiarity((n > 0).astype(float64), n)
    values = features.data
    if idf is not None:
        values = (1 + np.log(np.maximum(values, 1))) * idf[features.indices]
    row = np.repeat(np.arange(len(n)), n)
    known = np.bincount(row, values * values, len(n))
    total = known + n_unknown * max_idf**2
    return Familiarity(np.sqrt(known / np.where(total > 0, total, 1)), n)
