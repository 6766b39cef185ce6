"""A balanced binary tree over vectors, by recursive spherical 2-means: each half of a node gets
half of its vectors.

As in Parabel (Prabhu et al. 2018, "Parabel: partitioned label trees for extreme classification with
application to dynamic search advertising"): two centroids are drawn from a node's vectors, each
vector is scored by its similarity with the one minus that with the other, and the upper half by
that score makes the next first centroid, until the sum of similarities hardly grows.
"""

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


class SparseVectors(NamedTuple):
    """Vectors of length one: that of k has values[offsets[k]:offsets[k + 1]] at these columns."""

    offsets: ndarray  # int64 (n + 1,)
    columns: ndarray  # int32
    values: ndarray  # float32


class Workspace(NamedTuple):
    """One worker's memory."""

    sums: ndarray  # float32 (n_columns, 2): of the vectors of either half; zero between calls
    dots: ndarray  # float32 (n, 2): of the vector at each place of the order with either sum
    score: ndarray  # float32 (n,): by vector, how much more similar it is to the second half


@kernel
def halve(vectors, order, begin, end, key, workspace):
    """Bring order[begin:end] into an order in which the first half, the larger by one of an odd
    number, is one cluster.
    """
    n = end - begin
    middle = begin + (n + 1) // 2
    first = begin + low_half_below(bits(key, uint64(0)), n)
    second = begin + low_half_below(bits(key, uint64(1)), n - 1)  # of the others
    second += second >= first
    _add(vectors, order[first], workspace.sums, 0)
    _add(vectors, order[second], workspace.sums, 1)
    square0, square1 = ONE, ONE
    before = float32(-1)
    for iteration in range(N_ITERATIONS):
        for k in range(begin, end):
            workspace.dots[k, 0], workspace.dots[k, 1] = _dots(vectors, order[k], workspace.sums)
        if iteration > 0:
            square0, square1 = ZERO, ZERO
            for k in range(begin, middle):
                square0 += workspace.dots[k, 0]
            for k in range(middle, end):
                square1 += workspace.dots[k, 1]
        norm0 = _norm(square0)
        norm1 = _norm(square1)
        total = norm0 + norm1
        if iteration > 0 and total - before <= float32(MIN_GAIN) * total:
            break
        before = total if iteration > 0 else before
        for k in range(begin, end):
            workspace.score[order[k]] = workspace.dots[k, 1] / norm1 - workspace.dots[k, 0] / norm0
        _clear(vectors, order, begin, end, workspace.sums)
        select(order, workspace.score, begin, middle, end)
        for k in range(begin, end):
            _add(vectors, order[k], workspace.sums, int64(k >= middle))
    _clear(vectors, order, begin, end, workspace.sums)


@kernel_part
def _norm(square):
    """The root of a sum of squares as it comes from rounded numbers, above 0."""
    return max(np.sqrt(max(square, ZERO)), float32(1e-12))


@kernel_part
def _add(vectors, i, sums, half):
    """Add vector i to the sum of a half."""
    for at in range(vectors.offsets[i], vectors.offsets[i + 1]):
        sums[vectors.columns[at], half] += vectors.values[at]


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
    """Zero what the vectors order[begin:end] have added."""
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

    Sizes of leaves differ by one at most. The leaves of a node at any depth stand side by side. n
    >= 2^depth.
    """
    n = len(vectors.offsets) - 1
    order = np.arange(n, dtype=np.int32)
    edges = np.array([0, n], int64)
    workers = [
        Workspace(*(np.zeros(shape, float32) for shape in ((n_columns, 2), (n, 2), n)))
        for _ in range(threads)
    ]
    for level in range(depth):
        middles = edges[:-1] + (np.diff(edges) + 1) // 2

        def work(t: int, edges: ndarray = edges, level: int = level) -> None:
            for node in range(t, len(edges) - 1, threads):
                if edges[node + 1] - edges[node] > 1:
                    halve(
                        vectors,
                        order,
                        edges[node],
                        edges[node + 1],
                        stream_key(seed, level, node),
                        workers[t],
                    )

        in_threads(work, threads, range(threads))
        edges = np.sort(np.concatenate([edges, middles]))
    return order, edges
