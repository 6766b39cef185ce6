"""Which of a row's labels count, and on what scale its features are: decided at training, kept with the model."""

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from embedx.labeled.data import Labels

LABEL_RULES = ("all", "first", "lowest-id", "one")
SCALINGS = ("none", "l2", "column-max")
NEARLY = 1e-3  # how far from 1 the length of inputs may be that counts as 1


def chosen_labels(labels: Labels, rule: str) -> Labels:
    """The labels that count: the first of each row, that with the lowest id, or all ("one" chooses again at each visit)."""
    if rule not in ("first", "lowest-id"):
        return labels
    starts = labels.offsets[:-1][labels.n_of_row > 0]
    if rule == "first":
        return labels.where(starts)
    return labels.where(np.lexsort((labels.ids, labels.row_of_id))[starts])


def known_labels(labels: Labels, counts: np.ndarray) -> Labels:
    """Without the labels that no training row has; counts int64 (n_labels,)."""
    return labels.where(np.isin(labels.ids, np.flatnonzero(counts)))


def column_maxima(features: Any) -> np.ndarray:
    """The largest absolute value of each feature, float32 (n_features,); 1 where it never occurs."""
    if isinstance(features, csr_matrix):
        largest = np.zeros(features.shape[1], dtype=np.float32)
        np.maximum.at(largest, features.indices, np.abs(features.data))
    else:
        largest = np.abs(features).max(axis=0, initial=0)
    return np.where(largest > 0, largest, np.float32(1)).astype(np.float32)


def scaled(features: Any, scaling: str, maxima: np.ndarray | None = None) -> Any:
    """The features on another scale: each row of length 1, or each column divided by its `maxima`; rows of zeros stay."""
    if scaling == "none":
        return features
    if isinstance(features, csr_matrix):
        if scaling == "l2":
            row = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
            lengths = np.sqrt(np.bincount(row, weights=features.data.astype(np.float64) ** 2, minlength=features.shape[0]))
            divisor = np.where(lengths > 0, lengths, 1)[row]
        else:
            assert maxima is not None
            divisor = maxima[features.indices]
        return csr_matrix(((features.data / divisor).astype(features.dtype), features.indices, features.indptr), features.shape)
    if scaling == "l2":
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        return (features / np.where(lengths > 0, lengths, 1)).astype(features.dtype)
    return (features / maxima).astype(features.dtype)


def input_length(features: Any) -> float:
    """The root of the mean squared length of the rows that have any features; 1 where it is that, but for rounding."""
    is_sparse = isinstance(features, csr_matrix)
    n = np.count_nonzero(np.diff(features.indptr)) if is_sparse else np.count_nonzero(features.any(axis=1))
    squares = np.square(features.data if is_sparse else features, dtype=np.float64)
    length = float(np.sqrt(np.sum(squares) / max(n, 1)))
    return length if abs(length - 1) > NEARLY and 0 < length < np.inf else 1.0
