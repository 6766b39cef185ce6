"""The metrics against their definitions, one row and one label at a time."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize_scalar

from embedx.errors import DivergedError
from embedx.evaluation import labels as evaluation, temperature
from embedx.evaluation.labels import LabelMetrics, top_k
from embedx.evaluation.temperature import fit_inverse_temperature
from embedx.labeled.data import Labels
from embedx.objectives.contract import log_softmax
from tests.support.refusals import refused, refused_data

# ---- the definitions


def ranking(scores):
    return sorted(range(len(scores)), key=lambda label: (-scores[label], label))


def propensity(count, n_train, a=0.55, b=1.5):
    c = (math.log(n_train) - 1) * (b + 1) ** a
    return 1 / (1 + c * math.exp(-a * math.log(count + b)))


def dcg(hits):
    return sum(hit / math.log2(place + 1) for place, hit in enumerate(hits, start=1))


def average(values):
    return sum(values) / len(values) if values else math.nan


def standard_error(values):
    if len(values) < 2 or -math.inf in values:
        return math.nan
    return np.std(values, ddof=1) / math.sqrt(len(values))


def precision(answer, positives, k):
    return sum(label in positives for label in answer[:k]) / k


def ndcg(answer, positives, k):
    hits = [label in positives for label in answer[:k]]
    return dcg(hits) / dcg([1] * min(k, len(positives)))


def propensity_scored_precision(answers, truth, counts, n_train, k):
    """The sum of 1 / propensity over the labels that are right, as a share of the best sum."""

    def weight(label):
        is_known = label < len(counts)
        return 1 / propensity(counts[label] if is_known else 0, n_train)

    gained = 0.0
    best = 0.0
    for answer, positives in zip(answers, truth, strict=True):
        gained += sum(weight(label) for label in answer[:k] if label in positives)
        best += sum(sorted(map(weight, positives), reverse=True)[:k])
    return gained / best if best else math.nan


def likelihoods_of(log_p, truth, n_labels):
    """The mean log-likelihood of the known labels of each row that has some."""
    likelihoods = []
    for row, positives in zip(log_p, truth, strict=True):
        known = [label for label in positives if label < n_labels]
        if known:
            likelihoods.append(average([row[label] for label in known]))
    return likelihoods


def naive(log_p, scores, truth, counts, n_train, ks):
    n_labels = len(counts)
    n_rows = len(truth)
    labelled = [row for row in range(n_rows) if truth[row]]
    truth = [truth[row] for row in labelled]
    answers = [ranking(scores[row]) for row in labelled]
    likelihoods = likelihoods_of([log_p[row] for row in labelled], truth, n_labels)
    of_rows = list(zip(answers, truth, strict=True))
    expected = {
        "n": len(truth),
        "n_without_labels": n_rows - len(truth),
        "n_unknown": sum(min(positives) >= n_labels for positives in truth),
        "accuracy": average([answer[0] in positives for answer, positives in of_rows]),
        "log_likelihood": average(likelihoods),
        "log_likelihood_clamped": average([max(value, -26.0) for value in likelihoods]),
        "log_likelihood_standard_error": standard_error(likelihoods),
    }
    for k in ks:
        expected[f"p@{k}"] = average([precision(answer, y, k) for answer, y in of_rows])
        expected[f"ndcg@{k}"] = average([ndcg(answer, y, k) for answer, y in of_rows])
        expected[f"psp@{k}"] = propensity_scored_precision(answers, truth, counts, n_train, k)
    return expected


# ---- cases


@st.composite
def cases(draw):
    """Few labels with few distinct scores, so that many are equal; rows without labels and labels
    that are unknown.
    """
    n_labels = draw(st.integers(1, 6))
    n = draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    levels = draw(st.sampled_from([1, 2, 3, 1000]))
    scores = rng.integers(0, levels, (n, n_labels)).astype(np.float32) / 8
    log_p = log_softmax(rng.normal(size=(n, n_labels)) * draw(st.sampled_from([1, 30])))
    log_p[rng.random(log_p.shape) < draw(st.sampled_from([0, 0.1]))] = -np.inf
    unknown = draw(st.integers(0, 3))
    truth = [
        np.flatnonzero(rng.random(n_labels + unknown) < rng.choice([0, 0.3, 0.7])).tolist()
        for _ in range(n)
    ]
    cut = draw(st.integers(0, n))
    return log_p, scores, truth, rng.integers(0, 50, n_labels), cut


def measured(log_p, scores, truth, counts, cuts=(), n_train=60, ks=(1, 3, 5)):
    metrics = LabelMetrics(len(counts), counts, n_train, ks)
    ends = [0, *cuts, len(truth)]
    for start, end in itertools.pairwise(ends):
        metrics.add(log_p[start:end], scores[start:end], Labels.of_rows(truth[start:end]))
    return metrics.result()


@settings(max_examples=100, deadline=None)
@given(cases())
def test_metrics_are_their_definitions_in_one_block_or_two(case):
    log_p, scores, truth, counts, cut = case
    expected = naive(log_p, scores, truth, counts, 60, (1, 3, 5))
    for cuts in [(), (cut,)]:
        result = measured(log_p, scores, truth, counts, cuts)
        assert result.keys() == expected.keys()
        # a variance by way of squares keeps half the digits where it is nothing
        error = "log_likelihood_standard_error"
        assert result.pop(error) == pytest.approx(expected[error], rel=1e-9, abs=1e-6, nan_ok=True)
        assert result == pytest.approx(
            {name: expected[name] for name in result}, rel=1e-12, nan_ok=True
        )


@settings(max_examples=100, deadline=None)
@given(cases(), st.integers(1, 8))
def test_top_k_are_the_first_of_the_ranking(case, k):
    _, scores, *_ = case
    ids, values = top_k(scores, k)
    assert ids.tolist() == [ranking(row)[:k] for row in scores]
    assert ids.dtype == np.int32
    np.testing.assert_array_equal(values, np.take_along_axis(scores, ids.astype(np.int64), axis=1))


def test_scores_that_are_no_numbers_come_last():
    scores = np.random.default_rng(0).normal(size=(9, 300)).round(1)
    # sorted, and inserted
    np.testing.assert_array_equal(top_k(scores, 101)[0][:, :100], top_k(scores, 100)[0])
    ids, values = top_k(np.array([[np.nan, 1, -np.inf, 2], [np.nan] * 4]), 3)
    assert ids.tolist() == [[3, 1, 0], [0, 1, 2]]
    assert values[1].tolist() == [-np.inf] * 3


def test_only_defined_measures_are_reported():
    metrics = LabelMetrics(2, ks=(1,))
    assert metrics.result().keys() == {
        "n",
        "n_without_labels",
        "n_unknown",
        "accuracy",
        "p@1",
        "ndcg@1",
    }
    assert math.isnan(metrics.result()["accuracy"])
    metrics.add(None, np.array([[0.0, 1.0]]), Labels.single(np.array([1])))
    assert metrics.result()["accuracy"] == 1
    assert "log_likelihood" not in metrics.result()


# ---- temperature


def validation(seed, scale, n=300, n_labels=20):
    """Scores of which softmax(z / scale) is the truth, some rows with several labels, none, or an
    unknown one.
    """
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, n_labels)) * 2
    drawn = (z + rng.gumbel(size=z.shape)).argsort(axis=1)[:, ::-1]
    truth = [
        drawn[row, : rng.choice([0, 1, 1, 1, 2])].tolist() + [n_labels + 3] * rng.choice([0, 0, 1])
        for row in range(n)
    ]
    return (z * scale).astype(np.float32), truth


def likelihood(temperature, z, truth):
    log_p = log_softmax(temperature * z.astype(np.float64))
    return average(likelihoods_of(log_p, truth, n_labels=z.shape[1]))


def blocks_of(z, truth, size=70):
    """The rows in blocks, and a list that grows by one whenever they are asked for."""
    passes = []

    def blocks():
        passes.append(1)
        for start in range(0, len(truth), size):
            yield z[start : start + size], Labels.of_rows(truth[start : start + size])

    return blocks, passes


@pytest.mark.parametrize(
    ("scale", "shift"), [(0.01, 0.0), (0.3, 50.0), (1.0, 0.0), (4.0, 50.0), (100.0, 50.0)]
)
def test_the_temperature_is_scipys(scale, shift, monkeypatch):
    monkeypatch.setattr(evaluation, "BLOCK_FLOATS", 500)
    z, truth = validation(seed=round(10 * scale), scale=scale)
    blocks, passes = blocks_of(z + np.float32(shift * scale), truth)
    best = minimize_scalar(
        lambda log_t: -likelihood(math.exp(log_t), z, truth),
        bounds=(-7, 7),
        method="bounded",
        options={"xatol": 1e-9},
    )
    fitted = fit_inverse_temperature(blocks)
    assert fitted == pytest.approx(math.exp(best.x), rel=1e-4)
    assert fitted * scale == pytest.approx(1, rel=0.3)
    assert len(passes) <= 10


def test_probabilities_of_zero_do_not_disturb_the_temperature():
    z, truth = validation(seed=5, scale=0.5)
    ruled_out = np.full((len(z), 3), -np.inf, dtype=np.float32)
    truth = [[label + 3 for label in y] for y in truth]
    expected = fit_inverse_temperature(blocks_of(z, [[label - 3 for label in y] for y in truth])[0])
    assert fit_inverse_temperature(blocks_of(np.hstack([ruled_out, z]), truth)[0]) == pytest.approx(
        expected
    )


@pytest.mark.parametrize(
    ("z", "at_least", "at_most"),
    [
        ([[0.0, 0.0], [3.0, 3.0]], 1.0, 1.0),  # any is as good
        ([[1.0, 0.0], [2.0, 0.0]], 10.0, 1e3),  # the more the better
        ([[0.0, 1.0], [0.0, 2.0]], 1e-3, 2e-3),  # the less the better
        ([[1e6, 0.0], [0.0, 1e6]], 1e-3, 2e-3),  # and from far away
    ],
)
def test_a_temperature_without_a_finite_optimum_stays_within_bounds(z, at_least, at_most):
    blocks, passes = blocks_of(np.array(z), [[0], [0]])
    assert at_least <= fit_inverse_temperature(blocks) <= at_most
    assert len(passes) <= temperature.MAX_PASSES


def test_a_temperature_needs_known_labels_and_finite_scores():
    with refused_data("the validation data"):
        fit_inverse_temperature(blocks_of(np.zeros((2, 3)), [[], [5]])[0])
    for bad in (np.nan, np.inf, -np.inf):
        with refused(None, "learning_rate", kind=DivergedError):
            fit_inverse_temperature(blocks_of(np.array([[bad, 0.0, 1.0]]), [[0]])[0])


@pytest.mark.parametrize(
    ("log_likelihood", "is_warned"),
    [(math.log(0.5) - 1e-9, False), (-0.8, True), (math.nan, False)],
)
@pytest.mark.parametrize("is_exact_softmax", [True, False])
def test_only_a_likelihood_clearly_below_that_of_equal_probabilities_is_warned_of(
    log_likelihood, is_warned, is_exact_softmax
):
    warning = evaluation.likelihood_warning(
        {"log_likelihood": log_likelihood}, 2, is_exact_softmax=is_exact_softmax
    )
    assert (warning is not None) == is_warned
    assert ("softmax" in (warning or "")) == (is_warned and not is_exact_softmax)
