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
    # ns, 5 epochs, means over 2 to 4 seeds: correlation over five sets of word pairs, analogies,
    # held-out log-likelihood
    #             bounded-adagrad          rowwise-adagrad          sgd
    #     10 MB   .298   7.9 %  -8.585     .308   7.6 %  -8.562     .266   7.0 %  -8.538
    #     30 MB   .379  19.7 %  -8.726     .375  18.3 %  -8.701
    #    100 MB   .415  42.6 %  -8.916     .414  41.7 %  -8.902     .413  42.1 %  -8.912
    # sampled-softmax, 30 MB, three seeds: .367, 21.1 %, -8.719 and by rowwise-adagrad .365, 18.6 %,
    # -8.709.
    rates = {WORDS: 2.0}
