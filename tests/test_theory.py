"""What the papers prove of their losses, found again in the compiled ones."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from embedx.testing.objectives import Candidates, Conditions, evaluate
from tests.support.objectives import make


def all_drawn(z, y):
    """One example whose other classes are all drawn once, as expected."""
    label = np.eye(len(z))[y]
    return Candidates(z, label, 1.0 - label, np.zeros(len(z)))


def one_drawn(z, y, k, times=1.0):
    """One example for which class k alone is drawn, and stands for so many."""
    drawn = np.zeros(len(z))
    drawn[k] = 1
    return Candidates(z, np.eye(len(z))[y], drawn, np.full(len(z), -np.log(times)))


# ---- Titsias 2016, proposition 3


@pytest.mark.parametrize("counts", [(30, 10), (7, 3), (1, 99)])
def test_bouchards_bound_doubles_the_log_odds_of_two_classes(counts):
    objective = make("bouchard")

    def bound(z):
        level = objective.optimal_state(z[None], np.ones((1, 2)))
        parts = [evaluate(objective, all_drawn(z, y), level) for y in (0, 1)]
        loss = sum(n * part.loss for n, part in zip(counts, parts, strict=True))
        slope = sum(n * part.slopes[0] for n, part in zip(counts, parts, strict=True))
        return loss, slope

    options = {"ftol": 1e-15, "gtol": 1e-10}
    optimum = minimize(bound, np.zeros(2), jac=True, method="L-BFGS-B", options=options)
    odds = np.log(counts[0] / counts[1])
    assert optimum.x[0] - optimum.x[1] == pytest.approx(2 * odds, rel=1e-4)


# ---- Fagan & Iyengar 2018


def double_sum(u, z, y):
    """Equation 5: the double sum of one example over all classes."""
    others = np.delete(z, y)
    return u + np.exp(-u) * (1 + np.exp(others - z[y]).sum())


@pytest.mark.parametrize("threshold", [0.25, 1.0])
def test_a_raise_of_u_max_lowers_the_double_sum_by_half_the_square_of_its_threshold(threshold):
    """Lemma 5, and by half the square of how far u was raised, as its proof has it."""
    rng = np.random.default_rng(0)
    objective = make("umax", double_sum="proposed", threshold=threshold)
    n_raised = 0
    for _ in range(200):
        z = rng.normal(0, 3, 6)
        k = int(rng.integers(1, 6))
        before = rng.exponential(1)
        seen = np.log1p(np.exp(z[k] - z[0]))
        state = evaluate(objective, one_drawn(z, 0, k), np.array([[before]])).state
        after = state[0, 0]
        if before > seen - threshold:
            assert after == pytest.approx(before)
            continue
        n_raised += 1
        assert after == pytest.approx(seen)
        decrease = double_sum(before, z, 0) - double_sum(after, z, 0)
        assert decrease >= (after - before) ** 2 / 2 - 1e-9
        assert decrease >= threshold**2 / 2 - 1e-9
    assert n_raised > 20


class Term:
    """The loss of one example and one drawn class that stands for all, by u and the rows of both
    along the input, whose squared length is `gain`: the theta of proposition 1.
    """

    def __init__(self, times, gain):
        self.times = times
        self.length = np.sqrt(gain)

    def gradient(self, theta):
        u, drawn, positive = theta
        mass = self.times * np.exp(self.length * (drawn - positive) - u)
        return np.array([1 - np.exp(-u) - mass, self.length * mass, -self.length * mass])

    def curvature(self, theta, direction):
        u, drawn, positive = theta
        mass = self.times * np.exp(self.length * (drawn - positive) - u)
        along = self.length * (direction[1] - direction[2]) - direction[0]
        return np.exp(-u) * direction[0] ** 2 + mass * along**2


@pytest.mark.parametrize("rate", [1e-3, 0.1, 1.0, 100.0])
def test_an_implicit_step_is_smaller_than_that_of_sgd_by_the_convexity_of_its_loss(rate):
    """Proposition 1, with the least curvature between for the constant of convexity."""
    rng = np.random.default_rng(1)
    objective = make("implicit", double_sum="proposed")
    times = 4.0
    for gap in (-3.0, 0.0, 3.0, 20.0):
        gain = float(rng.uniform(0.3, 3))
        z = np.array([0.0, gap])
        before = 1.5
        conditions = Conditions(
            n_updates=5, lr=rate, score_gain=np.full((1, 2), gain), n_draws=1, n_classes=5
        )
        step = evaluate(objective, one_drawn(z, 0, 1, times), np.array([[before]]), conditions)
        coefficients = step.slopes[0]

        term = Term(times, gain)
        start = np.array([before, z[1], z[0]]) / [1, term.length, term.length]
        moved = rate * term.length * coefficients[[1, 0]]
        end = np.array([step.state[0, 0], start[1] - moved[0], start[2] - moved[1]])
        np.testing.assert_allclose(start - end, rate * term.gradient(end), rtol=1e-6, atol=1e-9)

        direction = (end - start) / np.linalg.norm(end - start)
        between = np.linspace(start, end, 101)
        convexity = min(term.curvature(theta, direction) for theta in between)
        explicit, implicit = (np.linalg.norm(term.gradient(theta)) for theta in (start, end))
        assert convexity > 0
        bound = explicit - convexity * np.linalg.norm(end - start)
        assert implicit <= bound + 1e-6 * explicit


def proximal_step_of_both_factors(inputs, rows, y, rate):
    """The end of the step on a softmax of all rows, by a dense solver."""
    n_numbers = inputs.size
    examples = np.arange(len(y))

    def moved(step):
        return (
            inputs + step[:n_numbers].reshape(inputs.shape),
            rows + step[n_numbers:].reshape(rows.shape),
        )

    def value_and_gradient(step):
        h, w = moved(step)
        log_p = log_softmax(h @ w.T, axis=1)
        slopes = np.exp(log_p)
        slopes[examples, y] -= 1
        gradient = np.concatenate([(slopes @ w).ravel(), (slopes.T @ h).ravel()])
        return step @ step / (2 * rate) - log_p[examples, y].sum(), gradient + step / rate

    start = 1e-3 * np.random.default_rng(1).normal(size=n_numbers + rows.size)
    options = {"maxiter": 5000, "gtol": 1e-9, "ftol": 1e-15}
    solved = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
    return moved(solved.x)


@pytest.mark.parametrize("rate", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("size", [0.01, 0.3])
def test_a_proximal_step_in_both_factors_is_no_longer_than_its_scores_need(size, rate):
    """The step stays in the span of the rows (docs/derivations.md#steps-in-both-factors)."""
    rng = np.random.default_rng(0)
    inputs = size * rng.normal(size=(3, 16))
    rows = size * rng.normal(size=(5, 16))
    h, w = proximal_step_of_both_factors(inputs, rows, np.array([0, 1, 1]), rate)
    squared_length = ((h - inputs) ** 2).sum() + ((w - rows) ** 2).sum()
    moves = h @ w.T - inputs @ rows.T
    assert 0.5 < squared_length <= 2 * np.linalg.norm(moves, "nuc")

    span = np.linalg.qr(np.vstack([inputs, rows]).T)[0]
    steps = np.vstack([h - inputs, w - rows])
    np.testing.assert_allclose(steps @ span @ span.T, steps, atol=0.01)


# ---- Bamler & Mandt 2020, theorem 2


def signal_to_noise(p, noise):
    """Equation 12 at the optimum over free scores of one input, and the trace of the Hessian, from
    the gradients of the compiled loss, each of one positive and one draw.
    """
    objective = make("ns", negatives=1)
    n = len(p)
    optimum = np.log(p / noise)
    conditions = Conditions(n_draws=1, n_classes=n)

    def slopes(z):
        """The slope of each class, as the positive and as the draw."""
        pairs = [evaluate(objective, one_drawn(z, y, y - 1), None, conditions) for y in range(n)]
        positive = [pair.slopes[0, y] for y, pair in enumerate(pairs)]
        drawn = [pairs[(k + 1) % n].slopes[0, k] for k in range(n)]
        return np.array(positive), np.array(drawn)

    positive, drawn = slopes(optimum)
    np.testing.assert_allclose(p * positive + noise * drawn, 0, atol=1e-12)
    gradients = np.diag(positive)[:, None] + np.diag(drawn)[None]
    weights = np.outer(p, noise)
    covariance = np.einsum("yk,yki,ykj->ij", weights, gradients, gradients)

    step = 1e-5
    hessian = np.empty(n)
    for k in range(n):
        ends = []
        for sign in (1, -1):
            z = optimum.copy()
            z[k] += sign * step
            positive, drawn = slopes(z)
            ends.append(p[k] * positive[k] + noise[k] * drawn[k])
        hessian[k] = (ends[0] - ends[1]) / (2 * step)
    return 1 / np.trace(covariance / hessian), hessian.sum()


def test_noise_that_is_the_distribution_of_the_labels_has_the_most_signal_for_its_noise():
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(5)) + 0.02
    p /= p.sum()
    best, curvature = signal_to_noise(p, p)
    assert curvature == pytest.approx(1 / 2, rel=1e-6)
    assert best == pytest.approx(1 / (len(p) - 1), rel=1e-5)
    others = [np.full(5, 0.2), *(0.9 * rng.dirichlet(np.ones(5), 20) + 0.02)]
    for noise in others:
        ratio, curvature = signal_to_noise(p, noise / noise.sum())
        assert ratio < best
        assert curvature < 1 / 2
