"""The highest scores of all rows, as far as an index finds them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from embedx.kernels.compiled import kernel
from embedx.kernels.maths import exp
from embedx.search.clusters import NEVER
from embedx.search.index import Index
from embedx.search.query import look, new_probe
from embedx.search.spec import Search

BLOCK = 64  # vectors that a thread looks up in one go


def search_of(n_rows: int, share: float, k: int) -> Search:
    """A search for the best k of whole rows that looks at this share of them, and at 100 at least."""
    looked_at = min(max(round(share * n_rows), 100, k), n_rows)
    clusters = min(round(2 * n_rows**0.5), n_rows)  # more than training has: they find more, and need not follow anything
    return Search(1, clusters, looked_at, looked_at, 0.0, 1.0, np.inf, from_sum=False, steps=0)


def top(
    index: Index, search: Search, h: np.ndarray, k: int, threads: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(ids int32 (n, k), scores float32 (n, k), log_sum float32 (n,)) of the best rows for each h, float32 (n, dim), a few
    vectors at a time, in order; the best row first. log_sum is the log of the sum of e^score over all rows looked at. Where
    fewer than k were, the rest have id -1 and score `NEVER`.
    """
    probes = [new_probe(index.slot.shape[1], search) for _ in range(threads)]

    def work(w: int, start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n = min(BLOCK, len(h) - start)
        ids, scores = np.full((n, k), -1, dtype=np.int32), np.full((n, k), NEVER, dtype=np.float32)
        log_sum = np.zeros(n, dtype=np.float32)
        top_of(index, search, h, start, start + n, ids, scores, log_sum, probes[w])
        return ids, scores, log_sum

    with ThreadPoolExecutor(threads) as pool:
        for window in range(0, len(h), BLOCK * threads):
            yield from pool.map(work, range(threads), range(window, min(window + BLOCK * threads, len(h)), BLOCK))


@kernel
def top_of(index, search, h, begin, end, ids, scores, log_sum, probe):
    """Write the best rows for h[begin:end] to `ids`, `scores` and `log_sum`; see `top`."""
    k = ids.shape[1]
    for e in range(begin, end):
        look(index, search, h, e, 0, probe)
        r, n = e - begin, 0
        for v in range(probe.n_visited[0]):
            slot = index.begin[0, probe.visited[0, v]] - probe.start[0, v]
            for at in range(probe.start[0, v], probe.start[0, v + 1]):
                z = probe.scores[0, at]
                if z > scores[r, k - 1]:
                    place = min(n, k - 1)
                    while place > 0 and scores[r, place - 1] < z:
                        scores[r, place], ids[r, place] = scores[r, place - 1], ids[r, place - 1]
                        place -= 1
                    scores[r, place], ids[r, place] = z, index.ids[0, slot + at]
                    n = min(n + 1, k)
        total = np.float32(0)
        for at in range(probe.start[0, probe.n_visited[0]]):
            total += exp(probe.scores[0, at] - scores[r, 0])
        log_sum[r] = scores[r, 0] + np.log(total)
