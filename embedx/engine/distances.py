"""Scores by squared Euclidean distance, as inner products of longer vectors.

    z = b - |h - w|² = (2h, -|h|², 1, 1) · (w, 1, -|w|², b)

Yen et al. 2018, section 2, "Metric Learning": inputs and output rows have two more numbers (EXTRA),
before the bias. Code that computes inner products then computes distances: objectives, samplers,
the index, matrix products. The two numbers are functions of h and w. With c = ∂loss/∂z, summed over
the inputs of a row or the rows of an input,

    ∂loss/∂w = Σ c 2h - 2w Σ c      the product leaves Σ c in the column of -|w|²
    ∂loss/∂h = 2 (Σ c w - h Σ c)    the product leaves Σ c in the column of the ones
"""

import numpy as np
from numpy import ndarray

from embedx.kernels import ONE, TWO, ZERO, kernel_part

EXTRA = 2


def long_inputs(h: ndarray) -> ndarray:
    """(2h, -|h|², 1) of each row of h, (n, dim + EXTRA)."""
    squares = np.einsum("nd,nd->n", h, h)
    return np.column_stack([2 * h, -squares, np.ones_like(squares)])


def long_rows(w: ndarray) -> ndarray:
    """(w, 1, -|w|²) of each row of w, (n, dim + EXTRA)."""
    squares = np.einsum("nd,nd->n", w, w)
    return np.column_stack([w, np.ones_like(squares), -squares])


def write_long_rows(rows: ndarray, n: int) -> None:
    """Write (1, -|w|²) behind the first n numbers w of each row."""
    rows[:, n : n + EXTRA] = long_rows(rows[:, :n])[:, n:]


@kernel_part
def lengthen_input(h, e, n):
    """Overwrite h[e, :n] and the two numbers after it by (2h, -|h|², 1)."""
    h[e, n] = -_square(h, e, n)
    h[e, n + 1] = ONE
    for d in range(n):
        h[e, d] *= TWO


@kernel_part
def lengthen_row(rows, row, n):
    """Update the -|w|² of a row whose first n numbers w have changed."""
    rows[row, n + 1] = -_square(rows, row, n)


@kernel_part
def gradient_by_input(h, h_gradient, e, n):
    """Turn h_gradient[e], the gradient of the long input h[e], into that of the input itself."""
    total = h_gradient[e, n]
    for d in range(n):
        h_gradient[e, d] = TWO * h_gradient[e, d] - total * h[e, d]
    _clear_extra(h_gradient, e, n)


@kernel_part
def gradient_by_row(rows, row, gradient, k, n):
    """Turn gradient[k], the gradient of a long row, into that of the row itself."""
    twice_total = TWO * gradient[k, n + 1]
    for d in range(n):
        gradient[k, d] -= twice_total * rows[row, d]
    _clear_extra(gradient, k, n)


@kernel_part
def _clear_extra(gradient, k, n):
    """Zero the gradient of the two extra numbers, which take no step of their own."""
    gradient[k, n] = ZERO
    gradient[k, n + 1] = ZERO


@kernel_part
def _square(a, i, n):
    """|a[i, :n]|²."""
    total = ZERO
    for d in range(n):
        total += a[i, d] * a[i, d]
    return total
