"""Nested one-vs-each: an exact softmax over some rows, and a pairwise probability for each other
row; a lower bound of the softmax, the tighter the more rows are exact.

Titsias 2016, "One-vs-each approximation to softmax", section 5 and eq. 5 and 6. With A the positive
and the rows that are candidates with certainty, L = log Σ_{a in A} e^{z_a}, and all other rows b:
    log p(y) = z_y - log(e^L + Σ_b e^{z_b}) >= z_y - L - Σ_b softplus(z_b - L)
because 1 + Σ_b x_b <= Π_b (1 + x_b) for x_b = e^{z_b - L}. The others are drawn:
    loss = L - z_y + Σ_b weight_b softplus(z_b - L),     weight_b = n_b / E[n_b]
    ∂loss/∂z_b = s_b = weight_b σ(z_b - L)
    ∂loss/∂z_a = e^{z_a - L} (1 - Σ_b s_b) - [a = y]
A has the rows that a search finds and, in a block of text, its centres. With A = {y} this is
one-vs-each; with all rows, the softmax.
"""

from typing import Any

import numpy as np

from embedx.kernels import ONE, ZERO, exp, kernel, kernel_part, larger, sigmoid, softplus
from embedx.objectives.contract import About, Traits
from embedx.objectives.parts import LOWEST, importance, positive, weight_and_score_of_positives
from embedx.objectives.retrieval import FoundSettings, RetrievalObjective
from embedx.search.spec import SearchSpec


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    total = np.float64(0)
    for e in range(n_examples):
        if positive(batch, e, n) < 0:
            batch.z[e, :n] = 0
        else:
            total += _loss_of_example(batch, e, n)
    return total


@kernel_part
def _loss_of_example(batch, e, n):
    """Loss of example e, summed over its positives, which are all certain; overwrites its scores by
    ∂loss/∂z.
    """
    z = batch.z
    label = batch.label
    n_labels, score = weight_and_score_of_positives(batch, e, n)
    log_mass = _log_mass_of_certain(batch, e, n)
    loss = ZERO
    total_pull = ZERO
    for k in range(n):
        if not _is_certain(batch, e, k):
            weight = importance(batch, e, k)
            gap = z[e, k] - log_mass if weight > 0 else ZERO
            pull = weight * sigmoid(gap)
            loss += weight * softplus(gap)
            total_pull += pull
            z[e, k] = n_labels * pull
    share = n_labels * (ONE - total_pull)
    for k in range(n):
        if _is_certain(batch, e, k):
            z[e, k] = share * exp(z[e, k] - log_mass) - label[e, k]
    return n_labels * (log_mass + loss) - score


@kernel_part
def _is_certain(batch, e, k):
    """Whether candidate k of example e is a positive, or a negative that was not drawn."""
    return batch.label[e, k] > 0 or (
        batch.sample_count[e, k] > 0 and batch.log_expected_count[e, k] == 0
    )


@kernel_part
def _log_mass_of_certain(batch, e, n):
    """log Σ e^{z_k} over the certain candidates of example e."""
    z = batch.z
    lowest = z.dtype.type(LOWEST)
    largest = lowest
    for k in range(n):
        largest = larger(largest, z[e, k] if _is_certain(batch, e, k) else lowest)
    mass = ZERO
    for k in range(n):
        mass += exp(z[e, k] - largest) if _is_certain(batch, e, k) else ZERO
    return largest + np.log(mass)


class NestedOneVsEach(RetrievalObjective):
    name = "nested-ove"
    about = About(
        title="nested one-vs-each",
        paper="Titsias 2016, section 5",
        formula="L - z_y + sum_drawn softplus(z_k - L), L = log(sum_found e^z_k)",
        advice="a bound without state that is tighter than ove's by the rows that a search finds",
        words_caution=(
            "for labels: on words the bound is loose, and the model ends below the unigram baseline"
        ),
    )
    Settings = FoundSettings
    coefficients = staticmethod(coefficients)
    traits = Traits(bound=True, merges_pairs=True, has_tail=True, has_label_tail=True)
    # No warm-up: without exact rows the gradients are some K / 2 times larger, and would stay in
    # Adagrad's accumulators.
    label_defaults = {"warm_up": 0.0}
    word_defaults = {"candidate_fraction": 0.01, "block_size": 32, "draws": 128, "warm_up": 0.0}
    word_settings = ("found", "refresh")
    is_margin = False

    def traits_for_settings(self) -> Traits:
        return self.traits

    def without_effect(self) -> dict[str, Any]:
        return {}

    def constants(self, n_draws: int, n_classes: int) -> np.ndarray:
        return np.zeros(1, np.float32)

    def search(self, n_classes: int) -> SearchSpec:
        return self.search_spec(n_classes, blocks=1, message_iterations=0, slack=0)
