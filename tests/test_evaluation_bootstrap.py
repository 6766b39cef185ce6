"""Resampling against its definition: repeat each item as often as it was drawn, then compute the statistic afresh."""

import numpy as np
import pytest
from scipy import stats

from embedx.evaluation import bootstrap


def items(n=60, seed=0):
    """Human scores with many ties, and values that go along with them."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 12, n) / 2
    return gold, np.round(gold + rng.normal(size=n) * 3, 1)


def test_spearman_is_scipys_on_every_resample():
    gold, values = items()
    statistic = bootstrap.spearman(gold, values)
    assert bootstrap.point(statistic, len(gold)) == pytest.approx(stats.spearmanr(gold, values)[0], abs=1e-12)
    counts = next(bootstrap.resamples(len(gold), seed=1))[:50]
    expected = [stats.spearmanr(np.repeat(gold, times), np.repeat(values, times))[0] for times in counts.astype(int)]
    np.testing.assert_allclose(statistic(counts), expected, atol=1e-12)


def test_resamples_draw_each_item_alike(monkeypatch):
    monkeypatch.setattr(bootstrap, "BLOCK_FLOATS", 700)
    blocks = list(bootstrap.resamples(7, seed=3))
    assert [len(block) for block in blocks] == [100] * (bootstrap.RESAMPLES // 100)
    counts = np.concatenate(blocks)
    assert (counts.sum(axis=1) == 7).all()
    assert abs(counts.mean(axis=0) - 1).max() < 0.1
    assert abs(counts.var(axis=0) - 6 / 7).max() < 0.15  # binomial(7, 1/7)


def test_the_interval_of_a_mean_is_that_of_theory():
    rng = np.random.default_rng(1)
    right = (rng.random(4000) < 0.3).astype(float)
    low, high = bootstrap.interval(bootstrap.mean(right), len(right), seed=0)
    error = np.sqrt(right.mean() * (1 - right.mean()) / len(right))
    assert low == pytest.approx(right.mean() - 1.96 * error, abs=0.2 * error)
    assert high == pytest.approx(right.mean() + 1.96 * error, abs=0.2 * error)
    assert bootstrap.interval(bootstrap.mean(right), len(right), seed=0) == (low, high)
    assert bootstrap.interval(bootstrap.mean(right), len(right), seed=1) != (low, high)


def test_two_models_are_compared_on_the_same_resamples():
    """What is hard for both cancels out, so the interval of the difference is far narrower than that of either."""
    gold, values = items(300)
    a = bootstrap.spearman(gold, values)
    b = bootstrap.spearman(gold, values + np.random.default_rng(2).normal(size=300) * 0.01)
    width = [high - low for low, high in (bootstrap.interval(s, 300, 0) for s in (a, bootstrap.difference(a, b)))]
    assert width[1] < width[0] / 10
    assert bootstrap.interval(bootstrap.difference(a, a), 300, 0) == (0, 0)


def test_without_variation_there_is_no_correlation_and_no_interval():
    statistic = bootstrap.spearman(np.ones(5), np.arange(5.0))
    assert np.isnan(bootstrap.point(statistic, 5))
    assert np.isnan(bootstrap.interval(statistic, 5, 0)).all()


def test_resamples_without_variation_do_not_spoil_the_interval():
    """Of three items, one resample in nine draws the same item three times."""
    low, high = bootstrap.interval(bootstrap.spearman(np.array([1.0, 2, 3]), np.array([1.0, 3, 2])), 3, seed=0)
    assert -1 <= low < high <= 1
