"""The optimisers number by number: their formulas, weight decay between steps, and what float32 does at its ends."""

import numpy as np
import pytest
from reference_classify import Parameters

from embedx.engine import optimizers
from embedx.engine.optimizers import MIXTURE, OPTIMIZERS, SGD, Optimizer, clock_of, new_table, pay_all, step_size
from embedx.kernels.compiled import kernel

DIM = 20  # more than a vector register, and no multiple of it
EACH = pytest.mark.parametrize("kind", list(OPTIMIZERS))


@kernel
def descend(table, row, gradient, n, optimizer, rate):
    optimizers.descend(table, row, 0, gradient, 0, 0, n, optimizer, rate)


@kernel
def descend_one(table, row, d, g, optimizer, rate):
    optimizers.descend_one(table, row, d, g, optimizer, rate)


@kernel
def shorten(table, row, n, max_norm):
    optimizers.shorten(table, row, n, max_norm)


def a_table(optimizer, n_rows=3):
    table = new_table(n_rows, DIM, optimizer)
    table.rows[:, :DIM] = np.random.default_rng(0).normal(0, 1, (n_rows, DIM))
    return table, Parameters(table.rows[:, :DIM].astype(np.float64), np.ones(DIM, dtype=bool))


def gradient_of(step):
    g = np.zeros((1, 32), dtype=np.float32)
    g[0, :DIM] = np.random.default_rng(step).normal(0, 10.0 ** np.arange(-10, 10), DIM)
    return g


@EACH
def test_a_row_moves_by_the_formula_whole_or_number_by_number(kind):
    optimizer = Optimizer(OPTIMIZERS[kind], 0.0, 0.0)
    whole, truth = a_table(optimizer)
    single, _ = a_table(optimizer)
    touched = np.zeros(truth.w.shape, dtype=bool)
    touched[1] = True
    for step in range(4):
        g = gradient_of(step)
        descend(whole, 1, g, DIM, optimizer, np.float32(0.1))
        for d in range(DIM):
            descend_one(single, 1, d, g[0, d], optimizer, np.float32(0.1))
        truth.step(np.repeat(g[:, :DIM].astype(np.float64), 3, axis=0), touched, optimizer, 0.1)
    for table in (whole, single):
        np.testing.assert_allclose(table.rows[:, :DIM], truth.w, rtol=1e-5, atol=1e-6)
        assert not table.rows[:, DIM:].any()
    if kind != "sgd":
        np.testing.assert_allclose(whole.sums[1, :DIM], truth.s[1], rtol=1e-5)


@EACH
@pytest.mark.parametrize("l2", [1e-4, 0.5])
def test_decay_paid_after_many_steps_is_that_of_each_step(kind, l2):
    """At rates that change; the rows are met at different times, one of them never."""
    optimizer = Optimizer(OPTIMIZERS[kind], l2, 0.0)
    table, truth = a_table(optimizer)
    clock = 0.0
    for step in range(60):
        lr = 0.5 / (1 + step)
        touched = np.zeros(truth.w.shape, dtype=bool)
        g = gradient_of(step % 3) * np.float32(1e-3)
        for row, every in ((0, 7), (1, 20)):
            if step % every == 0:
                optimizers_pay(table, row, optimizer, clock)
                descend(table, row, g, DIM, optimizer, step_size(optimizer, lr))
                touched[row] = True
        truth.step(np.repeat(g[:, :DIM].astype(np.float64), 3, axis=0), touched, optimizer, lr)
        truth.decay(optimizer, lr)
        clock += clock_of(optimizer, lr)
    pay_all(table, DIM, optimizer, clock)
    # atol: what Adagrad's decay leaves of the numbers with small gradients is below float32's exp
    np.testing.assert_allclose(table.rows[:, :DIM], truth.w, rtol=2e-5, atol=1e-6)
    if kind == "sgd":
        rates = 0.5 / (1 + np.arange(60))
        np.testing.assert_allclose(
            table.rows[2, :DIM], a_table(optimizer)[0].rows[2, :DIM] * np.prod(1 - rates * l2), rtol=1e-6
        )


@kernel
def optimizers_pay(table, row, optimizer, clock):
    optimizers.pay_row(table, row, DIM, optimizer, clock)


@EACH
def test_paying_twice_costs_no_more_and_paying_often_the_same(kind):
    optimizer = Optimizer(OPTIMIZERS[kind], 0.1, 0.0)
    often, once = a_table(optimizer)[0], a_table(optimizer)[0]
    for table in (often, once):
        descend(table, 0, gradient_of(1), DIM, optimizer, np.float32(0.1))
    for clock in (0.1, 0.1, 0.2, 0.35, 0.35):
        pay_all(often, DIM, optimizer, clock)
    pay_all(once, DIM, optimizer, 0.35)
    np.testing.assert_allclose(often.rows, once.rows, rtol=1e-5, atol=1e-12)


@EACH
def test_the_penalised_loss_is_at_rest_where_its_gradient_is_zero(kind):
    """(w - 3)² / 2 + l2/2 w² is least at 3 / (1 + l2)."""
    optimizer = Optimizer(OPTIMIZERS[kind], 0.5, 0.0)
    table = new_table(1, DIM, optimizer)
    clock, g = 0.0, np.zeros((1, 32), dtype=np.float32)
    for step in range(3000):
        lr = 0.5 / (1 + 0.01 * step)
        pay_all(table, DIM, optimizer, clock)
        g[0, :DIM] = table.rows[0, :DIM] - 3
        descend(table, 0, g, DIM, optimizer, step_size(optimizer, lr))
        clock += clock_of(optimizer, lr)
    pay_all(table, DIM, optimizer, clock)
    np.testing.assert_allclose(table.rows[0, :DIM], 2.0, rtol=0.01)


@pytest.mark.parametrize("size", [1e-10, 1e-17, 1e-20, 1e-22, 1e-25, 1e-29, 1e-38])
def test_no_gradient_moves_a_number_further_than_the_rate_however_small_its_square(size):
    """A softmax far from doubt asks for steps of 1e-25, whose squares are zero in float32."""
    optimizer = Optimizer(OPTIMIZERS["adagrad"], 0.0, 0.0)
    table = new_table(1, DIM, optimizer)
    descend(table, 0, np.full((1, 32), size, dtype=np.float32), DIM, optimizer, np.float32(0.1))
    assert np.abs(table.rows).max() <= 0.1001
    descend_one(table, 0, 0, np.float32(size), optimizer, np.float32(0.1))
    assert np.abs(table.rows).max() <= 0.2002


def test_the_first_step_of_adagrad_is_as_long_as_the_rate():
    optimizer = Optimizer(OPTIMIZERS["adagrad"], 0.0, 0.0)
    table = new_table(1, DIM, optimizer)
    descend(table, 0, gradient_of(0), DIM, optimizer, np.float32(0.1))
    np.testing.assert_allclose(np.abs(table.rows[0, :DIM]), 0.1, rtol=1e-5)


def test_tables_have_room_for_what_their_optimiser_keeps_and_no_more():
    for kind in OPTIMIZERS.values():
        for l2 in (0.0, 0.1):
            table = new_table(4, DIM, Optimizer(kind, l2, 0.0))
            assert len(table.sums) == (0 if kind == SGD else 4)
            assert len(table.decayed) == (4 if l2 else 0)


def test_a_row_is_shortened_to_the_norm_and_never_lengthened():
    table, _ = a_table(Optimizer(MIXTURE, 0.0, 0.0))
    before = table.rows.copy()
    shorten(table, 0, 7, 0.5)
    shorten(table, 1, 7, 1e6)
    assert np.linalg.norm(table.rows[0, :7]) == pytest.approx(0.5, rel=1e-6)
    np.testing.assert_allclose(table.rows[0, :7] / before[0, :7], 0.5 / np.linalg.norm(before[0, :7]), rtol=1e-5)
    assert (table.rows[0, 7:] == before[0, 7:]).all()
    assert (table.rows[1:] == before[1:]).all()
