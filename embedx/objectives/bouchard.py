"""Bouchard's bound: each class is compared with a level alpha of its example, instead of with all the others.

Bouchard 2007, "Efficient bounds for the softmax function", as in Titsias 2016, eq. 11 and 12:
    loss = alpha + Σ_k weight_k · softplus(z_k - alpha) - z_y,      k over all classes, y among them
    ∂loss/∂z_k = weight_k · σ(z_k - alpha) - [k = y]
with weight 1 for the positive and times / e^loge for the draws, which makes the sum unbiased. The bound is tightest where
S(alpha) = Σ_k weight_k · σ(z_k - alpha) is 1. Nobody published a stochastic version; ours keeps alpha per key and follows
    e^alpha <- e^alpha · (1 - rate + rate · S(alpha)),      rate = (1 + visits)^-0.9
a step down the slope 1 - S, scaled by e^alpha, so that a rare class of weight 10⁵ moves alpha by its logarithm only. On average
it stands still exactly where S is 1. It starts at the log of the sum of the exponentials, as the draws estimate it: above the
optimum, with a loss at most 1 larger.
"""

import numpy as np

from embedx.compiled import kernel
from embedx.engine.maths import sigmoid, softplus
from embedx.objectives.contract import Objective, SampledSettings
from embedx.objectives.parts import importance, log_sigmoid, log_sums, positive, rate


@kernel
def coefficients(z, label, times, loge, state, uniforms, numbers, key, visits, norm, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    total = np.float64(0)
    for e in range(n_examples):
        y = positive(label, e, n)
        if y < 0:
            z[e, :n] = 0
            continue
        scale, score = label[e, y], z[e, y]
        alpha = state[key[e], 0]
        if visits[e] == 0:
            alpha = log_sums(z, times, loge, e, n, y)[0]
        crossing = sigmoid(score - alpha)
        for k in range(n):
            crossing += importance(times[e, k], loge[e, k]) * sigmoid(z[e, k] - alpha if times[e, k] > 0 else np.float32(0))
        step = rate(visits[e])
        alpha += np.log1p(step * (crossing - np.float32(1)))
        state[key[e], 0] = alpha

        loss = alpha - score + softplus(score - alpha)
        for k in range(n):
            weight = importance(times[e, k], loge[e, k])
            gap = z[e, k] - alpha if times[e, k] > 0 else np.float32(0)
            loss += weight * softplus(gap)
            z[e, k] = scale * weight * sigmoid(gap)
        z[e, y] = scale * (sigmoid(score - alpha) - 1)
        total += scale * loss
    return total


class Bouchard(Objective):
    name = "bouchard"
    title = "Bouchard's bound"
    paper = "Bouchard 2007"
    formula = "a + sum_k softplus(z_k - a) - z_y"
    advice = "for comparison: a bound that exaggerates large probabilities"
    Settings = SampledSettings
    coefficients = staticmethod(coefficients)
    samplers = ("uniform", "unigram", "all")
    stable = True
    unbiased = True
    bound = True
    state_width = 1

    def settle(self, z: np.ndarray, label: np.ndarray) -> np.ndarray:
        """alpha where S(alpha) = 1, by Newton's method for 1 / S = 1 as a function of a = e^alpha.

        1 / S = 1 / Σ_k 1 / (1 + a e^-z_k) is concave, a harmonic mean of linear functions, and grows with a. So Newton's steps
        approach the root from below and never pass it. They start from the second largest score, where S is at least 1.
        """
        if z.shape[1] == 1:
            return z - 37.0  # the bound is exact at -∞; here it is within 1e-16
        alpha = np.partition(z.astype(np.float64), -2, axis=1)[:, -2:-1].copy()
        for _ in range(64):
            inside = np.exp(log_sigmoid(z - alpha))
            excess = inside.sum(axis=1, keepdims=True) - 1
            rising = excess > 1e-12
            if not rising.any():
                break
            slope = (inside * (1 - inside)).sum(axis=1, keepdims=True)
            alpha[rising] += np.log1p((1 + excess[rising]) * excess[rising] / slope[rising])
        return alpha
