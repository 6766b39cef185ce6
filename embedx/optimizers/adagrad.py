"""Adagrad: a coordinate's gradient is divided by the root of its accumulated squared gradients.

Duchi, Hazan & Singer 2011, with a diagonal matrix:
    s += g²
    w -= lr · g / √s
Keeps an accumulator for each coordinate: tables take twice the memory, and steps more time, the
larger the tables the more. The first step of a coordinate has length lr whatever its gradient,
unless accumulators start above 0, as in classification (`--set initial-gradient`): the tiny
gradients of absent labels should not move their rows far.
"""

import numpy as np

from embedx.kernels import kernel_part, square_root
from embedx.optimizers.contract import LABELS, WORDS, Optimizer

# Added to √s. The square of a gradient below 1e-19 underflows in float32; it must not be divided by
# much less.
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
    """Adagrad."""

    name = "adagrad"
    meaning = "Adagrad, a step size for each parameter"
    commands = (WORDS, LABELS)
    keeps = "per_coordinate"
    accumulate, divisor = accumulate, divisor
    # measured: docs/constants.md
    rates = {WORDS: 0.1, LABELS: 1.0}
