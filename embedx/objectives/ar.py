"""Augment and reduce for the softmax: a running estimate of each input's normaliser makes the loss
a sum over classes.

Ruiz et al. 2018, eq. 8 and algorithm 1, with Z = Σ_k e^{z_k} and weight_k = n_k / E[n_k]:
    loss = u - z_y - 1 + e^{-u} (e^{z_y} + Σ_k weight_k e^{z_k}),     sum over the draws, u = log Z
    ∂loss/∂z_k = weight_k e^{z_k - u}              ∂loss/∂z_y = e^{z_y - u} - 1
    local step    e^u <- (1 - a) e^u + a (e^{z_y} + Σ_k weight_k e^{z_k})
                  a = (1 + n_updates)^-local_decay
The loss equals the exact softmax's at the true u and exceeds it elsewhere. With `augment noise`, as
in the paper, the state is log η = u - z_y, and scores move at a fixed η:
    ∂loss/∂z_k = weight_k e^{z_k - z_y} / η        ∂loss/∂z_y = -Σ_k ∂loss/∂z_k
All is done with logarithms. `threshold` limits how far u may be below the scores seen, as in U-max
(Fagan & Iyengar 2018), which bounds the coefficients. See docs/derivations.md.
"""

import numpy as np

from embedx.kernels import kernel
from embedx.objectives.contract import About
from embedx.objectives.parts import AugmentSettings, LocalObjective, double_sum, log_sums, positive
from embedx.settings import param


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z. state[:,
    0] is log Z or log η.
    """
    z, key, n_updates = batch.z, batch.key, batch.n_updates
    relative = constants[0]
    threshold = constants[1]
    decay = constants[2]
    total = np.float64(0)
    for e in range(n_examples):
        y = positive(batch, e, n)
        if y < 0:
            z[e, :n] = 0
            continue
        estimate, largest = log_sums(batch, e, n)
        origin = relative * z[e, y]
        u = estimate - origin
        if n_updates[e] > 0:
            rate = (1 + n_updates[e]) ** -decay
            before = state[key[e], 0]
            above = max(before, u)
            u = above + np.log((1 - rate) * np.exp(before - above) + rate * np.exp(u - above))
        u = max(u, largest - origin - threshold)
        state[key[e], 0] = u
        total += double_sum(batch, e, n, y, u, relative > 0)
    return total


class SoftmaxAugmentSettings(AugmentSettings):
    """Settings of augment and reduce for the softmax."""

    threshold: float = param(
        1.0,
        "how far in nats the log normaliser may be below the largest score; 1e9: no limit, as in"
        " the paper",
        at_least=0.0,
    )


class AugmentReduce(LocalObjective):
    name = "ar"
    about = About(
        title="augment and reduce",
        paper="Ruiz et al. 2018",
        formula="u - z_y - 1 + e^-u (e^z_y + sum_k e^x_k), x_k = z_k - log(m q_k)",
        advice=(
            "probabilities of a softmax over many classes, each input seen many times; the highest"
            " held-out likelihood"
        ),
    )
    Settings = SoftmaxAugmentSettings
    coefficients = staticmethod(coefficients)
    word_defaults = {"block_size": 32, "optimizer": "adagrad"}
    in_kernel = ("threshold", "local_decay")
