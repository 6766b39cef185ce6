"""Labelled examples as the kernels of classification see them."""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray

from embedx.labeled.data import Labeled, Labels


class Examples(NamedTuple):
    """Features, dense or sparse, and labels. The half that is not used is empty."""

    dense: ndarray  # float32 (n, n_features)
    offsets: ndarray  # int64 (n + 1,): the features of example i are those at offsets[i]:offsets[i + 1]
    columns: ndarray  # int32
    values: ndarray  # float32
    label_offsets: ndarray  # int64 (n + 1,)
    label_ids: ndarray  # int32


def examples_of(features: object, labels: Labels) -> Examples:
    """The arrays of a data set, without copying where they have the kernels' types already."""
    data = Labeled(features, labels, 0)
    empty = np.zeros((0, 0), float32)
    if data.is_sparse:
        dense = empty
        offsets, columns, values = data.features.indptr, data.features.indices, data.features.data
    else:
        dense = np.ascontiguousarray(data.features, float32)
        # Without a single column the kernels, which look at dense.size, take the data for sparse ones: there are no values.
        offsets, columns, values = np.zeros(1 if dense.size else len(dense) + 1), np.zeros(0), np.zeros(0)
    return Examples(
        np.asarray(dense), np.ascontiguousarray(offsets, int64), np.ascontiguousarray(columns, int32),
        np.ascontiguousarray(values, float32), np.ascontiguousarray(labels.offsets, int64),
        np.ascontiguousarray(labels.ids, int32),
    )  # fmt: skip


def examples_at(examples: Examples, chosen: ndarray) -> Examples:
    """A copy of some examples with sparse features, one after another."""
    features, offsets = places_of(examples.offsets, chosen)
    labels, label_offsets = places_of(examples.label_offsets, chosen)
    return Examples(
        examples.dense, offsets, examples.columns[features], examples.values[features], label_offsets,
        examples.label_ids[labels],
    )  # fmt: skip


def places_of(offsets: ndarray, chosen: ndarray) -> tuple[ndarray, ndarray]:
    """Where the elements of some rows are, row by row, and the offsets of these rows among them."""
    first, sizes = offsets[chosen], offsets[chosen + 1] - offsets[chosen]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return np.repeat(first - ends[:-1], sizes) + np.arange(ends[-1]), ends


class Csr(NamedTuple):
    """Lists in compressed rows: those of k are indices[indptr[k]:indptr[k + 1]]."""

    indptr: ndarray  # int64 (n + 1,)
    indices: ndarray  # int32


def csr_of(keys: ndarray, indices: ndarray, n: int) -> Csr:
    """For each of n keys its distinct indices, ascending."""
    span = int(indices.max(initial=0)) + 1
    pairs = np.unique(keys.astype(int64) * span + indices)
    keys, indices = pairs // span, (pairs % span).astype(int32)
    return Csr(np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=n))]).astype(int64), indices)
