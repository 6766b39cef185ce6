"""Augment and reduce for the softmax: a running estimate of each input's normaliser makes the loss
a sum over classes.

Ruiz et al. 2018, eq. 8 and algorithm 1, with Z = Σ_k e^{z_k}, weight_k = n_k / E[n_k], u = log Z:
    loss = u - z_y - 1 + e^{-u} (e^{z_y} + Σ_k weight_k e^{z_k}),     k over the draws
    ∂loss/∂z_k = weight_k e^{z_k - u}              ∂loss/∂z_y = e^{z_y - u} - 1
    local step    e^u <- (1 - a) e^u + a (e^{z_y} + Σ_k weight_k e^{z_k})
                  a = (1 + n_updates)^-local_decay
The loss equals the exact softmax's at the true u and is larger elsewhere. This is the default,
`augment utility`; a is `share` in the code. With `augment noise`, as in the paper, the state is
log η = u - z_y, and scores move at a fixed η:
    ∂loss/∂z_k = weight_k e^{z_k - z_y} / η        ∂loss/∂z_y = -Σ_k ∂loss/∂z_k
Computed with logarithms. `threshold` limits how far u may be below the scores of the candidates, as
in U-max (Fagan & Iyengar 2018), which bounds the coefficients. See docs/derivations.md.
"""

import numpy as np

from embedx.kernels import exp, kernel, log
from embedx.objectives.contract import About
from embedx.objectives.parts import (
    AugmentSettings,
    LocalObjective,
    double_sum,
    largest_score,
    log_mean,
    replace_by_masses,
    weight_and_score_of_positives,
)
from embedx.settings import param


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z.

    state[:, 0] is log Z or log η.
    """
    z = batch.z
    state_row = batch.state_row
    n_updates = batch.n_updates
    relative = constants[0]
    threshold = constants[1]
    decay = constants[2]
    total = np.float64(0)
    for e in range(n_examples):
        n_labels, score = weight_and_score_of_positives(batch, e, n)
        if n_labels == 0:
            z[e, :n] = 0
            continue
        origin = relative * score / n_labels
        largest = largest_score(batch, e, n)
        u = largest + log(replace_by_masses(batch, e, n, largest)) - origin
        if n_updates[e] > 0:
            share = exp(-decay * log(z.dtype.type(1 + n_updates[e])))
            u = log_mean(z.dtype.type(state[state_row[e], 0]), u, share)
        u = max(u, largest - origin - threshold)
        state[state_row[e], 0] = u
        total += double_sum(batch, e, n, u, largest, n_labels, score, relative > 0)
    return total


class SoftmaxAugmentSettings(AugmentSettings):
    """Settings of augment and reduce for the softmax."""

    threshold: float = param(
        1.0,
        "how far in nats the log normaliser may be below the largest score; 1e9: no limit, as in"
        " the paper",
        at_least=0.0,
        has_option=False,
    )


class AugmentReduce(LocalObjective):
    name = "ar"
    about = About(
        title="augment and reduce",
        paper="Ruiz et al. 2018",
        formula="u - z_y - 1 + e^-u (e^z_y + sum_k e^x_k), x_k = z_k - log(m q_k)",
        advice=(
            "probabilities of a softmax over many classes, each input seen many times;"
            " on text among the highest held-out likelihoods"
        ),
    )
    Settings = SoftmaxAugmentSettings
    coefficients = staticmethod(coefficients)
    word_defaults = {"block_size": 32, "optimizer": "adagrad"}
    pairs_per_draw = 10  # eval/results/speed.md#what-was-tried
    in_kernel = ("threshold", "local_decay")
