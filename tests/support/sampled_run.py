"""A small problem of classification, trained with sampled candidates."""

import itertools

import numpy as np
import pytest
from reference_classify import HIDDEN, Line, Probe, close

from embedx.engine import sampled
from embedx.engine.loading import load_kernel
from embedx.engine.shared import Chunk
from embedx.kernels.random import stream_key
from embedx.optimizers.contract import new_table
from embedx.optimizers.decay import decay_all
from embedx.runtime.progress import Silent
from embedx.samplers.path import Path
from embedx.samplers.uniform import Uniform
from embedx.settings import Settings
from tests.support.noise_sampler import GivenNoise

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
        workspace = self.workspace
        batch = workspace.batch
        columns = (workspace.rows, batch.label, batch.sample_count, batch.log_expected_count)
        terms = []
        for p in range(n_terms):
            n = workspace.n_candidates[p]
            candidates = zip(*(column[p, :n].tolist() for column in columns), strict=True)
            terms.append(Line(int(workspace.example[p]), list(candidates)))
        return terms

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
