"""Gaussian weights: a normal distribution of each weight of an output vector, in place of a number.

Ruiz et al. 2018, section 3: q(w) is a diagonal normal distribution, here with the trained weights
as its means, and the prior is N(0, s²). With rows x_n and labels y_n, augment and reduce's bound is

    Σ_n (mean_y·x_n - log Σ_k e^{a_nk}) - KL(q | prior)
    a_nk = log E[e^{ψ_nk}] = mean_k·x_n + Σ_d x_nd² variance_kd / 2

and its derivative by a variance is 0 where

    1 / variance_kd = 1/s² + Σ_n x_nd² p_nk         p_n = softmax(a_n)

Variances follow from this with p_n by the means alone, one pass over the training rows: a step of
the natural gradient of length 1 from variances of 0. Biases have no prior and no variance.

The probability of a label is its mean over the weights: scores are independent normal numbers with
the variances Σ_d x_d² variance_kd, and their softmax is averaged over DRAWS stratified draws, the
same for all rows. s² is the one by which these probabilities are highest on rows held out of
training. See docs/derivations.md.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy import float32, ndarray
from scipy.sparse import issparse
from scipy.special import ndtri

from embedx.storage.schema import Array

ARRAYS = {"variance": Array(("rows", "dim"))}
# As many of each label as change the mean log-likelihood by 0.002 at most.
DRAWS = 64
# Below it a float32 has no logarithm.
TINY = np.finfo(float32).tiny


def squared(x: Any) -> Any:
    """The squares of inputs, dense or sparse."""
    return x.multiply(x).tocsr() if issparse(x) else np.square(x)


def information(
    blocks: Iterable[tuple[ndarray, ndarray]], n_outputs: int, n_inputs: int
) -> ndarray:
    """Σ_n x_nd² p_nk, float32 (n_outputs, n_inputs).

    blocks  inputs (n, n_inputs) and the probabilities of their labels (n, n_outputs), each times
            the weight and the number of labels of its example
    """
    sums = np.zeros((n_inputs, n_outputs), float32)
    for x, p in blocks:
        sums += squared(x).T @ p
    return np.ascontiguousarray(sums.T)


def stratified_normals(n_labels: int) -> ndarray:
    """float32 (DRAWS, n_labels): for each label the quantiles of a standard normal distribution, in
    random order.
    """
    quantiles = ndtri((np.arange(DRAWS) + 0.5) / DRAWS).astype(float32)
    in_turn = np.repeat(quantiles[:, None], n_labels, axis=1)
    return np.random.default_rng(0).permuted(in_turn, axis=0)


def log_mean_softmax(z: ndarray, variance: ndarray, normals: ndarray) -> ndarray:
    """The log of the mean softmax of scores of these means z and variances, both (n, n_labels)."""
    deviation = np.sqrt(variance)
    total = np.zeros_like(z)
    for normal in normals:
        p = deviation * normal
        p += z
        p -= p.max(axis=1, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(axis=1, keepdims=True)
        total += p
    total /= float32(len(normals))
    return np.log(np.maximum(total, TINY))
