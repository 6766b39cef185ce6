"""Augment and reduce for the multinomial probit: utilities with normal noise instead of the
softmax's Gumbel noise.

Ruiz et al. 2018, section 3.2 and algorithm 2; the model and the bound are in `utility`, here with q
normal, φ and Φ its density and distribution function, t = μ + σ x from q, weight_k = n_k / E[n_k]:
    loss = (t - z_y)²/2 - Σ_k weight_k log Φ(t - z_k) - log σ - 1/2
    ∂loss/∂z_k = weight_k φ/Φ(t - z_k)
    ∂loss/∂z_y = z_y - t, or -Σ_k ∂loss/∂z_k with a fixed distribution of the noise
    local step, at another x:  s = z_y - t + Σ_k weight_k φ/Φ(t - z_k)
        μ += rate · s,  γ += rate · (s x + 1/σ) · dσ/dγ,  σ = softplus(γ)
        rate = local_rate (1 + n_updates)^-local_decay
The first visit of an input starts at the mode of the log joint of its candidates; see
docs/derivations.md. The gradient of a negative above t grows like z - t, times its weight (K-1)/m:
as with a squared loss, learning rates above about 2 m / (K |h|²) diverge.
"""

import numpy as np
from numpy import float32, ndarray
from scipy import special

from embedx.kernels import (
    ZERO,
    hazard,
    kernel,
    kernel_part,
    log_ndtr,
    log_normal_density,
    ndtri,
    softplus,
)
from embedx.objectives import utility
from embedx.objectives.contract import About
from embedx.objectives.normal_scores import FAR, Noise
from embedx.objectives.parts import best_positive, n_positives, negative_weight, positive
from embedx.objectives.utility import gap_to

ENTROPY = float32(0.5 * np.log(2 * np.pi) + 0.5)  # of a standard normal


@kernel_part
def joint_slope(batch, e, n, n_labels, t):
    """The derivative of the log joint at t, averaged over the positives."""
    label = batch.label
    slope = ZERO
    for k in range(n):
        gap = gap_to(batch, e, k, t)
        slope += negative_weight(batch, e, k, n_labels) * hazard(gap) - label[e, k] * gap
    return slope / n_labels


@kernel_part
def laplace(batch, e, n, n_labels):
    """(mode, standard deviation) of the Laplace approximation of the log joint.

    The derivative is falling and convex (the hazard is convex), so Newton's method goes left of the
    mode, then approaches it from there.
    """
    t = best_positive(batch, e, n)
    curvature = t
    for _ in range(60):
        curvature = ZERO
        for k in range(n):
            gap = gap_to(batch, e, k, t)
            pull = hazard(gap)
            curvature += negative_weight(batch, e, k, n_labels) * pull * (gap + pull)
        curvature = 1 + curvature / n_labels
        step = joint_slope(batch, e, n, n_labels, t) / curvature
        t += step
        if abs(step) < float32(1e-5):
            break
    return t, 1 / np.sqrt(curvature)


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
    real = z.dtype.type
    for e in range(n_examples):
        y = positive(batch, e, n)
        if y < 0:
            z[e, :n] = 0
            continue
        n_labels = n_positives(batch, e, n)
        origin = relative * z[e, y]
        row = state_row[e]
        if n_updates[e] == 0:
            mode, scale = laplace(batch, e, n, n_labels)
            state[row, 0] = mode - origin
            state[row, 1] = utility.unscaled(scale)
        x = real(ndtri(uniforms[e, 0]))
        t = origin + state[row, 0] + softplus(state[row, 1]) * x
        slope = joint_slope(batch, e, n, n_labels, t)
        utility.local_step(state, row, n_updates[e], constants, slope, x)
        scale = softplus(state[row, 1])
        t = origin + state[row, 0] + scale * real(ndtri(uniforms[e, 1]))
        loss = -n_labels * (np.log(scale) + ENTROPY)
        pull = ZERO
        fit = ZERO
        for k in range(n):
            weight = negative_weight(batch, e, k, n_labels)
            gap = gap_to(batch, e, k, t)
            fit += weight * log_ndtr(gap) + label[e, k] * log_normal_density(gap)
            push = weight * hazard(gap)
            pull += push
            z[e, k] = push - label[e, k] * gap
        if relative > 0:
            z[e, y] = -pull
        total += loss - fit
    return total


def log_phi(x: ndarray) -> ndarray:
    """The log of the normal density."""
    return -0.5 * x * x - 0.5 * np.log(2 * np.pi)


def hazards(x: ndarray) -> ndarray:
    """φ/Φ of an array."""
    return np.exp(log_phi(x) - special.log_ndtr(x))


def hazard_curvature(x: ndarray) -> ndarray:
    """-(log Φ)''."""
    hazard_of_x = hazards(x)
    return hazard_of_x * (x + hazard_of_x)


NOISE = Noise(
    log_f=log_phi,
    log_cdf=special.log_ndtr,
    curvature_f=np.ones_like,
    curvature_cdf=hazard_curvature,
    variance=1.0,
    reach=9.0,
    step=0.2,
)


class AugmentReduceProbit(utility.UtilityObjective):
    name = "ar-probit"
    about = About(
        title="augment and reduce, multinomial probit",
        paper="Ruiz et al. 2018",
        formula="-E_t[log phi(t - z_y) + sum_k log Phi(t - z_k) / (m q_k)] - H[t]",
        advice=(
            "normal instead of Gumbel noise: thin tails, so that low scores get almost no"
            " probability"
        ),
    )
    coefficients = staticmethod(coefficients)
    noise = NOISE
    # eval/results/defaults.md#what-was-found
    word_defaults = {"block_size": 32, "optimizer": "adagrad", "learning_rate": 0.05}

    @staticmethod
    def quantile(log_p: ndarray) -> ndarray:
        return np.asarray(special.ndtri_exp(log_p), np.float64)

    def optimal_distribution(self, z: ndarray, label: ndarray) -> tuple[ndarray, ndarray]:
        x, weight = np.polynomial.hermite_e.hermegauss(48)
        return utility.optimal_distribution(
            z, label, x, weight / weight.sum(), np.negative, hazards
        )

    def log_probability(self, z: ndarray, log_noise: ndarray) -> ndarray:
        """By quadrature. A class with a low score wins at a t about half way to the highest score,
        where the nodes begin; its log p falls with the square of the distance.
        """
        return utility.log_probability(
            z,
            log_phi,
            special.log_ndtr,
            left=lambda scores: (scores.min() + scores.max()) / 2 - 9,
            right=9,
            step=0.1,
            beyond=lambda log_p, behind: log_p * (behind / FAR) ** 2,
        )
