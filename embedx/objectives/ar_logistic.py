"""Augment and reduce for the multinomial logistic: utilities with logistic noise instead of the
softmax's Gumbel noise.

Ruiz et al. 2018, section 3.2 and algorithm 2; the model and the bound are in `utility`, here with q
logistic and σ the sigmoid, t = μ + β x from q and weight_k = n_k / E[n_k]:
    loss = -log σ(t - z_y) σ(z_y - t) - Σ_k weight_k log σ(t - z_k) - log β - 2
    ∂loss/∂z_k = weight_k σ(z_k - t)
    ∂loss/∂z_y = 1 - 2σ(t - z_y), or -Σ_k ∂loss/∂z_k with a fixed distribution of the noise
    local step, at another x:  s = 1 - 2σ(t - z_y) + Σ_k weight_k σ(z_k - t)
        μ += rate · s,  γ += rate · (s x + 1/β) · dβ/dγ,  β = softplus(γ)
        rate = local_rate (1 + n_updates)^-local_decay
At t = z_y it is one-vs-each. The first visit of an input starts near the mode of the log joint of
its candidates; see docs/derivations.md.
"""

import numpy as np
from numpy import ndarray

from embedx.kernels import ONE, TWO, ZERO, kernel, kernel_part, sigmoid, softplus
from embedx.objectives import utility
from embedx.objectives.contract import About
from embedx.objectives.normal_scores import FAR, Noise
from embedx.objectives.parts import (
    best_positive,
    log_sigmoid,
    log_sums,
    n_positives,
    negative_weight,
    positive,
)
from embedx.objectives.utility import gap_to


@kernel_part
def joint_slope(batch, e, n, n_labels, t):
    """The derivative of the log joint at t, averaged over the positives."""
    label = batch.label
    slope = ZERO
    for k in range(n):
        win = sigmoid(-gap_to(batch, e, k, t))
        slope += negative_weight(batch, e, k, n_labels) * win + label[e, k] * (TWO * win - ONE)
    return slope / n_labels


@kernel_part
def first_distribution(batch, e, n, n_labels):
    """(location, scale): near the mode of the log joint, and the scale of the logistic density of
    the same curvature there.
    """
    label = batch.label
    estimate, _ = log_sums(batch, e, n)
    t = estimate + softplus(best_positive(batch, e, n) - estimate)
    curvature = ZERO
    for k in range(n):
        win = sigmoid(-gap_to(batch, e, k, t))
        curvature += (
            (negative_weight(batch, e, k, n_labels) + TWO * label[e, k]) * win * (ONE - win)
        )
    return t, 1 / np.sqrt(TWO * curvature / n_labels)


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z.

    state is (μ, γ).
    """
    z = batch.z
    label = batch.label
    uniforms = batch.uniforms
    state_row = batch.state_row
    n_updates = batch.n_updates
    relative = constants[0]
    total = np.float64(0)
    for e in range(n_examples):
        y = positive(batch, e, n)
        if y < 0:
            z[e, :n] = 0
            continue
        n_labels = n_positives(batch, e, n)
        origin = relative * z[e, y]
        row = state_row[e]
        if n_updates[e] == 0:
            mode, scale = first_distribution(batch, e, n, n_labels)
            state[row, 0] = mode - origin
            state[row, 1] = utility.unscaled(scale)
        x = np.log(uniforms[e, 0]) - np.log1p(-uniforms[e, 0])
        t = origin + state[row, 0] + softplus(state[row, 1]) * x
        slope = joint_slope(batch, e, n, n_labels, t)
        utility.local_step(state, row, n_updates[e], constants, slope, x)
        scale = softplus(state[row, 1])
        t = origin + state[row, 0] + scale * (np.log(uniforms[e, 1]) - np.log1p(-uniforms[e, 1]))
        loss = -n_labels * (np.log(scale) + 2)
        pull = ZERO
        fit = ZERO
        for k in range(n):
            weight = negative_weight(batch, e, k, n_labels)
            gap = -gap_to(batch, e, k, t)
            fit += (weight + label[e, k]) * softplus(gap) + label[e, k] * softplus(-gap)
            win = sigmoid(gap)
            pull += weight * win
            z[e, k] = weight * win + label[e, k] * (TWO * win - ONE)
        if relative > 0:
            z[e, y] = -pull
        total += loss + fit
    return total


def log_density(x: ndarray) -> ndarray:
    """The log of the logistic density."""
    return log_sigmoid(x) + log_sigmoid(-x)


def density(x: ndarray) -> ndarray:
    """The logistic density, which is -(log σ)''."""
    return np.exp(log_density(x))


NOISE = Noise(
    log_f=log_density,
    log_cdf=log_sigmoid,
    curvature_f=lambda x: 2 * density(x),
    curvature_cdf=density,
    variance=np.pi**2 / 3,
    reach=40.0,
    step=0.4,
)


class AugmentReduceLogistic(utility.UtilityObjective):
    name = "ar-logistic"
    about = About(
        title="augment and reduce, multinomial logistic",
        paper="Ruiz et al. 2018",
        formula="-E_t[log s(t - z_y) s(z_y - t) + sum_k log s(t - z_k) / (m q_k)] - H[t]",
        advice=(
            "logistic instead of Gumbel noise: tails on both sides, so that low scores keep some"
            " probability"
        ),
    )
    coefficients = staticmethod(coefficients)
    noise = NOISE

    @staticmethod
    def quantile(log_p: ndarray) -> ndarray:
        return log_p - np.log1p(-np.exp(log_p))

    def optimal_distribution(self, z: ndarray, label: ndarray) -> tuple[ndarray, ndarray]:
        x = np.linspace(-40, 40, 161)
        weight = 0.5 * np.exp(log_density(x))
        return utility.optimal_distribution(
            z,
            label,
            x,
            weight,
            lambda gap: -np.tanh(gap / 2),
            lambda gap: np.exp(log_sigmoid(-gap)),
        )

    def log_probability(self, z: ndarray, log_noise: ndarray) -> ndarray:
        """By quadrature, over a wide range because the tails fall only like e^-|t|, as does the
        probability of a class with a low score.
        """
        return utility.log_probability(
            z,
            log_density,
            log_sigmoid,
            left=lambda scores: float(scores.min()) - 40,
            right=40,
            step=0.4,
            beyond=lambda log_p, behind: log_p - (behind - FAR),
        )
