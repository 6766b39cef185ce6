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
    # Word vectors, 10 MB of Wikipedia, 5 epochs, held-out log-likelihood at 0.05, 0.1 and 0.15: ar
    # -8.54, -8.50, -8.53; hs -8.59, -8.57, -8.61; ns -8.71, -8.57, -8.54. Labels, with an initial
    # gradient of 4; EURLex-4.3K, first labels of 9,000 rows, P@1 and log-likelihood at 1 and 3:
    # softmax .604 (-1.84), .607 (-1.99). Without an initial gradient at 0.3 and 1: .582 (-2.21),
    # .574 (-2.69). Bibtex, P@1 at 1 and 3: softmax .586, .573; ova .602, .591.
    rates = {WORDS: 0.1, LABELS: 1.0}
