"""What holds for every objective, over the registry; then what theory says of each."""

import numpy as np
import pytest
import reference
from scipy.optimize import minimize

from embedx.objectives import OBJECTIVES
from embedx.objectives.contract import Objective
from embedx.objectives.ns import NegativeSampling, NegativeSamplingSettings

N = 7
EVERY = pytest.mark.parametrize("objective", [each(each.Settings()) for each in OBJECTIVES.values()], ids=list(OBJECTIVES))


def call(objective: Objective, coefficients, z, label, times, dtype=np.float64):
    """Loss and coefficients of one example, which stands in row 1 of two."""
    rows = [np.zeros((2, N), dtype) for _ in range(4)]
    for row, value in zip(rows, (z, label, times, np.log(np.full(N, 0.3))), strict=True):
        row[1] = value
    state = np.zeros((3, objective.state_width), dtype)
    noise = np.random.default_rng(0).uniform(0.01, 0.99, (2, max(objective.noise_width, 1))).astype(dtype)
    numbers = objective.numbers(5).astype(dtype)
    key, visits, norm = np.array([1, 2]), np.array([3, 0]), np.ones(2, dtype)
    loss = coefficients(*rows, state, noise, numbers, key, visits, norm, 2, N, dtype(0.1))
    assert not rows[0][0].any(), "an example without weights got coefficients"
    return float(loss), rows[0][1]


def example(seed=0, positives=1):
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, N)
    label = np.zeros(N)
    label[:positives] = 1
    times = np.array([0, 0, 1, 2, 1, 0, 1.0])
    return z, label, times


@EVERY
def test_coefficients_are_the_gradient_of_the_loss(objective):
    z, label, times = example(positives=2 if objective.multi_positive else 1)
    plain = getattr(objective.coefficients, "py_func", objective.coefficients)
    _, slopes = call(objective, plain, z, label, times)
    for k in range(N):
        step = np.eye(N)[k] * 1e-6
        up, _ = call(objective, plain, z + step, label, times)
        down, _ = call(objective, plain, z - step, label, times)
        assert slopes[k] == pytest.approx((up - down) / 2e-6, abs=1e-8)


@EVERY
def test_compiled_equals_plain_python(objective):
    z, label, times = example(seed=1)
    plain = getattr(objective.coefficients, "py_func", objective.coefficients)
    exact_loss, exact = call(objective, plain, z, label, times)
    loss, slopes = call(objective, objective.coefficients, z.astype(np.float32), label, times, np.float32)
    assert loss == pytest.approx(exact_loss, rel=1e-5)
    np.testing.assert_allclose(slopes, exact, atol=1e-5)


@EVERY
def test_rows_without_weight_get_no_coefficient(objective):
    z, label, times = example()
    _, slopes = call(objective, objective.coefficients, z.astype(np.float32), label, times, np.float32)
    assert slopes[5] == 0


@EVERY
def test_coefficients_are_finite_at_extreme_scores(objective):
    for size in (-1e4, 1e4):
        z, label, times = np.array([size, -size, size, 0, -size, size, 0]), *example()[1:]
        loss, slopes = call(objective, objective.coefficients, z, label, times, np.float32)
        assert np.isfinite(loss)
        assert np.isfinite(slopes).all()


@EVERY
def test_probabilities_sum_to_one(objective):
    rng = np.random.default_rng(2)
    log_p = objective.log_probability(rng.normal(size=(3, objective.n_rows(6))), np.log(np.full(6, 1 / 6)))
    np.testing.assert_allclose(np.exp(log_p).sum(axis=-1), 1)


def test_ns_is_the_papers_formula():
    z, label, times = example(seed=3, positives=2)
    loss, _ = call(NegativeSampling(NegativeSamplingSettings()), NegativeSampling.coefficients, z, label, times)
    assert loss == pytest.approx(reference.ns_loss(z, label, times, negatives=5, n_draws=5), rel=1e-6)


def test_ns_noise_weighs_as_many_words_as_negatives_however_many_are_drawn():
    z, label, times = example()
    few, many = (NegativeSampling(NegativeSamplingSettings(negatives=n)).numbers(40)[0] for n in (5, 10))
    assert (few, many) == (pytest.approx(5 / 40), pytest.approx(10 / 40))
    assert reference.ns_loss(z, label, 8 * times, 5, 40) == pytest.approx(reference.ns_loss(z, label, times, 5, 5))


def test_ns_recovers_the_data_distribution_once_its_bias_is_removed():
    """At the minimum of the expected loss over free scores, log_probability gives back p (Bamler & Mandt 2020, theorem 1)."""
    p = np.array([0.5, 0.3, 0.15, 0.05])
    q = np.array([0.1, 0.2, 0.3, 0.4])
    negatives = 5

    def expected_loss(z):
        return p @ reference.softplus(-z) + negatives * q @ reference.softplus(z)

    z = minimize(expected_loss, np.zeros(4), tol=1e-12).x
    recovered = np.exp(NegativeSampling(NegativeSamplingSettings()).log_probability(z, np.log(q)))
    np.testing.assert_allclose(recovered, p, atol=1e-4)
    assert np.abs(np.exp(z) / np.exp(z).sum() - p).max() > 0.1  # and without removing it, it is far off
