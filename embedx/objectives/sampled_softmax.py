"""Sampled softmax: the cross-entropy over the positive and the drawn classes alone.

Bengio & Senécal 2008, "Adaptive importance sampling"; in the form of Jean et al. 2015, "On using
very large target vocabulary". Every candidate, also the positive, is corrected by the log of its
expected count:
    loss = log Σ_j n_j e^{x_j} - x_y,     x_k = z_k - log E[n_k],  n_k the count of k in the draws
    ∂loss/∂z_k = n_k e^{x_k} / Σ_j n_j e^{x_j} - [k = y]
The positive counts once. With `keep_hits`, draws of the positive (accidental hits) count too, which
makes the loss consistent for any number of draws with replacement (Ma & Collins 2018); without, the
scores are slightly biased from two draws on. See docs/derivations.md. `complementary-sum` does
not correct the positive.
"""

from dataclasses import replace

import numpy as np

from embedx.kernels import ZERO, exp, kernel, kernel_part, larger
from embedx.objectives.contract import About, Objective, SampledSettings, Traits
from embedx.objectives.parts import positive
from embedx.settings import param


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    z = batch.z
    with_hits = constants[0] > 0
    total = np.float64(0)
    for e in range(n_examples):
        y = positive(batch, e, n)
        if y < 0:
            z[e, :n] = 0
        else:
            total += _loss_of_example(batch, e, n, y, with_hits)
    return total


@kernel_part
def _loss_of_example(batch, e, n, y, with_hits):
    """Loss of example e with one positive y; overwrites its scores by ∂loss/∂z."""
    z, label, sample_count, log_expected_count = (
        batch.z,
        batch.label,
        batch.sample_count,
        batch.log_expected_count,
    )
    scale = label[e, y]
    score = z[e, y] - log_expected_count[e, y]
    largest = score
    for k in range(n):
        z[e, k] = z[e, k] - log_expected_count[e, k] if sample_count[e, k] > 0 else score
        largest = larger(largest, z[e, k])
    positive_mass = exp(score - largest)
    mass = ZERO
    for k in range(n):
        z[e, k] = sample_count[e, k] * exp(z[e, k] - largest)
        if k == y:
            z[e, k] = positive_mass + z[e, k] if with_hits else positive_mass
        mass += z[e, k]
    for k in range(n):
        z[e, k] *= scale / mass
    z[e, y] -= scale
    return scale * (np.log(mass) + largest - score)


class SampledSoftmaxSettings(SampledSettings):
    """Settings of sampled softmax."""

    keep_hits: bool = param(
        False,
        "count draws of the positive itself: consistent with any number of draws with replacement,"
        " where leaving them out is biased; not for `uniform` without replacement",
        has_option=False,
    )


class SampledSoftmax(Objective):
    name = "sampled-softmax"
    about = About(
        title="sampled softmax",
        paper="Jean et al. 2015",
        formula="log sum_k n_k e^x_k - x_y, x_k = z_k - log e_k",
        advice=(
            "softmax over sampled rows; with --set keep-hits=yes its optimum is that of the full"
            " softmax, with any number of negatives"
        ),
    )
    Settings = SampledSoftmaxSettings
    coefficients = staticmethod(coefficients)
    word_defaults = {"optimizer": "bounded-adagrad", "learning_rate": 1.5}

    def traits_for_settings(self) -> Traits:
        return replace(self.traits, keeps_accidental_hits=self.settings.keep_hits)

    def constants(self, n_draws: int, n_classes: int) -> np.ndarray:
        # With all rows, none is drawn.
        has_hits = self.settings.keep_hits and n_draws < n_classes
        return np.array([has_hits], np.float32)
