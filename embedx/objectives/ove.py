"""One-vs-each: a product of pairwise probabilities that bounds the softmax from below.

Titsias 2016, "One-vs-each approximation to softmax", eq. 4 and 15 with gradient 16, the other
classes subsampled:
    loss = Σ_k weight_k · softplus(z_k - z_y)      over the draws k ≠ y, weight_k = n_k / E[n_k]
    ∂loss/∂z_k = weight_k · σ(z_k - z_y)           ∂loss/∂z_y = -Σ_k ∂loss/∂z_k
With free scores its optimum is that of maximum likelihood, z_k = log p_k + c (proposition 2). With
inputs it is not quite: each negative has a gradient of its own, where in the softmax they share one
unit of probability. At equal scores that of the positive is (K - 1) / 2, and the learning rate has
to allow for it (the paper's is 1e-8 for 2,919 classes and raw features).
"""

import numpy as np

from embedx.kernels import ZERO, kernel, sigmoid, softplus
from embedx.objectives.contract import About, Objective, SampledSettings, Traits
from embedx.objectives.parts import importance, positive


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    z = batch.z
    label = batch.label
    sample_count = batch.sample_count
    total = np.float64(0)
    for e in range(n_examples):
        y = positive(batch, e, n)
        if y < 0:
            z[e, :n] = 0
            continue
        scale = label[e, y]
        score = z[e, y]
        loss = ZERO
        pull = ZERO
        for k in range(n):
            weight = importance(batch, e, k)
            gap = z[e, k] - score if sample_count[e, k] > 0 else ZERO
            loss += weight * softplus(gap)
            z[e, k] = scale * weight * sigmoid(gap)
            pull += z[e, k]
        z[e, y] = -pull
        total += scale * loss
    return total


class OneVsEach(Objective):
    name = "ove"
    about = About(
        title="one-vs-each",
        paper="Titsias 2016",
        formula="sum_(k≠y) softplus(z_k - z_y)",
        advice="a bound without state; its steps grow with the number of classes, so use adagrad",
    )
    Settings = SampledSettings
    coefficients = staticmethod(coefficients)
    word_defaults = {"learning_rate": 2.0, "sampler": "unigram"}
    default_sampler = "uniform"
    traits = Traits(unbiased=True, bound=True)
