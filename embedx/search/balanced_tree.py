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
from embedx.kernels.simd import ZERO
from embedx.kernels.threads import PARTS_PER_THREAD, in_parts, in_threads

N_ITERATIONS = 20
MIN_GAIN = 1e-3  # relative, of the sum of similarities
SAMPLE = 8192  # vectors by which the clusters of a large node are found first


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
    norms: ndarray  # float32 (2,): the norms of both sums
    similarity: ndarray  # float32 (1,): sum of similarities in the iteration before


@kernel
def halve_nodes(vectors, order, edges, keys, level, end_level, node, workspace):
    """Halve a node of `level` and all nodes below it, down to but without `end_level`: each then is
    an ordered pair of clusters.

    edges  int64 (n_leaves + 1,): the first place of each leaf in the order
    keys   uint64 (n_leaves - 1,): keys of the random numbers of each node, level by level
    """
    n_leaves = edges.size - 1
    for below in range(level, end_level):
        leaves_of_node = n_leaves >> below
        first = node << (below - level)
        for other in range(first, (node + 1) << (below - level)):
            begin = edges[other * leaves_of_node]
            end = edges[(other + 1) * leaves_of_node]
            if end - begin > 1:
                _halve(vectors, order, begin, end, keys[(1 << below) - 1 + other], workspace)


@kernel_part
def _halve(vectors, order, begin, end, key, workspace):
    """Reorder order[begin:end] so that each half is a cluster; of an odd number the first half is
    the larger.
    """
    end_of_sample = draw_centroids(vectors, order, begin, end, key, workspace)
    if end_of_sample < end:
        _two_means(vectors, order, begin, end_of_sample, workspace)
    _two_means(vectors, order, begin, end, workspace)
    clear_sums(vectors, order, begin, end, workspace.sums)


@kernel_part
def _two_means(vectors, order, begin, end, workspace):
    """Order order[begin:end] by two clusters of equal size, and sum up the vectors of each."""
    iteration = 0
    while iteration < N_ITERATIONS:
        write_dots(vectors, order, begin, end, workspace.sums, workspace.dots)
        if not reassign(vectors, order, begin, end, iteration, workspace):
            break
        iteration += 1


def _halve_in_threads(
    vectors: SparseVectors,
    order: ndarray,
    begin: int,
    end: int,
    key: uint64,
    workspace: Workspace,
    threads: int,
) -> None:
    """`_halve` for a large node: threads share the inner products, which take most of the time."""

    def write(first: int, stop: int) -> None:
        write_dots(vectors, order, begin + first, begin + stop, workspace.sums, workspace.dots)

    end_of_sample = draw_centroids(vectors, order, begin, end, key, workspace)
    for stop in sorted({end_of_sample, end}):
        for iteration in range(N_ITERATIONS):
            in_parts(write, stop - begin, threads)
            if not reassign(vectors, order, begin, stop, iteration, workspace):
                break
    clear_sums(vectors, order, begin, end, workspace.sums)


@kernel
def draw_centroids(vectors, order, begin, end, key, workspace):
    """Draw two centroids of a node: write them as sums, with their norms.

    A large node is clustered by a sample of its vectors first, which is moved to its beginning.
    Returns where the sample ends.
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
    workspace.norms[:] = 1
    return begin + n_sampled


@kernel
def write_dots(vectors, order, begin, end, sums, dots):
    """Write the inner products of the vectors order[begin:end] with both sums."""
    for k in range(begin, end):
        dots[k, 0], dots[k, 1] = _dots(vectors, order[k], sums)


@kernel
def reassign(vectors, order, begin, end, iteration, workspace):
    """Order order[begin:end] by the inner products with both sums, and sum up the vectors of each
    half; return False, without a change, where the similarities have hardly grown.
    """
    dots = workspace.dots
    norms = workspace.norms
    middle = begin + (end - begin + 1) // 2
    if iteration == 0:
        workspace.similarity[0] = -1
    else:
        square0 = ZERO
        square1 = ZERO
        for k in range(begin, middle):
            square0 += dots[k, 0]
        for k in range(middle, end):
            square1 += dots[k, 1]
        norms[0] = _norm(square0)
        norms[1] = _norm(square1)
        total = norms[0] + norms[1]
        if total - workspace.similarity[0] <= float32(MIN_GAIN) * total:
            return False
        workspace.similarity[0] = total
    norm0 = norms[0]
    norm1 = norms[1]
    for k in range(begin, end):
        workspace.score[order[k]] = dots[k, 1] / norm1 - dots[k, 0] / norm0
    select(order, workspace.score, begin, middle, end)
    if iteration == 0:
        clear_sums(vectors, order, begin, end, workspace.sums)
    for k in range(begin, end):
        half = int64(k >= middle)
        if iteration == 0:
            _add(vectors, order[k], workspace.sums, half)
        elif workspace.half[order[k]] != half:
            _move(vectors, order[k], workspace.sums, half)
        workspace.half[order[k]] = half
    return True


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
    a = ZERO
    b = ZERO
    for at in range(vectors.offsets[i], vectors.offsets[i + 1]):
        column = vectors.columns[at]
        value = vectors.values[at]
        a += value * sums[column, 0]
        b += value * sums[column, 1]
    return a, b


@kernel
def clear_sums(vectors, order, begin, end, sums):
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

        def halve_node(node: int) -> None:
            workspace = spare.get()
            halve_nodes(vectors, order, edges, keys, level, end_level, node, workspace)
            spare.put(workspace)

        in_threads(halve_node, threads, range(1 << level))

    def halve_in_threads(level: int) -> None:
        """Halve the nodes of a level of fewer nodes than threads."""
        n_nodes = 1 << level

        def halve_node(node: int) -> None:
            workspace = spare.get()
            begin, end = edges[[node << (depth - level), (node + 1) << (depth - level)]]
            key = keys[n_nodes - 1 + node]
            _halve_in_threads(vectors, order, begin, end, key, workspace, threads // n_nodes)
            spare.put(workspace)

        in_threads(halve_node, n_nodes, range(n_nodes))

    # From the level on that has enough nodes for all threads, each is halved down to its leaves.
    whole = min(depth, (PARTS_PER_THREAD * threads - 1).bit_length())
    for level in range(whole):
        if threads >= 2 << level and n >> level >= 2 * SAMPLE:
            halve_in_threads(level)
        else:
            halve(level, level + 1)
    halve(whole, depth)
    return order, edges


def _new_workspace(n: int, n_columns: int) -> Workspace:
    """Buffers for a tree over n vectors."""
    return Workspace(
        sums=np.zeros((n_columns, 2), float32),
        dots=np.zeros((n, 2), float32),
        score=np.zeros(n, float32),
        half=np.zeros(n, np.int8),
        norms=np.zeros(2, float32),
        similarity=np.zeros(1, float32),
    )
