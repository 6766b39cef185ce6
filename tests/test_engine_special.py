"""Special functions of the engine, compared with SciPy's."""

import math

import numpy as np
import pytest
from scipy import special

from embedx.kernels import maths
from embedx.kernels.compiled import kernel
from tests.applied import applied

apply_lambert_w_exp = applied(maths.lambert_w_exp)


@kernel
def apply_moved_lambert_w(w, shift, out):
    for i in range(w.size):
        out[i] = maths.moved_lambert_w(w[i], shift[i])


@kernel
def find_largest(x, out):
    largest = x[0]
    for i in range(1, x.size):
        largest = maths.larger(largest, x[i])
    out[0] = largest


apply_log_ndtr = applied(maths.log_ndtr)
apply_hazard = applied(maths.hazard)
apply_ndtri = applied(maths.ndtri)


def compiled(apply, x):
    out = np.empty_like(x)
    apply(x, out)
    return out


def plain(apply, x):
    out = np.empty_like(x)
    apply.py_func(x, out)
    return out


def worst(got, truth):
    return np.max(np.abs(got / truth - 1))


def hazard(x):
    """φ/Φ by the scaled complementary error function, good on either side."""
    left = math.sqrt(2 / math.pi) / special.erfcx(-np.minimum(x, 0) / math.sqrt(2))
    return np.where(x < 0, left, np.exp(-x * x / 2) / math.sqrt(2 * math.pi) / special.ndtr(np.maximum(x, 0)))


LOGARITHMS = np.concatenate([np.linspace(-30, 30, 2001), np.linspace(30, 5000, 501)])


@pytest.mark.parametrize("evaluate", [compiled, plain])
def test_lambert_w_solves_its_equation_in_the_log_domain(evaluate):
    w = evaluate(apply_lambert_w_exp, LOGARITHMS)
    assert np.max(np.abs(w + np.log(w) - LOGARITHMS) / np.maximum(1, np.abs(LOGARITHMS))) < 1e-14
    usual = LOGARITHMS < 600
    assert worst(w[usual], special.lambertw(np.exp(LOGARITHMS[usual])).real) < 1e-12


def test_lambert_w_in_float32():
    t = LOGARITHMS.astype(np.float32)
    assert worst(compiled(apply_lambert_w_exp, t), compiled(apply_lambert_w_exp, t.astype(np.float64))) < 1e-6
    assert np.isfinite(compiled(apply_lambert_w_exp, np.array([-1e4, 1e8], np.float32))).all()


@pytest.mark.parametrize(("dtype", "furthest", "exact"), [(np.float32, 1, 2e-6), (np.float64, 0.1, 1e-14)])
def test_lambert_w_is_moved_a_little_way_without_its_argument(dtype, furthest, exact):
    t = np.linspace(-60, 200, 4001)
    w = compiled(apply_lambert_w_exp, t)
    for shift in furthest * np.array([-1, -0.3, 1e-3, 0.5, 1]):
        moved = np.empty(t.size, dtype)
        apply_moved_lambert_w(w.astype(dtype), np.full(t.size, shift, dtype), moved)
        assert worst(moved, compiled(apply_lambert_w_exp, t - shift)) < exact


@pytest.mark.parametrize("evaluate", [compiled, plain])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_largest_of_many_is_found_and_not_a_number_is_not_lost(evaluate, dtype):
    x = np.random.default_rng(5).normal(size=101).astype(dtype)
    assert evaluate(find_largest, x)[0] == x.max()
    x[40] = np.nan
    assert np.isnan(evaluate(find_largest, x)[0])


GAPS = np.concatenate([np.linspace(-40, 8, 4001), [-1e4, -300.5, -4.0, 0.0]])


@pytest.mark.parametrize(("apply", "truth"), [(apply_log_ndtr, special.log_ndtr), (apply_hazard, hazard)])
@pytest.mark.parametrize("evaluate", [compiled, plain])
def test_log_of_the_normal_distribution_function_and_its_slope(apply, truth, evaluate):
    assert worst(evaluate(apply, GAPS), truth(GAPS)) < 2e-13


@pytest.mark.parametrize(("apply", "truth"), [(apply_log_ndtr, special.log_ndtr), (apply_hazard, hazard)])
def test_the_same_in_float32(apply, truth):
    x = GAPS.astype(np.float32)
    exact = truth(x.astype(np.float64))
    got = compiled(apply, x)
    assert worst(got[x < 1], exact[x < 1]) < 2e-6
    assert np.max(np.abs(got - exact)[x > 0]) < 2e-7


def test_quantiles_of_the_normal_distribution():
    p = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 1000), 10.0 ** -np.arange(1, 11)])
    for evaluate in (compiled, plain):
        assert worst(evaluate(apply_ndtri, p), special.ndtri(p)) < 1e-13
