"""Factors that lower the probabilities of rows with few known features, fitted on held-out rows,
unchanged and damaged.

    p'(label) = f p(label),    f = sigmoid(w0 + w · terms),    w >= 0

The terms of a row are

    r s_1 + (1 - r) s_0   the score of its best label, shrunk towards that of a row without features
    r (s_1 - s_2)         the difference to the second best, shrunk alike
    r                     sqrt(known / (known + unknown)), sums of the squared idf of its words; 1
                          without text
    log(1 + n)            n: its number of features of the model

Two factors are fitted by maximum likelihood, where p f is the probability that the best label is
right. The first is fitted on rows unchanged, on rows with features removed and, for text, on rows
with words replaced by unknown ones and on rows of a few random words, for which no label is right:
it hardly changes the probabilities of rows like those of the training data. The second is fitted on
rows of unknown labels as well: mixtures of three rows, and rows as classifiers answer them that
were trained without their labels (embedx.classification.unknown_labels). Its w0 is then lowered
until at most MAX_FALSE of the latter reach the probability ACCEPTED. 1 - f is the probability that
no label is right, "none of these".

familiarity.npy  float64 (2, 6)  of each factor s_0, w0 and w
"""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64, ndarray
from scipy.sparse import csr_matrix
from scipy.special import expit, logit

from embedx.errors import DataError
from embedx.storage.folder import REMEDY
from embedx.storage.schema import Array

ARRAYS = {"familiarity": Array(("factors", "terms of familiarity"), ("float64",))}
KNOWN_ROWS, KNOWN_LABELS = 0, 1
N_TERMS = 4
# The id of the answer that no label is right.
NONE = -1
MAX_SCORE = 1e3
PRIOR = 1.0
MIN_P = 1e-6
# Of rows of unknown labels this share at most reaches this probability.
MAX_FALSE = 0.05
ACCEPTED = 0.8


class Knowledge(NamedTuple):
    """How familiar rows are.

    share       float (n,): r above
    n_features  int (n,): number of features of the model that each row has
    """

    share: ndarray
    n_features: ndarray


def check(arrays: Mapping[str, ndarray]) -> None:
    """Raise `DataError` if the factors, if there are any, are not valid."""
    factors = arrays.get("familiarity", np.zeros((2, 2 + N_TERMS)))
    if factors.shape != (2, 2 + N_TERMS) or (factors[:, 2:] < 0).any():
        problem = f"must have two rows of {2 + N_TERMS} numbers, the last {N_TERMS} not negative"
        raise DataError("familiarity.npy", None, problem, REMEDY)


def factor(weights: ndarray, knowledge: Knowledge, scores: ndarray) -> ndarray:
    """f of rows, float (n,), from the scores of their best labels, best first, (n, 2 or more)."""
    z = terms(knowledge, scores, weights[0]) @ weights[2:]
    return np.asarray(expit(z + weights[1]))


def terms(knowledge: Knowledge, scores: ndarray, empty_score: float) -> ndarray:
    """The terms above, float64 (n, N_TERMS)."""
    best = np.clip(scores[:, 0].astype(float64), -MAX_SCORE, MAX_SCORE)
    second = best
    if scores.shape[1] > 1:
        second = np.maximum(scores[:, 1], -MAX_SCORE)
    share = knowledge.share
    columns = (
        empty_score + share * (best - empty_score),
        share * (best - second),
        share,
        np.log1p(knowledge.n_features),
    )
    return np.stack(columns, axis=1)


def fit(terms: ndarray, p: ndarray, is_right: ndarray, row_weights: ndarray) -> ndarray:
    """w0 and w, float64 (1 + N_TERMS,).

    p         (n,): the probability of each row's best label, without the factor
    is_right  bool (n,)
    """
    # Imported here, because it takes 20 MB that prediction does not need.
    from scipy.optimize import minimize

    means = terms.mean(axis=0)
    deviations = terms.std(axis=0)
    is_constant = deviations < 1e-9
    scaled = np.where(is_constant, 0, (terms - means) / np.where(is_constant, 1, deviations))
    x = np.column_stack([np.ones(len(terms)), scaled])
    p = np.clip(p.astype(float64), MIN_P, 1 - MIN_P)

    def loss(w: ndarray) -> tuple[float, ndarray]:
        f = np.clip(expit(x @ w), MIN_P, 1)
        log_likelihood = np.where(is_right, np.log(p * f), np.log1p(-p * f))
        slope = np.where(is_right, 1 - f, -p * f * (1 - f) / (1 - p * f))
        penalty = 0.5 * PRIOR * float(w[1:] @ w[1:])
        gradient = -(row_weights * slope) @ x + PRIOR * np.append(0, w[1:])
        return penalty - float(row_weights @ log_likelihood), gradient

    bounds = [(None, None)] + [(0, None)] * terms.shape[1]
    start = np.append(2.0, np.zeros(terms.shape[1]))
    w = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    slopes = np.where(is_constant, 0, w[1:] / np.where(is_constant, 1, deviations))
    return np.append(w[0] - slopes @ means, slopes)


def limited(weights: ndarray, terms: ndarray, p: ndarray) -> ndarray:
    """The weights of `fit`, w0 lowered until p f is ACCEPTED for no more than MAX_FALSE of rows of
    unknown labels.

    p  (n,): the probability of each row's best label, without the factor
    """
    can_be_accepted = p > ACCEPTED
    z = weights[0] + terms[can_be_accepted] @ weights[1:]
    excess = np.sort(z - logit(ACCEPTED / p[can_be_accepted].astype(float64)))[::-1]
    n_allowed = int(MAX_FALSE * len(p))
    if len(excess) <= n_allowed or excess[n_allowed] < 0:
        return weights
    lower = weights.copy()
    lower[0] -= excess[n_allowed] + MIN_P
    return lower


def factors(
    arrays: Mapping[str, ndarray], knowledge: Knowledge, scores: ndarray, abstain: bool = False
) -> ndarray:
    """The factor f of each row, float32 (n,); 1 if the model has none.

    abstain  use the second factor: 1 - f is the probability that no label is right
    """
    if "familiarity" not in arrays:
        return np.ones(len(scores), float32)
    which = KNOWN_LABELS if abstain else KNOWN_ROWS
    return np.asarray(factor(arrays["familiarity"][which], knowledge, scores), float32)


def worth(
    p: ndarray, f: ndarray, knowledge: Knowledge, label_shares: ndarray, ids: ndarray
) -> ndarray:
    """Probabilities of labels, (n, k), times the factors of the rows, (n,); those of rows without
    features are at most the shares of the labels in training, (n_labels,).
    """
    nothing_known = knowledge.n_features == 0
    if nothing_known.any():
        limit = np.where(nothing_known[:, None], label_shares[ids], 1)
        p = np.minimum.accumulate(np.minimum(p, limit), axis=1)
    return np.asarray(p * f[:, None], float32)


def with_none(ids: ndarray, p: ndarray, none_probability: ndarray) -> tuple[ndarray, ndarray]:
    """Labels and their probabilities, best first, (n, k), with that of NONE among them: both
    (n, k + 1).
    """
    none = np.full((len(ids), 1), NONE, ids.dtype)
    ids = np.concatenate([ids, none], axis=1)
    p = np.concatenate([p, none_probability[:, None]], axis=1)
    order = np.argsort(-p, axis=1, kind="stable")
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(p, order, axis=1)


# ---- the familiarity of rows


def split(features: Any, n_features: int) -> tuple[Any, ndarray | None]:
    """(features of the model, number of unknown words per row), from features with a last column
    that counts unknown words; None if the reader did not count them.
    """
    if not isinstance(features, csr_matrix) or features.shape[1] != n_features + 1:
        return features, None
    n_rows = features.shape[0]
    known = copy.copy(features)  # scipy would check a new matrix, which takes longer than a request
    known.indptr = features.indptr.copy()
    known.resize(n_rows, n_features)
    unknown = np.zeros(n_rows)
    has_unknown = np.diff(features.indptr - known.indptr) > 0
    unknown[has_unknown] = features.data[features.indices == n_features]
    return known, unknown


def knowledge_of(
    features: Any, n_unknown: ndarray | None, idf: ndarray | None, max_idf: float
) -> Knowledge:
    """The `Knowledge` of rows of features, before they are scaled."""
    if not isinstance(features, csr_matrix):
        n = np.count_nonzero(features, axis=1)
        return Knowledge((n > 0).astype(float64), n)
    n = np.diff(features.indptr)
    if n_unknown is None:
        return Knowledge((n > 0).astype(float64), n)
    values = features.data
    if idf is not None:
        values = (1 + np.log(np.maximum(values, 1))) * idf[features.indices]
    row = np.repeat(np.arange(len(n)), n)
    mass = np.bincount(row, values * values, len(n))
    whole = mass + n_unknown * max_idf**2
    return Knowledge(np.sqrt(mass / np.where(whole > 0, whole, 1)), n)
