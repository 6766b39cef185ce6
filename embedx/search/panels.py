"""Vectors in panels of sixteen side by side, so that one pass over a panel's columns gives sixteen inner products.

A panel of vectors with n numbers is n rows of sixteen floats: row d holds number d of each vector. Panels follow one another in
one matrix, float32 (n_panels · width, 16), width >= n rows apart. No product needs a sum across lanes, whatever n is.
"""

import numpy as np

from embedx.kernels.compiled import kernel_part
from embedx.kernels.simd import LANES, load, multiply_add, splat, store, zeros


@kernel_part
def score_panels(panels, first, n_panels, width, h, e, begin, end, out, r, at):
    """Overwrite out[r, at:at + 16 · n_panels] by the products of h[e, begin:end] with the vectors of panels `first` and on.

    Four panels at a time, for each product's sum has to wait for the one before it.
    """
    p = 0
    while p + 4 <= n_panels:
        row = (first + p) * width - begin
        a, b, c, d = zeros(), zeros(), zeros(), zeros()
        for k in range(begin, end):
            x = splat(h[e, k])
            a = multiply_add(x, load(panels, row + k, 0), a)
            b = multiply_add(x, load(panels, row + width + k, 0), b)
            c = multiply_add(x, load(panels, row + 2 * width + k, 0), c)
            d = multiply_add(x, load(panels, row + 3 * width + k, 0), d)
        store(out, r, at + p * LANES, a)
        store(out, r, at + (p + 1) * LANES, b)
        store(out, r, at + (p + 2) * LANES, c)
        store(out, r, at + (p + 3) * LANES, d)
        p += 4
    while p < n_panels:
        row = (first + p) * width - begin
        a = zeros()
        for k in range(begin, end):
            a = multiply_add(splat(h[e, k]), load(panels, row + k, 0), a)
        store(out, r, at + p * LANES, a)
        p += 1


@kernel_part
def score_panels_by_four(panels, first, n_panels, width, h, e, begin, end, out):
    """The same for the four vectors h[e[0]] to h[e[3]] at once, to out[0] to out[3]: what is read of a panel serves all."""
    e0, e1, e2, e3 = np.int64(e[0]), np.int64(e[1]), np.int64(e[2]), np.int64(e[3])
    for p in range(0, n_panels, 2):
        row = (first + p) * width - begin
        step = width if p + 1 < n_panels else 0  # the last panel of an odd number counts twice
        a0, a1, a2, a3 = zeros(), zeros(), zeros(), zeros()
        b0, b1, b2, b3 = zeros(), zeros(), zeros(), zeros()
        for k in range(begin, end):
            x, y = load(panels, row + k, 0), load(panels, row + step + k, 0)
            h0, h1, h2, h3 = splat(h[e0, k]), splat(h[e1, k]), splat(h[e2, k]), splat(h[e3, k])
            a0, b0 = multiply_add(h0, x, a0), multiply_add(h0, y, b0)
            a1, b1 = multiply_add(h1, x, a1), multiply_add(h1, y, b1)
            a2, b2 = multiply_add(h2, x, a2), multiply_add(h2, y, b2)
            a3, b3 = multiply_add(h3, x, a3), multiply_add(h3, y, b3)
        at, beside = p * LANES, (p * LANES + LANES if step else p * LANES)
        store(out, 0, at, a0)
        store(out, 1, at, a1)
        store(out, 2, at, a2)
        store(out, 3, at, a3)
        store(out, 0, beside, b0)
        store(out, 1, beside, b1)
        store(out, 2, beside, b2)
        store(out, 3, beside, b3)


@kernel_part
def put_in_panels(panels, slot, width, vectors, v, begin, end):
    """Write vectors[v, begin:end] as vector `slot` of the panels."""
    row, lane = slot // LANES * width, slot % LANES
    for k in range(begin, end):
        panels[row + k - begin, lane] = vectors[v, k]


@kernel_part
def move_in_panels(panels, source, target, width):
    """Copy vector `source` of the panels to `target`."""
    from_row, from_lane = source // LANES * width, source % LANES
    to_row, to_lane = target // LANES * width, target % LANES
    for k in range(width):
        panels[to_row + k, to_lane] = panels[from_row + k, from_lane]
