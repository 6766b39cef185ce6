"""The level of Bouchard's bound: where it is best, and that it gets there."""

import numpy as np
import pytest
import reference

from embedx.testing.objectives import UNIGRAM, Candidates, Conditions, K, evaluate, some_scores
from tests.support.objectives import make, one_example

BOUCHARD = make("bouchard")


def test_bouchard_is_the_papers_formula():
    candidates, y = one_example(BOUCHARD)
    loss = evaluate(BOUCHARD, candidates, np.array([[0.7]])).loss
    assert loss == pytest.approx(
        candidates.label[y] * reference.bouchard_loss(candidates.z, y, candidates.importance, 0.7)
    )


def test_the_step_of_alpha_depends_on_its_number_of_updates():
    candidates, _ = one_example(BOUCHARD)
    state = evaluate(BOUCHARD, candidates, np.array([[0.7]]), Conditions(n_updates=3)).state
    counts = np.where(candidates.label > 0, 1, candidates.importance)
    rate = 4**-0.9
    crossing = np.sum(counts * reference.sigmoid(candidates.z - 0.7))
    # the rate is a float32
    assert np.exp(state[0, 0] - 0.7) == pytest.approx(1 - rate + rate * crossing, rel=1e-6)
    assert abs(crossing - 1) > 0.1


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0, 1e4])
def test_the_probabilities_above_the_optimal_alpha_sum_to_one(size):
    z, y = some_scores(k=50, size=size)
    alpha = BOUCHARD.optimal_state(z, np.eye(50)[y])
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(reference.sigmoid(z - alpha).sum(axis=1), 1, atol=1e-11)


def test_the_optimal_alpha_of_two_classes_is_their_mean_score():
    z, y = some_scores(k=2)
    np.testing.assert_allclose(
        BOUCHARD.optimal_state(z, np.eye(2)[y])[:, 0], z.mean(axis=1), atol=1e-7
    )


def test_with_one_class_bouchards_bound_is_exact():
    alpha = BOUCHARD.optimal_state(np.array([[3.0]]), np.ones((1, 1)))
    candidates = Candidates(*np.array([[[3.0]], [[1.0]], [[0.0]], [[0.0]]]))
    assert evaluate(BOUCHARD, candidates, alpha).loss == pytest.approx(0, abs=1e-12)


def test_alpha_converges_with_two_draws_per_step():
    rng = np.random.default_rng(8)
    z = rng.normal(0, 2, K)
    label = np.eye(K)[0]
    n_updates = 30_000
    sample_count = rng.multinomial(2, UNIGRAM, n_updates) * (label == 0)
    shape = np.ones((n_updates, 1))
    candidates = Candidates(shape * z, shape * label, sample_count, shape * np.log(2 * UNIGRAM))
    one_state = np.zeros(n_updates, dtype=np.int64)
    conditions = Conditions(np.arange(n_updates), state_rows=one_state)
    state = evaluate(BOUCHARD, candidates, np.zeros((1, 1)), conditions).state
    assert state[0, 0] == pytest.approx(
        BOUCHARD.optimal_state(z[None], label[None])[0, 0], abs=0.05
    )


def test_a_rare_class_of_large_weight_moves_alpha_by_its_logarithm():
    """The weight of 10^5, once in as many updates, would throw a plain gradient step as far as
    that.
    """
    candidates = Candidates(*np.array([[0.0, 5.0], [1, 0], [0, 1], [0, np.log(1e-5)]]))
    conditions = Conditions(n_updates=9, lr=0.1)
    state = evaluate(BOUCHARD, candidates, np.zeros((1, 1)), conditions).state
    assert 5 < state[0, 0] < np.log(1e5)
