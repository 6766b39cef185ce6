"""Alternating full steps: none makes the objective worse, and a run that is cut short ends where it
was last found better.
"""

import itertools
import math

import numpy as np
import pytest

from embedx.engine import alternating
from embedx.engine.alternating import Descent, Side
from embedx.engine.collapsed import NEITHER, AllRows
from embedx.runtime.progress import Silent
from tests.support.clock import Clock
from tests.support.collapsed_problem import DIM, Problem, best

ITERATIONS = 12


def descent(
    problem, *, rate=1.0, iterations=ITERATIONS, budget=math.inf, progress=None, watch=None
):
    inputs = Side(problem.inputs, DIM, problem.dense.sum(axis=1), rate)
    outputs = Side(problem.outputs, DIM, problem.dense.sum(axis=0), rate)
    return Descent(
        problem.rows,
        inputs,
        outputs,
        iterations,
        budget,
        progress or Silent(),
        watch or (lambda iteration: None),
    )


@pytest.mark.parametrize("rate", [0.1, 1e4])
def test_the_objective_never_rises(rate):
    """A rate of ten thousand is halved until the objective falls."""
    problem = Problem()
    run = descent(problem, rate=rate)
    run.run()
    losses = [iteration.loss for iteration in run.history]
    assert all(a > b for a, b in itertools.pairwise(losses))
    assert len(losses) == 1 + ITERATIONS
    assert losses[-1] < losses[0] - 0.2
    assert problem.evaluate(NEITHER)[0] == pytest.approx(losses[-1], rel=1e-6)
    entropy = -(problem.dense[problem.dense > 0] / problem.dense.sum()) @ np.log(
        (problem.dense / np.maximum(problem.dense.sum(axis=1, keepdims=True), 1))[problem.dense > 0]
    )
    assert losses[-1] > entropy  # below which no model comes


def test_both_tables_move_and_their_padding_does_not():
    problem = Problem()
    before = problem.inputs.copy(), problem.outputs.copy()
    descent(problem, iterations=1).run()
    for table, old in zip((problem.inputs, problem.outputs), before, strict=True):
        assert not np.array_equal(table, old)
        assert not table[:, DIM:].any()


@pytest.fixture
def clock(monkeypatch):
    """A millisecond passes at each look."""
    clock = Clock(tick=0.001)
    monkeypatch.setattr(alternating, "time", clock)
    return clock


def test_constant_columns_do_not_change():
    problem = Problem()
    problem.inputs[:, DIM - 1] = 1
    run = descent(problem)
    run.inputs.columns = DIM - 1
    run.run()
    assert (problem.inputs[:, DIM - 1] == 1).all()


def test_the_first_adagrad_step_of_a_row_has_the_length_of_the_rate_at_any_frequency():
    problem = Problem()
    before = problem.inputs.copy()
    descent(problem, rate=0.01, iterations=1).run()
    lengths = np.linalg.norm(problem.inputs - before, axis=1)
    np.testing.assert_allclose(np.delete(lengths, 4), 0.01, rtol=1e-3)
    assert lengths[4] == 0  # a word that is never an input has no gradient


def test_seconds_and_multiply_adds_add_up_and_watching_takes_no_time(clock):
    watched = []

    def watch(iteration):
        watched.append(iteration)
        clock.advance(100)

    problem = Problem()
    run = descent(problem, iterations=3, rate=0.01, watch=watch)
    run.run()
    assert watched == run.history
    assert [iteration.number for iteration in watched] == [0, 1, 2, 3]
    assert 0 < watched[0].seconds < watched[-1].seconds < 1
    full = problem.evaluate(0)[2]
    half = problem.evaluate(NEITHER)[2]
    assert [iteration.macs for iteration in watched] == [full, 3 * full, 5 * full, 6 * full + half]


class Stopping(Silent):
    """Ctrl-C, or another error, at the n-th report."""

    def __init__(self, n, error=KeyboardInterrupt):
        self.left = n
        self.error = error
        self.notes = []

    def update(self, done, **facts):
        self.left -= 1
        if self.left == 0:
            raise self.error

    def note(self, *message):
        self.notes.append("".join(message))


@pytest.mark.parametrize("rows", [AllRows, best(5)], ids=["all", "found"])
@pytest.mark.parametrize("at", [1, 2, 3, 5, 8])
def test_an_interrupt_leaves_the_vectors_of_the_last_better_step(at, rows):
    uninterrupted = descent(Problem(1, rows), rate=0.01, iterations=5)
    uninterrupted.run()
    losses = [iteration.loss for iteration in uninterrupted.history]
    problem = Problem(1, rows)
    run = descent(problem, rate=0.01, progress=Stopping(at))
    assert isinstance(run.run().interrupted_by, KeyboardInterrupt)
    finished = max(len(run.history) - 1, 0)
    problem.rows.refit(problem.outputs)
    now = problem.evaluate(NEITHER)[0]  # after that iteration, or half of the next
    assert losses[finished + 1] * (1 - 1e-6) < now < losses[finished] * (1 + 1e-6)


@pytest.mark.parametrize("at", [2, 3])
def test_an_interrupted_step_is_undone_if_it_was_not_yet_accepted(at):
    problem = Problem()
    start = problem.evaluate(NEITHER)[0]
    descent(problem, rate=1e4, progress=Stopping(at)).run()
    assert problem.evaluate(NEITHER)[0] == start


def test_the_time_of_the_watcher_is_not_part_of_the_budget(clock):
    lengths = []
    for seconds in (0, 100):
        run = descent(
            Problem(),
            iterations=None,
            budget=0.2,
            watch=lambda iteration, seconds=seconds: clock.advance(seconds),
        )
        run.run()
        lengths.append(len(run.history))
    assert lengths[0] == lengths[1] > 5


def test_a_budget_ends_the_run_and_undoes_an_unfinished_step(clock):
    problem = Problem()
    run = descent(problem, iterations=None, budget=0.2)
    assert run.run().interrupted_by is None
    assert 0.1 < run.history[-1].seconds < 0.201
    assert problem.evaluate(NEITHER)[0] <= run.history[-1].loss * (1 + 1e-6)
    late = descent(problem, budget=-1.0)
    before = problem.inputs.copy()
    late.run()
    assert late.history == []
    np.testing.assert_array_equal(problem.inputs, before)


def test_an_error_is_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        descent(Problem(), progress=Stopping(3, ZeroDivisionError)).run()


def test_a_run_stops_with_a_note_if_no_step_lowers_the_objective():
    problem = Problem()
    problem.inputs[:] = problem.outputs[:] = 0  # a saddle point: neither table has a gradient
    progress = Stopping(-1)
    run = descent(problem, progress=progress)
    run.run()
    assert run.history[-1].number == 1
    assert not problem.inputs.any()
    assert progress.notes[-1].endswith("after 1 iterations")
