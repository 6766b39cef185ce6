"""Tables of clustered rows, and whether an index of them is sound."""

import numpy as np

from embedx.kernels.simd import SIMD_WIDTH, aligned_zeros

N, DIM = 900, 37


def clustered(n=N, dim=DIM, groups=30, spread=0.3, seed=0):
    """float32 (n, padded): rows around common means."""
    rng = np.random.default_rng(seed)
    table = aligned_zeros(n, dim)
    table[:, :dim] = rng.normal(size=(groups, dim))[
        rng.integers(0, groups, n)
    ] + spread * rng.normal(size=(n, dim))
    return table


def check(index, table):
    """Every row is stored once in each block, in the list and slot that the index says, with its
    vector.
    """
    for j in range(len(index.ids)):
        used = [
            s
            for c, n in enumerate(index.list_sizes[j])
            for s in range(index.list_offsets[j, c], index.list_offsets[j, c] + n)
        ]
        np.testing.assert_array_equal(np.sort(index.ids[j, used]), np.arange(len(table)))
        np.testing.assert_array_equal(index.ids[j, index.slot[j]], np.arange(len(table)))
        assert (index.list_offsets[j] % SIMD_WIDTH == 0).all()
        cluster = np.searchsorted(index.list_offsets[j], index.slot[j], side="right") - 1
        np.testing.assert_array_equal(cluster, index.cluster[j])
        begin = index.edges[j]
        end = index.edges[j + 1]
        vectors = (
            index.panels[j].transpose(0, 2, 1).reshape(index.ids.shape[1], -1)[:, : end - begin]
        )
        np.testing.assert_array_equal(vectors[index.slot[j]], table[:, begin:end])
