"""Row-wise Adagrad with a lower bound on the learning rate: the accumulator of a row stops growing
at a limit.

    s = min(s + |g|², LIMIT)
    w -= lr · g / √s
The first step of a row has length lr; at the limit the row moves by plain SGD at lr / √LIMIT. A
rare word learns as fast as with Adagrad, and a frequent one keeps learning on long text. Keeps one
number per row. For gradients with bounded coefficients, as in negative sampling; at the limit
skip-gram clips longer ones (`engine.skipgram.MAX_GRADIENT`).

The idea of bounding an adaptive rate is from Luo et al. 2019, section 4, whose bounds are functions
of the step, for Adam.
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
    """Row-wise Adagrad with a bounded rate."""

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
