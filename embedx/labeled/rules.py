"""Which of a row's labels count, and on what scale its features are: decided at training, kept with
the model.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy import float32, float64, ndarray
from scipy.sparse import csr_matrix, issparse

from embedx.labeled.data import Labels

LABEL_RULES = ("all", "first", "lowest-id", "one")
SCALINGS = ("none", "l2", "column-max", "tf-idf")
# what a scaling takes from the training data, an array by feature
ARRAY_OF = {"column-max": "maxima", "tf-idf": "idf"}
MAX_SAMPLED = 10_000  # rows by which a scaling is chosen
# standard deviation of the lengths of rows over their mean, above which they are scaled to one
# length
UNEQUAL = 0.4
NEARLY = 1e-3  # how far from 1 the length of inputs may be that counts as 1


def chosen_labels(labels: Labels, rule: str) -> Labels:
    """The labels that count: the first of each row, that with the lowest id, or all ("one" chooses
    again at each visit).
    """
    if rule not in ("first", "lowest-id"):
        return labels
    starts = labels.offsets[:-1][labels.n_of_row > 0]
    if rule == "first":
        return labels.where(starts)
    return labels.where(np.lexsort((labels.ids, labels.row_of_id))[starts])


def known_labels(labels: Labels, counts: ndarray) -> Labels:
    """Without the labels that no training row has; counts int64 (n_labels,)."""
    return labels.where(np.isin(labels.ids, np.flatnonzero(counts)))


def column_maxima(features: Any) -> ndarray:
    """The largest absolute value of each feature, float32 (n_features,); 1 where it
    never occurs.
    """
    if isinstance(features, csr_matrix):
        largest = np.zeros(features.shape[1], float32)
        np.maximum.at(largest, features.indices, np.abs(features.data))
    else:
        largest = np.abs(features).max(axis=0, initial=0)
    return np.where(largest > 0, largest, float32(1)).astype(float32)


def idf(features: Any) -> ndarray:
    """Smoothed inverse document frequencies, float32 (n_features,): ln((1 + n) / (1 + rows that
    have the feature)) + 1.
    """
    n, n_features = features.shape
    columns = (
        features.indices[features.data != 0]
        if isinstance(features, csr_matrix)
        else np.nonzero(features)[1]
    )
    return np.asarray(
        np.log((1 + n) / (1 + np.bincount(columns, minlength=n_features))) + 1, float32
    )


def scaling_arrays(features: Any, scaling: str) -> dict[str, ndarray]:
    """What a scaling takes from the training data, by the name of the array in the model folder."""
    computed = {"column-max": column_maxima, "tf-idf": idf}
    return {ARRAY_OF[scaling]: computed[scaling](features)} if scaling in ARRAY_OF else {}


def scaled(features: Any, scaling: str, arrays: Mapping[str, ndarray] | None = None) -> Any:
    """The features on another scale; rows of zeros stay.

    l2          each row divided by its length
    column-max  each column divided by its `maxima`
    tf-idf      each value x replaced by (1 + ln x) idf, values below 1 by x idf, then each row
                divided by its length

    arrays  those of `scaling_arrays`
    """
    if scaling == "none":
        return features
    is_sparse = isinstance(features, csr_matrix)
    values, columns = (features.data, features.indices) if is_sparse else (features, slice(None))
    if scaling == "column-max":
        return _with_values(features, values / (arrays or {})["maxima"][columns])
    if scaling == "tf-idf":
        sizes = np.abs(values)
        values = np.where(sizes > 1, np.copysign(1 + np.log(np.maximum(sizes, 1)), values), values)
        features = _with_values(features, values * (arrays or {})["idf"][columns])
    lengths = row_lengths(features)
    lengths = np.where(lengths > 0, lengths, 1)
    if is_sparse:
        return _with_values(features, features.data / np.repeat(lengths, np.diff(features.indptr)))
    return _with_values(features, features / lengths[:, None])


def _with_values(features: Any, values: ndarray) -> Any:
    """Other values in the places of these, of their type."""
    values = values.astype(features.dtype)
    return (
        csr_matrix((values, features.indices, features.indptr), features.shape)
        if issparse(features)
        else values
    )


def row_lengths(features: Any) -> ndarray:
    """The L2 norm of each row, (n_rows,)."""
    if not isinstance(features, csr_matrix):
        return np.linalg.norm(features, axis=1)
    row = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
    return np.sqrt(
        np.bincount(
            row, weights=np.square(features.data, dtype=float64), minlength=features.shape[0]
        )
    )


def chosen_scaling(features: Any) -> str:
    """The scaling by default: tf-idf for counts, l2 for other sparse rows that differ in length,
    and none otherwise.

    Counts are whole numbers above 0, 1 the most frequent, some larger. Pixels and codes are whole
    numbers too, but 1 is rare.
    """
    if not isinstance(features, csr_matrix):
        return "none"
    some = features[:: max(1, features.shape[0] // MAX_SAMPLED)]
    values, n = np.unique(some.data[some.data != 0], return_counts=True)
    if (
        len(values) > 1
        and values[0] == 1 == values[n.argmax()]
        and (values == np.floor(values)).all()
    ):
        return "tf-idf"
    lengths = row_lengths(some)
    lengths = lengths[lengths > 0]
    return "l2" if len(lengths) and lengths.std() > UNEQUAL * lengths.mean() else "none"


def input_length(features: Any) -> float:
    """The root of the mean squared length of the rows that have any features; 1 where it is that,
    but for rounding.
    """
    is_sparse = isinstance(features, csr_matrix)
    n = (
        np.count_nonzero(np.diff(features.indptr))
        if is_sparse
        else np.count_nonzero(features.any(axis=1))
    )
    squares = np.square(features.data if is_sparse else features, dtype=float64)
    length = float(np.sqrt(np.sum(squares) / max(n, 1)))
    return length if abs(length - 1) > NEARLY and 0 < length < np.inf else 1.0
