"""One-vs-all: for each class a logistic regression of its own, "is it this one or not".

Rifkin & Klautau 2004, "In defense of one-vs-all classification"; for several labels known as binary relevance. The rows
that are no positive may be sampled:
    loss = Σ_k label_k · softplus(-z_k) + weight_k · softplus(z_k),       weight_k = times_k / e^loge_k
    ∂loss/∂z_k = (label_k + weight_k) · σ(z_k) - label_k
σ(z_k) estimates the probability that k is among the labels, however many these are; the sum over k is their expected number.
Where a distribution is asked for, they are divided by it: exact if every input has one label, a convention otherwise. With one
label the loss is Bouchard's bound at alpha = 0. At scores of 0 its K classes push by 1/2 each: mind the learning rate.
"""

import numpy as np

from embedx.compiled import kernel
from embedx.engine.maths import sigmoid, softplus
from embedx.objectives.contract import Objective, SampledSettings, log_softmax
from embedx.objectives.parts import importance, log_sigmoid


@kernel
def coefficients(z, label, times, loge, state, uniforms, numbers, key, visits, norm, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    total = np.float64(0)
    for e in range(n_examples):
        loss = np.float32(0)
        for k in range(n):
            score = z[e, k]
            weight = importance(times[e, k], loge[e, k])
            loss += label[e, k] * softplus(-score) + weight * softplus(score)
            z[e, k] = (label[e, k] + weight) * sigmoid(score) - label[e, k]
        total += loss
    return total


class OneVsAll(Objective):
    name = "ova"
    title = "one-vs-all"
    paper = "Rifkin & Klautau 2004"
    formula = "softplus(-z_y) + sum_(k≠y) softplus(z_k)"
    advice = "several labels per input: a probability for each label by itself"
    Settings = SampledSettings
    coefficients = staticmethod(coefficients)
    takes = "set"
    samplers = ("all", "uniform", "unigram")
    separable = True
    stable = True
    unbiased = True
    bound = True
    label_by_label = True

    def log_probability(self, z: np.ndarray, log_noise: np.ndarray) -> np.ndarray:
        return log_softmax(log_sigmoid(z))
