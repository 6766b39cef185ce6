"""Which labels are alike: those whose rows have the same features. Labels as vectors, and an order
that clusters them.

The vectors are the "positive instance feature aggregation" of PECOS (Yu et al. 2022).
"""

from typing import Any

import numpy as np
from numpy import float32, float64, int32, ndarray
from scipy.sparse import csr_matrix, issparse

from embedx.kernels.threads import in_threads
from embedx.labeled.data import Labels, offsets_of
from embedx.search.balanced_tree import SparseVectors, balanced_tree

MAX_FEATURES = 64  # of a label, the largest, that its cluster is chosen by
BLOCK_LABELS = 1 << 10  # labels whose sums of sparse features are computed at a time


def vectors_of(features: Any, labels: Labels, wanted: ndarray, threads: int = 1) -> SparseVectors:
    """A vector for each of the `wanted` labels, int (n,): the sum of the features of its rows, the
    largest numbers of it, at length one. Of dense features the mean is taken away before, which all
    labels have in common.
    """
    place = np.full(int(labels.ids.max(initial=-1)) + 1, -1, np.int64)
    place[wanted] = np.arange(len(wanted))
    ones = np.ones(len(labels.ids), float32)
    has_label = csr_matrix(
        (ones, (place[labels.ids], labels.row_of_id)), shape=(len(wanted), len(labels))
    )
    mean = None if issparse(features) else features.mean(axis=0, dtype=float64)
    features = features.astype(float32)

    def of_block(start: int) -> tuple[ndarray, ndarray, ndarray]:
        some = has_label[start : start + BLOCK_LABELS]
        sums = some @ features
        if mean is not None:
            sums = csr_matrix(sums - np.outer(np.diff(some.indptr), mean))
        sums.sort_indices()
        label = np.repeat(np.arange(sums.shape[0]), np.diff(sums.indptr))
        order = np.lexsort((-np.abs(sums.data), label))  # the labels stay where they are
        kept = np.sort(order[np.arange(len(order)) - sums.indptr[label] < MAX_FEATURES])
        squares = np.bincount(label[kept], sums.data[kept].astype(float64) ** 2, sums.shape[0])
        values = sums.data[kept] / np.maximum(np.sqrt(squares), 1e-15)[label[kept]]
        return (
            np.bincount(label[kept], minlength=sums.shape[0]),
            sums.indices[kept].astype(int32),
            values.astype(float32),
        )

    found = in_threads(of_block, threads, range(0, len(wanted), BLOCK_LABELS))
    sizes, columns, values = (np.concatenate(each) for each in zip(*found, strict=True))
    return SparseVectors(offsets_of(sizes), columns, values)


def clustered_order(
    features: Any, labels: Labels, counts: ndarray, seed: int, threads: int
) -> ndarray:
    """All labels, int32 (n_labels,), in an order whose halves, quarters, ... are clusters; those
    that never occur come last.

    counts  int64 (n_labels,)  how often each label occurs in the rows
    """
    seen = np.flatnonzero(counts)
    depth = max(len(seen), 1).bit_length() - 1
    order, _ = balanced_tree(
        vectors_of(features, labels, seen, threads), features.shape[1], depth, seed, threads
    )
    return np.concatenate([seen[order], np.flatnonzero(np.asarray(counts) == 0)]).astype(int32)
