"""Row-wise Adagrad with a bounded rate: a row's sum of squares stops growing at a limit, and its
rate then falls no further.

Row-wise Adagrad (`rowwise_adagrad`) with the rate bounded from below:
    s = min(s + |g|², LIMIT)
    w -= lr · g / √s
A row's first step has length lr, and from some updates on it moves by plain descent at lr / √LIMIT:
a rare word learns as fast as by Adagrad, and a frequent one does not stand still while the text is
long. Keeps one number for each row. Suits gradients of bounded coefficients, as those of negative
sampling; at the limit skip-gram clips longer ones (`engine.skipgram.MAX_GRADIENT`).

From Luo et al. 2019, section 4, is only the idea to bound an adaptive rate: their bounds are
functions of the step, for Adam.
"""

import numpy as np

from embedx.kernels import kernel_part
from embedx.optimizers.contract import WORDS, Optimizer
from embedx.optimizers.rowwise_adagrad import divisor

LIMIT = np.float32(5000)


@kernel_part
def accumulate(s, squared_length):
    """The sum of the squared lengths of a row's gradients, up to the limit."""
    return min(s + squared_length, LIMIT)


class BoundedAdagrad(Optimizer):
    """Declares row-wise Adagrad with a bounded rate."""

    name = "bounded-adagrad"
    meaning = (
        "rowwise-adagrad whose step size falls no further than to a seventieth of the learning rate"
    )
    commands = (WORDS,)
    keeps = "per_row"
    accumulate, divisor = accumulate, divisor
    limit = float(LIMIT)
    # measured: docs/constants.md
    rates = {WORDS: 2.0}
