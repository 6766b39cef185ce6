"""Weight decay (`--l2`), exact although a row is only looked at when it is needed; and the longest a row may be (`--max-norm`).

Weight decay is that of the mean loss plus l2/2 · |w|² for each step, biases excepted. The decay clock counts what every step
would have taken away; what has become due since a row was last looked at is applied before it is read. By an optimizer that
keeps nothing the clock counts -log(1 - lr · l2), and what is applied is the very product of the factors (1 - lr · l2). By
others each number of a row shrinks at its own rate, e to the power -l2 · Σ lr / divisor(s), so that the gradient and the
penalty balance where they would for the penalised loss itself: s only changes when a row is looked at. (Where s is still 0 for
want of any gradient, as for numbers of the hidden layer's start, and divisor(0) means nothing, a number stays.)
"""

import math

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part, uncached_part
from embedx.kernels.maths import LN2_HIGH, LN2_LOW, LOG2_E, exp
from embedx.kernels.simd import (
    SIMD_WIDTH,
    divide,
    floor,
    is_zero,
    load,
    maximum,
    multiply_add,
    splat,
    store,
    two_to_the,
    zeros,
)
from embedx.optimizers.contract import PER_COLUMN, PER_COORDINATE, PER_ROW, STATELESS
from embedx.optimizers.descend import for_each_keeping


@kernel_part
def clock_step(optimizer, lr):
    """What one step at rate `lr` adds to the decay clock."""
    if optimizer.keeps == STATELESS:
        return -math.log1p(-np.float64(lr) * optimizer.l2)
    return np.float64(lr) * optimizer.l2


@kernel_part
def step_size(optimizer, lr):
    """The rate for gradients: that of a step taken beside weight decay, where the decay is only applied afterwards."""
    if optimizer.keeps == STATELESS and optimizer.l2 > 0:
        return np.float32(lr / (1.0 - lr * optimizer.l2))
    return np.float32(lr)


@kernel_part
def decay_row(table, row, n, optimizer, decay_clock):
    """Apply all the weight decay that is due to the first n numbers of a row; to be called before it is read."""
    if optimizer.l2 > 0:
        due = decay_clock - table.decay_clock[row]
        if due > 0:
            table.decay_clock[row] = decay_clock
            apply_decay(table, row, n, optimizer, due)


@kernel
def decay_all(table, n, optimizer, decay_clock):
    """Apply what is due to every row, as before the whole table is read."""
    for row in range(table.rows.shape[0]):
        decay_row(table, row, n, optimizer, decay_clock)


@kernel_part
def apply_decay(table, row, n, optimizer, due):
    """Apply so much weight decay to rows[row, :n]."""
    if table.state_of == PER_COORDINATE:
        _decay_numbers(optimizer.kind, table, row, row, n, optimizer, due)
    elif table.state_of == PER_COLUMN:
        _decay_by_column(optimizer.kind, table, row, 0, n, optimizer, due)
    else:
        factor = np.float32(math.exp(-due))
        if table.state_of == PER_ROW:
            factor = _row_factor(optimizer.kind, table.state[row, 0], optimizer, due)
        for d in range(n):
            table.rows[row, d] *= factor


def _factor(accumulate, divisor):
    """What is left of a number with state s."""

    def factor(s, optimizer, due):
        return exp(np.float32(-due) / divisor(s)) if s > 0 or optimizer.decays_at_zero else np.float32(1)

    return factor


def _numbers(accumulate, divisor):
    """Weight decay of rows[row, :n] that have the states of state_row."""
    factor = uncached_part(_factor(accumulate, divisor))

    def decay(table, row, state_row, n, optimizer, due):
        whole = n // SIMD_WIDTH * SIMD_WIDTH
        for d in range(0, whole, SIMD_WIDTH):
            s, w = load(table.state, state_row, d), load(table.rows, row, d)
            minus_one = splat(np.float32(-1))
            if not optimizer.decays_at_zero:  # 0 where s is
                minus_one = maximum(multiply_add(s, splat(np.float32(-1e37)), zeros()), minus_one)
            exponent = multiply_add(divide(splat(np.float32(due)), divisor(s)), minus_one, zeros())
            store(table.rows, row, d, multiply_add(_exp(exponent), w, zeros()))
        for d in range(whole, n):
            table.rows[row, d] *= factor(table.state[state_row, d], optimizer, due)

    return decay


_decay_numbers = for_each_keeping("per_coordinate", _numbers)
_decay_by_column = for_each_keeping("per_row", _numbers)
_row_factor = for_each_keeping("per_row", _factor)


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
def shorten(table, row, n, max_norm):
    """Bring the first n numbers of a row to length max_norm if they are longer."""
    square = np.float32(0)
    for d in range(n):
        square += table.rows[row, d] * table.rows[row, d]
    if square > max_norm * max_norm:
        factor = np.float32(max_norm / math.sqrt(square))
        for d in range(n):
            table.rows[row, d] *= factor
