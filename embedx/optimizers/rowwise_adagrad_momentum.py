"""Row-wise Adagrad with momentum, for full gradients: a row moves along an exponential moving
average of its gradients.

    s += |g|²
    m  = (m + g)/2
    w -= lr · m̂ / √s          m̂ = m / (1 - 2^-t) in step t, the bias-corrected mean
                               (Kingma & Ba 2015, section 3)
Keeps a table of means and one number per row. It is for gradients over all data, where every row
has one at every step: with drawn rows, those that are not drawn would have to move as well.
"""

import numpy as np
from numpy import float32

from embedx.optimizers.contract import COLLAPSED, Optimizer

# measured: docs/constants.md
MOMENTUM = 0.5
TINY = float32(1e-12)  # added to √s, for rows without a gradient


class Means:
    """The state of a table: accumulated squared norms, float32 (n, 1), and moving averages of the
    gradients, like the table.
    """

    def __init__(self, table: np.ndarray) -> None:
        self.squares = np.zeros((len(table), 1), float32)
        self.mean = np.zeros_like(table)
        self.steps = np.zeros(1, np.int64)

    def direction(self, gradient: np.ndarray) -> np.ndarray:
        """The update subtracted at learning rate 1, float32 like the table; overwrites
        `gradient`.
        """
        self.steps += 1
        self.squares += np.einsum("ij,ij->i", gradient, gradient)[:, None]
        self.mean *= float32(MOMENTUM)
        gradient *= float32(1 - MOMENTUM)
        self.mean += gradient
        np.divide(self.mean, np.sqrt(self.squares) + TINY, out=gradient)
        gradient /= float32(1 - MOMENTUM ** int(self.steps[0]))
        return gradient


class RowwiseAdagradMomentum(Optimizer):
    """Row-wise Adagrad with momentum."""

    name = "rowwise-adagrad-momentum"
    meaning = "rowwise-adagrad with momentum, only for --collapsed"
    commands = (COLLAPSED,)
