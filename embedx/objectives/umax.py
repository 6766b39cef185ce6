"""U-max: SGD on the softmax as a double sum over examples and classes, in the scores and in u, an
estimate of log Z.

Fagan & Iyengar 2018, "Unbiased scalable softmax optimization", eq. 6 and algorithm 1. With u = log
η, η = Σ_k e^{z_k - z_y}, and weight_k = n_k / E[n_k] (`double_sum proposed`):
    loss = u - 1 + e^{-u} + Σ_k weight_k e^{z_k - z_y - u}
    ∂loss/∂z_k = weight_k e^{z_k - z_y - u}        ∂loss/∂z_y = -Σ_k ∂loss/∂z_k
    raise    u = log(e^{z_y} + Σ_k e^{z_k}) - z_y over the rows seen, if u is below that by more
             than `threshold`
    step     u -= lr · (1 - e^{-u} - Σ_k ∂loss/∂z_k),     u = max(u, 0)
By default (`raman`, Raman et al. 2016, eq. 8 of the former) u is log Z = z_y + log η: everything
above shifted by z_y, with
    loss = u - z_y - 1 + e^{z_y - u} + Σ_k weight_k e^{z_k - u}
    ∂loss/∂z_k = weight_k e^{z_k - u}              ∂loss/∂z_y = e^{z_y - u} - 1
An input with several positives has one log Z but many η, so `raman` is valid for every task;
`proposed` only if an input has one positive, such as a row of a data set. Both are the bound of
augment and reduce (`ar`). The first visit of an input starts at the draws' estimate of the
normaliser, which also bounds a step upwards; see docs/derivations.md for the differences from the
paper.
"""

import numpy as np

from embedx.kernels import kernel, log
from embedx.objectives.contract import About
from embedx.objectives.parts import (
    LARGEST_EXPONENT,
    DoubleSumSettings,
    LocalObjective,
    best_positive,
    double_sum,
    largest_score,
    log_sum_seen,
    replace_by_masses,
    weight_and_score_of_positives,
)
from embedx.settings import param


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z.

    state[:, 0] is log Z or log η. With an infinite `threshold` only steps move u, as in
    `sgd_double_sum`.
    """
    z = batch.z
    state_row = batch.state_row
    n_updates = batch.n_updates
    relative = constants[0]
    threshold = constants[1]
    total = np.float64(0)
    for e in range(n_examples):
        n_labels, score = weight_and_score_of_positives(batch, e, n)
        if n_labels == 0:
            z[e, :n] = 0
            continue
        min_u = best_positive(batch, e, n)
        origin = relative * min_u
        largest = largest_score(batch, e, n)
        seen = log_sum_seen(batch, e, n, largest) if threshold < np.inf else largest
        estimate = largest + log(replace_by_masses(batch, e, n, largest))
        estimate = estimate - origin
        seen = seen - origin
        min_u = min_u - origin
        u = state[state_row[e], 0] if n_updates[e] > 0 else estimate
        u = max(seen if u < seen - threshold else u, min_u)
        slope = n_labels * (1 - np.exp(min(estimate - u, LARGEST_EXPONENT)))
        max_u = max(u, estimate) if threshold < np.inf else np.inf
        state[state_row[e], 0] = max(min(u - lr * slope, max_u), min_u)
        total += double_sum(batch, e, n, u, largest, n_labels, score, relative > 0)
    return total


class UmaxSettings(DoubleSumSettings):
    """Settings of U-max."""

    threshold: float = param(
        1.0,
        "the log normaliser is reset when it is further than this below that of the scores seen, in"
        " nats",
        at_least=0.0,
        has_option=False,
    )


class Umax(LocalObjective):
    name = "umax"
    about = About(
        title="U-max",
        paper="Fagan & Iyengar 2018",
        formula="u - z_y - 1 + e^-u (e^z_y + sum_k e^x_k), x_k = z_k - log(m q_k)",
        advice=(
            "like ar, but u follows the learning rate, not the number of updates of the input;"
            " on words less likely than ar"
        ),
    )
    Settings = UmaxSettings
    coefficients = staticmethod(coefficients)
    in_kernel = ("threshold",)
