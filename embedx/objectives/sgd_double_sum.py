"""SGD on the double sum: the baseline "vanilla SGD" of the paper of U-max and implicit SGD.

Fagan & Iyengar 2018, eq. 6-8, by default on the double sum of Raman et al. 2016, "DS-MLR" (eq. 8),
without the exact normaliser that their method computes now and then. Loss, coefficients and u as in
`umax`:
    ∂loss/∂z_k = weight_k e^{z_k - u}
    u -= lr · (1 - e^{z_y - u} - Σ_k ∂loss/∂z_k),     u = max(u, z_y)
u is not raised when a score exceeds it, and e^{z_k - u} with its weight (K-1)/m is unbounded: the
run diverges unless the learning rate is tiny. Exponents are limited to 60, so that a diverged run
shows in its loss and not as NaN. The first visit of an input starts at the draws' estimate of the
normaliser, as in `umax`.
"""

import numpy as np

from embedx.objectives.contract import About, Traits
from embedx.objectives.parts import DoubleSumSettings, LocalObjective
from embedx.objectives.umax import coefficients


class SgdDoubleSum(LocalObjective):
    name = "sgd-double-sum"
    about = About(
        title="SGD on the double sum of Raman et al. 2016",
        paper="baseline of Fagan & Iyengar 2018",
        formula="u - z_y - 1 + e^-u (e^z_y + sum_k e^x_k), x_k = z_k - log(m q_k)",
        advice=(
            "only as the baseline of umax and implicit: with plain SGD it diverges unless the"
            " learning rate is tiny"
        ),
    )
    Settings = DoubleSumSettings
    coefficients = staticmethod(coefficients)
    word_defaults = {"block_size": 32, "learning_rate": 1.0}
    traits = Traits(stable=False, unbiased=True, bound=True)

    def constants(self, n_draws: int, n_classes: int) -> np.ndarray:
        # With an infinite threshold u is not raised, and its steps are not limited.
        return np.array([self.is_relative, np.inf], np.float32)
