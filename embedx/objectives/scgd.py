"""Stochastic compositional gradient descent: the logarithm of an expectation, which is averaged
over the visits of an input more slowly than the scores move.

Wang, Fang & Liu 2017, "Stochastic compositional gradient descent", algorithm 1, for the softmax as
in appendix B of Fagan & Iyengar 2018, whose 1 + v is e^u (`double_sum proposed`):
    average   e^u <- (1 - b) e^u + b (1 + Σ_k weight_k e^{z_k - z_y})
              b = (1 + n_updates)^-local_decay
    ∂loss/∂z_k = weight_k e^{z_k - z_y} / e^u          ∂loss/∂z_y = -Σ_k ∂loss/∂z_k
By default (`raman`) the average is that of Σ_k e^{z_k}, which all positives of an input share. The
two time scales are b and the learning rate, which has to fall faster; the theorem takes b = t^-1/2
and t^-3/4.

With Z' = 1 + Σ_k weight_k e^{z_k - z_y}, the gradient of log Z' at the average is that of its
tangent there, u + e^-u Z' - 1, which is the bound of augment and reduce: the loss here. So this is
`ar` with another local step, one that forgets sooner and has more variance, and with nothing that
keeps u near the scores seen. What is not here is the accelerated form, which needs the weights of
the step before.
"""

import numpy as np

from embedx.objectives.ar import coefficients
from embedx.objectives.contract import About
from embedx.objectives.parts import DoubleSumSettings, LocalObjective
from embedx.settings import param


class ScgdSettings(DoubleSumSettings):
    """Settings of stochastic compositional gradient descent."""

    local_decay: float = param(
        0.5,
        "the local step size falls as (1 + updates)^-local_decay",
        at_least=0.0,
        at_most=1.0,
        has_option=False,
    )


class Scgd(LocalObjective):
    name = "scgd"
    about = About(
        title="stochastic compositional gradient descent",
        paper="Wang, Fang & Liu 2017; Fagan & Iyengar 2018, appendix B",
        formula="u - z_y - 1 + e^-u (e^z_y + sum_k e^x_k), x_k = z_k - log(m q_k)",
        advice="for comparison: ar with a normaliser that follows the last visits more closely",
    )
    Settings = ScgdSettings
    coefficients = staticmethod(coefficients)
    word_defaults = {"block_size": 32, "optimizer": "adagrad"}

    def constants(self, n_draws: int, n_classes: int) -> np.ndarray:
        # at a threshold of infinity u is the average alone
        return np.array([self.is_relative, np.inf, self.settings.local_decay], np.float32)
