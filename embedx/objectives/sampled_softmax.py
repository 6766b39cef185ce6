"""Sampled softmax: the cross-entropy among the positive and the classes drawn, as if there were no others.

Bengio & Senécal 2008, "Adaptive importance sampling"; in the form of Jean et al. 2015, "On using very large target vocabulary".
Every candidate, the positive too, is corrected by the log of how often it was expected among the draws:
    loss = log Σ_j n_j e^{x_j} - x_y,       x_k = z_k - loge_k,       n_y = 1 and n_k = times_k for the draws that are not y
    ∂loss/∂z_k = n_k e^{x_k} / Σ_j n_j e^{x_j} - [k = y]
`complementary` leaves the positive uncorrected, x_y = z_y (Botev, Zheng & Barber 2017, "Complementary sum sampling"). The sum
is then an unbiased estimate of Σ_k e^{z_k}, the positive's term exact and the others weighed by times / e^loge. Its logarithm
is too small on average, hence the loss too, and the positive's probability too large; many draws cure it.
"""

import dataclasses

import numpy as np

from embedx.compiled import kernel
from embedx.engine.maths import exp
from embedx.objectives.contract import Objective, SampledSettings
from embedx.objectives.parts import positive
from embedx.settings import param


@kernel
def coefficients(z, label, times, loge, state, uniforms, numbers, key, visits, norm, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    corrected = numbers[0]
    total = np.float64(0)
    for e in range(n_examples):
        y = positive(label, e, n)
        if y < 0:
            z[e, :n] = 0
            continue
        scale, score = label[e, y], z[e, y] - corrected * loge[e, y]
        largest = score
        for k in range(n):
            z[e, k] = z[e, k] - loge[e, k] if times[e, k] > 0 else score
            largest = max(largest, z[e, k])
        own = exp(score - largest)
        mass = own
        for k in range(n):
            z[e, k] = times[e, k] * exp(z[e, k] - largest)
            mass += z[e, k]
        for k in range(n):
            z[e, k] *= scale / mass
        z[e, y] = scale * (own / mass - 1)
        total += scale * (np.log(mass) + largest - score)
    return total


@dataclasses.dataclass(frozen=True)
class SampledSoftmaxSettings(SampledSettings):
    complementary: bool = param(False, "estimate the normaliser with the positive's own term exact (Botev et al. 2017)")


class SampledSoftmax(Objective):
    name = "sampled-softmax"
    title = "sampled softmax"
    paper = "Jean et al. 2015"
    formula = "log(e^x_y + sum_draws e^x_k) - x_y, x_k = z_k - log e_k"
    advice = "close to the softmax with hundreds of negatives; with few it is biased"
    Settings = SampledSoftmaxSettings
    coefficients = staticmethod(coefficients)
    samplers = ("unigram", "uniform", "all")
    stable = True

    def numbers(self, n_draws: int, n_classes: int) -> np.ndarray:
        return np.array([0 if self.settings.complementary else 1], dtype=np.float32)
