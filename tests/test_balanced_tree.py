"""The balanced tree of sparse vectors, against 2-means by NumPy."""

from itertools import pairwise

import numpy as np
import pytest

from embedx.kernels.random import bits, low_half_below, stream_key
from embedx.search.balanced_tree import (
    MIN_GAIN,
    N_ITERATIONS,
    SAMPLE,
    SparseVectors,
    balanced_tree,
)


def naive_halves(x, ids, key):
    """Balanced spherical 2-means of the rows `ids` of x: first and second half."""
    first = ids[int(low_half_below(np.uint64(bits(key, np.uint64(0))), len(ids)))]
    second = int(low_half_below(np.uint64(bits(key, np.uint64(1))), len(ids) - 1))
    centroids = np.stack([x[first], x[ids[second + (second >= ids.index(first))]]])
    before = -1.0
    halves = None
    for _ in range(N_ITERATIONS):
        if halves:
            sums = np.stack([x[half].sum(axis=0) for half in halves])
            total = np.linalg.norm(sums, axis=1).sum()
            if total - before <= MIN_GAIN * total:
                break
            centroids = sums / np.linalg.norm(sums, axis=1, keepdims=True)
            before = total
        score = x @ (centroids[1] - centroids[0])
        ranked = sorted(ids, key=lambda i: (score[i], i))
        halves = ranked[: (len(ids) + 1) // 2], ranked[(len(ids) + 1) // 2 :]
    return halves


@pytest.mark.parametrize("threads", [1, 3])
def test_two_clusters_of_many_vectors_are_found_by_a_sample_of_them(threads):
    rng = np.random.default_rng(0)
    n = 2 * SAMPLE + 2
    is_second = rng.permutation(n) >= (n + 1) // 2
    column = np.stack([is_second, 2 + rng.integers(0, 5, n)], axis=1).astype(np.int32)
    value = np.tile(np.sqrt([0.6, 0.4]).astype(np.float32), (n, 1))
    vectors = SparseVectors(np.arange(0, 2 * n + 1, 2), column.ravel(), value.ravel())
    order, edges = balanced_tree(vectors, 7, 3, 1, threads)
    assert sorted(order.tolist()) == list(range(n))
    in_order = is_second[order]
    middle = edges[4]
    assert in_order[:middle].all() or not in_order[:middle].any()
    assert len(set(in_order[middle:].tolist())) == 1


@pytest.mark.parametrize("threads", [2, 5])
def test_a_large_node_is_halved_by_threads_as_by_one(threads):
    rng = np.random.default_rng(0)
    n = 4 * SAMPLE + 3  # two levels of large nodes
    column = rng.permuted(np.tile(np.arange(9), (n, 1)), axis=1)[:, :3].astype(np.int32)
    value = rng.random((n, 3)).astype(np.float32)
    value /= np.linalg.norm(value, axis=1, keepdims=True)
    vectors = SparseVectors(np.arange(0, 3 * n + 1, 3), column.ravel(), value.ravel())
    order, edges = balanced_tree(vectors, 9, 3, 1, threads)
    order_of_one, edges_of_one = balanced_tree(vectors, 9, 3, 1, threads=1)
    np.testing.assert_array_equal(order, order_of_one)
    np.testing.assert_array_equal(edges, edges_of_one)


@pytest.mark.parametrize("n", [8, 13, 30])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_balanced_tree_is_that_of_2_means(n, threads):
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 6)) * (rng.random((n, 6)) < 0.6)
    x[:, 0] += 0.1
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    row, column = np.nonzero(x)
    vectors = SparseVectors(
        np.searchsorted(row, np.arange(n + 1)), column.astype(np.int32), x[row, column]
    )
    order, edges = balanced_tree(vectors, 6, 1, 5, threads)
    halves = naive_halves(x.astype(float), list(range(n)), np.uint64(stream_key(5, 0, 0)))
    assert edges.tolist() == [0, (n + 1) // 2, n]
    assert [set(order[: edges[1]].tolist()), set(order[edges[1] :].tolist())] == [
        set(half) for half in halves
    ]
    # a level deeper, each half is split by itself, from the order in which it was left
    deeper, deeper_edges = balanced_tree(vectors, 6, 2, 5, threads)
    for node in range(2):
        ids = order[edges[node] : edges[node + 1]].tolist()
        parts = naive_halves(x.astype(float), ids, np.uint64(stream_key(5, 1, node)))
        bounds = deeper_edges[2 * node : 2 * node + 3]
        assert [set(deeper[a:b].tolist()) for a, b in pairwise(bounds)] == [set(p) for p in parts]
    leaves, leaf_edges = balanced_tree(vectors, 6, 3, 5, threads)
    sizes = np.diff(leaf_edges)
    assert len(sizes) == 8
    assert sizes.max() - sizes.min() <= 1
    assert sorted(leaves.tolist()) == list(range(n))
