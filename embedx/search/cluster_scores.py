"""Estimated scores of the clusters, which decide the order in which a query probes their inverted
lists.

The rows of a cluster have a mean m and a standard deviation `std`, averaged over the columns of the
block. For a query h the mean of their scores is h·m, and their standard deviation about std · |h|;
clusters are ranked by the upper estimate h·m + std · |h|. Both moments come
from sums that every update of a row keeps current, whereas the centroids of the coarse quantizer
stay what they were when the index was built, and only decide to which list a row belongs.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, ndarray

from embedx.kernels.compiled import kernel_part
from embedx.kernels.simd import ONE, SIMD_WIDTH, ZERO, aligned_zeros
from embedx.search.kmeans import MASKED_SCORE, squared_norm
from embedx.search.panels import new_panels, score_panels

# The score of a cluster without rows, and the minimum score of any cluster.
EMPTY_CLUSTER_SCORE = float32(-1e29)


class ClusterStatistics(NamedTuple):
    """Sums over the rows of each of C clusters in each of B blocks, and the moments derived from
    them.
    """

    # panels, float32 (B, padded C / 16, columns, 16): the sum of the rows of each cluster
    sums: ndarray
    square_sums: ndarray  # float32 (B, padded C): the sum of their squared norms
    inverse_size: ndarray  # float32 (B, padded C): 1 / number of rows, 0 for an empty cluster
    # float32 (B, padded C): the root of the variance, averaged over the columns
    std: ndarray


def new_statistics(edges: ndarray, clusters: int) -> ClusterStatistics:
    """The statistics of empty clusters."""
    blocks = len(edges) - 1
    return ClusterStatistics(
        sums=new_panels(edges, clusters),
        square_sums=aligned_zeros(blocks, clusters),
        inverse_size=aligned_zeros(blocks, clusters),
        std=aligned_zeros(blocks, clusters),
    )


@kernel_part
def add_to_sums(statistics, j, c, panels, slot, sign):
    """Add vector `slot` of block j's panels to the sums of cluster c; with sign -1, subtract it."""
    sums = statistics.sums[j, c // SIMD_WIDTH]
    vectors = panels[slot // SIMD_WIDTH]
    square = ZERO
    for k in range(len(sums)):
        x = vectors[k, slot % SIMD_WIDTH]
        sums[k, c % SIMD_WIDTH] += sign * x
        square += x * x
    statistics.square_sums[j, c] += sign * square


@kernel_part
def update_moments(statistics, list_sizes, j, n_columns):
    """Recompute inverse_size and std of block j from the sums; list_sizes int64 (B, C): the number
    of rows of each cluster.
    """
    for c in range(list_sizes.shape[1]):
        sums = statistics.sums[j, c // SIMD_WIDTH]
        scale = ONE / float32(list_sizes[j, c]) if list_sizes[j, c] > 0 else ZERO
        square = ZERO  # |mean|²
        for k in range(n_columns):
            mean = scale * sums[k, c % SIMD_WIDTH]
            square += mean * mean
        variance = max(scale * statistics.square_sums[j, c] - square, ZERO)
        statistics.inverse_size[j, c] = scale
        statistics.std[j, c] = np.sqrt(variance / float32(n_columns))


@kernel_part
def score_clusters(statistics, edges, clusters, j, h, e, out):
    """Overwrite out[0, :clusters] by the estimated scores of block j's clusters for h[e], and the
    padding by MASKED_SCORE.
    """
    score_panels(statistics.sums[j], h, e, edges[j], edges[j + 1], out, 0, 0)
    norm = np.sqrt(squared_norm(h, e, edges[j], edges[j + 1]))
    for c in range(clusters):
        score = out[0, c] * statistics.inverse_size[j, c] + norm * statistics.std[j, c]
        # False for NaN.
        is_valid = statistics.inverse_size[j, c] > 0 and score > EMPTY_CLUSTER_SCORE
        out[0, c] = score if is_valid else EMPTY_CLUSTER_SCORE
    for c in range(clusters, out.shape[1]):
        out[0, c] = MASKED_SCORE
