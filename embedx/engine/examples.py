"""Labelled examples as plain arrays, for the kernels of classification."""

from typing import Any, NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray
from scipy.sparse import issparse

from embedx.labeled.data import Labels, distinct, offsets_of, places_of


class Examples(NamedTuple):
    """Features, dense or sparse, and labels. The arrays of the other kind are empty."""

    dense: ndarray  # float32 (n, n_features)
    # int64 (n + 1,): example i has columns and values [offsets[i]:offsets[i + 1]]
    offsets: ndarray
    columns: ndarray  # int32
    values: ndarray  # float32
    label_offsets: ndarray  # int64 (n + 1,)
    label_ids: ndarray  # int32
    # float32 (n,): the weight of each example's loss, 1 on average; (0,) where all are equal
    weight: ndarray


def examples_of(features: Any, labels: Labels, weights: ndarray | None = None) -> Examples:
    """The arrays of a data set; those that have the kernels' types already are not copied.

    weights  (n,): weights of the rows, on any scale; None where all are equal
    """
    dense = np.zeros((0, 0)) if issparse(features) else features
    offsets = columns = values = np.zeros(0)
    if issparse(features):
        offsets = features.indptr
        columns = features.indices
        values = features.data
    elif features.size:
        offsets = np.zeros(1)
    else:
        # Kernels take data without dense values for sparse ones, whose rows have offsets.
        offsets = np.zeros(len(features) + 1)
    weight = np.zeros(0) if weights is None else weights / weights.mean()
    return Examples(
        dense=np.ascontiguousarray(dense, float32),
        offsets=np.ascontiguousarray(offsets, int64),
        columns=np.ascontiguousarray(columns, int32),
        values=np.ascontiguousarray(values, float32),
        label_offsets=np.ascontiguousarray(labels.offsets, int64),
        label_ids=np.ascontiguousarray(labels.ids, int32),
        weight=np.ascontiguousarray(weight, float32),
    )


def examples_at(examples: Examples, chosen: ndarray) -> Examples:
    """A copy of the `chosen` examples, in this order; their features are sparse."""
    features, offsets = places_of(examples.offsets, chosen)
    labels, label_offsets = places_of(examples.label_offsets, chosen)
    return Examples(
        examples.dense,
        offsets,
        examples.columns[features],
        examples.values[features],
        label_offsets,
        examples.label_ids[labels],
        examples.weight[chosen] if examples.weight.size else examples.weight,
    )


class Csr(NamedTuple):
    """Compressed sparse rows: row k has indices[indptr[k]:indptr[k + 1]]."""

    indptr: ndarray  # int64 (n + 1,)
    indices: ndarray  # int32


def csr_of(keys: ndarray, indices: ndarray, n: int) -> Csr:
    """The distinct indices of each of n keys, ascending, as rows."""
    span = int(indices.max(initial=0)) + 1
    pairs = distinct(keys.astype(int64) * span + indices)
    keys = pairs // span
    indices = (pairs % span).astype(int32)
    return Csr(offsets_of(np.bincount(keys, minlength=n)), indices)
