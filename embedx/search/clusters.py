"""Spherical k-means: directions that a table's rows point in, for each block of its columns.

Dhillon & Modha 2001, "Concept decompositions for large sparse text data using clustering": rows count by direction alone,
a row belongs to the centre with the largest inner product, a centre is the unit vector along the sum of its rows' directions.
As an index for maximum inner products: Auvolat et al. 2015, "Clustering is efficient for approximate maximum inner product
search". There a long row scores high where a short one of the same direction does not, so rows w get one column more, which
makes all of them equally long: sqrt(limit² - |w|²). The limit is a length that few rows exceed; to them the column is 0.
Centres are found on a sample of rows, for a few dozen rows each tell where it lies.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.simd import (
    LANES,
    aligned_zeros,
    highest_of,
    load,
    maximum,
    multiply_add,
    padded,
    splat,
    store,
    where_above,
    zeros,
)
from embedx.search.panels import put_in_panels, score_panels_by_four

SAMPLED = 64  # rows for each centre
ROUNDS = 8
NEVER = np.float32(-1e30)  # the score of what is not to be found
SHORT = np.float32(1e-12)  # rows below this length point nowhere
LIMIT = 0.98  # the quantile of lengths up to which rows are made equally long


class Centres(NamedTuple):
    """Unit vectors, of the columns of each block and the added one."""

    edges: np.ndarray  # int64 (B + 1,): block j holds the table's columns edges[j]:edges[j + 1]
    width: int  # of a panel
    vectors: np.ndarray  # float32 (rows of panels, 16)
    extra: np.ndarray  # float32 (B, padded clusters): the added column
    limit: np.ndarray  # float32 (B,): the length that the added column gives to shorter rows


def block_edges(dim: int, blocks: int) -> np.ndarray:
    """int64 (blocks + 1,): where blocks of dim columns begin, as equal as they can be, and the end."""
    return np.array([dim * j // blocks for j in range(blocks + 1)], dtype=np.int64)


def widest(edges: np.ndarray) -> int:
    """The columns of the widest block."""
    return int(np.diff(edges).max())


def new_panels(edges: np.ndarray, clusters: int) -> np.ndarray:
    """float32 (rows of panels, 16): room for a vector for each cluster of all blocks, those of a block in whole panels."""
    return aligned_zeros(len(edges[1:]) * (padded(clusters) // LANES) * widest(edges), LANES)


@kernel_part
def square_length(table, row, begin, end):
    """|table[row, begin:end]|²."""
    square = np.float32(0)
    for k in range(begin, end):
        square += table[row, k] * table[row, k]
    return square


class Seeker(NamedTuple):
    """Memory to seek the nearest centres of four rows at once."""

    scores: np.ndarray  # float32 (4, padded clusters)
    rows: np.ndarray  # int32 (4,)
    home: np.ndarray  # int32 (4,): what was found


def new_seeker(clusters: int) -> Seeker:
    return Seeker(aligned_zeros(4, clusters), np.zeros(4, dtype=np.int32), np.zeros(4, dtype=np.int32))


@kernel_part
def seek(centres, clusters, j, table, seeker):
    """Write seeker.home, the centres of block j that table[seeker.rows] point to; of several equal ones any."""
    n_panels = (clusters + LANES - 1) // LANES
    begin, end = centres.edges[j], centres.edges[j + 1]
    score_panels_by_four(centres.vectors, j * n_panels, n_panels, centres.width, table, seeker.rows, begin, end, seeker.scores)
    for r in range(4):
        square = square_length(table, np.int64(seeker.rows[r]), begin, end)
        more = splat(np.sqrt(max(centres.limit[j] * centres.limit[j] - square, np.float32(0))))
        for c in range(clusters, n_panels * LANES):
            seeker.scores[r, c] = NEVER
        best, panel = splat(NEVER), zeros()
        for p in range(n_panels):
            score = multiply_add(more, load(centres.extra, j, p * LANES), load(seeker.scores, r, p * LANES))
            panel = where_above(score, best, splat(np.float32(p)), panel)
            best = maximum(score, best)
        store(seeker.scores, r, 0, best)
        lane, highest = 0, highest_of(best)
        while lane < LANES - 1 and seeker.scores[r, lane] < highest:
            lane += 1
        store(seeker.scores, r, 0, panel)
        seeker.home[r] = np.int32(seeker.scores[r, lane]) * LANES + lane


@kernel
def assign(centres, clusters, j, table, rows, begin, end, seeker, home):
    """Write home[i], the cluster in block j of table[rows[i]], for i in begin:end. Rows that point nowhere go round robin."""
    for start in range(begin, end, 4):
        for r in range(4):
            seeker.rows[r] = rows[min(start + r, end - 1)]
        seek(centres, clusters, j, table, seeker)
        for i in range(start, min(start + 4, end)):
            square = square_length(table, np.int64(rows[i]), centres.edges[j], centres.edges[j + 1])
            points = max(square, centres.limit[j] * centres.limit[j]) > SHORT * SHORT
            home[i] = seeker.home[i - start] if points else i % clusters


def directions(table: np.ndarray, limit: float) -> np.ndarray:
    """float32 (n, columns + 1): the rows with the added column, at length 1; zeros if it is 0 and so are they."""
    square = np.einsum("ij,ij->i", table, table)
    longer = np.column_stack([table, np.sqrt(np.maximum(limit * limit - square, 0))])
    longer /= np.maximum(np.sqrt(np.maximum(square, limit * limit)), SHORT)[:, None]
    return longer


@kernel
def sum_by_home(vectors, home, sums):
    """Overwrite `sums`, float32 (clusters, columns), by the sums of the vectors, float32 (n, columns), by home."""
    sums[:] = 0
    for i in range(home.size):
        for k in range(vectors.shape[1]):
            sums[home[i], k] += vectors[i, k]


@kernel
def set_centres(centres, clusters, j, vectors):
    """Write the centres of block j: vectors float32 (clusters, columns of the block + 1)."""
    n_panels = (clusters + LANES - 1) // LANES
    n_columns = centres.edges[j + 1] - centres.edges[j]
    for c in range(clusters):
        put_in_panels(centres.vectors, j * n_panels * LANES + c, centres.width, vectors, c, 0, n_columns)
        centres.extra[j, c] = vectors[c, n_columns]


def find_centres(
    table: np.ndarray, n_rows: int, edges: np.ndarray, clusters: int, rng: np.random.Generator, threads: int
) -> Centres:
    """Centres of all blocks for table[:n_rows]."""
    n_blocks = len(edges) - 1
    centres = Centres(
        edges, widest(edges), new_panels(edges, clusters), np.zeros((n_blocks, padded(clusters)), dtype=np.float32),
        np.zeros(n_blocks, dtype=np.float32),
    )  # fmt: skip
    n_sampled = min(n_rows, SAMPLED * clusters)
    sample = np.sort(rng.choice(n_rows, n_sampled, replace=False)).astype(np.int32)
    firsts = rng.integers(0, 2**31, n_blocks)

    def block(j: int) -> None:
        rows = table[sample, edges[j] : edges[j + 1]]
        with np.errstate(over="ignore", invalid="ignore"):  # a diverged run is for the trainer to tell
            centres.limit[j] = np.quantile(np.linalg.norm(rows, axis=1), LIMIT)
            vectors = np.ascontiguousarray(directions(rows, centres.limit[j]))
        home = np.zeros(n_sampled, dtype=np.int32)
        seeker = new_seeker(clusters)
        picks = np.random.default_rng([j, int(firsts[j])])
        sums = _some(vectors, clusters, picks)
        for turn in range(ROUNDS):
            if turn:
                assign(centres, clusters, j, table, sample, 0, n_sampled, seeker, home)
                sum_by_home(vectors, home, sums)
            lengths = np.linalg.norm(sums, axis=1, keepdims=True)
            empty = lengths[:, 0] <= SHORT
            if empty.any():  # a centre without rows begins anew at some row
                sums[empty] = _some(vectors, int(empty.sum()), picks)
                lengths = np.linalg.norm(sums, axis=1, keepdims=True)
            set_centres(centres, clusters, j, sums / lengths)

    if n_blocks > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(block, range(n_blocks)))
    else:
        block(0)
    return centres


def _some(vectors: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n of the unit vectors; in place of those without length, as of a table that was not trained yet, any direction."""
    chosen = vectors[rng.choice(len(vectors), n, replace=False)]
    return np.where(np.linalg.norm(chosen, axis=1, keepdims=True) > 0.5, chosen, _anywhere(chosen.shape, rng))


def _anywhere(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """float32: unit vectors in any direction."""
    vectors = rng.standard_normal(shape, dtype=np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)
