"""Which labels are alike: those whose rows have the same features. Labels as vectors, and an order that clusters them.

The vectors are the "positive instance feature aggregation" of PECOS (Yu et al. 2022).
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from embedx.labeled.data import Labels
from embedx.search.balanced_tree import SparseVectors, balanced_tree

MAX_FEATURES = 64  # of a label, the largest, that its cluster is chosen by
BLOCK_LABELS = 1 << 12  # labels whose sums of sparse features are computed at a time


def vectors_of(features: Any, labels: Labels, wanted: np.ndarray) -> SparseVectors:
    """A vector for each of the `wanted` labels, int (n,): the sum of the features of its rows, the largest numbers of it, at
    length one. Of dense features the mean is taken away before, which all labels have in common.
    """
    place = np.full(int(labels.ids.max(initial=-1)) + 1, -1, dtype=np.int64)
    place[wanted] = np.arange(len(wanted))
    rows = labels.row_of_id
    ones = np.ones(len(rows), dtype=np.float32)
    has_label = csr_matrix((ones, (place[labels.ids], rows)), shape=(len(wanted), len(labels)))
    if issparse(features):
        return _sparse_vectors(csr_matrix(features, dtype=np.float32), has_label)
    return _dense_vectors(np.asarray(features, dtype=np.float32), has_label)


def _sparse_vectors(features: csr_matrix, has_label: csr_matrix) -> SparseVectors:
    """`vectors_of` of sparse features; has_label float32 (n_labels, n_rows)."""
    sizes, columns, values = [np.zeros(1, dtype=np.int64)], [], []
    for start in range(0, has_label.shape[0], BLOCK_LABELS):
        sums = has_label[start : start + BLOCK_LABELS] @ features
        sums.sort_indices()
        label = np.repeat(np.arange(sums.shape[0]), np.diff(sums.indptr))
        order = np.lexsort((-np.abs(sums.data), label))  # the labels stay where they are
        kept = np.sort(order[np.arange(len(order)) - sums.indptr[label] < MAX_FEATURES])
        squares = np.bincount(label[kept], sums.data[kept].astype(np.float64) ** 2, sums.shape[0])
        sizes.append(np.bincount(label[kept], minlength=sums.shape[0]))
        columns.append(sums.indices[kept].astype(np.int32))
        values.append((sums.data[kept] / np.maximum(np.sqrt(squares), 1e-15)[label[kept]]).astype(np.float32))
    return SparseVectors(np.cumsum(np.concatenate(sizes)), np.concatenate(columns), np.concatenate(values))


def _dense_vectors(features: np.ndarray, has_label: csr_matrix) -> SparseVectors:
    """`vectors_of` of dense features; has_label float32 (n_labels, n_rows)."""
    mean = features.mean(axis=0, dtype=np.float64).astype(np.float32)
    sums = np.asarray(has_label @ features - np.asarray(has_label.sum(axis=1), dtype=np.float32).reshape(-1, 1) * mean)
    columns = np.sort(np.argsort(-np.abs(sums), axis=1)[:, :MAX_FEATURES], axis=1)
    values = np.take_along_axis(sums, columns, axis=1)
    values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-15)
    offsets = np.arange(len(sums) + 1, dtype=np.int64) * columns.shape[1]
    return SparseVectors(offsets, columns.ravel().astype(np.int32), values.ravel().astype(np.float32))


def clustered_order(features: Any, labels: Labels, counts: np.ndarray, seed: int, threads: int) -> np.ndarray:
    """All labels, int32 (n_labels,), in an order whose halves, quarters, ... are clusters; those that never occur come last.

    counts  int64 (n_labels,)  how often each label occurs in the rows
    """
    seen = np.flatnonzero(counts)
    depth = max(len(seen), 1).bit_length() - 1
    order, _ = balanced_tree(vectors_of(features, labels, seen), features.shape[1], depth, seed, threads)
    return np.concatenate([seen[order], np.flatnonzero(np.asarray(counts) == 0)]).astype(np.int32)
