"""The kernel of drawn rows against the naive reference; and which rows are drawn: the right ones,
as often as they should.
"""

import itertools

import numpy as np
import pytest
from reference import NAIVE_OPTIMIZERS
from reference_classify import HIDDEN, Line, Probe, Problem, close
from scipy import stats

from embedx.engine import sampled
from embedx.engine.loading import load_kernel
from embedx.engine.shared import Chunk
from embedx.kernels.random import stream_key
from embedx.optimizers.contract import new_table
from embedx.optimizers.decay import decay_all
from embedx.runtime.progress import Silent
from embedx.samplers.contract import FILTER_SIZE, Paths
from embedx.samplers.path import Path
from embedx.samplers.uniform import Uniform
from embedx.settings import Settings
from tests.support.noise_sampler import GivenNoise

KINDS = ("dense", "sparse", "hidden")
OPTIMIZERS = list(NAIVE_OPTIMIZERS)
REPLACED = "replaced"
COLLAPSED = "collapsed"
DISTINCT = "distinct"
PATH = "path"


def sampler_of(sampling, noise, paths):
    """A sampler that draws in this way, prepared for a class for each value of `noise`."""
    if sampling == PATH:
        sampler = Path(Settings())
    elif sampling == DISTINCT:
        sampler = Uniform(Settings(), replacement=False)
    else:
        sampler = GivenNoise(noise, replacement=sampling == REPLACED)
    sampler.prepare(np.ones(len(noise), dtype=np.int64), paths=paths)
    return sampler


class Run:
    """A problem, and a worker that trains it with sampled candidates."""

    def __init__(
        self,
        problem,
        *,
        sampling=REPLACED,
        n_draws=4,
        noise=None,
        paths=None,
        draws=0.2,
        seed=1,
        **options,
    ):
        self.problem = problem
        self.objective = Probe(draws)
        if noise is None:
            noise = np.linspace(1, 2, problem.n_outputs)
        else:
            noise = np.asarray(noise, dtype=np.float64)
        self.noise = noise / noise.sum()
        self.expected = (
            1 - (1 - self.noise) ** n_draws if sampling == COLLAPSED else n_draws * self.noise
        )
        self.sampler = sampler_of(sampling, noise, paths)
        self.sampler_data = self.sampler.data(n_draws)
        self.tables = problem.shared(
            rows_table(problem),
            objective=self.objective,
            sampler_data=self.sampler_data,
            on_path=sampling == PATH,
            n_draws=n_draws,
            counts_repeats=self.sampler.replacement,
            **options,
        )
        self.plan = self.tables.plan
        longest = int(np.diff(self.sampler_data.offsets).max(initial=1))
        self.workspace = sampled.new_workspace(self.plan, problem.examples, longest)
        order = np.random.default_rng(seed).permutation(problem.n)
        self.key = stream_key(seed, 0)
        self.order = order
        self.clock = 0.0

    def train(self, start, stop, lr=0.1):
        """Trains on examples start to stop of the order; the loss and the number of terms."""
        chunk = Chunk(self.order, 0, start, stop, np.float32(lr), self.clock, self.key)
        functions = load_kernel(
            sampled.train_chunk,
            self.objective.coefficients,
            self.sampler,
            (self.tables, self.workspace, chunk),
            Silent(),
        )
        loss, n_terms, self.clock = sampled.train_chunk(
            *functions, self.tables, self.workspace, chunk
        )
        return loss, n_terms

    def terms(self, n_terms):
        """The examples of the last minibatch with their candidates, from the worker's workspace."""
        s = self.workspace
        batch = self.workspace.batch
        columns = (s.rows, batch.label, batch.sample_count, batch.log_expected_count)
        return [
            Line(
                int(s.example[p]),
                list(
                    zip(
                        *(column[p, : s.n_candidates[p]].tolist() for column in columns),
                        strict=True,
                    )
                ),
            )
            for p in range(n_terms)
        ]

    def chosen(self):
        """The candidates of all examples, in one minibatch that changes nothing."""
        return self.terms(self.train(0, self.problem.n, lr=0.0)[1])

    def apply_decay(self):
        problem = self.problem
        if problem.optimizer.l2:
            decay_all(problem.hidden, HIDDEN, problem.optimizer, self.clock)
            decay_all(self.tables.outputs, problem.n_inputs, problem.optimizer, self.clock)

    def assert_steps_as_the_reference(self, epochs=2, lr=0.1, tolerance=2e-5):
        problem = self.problem
        batch = self.plan.batch_size
        for _, begin in itertools.product(range(epochs), range(0, problem.n, batch)):
            chosen = self.order[begin : min(begin + batch, problem.n)]
            loss, n_terms = self.train(begin, begin + len(chosen), lr)
            scale = self.plan.sum_over / len(chosen)
            settings = {
                "uses_score_gain": self.plan.uses_score_gain,
                "is_proximal": self.plan.is_proximal,
            }
            truth = problem.true_step(
                chosen, self.terms(n_terms), self.objective, lr, scale, **settings
            )
            assert loss == pytest.approx(truth, rel=1e-4, abs=1e-4)
        self.apply_decay()
        close(self.tables.outputs.rows[:, problem.columns], problem.true_outputs.w, tolerance)
        if problem.has_hidden:
            close(problem.hidden.rows[:, :HIDDEN], problem.true_hidden.w, tolerance)


def rows_table(problem):
    table = new_table(problem.n_outputs, problem.dim, problem.optimizer)
    problem.write_outputs(table)
    return table


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


WAYS = itertools.product(
    (REPLACED, COLLAPSED, DISTINCT),
    (("single", True), ("joint", False), ("joint", True), ("summed", True)),
)


@pytest.mark.parametrize(
    ("sampling", "positives", "hits", "kind"),
    [(s, *p, KINDS[i % 3]) for i, (s, p) in enumerate(WAYS)],
)
def test_steps_for_every_form_of_examples_and_draws(sampling, positives, hits, kind):
    settings = {
        "positives": positives,
        "sampling": sampling,
        "keeps_accidental_hits": hits,
        "sum_over": 3.0,
    }
    Run(Problem(kind, "adagrad"), **settings, batch=5).assert_steps_as_the_reference(epochs=1)


TREE = Paths(  # nine ways through eight nodes
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
        way = slice(TREE.offsets[label], TREE.offsets[label + 1])
        assert term.candidates == [
            (n, b, 1 - b, 0) for n, b in zip(TREE.nodes[way], TREE.bits[way], strict=True)
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


# ---- which rows are drawn

MANY = 6000


def draws(labels, n_classes, n_draws, sampling, **settings):
    """The run of many examples that all have the same labels, and how often each class was drawn,
    (n_terms, n_classes).
    """
    problem = Problem("dense", n=MANY, n_classes=n_classes, labels=[labels] * MANY)
    run = Run(problem, sampling=sampling, n_draws=n_draws, batch=MANY, **settings)
    n_terms = run.train(0, MANY, 0.0)[1]
    s = run.workspace
    within = np.arange(s.rows.shape[1]) < s.n_candidates[:n_terms, None]
    sample_count = np.zeros((n_terms, n_classes))
    term, place = np.nonzero(within)
    assert len(set(zip(term, s.rows[term, place], strict=True))) == len(term), (
        "a row stands twice in a term"
    )
    sample_count[term, s.rows[term, place]] = s.batch.sample_count[term, place]
    return run, sample_count


@pytest.mark.parametrize("n_draws", [1, 3, 6, 8])
@pytest.mark.parametrize("positives", ["single", "joint"])
def test_distinct_draws_avoid_the_positives_and_are_uniform(n_draws, positives):
    labels = [7, 2, 4]
    run, sample_count = draws(labels, 9, n_draws, DISTINCT, positives=positives)
    avoided = [labels] if positives == "joint" else [[label] for label in labels]
    for i, labels in enumerate(avoided):
        mine = sample_count[i :: len(avoided)]
        others = np.setdiff1d(np.arange(9), labels)
        expected = min(n_draws, len(others))
        assert not mine[:, labels].any()
        assert (mine.sum(axis=1) == expected).all()
        counts = mine[:, others].sum(axis=0)
        # sampling without replacement varies less than the multinomial of the test
        if expected < len(others):
            assert stats.chisquare(counts).pvalue > 1e-3
            patterns = np.unique(mine[:, others], axis=0, return_counts=True)[1]
            assert stats.chisquare(patterns).pvalue > 1e-3
        log_expected_count = run.workspace.batch.log_expected_count[
            i, : run.workspace.n_candidates[i]
        ]
        np.testing.assert_allclose(
            log_expected_count, np.log(expected / len(others)), rtol=1e-6, atol=1e-7
        )


@pytest.mark.parametrize(("positives", "labels"), [("single", [3]), ("summed", [3, 0])])
def test_distinct_draws_that_keep_accidental_hits_are_uniform_over_all_rows(positives, labels):
    _, sample_count = draws(labels, 7, 3, DISTINCT, positives=positives, keeps_accidental_hits=True)
    assert (sample_count.sum(axis=1) == 3 * len(labels)).all()
    assert set(np.unique(sample_count)) == {0, len(labels)}
    assert stats.chisquare(sample_count.sum(axis=0)).pvalue > 1e-3


NOISE = np.array([10, 1, 4, 0.5, 2, 2, 0.1])


@pytest.mark.parametrize("keeps_accidental_hits", [True, False], ids=["hits", "no hits"])
@pytest.mark.parametrize("n_draws", [1, 5, 20])
def test_draws_with_replacement_add_up_and_follow_the_noise(n_draws, keeps_accidental_hits):
    run, sample_count = draws(
        [2], 7, n_draws, REPLACED, keeps_accidental_hits=keeps_accidental_hits, noise=NOISE
    )
    if keeps_accidental_hits:
        assert (sample_count.sum(axis=1) == n_draws).all()
    else:
        assert not sample_count[:, 2].any()
    others = np.arange(7) if keeps_accidental_hits else np.delete(np.arange(7), 2)
    expected = run.noise[others] / run.noise[others].sum() * sample_count.sum()
    assert stats.chisquare(sample_count[:, others].sum(axis=0), expected).pvalue > 1e-3
    total = sample_count.sum() / MANY
    assert total == pytest.approx(
        n_draws * run.noise[others].sum(), abs=5 * np.sqrt(n_draws / MANY)
    )


@pytest.mark.parametrize("n_draws", [1, 5, 20])
def test_collapsed_draws_appear_as_often_as_the_log_expected_count_says(n_draws):
    """With probability 1 - (1 - q)^m, so that sample_count / e^log_expected_count is 1
    on average.
    """
    run, sample_count = draws([2], 7, n_draws, COLLAPSED, keeps_accidental_hits=True, noise=NOISE)
    assert set(np.unique(sample_count)) <= {0, 1}
    for k, expected in enumerate(1 - (1 - run.noise) ** n_draws):
        assert stats.binomtest(int(sample_count[:, k].sum()), MANY, expected).pvalue > 1e-4
    s = run.workspace
    for term in range(50):
        places = s.rows[term, : s.n_candidates[term]]
        log_expected = s.batch.log_expected_count[term, : len(places)]
        np.testing.assert_allclose(log_expected, np.log(run.expected[places]), rtol=1e-5, atol=1e-6)


def test_rows_that_share_a_slot_of_the_memory_of_draws_are_distinguished():
    n_classes = 4 * FILTER_SIZE
    noise = np.zeros(n_classes)
    noise[[3, 3 + FILTER_SIZE, 3 + 2 * FILTER_SIZE, 9]] = 1
    settings = {"positives": "summed", "keeps_accidental_hits": True, "noise": noise + 1e-12}
    run, sample_count = draws([3, 3 + FILTER_SIZE], n_classes, 6, REPLACED, **settings)
    assert (sample_count.sum(axis=1) == 12).all()
    assert stats.chisquare(sample_count[:, noise > 0].sum(axis=0) / 2).pvalue > 1e-3
    assert (run.workspace.n_candidates <= 5).all()


def test_one_label_of_an_example_is_drawn_uniformly():
    for positives in ("single", "joint"):
        run, _ = draws([5, 0, 3], 6, 2, DISTINCT, positives=positives, one_label=True)
        assert (run.workspace.batch.label.sum(axis=1) == 1).all()
        chosen = run.workspace.rows[:, 0]
        counts = [int((chosen == label).sum()) for label in (5, 0, 3)]
        assert sum(counts) == MANY
        assert stats.chisquare(counts).pvalue > 1e-3


def test_all_objectives_share_one_compiled_signature():
    for kind in KINDS:
        Run(Problem(kind)).train(0, 4)
    if hasattr(sampled.train_chunk, "overloads"):
        assert len(sampled.train_chunk.overloads) == 1
