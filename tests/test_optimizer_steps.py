"""The formula of each optimiser, however rows are stored, and weight decay between its steps."""

import numpy as np
import pytest
import reference
from reference_classify import Parameters

from embedx.kernels.compiled import kernel
from embedx.optimizers import OPTIMIZERS, update_rule
from embedx.optimizers.contract import (
    PER_ROW,
    new_table,
)
from embedx.optimizers.decay import clock_step, decay_all, decay_row, shorten, step_size
from embedx.optimizers.descend import (
    descend_columns,
    descend_few,
    descend_row,
    new_column_gradient,
    row_rate,
)
from embedx.optimizers.rowwise_adagrad_momentum import Means
from tests.support.optimizer_rows import DIM, EVERY_OPTIMIZER, MINIBATCH, STRIDE

# may have output rows as columns
BY_NUMBER = [name for name in MINIBATCH if OPTIMIZERS[name].keeps != "per_row"]


@kernel
def step_of_row(table, row, gradient, optimizer, rate):
    descend_row(table, row, gradient, row, table.rows.shape[1], optimizer, rate)


@kernel
def step_of_tile(table, begin, gradient, n_touched, optimizer, rate):
    descend_columns(table, begin, gradient, n_touched, gradient.sums.shape[1], optimizer, rate)


def step_of_columns(table, begin, touched, g, rule, rate):
    """A step of columns begin:begin + 16 or more along `g`, of the rows that are touched alone."""
    gradient = new_column_gradient(*g.shape)
    gradient.sums[touched] = g[touched]
    gradient.touched[: len(touched)], gradient.is_touched[touched] = touched, True
    step_of_tile(table, begin, gradient, len(touched), rule, rate)
    assert not gradient.sums.any()
    assert not gradient.is_touched.any()


@kernel
def sparse_step(table, row, columns, gradient, optimizer, rate):
    """A step of some distinct numbers of a row."""
    if table.keeps == PER_ROW:
        square = np.float32(0)
        for k in range(columns.size):
            square += gradient[row, k] * gradient[row, k]
        rate = row_rate(table, row, square, optimizer, rate)
    descend_few(table, row, columns, gradient, optimizer, rate)


def start(n_rows=3):
    return np.random.default_rng(0).normal(0, 1, (n_rows, DIM))


def by_rows(rule, n_rows=3):
    """A table with a row for each output row."""
    table = new_table(n_rows, DIM, rule)
    table.rows[:, :DIM] = start(n_rows)
    return table


def by_columns(rule, n_rows=3):
    """A table with a column for each output row."""
    table = new_table(DIM, n_rows, rule)
    table.rows[:, :n_rows] = start(n_rows).T
    return table


def naive(name, n_rows=3, l2=0.0):
    w = start(n_rows).astype(np.float32).astype(np.float64)
    return Parameters(w, np.ones(DIM, dtype=bool), name, l2)


def gradient_of(step, n_rows=3):
    """float32 (n_rows, STRIDE), each row of it 0 beyond DIM, with numbers of very different size.

    A number has the same sign at every step: of sums that cancel float32 has no digits left to
    compare.
    """
    rng = np.random.default_rng(step)
    g = np.zeros((n_rows, STRIDE), dtype=np.float32)
    sign = np.where(np.arange(DIM) % 3 > 0, 1, -1)
    g[:, :DIM] = sign * np.abs(rng.normal(0, 10.0 ** np.arange(-10, 10), (n_rows, DIM)))
    return g


def assert_agree(name, rows, state, truth):
    """`rows` (n, >= DIM) and the state with a row for each, as ours keeps it, are those of the
    reference.
    """
    np.testing.assert_allclose(rows[:, :DIM], truth.w, rtol=1e-5, atol=1e-6)
    assert not rows[:, DIM:].any()
    if OPTIMIZERS[name].keeps == "per_coordinate":
        np.testing.assert_allclose(state[:, :DIM], truth.s, rtol=1e-5)
    if OPTIMIZERS[name].keeps == "per_row":
        np.testing.assert_allclose(state, truth.s[:, :1], rtol=1e-5)


EVERYTHING = np.ones((3, DIM), dtype=bool)


@EVERY_OPTIMIZER
def test_a_row_moves_by_the_formula(name):
    rule = update_rule(name)
    truth = naive(name)
    table = by_rows(rule)
    for step in range(4):
        g = gradient_of(step)
        step_of_row(table, 1, g, rule, np.float32(0.1))
        truth.step(
            g[:, :DIM].astype(np.float64), EVERYTHING * np.array([[False], [True], [False]]), 0.1
        )
    assert_agree(name, table.rows, table.state, truth)


@pytest.mark.parametrize("name", BY_NUMBER)
@pytest.mark.parametrize("begin", [0, 32])
def test_rows_that_are_columns_move_by_the_formula(name, begin):
    """17 columns, one more than a vector has, where some features occur; others stay."""
    rule = update_rule(name)
    truth = naive(name, 64)
    table = by_columns(rule, 64)
    moving = np.isin(np.arange(64), np.arange(begin, begin + 17))
    for step in range(4):
        occur = np.array([1, 3, 7, 15 + step])
        g = gradient_of(step, 64)[:, :DIM] * np.isin(np.arange(DIM), occur) * moving[:, None]
        step_of_columns(
            table,
            begin,
            occur,
            np.ascontiguousarray(g[begin : begin + 32].T),
            rule,
            np.float32(0.1),
        )
        truth.step(
            g.astype(np.float64),
            (g != 0) if name == "mixture" else np.ones((64, DIM), dtype=bool),
            0.1,
        )
    assert_agree(name, table.rows.T, table.state.T, truth)


@EVERY_OPTIMIZER
def test_single_numbers_of_a_row_move_by_the_formula(name):
    rule = update_rule(name)
    truth = naive(name)
    table = by_rows(rule)
    for step in range(4):
        named = np.array([3, 7, 16 + step % 2, 1])
        touched = np.isin(np.arange(DIM), named)
        g = gradient_of(step)
        g[:, :DIM] *= touched
        truth.step(g[:, :DIM].astype(np.float64), touched & (np.arange(3) == 1)[:, None], 0.1)
        sparse_step(table, 1, named, np.ascontiguousarray(g[:, named]), rule, np.float32(0.1))
    assert_agree(name, table.rows, table.state, truth)


@pytest.mark.parametrize("size", [1e-10, 1e-17, 1e-20, 1e-22, 1e-25, 1e-29, 1e-38])
@pytest.mark.parametrize(
    "name", [name for name in MINIBATCH if not reference.NAIVE_OPTIMIZERS[name].decays_at_zero]
)
def test_a_step_is_at_most_the_rate_even_if_the_squared_gradient_underflows(name, size):
    """A softmax far from doubt asks for steps of 1e-25, whose squares are zero in float32."""
    rule = update_rule(name)
    table = new_table(1, DIM, rule)
    g = np.full((1, STRIDE), size, dtype=np.float32)
    step_of_row(table, 0, g, rule, np.float32(0.1))
    assert np.isfinite(table.rows).all()
    assert np.abs(table.rows).max() <= 0.1001
    sparse_step(table, 0, np.zeros(1, dtype=np.int64), g[:, :1].copy(), rule, np.float32(0.1))
    assert np.abs(table.rows).max() <= 0.2002


@pytest.mark.parametrize(
    ("name", "state", "max_gradient", "size", "step"),
    [
        ("sgd", 0, 4, 3.0, 3.0),
        ("sgd", 0, 4, 4e3, 4.0),
        ("bounded-adagrad", 5000, 4, 3.0, 3 / 5000**0.5),
        ("bounded-adagrad", 5000, 4, 4e3, 4 / 5000**0.5),
        ("bounded-adagrad", 5000, np.inf, 4e3, 4e3 / 5000**0.5),
        ("bounded-adagrad", 0, 4, 40, 1.0),
        ("rowwise-adagrad", 0, 4, 40, 1.0),
    ],
)
def test_a_long_gradient_is_clipped_where_the_rate_does_not_adapt(
    name, state, max_gradient, size, step
):
    """As it does not by plain descent, and where the sum of squares is at its limit."""
    rule = update_rule(name, max_gradient=max_gradient)
    table = new_table(1, DIM, rule)
    table.state[:] = state
    g = np.zeros((1, STRIDE), dtype=np.float32)
    g[0, 0] = size
    step_of_row(table, 0, g, rule, np.float32(0.1))
    assert -table.rows[0, 0] == pytest.approx(0.1 * step, rel=1e-5)


@EVERY_OPTIMIZER
def test_the_accumulator_of_bounded_adagrad_stops_at_its_limit(name):
    """Else a row would be taken for one whose rate still adapts."""
    rule = update_rule(name)
    table = new_table(1, DIM, rule)
    for _ in range(3):
        step_of_row(table, 0, np.full((1, STRIDE), 1e15, dtype=np.float32), rule, np.float32(0.1))
    if np.isfinite(rule.limit):
        assert (table.state == rule.limit).all()
    elif table.state.size:
        assert table.state.max() > 1e28


# ---- weight decay and the longest a row may be


@kernel
def decay_one(table, row, optimizer, clock):
    decay_row(table, row, DIM, optimizer, clock)


@kernel
def shorten_row(table, row, n, max_norm):
    shorten(table, row, n, max_norm)


def decayed_late(name, l2, lr_of, intervals, *, columns):
    """20 rows after 60 steps: those of `intervals` are scored every so many steps, others never.
    Ours and the reference's.
    """
    rule = update_rule(name, l2=l2)
    truth = naive(name, 20, l2)
    table = by_columns(rule, 20) if columns else by_rows(rule, 20)
    clock = 0.0
    for step in range(60):
        lr = lr_of(step)
        g = gradient_of(step % 3, 20) * np.float32(1e-3)
        scored = [row for row, interval in intervals.items() if step % interval == 0]
        rate = np.float32(step_size(rule, lr))
        if columns and scored:
            decay_all(table, 20, rule, clock)
            columns_of = np.zeros((DIM, 32), dtype=np.float32)
            columns_of[:, scored] = g[scored, :DIM].T
            step_of_columns(table, 0, np.arange(DIM), columns_of, rule, rate)
        else:
            for row in scored:
                decay_one(table, row, rule, clock)
                step_of_row(table, row, g, rule, rate)
        truth.step(
            g[:, :DIM].astype(np.float64),
            np.isin(np.arange(20), scored)[:, None] & np.ones(DIM, dtype=bool),
            lr,
        )
        truth.decay(lr)
        clock += clock_step(rule, lr)
    decay_all(table, DIM, rule, clock)
    return (table.rows[:, :20].T if columns else table.rows)[:, :DIM], truth.w


@pytest.mark.parametrize(
    ("name", "columns"),
    [*((name, False) for name in MINIBATCH), *((name, True) for name in BY_NUMBER)],
)
@pytest.mark.parametrize("l2", [1e-4, 0.5])
def test_decay_applied_after_many_steps_is_that_of_each_step(name, l2, columns):
    """At rates that change; rows are scored at different times, most of them never."""
    intervals = (
        dict.fromkeys(range(20), 7) if columns and OPTIMIZERS[name].is_ema else {0: 7, 17: 20}
    )
    ours, truth = decayed_late(name, l2, lambda step: 0.5 / (1 + step), intervals, columns=columns)
    # atol: what Adagrad's decay leaves of the numbers with small gradients is below float32's exp
    np.testing.assert_allclose(ours, truth, rtol=2e-5, atol=1e-6)
    if name == "sgd":
        factors = 1 - 0.5 / (1 + np.arange(60)) * l2
        np.testing.assert_allclose(ours[2], start(20)[2] * np.prod(factors), rtol=1e-6)


def test_a_row_is_shortened_to_the_norm_and_never_lengthened():
    table = by_rows(update_rule("mixture"))
    before = table.rows.copy()
    shorten_row(table, 0, 7, 0.5)
    shorten_row(table, 1, 7, 1e6)
    assert np.linalg.norm(table.rows[0, :7]) == pytest.approx(0.5, rel=1e-6)
    np.testing.assert_allclose(
        table.rows[0, :7] / before[0, :7], 0.5 / np.linalg.norm(before[0, :7]), rtol=1e-5
    )
    assert (table.rows[0, 7:] == before[0, 7:]).all()
    assert (table.rows[1:] == before[1:]).all()


# ---- full gradients


def test_rowwise_adagrad_with_momentum_follows_the_formula():
    table = start().astype(np.float32)
    state = Means(table)
    s = np.zeros((3, 1))
    m = np.zeros((3, DIM))
    for step in range(1, 6):
        g = gradient_of(step)[:, :DIM].astype(np.float64)
        g[2] = 0  # a row without any gradient stays
        s += np.sum(g**2, axis=1, keepdims=True)
        m = (m + g) / 2
        expected = np.divide(m / (1 - 0.5**step), np.sqrt(s), out=np.zeros_like(m), where=s > 0)
        np.testing.assert_allclose(
            state.direction(g.astype(np.float32)), expected, rtol=1e-5, atol=1e-12
        )
