"""Vectors packed in panels of sixteen, so that one pass over a panel's columns gives sixteen inner
products.

As in the packing of matrix multiplication (GEMM), a panel is a matrix (columns, 16): row k holds
column k of sixteen vectors. Vector `slot` is lane slot % 16 of panel slot // 16. Inner products
then need no sums across lanes.
"""

import numpy as np

from embedx.kernels.compiled import kernel_part
from embedx.kernels.simd import (
    SIMD_WIDTH,
    aligned_zeros,
    load,
    multiply_add,
    padded,
    splat,
    store,
    zeros,
)


def new_panels(edges: np.ndarray, slots: int) -> np.ndarray:
    """Panels of zeros, float32 (blocks, padded slots / 16, columns of the widest block, 16), for
    blocks of columns between the edges.
    """
    blocks = len(edges) - 1
    columns = int(np.diff(edges).max())
    n_panels = padded(slots) // SIMD_WIDTH
    return aligned_zeros(blocks * n_panels * columns, SIMD_WIDTH).reshape(
        blocks, n_panels, columns, SIMD_WIDTH
    )


@kernel_part
def score_panels(panels, h, e, begin, end, out, r, offset):
    """Overwrite out[r, offset:offset + 16 · n_panels] by the inner products of h[e, begin:end] with
    the vectors of n_panels panels.

    Four panels at a time, for independent sums: each multiply-add waits for the previous one of its
    sum.
    """
    n_panels = panels.shape[0]
    p = 0
    while p + 4 <= n_panels:
        panel_a = panels[p]
        panel_b = panels[p + 1]
        panel_c = panels[p + 2]
        panel_d = panels[p + 3]
        a, b, c, d = zeros(), zeros(), zeros(), zeros()
        for k in range(end - begin):
            x = splat(h[e, begin + k])
            a = multiply_add(x, load(panel_a, k, 0), a)
            b = multiply_add(x, load(panel_b, k, 0), b)
            c = multiply_add(x, load(panel_c, k, 0), c)
            d = multiply_add(x, load(panel_d, k, 0), d)
        store(out, r, offset + p * SIMD_WIDTH, a)
        store(out, r, offset + (p + 1) * SIMD_WIDTH, b)
        store(out, r, offset + (p + 2) * SIMD_WIDTH, c)
        store(out, r, offset + (p + 3) * SIMD_WIDTH, d)
        p += 4
    while p < n_panels:
        panel = panels[p]
        a = zeros()
        for k in range(end - begin):
            a = multiply_add(splat(h[e, begin + k]), load(panel, k, 0), a)
        store(out, r, offset + p * SIMD_WIDTH, a)
        p += 1


@kernel_part
def write_vector(panels, slot, table, r, begin, end):
    """Write table[r, begin:end] to vector `slot` of the panels."""
    panel = panels[slot // SIMD_WIDTH]
    lane = slot % SIMD_WIDTH
    for k in range(end - begin):
        panel[k, lane] = table[r, begin + k]


@kernel_part
def copy_vector(panels, source, target):
    """Copy vector `source` of the panels to vector `target`."""
    for k in range(panels.shape[1]):
        panels[target // SIMD_WIDTH, k, target % SIMD_WIDTH] = panels[
            source // SIMD_WIDTH, k, source % SIMD_WIDTH
        ]
