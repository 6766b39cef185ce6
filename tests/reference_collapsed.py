"""The collapsed objective of skip-gram, straight from Yen et al. 2018, eq. 9, on a dense table of
counts in float64.
"""

import numpy as np


def objective(inputs, outputs, counts, candidates=None):
    """Σ_x q_x Σ_y q(y|x) [log Σ_k exp(u_x·w_k) - u_x·w_y], k over the candidates of x,
    which by default are all rows.

    candidates  (n_inputs, n_rows): whether a row is one, or how many rows it stands for
    """
    q = counts / counts.sum()
    total = 0.0
    for x, y in np.argwhere(q):
        rows = np.arange(len(outputs)) if candidates is None else np.flatnonzero(candidates[x])
        stand_for = np.ones(len(rows)) if candidates is None else candidates[x, rows]
        z = outputs[rows] @ inputs[x]
        total += q[x, y] * (np.log(stand_for @ np.exp(z)) - outputs[y] @ inputs[x])
    return total


def gradients(inputs, outputs, counts, candidates=None):
    """Of the inputs and of the outputs, written out: Σ_k (q_x p(k|x) - q_xk) w_k, and Σ_x (q_x
    p(k|x) - q_xk) u_x.
    """
    e = np.exp(inputs @ outputs.T) * (1 if candidates is None else candidates)
    q = counts / counts.sum()
    coefficients = (
        q.sum(axis=1, keepdims=True) * e / np.maximum(e.sum(axis=1, keepdims=True), 1e-300) - q
    )
    return coefficients @ outputs, coefficients.T @ inputs


def best_rows(inputs, outputs, n):
    """bool (n_inputs, n_rows): the n rows that score highest for each input."""
    z = inputs @ outputs.T
    is_best = np.zeros(z.shape, dtype=bool)
    np.put_along_axis(is_best, np.argpartition(-z, n - 1, axis=1)[:, :n], True, axis=1)
    return is_best
