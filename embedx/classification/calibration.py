"""Calibration: the probability that a predicted label is right, from scores and its rank, fitted on
rows held out of training.

    log(p / (1 - p)) = g(s_r) + b log r + c s_1        s_r: the score of the label of rank r in its
                                                       row, 1 for the best

g is non-decreasing and piecewise linear, with knots at quantiles of the scores; p does not rise
with r, so that labels keep their order. g, b and c maximise the likelihood of the N_BEST
predictions of each held-out row, minus a penalty on changes of slope of g, by Newton's method. This
is Platt's calibration (1999) with a piecewise linear g and terms of the row: at equal scores,
second predictions are right less often than first ones. Where the probabilities of a row have to
sum to one, there is a temperature instead (`label_metrics.tempered`).

calibration.npy  float64 (4, knots)   the knots, ascending; g there; b and c, the same at each knot
"""

from collections.abc import Mapping

import numpy as np
from numpy import float32, float64, ndarray
from scipy.special import expit

from embedx.errors import DataError
from embedx.storage.folder_files import REMEDY
from embedx.storage.schema import Array

ARRAYS = {"calibration": Array(("terms of calibration", "knots"), ("float64",))}
# Minimum and maximum number of rows to hold out: from fewer little can be learned, and more gain
# little.
MIN_ROWS = 100
MAX_ROWS = 2_000
# Of these, the rows for fitting a temperature: it is one number, and takes several passes.
TEMPERATURE_ROWS = 500
# Predictions per row that are used, as many as `predict` prints by default.
N_BEST = 5
# Knots are these quantiles of all scores, and of those of right predictions: at most 14.
QUANTILES = np.linspace(0, 1, 7)
# Weights of the penalties on changes of slope and on large weights, in numbers of predictions.
BEND_PENALTY = 1.0
SIZE_PENALTY = 1e-3
# Newton's method: the maximum number of steps, the length of the last one and of the longest one,
# in log-odds.
MAX_STEPS = 100
LAST_STEP = 1e-6
MAX_STEP = 3.0


def n_held_out(n_rows: int, share: float) -> int:
    """The number of training rows to hold out; 0 if they would be too few."""
    n = min(round(share * n_rows), MAX_ROWS)
    return n if n >= MIN_ROWS else 0


def check(arrays: Mapping[str, ndarray], name: str = "calibration") -> None:
    """Raise `DataError` if the array of a calibration, if there is one, is not valid."""
    calibration = arrays.get(name)
    if calibration is None:
        return
    has_shape = len(calibration) == 4 and calibration.shape[1] >= 2
    if not has_shape or not _is_ascending(calibration):
        problem = "must have four rows, of which the first two, knots and log-odds, ascend"
        raise DataError(f"{name}.npy", None, problem, REMEDY)


def _is_ascending(calibration: ndarray) -> bool:
    """Whether knots ascend, and log-odds do not fall."""
    knots, log_odds, *_ = calibration
    return not ((np.diff(knots) <= 0).any() or (np.diff(log_odds) < 0).any())


def fit(scores: ndarray, is_right: ndarray) -> ndarray:
    """The calibration of predictions: float64 (4, knots).

    scores    float (n, k): those of the best labels of each row, best first; -inf where there is
              none
    is_right  bool (n, k)
    """
    scores = scores[:, :N_BEST].astype(float64)
    is_right = is_right[:, :N_BEST]
    is_there = np.isfinite(scores)
    score = scores[is_there]
    right = is_right[is_there].astype(float64)

    knots = _knots(score, right)
    n_knots = len(knots)
    terms_of_row = [
        np.broadcast_to(term, scores.shape)[is_there] for term in _terms_of_row(scores, knots)
    ]
    x = np.column_stack([_interpolation(score, knots), *terms_of_row])
    bends = np.diff(np.eye(n_knots), 2, axis=0)
    penalty = SIZE_PENALTY * np.eye(x.shape[1])
    penalty[:n_knots, :n_knots] += BEND_PENALTY * bends.T @ bends
    w = _fit_logistic(x, right, penalty)

    log_odds = np.maximum.accumulate(w[:n_knots])
    weights_of_row = np.broadcast_to(w[n_knots:, None], (2, n_knots))
    return np.stack([knots, log_odds, *weights_of_row])


def _knots(score: ndarray, right: ndarray) -> ndarray:
    """Quantiles of scores and of those of right predictions, float64 (knots,), two or more."""
    samples = [sample for sample in (score, score[right > 0]) if sample.size]
    knots = np.unique([np.quantile(sample, QUANTILES) for sample in samples])
    if len(knots) == 0:
        return np.array([0.0, 1.0])
    if len(knots) == 1:
        return np.append(knots, knots + 1)
    return knots


def _interpolation(score: ndarray, knots: ndarray) -> ndarray:
    """The weights of knots in linear interpolation, float64 (n, knots)."""
    number = np.arange(len(knots))
    place = np.interp(score, knots, number)
    return np.maximum(1 - np.abs(place[:, None] - number), 0)


def _fit_logistic(x: ndarray, right: ndarray, penalty: ndarray) -> ndarray:
    """The weights of logistic regression with a quadratic penalty, by Newton's method."""
    w = np.zeros(x.shape[1])
    for _ in range(MAX_STEPS):
        p = expit(x @ w)
        slope = x.T @ (right - p) - penalty @ w
        step = np.linalg.solve((x.T * (p * (1 - p))) @ x + penalty, slope)
        w += np.clip(step, -MAX_STEP, MAX_STEP)
        if np.abs(step).max() < LAST_STEP:
            break
    return w


def probabilities(calibration: ndarray, scores: ndarray) -> ndarray:
    """The probability that each of a row's best labels is right, float32 (n, k).

    scores  (n, k): those of the best labels, best first
    """
    knots, log_odds, b, c = calibration
    log_rank, best = _terms_of_row(scores, knots)
    p = expit(np.interp(scores, knots, log_odds) + b[0] * log_rank + c[0] * best)
    p = np.minimum.accumulate(np.where(np.isfinite(scores), p, 0), axis=1)
    return np.asarray(p, float32)


def of_one_label(p: ndarray) -> ndarray:
    """Probabilities of the best labels of rows with a single label, (n, k).

    If they sum to more than 1, those after the first are scaled down. The first, on which decisions
    depend most, stays calibrated.
    """
    rest = p[:, 1:].sum(axis=1, keepdims=True)
    left = np.minimum((1 - p[:, :1]) / np.maximum(rest, float32(1e-30)), 1)
    return np.concatenate([p[:, :1], p[:, 1:] * left], axis=1)


def _terms_of_row(scores: ndarray, knots: ndarray) -> tuple[ndarray, ndarray]:
    """log r of each rank, (k,), and s_1 of each row between the outermost knots, (n, 1)."""
    log_rank = np.log(np.arange(1, scores.shape[1] + 1))
    return log_rank, np.clip(scores[:, :1], knots[0], knots[-1])
