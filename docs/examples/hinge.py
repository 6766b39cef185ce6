"""Ranking hinge: the positive is to score higher, by a margin, than words drawn from a noise
distribution q.

Collobert & Weston 2008, "A unified architecture for natural language processing", the language
model; negatives are drawn:
    loss = m · E_q[max(0, margin + z_k - z_y)]        the expectation a mean over the draws, m =
                                                      --negatives
    ∂loss/∂z_k = m n_k / draws where the maximum is above 0, else 0                ∂loss/∂z_y = -Σ_k
        ∂loss/∂z_k
where k was drawn n_k times. The loss ranks and does no more: the softmax of the scores is a
convention, not what the loss estimates.
"""

import numpy as np

from embedx.kernels import ZERO, kernel
from embedx.objectives.contract import About, Objective, SampledSettings, Traits
from embedx.objectives.parts import positive
from embedx.settings import param


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    z, label, sample_count = batch.z, batch.label, batch.sample_count
    weight, margin = constants[0], constants[1]
    total = np.float64(0)
    for e in range(n_examples):
        y = positive(batch, e, n)
        if y < 0:
            z[e, :n] = 0
            continue
        score = z[e, y]
        pull = ZERO
        for k in range(n):
            short = margin + z[e, k] - score if sample_count[e, k] > 0 else ZERO
            z[e, k] = label[e, y] * weight * sample_count[e, k] if short > 0 else ZERO
            pull += z[e, k]
            total += z[e, k] * short
        z[e, y] = -pull
    return total


class HingeSettings(SampledSettings):
    margin: float = param(
        1.0, "how far the positive's score is to exceed the others", above=0.0, has_option=False
    )


class Hinge(Objective):
    name = "hinge"
    about = About(
        title="ranking hinge",
        paper="Collobert & Weston 2008",
        formula="m E_q[max(0, margin + z_k - z_y)]",
        advice="nearest words and rankings; not for probabilities",
    )
    Settings = HingeSettings
    coefficients = staticmethod(coefficients)
    candidates = ("drawn",)
    traits = Traits(calibrated=False, uses_log_expected_count=False)

    def constants(self, n_draws: int, n_classes: int) -> np.ndarray:
        weight = self.negatives / n_draws
        return np.array([weight, self.settings.margin], dtype=np.float32)
