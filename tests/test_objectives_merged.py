"""Objectives that take all pairs of an input as one example: its loss is the sum over the pairs."""

from typing import NamedTuple

import numpy as np
import pytest

from embedx.testing.objectives import Candidates, Conditions, evaluate
from tests.support.objectives import ALL

N = 9  # candidates
MERGING = {name: objective for name, objective in ALL.items() if objective.traits.merges_pairs}
EVERY_OBJECTIVE = pytest.mark.parametrize("objective", MERGING.values(), ids=MERGING)


class Line(NamedTuple):
    """Labels and counts of the candidates of one example, (N,) each."""

    label: np.ndarray
    sample_count: np.ndarray
    log_expected_count: np.ndarray


def pairs_of(objective, seed=0, counts=(2, 1, 3)):
    """Scores (N,), a line of the pairs with positives that occur `counts` times, and a line for
    each pair alone.
    """
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, N)
    if "path" in objective.candidates:
        alone = [path for count in counts for path in [path_of(rng)] * count]
        return z, Line(*(sum(parts) for parts in zip(*alone, strict=True))), alone
    places = rng.permutation(N)
    positives = places[: len(counts)]
    certain = places[len(counts) : len(counts) + 2]
    left_out = places[-1]
    sample_count = rng.choice([1.0, 2.0], N)
    if objective.traits.uses_log_expected_count:
        log_expected_count = np.log(rng.uniform(0.2, 0.8, N))
    else:
        log_expected_count = np.zeros(N)
    # centres that the input does not meet
    sample_count[certain], log_expected_count[certain] = 1, 0
    if objective.candidates == ("all",):
        sample_count[:], log_expected_count[:] = 1, 0
    sample_count[left_out] = log_expected_count[left_out] = 0
    label = np.zeros(N)
    label[positives] = counts
    merged = Line(
        label, np.where(label > 0, 0, sample_count), np.where(label > 0, 0, log_expected_count)
    )
    alone = []
    for y in positives:
        negatives = merged.sample_count.copy()
        log_expected_of_negatives = merged.log_expected_count.copy()
        negatives[positives], log_expected_of_negatives[positives] = 1, 0
        negatives[y] = 0
        alone += [Line(np.eye(N)[y], negatives, log_expected_of_negatives)] * int(label[y])
    return z, merged, alone


def path_of(rng):
    """The turns of one path from the root of a tree."""
    depth = rng.integers(2, N)
    bits = np.where(np.arange(N) < depth, rng.integers(0, 2, N), 0).astype(float)
    return Line(bits, np.where(np.arange(N) < depth, 1 - bits, 0), np.zeros(N))


def state_near_the_best(objective, z, line, move=0.3):
    """A state (1, width) that far from the best one."""
    is_candidate = (line.label > 0) | (line.sample_count > 0)
    return objective.optimal_state(np.where(is_candidate, z, -30.0)[None], line.label[None]) + move


@EVERY_OBJECTIVE
@pytest.mark.parametrize("counts", [(1, 1), (2, 1, 3), (1,), (4,)], ids=str)
@pytest.mark.parametrize("move", [-0.3, 0.0, 2.0])
def test_a_line_of_several_pairs_is_the_sum_of_the_pairs_alone(objective, counts, move):
    for seed in range(2):
        z, merged, alone = pairs_of(objective, seed, counts)
        state = state_near_the_best(objective, z, merged, move)
        conditions = Conditions(n_classes=N)
        loss, slopes, after = evaluate(objective, Candidates(z, *merged), state, conditions)
        pairs = [evaluate(objective, Candidates(z, *line), state, conditions) for line in alone]
        losses, coefficients, states = zip(*pairs, strict=True)
        assert loss == pytest.approx(sum(losses), rel=1e-9)
        np.testing.assert_allclose(slopes, sum(coefficients), rtol=1e-9, atol=1e-9)
        for state_of_pair in states:
            np.testing.assert_allclose(after, state_of_pair, atol=1e-9)


@pytest.mark.parametrize(
    "objective",
    [objective for objective in MERGING.values() if objective.traits.stable],
    ids=lambda objective: objective.name,
)
def test_several_pairs_are_finite_at_extreme_scores(objective):
    _, merged, _ = pairs_of(objective, seed=7)
    heavier = merged._replace(log_expected_count=merged.log_expected_count - 5)
    rng = np.random.default_rng(8)
    state = None
    for n_updates in (0, 1, 50):
        for best in (-1e4, 1e4, 0):
            z = 1e4 * rng.choice([-1.0, 0.0, 1.0], N)
            z = np.where(merged.label > 0, best or z, z)
            candidates = Candidates(z, *heavier)
            conditions = Conditions(n_updates, lr=0.5, dtype=np.float32, n_classes=N)
            loss, coefficients, state = evaluate(objective, candidates, state, conditions)
            assert np.isfinite(loss)
            assert np.isfinite(coefficients).all()
            assert np.isfinite(state).all()


def test_the_objectives_that_merge_pairs_are_those_that_keep_one_thing_for_all_positives():
    """The variants that keep something of the one positive do not."""
    assert {
        "softmax",
        "hs",
        "ar",
        "umax",
        "implicit",
        "sgd-double-sum",
        "scgd",
        "complementary-sum",
        "bouchard",
        "ar-probit",
        "ar-logistic",
    } <= set(MERGING)
    for name, objective in ALL.items():
        if "augment=noise" in name or "double_sum=proposed" in name:
            assert not objective.traits.merges_pairs
