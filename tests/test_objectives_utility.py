"""Winning utilities among very many classes: what a grid of scores gives is what each class by
itself would give.
"""

import numpy as np
import pytest

from embedx.objectives import utility
from tests.support.objectives import make

K = 3000
LAWS = ("ar-probit", "ar-logistic")


def score_ranges():
    rng = np.random.default_rng(1)
    usual = rng.normal(size=K)
    return {
        "usual": 2 * usual,
        "nearly equal": 0.01 * usual,
        "equal": np.zeros(K),
        "two values": np.repeat([3.3, -7.7], K // 2),
        "wide": rng.uniform(-60, 60, K),
        "skewed": -rng.exponential(4, K),
        "one ahead": np.append(15, usual),
        "one far ahead": np.append(3 * usual, 100),
        "one far behind": np.append(usual, -250),
        "a large common part": 1e4 + usual,
    }


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("which", score_ranges())
def test_probabilities_of_many_classes_are_close_to_the_exact_ones(name, which, monkeypatch):
    z = score_ranges()[which]
    log_probabilities = make(name).log_probability(z, np.zeros(len(z)))
    monkeypatch.setattr(utility, "FEW_CLASSES", len(z))
    exact = make(name).log_probability(z, np.zeros(len(z)))
    assert abs(log_probabilities - exact)[exact > np.log(1e-12)].max() < 1e-4
    assert abs(log_probabilities - exact).max() < 1e-3  # here even the unlikely ones
    assert np.exp(log_probabilities).sum() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("name", LAWS)
def test_rows_of_many_classes_are_independent(name):
    z = np.random.default_rng(2).normal(size=(2, 2, K)).astype(np.float32)
    z[1] *= 5
    all_examples = make(name).log_probability(z, np.zeros(K))
    assert all_examples.shape == z.shape
    for i in np.ndindex(2, 2):
        np.testing.assert_array_equal(
            all_examples[i], make(name).log_probability(z[i], np.zeros(K))
        )


@pytest.mark.parametrize("n", [10 * K, 100 * K])
def test_more_classes_need_no_more_values_of_the_distribution_function(n):
    evaluated = []

    def log_cdf(x):
        evaluated.append(x.size)
        return -np.log1p(np.exp(-x))

    z = np.linspace(-5, 5, n)
    utility.log_probability(
        z,
        lambda x: log_cdf(x) + log_cdf(-x),
        log_cdf,
        lambda scores: scores.min() - 40,
        40,
        0.4,
        beyond=None,
    )
    assert sum(evaluated) < 1000


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("n", [6, K])
def test_blocks_of_classes_change_nothing(name, n, monkeypatch):
    z = score_ranges()["usual"][:n]
    all_examples = make(name).log_probability(z, np.zeros(n))
    monkeypatch.setattr(utility, "MAX_VALUES", n // 2 + 500)
    np.testing.assert_allclose(make(name).log_probability(z, np.zeros(n)), all_examples, rtol=1e-12)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("n", [5, K])
@pytest.mark.parametrize("distance", [2e3, 1e7, 1e30])
def test_the_work_does_not_grow_with_the_distance_of_the_scores(name, n, distance, monkeypatch):
    """A million nodes a tenth apart for each of some classes would take minutes a row."""
    sizes = []
    arange = np.arange

    def recorded(*bounds):
        sizes.append(arange(*bounds).size)
        return arange(*bounds)

    monkeypatch.setattr(utility.np, "arange", recorded)
    z = np.append(np.random.default_rng(3).normal(size=n) - distance, 0)
    log_p = make(name).log_probability(z, z)
    assert max(sizes) < n + 4000
    assert np.exp(log_p[-1]) == pytest.approx(1)
    assert np.isfinite(log_p).all()
    assert (np.diff(log_p[np.argsort(z)]) >= 0).all()


@pytest.mark.parametrize("name", LAWS)
def test_a_class_too_far_behind_for_the_nodes_is_continued_smoothly(name, monkeypatch):
    """By nodes as far as they go the same, to what the law of the tail is good for: its leading
    term.
    """
    z = np.append(np.random.default_rng(4).normal(size=3), [-230.0, -260.0, -400.0])
    log_probabilities = make(name).log_probability(z, z)
    monkeypatch.setattr(utility, "FAR", 1e9)
    exact = make(name).log_probability(z, z)
    np.testing.assert_allclose(log_probabilities[:3], exact[:3], atol=1e-9)
    np.testing.assert_allclose(log_probabilities, exact, rtol=0.01)
    assert (log_probabilities[3:] < exact[:3].min()).all()


def test_interpolation_is_exact_for_polynomials():
    weights = utility.lagrange_weights()
    at = np.arange(utility.FINER) / utility.FINER
    points = np.arange(utility.POINTS) - (utility.POINTS // 2 - 1)
    for power in range(utility.POINTS):
        np.testing.assert_allclose(weights @ points.astype(float) ** power, at**power, atol=1e-12)
