"""Spherical k-means: directions that a table's rows point in, for each block of its columns.

Dhillon & Modha 2001, "Concept decompositions for large sparse text data using clustering": rows count by direction alone,
a row belongs to the centre with the largest inner product, a centre is the unit vector along the sum of its rows' directions.
As an index for maximum inner products: Auvolat et al. 2015, "Clustering is efficient for approximate maximum inner product
search". Centres are found on a sample of rows, for a few dozen rows each tell where it lies.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from embedx.compiled import kernel, kernel_part
from embedx.engine.simd import LANES, aligned_zeros, padded
from embedx.search.panels import put_in_panels, score_panels

SAMPLED = 64  # rows for each centre
ROUNDS = 8
SHORT = np.float32(1e-12)  # rows below this length point nowhere


def block_edges(dim: int, blocks: int) -> np.ndarray:
    """int64 (blocks + 1,): where blocks of dim columns begin, as equal as they can be, and the end."""
    return np.array([dim * j // blocks for j in range(blocks + 1)], dtype=np.int64)


def new_centres(edges: np.ndarray, clusters: int) -> np.ndarray:
    """float32 (rows of panels, 16): room for the centres of all blocks."""
    return aligned_zeros(len(edges[1:]) * (padded(clusters) // LANES) * int(np.diff(edges).max()), LANES)


@kernel_part
def score_centres(centres, edges, clusters, j, h, e, out, r):
    """Overwrite out[r, :clusters] by the products of h[e] with the centres of block j."""
    n_panels = (clusters + LANES - 1) // LANES
    width = centres.shape[0] // ((edges.size - 1) * n_panels)
    score_panels(centres, j * n_panels, n_panels, width, h, e, edges[j], edges[j + 1], out, r, 0)


@kernel_part
def nearest_centre(centres, edges, clusters, j, table, row, scores):
    """The centre of block j that table[row] points to; `scores` float32 (1, >= padded clusters) is overwritten."""
    score_centres(centres, edges, clusters, j, table, row, scores, 0)
    best = 0
    for c in range(1, clusters):
        best = c if scores[0, c] > scores[0, best] else best
    return best


@kernel
def assign(centres, edges, clusters, j, table, rows, begin, end, scores, home):
    """Write home[i], the cluster in block j of table[rows[i]], for i in begin:end. Rows of no length go round robin."""
    for i in range(begin, end):
        row = np.int64(rows[i])
        square = np.float32(0)
        for k in range(edges[j], edges[j + 1]):
            square += table[row, k] * table[row, k]
        if square > SHORT * SHORT:
            home[i] = nearest_centre(centres, edges, clusters, j, table, row, scores)
        else:
            home[i] = i % clusters


@kernel
def sum_directions(table, rows, home, begin, end, sums):
    """Overwrite `sums`, float32 (clusters, >= end - begin), by the sums of the directions of table[rows, begin:end] by home."""
    sums[:] = 0
    for i in range(rows.size):
        row = np.int64(rows[i])
        square = np.float32(0)
        for k in range(begin, end):
            square += table[row, k] * table[row, k]
        if square > SHORT * SHORT:
            scale = np.float32(1) / np.sqrt(square)
            for k in range(begin, end):
                sums[home[i], k - begin] += scale * table[row, k]


@kernel
def set_centres(centres, edges, clusters, j, vectors):
    """Write the centres of block j: vectors float32 (clusters, >= width of the block)."""
    n_panels = (clusters + LANES - 1) // LANES
    width = centres.shape[0] // ((edges.size - 1) * n_panels)
    for c in range(clusters):
        put_in_panels(centres, j * n_panels * LANES + c, width, vectors, c, 0, edges[j + 1] - edges[j])


def find_centres(
    table: np.ndarray, n_rows: int, edges: np.ndarray, clusters: int, rng: np.random.Generator, threads: int
) -> np.ndarray:
    """Centres of all blocks for table[:n_rows]; see `new_centres`."""
    centres = new_centres(edges, clusters)
    n_sampled = min(n_rows, SAMPLED * clusters)
    sample = np.sort(rng.choice(n_rows, n_sampled, replace=False)).astype(np.int32)
    home = np.zeros(n_sampled, dtype=np.int32)

    def block(j: int) -> None:
        begin, end = int(edges[j]), int(edges[j + 1])
        sums = np.zeros((clusters, end - begin), dtype=np.float32)
        scores = np.zeros((1, padded(clusters)), dtype=np.float32)
        picks = np.random.default_rng([j, int(firsts[j])])
        sums[:] = _directions(table[picks.choice(sample, clusters, replace=clusters > n_sampled), begin:end], picks)
        for _ in range(ROUNDS):
            lengths = np.linalg.norm(sums, axis=1, keepdims=True)
            empty = lengths[:, 0] <= SHORT
            if empty.any():  # a centre without rows begins anew at some row
                sums[empty] = _directions(table[picks.choice(sample, int(empty.sum())), begin:end], picks)
                lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), SHORT)
            set_centres(centres, edges, clusters, j, sums / lengths)
            assign(centres, edges, clusters, j, table, sample, 0, n_sampled, scores, home_of[j])
            sum_directions(table, sample, home_of[j], begin, end, sums)

    n_blocks = len(edges) - 1
    firsts = rng.integers(0, 2**31, n_blocks)
    home_of = [home.copy() for _ in range(n_blocks)]
    if n_blocks > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(block, range(n_blocks)))
    else:
        block(0)
    return centres


def _directions(vectors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The vectors at length 1; those without length, as of a table that was not trained yet, point anywhere."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = np.where(lengths > SHORT, vectors, rng.normal(size=vectors.shape))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)
