"""Objectives that differ from embedx's in one point, to measure what it does; none is registered.

ar-by-iterations         the local step of `ar` falls with the iterations, as Ruiz et al. 2018 have
                         it, not with the visits of an input
ar-probit-by-iterations  likewise
ar-probit-from-standard  the distribution of the utility begins at location 0 and scale 1, not at
                         what the first visit sees
umax-uncapped            a step of U-max may raise u above the draws' estimate of the normaliser
sampled-softmax-joint    one candidate set for all labels of a row (Yen et al. 2018), not one each
"""

import numpy as np

from embedx.kernels import ZERO, exp, kernel, kernel_part, larger, log
from embedx.objectives import ar, ar_probit, umax
from embedx.objectives.contract import Objective, SampledSettings
from embedx.objectives.parts import (
    LARGEST_EXPONENT,
    best_positive,
    double_sum,
    largest_score,
    log_sum_seen,
    n_positives,
    positive,
    replace_by_masses,
    weight_and_score_of_positives,
)
from embedx.objectives.sampled_softmax import SampledSoftmax
from embedx.objectives.utility import UtilitySettings
from embedx.settings import param

# The γ whose softplus is 1.
GAMMA_OF_ONE = np.float32(np.log(np.e - 1))


# ---- augment and reduce: local steps by iterations


@kernel
def ar_by_iterations(batch, state, constants, n_examples, n, lr):
    """`ar.coefficients`, with the iterations so far in place of an input's visits."""
    for e in range(n_examples):
        batch.n_updates[e] *= np.int64(constants[3])
    return ar.coefficients(batch, state, constants, n_examples, n, lr)


class IterationSettings(ar.SoftmaxAugmentSettings):
    """Settings of `ar`, and the length of an epoch."""

    minibatches: int = param(1, "number of minibatches in an epoch", at_least=1)


class ByIterations(ar.AugmentReduce):
    name = "ar-by-iterations"
    Settings = IterationSettings
    coefficients = staticmethod(ar_by_iterations)
    in_kernel = (*ar.AugmentReduce.in_kernel, "minibatches")


@kernel
def probit_by_iterations(batch, state, constants, n_examples, n, lr):
    """`ar_probit.coefficients`, with the iterations so far in place of an input's visits."""
    for e in range(n_examples):
        batch.n_updates[e] *= np.int64(constants[4])
    return ar_probit.coefficients(batch, state, constants, n_examples, n, lr)


class ProbitIterationSettings(UtilitySettings):
    """Settings of `ar-probit`, and the length of an epoch."""

    minibatches: int = param(1, "number of minibatches in an epoch", at_least=1)


class ProbitByIterations(ar_probit.AugmentReduceProbit):
    name = "ar-probit-by-iterations"
    Settings = ProbitIterationSettings
    coefficients = staticmethod(probit_by_iterations)
    in_kernel = (*ar_probit.AugmentReduceProbit.in_kernel, "minibatches")


@kernel
def probit_from_standard(batch, state, constants, n_examples, n, lr):
    """`ar_probit.coefficients` from location 0 and scale 1; the first step has the size of the
    second one.
    """
    for e in range(n_examples):
        if batch.n_updates[e] == 0:
            state[batch.state_row[e], 0] = ZERO
            state[batch.state_row[e], 1] = GAMMA_OF_ONE
            batch.n_updates[e] = 1
    return ar_probit.coefficients(batch, state, constants, n_examples, n, lr)


class ProbitFromStandard(ar_probit.AugmentReduceProbit):
    name = "ar-probit-from-standard"
    coefficients = staticmethod(probit_from_standard)


# ---- U-max without a cap


@kernel
def umax_uncapped(batch, state, constants, n_examples, n, lr):
    """`umax.coefficients`, whose step of u has no limit above.

    The loop is written out again: in embedx's the limit is one of three in an expression, and a
    setting that lifts it would be for this measurement alone.
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
        least = best_positive(batch, e, n)
        origin = relative * least
        largest = largest_score(batch, e, n)
        seen = log_sum_seen(batch, e, n, largest) - origin
        estimate = largest + log(replace_by_masses(batch, e, n, largest)) - origin
        least -= origin
        u = state[state_row[e], 0] if n_updates[e] > 0 else estimate
        if u < seen - threshold:
            u = seen
        u = max(u, least)
        slope = n_labels * (1 - np.exp(min(estimate - u, LARGEST_EXPONENT)))
        state[state_row[e], 0] = max(u - lr * slope, least)
        total += double_sum(batch, e, n, u, largest, n_labels, score, relative > 0)
    return total


class UmaxUncapped(umax.Umax):
    name = "umax-uncapped"
    coefficients = staticmethod(umax_uncapped)


# ---- sampled softmax with one candidate set a row


@kernel
def joint_coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    total = np.float64(0)
    for e in range(n_examples):
        if positive(batch, e, n) < 0:
            batch.z[e, :n] = 0
        else:
            total += _joint_loss_of_example(batch, e, n)
    return total


@kernel_part
def _joint_loss_of_example(batch, e, n):
    """Σ_y (log Σ_j n_j e^{x_j} - x_y) over the positives y of example e, with all of them, once
    each, and the draws in the inner sum; overwrites its scores by the derivatives.
    """
    z = batch.z
    label = batch.label
    sample_count = batch.sample_count
    lowest = -z.dtype.type(1e30)
    largest = lowest
    for k in range(n):
        is_candidate = label[e, k] + sample_count[e, k] > 0
        z[e, k] = z[e, k] - batch.log_expected_count[e, k] if is_candidate else lowest
        largest = larger(largest, z[e, k])
    score = ZERO
    mass = ZERO
    for k in range(n):
        is_label = label[e, k] > 0
        score += label[e, k] * (z[e, k] - largest) if is_label else ZERO
        weight = z.dtype.type(1) if is_label else sample_count[e, k]
        z[e, k] = weight * exp(z[e, k] - largest)
        mass += z[e, k]
    n_labels = n_positives(batch, e, n)
    for k in range(n):
        z[e, k] = n_labels * z[e, k] / mass - label[e, k]
    return n_labels * np.log(mass) - score


class SampledSoftmaxJoint(Objective):
    name = "sampled-softmax-joint"
    about = SampledSoftmax.about
    positives = "joint"
    Settings = SampledSettings
    coefficients = staticmethod(joint_coefficients)


VARIANTS: dict[str, type[Objective]] = {
    variant.name: variant
    for variant in (
        ByIterations,
        ProbitByIterations,
        ProbitFromStandard,
        UmaxUncapped,
        SampledSoftmaxJoint,
    )
}
