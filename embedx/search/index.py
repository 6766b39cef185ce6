"""The index: an inverted file for each block of columns, updated in place while the table is
trained.

stored    In each block, the inverted lists one after another in numbered slots, one per row: its id
          in `ids`, a copy of its columns in `panels`, so that probing a list reads memory in order.
          A list begins at a multiple of 16 slots and has spare slots at its end for rows that are
          reassigned to it. `cluster` and `slot` are the list and the slot of each row.
update    `update_rows` overwrites the copies of changed rows and updates the sums of their lists
          (`cluster_scores`). It computes the nearest centroid of a row only if the row has changed
          much, and at every REASSIGN_EVERY-th update; a row with a new nearest centroid moves to
          that list if the list has a spare slot. Centroids are fixed until a rebuild.
readers   Queries read the copies, never the table. `embedx.search` says what may change during a
          query.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray

from embedx.kernels.by_address import by_address
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.simd import ONE, SIMD_WIDTH, ZERO, aligned_zeros
from embedx.kernels.threads import in_parts, in_threads
from embedx.search.cluster_scores import (
    ClusterStatistics,
    add_to_sums,
    new_statistics,
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

REASSIGN_EVERY = 8  # number of updates of a row after which its list is checked
# Change, relative to a row's norm in the block, after which its list is checked at once.
REASSIGN_CHANGE = float32(1 / 16)
# A list has SPARE_SHARE times its size + SPARE_SLOTS spare slots.
SPARE_SHARE = 0.25
SPARE_SLOTS = 16


@by_address
class Index(NamedTuple):
    """Inverted files with C lists for each of B blocks of columns."""

    edges: ndarray  # int64 (B + 1,): block j consists of the table's columns edges[j]:edges[j + 1]
    centroids: Centroids  # one for each list, as of the last rebuild
    statistics: ClusterStatistics  # of the rows in each list, up to date
    # int64 (B, C + 1): the first slot of each list, a multiple of 16, and the end of the last
    list_offsets: ndarray
    # int64 (B, C): the number of rows in each list; the other slots are spare
    list_sizes: ndarray
    ids: ndarray  # int32 (B, slots): the row in each slot
    panels: ndarray  # float32 (B, slots / 16, columns of the widest block, 16): its vector
    slot: ndarray  # int32 (B, n_rows): the slot of each row
    cluster: ndarray  # int32 (B, n_rows): the list of each row
    update_count: ndarray  # uint8 (B, n_rows): number of updates of a row modulo REASSIGN_EVERY


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
    """The index with these rows in these clusters."""
    blocks, n_rows = cluster.shape
    edges = centroids.edges
    sizes = np.array([np.bincount(cluster[j], minlength=clusters) for j in range(blocks)], int64)
    with_spare_slots = sizes + (SPARE_SHARE * sizes).astype(int64) + SPARE_SLOTS
    n_panels = -(-with_spare_slots // SIMD_WIDTH)
    list_offsets = np.zeros((blocks, clusters + 1), int64)
    np.cumsum(n_panels * SIMD_WIDTH, axis=1, out=list_offsets[:, 1:])
    slots = int(list_offsets[:, -1].max())
    index = Index(
        edges=edges,
        centroids=centroids,
        statistics=new_statistics(edges, clusters),
        list_offsets=list_offsets,
        list_sizes=np.zeros_like(sizes),
        ids=np.zeros((blocks, slots), int32),
        panels=new_panels(edges, slots),
        slot=np.zeros((blocks, n_rows), int32),
        cluster=cluster,
        update_count=np.zeros((blocks, n_rows), np.uint8),
    )
    in_threads(lambda j: fill_lists(index, table, j), threads, range(blocks))
    return index


@kernel
def fill_lists(index, table, j):
    """Add every row to its list of block j; the lists are empty before."""
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
    """Update block j to the changed rows table[rows]; only one thread at a time may do so.

    Returns the number of rows with a new nearest centroid. A row whose new list is full stays in
    the old one, where queries find it as well. `scores`, float32 (1, padded clusters), is
    overwritten.
    """
    n_reassigned = 0
    for i in range(rows.size):
        row = int64(rows[i])
        index.update_count[j, row] = (index.update_count[j, row] + 1) % REASSIGN_EVERY
        if _replace_vector(index, j, row, table) or index.update_count[j, row] == 0:
            nearest = nearest_centroid(
                index.centroids, index.list_sizes.shape[1], j, table, row, scores
            )
            n_reassigned += nearest != index.cluster[j, row]
            next_slot = index.list_offsets[j, nearest] + index.list_sizes[j, nearest]
            if next_slot < index.list_offsets[j, nearest + 1]:
                _move(index, j, row, nearest, table)
    update_moments(index.statistics, index.list_sizes, j, index.edges[j + 1] - index.edges[j])
    return n_reassigned


@kernel_part
def _replace_vector(index, j, row, table):
    """Overwrite the copy of a row in block j by table[row], and update the sums of its cluster.

    Returns whether the row changed by more than REASSIGN_CHANGE times its old norm in the block.
    """
    slot = int64(index.slot[j, row])
    c = int64(index.cluster[j, row])
    begin = index.edges[j]
    sums = index.statistics.sums[j, c // SIMD_WIDTH]
    vectors = index.panels[j, slot // SIMD_WIDTH]
    before = after = change = ZERO  # squared norms of the vectors and of their difference
    for k in range(index.edges[j + 1] - begin):
        old = vectors[k, slot % SIMD_WIDTH]
        new = table[row, begin + k]
        vectors[k, slot % SIMD_WIDTH] = new
        sums[k, c % SIMD_WIDTH] += new - old
        before += old * old
        after += new * new
        change += (new - old) * (new - old)
    index.statistics.square_sums[j, c] += after - before
    return change > REASSIGN_CHANGE * REASSIGN_CHANGE * before


@kernel_part
def _move(index, j, row, c, table):
    """Move a row to list c of block j, which has a spare slot."""
    old = int64(index.cluster[j, row])
    slot = int64(index.slot[j, row])
    if c == old:
        return
    add_to_sums(index.statistics, j, old, index.panels[j], slot, float32(-1))
    # The last row of the old list moves to the empty slot.
    last = index.list_offsets[j, old] + index.list_sizes[j, old] - 1
    last_row = index.ids[j, last]
    index.ids[j, slot] = last_row
    index.slot[j, last_row] = slot
    copy_vector(index.panels[j], last, slot)
    index.list_sizes[j, old] -= 1
    _append(index, j, row, c, table)
