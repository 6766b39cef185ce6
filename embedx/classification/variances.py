"""The variances of Gaussian weights, from the training rows, and the variance of their prior, from
rows held out of training: see `posterior`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy import float32, ndarray

from embedx.classification import posterior
from embedx.classification.calibration import TEMPERATURE_ROWS
from embedx.classification.classifier import Classifier
from embedx.classification.label_metrics import scored_labels
from embedx.classification.settings import ClassifySettings
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.label_rules import known_labels
from embedx.labeled.scaling import input_length
from embedx.runtime.progress import Progress

# Variances of the prior that are tried, in units of 1 / mean |x|², until one is worse than the one
# before.
PRIORS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
# The variance without held-out rows, in the same unit.
USUAL_PRIOR = 1.0


def fit(
    classifier: Classifier,
    features: Any,
    labels: Labels,
    row_weights: ndarray,
    calibration: Labeled | None,
    settings: ClassifySettings,
    previous: Classifier | None,
    progress: Progress,
) -> None:
    """Give a classifier the variances of its weights; its facts tell that of the prior.

    features     of the training rows, scaled
    labels       of these rows
    row_weights  float32 (n_rows,): how much each row counts, times the number of its labels
    previous     the classifier that training continues from; the information of its rows is added
    """
    h = classifier.inputs(features)
    information = posterior.information(
        _weighted_information(classifier, h, labels, row_weights),
        *classifier.arrays["output"].shape,
    )
    previous_prior = None
    if previous is not None and "variance" in previous.arrays:
        previous_variance = previous.arrays["variance"]
        previous_prior = float(previous.facts["prior_variance"])
        n_previous = len(previous_variance)
        information[:n_previous] += 1 / previous_variance - float32(1 / previous_prior)

    prior = settings.prior_variance or previous_prior
    if prior is None and calibration is not None:
        prior = _best_prior(classifier, information, input_length(h), calibration, settings.threads)
        progress.note(f"the prior of the weights has the variance {prior:.3g}, by held-out rows")
    elif prior is None:
        prior = USUAL_PRIOR / input_length(h) ** 2
    _set_variances(classifier, information, prior)


def _set_variances(classifier: Classifier, information: ndarray, prior: float) -> None:
    """Give the classifier the variances by a prior of this variance."""
    classifier.arrays["variance"] = 1 / (information + float32(1 / prior))
    classifier.facts["prior_variance"] = prior
    classifier.parameters_changed()


def _weighted_information(
    classifier: Classifier, h: Any, labels: Labels, row_weights: ndarray
) -> Iterator[tuple[Any, ndarray]]:
    """(inputs of the output layer, information about the scores at the means times the weights of
    the rows), a block of examples after another. Of a softmax it is the probabilities.
    """
    size = classifier.block_size
    for begin in range(0, h.shape[0], size):
        rows = slice(begin, begin + size)
        z = classifier.mean_scores(h[rows])
        of_rows = labels.rows(rows)
        information = classifier.objective.score_information(z, of_rows.row_of_id, of_rows.ids)
        if information is None:
            information = np.exp(classifier.log_probability(z))
        yield h[rows], information.astype(z.dtype) * row_weights[rows, None]


def _best_prior(
    classifier: Classifier,
    information: ndarray,
    length: float,
    calibration: Labeled,
    threads: int | None,
) -> float:
    """The variance of the prior by which the labels of held-out rows are likeliest."""
    labels = known_labels(calibration.labels, classifier.trained_counts)
    step = max(1, -(-len(labels) // TEMPERATURE_ROWS))
    rows = np.flatnonzero(labels.n_of_row)[::step]
    labels, kept = scored_labels(classifier, labels.rows(rows))
    features = calibration.features[rows[kept]]
    best = PRIORS[0] / length**2
    highest = -np.inf
    for relative_variance in PRIORS:
        prior = relative_variance / length**2
        _set_variances(classifier, information, prior)
        likelihood = _log_likelihood(classifier, features, labels, threads)
        if likelihood < highest:
            break
        best = prior
        highest = likelihood
    return best


def _log_likelihood(
    classifier: Classifier, features: Any, labels: Labels, threads: int | None
) -> float:
    """The mean log-probability of the labels of rows, as they are read."""
    blocks = [log_p for _, log_p in classifier.blocks(features, threads=threads)]
    return float(np.concatenate(blocks)[labels.row_of_id, labels.ids].mean())
