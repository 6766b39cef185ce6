"""Clustered features, and trees of adversarial negatives."""

import numpy as np

from embedx.samplers.contract import pairs_of
from embedx.samplers.tree import fit_tree


def clusters(n, n_labels, k, seed=0, spread=0.6):
    """Inputs (n, k) and their labels, which lie in a few groups; some are frequent, the last of
    many is never seen.
    """
    rng = np.random.default_rng(seed)
    groups = rng.normal(0, 2, (max(n_labels // 4, 1), k))
    centres = groups[rng.integers(0, len(groups), n_labels)] + rng.normal(0, 0.7, (n_labels, k))
    share = 1 / np.arange(1, n_labels + 1)
    share[-1] *= n_labels < 8
    y = rng.choice(n_labels, n, p=share / share.sum())
    return (centres[y] + spread * rng.normal(size=(n, k))).astype(np.float32), y


def features_of(x):
    """x padded to whole lanes, as the kernels have it."""
    out = np.zeros((len(x), -(-x.shape[1] // 16) * 16), dtype=np.float32)
    out[:, : x.shape[1]] = x
    return out


def some_tree(n_labels, n=300, k=3, l2=0.5, **options):
    x, y = clusters(n, n_labels, k)
    features = features_of(x)
    pairs = pairs_of(np.arange(n), y, n_labels)
    return fit_tree(features, k, pairs, l2=l2, **options), features, pairs, x, y
