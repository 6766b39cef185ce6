"""The temperature that makes the probabilities of a classifier likeliest on validation data."""

import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy import ndarray

from embedx.errors import DataError, DivergedError, Setting
from embedx.evaluation.labels import blocks_of_rows, label_means
from embedx.labeled.data import Labels

# The range of the fit.
TEMPERATURES = (1e-3, 1e3)
# The fit ends at a step that gains less, in nats of log-likelihood.
TOLERANCE = 1e-8
# Passes of the fit over the data; five to eight are usual.
MAX_PASSES = 20
# Log-probabilities of labels, which must be finite, may be clipped here before the fit.
MIN_LOG_P = -1e4
# Scores are raised to this far below the best: at any of the TEMPERATURES the exponential is 0, as
# that of -inf.
MIN_SCORE = -1e6


def fit_inverse_temperature(blocks: Callable[[], Iterable[tuple[ndarray, Labels]]]) -> float:
    """The inverse temperature T, within TEMPERATURES, for which log_softmax(T z) is most likely on
    validation data.

    blocks  called for each pass over the data, gives the scores or log-probabilities z of some
            rows, float (B, K), and their labels. Likelihood as in `LabelMetrics`: unknown labels
            and rows without a known one are left out

    The likelihood is concave in T. Its slope is brought to 0 by Newton's method on log T, with a
    bisection wherever a step would leave the interval in which the slope is known to change its
    sign. Where the likelihood has no maximum, as on rows that all rank their label first, the fit
    ends when it hardly grows any more.

    Raises EmbedxError if no row has a known label, DivergedError if scores are not finite; -inf is
    allowed off the labels.
    """
    low, high = np.log(TEMPERATURES)
    log_temperature = 0.0
    for _ in range(MAX_PASSES):
        temperature = math.exp(log_temperature)
        slope, variance = derivatives(blocks(), temperature)
        if slope == 0:
            break
        if slope > 0:
            low = log_temperature
        else:
            high = log_temperature

        step = math.copysign(math.inf, slope)
        if variance > 0:
            step = slope / (temperature * variance)
        if not low < log_temperature + step < high:
            log_temperature = 0.5 * (low + high)
            continue
        log_temperature += step
        if 0.5 * temperature * slope * step < TOLERANCE:
            break
    return math.exp(log_temperature)


def derivatives(
    blocks: Iterable[tuple[ndarray, Labels]], temperature: float
) -> tuple[float, float]:
    """Slope of the mean log-likelihood of log_softmax(T z) in T, and minus its second derivative.

    With p = softmax(T z) these are the means over rows of z_label - Σ p z and of the variance Σ p
    z² - (Σ p z)².
    """
    slope = variance = 0.0
    n = 0
    for z, labels in blocks:
        known_rows, z_of_labels = label_means(z, labels)
        n += len(known_rows)
        for part in blocks_of_rows(len(known_rows), z.shape[1]):
            block = z[known_rows[part]].astype(np.float64)
            z_of_label = z_of_labels[part]
            best = block.max(axis=1)
            if not (np.isfinite(best).all() and np.isfinite(z_of_label).all()):
                problem = "no temperature to fit: some scores of validation rows are not finite"
                raise DivergedError(problem, ("try a smaller ", Setting("learning_rate")))
            block = np.maximum(block - best[:, None], MIN_SCORE)
            p = np.exp(temperature * block)
            p /= p.sum(axis=1, keepdims=True)
            mean = np.einsum("ij,ij->i", p, block)
            mean_square = np.einsum("ij,ij,ij->i", p, block, block)
            slope += float((z_of_label - best - mean).sum())
            variance += float((mean_square - mean * mean).sum())
    if n == 0:
        problem = "no row has a label that training has seen, so no temperature is fitted"
        raise DataError("the validation data", None, problem)
    return slope / n, variance / n
