"""The coarse quantizer: spherical k-means centroids of a table's rows, for each block of its
columns.

Spherical k-means (Dhillon & Modha 2001, "Concept decompositions for large sparse text data using
clustering") clusters rows by direction: a row is assigned to the centroid with the largest inner
product, and a centroid is the normalised sum of its rows' unit vectors.

Inner products also depend on norms: a long row has a higher score than a short row of the same
direction. Each row w is therefore augmented by a column, sqrt(augmented_norm² - |w|²),
which gives all rows the same norm (Bachrach et al. 2014, "Speeding up the Xbox recommender system
using a Euclidean transformation for inner-product spaces"; with spherical k-means, Auvolat et al.
2015, "Clustering is efficient for approximate maximum inner product search"). Here augmented_norm
is a high quantile of the norms, not the maximum; the augmented column of longer rows is 0.
Centroids are fitted to a sample of rows.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray
from scipy.sparse import csr_matrix

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.simd import SIMD_WIDTH, ZERO, aligned_zeros
from embedx.kernels.threads import in_threads
from embedx.search.panels import new_panels, score_panels

MAX_ROWS_PER_CENTROID = 64  # in the sample; a few dozen rows determine a centroid well enough
N_ITERATIONS = 8
NORM_QUANTILE = 0.98
MIN_NORM = float32(1e-12)  # shorter rows have no direction
# In place of -inf: the score of padding and of rows that a search excludes.
MASKED_SCORE = float32(-1e30)


class Centroids(NamedTuple):
    """Unit vectors of the augmented columns, for each of the B blocks."""

    edges: ndarray  # int64 (B + 1,): block j consists of the table's columns edges[j]:edges[j + 1]
    # panels, float32 (B, padded clusters / 16, columns, 16): all but the augmented column
    vectors: ndarray
    augmented: ndarray  # float32 (B, padded clusters): the augmented column
    augmented_norm: ndarray  # float32 (B,): the norm to which rows are augmented


def new_centroids(edges: ndarray, clusters: int) -> Centroids:
    """Centroids that are still to be fitted, of these blocks of columns."""
    blocks = len(edges) - 1
    return Centroids(
        edges=edges,
        vectors=new_panels(edges, clusters),
        augmented=aligned_zeros(blocks, clusters),
        augmented_norm=np.zeros(blocks, float32),
    )


def block_edges(dim: int, blocks: int) -> ndarray:
    """The first column of each block, and dim, int64 (blocks + 1,). Block sizes differ by at most
    one.
    """
    return np.array([dim * j // blocks for j in range(blocks + 1)], int64)


@kernel_part
def squared_norm(table, row, begin, end):
    """|table[row, begin:end]|²."""
    square = ZERO
    for k in range(begin, end):
        square += table[row, k] * table[row, k]
    return square


@kernel_part
def nearest_centroid(centroids, clusters, j, table, row, scores):
    """The nearest centroid of table[row] in block j; overwrites `scores`, float32 (1, padded
    clusters).
    """
    begin = centroids.edges[j]
    end = centroids.edges[j + 1]
    score_panels(centroids.vectors[j], table, row, begin, end, scores, 0, 0)
    square = squared_norm(table, row, begin, end)
    augmented = np.sqrt(
        max(centroids.augmented_norm[j] * centroids.augmented_norm[j] - square, ZERO)
    )
    best = MASKED_SCORE
    nearest = 0
    for c in range(clusters):
        score = scores[0, c] + augmented * centroids.augmented[j, c]
        if score > best:
            best = score
            nearest = c
    return nearest


@kernel
def assign(centroids, clusters, j, table, rows, begin, end, scores, assignment):
    """Write to assignment[i] the nearest centroid of table[rows[i]] in block j, for i in begin:end.

    Rows without direction (shorter than MIN_NORM) are spread over the clusters round robin.
    """
    for i in range(begin, end):
        row = int64(rows[i])
        square = squared_norm(table, row, centroids.edges[j], centroids.edges[j + 1])
        has_direction = (
            max(square, centroids.augmented_norm[j] * centroids.augmented_norm[j])
            > MIN_NORM * MIN_NORM
        )
        assignment[i] = (
            nearest_centroid(centroids, clusters, j, table, row, scores)
            if has_direction
            else i % clusters
        )


def augmented_directions(table: ndarray, augmented_norm: float) -> ndarray:
    """The rows with the augmented column, normalised, float32 (n, columns + 1); zeros for rows
    without direction.
    """
    square = np.einsum("ij,ij->i", table, table)
    augmented_square = augmented_norm * augmented_norm
    column = np.sqrt(np.maximum(augmented_square - square, 0))
    norms = np.maximum(np.sqrt(np.maximum(square, augmented_square)), MIN_NORM)
    augmented = np.column_stack([table, column])
    augmented /= norms[:, None]
    return augmented


def fit_centroids(
    table: ndarray,
    n_rows: int,
    edges: ndarray,
    clusters: int,
    rng: np.random.Generator,
    threads: int,
) -> Centroids:
    """The centroids of table[:n_rows] in all blocks."""
    n_blocks = len(edges) - 1
    centroids = new_centroids(edges, clusters)
    n_sampled = min(n_rows, MAX_ROWS_PER_CENTROID * clusters)
    sample = np.sort(rng.choice(n_rows, n_sampled, replace=False)).astype(int32)
    seeds = rng.integers(0, 2**31, n_blocks)

    def fit_block(j: int) -> None:
        block_rng = np.random.default_rng([j, int(seeds[j])])
        _fit_block(centroids, clusters, j, table, sample, block_rng)

    in_threads(fit_block, threads, range(n_blocks))
    return centroids


def _fit_block(
    centroids: Centroids,
    clusters: int,
    j: int,
    table: ndarray,
    sample: ndarray,
    rng: np.random.Generator,
) -> None:
    """Fit the centroids of block j to the sampled rows: spherical k-means."""
    rows = table[sample, centroids.edges[j] : centroids.edges[j + 1]]
    # The trainer reports a diverged run.
    with np.errstate(over="ignore", invalid="ignore"):
        centroids.augmented_norm[j] = np.quantile(np.linalg.norm(rows, axis=1), NORM_QUANTILE)
        directions = np.ascontiguousarray(augmented_directions(rows, centroids.augmented_norm[j]))
    n_sampled = len(sample)
    assignment = np.zeros(n_sampled, int32)
    scores = aligned_zeros(1, clusters)
    every_row = np.arange(n_sampled)
    ones = np.ones(n_sampled, float32)
    sums = _random_rows(directions, clusters, rng)
    for iteration in range(N_ITERATIONS):
        if iteration > 0:
            assign(centroids, clusters, j, table, sample, 0, n_sampled, scores, assignment)
            shape = (clusters, n_sampled)
            sums = csr_matrix((ones, (assignment, every_row)), shape=shape) @ directions
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        is_empty = norms[:, 0] <= MIN_NORM
        if is_empty.any():  # reset the centroids of empty clusters to random rows
            sums[is_empty] = _random_rows(directions, int(is_empty.sum()), rng)
            norms = np.linalg.norm(sums, axis=1, keepdims=True)
        _write_centroids(centroids, j, sums / norms)


def _write_centroids(centroids: Centroids, j: int, vectors: ndarray) -> None:
    """Replace the centroids of block j by vectors whose last column is the augmented one."""
    c = np.arange(len(vectors))
    n_columns = centroids.edges[j + 1] - centroids.edges[j]
    centroids.vectors[j, c // SIMD_WIDTH, :n_columns, c % SIMD_WIDTH] = vectors[:, :-1]
    centroids.augmented[j, : len(vectors)] = vectors[:, -1]


def _random_rows(directions: ndarray, n: int, rng: np.random.Generator) -> ndarray:
    """n random rows of `directions`; a random direction for each row without one, as in an
    untrained table.
    """
    chosen = directions[rng.choice(len(directions), n, replace=False)]
    random = rng.standard_normal(chosen.shape, dtype=float32)  # uniform on the sphere at length 1
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    return np.where(np.linalg.norm(chosen, axis=1, keepdims=True) > 0.5, chosen, random)
