"""Calibration: the probability that a predicted label is right, from scores and its rank, fitted on
rows held out of training.

    log(p / (1 - p)) = g(s_r) + b log r + c s_1        s_r: the score of the label of rank r in its
                                                       row, 1 for the best

g does not fall and is linear between knots, which are quantiles of scores; p does not rise with r,
so that labels keep their order. g, b and c maximise the likelihood of the N_BEST predictions of
each held-out row, less a penalty on the bends of g, by Newton's method. It is Platt's calibration
(1999) with bends and terms of the row: at equal scores, second predictions are right less often
than first ones. Where a row's probabilities are to sum to one, there is a temperature
(`Classifier.tempered`).

calibration.npy  float64 (4, knots)   the knots, ascending; g there; b and c, the same at each knot
"""

from collections.abc import Mapping

import numpy as np
from numpy import float32, float64, ndarray
from scipy.special import expit

from embedx.errors import DataError
from embedx.storage.folder import REMEDY
from embedx.storage.schema import Array

ARRAYS = {"calibration": Array(("terms of calibration", "knots"), ("float64",))}
# to hold out: from fewer little can be learned, and with more little is gained
MIN_ROWS, MAX_ROWS = 100, 2_000
# of them that a temperature is fitted to: it is one number, and takes several passes
TEMPERATURE_ROWS = 500
N_BEST = 5  # predictions per row that are used, as many as `predict` prints by default
# of all scores and of those of right predictions: at most 14 knots
QUANTILES = np.linspace(0, 1, 7)
BENDS, SIZE = 1.0, 1e-3  # weights of the penalties, in predictions
MAX_STEPS, SHORT_STEP, LONG_STEP = 100, 1e-6, 3.0  # of Newton's method, in log-odds


def n_held_out(n_rows: int, share: float) -> int:
    """How many of the training rows are held out; 0 where these would be too few."""
    n = min(round(share * n_rows), MAX_ROWS)
    return n if n >= MIN_ROWS else 0


def check(arrays: Mapping[str, ndarray], name: str = "calibration") -> None:
    """Raise `DataError` if there is a calibration that is none."""
    found = arrays.get(name, np.array([[0.0, 1.0]] * 4))
    if (
        len(found) != 4
        or found.shape[1] < 2
        or (np.diff(found[0]) <= 0).any()
        or (np.diff(found[1]) < 0).any()
    ):
        problem = "no four rows, of ascending knots and log-odds first"
        raise DataError(f"{name}.npy", None, problem, REMEDY)


def fit(scores: ndarray, is_right: ndarray) -> ndarray:
    """The calibration of predictions: float64 (4, knots).

    scores    float (n, k): those of the best labels of each row, best first; -inf where there is
              none
    is_right  bool (n, k)
    """
    scores, is_right = scores[:, :N_BEST].astype(float64), is_right[:, :N_BEST]
    has = np.isfinite(scores)
    s, right = scores[has], is_right[has].astype(float64)
    knots = np.unique([np.quantile(some, QUANTILES) for some in (s, s[right > 0]) if some.size])
    if len(knots) < 2:
        knots = np.append(knots, knots[-1:] + 1) if len(knots) else np.array([0.0, 1.0])
    number = np.arange(len(knots))
    # weights in linear interpolation
    of_knots = np.maximum(1 - np.abs(np.interp(s, knots, number)[:, None] - number), 0)
    x = np.column_stack([of_knots, *(term[has] for term in _terms_of_row(scores, knots))])
    bends = np.diff(np.eye(len(knots)), 2, axis=0)
    penalty = SIZE * np.eye(x.shape[1])
    penalty[: len(knots), : len(knots)] += BENDS * bends.T @ bends
    w = np.zeros(x.shape[1])
    for _ in range(MAX_STEPS):
        p = expit(x @ w)
        slope = x.T @ (right - p) - penalty @ w
        step = np.linalg.solve((x.T * (p * (1 - p))) @ x + penalty, slope)
        w += np.clip(step, -LONG_STEP, LONG_STEP)
        if np.abs(step).max() < SHORT_STEP:
            break
    return np.stack(
        [
            knots,
            np.maximum.accumulate(w[: len(knots)]),
            *np.broadcast_to(w[len(knots) :, None], (2, len(knots))),
        ]
    )


def probabilities(calibration: ndarray, scores: ndarray) -> ndarray:
    """The probability that each of a row's best labels is right, float32 (n, k), from their scores,
    best first, (n, k).
    """
    knots, log_odds, b, c = calibration
    log_rank, best = _terms_of_row(scores, knots)
    p = expit(np.interp(scores, knots, log_odds) + b[0] * log_rank + c[0] * best)
    p = np.minimum.accumulate(np.where(np.isfinite(scores), p, 0), axis=1)
    return np.asarray(p, float32)


def of_one_label(p: ndarray) -> ndarray:
    """Probabilities of a row's best labels, (n, k), of which one is right: if they sum to more than
    1, those after the first are scaled down. So the first, which decisions depend on most, stays
    calibrated.
    """
    rest = p[:, 1:].sum(axis=1, keepdims=True)
    left = np.minimum((1 - p[:, :1]) / np.maximum(rest, float32(1e-30)), 1)
    return np.concatenate([p[:, :1], p[:, 1:] * left], axis=1)


def _terms_of_row(scores: ndarray, knots: ndarray) -> tuple[ndarray, ndarray]:
    """log r and s_1, which stays between the outermost knots, of each prediction, both (n, k)."""
    log_rank = np.log(np.arange(1, scores.shape[1] + 1))
    best = np.clip(scores[:, :1], knots[0], knots[-1])
    return np.broadcast_to(log_rank, scores.shape), np.broadcast_to(best, scores.shape)
