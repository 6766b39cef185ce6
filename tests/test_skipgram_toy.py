"""Proof on a toy that skip-gram training goes where the theory says: to maximum likelihood, or
measurably beside it.

Input vectors stay fixed, of lower rank than there are words, so that not every distribution can be
reached; output vectors and biases are free. The likelihood of the pairs is then concave in them,
and L-BFGS finds its maximum from the counts of the pairs.
"""

import functools
from typing import NamedTuple

import numpy as np
import pytest
import reference_state
from scipy.optimize import minimize

from embedx.engine.blocks import FORM_SUMMED, form_of
from embedx.kernels.random import stream_key
from embedx.testing.objectives import Candidates, Conditions, evaluate
from tests.support.distribution_states import LAWS
from tests.support.objectives import make
from tests.support.skipgram_setup import Setup

CHUNK = 600  # tokens trained at one rate: ten blocks


class Toy(NamedTuple):
    """A text from a random Markov chain, how often its words are neighbours, and input vectors."""

    tokens: np.ndarray  # int32
    counts: np.ndarray  # (n_words, n_words): pairs by input and centre
    inputs: np.ndarray  # (n_words, rank + 1): vectors, and the 1 of the biases

    def mean(self, of_pairs):
        """The mean over all pairs of what is told by input and centre."""
        return float((self.counts * of_pairs).sum() / self.counts.sum())


@functools.cache
def toy(n_words=50, rank=8, n_tokens=12_000):
    rng = np.random.default_rng(0)
    steps = np.cumsum(rng.dirichlet(np.full(n_words, 0.1), n_words), axis=1)
    tokens = np.zeros(n_tokens, dtype=np.int32)
    for i, u in enumerate(rng.random(n_tokens - 1)):
        tokens[i + 1] = min(np.searchsorted(steps[tokens[i]], u), n_words - 1)
    counts = np.zeros((n_words, n_words))
    np.add.at(counts, (tokens[:-1], tokens[1:]), 1)
    counts += counts.T
    smooth = np.log((counts + 0.3) / (counts + 0.3).sum(axis=1, keepdims=True))
    directions = np.linalg.svd(smooth - smooth.mean(axis=0))[0]
    return Toy(
        tokens, counts, np.column_stack([directions[:, :rank] * np.sqrt(n_words), np.ones(n_words)])
    )


def log_likelihood(task, objective, outputs):
    """Mean log-probability of the pairs, drawn noise being uniform."""
    n = len(task.counts)
    return task.mean(objective.log_probability(task.inputs @ outputs.T, np.full(n, -np.log(n))))


def optimum(task, objective):
    """The outputs that minimise the mean loss of all pairs when each meets all rows, with the best
    state for every pair.
    """
    n = len(task.counts)
    x, y = np.nonzero(task.counts)
    label = np.eye(n)[y]
    sample_count = np.ones((len(x), n))
    if form_of(objective) != FORM_SUMMED:
        sample_count -= label
    weight = task.counts[x, y]
    weighted_count = (
        weight[:, None] * sample_count if form_of(objective) == FORM_SUMMED else sample_count
    )

    def mean_loss(w):
        z = task.inputs @ w.reshape(n, -1).T
        state = objective.optimal_state(z, np.eye(n))[x]
        loss, c, _ = evaluate(
            objective,
            Candidates(z[x], weight[:, None] * label, weighted_count, 0 * sample_count),
            state,
            Conditions(n_draws=n, n_classes=n),
        )
        return loss / weight.sum(), (c.T @ task.inputs[x]).ravel() / weight.sum()

    start = np.zeros(task.inputs.shape[1] * n)
    solution = minimize(
        mean_loss,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 500, "ftol": 1e-12, "gtol": 1e-7},
    )
    assert solution.success
    return solution.x.reshape(n, -1)


def trained(task, objective, rate, epochs, settle=300, draws=40):
    """The setup after training at steps that fall as rate / (1 + blocks / settle), its inputs held
    where they were.
    """
    n, columns = task.inputs.shape
    sampler = "uniform" if "uniform" in objective.samplers() else "all"
    setup = Setup(
        objective,
        block_size=64,
        draws=draws,
        sampler=sampler,
        bias=True,
        n_words=n,
        dim=columns - 1,
        window=1,
        n_tokens=len(task.tokens),
        keep_all=True,
    )
    setup.set_tokens(task.tokens)
    setup.stream.word[:n] = np.arange(n)
    setup.tables.outputs.rows[:] = 0
    setup.tables.inputs.rows[:, :columns] = task.inputs
    frozen = setup.tables.inputs._replace(frozen=np.ones(n, np.uint8))
    setup.tables = setup.tables._replace(inputs=frozen)
    blocks = n_pairs = 0
    for epoch in range(epochs):
        for start in range(0, len(task.tokens), CHUNK):
            setup.noise_key = stream_key(1, epoch, start)
            n_pairs += setup.train(
                start, min(start + CHUNK, len(task.tokens)), rate / (1 + blocks / settle)
            )[1]
            blocks += 10
    assert n_pairs == epochs * task.counts.sum()
    np.testing.assert_array_equal(
        setup.tables.inputs.rows[:, :columns], task.inputs.astype(np.float32)
    )
    return setup


def outputs_of(setup):
    return setup.tables.outputs.rows[:, : setup.dim + 1].astype(np.float64)


@functools.cache
def maximum_likelihood():
    """In nats per pair; about 0.7 above the unigram model, 0.5 below what free scores
    would reach.
    """
    softmax = make("softmax")
    return log_likelihood(toy(), softmax, optimum(toy(), softmax))


def test_the_toy_task_is_learnable_but_not_by_memorising():
    counts = toy().counts
    unigram = toy().mean(np.log(counts.sum(axis=0) / counts.sum()))
    free = toy().mean(np.log(np.maximum(counts, 1) / counts.sum(axis=1, keepdims=True)))
    assert unigram + 0.5 < maximum_likelihood() < free - 0.3


@pytest.mark.parametrize(
    ("name", "rate", "settle"),
    [
        ("softmax", 0.02, 300),
        ("ar", 0.02, 300),
        ("umax", 0.02, 300),
        ("implicit", 0.02, 300),
        ("sgd-double-sum", 0.01, 1000),  # which larger steps would make diverge
    ],
)
def test_one_normaliser_for_each_input_reaches_maximum_likelihood(name, rate, settle):
    """From 40 draws for 60 centres, at decaying steps, within 0.001 nats of it."""
    objective = make(name)
    setup = trained(toy(), objective, rate, epochs=60, settle=settle)
    gap = maximum_likelihood() - log_likelihood(toy(), objective, outputs_of(setup))
    print(f"{name}: {gap:.5f} nats per pair below maximum likelihood")
    assert 0 < gap < 0.001


@pytest.mark.parametrize(
    ("name", "rate", "min_gap"),
    [("ove", 0.002, 0.03), ("bouchard", 0.02, 0.003), ("ns", 0.05, 0.01)],
)
def test_other_losses_have_another_optimum(name, rate, min_gap):
    """By `min_gap` nats or more at their own exact optimum, and by as much after training. Negative
    sampling is read without its bias.
    """
    objective = make(name)
    at_best = maximum_likelihood() - log_likelihood(toy(), objective, optimum(toy(), objective))
    gap = maximum_likelihood() - log_likelihood(
        toy(), objective, outputs_of(trained(toy(), objective, rate, epochs=60))
    )
    print(f"{name}: {gap:.5f} nats per pair below maximum likelihood, {at_best:.5f} at its optimum")
    assert at_best > min_gap
    assert gap == pytest.approx(at_best, rel=0.25)


@LAWS
@pytest.mark.slow
def test_one_distribution_per_input_is_a_looser_bound_than_one_per_pair(name, law):
    task = toy(n_words=12, rank=3, n_tokens=6000)
    objective = make(name)
    setup = trained(task, objective, rate=0.005, epochs=20, draws=12)
    z = task.inputs @ outputs_of(setup).T
    exact = objective.log_probability(z, np.zeros(12))
    unigram = task.mean(np.log(task.counts.sum(axis=0) / task.counts.sum()))
    assert task.mean(exact) > unigram + 0.1
    shared = np.zeros_like(z)
    by_input = np.zeros_like(z)
    for x, y in zip(*np.nonzero(task.counts), strict=True):
        best = objective.optimal_state(z[x : x + 1], np.eye(12)[y : y + 1])[0]
        for bound, (location, gamma) in (
            (shared, setup.tables.objective_state[x]),
            (by_input, best),
        ):
            bound[x, y] = reference_state.elbo(law, location, np.log1p(np.exp(gamma)), z[x], y)
    seen = task.counts > 0
    assert (by_input[seen] <= exact[seen] + 1e-6).all()
    assert (shared[seen] <= by_input[seen] + 1e-6).all()
    gap_of_shared = task.mean(exact - shared)
    gap_of_own = task.mean(exact - by_input)
    print(
        f"{name}: {gap_of_shared:.5f} nats per pair for one law per input, {gap_of_own:.5f} for one"
        " per pair"
    )
    assert gap_of_shared > gap_of_own + 0.01
    assert gap_of_own > 0.001
