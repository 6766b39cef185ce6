"""Scores over several test sets of words: the pooled score, its error, and that of a difference."""

import math

import numpy as np
import pytest
from scipy import stats

from embedx.evaluation import word_sets, words
from tests.support.needs import HAS_NO_GENSIM, WHY_NO_GENSIM

if HAS_NO_GENSIM:
    pytest.skip(WHY_NO_GENSIM, allow_module_level=True)


def naive_pooled(sets):
    """The mean of scipy's correlations of (gold, values), weighted by the pairs."""
    sizes = [len(gold) for gold, _ in sets]
    return sum(
        n * stats.spearmanr(gold, values)[0] for n, (gold, values) in zip(sizes, sets, strict=True)
    ) / sum(sizes)


def some_sets(names, sizes, seed=0):
    rng = np.random.default_rng(seed)
    sets = []
    for name, n in zip(names, sizes, strict=True):
        sets.append(
            word_sets.SimilarityPairs(
                name, [(f"{name}{k}", "x") for k in range(n)], rng.integers(0, 9, n).astype(float)
            )
        )
    return sets


def random_answers(tests, seed, quality=1.0, missing=0.2):
    rng = np.random.default_rng(seed)
    answers = []
    for test in tests:
        values = quality * test.gold / 9 + rng.normal(size=len(test))
        answers.append(
            word_sets.ItemScores(test, np.where(rng.random(len(test)) < missing, np.nan, values))
        )
    return answers


def test_the_pooled_score_is_the_mean_weighted_by_pairs():
    tests = some_sets("abc", (40, 200, 9))
    answers = random_answers(tests, 1)
    together = words.pooled(answers)
    assert len(together.test) == 249
    assert together.details == {"sets": ["a", "b", "c"]}
    assert together.score == pytest.approx(
        naive_pooled(
            [(answer.test.gold[answer.used], answer.values[answer.used]) for answer in answers]
        )
    )
    low, high = words.summary("model", together, 0).interval
    assert low < together.score < high


def test_the_error_of_the_pooled_score_resamples_each_set_by_itself():
    """All draws made one by one: the sets keep their sizes in every resample."""
    answers = random_answers(some_sets("ab", (30, 90)), 2, missing=0)
    rng = np.random.default_rng(3)
    values = []
    for _ in range(1000):
        drawn = [rng.integers(len(answer.values), size=len(answer.values)) for answer in answers]
        values.append(
            naive_pooled(
                [
                    (answers_to_set.test.gold[k], answers_to_set.values[k])
                    for answers_to_set, k in zip(answers, drawn, strict=True)
                ]
            )
        )
    together = words.pooled(answers)
    error, freedom = together.scored().item_error()
    assert (error, freedom) == (pytest.approx(np.std(values), rel=0.05), 1999)
    half = stats.t.ppf(0.975, freedom) * error
    assert words.summary("model", together, 0).interval == pytest.approx(
        (together.score - half, together.score + half)
    )


def test_a_set_that_is_a_part_of_another_does_not_count():
    [whole, other] = some_sets("ab", (50, 60))
    part = word_sets.SimilarityPairs(
        "part", [(b.upper(), a) for a, b in whole.words[:20]], whole.gold[:20]
    )
    same = word_sets.SimilarityPairs("same", whole.words, whole.gold + 1)
    answers = random_answers([part, whole, same, other], 4)
    assert words.pooled(answers).details["sets"] == ["a", "b"]
    assert words.pooled(answers[:3]) is None


def test_a_test_set_without_known_words_does_not_affect_the_others():
    tests = some_sets("abc", (40, 50, 30))
    answers = random_answers(tests, 5)
    nothing = word_sets.ItemScores(tests[1], np.full(50, np.nan))
    together = words.pooled([answers[0], nothing, answers[2]])
    rest = words.pooled([answers[0], answers[2]])
    assert together.score == pytest.approx(rest.score)
    assert words.paired_difference([together], [together]).shared == np.count_nonzero(rest.used)
    empty = words.pooled([word_sets.ItemScores(test, np.full(len(test), np.nan)) for test in tests])
    assert math.isnan(empty.score)
    assert all(map(math.isnan, words.summary("model", empty, 0).interval))


def test_pooled_scores_of_several_runs_are_compared_pair_by_pair():
    tests = some_sets("ab", (300, 400))
    good = [words.pooled(random_answers(tests, seed, 2.0)) for seed in range(3)]
    bad = [words.pooled(random_answers(tests, seed, 0.5)) for seed in range(3)]
    estimate = words.paired_difference(good, bad)
    items = np.logical_and.reduce([answer.used for answer in [*good, *bad]])
    halves = [items[:300], items[300:]]

    def score_of(answers):
        values = np.split(answers.values, [300])
        return naive_pooled(
            [(test.gold[k], v[k]) for test, v, k in zip(tests, values, halves, strict=True)]
        )

    assert estimate.difference == pytest.approx(
        np.mean([score_of(answer) for answer in good])
        - np.mean([score_of(answer) for answer in bad])
    )
    assert estimate.test == "pooled"
    assert 0 < estimate.interval[0] < estimate.difference < estimate.interval[1]
