"""The model that `ar-probit` and `ar-logistic` share: class y wins when its utility z_y + ε_y is
the largest.

With f and F the density and distribution function of the noise ε, and t = z_y + ε_y the winner's
utility (Ruiz et al. 2018, eq. 5),
    p(y) = ∫ f(t - z_y) Π_{k≠y} F(t - z_k) dt
and with q a density of t of location μ and scale σ, eq. 7 is the bound
    -log p(y) <= loss = -E_q[log f(t - z_y) + Σ_k log F(t - z_k)] - entropy of q
The paper has ε in place of t: the same bound for an example with one positive, with μ shifted by
z_y. `augment utility` keeps the distribution of t, which all positives of an input share: still a
bound, but looser than one distribution per pair. `augment noise` keeps that of ε, as in the paper.
See docs/derivations.md.
"""

import abc
from collections.abc import Callable

import numpy as np
from numba.extending import register_jitable
from numpy import float64, ndarray

from embedx.kernels import ZERO, sigmoid, softplus
from embedx.objectives import normal_scores
from embedx.objectives.contract import Traits
from embedx.objectives.normal_scores import FAR, MAX_VALUES, Function, Noise
from embedx.objectives.parts import AugmentSettings, LocalObjective
from embedx.settings import param

# Classes up to which log p is computed class by class; a grid over FAR has no more points.
FEW_CLASSES = 2_000
# The fine grid has FINER points for each point of the coarse grid, and interpolates from POINTS of
# these; docs/derivations.md has the errors.
FINER = 64
POINTS = 6
# Maximum log p in `initial_bias`: the score of p = 1 is infinite.
LARGEST_LOG_P = -1e-6
# Iterations of `initial_bias`; each reduces the error tenfold, unless one class has nearly all
# probability.
BIAS_STEPS = 12


class UtilitySettings(AugmentSettings):
    """Settings of augment and reduce beyond the softmax."""

    local_rate: float = param(
        0.01,
        "the local step size is local_rate (1 + updates)^-local_decay",
        at_least=0.0,
        has_option=False,
    )
    entropy: bool = param(
        True,
        "include the entropy term in local updates; without it, as in the authors' code, the scale"
        " shrinks to zero",
        has_option=False,
    )


class UtilityObjective(LocalObjective):
    """An objective whose state is the distribution of t, (location, gamma); a subclass defines the
    distribution of the noise.
    """

    Settings = UtilitySettings
    in_kernel = ("local_rate", "local_decay", "entropy")
    # eval/results/defaults.md#what-was-found
    word_defaults = {"block_size": 32, "optimizer": "adagrad"}
    traits = Traits(unbiased=True)
    state_width = 2
    uniforms_width = 2
    noise: Noise

    @staticmethod
    @abc.abstractmethod
    def quantile(log_p: ndarray) -> ndarray:
        """The quantile function of the noise, of log-probabilities."""

    def initial_bias(self, p: ndarray, noise: ndarray) -> ndarray:
        """The scores at which `log_probability` is log(p / Σ p), found by iteration.

        A class of many wins if its noise exceeds a level that hardly depends on the class: its
        score is near the quantile of p, up to a constant.
        """
        target = self.quantile(np.minimum(np.log(p / p.sum()), LARGEST_LOG_P))
        z = target
        for _ in range(BIAS_STEPS):
            log_p = np.minimum(self.log_probability(z, np.log(noise)), LARGEST_LOG_P)
            z = z + target - self.quantile(log_p)
        return z

    @abc.abstractmethod
    def optimal_distribution(self, z: ndarray, label: ndarray) -> tuple[ndarray, ndarray]:
        """(location, scale) of the distribution of t that gives the tightest bound, each (n,)."""

    def log_mean_probability(self, z: ndarray, variance: ndarray) -> ndarray:
        return normal_scores.log_mean_probability(z, variance, self.noise)

    def score_information(self, z: ndarray, row: ndarray, label: ndarray) -> ndarray:
        return normal_scores.score_information(z, row, label, self.noise)

    def optimal_state(self, z: ndarray, label: ndarray) -> ndarray:
        """The optimal (location, gamma), found numerically to some ten digits."""
        location, scale = self.optimal_distribution(z, label)
        if self.is_relative:
            location -= z[np.arange(len(z)), label.argmax(axis=1)]
        return np.column_stack([location, unscaled(scale)])


@register_jitable
def gap_to(batch, e, k, t):
    """t - z_k; 0 if k is no candidate, because its score is arbitrary."""
    z = batch.z
    label = batch.label
    sample_count = batch.sample_count
    return t - z[e, k] if label[e, k] + sample_count[e, k] > 0 else ZERO


@register_jitable
def unscaled(scale):
    """The gamma with softplus(gamma) = scale."""
    return scale + np.log(-np.expm1(-scale))


@register_jitable
def local_step(state, row, n_updates, constants, slope, x):
    """A gradient step on the bound (eq. 9) in state[row], (location, gamma) with scale =
    softplus(gamma); at most 1 long.

    slope  derivative of the log joint at location + scale · x
    """
    rate = constants[1] * (1 + n_updates) ** -constants[2]
    gamma = state[row, 1]
    widen = (slope * x + constants[3] / softplus(gamma)) * sigmoid(gamma)
    state[row, 0] += min(max(rate * slope, -1), 1)
    state[row, 1] += min(max(rate * widen, -1), 1)


def log_probability(
    z: ndarray,
    log_f: Function,
    log_cdf: Function,
    left: Callable[[ndarray], float],
    right: float,
    step: float,
    beyond: Callable[[ndarray, ndarray], ndarray],
) -> ndarray:
    """log p(y) of all classes, float64 (..., K), by the trapezoid rule, whose error falls
    exponentially for such integrands.

    All classes share the nodes t, `step` apart from left(z) to max z + `right`, and Σ_k log F(t -
    z_k). For more than FEW_CLASSES log p is computed on a grid of scores, within 1e-3 nats for p >
    1e-12. A score more than FAR below the largest is treated as FAR below, and `beyond`
    extrapolates log p from there by the distance.
    """
    rows = np.asarray(z, float64).reshape(-1, z.shape[-1])
    out = np.empty_like(rows)
    for scores, log_p in zip(rows, out, strict=True):
        behind = scores.max() - scores
        near = -np.minimum(behind, FAR)
        nodes = np.arange(left(near), right, step)
        method = _by_grid if near.size > FEW_CLASSES else _one_by_one
        log_p[:] = method(near, nodes, log_f, log_cdf, step)
        is_far = behind > FAR
        if is_far.any():
            log_p[is_far] = beyond(log_p[is_far], behind[is_far])
    return out.reshape(z.shape)


def _one_by_one(
    scores: ndarray, nodes: ndarray, log_f: Function, log_cdf: Function, step: float
) -> ndarray:
    """log p(y) of all classes, (K,), with the functions evaluated at every node for every class."""
    log_p = np.empty_like(scores)
    nodes = nodes[:, None]
    blocks = np.array_split(np.arange(scores.size), -(-nodes.size * scores.size // MAX_VALUES))
    all_classes = sum(log_cdf(nodes - scores[block]).sum(axis=1, keepdims=True) for block in blocks)
    for block in blocks:
        gaps = nodes - scores[block]
        log_p[block] = _log_integral(log_f(gaps) - log_cdf(gaps) + all_classes, step)
    return log_p


def _by_grid(
    scores: ndarray, nodes: ndarray, log_f: Function, log_cdf: Function, step: float
) -> ndarray:
    """log p(y) of all classes, (K,), in time linear in K: p(y) is a smooth function of z_y, and so
    is log F(t - z_y).

    Grid points and nodes are `step` apart, so that the functions are evaluated only once per node
    and grid point. To the grid and back, a score is interpolated linearly between two points of a
    grid FINER times as fine, and those by Lagrange's formula from the POINTS nearest grid points.
    """
    weights = lagrange_weights()
    place = (scores - scores.min()) * (FINER / step)
    cell = place.astype(np.int64)
    beyond = place - cell
    n = int(cell.max()) // FINER + 2
    fine = np.bincount(cell, minlength=n * FINER).astype(float64)
    moved = np.bincount(cell, beyond, n * FINER)
    fine -= moved
    fine[1:] += moved[:-1]
    shares = fine.reshape(n, FINER) @ weights
    n_classes = np.zeros(n + POINTS - 1)  # at each grid point
    for j in range(POINTS):
        n_classes[j : j + n] += shares[:, j]
    first = scores.min() - (POINTS // 2 - 1) * step
    gaps = nodes[0] - first + step * np.arange(1 - len(n_classes), len(nodes))
    log_cdfs = log_cdf(gaps)
    all_classes = np.convolve(n_classes, log_cdfs, "valid")[:, None]
    # (nodes, grid points)
    terms = np.lib.stride_tricks.sliding_window_view(log_f(gaps) - log_cdfs, len(n_classes))
    terms = terms[:, ::-1]
    blocks = np.array_split(np.arange(len(n_classes)), -(-terms.size // MAX_VALUES))
    on_grid = np.concatenate(
        [_log_integral(terms[:, block] + all_classes, step) for block in blocks]
    )
    fine = (np.lib.stride_tricks.sliding_window_view(on_grid, POINTS) @ weights.T).ravel()
    return fine[cell] + beyond * (fine[cell + 1] - fine[cell])


def _log_integral(terms: ndarray, step: float) -> ndarray:
    """The log of the integral of e^terms along the first axis, whose nodes are `step` apart."""
    largest = terms.max(axis=0)
    return largest + np.log(np.exp(terms - largest).sum(axis=0) * step)


def lagrange_weights() -> ndarray:
    """Weights of the POINTS grid points at k / FINER of the way between the middle two, float64
    (FINER, POINTS).
    """
    points = np.arange(POINTS) - (POINTS // 2 - 1)
    at = np.arange(FINER)[:, None] / FINER
    others = [np.delete(points, j) for j in range(POINTS)]
    return np.column_stack(
        [((at - rest) / (points[j] - rest)).prod(axis=1) for j, rest in enumerate(others)]
    )


def optimal_distribution(
    z: ndarray, label: ndarray, x: ndarray, weight: ndarray, slope: Function, slope_cdf: Function
) -> tuple[ndarray, ndarray]:
    """(location, scale), each (n,), of the distribution of t that gives the tightest bound, for
    examples whose candidates are all rows.

    x, weight         (nodes,): a quadrature for the standard distribution
    slope, slope_cdf  derivatives of log f and log F

    At the optimum E[h'] = 0 and E[h' x] = -1/scale with h the log joint; the scale follows from the
    second equation, the location from the first by Newton's method.
    """
    location = z.max(axis=1)
    scale = np.ones(len(z))
    positive = label.argmax(axis=1)
    score = z[np.arange(len(z)), positive]

    def joint_slope(t: ndarray, i: int) -> ndarray:
        gaps = t[:, None] - z[i]
        pulls = slope_cdf(gaps)
        return pulls.sum(axis=1) - pulls[:, positive[i]] + slope(t - score[i])

    for i in range(len(z)):
        for _ in range(100):
            h = joint_slope(location[i] + scale[i] * x, i)
            # 1 at the optimum; also minus E[h''] · scale² for a normal distribution
            across = -(weight * h * x).sum() * scale[i]
            move = (weight * h).sum() * scale[i] ** 2 / max(across, 1)
            location[i] += np.clip(move, -1, 1)
            scale[i] *= np.clip(across, 0.25, 4) ** -0.5
            if abs(move) + abs(across - 1) < 1e-10:
                break
    return location, scale
