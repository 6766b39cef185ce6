"""Fits the two factors of familiarity.py to rows that were held out of training.

Each row has the probability f p that its best label is right; w0 and w of a factor maximise the
likelihood. The factor of all probabilities is fitted to

    held-out rows as they are and with features removed; of text also with words replaced by unknown
    ones, and rows of a few random words; no label of these is right (perturbed_rows.py)

and the factor of `--abstain` to these and to rows for which no label of a classifier is right:

    mixtures of three rows (perturbed_rows.py), and held-out rows with the scores of classifiers
    that were trained without their labels (left_out_labels.py)

Its w0 is then lowered until at most MAX_ACCEPTED_SHARE of the rows with such scores have a label of
the probability ACCEPTED_PROBABILITY or more.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64, ndarray
from scipy.special import expit, logit

from embedx.classification import perturbed_rows
from embedx.classification.classifier import Classifier
from embedx.classification.familiarity import (
    N_TERMS,
    Familiarity,
    split_unknown_words,
    terms as terms_of,
)
from embedx.classification.left_out_labels import SubsetClassifier
from embedx.classification.ranking import Answers, iter_answers, row_familiarity
from embedx.evaluation.labels import hits
from embedx.kernels.threads import in_threads
from embedx.labeled.data import Labels

# At most this share of the rows of unknown labels may have a label of this probability.
MAX_ACCEPTED_SHARE = 0.05
ACCEPTED_PROBABILITY = 0.8
# Weight of a row that is predicted without knowing its labels; an unchanged row has weight 1.
WEIGHT_OF_UNKNOWN_LABEL = 0.25
# Penalty of the squared weights of terms, which are scaled to standard deviation 1.
L2_PENALTY = 1.0
# Probabilities are clipped to [MIN_P, 1 - MIN_P].
MIN_P = 1e-6


class FitRows(NamedTuple):
    """Rows that a factor is fitted to.

    terms        float64 (n, N_TERMS)
    p            (n,): the probability of each row's best label, without the factor
    is_right     bool (n,): whether that label is right
    row_weights  float (n,): of the rows in the likelihood
    """

    terms: ndarray
    p: ndarray
    is_right: ndarray
    row_weights: ndarray


class FittedFactors(NamedTuple):
    """Both factors, and what they make of rows without a label of the model.

    factors     float64 (2, 2 + N_TERMS), as in familiarity.npy
    n_left_out  number of held-out rows that were predicted without knowing their labels
    accepted    float64 (2,): the shares of these that have a label of probability
              ACCEPTED_PROBABILITY, by each factor
    """

    factors: ndarray
    n_left_out: int
    accepted: ndarray


def fit(
    classifier: Classifier,
    features: Any,
    labels: Labels,
    is_seen: ndarray | None,
    n_words: int | None,
    rng: np.random.Generator,
    threads: int | None,
    subset_classifiers: Sequence[SubsetClassifier],
) -> FittedFactors:
    """Both factors.

    features, labels  of held-out rows whose labels the classifier knows, the features as
                      `perturbed_rows.as_read_later` gives them
    is_seen, n_words  as of `perturbed_rows.as_read_later`
    """
    step = max(1, -(-len(labels) // perturbed_rows.MAX_ROWS))
    rows_used = slice(None, None, step)
    features = features[rows_used]
    labels = labels.rows(rows_used)
    no_features = features[:1] * float32(0)
    empty_score = float(_best_answers(classifier, no_features, threads)[0].scores[0, 0])

    perturbed = perturbed_rows.perturbed(features, is_seen, n_words, rng)
    predicted = [
        _predicted_rows(classifier, rows, labels, empty_score, threads) for rows in perturbed
    ]
    of_known_labels = [
        part
        for part, rows in zip(predicted, perturbed, strict=True)
        if not rows.is_of_unknown_label
    ]
    left_out = _left_out_rows(
        classifier, features, labels, n_words, empty_score, subset_classifiers
    )

    rows_of_factors = [_joined(of_known_labels), _joined([*predicted, left_out])]
    default_weights, abstain_weights = in_threads(fit_weights, threads or 1, rows_of_factors)
    abstain_weights = with_lower_w0(abstain_weights, left_out.terms, left_out.p)
    factors = (default_weights, abstain_weights)
    return FittedFactors(
        np.array([[empty_score, *weights] for weights in factors]),
        len(left_out.p),
        np.array([_accepted_share(weights, left_out) for weights in factors]),
    )


def _accepted_share(weights: ndarray, rows: FitRows) -> float:
    """The share of rows whose best label has the probability ACCEPTED_PROBABILITY or more."""
    p = rows.p * expit(weights[0] + rows.terms @ weights[1:])
    return float(np.mean(p >= ACCEPTED_PROBABILITY)) if len(p) else 0.0


def _joined(parts: Sequence[FitRows]) -> FitRows:
    """The rows of all parts."""
    return FitRows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _predicted_rows(
    classifier: Classifier,
    perturbed: perturbed_rows.PerturbedRows,
    labels: Labels,
    empty_score: float,
    threads: int | None,
) -> FitRows:
    """Perturbed rows with the predictions of the classifier.

    labels  those of the rows that they were derived from
    """
    answers, familiarity = _best_answers(classifier, perturbed.features, threads)
    best_label = answers.ids[:, :1]
    # The number of rows that it was derived from which have the best label.
    n_right = np.sum(
        [hits(best_label, labels.rows(origin))[:, 0] for origin in perturbed.origin.T], axis=0
    )
    return FitRows(
        terms_of(familiarity, answers.scores, empty_score),
        answers.p[:, 0],
        (n_right > 0) & perturbed.keeps_labels,
        # a mixture of rows that share a label does not stand for another topic
        np.where(n_right > 1, 0.0, perturbed.weight),
    )


def _left_out_rows(
    classifier: Classifier,
    features: Any,
    labels: Labels,
    n_words: int | None,
    empty_score: float,
    subset_classifiers: Sequence[SubsetClassifier],
) -> FitRows:
    """The rows with the predictions of classifiers that were trained without their labels."""
    terms = [np.zeros((0, N_TERMS))]
    p = [np.zeros(0)]
    for subset_classifier in subset_classifiers:
        rows = subset_classifier.unknown_rows(labels)
        if not len(rows):
            continue
        is_seen = subset_classifier.subset.is_seen
        read_later = perturbed_rows.as_read_later(features[rows], is_seen, n_words)
        features_of_model, n_unknown = split_unknown_words(read_later, classifier.schema.n_features)
        scores, best_p = subset_classifier.best_two(features_of_model, classifier)
        familiarity = row_familiarity(classifier, features_of_model, n_unknown, slice(0, len(rows)))
        terms.append(terms_of(familiarity, scores, empty_score))
        p.append(best_p)
    all_p = np.concatenate(p)
    n = len(all_p)
    row_weights = np.full(n, WEIGHT_OF_UNKNOWN_LABEL)
    return FitRows(np.concatenate(terms), all_p, np.zeros(n, bool), row_weights)


def _best_answers(
    classifier: Classifier, features: Any, threads: int | None
) -> tuple[Answers, Familiarity]:
    """The best labels of rows, and how familiar the rows are."""
    features, n_unknown = split_unknown_words(features, classifier.schema.n_features)
    parts = [answers for _, answers in iter_answers(classifier, features, 2, threads=threads)]
    answers = Answers(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    return answers, row_familiarity(classifier, features, n_unknown, slice(0, features.shape[0]))


def fit_weights(rows: FitRows) -> ndarray:
    """w0 and w of a factor by maximum likelihood, float64 (1 + N_TERMS,)."""
    # Imported here, because it takes 20 MB that prediction does not need.
    from scipy.optimize import minimize

    means = rows.terms.mean(axis=0)
    deviations = rows.terms.std(axis=0)
    is_constant = deviations < 1e-9
    scaled = np.where(is_constant, 0, (rows.terms - means) / np.where(is_constant, 1, deviations))
    x = np.column_stack([np.ones(len(rows.terms)), scaled])
    p = np.clip(rows.p.astype(float64), MIN_P, 1 - MIN_P)

    def loss(w: ndarray) -> tuple[float, ndarray]:
        f = np.clip(expit(x @ w), MIN_P, 1)
        log_likelihood = np.where(rows.is_right, np.log(p * f), np.log1p(-p * f))
        slope = np.where(rows.is_right, 1 - f, -p * f * (1 - f) / (1 - p * f))
        penalty = 0.5 * L2_PENALTY * float(w[1:] @ w[1:])
        gradient = -(rows.row_weights * slope) @ x + L2_PENALTY * np.append(0, w[1:])
        return penalty - float(rows.row_weights @ log_likelihood), gradient

    bounds = [(None, None)] + [(0, None)] * N_TERMS
    start = np.append(2.0, np.zeros(N_TERMS))
    w = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    slopes = np.where(is_constant, 0, w[1:] / np.where(is_constant, 1, deviations))
    return np.append(w[0] - slopes @ means, slopes)


def with_lower_w0(weights: ndarray, terms: ndarray, p: ndarray) -> ndarray:
    """The weights of a factor, with w0 lowered until at most MAX_ACCEPTED_SHARE of the rows of
    unknown labels reach ACCEPTED_PROBABILITY.

    terms, p  of these rows, as in `FitRows`
    """
    can_be_accepted = p > ACCEPTED_PROBABILITY
    z = weights[0] + terms[can_be_accepted] @ weights[1:]
    excess = np.sort(z - logit(ACCEPTED_PROBABILITY / p[can_be_accepted].astype(float64)))[::-1]
    n_allowed = int(MAX_ACCEPTED_SHARE * len(p))
    if len(excess) <= n_allowed or excess[n_allowed] < 0:
        return weights
    result = weights.copy()
    result[0] -= excess[n_allowed] + MIN_P
    return result
