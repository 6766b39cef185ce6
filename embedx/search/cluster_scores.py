"""Estimated scores of the clusters, which decide the order in which a query probes their inverted lists.

The rows of a cluster have a mean m and, taken over all columns of the block, a standard deviation `std` about it. For a query h
their scores are then spread about h·m, with a standard deviation of about std · |h|, and clusters are ranked by the upper
estimate h·m + std · |h|. Both moments come from sums that every update of a row keeps current, whereas the centroids of the
coarse quantizer stay what they were when the index was built, and only decide to which list a row belongs.
"""

from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel_part
from embedx.kernels.simd import (
    SIMD_WIDTH,
    aligned_zeros,
    divide,
    load,
    maximum,
    multiply_add,
    padded,
    splat,
    square_root,
    store,
    zeros,
)
from embedx.search.kmeans import MASKED_SCORE, max_block_width, new_panels, squared_norm
from embedx.search.panels import score_panels

EMPTY_CLUSTER_SCORE = np.float32(-1e29)  # the score of a cluster without rows, and the least of any cluster


class ClusterStatistics(NamedTuple):
    """Sums over the rows of each of the C clusters in each of the B blocks, and what follows from them."""

    panel_stride: int  # of `sums`
    sums: np.ndarray  # float32 (rows of panels, 16): sum of the rows, a vector for each cluster
    square_sums: np.ndarray  # float32 (B, padded C): sum of their squared norms
    inverse_size: np.ndarray  # float32 (B, padded C): 1 / number of rows, 0 for an empty cluster
    std: np.ndarray  # float32 (B, padded C): root of the variance about the mean, averaged over the columns


def new_statistics(edges: np.ndarray, clusters: int) -> ClusterStatistics:
    """The statistics of empty clusters."""
    square_sums, inverse_size, std = (aligned_zeros(len(edges) - 1, padded(clusters)) for _ in range(3))
    return ClusterStatistics(max_block_width(edges), new_panels(edges, clusters), square_sums, inverse_size, std)


@kernel_part
def add_to_sums(statistics, edges, j, c, panels, slot, sign):
    """Add vector `slot` of block j's panels to the sums of cluster c; with sign -1, subtract it."""
    row, lane = (j * statistics.square_sums.shape[1] + c) // SIMD_WIDTH * statistics.panel_stride, c % SIMD_WIDTH
    from_row, from_lane = slot // SIMD_WIDTH * statistics.panel_stride, slot % SIMD_WIDTH
    square = np.float32(0)
    for k in range(edges[j + 1] - edges[j]):
        x = panels[from_row + k, from_lane]
        statistics.sums[row + k, lane] += sign * x
        square += x * x
    statistics.square_sums[j, c] += sign * square


@kernel_part
def replace_vector(statistics, edges, j, c, panels, slot, table, row, max_change):
    """Overwrite vector `slot` of block j's panels by table[row], and update the sums of cluster c, to which it belongs.

    Returns whether the vector changed by more than `max_change` times its old norm.
    """
    sum_row, sum_lane = (j * statistics.square_sums.shape[1] + c) // SIMD_WIDTH * statistics.panel_stride, c % SIMD_WIDTH
    to_row, to_lane = slot // SIMD_WIDTH * statistics.panel_stride, slot % SIMD_WIDTH
    begin = edges[j]
    before = after = change = np.float32(0)  # squared norms
    for k in range(edges[j + 1] - begin):
        old, new = panels[to_row + k, to_lane], table[row, begin + k]
        panels[to_row + k, to_lane] = new
        statistics.sums[sum_row + k, sum_lane] += new - old
        before += old * old
        after += new * new
        change += (new - old) * (new - old)
    statistics.square_sums[j, c] += after - before
    return change > max_change * max_change * before


@kernel_part
def reset_sums(statistics, edges, j, c):
    """Zero the sums of a cluster that has lost its last row; rounding would leave a rest."""
    row, lane = (j * statistics.square_sums.shape[1] + c) // SIMD_WIDTH * statistics.panel_stride, c % SIMD_WIDTH
    for k in range(edges[j + 1] - edges[j]):
        statistics.sums[row + k, lane] = 0
    statistics.square_sums[j, c] = 0


@kernel_part
def update_moments(statistics, edges, list_sizes, j):
    """Recompute inverse_size and std of block j from the sums; list_sizes int64 (B, C): the number of rows of each cluster."""
    n_columns = edges[j + 1] - edges[j]
    for c in range(list_sizes.shape[1]):
        statistics.inverse_size[j, c] = np.float32(1) / np.float32(list_sizes[j, c]) if list_sizes[j, c] > 0 else np.float32(0)
    for c in range(0, statistics.square_sums.shape[1], SIMD_WIDTH):
        row = (j * statistics.square_sums.shape[1] + c) // SIMD_WIDTH * statistics.panel_stride
        square = zeros()  # |sum|²
        for k in range(n_columns):
            x = load(statistics.sums, row + k, 0)
            square = multiply_add(x, x, square)
        scale = load(statistics.inverse_size, j, c)
        of_mean = multiply_add(scale, multiply_add(scale, square, zeros()), zeros())  # |mean|²
        variance = multiply_add(
            scale, load(statistics.square_sums, j, c), multiply_add(splat(np.float32(-1)), of_mean, zeros())
        )
        store(statistics.std, j, c, square_root(divide(maximum(variance, zeros()), splat(np.float32(n_columns)))))


@kernel_part
def score_clusters(statistics, edges, clusters, j, h, e, out):
    """Overwrite out[0, :clusters] by the estimated scores of block j's clusters for h[e], and the padding by MASKED_SCORE."""
    n_panels = statistics.square_sums.shape[1] // SIMD_WIDTH
    score_panels(statistics.sums, j * n_panels, n_panels, statistics.panel_stride, h, e, edges[j], edges[j + 1], out, 0, 0)
    norm = np.sqrt(squared_norm(h, e, edges[j], edges[j + 1]))
    for c in range(clusters):
        score = out[0, c] * statistics.inverse_size[j, c] + norm * statistics.std[j, c]
        is_valid = statistics.inverse_size[j, c] > 0 and score > EMPTY_CLUSTER_SCORE  # which NaN is not
        out[0, c] = score if is_valid else EMPTY_CLUSTER_SCORE
    for c in range(clusters, out.shape[1]):
        out[0, c] = MASKED_SCORE
