"""A step along the gradient, for each storage of rows.

    descend_row      rows[row, :n], a vector       skip-gram, hidden layers, output rows for dense
                                                   input
    descend_columns  rows[:, begin:begin + n]      a transposed table: all output rows, for sparse
                                                   input
    descend_few      rows[row, d] for some d       drawn output rows, for sparse input

If the optimizer has a state per row, the whole gradient of a row must be known before a coordinate
moves: call `row_rate` before `descend_few`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy import float32

from embedx.kernels.compiled import chosen_by_number, kernel_part
from embedx.kernels.maths import ONE
from embedx.kernels.simd import SIMD_WIDTH, is_zero, load, multiply_add, splat, store, sum_of, zeros
from embedx.optimizers import keeping
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW

INFINITE = float32(np.inf)


class StepLimits(NamedTuple):
    """Limits of the step of a row."""

    max_rate: float32
    max_length: float32


NO_LIMITS = StepLimits(INFINITE, INFINITE)


def for_each_keeping(what: str, make: Callable[[Any, Any], Any]) -> Any:
    """A kernel part `f(optimizer.number, ...)` that calls make(accumulate, divisor)(...) with the
    functions of that optimizer.

    what  "per_coordinate" or "per_row": the state of the optimizers it is for
    """
    return chosen_by_number(
        [kernel_part(make(optimizer.accumulate, optimizer.divisor)) for optimizer in keeping(what)]
    )


@kernel_part
def is_frozen(table, row):
    """Whether a row must not be updated."""
    return table.frozen.size > 0 and table.frozen[row] > 0


@kernel_part
def descend_row(table, row, gradient, r, n, optimizer, rate):
    """Update rows[row, :n] along -gradient[r, :n], in whole vectors: gradients beyond n are 0."""
    if table.keeps == PER_COORDINATE:
        _descend_coordinates(optimizer.number, table, row, 0, gradient, r, 0, n, rate)
    else:
        descend_row_within(table, row, gradient, r, n, optimizer, rate, NO_LIMITS)


@kernel_part
def descend_row_within(table, row, gradient, r, n, optimizer, rate, limits):
    """`descend_row` within StepLimits, for optimizers with one rate for a row.

    Where the rate does not adapt, with plain SGD or at the limit of a state, the gradient is
    clipped to `max_gradient`.
    """
    max_length = limits.max_length
    if table.keeps == PER_ROW or optimizer.max_gradient < INFINITE or max_length < INFINITE:
        squares = zeros()
        for d in range(0, n, SIMD_WIDTH):
            g = load(gradient, r, d)
            squares = multiply_add(g, g, squares)
        square = sum_of(squares)
        if table.keeps == PER_ROW:
            rate = row_rate(table, row, square, optimizer, rate)
        adapts = table.keeps == PER_ROW and table.state[row, 0] < optimizer.limit
        if not adapts and square > optimizer.max_gradient * optimizer.max_gradient:
            rate *= optimizer.max_gradient / np.sqrt(square)
        if rate * rate * square > max_length * max_length:
            rate = max_length / np.sqrt(square)
    if rate > limits.max_rate:
        rate = limits.max_rate
    _add_multiple(table, row, 0, gradient, r, 0, n, rate)


@kernel_part
def row_rate(table, row, square, optimizer, rate):
    """Update a row's state by the squared norm of its gradient; return the rate of its step."""
    return _row_rate(optimizer.number, table.state, row, square, rate)


@kernel_part
def row_divisor(table, row, optimizer):
    """The divisor of a row's rate at its last step; 1 unless the optimizer has a state per row."""
    return (
        row_state_divisor(optimizer.number, table.state[row, 0]) if table.keeps == PER_ROW else ONE
    )


class ColumnGradient(NamedTuple):
    """The gradient of some columns of a transposed table."""

    sums: np.ndarray  # float32 (n_rows, n_columns): zero between steps
    touched: np.ndarray  # int32 (n_rows,): the rows with a gradient
    is_touched: np.ndarray  # bool (n_rows,)


def new_column_gradient(n_rows: int, n_columns: int) -> ColumnGradient:
    return ColumnGradient(
        np.zeros((n_rows, n_columns), float32),
        np.zeros(n_rows, np.int32),
        np.zeros(n_rows, np.bool_),
    )


@kernel_part
def touch(gradient, row, n_touched):
    """Mark a row as having a gradient; return the number of such rows."""
    if not gradient.is_touched[row]:
        gradient.is_touched[row] = True
        gradient.touched[n_touched] = row
        n_touched += 1
    return n_touched


@kernel_part
def descend_columns(table, begin, gradient, n_touched, n, optimizer, rate):
    """Update columns begin:begin + n, in whole vectors, along -gradient, then zero that."""
    g = gradient.sums
    for k in range(n_touched):
        row = np.int64(gradient.touched[k])
        gradient.is_touched[row] = False
        for d in range(0, n, SIMD_WIDTH):
            if not is_zero(load(g, row, d)):
                if table.keeps == PER_COORDINATE:
                    _descend_coordinates(
                        optimizer.number, table, row, begin + d, g, row, d, SIMD_WIDTH, rate
                    )
                else:
                    _add_multiple(table, row, begin + d, g, row, d, SIMD_WIDTH, rate)
                store(g, row, d, zeros())


@kernel_part
def descend_few(table, row, columns, gradient, optimizer, rate):
    """Update the numbers rows[row, columns[k]] along -gradient[row, k]."""
    if table.keeps == PER_COORDINATE:
        _descend_few_coordinates(optimizer.number, table, row, columns, gradient, rate)
    else:
        for k in range(columns.size):
            table.rows[row, columns[k]] -= rate * gradient[row, k]


@kernel_part
def _add_multiple(table, row, begin, gradient, r, at, n, rate):
    """A step at one rate for all coordinates."""
    step = splat(float32(-rate))
    for d in range(0, n, SIMD_WIDTH):
        w = load(table.rows, row, begin + d)
        store(table.rows, row, begin + d, multiply_add(step, load(gradient, r, at + d), w))


# ---- the functions of optimizers


def _coordinates(accumulate, divisor):
    """The step of adjacent coordinates, each with a state."""

    def descend(table, row, begin, gradient, r, at, n, rate):
        step = splat(float32(-rate))
        for d in range(0, n, SIMD_WIDTH):
            g = load(gradient, r, at + d)
            w = load(table.rows, row, begin + d)
            s = accumulate(load(table.state, row, begin + d), g)
            store(table.state, row, begin + d, s)
            store(table.rows, row, begin + d, w + multiply_add(step, g, zeros()) / divisor(s))

    return descend


def _few_coordinates(accumulate, divisor):
    """The step of coordinates in a few columns, each with a state."""

    def descend(table, row, columns, gradient, rate):
        for k in range(columns.size):
            d = columns[k]
            g = gradient[row, k]
            s = accumulate(table.state[row, d], g)
            table.state[row, d] = s
            table.rows[row, d] -= rate * g / divisor(s)

    return descend


def _rate(accumulate, divisor):
    """The rate of a row that has a state."""

    def rate_of(state, row, square, rate):
        s = accumulate(state[row, 0], square)
        state[row, 0] = s
        return rate / divisor(s)

    return rate_of


# Each optimizer has a whole loop of its own. With one loop that branches at each step, the compiler
# would merge the code of several optimizers, and a new one would change the last digits of others.
_descend_coordinates = for_each_keeping("per_coordinate", _coordinates)
_descend_few_coordinates = for_each_keeping("per_coordinate", _few_coordinates)
coordinate_divisor = for_each_keeping(
    "per_coordinate", lambda accumulate, divisor: lambda s: divisor(s)
)
_row_rate = for_each_keeping("per_row", _rate)
row_state_divisor = for_each_keeping("per_row", lambda accumulate, divisor: lambda s: divisor(s))
