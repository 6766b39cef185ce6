"""Noise-contrastive estimation: discriminate the class from noise, by scores that are unnormalised
log-probabilities.

Gutmann & Hyvärinen 2010, "Noise-contrastive estimation"; for words Mnih & Teh 2012. With m noise
classes for each positive, drawn from q, a class is the positive with log-odds x_k = z_k - log(m
q_k), so
    loss = softplus(-x_y) + m · E_q[softplus(x_k)]
    ∂loss/∂z_y = σ(x_y) - 1        ∂loss/∂z_k = weight · n_k · σ(x_k)
The expectation is a mean over the draws, weight = m / number of draws; log(m q_k) is log E[n_k] +
log(weight). The optimum over free scores is z_k = log p(k | h): the normaliser is learned to be 1,
which costs dimensions or a bias, and predictions need no correction. Negative sampling is the same
without log(m q_k).
"""

import numpy as np

from embedx.kernels import ZERO, kernel
from embedx.objectives.contract import About, Objective, SampledSettings, Traits
from embedx.objectives.parts import binary


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    z = batch.z
    sample_count = batch.sample_count
    log_expected_count = batch.log_expected_count
    weight = constants[0]
    log_weight = constants[1]
    total = np.float64(0)
    for e in range(n_examples):
        loss = ZERO
        for k in range(n):
            x = z[e, k] - (log_expected_count[e, k] + log_weight)
            loss += binary(batch, e, k, x, weight * sample_count[e, k])
        total += loss
    return total


class NoiseContrastive(Objective):
    name = "nce"
    about = About(
        title="noise-contrastive estimation",
        paper="Gutmann & Hyvärinen 2010",
        formula="softplus(-x_y) + m E_q[softplus(x_k)], x_k = z_k - log(m q_k)",
        advice=(
            "negative sampling that gives probabilities: scores need no normalisation, given many"
            " negatives and a bias"
        ),
    )
    Settings = SampledSettings
    coefficients = staticmethod(coefficients)
    positives = "summed"
    traits = Traits(keeps_accidental_hits=True, separable=True, weighs_negatives=True)

    def constants(self, n_draws: int, n_classes: int) -> np.ndarray:
        weight = self.negatives / n_draws
        return np.array([weight, np.log(weight)], np.float32)
