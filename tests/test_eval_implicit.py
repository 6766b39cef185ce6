"""eval step-sizes and implicit-minibatches: the joint step of a minibatch, and the tables."""

import numpy as np
import pytest

from eval import implicit_minibatches, step_sizes
from eval.page import mean_and_deviation
from tests.support.eval_setup import made_up

N_LABELS, N_FEATURES = 7, 3
LABELS = np.array([2, 0, 5, 2])
DRAWN = np.array([1, 3, 3, 6, 0])


def minibatch(turns, size=4):
    """The weights and u after the first examples of a minibatch."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(N_LABELS, N_FEATURES))
    inputs = rng.normal(size=(len(LABELS), N_FEATURES))
    state = np.full(len(LABELS), 2.0)
    rows = slice(size)
    u = implicit_minibatches.step(
        weights, inputs[rows], LABELS[rows], DRAWN, 3.0, state[rows], {"turns": turns}
    )
    return weights, u, inputs


def test_the_first_turn_is_single_steps_one_after_another():
    weights, u, inputs = minibatch(turns=1)
    rng = np.random.default_rng(0)
    one_by_one = rng.normal(size=(N_LABELS, N_FEATURES))
    for e, label in enumerate(LABELS):
        u_of_one = implicit_minibatches.step(
            one_by_one, inputs[[e]], LABELS[[e]], DRAWN, 3.0, np.array([2.0]), {"turns": 1}
        )
        assert u_of_one[0] == pytest.approx(u[e], rel=1e-5), label
    np.testing.assert_allclose(weights, one_by_one, atol=1e-5)


def test_turns_come_to_a_joint_step_that_a_further_turn_leaves_as_it_is():
    first, *_ = minibatch(turns=1)
    many, u, _ = minibatch(turns=200)
    more, u_of_more, _ = minibatch(turns=201)
    np.testing.assert_allclose(many, more, atol=1e-4)
    np.testing.assert_allclose(u, u_of_more, atol=1e-4)
    assert np.abs(many - first).max() > 0.01


def test_a_single_example_needs_no_second_turn():
    once, *_ = minibatch(turns=1, size=1)
    twice, *_ = minibatch(turns=2, size=1)
    np.testing.assert_array_equal(once, twice)


def test_a_first_visit_begins_at_the_draws_estimate_of_the_ratio():
    z = np.array([[1.0, 2.0, -1.0]])
    u = implicit_minibatches.log_ratio(z, np.array([1]), np.array([2, 1, 0]), np.log(0.5))
    assert u[0] == pytest.approx(np.log(1 + 2 / 0.5 * np.exp(1.0 - 2.0)))


def test_the_table_of_minibatches_has_a_row_for_each_number_of_turns_and_epochs(tmp_path):
    def run(rate, turns, loss, seed=1):
        job = {"data": "bibtex", "size": 10, "turns": turns, "epochs": 5}
        losses = {"log_loss": loss}
        return job | {"rate": rate, "seed": seed}, {"train": losses, "test": losses}

    runs = [run(1.0, 1, 2.0), run(1.0, 1, 2.5, seed=2), run(1.0, 3, 1.5), run(10.0, 3, None)]
    lines = implicit_minibatches.results_of("bibtex")(made_up(tmp_path / "r", runs, mixed=True))
    first, second = lines.splitlines()[2:4]
    assert first.startswith(f"| 10 | 1 | 5 | {mean_and_deviation([2.0, 2.5])} | – |")
    assert second.startswith("| 10 | 3 | 5 | 1.500 | diverged |")


@pytest.mark.parametrize("objective", step_sizes.OBJECTIVES)
def test_each_objective_has_a_default_rate(objective):
    assert step_sizes.rate_of(objective) > 0


def test_a_rate_at_which_runs_diverge_or_fail_is_named_so():
    fine = {"rate": 1.0, "heldout": {"log_likelihood": -8.0, "unigram": -8.5}}
    diverged = {"error": "embedx.errors.DivergedError: at 1 % of the run"}
    assert step_sizes.cell([fine, fine]) == mean_and_deviation([-8.0, -8.0])
    assert step_sizes.cell([fine, diverged]) == "diverged: 1 of 2"
    assert step_sizes.cell([{"error": "MemoryError"}, diverged]) == "failed: 2 of 2"
