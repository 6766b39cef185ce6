"""Adagrad: each number's gradient is divided by the root of the sum of its squares so far.

Duchi, Hazan & Singer 2011, with a diagonal matrix:
    s += g²
    w -= lr · g / √s
Keeps one number for each number of a row, so that tables take twice the memory, and steps about
twice the time. The first step of a number has length lr, whatever its gradient, unless sums begin
above 0, as they do in classification (`--set initial-gradient`): labels that are not there have
gradients of next to nothing, which should not move them far.
"""

import numpy as np

from embedx.kernels import kernel_part, square_root
from embedx.optimizers.contract import LABELS, WORDS, Optimizer

# beside √s; gradients below 1e-19 have no square in float32, and must not be divided by much less
TINY = np.float32(1e-18)


@kernel_part
def accumulate(s, g):
    """The sum of squared gradients."""
    return s + g * g


@kernel_part
def divisor(s):
    """√s."""
    return square_root(s) + TINY


class Adagrad(Optimizer):
    """Declares Adagrad."""

    name = "adagrad"
    meaning = "Adagrad, a step size for each parameter"
    commands = (WORDS, LABELS)
    keeps = "per_coordinate"
    accumulate, divisor = accumulate, divisor
    # measured: docs/constants.md
    rates = {WORDS: 0.1, LABELS: 1.0}
