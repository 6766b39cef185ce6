"""Looking through an index: which rows a vector h meets, their scores block by block, and which of them compete."""

from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.maths import exp
from embedx.kernels.simd import LANES, highest_of, load, maximum, n_above, padded, splat
from embedx.search.cluster_scores import promised
from embedx.search.clusters import NEVER
from embedx.search.panels import score_panels
from embedx.search.spec import Search


class Probe(NamedTuple):
    """A worker's memory for looking through an index."""

    promised: np.ndarray  # float32 (1, padded clusters): what the clusters of a block promise
    highest: np.ndarray  # float32 (panels,): the highest of sixteen of them
    visited: np.ndarray  # int64 (B, most visits): the clusters looked through in each block
    start: np.ndarray  # int64 (B, most visits + 1): where their scores begin, and the end of the last
    n_visited: np.ndarray  # int64 (B,)
    place: np.ndarray  # int32 (B, C): 1 + the number of a visit to each cluster; 0 without
    scores: np.ndarray  # float32 (B, room): the scores of all rows looked at, those of a cluster padded to whole panels
    mark: np.ndarray  # int32 (n_rows,): the last example that a row competed for
    clock: np.ndarray  # int64 (1,): examples so far
    room: int  # of `scores`


def new_probe(n_rows: int, search: Search) -> Probe:
    """Memory for a worker that looks through indexes of n_rows rows."""
    blocks, clusters = search.blocks, min(search.clusters, n_rows)
    room = padded(2 * min(search.looked_at, n_rows)) + LANES * clusters
    return Probe(
        promised=np.full((1, padded(clusters)), NEVER, dtype=np.float32),
        highest=np.zeros(padded(clusters) // LANES, dtype=np.float32),
        visited=np.zeros((blocks, clusters), dtype=np.int64),
        start=np.zeros((blocks, clusters + 1), dtype=np.int64),
        n_visited=np.zeros(blocks, dtype=np.int64),
        place=np.zeros((blocks, clusters), dtype=np.int32),
        scores=np.zeros((blocks, room), dtype=np.float32),
        mark=np.full(n_rows, -1, dtype=np.int32),
        clock=np.zeros(1, dtype=np.int64),
        room=room,
    )


@kernel_part
def look(index, search, h, e, j, probe):
    """Score the rows in the clusters of block j that promise h[e] the most, the best first, until enough were looked at.

    A cluster that does not fit any more is looked through as far as there is room. Where the loss is a sum over all rows
    (`from_sum`), a cluster without any coefficient above tau ends it: the sum so far bounds the whole from below, and the
    clusters to come promise less, though a promise is an estimate.
    """
    scale = np.float32(index.ids.shape[0])
    best, total = NEVER, np.float32(0)
    clusters = index.in_use.shape[1]
    for v in range(probe.n_visited[j]):
        probe.place[j, probe.visited[j, v]] = 0
    promised(index.promise, index.edges, clusters, j, h, e, probe.promised)
    for p in range(probe.highest.size):
        probe.highest[p] = highest_of(load(probe.promised, 0, p * LANES))
    n_visits = seen = at = 0
    while seen < search.looked_at and n_visits < clusters and at < probe.room:
        c = _next(probe)
        n = min(index.in_use[j, c], probe.room - at)
        n_panels = (n + LANES - 1) // LANES
        first = (j * index.ids.shape[1] + index.begin[j, c]) // LANES
        score_panels(index.panels, first, n_panels, index.width, h, e, index.edges[j], index.edges[j + 1], probe.scores, j, at)
        for k in range(at + n, at + n_panels * LANES):
            probe.scores[j, k] = NEVER
        probe.visited[j, n_visits], probe.start[j, n_visits] = c, at
        n_visits += 1
        probe.place[j, c] = n_visits
        at += n_panels * LANES
        seen += n
        if search.from_sum:
            highest = _highest(probe.scores, j, at - n_panels * LANES, at) * scale
            if highest > best:
                best, total = highest, total * exp(best - highest)
            for k in range(at - n_panels * LANES, at):
                total += exp(scale * probe.scores[j, k] - best)
            if n > 0 and highest < best + np.log(total) - np.float32(search.reach):
                break
    probe.n_visited[j] = n_visits
    probe.start[j, n_visits] = at


@kernel_part
def _next(probe):
    """The cluster that promises most among those that were not given yet."""
    p = 0
    for other in range(1, probe.highest.size):
        p = other if probe.highest[other] > probe.highest[p] else p
    c = p * LANES
    while probe.promised[0, c] < probe.highest[p]:
        c += 1
    probe.promised[0, c] = NEVER
    probe.highest[p] = highest_of(load(probe.promised, 0, p * LANES))
    return c


@kernel_part
def _highest(scores, j, begin, end):
    """The largest of scores[j, begin:end], whole panels."""
    best = splat(NEVER)
    for k in range(begin, end, LANES):
        best = maximum(load(scores, j, k), best)  # in this order a NaN is passed over
    return highest_of(best)


@kernel_part
def found_at(index, probe, j, row):
    """Where the score of a row in block j stands, -1 if it was not found."""
    c = np.int64(index.home[j, row])
    v = probe.place[j, c] - 1
    if v < 0:
        return -1
    begin, end = probe.start[j, v], probe.start[j, v + 1]
    at = begin + index.slot[j, row] - index.begin[j, c]  # elsewhere if the row moves to another cluster at this moment
    return at if begin <= at < end and probe.scores[j, at] > NEVER else -1


@kernel_part
def bar(search, probe, j, scale, best):
    """The score, times `scale`, below which no row found in block j has a coefficient above tau; another row scores `best`."""
    end = probe.start[j, probe.n_visited[j]]
    best = max(best, scale * _highest(probe.scores, j, 0, end))
    if search.from_sum:
        total = np.float32(0)
        for k in range(end):
            total += exp(scale * probe.scores[j, k] - best)
        best += np.log(max(total, np.float32(1)))
    return best - np.float32(search.reach)


@kernel_part
def keep(index, probe, j, lowest, rows, r, n, most):
    """Add the rows of block j that score above `lowest` to rows[r, n:most], each once for an example; the number so far."""
    now = np.int32(probe.clock[0])
    for v in range(probe.n_visited[j]):
        slot = index.begin[j, probe.visited[j, v]] - probe.start[j, v]
        for at in range(probe.start[j, v], probe.start[j, v + 1], LANES):
            if n_above(load(probe.scores, j, at), splat(lowest)) == 0:
                continue
            for k in range(at, at + LANES):
                if probe.scores[j, k] > lowest and n < most:
                    row = index.ids[j, slot + k]
                    if probe.mark[row] != now:
                        probe.mark[row] = now
                        rows[r, n] = row
                        n += 1
    return n


@kernel_part
def highest_kept(search, probe, j, lowest):
    """`lowest`, or, if more rows of block j than may be kept score above it, what no more than those score above."""
    end = probe.start[j, probe.n_visited[j]]
    if _n_above(probe, j, end, lowest) <= search.kept:
        return lowest
    many, few = lowest, _highest(probe.scores, j, 0, end)  # that score above the one, and above the other
    middle = np.float32(0.5) * (many + few)
    while many < middle < few:
        n = _n_above(probe, j, end, middle)
        if n > search.kept:
            many = middle
        else:
            few = middle
            if n == search.kept:
                break
        middle = np.float32(0.5) * (many + few)
    return few


@kernel_part
def _n_above(probe, j, end, score):
    """How many of probe.scores[j, :end] are larger."""
    n = 0
    for at in range(0, end, LANES):
        n += n_above(load(probe.scores, j, at), splat(score))
    return n


@kernel_part
def begin_example(index, search, h, e, rows, r, n_positives, probe):
    """Look through all blocks for h[e]. Its positives, rows[r, :n_positives], are taken out of what was found."""
    probe.clock[0] = (probe.clock[0] + 1) % (2**31 - 1)
    for j in range(index.ids.shape[0]):
        look(index, search, h, e, j, probe)
        if search.threshold > 0:
            for k in range(probe.start[j, probe.n_visited[j]]):
                probe.scores[j, k] = probe.scores[j, k] if abs(probe.scores[j, k]) > search.threshold else NEVER
    for c in range(n_positives):
        row = np.int64(rows[r, c])
        probe.mark[row] = np.int32(probe.clock[0])
        for j in range(index.ids.shape[0]):
            at = found_at(index, probe, j, row)
            if at >= 0:
                probe.scores[j, at] = NEVER


@kernel_part
def candidates(index, search, h, e, rows, r, n_positives, most, probe):
    """Write the rows that compete for h[e] behind its positives rows[r, :n_positives], `most` in all; return their number."""
    begin_example(index, search, h, e, rows, r, n_positives, probe)
    blocks = index.ids.shape[0]
    scale = np.float32(blocks)
    n = n_positives
    for j in range(blocks):
        lowest = highest_kept(search, probe, j, bar(search, probe, j, scale, NEVER) / scale)
        n = keep(index, probe, j, lowest, rows, r, n, most)
    return n


@kernel
def candidates_of(index, search, h, begin, end, positives, offsets, rows, n_candidates, probe):
    """Write to rows[e] for e in begin:end the rows that compete for h[e], first positives[offsets[e]:offsets[e + 1]]."""
    for e in range(begin, end):
        n = 0
        for at in range(offsets[e], offsets[e + 1]):
            rows[e, n] = positives[at]
            n += 1
        n_candidates[e] = candidates(index, search, h, e, rows, e, n, rows.shape[1], probe)
