"""Row-wise Adagrad: a row's gradient is divided by the root of its accumulated squared norms.

Duchi, Hazan & Singer 2011, with one accumulator per row as in Gupta, Bengio & Weston 2014, table 3:
    s += |g|²                         there divided by the dimension: rates here are √dimension
                                      times those
    w -= lr · g / √s
Keeps one number per row, almost no memory; a row's gradient is read twice, which costs little time.
The first step of a row has length lr, so that scores grow alike in any dimension.
"""

import numpy as np

from embedx.kernels import kernel_part, square_root
from embedx.optimizers.contract import LABELS, WORDS, Optimizer

# Added to s: a gradient of norm below 1e-6 moves a row by less than lr.
SMALLEST_SQUARE = np.float32(1e-12)


@kernel_part
def accumulate(s, squared_length):
    """The sum of the squared norms of a row's gradients."""
    return s + squared_length


@kernel_part
def divisor(s):
    """√s."""
    return square_root(s + SMALLEST_SQUARE)


class RowwiseAdagrad(Optimizer):
    """Row-wise Adagrad."""

    name = "rowwise-adagrad"
    meaning = (
        "Adagrad with a step size for each row, whose first step has the length of the learning"
        " rate"
    )
    commands = (WORDS, LABELS)
    keeps = "per_row"
    accumulate, divisor = accumulate, divisor
    # Labels, P@1 on Bibtex, whose inputs have length 8.3, at 2.5, 8.3 and 25: softmax .591, .619,
    # .601; ova .490, .606, .631; with a hidden layer of 100 softmax .601, .572, .427 (explored, not
    # on record).
    rates = {WORDS: 1.5, LABELS: 6.0}
