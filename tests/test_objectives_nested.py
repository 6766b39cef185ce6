"""Nested one-vs-each: the softmax over the certain rows, and a pairwise term for each other row."""

import numpy as np
import pytest
import reference

from embedx.objectives.nested_ove import NestedOneVsEach
from embedx.testing.objectives import Candidates, evaluate

K = 12
POSITIVE = 4


def run(z, certain, weight, n_labels=1.0):
    """Loss and coefficients of an example with one positive; rows that are not certain were drawn
    four times, where `4 / weight` draws were expected.
    """
    z = np.asarray(z, np.float64)
    label = np.zeros(len(z))
    label[POSITIVE] = n_labels
    is_certain = np.isin(np.arange(len(z)), certain)
    sample_count = np.where(is_certain, 1.0, 4.0)
    log_expected_count = np.where(is_certain, 0.0, np.log(4.0) - np.log(weight))
    sample_count[POSITIVE] = 0
    log_expected_count[POSITIVE] = 0
    candidates = Candidates(z, label, sample_count, log_expected_count)
    loss, slopes, _ = evaluate(NestedOneVsEach(NestedOneVsEach.Settings()), candidates)
    return loss, slopes[0]


def naive_loss(z, certain, weight):
    """Titsias 2016, with the sum over the certain rows in place of the positive's score."""
    inside = [POSITIVE, *(k for k in certain if k != POSITIVE)]
    log_mass = np.log(np.exp(z[inside]).sum())
    outside = [k for k in range(len(z)) if k not in inside]
    return (
        log_mass - z[POSITIVE] + sum(weight * reference.softplus(z[k] - log_mass) for k in outside)
    )


@pytest.mark.parametrize("certain", [[], [0], [1, 2, 3, 9], list(range(K))])
@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_the_loss_and_its_slopes_are_those_of_the_formula(certain, weight):
    z = np.random.default_rng(len(certain)).normal(0, 2, K)
    loss, slopes = run(z, certain, weight, n_labels=3.0)
    assert loss == pytest.approx(3 * naive_loss(z, certain, weight), rel=1e-5)
    step = 1e-5
    for k in range(K):
        higher = z.copy()
        higher[k] += step
        lower = z.copy()
        lower[k] -= step
        slope = (naive_loss(higher, certain, weight) - naive_loss(lower, certain, weight)) / (
            2 * step
        )
        assert slopes[k] == pytest.approx(3 * slope, abs=1e-4)


def test_the_bound_goes_from_one_vs_each_to_the_softmax_as_more_rows_are_certain():
    z = np.random.default_rng(0).normal(0, 4, K)
    by_score = np.argsort(-z)
    losses = [run(z, by_score[:n], 1.0)[0] for n in range(K + 1)]
    others = np.ones(K)
    others[POSITIVE] = 0
    assert losses[0] == pytest.approx(reference.ove_loss(z, POSITIVE, others), rel=1e-5)
    assert losses[-1] == pytest.approx(reference.softmax_loss(z, POSITIVE), rel=1e-5)
    assert all(np.diff(losses) <= 1e-6)
    assert losses[0] > losses[3] > losses[-1]
