"""Labels as vectors, and an order of labels in which those with similar rows are neighbours.

The vectors are the "positive instance feature aggregation" of PECOS (Yu et al. 2022).
"""

from typing import Any

import numpy as np
from numpy import float32, float64, int32, int64, ndarray
from scipy.sparse import csr_matrix, issparse

from embedx.kernels.select import keep_largest
from embedx.kernels.threads import in_threads
from embedx.labeled.data import Labels, offsets_of
from embedx.search.balanced_tree import SparseVectors, balanced_tree

# Maximum number of features of a label's vector, the largest ones.
MAX_FEATURES = 64
# Labels whose sums of sparse features are computed at a time.
BLOCK_LABELS = 1 << 10


def vectors_of(
    features: Any, labels: Labels, some_labels: ndarray, threads: int = 1
) -> SparseVectors:
    """A vector of norm 1 for each of some labels: the normalised sum of the features of its rows.

    Only the MAX_FEATURES largest are kept. Dense features are centred first.

    some_labels  int (n,): distinct ids
    """
    has_label = _label_matrix(labels, some_labels)
    mean = None if issparse(features) else features.mean(axis=0, dtype=float64)
    features = features.astype(float32)

    def block_of_vectors(start: int) -> tuple[ndarray, ndarray, ndarray]:
        block = has_label[start : start + BLOCK_LABELS]
        sums = block @ features
        if mean is not None:
            n_rows = np.diff(block.indptr)
            sums = csr_matrix(sums - np.outer(n_rows, mean))
        return _largest_features(sums)

    starts = range(0, len(some_labels), BLOCK_LABELS)
    blocks = in_threads(block_of_vectors, threads, starts)
    sizes, columns, values = map(np.concatenate, zip(*blocks, strict=True))
    return SparseVectors(offsets_of(sizes), columns, values)


def _label_matrix(labels: Labels, some_labels: ndarray) -> csr_matrix:
    """The number of times that each row has each of some labels, float32 (n, n_rows)."""
    place = np.full(int(labels.ids.max(initial=-1)) + 1, -1, np.int64)
    place[some_labels] = np.arange(len(some_labels))
    ones = np.ones(len(labels.ids), float32)
    cells = (place[labels.ids], labels.row_of_id)
    return csr_matrix((ones, cells), shape=(len(some_labels), len(labels)))


def _largest_features(sums: csr_matrix) -> tuple[ndarray, ndarray, ndarray]:
    """The MAX_FEATURES largest values of each row, scaled to length one.

    Returns their number in each row, int (n,), and their columns and values, of one row after
    another.
    """
    n_rows, n_columns = sums.shape
    offsets = sums.indptr.astype(int64)
    columns = sums.indices.astype(int32)
    values = sums.data.astype(float32)
    sizes = np.zeros(n_rows, int64)
    order = np.zeros(int(np.diff(offsets).max(initial=0)), int32)
    key = np.zeros(n_columns, float32)
    keep_largest(offsets, columns, values, MAX_FEATURES, order, key, sizes)

    row = np.repeat(np.arange(n_rows), sizes)
    kept = np.repeat(offsets[:-1] - offsets_of(sizes)[:-1], sizes) + np.arange(sizes.sum())
    squares = np.bincount(row, values[kept].astype(float64) ** 2, n_rows)
    scaled = values[kept] / np.maximum(np.sqrt(squares), 1e-15)[row]
    return sizes, columns[kept], scaled.astype(float32)


def clustered_order(
    features: Any, labels: Labels, counts: ndarray, seed: int, threads: int
) -> ndarray:
    """All labels, int32 (n_labels,), in an order whose halves, quarters, ... are clusters.

    Labels that never occur come last.

    counts  int64 (n_labels,)  how often each label occurs in the rows
    """
    seen = np.flatnonzero(counts)
    unseen = np.flatnonzero(np.asarray(counts) == 0)
    depth = max(len(seen), 1).bit_length() - 1
    vectors = vectors_of(features, labels, seen, threads)
    order, _ = balanced_tree(vectors, features.shape[1], depth, seed, threads)
    return np.concatenate([seen[order], unseen]).astype(int32)
