"""A balanced binary tree over vectors, by recursive spherical 2-means: each half of a node gets
half of its vectors.

As in Parabel (Prabhu et al. 2018, "Parabel: partitioned label trees for extreme classification with
application to dynamic search advertising"): two centroids are drawn from the vectors of a node, and
each vector is scored by its similarity to the first minus that to the second. The half with the
highest scores becomes the first cluster, the rest the second, and so on until the sum of
similarities hardly grows.
"""

from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
from numpy import float32, int64, ndarray, uint64

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.random import bits, low_half_below, stream_key
from embedx.kernels.select import select
from embedx.kernels.simd import ONE, ZERO
from embedx.kernels.threads import in_threads

N_ITERATIONS = 20
MIN_GAIN = 1e-3  # relative, of the sum of similarities
SAMPLE = 8192  # vectors by which the clusters of a large node are found first
NODES_PER_THREAD = 4  # several, so that threads end at about the same time


class SparseVectors(NamedTuple):
    """Sparse vectors of norm 1: vector k has values[offsets[k]:offsets[k + 1]] at these columns."""

    offsets: ndarray  # int64 (n + 1,)
    columns: ndarray  # int32
    values: ndarray  # float32


class Workspace(NamedTuple):
    """A worker's buffers."""

    sums: ndarray  # float32 (n_columns, 2): sum of the vectors of each half; zero between calls
    dots: ndarray  # float32 (n, 2): inner products of the vector at each place with both sums
    score: ndarray  # float32 (n,): by vector, similarity to the second half minus that to the first
    half: ndarray  # int8 (n,): by vector, its half


@kernel
def halve_nodes(vectors, order, edges, keys, level, end_level, node, depth, workspace):
    """Halve a node of `level` and all nodes below it, down to but without `end_level`: each then is
    an ordered pair of clusters.

    edges  int64 (2^depth + 1,): the first place of each leaf in the order
    keys   uint64 (2^depth - 1,): keys of the random numbers of each node, level by level
    """
    for below in range(level, end_level):
        first = node << (below - level)
        for other in range(first, (node + 1) << (below - level)):
            begin = edges[other << (depth - below)]
            end = edges[(other + 1) << (depth - below)]
            if end - begin > 1:
                _halve(vectors, order, begin, end, keys[(1 << below) - 1 + other], workspace)


@kernel_part
def _halve(vectors, order, begin, end, key, workspace):
    """Reorder order[begin:end] so that each half is a cluster; of an odd number the first half is
    the larger.

    A large node is clustered by a sample of its vectors first.
    """
    n = end - begin
    n_sampled = n
    if n >= 2 * SAMPLE:
        n_sampled = SAMPLE
        for k in range(n_sampled):
            place = begin + k * (n // n_sampled)
            order[begin + k], order[place] = order[place], order[begin + k]
    first = begin + low_half_below(bits(key, uint64(0)), n_sampled)
    second = begin + low_half_below(bits(key, uint64(1)), n_sampled - 1)  # differs from the first
    second += second >= first
    _add(vectors, order[first], workspace.sums, 0)
    _add(vectors, order[second], workspace.sums, 1)
    norms = ONE, ONE
    if n_sampled < n:
        norms = _two_means(vectors, order, begin, begin + n_sampled, norms, workspace)
    _two_means(vectors, order, begin, end, norms, workspace)
    _clear(vectors, order, begin, end, workspace.sums)


@kernel_part
def _two_means(vectors, order, begin, end, norms, workspace):
    """Order order[begin:end] by two clusters of equal size, and sum up the vectors of each; return
    the norms of both sums.

    norms  the norms of the initial sums
    """
    sums = workspace.sums
    dots = workspace.dots
    middle = begin + (end - begin + 1) // 2
    before = float32(-1)
    for iteration in range(N_ITERATIONS):
        for k in range(begin, end):
            dots[k, 0], dots[k, 1] = _dots(vectors, order[k], sums)
        if iteration > 0:
            square0, square1 = ZERO, ZERO
            for k in range(begin, middle):
                square0 += dots[k, 0]
            for k in range(middle, end):
                square1 += dots[k, 1]
            norms = _norm(square0), _norm(square1)
            total = norms[0] + norms[1]
            if total - before <= float32(MIN_GAIN) * total:
                break
            before = total
        for k in range(begin, end):
            workspace.score[order[k]] = dots[k, 1] / norms[1] - dots[k, 0] / norms[0]
        select(order, workspace.score, begin, middle, end)
        if iteration == 0:
            _clear(vectors, order, begin, end, sums)
            for k in range(begin, end):
                half = int64(k >= middle)
                _add(vectors, order[k], sums, half)
                workspace.half[order[k]] = half
        else:
            for k in range(begin, end):
                half = int64(k >= middle)
                if workspace.half[order[k]] != half:
                    _move(vectors, order[k], sums, half)
                    workspace.half[order[k]] = half
    return norms


@kernel_part
def _norm(square):
    """The root of a sum of squares, which rounding may have made negative; above 0."""
    return max(np.sqrt(max(square, ZERO)), float32(1e-12))


@kernel_part
def _add(vectors, i, sums, half):
    """Add vector i to the sum of a half."""
    for at in range(vectors.offsets[i], vectors.offsets[i + 1]):
        sums[vectors.columns[at], half] += vectors.values[at]


@kernel_part
def _move(vectors, i, sums, half):
    """Add vector i to the sum of a half, and subtract it from that of the other."""
    for at in range(vectors.offsets[i], vectors.offsets[i + 1]):
        sums[vectors.columns[at], half] += vectors.values[at]
        sums[vectors.columns[at], 1 - half] -= vectors.values[at]


@kernel_part
def _dots(vectors, i, sums):
    """The inner products of vector i with both sums."""
    a, b = ZERO, ZERO
    for at in range(vectors.offsets[i], vectors.offsets[i + 1]):
        column = vectors.columns[at]
        value = vectors.values[at]
        a += value * sums[column, 0]
        b += value * sums[column, 1]
    return a, b


@kernel_part
def _clear(vectors, order, begin, end, sums):
    """Set the sums to zero at the columns of the vectors order[begin:end]."""
    for k in range(begin, end):
        i = order[k]
        for at in range(vectors.offsets[i], vectors.offsets[i + 1]):
            sums[vectors.columns[at], 0] = 0
            sums[vectors.columns[at], 1] = 0


def balanced_tree(
    vectors: SparseVectors, n_columns: int, depth: int, seed: int, threads: int
) -> tuple[ndarray, ndarray]:
    """(order, edges): an order of the vectors, int32 (n,), in which leaf k of 2^depth is
    order[edges[k]:edges[k + 1]].

    Sizes of leaves differ by at most one. The leaves of a node at any depth are adjacent.
    n >= 2^depth.
    """
    n = len(vectors.offsets) - 1
    order = np.arange(n, dtype=np.int32)
    edges = np.array([0, n], int64)
    for _ in range(depth):
        middles = edges[:-1] + (np.diff(edges) + 1) // 2
        edges = np.sort(np.concatenate([edges, middles]))
    nodes = [(level, node) for level in range(depth) for node in range(1 << level)]
    keys = np.array([stream_key(seed, *place) for place in nodes], uint64)

    spare: SimpleQueue[Workspace] = SimpleQueue()
    for _ in range(threads):
        spare.put(_new_workspace(n, n_columns))

    def halve(level: int, end_level: int) -> None:
        """Halve the nodes of a level and those below it, without `end_level`, in threads."""

        def of_node(node: int) -> None:
            workspace = spare.get()
            halve_nodes(vectors, order, edges, keys, level, end_level, node, depth, workspace)
            spare.put(workspace)

        in_threads(of_node, threads, range(1 << level))

    # From the level on that has enough nodes for all threads, each is halved down to its leaves.
    whole = min(depth, (NODES_PER_THREAD * threads - 1).bit_length())
    for level in range(whole):
        halve(level, level + 1)
    halve(whole, depth)
    return order, edges


def _new_workspace(n: int, n_columns: int) -> Workspace:
    return Workspace(
        np.zeros((n_columns, 2), float32),
        np.zeros((n, 2), float32),
        np.zeros(n, float32),
        np.zeros(n, np.int8),
    )
