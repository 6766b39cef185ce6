"""U-max: the softmax as a double sum over examples and classes, descended in the scores and in u,
an estimate of log Z.

Fagan & Iyengar 2018, "Unbiased scalable softmax optimization", eq. 6 and algorithm 1:
    loss = u - 1 + e^{-u} + Σ_k weight_k e^{z_k - z_y - u}      u stands for log η = log Σ_k e^{z_k
        - z_y}, weight as in `ar`
    raise    u = log(e^{z_y} + Σ_k e^{z_k}) - z_y over the rows seen, if u is below that by more
             than `threshold`
    step     u -= lr · (1 - e^{-u} - Σ_k ∂loss/∂z_k),  u = max(u, 0)       ∂loss/∂z_k = weight_k
        e^{z_k - z_y - u} ∂loss/∂z_y = -Σ_k ∂loss/∂z_k
That is `double_sum proposed`. Raman et al. 2016 let u stand for log Z = z_y + log η (eq. 8 of the
former): everything above shifted by z_y, but at a fixed u the positive is pulled otherwise,
    loss = u - z_y - 1 + e^{z_y - u} + Σ_k weight_k e^{z_k - u}
    ∂loss/∂z_k = weight_k e^{z_k - u}                                      ∂loss/∂z_y = e^{z_y - u}
        - 1
Both are the bound of augment and reduce (`ar`), where their difference is worked out. A key that
meets several positives has one log Z and many η, so `raman` is right for every task and the
default; `proposed` for keys with one positive, rows of a data set. Of `proposed` u is kept from
visit to visit as log η, of `raman` as log Z. As published, scores and u step from one place.

Three things are ours. A first visit starts at the draws' own estimate of the normaliser, which is
the paper's log K when all scores are 0. A step up stops there too: beyond, the same draws would
pull u back. Without that, rows of weight (K-1)/m lift u by hundreds in one step, from which it
returns by lr at each visit; the paper projects onto a bound that takes the optimum's norm to
compute. And the learning rate is that of the scores, without the N of eq. 7.
"""

import numpy as np

from embedx.kernels import kernel
from embedx.objectives.contract import About
from embedx.objectives.parts import (
    LARGEST_EXPONENT,
    DoubleSumSettings,
    LocalObjective,
    best_positive,
    double_sum,
    log_sum_seen,
    log_sums,
    n_positives,
    positive,
)
from embedx.settings import param


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z. state[:,
    0] is log Z or log η.

    At a `threshold` of infinity nothing but a step moves u: see `sgd_double_sum`.
    """
    z, key, n_updates = batch.z, batch.key, batch.n_updates
    relative, threshold = constants[0], constants[1]
    total = np.float64(0)
    for e in range(n_examples):
        y = positive(batch, e, n)
        if y < 0:
            z[e, :n] = 0
            continue
        estimate, largest = log_sums(batch, e, n)
        seen = log_sum_seen(batch, e, n, largest) if threshold < np.inf else largest
        least = best_positive(batch, e, n)
        origin = relative * least
        estimate, seen, least = estimate - origin, seen - origin, least - origin
        u = state[key[e], 0] if n_updates[e] > 0 else estimate
        u = max(seen if u < seen - threshold else u, least)
        slope = n_positives(batch, e, n) * (1 - np.exp(min(estimate - u, LARGEST_EXPONENT)))
        highest = max(u, estimate) if threshold < np.inf else np.inf
        state[key[e], 0] = max(min(u - lr * slope, highest), least)
        total += double_sum(batch, e, n, y, u, relative > 0)
    return total


class UmaxSettings(DoubleSumSettings):
    """Settings of U-max."""

    threshold: float = param(
        1.0,
        "the log normaliser is reset when it is further than this below that of the scores seen, in"
        " nats",
        at_least=0.0,
    )


class Umax(LocalObjective):
    name = "umax"
    about = About(
        title="U-max",
        paper="Fagan & Iyengar 2018",
        formula="u - z_y - 1 + e^-u (e^z_y + sum_k e^x_k), x_k = z_k - log(m q_k)",
        advice=(
            "like ar, for inputs seen few times: u follows the learning rate, not the number of"
            " updates"
        ),
    )
    Settings = UmaxSettings
    coefficients = staticmethod(coefficients)
    in_kernel = ("threshold",)
