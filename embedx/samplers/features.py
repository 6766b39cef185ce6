"""Inputs reduced to a few whitened features: principal components, found by a randomised method over blocks of rows.

Halko, Martinsson & Tropp 2011, "Finding structure with randomness", algorithm 4.4 with the rows centred: a random subspace of
the feature space, a few directions larger than what is asked for, is multiplied by the covariance matrix some times and
orthonormalised each time. The covariance matrix itself is never formed, only its products with the subspace, from a sample of
rows taken block by block, so that what is needed beside the data is a few columns as long as there are features.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, issparse

from embedx.kernels.compiled import kernel
from embedx.kernels.simd import SIMD_WIDTH, aligned_zeros, load, multiply_add, padded, splat, store, zeros

MOST_ROWS = 1 << 14  # that components are found from; those of more differ by less than the data's own chance
BLOCK_ROWS = 1 << 12
OVERSAMPLING = 10  # directions more than asked for, and
PRODUCTS = 4  # products with the covariance matrix: the usual choices (Halko et al. 2011, section 1.3)
LEAST_VARIANCE = 1e-6  # of the first component's; a component with less is noise of rounding and is left out


class Projection(NamedTuple):
    """features = inputs @ weights - offset; columns beyond those asked for are zero, up to whole lanes."""

    weights: np.ndarray  # float32 (n_inputs, stride)
    offset: np.ndarray  # float32 (stride,)


def fit_projection(inputs: Any, n_features: int, *, seed: int = 0) -> Projection:
    """The first principal components of the inputs' rows, each divided by its standard deviation.

    inputs  float32 (n, n_inputs), dense or scipy's csr_matrix; the components are those of at most MOST_ROWS rows of it

    There are fewer than `n_features` components where the inputs vary in fewer directions; the others are zero.
    """
    n, n_inputs = inputs.shape
    rng = np.random.default_rng(seed)
    if n > MOST_ROWS:
        inputs = inputs[np.sort(rng.choice(n, MOST_ROWS, replace=False))]
        n = MOST_ROWS
    mean = np.asarray(inputs.mean(axis=0), dtype=np.float32).reshape(-1)
    rank = min(n_features + OVERSAMPLING, n_inputs, n)
    basis = np.linalg.qr(rng.standard_normal((n_inputs, rank)))[0]
    for _ in range(PRODUCTS):
        basis = np.linalg.qr(_covariance_times(inputs, mean, basis)[0])[0]
    covariance = _covariance_times(inputs, mean, basis)[1]
    variance, within = np.linalg.eigh(covariance)
    variance, within = variance[::-1][:n_features], within[:, ::-1][:, :n_features]
    is_some = variance > LEAST_VARIANCE * max(float(variance[0]), 1e-30)
    scale = np.where(is_some, 1 / np.sqrt(np.where(is_some, variance, 1)), 0)
    weights = aligned_zeros(n_inputs, n_features)
    weights[:, : len(variance)] = basis @ within * scale
    return Projection(weights, mean @ weights)


def _covariance_times(inputs: Any, mean: np.ndarray, basis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows' covariance matrix times a basis (n_inputs, rank), and the covariance matrix within that basis; float64."""
    rank = basis.shape[1]
    padded_basis = aligned_zeros(len(basis), rank)
    padded_basis[:, :rank] = basis
    centre = mean @ padded_basis
    product, within = np.zeros_like(padded_basis), np.zeros((rank, rank))
    centred_sum = np.zeros(padded_basis.shape[1])
    for start in range(0, inputs.shape[0], BLOCK_ROWS):
        rows = inputs[start : start + BLOCK_ROWS]
        y = times(rows, padded_basis)
        y -= centre
        centred_sum += y.sum(axis=0, dtype=np.float64)
        within += (y[:, :rank].T @ y[:, :rank]).astype(np.float64)
        _add_transposed_times(rows, y, product)
    product -= np.outer(mean, centred_sum).astype(np.float32)
    return product[:, :rank].astype(np.float64) / inputs.shape[0], within / inputs.shape[0]


def projected(inputs: Any, projection: Projection) -> np.ndarray:
    """The features of inputs, float32 (n, stride), stride a whole number of lanes."""
    n = inputs.shape[0]
    features = aligned_zeros(n, projection.weights.shape[1])
    for start in range(0, n, BLOCK_ROWS):
        features[start : start + BLOCK_ROWS] = times(inputs[start : start + BLOCK_ROWS], projection.weights)
        features[start : start + BLOCK_ROWS] -= projection.offset
    return features


def times(inputs: Any, matrix: np.ndarray) -> np.ndarray:
    """inputs @ matrix, float32 (n, stride); the matrix is padded to whole lanes."""
    if not issparse(inputs):
        return np.asarray(np.asarray(inputs, dtype=np.float32) @ matrix)
    out = aligned_zeros(inputs.shape[0], matrix.shape[1])
    _sparse_times(*_arrays(inputs), matrix, out)
    return out


def _add_transposed_times(inputs: Any, y: np.ndarray, out: np.ndarray) -> None:
    """Add inputsᵀ @ y to `out`, both padded to whole lanes."""
    if issparse(inputs):
        _add_sparse_transposed_times(*_arrays(inputs), y, out)
    else:
        out += np.asarray(inputs, dtype=np.float32).T @ y


def _arrays(inputs: csr_matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, columns and values of sparse rows, with the kernels' types."""
    return (
        np.ascontiguousarray(inputs.indptr, dtype=np.int64),
        np.ascontiguousarray(inputs.indices, dtype=np.int32),
        np.ascontiguousarray(inputs.data, dtype=np.float32),
    )


@kernel
def _sparse_times(offsets, columns, values, matrix, out):
    """Overwrite `out` by the sparse rows times a matrix."""
    for i in range(offsets.size - 1):
        for d in range(0, matrix.shape[1], SIMD_WIDTH):
            total = zeros()
            for at in range(offsets[i], offsets[i + 1]):
                total = multiply_add(splat(values[at]), load(matrix, np.int64(columns[at]), d), total)
            store(out, i, d, total)


@kernel
def _add_sparse_transposed_times(offsets, columns, values, y, out):
    """Add the transposed sparse rows times y to `out`."""
    for i in range(offsets.size - 1):
        for at in range(offsets[i], offsets[i + 1]):
            row, value = np.int64(columns[at]), splat(values[at])
            for d in range(0, y.shape[1], SIMD_WIDTH):
                store(out, row, d, multiply_add(value, load(y, i, d), load(out, row, d)))


def memory(n: int, n_inputs: int, n_features: int) -> int:
    """Bytes that a projection and the features of n inputs take while they are made."""
    stride = padded(n_features)
    return 4 * (n * stride + 2 * n_inputs * padded(n_features + OVERSAMPLING) + n_inputs * stride)
