"""Querying the index for a vector h: the lists that are probed, the scores of their rows, and the
candidates.

    for each block j
        rank the clusters by their estimated scores for h
        search_block        probe their lists in that order, scoring all rows of a list, until
                            `n_scored` rows are scored
        score_cutoff        cutoff: `max_gap` below the best score found, or below the log-sum-exp
                            of all scores found
        limit_candidates    raise it if more than `max_candidates` rows score above it
        add_candidates      the rows above it are candidates, unless another block has found them

A score in block j is the inner product over the block's columns alone. It is compared only with
scores of the same block, multiplied by `scale`, the number of blocks, as an estimate of the whole
inner product. The caller may rescore the candidates by their exact inner products.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray

from embedx.kernels.by_address import by_address
from embedx.kernels.compiled import kernel_part
from embedx.kernels.maths import exp
from embedx.kernels.simd import (
    ONE,
    SIMD_WIDTH,
    ZERO,
    highest_of,
    load,
    maximum,
    n_above,
    padded,
    splat,
)
from embedx.search.cluster_scores import score_clusters
from embedx.search.index import Index
from embedx.search.kmeans import MASKED_SCORE
from embedx.search.panels import score_panels
from embedx.search.spec import SearchSpec


@by_address
class QueryWorkspace(NamedTuple):
    """A worker's buffers for one query at a time: the lists probed and the scores found in each
    block.
    """

    # float32 (1, padded C): scores of the clusters of one block; MASKED_SCORE once probed
    cluster_scores: ndarray
    group_max: ndarray  # float32 (padded C / 16,): the maximum of each sixteen of them
    probed: ndarray  # int64 (B, C): the lists probed in each block, in order
    # int64 (B, C + 1): the place of each probed list in `scores`, and the end of the last
    offsets: ndarray
    n_probed: ndarray  # int64 (B,): number of lists probed
    # int32 (B, C): 1 + the place of each list in `probed`, 0 if it was not probed
    probe_rank: ndarray
    # float32 (B, capacity): scores of the rows of probed lists, each list padded to whole panels
    scores: ndarray
    # int32 (n_rows,): number of the last query that had the row as positive or candidate
    last_query: ndarray
    query_number: ndarray  # int64 (1,): number of the current query


@by_address
class Searcher(NamedTuple):
    """What a worker searches with: the current index, how it is searched, and buffers."""

    row_index: Index
    spec: SearchSpec
    query: QueryWorkspace


def new_query_workspace(n_rows: int, search: SearchSpec) -> QueryWorkspace:
    """Buffers for a worker that queries indexes of n_rows rows."""
    blocks = search.blocks
    clusters = min(search.clusters, n_rows)
    capacity = padded(2 * min(search.n_scored, n_rows)) + SIMD_WIDTH * clusters
    return QueryWorkspace(
        cluster_scores=np.full((1, padded(clusters)), MASKED_SCORE, float32),
        group_max=np.zeros(padded(clusters) // SIMD_WIDTH, float32),
        probed=np.zeros((blocks, clusters), int64),
        offsets=np.zeros((blocks, clusters + 1), int64),
        n_probed=np.zeros(blocks, int64),
        probe_rank=np.zeros((blocks, clusters), int32),
        scores=np.zeros((blocks, capacity), float32),
        last_query=np.full(n_rows, -1, int32),
        query_number=np.zeros(1, int64),
    )


@kernel_part
def search_block(searcher, h, e, j):
    """Score the rows of block j in the lists with the highest estimated scores for h[e], until
    enough rows are scored.

    A list that exceeds the capacity of the workspace is scored in part. If the loss is a sum over
    all rows (`from_logsumexp`), the search also ends at a list without a coefficient above
    `min_coefficient`: the sum so far is a lower bound of the whole sum, and later lists are
    estimated to have lower scores.
    """
    index = searcher.row_index
    spec = searcher.spec
    query = searcher.query
    scale = float32(index.ids.shape[0])
    clusters = index.list_sizes.shape[1]
    capacity = query.scores.shape[1]
    _start_block(index, clusters, h, e, j, query)
    # The log-sum-exp of the scores so far is best + log(total).
    best = MASKED_SCORE
    total = ZERO
    n_probed = 0
    n_scored = 0
    end = 0
    while n_scored < spec.n_scored and n_probed < clusters and end < capacity:
        c = _next_cluster(query)
        begin = end
        n = min(index.list_sizes[j, c], capacity - begin)
        end = _score_list(index, h, e, j, c, n, query, begin)
        query.probed[j, n_probed] = c
        query.offsets[j, n_probed] = begin
        n_probed += 1
        query.probe_rank[j, c] = n_probed
        n_scored += n
        if spec.from_logsumexp:
            highest = _max_score(query.scores, j, begin, end) * scale
            if highest > best:
                total *= exp(best - highest)
                best = highest
            for k in range(begin, end):
                total += exp(scale * query.scores[j, k] - best)
            if n > 0 and highest < best + np.log(total) - float32(spec.max_gap):
                break
    query.n_probed[j] = n_probed
    query.offsets[j, n_probed] = end


@kernel_part
def _start_block(index, clusters, h, e, j, query):
    """Forget the lists probed for the last query, and estimate the scores of all clusters."""
    for p in range(query.n_probed[j]):
        query.probe_rank[j, query.probed[j, p]] = 0
    score_clusters(index.statistics, index.edges, clusters, j, h, e, query.cluster_scores)
    for g in range(query.group_max.size):
        query.group_max[g] = highest_of(load(query.cluster_scores, 0, g * SIMD_WIDTH))


@kernel_part
def _score_list(index, h, e, j, c, n, query, begin):
    """Write the scores of the first n rows of a list to query.scores[j] from `begin` on, in whole
    panels; return their end.
    """
    n_panels = (n + SIMD_WIDTH - 1) // SIMD_WIDTH
    first = index.list_offsets[j, c] // SIMD_WIDTH
    panels = index.panels[j, first : first + n_panels]
    score_panels(panels, h, e, index.edges[j], index.edges[j + 1], query.scores, j, begin)
    end = begin + n_panels * SIMD_WIDTH
    for k in range(begin + n, end):
        query.scores[j, k] = MASKED_SCORE
    return end


@kernel_part
def _next_cluster(query):
    """The cluster with the highest estimated score of those not yet probed; masks its score."""
    best = 0
    for g in range(1, query.group_max.size):
        best = g if query.group_max[g] > query.group_max[best] else best
    c = best * SIMD_WIDTH
    while query.cluster_scores[0, c] < query.group_max[best]:
        c += 1
    query.cluster_scores[0, c] = MASKED_SCORE
    query.group_max[best] = highest_of(load(query.cluster_scores, 0, best * SIMD_WIDTH))
    return c


@kernel_part
def _max_score(scores, j, begin, end):
    """The largest of scores[j, begin:end], whole panels."""
    best = splat(MASKED_SCORE)
    for k in range(begin, end, SIMD_WIDTH):
        best = maximum(load(scores, j, k), best)  # this order of arguments ignores NaN
    return highest_of(best)


@kernel_part
def score_position(index, query, j, row):
    """The position of the score of a row in query.scores[j]; -1 if block j has not found it."""
    c = int64(index.cluster[j, row])
    p = query.probe_rank[j, c] - 1
    if p < 0:
        return -1
    begin = query.offsets[j, p]
    end = query.offsets[j, p + 1]
    # Out of range if the row is being reassigned at this moment.
    k = begin + index.slot[j, row] - index.list_offsets[j, c]
    return k if begin <= k < end and query.scores[j, k] > MASKED_SCORE else -1


@kernel_part
def score_cutoff(spec, query, j, scale, best):
    """The cutoff of block j: `scale` times the score that a candidate has to exceed.

    best  `scale` times the score of another row, such as a positive
    """
    end = query.offsets[j, query.n_probed[j]]
    best = max(best, scale * _max_score(query.scores, j, 0, end))
    if spec.from_logsumexp:
        total = ZERO
        for k in range(end):
            total += exp(scale * query.scores[j, k] - best)
        best += np.log(max(total, ONE))
    return best - float32(spec.max_gap)


@kernel_part
def limit_candidates(spec, query, j, cutoff):
    """The cutoff of block j, raised by bisection if more than `max_candidates` scores exceed it."""
    end = query.offsets[j, query.n_probed[j]]
    if _count_above(query, j, end, cutoff) <= spec.max_candidates:
        return cutoff
    # Too many scores exceed `low`, few enough exceed `high`.
    low = cutoff
    high = _max_score(query.scores, j, 0, end)
    middle = float32(0.5) * (low + high)
    while low < middle < high:
        n = _count_above(query, j, end, middle)
        if n > spec.max_candidates:
            low = middle
        else:
            high = middle
            if n == spec.max_candidates:
                break
        middle = float32(0.5) * (low + high)
    return high


@kernel_part
def _count_above(query, j, end, cutoff):
    """The number of query.scores[j, :end] that exceed the cutoff."""
    n = 0
    for k in range(0, end, SIMD_WIDTH):
        n += n_above(load(query.scores, j, k), splat(cutoff))
    return n


@kernel_part
def add_candidates(index, query, j, cutoff, rows, r, n, max_rows):
    """Append the rows of block j above the cutoff, once, to rows[r, n:max_rows]; return the new
    n.
    """
    now = int32(query.query_number[0])
    for p in range(query.n_probed[j]):
        slot = index.list_offsets[j, query.probed[j, p]] - query.offsets[j, p]
        for group in range(query.offsets[j, p], query.offsets[j, p + 1], SIMD_WIDTH):
            if n_above(load(query.scores, j, group), splat(cutoff)) == 0:
                continue
            for k in range(group, group + SIMD_WIDTH):
                if query.scores[j, k] > cutoff and n < max_rows:
                    row = index.ids[j, slot + k]
                    if query.last_query[row] != now:
                        query.last_query[row] = now
                        rows[r, n] = row
                        n += 1
    return n


@kernel_part
def search_all_blocks(searcher, h, e, rows, r, n_positives):
    """Begin a new query: search all blocks for h[e], and mask the scores of the positives, rows[r,
    :n_positives].
    """
    index = searcher.row_index
    query = searcher.query
    threshold = searcher.spec.threshold
    query.query_number[0] = (query.query_number[0] + 1) % (2**31 - 1)
    for j in range(index.ids.shape[0]):
        search_block(searcher, h, e, j)
        if threshold > 0:
            for k in range(query.offsets[j, query.n_probed[j]]):
                if not abs(query.scores[j, k]) > threshold:  # or NaN
                    query.scores[j, k] = MASKED_SCORE
    for c in range(n_positives):
        row = int64(rows[r, c])
        query.last_query[row] = int32(query.query_number[0])
        for j in range(index.ids.shape[0]):
            k = score_position(index, query, j, row)
            if k >= 0:
                query.scores[j, k] = MASKED_SCORE


@kernel_part
def find_candidates(searcher, h, e, rows, r, n_positives, max_rows):
    """Append the candidates for h[e] to its positives rows[r, :n_positives], up to `max_rows` rows;
    return the number of rows.
    """
    search_all_blocks(searcher, h, e, rows, r, n_positives)
    index = searcher.row_index
    spec = searcher.spec
    query = searcher.query
    blocks = index.ids.shape[0]
    scale = float32(blocks)
    n = n_positives
    for j in range(blocks):
        cutoff = score_cutoff(spec, query, j, scale, MASKED_SCORE) / scale
        cutoff = limit_candidates(spec, query, j, cutoff)
        n = add_candidates(index, query, j, cutoff, rows, r, n, max_rows)
    return n
