"""An index of a table's rows for maximum inner products, in blocks of columns, which follows the rows as they move.

In each block the rows lie by the cluster that they point to, those of a cluster side by side in panels, with room for more:
looking through a cluster reads memory in order. A row that changed is written anew where it lies, and what its cluster
promises follows; if it went far, and at every REHOMED-th change, its nearest centre is sought too, and it moves there if there
is room. Rows are copies, so a table may move on while its index is read; whatever a reader meets, ids are those of rows.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.simd import LANES, aligned_zeros
from embedx.search.cluster_scores import Promise, clear, count, new_promise, replace, settle
from embedx.search.clusters import Centres, assign, block_edges, find_centres, new_seeker, seek, widest
from embedx.search.panels import move_in_panels, put_in_panels
from embedx.search.spec import Search

REHOMED = 8
FAR = np.float32(1 / 16)  # of a row's length in a block
ROOM = 0.25  # of a cluster's size, for rows that move in
SPARE = 16  # slots beside that


class Index(NamedTuple):
    """Rows of a table by cluster, for each block of columns."""

    edges: np.ndarray  # int64 (B + 1,): block j holds the table's columns edges[j]:edges[j + 1]
    centres: Centres  # of the clusters, as they were when the index was built
    promise: Promise  # what the clusters promise
    begin: np.ndarray  # int64 (B, C + 1): the first slot of each cluster, a multiple of 16, and the end of the last
    in_use: np.ndarray  # int64 (B, C): the slots in use
    ids: np.ndarray  # int32 (B, slots): the row in each slot
    panels: np.ndarray  # float32 (B · slots / 16 · width, 16): its vector
    width: int  # of a panel: the columns of the widest block
    slot: np.ndarray  # int32 (B, n_rows): where each row lies
    home: np.ndarray  # int32 (B, n_rows): in which cluster
    changes: np.ndarray  # uint8 (B, n_rows): how often a row changed, modulo REHOMED


def empty(blocks: int) -> Index:
    """An index without rows."""

    def matrix(kind: type) -> np.ndarray:
        return np.zeros((blocks, 0), dtype=kind)

    edges = np.zeros(blocks + 1, dtype=np.int64)
    centres = Centres(edges, 0, aligned_zeros(0, LANES), matrix(np.float32), np.zeros(blocks, dtype=np.float32))
    return Index(
        edges, centres, new_promise(edges, 0), matrix(np.int64), matrix(np.int64), matrix(np.int32),
        aligned_zeros(0, LANES), 0, matrix(np.int32), matrix(np.int32), matrix(np.uint8),
    )  # fmt: skip


def build(table: np.ndarray, n_rows: int, dim: int, search: Search, rng: np.random.Generator, threads: int = 1) -> Index:
    """An index of table[:n_rows, :dim], float32 (>= n_rows, >= dim)."""
    blocks, clusters = search.blocks, min(search.clusters, n_rows)
    edges = block_edges(dim, blocks)
    centres = find_centres(table, n_rows, edges, clusters, rng, threads)
    rows = np.arange(n_rows, dtype=np.int32)
    home = np.zeros((blocks, n_rows), dtype=np.int32)
    parts = [n_rows * w // threads for w in range(threads + 1)]

    def work(w: int) -> None:
        seeker = new_seeker(clusters)
        for j in range(blocks):
            assign(centres, clusters, j, table, rows, parts[w], parts[w + 1], seeker, home[j])

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    n_in = np.stack([np.bincount(home[j], minlength=clusters) for j in range(blocks)]).astype(np.int64)
    capacity = -(-(n_in + (ROOM * n_in).astype(np.int64) + SPARE) // LANES) * LANES
    begin = np.zeros((blocks, clusters + 1), dtype=np.int64)
    np.cumsum(capacity, axis=1, out=begin[:, 1:])
    slots = int(begin[:, -1].max())
    width = widest(edges)
    index = Index(
        edges, centres, new_promise(edges, clusters), begin, np.zeros_like(n_in), np.zeros((blocks, slots), dtype=np.int32),
        aligned_zeros(blocks * (slots // LANES) * width, LANES), width, np.zeros((blocks, n_rows), dtype=np.int32), home,
        np.zeros((blocks, n_rows), dtype=np.uint8),
    )  # fmt: skip
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda j: fill(index, table, j), range(blocks)))
    return index


@kernel
def fill(index, table, j):
    """Put every row into its cluster of block j."""
    begin, end = index.edges[j], index.edges[j + 1]
    first = j * index.ids.shape[1]
    for row in range(index.home.shape[1]):
        c = np.int64(index.home[j, row])
        slot = index.begin[j, c] + index.in_use[j, c]
        index.in_use[j, c] += 1
        index.ids[j, slot] = row
        index.slot[j, row] = slot
        put_in_panels(index.panels, first + slot, index.width, table, row, begin, end)
        count(index.promise, index.edges, j, c, index.panels, first + slot, np.float32(1))
    settle(index.promise, index.edges, index.in_use, j)


@kernel
def refresh(index, table, rows, n, j, seeker):
    """Have block j follow table[rows[:n]], which changed. Return how many were found to point to another cluster.

    No two threads may do so for a block at once. A row whose new cluster is full stays where it is, and is found so again.
    """
    n_left = waiting = 0
    for i in range(n):
        row = np.int64(rows[i])
        index.changes[j, row] = (index.changes[j, row] + 1) % REHOMED
        slot = j * index.ids.shape[1] + index.slot[j, row]
        went_far = replace(index.promise, index.edges, j, np.int64(index.home[j, row]), index.panels, slot, table, row, FAR)
        if went_far or index.changes[j, row] == 0:
            seeker.rows[waiting] = row
            waiting += 1
        if waiting == 4 or (waiting > 0 and i == n - 1):
            for r in range(waiting, 4):
                seeker.rows[r] = seeker.rows[0]
            seek(index.centres, index.in_use.shape[1], j, table, seeker)
            for r in range(waiting):
                n_left += _move(index, j, np.int64(seeker.rows[r]), np.int64(seeker.home[r]), table)
            waiting = 0
    settle(index.promise, index.edges, index.in_use, j)
    return n_left


@kernel_part
def _move(index, j, row, c, table):
    """Have a row lie in cluster c of block j, if there is room. Return 0 if it lay there, 1 if not."""
    old, slot = np.int64(index.home[j, row]), np.int64(index.slot[j, row])
    if c == old:
        return 0
    first = j * index.ids.shape[1]
    if index.begin[j, c] + index.in_use[j, c] < index.begin[j, c + 1]:
        count(index.promise, index.edges, j, old, index.panels, first + slot, np.float32(-1))
        last = index.begin[j, old] + index.in_use[j, old] - 1  # the last row of the old cluster takes the free place
        moved = index.ids[j, last]
        index.ids[j, slot] = moved
        index.slot[j, moved] = slot
        move_in_panels(index.panels, first + last, first + slot, index.width)
        index.in_use[j, old] -= 1
        if index.in_use[j, old] == 0:
            clear(index.promise, index.edges, j, old)
        slot = index.begin[j, c] + index.in_use[j, c]
        index.ids[j, slot] = row
        index.slot[j, row], index.home[j, row] = slot, c
        index.in_use[j, c] += 1
        put_in_panels(index.panels, first + slot, index.width, table, row, index.edges[j], index.edges[j + 1])
        count(index.promise, index.edges, j, c, index.panels, first + slot, np.float32(1))
    return 1
