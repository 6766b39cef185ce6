"""The mixture of RMSProp and Adagrad that augment & reduce is trained by.

Ruiz et al. 2018, section 4, after Kucukelbir et al. 2017:
    s  = g²/10 + 9s/10
    w -= lr · g / (1 + √s)
Keeps a number for each coordinate, like Adagrad. It is an exponential moving average, so that steps
do not become small for good; small gradients are hardly rescaled. The paper uses a learning rate
that falls as 1/√updates.
"""

import numpy as np

from embedx.kernels import ONE, kernel_part, square_root
from embedx.optimizers.contract import LABELS, WORDS, Optimizer


@kernel_part
def accumulate(s, g):
    """The exponential moving average of squared gradients."""
    return np.float32(0.1) * g * g + np.float32(0.9) * s


@kernel_part
def divisor(s):
    """1 + √s."""
    return ONE + square_root(s)


class Mixture(Optimizer):
    """The mixture of RMSProp and Adagrad."""

    name = "mixture"
    meaning = "RMSprop of the augment & reduce paper, which adds 1 to the root"
    commands = (WORDS, LABELS)
    keeps = "per_coordinate"
    accumulate, divisor = accumulate, divisor
    is_ema = True
    decays_at_zero = True
    # Word vectors, 10 MB of Wikipedia, 5 epochs, held-out log-likelihood at 0.02 and 0.04: ar -8.68
    # and -8.64, umax -8.73 and -9.00, ove -8.81 and -8.87; at 0.04 sgd-double-sum diverges
    # (explored, not on record).
    rates = {WORDS: 0.02, LABELS: 0.2}
