"""Exact nearest neighbours by cosine among sparse rows, by an inverted index.

The features of a query are visited from the rarest to the most frequent, in GROUPS; the products of
a feature are added to all rows that have it. Before a group, the cosine of a row is at most its
current sum plus the product of two norms, of the query's and the row's remaining features
(Cauchy-Schwarz). Once few rows can still be among the best, these are scored one by one, and the
long posting lists of frequent features are not read (as in the max-score algorithm of Turtle &
Flood 1995, with norms in place of maxima).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64, int32, int64, ndarray
from scipy.sparse import csr_matrix

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.select import insert
from embedx.kernels.simd import ONE, ZERO
from embedx.kernels.threads import in_parts
from embedx.labeled.rules import scaled

# The first features of groups, as fractions of the postings that a row of the index would read.
GROUPS = np.array([0.2, 0.4])
ROW_COST = 4  # cost of a value of a row that is scored on its own, in postings
BLOCK = 64  # number of rows that are compared with a bound at once, by vector instructions
SLACK = float32(1e-5)  # tolerance for rounding, in cosines


class RowIndex(NamedTuple):
    """Rows of norm 1 or 0, by row and by feature. Features are numbered from the rarest to the most
    frequent.
    """

    number: ndarray  # int32 (n_features,): the number of each column
    offsets: ndarray  # int64 (n_rows + 1,)
    features: ndarray  # int32 (n_values,)
    values: ndarray  # float32 (n_values,)
    first_posting: ndarray  # int64 (n_features + 1,)
    posted_row: ndarray  # int32 (n_values,)
    posted_value: ndarray  # float32 (n_values,)
    first_of_group: ndarray  # int64 (groups,): the first feature of each group
    # float32 (groups, n_rows): the norm of a row over the features of a group and later ones
    left: ndarray


class Near(NamedTuple):
    """The nearest rows of each query, and their cosines."""

    ids: ndarray  # int32 (n, k)
    cosines: ndarray  # float32 (n, k), descending


class Workspace(NamedTuple):
    """A thread's buffers."""

    sums: ndarray  # float32 (n_rows,)
    likely: ndarray  # int32 (n_rows,)
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
    met = np.cumsum(np.square(counts[order], dtype=float64))
    first = np.searchsorted(met, GROUPS * met[-1]) if len(met) else np.zeros(len(GROUPS), int64)
    row_of_value = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    square = np.square(rows.data, dtype=float64)
    left = [
        np.bincount(
            row_of_value, weights=square * (rows.indices >= feature), minlength=rows.shape[0]
        )
        for feature in first
    ]
    return RowIndex(
        number,
        rows.indptr.astype(int64),
        rows.indices.astype(int32),
        rows.data,
        columns.indptr.astype(int64),
        columns.indices.astype(int32),
        columns.data,
        first.astype(int64),
        np.sqrt(left).astype(float32),
    )


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
        sums, likely = (np.empty(len(index.offsets) - 1, kind) for kind in (float32, int32))
        query = np.zeros(queries.shape[1], float32)
        workspace = Workspace(
            sums, likely, query, *(np.zeros((1, k), kind) for kind in (int32, float32) * 2)
        )
        write_nearest(index, offsets, columns, queries.data, begin, end, workspace, *near)

    in_parts(search, n, threads)
    return near


@kernel
def write_nearest(index, offsets, columns, values, begin, end, workspace, ids, cosines):
    """Write the results for the queries begin:end; see `nearest_rows`."""
    n_rows = len(index.offsets) - 1
    n_groups = len(index.first_of_group)
    for e in range(begin, end):
        workspace.sums[:] = 0
        square = ZERO
        n_left = int64(0)
        for f in range(offsets[e], offsets[e + 1]):
            square += values[f] * values[f]
            workspace.query[columns[f]] = values[f]
            n_left += index.first_posting[columns[f] + 1] - index.first_posting[columns[f]]
        n = -1
        group = 0
        for f in range(offsets[e], offsets[e + 1]):
            is_next = False
            while group < n_groups and columns[f] >= index.first_of_group[group]:
                group += 1
                is_next = True
            if is_next and n_left > n_rows:
                n = finished_by_row(
                    index, np.sqrt(max(square, ZERO)), group - 1, n_left, workspace, ids, cosines, e
                )
                if n >= 0:
                    break
            for p in range(index.first_posting[columns[f]], index.first_posting[columns[f] + 1]):
                workspace.sums[index.posted_row[p]] += values[f] * index.posted_value[p]
            n_left -= index.first_posting[columns[f] + 1] - index.first_posting[columns[f]]
            square -= values[f] * values[f]
        if n < 0:
            n = best_sums(workspace.sums, cosines, ids, e)
        for f in range(offsets[e], offsets[e + 1]):
            workspace.query[columns[f]] = 0
        for j in range(n, ids.shape[1]):
            ids[e, j] = 0
            cosines[e, j] = 0


@kernel_part
def best_sums(sums, scores, items, r):
    """Write the highest sums above 0 to row r of `scores`, and their places to `items`; return
    their number.
    """
    n = 0
    least = ZERO
    for start in range(0, len(sums), BLOCK):
        end = min(start + BLOCK, len(sums))
        n_higher = int32(0)
        for i in range(start, end):
            n_higher += int32(sums[i] > least)
        if n_higher:
            for i in range(start, end):
                if sums[i] > least:
                    n = insert(sums[i], i, scores, items, r, n)
                    least = scores[r, n - 1] if n == scores.shape[1] else ZERO
    return n


@kernel_part
def cosine_of_row(index, i, query):
    total = ZERO
    for at in range(index.offsets[i], index.offsets[i + 1]):
        total += query[index.features[at]] * index.values[at]
    return total


@kernel_part
def finished_by_row(index, left, group, n_left, workspace, ids, cosines, e):
    """Write the result for query e by scoring all rows that may be in it; return its size, or -1 if
    these rows are too many.

    left    norm of the query over the features of the group and later ones
    n_left  number of postings that have not been read
    """
    n_rows = len(index.offsets) - 1
    k = ids.shape[1]
    n = 0
    n_best = best_sums(workspace.sums, workspace.score, workspace.item, 0)
    if n_best < k:
        return -1
    for j in range(k):
        i = workspace.item[0, j]
        n = insert(
            cosine_of_row(index, i, workspace.query), i, workspace.exact, workspace.exact_item, 0, n
        )
    least = workspace.exact[0, k - 1] - SLACK
    if least <= 0:
        return -1
    n_likely = 0
    most = n_left // (ROW_COST * (index.offsets[n_rows] // n_rows + 1))
    sums = workspace.sums
    bound = index.left[group]
    likely = workspace.likely
    for start in range(0, n_rows, BLOCK):
        end = min(start + BLOCK, n_rows)
        n_higher = int32(0)
        for i in range(start, end):
            n_higher += int32(sums[i] + left * bound[i] > least)
        if n_higher:
            if n_likely + n_higher > most:
                return -1
            for i in range(start, end):
                if sums[i] + left * bound[i] > least:
                    likely[n_likely] = i
                    n_likely += 1
    n = 0
    for j in range(n_likely):
        cosine = cosine_of_row(index, workspace.likely[j], workspace.query)
        if cosine > 0:
            n = insert(cosine, workspace.likely[j], cosines, ids, e, n)
    return n


class RowLabels(NamedTuple):
    """The labels of each row."""

    offsets: ndarray  # int64 (n_rows + 1,)
    ids: ndarray  # int32


@kernel
def write_blended(ids, p, near, weight, labels, begin, end, share, has_roots, sums, best, scores):
    """Write the labels with the highest (1 - share) p + share q, or that of square roots, for the
    examples begin:end.

    ids, p        int32, float32 (n, m): distinct labels and their p
    near, weight  int32, float32 (n, rows): the q of a label is the sum of the weights of the rows
                  `near` that have it
    sums          float32 (n_labels,): zeros before and after
    best, scores  int32, float32 (n, k), k <= m: best first; of equal scores those of `ids` first,
                  then those of nearer rows
    """
    for e in range(begin, end):
        for j in range(near.shape[1]):
            for at in range(labels.offsets[near[e, j]], labels.offsets[near[e, j] + 1]):
                sums[labels.ids[at]] += weight[e, j]
        n = 0
        for j in range(ids.shape[1]):
            score = blended_score(p[e, j], sums[ids[e, j]], share, has_roots)
            n = insert(score, ids[e, j], scores, best, e, n)
            sums[ids[e, j]] = 0
        for j in range(near.shape[1]):
            for at in range(labels.offsets[near[e, j]], labels.offsets[near[e, j] + 1]):
                if sums[labels.ids[at]] > 0:
                    score = blended_score(ZERO, sums[labels.ids[at]], share, has_roots)
                    n = insert(score, labels.ids[at], scores, best, e, n)
                    sums[labels.ids[at]] = 0


@kernel_part
def blended_score(p, q, share, has_roots):
    if has_roots:
        p = np.sqrt(p)
        q = np.sqrt(q)
    return (ONE - share) * p + share * q
