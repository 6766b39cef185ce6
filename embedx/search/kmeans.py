"""The coarse quantizer: spherical k-means centroids of a table's rows, for each block of its columns.

Spherical k-means (Dhillon & Modha 2001, "Concept decompositions for large sparse text data using clustering") clusters rows by
direction: a row is assigned to the centroid with the largest inner product, and a centroid is the normalised sum of its rows'
unit vectors.

Inner products depend on norms too: a long row has a high score where a short row of the same direction has not. Each row w is
therefore augmented by a column, sqrt(augmented_norm² - |w|²), which gives all rows the same norm (Bachrach et al. 2014,
"Speeding up the Xbox recommender system using a Euclidean transformation for inner-product spaces"; with spherical k-means,
Auvolat et al. 2015, "Clustering is efficient for approximate maximum inner product search"). Here augmented_norm is a high
quantile of the norms, not the largest; the augmented column of longer rows is 0. Centroids are fitted to a sample of rows.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.simd import (
    SIMD_WIDTH,
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
from embedx.search.panels import score_panels_four_queries, write_vector

MAX_ROWS_PER_CENTROID = 64  # in the sample; a few dozen rows are enough to place a centroid
N_ITERATIONS = 8
NORM_QUANTILE = 0.98
MIN_NORM = np.float32(1e-12)  # shorter rows have no direction
MASKED_SCORE = np.float32(-1e30)  # in place of -inf: the score of padding and of what has been excluded from a search


class Centroids(NamedTuple):
    """Unit vectors of the augmented columns, for each of the B blocks."""

    edges: np.ndarray  # int64 (B + 1,): block j consists of the table's columns edges[j]:edges[j + 1]
    panel_stride: int  # of `vectors`
    vectors: np.ndarray  # float32 (rows of panels, 16): all but the augmented column
    augmented: np.ndarray  # float32 (B, padded clusters): the augmented column
    augmented_norm: np.ndarray  # float32 (B,): the norm to which rows are augmented


def block_edges(dim: int, blocks: int) -> np.ndarray:
    """int64 (blocks + 1,): the first column of each of the blocks, which are as equal as they can be, and dim."""
    return np.array([dim * j // blocks for j in range(blocks + 1)], dtype=np.int64)


def max_block_width(edges: np.ndarray) -> int:
    """The number of columns of the widest block."""
    return int(np.diff(edges).max())


def new_panels(edges: np.ndarray, clusters: int) -> np.ndarray:
    """Zeros, float32 (rows of panels, 16): a vector for each cluster of each block, every block from a new panel on."""
    return aligned_zeros(len(edges[1:]) * (padded(clusters) // SIMD_WIDTH) * max_block_width(edges), SIMD_WIDTH)


@kernel_part
def squared_norm(table, row, begin, end):
    """|table[row, begin:end]|²."""
    square = np.float32(0)
    for k in range(begin, end):
        square += table[row, k] * table[row, k]
    return square


class AssignmentWorkspace(NamedTuple):
    """A worker's memory for assigning four rows at a time to centroids."""

    scores: np.ndarray  # float32 (4, padded clusters)
    rows: np.ndarray  # int32 (4,)
    nearest: np.ndarray  # int32 (4,): the result


def new_assignment_workspace(clusters: int) -> AssignmentWorkspace:
    return AssignmentWorkspace(aligned_zeros(4, clusters), np.zeros(4, dtype=np.int32), np.zeros(4, dtype=np.int32))


@kernel_part
def find_nearest_centroids(centroids, clusters, j, table, workspace):
    """Write to workspace.nearest the nearest centroids, in block j, of table[workspace.rows]; of several equal ones any."""
    n_panels = (clusters + SIMD_WIDTH - 1) // SIMD_WIDTH
    begin, end = centroids.edges[j], centroids.edges[j + 1]
    score_panels_four_queries(
        centroids.vectors, j * n_panels, n_panels, centroids.panel_stride, table, workspace.rows, begin, end, workspace.scores
    )
    for r in range(4):
        square = squared_norm(table, np.int64(workspace.rows[r]), begin, end)
        augmented = splat(np.sqrt(max(centroids.augmented_norm[j] * centroids.augmented_norm[j] - square, np.float32(0))))
        for c in range(clusters, n_panels * SIMD_WIDTH):
            workspace.scores[r, c] = MASKED_SCORE
        best, panel = splat(MASKED_SCORE), zeros()
        for p in range(n_panels):
            score = multiply_add(
                augmented, load(centroids.augmented, j, p * SIMD_WIDTH), load(workspace.scores, r, p * SIMD_WIDTH)
            )
            panel = where_above(score, best, splat(np.float32(p)), panel)
            best = maximum(score, best)
        store(workspace.scores, r, 0, best)
        lane, highest = 0, highest_of(best)
        while lane < SIMD_WIDTH - 1 and workspace.scores[r, lane] < highest:
            lane += 1
        store(workspace.scores, r, 0, panel)
        workspace.nearest[r] = np.int32(workspace.scores[r, lane]) * SIMD_WIDTH + lane


@kernel
def assign(centroids, clusters, j, table, rows, begin, end, workspace, assignment):
    """Write to assignment[i] the nearest centroid, in block j, of table[rows[i]], for i in begin:end.

    Rows without direction are spread over the clusters round robin.
    """
    for start in range(begin, end, 4):
        for r in range(4):
            workspace.rows[r] = rows[min(start + r, end - 1)]
        find_nearest_centroids(centroids, clusters, j, table, workspace)
        for i in range(start, min(start + 4, end)):
            square = squared_norm(table, np.int64(rows[i]), centroids.edges[j], centroids.edges[j + 1])
            has_direction = max(square, centroids.augmented_norm[j] * centroids.augmented_norm[j]) > MIN_NORM * MIN_NORM
            assignment[i] = workspace.nearest[i - start] if has_direction else i % clusters


def augmented_directions(table: np.ndarray, augmented_norm: float) -> np.ndarray:
    """float32 (n, columns + 1): the rows with the augmented column, normalised; zeros for rows without direction."""
    square = np.einsum("ij,ij->i", table, table)
    augmented = np.column_stack([table, np.sqrt(np.maximum(augmented_norm * augmented_norm - square, 0))])
    augmented /= np.maximum(np.sqrt(np.maximum(square, augmented_norm * augmented_norm)), MIN_NORM)[:, None]
    return augmented


@kernel
def sum_by_cluster(vectors, assignment, sums):
    """Overwrite `sums`, float32 (clusters, columns), by the sums of the vectors, float32 (n, columns), of each cluster."""
    sums[:] = 0
    for i in range(assignment.size):
        for k in range(vectors.shape[1]):
            sums[assignment[i], k] += vectors[i, k]


@kernel
def set_centroids(centroids, clusters, j, vectors):
    """Write the centroids of block j: vectors float32 (clusters, columns of the block + 1)."""
    n_panels = (clusters + SIMD_WIDTH - 1) // SIMD_WIDTH
    n_columns = centroids.edges[j + 1] - centroids.edges[j]
    for c in range(clusters):
        write_vector(centroids.vectors, j * n_panels * SIMD_WIDTH + c, centroids.panel_stride, vectors, c, 0, n_columns)
        centroids.augmented[j, c] = vectors[c, n_columns]


def fit_centroids(
    table: np.ndarray, n_rows: int, edges: np.ndarray, clusters: int, rng: np.random.Generator, threads: int
) -> Centroids:
    """The centroids of table[:n_rows] in all blocks."""
    n_blocks = len(edges) - 1
    centroids = Centroids(
        edges, max_block_width(edges), new_panels(edges, clusters), np.zeros((n_blocks, padded(clusters)), dtype=np.float32),
        np.zeros(n_blocks, dtype=np.float32),
    )  # fmt: skip
    n_sampled = min(n_rows, MAX_ROWS_PER_CENTROID * clusters)
    sample = np.sort(rng.choice(n_rows, n_sampled, replace=False)).astype(np.int32)
    seeds = rng.integers(0, 2**31, n_blocks)

    def fit_block(j: int) -> None:
        rows = table[sample, edges[j] : edges[j + 1]]
        with np.errstate(over="ignore", invalid="ignore"):  # a diverged run is for the trainer to tell
            centroids.augmented_norm[j] = np.quantile(np.linalg.norm(rows, axis=1), NORM_QUANTILE)
            directions = np.ascontiguousarray(augmented_directions(rows, centroids.augmented_norm[j]))
        assignment = np.zeros(n_sampled, dtype=np.int32)
        workspace = new_assignment_workspace(clusters)
        block_rng = np.random.default_rng([j, int(seeds[j])])
        sums = _random_rows(directions, clusters, block_rng)
        for iteration in range(N_ITERATIONS):
            if iteration:
                assign(centroids, clusters, j, table, sample, 0, n_sampled, workspace, assignment)
                sum_by_cluster(directions, assignment, sums)
            norms = np.linalg.norm(sums, axis=1, keepdims=True)
            is_empty = norms[:, 0] <= MIN_NORM
            if is_empty.any():  # the centroid of an empty cluster is reset to a random row
                sums[is_empty] = _random_rows(directions, int(is_empty.sum()), block_rng)
                norms = np.linalg.norm(sums, axis=1, keepdims=True)
            set_centroids(centroids, clusters, j, sums / norms)

    if n_blocks > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fit_block, range(n_blocks)))
    else:
        fit_block(0)
    return centroids


def _random_rows(directions: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n of the directions; a random one for each row without direction, as in a table that has not been trained yet."""
    chosen = directions[rng.choice(len(directions), n, replace=False)]
    return np.where(np.linalg.norm(chosen, axis=1, keepdims=True) > 0.5, chosen, _random_directions(chosen.shape, rng))


def _random_directions(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """float32: unit vectors, uniform on the sphere."""
    vectors = rng.standard_normal(shape, dtype=np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)
