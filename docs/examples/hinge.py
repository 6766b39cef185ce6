"""Ranking hinge: the word that was there is to score higher, by a margin of 1, than words drawn
from a noise distribution q.

Collobert & Weston 2008, "A unified architecture for natural language processing", the language
model; negatives are drawn:
    loss = m · E_q[max(0, 1 + z_k - z_y)]             the expectation a mean over the draws, m =
                                                      --negatives
    ∂loss/∂z_k = m n_k / draws where the maximum is above 0, else 0                ∂loss/∂z_y = -Σ_k
        ∂loss/∂z_k
where k was drawn n_k times. It ranks, and that is all: the softmax of its scores is a convention,
not what the loss estimates.
"""

import numpy as np

from embedx.kernels.compiled import kernel
from embedx.objectives.contract import Objective, SampledSettings
from embedx.objectives.parts import positive


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    z, label, sample_count = batch.z, batch.label, batch.sample_count
    total = np.float64(0)
    for e in range(n_examples):
        y = positive(batch, e, n)
        if y < 0:
            z[e, :n] = 0
            continue
        score, pull = z[e, y], np.float32(0)
        for k in range(n):
            short = np.float32(1) + z[e, k] - score if sample_count[e, k] > 0 else np.float32(0)
            z[e, k] = (
                label[e, y] * constants[0] * sample_count[e, k] if short > 0 else np.float32(0)
            )
            pull += z[e, k]
            total += z[e, k] * short
        z[e, y] = -pull
    return total


class Hinge(Objective):
    name = "hinge"
    title = "ranking hinge"
    paper = "Collobert & Weston 2008"
    formula = "m E_q[max(0, 1 + z_k - z_y)]"
    advice = "nearest words and rankings; not for probabilities"
    Settings = SampledSettings
    coefficients = staticmethod(coefficients)
    candidates = ("drawn",)
    stable = True
    uses_log_expected_count = False

    def constants(self, n_draws: int, n_classes: int) -> np.ndarray:
        return np.array([self.negatives / n_draws], dtype=np.float32)
