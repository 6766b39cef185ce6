"""Held-out likelihood against its definition: pairs as training draws them, and probabilities
written out in float64.
"""

import numpy as np
import pytest
import reference

from embedx.evaluation import held_out
from embedx.evaluation.held_out import (
    HeldOutPairs,
    compare,
    draw,
    evaluate,
    pairs_of,
    sample_pairs,
    text_of,
)
from embedx.evaluation.statistics import grouped
from embedx.objectives import OBJECTIVES
from embedx.text.subsampling import WHOLE_SENTENCE
from embedx.text.vocabulary import kept_counts
from tests.support.held_out_models import words_model
from tests.support.refusals import refused_data

MANY = 10**9


def random_pairs(n, n_words=30, seed=2, n_groups=20):
    rng = np.random.default_rng(seed)
    inputs, targets = rng.integers(0, n_words, (2, n)).astype(np.int32)
    return HeldOutPairs(inputs, targets, np.sort(rng.integers(0, n_groups, n)))


NO_PAIRS = random_pairs(0)


def scores(vectors, inputs):
    arrays = {name: array.astype(np.float64) for name, array in vectors.arrays.items()}
    return arrays["input"][inputs] @ arrays["output"].T + arrays["bias"]


def log_softmax(z):
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))


# ---- pairs


def test_held_out_pairs_have_the_distribution_of_training_pairs():
    """At a distance d with probability (window - d + 1) / window, on either side."""
    n, window = 40_000, 5
    pairs = sample_pairs(
        np.arange(n, dtype=np.int32), np.zeros(n, np.int64), np.ones(n, np.float32), window, 3, MANY
    )
    steps = pairs.inputs - pairs.targets
    assert abs(steps).max() == window
    for d in range(1, window + 1):
        share = (window - d + 1) / window
        for step in (-d, d):
            frequency = np.count_nonzero(steps == step) / (n - d)
            assert frequency == pytest.approx(
                share, abs=4 * np.sqrt(share * (1 - share) / n) + 1e-12
            )
    assert pairs.inputs.dtype == pairs.targets.dtype == np.int32
    assert pairs.groups.dtype == np.int64


def test_the_widest_window_takes_all_words_of_the_sentence():
    groups = np.repeat([0, 1, 2], [3, 1, 2])
    pairs = sample_pairs(
        np.arange(6, dtype=np.int32), groups, np.ones(6, np.float32), WHOLE_SENTENCE, 0, MANY
    )
    expected = [(1, 0), (2, 0), (0, 1), (2, 1), (0, 2), (1, 2), (5, 4), (4, 5)]
    assert list(zip(pairs.inputs.tolist(), pairs.targets.tolist(), strict=True)) == expected


@pytest.mark.parametrize("seed", range(5))
def test_each_centre_meets_all_kept_words_within_some_reach(seed):
    """Every token is a word of its own, so that places can be told; some are unknown, and some
    never kept.
    """
    rng = np.random.default_rng(seed)
    n, window = 400, 4
    words = np.where(rng.random(n) < 0.8, np.arange(n), -1).astype(np.int32)
    groups = np.sort(rng.integers(0, 60, n))
    keep = (rng.random(n) < 0.7).astype(np.float32)
    pairs = sample_pairs(words, groups, keep, window, seed, MANY)
    partners = {}
    for x, y, group in zip(*(pair.tolist() for pair in pairs), strict=True):
        partners.setdefault(y, []).append(x)
        assert group == groups[y]
    kept = [k for k in range(n) if words[k] >= 0 and keep[k]]
    for i, y in enumerate(kept):
        windows = []
        for reach in range(1, window + 1):
            around = [j for j in range(max(i - reach, 0), min(i + reach + 1, len(kept))) if j != i]
            windows.append([kept[j] for j in around if groups[kept[j]] == groups[y]])
        assert partners.pop(y, []) in windows
    assert not partners


def test_too_many_pairs_are_sampled_without_replacement():
    n = 5000
    arguments = np.arange(n, dtype=np.int32), np.arange(n) // 100, np.ones(n, np.float32), 3, 7
    everything = set(zip(*(pair.tolist() for pair in sample_pairs(*arguments, MANY)), strict=True))
    some = sample_pairs(*arguments, 4000)
    chosen = set(zip(*(part.tolist() for part in some), strict=True))
    assert len(chosen) == 4000
    assert chosen < everything
    steps = np.array([abs(x - y) for x, y, _ in everything])
    for d in (1, 2, 3):  # as usual as among all
        assert np.mean(abs(some.inputs - some.targets) == d) == pytest.approx(
            np.mean(steps == d), abs=0.03
        )
    assert np.mean(some.targets) == pytest.approx(n / 2, rel=0.05)
    again = sample_pairs(*arguments, 4000)
    assert all(np.array_equal(a, b) for a, b in zip(some, again, strict=True))
    assert not np.array_equal(some.targets, sample_pairs(*arguments[:-1], 8, 4000).targets)


def test_groups_are_sentences_and_pieces_of_long_ones(monkeypatch):
    monkeypatch.setattr(held_out, "PIECE", 3)
    tokens = np.array([0, 1, -1, 2, 0, 1, 2, 0, 1, 2, -1, 1], np.int32)
    words, groups = text_of(tokens, np.array([5, -1, 7], np.int32))
    assert words.tolist() == [5, -1, 7, 5, -1, 7, 5, -1, 7, -1]
    assert groups.tolist() == [1, 1, 2, 2, 2, 3, 3, 3, 4, 5]


def test_no_pair_is_scored_and_calibrated_with():
    n = 30_000
    vectors = words_model(n=n, window=3, sample=0.0)
    words = np.arange(n, dtype=np.int32)
    groups = np.arange(n) // 25
    pairs, calibration = draw(words, groups, vectors, seed=5)
    assert len(pairs.targets) == 20_000
    assert len(calibration.targets) == 1000
    together = [
        set(zip(sample.inputs.tolist(), sample.targets.tolist(), strict=True))
        for sample in (pairs, calibration)
    ]
    assert not together[0] & together[1]
    assert (np.diff(pairs.groups) >= 0).all()
    assert calibration.targets.mean() == pytest.approx(n / 2, rel=0.1)
    assert len(draw(words, groups, vectors, at_most=50)[0].targets) == 50
    few, fewer = draw(words[:500], groups[:500], vectors)
    assert len(fewer.targets) == (len(few.targets) + len(fewer.targets)) // 10


def test_calibration_pairs_are_fewer_where_words_are_many(monkeypatch):
    monkeypatch.setattr(held_out, "MAX_CALIBRATION_FLOATS", 40 * 300)
    vectors = words_model(n=300, sample=0.0)
    pairs, calibration = draw(
        np.arange(300, dtype=np.int32).repeat(40), np.arange(12_000) // 25, vectors, at_most=5000
    )
    assert (len(pairs.targets), len(calibration.targets)) == (5000, 40)


def test_text_is_read_as_the_model_read_it(tmp_path):
    file = tmp_path / "held-out.txt"
    file.write_text("W1, w2 (W3)\nw4 unknown w1\nw2\n")
    vectors = words_model(sample=0.0, window=1, tokenizer="words", lowercase=True)
    pairs, calibration = pairs_of(str(file), vectors)
    together = list(zip(*(pair.tolist() for pair in pairs), strict=True))
    assert together == [(2, 1, 1), (1, 2, 1), (3, 2, 1), (2, 3, 1), (1, 4, 2), (4, 1, 2)]
    assert not len(calibration.targets)
    with refused_data("the held-out text"):
        pairs_of(str(file), words_model(tokenizer="words", lowercase=False, n=2))


# ---- likelihood


def test_softmax_is_the_definition(monkeypatch):
    monkeypatch.setattr(held_out, "BLOCK_FLOATS", 70)  # two inputs at a time
    vectors = words_model()
    pairs = random_pairs(200)
    likelihood = evaluate(vectors, pairs, NO_PAIRS)
    expected = log_softmax(scores(vectors, pairs.inputs))[np.arange(200), pairs.targets]
    np.testing.assert_allclose(likelihood.values, expected, atol=1e-5)
    assert likelihood.values.dtype == np.float64
    assert likelihood.log_likelihood == pytest.approx(expected.mean(), abs=1e-6)
    assert (likelihood.n_pairs, likelihood.n_groups) == (200, 20)
    assert np.isnan(likelihood.temperature)
    assert np.isnan(likelihood.calibrated)


@pytest.mark.parametrize(
    ("sampler", "exponent"), [("unigram", 0.75), ("unigram", 0.3), ("uniform", 0.75)]
)
def test_negative_sampling_adds_the_log_of_its_noise(sampler, exponent):
    vectors = words_model("ns", sampler=sampler, sampler_exponent=exponent)
    pairs = random_pairs(200)
    noise = exponent * np.log(vectors.counts) if sampler == "unigram" else 0
    expected = log_softmax(scores(vectors, pairs.inputs) + noise)[np.arange(200), pairs.targets]
    np.testing.assert_allclose(evaluate(vectors, pairs, NO_PAIRS).values, expected, atol=1e-5)


def test_a_tree_is_that_of_the_kept_counts():
    """Subsampled so hard that another tree would come of the counts themselves."""
    vectors = words_model("hs", sample=1e-4)
    pairs = random_pairs(200)
    tree = OBJECTIVES["hs"](OBJECTIVES["hs"].Settings())
    tree.prepare(kept_counts(vectors.counts, 1e-4))
    of_counts = OBJECTIVES["hs"](OBJECTIVES["hs"].Settings())
    of_counts.prepare(vectors.counts)
    assert not np.array_equal(tree.paths().nodes, of_counts.paths().nodes)
    z = scores(vectors, pairs.inputs)
    expected = [
        reference.tree_log_probability(z[i], *tree.paths())[y] for i, y in enumerate(pairs.targets)
    ]
    np.testing.assert_allclose(evaluate(vectors, pairs, NO_PAIRS).values, expected, atol=1e-5)


def test_the_unigram_model_is_that_of_kept_counts():
    vectors = words_model(sample=1e-3)
    pairs = random_pairs(100)
    kept = kept_counts(vectors.counts, 1e-3)
    expected = sum(np.log(kept[y] / kept.sum()) for y in pairs.targets) / 100
    assert evaluate(vectors, pairs, NO_PAIRS).unigram == pytest.approx(expected, rel=1e-12)


def test_the_standard_error_is_by_group():
    vectors = words_model()
    pairs = random_pairs(300, n_groups=17)
    likelihood = evaluate(vectors, pairs, NO_PAIRS)
    assert likelihood.standard_error == grouped(likelihood.values, pairs.groups).item_error().value
    assert np.isnan(
        evaluate(vectors, pairs._replace(groups=np.zeros(300, int)), NO_PAIRS).standard_error
    )


@pytest.mark.parametrize("by", [2.0, 0.6])
def test_the_temperature_inverts_a_factor_of_the_scores(by):
    true = words_model()
    wrong = words_model()
    wrong.arrays = true.arrays | {
        name: np.float32(by) * true.arrays[name] for name in ("output", "bias")
    }
    rng = np.random.default_rng(4)
    inputs = rng.integers(0, 30, 30_000).astype(np.int32)
    noise = rng.gumbel(size=(30_000, 30))
    pairs = HeldOutPairs(
        inputs,
        (scores(true, inputs) + noise).argmax(axis=1).astype(np.int32),
        np.arange(30_000) // 10,
    )
    scored = HeldOutPairs(*(array[:10_000] for array in pairs))
    calibration = HeldOutPairs(*(array[10_000:] for array in pairs))
    right = evaluate(true, scored, calibration)
    recovered = evaluate(wrong, scored, calibration)
    assert recovered.temperature == pytest.approx(by, rel=0.03)
    assert right.temperature == pytest.approx(1, rel=0.03)
    assert recovered.calibrated == pytest.approx(right.calibrated, abs=1e-5)
    assert right.calibrated == pytest.approx(right.log_likelihood, abs=0.002)
    assert recovered.log_likelihood < right.log_likelihood - 0.05
    tempered = log_softmax(log_softmax(scores(wrong, scored.inputs)) / recovered.temperature)
    assert recovered.calibrated == pytest.approx(
        tempered[np.arange(10_000), scored.targets].mean(), abs=1e-5
    )


# ---- two models


def test_the_difference_of_two_models_is_paired():
    a = words_model(seed=1)
    b = words_model(seed=2)
    pairs = random_pairs(200)
    likelihoods = [evaluate(vectors, pairs, NO_PAIRS) for vectors in (a, b)]
    difference = compare(*likelihoods)
    assert difference.value == pytest.approx(
        likelihoods[0].log_likelihood - likelihoods[1].log_likelihood
    )
    assert (
        difference.error
        == grouped(likelihoods[0].values - likelihoods[1].values, pairs.groups).item_error().value
    )
    assert compare(likelihoods[0], likelihoods[0]).interval() == (0, 0)


def test_models_of_different_words_and_different_pairs_do_not_compare():
    a, b = (evaluate(words_model(n=n), random_pairs(50), NO_PAIRS) for n in (30, 31))
    with refused_data("the two models", "min_count", "max_vocab", quoting=("30", "31")):
        compare(a, b)
    with pytest.raises(ValueError, match="pairs"):
        compare(a, evaluate(words_model(), random_pairs(51), NO_PAIRS))


@pytest.mark.parametrize("lost", ["objective", "sample", "window", "counts", "output"])
def test_a_model_without_record_is_reported_what_it_needs(lost):
    vectors = words_model()
    vectors.facts["source"] = "vectors.txt"
    for part in (vectors.facts, vectors.settings, vectors.arrays):
        part.pop(lost, None)
    if lost == "counts":
        vectors.counts = None
    with refused_data("vectors.txt"):
        pairs_of([["w1", "w2"]], vectors)
