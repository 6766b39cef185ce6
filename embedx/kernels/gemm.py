"""The dot product of two rows, and three matrix products of a small block in register tiles.

Tiles are as large as the vector registers of the processor hold: with 32 of 16 floats (AVX-512) 4 × 4 scores, and 4 rows × 32
floats; with fewer or shorter ones 2 × 2 and 4 × 16. A sum is added up in the same order by both.

A block multiplies a few dozen rows, far below the size where calling BLAS pays. Rows are padded to whole lanes (simd.padded)
and blocks to whole tiles with rows of zeros, so that no loop has a remainder.

Where parts of a coefficient matrix are known to be 0, `spans` says which columns each tile of rows has: first to end, and from
rest on, int64 (tiles, 3); (0, 3) where every row has all.
"""

import numpy as np
from numpy import int64

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.simd import HAS_AVX512, SIMD_WIDTH, load, multiply_add, splat, store, store_sums, sum_of, zeros

TILE = 4
NO_SPANS = np.zeros((0, 3), int64)


@kernel_part
def _columns(spans, i, n, part):
    """Begin and end of the columns below n that the tile of row i has: up to its end in part 0, from its rest on in part 1."""
    if spans.shape[0] == 0:
        return int64(0), n * part
    first, end, rest = spans[i // TILE]
    return (first, end) if part == 0 else (max(end, rest), n)


@kernel_part
def round_up_to_tile(n):
    """n rounded up to whole tiles."""
    return (n + TILE - 1) // TILE * TILE


@kernel_part
def dot(a, i, b, j):
    """a[i]·b[j], of rows padded to whole lanes: float32 (>= i + 1, stride) and (>= j + 1, stride)."""
    total = zeros()
    for d in range(0, a.shape[1], SIMD_WIDTH):
        total = multiply_add(load(a, i, d), load(b, j, d), total)
    return sum_of(total)


@kernel_part
def clear_row(a, i):
    """Write zeros to a[i], a padded row."""
    for d in range(0, a.shape[1], SIMD_WIDTH):
        store(a, i, d, zeros())


@kernel_part
def add_to_row(a, i, x, b, j):
    """a[i] += x b[j], of rows padded to whole lanes."""
    x = splat(x)
    for d in range(0, a.shape[1], SIMD_WIDTH):
        store(a, i, d, multiply_add(x, load(b, j, d), load(a, i, d)))


@kernel
def scores(h, n_h, w, n_w, z, spans):
    """Overwrite z[:n_h, :n_w] by the dot products h·wᵀ, in the spans and what else their tiles hold.

    h float32 (>= n_h, stride), w float32 (>= n_w, stride), z float32 (>= n_h, >= n_w); n_h and n_w are multiples of TILE.
    """
    for i in range(0, n_h, TILE):
        done = 0
        for part in range(2):
            begin, end = _columns(spans, i, n_w, part)
            for k in range(max(begin // TILE * TILE, done), end, TILE):
                _score_tile(h, i, w, k, z)
                done = k + TILE


@kernel_part
def _score_tile(h, i, w, k, z):
    """Overwrite z[i:i+4, k:k+4], whose sums are kept in registers along the whole rows."""
    if HAS_AVX512:
        _score_4x4(h, i, w, k, z)
    else:
        for row in range(i, i + TILE, 2):
            for column in range(k, k + TILE, 2):
                _score_2x2(h, row, w, column, z)


@kernel_part
def _score_2x2(h, i, w, k, z):
    s00, s01, s10, s11 = zeros(), zeros(), zeros(), zeros()
    for d in range(0, h.shape[1], SIMD_WIDTH):
        w0, w1, x = load(w, k, d), load(w, k + 1, d), load(h, i, d)
        s00, s01 = multiply_add(x, w0, s00), multiply_add(x, w1, s01)
        x = load(h, i + 1, d)
        s10, s11 = multiply_add(x, w0, s10), multiply_add(x, w1, s11)
    store_sums(z, i, k, (s00, s01, s10, s11))


@kernel_part
def _score_4x4(h, i, w, k, z):
    s00, s01, s02, s03 = zeros(), zeros(), zeros(), zeros()
    s10, s11, s12, s13 = zeros(), zeros(), zeros(), zeros()
    s20, s21, s22, s23 = zeros(), zeros(), zeros(), zeros()
    s30, s31, s32, s33 = zeros(), zeros(), zeros(), zeros()
    for d in range(0, h.shape[1], SIMD_WIDTH):
        w0, w1, w2, w3 = load(w, k, d), load(w, k + 1, d), load(w, k + 2, d), load(w, k + 3, d)
        x = load(h, i, d)
        s00, s01 = multiply_add(x, w0, s00), multiply_add(x, w1, s01)
        s02, s03 = multiply_add(x, w2, s02), multiply_add(x, w3, s03)
        x = load(h, i + 1, d)
        s10, s11 = multiply_add(x, w0, s10), multiply_add(x, w1, s11)
        s12, s13 = multiply_add(x, w2, s12), multiply_add(x, w3, s13)
        x = load(h, i + 2, d)
        s20, s21 = multiply_add(x, w0, s20), multiply_add(x, w1, s21)
        s22, s23 = multiply_add(x, w2, s22), multiply_add(x, w3, s23)
        x = load(h, i + 3, d)
        s30, s31 = multiply_add(x, w0, s30), multiply_add(x, w1, s31)
        s32, s33 = multiply_add(x, w2, s32), multiply_add(x, w3, s33)
    store_sums(z, i, k, (s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23, s30, s31, s32, s33))


@kernel
def weighted_sums(c, n_out, rows, n_rows, out, spans):
    """Overwrite out[i] by Σ_k c[i, k] rows[k] for i < n_out, a multiple of TILE, and k < n_rows in the span of i.

    c float32 (>= n_out, >= n_rows), rows float32 (>= n_rows, stride), out float32 (>= n_out, stride).
    """
    _weighted_sums(c, n_out, rows, n_rows, out, spans)


@kernel
def weighted_sums_transposed(c, n_out, rows, n_rows, out, spans):
    """Overwrite out[k] by Σ_i c[i, k] rows[i] for k < n_out, a multiple of TILE, and i < n_rows in the span of k. Shapes as
    `weighted_sums`.
    """
    _weighted_sums(c.T, n_out, rows, n_rows, out, spans)


@kernel_part
def _weighted_sums(c, n_out, rows, n_rows, out, spans):
    stride = rows.shape[1]
    for i in range(0, n_out, TILE):
        d = 0
        while HAS_AVX512 and d + SIMD_WIDTH < stride:
            a0, b0, a1, b1 = zeros(), zeros(), zeros(), zeros()
            a2, b2, a3, b3 = zeros(), zeros(), zeros(), zeros()
            for part in range(2):
                begin, end = _columns(spans, i, n_rows, part)
                for k in range(begin, end):
                    a, b = load(rows, k, d), load(rows, k, d + SIMD_WIDTH)
                    x = splat(c[i, k])
                    a0, b0 = multiply_add(x, a, a0), multiply_add(x, b, b0)
                    x = splat(c[i + 1, k])
                    a1, b1 = multiply_add(x, a, a1), multiply_add(x, b, b1)
                    x = splat(c[i + 2, k])
                    a2, b2 = multiply_add(x, a, a2), multiply_add(x, b, b2)
                    x = splat(c[i + 3, k])
                    a3, b3 = multiply_add(x, a, a3), multiply_add(x, b, b3)
            _store_quad(out, i, d, a0, a1, a2, a3)
            _store_quad(out, i, d + SIMD_WIDTH, b0, b1, b2, b3)
            d += 2 * SIMD_WIDTH
        while d < stride:
            a0, a1, a2, a3 = zeros(), zeros(), zeros(), zeros()
            for part in range(2):
                begin, end = _columns(spans, i, n_rows, part)
                for k in range(begin, end):
                    a = load(rows, k, d)
                    a0, a1 = multiply_add(splat(c[i, k]), a, a0), multiply_add(splat(c[i + 1, k]), a, a1)
                    a2, a3 = multiply_add(splat(c[i + 2, k]), a, a2), multiply_add(splat(c[i + 3, k]), a, a3)
            _store_quad(out, i, d, a0, a1, a2, a3)
            d += SIMD_WIDTH


@kernel_part
def _store_quad(out, i, d, a0, a1, a2, a3):
    """Write four rows of 16 floats."""
    store(out, i, d, a0)
    store(out, i + 1, d, a1)
    store(out, i + 2, d, a2)
    store(out, i + 3, d, a3)
