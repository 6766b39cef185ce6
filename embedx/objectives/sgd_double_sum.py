"""Stochastic gradient descent on the double sum: the baseline "vanilla SGD" of U-max and implicit SGD.

Fagan & Iyengar 2018, eq. 6-8, by default on the double sum of Raman et al. 2016, "DS-MLR" (eq. 8), who keep u right by
computing the whole normaliser now and then, which is not done here. Loss, coefficients and u as in `umax`:
    step     u -= lr · (1 - e^{z_y - u} - Σ_k ∂loss/∂z_k),  u = max(u, z_y)       ∂loss/∂z_k = weight_k e^{z_k - u}
Nothing raises u when a score passes it, and e^{z_k - u} with its weight of (K-1)/m can be any number: unless the learning rate
is tiny, the run diverges. It is a baseline. Exponents are held at 60, where the damage is long done, so that a
diverged run shows in its loss rather than as NaN. A first visit starts at the draws' own estimate of the normaliser, as `umax`.
"""

import numpy as np

from embedx.kernels.compiled import kernel
from embedx.objectives.parts import (
    LARGEST_EXPONENT,
    DoubleSumSettings,
    LocalObjective,
    best_positive,
    double_sum,
    double_sum_of_gaps,
    log_sums,
    n_positives,
    positive,
)


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z. state[:, 0] is log Z or log η."""
    z, key, n_updates = batch.z, batch.key, batch.n_updates
    relative = constants[0]
    total = np.float64(0)
    for e in range(n_examples):
        y = positive(batch, e, n)
        if y < 0:
            z[e, :n] = 0
            continue
        estimate, _ = log_sums(batch, e, n)
        least = best_positive(batch, e, n)
        origin = relative * least
        least -= origin
        u = max(state[key[e], 0] if n_updates[e] > 0 else estimate - origin, least)
        slope = n_positives(batch, e, n) * (1 - np.exp(min(estimate - origin - u, LARGEST_EXPONENT)))
        state[key[e], 0] = max(u - lr * slope, least)
        if relative > 0:
            total += double_sum_of_gaps(batch, e, n, y, u)
        else:
            total += double_sum(batch, e, n, u)
    return total


class SgdDoubleSum(LocalObjective):
    name = "sgd-double-sum"
    title = "SGD on the double sum of Raman et al. 2016"
    paper = "baseline of Fagan & Iyengar 2018"
    formula = "u - z_y - 1 + e^-u (e^z_y + sum_k e^x_k), x_k = z_k - log(m q_k)"
    advice = "only as the baseline of umax and implicit: by plain sgd it diverges unless the learning rate is tiny"
    Settings = DoubleSumSettings
    coefficients = staticmethod(coefficients)
    word_defaults = {"block_size": 32, "learning_rate": 1.0}
    stable = False
