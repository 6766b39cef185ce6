"""Implicit SGD on the double sum: each step goes where the gradient taken at its end points back, so it cannot overshoot.

Fagan & Iyengar 2018, eq. 9 and appendix F: for one example and its draws, with the loss of `umax`, the new rows W and u are
    argmin  2 loss(z(W), u) + |W - W_0|² / lr + (u - u_0)² / τ                         the paper has τ = lr
Rows move along h, so a score moves by q = lr |h|² times minus its coefficient c_k = ∂loss/∂z_k at the END of the step. The
engine is given these c. With Lambert's function W, x = W(e^t) where x + log x = t, and the shift a_k = q c_k of score k:

`double_sum proposed`, u = log η (the paper's). The positive's shift D = Σ_k a_k meets every rival; as D + u only:
    c_k = weight_k e^{z_k - z_y - a_k - D - u}           so  a_k = W(q weight_k e^{z_k - z_y - s}),  s = u + D
    0 = u - u_0 + lr (1 - e^{-u} - D / q),  u = s - D    the condition on s, g(s) = 0
With one class drawn, 2a_k = W(2q weight_k e^{z_k - z_y - u}) is the paper's eq. 14, and g half its eq. 16. For several the
paper turns to a general optimiser (F.3); here they cost one Lambert function each. g rises with a slope of at least 1 and is
concave, for W(e^t) is convex: Newton's method is below the root from its second point on and climbs to it, without a bracket.
The root has log η >= 0, as Z is above e^{z_y} and u_0 is kept so; left of that 1 - e^{-u} is continued by its tangent u.

`double_sum raman`, u = log Z, for m positives with label_k of them at k, each a term of its own. Given u every score is on its
own; with b_k = a_k + q label_k
    c_k = m weight_k e^{z_k - a_k - u} - label_k         so  b_k = W(q m weight_k e^{z_k + q label_k - u})
    0 = (u - u_0) / τ + m - Σ_k b_k / q                  the condition on u; hence Σ_k c_k = (u - u_0) / τ
Here τ = lr goes wrong. z_y stands in the loss as it is: nothing but u damps its pull, -label_k, while the pushes that are to
balance it, b_k / q, are damped one by one. Scores then rise until u has followed, at a rate that knows nothing of q; |h| grows,
with it q, which lowers the pushes: word vectors ran away. But u is no parameter, it is what the draws tell of log Z:
    τ = q + a / (1 - a) / m,     a = (1 + n_updates)^-0.9
When q is small that is, to first order, the running mean of `ar`, and coefficients tend to the gradient at it. When q is large,
and at a first visit, where τ is infinite, u is eliminated: what is left is m log Σ_k weight_k e^{z_k} - Σ_k label_k z_k, the
softmax among the draws (`sampled-softmax` with `complementary`), and Σ_k c_k = 0: what holds back the pushes holds back the
pulls. Σ_k b_k is convex in u and falls; Halley's method, by steps of at most twice Newton's, takes two or three.

In either form a single example can not overshoot. What is minimised falls, so the loss falls by at least what the step is long.
c_k is -label_k at the least, is the gradient at the end, and as scores only move along it none passes the place where it is 0;
and as W grows like a logarithm, steps are bounded whatever the scores. That is exact for classification without hidden layer,
where each label of a row is answered after the step of the one before. In skip-gram inputs move too and share candidates: the
scores of a block move by -lr J Jᵀ c, J their Jacobian, and `score_gain`, the trace of J Jᵀ if no less will do, stands for
|h|². Then they move, to first order, no farther in Euclidean length than was foreseen; and the engine holds lr · score_gain.

A first visit starts u at the draws' own estimate of the normaliser, as in `umax`. The loss that is reported is that of the
scores as they came, at the new u.
"""

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.maths import lambert_w_exp, log
from embedx.objectives.contract import Objective
from embedx.objectives.parts import (
    LARGEST_EXPONENT,
    LOWEST,
    DoubleSumSettings,
    best_positive,
    importance,
    log_sums,
    n_positives,
    optimal_log_sum,
    positive,
)

# The last step towards u. Newton's method leaves about its square, Halley's its cube.
NEWTONS_LAST, HALLEYS_LAST, HALLEYS_LAST_32 = 1e-8, 1e-5, np.float32(1e-2)
ROUNDING = np.float32(1e-6)  # times u, below which no step can be told from rounding in float32
LEAST_SHIFT = 1e-20  # stands for lr · |h|² where that is 0: a / LEAST_SHIFT is then the gradient
LEAST = np.float32(1e-20)
NEVER = 1e-30  # stands for 0 in a denominator


@kernel_part
def rivals_shift(batch, e, n, exponent):
    """Σ_k a_k with a_k = W(e^{exponent + log weight_k + z_k}), and its derivative by the exponent, Σ_k a_k / (1 + a_k)."""
    z, sample_count, log_expected_count = batch.z, batch.sample_count, batch.log_expected_count
    total, slope = 0.0, 0.0
    for k in range(n):
        if sample_count[e, k] > 0:
            a = lambert_w_exp(exponent + np.log(sample_count[e, k]) - log_expected_count[e, k] + z[e, k])
            total += a
            slope += a / (1 + a)
    return total, slope


@kernel_part
def solve_proposed(batch, e, n, own, before, lr, q):
    """The new u and the shift D of the positive's score, from u_0 = `before` and that score `own`."""
    s = before
    for _ in range(100):
        shift, slope = rivals_shift(batch, e, n, np.log(q) - own - s)
        u = s - shift
        left = np.exp(-max(u, 0.0))
        step = (u - before + lr * (min(u, 0.0) + 1 - left - shift / q)) / ((1 + slope) * (1 + lr * left) + lr * slope / q)
        s -= step
        if abs(step) <= NEWTONS_LAST * (1 + abs(s)):
            break
    shift, _ = rivals_shift(batch, e, n, np.log(q) - own - s)
    return s - shift, shift


@kernel_part
def solve_raman(z, e, n, u, before, total, firmness):
    """The u at which Σ_k b_k = total + firmness (u - before), from `u` on; b_k = W(e^{z_k - u}), z_k -LOWEST without weight."""
    one, half = np.float32(1), np.float32(0.5)
    enough = HALLEYS_LAST_32 if z.itemsize == 4 else HALLEYS_LAST
    for _ in range(100):
        excess, slope, curvature = firmness * (before - u) - total, firmness, z.dtype.type(0)
        for k in range(n):
            b = lambert_w_exp(z[e, k] - u)
            share = b / (one + b)
            excess += b
            slope += share
            curvature += share / ((one + b) * (one + b))
        step = excess / slope
        step /= max(one - half * step * curvature / slope, half)
        u += step
        if abs(step) <= enough + ROUNDING * abs(u):
            break
    return u


@kernel_part
def step_raman(batch, e, n, estimate, before, q, firmness):
    """Overwrite the scores of example e by coefficients at the end of the step from u_0 = `before`, q / τ = `firmness`; the new
    u, and the loss of the scores as they were, whose log_sums are `estimate`.
    """
    z, label, sample_count, log_expected_count = batch.z, batch.label, batch.sample_count, batch.log_expected_count
    n_labels = n_positives(batch, e, n)
    reward = z.dtype.type(0)
    for k in range(n):
        is_label = label[e, k] > 0
        reward += label[e, k] * z[e, k] if is_label else np.float32(0)
        log_weight = log(max(sample_count[e, k], LEAST)) - log_expected_count[e, k]
        moved = z[e, k] + (q * label[e, k] if is_label else log_weight)
        z[e, k] = moved if label[e, k] + sample_count[e, k] > 0 else -LOWEST
    total = q * n_labels
    unit = log(total)  # so that b_k = W(e^{z_k - (u - unit)})
    u = solve_raman(z, e, n, z.dtype.type(estimate - unit), z.dtype.type(before - unit), total, firmness)
    for k in range(n):
        moved = lambert_w_exp(z[e, k] - u) / q - label[e, k]
        z[e, k] = moved if label[e, k] + sample_count[e, k] > 0 else np.float32(0)
    u += unit
    return u, n_labels * (u - 1 + np.exp(min(estimate - u, LARGEST_EXPONENT))) - reward


@kernel_part
def step_proposed(batch, e, n, y, u, moved, q):
    """The same for one positive y, whose score moves by `moved`."""
    z, label, sample_count, log_expected_count = batch.z, batch.label, batch.sample_count, batch.log_expected_count
    own = np.float64(z[e, y])
    loss = u - 1 + np.exp(min(-u, LARGEST_EXPONENT))
    for k in range(n):
        if sample_count[e, k] > 0:
            loss += importance(batch, e, k) * np.exp(min(z[e, k] - own - u, LARGEST_EXPONENT))
            exponent = np.log(q) - own - moved - u + np.log(sample_count[e, k]) - log_expected_count[e, k]
            z[e, k] = label[e, y] * lambert_w_exp(exponent + z[e, k]) / q
        else:
            z[e, k] = 0
    z[e, y] = -label[e, y] * moved / q
    return label[e, y] * loss


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by a step divided by -lr. State as in `umax`."""
    z, label, key, n_updates, score_gain = batch.z, batch.label, batch.key, batch.n_updates, batch.score_gain
    relative = constants[0]
    total = np.float64(0)
    for e in range(n_examples):
        y = positive(batch, e, n)
        if y < 0:
            z[e, :n] = 0
            continue
        best = best_positive(batch, e, n)
        origin = relative * best
        estimate, _ = log_sums(batch, e, n)
        before = max(z.dtype.type(state[key[e], 0]) if n_updates[e] > 0 else estimate - origin, best - origin)
        if relative > 0:
            weighed = np.float64(lr) * label[e, y]
            q = max(weighed * score_gain[e], LEAST_SHIFT)
            u, moved = solve_proposed(batch, e, n, np.float64(best), np.float64(before), weighed, q)
            total += step_proposed(batch, e, n, y, u, moved, q)
        else:
            q = max(lr * score_gain[e], LEAST)
            share = (1.0 + n_updates[e]) ** -0.9
            freedom = q + share / max(1 - share, NEVER) / n_positives(batch, e, n)
            u, loss = step_raman(batch, e, n, estimate, before, q, z.dtype.type(q / max(freedom, NEVER)))
            total += loss
        state[key[e], 0] = u
    return total


class Implicit(Objective):
    name = "implicit"
    title = "implicit SGD on the double sum"
    paper = "Fagan & Iyengar 2018"
    formula = "u - z_y - 1 + e^-u (e^z_y + K-1/m sum_k e^z_k)"
    advice = "as umax, by steps that stay bounded at any learning rate; several times slower"
    Settings = DoubleSumSettings
    coefficients = staticmethod(coefficients)
    label_defaults = {"optimizer": "sgd", "batch_size": 1}
    word_defaults = {"optimizer": "sgd", "learning_rate": 0.1, "block_size": 16, "draws": 64}
    kind = "proximal"
    stable = True
    bound = True
    uses_score_gain = True
    state_width = 1

    @property
    def merges_pairs(self) -> bool:
        return bool(self.settings.double_sum == "raman")

    def constants(self, n_draws: int, n_classes: int) -> np.ndarray:
        return np.array([self.settings.double_sum == "proposed"], dtype=np.float32)

    def optimal_state(self, z: np.ndarray, label: np.ndarray) -> np.ndarray:
        return optimal_log_sum(z, label, relative=self.settings.double_sum == "proposed")
