"""eval bounds: gaps against exact values, what each objective is, and a set from its jobs to its
tables.
"""

import numpy as np
import pytest
import reference

from embedx.objectives import OBJECTIVES
from eval import bounds, bounds_gaps
from tests.support.eval_setup import Records, Run, environment, experiment_called, rows_of
from tests.support.objectives import make

N_CLASSES = 12


@pytest.fixture
def run(tmp_path):
    run = Run(experiment_called("bounds"), ["gaussian", "softmax", "ar"], quick=True, data=tmp_path)
    run.records = Records(tmp_path / "raw", environment(quick=True), mixed=True)
    return run


@pytest.fixture
def scored():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 3, (5, N_CLASSES))
    noise = rng.dirichlet(np.full(N_CLASSES, 5.0))
    return bounds_gaps.Scored(z, rng.integers(N_CLASSES, size=5), noise)


def gap(title, scored, n_rows, run):
    return bounds_gaps.gap(bounds_gaps.METHODS[title], scored, n_rows, run, seed=1)


def exact_losses(scored):
    return [reference.softmax_loss(z, y) for z, y in zip(scored.z, scored.y, strict=True)]


def test_the_gap_of_one_vs_each_is_that_of_its_formula(scored, run):
    losses = [
        reference.ove_loss(z, y, 1 - np.eye(N_CLASSES)[y])
        for z, y in zip(scored.z, scored.y, strict=True)
    ]
    expected = np.mean(exact_losses(scored)) - np.mean(losses)
    assert gap("ove", scored, 4, run) == pytest.approx(expected, rel=1e-5)


def test_a_loss_over_the_rows_found_is_that_of_a_softmax_among_them(scored, run):
    losses = []
    for z, y in zip(scored.z, scored.y, strict=True):
        others = np.sort(np.delete(z, y))[-3:]
        losses.append(reference.softmax_loss(np.append(others, z[y]), 3))
    expected = np.mean(exact_losses(scored)) - np.mean(losses)
    assert gap("mips", scored, 4, run) == pytest.approx(expected, rel=1e-5)


def test_bounds_are_below_the_likelihood_and_exact_where_all_rows_are_in_them(scored, run):
    for n_rows in (2, 4, 8):
        assert gap("nested-ove", scored, n_rows, run) < 0
        assert gap("mips", scored, n_rows, run) > 0
    assert gap("nested-ove", scored, N_CLASSES, run) == pytest.approx(0, abs=1e-5)
    assert gap("mips", scored, N_CLASSES, run) == pytest.approx(0, abs=1e-5)
    assert gap("ar at its optimum", scored, 2, run) == pytest.approx(0, abs=1e-9)
    for title in ("ove", "bouchard", "ar", "scgd"):
        assert gap(title, scored, 4, run) < 0


def test_of_so_many_draws_that_all_rows_are_there_the_estimate_is_close(scored, run):
    assert gap("complementary-sum", scored, 100_000, run) == pytest.approx(0, abs=0.02)
    assert gap("complementary-sum", scored, 3, run) > 0.1


def test_every_objective_is_classified_and_bounds_match_its_traits():
    assert bounds.KINDS.keys() == OBJECTIVES.keys()
    lower_bounds = {name for name, kind in bounds.KINDS.items() if kind == bounds_gaps.BOUND}
    assert lower_bounds == {name for name in OBJECTIVES if make(name).traits.bound}


def test_a_set_from_its_jobs_to_its_tables(run):
    run.measure(resume=True)
    best = bounds.best_step(run.records, {"data": "gaussian", "objective": "ar"})
    tried = [record["job"]["step"] for record in run.records.find(what="rate", objective="ar")]
    assert min(tried) < best < max(tried)
    assert [*rows_of(bounds.same("gaussian", run.records))] == [*bounds_gaps.METHODS]
    rows = rows_of(bounds.models("gaussian", run.records))
    assert rows.keys() == {"softmax", "ar"}
    assert "±" in rows["ar"]["gap at its own weights"]
    assert rows_of(bounds.price(run.records))["ove"]["16 rows"] == "1.00"
    assert bounds.models("words", run.records) == "Not measured."
    assert bounds.plot(run.records) is not None
