"""Which rows are drawn as candidates: the right ones, as often as they should."""

import numpy as np
import pytest
from reference_classify import Problem
from scipy import stats

from embedx.samplers.contract import FILTER_SIZE
from tests.support.sampled_run import COLLAPSED, DISTINCT, REPLACED, Run

MANY = 6000


def draws(labels, n_classes, n_draws, sampling, **settings):
    """The run of many examples that all have the same labels, and how often each class was drawn,
    (n_terms, n_classes).
    """
    problem = Problem("dense", n=MANY, n_classes=n_classes, labels=[labels] * MANY)
    run = Run(problem, sampling=sampling, n_draws=n_draws, batch=MANY, **settings)
    n_terms = run.train(0, MANY, 0.0)[1]
    workspace = run.workspace
    is_candidate = np.arange(workspace.rows.shape[1]) < workspace.n_candidates[:n_terms, None]
    term, place = np.nonzero(is_candidate)
    row = workspace.rows[term, place]
    assert len(set(zip(term, row, strict=True))) == len(term), "a row stands twice in a term"
    sample_count = np.zeros((n_terms, n_classes))
    sample_count[term, row] = workspace.batch.sample_count[term, place]
    return run, sample_count


@pytest.mark.parametrize("n_draws", [1, 3, 6, 8])
@pytest.mark.parametrize("positives", ["single", "joint"])
def test_distinct_draws_avoid_the_positives_and_are_uniform(n_draws, positives):
    labels = [7, 2, 4]
    run, sample_count = draws(labels, 9, n_draws, DISTINCT, positives=positives)
    avoided = [labels] if positives == "joint" else [[label] for label in labels]
    for i, labels in enumerate(avoided):
        mine = sample_count[i :: len(avoided)]
        others = np.setdiff1d(np.arange(9), labels)
        expected = min(n_draws, len(others))
        assert not mine[:, labels].any()
        assert (mine.sum(axis=1) == expected).all()
        counts = mine[:, others].sum(axis=0)
        # sampling without replacement varies less than the multinomial of the test
        if expected < len(others):
            assert stats.chisquare(counts).pvalue > 1e-3
            patterns = np.unique(mine[:, others], axis=0, return_counts=True)[1]
            assert stats.chisquare(patterns).pvalue > 1e-3
        log_expected_count = run.workspace.batch.log_expected_count[
            i, : run.workspace.n_candidates[i]
        ]
        np.testing.assert_allclose(
            log_expected_count, np.log(expected / len(others)), rtol=1e-6, atol=1e-7
        )


@pytest.mark.parametrize(("positives", "labels"), [("single", [3]), ("summed", [3, 0])])
def test_distinct_draws_that_keep_accidental_hits_are_uniform_over_all_rows(positives, labels):
    _, sample_count = draws(labels, 7, 3, DISTINCT, positives=positives, keeps_accidental_hits=True)
    assert (sample_count.sum(axis=1) == 3 * len(labels)).all()
    assert set(np.unique(sample_count)) == {0, len(labels)}
    assert stats.chisquare(sample_count.sum(axis=0)).pvalue > 1e-3


NOISE = np.array([10, 1, 4, 0.5, 2, 2, 0.1])


@pytest.mark.parametrize("keeps_accidental_hits", [True, False], ids=["hits", "no hits"])
@pytest.mark.parametrize("n_draws", [1, 5, 20])
def test_draws_with_replacement_add_up_and_follow_the_noise(n_draws, keeps_accidental_hits):
    run, sample_count = draws(
        [2], 7, n_draws, REPLACED, keeps_accidental_hits=keeps_accidental_hits, noise=NOISE
    )
    if keeps_accidental_hits:
        assert (sample_count.sum(axis=1) == n_draws).all()
    else:
        assert not sample_count[:, 2].any()
    others = np.arange(7) if keeps_accidental_hits else np.delete(np.arange(7), 2)
    expected = run.noise[others] / run.noise[others].sum() * sample_count.sum()
    assert stats.chisquare(sample_count[:, others].sum(axis=0), expected).pvalue > 1e-3
    total = sample_count.sum() / MANY
    assert total == pytest.approx(
        n_draws * run.noise[others].sum(), abs=5 * np.sqrt(n_draws / MANY)
    )


@pytest.mark.parametrize("n_draws", [1, 5, 20])
def test_collapsed_draws_appear_as_often_as_the_log_expected_count_says(n_draws):
    """With probability 1 - (1 - q)^m, so that sample_count / e^log_expected_count is 1
    on average.
    """
    run, sample_count = draws([2], 7, n_draws, COLLAPSED, keeps_accidental_hits=True, noise=NOISE)
    assert set(np.unique(sample_count)) <= {0, 1}
    for k, expected in enumerate(1 - (1 - run.noise) ** n_draws):
        assert stats.binomtest(int(sample_count[:, k].sum()), MANY, expected).pvalue > 1e-4
    s = run.workspace
    for term in range(50):
        places = s.rows[term, : s.n_candidates[term]]
        log_expected = s.batch.log_expected_count[term, : len(places)]
        np.testing.assert_allclose(log_expected, np.log(run.expected[places]), rtol=1e-5, atol=1e-6)


def test_rows_that_share_a_slot_of_the_memory_of_draws_are_distinguished():
    n_classes = 4 * FILTER_SIZE
    noise = np.zeros(n_classes)
    noise[[3, 3 + FILTER_SIZE, 3 + 2 * FILTER_SIZE, 9]] = 1
    settings = {"positives": "summed", "keeps_accidental_hits": True, "noise": noise + 1e-12}
    run, sample_count = draws([3, 3 + FILTER_SIZE], n_classes, 6, REPLACED, **settings)
    assert (sample_count.sum(axis=1) == 12).all()
    assert stats.chisquare(sample_count[:, noise > 0].sum(axis=0) / 2).pvalue > 1e-3
    assert (run.workspace.n_candidates <= 5).all()


def test_one_label_of_an_example_is_drawn_uniformly():
    for positives in ("single", "joint"):
        run, _ = draws([5, 0, 3], 6, 2, DISTINCT, positives=positives, one_label=True)
        assert (run.workspace.batch.label.sum(axis=1) == 1).all()
        chosen = run.workspace.rows[:, 0]
        counts = [int((chosen == label).sum()) for label in (5, 0, 3)]
        assert sum(counts) == MANY
        assert stats.chisquare(counts).pvalue > 1e-3
