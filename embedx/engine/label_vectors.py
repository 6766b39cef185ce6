"""Labels as vectors: the sum of the features of each label's examples, its largest numbers, at length one.

"Positive instance feature aggregation" of PECOS (Yu et al. 2022): labels whose examples are alike are alike.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from embedx.engine.examples import Csr, Examples
from embedx.kernels.compiled import kernel
from embedx.kernels.select import select
from embedx.search.balanced_tree import SparseVectors


@kernel
def sum_features(examples, positives, begin, end, sums, size, touched, n_kept, columns, values, sizes):
    """Write the vectors of the labels begin:end, at most n_kept numbers each, to the rows of `columns` and `values`.

    `sums` and `size` are zero before and after.
    """
    for k in range(begin, end):
        n = 0
        for at in range(positives.indptr[k], positives.indptr[k + 1]):
            i = positives.indices[at]
            for f in range(examples.offsets[i], examples.offsets[i + 1]):
                column = examples.columns[f]
                if size[column] == 0:
                    size[column], touched[n] = 1, column
                    n += 1
                sums[column] += examples.values[f]
        kept = min(n, n_kept)
        for t in range(n):
            size[touched[t]] = -abs(sums[touched[t]])
        if kept < n:
            select(touched, size, 0, kept, n)
        square = np.float32(0)
        for d in range(kept):
            square += sums[touched[d]] * sums[touched[d]]
        scale = np.float32(1) / np.sqrt(max(square, np.float32(1e-30)))
        for d in range(kept):
            columns[k, d], values[k, d] = touched[d], sums[touched[d]] * scale
        sizes[k] = kept
        for d in range(n):
            sums[touched[d]], size[touched[d]] = 0, 0


def label_vectors(examples: Examples, positives: Csr, n_features: int, n_kept: int, threads: int) -> SparseVectors:
    """The vectors of labels whose examples are `positives`, of sparse features; at most `n_kept` numbers each."""
    n = len(positives.indptr) - 1
    columns, values = np.zeros((n, n_kept), dtype=np.int32), np.zeros((n, n_kept), dtype=np.float32)
    sizes = np.zeros(n, dtype=np.int64)
    edges = np.linspace(0, len(positives.indices), 4 * threads + 1)  # of parts with as many examples each
    edges = np.searchsorted(positives.indptr, edges, side="left").astype(np.int64)
    edges[0], edges[-1] = 0, n

    def work(part: int) -> None:
        sums, size = np.zeros(n_features, dtype=np.float32), np.zeros(n_features, dtype=np.float32)
        touched = np.zeros(n_features, dtype=np.int32)
        sum_features(examples, positives, edges[part], edges[part + 1], sums, size, touched, n_kept, columns, values, sizes)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(len(edges) - 1)))
    is_kept = np.arange(n_kept) < sizes[:, None]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return SparseVectors(offsets, columns[is_kept], values[is_kept])
