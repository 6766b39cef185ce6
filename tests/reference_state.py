"""Naive versions of the objectives that keep a state, one step each, straight from the papers in float64."""

import numpy as np


def augment_reduce_step(eta, alpha, scores, y, sampled, n_classes):
    """Ruiz et al. 2018, algorithm 1, for one observation: the new η and the gradient of -ELBO by the scores (without N/|B|)."""
    scale = (n_classes - 1) / len(sampled)
    ratio = {k: np.exp(scores[k] - scores[y]) for k in sampled}
    estimate = 1 + scale * sum(ratio.values())
    eta = (1 - alpha) * eta + alpha * estimate
    gradient = np.zeros(n_classes)
    for k in sampled:
        gradient[k] += scale * ratio[k] / eta
        gradient[y] -= scale * ratio[k] / eta
    return eta, gradient


def augment_reduce_elbo(eta, scores, y):
    """Ruiz et al. 2018, eq. 8."""
    others = sum(np.exp(scores[k] - scores[y]) for k in range(len(scores)) if k != y)
    return 1 - np.log(eta) - (1 + others) / eta


def umax_step(u, lr, threshold, scores, y, sampled, n_classes):
    """Fagan & Iyengar 2018, algorithm 1, for several sampled classes: the new u and the gradient by the scores (without N)."""
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
    return max(scores[y], u - lr * (1 - np.exp(scores[y] - u) - sum(gradient[k] for k in sampled))), gradient


def proximal_objective(u, scores_moved, u0, scores, y, weights, lr, squared_norm, relative):
    """What implicit SGD minimises (Fagan & Iyengar 2018, eq. 11): 2 lr · loss + (u - u0)² + |W - W0|².

    Rows move along h only, so that a score which moved by δ moved its row by δ²/|h|². `weights` is 0 for rows not sampled. The
    loss is eq. 6 for one example if `relative`, else eq. 8.
    """
    z = np.asarray(scores_moved)
    if relative:
        loss = u + np.exp(-u) + sum(weights[k] * np.exp(z[k] - z[y] - u) for k in range(len(z)) if k != y)
    else:
        loss = u - z[y] + np.exp(z[y] - u) + sum(weights[k] * np.exp(z[k] - u) for k in range(len(z)) if k != y)
    return 2 * lr * loss + (u - u0) ** 2 + np.sum((z - scores) ** 2) / squared_norm
