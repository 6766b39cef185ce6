"""The smoothed max-margin loss: its coefficients are the projection of the paper, whatever the
number of candidates.
"""

import numpy as np
import pytest
import reference

from embedx.objectives.margin import Margin, MarginSettings
from embedx.testing.objectives import Candidates, Conditions, evaluate

SMOOTHINGS = pytest.mark.parametrize("mu", [0.1, 1.0, 5.0])


def run(z, label, sample_count, mu=1.0, **options):
    """Loss and coefficients of one example."""
    z = np.asarray(z, dtype=np.float64)
    objective = Margin(MarginSettings(smoothing=mu))
    candidates = Candidates(z, label, sample_count, 0 * z)
    conditions = Conditions(n_classes=len(z), **options)
    loss, slopes, _ = evaluate(objective, candidates, conditions=conditions)
    return loss, slopes[0]


def example(n, n_positives, seed, *, spread=1.0, ties=False):
    """Scores, labels of 1, sample counts (n,); the columns of the positives and of the negatives.
    Some have no weight.
    """
    rng = np.random.default_rng(seed)
    z = rng.normal(0, spread, n)
    places = rng.permutation(n)
    positives = places[:n_positives]
    negatives = places[n_positives : n - n // 5]
    label = np.zeros(n)
    sample_count = np.zeros(n)
    label[positives] = 1
    sample_count[negatives] = rng.integers(1, 4, len(negatives))
    return np.round(2 * z) / 2 if ties else z, label, sample_count, positives, negatives


@SMOOTHINGS
@pytest.mark.parametrize("n_positives", [1, 3])
@pytest.mark.parametrize("ties", [False, True])
def test_margin_is_the_papers_quadratic_programme(mu, n_positives, ties):
    for seed in range(10):
        z, label, sample_count, positives, negatives = example(9, n_positives, seed, ties=ties)
        z[positives] += seed % 4  # from far too low to far ahead
        mu = np.float64(np.float32(mu))
        loss, c = run(z, label, sample_count, mu)
        expected_loss, alpha = reference.smoothed_margin(z, positives, negatives, mu)
        assert loss == pytest.approx(expected_loss, abs=1e-6)
        np.testing.assert_allclose(c, alpha, atol=1e-5)


@SMOOTHINGS
@pytest.mark.parametrize("n_positives", [1, 7, 900])
@pytest.mark.parametrize("spread", [0.0, 0.001, 0.5, 20.0])
def test_coefficients_are_the_projection_for_any_number_of_candidates(mu, n_positives, spread):
    """Where the loss is small both sides meet in one threshold, where it is large each
    has its own.
    """
    supports = []
    for seed in range(6):
        z, label, sample_count, positives, negatives = example(
            3000, n_positives, seed, spread=spread, ties=seed % 2 == 1
        )
        # what the worst positive is to gain
        behind = mu * 10.0 ** (seed - 4) if n_positives < 900 else 1 + seed / 9
        z[positives] += z[negatives].max() + 1 - z[positives].min() - behind
        mu = np.float64(np.float32(mu))
        loss, c = run(z, label, sample_count, mu)
        supports.append(np.count_nonzero(c))
        assert reference.distance_from_projection(z, c, positives, negatives, mu) < 1e-10 * max(
            1, spread / mu
        )
        assert loss == pytest.approx(
            z @ c + c[negatives].sum() - mu / 2 * c @ c, rel=1e-9, abs=1e-9
        )
        rough_loss, rough = run(z, label, sample_count, mu, dtype=np.float32)
        assert rough_loss == pytest.approx(loss, rel=1e-4, abs=1e-5)
        np.testing.assert_allclose(rough, c, atol=1e-5 * max(1, spread / mu))
    assert max(supports) > 350 or spread > 0.001  # all that the authors' own code looks at
    assert min(supports) > 0


@SMOOTHINGS
def test_two_classes_are_the_smoothed_hinge(mu):
    for behind in (-0.5, 0.0, 0.3, 1.9, 2.1, 30.0):  # what is missing of the margin, in units of mu
        loss, c = run([0.4, 0.4 - 1 + behind * mu], [1, 0], [0, 1], mu)
        assert loss == pytest.approx(
            mu * (0 if behind < 0 else behind**2 / 4 if behind < 2 else behind - 1), abs=1e-6
        )
        np.testing.assert_allclose(c, np.array([-1, 1]) * np.clip(behind / 2, 0, 1), atol=1e-6)


def test_a_hundred_thousand_equal_scores_share_the_push():
    n = 100_001
    loss, c = run(np.full(n, 7.3), np.eye(1, n)[0], 1 - np.eye(1, n)[0], dtype=np.float32)
    np.testing.assert_allclose(c[1:], -c[0] / (n - 1), rtol=1e-6)
    assert -c[0] == pytest.approx((n - 1) / n, rel=1e-6)
    assert loss == pytest.approx((n - 1) / n / 2, rel=1e-4)


NOTHING = {
    "no positive": ([0, 0, 0], [1, 1, 1]),
    "no negative": ([1, 1, 0], [0, 0, 0]),
    "won": ([1, 0, 0], [0, 1, 0]),
}


@pytest.mark.parametrize("which", NOTHING)
def test_the_margin_loss_without_positives_or_negatives_is_zero(which):
    loss, c = run([3.0, 1.5, 9.0], *NOTHING[which])
    assert loss == 0
    assert not c.any()


def test_the_loss_is_multiplied_by_the_mean_label():
    z, label, sample_count, positives, _ = example(9, 2, seed=2)
    loss, c = run(z, label, sample_count)
    label[positives] = 3, 5
    heavier, more = run(z, label, sample_count)
    assert heavier == pytest.approx(4 * loss)
    np.testing.assert_allclose(more, 4 * c)


def test_scores_that_are_nan_do_not_give_a_loss_of_zero():
    assert np.isnan(run(np.full(3, np.nan), [1, 0, 0], [0, 1, 1])[0])
