"""Naive versions of the objectives that keep a state, one step each, straight from the papers in
float64.
"""

import itertools

import numpy as np
from scipy import integrate, special


def augment_reduce_step(eta, alpha, scores, y, sampled, n_classes):
    """Ruiz et al. 2018, algorithm 1, for one observation: the new η and the gradient of -ELBO by
    the scores (without N/|B|).
    """
    scale = (n_classes - 1) / len(sampled)
    ratio = {k: np.exp(scores[k] - scores[y]) for k in sampled}
    estimate = 1 + scale * sum(ratio.values())
    eta = (1 - alpha) * eta + alpha * estimate
    gradient = np.zeros(n_classes)
    for k in sampled:
        gradient[k] += scale * ratio[k] / eta
        gradient[y] -= scale * ratio[k] / eta
    return eta, gradient


def scgd_step(v, beta, scores, y, sampled, n_classes):
    """Wang, Fang & Liu 2017, algorithm 1, for log(1 + E[g]), g = (K - 1) e^{z_k - z_y} of a class k
    drawn (Fagan & Iyengar 2018, appendix B): the new v, and the gradient of the outer function at v
    times that of the inner one.
    """
    scale = (n_classes - 1) / len(sampled)
    inner = {k: scale * np.exp(scores[k] - scores[y]) for k in sampled}
    v = (1 - beta) * v + beta * sum(inner.values())
    outer_slope = 1 / (1 + v)
    gradient = np.zeros(n_classes)
    for k, value in inner.items():
        gradient[k] += outer_slope * value
        gradient[y] -= outer_slope * value
    return v, gradient


def augment_reduce_elbo(eta, scores, y):
    """Ruiz et al. 2018, eq. 8."""
    others = sum(np.exp(scores[k] - scores[y]) for k in range(len(scores)) if k != y)
    return 1 - np.log(eta) - (1 + others) / eta


def umax_step(u, lr, threshold, scores, y, sampled, n_classes):
    """Fagan & Iyengar 2018, algorithm 1, for several sampled classes: the new u and the gradient by
    the scores (without N).
    """
    scale = (n_classes - 1) / len(sampled)
    bound = np.log(1 + sum(np.exp(scores[k] - scores[y]) for k in sampled))
    if u < bound - threshold:
        u = bound
    gradient = np.zeros(n_classes)
    for k in sampled:
        pull = scale * np.exp(scores[k] - scores[y] - u)
        gradient[k] += pull
        gradient[y] -= pull
    return max(0, u - lr * (1 - np.exp(-u) + gradient[y])), gradient


def raman_step(u, lr, scores, y, sampled, n_classes):
    """Fagan & Iyengar 2018, eq. 8: plain descent on the double sum of Raman et al. 2016."""
    scale = (n_classes - 1) / len(sampled)
    gradient = np.zeros(n_classes)
    gradient[y] = -1 + np.exp(scores[y] - u)
    for k in sampled:
        gradient[k] += scale * np.exp(scores[k] - u)
    return (
        max(scores[y], u - lr * (1 - np.exp(scores[y] - u) - sum(gradient[k] for k in sampled))),
        gradient,
    )


def proximal_objective(
    u, scores_moved, u0, scores, label, weights, lr, squared_norm, relative, freedom=None
):
    """What implicit SGD minimises (Fagan & Iyengar 2018, eq. 11): 2 lr · loss + (u - u0)² + |W -
    W0|².

    Rows move along h only, so that a score which moved by δ moved its row by δ²/|h|²; of rows with
    rates of their own, `squared_norm` has a number each, |h|² times a row's rate over lr. `label`
    counts the pairs of each positive, `weights` is 0 for rows not sampled. The loss is eq. 6 for
    one positive if `relative`, else eq. 8 for each pair. Of another freedom τ than lr, u is charged
    lr (u - u0)² / τ.
    """
    z = np.asarray(scores_moved)
    weights = np.where(label > 0, 1, weights)
    if relative:
        y = label.argmax()
        loss = (
            u
            + np.exp(-u)
            + sum(weights[k] * np.exp(z[k] - z[y] - u) for k in range(len(z)) if k != y)
        )
    else:
        pairs = [y for y in range(len(z)) for _ in range(int(label[y]))]
        loss = sum(
            u - z[y] + sum(weights[k] * np.exp(z[k] - u) for k in range(len(z))) for y in pairs
        )
    of_state = (u - u0) ** 2 * (1 if freedom is None else lr / freedom)
    return 2 * lr * loss + of_state + np.sum((z - scores) ** 2 / squared_norm)


def proximal_objective_of_minibatch(u, rows, u0, rows_before, inputs, labels, weights, lr, freedom):
    """What implicit SGD minimises for the examples of a minibatch and its shared draws together
    (Fagan & Iyengar 2018, appendix F.3), over u of each example and the rows W.
    """
    total = np.sum((rows - rows_before) ** 2)
    for e, h in enumerate(inputs):
        z = rows @ h
        total += proximal_objective(
            u[e], z, u0[e], z, labels[e], weights, lr, 1.0, relative=False, freedom=freedom[e]
        )
    return total


def freedom_of_log_z(n_updates, n_labels, lr, squared_norms):
    """How freely implicit SGD lets u move where it stands for log Z: as all the scores that are
    met, whose `squared_norms` these are, and besides by the share of a running mean.
    """
    share = (1 + n_updates) ** -0.9
    return lr * np.sum(squared_norms) + share / (1 - share) / n_labels


def general_augment_reduce_step(
    mu, gamma, rate, draws, law, scores, y, sampled, n_classes, entropy=True
):
    """Ruiz et al. 2018, algorithm 2 and eq. 9, for one observation: the new μ, γ and the gradient
    of -ELBO by the scores.

    `law` has the derivatives of log φ and of log Φ; `draws` are the two standard variates, for the
    local and the global step.
    """
    scale = (n_classes - 1) / len(sampled)
    sigma = np.log1p(np.exp(gamma))
    noise = mu + sigma * draws[0]
    slope = law.slope(noise) + scale * sum(
        law.slope_cdf(noise + scores[y] - scores[k]) for k in sampled
    )
    mu += rate * slope
    gamma += rate * (slope * draws[0] + (1 / sigma if entropy else 0)) * (1 - np.exp(-sigma))
    noise = mu + np.log1p(np.exp(gamma)) * draws[1]
    gradient = np.zeros(n_classes)
    for k in sampled:
        pull = scale * law.slope_cdf(noise + scores[y] - scores[k])
        gradient[k] += pull
        gradient[y] -= pull
    return mu, gamma, gradient


class Normal:
    quantile = special.ndtri
    log_cdf = special.log_ndtr

    @staticmethod
    def log_density(x):
        return -(x**2) / 2 - np.log(2 * np.pi) / 2

    @staticmethod
    def slope(x):
        return -x

    @staticmethod
    def slope_cdf(x):
        return np.exp(Normal.log_density(x) - Normal.log_cdf(x))


class Logistic:
    quantile = special.logit
    log_cdf = special.log_expit

    @staticmethod
    def log_density(x):
        return special.log_expit(x) + special.log_expit(-x)

    @staticmethod
    def slope(x):
        return 1 - 2 * special.expit(x)

    @staticmethod
    def slope_cdf(x):
        return special.expit(-x)


def log_probability(law, scores, y):
    """log of eq. 5, by SciPy's adaptive quadrature around the peak of the integrand."""

    def log_integrand(t):
        return law.log_density(t - scores[y]) + law.log_cdf(t - np.delete(scores, y)).sum()

    nodes = np.linspace(scores.min() - 10, scores.max() + 10, 2001)
    heights = [log_integrand(t) for t in nodes]
    top = max(heights)
    peak = nodes[np.argmax(heights)]
    pieces = np.concatenate([[-100, -40], np.arange(-25, 26, 5), [40, 100]]) + peak
    total = 0.0
    for left, right in itertools.pairwise(pieces):
        total += integrate.quad(
            lambda t: np.exp(log_integrand(t) - top), left, right, epsabs=1e-14, epsrel=1e-11
        )[0]
    return top + np.log(total)


def elbo(law, mu, sigma, scores, y):
    """Eq. 7 with q of location mu and scale sigma over the winner's utility, by quadrature in the
    standard variate.
    """
    x = np.linspace(-60, 60, 24_001)
    log_q = law.log_density(x)
    t = mu + sigma * x
    joint = law.log_density(t - scores[y]) + sum(
        law.log_cdf(t - scores[k]) for k in range(len(scores)) if k != y
    )
    return np.sum(np.exp(log_q) * (joint - log_q + np.log(sigma))) * (x[1] - x[0])
