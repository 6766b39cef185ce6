"""Inputs reduced to a few whitened features: principal components, by a randomised method.

Halko, Martinsson & Tropp 2011, "Finding structure with randomness", algorithm 4.4 with centred
rows: a random subspace of the feature space, with a few more directions than components, is
repeatedly multiplied by the covariance matrix and orthonormalised. The covariance matrix itself is
never computed, only its products with the subspace, from a sample of rows.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64, ndarray

from embedx.kernels import aligned_zeros

# Maximum number of rows that components are computed from; more change them by less than their
# sampling error.
MAX_ROWS = 1 << 14
# Additional directions, and products with the covariance matrix: the usual choices (Halko et al.
# 2011, section 1.3).
OVERSAMPLING = 10
PRODUCTS = 4
# Relative to the variance of the first component; smaller variances are rounding errors.
MIN_VARIANCE = 1e-6


class Projection(NamedTuple):
    """features = inputs @ weights - offset; columns beyond the components are zero, up to a
    multiple of the SIMD width.
    """

    weights: ndarray  # float32 (n_inputs, stride)
    offset: ndarray  # float32 (stride,)


def fit_projection(inputs: Any, n_features: int, *, seed: int = 0) -> Projection:
    """The first principal components of the inputs' rows, each divided by its standard deviation.

    inputs  float32 (n, n_inputs), dense or scipy's csr_matrix; the components are those of at most
            MAX_ROWS rows of it

    There are fewer than `n_features` components where the inputs vary in fewer directions; the
    others are zero.
    """
    n, n_inputs = inputs.shape
    rng = np.random.default_rng(seed)
    if n > MAX_ROWS:
        inputs = inputs[np.sort(rng.choice(n, MAX_ROWS, replace=False))]
        n = MAX_ROWS
    mean = np.asarray(inputs.mean(axis=0), float32).reshape(-1)
    rank = min(n_features + OVERSAMPLING, n_inputs, n)
    basis = np.linalg.qr(rng.standard_normal((n_inputs, rank)))[0]
    for _ in range(PRODUCTS):
        basis = np.linalg.qr(_covariance_times(inputs, mean, basis)[0])[0]
    covariance = _covariance_times(inputs, mean, basis)[1]
    variance, within = np.linalg.eigh(covariance)
    variance = variance[::-1][:n_features]
    within = within[:, ::-1][:, :n_features]
    is_some = variance > MIN_VARIANCE * max(float(variance[0]), 1e-30)
    scale = np.where(is_some, 1 / np.sqrt(np.where(is_some, variance, 1)), 0)
    weights = aligned_zeros(n_inputs, n_features)
    weights[:, : len(variance)] = basis @ within * scale
    return Projection(weights, mean @ weights)


def _covariance_times(inputs: Any, mean: ndarray, basis: ndarray) -> tuple[ndarray, ndarray]:
    """The rows' covariance matrix times a basis (n_inputs, rank), and the covariance matrix within
    that basis.
    """
    narrow = basis.astype(float32)  # as the inputs are: scipy would convert those otherwise
    y = np.asarray(inputs @ narrow - mean @ narrow, float64)
    product = inputs.T @ y.astype(float32) - np.outer(mean, y.sum(axis=0))
    return np.asarray(product, float64) / inputs.shape[0], y.T @ y / inputs.shape[0]


def projected(inputs: Any, projection: Projection) -> ndarray:
    """The features of inputs, float32 (n, stride)."""
    features = aligned_zeros(inputs.shape[0], projection.weights.shape[1])
    features[:] = inputs @ projection.weights
    features -= projection.offset
    return features
