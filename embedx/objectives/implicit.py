"""Implicit SGD: a proximal step on the double sum, so that a step cannot overshoot.

Fagan & Iyengar 2018, eq. 9 and appendix F. For one example and its draws, with the loss of `umax`,
the new rows W and u are
    argmin  2 loss(z(W), u) + Σ_k |w_k - w_k0|² / ρ_k + (u - u_0)² / τ
Score k moves by -q_k c_k, with q_k = lr · score_gain_k and its coefficient c_k after the step:
    proposed   c_k = weight_k e^{z_k - q_k c_k - z_y - q_y P - u},  P = Σ_k c_k,  τ = lr
    raman      c_k = m weight_k e^{z_k - q_k c_k - u} - label_k
               τ = Σ_k q_k + a / (1 - a) / m,  a = (1 + n_updates)^-0.9
for m positives. By Lambert's function W each c_k follows from u, and u from one equation, solved by
Newton's method (proposed) or Halley's (raman).

`double_sum proposed` is the method of the paper. The default, `raman`, is a variant of this
project: at large rates it becomes the complementary sampled softmax of Botev et al. 2017, a biased
loss, so it does not converge to the exact softmax as the paper's method does. See
docs/derivations.md. The first visit of an input starts at the draws' estimate of the normaliser.
The reported loss is that of the scores before the step, at the new u.
"""

import numpy as np
from numpy import float32, float64

from embedx.kernels import (
    HALF,
    ONE,
    kernel,
    kernel_part,
    lambert_w_exp,
    larger,
    log,
    moved_lambert_w,
)
from embedx.objectives.contract import About, Traits
from embedx.objectives.parts import (
    LARGEST_EXPONENT,
    LOWEST,
    DoubleSumSettings,
    LocalObjective,
    best_positive,
    importance,
    log_mean,
    log_sums,
    n_positives,
    positive,
)

# Iterations end with a step no longer than this. The error after it is about its square (Newton),
# or less than a fifth of its cube (Halley).
NEWTON_TOLERANCE = 1e-8
HALLEY_TOLERANCE = 1e-5
HALLEY_TOLERANCE_32 = float32(0.02)
# Steps below 1 are limited in number: at q around 1e6, rounding keeps some from becoming small.
MAX_SHORT_STEPS = 5
# Length of a step, in nats, up to which W is updated by its series: in float64; in float32 it is 1.
SHORT_STEP = 0.1
# Relative to u; shorter steps are rounding errors of float32.
ROUNDING = float32(1e-6)
# Replaces lr · score_gain where that is 0: a / MIN_SHIFT is then the gradient.
MIN_SHIFT = 1e-20
MIN_SHIFT_32 = float32(1e-20)
# The lowest exponent for which W(e^t) is a normal number of float32.
LOWEST_EXPONENT = float32(-80)


@kernel_part
def push_of_negatives(batch, e, n, lr, exponent):
    """Σ_k a_k / q_k with a_k = W(e^{exponent + log(q_k weight_k) + z_k}), and its derivative with
    respect to the exponent.
    """
    z = batch.z
    sample_count = batch.sample_count
    log_expected_count = batch.log_expected_count
    score_gain = batch.score_gain
    total = 0.0
    slope = 0.0
    for k in range(n):
        if sample_count[e, k] > 0:
            q = max(lr * score_gain[e, k], MIN_SHIFT)
            a = lambert_w_exp(
                exponent + np.log(q * sample_count[e, k]) - log_expected_count[e, k] + z[e, k]
            )
            total += a / q
            slope += a / (1 + a) / q
    return total, slope


@kernel_part
def solve_proposed(batch, e, n, score, before, lr, q):
    """(u, P) after the step, from u_0 = `before`, the positive's score and its q."""
    s = before
    for _ in range(100):
        pull, slope = push_of_negatives(batch, e, n, lr, -score - s)
        u = s - q * pull
        left = np.exp(-max(u, 0.0))
        step = (u - before + lr * (min(u, 0.0) + 1 - left - pull)) / (
            (1 + q * slope) * (1 + lr * left) + lr * slope
        )
        s -= step
        if abs(step) <= NEWTON_TOLERANCE * (1 + abs(s)):
            break
    pull, _ = push_of_negatives(batch, e, n, lr, -score - s)
    return s - q * pull, pull


@kernel_part
def raman_step(pushes, slopes, curvatures, u, before, n_labels, share):
    """A step of Halley's method for (1 - share) (u - before) = share (pushes / n_labels - 1), from
    the derivatives of `pushes` with respect to u.
    """
    slope = ONE - share + share / n_labels * slopes
    step = ((ONE - share) * (before - u) + share * (pushes / n_labels - ONE)) / slope
    return step / max(ONE - HALF * step * (share / n_labels * curvatures) / slope, HALF)


@kernel_part
def _lambert_w_or_exponent(t):
    """W(e^t), or t itself where it is so low that W would underflow."""
    return lambert_w_exp(t) if t > LOWEST_EXPONENT else t


@kernel_part
def solve_raman(batch, e, n, lr, u, before, n_labels, share):
    """(u, last step) of the equation of `raman_step`, with pushes = Σ_k b_k / q_k, starting at `u`.

    Overwrites t_k = log b_k + b_k + u, in z[e, k], by the b_k of before the last step, or by the
    negative number t_k - u where b_k would underflow.
    """
    z = batch.z
    score_gain = batch.score_gain
    one = ONE
    zero = z.dtype.type(0)
    min_shift = z.dtype.type(MIN_SHIFT_32)
    is_float32 = z.itemsize == 4
    tolerance = HALLEY_TOLERANCE_32 if is_float32 else HALLEY_TOLERANCE
    short_step = one if is_float32 else SHORT_STEP
    for k in range(n):
        z[e, k] = _lambert_w_or_exponent(z[e, k] - u)
    n_short = 0
    step = zero
    for _ in range(100):
        pushes = zero
        slopes = zero
        curvatures = zero
        for k in range(n):
            b = larger(z[e, k], zero)
            q = max(lr * score_gain[e, k], min_shift)
            # 1 / (1 + b) and b / q by one division
            inverse = one / ((one + b) * q)
            damping = inverse * q
            push = b * (one + b) * inverse
            pushes += push
            slopes += push * damping
            curvatures += push * damping**3
        step = raman_step(pushes, slopes, curvatures, u, before, n_labels, share)
        u += step
        is_short = abs(step) <= short_step + ROUNDING * abs(u)
        n_short += is_short
        # a NaN ends it too
        if not abs(step) > tolerance + ROUNDING * abs(u) or n_short == MAX_SHORT_STEPS:
            break
        if is_short:
            for k in range(n):
                z[e, k] = moved_lambert_w(z[e, k], step) if z[e, k] > 0 else z[e, k] - step
        else:
            for k in range(n):
                exponent = z[e, k] + log(z[e, k]) if z[e, k] > 0 else z[e, k]
                z[e, k] = _lambert_w_or_exponent(exponent - step)
    return u, step


@kernel_part
def step_raman(batch, e, n, estimate, before, lr, n_updates):
    """(u, loss) after the step from u_0 = `before`; overwrites the scores of example e by the
    coefficients after the step.

    The loss is that of the scores before the step, at the new u; `estimate` are their `log_sums`.
    """
    z = batch.z
    label = batch.label
    sample_count = batch.sample_count
    log_expected_count = batch.log_expected_count
    score_gain = batch.score_gain
    one = ONE
    half = HALF
    zero = z.dtype.type(0)
    min_shift = z.dtype.type(MIN_SHIFT_32)
    n_labels = n_positives(batch, e, n)
    reward = zero
    shift = zero
    for k in range(n):
        is_label = label[e, k] > 0
        is_candidate = label[e, k] + sample_count[e, k] > 0
        q = max(lr * score_gain[e, k], min_shift)
        shift += q if is_candidate else zero
        reward += label[e, k] * z[e, k] if is_label else zero
        exponent = z[e, k] + log(q * (one if is_label else max(sample_count[e, k], MIN_SHIFT_32)))
        exponent += q * label[e, k] if is_label else -log_expected_count[e, k]
        z[e, k] = exponent if is_candidate else LOWEST

    mean_share = (1.0 + n_updates) ** -0.9
    share = z.dtype.type(1 - (1 - mean_share) / (1 + (1 - mean_share) * n_labels * shift))
    mean = log_mean(before, estimate, share)
    unit = log(n_labels)  # so that b_k = W(e^{z_k - (u - unit)})
    u, step = solve_raman(batch, e, n, lr, mean - unit, before - unit, n_labels, share)
    for k in range(n):
        # b_k after the last step, by two terms of its series, over q_k
        b = larger(z[e, k], zero)
        q = max(lr * score_gain[e, k], min_shift)
        inverse = one / ((one + b) * q)
        damping = inverse * q
        change = step * damping * (one - half * step * damping * damping)
        push = b * (one - change) * ((one + b) * inverse)
        z[e, k] = push - label[e, k] if label[e, k] + sample_count[e, k] > 0 else zero
    u += unit
    return u, n_labels * (u - 1 + np.exp(min(estimate - u, LARGEST_EXPONENT))) - reward


@kernel_part
def step_proposed(batch, e, n, y, before, lr):
    """`step_raman` for `double_sum proposed`, with one positive y."""
    z = batch.z
    label = batch.label
    sample_count = batch.sample_count
    log_expected_count = batch.log_expected_count
    score_gain = batch.score_gain
    score = float64(z[e, y])
    q_y = max(lr * score_gain[e, y], MIN_SHIFT)
    u, pull = solve_proposed(batch, e, n, score, before, lr, q_y)
    loss = u - 1 + np.exp(min(-u, LARGEST_EXPONENT))
    for k in range(n):
        if sample_count[e, k] > 0:
            loss += importance(batch, e, k) * np.exp(min(z[e, k] - score - u, LARGEST_EXPONENT))
            q = max(lr * score_gain[e, k], MIN_SHIFT)
            log_weight = np.log(q * sample_count[e, k]) - log_expected_count[e, k]
            exponent = log_weight - score - q_y * pull - u
            z[e, k] = label[e, y] * lambert_w_exp(exponent + z[e, k]) / q
        else:
            z[e, k] = 0
    z[e, y] = -label[e, y] * pull
    return u, label[e, y] * loss


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by the step over -lr.

    state[:, 0] is log Z or log η, as in `umax`.
    """
    z = batch.z
    label = batch.label
    state_row = batch.state_row
    n_updates = batch.n_updates
    relative = constants[0]
    total = float64(0)
    for e in range(n_examples):
        y = positive(batch, e, n)
        if y < 0:
            z[e, :n] = 0
            continue
        best = best_positive(batch, e, n)
        origin = relative * best
        estimate, _ = log_sums(batch, e, n)
        before = estimate - origin
        if n_updates[e] > 0:
            before = z.dtype.type(state[state_row[e], 0])
        before = max(before, best - origin)
        if relative > 0:
            u, loss = step_proposed(batch, e, n, y, float64(before), float64(lr) * label[e, y])
        else:
            u, loss = step_raman(batch, e, n, estimate, before, lr, n_updates[e])
        state[state_row[e], 0] = u
        total += loss
    return total


class Implicit(LocalObjective):
    name = "implicit"
    about = About(
        title="proximal steps on the double sum",
        paper="a variant of Fagan & Iyengar 2018, whose own method is `--set double-sum=proposed`",
        formula="as umax; at large rates log(e^z_y + sum_k e^x_k) - z_y, x_k = z_k - log(m q_k)",
        advice=(
            "like umax, by proximal steps; at large learning rates it is complementary sampled"
            " softmax, which is biased; words train at a hundred times its own rate, too"
        ),
    )
    Settings = DoubleSumSettings
    coefficients = staticmethod(coefficients)
    # at 3.0 it is overconfident
    label_defaults = {"optimizer": "sgd", "batch_size": 1, "learning_rate": 1.0}
    word_defaults = {
        "optimizer": "rowwise-adagrad",
        "learning_rate": 1.5,
        "block_size": 16,
        "draws": 64,
    }
    step = "proximal"
    candidates = ("drawn",)
    traits = Traits(bound=True, uses_score_gain=True)
