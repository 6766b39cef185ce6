"""Vectors packed in panels of sixteen, so that one pass over a panel's columns gives sixteen inner products.

As in the packing of matrix multiplication (GEMM), a panel of n-dimensional vectors is n rows of sixteen floats: row d holds
column d of each vector. Panels are stored one after another in one matrix, float32 (n_panels · stride, 16), each `stride` >= n
rows after the one before. Vector number `slot` is lane slot % 16 of panel slot // 16. No product needs a sum across lanes.
"""

import numpy as np

from embedx.kernels.compiled import kernel_part
from embedx.kernels.simd import SIMD_WIDTH, load, multiply_add, splat, store, zeros


@kernel_part
def score_panels(panels, first, n_panels, stride, h, e, begin, end, out, r, offset):
    """Overwrite out[r, offset:offset + 16 · n_panels] by the inner products of h[e, begin:end] with the vectors of n_panels
    panels, beginning with panel `first`.

    Four panels at a time, because each multiply-add of a sum has to wait for the one before it.
    """
    p = 0
    while p + 4 <= n_panels:
        row = (first + p) * stride - begin
        a, b, c, d = zeros(), zeros(), zeros(), zeros()
        for k in range(begin, end):
            x = splat(h[e, k])
            a = multiply_add(x, load(panels, row + k, 0), a)
            b = multiply_add(x, load(panels, row + stride + k, 0), b)
            c = multiply_add(x, load(panels, row + 2 * stride + k, 0), c)
            d = multiply_add(x, load(panels, row + 3 * stride + k, 0), d)
        store(out, r, offset + p * SIMD_WIDTH, a)
        store(out, r, offset + (p + 1) * SIMD_WIDTH, b)
        store(out, r, offset + (p + 2) * SIMD_WIDTH, c)
        store(out, r, offset + (p + 3) * SIMD_WIDTH, d)
        p += 4
    while p < n_panels:
        row = (first + p) * stride - begin
        a = zeros()
        for k in range(begin, end):
            a = multiply_add(splat(h[e, k]), load(panels, row + k, 0), a)
        store(out, r, offset + p * SIMD_WIDTH, a)
        p += 1


@kernel_part
def score_panels_four_queries(panels, first, n_panels, stride, h, e, begin, end, out):
    """The same for the four vectors h[e[0]] to h[e[3]] at once, to out[0] to out[3]: each load of a panel serves all four."""
    e0, e1, e2, e3 = np.int64(e[0]), np.int64(e[1]), np.int64(e[2]), np.int64(e[3])
    for p in range(0, n_panels, 2):
        row = (first + p) * stride - begin
        step = stride if p + 1 < n_panels else 0  # the last panel of an odd number is scored twice
        a0, a1, a2, a3 = zeros(), zeros(), zeros(), zeros()
        b0, b1, b2, b3 = zeros(), zeros(), zeros(), zeros()
        for k in range(begin, end):
            x, y = load(panels, row + k, 0), load(panels, row + step + k, 0)
            h0, h1, h2, h3 = splat(h[e0, k]), splat(h[e1, k]), splat(h[e2, k]), splat(h[e3, k])
            a0, b0 = multiply_add(h0, x, a0), multiply_add(h0, y, b0)
            a1, b1 = multiply_add(h1, x, a1), multiply_add(h1, y, b1)
            a2, b2 = multiply_add(h2, x, a2), multiply_add(h2, y, b2)
            a3, b3 = multiply_add(h3, x, a3), multiply_add(h3, y, b3)
        offset, next_offset = p * SIMD_WIDTH, (p * SIMD_WIDTH + SIMD_WIDTH if step else p * SIMD_WIDTH)
        store(out, 0, offset, a0)
        store(out, 1, offset, a1)
        store(out, 2, offset, a2)
        store(out, 3, offset, a3)
        store(out, 0, next_offset, b0)
        store(out, 1, next_offset, b1)
        store(out, 2, next_offset, b2)
        store(out, 3, next_offset, b3)


@kernel_part
def write_vector(panels, slot, stride, table, r, begin, end):
    """Write table[r, begin:end] to vector `slot` of the panels."""
    row, lane = slot // SIMD_WIDTH * stride, slot % SIMD_WIDTH
    for k in range(begin, end):
        panels[row + k - begin, lane] = table[r, k]


@kernel_part
def copy_vector(panels, source, target, stride):
    """Copy vector `source` of the panels to vector `target`."""
    from_row, from_lane = source // SIMD_WIDTH * stride, source % SIMD_WIDTH
    to_row, to_lane = target // SIMD_WIDTH * stride, target % SIMD_WIDTH
    for k in range(stride):
        panels[to_row + k, to_lane] = panels[from_row + k, from_lane]
