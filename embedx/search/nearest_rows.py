"""Exact nearest neighbours by cosine among sparse rows, by an inverted index.

The index has a posting list for each feature: the rows that have it, with their values. Features
are numbered from the rarest to the most frequent, and divided into bands. A query goes through its
features in this order, and adds the product of query and row to the sum of each posted row. After a
band, the cosine of row i is at most

    sum_i + |q'| |x'_i|        q', x'_i: values of query and row in later bands

by the inequality of Cauchy and Schwarz. Once few rows can still be among the best, their remaining
features are read row by row, and the long posting lists of frequent features are not read: the
max-score algorithm of Turtle & Flood 1995, with norms in place of maxima.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64, int32, int64, ndarray, uint16
from scipy.sparse import csr_matrix

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.select import insert
from embedx.kernels.simd import SIMD_WIDTH, ZERO, load, multiply_add, n_above, padded, splat
from embedx.kernels.threads import PARTS_PER_THREAD, in_parts
from embedx.labeled.scaling import unit_rows

# Where the bands after the first begin: share of the postings that come before, if each row of the
# index is a query.
BAND_SHARES = np.array([0.15, 0.3, 0.5])
N_BANDS = len(BAND_SHARES) + 1
# Time to read a value of a row, in times to read a posting.
VALUE_COST = 6
# Number of rows of a block, whose postings number them by uint16: reading postings is bound by
# memory.
BLOCK = 1 << 16
# Rows that are compared with a bound in the time to read a posting.
BOUNDS_PER_POSTING = 2
# Tolerance for rounding, in cosines.
SLACK = float32(1e-5)
# In place of the size of a result that needs more postings.
UNFINISHED = -1


class RowIndex(NamedTuple):
    """Rows of norm 1 or 0, by row and by feature; the features of a row are ascending."""

    feature_of_column: ndarray  # int32 (n_features,): the number of the feature of each column
    # Row i has the features and values [offsets[i]:offsets[i + 1]].
    offsets: ndarray  # int64 (n_rows + 1,)
    features: ndarray  # int32 (n_values,)
    values: ndarray  # float32 (n_values,)
    n_postings: ndarray  # int64 (n_features,): number of postings of each feature
    # In block b, feature f has the postings [first_posting[b, f]:first_posting[b, f + 1]].
    first_posting: ndarray  # int64 (n_blocks, n_features + 1)
    posting_row: ndarray  # uint16 (n_values,): counted from the first row of the block
    posting_value: ndarray  # float32 (n_values,)
    # Band b has the features first_feature[b]:first_feature[b + 1].
    first_feature: ndarray  # int64 (N_BANDS + 1,)
    first_value: ndarray  # int64 (N_BANDS, n_rows): place of a row's first value in the band
    # Norm of a row's values in the band and later ones.
    norm: ndarray  # float32 (N_BANDS, n_padded)


class Queries(NamedTuple):
    """The queries, of norm 1 or 0: query q has the features and values [offsets[q]:offsets[q + 1]],
    the features ascending.
    """

    offsets: ndarray  # int64 (n + 1,)
    features: ndarray  # int32
    values: ndarray  # float32


class NearestRows(NamedTuple):
    """The nearest rows of each query, and their cosines."""

    ids: ndarray  # int32 (n, k)
    cosines: ndarray  # float32 (n, k), descending


class Workspace(NamedTuple):
    """A thread's buffers for a query."""

    query: ndarray  # float32 (n_features,): values of the query; zeros before and after
    query_norm: ndarray  # float32 (N_BANDS,): norm of its values in the band and later ones
    sums: ndarray  # float32 (1, n_padded): product of the query and each row so far
    best: ndarray  # int32 (1, k): rows with the highest sums
    best_sums: ndarray  # float32 (1, k)
    best_cosines: ndarray  # float32 (1, k): cosines of the rows `best`, in falling order
    best_by_cosine: ndarray  # int32 (1, k)


def row_index(rows: csr_matrix) -> RowIndex:
    """The index of rows, which are normalised."""
    rows = unit_rows(csr_matrix(rows, dtype=float32))
    n_rows, n_columns = rows.shape
    counts = np.bincount(rows.indices, minlength=n_columns)
    rarest_first = np.argsort(counts, kind="stable")
    feature_of_column = np.empty(n_columns, int32)
    feature_of_column[rarest_first] = np.arange(n_columns)
    rows = csr_matrix((rows.data, feature_of_column[rows.indices], rows.indptr), rows.shape)
    rows.sort_indices()

    n_postings = counts[rarest_first]
    first_feature = _first_features(n_postings)
    offsets = rows.indptr.astype(int64)
    features = rows.indices.astype(int32, copy=False)
    first_value = np.empty((N_BANDS, n_rows), int64)
    norm = np.zeros((N_BANDS, padded(n_rows)), float32)
    write_bands(offsets, features, rows.data, first_feature, first_value, norm)
    first_posting, posting_row, posting_value = _postings(rows)
    return RowIndex(
        feature_of_column=feature_of_column,
        offsets=offsets,
        features=features,
        values=rows.data,
        n_postings=n_postings,
        first_posting=first_posting,
        posting_row=posting_row,
        posting_value=posting_value,
        first_feature=first_feature,
        first_value=first_value,
        norm=norm,
    )


def _postings(rows: csr_matrix) -> tuple[ndarray, ndarray, ndarray]:
    """`first_posting`, `posting_row` and `posting_value` of `RowIndex`."""
    n_rows, n_features = rows.shape
    starts = range(0, n_rows, BLOCK)
    first_posting = np.empty((len(starts), n_features + 1), int64)
    posting_row = np.empty(rows.nnz, uint16)
    posting_value = np.empty(rows.nnz, float32)
    for block, start in enumerate(starts):
        columns = rows[start : start + BLOCK].tocsc()
        first_posting[block] = rows.indptr[start] + columns.indptr.astype(int64)
        postings = slice(first_posting[block, 0], first_posting[block, -1])
        posting_row[postings] = columns.indices
        posting_value[postings] = columns.data
    return first_posting, posting_row, posting_value


def _first_features(counts: ndarray) -> ndarray:
    """The first feature of each band, then the number of features, int64 (N_BANDS + 1,).

    counts  number of postings of each feature, not falling
    """
    first_feature = np.zeros(N_BANDS + 1, int64)
    n_read = np.cumsum(np.square(counts, dtype=float64))
    if len(n_read):
        first_feature[1:-1] = np.searchsorted(n_read, BAND_SHARES * n_read[-1])
    first_feature[-1] = len(counts)
    return first_feature


@kernel
def write_bands(offsets, features, values, first_feature, first_value, norm):
    """Write the place of each row's first value in each band, and the norm of its values from
    there on.
    """
    for i in range(len(offsets) - 1):
        at = offsets[i + 1]
        square = ZERO
        for band in range(N_BANDS - 1, -1, -1):
            while at > offsets[i] and features[at - 1] >= first_feature[band]:
                at -= 1
                square += values[at] * values[at]
            first_value[band, i] = at
            norm[band, i] = np.sqrt(square)


def nearest_rows(index: RowIndex, queries: Any, k: int, threads: int) -> NearestRows:
    """The k nearest rows of each query; of equal cosines the lower id first.

    Only cosines above 0 count; the places of missing ones have cosine 0.
    """
    queries = unit_rows(csr_matrix(queries, dtype=float32))
    features = index.feature_of_column[queries.indices]
    queries = csr_matrix((queries.data, features, queries.indptr), queries.shape)
    queries.sort_indices()
    n, n_features = queries.shape
    arrays = Queries(queries.indptr.astype(int64), queries.indices.astype(int32), queries.data)
    nearest = NearestRows(np.zeros((n, k), int32), np.zeros((n, k), float32))

    def search(begin: int, end: int) -> None:
        n_padded = index.norm.shape[1]
        workspace = Workspace(
            query=np.zeros(n_features, float32),
            query_norm=np.empty(N_BANDS, float32),
            sums=np.empty((1, n_padded), float32),
            best=np.zeros((1, k), int32),
            best_sums=np.zeros((1, k), float32),
            best_cosines=np.zeros((1, k), float32),
            best_by_cosine=np.zeros((1, k), int32),
        )
        write_nearest(index, arrays, begin, end, workspace, nearest)

    in_parts(search, n, threads, PARTS_PER_THREAD)
    return nearest


@kernel
def write_nearest(index, queries, begin, end, workspace, nearest):
    """Write the results for the queries begin:end; see `nearest_rows`."""
    offsets = queries.offsets
    features = queries.features
    values = queries.values
    ids = nearest.ids
    cosines = nearest.cosines
    n_rows = len(index.offsets) - 1
    for q in range(begin, end):
        n_left = start_query(index, queries, q, workspace)
        n = UNFINISHED
        band = 0
        at = offsets[q]
        while n == UNFINISHED and band < N_BANDS:
            while at < offsets[q + 1] and features[at] < index.first_feature[band + 1]:
                n_left -= add_postings(index, features[at], values[at], workspace.sums)
                at += 1
            band += 1
            # Fewer postings are read faster than all rows are bounded.
            if n_left > n_rows // BOUNDS_PER_POSTING:
                n = finish_by_row(index, band, n_left, workspace, nearest, q)
        if n == UNFINISHED:
            n = write_highest_sums(workspace.sums, n_rows, cosines, ids, q)
        for at in range(offsets[q], offsets[q + 1]):
            workspace.query[features[at]] = 0
        ids[q, n:] = 0
        cosines[q, n:] = 0


@kernel_part
def start_query(index, queries, q, workspace):
    """Clear the sums, write the values and norms of query q to the workspace, and return the number
    of postings of its features.
    """
    workspace.sums[0, :] = 0
    n_postings = int64(0)
    band = N_BANDS - 1
    square = ZERO
    for at in range(queries.offsets[q + 1] - 1, queries.offsets[q] - 1, -1):
        f = queries.features[at]
        value = queries.values[at]
        while f < index.first_feature[band]:
            workspace.query_norm[band] = np.sqrt(square)
            band -= 1
        square += value * value
        workspace.query[f] = value
        n_postings += index.n_postings[f]
    for earlier in range(band + 1):
        workspace.query_norm[earlier] = np.sqrt(square)
    return n_postings


@kernel_part
def add_postings(index, feature, value, sums):
    """Add the products of a feature, which has this value in the query, to the sums of the rows;
    return the number of its postings.
    """
    for block in range(len(index.first_posting)):
        first_row = block * BLOCK
        first = index.first_posting[block, feature]
        for p in range(first, index.first_posting[block, feature + 1]):
            sums[0, first_row + index.posting_row[p]] += value * index.posting_value[p]
    return index.n_postings[feature]


@kernel_part
def write_highest_sums(sums, n_rows, highest, rows, r):
    """Write the highest sums above 0 to highest[r], falling, and their rows to rows[r]; return
    their number.
    """
    n = 0
    threshold = ZERO
    for start in range(0, n_rows, SIMD_WIDTH):
        if n_above(load(sums, 0, start), splat(threshold)) > 0:
            for i in range(start, min(start + SIMD_WIDTH, n_rows)):
                if sums[0, i] > threshold:
                    n = insert(sums[0, i], i, highest, rows, r, n)
                    threshold = highest[r, n - 1] if n == highest.shape[1] else ZERO
    return n


@kernel_part
def cosine_by_row(index, band, i, workspace):
    """The cosine of row i: its sum, and the products of its values from `band` on, which are read.

    band  the first band that is not in the sums
    """
    product = ZERO
    for at in range(index.first_value[band, i], index.offsets[i + 1]):
        product += workspace.query[index.features[at]] * index.values[at]
    return workspace.sums[0, i] + product


@kernel_part
def kth_cosine(index, band, k, workspace):
    """A lower bound of the k-th highest cosine: the lowest cosine of the rows with the k highest
    sums. 0 if fewer rows have a sum above 0.

    band  the first band that has not been read
    """
    best = workspace.best
    n_rows = len(index.offsets) - 1
    if write_highest_sums(workspace.sums, n_rows, workspace.best_sums, best, 0) < k:
        return ZERO
    best_cosines = workspace.best_cosines
    n = 0
    for j in range(k):
        i = best[0, j]
        cosine = cosine_by_row(index, band, i, workspace)
        n = insert(cosine, i, best_cosines, workspace.best_by_cosine, 0, n)
    return best_cosines[0, k - 1]


@kernel_part
def finish_by_row(index, band, n_left, workspace, nearest, q):
    """Write the result for query q by reading all rows that may be in it; return its size, or
    UNFINISHED if these rows are too many, or no bound of their cosines is known so far.

    band    the first band that has not been read
    n_left  number of its postings and those of later ones
    """
    ids = nearest.ids
    min_cosine = kth_cosine(index, band, ids.shape[1], workspace) - SLACK
    if min_cosine <= 0:
        return UNFINISHED
    n_rows = len(index.offsets) - 1
    values_per_row = index.offsets[n_rows] // n_rows + 1
    n_candidates = int64(0)
    for start in range(0, n_rows, SIMD_WIDTH):
        n_candidates += n_above(max_cosines(index, band, workspace, start), splat(min_cosine))
    if n_candidates > n_left // (VALUE_COST * values_per_row):
        return UNFINISHED
    n = 0
    for start in range(0, n_rows, SIMD_WIDTH):
        if n_above(max_cosines(index, band, workspace, start), splat(min_cosine)) > 0:
            for i in range(start, min(start + SIMD_WIDTH, n_rows)):
                if max_cosine(index, band, workspace, i) > min_cosine:
                    cosine = cosine_by_row(index, band, i, workspace)
                    if cosine > 0:
                        n = insert(cosine, i, nearest.cosines, ids, q, n)
                    if n == ids.shape[1]:
                        min_cosine = max(min_cosine, nearest.cosines[q, n - 1] - SLACK)
    return n


@kernel_part
def max_cosine(index, band, workspace, i):
    """An upper bound of the cosine of row i; see the beginning of the file.

    band  the first band that has not been read
    """
    return workspace.sums[0, i] + workspace.query_norm[band] * index.norm[band, i]


@kernel_part
def max_cosines(index, band, workspace, start):
    """`max_cosine` of sixteen rows, from row `start` on."""
    norms = load(index.norm, band, start)
    return multiply_add(splat(workspace.query_norm[band]), norms, load(workspace.sums, 0, start))
