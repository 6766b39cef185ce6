"""Implicit SGD: each step is the proximal point of the double sum, at any rate and any scores."""

import numpy as np
import pytest
import reference_state
from scipy import optimize, special

from embedx.testing.objectives import FROZEN
from tests.support.objective_state import K, sampled_weights, scores, take_step
from tests.support.objectives import make


@pytest.mark.parametrize(
    ("double_sum", "n_pairs"),
    [("proposed", (1,)), ("raman", (1,)), ("raman", (4,)), ("raman", (1, 1)), ("raman", (2, 1, 3))],
)
@pytest.mark.parametrize(
    ("gap", "drawn", "lr", "score_gain"),
    [
        (1, 1, 0.5, 3.0),
        (3, 3, 0.05, 0.7),
        (30, 2, 2.0, 1.0),
        (-20, 3, 1.0, 9.0),
        (3, 2, 1.0, np.linspace(0.2, 4, K)),
    ],
)
def test_implicit_minimises_the_proximal_objective(double_sum, n_pairs, gap, drawn, lr, score_gain):
    """With one positive or several, and any number of pairs for each."""
    z = scores(12)
    relative = double_sum == "proposed"
    label = np.pad(n_pairs, (0, K - len(n_pairs)))
    z[3] += gap
    weights = sampled_weights(range(3, 3 + drawn))
    before = 1.5 if relative else z[label > 0].max() + 1.5
    at = {"state": before, "n_updates": 5, "lr": lr, "score_gain": score_gain, "n_pairs": n_pairs}
    _, step, state = take_step(
        make("implicit", double_sum=double_sum), z, np.flatnonzero(label), weights, **at
    )

    def proximal(x):
        is_met = (weights > 0) | (label > 0)
        if relative:
            freedom = None
        else:
            freedom = reference_state.freedom_of_log_z(5, sum(n_pairs), lr, score_gain * is_met)
        return reference_state.proximal_objective(
            x[0], x[1:], before, z, label, weights, lr, score_gain, relative, freedom
        )

    end = np.concatenate([state, z - lr * score_gain * step])
    optimum = optimize.minimize(proximal, end + 0.1, method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(end, optimum.x, atol=1e-4)
    assert proximal(end) <= optimum.fun + 1e-12 * abs(optimum.fun)


def gradient_at_the_end(double_sum, u, z, y, weights):
    """∂loss/∂z and ∂loss/∂u of the double sum."""
    if double_sum == "proposed":
        gradient = weights * np.exp(np.where(weights > 0, z - z[y] - u, 0))
        gradient[y] = -gradient.sum()
        return gradient, 1 - np.exp(-u) + gradient[y]
    gradient = weights * np.exp(np.where(weights > 0, z - u, 0))
    gradient[y] = np.exp(z[y] - u) - 1
    return gradient, -gradient.sum()


@pytest.mark.parametrize("double_sum", ["raman", "proposed"])
def test_an_implicit_step_is_the_gradient_at_its_end(double_sum):
    rng = np.random.default_rng(13)
    for gap in (-50, -1, 0, 5, 50, 500, 1e4):
        for drawn in (1, 4):
            z = rng.normal(0, 1, K)
            y = 5
            z[0] += gap
            weights = 1e3 * sampled_weights(range(drawn))
            lr = 10 ** rng.uniform(-3, 1)
            score_gain = 10 ** rng.uniform(-2, 1)
            before = 0.5 if double_sum == "proposed" else z[y] + 0.5
            implicit = make("implicit", double_sum=double_sum)
            at = {"state": before, "n_updates": 5, "lr": lr, "score_gain": score_gain}
            _, step, (u,) = take_step(implicit, z, y, weights, **at)
            gradient, slope = gradient_at_the_end(
                double_sum, u, z - lr * score_gain * step, y, weights
            )
            if double_sum == "proposed":
                freedom = lr
            else:
                freedom = reference_state.freedom_of_log_z(
                    5, 1, lr, score_gain * np.ones(1 + drawn)
                )
            np.testing.assert_allclose(step, gradient, rtol=1e-10 * (1 + abs(gap)), atol=1e-12)
            assert u == pytest.approx(before - freedom * slope, rel=1e-9)
            loss, rounded, state = take_step(implicit, z, y, weights, dtype=np.float32, **at)
            assert np.isfinite(loss)
            np.testing.assert_allclose(rounded, step, rtol=1e-5, atol=1e-5 * np.abs(step).max())
            assert state[0] == pytest.approx(u, rel=1e-5)


def log_softmax_of_draws(z, y, weights):
    """log p_y with the normaliser as the draws estimate it."""
    weighed = np.flatnonzero((weights > 0) | (np.arange(len(z)) == y))
    return z[y] - special.logsumexp(z[weighed], b=np.where(weighed == y, 1, weights[weighed]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_updates", [0, 1, 3, 1000])
def test_an_implicit_step_at_log_z_is_bounded_and_never_overshoots_at_any_rate_and_scores(
    n_updates, dtype
):
    """From a first visit on, where the step is that of the sampled softmax, to where log Z is a
    running mean.
    """
    rng = np.random.default_rng(17)
    implicit = make("implicit")
    exact = 1e-9 if dtype is np.float64 else 2e-5
    for rate in 10.0 ** np.arange(-6, 7):
        for size in (0.1, 3, 100):
            z = scores(rng.integers(1000), size).astype(dtype).astype(float)
            y = rng.integers(K)
            weights = 10 ** rng.uniform(-2, 4) * sampled_weights(np.delete(np.arange(K), y)[:3])
            before = special.logsumexp(z) + rng.normal()
            at = {"state": before, "n_updates": n_updates, "lr": rate, "dtype": dtype}
            _, step, (u,) = take_step(implicit, z, y, weights, **at)
            seen = (weights > 0) | (np.arange(K) == y)
            end = z - rate * step
            assert np.isfinite([*step, u]).all()
            assert (step[~seen] == 0).all()
            assert step[y] >= -1 - exact  # what a label is pulled by at most
            # no other row is pushed further than to where nothing pushes it
            assert np.delete(step, y).min() >= 0
            if n_updates == 0:
                assert abs(step.sum()) <= exact * np.abs(step).sum() + exact
                assert np.abs(step).max() <= 1 + exact
                slope = np.where(
                    seen,
                    np.exp(np.where(seen, end, 0) + np.log(np.where(weights > 0, weights, 1)) - u),
                    0,
                )
                if dtype is np.float64 and rate <= 1e3:
                    np.testing.assert_allclose(step, slope - np.eye(K)[y], rtol=1e-6, atol=1e-8)
                assert (
                    log_softmax_of_draws(end, y, weights)
                    >= log_softmax_of_draws(z, y, weights) - exact * size
                )
            else:
                u_0 = max(before, z[y])
                assert abs(step.sum()) <= abs(u - u_0) / rate + exact * (
                    1 + np.abs(step).sum() + abs(u) / rate
                )


def test_the_default_of_implicit_is_ours_and_at_large_rates_a_complementary_sampled_softmax():
    implicit = make("implicit")
    rate = 1e6
    z = scores(18)
    y = 0
    weights = sampled_weights((1, 3))
    _, step, _ = take_step(implicit, z, y, weights, state=1.7, n_updates=1000, lr=rate)
    end = z - rate * step
    _, gradient, _ = take_step(make("complementary-sum"), end, y, weights)
    np.testing.assert_allclose(step, gradient, atol=1e-5)
    assert (
        implicit.about.paper
        == "a variant of Fagan & Iyengar 2018, whose own method is `--set double-sum=proposed`"
    )
    assert implicit.settings.double_sum != "proposed"


def test_implicit_without_a_step_is_the_gradient():
    z = scores(14)
    weights = sampled_weights((0, 2))
    for double_sum in ("raman", "proposed"):
        for score_gain in (0.0, 1.0):
            at = {"state": 3.0, "n_updates": FROZEN}
            _, step, state = take_step(
                make("implicit", double_sum=double_sum), z, 1, weights, score_gain=score_gain, **at
            )
            _, gradient, _ = take_step(make("umax", double_sum=double_sum), z, 1, weights, **at)
            np.testing.assert_allclose(step, gradient, rtol=1e-9)
            assert state[0] == pytest.approx(3.0, abs=1e-12)


def test_implicit_without_a_step_takes_log_z_for_a_running_mean():
    """The step in the scores is then the gradient."""
    z = scores(14)
    weights = sampled_weights((0, 2))
    for n_updates in (1, 5, 100):
        _, step, state = take_step(make("implicit"), z, 1, weights, state=3.0, n_updates=n_updates)
        _, gradient, _ = take_step(
            make("umax", threshold=1e9), z, 1, weights, state=state[0], n_updates=FROZEN
        )
        np.testing.assert_allclose(step, gradient, rtol=1e-9)
        freedom = reference_state.freedom_of_log_z(n_updates, 1, 0.0, 1.0)
        assert state[0] == pytest.approx(3.0 + freedom * step.sum(), rel=1e-9)


def test_implicit_steps_in_turns_minimise_the_proximal_objective_of_a_minibatch():
    """Each example's step with those of the others held fixed; the first turn is the steps of one
    example after another.
    """
    rng = np.random.default_rng(3)
    inputs = rng.normal(0, 1, (3, 2))
    before = rng.normal(0, 1, (K, 2))
    labels = np.eye(K)[[0, 1, 0]]
    weights = sampled_weights(range(2, 5))
    lr = 2.0
    gram = inputs @ inputs.T
    u0 = np.full(3, 4.0)
    u = np.zeros(3)
    steps = np.zeros((3, K))
    for _ in range(300):
        for e in range(3):
            others = gram[e] @ steps - gram[e, e] * steps[e]
            z = before @ inputs[e] - lr * others
            at = {"state": u0[e], "n_updates": 5, "lr": lr, "score_gain": gram[e, e]}
            _, step, (u[e],) = take_step(make("implicit"), z, labels[e].argmax(), weights, **at)
            steps[e] = step

    freedom = [
        reference_state.freedom_of_log_z(5, 1, lr, gram[e, e] * ((weights > 0) | (labels[e] > 0)))
        for e in range(3)
    ]

    def proximal(x):
        return reference_state.proximal_objective_of_minibatch(
            x[:3], x[3:].reshape(K, 2), u0, before, inputs, labels, weights, lr, freedom
        )

    end = np.concatenate([u, (before - lr * steps.T @ inputs).ravel()])
    optimum = optimize.minimize(proximal, end + 0.1, method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(end, optimum.x, atol=1e-4)
