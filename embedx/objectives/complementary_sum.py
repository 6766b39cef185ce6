"""Complementary sum: the softmax with an estimate of its normaliser to which drawn rows and exact
ones add their terms.

Botev, Zheng & Barber 2017, "Complementary sum sampling for likelihood approximation in large scale
classification". Some rows A are summed, the positive among them, and the others are drawn:
    loss = log Z' - z_y,     Z' = Σ_{a in A} e^{z_a} + Σ_k weight_k e^{z_k}
                             weight_k = n_k / E[n_k] of the draws
    ∂loss/∂z_k = weight_k e^{z_k} / Z' - [k = y],     weight 1 in A
A has the positives, the rows that a search finds and, in a block of text, its centres. Z' is an
unbiased estimate, its variance without the terms of A. Its logarithm is too small on average: the
loss is no bound but below the softmax's, by about half the relative variance of Z', and the
positive's probability too large. `sampled-softmax` corrects the positive, too. `ar` averages Z'
over the visits of an input, and bounds the loss; at the first visit the two are the same. See
docs/derivations.md.
"""

import numpy as np

from embedx.kernels import ONE, ZERO, exp, kernel, kernel_part
from embedx.objectives.contract import About, Objective, SampledSettings, Traits
from embedx.objectives.parts import largest_score, n_positives, positive


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    total = np.float64(0)
    for e in range(n_examples):
        if positive(batch, e, n) < 0:
            batch.z[e, :n] = 0
        else:
            total += _loss_of_example(batch, e, n)
    return total


@kernel_part
def _loss_of_example(batch, e, n):
    """Loss of example e, summed over its positives; overwrites its scores by ∂loss/∂z."""
    z = batch.z
    label = batch.label
    sample_count = batch.sample_count
    log_expected_count = batch.log_expected_count
    largest = largest_score(batch, e, n)
    n_labels = n_positives(batch, e, n)
    score = ZERO
    mass = ZERO
    for k in range(n):
        is_label = label[e, k] > 0
        score += label[e, k] * z[e, k] if is_label else ZERO
        weight = ONE if is_label else sample_count[e, k]
        shifted = z[e, k] - largest - (ZERO if is_label else log_expected_count[e, k])
        z[e, k] = weight * exp(shifted if weight > 0 else ZERO)
        mass += z[e, k]
    scale = n_labels / mass
    for k in range(n):
        z[e, k] = scale * z[e, k] - label[e, k]
    return n_labels * (largest + np.log(mass)) - score


class ComplementarySum(Objective):
    name = "complementary-sum"
    about = About(
        title="complementary sum sampling",
        paper="Botev, Zheng & Barber 2017",
        formula="log(e^z_y + sum_k e^x_k) - z_y, x_k = z_k - log(m q_k)",
        advice=(
            "for comparison: ar without its state; its loss is too low unless many rows are drawn"
        ),
    )
    Settings = SampledSettings
    coefficients = staticmethod(coefficients)
    word_defaults = {"optimizer": "bounded-adagrad", "learning_rate": 1.5}
    traits = Traits(merges_pairs=True)
