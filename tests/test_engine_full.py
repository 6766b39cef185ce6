"""The steps in which every row competes, by matrix products and tile by tile, against the naive reference and each other."""

import numpy as np
import pytest
from reference import NAIVE_OPTIMIZERS
from reference_classify import FEATURES, HIDDEN, Line, Probe, Problem, close

from embedx.engine import full, select, tiles
from embedx.engine.examples import copy_examples, memory_for, new_feature_workspace
from embedx.engine.loading import compile_function, load_kernel
from embedx.kernels.batch import COEFFICIENTS
from embedx.objectives.margin import Margin, MarginSettings
from embedx.optimizers.contract import new_table
from embedx.optimizers.decay import clock_step, decay_all, step_size
from embedx.training.progress import Silent

KINDS = ("dense", "sparse", "hidden")
OPTIMIZERS = list(NAIVE_OPTIMIZERS)
POSITIVES = ("single", "joint", "summed")


class FullSteps:
    """A problem, and what trains it by matrix products."""

    def __init__(
        self, problem, positives="joint", *, keeps_accidental_hits=False, one_label=False, uses_score_gain=False, threads=1,
        batch=5, in_turn=False, state_width=0, sparse_gradient=False, objective=None,
    ):  # fmt: skip
        self.problem, self.objective, self.batch, self.uses_score_gain = problem, objective or Probe(), batch, uses_score_gain
        self.in_turn = in_turn
        self.positives, self.keeps_accidental_hits, self.threads = positives, keeps_accidental_hits, threads
        compile_function(self.objective.coefficients, COEFFICIENTS)
        constants = self.objective.constants(problem.n_rows, problem.n_rows)
        width = -(-problem.n_rows // full.TILE) * full.TILE
        self.outputs = new_table(problem.dim, width, problem.optimizer, columns=True)
        self.outputs.rows[:, : problem.n_rows] = problem.true_outputs.w.T
        state, n_updates = np.zeros((problem.n, state_width), dtype=np.float32), np.zeros(problem.n, dtype=np.int64)
        self.layer = full.Layer(problem.hidden, self.outputs, state, n_updates)
        n_features = FEATURES if problem.is_sparse else 0
        self.steps = full.FullSteps(
            self.objective.coefficients, self.layer, problem.examples, problem.optimizer, n_rows=problem.n_rows,
            has_bias=problem.has_bias, positives=positives,
            keeps_accidental_hits=keeps_accidental_hits, one_label=one_label, uniforms_width=0,
            uses_score_gain=uses_score_gain, sparse_gradient=sparse_gradient, constants=constants, in_turn=in_turn,
            features=new_feature_workspace(problem.examples, n_features, batch, problem.dim), threads=threads,
        )  # fmt: skip
        self.clock = 0.0

    def train(self, order, begin, end, lr=0.1, scale=None):
        optimizer = self.problem.optimizer
        rate = float(step_size(optimizer, lr))
        scale = 1 / (end - begin) if scale is None else scale
        found = self.steps.step(order, begin, end, lr, rate, self.clock, scale, np.random.default_rng(0))
        self.clock += clock_step(optimizer, lr)
        return found

    def apply_decay(self):
        problem = self.problem
        if problem.optimizer.l2:
            decay_all(problem.hidden, HIDDEN, problem.optimizer, self.clock)
            everything = np.arange(problem.dim, dtype=np.int32)
            full.decay_features(self.outputs, everything, 0, problem.n_inputs, problem.n_rows, problem.optimizer, self.clock)

    def assert_is_the_truth(self):
        self.apply_decay()
        problem = self.problem
        close(self.outputs.rows[:, : problem.n_rows].T, problem.true_outputs.w)
        assert not self.outputs.rows[:, problem.n_rows :].any()
        if problem.has_hidden:
            close(problem.hidden.rows[:, :HIDDEN], problem.true_hidden.w)

    def lines(self, chosen):
        """All rows for every example, or for every positive of it."""
        lines = []
        for e, i in enumerate(chosen):
            labels = self.problem.labels[i].tolist()
            for own in [[k] for k in labels] if self.positives == "single" else [labels]:
                sample_count = len(labels) if self.positives == "summed" else min(len(labels), 1)
                hits = sample_count if self.keeps_accidental_hits else 0
                lines.append(
                    Line(
                        e,
                        [(k, float(k in own), hits if k in own else sample_count, 0.0) for k in range(self.problem.n_rows)],
                    )
                )
        return lines

    def assert_steps_as_the_reference(self, epochs=2, lr=0.1, sum_over=1.0):
        for epoch in range(epochs):
            order = np.random.default_rng(epoch).permutation(self.problem.n)
            for begin in range(0, self.problem.n, self.batch):
                chosen = order[begin : begin + self.batch]
                scale = sum_over / len(chosen)
                loss, n_terms = self.train(order, begin, begin + len(chosen), lr, scale)
                lines = self.lines(chosen)
                how = {"uses_score_gain": self.uses_score_gain, "in_turn": self.in_turn}
                truth = self.problem.true_step(chosen, lines, self.objective, lr, scale, **how)
                assert loss == pytest.approx(truth, rel=1e-4, abs=1e-4)
                assert n_terms == sum(any(label for _, label, _, _ in line.candidates) for line in lines)
        self.assert_is_the_truth()


@pytest.mark.parametrize("positives", POSITIVES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_minibatch_does_what_the_formula_says(kind, optimizer, positives):
    for batch in (1, 7):
        problem = Problem(
            kind, optimizer, all_labelled=optimizer == "mixture"
        )  # whose memory fades for examples without labels
        hits = positives == "summed"
        FullSteps(problem, positives, keeps_accidental_hits=hits, batch=batch).assert_steps_as_the_reference(1)


@pytest.mark.parametrize("kind", KINDS)
def test_without_bias_and_told_how_far_scores_move(kind):
    for bias in (True, False):
        for positives in ("single", "joint"):
            FullSteps(Problem(kind, bias=bias), positives, uses_score_gain=True).assert_steps_as_the_reference(1)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_labels_that_are_answered_in_turn_see_the_steps_of_those_before(kind):
    FullSteps(Problem(kind), "single", uses_score_gain=True, in_turn=True, batch=1).assert_steps_as_the_reference(1)


@pytest.mark.parametrize("kind", KINDS)
def test_accidental_hits_that_are_kept_and_the_sum_over_all_examples(kind):
    for positives in POSITIVES:
        FullSteps(Problem(kind), positives, keeps_accidental_hits=True).assert_steps_as_the_reference(1, lr=0.01, sum_over=12.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_weight_decay_applied_late_is_weight_decay_at_every_step(kind, optimizer):
    for max_norm in (0.0, 0.9):
        problem = Problem(kind, optimizer, l2=0.3, max_norm=max_norm, all_labelled=True)
        FullSteps(problem, batch=2).assert_steps_as_the_reference()


def trained_by_margin(kind, optimizer, sparse_gradient, **settings):
    """Two epochs over few examples of many classes; the losses, the tables and what the optimisers keep."""
    problem = Problem(kind, optimizer, n=20, n_classes=300, labels=[[3 * e, 299 - e] for e in range(20)], **settings)
    run = FullSteps(problem, sparse_gradient=sparse_gradient, objective=Margin(MarginSettings(smoothing=0.1)), threads=2)
    losses = [run.train(np.arange(20), begin, begin + 5)[0] for begin in [0, 5, 10, 15] * 2]
    return losses, run.outputs.rows, run.outputs.state, problem.hidden.rows, problem.hidden.state


@pytest.mark.parametrize("settings", [{}, {"l2": 0.3}, {"max_norm": 0.9}], ids=str)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_do_not_move_may_be_left_alone(kind, optimizer, settings, monkeypatch):
    dense = trained_by_margin(kind, optimizer, sparse_gradient=False, **settings)
    if kind != "sparse" and optimizer != "mixture":
        monkeypatch.setattr(full, "dense_steps", None)
    for all_at_once, few in zip(dense, trained_by_margin(kind, optimizer, sparse_gradient=True, **settings), strict=True):
        np.testing.assert_allclose(few, all_at_once, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_where_all_columns_move_after_all_none_is_left_alone(kind):
    FullSteps(Problem(kind), sparse_gradient=True).assert_steps_as_the_reference(1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("positives", POSITIVES)
def test_threads_agree(kind, positives):
    found = []
    for threads in (1, 3):
        problem = Problem(kind, "adagrad", n=40, n_classes=150, l2=0.1)
        hits = positives == "summed"
        run = FullSteps(problem, positives, keeps_accidental_hits=hits, threads=threads, batch=20, state_width=2)
        results = [run.train(np.arange(40), begin, begin + 20) for begin in (0, 20, 0)]
        found.append((results, run.outputs.rows, problem.hidden.rows[:, :HIDDEN], run.layer.state, run.layer.n_updates))
    for one, several in zip(*found, strict=True):
        np.testing.assert_allclose(one, several, rtol=1e-5, atol=1e-6)


def test_a_state_belongs_to_an_example_and_updates_go_on_being_counted():
    problem = Problem("dense", labels=[[1], [2, 4, 6], [3], []], n=4)
    for threads in (1, 2):
        run = FullSteps(problem, "single", batch=4, state_width=1, threads=threads)
        for _ in range(2):
            run.train(np.array([3, 1, 0, 2]), 0, 4)
        assert run.layer.state[:, 0].tolist() == [102, 6 + 1500, 102, 0]


def test_one_label_of_an_example_stands_for_all_with_equal_chances():
    counts = np.zeros(9)
    for positives in POSITIVES:
        problem = Problem("dense", labels=[[5, 0, 3]] * 300, n=300)
        run = FullSteps(problem, positives, keeps_accidental_hits=True, one_label=True, batch=300)
        run.steps.constants = np.zeros(1, dtype=np.float32)  # draws weigh nothing: only positives have coefficients
        assert run.train(np.arange(300), 0, 300, lr=0.0)[1] == 300
        z = run.steps.z[:, :9] * 300
        assert ((z != 0).sum(axis=1) == 1).all()
        counts += (z != 0).sum(axis=0)
    assert set(np.flatnonzero(counts)) == {0, 3, 5}
    assert counts[[0, 3, 5]].min() > 240


# ---- tile by tile


def by_tiles(run, orders, lr, sum_over=1.0, threads=1):
    """Train the parameters of `run` tile by tile, an order of the examples after another."""
    problem, batch = run.problem, run.batch
    in_order = memory_for(problem.examples, problem.n)
    workspace = tiles.new_columns_workspace(in_order, problem.dim, batch, problem.optimizer)
    n_tiles = run.outputs.rows.shape[1] // tiles.WIDTH
    plan = tiles.TilePlan(
        batch, float(sum_over), problem.has_bias, run.keeps_accidental_hits, select.POSITIVES[run.positives], is_masked=False,
        shrinks=False, optimizer=problem.optimizer, constants=run.objective.constants(),
    )  # fmt: skip
    loss = 0.0
    for order in orders:
        copy_examples(problem.examples, order, 0, problem.n, in_order)
        for w in range(threads):
            first, last = (n_tiles * edge // threads * tiles.WIDTH for edge in (w, w + 1))
            arguments = (
                in_order, problem.n, run.outputs, plan, workspace, first, last, problem.n_rows, np.float32(lr), float(run.clock)
            )  # fmt: skip
            functions = load_kernel(tiles.train_columns, run.objective.coefficients, None, arguments, Silent())
            loss += tiles.train_columns(*functions, *arguments)
        run.clock += -(-problem.n // batch) * clock_step(problem.optimizer, np.float32(lr))
    return loss


@pytest.mark.parametrize("l2", [0.0, 0.3], ids=["", "l2"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("positives", "hits"), [("joint", False), ("joint", True), ("summed", True)])
def test_tile_by_tile_it_comes_to_the_same(positives, hits, optimizer, l2):
    for bias, batch, threads in ((True, 7, 1), (False, 1, 2)):
        problems = [
            Problem("sparse", optimizer, n=30, n_classes=70, bias=bias, l2=l2, all_labelled=optimizer == "mixture")
            for _ in range(2)
        ]
        at_once, tiled = (FullSteps(problem, positives, keeps_accidental_hits=hits, batch=batch) for problem in problems)
        orders = [np.random.default_rng(epoch).permutation(30) for epoch in range(3)]
        expected = 0.0
        for order in orders:
            for begin in range(0, 30, batch):
                end = min(begin + batch, 30)
                expected += at_once.train(order, begin, end, 0.05, 2.0 / (end - begin))[0]
        at_once.apply_decay()
        loss = by_tiles(tiled, orders, 0.05, sum_over=2.0, threads=threads)  # applies all decay that is due
        assert loss == pytest.approx(expected, rel=1e-4)
        close(tiled.outputs.rows, at_once.outputs.rows)
        assert tiled.clock == pytest.approx(at_once.clock, rel=1e-6)
        assert not tiled.outputs.rows[:, 70:].any()


def test_one_signature_serves_them_all():
    for positives in ("joint", "summed"):
        by_tiles(FullSteps(Problem("sparse"), positives, keeps_accidental_hits=True), [np.arange(12)], 0.1)
    if hasattr(tiles.train_columns, "overloads"):
        assert len(tiles.train_columns.overloads) == 1
