"""One-vs-all: a binary classifier for each class.

Rifkin & Klautau 2004, "In defense of one-vs-all classification"; with several labels, binary
relevance. Positives are exact, negatives are all other rows or a sample:
    loss = Σ_k label_k · φ(-z_k) + weight_k · φ(z_k),      weight_k = n_k / E[n_k]
    logistic        φ(t) = log(1 + e^t)
                    ∂loss/∂z_k = (label_k + weight_k) · σ(z_k) - label_k
    squared-hinge   φ(t) = max(0, 1 + t)²
                    ∂loss/∂z_k = 2 weight_k · max(0, 1 + z_k) - 2 label_k · max(0, 1 - z_k)
With the logistic loss σ(z_k) estimates the probability that k is among the labels; these do not sum
to one. `log_probability` divides them by their sum: exact if every input has one label, a
convention otherwise. With one label the loss is Bouchard's bound at alpha = 0.

The squared hinge (Chang, Hsieh & Lin 2008) is the loss of the support vector machines of liblinear
and DiSMEC. (1 + z_k) / 2 estimates the probability (Zhang 2004); within SMALLEST of 0 and 1 it is
continued smoothly, see docs/derivations.md.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy import float32, float64, ndarray

from embedx.kernels import HALF, ONE, TWO, ZERO, kernel
from embedx.objectives.contract import About, Objective, SampledSettings, Traits, log_softmax
from embedx.objectives.parts import binary, importance, log_sigmoid
from embedx.settings import param

LOSSES = ("logistic", "squared-hinge")
SMALLEST = 0.01


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    total = float64(0)
    if constants[0] > 0:
        for e in range(n_examples):
            total += _squared_hinge(batch, e, n)
    else:
        for e in range(n_examples):
            total += _logistic(batch, e, n)
    return total


@kernel
def _logistic(batch, e, n):
    """Loss of example e; overwrites its scores by ∂loss/∂z."""
    z = batch.z
    loss = ZERO
    for k in range(n):
        loss += binary(batch, e, k, z[e, k], importance(batch, e, k))
    return loss


@kernel
def _squared_hinge(batch, e, n):
    """Loss of example e; overwrites its scores by ∂loss/∂z."""
    z = batch.z
    label = batch.label
    loss = ZERO
    for k in range(n):
        weight = importance(batch, e, k)
        short = max(ONE - z[e, k], ZERO)
        over = max(ONE + z[e, k], ZERO)
        loss += label[e, k] * short * short + weight * over * over
        z[e, k] = TWO * (weight * over - label[e, k] * short)
    return loss


@kernel
def dual_steps(batch, alpha, constants, n_examples, n, c):
    """Summed loss of the examples; overwrites z by the steps of dual coordinate descent for the
    squared hinge.

    Hsieh et al. 2008, algorithm 1, for L2-loss: with y = ±1 and D = 1 / (2 C weight)
        alpha' = max(0, alpha - (y z - 1 + D alpha) / (|x|² + D))        w += (alpha' - alpha) y x
    """
    total = float64(0)
    for e in range(n_examples):
        total += _dual_step(batch, alpha, e, batch.state_row[e], n, c)
    return total


@kernel
def _dual_step(batch, alpha, e, row, n, c):
    """The loss and the steps of example e."""
    z = batch.z
    label = batch.label
    square = batch.score_gain
    loss = ZERO
    for k in range(n):
        weight = label[e, k] + importance(batch, e, k)
        y = ONE if label[e, k] > 0 else float32(-1)
        short = ONE - y * z[e, k]
        loss += weight * max(short, ZERO) * max(short, ZERO)
        before = alpha[row, k]
        d = HALF / (c * max(weight, float32(1e-30)))
        after = max(before - (d * before - short) / (square[e, k] + d), ZERO)
        after = after if weight > 0 else before
        alpha[row, k] = after
        z[e, k] = (after - before) * y
    return loss


class OneVsAllSettings(SampledSettings):
    loss: str = param(
        "logistic",
        "loss of each binary classifier; squared-hinge ranks sparse text better",
        choices=LOSSES,
    )


class OneVsAll(Objective):
    name = "ova"
    about = About(
        title="one-vs-all",
        paper="Rifkin & Klautau 2004",
        formula="softplus(-z_y) + sum_(k≠y) softplus(z_k)",
        advice="several labels per input: an independent probability for each label",
    )
    Settings = OneVsAllSettings
    coefficients = staticmethod(coefficients)
    # eval/results/defaults.md#what-was-found
    word_defaults = {"sampler": "unigram", "optimizer": "adagrad"}
    positives = "joint"
    candidates = ("all", "drawn")
    default_sampler = "uniform"
    traits = Traits(separable=True, unbiased=True)

    @property
    def dual_steps(self) -> Any:
        return dual_steps if self.settings.loss == "squared-hinge" else None

    def traits_for_settings(self) -> Traits:
        return replace(self.traits, bound=self.settings.loss == "logistic")

    def loss_unit(self, per: str) -> str:
        return super().loss_unit(per) if self.settings.loss == "logistic" else f"per {per}"

    def constants(self, n_draws: int, n_classes: int) -> ndarray:
        return np.array([LOSSES.index(self.settings.loss)], float32)

    def initial_bias(self, p: ndarray, noise: ndarray) -> ndarray:
        return np.log(p / (1 - p)) if self.settings.loss == "logistic" else 2 * p - 1

    def log_probability(self, z: ndarray, log_noise: ndarray) -> ndarray:
        return log_softmax(self.log_label_probability(z))

    def log_label_probability(self, z: ndarray) -> ndarray:
        if self.settings.loss == "logistic":
            return log_sigmoid(z)
        p = (1 + z) / 2
        below = np.log(SMALLEST) + (p - SMALLEST) / SMALLEST
        above = np.log1p(-(SMALLEST**2) / (np.maximum(p, 1 - SMALLEST) - 1 + 2 * SMALLEST))
        between = np.log(np.clip(p, SMALLEST, 1 - SMALLEST))
        return np.where(p < SMALLEST, below, np.where(p > 1 - SMALLEST, above, between))

    def scaled_scores(self, scale: ndarray) -> tuple[ndarray, ndarray]:
        return (
            super().scaled_scores(scale) if self.settings.loss == "logistic" else (scale, scale - 1)
        )
