"""`ar-probit` and `ar-logistic`: the distribution of the utility, its steps, the bound, and the
probabilities of classes.
"""

import numpy as np
import pytest
import reference_state
from scipy import optimize, special

from tests.support.distribution_states import LAWS
from tests.support.objective_state import K, sampled_weights, scores, take_step
from tests.support.objectives import make


@LAWS
@pytest.mark.parametrize("entropy", [True, False])
def test_ar_beyond_the_softmax_is_algorithm_2(name, law, entropy):
    z = scores(16)
    y = 1
    sampled = (0, 3, 5)
    uniforms = (0.8, 0.15)
    objective = make(name, augment="noise", entropy=entropy)
    mu, gamma, gradient = reference_state.general_augment_reduce_step(
        0.4, 0.2, 0.01 * 4**-0.9, law.quantile(uniforms), law, z, y, sampled, K, entropy
    )
    _, slopes, state = take_step(
        objective, z, y, sampled_weights(sampled), state=(0.4, 0.2), n_updates=3, uniforms=uniforms
    )
    np.testing.assert_allclose(state, [mu, gamma], rtol=1e-7)  # the rate is a float32
    np.testing.assert_allclose(slopes, gradient, atol=1e-8)


@LAWS
def test_the_distribution_of_the_utility_takes_the_same_local_step(name, law):
    z = scores(17)
    weights = sampled_weights((0, 3, 5))
    at = {"n_updates": 3, "uniforms": (0.8, 0.15)}
    _, of_noise, noise = take_step(
        make(name, augment="noise"), z, 1, weights, state=(0.4, 0.2), **at
    )
    _, of_utility, utility = take_step(make(name), z, 1, weights, state=(0.4 + z[1], 0.2), **at)
    np.testing.assert_allclose(utility - [z[1], 0], noise)
    np.testing.assert_allclose(of_utility[[0, 3, 5]], of_noise[[0, 3, 5]])


def standard_nodes(law):
    """Uniforms and weights whose quantiles are a Gauss quadrature for the law."""
    if law is reference_state.Normal:
        x, weight = np.polynomial.hermite_e.hermegauss(20)
        return special.ndtr(x), weight / weight.sum()
    x = np.linspace(-30, 30, 121)
    return special.expit(x), 0.5 * special.expit(x) * special.expit(-x)


def mean_loss(objective, law, z, y, state):
    nodes, weight = standard_nodes(law)
    return sum(
        w * take_step(objective, z, y, np.ones(K), state=state, uniforms=(0.5, u))[0]
        for u, w in zip(nodes, weight, strict=True)
    )


@LAWS
def test_expected_loss_is_the_bound_and_never_below_the_exact_loss(name, law):
    objective = make(name)
    z = scores(18)
    y = 3
    exact = -objective.log_probability(z, np.zeros(K))[y]
    for gamma in (-1.0, 0.5):
        loss = mean_loss(objective, law, z, y, (1.3, gamma))
        assert loss == pytest.approx(
            -reference_state.elbo(law, 1.3, np.log1p(np.exp(gamma)), z, y), abs=1e-6
        )
        assert loss > exact
    best = objective.optimal_state(z[None], np.eye(K)[[y]])[0]
    assert exact < mean_loss(objective, law, z, y, best) < exact + 0.05
    for place in np.ndindex(2):
        for move in (-0.1, 0.1):
            assert mean_loss(objective, law, z, y, best + move * np.eye(2)[place]) > mean_loss(
                objective, law, z, y, best
            )


@LAWS
def test_local_steps_climb_the_bound_entropy_included(name, law):
    """On average over the draws a step is the gradient of the ELBO by μ and γ."""
    z = scores(19)
    y = 2
    at = np.array([0.9, 0.3])
    small = 1e-3
    objective = make(name, local_rate=small, local_decay=0.0)
    nodes, weight = standard_nodes(law)
    states = [
        take_step(objective, z, y, np.ones(K), state=at, n_updates=1, uniforms=(u, 0.5))[2]
        for u in nodes
    ]
    step = weight @ (np.array(states) - at)

    def elbo(state):
        return reference_state.elbo(law, state[0], np.log1p(np.exp(state[1])), z, y)

    for i in range(2):
        slope = (elbo(at + 1e-4 * np.eye(2)[i]) - elbo(at - 1e-4 * np.eye(2)[i])) / 2e-4
        assert step[i] / small == pytest.approx(slope, abs=1e-3)


@LAWS
def test_a_draw_of_large_weight_moves_the_location_by_at_most_1(name, law):
    z = np.array([0.0, 5.0, 0, 0, 0, 0])
    _, _, state = take_step(
        make(name), z, 0, np.full(K, 1e6), state=(0.0, 0.5), n_updates=1, uniforms=(0.9, 0.5)
    )
    assert np.abs(state - [0.0, 0.5]).max() <= 1


def bend(f, x):
    """How strongly a function is curved downwards."""
    return (2 * f(x) - f(x - 1e-3) - f(x + 1e-3)) / 1e-6


@LAWS
def test_the_first_distribution_has_the_curvature_of_the_log_joint_at_its_mode(name, law):
    """With logistic noise where it would if all distribution functions were exponentials."""
    z = scores(20)
    y = 2
    others = np.delete(z, y)

    def log_joint(t):
        return law.log_density(t - z[y]) + law.log_cdf(t - others).sum()

    peak = {
        "ar-probit": (
            optimize.minimize_scalar(
                lambda t: -log_joint(t), bracket=(z[y], z.max() + 3), tol=1e-12
            ).x
        ),
        "ar-logistic": np.log(2 * np.exp(z[y]) + np.exp(others).sum()),
    }[name]
    _, _, state = take_step(make(name, local_rate=0.0), z, y, np.ones(K), n_updates=0)
    assert state[0] == pytest.approx(peak, abs=1e-4)
    assert np.log1p(np.exp(state[1])) == pytest.approx(
        (bend(law.log_density, 0.0) / bend(log_joint, peak)) ** 0.5, rel=1e-3
    )


@LAWS
@pytest.mark.parametrize("n_classes", [3, 10, 50])
@pytest.mark.parametrize("gap", [1, 20])
def test_probabilities_are_scipys_quadrature_for_the_likely_and_the_unlikely(
    name, law, n_classes, gap
):
    z = np.random.default_rng(21).uniform(0, gap, n_classes)
    z[:2] = 0, gap
    log_p = make(name).log_probability(z, np.zeros(n_classes))
    for y in (0, 1, 2):
        assert log_p[y] == pytest.approx(
            reference_state.log_probability(law, z, y), rel=1e-9, abs=1e-9
        )
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-9)


def test_two_classes_of_noise_have_a_closed_form():
    """The difference of two normals is normal; that of two logistics has this distribution
    function.
    """
    for d in (-3.0, 0.7, 6.0):
        z = np.array([d, 0.0])
        assert np.exp(make("ar-probit").log_probability(z, z)[0]) == pytest.approx(
            special.ndtr(d / np.sqrt(2))
        )
        logistic = (1 - np.exp(-d) - d * np.exp(-d)) / (1 - np.exp(-d)) ** 2
        assert np.exp(make("ar-logistic").log_probability(z, z)[0]) == pytest.approx(logistic)
