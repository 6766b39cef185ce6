"""Proximal (implicit) steps on the double sum. The default is a method of this project; `double_sum
proposed` is the paper's.

Implicit SGD, Fagan & Iyengar 2018, eq. 9 and appendix F: for one example and its draws, with the
loss of `umax`, the new rows W and u are
    argmin  2 loss(z(W), u) + Σ_k |w_k - w_k0|² / ρ_k + (u - u_0)² / τ        the paper has ρ_k = τ
        = lr
With `double_sum raman`, the default, τ is not lr: at small learning rates u is the running mean of
`ar`, and as rates grow u is eliminated, which leaves the complementary sampled softmax of Botev et
al. 2017, a biased loss, with a proximal step. So neither the paper's convergence to the exact
softmax nor its measurements hold for the default.

Rows move along h, so score k moves by q_k = ρ_k |h|² times minus its coefficient c_k = ∂loss/∂z_k
at the END of the step. The engine is given these c, and gives q_k / lr as `score_gain`. With
row-wise Adagrad or its like a row's rate is what the optimiser makes of lr, ρ_k = lr / √s_k: the
proximal step in the metric that Adagrad measures steps by, which damps rare rows, whose steps are
long, and takes plain gradients of frequent ones. With Lambert's function W, x = W(e^t) where x +
log x = t:

`double_sum proposed`, u = log η: the paper's method, with `--optimizer sgd`. The positive's pull P
= Σ_k c_k enters every other term, as u + q_y P only:
    c_k = weight_k e^{z_k - q_k c_k - z_y - q_y P - u}
        so  q_k c_k = W(q_k weight_k e^{z_k - z_y - s}),  s = u + q_y P
    0 = u - u_0 + lr (1 - e^{-u} - P),  u = s - q_y P        the condition on s, g(s) = 0
With one class drawn, 2 q c_k = W(2q weight_k e^{z_k - z_y - u}) is the paper's eq. 14, and g half
its eq. 16. For several the paper turns to a general optimiser (F.3); here they cost one Lambert
function each. g rises with a slope of at least 1 and is concave, for W(e^t) is convex: Newton's
method is below the root from its second point on and climbs to it, without a bracket. The root has
log η >= 0, as Z is above e^{z_y} and u_0 is kept so; left of that 1 - e^{-u} is continued by its
tangent u.

`double_sum raman`, u = log Z, for m positives with label_k of them at k, each a term of its own.
Given u the scores are independent; with b_k = q_k (c_k + label_k)
    c_k = m weight_k e^{z_k - q_k c_k - u} - label_k         so  b_k = W(q_k m weight_k e^{z_k + q_k
        label_k - u})
    0 = (u - u_0) / τ + m - Σ_k b_k / q_k                    the condition on u; hence Σ_k c_k = (u
        - u_0) / τ
Here τ = lr goes wrong. z_y stands in the loss as it is: nothing but u damps its pull, -label_k,
while the pushes that are to balance it, b_k / q_k, are damped one by one. Scores then rise until u
has followed, at a rate that knows nothing of q; |h| grows, with it q, which lowers the pushes: word
vectors ran away. But u is no parameter, it is what the draws tell of log Z:
    τ = Σ_k q_k + a / (1 - a) / m,     a = (1 + n_updates)^-0.9
When the q are small that is, to first order, the running mean of `ar`, and coefficients tend to the
gradient at it. When they are large, and at a first visit, where τ is infinite, u is eliminated:
what is left is m log Σ_k weight_k e^{z_k} - Σ_k label_k z_k, the softmax among the draws
(`sampled-softmax` with `complementary`), and Σ_k c_k = 0: what holds back the pushes holds back the
pulls. As a share, r = 1 - 1 / (1 + m τ), the condition is (1 - r) (u - u_0) = r (Σ_k b_k / q_k / m
- 1). Its right side is convex in u and falls; Halley's method, by steps of at most twice Newton's,
takes one or two from the running mean.

In either form a single example can not overshoot. What is minimised falls, so the loss falls by at
least what the step is long. c_k is -label_k at the least, is the gradient at the end, and as scores
only move along it none passes the place where it is 0; and as W grows like a logarithm, steps are
bounded whatever the scores. That is exact for classification without hidden layer, where each label
of a row is answered after the step of the one before. In skip-gram h moves as well, q_k = ρ_k |h|²
+ ρ_h |w_k|² to first order, and pairs of a block that share a row add up. A step that took all of
them for one damped the pushes of good steps too (held-out log-likelihood of 10 MB of Wikipedia
-8.61 instead of -8.57). So each pair answers for itself, and the engine bounds what their sum may
do, by a limit to each row's rate (`LONGEST_STEP` of engine/skipgram.py).

A first visit starts u at the draws' own estimate of the normaliser, as in `umax`. The loss that is
reported is that of the scores as they came, at the new u.
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
    log_sums,
    n_positives,
    positive,
)

# The last step towards u. Newton's method leaves about its square, Halley's less than a tenth of
# its cube.
NEWTONS_LAST, HALLEYS_LAST, HALLEYS_LAST_32 = 1e-8, 1e-5, float32(0.02)
MAX_NEAR_STEPS = 5  # from one of 1 on; where q is 1e6, rounding keeps them from becoming small
NEAR = 0.1  # nats from where on in float64 W is moved instead of found again; in float32 1
ROUNDING = float32(1e-6)  # times u, below which no step can be told from rounding in float32
MIN_SHIFT = 1e-20  # stands for lr · score_gain where that is 0: a / MIN_SHIFT is then the gradient
LEAST = float32(1e-20)
LOWEST_EXPONENT = float32(-80)  # whose W is still a normal number of float32


@kernel_part
def push_of_negatives(batch, e, n, lr, exponent):
    """Σ_k a_k / q_k with a_k = W(e^{exponent + log(q_k weight_k) + z_k}), and minus its derivative
    by the exponent.
    """
    z, sample_count, log_expected_count, score_gain = (
        batch.z,
        batch.sample_count,
        batch.log_expected_count,
        batch.score_gain,
    )
    total, slope = 0.0, 0.0
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
def solve_proposed(batch, e, n, own, before, lr, q):
    """The new u and the pull P on the positive's score, from u_0 = `before`, that score `own` and
    its q.
    """
    s = before
    for _ in range(100):
        pull, slope = push_of_negatives(batch, e, n, lr, -own - s)
        u = s - q * pull
        left = np.exp(-max(u, 0.0))
        step = (u - before + lr * (min(u, 0.0) + 1 - left - pull)) / (
            (1 + q * slope) * (1 + lr * left) + lr * slope
        )
        s -= step
        if abs(step) <= NEWTONS_LAST * (1 + abs(s)):
            break
    pull, _ = push_of_negatives(batch, e, n, lr, -own - s)
    return s - q * pull, pull


@kernel_part
def raman_step(pushes, slopes, curvatures, u, before, n_labels, share):
    """Halley's step for (1 - share) (u - before) = share (pushes / n_labels - 1), from the
    derivatives of `pushes` by u.
    """
    one, half = ONE, HALF
    slope = one - share + share / n_labels * slopes
    step = ((one - share) * (before - u) + share * (pushes / n_labels - one)) / slope
    return step / max(one - half * step * (share / n_labels * curvatures) / slope, half)


@kernel_part
def _pushing(t):
    """W(e^t), or t itself where that is far below 0."""
    return lambert_w_exp(t) if t > LOWEST_EXPONENT else t


@kernel_part
def solve_raman(batch, e, n, lr, u, before, n_labels, share):
    """The u at which pushes Σ_k b_k / q_k balance, from `u` on; overwrites t_k = log b_k + b_k + u,
    in z[e, k], by b_k.

    While u moves, z[e, k] is b_k, or t_k - u where that is so low that b_k would underflow: it is
    below 0 and pushes nothing.
    """
    z, score_gain = batch.z, batch.score_gain
    one, zero, least = ONE, z.dtype.type(0), z.dtype.type(LEAST)
    in_float32 = z.itemsize == 4
    enough, near = (HALLEYS_LAST_32, one) if in_float32 else (HALLEYS_LAST, NEAR)
    for k in range(n):
        z[e, k] = _pushing(z[e, k] - u)
    n_near = 0
    for _ in range(100):
        pushes, slopes, curvatures = zero, zero, zero
        for k in range(n):
            b = larger(z[e, k], zero)
            damping, push = one / (one + b), b / max(lr * score_gain[e, k], least)
            pushes, slopes, curvatures = (
                pushes + push,
                slopes + push * damping,
                curvatures + push * damping**3,
            )
        step = raman_step(pushes, slopes, curvatures, u, before, n_labels, share)
        u += step
        if abs(step) > near + ROUNDING * abs(u):
            for k in range(n):
                z[e, k] = _pushing((z[e, k] + log(z[e, k]) if z[e, k] > 0 else z[e, k]) - step)
            continue
        for k in range(n):
            z[e, k] = moved_lambert_w(z[e, k], step) if z[e, k] > 0 else z[e, k] - step
        n_near += 1
        if not abs(step) > enough + ROUNDING * abs(u) or n_near == MAX_NEAR_STEPS:
            break
    return u


@kernel_part
def step_raman(batch, e, n, estimate, before, lr, n_updates):
    """Overwrite the scores of example e by coefficients at the end of the step from u_0 = `before`;
    the new u, and the loss of the scores as they were, whose log_sums are `estimate`.
    """
    z, label, sample_count, log_expected_count = (
        batch.z,
        batch.label,
        batch.sample_count,
        batch.log_expected_count,
    )
    score_gain = batch.score_gain
    n_labels = n_positives(batch, e, n)
    reward, shift, zero, one, least = (
        z.dtype.type(0),
        z.dtype.type(0),
        z.dtype.type(0),
        ONE,
        z.dtype.type(LEAST),
    )
    for k in range(n):
        is_label, competes = label[e, k] > 0, label[e, k] + sample_count[e, k] > 0
        q = max(lr * score_gain[e, k], least)
        shift += q if competes else zero
        reward += label[e, k] * z[e, k] if is_label else zero
        moved = z[e, k] + log(q * (one if is_label else max(sample_count[e, k], LEAST)))
        moved += q * label[e, k] if is_label else -log_expected_count[e, k]
        z[e, k] = moved if competes else -LOWEST
    mean_share = (1.0 + n_updates) ** -0.9
    share = z.dtype.type(1 - (1 - mean_share) / (1 + (1 - mean_share) * n_labels * shift))
    above = max(before, estimate)
    mean = above + np.log((1 - share) * np.exp(before - above) + share * np.exp(estimate - above))
    unit = log(n_labels)  # so that b_k = W(e^{z_k - (u - unit)})
    u = solve_raman(
        batch, e, n, lr, z.dtype.type(mean - unit), z.dtype.type(before - unit), n_labels, share
    )
    for k in range(n):
        moved = larger(z[e, k], zero) / max(lr * score_gain[e, k], least) - label[e, k]
        z[e, k] = moved if label[e, k] + sample_count[e, k] > 0 else zero
    u += unit
    return u, n_labels * (u - 1 + np.exp(min(estimate - u, LARGEST_EXPONENT))) - reward


@kernel_part
def step_proposed(batch, e, n, y, before, lr):
    """The same for one positive y; the loss is that of the scores as they were, at the new u."""
    z, label, sample_count, log_expected_count = (
        batch.z,
        batch.label,
        batch.sample_count,
        batch.log_expected_count,
    )
    score_gain = batch.score_gain
    own, q_own = float64(z[e, y]), max(lr * score_gain[e, y], MIN_SHIFT)
    u, pull = solve_proposed(batch, e, n, own, before, lr, q_own)
    loss = u - 1 + np.exp(min(-u, LARGEST_EXPONENT))
    for k in range(n):
        if sample_count[e, k] > 0:
            loss += importance(batch, e, k) * np.exp(min(z[e, k] - own - u, LARGEST_EXPONENT))
            q = max(lr * score_gain[e, k], MIN_SHIFT)
            exponent = (
                np.log(q * sample_count[e, k]) - log_expected_count[e, k] - own - q_own * pull - u
            )
            z[e, k] = label[e, y] * lambert_w_exp(exponent + z[e, k]) / q
        else:
            z[e, k] = 0
    z[e, y] = -label[e, y] * pull
    return u, label[e, y] * loss


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by a step divided by
    -lr. State as in `umax`.
    """
    z, label, key, n_updates = batch.z, batch.label, batch.key, batch.n_updates
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
        before = max(
            z.dtype.type(state[key[e], 0]) if n_updates[e] > 0 else estimate - origin, best - origin
        )
        if relative > 0:
            u, loss = step_proposed(batch, e, n, y, float64(before), float64(lr) * label[e, y])
        else:
            u, loss = step_raman(batch, e, n, estimate, before, lr, n_updates[e])
        state[key[e], 0] = u
        total += loss
    return total


class Implicit(LocalObjective):
    name = "implicit"
    about = About(
        title="proximal steps on the double sum",
        paper="a variant of Fagan & Iyengar 2018, whose own method is `--set double-sum=proposed`",
        formula="as umax; at large rates log(e^z_y + sum_k e^x_k) - z_y, x_k = z_k - log(m q_k)",
        advice=(
            "like umax, with bounded steps; at large learning rates it is complementary sampled"
            " softmax, which is biased"
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
    kind = "proximal"
    candidates = ("drawn",)
    traits = Traits(bound=True, uses_score_gain=True)
