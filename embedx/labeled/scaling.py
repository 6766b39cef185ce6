"""Scalings of features: chosen and fitted on training rows, and applied to all later ones."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy import float32, float64, ndarray
from scipy.sparse import csr_matrix, issparse

SCALINGS = ("none", "l2", "column-max", "tf-idf", "standard")
# The arrays, by feature, that a scaling computes from the training data.
ARRAYS_OF = {
    "column-max": ("maxima",),
    "tf-idf": ("idf",),
    "standard": ("means", "deviations"),
}
MAX_SAMPLED_ROWS = 10_000
# Rows are scaled to one length where the standard deviation of their lengths is more than this
# share of the mean.
UNEQUAL = 0.4
# Lengths of inputs that differ from 1 by at most this count as 1.
NEARLY = 1e-3
# Standardised values are clipped to this many standard deviations.
MAX_DEVIATIONS = 1e6
# Rows that are standardised at a time, in float64.
BLOCK_ROWS = 1000
# A standard deviation of at most this share of the largest value is a rounding error.
ROUNDED = 1e-7
# Dense columns are standardised where the root mean square of one is more than this many times the
# median standard deviation.
UNSCALED = 5.0


def column_maxima(features: Any) -> ndarray:
    """The largest absolute value of each feature, 1 where it has none; float32 (n_features,)."""
    if isinstance(features, csr_matrix):
        largest = np.zeros(features.shape[1], float32)
        np.maximum.at(largest, features.indices, np.abs(features.data))
    else:
        largest = np.abs(features).max(axis=0, initial=0)
    return np.where(largest > 0, largest, float32(1)).astype(float32)


def idf(features: Any) -> ndarray:
    """Smoothed inverse document frequencies, float32 (n_features,).

    idf = ln((1 + rows) / (1 + rows that have the feature)) + 1
    """
    n_rows, n_features = features.shape
    if isinstance(features, csr_matrix):
        columns = features.indices[features.data != 0]
    else:
        columns = np.nonzero(features)[1]
    document_counts = np.bincount(columns, minlength=n_features)
    return np.asarray(np.log((1 + n_rows) / (1 + document_counts)) + 1, float32)


def means(features: Any) -> ndarray:
    """The mean of each dense feature, 0 of sparse ones; float64 (n_features,)."""
    if isinstance(features, csr_matrix):
        return np.zeros(features.shape[1])
    return np.asarray(features.mean(axis=0, dtype=float64))


def deviations(features: Any) -> ndarray:
    """The standard deviation of each feature, 1 where it is constant; float64 (n_features,)."""
    if isinstance(features, csr_matrix):
        n_rows, n_features = features.shape
        moments = [
            np.bincount(features.indices, powers, n_features) / max(n_rows, 1)
            for powers in (features.data, np.square(features.data, dtype=float64))
        ]
        sizes = np.sqrt(np.maximum(moments[1] - moments[0] ** 2, 0))
    else:
        sizes = features.std(axis=0, dtype=float64)
    # The mean of equal values may be rounded.
    is_constant = sizes <= ROUNDED * column_maxima(features)
    return np.where(is_constant, 1, sizes)


FUNCTIONS = {"maxima": column_maxima, "idf": idf, "means": means, "deviations": deviations}


def scaling_arrays(features: Any, scaling: str) -> dict[str, ndarray]:
    """The arrays that a scaling needs, by their names in the model folder."""
    return {name: FUNCTIONS[name](features) for name in ARRAYS_OF.get(scaling, ())}


def scaled(features: Any, scaling: str, arrays: Mapping[str, ndarray]) -> Any:
    """The features on another scale. Rows of zeros stay, except dense ones with `standard`.

    l2          each row divided by its length
    column-max  each column divided by its `maxima`
    tf-idf      each value x replaced by (1 + ln x) idf, values below 1 by x idf, then each row
                divided by its length
    standard    each column divided by its standard deviation, a dense one less its mean before,
                and clipped to MAX_DEVIATIONS

    arrays  those of `scaling_arrays`; others are ignored
    """
    if scaling == "none":
        return features
    is_sparse = isinstance(features, csr_matrix)
    if scaling == "standard" and not is_sparse:
        return _standardised(features, arrays)

    values = features.data if is_sparse else features
    columns = features.indices if is_sparse else slice(None)
    if scaling == "standard":
        z = values / arrays["deviations"][columns]
        return _with_values(features, z.clip(-MAX_DEVIATIONS, MAX_DEVIATIONS))
    if scaling == "column-max":
        return _with_values(features, values / arrays["maxima"][columns])
    if scaling == "tf-idf":
        sizes = np.abs(values)
        values = np.where(sizes > 1, np.copysign(1 + np.log(np.maximum(sizes, 1)), values), values)
        features = _with_values(features, values * arrays["idf"][columns])
    return unit_rows(features)


def _standardised(features: ndarray, arrays: Mapping[str, ndarray]) -> ndarray:
    """Dense columns less their means, divided by their deviations, some rows at a time."""
    out = np.empty_like(features)
    for start in range(0, len(features), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        z = (features[rows] - arrays["means"]) / arrays["deviations"]
        out[rows] = z.clip(-MAX_DEVIATIONS, MAX_DEVIATIONS)
    return out


def unit_rows(features: Any) -> Any:
    """The features, each row divided by its length; rows of zeros stay."""
    if isinstance(features, csr_matrix):
        row_of_value = _row_of_value(features.indptr)
        lengths = _sparse_lengths(features.data, row_of_value, features.shape[0])
        divisors = np.where(lengths > 0, lengths, 1)[row_of_value]
        return _with_values(features, features.data / divisors)
    lengths = row_lengths(features)
    return _with_values(features, features / np.where(lengths > 0, lengths, 1)[:, None])


def _with_values(features: Any, values: ndarray) -> Any:
    """The features with other values, of the same dtype."""
    values = values.astype(features.dtype, copy=False)
    if not issparse(features):
        return values
    # A new matrix has int32 where it suffices.
    if features.indices.dtype != np.int32:
        return csr_matrix((values, features.indices, features.indptr), features.shape)
    # A new matrix would be checked, which takes longer than the answer to a request.
    scaled_features = copy.copy(features)
    scaled_features.data = values
    return scaled_features


def row_lengths(features: Any) -> ndarray:
    """The L2 norm of each row, (n_rows,)."""
    if not isinstance(features, csr_matrix):
        return np.linalg.norm(features, axis=1)
    return _sparse_lengths(features.data, _row_of_value(features.indptr), features.shape[0])


def _row_of_value(indptr: ndarray) -> ndarray:
    """The row of each value of a sparse matrix, int64."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def _sparse_lengths(values: ndarray, row_of_value: ndarray, n_rows: int) -> ndarray:
    """The L2 norm of each row of a sparse matrix, float64 (n_rows,)."""
    squares = np.square(values, dtype=float64)
    return np.sqrt(np.bincount(row_of_value, weights=squares, minlength=n_rows))


def chosen_scaling(features: Any) -> str:
    """The default: "tf-idf" for counts, "l2" for other sparse rows of unequal length, "standard"
    for dense columns on different scales or far from 0, or "none".
    """
    sample = features[:: max(1, features.shape[0] // MAX_SAMPLED_ROWS)]
    if not isinstance(features, csr_matrix):
        return "standard" if _is_unscaled(sample) else "none"
    if _are_counts(sample.data):
        return "tf-idf"
    lengths = row_lengths(sample)
    lengths = lengths[lengths > 0]
    if len(lengths) and lengths.std() > UNEQUAL * lengths.mean():
        return "l2"
    return "none"


def _is_unscaled(features: ndarray) -> bool:
    """Whether a dense column is much larger than most columns vary.

    Columns that are standardised, or between 0 and 1, are not, nor are the pixels of images.
    """
    if not features.size:
        return False
    spreads = features.std(axis=0, dtype=float64)
    sizes = np.hypot(means(features), spreads)
    varies = spreads > ROUNDED * sizes
    if not varies.any():
        return False
    largest = sizes[varies].max()
    return bool(largest > UNSCALED * np.median(spreads[varies]))


def _are_counts(data: ndarray) -> bool:
    """Whether values but 0 are whole numbers from 1, some larger, and 1 is the most frequent.

    Pixels and codes are whole numbers too, but 1 is rare.
    """
    values, frequencies = np.unique(data[data != 0], return_counts=True)
    if len(values) < 2 or values[0] != 1:
        return False
    most_frequent = values[frequencies.argmax()]
    return bool(most_frequent == 1 and (values == np.floor(values)).all())


def input_length(features: Any, weights: ndarray | None = None) -> float:
    """The root mean square length of the rows that have features; 1 if it is nearly 1.

    weights  (n_rows,): how much each row counts; None for all alike
    """
    if isinstance(features, csr_matrix):
        n_values = np.diff(features.indptr)
        has_features = n_values > 0
        values = features.data
    else:
        n_values = features.shape[1]
        has_features = features.any(axis=1)
        values = features
    squares = np.square(values, dtype=float64)
    if weights is None:
        mean_square = np.sum(squares) / max(np.count_nonzero(has_features), 1)
    else:
        of_values = np.repeat(weights, n_values)
        total = weights[has_features].sum()
        mean_square = of_values @ squares.ravel() / total if total > 0 else 0.0
    length = float(np.sqrt(mean_square))
    is_usable = abs(length - 1) > NEARLY and 0 < length < np.inf
    return length if is_usable else 1.0
