"""What a row does with its gradient: plain descent, Adagrad, or the mixture of RMSProp and Adagrad of augment & reduce.

    sgd       w -= lr · g
    adagrad   s += g²                     w -= lr · g / √s          Duchi, Hazan & Singer 2011
    mixture   s  = g²/10 + 9s/10          w -= lr · g / (1 + √s)    Ruiz et al. 2018, appendix

Weight decay (`--l2`) is that of the mean loss plus l2/2 · |w|² for each step, biases excepted, and is exact although a row is
only visited when it is needed: the clock counts what every step would have taken away, and a row pays what is due before it is
read. Under plain descent the clock counts -log(1 - lr · l2) and a payment is the very product of the factors (1 - lr · l2).
Under the other two each number of a row shrinks at its own rate, e to the power -l2 · Σ lr / (what divides its gradient), so
that the gradient and the penalty balance where they would for the penalised loss itself. (Under Adagrad a number that
never had a gradient, of the hidden layer's start, stays.)
"""

import math
from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.maths import LN2_HIGH, LN2_LOW, LOG2_E, exp
from embedx.kernels.simd import (
    LANES,
    aligned_zeros,
    divide,
    floor,
    is_zero,
    load,
    maximum,
    multiply_add,
    splat,
    square_root,
    store,
    two_to_the,
    zeros,
)

OPTIMIZERS = {"sgd": 0, "adagrad": 1, "mixture": 2}
SGD, ADAGRAD, MIXTURE = 0, 1, 2
TINY = np.float32(1e-18)  # beside √s; gradients below 1e-19 have no square in float32, and must not be divided by much less


class Table(NamedTuple):
    """Rows of parameters and what their optimiser keeps beside them."""

    rows: np.ndarray  # float32 (n, stride)
    sums: np.ndarray  # float32 (n, stride): s above; (0, stride) for sgd
    decayed: np.ndarray  # float64 (n,): the clock when the row last paid its weight decay; (0,) without


class Optimizer(NamedTuple):
    """The settings as plain numbers."""

    kind: int
    l2: float
    max_norm: float  # 0 for none


def new_table(n_rows: int, dim: int, optimizer: Optimizer) -> Table:
    """A table of zeros with room for what the optimiser keeps."""
    return Table(
        aligned_zeros(n_rows, dim),
        aligned_zeros(n_rows if optimizer.kind != SGD else 0, dim),
        np.zeros(n_rows if optimizer.l2 > 0 else 0, dtype=np.float64),
    )


@kernel_part
def clock_of(optimizer, lr):
    """What one step at rate `lr` adds to the clock of weight decay."""
    if optimizer.kind == SGD:
        return -math.log1p(-np.float64(lr) * optimizer.l2)
    return np.float64(lr) * optimizer.l2


@kernel_part
def pay(table, row, begin, end, optimizer, due):
    """Shrink rows[row, begin:end] by the weight decay that is due."""
    if optimizer.kind == SGD:
        factor = np.float32(math.exp(-due))
        for d in range(begin, end):
            table.rows[row, d] *= factor
    else:
        whole = (end - begin) // LANES * LANES
        for d in range(begin, begin + whole, LANES):
            s, w = load(table.sums, row, d), load(table.rows, row, d)
            store(table.rows, row, d, multiply_add(_exp(_shrinkage(s, due, optimizer)), w, zeros()))
        for d in range(begin + whole, end):
            s = table.sums[row, d]
            divisor = np.sqrt(s) + (TINY if optimizer.kind == ADAGRAD else np.float32(1))
            table.rows[row, d] *= exp(np.float32(-due) / divisor) if s > 0 or optimizer.kind == MIXTURE else np.float32(1)


@kernel_part
def _shrinkage(s, due, optimizer):
    """Minus what is due over what divides the gradient; 0 for Adagrad's numbers that never had one."""
    one, minus_one = splat(np.float32(1)), splat(np.float32(-1))
    if optimizer.kind == ADAGRAD:
        minus_one = maximum(multiply_add(s, splat(np.float32(-1e37)), zeros()), minus_one)
        one = splat(TINY)
    quotient = divide(splat(np.float32(due)), multiply_add(splat(np.float32(1)), square_root(s), one))
    return multiply_add(quotient, minus_one, zeros())


@kernel_part
def _exp(x):
    """e to the power of sixteen numbers that are not positive, held at -87: maths.exp, lane by lane."""
    one = splat(np.float32(1))
    if is_zero(maximum(multiply_add(x, splat(np.float32(-1)), splat(np.float32(-0.001))), zeros())):
        return multiply_add(multiply_add(x, splat(np.float32(0.5)), one), x, one)  # above -0.001 two terms of the series do
    x = maximum(x, splat(np.float32(-87)))
    n = floor(multiply_add(x, splat(LOG2_E), splat(np.float32(0.5))))
    r = multiply_add(n, splat(-LN2_HIGH), x)
    r = multiply_add(n, splat(-LN2_LOW), r)
    p = multiply_add(splat(np.float32(1 / 5040)), r, splat(np.float32(1 / 720)))
    p = multiply_add(p, r, splat(np.float32(1 / 120)))
    p = multiply_add(p, r, splat(np.float32(1 / 24)))
    p = multiply_add(p, r, splat(np.float32(1 / 6)))
    p = multiply_add(p, r, splat(np.float32(0.5)))
    p = multiply_add(multiply_add(p, r, one), r, one)
    return multiply_add(p, two_to_the(n), zeros())


@kernel_part
def pay_row(table, row, n, optimizer, clock):
    """Have a row pay all that is due for its first n numbers; to be called before it is read."""
    if optimizer.l2 > 0:
        due = clock - table.decayed[row]
        if due > 0:
            table.decayed[row] = clock
            pay(table, row, 0, n, optimizer, due)


@kernel
def pay_all(table, n, optimizer, clock):
    """Have every row pay, as before the whole table is read."""
    for row in range(table.rows.shape[0]):
        pay_row(table, row, n, optimizer, clock)


@kernel_part
def step_size(optimizer, lr):
    """The rate for gradients: that of a step taken beside weight decay, where the decay is only paid afterwards."""
    if optimizer.kind == SGD and optimizer.l2 > 0:
        return np.float32(lr / (1.0 - lr * optimizer.l2))
    return np.float32(lr)


@kernel_part
def descend(table, row, begin, gradient, r, at, n, optimizer, rate):
    """One step of rows[row, begin:begin + n] along -gradient[r, at:at + n], in whole lanes: beyond n gradients are zero."""
    step = splat(np.float32(-rate))
    if optimizer.kind == SGD:
        for d in range(0, n, LANES):
            w = load(table.rows, row, begin + d)
            store(table.rows, row, begin + d, multiply_add(step, load(gradient, r, at + d), w))
    else:
        keeps, takes = np.float32(1), np.float32(1)
        divisor = splat(TINY)
        if optimizer.kind == MIXTURE:
            keeps, takes = np.float32(0.9), np.float32(0.1)
            divisor = splat(np.float32(1))
        for d in range(0, n, LANES):
            g, w, s = load(gradient, r, at + d), load(table.rows, row, begin + d), load(table.sums, row, begin + d)
            s = multiply_add(multiply_add(splat(takes), g, zeros()), g, multiply_add(splat(keeps), s, zeros()))
            store(table.sums, row, begin + d, s)
            one = splat(np.float32(1))
            move = divide(multiply_add(step, g, zeros()), multiply_add(one, square_root(s), divisor))
            store(table.rows, row, begin + d, multiply_add(one, move, w))


@kernel_part
def descend_one(table, row, d, g, optimizer, rate):
    """One step of the number rows[row, d] along -g."""
    if optimizer.kind == SGD:
        table.rows[row, d] -= rate * g
    elif optimizer.kind == ADAGRAD:
        s = table.sums[row, d] + g * g
        table.sums[row, d] = s
        table.rows[row, d] -= rate * g / (np.sqrt(s) + TINY)
    else:
        s = np.float32(0.1) * g * g + np.float32(0.9) * table.sums[row, d]
        table.sums[row, d] = s
        table.rows[row, d] -= rate * g / (np.float32(1) + np.sqrt(s))


@kernel_part
def shorten(table, row, n, max_norm):
    """Bring the first n numbers of a row to length max_norm if they are longer."""
    square = np.float32(0)
    for d in range(n):
        square += table.rows[row, d] * table.rows[row, d]
    if square > max_norm * max_norm:
        factor = np.float32(max_norm / math.sqrt(square))
        for d in range(n):
            table.rows[row, d] *= factor
