"""Classes with the largest utility z_k + ε_k whose scores z_k are normal numbers, as Gaussian
weights make them.

With f and F the density and distribution function of the noise ε, t the winner's utility and q its
posterior at the mean scores,
    q_y(t) ∝ f(t - z_y) Π_{k≠y} F(t - z_k)
    information about z_k    -E_q[(log F)''(t - z_k)] for k ≠ y, -E_q[(log f)''(t - z_y)] for y
    p(y) = ∫ f_y(t) Π_{k≠y} F_k(t) dt,    F_k the distribution function of z_k + ε_k
A normal score adds its variance to that of the noise: F_k is taken as the noise's, wider by the
factor sqrt(1 + variance of z_k / variance of ε). This is exact if the noise is normal. See
docs/derivations.md.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy import float64, int64, ndarray

Function = Callable[[ndarray], ndarray]
# Maximum number of values of the quadrature in memory at a time.
MAX_VALUES = 4_000_000
# Scores further below the highest one are treated as this far.
FAR = 200.0


class Noise(NamedTuple):
    """The distribution of the noise, by functions of arrays, and the nodes of quadratures over t.

    curvature_f    -(log f)''
    curvature_cdf  -(log F)''
    reach          half the range of t for noise of width 1
    step           distance of nodes, and of grid points of scores
    """

    log_f: Function
    log_cdf: Function
    curvature_f: Function
    curvature_cdf: Function
    variance: float
    reach: float
    step: float


def log_mean_probability(z: ndarray, variance: ndarray, noise: Noise) -> ndarray:
    """log p(y) of all classes, float64 (n, K), for independent normal scores of means z, by the
    trapezoid rule.
    """
    widths = np.sqrt(1 + np.asarray(variance, float64) / noise.variance)
    out = np.empty(z.shape, float64)
    for scores, width, log_p in zip(_below_highest(z), widths, out, strict=True):
        reach = noise.reach * width.max()
        nodes = np.arange(scores.min() - reach, reach, noise.step)[:, None]
        n_blocks = -(-nodes.size * scores.size // MAX_VALUES)
        blocks = np.array_split(np.arange(scores.size), n_blocks)
        all_classes = sum(
            noise.log_cdf((nodes - scores[block]) / width[block]).sum(axis=1, keepdims=True)
            for block in blocks
        )
        for block in blocks:
            gaps = (nodes - scores[block]) / width[block]
            terms = noise.log_f(gaps) - noise.log_cdf(gaps) + all_classes
            largest = terms.max(axis=0)
            integral = np.exp(terms - largest).sum(axis=0) * noise.step / width[block]
            log_p[block] = largest + np.log(integral)
    return out


def score_information(z: ndarray, row: ndarray, label: ndarray, noise: Noise) -> ndarray:
    """What each example tells of each score, float64 (n, K), as a mean over its labels.

    row, label  int (n_labels_in_all,): the labels of the examples, by ascending example
    """
    out = np.empty(z.shape, float64)
    ends = np.searchsorted(row, np.arange(len(z) + 1))
    for i, scores in enumerate(_below_highest(z)):
        out[i] = _information_of_example(scores, label[ends[i] : ends[i + 1]], noise)
    return out


def _information_of_example(scores: ndarray, labels: ndarray, noise: Noise) -> ndarray:
    """`score_information` of one example; 0 without labels.

    Grid points of scores and nodes are `step` apart, so that functions of their gaps are evaluated
    once for each gap; a score stands for its two nearest grid points.
    """
    if not len(labels):
        return np.zeros_like(scores)
    place = (scores - scores.min()) / noise.step
    cell = place.astype(int64)
    beyond = place - cell
    n = int(cell.max()) + 2
    n_classes = np.bincount(cell, 1 - beyond, n) + np.bincount(cell + 1, beyond, n)
    nodes = np.arange(scores.min() - noise.reach, noise.reach, noise.step)
    # Of node i and grid point j: gaps[i - j + n - 1].
    gaps = noise.step * np.arange(1 - n, len(nodes)) - noise.reach
    all_classes = np.convolve(n_classes, noise.log_cdf(gaps), "valid")[:, None]

    gaps_of_labels = nodes[:, None] - scores[labels]
    terms = noise.log_f(gaps_of_labels) - noise.log_cdf(gaps_of_labels) + all_classes
    q = np.exp(terms - terms.max(axis=0))
    q /= q.sum(axis=0)
    on_grid = np.correlate(noise.curvature_cdf(gaps), q.mean(axis=1), "valid")[::-1]
    information = np.interp(place, np.arange(n), on_grid)
    as_winner = noise.curvature_f(gaps_of_labels) - noise.curvature_cdf(gaps_of_labels)
    np.add.at(information, labels, (q * as_winner).sum(axis=0) / len(labels))
    return information


def _below_highest(z: ndarray) -> ndarray:
    """Scores minus the highest of their example, float64."""
    scores = np.asarray(z, float64)
    return np.maximum(scores - scores.max(axis=1, keepdims=True), -FAR)
