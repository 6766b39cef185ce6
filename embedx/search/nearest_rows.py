"""Exact nearest neighbours by cosine among sparse rows, by an inverted index.

The features of a query are visited from the rarest to the most frequent, in bands; the
products of a feature are added to all rows that have it. After a band, the cosine of a row is at
most its current sum plus, for each later band, the product of two norms: of the query's and of the
row's features of the band (Cauchy-Schwarz). Once few rows can still be among the best, the
remaining features of these are read row by row, and the long posting lists of frequent features
are not read (as in the max-score algorithm of Turtle & Flood 1995, with norms in place of maxima).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64, int32, int64, ndarray
from scipy.sparse import csr_matrix

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.select import insert
from embedx.kernels.simd import ZERO, padded
from embedx.kernels.threads import in_parts
from embedx.labeled.scaling import scaled

# Where the bands after the first begin, as fractions of the postings that a row of the index would
# read.
BANDS = np.array([0.3, 0.5, 0.7])
N_BANDS = len(BANDS) + 1
ROW_COST = 4  # cost of a value that is read by row, in postings
# Number of rows that are compared with a bound at once. It is a constant, and arrays by row are
# padded to a multiple of it, so that the compiler makes vector instructions of a block.
BLOCK = 64
SLACK = float32(1e-5)  # tolerance for rounding, in cosines


class RowIndex(NamedTuple):
    """Rows of norm 1 or 0, by row and by feature. Features are numbered from the rarest to the most
    frequent, and the values of a row are in this order.
    """

    number: ndarray  # int32 (n_features,): the number of each column
    offsets: ndarray  # int64 (n_rows + 1,)
    features: ndarray  # int32 (n_values,)
    values: ndarray  # float32 (n_values,)
    first_posting: ndarray  # int64 (n_features + 1,)
    posted_row: ndarray  # int32 (n_values,)
    posted_value: ndarray  # float32 (n_values,)
    first_of_band: ndarray  # int64 (N_BANDS + 1,): the first feature of each band
    begin: ndarray  # int64 (N_BANDS, n_rows): where a row's features of the band begin
    norm: ndarray  # float32 (N_BANDS, n_padded): norm of a row's features of the band


class Near(NamedTuple):
    """The nearest rows of each query, and their cosines."""

    ids: ndarray  # int32 (n, k)
    cosines: ndarray  # float32 (n, k), descending


class Workspace(NamedTuple):
    """A thread's buffers."""

    sums: ndarray  # float32 (n_padded,): the product of the query and each row so far
    norm: ndarray  # float32 (N_BANDS,): norms of the query's features by band
    likely: ndarray  # int32 (n_padded,)
    query: ndarray  # float32 (n_features,): zeros before and after
    item: ndarray  # int32 (1, k)
    score: ndarray  # float32 (1, k)
    exact_item: ndarray  # int32 (1, k)
    exact: ndarray  # float32 (1, k)


def row_index(rows: csr_matrix) -> RowIndex:
    """The index of rows, which are normalised."""
    rows = scaled(csr_matrix(rows, dtype=float32), "l2")
    counts = np.bincount(rows.indices, minlength=rows.shape[1])
    order = np.argsort(counts, kind="stable")
    number = np.empty(len(order), int32)
    number[order] = np.arange(len(order))
    rows = csr_matrix((rows.data, number[rows.indices], rows.indptr), rows.shape)
    columns = rows.tocsc()
    rows = columns.tocsr()
    read = np.cumsum(np.square(counts[order], dtype=float64))
    first_of_band = np.zeros(N_BANDS + 1, int64)
    first_of_band[1:-1] = np.searchsorted(read, BANDS * read[-1]) if len(read) else 0
    first_of_band[-1] = len(read)

    begin = np.empty((N_BANDS, rows.shape[0]), int64)
    norm = np.zeros((N_BANDS, padded(rows.shape[0], BLOCK)), float32)
    offsets = rows.indptr.astype(int64)
    features = rows.indices.astype(int32, copy=False)
    write_bands(offsets, features, rows.data, first_of_band, begin, norm)
    return RowIndex(
        number,
        offsets,
        features,
        rows.data,
        columns.indptr.astype(int64),
        columns.indices.astype(int32, copy=False),
        columns.data,
        first_of_band,
        begin,
        norm,
    )


@kernel
def write_bands(offsets, features, values, first_of_band, begin, norm):
    """Write where the features of a band begin in each row, and their norm."""
    for i in range(len(offsets) - 1):
        at = offsets[i]
        for band in range(N_BANDS):
            begin[band, i] = at
            square = ZERO
            while at < offsets[i + 1] and features[at] < first_of_band[band + 1]:
                square += values[at] * values[at]
                at += 1
            norm[band, i] = np.sqrt(square)


def nearest_rows(index: RowIndex, queries: Any, k: int, threads: int) -> Near:
    """The k nearest rows of each query; of equal cosines the lower id first.

    Only cosines above 0 count; the places of missing ones have cosine 0.
    """
    queries = scaled(csr_matrix(queries, dtype=float32), "l2")
    queries = csr_matrix(
        (queries.data, index.number[queries.indices], queries.indptr), queries.shape
    )
    queries.sort_indices()
    n = queries.shape[0]
    offsets = queries.indptr.astype(int64)
    columns = queries.indices.astype(int32)
    near = Near(np.zeros((n, k), int32), np.zeros((n, k), float32))

    def search(begin: int, end: int) -> None:
        n_padded = index.norm.shape[1]
        workspace = Workspace(
            sums=np.empty(n_padded, float32),
            norm=np.empty(N_BANDS, float32),
            likely=np.empty(n_padded, int32),
            query=np.zeros(queries.shape[1], float32),
            item=np.zeros((1, k), int32),
            score=np.zeros((1, k), float32),
            exact_item=np.zeros((1, k), int32),
            exact=np.zeros((1, k), float32),
        )
        write_nearest(index, offsets, columns, queries.data, begin, end, workspace, *near)

    in_parts(search, n, threads)
    return near


@kernel
def write_nearest(index, offsets, columns, values, begin, end, workspace, ids, cosines):
    """Write the results for the queries begin:end; see `nearest_rows`."""
    n_rows = len(index.offsets) - 1
    for e in range(begin, end):
        n_left = open_query(index, offsets, columns, values, e, workspace)
        n = -1
        f = offsets[e]
        for band in range(N_BANDS):
            while f < offsets[e + 1] and columns[f] < index.first_of_band[band + 1]:
                first = index.first_posting[columns[f]]
                last = index.first_posting[columns[f] + 1]
                for p in range(first, last):
                    workspace.sums[index.posted_row[p]] += values[f] * index.posted_value[p]
                n_left -= last - first
                f += 1
            workspace.norm[band] = 0
            if n_left > n_rows:
                n = finished_by_row(index, band + 1, n_left, workspace, ids, cosines, e)
                if n >= 0:
                    break
        if n < 0:
            n = best_sums(workspace.sums, cosines, ids, e)
        for f in range(offsets[e], offsets[e + 1]):
            workspace.query[columns[f]] = 0
        for j in range(n, ids.shape[1]):
            ids[e, j] = 0
            cosines[e, j] = 0


@kernel_part
def open_query(index, offsets, columns, values, e, workspace):
    """Clear the sums, write the values and norms of query e to the workspace, and return the number
    of postings of its features.
    """
    workspace.sums[:] = 0
    workspace.norm[:] = 0
    n_postings = int64(0)
    band = 0
    for f in range(offsets[e], offsets[e + 1]):
        while columns[f] >= index.first_of_band[band + 1]:
            band += 1
        workspace.norm[band] += values[f] * values[f]
        workspace.query[columns[f]] = values[f]
        n_postings += index.first_posting[columns[f] + 1] - index.first_posting[columns[f]]
    for band in range(N_BANDS):
        workspace.norm[band] = np.sqrt(workspace.norm[band])
    return n_postings


@kernel_part
def best_sums(sums, scores, items, r):
    """Write the highest sums above 0 to row r of `scores`, and their places to `items`; return
    their number.
    """
    n = 0
    least = ZERO
    for block in range(len(sums) // BLOCK):
        start = block * BLOCK
        n_higher = int32(0)
        for i in range(BLOCK):
            n_higher += int32(sums[start + i] > least)
        if n_higher:
            for i in range(start, start + BLOCK):
                if sums[i] > least:
                    n = insert(sums[i], i, scores, items, r, n)
                    least = scores[r, n - 1] if n == scores.shape[1] else ZERO
    return n


@kernel_part
def remaining_product(index, band, i, query):
    """The product of a query and row i over the features of a band and later ones."""
    total = ZERO
    for at in range(index.begin[band, i], index.offsets[i + 1]):
        total += query[index.features[at]] * index.values[at]
    return total


@kernel_part
def finished_by_row(index, band, n_left, workspace, ids, cosines, e):
    """Write the result for query e by scoring all rows that may be in it; return its size, or -1 if
    these rows are too many, or fewer than k rows have a sum or a cosine above 0 so far.

    band    the first band that has not been read
    n_left  number of its postings and those of later ones
    """
    n_rows = len(index.offsets) - 1
    k = ids.shape[1]
    sums = workspace.sums
    query = workspace.query
    n_best = best_sums(sums, workspace.score, workspace.item, 0)
    if n_best < k:
        return -1
    n = 0
    for j in range(k):
        i = workspace.item[0, j]
        cosine = sums[i] + remaining_product(index, band, i, query)
        n = insert(cosine, i, workspace.exact, workspace.exact_item, 0, n)
    least = workspace.exact[0, k - 1] - SLACK
    if least <= 0:
        return -1
    most = n_left // (ROW_COST * (index.offsets[n_rows] // n_rows + 1))
    n_likely = likely_rows(index, least, most, workspace)
    if n_likely > most:
        return -1
    n = 0
    for j in range(n_likely):
        i = workspace.likely[j]
        cosine = sums[i] + remaining_product(index, band, i, query)
        if cosine > 0:
            n = insert(cosine, i, cosines, ids, e, n)
    return n


@kernel_part
def bound_of(index, workspace, i):
    """The most that the cosine of row i can be; the query's norms of bands that were read are 0."""
    bound = workspace.sums[i]
    for band in range(1, N_BANDS):
        bound += workspace.norm[band] * index.norm[band, i]
    return bound


@kernel_part
def n_above(index, workspace, start, least):
    """The number of rows of a block, from row `start`, whose bound is above `least`."""
    n = int32(0)
    for i in range(BLOCK):
        n += int32(bound_of(index, workspace, start + i) > least)
    return n


@kernel_part
def likely_rows(index, least, most, workspace):
    """Write the rows whose bound is above `least`, if there are at most `most`; return their
    number.
    """
    sums = workspace.sums
    n_likely = int32(0)
    for block in range(len(sums) // BLOCK):
        n_likely += n_above(index, workspace, block * BLOCK, least)
    if n_likely > most:
        return int64(n_likely)
    n = int64(0)
    for block in range(len(sums) // BLOCK):
        start = block * BLOCK
        if n_above(index, workspace, start, least):
            for i in range(start, start + BLOCK):
                if bound_of(index, workspace, i) > least:
                    workspace.likely[n] = i
                    n += 1
    return n
