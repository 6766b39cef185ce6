"""What `ar-probit` and `ar-logistic` share: class y wins when its utility z_y + ε_y is the largest,
whatever the noise's law.

With f and F the density and distribution function of ε, and t = z_y + ε_y the winner's utility
(Ruiz et al. 2018, eq. 5),
    p(y) = ∫ f(t - z_y) Π_{k≠y} F(t - z_k) dt
and with q a density of t of location μ and scale σ, eq. 7 is the bound
    -log p(y) <= loss = -E_q[log f(t - z_y) + Σ_k log F(t - z_k)] - entropy of q
The paper writes both for ε instead of t. For an example with one positive that is the same family
and the same bound, μ shifted by z_y; only what is held fixed while the scores move differs (see
`ar`). `augment utility` keeps the law of t, which is about the negatives more than about the
positive, and so can be shared by all positives of an input word: still a bound, though looser than
one law for each pair. `augment noise` keeps the law of ε, as the paper has it.
"""

import abc
from collections.abc import Callable

import numpy as np
from numba.extending import register_jitable
from numpy import float64, ndarray

from embedx.kernels import ZERO, sigmoid, softplus
from embedx.objectives.contract import Traits
from embedx.objectives.parts import AugmentSettings, LocalObjective
from embedx.settings import param

Function = Callable[[ndarray], ndarray]
MAX_VALUES = 4_000_000  # held at a time by the quadrature
# up to here each class is looked at by itself; a grid over FAR has no more points
FEW_CLASSES = 2_000
# The errors at the tenth of a deviation that ar-probit steps by: about 1e-8 g^6 of what log F(g)
# adds up to for the grid, 1e-7 g^2 for the finer one; g is 4 or 5 where there are many classes.
FINER = 64
POINTS = 6
LARGEST_LOG_P = -1e-6  # of the scores that `initial_bias` seeks, for that of p = 1 is infinite
BIAS_STEPS = 12  # the error falls to a tenth at each where no class has nearly all probability
# behind the highest score; from there on log p is continued, for nodes can't cover any distance
FAR = 200.0


class UtilitySettings(AugmentSettings):
    """Settings of augment and reduce beyond the softmax."""

    local_rate: float = param(
        0.01, "the local step size is local_rate (1 + updates)^-local_decay", at_least=0.0
    )
    entropy: bool = param(
        True,
        "include the entropy term in local updates; without it, as in the authors' code, the scale"
        " shrinks to zero",
    )


class UtilityObjective(LocalObjective):
    """An objective whose state is the law of t, location and gamma; a subclass gives the law of the
    noise.
    """

    Settings = UtilitySettings
    in_kernel = ("local_rate", "local_decay", "entropy")
    # 3 MB of Wikipedia, 1 and 5 epochs, held-out log-likelihood: ar-logistic by rowwise-adagrad
    # at 1 -8.747 and -8.686, by adagrad at 0.1 -8.689 and -8.627
    word_defaults = {"block_size": 32, "optimizer": "adagrad"}
    traits = Traits(unbiased=True)
    state_width = 2
    uniforms_width = 2

    @staticmethod
    @abc.abstractmethod
    def quantile(log_p: ndarray) -> ndarray:
        """The quantile function of the noise, of probabilities by their logarithms."""

    def initial_bias(self, p: ndarray, noise: ndarray) -> ndarray:
        """The scores at which `log_probability` is that of p, taken relatively, found numerically.

        A class of many wins where its noise exceeds a level that hardly depends on which class it
        is: the quantile of p is near its score, up to a constant, and what is left of the error is
        removed in turn.
        """
        wanted = self.quantile(np.minimum(np.log(p / p.sum()), LARGEST_LOG_P))
        z = wanted
        for _ in range(BIAS_STEPS):
            reached = np.minimum(self.log_probability(z, np.log(noise)), LARGEST_LOG_P)
            z = z + wanted - self.quantile(reached)
        return z

    @abc.abstractmethod
    def optimal_law(self, z: ndarray, label: ndarray) -> tuple[ndarray, ndarray]:
        """Location and scale of the law of t of the tightest bound, each (n,)."""

    def optimal_state(self, z: ndarray, label: ndarray) -> ndarray:
        """Found numerically, to some ten digits."""
        location, scale = self.optimal_law(z, label)
        if self.is_relative:
            location -= z[np.arange(len(z)), label.argmax(axis=1)]
        return np.column_stack([location, unscaled(scale)])


@register_jitable
def lead(batch, e, k, t):
    """How far t is ahead of score k; 0 where that does not compete, for its score may
    be anything.
    """
    z, label, sample_count = batch.z, batch.label, batch.sample_count
    return t - z[e, k] if label[e, k] + sample_count[e, k] > 0 else ZERO


@register_jitable
def unscaled(scale):
    """The gamma with softplus(gamma) = scale."""
    return scale + np.log(-np.expm1(-scale))


@register_jitable
def local_step(state, key, n_updates, constants, slope, x):
    """Move the law in state[key], location and gamma, scale = softplus(gamma), up the bound (eq.
    9).

    `slope` is the derivative of the log joint where it was sampled, at location + scale · x. A step
    is at most 1, the unit of the noise, for a single draw of weight (K-1)/m pulls that many times
    too hard.
    """
    rate = constants[1] * (1 + n_updates) ** -constants[2]
    gamma = state[key, 1]
    widen = (slope * x + constants[3] / softplus(gamma)) * sigmoid(gamma)
    state[key, 0] += min(max(rate * slope, -1), 1)
    state[key, 1] += min(max(rate * widen, -1), 1)


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
    z_k). What is true of few classes one by one is computed for many on a grid of scores, within
    1e-3 nats for p > 1e-12. A class more than FAR behind the first is taken there, which the others
    do not notice, and `beyond` gives its own log p from that and its distance.
    """
    rows = np.asarray(z, float64).reshape(-1, z.shape[-1])
    out = np.empty_like(rows)
    for scores, log_p in zip(rows, out, strict=True):
        behind = scores.max() - scores
        near = -np.minimum(behind, FAR)
        nodes = np.arange(left(near), right, step)
        log_p[:] = (_by_grid if near.size > FEW_CLASSES else _one_by_one)(
            near, nodes, log_f, log_cdf, step
        )
        if (is_far := behind > FAR).any():
            log_p[is_far] = beyond(log_p[is_far], behind[is_far])
    return out.reshape(z.shape)


def _one_by_one(
    scores: ndarray, nodes: ndarray, log_f: Function, log_cdf: Function, step: float
) -> ndarray:
    """log p(y) of all classes, (K,), with the functions evaluated at every node for every class."""
    log_p = np.empty_like(scores)
    nodes = nodes[:, None]
    blocks = np.array_split(np.arange(scores.size), -(-nodes.size * scores.size // MAX_VALUES))
    everyone = sum(log_cdf(nodes - scores[block]).sum(axis=1, keepdims=True) for block in blocks)
    for block in blocks:
        gaps = nodes - scores[block]
        log_p[block] = _log_integral(log_f(gaps) - log_cdf(gaps) + everyone, step)
    return log_p


def _by_grid(
    scores: ndarray, nodes: ndarray, log_f: Function, log_cdf: Function, step: float
) -> ndarray:
    """log p(y) of all classes, (K,), at a cost of K alone: p(y) is a smooth function of z_y, and so
    is log F(t - z_y).

    The grid has the `step` of the nodes, so that the functions are needed at as many places as
    there are nodes and grid points together. Both ways, a score is a mixture of two neighbours on a
    grid FINER times as fine, and these are mixtures of the POINTS nearest grid points with the
    weights of Lagrange's interpolation.
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
    crowd = np.zeros(n + POINTS - 1)  # how many classes there are at the grid points
    for j in range(POINTS):
        crowd[j : j + n] += shares[:, j]
    first = scores.min() - (POINTS // 2 - 1) * step
    gaps = nodes[0] - first + step * np.arange(1 - len(crowd), len(nodes))
    log_cdfs = log_cdf(gaps)
    everyone = np.convolve(crowd, log_cdfs, "valid")[:, None]
    # (nodes, grid points)
    own = np.lib.stride_tricks.sliding_window_view(log_f(gaps) - log_cdfs, len(crowd))[:, ::-1]
    blocks = np.array_split(np.arange(len(crowd)), -(-own.size // MAX_VALUES))
    on_grid = np.concatenate([_log_integral(own[:, block] + everyone, step) for block in blocks])
    fine = (np.lib.stride_tricks.sliding_window_view(on_grid, POINTS) @ weights.T).ravel()
    return fine[cell] + beyond * (fine[cell + 1] - fine[cell])


def _log_integral(terms: ndarray, step: float) -> ndarray:
    """The log of the integral of e^terms along the first axis, whose nodes are `step` apart."""
    largest = terms.max(axis=0)
    return largest + np.log(np.exp(terms - largest).sum(axis=0) * step)


def lagrange_weights() -> ndarray:
    """float64 (FINER, POINTS): the weight of each of POINTS grid points at k / FINER of the way
    between the middle two.
    """
    points = np.arange(POINTS) - (POINTS // 2 - 1)
    at = np.arange(FINER)[:, None] / FINER
    others = [np.delete(points, j) for j in range(POINTS)]
    return np.column_stack(
        [((at - rest) / (points[j] - rest)).prod(axis=1) for j, rest in enumerate(others)]
    )


def optimal_law(
    z: ndarray, label: ndarray, x: ndarray, weight: ndarray, slope: Function, slope_cdf: Function
) -> tuple[ndarray, ndarray]:
    """Location and scale of the law of t, each (n,), of the tightest bound for examples that meet
    all rows.

    x and weight (nodes,) are a quadrature for the standard law; slope and slope_cdf the derivatives
    of log f and log F. At the optimum E[h'] = 0 and E[h' x] = -1/scale with h the log joint; the
    scale follows from the second, the location by Newton.
    """
    location, scale = z.max(axis=1), np.ones(len(z))
    positive = label.argmax(axis=1)
    own = z[np.arange(len(z)), positive]

    def joint_slope(t: ndarray, i: int) -> ndarray:
        gaps = t[:, None] - z[i]
        pulls = slope_cdf(gaps)
        return pulls.sum(axis=1) - pulls[:, positive[i]] + slope(t - own[i])

    for i in range(len(z)):
        for _ in range(100):
            h = joint_slope(location[i] + scale[i] * x, i)
            # 1 at the optimum; also minus E[h''] · scale² for a normal law
            across = -(weight * h * x).sum() * scale[i]
            move = (weight * h).sum() * scale[i] ** 2 / max(across, 1)
            location[i] += np.clip(move, -1, 1)
            scale[i] *= np.clip(across, 0.25, 4) ** -0.5
            if abs(move) + abs(across - 1) < 1e-10:
                break
    return location, scale
