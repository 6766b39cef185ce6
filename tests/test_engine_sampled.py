"""The kernel of drawn rows against the naive reference, and its random choices."""

import itertools

import numpy as np
import pytest
from reference import NAIVE_OPTIMIZERS
from reference_classify import Problem

from embedx.engine import sampled
from embedx.kernels.random import stream_key
from embedx.samplers.contract import Paths
from tests.support.sampled_run import (
    COLLAPSED,
    DISTINCT,
    PATH,
    REPLACED,
    Run,
)

KINDS = ("dense", "sparse", "hidden")
OPTIMIZERS = list(NAIVE_OPTIMIZERS)


# ---- a step


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_minibatch_takes_the_step_of_the_formula(kind, optimizer):
    for batch, bias in ((1, False), (7, True), (100, False)):
        Run(Problem(kind, optimizer, bias=bias), batch=batch).assert_steps_as_the_reference()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", ["dense", "hidden"])
def test_distances_take_the_steps_of_their_gradients(kind, optimizer):
    problem = Problem(kind, optimizer, bias=False, by_distance=True)
    Run(problem).assert_steps_as_the_reference(lr=0.01)
    shrinking = Problem(kind, optimizer, l2=0.3, by_distance=True)
    Run(shrinking, batch=5).assert_steps_as_the_reference(lr=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_proximal_terms_are_trained_in_turn_with_their_score_gains(kind):
    """The gain of a score is the squared length of the input."""
    for bias in (True, False):
        Run(
            Problem(kind, bias=bias), is_proximal=True, uses_score_gain=True, batch=1
        ).assert_steps_as_the_reference(epochs=1)


FORMS = itertools.product(
    (REPLACED, COLLAPSED, DISTINCT),
    (("single", True), ("joint", False), ("joint", True), ("summed", True)),
)


@pytest.mark.parametrize(
    ("sampling", "positives", "hits", "kind"),
    [(s, *p, KINDS[i % 3]) for i, (s, p) in enumerate(FORMS)],
)
def test_steps_for_every_form_of_examples_and_draws(sampling, positives, hits, kind):
    settings = {
        "positives": positives,
        "sampling": sampling,
        "keeps_accidental_hits": hits,
        "sum_over": 3.0,
    }
    Run(Problem(kind, "adagrad"), **settings, batch=5).assert_steps_as_the_reference(epochs=1)


TREE = Paths(  # nine paths through eight nodes
    np.array([0, 2, 5, 6, 9, 10, 13, 16, 17, 20]),
    np.array([0, 1, 0, 1, 7, 2, 0, 3, 4, 5, 0, 6, 7, 0, 2, 3, 1, 4, 5, 6], dtype=np.int32),
    np.array([0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 1, 0, 1, 0, 1, 0, 0, 1], dtype=np.float32),
)


@pytest.mark.parametrize("kind", KINDS)
def test_candidates_on_a_path_are_those_of_the_tree(kind):
    run = Run(Problem(kind), sampling=PATH, paths=TREE, batch=4, draws=1.0)
    run.assert_steps_as_the_reference(epochs=1)
    positive = [label for i in run.order for label in run.problem.labels[i]]
    run = Run(Problem(kind), sampling=PATH, paths=TREE, batch=100)
    for term, label in zip(run.chosen(), positive, strict=True):
        path = slice(TREE.offsets[label], TREE.offsets[label + 1])
        assert term.candidates == [
            (n, b, 1 - b, 0) for n, b in zip(TREE.nodes[path], TREE.bits[path], strict=True)
        ]


@pytest.mark.parametrize(
    ("kind", "by_distance"), [*((kind, False) for kind in KINDS), ("dense", True)]
)
def test_no_row_exceeds_max_norm(kind, by_distance):
    run = Run(Problem(kind, max_norm=0.6, by_distance=by_distance), batch=3)
    # short enough to begin with: rows never met are never looked at
    for row in run.problem.true_outputs.w:
        row[: run.problem.n_inputs] *= 0.5 / np.linalg.norm(row[: run.problem.n_inputs])
    run.problem.write_outputs(run.tables.outputs)
    run.assert_steps_as_the_reference()
    lengths = np.linalg.norm(run.tables.outputs.rows[:, : run.problem.n_inputs], axis=1)
    assert lengths.max() == pytest.approx(0.6, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_lazy_weight_decay_equals_weight_decay_at_every_step(kind, optimizer):
    """All rows decay, whether they were drawn or not; biases do not."""
    for batch in (1, 5):
        problem = Problem(kind, optimizer, n_classes=40, l2=0.3)
        Run(problem, batch=batch, n_draws=2).assert_steps_as_the_reference(epochs=3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_without_coefficient_takes_no_step(kind):
    """Its optimiser's state does not change either; draws have weight 0 here."""
    run = Run(Problem(kind, "mixture"), n_draws=3, batch=6, draws=0.0)
    run.tables.outputs.state[:] = 7
    never = np.setdiff1d(np.arange(run.problem.n_outputs), run.problem.labels.ids)
    never = np.append(never, run.problem.labels.ids[0])[:-1]
    run.train(0, run.problem.n)
    assert (run.tables.outputs.state[never] == 7).all()
    assert (run.tables.outputs.state[run.problem.labels.ids] < 7).any()
    assert (
        run.tables.outputs.rows[never, : run.problem.dim]
        == run.problem.true_outputs.w[never].astype(np.float32)
    ).all()


def test_examples_without_labels_are_skipped():
    problem = Problem("dense", labels=[[], [1], [], [2, 3], []], n=5)
    run = Run(problem, batch=5, state_width=1)
    run.order = np.arange(5)
    assert [term.example for term in run.chosen()] == [1, 3, 3]
    assert run.tables.n_updates.tolist() == [0, 1, 0, 2, 0]
    run = Run(Problem("dense", labels=[[], []], n=2))
    before = run.tables.outputs.rows.copy()
    assert run.train(0, 2) == (0.0, 0)
    assert (run.tables.outputs.rows == before).all()


def test_rows_of_the_state_are_example_numbers_and_updates_are_counted_over_epochs():
    """The probe adds 1 + 100 · n_updates to the state at each meeting."""
    problem = Problem("dense", labels=[[1], [2, 4, 6], [3]], n=3)
    for batch in (1, 3):
        run = Run(problem, batch=batch, state_width=1)
        for _ in range(2):
            run.train(0, 3)
        assert run.tables.state[:, 0].tolist() == [102, 6 + 1500, 102]


def test_random_numbers_for_the_objective_are_fresh_for_every_line_and_epoch():
    run = Run(Problem("dense"), uniforms_width=3, batch=100)
    first = run.workspace.batch.uniforms[: run.train(0, 12, 0.0)[1]].copy()
    run.key = stream_key(1, 1)
    second = run.workspace.batch.uniforms[: run.train(0, 12, 0.0)[1]].copy()
    both = np.concatenate([first, second])
    assert len(np.unique(both)) == both.size
    assert both.min() > 0
    assert both.max() < 1


# ---- random choices are a function of seed, epoch and position


@pytest.mark.parametrize("sampling", [REPLACED, COLLAPSED, DISTINCT])
@pytest.mark.parametrize("positives", ["single", "joint"])
def test_candidates_do_not_depend_on_how_examples_are_grouped(sampling, positives):
    def chosen(batch):
        run = Run(
            Problem("sparse"),
            sampling=sampling,
            positives=positives,
            batch=batch,
            one_label=True,
            uniforms_width=2,
        )
        terms = []
        for begin in range(0, 12, batch):
            n_terms = run.train(begin, min(begin + batch, 12), 0.0)[1]
            uniforms = run.workspace.batch.uniforms[:n_terms].tolist()
            terms += [
                (term.candidates, u) for term, u in zip(run.terms(n_terms), uniforms, strict=True)
            ]
        return terms

    assert chosen(1) == chosen(5) == chosen(12)


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_bytes_wherever_chunks_are_cut(kind):
    def tables(cuts, seed=1):
        run = Run(Problem(kind, "adagrad", l2=0.1), batch=4, seed=seed, state_width=1)
        run.order = np.arange(12)
        for start, stop in itertools.pairwise(cuts):
            run.train(start, stop)
        return (
            run.tables.outputs.rows.tobytes()
            + run.problem.hidden.rows.tobytes()
            + run.tables.state.tobytes()
        )

    assert tables([0, 12]) == tables([0, 4, 12]) == tables([0, 4, 8, 12])
    assert tables([0, 12]) != tables([0, 12], seed=2)


def test_all_objectives_share_one_compiled_signature():
    for kind in KINDS:
        Run(Problem(kind)).train(0, 4)
    if hasattr(sampled.train_chunk, "overloads"):
        assert len(sampled.train_chunk.overloads) == 1
