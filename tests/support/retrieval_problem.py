"""Labelled rows, and settings of the search with which it finds every label."""

import numpy as np
from scipy.sparse import csr_matrix

from embedx.labeled.data import Labeled, Labels

FINDS_EVERY_LABEL = {
    "scored_fraction": 1.0,
    "candidate_fraction": 1.0,
    "slack": 1e6,
    "min_coefficient": 1e-30,
    "warm_up": 0.0,
}


def problem(kind, n=200, n_labels=40, seed=0):
    """Examples of one to three labels, dense or bags of words."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_labels, 23))
    labels = [rng.choice(n_labels, rng.integers(1, 4), replace=False) for _ in range(n)]
    x = np.array([centres[mine].sum(axis=0) for mine in labels]) + 0.3 * rng.normal(size=(n, 23))
    x = (np.maximum(x, 0) if kind == "hidden" else x).astype(np.float32)
    return Labeled(csr_matrix(x) if kind == "hidden" else x, Labels.of_rows(labels), n_labels)
