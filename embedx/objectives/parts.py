"""Functions that objectives share: the positive, importance weights, estimates of the normaliser,
the double-sum loss.
"""

from dataclasses import replace

import numpy as np
from numba.extending import register_jitable
from numpy import float32, ndarray

from embedx.kernels import ONE, ZERO, exp, kernel_part, larger, log, sigmoid, softplus
from embedx.objectives.contract import Objective, SampledSettings, Traits
from embedx.settings import param

# Limits exponents where a score may exceed its normaliser, so that weights of 1e12 stay finite in
# float32.
LARGEST_EXPONENT = float32(60)
# Below any score.
LOWEST = float32(-1e30)


@register_jitable
def positive(batch, e, n):
    """The column of example e's first positive, -1 if it has none."""
    label = batch.label
    for k in range(n):
        if label[e, k] > 0:
            return k
    return -1


@register_jitable
def importance(batch, e, k):
    """The importance weight, sample count / expected count, which makes a sum over draws an
    unbiased estimate of the sum over all rows; 0 for a row that was not drawn.
    """
    count = batch.sample_count[e, k]
    return count * exp(-batch.log_expected_count[e, k] if count > 0 else ZERO)


@register_jitable
def row_weight(batch, e, k):
    """The number of rows that a candidate represents: 1 for a positive, the importance weight for a
    draw.
    """
    return ONE if batch.label[e, k] > 0 else importance(batch, e, k)


@register_jitable
def negative_weight(batch, e, k, n_labels):
    """The number of positives, of n_labels in example e, for which candidate k is a negative: all
    but itself.
    """
    label = batch.label
    return n_labels * row_weight(batch, e, k) - label[e, k]


@register_jitable
def n_positives(batch, e, n):
    """The sum of the weights of example e's positives."""
    label = batch.label
    total = label[e, 0]
    for k in range(1, n):
        total += label[e, k]
    return total


@register_jitable
def best_positive(batch, e, n):
    """The score of example e's best positive."""
    z = batch.z
    label = batch.label
    lowest = z.dtype.type(LOWEST)
    best = lowest
    for k in range(n):
        best = larger(best, z[e, k] if label[e, k] > 0 else lowest)
    return best


@register_jitable
def rate(n_updates):
    """The step size of a state: (1 + n_updates)^-0.9; 1 at the first update. Ruiz et al. 2018 count
    iterations there, their code epochs.
    """
    return float32((1.0 + n_updates) ** -0.9)


def log_sigmoid(z: ndarray) -> ndarray:
    """log σ(z) of an array, without overflow on either side."""
    return np.minimum(z, 0) - np.log1p(np.exp(-np.abs(z)))


@kernel_part
def binary(batch, e, k, x, weight):
    """The logistic loss of candidate k, label_k softplus(-x) + weight softplus(x); overwrites its
    score by the derivative with respect to x.
    """
    label = batch.label[e, k]
    batch.z[e, k] = (label + weight) * sigmoid(x) - label
    return label * softplus(-x) + weight * softplus(x)


@kernel_part
def largest_score(batch, e, n):
    """The largest score of a positive or a draw."""
    z = batch.z
    label = batch.label
    sample_count = batch.sample_count
    lowest = z.dtype.type(LOWEST)
    largest = lowest
    for k in range(n):
        largest = larger(largest, z[e, k] if label[e, k] + sample_count[e, k] > 0 else lowest)
    return largest


@kernel_part
def log_sums(batch, e, n):
    """(estimate, largest): log Σ_k e^{z_k} over all rows, estimated from positives and draws, and
    the largest z_k among these. Example e has a positive.
    """
    z = batch.z
    label = batch.label
    sample_count = batch.sample_count
    log_expected_count = batch.log_expected_count
    largest = largest_score(batch, e, n)
    estimate = ZERO
    for k in range(n):
        is_label = label[e, k] > 0
        weight = ONE if is_label else sample_count[e, k]
        shifted = z[e, k] - largest - (ZERO if is_label else log_expected_count[e, k])
        estimate += weight * exp(shifted if weight > 0 else ZERO)
    return largest + np.log(estimate), largest


@kernel_part
def log_sum_seen(batch, e, n, largest):
    """log Σ_k e^{z_k} over positives and draws, each row once."""
    z = batch.z
    label = batch.label
    sample_count = batch.sample_count
    total = ZERO
    for k in range(n):
        total += exp(z[e, k] - largest) if label[e, k] + sample_count[e, k] > 0 else ZERO
    return largest + np.log(total)


@kernel_part
def log_mean(before, estimate, share):
    """log((1 - share) e^before + share e^estimate), for a share above 0."""
    gap = estimate - before
    smaller = exp(-abs(gap))
    if gap > 0:
        return estimate + log(share + (ONE - share) * smaller)
    return before + log(ONE - share + share * smaller)


@kernel_part
def replace_by_masses(batch, e, n, largest):
    """Overwrite the scores of example e by weight_k e^{z_k - largest}; return their sum, the
    estimate of Σ_k e^{z_k - largest} over all rows.

    Arbitrary scores are masked before the exponential: a branch around it would keep the loop from
    vectorising.
    """
    z = batch.z
    label = batch.label
    sample_count = batch.sample_count
    log_expected_count = batch.log_expected_count
    total = ZERO
    for k in range(n):
        is_label = label[e, k] > 0
        weight = ONE if is_label else sample_count[e, k]
        shifted = z[e, k] - largest - (ZERO if is_label else log_expected_count[e, k])
        z[e, k] = weight * exp(shifted if weight > 0 else ZERO)
        total += z[e, k]
    return total


@kernel_part
def weight_and_score_of_positives(batch, e, n):
    """Σ_k label_k and Σ_k label_k z_k of example e."""
    z = batch.z
    label = batch.label
    weight = label[e, 0]
    score = label[e, 0] * z[e, 0] if label[e, 0] > 0 else ZERO
    for k in range(1, n):
        weight += label[e, k]
        score += label[e, k] * z[e, k] if label[e, k] > 0 else ZERO
    return weight, score


@kernel_part
def double_sum(batch, e, n, u, largest, n_labels, score, is_relative):
    """The loss of example e at u = log Z or, if `is_relative`, log Z - z_y; overwrites its masses
    (`replace_by_masses`) by ∂loss/∂z.

    n_labels  summed weight of the positives
    score     weighted sum of their scores
    """
    if is_relative:
        return _double_sum_of_gaps(batch, e, n, u, largest, n_labels, score)
    return _double_sum(batch, e, n, u, largest, n_labels, score)


@kernel_part
def _double_sum(batch, e, n, u, largest, n_labels, score):
    """Σ_y (u - z_y - 1 + e^{-u} Σ_k weight_k e^{z_k}) over example e's positives y.

    Each term is at least log Z - z_y, with Z = Σ_k e^{z_k} over all rows, and equal at u = log Z
    (because log a ≤ u - 1 + a e^{-u}).
    """
    z = batch.z
    label = batch.label
    level = z.dtype.type(u)
    scale = n_labels * exp(min(largest - level, LARGEST_EXPONENT))
    shares = ZERO
    for k in range(n):
        share = scale * z[e, k]
        shares += share
        z[e, k] = share - label[e, k]
    return n_labels * (level - ONE) + shares - score


@kernel_part
def _double_sum_of_gaps(batch, e, n, u, largest, weight, score):
    """`_double_sum` for one positive y with u = log Z - z_y held fixed, so that every other term
    depends on z_y.
    """
    z = batch.z
    y = positive(batch, e, n)
    level = z.dtype.type(u)
    scale = exp(min(largest - score / weight - level, LARGEST_EXPONENT))
    z[e, y] = 0
    others = ZERO
    for k in range(n):
        share = scale * z[e, k]
        others += share
        z[e, k] = weight * share
    z[e, y] = -weight * others
    return weight * (level - ONE + exp(min(-level, LARGEST_EXPONENT)) + others)


class LocalObjective(Objective):
    """An objective whose state is an estimate of log Z or, if it `is_relative`, of log Z - z_y."""

    # settings that are further constants of `coefficients`
    in_kernel: tuple[str, ...] = ()
    word_defaults = {"block_size": 32}
    traits = Traits(unbiased=True, bound=True)
    state_width = 1

    @property
    def is_relative(self) -> bool:
        return self.settings.is_relative

    def traits_for_settings(self) -> Traits:
        return replace(self.traits, merges_pairs=not self.is_relative)

    def constants(self, n_draws: int, n_classes: int) -> ndarray:
        return np.array(
            [self.is_relative, *(getattr(self.settings, name) for name in self.in_kernel)], float32
        )

    def optimal_state(self, z: ndarray, label: ndarray) -> ndarray:
        """log Z, minus the positive's score if it `is_relative`."""
        largest = z.max(axis=1, keepdims=True)
        log_z = largest + np.log(np.exp(z - largest).sum(axis=1, keepdims=True))
        score = np.take_along_axis(z, label.argmax(axis=1)[:, None], axis=1)
        return np.asarray(log_z - score if self.is_relative else log_z, np.float64)


class DoubleSumSettings(SampledSettings):
    """Settings of the objectives that descend on the double sum over examples and classes."""

    double_sum: str = param(
        "raman",
        "local variable of an input: `raman` log Z, valid for any data; `proposed` log Z - z_y,"
        " valid where an input always has the same positive, and the published method of"
        " `implicit`",
        choices=("raman", "proposed"),
        has_option=False,
    )

    @property
    def is_relative(self) -> bool:
        return self.double_sum == "proposed"


class AugmentSettings(SampledSettings):
    """Settings of augment and reduce."""

    augment: str = param(
        "utility",
        "local variable of an input: the distribution of the winner's `utility`, valid for any"
        " data; of its `noise`, as in the paper, valid where an input always has the same positive",
        choices=("utility", "noise"),
        has_option=False,
    )
    local_decay: float = param(
        0.9,
        "the local step size falls as (1 + updates)^-local_decay",
        at_least=0.0,
        at_most=1.0,
        has_option=False,
    )

    @property
    def is_relative(self) -> bool:
        return self.augment == "noise"
