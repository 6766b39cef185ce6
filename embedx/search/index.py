"""The index: an inverted file for each block of columns, updated in place while the table is
trained.

stored    For each block, the inverted lists one after another in numbered slots, a slot for each
          row: its id in `ids`, a copy of its columns in `panels`, so that probing a list reads
          memory in order. A list begins at a multiple of 16 slots and has spare ones at its end for
          rows that are reassigned to it. `cluster` and `slot` tell where each row is stored.
update    `update_rows` overwrites the copies of rows that have changed and corrects the sums of
          their lists (`cluster_scores`). It looks for a row's nearest centroid only if the row has
          changed much, and at every REASSIGN_EVERY-th update; a row with another nearest centroid
          moves to that list if it has a spare slot. Centroids stay as they are until a rebuild.
readers   Queries read the copies, never the table. See `embedx.search` for what may change under a
          query.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray

from embedx.kernels.by_address import by_address
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.simd import ONE, SIMD_WIDTH, aligned_zeros
from embedx.kernels.threads import in_parts, in_threads
from embedx.search.cluster_scores import (
    ClusterStatistics,
    add_to_sums,
    new_statistics,
    replace_vector,
    update_moments,
)
from embedx.search.kmeans import (
    Centroids,
    assign,
    block_edges,
    fit_centroids,
    nearest_centroid,
    new_centroids,
)
from embedx.search.panels import copy_vector, new_panels, write_vector
from embedx.search.spec import SearchSpec

REASSIGN_EVERY = 8  # updates of a row
# a change of this share of a row's norm in a block is reason to reassign it at once
REASSIGN_CHANGE = float32(1 / 16)
SPARE_SHARE = 0.25  # spare slots of a list, as a share of its size,
SPARE_SLOTS = 16  # and these in addition


@by_address
class Index(NamedTuple):
    """Inverted files with C lists for each of B blocks of columns."""

    edges: ndarray  # int64 (B + 1,): block j consists of the table's columns edges[j]:edges[j + 1]
    centroids: Centroids  # one for each list, from when the index was built
    statistics: ClusterStatistics  # of the rows in each list, current
    # int64 (B, C + 1): the first slot of each list, a multiple of 16, and the end of the last
    list_offsets: ndarray
    # int64 (B, C): the number of rows in each list; the rest of its slots is spare
    list_sizes: ndarray
    ids: ndarray  # int32 (B, slots): the row in each slot
    panels: ndarray  # float32 (B, slots / 16, columns of the widest block, 16): its vector
    slot: ndarray  # int32 (B, n_rows): the slot of each row
    cluster: ndarray  # int32 (B, n_rows): the list of each row
    update_count: ndarray  # uint8 (B, n_rows): how often a row was updated, modulo REASSIGN_EVERY


def empty_index(blocks: int) -> Index:
    """An index without rows."""
    table = np.zeros((0, 0), float32)
    cluster = np.zeros((blocks, 0), int32)
    return _filled(table, new_centroids(block_edges(0, blocks), 0), cluster, 0, 1)


def build_index(
    table: ndarray,
    n_rows: int,
    dim: int,
    search: SearchSpec,
    rng: np.random.Generator,
    threads: int = 1,
) -> Index:
    """An index of table[:n_rows, :dim], float32 (>= n_rows, >= dim)."""
    blocks = search.blocks
    clusters = min(search.clusters, n_rows)
    centroids = fit_centroids(table, n_rows, block_edges(dim, blocks), clusters, rng, threads)
    rows = np.arange(n_rows, dtype=int32)
    cluster = np.zeros((blocks, n_rows), int32)

    def assign_part(begin: int, end: int) -> None:
        scores = aligned_zeros(1, clusters)
        for j in range(blocks):
            assign(centroids, clusters, j, table, rows, begin, end, scores, cluster[j])

    in_parts(assign_part, n_rows, threads)
    return _filled(table, centroids, cluster, clusters, threads)


def _filled(
    table: ndarray, centroids: Centroids, cluster: ndarray, clusters: int, threads: int
) -> Index:
    """The index whose rows are in these clusters."""
    blocks, n_rows = cluster.shape
    edges = centroids.edges
    sizes = np.stack([np.bincount(cluster[j], minlength=clusters) for j in range(blocks)]).astype(
        int64
    )
    capacities = (
        -(-(sizes + (SPARE_SHARE * sizes).astype(int64) + SPARE_SLOTS) // SIMD_WIDTH) * SIMD_WIDTH
    )
    list_offsets = np.zeros((blocks, clusters + 1), int64)
    np.cumsum(capacities, axis=1, out=list_offsets[:, 1:])
    slots = int(list_offsets[:, -1].max())
    index = Index(
        edges,
        centroids,
        new_statistics(edges, clusters),
        list_offsets,
        np.zeros_like(sizes),
        np.zeros((blocks, slots), int32),
        new_panels(edges, slots),
        np.zeros((blocks, n_rows), int32),
        cluster,
        np.zeros((blocks, n_rows), np.uint8),
    )
    in_threads(lambda j: fill_lists(index, table, j), threads, range(blocks))
    return index


@kernel
def fill_lists(index, table, j):
    """Add every row to its list of block j, all of which are empty."""
    for row in range(index.cluster.shape[1]):
        _append(index, j, row, int64(index.cluster[j, row]), table)
    update_moments(index.statistics, index.list_sizes, j, index.edges[j + 1] - index.edges[j])


@kernel_part
def _append(index, j, row, c, table):
    """Add a row to list c of block j, which has a spare slot."""
    slot = index.list_offsets[j, c] + index.list_sizes[j, c]
    index.ids[j, slot] = row
    index.slot[j, row] = slot
    index.cluster[j, row] = c
    index.list_sizes[j, c] += 1
    write_vector(index.panels[j], slot, table, row, index.edges[j], index.edges[j + 1])
    add_to_sums(index.statistics, j, c, index.panels[j], slot, ONE)


@kernel
def update_rows(index, table, rows, j, scores):
    """Bring block j up to date with table[rows], which have changed; only one thread at a time may
    do so.

    Returns how many of the rows have another nearest centroid than that of their list. Those whose
    new list is full stay in the old one, where a query finds them too. `scores`, float32 (1, padded
    clusters), is overwritten.
    """
    n_reassigned = 0
    begin = index.edges[j]
    end = index.edges[j + 1]
    for i in range(rows.size):
        row = int64(rows[i])
        index.update_count[j, row] = (index.update_count[j, row] + 1) % REASSIGN_EVERY
        slot = int64(index.slot[j, row])
        c = int64(index.cluster[j, row])
        changed_much = replace_vector(
            index.statistics, j, c, index.panels[j], slot, table, row, begin, end, REASSIGN_CHANGE
        )
        if changed_much or index.update_count[j, row] == 0:
            nearest = nearest_centroid(
                index.centroids, index.list_sizes.shape[1], j, table, row, scores
            )
            n_reassigned += nearest != c
            if (
                index.list_offsets[j, nearest] + index.list_sizes[j, nearest]
                < index.list_offsets[j, nearest + 1]
            ):
                _move(index, j, row, nearest, table)
    update_moments(index.statistics, index.list_sizes, j, end - begin)
    return n_reassigned


@kernel_part
def _move(index, j, row, c, table):
    """Move a row to list c of block j, which has a spare slot."""
    old = int64(index.cluster[j, row])
    slot = int64(index.slot[j, row])
    if c == old:
        return
    add_to_sums(index.statistics, j, old, index.panels[j], slot, float32(-1))
    # the last row of the old list fills the gap
    last = index.list_offsets[j, old] + index.list_sizes[j, old] - 1
    last_row = index.ids[j, last]
    index.ids[j, slot] = last_row
    index.slot[j, last_row] = slot
    copy_vector(index.panels[j], last, slot)
    index.list_sizes[j, old] -= 1
    _append(index, j, row, c, table)
