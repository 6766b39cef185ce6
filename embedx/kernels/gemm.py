"""The dot product of two rows, and three matrix products of a small block in register tiles.

Tiles fill the vector registers of the CPU: with AVX-512 (32 registers of 16 floats) 4 × 4 scores,
and 4 rows × 32 floats; otherwise 2 × 2 and 4 × 16. Both add up a sum in the same order.

A block multiplies a few dozen rows, far fewer than make a call of BLAS pay. Rows are padded to
whole vectors (simd.padded) and blocks to whole tiles with rows of zeros, so that no loop has a
remainder.

Where parts of a coefficient matrix are known to be 0, `spans`, int64 (tiles, 3), has the others: a
tile of rows has the columns spans[tile, FIRST]:spans[tile, END], and all from spans[tile, REST] on.
With (0, 3) spans every tile has all columns.
"""

import numpy as np
from numpy import int64

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.simd import (
    HAS_AVX512,
    SIMD_WIDTH,
    load,
    multiply_add,
    splat,
    store,
    store_sums,
    sum_of,
    zeros,
)

TILE = 4
# Columns of `spans`.
FIRST, END, REST = range(3)
NO_SPANS = np.zeros((0, 3), int64)


@kernel_part
def _columns(spans, i, n, part):
    """(begin, end) of the columns below n of the tile of row i: from FIRST to END in part 0, from
    REST to n in part 1.
    """
    if spans.shape[0] == 0:
        return int64(0), n * part
    span = spans[i // TILE]
    if part == 0:
        return span[FIRST], span[END]
    return max(span[END], span[REST]), n


@kernel_part
def round_up_to_tile(n):
    """n rounded up to a multiple of TILE."""
    return (n + TILE - 1) // TILE * TILE


@kernel_part
def dot(a, i, b, j):
    """a[i]·b[j]; rows are padded to whole vectors, float32 (n, stride)."""
    total = zeros()
    for d in range(0, a.shape[1], SIMD_WIDTH):
        total = multiply_add(load(a, i, d), load(b, j, d), total)
    return sum_of(total)


@kernel_part
def clear(a, i, n):
    """Write zeros to a[i, :n], in whole vectors."""
    for d in range(0, n, SIMD_WIDTH):
        store(a, i, d, zeros())


@kernel_part
def add_to_row(a, i, x, b, j):
    """a[i] += x b[j]; rows are padded to whole vectors."""
    x = splat(x)
    for d in range(0, a.shape[1], SIMD_WIDTH):
        store(a, i, d, multiply_add(x, load(b, j, d), load(a, i, d)))


@kernel
def scores(h, n_h, w, n_w, z, spans):
    """Overwrite z[:n_h, :n_w] by the dot products h·wᵀ within the spans, extended to whole tiles.

    h float32 (>= n_h, stride), w float32 (>= n_w, stride), z float32 (>= n_h, >= n_w); n_h and n_w
    are multiples of TILE.
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
    """Overwrite z[i:i+4, k:k+4]; the sums are kept in registers along the whole rows."""
    if HAS_AVX512:
        _score_4x4(h, i, w, k, z)
    else:
        for row in range(i, i + TILE, 2):
            for column in range(k, k + TILE, 2):
                _score_2x2(h, row, w, column, z)


@kernel_part
def _score_2x2(h, i, w, k, z):
    """Overwrite z[i:i+2, k:k+2]."""
    row_0 = zeros(), zeros()
    row_1 = row_0
    for d in range(0, h.shape[1], SIMD_WIDTH):
        of_w = load(w, k, d), load(w, k + 1, d)
        row_0 = _add_2(load(h, i, d), of_w, row_0)
        row_1 = _add_2(load(h, i + 1, d), of_w, row_1)
    store_sums(z, i, k, row_0 + row_1)


@kernel_part
def _score_4x4(h, i, w, k, z):
    """Overwrite z[i:i+4, k:k+4]."""
    row_0 = zeros(), zeros(), zeros(), zeros()
    row_1 = row_0
    row_2 = row_0
    row_3 = row_0
    for d in range(0, h.shape[1], SIMD_WIDTH):
        of_w = load(w, k, d), load(w, k + 1, d), load(w, k + 2, d), load(w, k + 3, d)
        row_0 = _add_4(load(h, i, d), of_w, row_0)
        row_1 = _add_4(load(h, i + 1, d), of_w, row_1)
        row_2 = _add_4(load(h, i + 2, d), of_w, row_2)
        row_3 = _add_4(load(h, i + 3, d), of_w, row_3)
    store_sums(z, i, k, row_0 + row_1 + row_2 + row_3)


@kernel_part
def _add_2(x, y, sums):
    """The sums plus the products of x with the vectors y."""
    return multiply_add(x, y[0], sums[0]), multiply_add(x, y[1], sums[1])


@kernel_part
def _add_4(x, y, sums):
    """`_add_2` for four vectors y."""
    return _add_2(x, y[:2], sums[:2]) + _add_2(x, y[2:], sums[2:])


@kernel
def weighted_sums(c, n_out, rows, n_rows, out, spans):
    """Overwrite out[i] by Σ_k c[i, k] rows[k] for i < n_out, a multiple of TILE, over k < n_rows in
    the span of i.

    c float32 (>= n_out, >= n_rows), rows float32 (>= n_rows, stride), out float32 (>= n_out,
    stride).
    """
    _weighted_sums(c, n_out, rows, n_rows, out, spans)


@kernel
def weighted_sums_transposed(c, n_out, rows, n_rows, out, spans):
    """Overwrite out[k] by Σ_i c[i, k] rows[i] for k < n_out, a multiple of TILE, over i < n_rows in
    the span of k. Shapes as in `weighted_sums`.
    """
    _weighted_sums(c.T, n_out, rows, n_rows, out, spans)


@kernel_part
def _weighted_sums(c, n_out, rows, n_rows, out, spans):
    """`weighted_sums`, of a matrix c in any order; two vectors of a row at a time with AVX-512."""
    stride = rows.shape[1]
    for i in range(0, n_out, TILE):
        d = 0
        while d < stride:
            is_double = HAS_AVX512 and d + SIMD_WIDTH < stride
            a = zeros(), zeros(), zeros(), zeros()
            b = a
            for part in range(2):
                begin, end = _columns(spans, i, n_rows, part)
                for k in range(begin, end):
                    x = splat(c[i, k]), splat(c[i + 1, k]), splat(c[i + 2, k]), splat(c[i + 3, k])
                    a = _add_4(load(rows, k, d), x, a)
                    if is_double:
                        b = _add_4(load(rows, k, d + SIMD_WIDTH), x, b)
            _store_4(out, i, d, a)
            d += SIMD_WIDTH
            if is_double:
                _store_4(out, i, d, b)
                d += SIMD_WIDTH


@kernel_part
def _store_4(out, i, d, vectors):
    """Write four rows of 16 floats."""
    store(out, i, d, vectors[0])
    store(out, i + 1, d, vectors[1])
    store(out, i + 2, d, vectors[2])
    store(out, i + 3, d, vectors[3])
