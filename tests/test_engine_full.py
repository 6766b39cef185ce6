"""Steps of which every row is a candidate, by matrix products and tile by tile, against the naive
reference and each other.
"""

import numpy as np
import pytest
from reference import NAIVE_OPTIMIZERS
from reference_classify import HIDDEN, Line, Probe, Problem, close

from embedx.engine import dense_tiles, full, tiles
from embedx.engine.examples import examples_at
from embedx.engine.loading import compile_function, load_kernel
from embedx.kernels.batch import COEFFICIENTS
from embedx.objectives.margin import Margin, MarginSettings
from embedx.optimizers.contract import new_table
from embedx.optimizers.decay import clock_step, decay_all, decay_rows
from embedx.runtime.progress import Silent

KINDS = ("dense", "sparse", "hidden")
OPTIMIZERS = list(NAIVE_OPTIMIZERS)
BY_NUMBER = [name for name in OPTIMIZERS if not NAIVE_OPTIMIZERS[name].by_row]
EACH_KIND = [
    (kind, name) for kind in KINDS for name in (BY_NUMBER if kind == "sparse" else OPTIMIZERS)
]
POSITIVES = ("single", "joint", "summed")


class Run:
    """A problem, and what trains it with all rows as candidates."""

    def __init__(
        self,
        problem,
        positives="joint",
        *,
        threads=1,
        batch=5,
        sparse_gradient=False,
        objective=None,
        **options,
    ):
        self.problem = problem
        self.objective = objective or Probe()
        self.positives = positives
        self.batch = batch
        compile_function(self.objective.coefficients, COEFFICIENTS)
        is_transposed = problem.kind == "sparse"
        width = -(-problem.n_outputs // full.TILE_WIDTH) * full.TILE_WIDTH
        shape = (problem.dim, width) if is_transposed else (problem.n_outputs, problem.dim)
        self.outputs = new_table(*shape, problem.optimizer)
        if is_transposed:
            self.rows = self.outputs.rows[:, : problem.n_outputs].T
            self.rows[:] = problem.true_outputs.w
        else:
            self.rows = self.outputs.rows[:, : problem.dim]
            problem.write_outputs(self.outputs)
        self.shared = problem.shared(
            self.outputs, positives=positives, batch=batch, objective=self.objective, **options
        )
        self.plan = self.shared.plan
        kind = full.SparseSteps if is_transposed else full.DenseSteps
        common = {"threads": threads, "parts": threads, "sparse_gradient": sparse_gradient}
        self.steps = kind(self.objective.coefficients, self.shared, **common)
        self.clock = 0.0

    def train(self, chosen, lr=0.1):
        loss = self.steps.step(np.asarray(chosen), lr, self.clock, np.random.default_rng(0))
        self.clock += clock_step(self.problem.optimizer, lr)
        return loss

    def apply_decay(self):
        problem = self.problem
        if problem.optimizer.l2:
            decay_all(problem.hidden, HIDDEN, problem.optimizer, self.clock)
            if problem.kind == "sparse":
                n_rows = problem.n_inputs
                n = problem.n_outputs
            else:
                n_rows = problem.n_outputs
                n = problem.n_inputs
            decay_rows(self.outputs, 0, n_rows, n, problem.optimizer, self.clock)

    def assert_is_the_truth(self):
        self.apply_decay()
        problem = self.problem
        close(self.rows[:, problem.columns], problem.true_outputs.w)
        assert not self.outputs.rows[
            :, problem.n_outputs if problem.kind == "sparse" else problem.dim :
        ].any()
        if problem.has_hidden:
            close(problem.hidden.rows[:, :HIDDEN], problem.true_hidden.w)

    def terms(self, chosen):
        """All rows for every example, or for every positive of it."""
        terms = []
        for e, i in enumerate(chosen):
            labels = self.problem.labels[i].tolist()
            for positives in [[k] for k in labels] if self.positives == "single" else [labels]:
                sample_count = len(labels) if self.positives == "summed" else min(len(labels), 1)
                hits = sample_count if self.plan.keeps_accidental_hits else 0
                every = range(self.problem.n_outputs)
                terms.append(
                    Line(
                        e,
                        [
                            (
                                k,
                                float(k in positives),
                                hits if k in positives else sample_count,
                                0.0,
                            )
                            for k in every
                        ],
                    )
                )
        return terms

    def assert_steps_as_the_reference(self, epochs=2, lr=0.1):
        for epoch in range(epochs):
            order = np.random.default_rng(epoch).permutation(self.problem.n)
            for begin in range(0, self.problem.n, self.batch):
                chosen = order[begin : begin + self.batch]
                loss, n_terms = self.train(chosen, lr)
                terms = self.terms(chosen)
                scale = self.plan.sum_over / len(chosen)
                truth = self.problem.true_step(chosen, terms, self.objective, lr, scale)
                assert loss == pytest.approx(truth, rel=1e-4, abs=1e-4)
                assert n_terms == sum(
                    any(label for _, label, _, _ in term.candidates) for term in terms
                )
        self.assert_is_the_truth()


@pytest.mark.parametrize("positives", POSITIVES)
@pytest.mark.parametrize(("kind", "optimizer"), EACH_KIND)
def test_a_minibatch_takes_the_step_of_the_formula(kind, optimizer, positives):
    for batch in (1, 7):
        # whose memory fades for examples without labels
        problem = Problem(kind, optimizer, all_labelled=optimizer == "mixture")
        hits = positives == "summed"
        Run(
            problem, positives, keeps_accidental_hits=hits, batch=batch
        ).assert_steps_as_the_reference(1)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_with_kept_accidental_hits_summed_gradients_and_no_bias(kind):
    for positives in POSITIVES:
        run = Run(Problem(kind, bias=False), positives, keeps_accidental_hits=True, sum_over=12.0)
        run.assert_steps_as_the_reference(1, lr=0.01)


@pytest.mark.parametrize(("kind", "optimizer"), EACH_KIND)
def test_lazy_weight_decay_equals_weight_decay_at_every_step(kind, optimizer):
    for max_norm in (0.0, 0.9):
        problem = Problem(kind, optimizer, l2=0.3, max_norm=max_norm, all_labelled=True)
        Run(problem, batch=2).assert_steps_as_the_reference()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", ["dense", "hidden"])
def test_distances_take_the_steps_of_their_gradients(kind, optimizer):
    for bias, l2, max_norm in ((False, 0.0, 0.0), (True, 0.3, 0.9)):
        settings = {"bias": bias, "l2": l2, "max_norm": max_norm}
        problem = Problem(kind, optimizer, all_labelled=True, by_distance=True, **settings)
        Run(problem, batch=4).assert_steps_as_the_reference(lr=0.01)


def trained_by_margin(kind, optimizer, sparse_gradient, **settings):
    """Two epochs over few examples of many classes; the losses, the tables and what the optimisers
    keep.
    """
    problem = Problem(
        kind,
        optimizer,
        n=20,
        n_classes=300,
        labels=[[3 * e, 299 - e] for e in range(20)],
        **settings,
    )
    run = Run(
        problem,
        sparse_gradient=sparse_gradient,
        objective=Margin(MarginSettings(smoothing=0.1)),
        threads=2,
    )
    run.rows *= 0.2  # shorter than max_norm: rows that do not move are not looked at
    losses = [run.train(np.arange(begin, begin + 5))[0] for begin in [0, 5, 10, 15] * 2]
    return losses, run.outputs.rows, run.outputs.state, problem.hidden.rows, problem.hidden.state


@pytest.mark.parametrize("settings", [{}, {"l2": 0.3, "max_norm": 0.9}], ids=str)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", ["dense", "hidden"])
def test_rows_without_coefficients_are_not_updated(kind, optimizer, settings):
    dense = trained_by_margin(kind, optimizer, sparse_gradient=False, **settings)
    for all_at_once, few in zip(
        dense, trained_by_margin(kind, optimizer, sparse_gradient=True, **settings), strict=True
    ):
        np.testing.assert_allclose(few, all_at_once, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["dense", "hidden"])
def test_all_rows_are_updated_if_most_have_coefficients(kind):
    Run(Problem(kind), sparse_gradient=True).assert_steps_as_the_reference(1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("positives", POSITIVES)
def test_steps_do_not_depend_on_the_number_of_threads(kind, positives):
    runs = []
    for threads in (1, 3):
        problem = Problem(kind, "adagrad", n=40, n_classes=150, l2=0.1)
        hits = positives == "summed"
        run = Run(
            problem, positives, keeps_accidental_hits=hits, threads=threads, batch=20, state_width=2
        )
        losses = [run.train(np.arange(begin, begin + 20)) for begin in (0, 20, 0)]
        runs.append(
            (
                losses,
                run.outputs.rows,
                problem.hidden.rows[:, :HIDDEN],
                run.shared.state,
                run.shared.n_updates,
            )
        )
    for one, several in zip(*runs, strict=True):
        np.testing.assert_allclose(one, several, rtol=1e-5, atol=1e-6)


def test_a_state_belongs_to_an_example_and_its_updates_are_counted():
    problem = Problem("dense", labels=[[1], [2, 4, 6], [3], []], n=4)
    for threads in (1, 2):
        run = Run(problem, "single", batch=4, state_width=1, threads=threads)
        for _ in range(2):
            run.train([3, 1, 0, 2])
        assert run.shared.state[:, 0].tolist() == [102, 6 + 1500, 102, 0]


def test_one_label_of_an_example_is_drawn_uniformly():
    counts = np.zeros(9)
    for positives in POSITIVES:
        problem = Problem("dense", labels=[[5, 0, 3]] * 300, n=300)
        # Draws weigh nothing: only positives have coefficients.
        run = Run(
            problem,
            positives,
            keeps_accidental_hits=True,
            one_label=True,
            batch=300,
            objective=Probe(0.0),
        )
        assert run.train(np.arange(300), lr=0.0)[1] == 300
        z = run.steps.z[:, :9] * 300
        assert ((z != 0).sum(axis=1) == 1).all()
        counts += (z != 0).sum(axis=0)
    assert set(np.flatnonzero(counts)) == {0, 3, 5}
    assert counts[[0, 3, 5]].min() > 240


# ---- tile by tile


def by_tiles(run, orders, lr, threads=1):
    """Train the parameters of `run` tile by tile, an order of the examples after another."""
    problem = run.problem
    batch = run.batch
    workspace = tiles.new_workspace(
        problem.n, 0, problem.dim - 1, batch, problem.optimizer, is_sparse=False
    )
    n_tiles = run.outputs.rows.shape[1] // tiles.TILE_WIDTH
    plan = tiles.TilePlan(
        batch,
        run.plan.sum_over,
        problem.has_bias,
        run.plan.keeps_accidental_hits,
        run.plan.positives,
        is_sparse=False,
        optimizer=problem.optimizer,
        constants=run.shared.constants,
        lr=np.float32(lr),
    )
    loss = 0.0
    for order in orders:
        in_order = examples_at(problem.examples, order)
        for w in range(threads):
            first, last = (n_tiles * edge // threads * tiles.TILE_WIDTH for edge in (w, w + 1))
            arguments = (in_order, run.shared, plan, workspace, first, last, float(run.clock))
            functions = load_kernel(
                dense_tiles.train_columns, run.objective.coefficients, None, arguments, Silent()
            )
            loss += dense_tiles.train_columns(*functions, *arguments)
        run.clock += -(-problem.n // batch) * clock_step(problem.optimizer, np.float32(lr))
    return loss


@pytest.mark.parametrize("l2", [0.0, 0.3], ids=["", "l2"])
@pytest.mark.parametrize("optimizer", BY_NUMBER)
@pytest.mark.parametrize(
    ("positives", "hits"), [("joint", False), ("joint", True), ("summed", True)]
)
def test_training_in_tiles_equals_training_on_whole_rows(positives, hits, optimizer, l2):
    for bias, batch, threads in ((True, 7, 1), (False, 1, 2)):
        problems = [
            Problem(
                "sparse",
                optimizer,
                n=30,
                n_classes=70,
                bias=bias,
                l2=l2,
                all_labelled=optimizer == "mixture",
            )
            for _ in range(2)
        ]
        at_once, tiled = (
            Run(problem, positives, keeps_accidental_hits=hits, batch=batch, sum_over=2.0)
            for problem in problems
        )
        orders = [np.random.default_rng(epoch).permutation(30) for epoch in range(3)]
        steps = [order[begin : begin + batch] for order in orders for begin in range(0, 30, batch)]
        expected = sum(at_once.train(chosen, 0.05)[0] for chosen in steps)
        at_once.apply_decay()
        loss = by_tiles(tiled, orders, 0.05, threads=threads)  # applies all decay that is due
        assert loss == pytest.approx(expected, rel=1e-4)
        close(tiled.outputs.rows, at_once.outputs.rows)
        assert tiled.clock == pytest.approx(at_once.clock, rel=1e-6)
        assert not tiled.outputs.rows[:, 70:].any()


def test_all_objectives_share_one_compiled_signature():
    for positives in ("joint", "summed"):
        by_tiles(
            Run(Problem("sparse"), positives, keeps_accidental_hits=True), [np.arange(12)], 0.1
        )
    if hasattr(dense_tiles.train_columns, "overloads"):
        assert len(dense_tiles.train_columns.overloads) == 1
