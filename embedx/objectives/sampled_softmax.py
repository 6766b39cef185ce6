"""Sampled softmax: the cross-entropy over the positive and the drawn classes alone.

Bengio & Senécal 2008, "Adaptive importance sampling"; in the form of Jean et al. 2015, "On using
very large target vocabulary". Every candidate, also the positive, is corrected by the log of its
expected count:
    loss = log Σ_j n_j e^{x_j} - x_y,     x_k = z_k - log E[n_k],  n_k the count of k in the draws
    ∂loss/∂z_k = n_k e^{x_k} / Σ_j n_j e^{x_j} - [k = y]
The positive counts once. With `keep_hits`, draws of the positive (accidental hits) count too, which
makes the loss consistent for any number of draws with replacement (Ma & Collins 2018); without, the
scores are slightly biased from two draws on. See docs/derivations.md.

`complementary` leaves the positive uncorrected, x_y = z_y (Botev, Zheng & Barber 2017,
"Complementary sum sampling"). The sum is then an unbiased estimate of Σ_k e^{z_k}: the term of the
positive is exact, the others have weight n / E[n]. Its logarithm, hence the loss, is too small on
average, and the positive's probability too large; the bias vanishes with many draws.
"""

from dataclasses import replace

import numpy as np

from embedx.kernels import ONE, ZERO, exp, kernel, kernel_part, larger
from embedx.objectives.contract import About, Objective, SampledSettings, Traits
from embedx.objectives.parts import largest_score, n_positives, positive
from embedx.settings import param

# Values of the constant of `coefficients`.
COMPLEMENTARY, WITHOUT_HITS, WITH_HITS = range(3)


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    z = batch.z
    form = np.int64(constants[0])
    total = np.float64(0)
    for e in range(n_examples):
        y = positive(batch, e, n)
        if y < 0:
            z[e, :n] = 0
        elif form == COMPLEMENTARY:
            total += _complementary(batch, e, n)
        else:
            total += _corrected(batch, e, n, y, form)
    return total


@kernel_part
def _corrected(batch, e, n, y, form):
    """Loss of example e with one positive y; overwrites its scores by ∂loss/∂z."""
    z, label, sample_count, log_expected_count = (
        batch.z,
        batch.label,
        batch.sample_count,
        batch.log_expected_count,
    )
    scale, score = label[e, y], z[e, y] - log_expected_count[e, y]
    largest = score
    for k in range(n):
        z[e, k] = z[e, k] - log_expected_count[e, k] if sample_count[e, k] > 0 else score
        largest = larger(largest, z[e, k])
    positive_mass = exp(score - largest)
    mass = ZERO
    for k in range(n):
        z[e, k] = sample_count[e, k] * exp(z[e, k] - largest)
        if k == y:
            z[e, k] = positive_mass if form == WITHOUT_HITS else positive_mass + z[e, k]
        mass += z[e, k]
    for k in range(n):
        z[e, k] *= scale / mass
    z[e, y] -= scale
    return scale * (np.log(mass) + largest - score)


@kernel_part
def _complementary(batch, e, n):
    """Loss of example e with `complementary`; positives are negatives of each other. Overwrites its
    scores by ∂loss/∂z.
    """
    z, label, sample_count, log_expected_count = (
        batch.z,
        batch.label,
        batch.sample_count,
        batch.log_expected_count,
    )
    largest, n_labels = largest_score(batch, e, n), n_positives(batch, e, n)
    reward, total = ZERO, ZERO
    for k in range(n):
        is_label = label[e, k] > 0
        reward += label[e, k] * z[e, k] if is_label else ZERO
        weight = ONE if is_label else sample_count[e, k]
        shifted = z[e, k] - largest - (ZERO if is_label else log_expected_count[e, k])
        z[e, k] = weight * exp(shifted if weight > 0 else ZERO)
        total += z[e, k]
    scale = n_labels / total
    for k in range(n):
        z[e, k] = scale * z[e, k] - label[e, k]
    return n_labels * (largest + np.log(total)) - reward


class SampledSoftmaxSettings(SampledSettings):
    """Settings of sampled softmax."""

    keep_hits: bool = param(
        False,
        "count draws of the positive itself: consistent with any number of draws with replacement,"
        " where leaving them out is biased; not for `uniform` without replacement, nor with"
        " `complementary`",
    )
    complementary: bool = param(
        False, "estimate the normaliser with the positive's own term exact (Botev et al. 2017)"
    )


class SampledSoftmax(Objective):
    name = "sampled-softmax"
    about = About(
        title="sampled softmax",
        paper="Jean et al. 2015",
        formula="log sum_k n_k e^x_k - x_y, x_k = z_k - log e_k",
        advice=(
            "softmax over sampled rows, close to the full softmax with any number of negatives if"
            " --set keep-hits=yes"
        ),
    )
    Settings = SampledSoftmaxSettings
    coefficients = staticmethod(coefficients)
    word_defaults = {"optimizer": "bounded-adagrad", "learning_rate": 1.5}

    def resolved_traits(self) -> Traits:
        is_complementary = self.settings.complementary
        return replace(
            self.traits,
            merges_pairs=is_complementary,
            keeps_accidental_hits=self.settings.keep_hits and not is_complementary,
        )

    def constants(self, n_draws: int, n_classes: int) -> np.ndarray:
        # With all rows, none is drawn.
        kept = (
            WITH_HITS if self.traits.keeps_accidental_hits and n_draws < n_classes else WITHOUT_HITS
        )
        return np.array([COMPLEMENTARY if self.settings.complementary else kept], np.float32)
