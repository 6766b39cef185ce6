"""The exact softmax: all K classes are candidates of every example, and nothing is approximated.

    loss = Σ_y label_y · (log Σ_k e^{z_k} - z_y)
    ∂loss/∂z_k = (Σ_y label_y) · e^{z_k} / Σ_j e^{z_j} - label_k

With several labels it is the weighted sum of their cross-entropies.
"""

import numpy as np

from embedx.kernels import ZERO, exp, kernel, larger
from embedx.objectives.contract import About, Objective, Traits


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    z = batch.z
    label = batch.label
    sample_count = batch.sample_count
    total = np.float64(0)
    lowest = z.dtype.type(-np.inf)
    for e in range(n_examples):
        largest = lowest
        n_labels = ZERO
        for k in range(n):
            is_candidate = label[e, k] + sample_count[e, k] > 0
            largest = larger(largest, z[e, k] if is_candidate else lowest)
            n_labels += label[e, k]
        if n_labels == 0:
            z[e, :n] = 0
            continue
        mass = ZERO
        reward = ZERO
        for k in range(n):
            shifted = z[e, k] - largest
            reward += label[e, k] * (shifted if label[e, k] > 0 else ZERO)
            z[e, k] = exp(shifted) if label[e, k] + sample_count[e, k] > 0 else ZERO
            mass += z[e, k]
        total += n_labels * np.log(mass) - reward
        scale = n_labels / mass
        for k in range(n):
            z[e, k] = scale * z[e, k] - label[e, k]
    return total


class Softmax(Objective):
    name = "softmax"
    about = About(
        title="exact softmax",
        paper="Bridle 1990",
        formula="log sum_k e^z_k - z_y",
        advice="up to about ten thousand classes: the loss that most others approximate",
    )
    coefficients = staticmethod(coefficients)
    word_defaults = {"block_size": 32, "optimizer": "adagrad", "learning_rate": 0.15}
    positives = "joint"
    traits = Traits(merges_pairs=True, uses_log_expected_count=False)
    candidates = ("all",)
