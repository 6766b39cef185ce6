"""Vectors in panels of sixteen side by side, so that one pass over a panel's columns gives sixteen inner products.

A panel of vectors with n numbers is n rows of sixteen floats: row d holds number d of each vector. Panels follow one another in
one matrix, float32 (n_panels · width, 16), width >= n rows apart. No product needs a sum across lanes, whatever n is.
"""

from embedx.compiled import kernel_part
from embedx.engine.simd import LANES, load, multiply_add, splat, store, zeros


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
