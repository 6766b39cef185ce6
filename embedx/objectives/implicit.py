"""Implicit SGD on the double sum: each step goes where the gradient taken at its end points back, so it cannot overshoot.

Fagan & Iyengar 2018, eq. 9 and appendix F: for one example and its draws, with the loss of `umax`, the new rows W and u are
    argmin  2 lr · loss(z(W), u) + (u - u_0)² + |W - W_0|²
Rows move along h, so a score moves by q = lr |h|² times minus its coefficient c_k = ∂loss/∂z_k at the END of the step. The
engine is given these c. With Lambert's function W, x = W(e^t) where x + log x = t, and the shift a_k = q c_k of score k:

`double_sum raman`, u = log Z. Given the new u every score is on its own:
    c_k = weight_k e^{z_k - a_k - u}                     so  a_k = W(q weight_k e^{z_k - u})
    c_y = e^{z_y - a_y - u} - 1                          so  b = a_y + q = W(q e^{z_y + q - u})
    0 = u - u_0 + lr (1 - (b + Σ_k a_k) / q)             the condition on u, g(u) = 0
`double_sum proposed`, u = log η (the paper's). The positive's shift D = Σ_k a_k meets every rival; as D + u only:
    c_k = weight_k e^{z_k - z_y - a_k - D - u}           so  a_k = W(q weight_k e^{z_k - z_y - s}),  s = u + D
    0 = u - u_0 + lr (1 - e^{-u} - D / q),  u = s - D    the condition on s, g(s) = 0
With one class drawn, 2a_k = W(2q weight_k e^{z_k - z_y - u}) is the paper's eq. 14, and g half its eq. 16. For several the
paper turns to a general optimiser (F.3); here they cost one Lambert function each.

In either form g rises with a slope of at least 1 and is concave, for W(e^t) is convex: Newton's method is below the root from
its second point on and climbs to it, without a bracket. The root has log η >= 0, as Z is above e^{z_y} and u_0 is kept so; left
of that 1 - e^{-u} is continued by its tangent u, or it would overflow there. As c = a / q and W grows like a logarithm, steps
are bounded whatever the scores. A first visit starts u at the draws' own estimate of the normaliser, as in `umax`. The loss
that is reported is that of the scores as they came, at the new u.
"""

import numpy as np

from embedx.compiled import kernel, kernel_part
from embedx.engine.maths import lambert_w_exp
from embedx.objectives.contract import Objective
from embedx.objectives.parts import LARGEST_EXPONENT, DoubleSumSettings, importance, log_sums, positive, settled_log_sum

ENOUGH = 1e-8  # the last step of Newton's method, whose error is about the step squared
LEAST_SHIFT = 1e-20  # stands for lr · |h|² where that is 0: a / LEAST_SHIFT is then the gradient


@kernel_part
def rivals_shift(z, times, loge, e, n, exponent):
    """Σ_k a_k with a_k = W(e^{exponent + log weight_k + z_k}), and its derivative by the exponent, Σ_k a_k / (1 + a_k)."""
    total, slope = 0.0, 0.0
    for k in range(n):
        if times[e, k] > 0:
            a = lambert_w_exp(exponent + np.log(times[e, k]) - loge[e, k] + z[e, k])
            total += a
            slope += a / (1 + a)
    return total, slope


@kernel_part
def solve_raman(z, times, loge, e, n, own, before, rate, q):
    """The new u, from u_0 = `before` and the positive's score `own`."""
    u = before
    for _ in range(100):
        b = lambert_w_exp(np.log(q) + own + q - u)
        others, slope = rivals_shift(z, times, loge, e, n, np.log(q) - u)
        step = (u - before + rate * (1 - (b + others) / q)) / (1 + rate * (b / (1 + b) + slope) / q)
        u -= step
        if abs(step) <= ENOUGH * (1 + abs(u)):
            break
    return u


@kernel_part
def solve_proposed(z, times, loge, e, n, own, before, rate, q):
    """The new u and the shift D of the positive's score, from u_0 = `before` and that score `own`."""
    s = before
    for _ in range(100):
        shift, slope = rivals_shift(z, times, loge, e, n, np.log(q) - own - s)
        u = s - shift
        left = np.exp(-max(u, 0.0))
        step = (u - before + rate * (min(u, 0.0) + 1 - left - shift / q)) / ((1 + slope) * (1 + rate * left) + rate * slope / q)
        s -= step
        if abs(step) <= ENOUGH * (1 + abs(s)):
            break
    shift, _ = rivals_shift(z, times, loge, e, n, np.log(q) - own - s)
    return s - shift, shift


@kernel
def coefficients(z, label, times, loge, state, uniforms, numbers, key, visits, norm, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by a step divided by -lr. State as in `umax`."""
    relative = numbers[0]
    total = np.float64(0)
    for e in range(n_examples):
        y = positive(label, e, n)
        if y < 0:
            z[e, :n] = 0
            continue
        own = np.float64(z[e, y])
        rate = np.float64(lr) * label[e, y]
        q = max(rate * norm[e], LEAST_SHIFT)
        estimate, _ = log_sums(z, times, loge, e, n, y)
        origin = relative * own
        before = max(np.float64(state[key[e], 0]) if visits[e] > 0 else estimate - origin, own - origin)
        if relative > 0:
            u, shift = solve_proposed(z, times, loge, e, n, own, before, rate, q)
            pull, exponent = -shift, np.log(q) - own - shift - u
        else:
            u = solve_raman(z, times, loge, e, n, own, before, rate, q)
            pull, exponent = lambert_w_exp(np.log(q) + own + q - u) - q, np.log(q) - u
        state[key[e], 0] = u
        loss = u - (own - origin) - 1 + np.exp(min(own - origin - u, LARGEST_EXPONENT))
        for k in range(n):
            if times[e, k] > 0:
                loss += importance(times[e, k], loge[e, k]) * np.exp(min(z[e, k] - origin - u, LARGEST_EXPONENT))
                z[e, k] = label[e, y] * lambert_w_exp(exponent + np.log(times[e, k]) - loge[e, k] + z[e, k]) / q
            else:
                z[e, k] = 0
        z[e, y] = label[e, y] * pull / q
        total += label[e, y] * loss
    return total


class Implicit(Objective):
    name = "implicit"
    title = "implicit SGD on the double sum"
    paper = "Fagan & Iyengar 2018"
    formula = "u - z_y - 1 + e^-u (e^z_y + K-1/m sum_k e^z_k)"
    advice = "as umax, where no learning rate is small enough to be safe and large enough to learn"
    Settings = DoubleSumSettings
    coefficients = staticmethod(coefficients)
    kind = "step"
    stable = True
    bound = True
    uses_norm = True
    state_width = 1

    def numbers(self, n_draws: int, n_classes: int) -> np.ndarray:
        return np.array([self.settings.double_sum == "proposed"], dtype=np.float32)

    def settle(self, z: np.ndarray, label: np.ndarray) -> np.ndarray:
        return settled_log_sum(z, label, relative=self.settings.double_sum == "proposed")
