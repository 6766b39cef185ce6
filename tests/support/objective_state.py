"""One example of an objective that keeps a state: its scores, its draws and its step."""

import numpy as np

from embedx.kernels.batch import new_batch
from embedx.testing.objectives import FROZEN, coefficients_of

K = 6


def take_step(
    objective,
    z,
    y,
    weights,
    *,
    state=0.0,
    n_updates=FROZEN,
    lr=0.0,
    score_gain=1.0,
    uniforms=0.5,
    dtype=np.float64,
    n_pairs=1,
):
    """Loss, coefficients and the new state of one example. Its candidates are all rows of z, drawn
    with these weights. By default the state does not move.
    """
    n = len(z)
    batch = new_batch(1, n, objective.uniforms_width, dtype)
    batch.z[0] = z
    batch.label[0, y] = n_pairs
    batch.sample_count[0] = np.array(weights) > 0
    batch.sample_count[0, y] = 0
    batch.log_expected_count[0] = -np.log(np.where(batch.sample_count[0] > 0, weights, 1))
    batch.uniforms[0], batch.n_updates[0], batch.score_gain[0] = uniforms, n_updates, score_gain
    states = np.full((1, objective.state_width), 0, dtype)
    states[0] = state
    coefficients = coefficients_of(objective, dtype)
    loss = coefficients(batch, states, objective.constants(n - 1, n).astype(dtype), 1, n, dtype(lr))
    return float(loss), batch.z[0], states[0]


def scores(seed=0, size=1.5):
    return np.random.default_rng(seed).normal(0, size, K)


def sampled_weights(sampled, n_classes=K):
    """The weight of each class: drawn ones stand for all others, the rest is 0."""
    weights = np.zeros(n_classes)
    weights[list(sampled)] = (n_classes - 1) / len(sampled)
    return weights
