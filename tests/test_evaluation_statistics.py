"""Scores, errors, intervals and ranks, by hand, against scipy, and by counting how often they are
wrong in simulations.
"""

import json
import math

import numpy as np
import pytest
from scipy import stats

from embedx.evaluation import statistics
from embedx.evaluation.statistics import Error, Estimate, Score
from embedx.evaluation.word_sets import Analogies, ItemScores
from tests.support.comparison_records import scores


def items(n=60, seed=0):
    """Human scores with many ties, and values that go along with them."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 12, n) / 2
    return gold, np.round(gold + rng.normal(size=n) * 3, 1)


# ---- resampling, against its definition: repeat each item as often as it was drawn, then compute
# the statistic afresh


def test_spearman_is_scipys_on_every_resample():
    gold, values = items()
    statistic = statistics.mean_spearman([(gold, values)])
    draws = np.random.default_rng(1).integers(len(gold), size=(statistics.RESAMPLES, len(gold)))[
        :50
    ]
    expected = [stats.spearmanr(gold[draw], values[draw])[0] for draw in draws]
    estimate = statistics.resampled(statistic, [len(gold)], 1)
    assert estimate.value == pytest.approx(stats.spearmanr(gold, values)[0], abs=1e-12)
    np.testing.assert_allclose(estimate.parts[:50], expected, atol=1e-12)


def test_resamples_draw_items_uniformly(monkeypatch):
    monkeypatch.setattr(statistics, "BLOCK_FLOATS", 700)
    blocks = []
    statistics.resampled(
        lambda counts: blocks.append(counts[0]) or np.zeros(len(counts[0])), [7], seed=3
    )
    assert [len(block) for block in blocks[:-1]] == [100] * (statistics.RESAMPLES // 100)
    counts = np.concatenate(blocks[:-1])
    assert (counts.sum(axis=1) == 7).all()
    assert abs(counts.mean(axis=0) - 1).max() < 0.1
    assert abs(counts.var(axis=0) - 6 / 7).max() < 0.15  # binomial(7, 1/7)


def test_two_models_are_compared_on_the_same_resamples():
    """What is hard for both cancels out, so the interval of the difference is far narrower than
    that of either.
    """
    gold, values = items(300)
    a = statistics.resampled(statistics.mean_spearman([(gold, values)]), [300], 0)
    other = values + np.random.default_rng(2).normal(size=300) * 0.01
    b = statistics.resampled(statistics.mean_spearman([(gold, other)]), [300], 0)
    width = [
        estimate.half_width() for estimate in (Estimate(0.0, (a.item_error(),)), single_run(a, b))
    ]
    assert width[1] < width[0] / 10
    assert single_run(a, a).interval() == (0, 0)


def single_run(a, b):
    """The difference of two runs."""
    return statistics.difference([a], [b], Error(0.0, 0))


def test_without_variation_there_is_no_correlation_and_no_interval():
    estimate = statistics.resampled(
        statistics.mean_spearman([(np.ones(5), np.arange(5.0))]), [5], 0
    )
    assert np.isnan(estimate.value)
    assert np.isnan(Estimate(estimate.value, (estimate.item_error(),)).interval()).all()


def test_resamples_without_variation_do_not_spoil_the_interval():
    """Of three items, one resample in nine draws the same item three times."""
    estimate = statistics.resampled(
        statistics.mean_spearman([(np.array([1.0, 2, 3]), np.array([1.0, 3, 2]))]), [3], seed=0
    )
    low, high = Estimate(estimate.value, (estimate.item_error(),)).interval(-1, 1)
    assert -1 <= low < high <= 1


# ---- errors by hand


def test_a_score_by_groups_has_the_error_of_its_items():
    rng = np.random.default_rng(0)
    values = rng.normal(size=60)
    groups = rng.integers(7, size=60)
    score = statistics.grouped(values, groups)
    assert score.value == pytest.approx(values.mean())
    sums = [(values - values.mean())[groups == k].sum() for k in range(7)]
    assert score.item_error() == pytest.approx((math.sqrt(7 / 6 * np.square(sums).sum()) / 60, 6))
    others = values + rng.normal(size=60)
    gain = single_run(score, statistics.grouped(others, groups))
    assert gain.value == pytest.approx((values - others).mean())
    assert gain.error == pytest.approx(
        statistics.grouped(values - others, groups).item_error().value
    )
    assert single_run(score, statistics.grouped(values[1:], groups[1:])) is None  # other items
    assert math.isnan(Score.of_groups([1.0], [2]).item_error().value)  # one group tells nothing
    alone = statistics.grouped(values, np.arange(60))
    assert alone.item_error() == pytest.approx((values.std(ddof=1) / math.sqrt(60), 59))


def test_standard_errors_are_those_computed_by_hand():
    a = Score.of_groups([3.0, 1.0], [2, 2])
    b = Score.of_groups([1.0, 1.0], [2, 2])
    assert a.value == 1.0
    # what is left is 1 and -1
    assert a.item_error() == pytest.approx((math.sqrt(2 * (1 + 1)) / 4, 1))
    assert statistics.pooled_deviation([[1, 3], [2, 2, 5], [9]]) == pytest.approx(
        (math.sqrt((2 + 6) / 3), 3)
    )
    assert statistics.pooled_deviation([[1], [2]]) == (0, 0)
    seeds = Error(0.3, 4)
    together = statistics.estimate([a, b], seeds)  # sums 2 and 1 on average: what is left is ±0.5
    assert together.value == 0.75
    assert together.error == pytest.approx(math.hypot(math.sqrt(2 * 0.5) / 4, 0.3 / math.sqrt(2)))
    gain = statistics.difference([a, b], [b], seeds)  # sums 1 and 0: what is left is ±0.5
    of_items = math.sqrt(2 * 0.5) / 4
    of_seeds = 0.3 * math.sqrt(1 / 2 + 1)
    assert gain.error == pytest.approx(math.hypot(of_items, of_seeds))
    wide = math.hypot(stats.t.ppf(0.975, 1) * of_items, stats.t.ppf(0.975, 4) * of_seeds)
    assert gain.interval() == pytest.approx((0.25 - wide, 0.25 + wide))
    assert gain.interval(-1, 0.5) == (-1, 0.5)
    resampled = Score(0.5, np.array([0.4, 0.5, 0.6]), None, 10)
    assert resampled.item_error() == pytest.approx((0.1, 2))
    two_way = statistics.grouped(np.array([1.0, 0, 1, 0]), np.array([[0, 0, 1, 1], [2, 3, 2, 3]]))
    for score in (resampled, a, two_way):
        again = Score.from_record(json.loads(json.dumps(score.record())))
        assert again.item_error() == pytest.approx(score.item_error())
        assert again.is_of_same_items(score)


def test_noise_in_items_counts_once():
    """Runs that differ in items alone have no variance beyond that of the items; a level of each
    run is between seeds.
    """
    rng = np.random.default_rng(0)
    noisy = [
        [statistics.grouped(rng.normal(size=400), np.arange(400)) for _ in range(5)]
        for _ in range(40)
    ]
    single = noisy[0][0].item_error().value
    assert statistics.pooled_deviation(
        [[run.value for run in runs] for runs in noisy]
    ).value == pytest.approx(single, rel=0.15)
    assert statistics.between_seeds(noisy).value < single / 2
    shifted = [
        [statistics.grouped(np.full(4, level), np.arange(4)) for level in levels]
        for levels in ([1, 3], [2, 2, 5])
    ]
    assert statistics.between_seeds(shifted) == pytest.approx((math.sqrt((2 + 6) / 3), 3))


def test_an_order_needs_a_significant_difference():
    t = stats.t.ppf(0.975, 8)
    signs = [Estimate(k * t * 0.1, (Error(0.1, 8),)).sign() for k in (1.01, -1.01, 0.99)]
    assert signs == [1, -1, 0]
    assert Estimate(5.0, (Error(math.nan, 0),)).sign() == 0


def test_holm_corrects_level_after_level():
    """By p-values .01, .02 and .04: each is below .05 divided by how many are left; with .03 in
    place of .02 the first only.
    """

    def signs(*p_values):
        estimates = {p: Estimate(stats.t.isf(p / 2, 8), (Error(1.0, 8),)) for p in p_values}
        return list(statistics.signs(estimates | {"none": None}).values())

    assert signs(0.01, 0.02, 0.04) == [1, 1, 1, 0]
    assert signs(0.01, 0.03, 0.04) == [1, 0, 0, 0]
    assert signs(0.02, 0.03, 0.04) == [0, 0, 0, 0]


def test_those_without_an_order_share_a_rank():
    # The standard deviation between seeds is 0.02 each, on three degrees of freedom.
    near = {
        name: scores(value, value + 0.02 * math.sqrt(2))
        for name, value in {"a": 1.0, "b": 0.97, "c": 0.5}.items()
    }
    standings = statistics.standings(near)
    assert {name: place.rank for name, place in standings.items()} == {"a": 1, "b": 1, "c": 3}
    assert list(standings) == ["a", "b", "c"]
    assert standings["a"].behind is None
    assert (standings["b"].behind.value, standings["b"].behind.error) == pytest.approx(
        (-0.03, 0.02), rel=1e-2
    )
    assert standings["c"].score.value == pytest.approx(0.5 + 0.01 * math.sqrt(2))
    assert statistics.standings(near, "c")["a"].behind.value == pytest.approx(0.5, abs=1e-3)


# ---- how often they are wrong


DOMINATED = {
    "seeds": (1.0, 0.1, 0.0),
    "items": (0.1, 1.0, 0.0),
    "noise in items": (0.0, 0.0, 1.0),
    "nothing": (0.6, 0.6, 0.6),
}


def equals(rng, n_equal, n_runs, of_seeds, of_items, noise, n_groups=40):
    """Configurations of the same expected score. They differ in seeds, items, and in each item by
    seed, by these variances of a run's score.
    """
    wide = math.sqrt(n_groups)
    values = of_items * wide * rng.normal(size=(n_equal, 1, n_groups)) + of_seeds * rng.normal(
        size=(n_equal, n_runs, 1)
    )
    values = values + noise * wide * rng.normal(size=(n_equal, n_runs, n_groups))
    return {
        str(k): [Score.of_groups(run, np.ones(n_groups, int)) for run in runs]
        for k, runs in enumerate(values)
    }


def at_most(rate, trials):
    """A count that a true rate exceeds once in a thousand times."""
    return stats.binom.ppf(0.999, trials, rate)


@pytest.mark.parametrize("variances", DOMINATED.values(), ids=DOMINATED)
@pytest.mark.parametrize(("n_equal", "trials"), [(4, 100), (8, 40)])
def test_equals_are_seldom_ordered(n_equal, trials, variances):
    rng = np.random.default_rng(n_equal)
    wrong = sum(
        any(statistics.orders(equals(rng, n_equal, 3, *variances)).values()) for _ in range(trials)
    )
    assert wrong <= at_most(0.05, trials)


@pytest.mark.parametrize("variances", DOMINATED.values(), ids=DOMINATED)
@pytest.mark.parametrize("n_runs", [2, 3, 5])
def test_intervals_cover_the_truth_in_95_percent_of_trials(n_runs, variances):
    """The difference of equal configurations, and the score of one, is in 95 % of the intervals;
    not in far more, where one source of variance dominates.
    """
    rng = np.random.default_rng(n_runs)
    trials = 300
    covered = [0, 0]
    for _ in range(trials):
        a, b = equals(rng, 2, n_runs, *variances).values()
        seeds = statistics.between_seeds([a, b])
        covered[0] += statistics.difference(a, b, seeds).sign() == 0
        covered[1] += statistics.estimate(a, seeds).sign() == 0
    for count in covered:
        assert trials - count <= at_most(0.05, trials)
        if variances is not DOMINATED["nothing"]:
            assert trials - count >= stats.binom.ppf(0.001, trials, 0.025)


def test_an_equal_pair_stands_out_of_many_single_runs_no_more_often():
    """With one run each, ranks hold the choice of items alone, as they say."""
    rng = np.random.default_rng(0)
    assert sum(
        any(statistics.orders(equals(rng, 4, 1, 0, 1, 0)).values()) for _ in range(150)
    ) <= at_most(0.05, 150)


def questions(n_pairs, second_from=0):
    """All questions of two of some pairs; those in second place begin with another if they are no
    first ones.
    """
    numbers = [
        (i, j + second_from)
        for i in range(n_pairs)
        for j in range(n_pairs)
        if i != j or second_from
    ]
    return Analogies(
        "all", ["s"] * len(numbers), [(f"a{i}", f"b{i}", f"a{j}", f"b{j}") for i, j in numbers]
    ), np.array(numbers)


@pytest.mark.parametrize(
    ("second_from", "together", "noise"),
    [(30, 0.0, 1.0), (0, 0.0, 1.0), (0, 0.7, 1.0), (0, 0.7, 0.3)],
)
def test_the_interval_of_analogies_covers_though_they_share_pairs(second_from, together, noise):
    """A question is answered where what its pairs are good for, as the first and as the second,
    exceeds a threshold.
    """
    test, numbers = questions(30, second_from)
    rng = np.random.default_rng(1)
    trials = 150
    missed = 0
    missed_alone = 0
    threshold = 0.3
    true = stats.norm.sf(threshold / math.sqrt(0.5 + noise**2))
    for _ in range(trials):
        first = rng.normal(size=30 + second_from)
        second = together * first + math.sqrt(1 - together**2) * rng.normal(size=30 + second_from)
        ease = (
            0.5 * first[numbers[:, 0]]
            + 0.5 * second[numbers[:, 1]]
            + noise * rng.normal(size=len(test))
        )
        right = (ease > threshold).astype(float)
        score = ItemScores(test, right).scored()
        missed += Estimate(score.value - true, (score.item_error(),)).sign() != 0
        alone = statistics.grouped(right, np.arange(len(test)))
        missed_alone += Estimate(alone.value - true, (alone.item_error(),)).sign() != 0
    assert missed <= at_most(0.05, trials)
    assert missed_alone > 0.3 * trials


def test_a_pair_is_the_same_wherever_it_stands():
    test = Analogies(
        "x", ["s", "s", "t"], [("a", "b", "c", "d"), ("e", "f", "A", "B"), ("b", "a", "c", "d")]
    )
    assert test.clusters.tolist() == [[0, 1, 2], [3, 0, 3]]
