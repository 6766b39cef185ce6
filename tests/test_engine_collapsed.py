"""The collapsed objective: its value and gradients, with all rows and with those that a search
finds.
"""

from functools import partial

import numpy as np
import pytest
import reference
import reference_collapsed

from embedx.engine import collapsed as engine
from embedx.engine.collapsed import INPUTS, NEITHER, OUTPUTS
from embedx.kernels.random import stream_key
from embedx.objectives import OBJECTIVES
from embedx.runtime.random_streams import TAIL_ROWS
from embedx.samplers.alias import AliasTable, draw
from embedx.text import cooccurrence
from tests.support.collapsed_problem import DIM, SEARCH_MACS, N, Problem, best, search_spec
from tests.support.noise_sampler import GivenNoise
from tests.support.skipgram_setup import Setup


@pytest.mark.parametrize(("threads", "block"), [(1, N), (2, 7), (3, 1)])
@pytest.mark.parametrize("rows", [engine.AllRows, best(N)], ids=["all", "found"])
def test_value_and_gradients_are_those_of_the_paper(rows, threads, block):
    problem = Problem(threads, rows, block)
    problem.assert_is_that_of()
    of_inputs, of_outputs = reference_collapsed.gradients(*problem.truth())
    assert not of_inputs[4].any()
    assert of_outputs[9].any()  # never a target, but always a candidate


def drawing(n_draws):
    """A tail of so many draws."""
    sampler = GivenNoise(np.random.default_rng(8).uniform(0.5, 1.5, N))
    sampler.prepare(np.ones(N, dtype=np.int64))
    return engine.Tail(sampler, n_draws, seed=5)


@pytest.mark.parametrize(("threads", "block", "number"), [(1, N, 0), (3, 7, 4)])
def test_draws_represent_rows_that_are_neither_found_nor_targets(threads, block, number):
    tail = drawing(6)
    problem = Problem(threads, best(3, tail=tail), block, objective="ldgs")
    problem.rows.redraw(number)
    inputs, outputs, dense = problem.truth()
    data = tail.sampler.data(6)
    stream = stream_key(5, TAIL_ROWS, number)
    weights = np.zeros((N, N))
    for x in range(N):
        for d in range(6):
            weights[x, draw(AliasTable(data.values, data.rows), stream, np.uint64(6 * x + d))] += 1
    weights /= 6 * tail.sampler.noise
    weights[reference_collapsed.best_rows(inputs, outputs, 3) | (dense > 0)] = 1
    problem.assert_is_that_of(weights, atol=1e-6)


@pytest.mark.parametrize(("n", "block"), [(1, N), (5, 7)])
def test_where_rows_are_found_they_and_the_targets_are_candidates(n, block):
    problem = Problem(2, best(n), block)
    inputs, outputs, dense = problem.truth()
    problem.assert_is_that_of(reference_collapsed.best_rows(inputs, outputs, n) | (dense > 0))
    assert (
        problem.evaluate(NEITHER)[0] < reference_collapsed.objective(inputs, outputs, dense) - 1e-3
    )


@pytest.mark.parametrize("rows", [engine.AllRows, best(5)], ids=["all", "found"])
def test_an_evaluation_changes_no_state(rows):
    """An interrupted one neither. The number of threads does not change the result."""

    def interrupt(done):
        raise KeyboardInterrupt

    problem = Problem(2, rows, block=7)
    once = problem.evaluate(OUTPUTS)
    with pytest.raises(KeyboardInterrupt):
        engine.evaluate(problem.rows, problem.inputs, problem.outputs, OUTPUTS, interrupt)
    for again in (problem, Problem(3, rows, block=7)):
        loss, gradient, *_ = again.evaluate(OUTPUTS)
        assert loss == once[0]
        np.testing.assert_array_equal(gradient, once[1])


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_search_that_scores_all_rows_finds_all(blocks):
    problem = Problem(2, partial(engine.FoundRows, search=search_spec(blocks), seed=1), block=7)
    problem.assert_is_that_of()
    # scores in the index, of centres, exact; the gradient
    assert problem.evaluate(INPUTS)[2] >= 3 * N * N * DIM + N * 5 * DIM


def test_an_index_finds_the_best_rows_and_scores_fewer():
    some = search_spec(1, n_scored=8, min_coefficient=1e-2, max_gap=4.6)
    problem = Problem(2, partial(engine.FoundRows, search=some, seed=1))
    candidates, n_found, _ = problem.rows.find(problem.inputs)
    is_candidate = problem.dense > 0
    for x in range(N):
        is_candidate[x, candidates[x, : n_found[x]]] = True
    problem.assert_is_that_of(is_candidate)
    assert n_found.sum() < 0.7 * N * N
    best_row = (problem.inputs @ problem.outputs.T).argmax(axis=1)
    assert is_candidate[np.arange(N), best_row].mean() > 0.7


def test_a_row_found_twice_is_one_candidate():
    problem = Problem(1, best(3))
    once = problem.evaluate(INPUTS)
    find = problem.rows.find

    def twice(inputs):
        rows, n_found, macs = find(inputs)
        return np.repeat(rows, 2, axis=1), 2 * n_found, macs

    problem.rows.find = twice
    np.testing.assert_array_equal(problem.evaluate(INPUTS)[1], once[1])


def test_multiply_adds_are_those_of_the_products():
    one = N * N * DIM
    assert [Problem().evaluate(side)[2] for side in (INPUTS, OUTPUTS, NEITHER)] == [
        2 * one,
        2 * one,
        one,
    ]
    problem = Problem(2, best(3), block=7)
    inputs, outputs, dense = problem.truth()
    n_candidates = (reference_collapsed.best_rows(inputs, outputs, 3) | (dense > 0)).sum()
    searching = N * SEARCH_MACS
    assert problem.evaluate(OUTPUTS)[2] == searching + 2 * n_candidates * DIM
    assert problem.evaluate(NEITHER)[2] == searching + n_candidates * DIM


def test_the_collapsed_objective_is_the_mean_loss_of_streamed_pairs(tmp_path):
    """Under the exact softmax, every pair of the stream by itself."""
    setup = Setup(OBJECTIVES["softmax"](OBJECTIVES["softmax"].Settings()), sampler="all", bias=True)
    pairs = reference.pairs_of(setup.kept(), 0, setup.n_tokens)
    n_words = len(setup.tables.inputs.rows)
    losses = []
    for x, y, *_ in pairs:
        z = setup.tables.outputs.rows.astype(np.float64) @ setup.tables.inputs.rows[x]
        losses.append(np.log(np.exp(z).sum()) - z[y])
    with cooccurrence.counted(
        setup.stream, n_words, setup.plan.window, [setup.text_key], 10**6, cache_dir=tmp_path
    ) as counts:
        rows = engine.AllRows(
            engine.CollapsedLoss(setup.objective, counts, n_words, setup.dim + 1, 2)
        )
        rows.compile()
        evaluation = engine.evaluate(
            rows, setup.tables.inputs.rows, setup.tables.outputs.rows, NEITHER
        )
        assert counts.times.sum() == len(pairs)
    assert evaluation.loss / len(pairs) == pytest.approx(np.mean(losses), rel=1e-5)
    assert evaluation.gradient.size == 0
