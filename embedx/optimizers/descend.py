"""A step along the gradient, however rows are stored.

    descend_row      rows[row, :n], a vector       skip-gram, hidden layers, drawn output rows of dense input
    descend_columns  rows[row, begin:begin + n]    all output rows, each a column; descend_few where few of them move
    descend_sparse   rows[row, d] for some d       drawn output rows of sparse input

Where the optimizer has a state per row, the whole gradient of a row must be known before its first coordinate moves:
`descend_row` sums its square by itself; `accumulate_columns` (or `_column`) and `row_rate` come before the others.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from embedx.kernels.compiled import chosen_by_number, kernel_part, uncached_part
from embedx.kernels.simd import SIMD_WIDTH, divide, load, multiply_add, splat, store, sum_of, zeros
from embedx.optimizers import keeping
from embedx.optimizers.contract import PER_COLUMN, PER_COORDINATE, PER_ROW

INFINITE = np.float32(np.inf)


def for_each_keeping(what: str, make: Callable[[Any, Any], Any]) -> Any:
    """A kernel part `f(optimizer.kind, ...)` that calls make(accumulate, divisor)(...) of that optimizer.

    what  "per_coordinate" or "per_row": the optimizers to make it for
    """
    return chosen_by_number([uncached_part(make(each.accumulate, each.divisor)) for each in keeping(what)])


@kernel_part
def is_frozen(table, row):
    """Whether a row must not be updated."""
    return table.frozen.size > 0 and table.frozen[row] > 0


@kernel_part
def descend_row(table, row, gradient, r, n, optimizer, rate):
    """One step of rows[row, :n] along -gradient[r, :n], in whole lanes: beyond n gradients are zero."""
    if table.state_of == PER_COORDINATE:
        _descend_numbers(optimizer.kind, table, row, 0, gradient, r, 0, n, rate)
    else:
        descend_row_within(table, row, gradient, r, n, optimizer, rate, INFINITE)


@kernel_part
def descend_row_within(table, row, gradient, r, n, optimizer, rate, max_rate):
    """The same where all numbers of a row have one rate, which is at most `max_rate`.

    Where that rate does not adapt, to plain descent or at the limit of a state, the gradient is clipped to `max_gradient`.
    """
    if table.state_of == PER_ROW or optimizer.max_gradient < INFINITE:
        squares = zeros()
        for d in range(0, n, SIMD_WIDTH):
            g = load(gradient, r, d)
            squares = multiply_add(g, g, squares)
        square = sum_of(squares)
        if table.state_of == PER_ROW:
            rate = row_rate(table, row, square, optimizer, rate)
        adapts = table.state_of == PER_ROW and table.state[row, 0] < optimizer.limit
        if not adapts and square > optimizer.max_gradient * optimizer.max_gradient:
            rate *= optimizer.max_gradient / np.sqrt(square)
    _add_multiple(table, row, 0, gradient, r, 0, n, max_rate if rate > max_rate else rate)


@kernel_part
def row_rate(table, row, square, optimizer, rate):
    """Update the state of a row by the squared length of its gradient; the learning rate of its step."""
    return _row_rate(optimizer.kind, table.state, row, square, rate)


@kernel_part
def row_divisor(table, row, optimizer):
    """What the rate of a row was divided by at its last step; 1 where there is not one state a row."""
    return _row_divisor(optimizer.kind, table.state[row, 0]) if table.state_of == PER_ROW else np.float32(1)


@kernel_part
def accumulate_columns(table, begin, rows, n_rows, bias_row, gradient, at, n, optimizer):
    """Update the states of columns begin:begin + n, if there is one per column, by the squared lengths of their gradients.

    The gradient of table[row, begin + d] is gradient[row, at + d], of rows[:n_rows] and bias_row (-1 without); the rest is 0.
    """
    if table.state_of == PER_COLUMN:
        for d in range(0, n, SIMD_WIDTH):
            square = zeros()
            for k in range(n_rows):
                g = load(gradient, np.int64(rows[k]), at + d)
                square = multiply_add(g, g, square)
            if bias_row >= 0:
                g = load(gradient, bias_row, at + d)
                square = multiply_add(g, g, square)
            store(table.state, 0, begin + d, _accumulate_row(optimizer.kind, load(table.state, 0, begin + d), square))


@kernel_part
def accumulate_column(table, column, square, optimizer):
    """The same for one column."""
    table.state[0, column] = _accumulate_row(optimizer.kind, table.state[0, column], square)


@kernel_part
def descend_columns(table, row, begin, gradient, r, at, n, optimizer, rate):
    """One step of rows[row, begin:begin + n] along -gradient[r, at:at + n], in whole lanes: beyond n gradients are zero."""
    if table.state_of == PER_COORDINATE:
        _descend_numbers(optimizer.kind, table, row, begin, gradient, r, at, n, rate)
    elif table.state_of == PER_COLUMN:
        _descend_by_column(optimizer.kind, table, row, begin, gradient, r, at, n, rate)
    else:
        _add_multiple(table, row, begin, gradient, r, at, n, rate)


@kernel_part
def descend_few(table, row, columns, gradient, optimizer, rate):
    """One step of the numbers rows[row, columns[k]] along -gradient[row, k]."""
    if table.state_of == PER_COORDINATE:
        _descend_few_numbers(optimizer.kind, table, row, columns, gradient, rate)
    elif table.state_of == PER_COLUMN:
        _descend_few_by_column(optimizer.kind, table, row, columns, gradient, rate)
    else:
        for k in range(columns.size):
            table.rows[row, columns[k]] -= rate * gradient[row, k]


@kernel_part
def descend_sparse(table, row, columns, first, last, bias, gradient, optimizer, rate):
    """One step of the numbers rows[row, d], d in columns[first:last] or the bias (-1 without), along -gradient[0, d].

    The gradient is 0 afterwards, so that a column named again stays. Where there is one state a row, `rate` is `row_rate`'s.
    """
    if table.state_of == PER_COORDINATE:
        _descend_sparse_numbers(optimizer.kind, table, row, columns, first, last, bias, gradient, rate)
    else:
        for f in range(first, last + (bias >= 0)):
            d = np.int64(columns[f]) if f < last else np.int64(bias)
            if gradient[0, d] != 0:
                table.rows[row, d] -= rate * gradient[0, d]
                gradient[0, d] = 0


@kernel_part
def _add_multiple(table, row, begin, gradient, r, at, n, rate):
    """A step at one rate for all numbers."""
    step = splat(np.float32(-rate))
    for d in range(0, n, SIMD_WIDTH):
        w = load(table.rows, row, begin + d)
        store(table.rows, row, begin + d, multiply_add(step, load(gradient, r, at + d), w))


# ---- with the functions of an optimizer


def _numbers(accumulate, divisor):
    """The step of many numbers that each have a state."""

    def descend(table, row, begin, gradient, r, at, n, rate):
        step = splat(np.float32(-rate))
        for d in range(0, n, SIMD_WIDTH):
            g, w = load(gradient, r, at + d), load(table.rows, row, begin + d)
            s = accumulate(load(table.state, row, begin + d), g)
            store(table.state, row, begin + d, s)
            store(table.rows, row, begin + d, w + divide(multiply_add(step, g, zeros()), divisor(s)))

    return descend


def _sparse_numbers(accumulate, divisor):
    """The step of single numbers that each have a state."""

    def descend(table, row, columns, first, last, bias, gradient, rate):
        for f in range(first, last + (bias >= 0)):
            d = np.int64(columns[f]) if f < last else np.int64(bias)
            g = gradient[0, d]
            if g != 0:
                s = accumulate(table.state[row, d], g)
                table.state[row, d] = s
                table.rows[row, d] -= rate * g / divisor(s)
                gradient[0, d] = 0

    return descend


def _few_numbers(accumulate, divisor):
    """The step of numbers of a few columns that each have a state."""

    def descend(table, row, columns, gradient, rate):
        for k in range(columns.size):
            d, g = columns[k], gradient[row, k]
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


def _by_column(accumulate, divisor):
    """The step of many numbers whose columns each have a state, which knows of it."""

    def descend(table, row, begin, gradient, r, at, n, rate):
        step = splat(np.float32(-rate))
        for d in range(0, n, SIMD_WIDTH):
            w = load(table.rows, row, begin + d)
            of_column = divide(step, divisor(load(table.state, 0, begin + d)))
            store(table.rows, row, begin + d, multiply_add(of_column, load(gradient, r, at + d), w))

    return descend


def _few_by_column(accumulate, divisor):
    """The same for a few columns."""

    def descend(table, row, columns, gradient, rate):
        for k in range(columns.size):
            table.rows[row, columns[k]] -= rate * gradient[row, k] / divisor(table.state[0, columns[k]])

    return descend


# Each is a loop: of single steps in branches the compiler would share instructions among optimizers, so that a new one would
# change the last digits of others.
_descend_numbers = for_each_keeping("per_coordinate", _numbers)
_descend_sparse_numbers = for_each_keeping("per_coordinate", _sparse_numbers)
_descend_few_numbers = for_each_keeping("per_coordinate", _few_numbers)
number_divisor = for_each_keeping("per_coordinate", lambda accumulate, divisor: lambda s: divisor(s))
_row_rate = for_each_keeping("per_row", _rate)
_row_divisor = for_each_keeping("per_row", lambda accumulate, divisor: lambda s: divisor(s))
_descend_by_column = for_each_keeping("per_row", _by_column)
_accumulate_row = for_each_keeping("per_row", lambda accumulate, divisor: lambda s, square: accumulate(s, square))
_descend_few_by_column = for_each_keeping("per_row", _few_by_column)
