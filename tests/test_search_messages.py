"""Message passing between blocks: theorem 2 of Yen et al. 2018, and the kernel against the
algorithm as it stands there.
"""

import numpy as np
import pytest
import reference
from reference_search import block_scores, margin, message_passing, softmax

from embedx.kernels.batch import new_batch
from embedx.kernels.simd import aligned_zeros
from embedx.objectives.ldgs import Ldgs
from embedx.search import index as indexing
from embedx.search.message_passing import new_message_workspace, pass_messages, select_positives
from embedx.search.query import Searcher, new_query_workspace, search_all_blocks

N = 60
DIM = 30
BLOCKS = 4
POSITIVES = np.array([3, 17])
MU = 1.0
LOSSES = {"softmax": lambda z: softmax(POSITIVES, z), "margin": lambda z: margin(POSITIVES, MU, z)}
# the mu of a loss whose gradient is 1/mu-Lipschitz
SMOOTHNESS = {"softmax": 1 / len(POSITIVES), "margin": MU}

each_loss = pytest.mark.parametrize("loss", LOSSES)


def problem(seed=0):
    """A table float32 (N, padded), one h (1, padded)."""
    rng = np.random.default_rng(seed)
    table = aligned_zeros(N, DIM)
    h = aligned_zeros(1, DIM)
    table[:, :DIM] = rng.normal(size=(N, DIM)) / DIM**0.5
    h[0, :DIM] = 3 * rng.normal(size=DIM)
    return table, h


def by_kernel(loss, table, h, rounds, blocks=BLOCKS, threshold=0.0):
    """G and the gradient (N,) that the kernel finds."""
    options = {
        "loss": loss,
        "blocks": blocks,
        "min_coefficient": 1e-3,
        "clusters": 5,
        "min_score": threshold,
    }
    objective = Ldgs(
        Ldgs.Settings(rescore=False, iterations=rounds, scored_fraction=1.0, **options)
    )
    search = objective.search(N)._replace(max_gap=1e9)
    index = indexing.build_index(table, N, DIM, search, np.random.default_rng(0))
    rows = np.zeros((1, N), np.int32)
    batch = new_batch(1, N)
    rows[0, : len(POSITIVES)] = POSITIVES
    batch.label[0, : len(POSITIVES)] = 1
    searcher = Searcher(index, search, new_query_workspace(N, search))
    messages = new_message_workspace(N, search, N)
    n_positives = len(POSITIVES)
    search_all_blocks(searcher, h, 0, rows, 0, n_positives)
    select_positives(index, messages, table, h, 0, rows, 0, n_positives)
    n, value = pass_messages(
        reference.pointer_to_coefficients(objective),
        objective.constants(N, N),
        searcher,
        messages,
        rows,
        batch,
        0,
        n_positives,
    )
    assert len(set(rows[0, :n].tolist())) == n
    gradient = np.zeros(N)
    gradient[rows[0, :n]] = batch.z[0, :n]
    return value, gradient


@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_the_reference_of_the_margin_is_the_quadratic_programme(scale):
    z = scale * np.random.default_rng(0).normal(size=12)
    positives = np.array([3, 7])
    negatives = np.setdiff1d(np.arange(12), [3, 7])
    value, gradient = reference.smoothed_margin(z, positives, negatives, 0.5)
    solution = margin(positives, 0.5, z)
    assert solution[0] == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(solution[1], gradient, atol=1e-4)


@each_loss
@pytest.mark.parametrize("tau", [0.0, 1e-3, 1e-2])
def test_the_gap_to_the_loss_falls_at_the_rate_of_theorem_2(loss, tau):
    table, h = problem()
    z = block_scores(table[:, :DIM], h[0, :DIM], BLOCKS).astype(np.float64)
    value, _ = LOSSES[loss](z.sum(axis=0))
    history, _ = message_passing(LOSSES[loss], z, tau, 30, POSITIVES)
    best = z.mean(axis=0) - z
    for t in range(1, 31):
        bound = 2 * BLOCKS * (best**2).sum() / (SMOOTHNESS[loss] * (t + 2))
        assert -1e-9 <= history[t] - value <= bound + 2 * tau * np.log(t) * np.abs(best).sum()
    assert history[30] - value < 0.2 * (history[0] - value)


@each_loss
@pytest.mark.parametrize("rounds", [1, 2, 7])
@pytest.mark.slow
def test_the_kernel_passes_the_messages_of_algorithm_2(loss, rounds):
    for seed in range(4):
        table, h = problem(seed)
        z = block_scores(table[:, :DIM], h[0, :DIM], BLOCKS).astype(np.float64)
        history, gradient = message_passing(LOSSES[loss], z, 1e-3, rounds, POSITIVES)
        value, rows = by_kernel(loss, table, h, rounds)
        assert value == pytest.approx(history[-1], rel=1e-4)
        np.testing.assert_allclose(rows, gradient, atol=2e-4)


@each_loss
def test_message_passing_in_one_block_equals_the_search(loss):
    """With B = 1 there is nothing to pass on: Algorithm 1."""
    table, h = problem()
    value, gradient = LOSSES[loss]((table @ h[0])[:N].astype(np.float64))
    best = by_kernel(loss, table, h, 1, blocks=1)
    assert best[0] == pytest.approx(value, rel=1e-4)
    np.testing.assert_allclose(best[1], gradient, atol=1e-4)


@each_loss
def test_a_block_score_that_was_not_found_is_zero_and_rows_that_no_block_finds_are_left_out(loss):
    """Algorithm 2 has a score of 0 for these too."""
    table, h = problem()
    table[:, :DIM] *= 0.01
    table[POSITIVES, :DIM] = 0
    h[0, :DIM] = 1
    first = DIM // BLOCKS
    # found in block 0, below the threshold in the others
    table[40, :first], table[40, first:DIM] = 1, 0.05
    _, gradient = by_kernel(loss, table, h, 1, threshold=1.0)
    z = block_scores(table[:, :DIM], h[0, :DIM], BLOCKS).astype(np.float64)
    z = np.where(np.abs(z) > 1, z, 0)
    z[:, [k for k in range(N) if k not in (*POSITIVES, 40)]] = -1e6  # found nowhere
    _, expected = message_passing(LOSSES[loss], z, 1e-3, 1, POSITIVES)
    np.testing.assert_allclose(gradient, expected, atol=1e-4)
    assert gradient[40] > 0.5


# ---- a strongly convex loss


CONVEXITY = 0.5


def strongly_convex(z):
    """The margin loss with CONVEXITY/2 |z|² added, and its gradient."""
    value, gradient = LOSSES["margin"](z)
    return value + CONVEXITY / 2 * z @ z, gradient + CONVEXITY * z


def test_gradients_of_a_strongly_convex_loss_converge_with_its_value():
    """What the paper leaves out after theorem 2. The scores B (z_j + λ_j) have z as their mean, so
    that strong convexity bounds their mean squared distance from z by 2 (G - L) / CONVEXITY; the
    gradient is Lipschitz, so that its error is at most that distance times its constant.
    """
    lipschitz = 1 / MU + CONVEXITY
    for seed in range(5):
        table, h = problem(seed)
        z = block_scores(table[:, :DIM], h[0, :DIM], BLOCKS).astype(np.float64)
        value, exact = strongly_convex(z.sum(axis=0))
        errors = []
        for rounds in (0, 1, 7, 30):
            history, gradient = message_passing(strongly_convex, z, 0.0, rounds, POSITIVES)
            error = np.linalg.norm(gradient - exact)
            gap = history[-1] - value
            assert error <= lipschitz * np.sqrt(2 * max(gap, 0) / CONVEXITY) + 1e-6
            errors.append(error)
        assert errors[0] > 0.1
        assert errors[-1] < 0.02 * errors[0]


@each_loss
def test_the_retrieved_gradient_approaches_the_exact_one_with_more_iterations(loss):
    """This holds without a strongly convex loss too, if all rows are found."""
    for seed in range(3):
        table, h = problem(seed)
        _, exact = LOSSES[loss]((table @ h[0])[:N].astype(np.float64))
        errors = [
            np.linalg.norm(by_kernel(loss, table, h, rounds)[1] - exact) for rounds in (1, 7, 400)
        ]
        assert errors[-1] < 0.1 * errors[0]
