"""Weight decay (`--l2`), exact although a row is only looked at when it is needed; and the longest
row (`--set max-norm`).

Weight decay is that of the mean loss plus l2/2 · |w|² for each step, biases excepted. The decay
clock counts what every step would have taken away; what has become due since a row was last looked
at is applied before it is read. By an optimizer that keeps nothing the clock counts -log(1 - lr ·
l2), and what is applied is the very product of the factors (1 - lr · l2). By others each number of
a row shrinks at its own rate, e to the power -l2 · Σ lr / divisor(s), so that the gradient and the
penalty balance where they would for the penalised loss itself: s only changes when a row is looked
at. (Where s is still 0 for want of any gradient, as for numbers of the hidden layer's start, and
divisor(0) means nothing, a number stays.)
"""

import math

from numpy import float32, float64

from embedx.kernels import ONE, ZERO, exp, kernel, kernel_part
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, STATELESS, Table, UpdateRule
from embedx.optimizers.descend import for_each_keeping


@kernel_part
def clock_step(optimizer, lr):
    """What one step at rate `lr` adds to the decay clock."""
    if optimizer.keeps == STATELESS:
        return -math.log1p(-float64(lr) * optimizer.l2)
    return float64(lr) * optimizer.l2


@kernel_part
def step_size(optimizer, lr):
    """The rate for gradients: that of a step taken beside weight decay, where the decay is only
    applied afterwards.
    """
    if optimizer.keeps == STATELESS and optimizer.l2 > 0:
        return float32(lr / (1.0 - lr * optimizer.l2))
    return float32(lr)


@kernel_part
def decay_row(table, row, n, optimizer, decay_clock):
    """Apply all the weight decay that is due to the first n numbers of a row; to be called before
    it is read.
    """
    if optimizer.l2 > 0:
        due = decay_clock - table.decay_clock[row]
        if due > 0:
            table.decay_clock[row] = decay_clock
            _apply(table, row, n, optimizer, due)


@kernel
def decay_rows(table, first, last, n, optimizer, decay_clock):
    """Apply what is due to the rows first:last."""
    for row in range(first, last):
        decay_row(table, row, n, optimizer, decay_clock)


def decay_all(table: Table, n: int, optimizer: UpdateRule, decay_clock: float) -> None:
    """Apply what is due to every row, as before the whole table is read."""
    decay_rows(table, 0, len(table.rows), n, optimizer, decay_clock)


@kernel_part
def _apply(table, row, n, optimizer, due):
    """Apply so much weight decay to rows[row, :n]."""
    if table.state_of == PER_COORDINATE:
        _decay_numbers(optimizer.kind, table, row, n, optimizer, due)
    else:
        factor = float32(math.exp(-due))
        if table.state_of == PER_ROW:
            factor = _row_factor(optimizer.kind, table.state[row, 0], optimizer, due)
        for d in range(n):
            table.rows[row, d] *= factor


def _factor(accumulate, divisor):
    """What is left of a number with state s."""

    def factor(s, optimizer, due):
        return exp(float32(-due) / divisor(s)) if s > 0 or optimizer.decays_at_zero else ONE

    return factor


def _numbers(accumulate, divisor):
    """Weight decay of rows[row, :n] that each have a state."""
    factor = kernel_part(_factor(accumulate, divisor))

    def decay(table, row, n, optimizer, due):
        for d in range(n):
            table.rows[row, d] *= factor(table.state[row, d], optimizer, due)

    return decay


_decay_numbers = for_each_keeping("per_coordinate", _numbers)
_row_factor = for_each_keeping("per_row", _factor)


@kernel_part
def shorten(table, row, n, max_norm):
    """Bring the first n numbers of a row to length max_norm if they are longer."""
    square = ZERO
    for d in range(n):
        square += table.rows[row, d] * table.rows[row, d]
    if square > max_norm * max_norm:
        factor = float32(max_norm / math.sqrt(square))
        for d in range(n):
            table.rows[row, d] *= factor
