"""What the clusters of an index promise a query, so that it looks through those first that are likely to hold high scores.

The rows of a cluster lie around their mean m, in each column at a distance of about `spread`. A query h meets their scores
around h·m, at a distance of about spread |h|, and the cluster promises it h·m + spread |h|. Sums follow the rows as they move.
"""

from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel_part
from embedx.kernels.simd import (
    LANES,
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
from embedx.search.clusters import NEVER, new_panels, square_length, widest
from embedx.search.panels import score_panels

EMPTY = np.float32(-1e29)  # what a cluster without rows promises, and the least that any promises


class Promise(NamedTuple):
    """Sums over the rows of each cluster, in each block."""

    width: int  # of a panel
    sums: np.ndarray  # float32 (rows of panels, 16): of the rows
    squares: np.ndarray  # float32 (B, padded C): of their squared lengths
    scale: np.ndarray  # float32 (B, padded C): one by their number, 0 for none
    spread: np.ndarray  # float32 (B, padded C)


def new_promise(edges: np.ndarray, clusters: int) -> Promise:
    """Of clusters without rows."""
    squares, scale, spread = (aligned_zeros(len(edges) - 1, padded(clusters)) for _ in range(3))
    return Promise(widest(edges), new_panels(edges, clusters), squares, scale, spread)


@kernel_part
def count(promise, edges, j, c, panels, slot, sign):
    """Add the vector in a slot of block j's panels to the sums of cluster c, or with sign -1 take it out."""
    row, lane = (j * promise.squares.shape[1] + c) // LANES * promise.width, c % LANES
    from_row, from_lane = slot // LANES * promise.width, slot % LANES
    square = np.float32(0)
    for k in range(edges[j + 1] - edges[j]):
        x = panels[from_row + k, from_lane]
        promise.sums[row + k, lane] += sign * x
        square += x * x
    promise.squares[j, c] += sign * square


@kernel_part
def replace(promise, edges, j, c, panels, slot, table, row, far):
    """Write table[row] to its slot in block j, in cluster c, whose sums follow. Return whether it went `far` of its length."""
    sum_row, sum_lane = (j * promise.squares.shape[1] + c) // LANES * promise.width, c % LANES
    to_row, to_lane = slot // LANES * promise.width, slot % LANES
    begin = edges[j]
    before = after = way = np.float32(0)
    for k in range(edges[j + 1] - begin):
        old, new = panels[to_row + k, to_lane], table[row, begin + k]
        panels[to_row + k, to_lane] = new
        promise.sums[sum_row + k, sum_lane] += new - old
        before += old * old
        after += new * new
        way += (new - old) * (new - old)
    promise.squares[j, c] += after - before
    return way > far * far * before


@kernel_part
def clear(promise, edges, j, c):
    """Have a cluster that has lost its last row sum to zero, whatever rounding left."""
    row, lane = (j * promise.squares.shape[1] + c) // LANES * promise.width, c % LANES
    for k in range(edges[j + 1] - edges[j]):
        promise.sums[row + k, lane] = 0
    promise.squares[j, c] = 0


@kernel_part
def settle(promise, edges, in_use, j):
    """Have the spreads and scales of block j follow the sums; in_use int64 (B, C): the rows of each cluster."""
    n_columns = edges[j + 1] - edges[j]
    for c in range(in_use.shape[1]):
        promise.scale[j, c] = np.float32(1) / np.float32(in_use[j, c]) if in_use[j, c] > 0 else np.float32(0)
    for at in range(0, promise.squares.shape[1], LANES):
        row = (j * promise.squares.shape[1] + at) // LANES * promise.width
        square = zeros()  # |sum|²
        for k in range(n_columns):
            x = load(promise.sums, row + k, 0)
            square = multiply_add(x, x, square)
        scale = load(promise.scale, j, at)
        of_mean = multiply_add(scale, multiply_add(scale, square, zeros()), zeros())
        variance = multiply_add(scale, load(promise.squares, j, at), multiply_add(splat(np.float32(-1)), of_mean, zeros()))
        store(promise.spread, j, at, square_root(divide(maximum(variance, zeros()), splat(np.float32(n_columns)))))


@kernel_part
def promised(promise, edges, clusters, j, h, e, out):
    """Overwrite out[0] by what the clusters of block j promise h[e], and behind them by NEVER."""
    n_panels = promise.squares.shape[1] // LANES
    score_panels(promise.sums, j * n_panels, n_panels, promise.width, h, e, edges[j], edges[j + 1], out, 0, 0)
    length = np.sqrt(square_length(h, e, edges[j], edges[j + 1]))
    for c in range(clusters):
        score = out[0, c] * promise.scale[j, c] + length * promise.spread[j, c]
        out[0, c] = score if promise.scale[j, c] > 0 and score > EMPTY else EMPTY  # so too if it is NaN
    for c in range(clusters, out.shape[1]):
        out[0, c] = NEVER
