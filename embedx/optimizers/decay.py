"""Lazy weight decay (`--l2`), exact although rows are only touched when they are needed; and the
maximum norm of rows (`--set max-norm`).

Weight decay is that of the mean loss plus l2/2 · |w|² at each step, biases excepted. A decay clock
sums up the decay of all steps; the decay pending since a row was last read is applied before it is
read again. For a stateless optimizer the clock counts -log(1 - lr · l2), and the product of the
factors (1 - lr · l2) is applied. For others each coordinate shrinks by e^(-l2 · Σ lr / divisor(s)),
so that gradient and penalty balance as in the penalised loss; s does not change between reads.
(Where s is still 0 because there was no gradient, as for initial values of the hidden layer, and
divisor(0) only avoids a division by 0, a coordinate does not shrink.)
"""

import math

from numpy import float32, float64

from embedx.kernels import ONE, ZERO, exp, kernel, kernel_part
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, STATELESS, Table, UpdateRule
from embedx.optimizers.descend import for_each_keeping


@kernel_part
def clock_step(optimizer, lr):
    """The increment of the decay clock for one step at rate `lr`."""
    if optimizer.keeps == STATELESS:
        return -math.log1p(-float64(lr) * optimizer.l2)
    return float64(lr) * optimizer.l2


@kernel_part
def step_size(optimizer, lr):
    """The rate for gradients, corrected for weight decay of the step, which is applied later."""
    if optimizer.keeps == STATELESS and optimizer.l2 > 0:
        return float32(lr / (1.0 - lr * optimizer.l2))
    return float32(lr)


@kernel_part
def decay_row(table, row, n, optimizer, decay_clock):
    """Apply pending weight decay to the first n numbers of a row, before they are read."""
    if optimizer.l2 > 0:
        due = decay_clock - table.decay_clock[row]
        if due > 0:
            table.decay_clock[row] = decay_clock
            _apply(table, row, n, optimizer, due)


@kernel
def decay_rows(table, first, last, n, optimizer, decay_clock):
    """Apply pending weight decay to the rows first:last."""
    for row in range(first, last):
        decay_row(table, row, n, optimizer, decay_clock)


def decay_all(table: Table, n: int, optimizer: UpdateRule, decay_clock: float) -> None:
    """Apply pending weight decay to every row, before the whole table is read."""
    decay_rows(table, 0, len(table.rows), n, optimizer, decay_clock)


@kernel_part
def _apply(table, row, n, optimizer, due):
    """Apply weight decay to rows[row, :n], for `due` on the decay clock."""
    if table.keeps == PER_COORDINATE:
        _decay_coordinates(optimizer.number, table, row, n, optimizer, due)
    else:
        factor = float32(math.exp(-due))
        if table.keeps == PER_ROW:
            factor = _row_factor(optimizer.number, table.state[row, 0], optimizer, due)
        for d in range(n):
            table.rows[row, d] *= factor


def _factor(accumulate, divisor):
    """The factor by which a number with state s shrinks."""

    def factor(s, optimizer, due):
        return exp(float32(-due) / divisor(s)) if s > 0 or optimizer.decays_at_zero else ONE

    return factor


def _coordinates(accumulate, divisor):
    """Weight decay of rows[row, :n], where each coordinate has a state."""
    factor = kernel_part(_factor(accumulate, divisor))

    def decay(table, row, n, optimizer, due):
        for d in range(n):
            table.rows[row, d] *= factor(table.state[row, d], optimizer, due)

    return decay


_decay_coordinates = for_each_keeping("per_coordinate", _coordinates)
_row_factor = for_each_keeping("per_row", _factor)


@kernel_part
def shorten(table, row, n, max_norm):
    """Scale the first n numbers of a row down to norm max_norm, if it is larger."""
    square = ZERO
    for d in range(n):
        square += table.rows[row, d] * table.rows[row, d]
    if square > max_norm * max_norm:
        factor = float32(max_norm / math.sqrt(square))
        for d in range(n):
            table.rows[row, d] *= factor
