"""Bouchard's bound: each class is compared with a level alpha of the input, instead of all other
classes.

Bouchard 2007, "Efficient bounds for the softmax function", as in Titsias 2016, eq. 11 and 12:
    loss = alpha + Σ_k weight_k · softplus(z_k - alpha) - z_y,      k over all classes, y among them
    ∂loss/∂z_k = weight_k · σ(z_k - alpha) - [k = y]
with weight 1 for the positive and n / E[n] for the draws, which makes the sum unbiased. The bound
is tightest where S(alpha) = Σ_k weight_k · σ(z_k - alpha) is 1.

We know of no published stochastic version. This one keeps alpha per input and takes the step
    e^alpha <- e^alpha · (1 - rate + rate · S(alpha)),      rate = (1 + n_updates)^-0.9
along the negative derivative S - 1, scaled by e^alpha, so that a rare class of weight 10⁵ moves
alpha by the logarithm of that only. The expected step is 0 exactly where S is 1. alpha starts at
the draws' estimate of log Σ_k e^{z_k}, above the optimum, where the loss is at most 1 larger.
"""

import numpy as np

from embedx.kernels import ONE, ZERO, kernel, sigmoid, softplus
from embedx.objectives.contract import About, Objective, SampledSettings, Traits
from embedx.objectives.parts import log_sigmoid, log_sums, n_positives, rate, row_weight

BISECTIONS = 60


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    z = batch.z
    label = batch.label
    state_row = batch.state_row
    n_updates = batch.n_updates
    total = np.float64(0)
    for e in range(n_examples):
        n_labels = n_positives(batch, e, n)
        if n_labels == 0:
            z[e, :n] = 0
            continue
        alpha = z.dtype.type(state[state_row[e], 0])
        if n_updates[e] == 0:
            alpha = log_sums(batch, e, n)[0]
        crossing = ZERO
        loss = ZERO
        for k in range(n):
            weight = row_weight(batch, e, k)
            crossing += weight * sigmoid(z[e, k] - alpha if weight > 0 else ZERO)
        step = rate(n_updates[e])
        alpha += np.log1p(step * (crossing - ONE))
        state[state_row[e], 0] = alpha

        for k in range(n):
            weight = n_labels * row_weight(batch, e, k)
            score = z[e, k] if weight > 0 else ZERO
            loss += weight * softplus(score - alpha) - label[e, k] * score
            z[e, k] = weight * sigmoid(score - alpha) - label[e, k]
        total += n_labels * alpha + loss
    return total


class Bouchard(Objective):
    name = "bouchard"
    about = About(
        title="Bouchard's bound",
        paper="Bouchard 2007",
        formula="a + sum_k softplus(z_k - a) - z_y",
        advice="for comparison: a bound that exaggerates large probabilities",
    )
    Settings = SampledSettings
    coefficients = staticmethod(coefficients)
    word_defaults = {"block_size": 32}
    default_sampler = "uniform"
    traits = Traits(unbiased=True, bound=True, merges_pairs=True)
    state_width = 1

    def optimal_state(self, z: np.ndarray, label: np.ndarray) -> np.ndarray:
        """alpha where S(alpha) = 1, by bisection between the second largest score and log Σ e^z."""
        if z.shape[1] == 1:
            return z - 37.0  # the bound is exact at -∞; here it is within 1e-16
        z = np.sort(z.astype(np.float64), axis=1)
        others = z[:, :-1]
        top = z[:, -1:]
        low = others[:, -1:]
        high = top + np.log(np.exp(z - top).sum(axis=1, keepdims=True))
        for _ in range(BISECTIONS):
            alpha = (low + high) / 2
            is_low = np.exp(log_sigmoid(others - alpha)).sum(axis=1, keepdims=True) > np.exp(
                log_sigmoid(alpha - top)
            )
            low = np.where(is_low, alpha, low)
            high = np.where(is_low, high, alpha)
        return (low + high) / 2
