"""The tree of adversarial noise as Bamler & Mandt 2020 describe it, section 3: slow, obvious,
float64.
"""

import numpy as np
from scipy.optimize import minimize

from tests.reference import softplus


def likelihood(theta, x, sign, l2):
    """Eq. 8 with its regulariser; x (n, k), sign of each pair's label (n,)."""
    w = theta[:-1]
    b = theta[-1]
    return -np.sum(softplus(-sign * (x @ w + b))) - l2 * (w @ w + b * b)


def best_parameters(x, sign, l2):
    """(w, b) that maximise it."""
    optimum = minimize(
        lambda t: -likelihood(t, x, sign, l2),
        np.zeros(x.shape[1] + 1),
        method="BFGS",
        options={"gtol": 1e-7},
    )
    return optimum.x


def right_half(labels, gain):
    """The half of the labels with the largest gain; the larger half, where they are odd; of two
    alike the larger number.
    """
    ranked = sorted(labels, key=lambda y: (gain[y], y))
    return set(ranked[len(ranked) // 2 :])


def first_direction(sums):
    """The dominant eigenvector of the covariance of the labels' sums (labels, k), its sign by the
    widest column's.
    """
    covariance = np.cov(sums.T, bias=True)
    vector = np.linalg.eigh(covariance)[1][:, -1]
    return vector * np.sign(vector[np.argmax(np.diag(covariance))])


def fit(x, y, labels, depth, l2, rounds=20):
    """The tree over `labels` as nested tuples (w, b, left, right); a leaf is a label, or None for
    padding.
    """
    labels = sorted(labels)
    if depth == 0:
        return labels[0] if labels else None
    if not labels:
        return (
            np.zeros(x.shape[1]),
            0.0,
            fit(x, y, [], depth - 1, l2),
            fit(x, y, [], depth - 1, l2),
        )
    if len(labels) == 1:  # everything goes right
        return (
            np.zeros(x.shape[1]),
            np.inf,
            fit(x, y, [], depth - 1, l2),
            fit(x, y, labels, depth - 1, l2, rounds),
        )
    w = first_direction(np.array([x[y == k].sum(axis=0) for k in labels]))
    b = 0.0
    right = right_half(labels, {k: np.sum(x[y == k] @ w + b) for k in labels})
    mine = np.isin(y, labels)
    for _ in range(rounds + 1):
        theta = best_parameters(x[mine], np.where(np.isin(y[mine], sorted(right)), 1, -1), l2)
        w = theta[:-1]
        b = theta[-1]
        better = right_half(labels, {k: np.sum(x[y == k] @ w + b) for k in labels})  # eq. 9
        if better == right or len(labels) == 2:
            break
        right = better
    left = set(labels) - right
    return (w, b, fit(x, y, left, depth - 1, l2, rounds), fit(x, y, right, depth - 1, l2, rounds))


def leaves(tree, depth):
    """The labels of the leaves from left to right, None for padding."""
    return [tree] if depth == 0 else leaves(tree[2], depth - 1) + leaves(tree[3], depth - 1)


def log_probability(tree, depth, x, label):
    """log p of a label for one input (k,); minus infinity where the tree does not have it."""
    if depth == 0:
        return 0.0 if tree == label else -np.inf
    score = tree[0] @ x + tree[1]
    sides = [(-softplus(score), tree[2]), (-softplus(-score), tree[3])]
    return max(
        log_p + log_probability(child, depth - 1, x, label)
        for log_p, child in sides
        if child is not None
    )
