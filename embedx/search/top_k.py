"""The k rows with the highest inner products, approximately, by the index."""

import math

import numpy as np
from numpy import float32, ndarray

from embedx.kernels.compiled import kernel
from embedx.kernels.maths import exp
from embedx.kernels.select import insert
from embedx.kernels.simd import ZERO
from embedx.kernels.threads import in_parts
from embedx.search.index import Index
from embedx.search.kmeans import MASKED_SCORE
from embedx.search.query import Searcher, new_query_workspace, search_block
from embedx.search.spec import SearchSpec


def top_k_spec(n_rows: int, share: float, k: int) -> SearchSpec:
    """A search for the best k rows in one block; scores this share of all rows, at least 100."""
    n_scored = min(max(round(share * n_rows), 100, k), n_rows)
    # More clusters than in training: better recall, and there are no updates.
    clusters = min(round(2 * math.sqrt(n_rows)), n_rows)
    return SearchSpec(
        blocks=1,
        clusters=clusters,
        n_scored=n_scored,
        max_candidates=n_scored,
        threshold=0.0,
        min_coefficient=1.0,
        max_gap=np.inf,
        from_logsumexp=False,
        message_iterations=0,
    )


def search_top_k(
    index: Index, search: SearchSpec, h: ndarray, k: int, threads: int
) -> tuple[ndarray, ndarray, ndarray]:
    """(ids int32 (n, k), scores float32 (n, k), log_sum float32 (n,)) of the queries h, float32 (n,
    dim).

    The best row comes first. log_sum is the log-sum-exp over all rows scored. If these are fewer
    than k, the remaining ids are -1 and the remaining scores MASKED_SCORE.
    """
    n = len(h)
    ids = np.full((n, k), -1, np.int32)
    scores = np.full((n, k), MASKED_SCORE, float32)
    log_sum = np.zeros(n, float32)

    def answer(begin: int, end: int) -> None:
        searcher = Searcher(index, search, new_query_workspace(index.slot.shape[1], search))
        write_top_k(searcher, h, begin, end, ids, scores, log_sum)

    in_parts(answer, n, threads)
    return ids, scores, log_sum


@kernel
def write_top_k(searcher, h, begin, end, ids, scores, log_sum):
    """Write the results for h[begin:end]; see `search_top_k`."""
    index = searcher.row_index
    query = searcher.query
    for e in range(begin, end):
        search_block(searcher, h, e, 0)
        n = 0
        for p in range(query.n_probed[0]):
            slot = index.list_offsets[0, query.probed[0, p]] - query.offsets[0, p]
            for i in range(query.offsets[0, p], query.offsets[0, p + 1]):
                if query.scores[0, i] > MASKED_SCORE:
                    n = insert(query.scores[0, i], index.ids[0, slot + i], scores, ids, e, n)
        total = ZERO
        for i in range(query.offsets[0, query.n_probed[0]]):
            total += exp(query.scores[0, i] - scores[e, 0])
        log_sum[e] = scores[e, 0] + np.log(total)
