"""The smoothed max-margin loss: every positive should score higher than the best negative, by 1.

Yen et al. 2018, "Loss Decomposition for Fast Learning in Large Output Spaces", eq. 10 and 11. With
N the negatives, P the positives and 1_N 1 for the negatives and 0 for the positives,
    loss = max_c  <z + 1_N, c> - mu/2 |c|²,      ∂loss/∂z = c, the projection of (z + 1_N) / mu on
    c_N ≥ 0,  c_P ≤ 0,  Σ_N c = -Σ_P c ≤ 1
so that mu = 0 would be [max_N z - min_P z + 1]_+ (eq. 3, where the paper swaps the signs of z). All
but the best negatives and the worst positives have coefficient 0. With y_k = (max_N z - z_k) / mu,
v_k = (z_k - min_P z) / mu and gap = (max_N z + 1 - min_P z) / mu,
    c_N = [d - y]_+,  -c_P = [p - v]_+     either both of sum 1 and d + p ≤ gap, or of equal sums
                                           and d + p = gap
d and p are found in a finite number of steps (docs/derivations.md). The loss is 0 where gap ≤ 0, or
where there are no positives or no negatives.

Loss and coefficients are multiplied by the mean label of the positives: 1 in classification, the
mean number of pairs in skip-gram.
"""

import numpy as np

from embedx.kernels import HALF, ONE, TWO, ZERO, kernel, kernel_part
from embedx.objectives.contract import About, Objective, SampledSettings, Traits
from embedx.objectives.parts import LOWEST
from embedx.settings import param

# Number of candidates that are tested together without a branch; few blocks have any that matter.
BLOCK = 256


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    total = np.float64(0)
    for e in range(n_examples):
        total += margin(batch, e, n, constants[0])
    return total


@kernel_part
def margin(batch, e, n, mu):
    """Loss of example e; overwrites its scores by ∂loss/∂z."""
    z = batch.z
    best, worst, weight = ends(batch, e, n)
    gap = (best + ONE - worst) / mu
    if gap <= 0:  # so it is without positives or without negatives
        z[e, :n] = ZERO
        return ZERO
    distances(batch, e, n, best, worst, mu)
    d, p = depths(z, e, n, gap)
    return weight * mu * projected(z, e, n, d, p, gap, weight)


@kernel_part
def any_matters(z, label, sample_count, threshold):
    """Whether any of these candidates is a positive, or a negative above the threshold."""
    weight = ZERO
    for k in range(len(z)):
        weight += label[k] + sample_count[k] * (ONE if z[k] > threshold else ZERO)
    return weight > 0


@kernel_part
def ends(batch, e, n):
    """(best, worst, mean label): the score of the best negative, LOWEST if there is none; that of
    the worst positive, -LOWEST if there is none; and the mean label of the positives.
    """
    z, label, sample_count = batch.z, batch.label, batch.sample_count
    best, worst = z.dtype.type(LOWEST), -z.dtype.type(LOWEST)
    weight, n_positives = ZERO, ZERO
    for first in range(0, n, BLOCK):
        some = slice(first, min(first + BLOCK, n))
        if any_matters(z[e, some], label[e, some], sample_count[e, some], best):
            for k in range(some.start, some.stop):
                if label[e, k] > 0:
                    # NaN is kept, so that a diverged run is noticed.
                    worst = worst if z[e, k] >= worst else z[e, k]
                    weight += label[e, k]
                    n_positives += ONE
                elif sample_count[e, k] > 0:
                    best = max(best, z[e, k])
    return best, worst, weight / max(n_positives, ONE)


@kernel_part
def distances(batch, e, n, best, worst, mu):
    """Overwrite scores by y for negatives and by 2 - v for positives; by 1 where y or v is at least
    1. There coefficients are 0, because d and p are at most 1.
    """
    z, label, sample_count = batch.z, batch.label, batch.sample_count
    for first in range(0, n, BLOCK):
        some = slice(first, min(first + BLOCK, n))
        if any_matters(z[e, some], label[e, some], sample_count[e, some], best - mu):
            measure(z[e, some], label[e, some], sample_count[e, some], best, worst, mu)
        else:
            z[e, some] = ONE


@kernel_part
def measure(z, label, sample_count, best, worst, mu):
    """`distances` for a part of the candidates of an example."""
    for k in range(len(z)):
        y, v = (best - z[k]) / mu, (z[k] - worst) / mu
        negative = y if (sample_count[k] > 0) & (y < ONE) else ONE
        positive = TWO - v if v < ONE else ONE
        z[k] = positive if label[k] > 0 else negative


@kernel_part
def within(z, e, n, d, p):
    """The number of negatives with y < d and the sum of their y; then those of positives with
    v < p.
    """
    n_negatives, sum_negatives = ZERO, ZERO
    n_positives, sum_positives = ZERO, ZERO
    for k in range(n):
        # As a factor, because the compiler does not vectorise two conditional sums.
        negative = ONE if z[e, k] < d else ZERO
        positive = ONE if z[e, k] > TWO - p else ZERO
        n_negatives += negative
        sum_negatives += negative * z[e, k]
        n_positives += positive
        sum_positives += positive * (TWO - z[e, k])
    return n_negatives, sum_negatives, n_positives, sum_positives


@kernel_part
def depths(z, e, n, gap):
    """d and p for the distances z.

    Michelot 1986 for sums of 1, and Bitran & Hax 1981 for equal sums at d + p = gap: each step
    solves the linear equations of the remaining candidates, and drops those beyond the solution.
    """
    n_neg, sum_neg, n_pos, sum_pos = within(z, e, n, ONE, ONE)
    going_on = True
    while going_on:
        d, p = (ONE + sum_neg) / n_neg, (ONE + sum_pos) / n_pos
        left_neg, left_sum_neg, left_pos, left_sum_pos = within(z, e, n, d, p)
        going_on = left_neg < n_neg or left_pos < n_pos
        n_neg, sum_neg, n_pos, sum_pos = left_neg, left_sum_neg, left_pos, left_sum_pos
    going_on = d + p > gap
    while going_on:
        d = (sum_neg + n_pos * gap - sum_pos) / (n_neg + n_pos)
        p = gap - d
        left_neg, left_sum_neg, left_pos, left_sum_pos = within(z, e, n, d, p)
        if left_neg * d - left_sum_neg >= left_pos * p - left_sum_pos:
            going_on = left_neg < n_neg
            n_neg, sum_neg = left_neg, left_sum_neg
        else:
            going_on = left_pos < n_pos
            n_pos, sum_pos = left_pos, left_sum_pos
    return d, p


@kernel_part
def projected(z, e, n, d, p, gap, weight):
    """loss / mu for labels of 1; overwrites the distances z by `weight` times the coefficients."""
    total, spread = ZERO, ZERO
    for k in range(n):
        up, down = max(d - z[e, k], ZERO), max(z[e, k] - (TWO - p), ZERO)
        total += up
        spread += up * (z[e, k] + HALF * up) + down * (TWO - z[e, k] + HALF * down)
        z[e, k] = weight * (up - down)
    return total * gap - spread


class MarginSettings(SampledSettings):
    """Settings of the smoothed max-margin loss. The paper's smoothing is 1 for examples with one
    label, 5 for several.
    """

    smoothing: float = param(
        1.0,
        "smoothing parameter mu: the larger, the more of the best negatives are updated at once",
        above=0.0,
        has_option=False,
    )


class Margin(Objective):
    name = "margin"
    about = About(
        title="smoothed max-margin",
        paper="Yen et al. 2018",
        formula="max_c sum_k (c_k (z_k + [k≠y]) - mu/2 c_k^2)",
        advice=(
            "an exact loss that updates few rows: faster than softmax from 200,000 labels on, in"
            " large batches; it defines no probabilities"
        ),
        words_caution="for labels: on words it gives no probabilities",
    )
    Settings = MarginSettings
    coefficients = staticmethod(coefficients)
    positives = "joint"
    traits = Traits(
        pairs_as_set=True,
        sparse_gradient=True,
        calibrated=False,
        uses_log_expected_count=False,
    )
    candidates = ("all", "drawn")

    def constants(self, n_draws: int, n_classes: int) -> np.ndarray:
        return np.array([self.settings.smoothing], np.float32)
