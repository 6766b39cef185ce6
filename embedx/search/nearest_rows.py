"""Exact nearest neighbours by cosine among sparse rows, by an inverted index.

The index has a posting list for each feature: the rows that have it, with their values. Features
are numbered from the rarest to the most frequent, and divided into bands. A query goes through its
features in this order, and adds the product of query and row to the sum of each posted row. After a
band, the cosine of row i is at most

    sum_i + Σ_b |q_b| |x_ib|        b: later bands, q_b and x_ib: features of query and row in b

by the inequality of Cauchy and Schwarz. Once few rows can still be among the best, their remaining
features are read row by row, and the long posting lists of frequent features are not read: the
max-score algorithm of Turtle & Flood 1995, with norms in place of maxima.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64, int32, int64, ndarray
from scipy.sparse import csr_matrix

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.select import insert
from embedx.kernels.simd import ZERO, padded
from embedx.kernels.threads import PARTS_PER_THREAD, in_parts
from embedx.labeled.scaling import scaled

# Where the bands after the first begin: share of the postings that come before, if each row of the
# index is a query.
BAND_SHARES = np.array([0.3, 0.5, 0.7])
N_BANDS = len(BAND_SHARES) + 1
# Time to read a value of a row, in times to read a posting.
VALUE_COST = 4
# Number of rows that are compared with a bound at once. It is a constant, and arrays by row are
# padded to a multiple of it, so that the compiler makes vector instructions of a block.
BLOCK = 64
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
    # Feature f has the postings [first_posting[f]:first_posting[f + 1]].
    first_posting: ndarray  # int64 (n_features + 1,)
    posting_row: ndarray  # int32 (n_values,)
    posting_value: ndarray  # float32 (n_values,)
    # Band b has the features first_feature[b]:first_feature[b + 1].
    first_feature: ndarray  # int64 (N_BANDS + 1,)
    first_value: ndarray  # int64 (N_BANDS, n_rows): place of a row's first value in the band
    norm: ndarray  # float32 (N_BANDS, n_padded): norm of a row's values in the band


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
    query_norm: ndarray  # float32 (N_BANDS,): norms of its bands; 0 for those that were read
    sums: ndarray  # float32 (n_padded,): product of the query and each row so far
    best: ndarray  # int32 (1, k): rows with the highest sums
    best_sums: ndarray  # float32 (1, k)
    best_cosines: ndarray  # float32 (1, k): cosines of the rows `best`, in falling order
    best_by_cosine: ndarray  # int32 (1, k)
    candidates: ndarray  # int32 (n_padded,): rows that may be among the nearest


def row_index(rows: csr_matrix) -> RowIndex:
    """The index of rows, which are normalised."""
    rows = scaled(csr_matrix(rows, dtype=float32), "l2")
    n_rows, n_columns = rows.shape
    counts = np.bincount(rows.indices, minlength=n_columns)
    rarest_first = np.argsort(counts, kind="stable")
    feature_of_column = np.empty(n_columns, int32)
    feature_of_column[rarest_first] = np.arange(n_columns)
    rows = csr_matrix((rows.data, feature_of_column[rows.indices], rows.indptr), rows.shape)
    columns = rows.tocsc()
    rows = columns.tocsr()  # with ascending features

    first_feature = _first_features(counts[rarest_first])
    offsets = rows.indptr.astype(int64)
    features = rows.indices.astype(int32, copy=False)
    first_value = np.empty((N_BANDS, n_rows), int64)
    norm = np.zeros((N_BANDS, padded(n_rows, BLOCK)), float32)
    write_bands(offsets, features, rows.data, first_feature, first_value, norm)
    return RowIndex(
        feature_of_column,
        offsets,
        features,
        rows.data,
        columns.indptr.astype(int64),
        columns.indices.astype(int32, copy=False),
        columns.data,
        first_feature,
        first_value,
        norm,
    )


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
    """Write the place of each row's first value in each band, and the norm of its values there."""
    for i in range(len(offsets) - 1):
        at = offsets[i]
        for band in range(N_BANDS):
            first_value[band, i] = at
            square = ZERO
            while at < offsets[i + 1] and features[at] < first_feature[band + 1]:
                square += values[at] * values[at]
                at += 1
            norm[band, i] = np.sqrt(square)


def nearest_rows(index: RowIndex, queries: Any, k: int, threads: int) -> NearestRows:
    """The k nearest rows of each query; of equal cosines the lower id first.

    Only cosines above 0 count; the places of missing ones have cosine 0.
    """
    queries = scaled(csr_matrix(queries, dtype=float32), "l2")
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
            sums=np.empty(n_padded, float32),
            best=np.zeros((1, k), int32),
            best_sums=np.zeros((1, k), float32),
            best_cosines=np.zeros((1, k), float32),
            best_by_cosine=np.zeros((1, k), int32),
            candidates=np.empty(n_padded, int32),
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
            workspace.query_norm[band] = 0
            band += 1
            # Fewer postings are read faster than all rows are bounded.
            if n_left > n_rows:
                n = finish_by_row(index, band, n_left, workspace, nearest, q)
        if n == UNFINISHED:
            n = write_highest_sums(workspace.sums, cosines, ids, q)
        for at in range(offsets[q], offsets[q + 1]):
            workspace.query[features[at]] = 0
        ids[q, n:] = 0
        cosines[q, n:] = 0


@kernel_part
def start_query(index, queries, q, workspace):
    """Clear the sums, write the values and norms of query q to the workspace, and return the number
    of postings of its features.
    """
    workspace.sums[:] = 0
    workspace.query_norm[:] = 0
    n_postings = int64(0)
    band = 0
    for at in range(queries.offsets[q], queries.offsets[q + 1]):
        f = queries.features[at]
        value = queries.values[at]
        while f >= index.first_feature[band + 1]:
            band += 1
        workspace.query_norm[band] += value * value
        workspace.query[f] = value
        n_postings += index.first_posting[f + 1] - index.first_posting[f]
    for band in range(N_BANDS):
        workspace.query_norm[band] = np.sqrt(workspace.query_norm[band])
    return n_postings


@kernel_part
def add_postings(index, feature, value, sums):
    """Add the products of a feature, which has this value in the query, to the sums of the rows;
    return the number of its postings.
    """
    first = index.first_posting[feature]
    last = index.first_posting[feature + 1]
    for p in range(first, last):
        sums[index.posting_row[p]] += value * index.posting_value[p]
    return last - first


@kernel_part
def write_highest_sums(sums, highest, rows, r):
    """Write the highest sums above 0 to highest[r], falling, and their rows to rows[r]; return
    their number.
    """
    n = 0
    threshold = ZERO
    for block in range(len(sums) // BLOCK):
        start = block * BLOCK
        n_higher = int32(0)
        for i in range(BLOCK):
            n_higher += int32(sums[start + i] > threshold)
        if n_higher:
            for i in range(start, start + BLOCK):
                if sums[i] > threshold:
                    n = insert(sums[i], i, highest, rows, r, n)
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
    return workspace.sums[i] + product


@kernel_part
def kth_cosine(index, band, k, workspace):
    """A lower bound of the k-th highest cosine: the lowest cosine of the rows with the k highest
    sums. 0 if fewer rows have a sum above 0.

    band  the first band that has not been read
    """
    best = workspace.best
    if write_highest_sums(workspace.sums, workspace.best_sums, best, 0) < k:
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
    max_candidates = n_left // (VALUE_COST * values_per_row)
    n_candidates = write_candidates(index, min_cosine, max_candidates, workspace)
    if n_candidates > max_candidates:
        return UNFINISHED
    n = 0
    for j in range(n_candidates):
        i = workspace.candidates[j]
        cosine = cosine_by_row(index, band, i, workspace)
        if cosine > 0:
            n = insert(cosine, i, nearest.cosines, ids, q, n)
    return n


@kernel_part
def max_cosine(index, workspace, i):
    """An upper bound of the cosine of row i; see the beginning of the file."""
    bound = workspace.sums[i]
    for band in range(1, N_BANDS):
        bound += workspace.query_norm[band] * index.norm[band, i]
    return bound


@kernel_part
def n_above(index, workspace, start, min_cosine):
    """The number of rows of a block, from row `start`, whose cosine may be above `min_cosine`."""
    n = int32(0)
    for i in range(BLOCK):
        n += int32(max_cosine(index, workspace, start + i) > min_cosine)
    return n


@kernel_part
def write_candidates(index, min_cosine, max_candidates, workspace):
    """Write the rows whose cosine may be above `min_cosine`, unless they are more than
    `max_candidates`; return their number.
    """
    n_blocks = len(workspace.sums) // BLOCK
    n_candidates = int32(0)
    for block in range(n_blocks):
        n_candidates += n_above(index, workspace, block * BLOCK, min_cosine)
    if n_candidates > max_candidates:
        return int64(n_candidates)

    n = int64(0)
    for block in range(n_blocks):
        start = block * BLOCK
        if n_above(index, workspace, start, min_cosine):
            for i in range(start, start + BLOCK):
                if max_cosine(index, workspace, i) > min_cosine:
                    workspace.candidates[n] = i
                    n += 1
    return n
