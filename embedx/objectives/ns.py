"""Negative sampling: tell the word that was there from `negatives` words drawn from a noise distribution q.

Mikolov et al. 2013, "Distributed representations of words and phrases", eq. 4, written as a loss:
    loss = softplus(-z_y) + negatives · E_q[softplus(z_k)]
    ∂loss/∂z_y = σ(z_y) - 1        ∂loss/∂z_k = weight · n_k · σ(z_k)
where the expectation is a mean over the words drawn, so weight = negatives / number of draws: thirty words drawn for a whole
block, say, stand for the five negatives of each of its pairs. Draws that hit the positive count as noise like any other, which
word2vec.c does not let them. Only then is the optimum over free scores exactly z_k = log p(k | h) - log(negatives · q_k)
(Levy & Goldberg 2014; Bamler & Mandt 2020, theorem 1), which `log_probability` inverts; p is the distribution of the pairs that
are trained on, after subsampling and with near words more often.
"""

import numpy as np

from embedx.kernels.compiled import kernel
from embedx.kernels.maths import sigmoid, softplus
from embedx.objectives.contract import Objective, SampledSettings, log_softmax


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    z, label, sample_count = batch.z, batch.label, batch.sample_count
    weight = constants[0]
    total = np.float64(0)
    for e in range(n_examples):
        loss = np.float32(0)
        for k in range(n):
            score = z[e, k]
            noise_weight = weight * sample_count[e, k]
            loss += label[e, k] * softplus(-score) + noise_weight * softplus(score)
            z[e, k] = (label[e, k] + noise_weight) * sigmoid(score) - label[e, k]
        total += loss
    return total


class NegativeSampling(Objective):
    name = "ns"
    title = "negative sampling"
    paper = "Mikolov et al. 2013"
    formula = "softplus(-z_y) + m E_q[softplus(z_k)]"
    advice = "word vectors: the fastest, and the best on word similarity; too sure of its probabilities after long training"
    Settings = SampledSettings
    coefficients = staticmethod(coefficients)
    word_defaults = {"bias": "none", "learning_rate": 2.0}
    positives = "summed"
    keeps_accidental_hits = True
    separable = True
    stable = True
    ranks_by_score = False
    uses_log_expected_count = False

    def constants(self, n_draws: int, n_classes: int) -> np.ndarray:
        return np.array([self.negatives / n_draws], dtype=np.float32)

    def initial_bias(self, p: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(p) - np.log(self.negatives * noise))

    def log_probability(self, z: np.ndarray, log_noise: np.ndarray) -> np.ndarray:
        return log_softmax(z + log_noise)
