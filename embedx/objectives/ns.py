"""Negative sampling: discriminate the positive from `negatives` classes drawn from the noise q.

Mikolov et al. 2013, "Distributed representations of words and phrases", eq. 4, written as a loss:
    loss = softplus(-z_y) + negatives · E_q[softplus(z_k)]
    ∂loss/∂z_y = σ(z_y) - 1        ∂loss/∂z_k = weight · n_k · σ(z_k)
The expectation is a mean over the draws, weight = negatives / number of draws: for example, 32
draws for a whole block replace the five negatives of each of its pairs. Unlike in word2vec.c, draws
of the positive count as noise too. Only then is the optimum over free scores exactly z_k = log p(k
| h) - log(negatives · q_k) (Levy & Goldberg 2014; Bamler & Mandt 2020, theorem 1), which
`log_probability` inverts; p is the distribution of the training pairs, after subsampling and
weighting by distance.

`score_l2` λ adds the penalty λ (z_k + log(negatives · q_k))² for the positive and every draw: the
square of its softmax score at prediction (Bamler & Mandt 2020, eq. 6, with one negative).
"""

from dataclasses import replace

import numpy as np
from numpy import ndarray

from embedx.kernels import ZERO, kernel, kernel_part, sigmoid, softplus
from embedx.objectives.contract import About, Objective, SampledSettings, Traits, log_softmax
from embedx.objectives.parts import binary
from embedx.settings import param


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    z = batch.z
    sample_count = batch.sample_count
    weight = constants[0]
    l2 = constants[1]
    total = np.float64(0)
    for e in range(n_examples):
        if l2 > 0:
            total += _regularised(batch, constants, e, n)
            continue
        loss = ZERO
        for k in range(n):
            loss += binary(batch, e, k, z[e, k], weight * sample_count[e, k])
        total += loss
    return total


@kernel_part
def _regularised(batch, constants, e, n):
    """Loss of example e with the penalty; overwrites its scores by ∂loss/∂z."""
    z = batch.z
    label = batch.label
    sample_count = batch.sample_count
    log_expected_count = batch.log_expected_count
    weight = constants[0]
    l2 = constants[1]
    log_weight = constants[2]
    loss = ZERO
    for k in range(n):
        score = z[e, k]
        noise_weight = weight * sample_count[e, k]
        both = label[e, k] + noise_weight
        corrected = score + log_expected_count[e, k] + log_weight if both > 0 else ZERO
        loss += (
            label[e, k] * softplus(-score)
            + noise_weight * softplus(score)
            + l2 * both * corrected * corrected
        )
        z[e, k] = both * (sigmoid(score) + (l2 + l2) * corrected) - label[e, k]
    return loss


class NegativeSamplingSettings(SampledSettings):
    """Settings of negative sampling."""

    score_l2: float = param(
        0.0,
        "L2 regularisation of the scores, after adding the log of the noise",
        at_least=0.0,
        has_option=False,
    )


class NegativeSampling(Objective):
    name = "ns"
    about = About(
        title="negative sampling",
        paper="Mikolov et al. 2013",
        formula="softplus(-z_y) + m E_q[softplus(z_k)]",
        advice=(
            "word vectors: the fastest measured, and among the best on similarity;"
            " overconfident after many epochs"
        ),
    )
    Settings = NegativeSamplingSettings
    coefficients = staticmethod(coefficients)
    word_defaults = {"bias": "none", "optimizer": "bounded-adagrad", "block_size": 16}
    large_text_defaults = {"optimizer": "sgd"}
    positives = "summed"
    traits = Traits(
        keeps_accidental_hits=True,
        separable=True,
        ranks_by_score=False,
        adds_log_noise=True,
        weighs_negatives=True,
    )

    def constants(self, n_draws: int, n_classes: int) -> ndarray:
        weight = self.negatives / n_draws
        return np.array([weight, self.settings.score_l2, np.log(weight)], np.float32)

    def traits_for_settings(self) -> Traits:
        return replace(self.traits, uses_log_expected_count=self.settings.score_l2 > 0)

    def initial_bias(self, p: ndarray, noise: ndarray) -> ndarray:
        return np.log(p) - np.log(self.negatives * noise)

    def log_probability(self, z: ndarray, log_noise: ndarray) -> ndarray:
        return log_softmax(z + log_noise)
