"""What holds for every objective, over the registry; then what theory says of each."""

import numpy as np
import pytest
import reference

from embedx.objectives import OBJECTIVES
from embedx.objectives.contract import Objective, SampledSettings
from embedx.objectives.ns import NegativeSampling

N = 7
EVERY = pytest.mark.parametrize("objective", [each(each.Settings()) for each in OBJECTIVES.values()], ids=list(OBJECTIVES))


def call(objective: Objective, coefficients, z, label, times, dtype=np.float64):
    """Loss and coefficients of one example, which stands in row 1 of two; the other has no weights."""
    rows = [np.zeros((2, N), dtype) for _ in range(4)]
    for row, value in zip(rows, (z, label, times, np.log(np.linspace(0.2, 0.8, N))), strict=True):
        row[1] = value
    state = np.zeros((3, objective.state_width), dtype)
    uniforms = np.random.default_rng(0).uniform(0.01, 0.99, (2, objective.uniforms_width)).astype(dtype)
    numbers = objective.numbers(5, N).astype(dtype)
    key, visits, norm = np.array([1, 2]), np.array([3, 0]), np.ones(2, dtype)
    loss = coefficients(*rows, state, uniforms, numbers, key, visits, norm, 2, N, dtype(0.1))
    assert not rows[0][0].any(), "an example without weights got coefficients"
    return float(loss), rows[0][1]


def example(objective, seed=0):
    """Scores, labels and times; if the objective keeps hits, the positive was drawn once too."""
    z = np.random.default_rng(seed).normal(0, 1.5, N)
    label = np.array([1.0, 1 if objective.takes == "sum" else 0, 0, 0, 0, 0, 0])
    times = np.array([1.0 if objective.keeps_hits else 0, 0, 1, 2, 1, 0, 1])
    return z, label, times


@EVERY
def test_declarations_go_together(objective):
    assert objective.keeps_hits or objective.takes != "sum"


@EVERY
def test_coefficients_are_the_gradient_of_the_loss(objective):
    z, label, times = example(objective)
    plain = getattr(objective.coefficients, "py_func", objective.coefficients)
    _, slopes = call(objective, plain, z, label, times)
    for k in range(N):
        step = np.eye(N)[k] * 1e-6
        up, _ = call(objective, plain, z + step, label, times)
        down, _ = call(objective, plain, z - step, label, times)
        assert slopes[k] == pytest.approx((up - down) / 2e-6, abs=1e-8)


@EVERY
def test_compiled_equals_plain_python(objective):
    z, label, times = example(objective, seed=1)
    plain = getattr(objective.coefficients, "py_func", objective.coefficients)
    exact_loss, exact = call(objective, plain, z, label, times)
    loss, slopes = call(objective, objective.coefficients, z.astype(np.float32), label, times, np.float32)
    assert loss == pytest.approx(exact_loss, rel=1e-5)
    np.testing.assert_allclose(slopes, exact, atol=1e-5)


@EVERY
def test_candidates_without_weight_get_no_coefficient(objective):
    _, slopes = call(objective, objective.coefficients, *(a.astype(np.float32) for a in example(objective)), np.float32)
    assert slopes[5] == 0


@EVERY
def test_coefficients_are_finite_at_extreme_scores_where_the_objective_says_so(objective):
    _, label, times = example(objective)
    for size in (-1e4, 1e4):
        z = np.array([size, -size, size, 0, -size, size, 0])
        loss, slopes = call(objective, objective.coefficients, z, label, times, np.float32)
        assert (np.isfinite(loss) and np.isfinite(slopes).all()) or not objective.stable


@EVERY
def test_probabilities_sum_to_one(objective):
    rng = np.random.default_rng(2)
    log_p = objective.log_probability(rng.normal(size=(3, objective.n_rows(6))), np.log(np.full(6, 1 / 6)))
    np.testing.assert_allclose(np.exp(log_p).sum(axis=-1), 1)


def ns(**settings):
    return NegativeSampling(SampledSettings(**settings))


def test_ns_is_the_papers_formula():
    z, label, times = example(ns(), seed=3)
    loss, _ = call(ns(), NegativeSampling.coefficients, z.astype(np.float32), label, times, np.float32)
    assert loss == pytest.approx(reference.ns_loss(z, label, times, negatives=5, n_draws=5), rel=1e-6)


def test_ns_noise_weighs_as_much_however_many_words_are_drawn():
    few, many = ns(negatives=5).numbers(40, 100), ns(negatives=10).numbers(40, 100)
    assert (few[0], many[0]) == (pytest.approx(5 / 40), pytest.approx(10 / 40))


def test_ns_is_at_its_optimum_where_theorem_1_says():
    """At z = log p - log(negatives q) the expected coefficients, over positives and draws, vanish; hits included."""
    p = np.array([0.5, 0.3, 0.15, 0.05, 0, 0, 0])
    q = np.array([0.1, 0.2, 0.3, 0.4, 0, 0, 0])
    z = np.zeros(N)
    z[:4] = np.log(p[:4]) - np.log(5 * q[:4])
    expected = np.zeros(N)
    for positive in range(4):
        for drawn in range(4):
            label, times = np.eye(N)[positive], 5 * np.eye(N)[drawn]  # five draws, in expectation each of them `drawn`
            _, slopes = call(ns(), NegativeSampling.coefficients, z.astype(np.float32), label, times, np.float32)
            expected += p[positive] * q[drawn] * slopes
    np.testing.assert_allclose(expected, 0, atol=1e-6)
    recovered = np.exp(ns().log_probability(z[:4], np.log(q[:4])))
    np.testing.assert_allclose(recovered, p[:4], atol=1e-6)
    assert np.abs(np.exp(z[:4]) / np.exp(z[:4]).sum() - p[:4]).max() > 0.1  # without removing log q it is far off
