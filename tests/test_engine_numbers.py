"""The small parts of the engine: vectors, tiles, functions compared with SciPy's, random numbers,
alias tables.
"""

import math

import numpy as np
import pytest
from scipy import special, stats

from embedx.kernels import gemm as tiles, maths, random, simd
from embedx.kernels.compiled import kernel
from embedx.kernels.simd import aligned_zeros, padded
from embedx.samplers.alias import alias_table, draw
from tests.support.elementwise_kernels import elementwise

apply_exp = elementwise(maths.exp)
apply_sigmoid = elementwise(maths.sigmoid)
apply_softplus = elementwise(maths.softplus)


@kernel
def fill_with_draws(table, key, out):
    for i in range(out.size):
        out[i] = draw(table, key, np.uint64(i))


@pytest.mark.parametrize(
    ("apply", "truth"),
    [
        (apply_exp, np.exp),
        (apply_sigmoid, lambda x: 1 / (1 + np.exp(-x))),
        (apply_softplus, lambda x: np.logaddexp(0, x)),
    ],
)
def test_float32_functions_are_exact_to_a_few_units_in_the_last_place(apply, truth):
    x = np.linspace(-87, 88, 100_001, dtype=np.float32)
    out = np.empty_like(x)
    apply(x, out)
    assert np.max(np.abs(out / truth(x.astype(np.float64)) - 1)) < 5e-7


@pytest.mark.parametrize("apply", [apply_exp, apply_sigmoid, apply_softplus])
def test_functions_stay_finite_far_outside_float32s_exponent(apply):
    x = np.array([-1e4, -200, 200, 1e4], dtype=np.float32)
    out = np.empty_like(x)
    apply(x, out)
    assert np.isfinite(out).all()


@kernel
def apply_lanes(x, lanes, numbers):
    """By rows of `lanes`: maximum, multiply_add, division, square_root; `numbers`: across the lanes
    of x.
    """
    a = simd.load(x, 0, 0)
    b = simd.load(x, 1, 0)
    c = simd.load(x, 2, 0)
    simd.store(lanes, 0, 0, simd.maximum(a, b))
    simd.store(lanes, 1, 0, simd.multiply_add(a, b, c))
    simd.store(lanes, 2, 0, a / b)
    simd.store(lanes, 3, 0, simd.square_root(simd.multiply_add(a, a, simd.zeros())))
    numbers[0] = simd.sum_of(a)
    numbers[1] = simd.highest_of(a)
    numbers[2] = simd.n_above(a, b)
    numbers[3] = simd.is_zero(a)
    numbers[4] = simd.is_zero(simd.zeros())


@pytest.mark.parametrize("seed", range(5))
def test_vector_operations_equal_numpy_in_each_lane(seed):
    x = aligned_zeros(3, simd.SIMD_WIDTH)
    x[:] = np.random.default_rng(seed).normal(size=x.shape) * 10
    x[0, seed : 16 - seed] = x[1, seed : 16 - seed]  # as large: not above
    x[0, seed] = (np.inf, -np.inf, 1e15, -1e15, 0.0)[seed]
    lanes = aligned_zeros(4, simd.SIMD_WIDTH)
    numbers = np.zeros(5)
    apply_lanes(x, lanes, numbers)
    a, b, c = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        expected = np.stack([np.maximum(a, b), a * b + c, a / b, np.abs(a)])
    np.testing.assert_allclose(lanes, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        numbers, [a.sum(), a.max(), (a > b).sum(), 0, 1], rtol=1e-5, atol=1e-4
    )


def test_a_nan_is_not_hidden_by_fast_math():
    out = np.zeros(1, dtype=np.float32)
    apply_softplus(np.array([math.nan], dtype=np.float32), out)
    assert math.isnan(out[0])


def test_float64_functions_are_exact_for_checking_gradients():
    x = np.linspace(-30, 30, 1001)
    out = np.empty_like(x)
    apply_sigmoid(x, out)
    np.testing.assert_allclose(out, 1 / (1 + np.exp(-x)), rtol=1e-15)


@pytest.mark.parametrize("dim", [1, 16, 30, 100, 129, 300])
@pytest.mark.parametrize(("n_h", "n_w"), [(4, 4), (28, 48)])
def test_tiles_are_matrix_products(dim, n_h, n_w):
    rng = np.random.default_rng(dim)
    h = aligned_zeros(n_h, dim)
    w = aligned_zeros(n_w, dim)
    h[:, :dim] = rng.standard_normal((n_h, dim))
    w[:, :dim] = rng.standard_normal((n_w, dim))
    z = np.full((n_h, padded(n_w)), np.nan, dtype=np.float32)
    tiles.scores(h, n_h, w, n_w, z, tiles.NO_SPANS)
    np.testing.assert_allclose(z[:, :n_w], h.astype(np.float64) @ w.T, atol=1e-4)
    sums = aligned_zeros(n_h, dim)
    tiles.weighted_sums(z, n_h, w, n_w, sums, tiles.NO_SPANS)
    np.testing.assert_allclose(sums, z[:, :n_w].astype(np.float64) @ w, atol=2e-3)
    transposed = aligned_zeros(n_w, dim)
    tiles.weighted_sums_transposed(z, n_w, h, n_h, transposed, tiles.NO_SPANS)
    np.testing.assert_allclose(transposed, z[:, :n_w].T.astype(np.float64) @ h, atol=2e-3)


def test_products_leave_out_what_is_not_in_a_tile_s_span():
    """Sums take nothing else; scores also what else their tiles hold."""
    rng = np.random.default_rng(1)
    h = aligned_zeros(8, 20)
    w = aligned_zeros(16, 20)
    h[:, :20] = rng.standard_normal((8, 20))
    w[:, :20] = rng.standard_normal((16, 20))
    spans = np.array([[1, 3, 9], [99, 0, 10]])
    inside = np.zeros((8, 16), dtype=bool)
    inside[:4, [1, 2, *range(9, 16)]] = inside[4:, 10:] = True
    in_tiles = np.repeat(
        np.repeat(inside.reshape(2, 4, 4, 4).any(axis=(1, 3)), 4, axis=0), 4, axis=1
    )
    z = np.full((8, 16), np.nan, dtype=np.float32)
    tiles.scores(h, 8, w, 16, z, spans)
    np.testing.assert_allclose(z, np.where(in_tiles, h.astype(np.float64) @ w.T, np.nan), atol=1e-4)
    sums = aligned_zeros(8, 20)
    coefficients = rng.standard_normal((8, 16), dtype=np.float32)
    tiles.weighted_sums(coefficients, 8, w, 15, sums, spans)
    np.testing.assert_allclose(
        sums, np.where(inside, coefficients, 0)[:, :15].astype(np.float64) @ w[:15], atol=2e-4
    )


def test_rows_start_on_cache_lines():
    table = aligned_zeros(5, 100)
    assert table.shape == (5, 112)
    assert all(row.ctypes.data % 64 == 0 for row in table)


def test_random_bits_are_splitmix64():
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [int(random.bits(np.uint64(1234567), np.uint64(i))) for i in range(5)] == published


def test_open_uniforms_exclude_0_and_1():
    @kernel
    def ends(n):
        smallest = np.float32(1)
        largest = np.float32(0)
        for i in range(n):
            u = random.open_uniform(np.uint64(1), np.uint64(i))
            smallest = min(smallest, u)
            largest = max(largest, u)
        return smallest, largest

    smallest, largest = ends(200_000) if not hasattr(ends, "py_func") else ends(20_000_000)
    assert 0 < smallest < 1e-4
    assert 1 - 1e-4 < largest < 1


def test_streams_of_different_places_differ():
    keys = {
        int(random.stream_key(seed, epoch, block))
        for seed in range(4)
        for epoch in range(4)
        for block in range(50)
    }
    assert len(keys) == 800


def test_low_and_high_half_are_uniform_and_independent():
    words = np.array([random.bits(np.uint64(5), np.uint64(i)) for i in range(20_000)])
    low = np.array([random.low_half_below(np.uint64(w), 5) for w in words])
    high = np.array([int(random.high_half(np.uint64(w))) >> 30 for w in words])
    table = np.histogram2d(low, high, bins=(5, 4))[0]
    assert stats.chisquare(table.ravel()).pvalue > 1e-4


@pytest.mark.parametrize("weights", [[1.0], [3, 1], [0, 5, 1, 0], list(1 / np.arange(1, 2000))])
def test_an_alias_table_holds_exactly_the_wanted_distribution(weights):
    weights = np.array(weights, dtype=np.float64)
    table = alias_table(weights)
    held = table.keep.astype(np.float64)
    np.add.at(held, table.other, 1 - table.keep.astype(np.float64))
    np.testing.assert_allclose(
        held / len(weights), weights / weights.sum(), atol=1e-7 / len(weights)
    )


def test_draws_follow_the_weights():
    weights = np.array([5.0, 1, 0, 2, 8])
    draws = np.empty(100_000, dtype=np.int64)
    fill_with_draws(alias_table(weights), np.uint64(3), draws)
    counts = np.bincount(draws, minlength=5)
    assert counts[2] == 0
    assert (
        stats.chisquare(
            counts[weights > 0], weights[weights > 0] / weights.sum() * draws.size
        ).pvalue
        > 1e-4
    )


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, -1.0], [np.nan, 1.0]])
def test_weights_that_are_no_distribution_are_refused(weights):
    with pytest.raises(ValueError, match="weights"):
        alias_table(np.array(weights))


apply_lambert_w_exp = elementwise(maths.lambert_w_exp)


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


apply_log_ndtr = elementwise(maths.log_ndtr)
apply_hazard = elementwise(maths.hazard)
apply_ndtri = elementwise(maths.ndtri)


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
    return np.where(
        x < 0, left, np.exp(-x * x / 2) / math.sqrt(2 * math.pi) / special.ndtr(np.maximum(x, 0))
    )


LOGARITHMS = np.concatenate([np.linspace(-30, 30, 2001), np.linspace(30, 5000, 501)])


@pytest.mark.parametrize("evaluate", [compiled, plain])
def test_lambert_w_solves_its_equation_in_the_log_domain(evaluate):
    w = evaluate(apply_lambert_w_exp, LOGARITHMS)
    assert np.max(np.abs(w + np.log(w) - LOGARITHMS) / np.maximum(1, np.abs(LOGARITHMS))) < 1e-14
    usual = LOGARITHMS < 600
    assert worst(w[usual], special.lambertw(np.exp(LOGARITHMS[usual])).real) < 1e-12


def test_lambert_w_in_float32_is_that_of_float64_to_1e_6():
    t = LOGARITHMS.astype(np.float32)
    assert (
        worst(compiled(apply_lambert_w_exp, t), compiled(apply_lambert_w_exp, t.astype(np.float64)))
        < 1e-6
    )
    assert np.isfinite(compiled(apply_lambert_w_exp, np.array([-1e4, 1e8], np.float32))).all()


@pytest.mark.parametrize(
    ("dtype", "furthest", "exact"), [(np.float32, 1, 2e-6), (np.float64, 0.1, 1e-14)]
)
def test_lambert_w_at_a_shifted_exponent(dtype, furthest, exact):
    t = np.linspace(-60, 200, 4001)
    w = compiled(apply_lambert_w_exp, t)
    for shift in furthest * np.array([-1, -0.3, 1e-3, 0.5, 1]):
        moved = np.empty(t.size, dtype)
        apply_moved_lambert_w(w.astype(dtype), np.full(t.size, shift, dtype), moved)
        assert worst(moved, compiled(apply_lambert_w_exp, t - shift)) < exact


@pytest.mark.parametrize("evaluate", [compiled, plain])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_maximum_of_many_numbers_keeps_nan(evaluate, dtype):
    x = np.random.default_rng(5).normal(size=101).astype(dtype)
    assert evaluate(find_largest, x)[0] == x.max()
    x[40] = np.nan
    assert np.isnan(evaluate(find_largest, x)[0])


GAPS = np.concatenate([np.linspace(-40, 8, 4001), [-1e4, -300.5, -4.0, 0.0]])


@pytest.mark.parametrize(
    ("apply", "truth"), [(apply_log_ndtr, special.log_ndtr), (apply_hazard, hazard)]
)
@pytest.mark.parametrize("evaluate", [compiled, plain])
def test_log_of_the_normal_distribution_function_and_its_slope(apply, truth, evaluate):
    assert worst(evaluate(apply, GAPS), truth(GAPS)) < 2e-13


@pytest.mark.parametrize(
    ("apply", "truth"), [(apply_log_ndtr, special.log_ndtr), (apply_hazard, hazard)]
)
def test_the_normal_distribution_function_and_its_slope_in_float32(apply, truth):
    x = GAPS.astype(np.float32)
    exact = truth(x.astype(np.float64))
    got = compiled(apply, x)
    assert worst(got[x < 1], exact[x < 1]) < 2e-6
    assert np.max(np.abs(got - exact)[x > 0]) < 2e-7


def test_quantiles_of_the_normal_distribution():
    p = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 1000), 10.0 ** -np.arange(1, 11)])
    for evaluate in (compiled, plain):
        assert worst(evaluate(apply_ndtri, p), special.ndtri(p)) < 1e-13
