"""Word vectors trained pair by pair: each pair of an input and a target has draws of its own, which
may depend on the input. Blocks of text, by which embedx trains, share their draws.

Loss, draws and steps are embedx's: the `coefficients` of an objective on a batch of one example,
`sample` and `log_expected_count` of a sampler, whose `input_row` is the input word, and a step of
an optimizer for each row. Objectives that need random numbers or the gains of scores are not
trained.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray, uint64

from embedx.engine.loading import compiled_functions
from embedx.engine.select import set_negative, set_positive
from embedx.kernels import (
    ONE,
    ZERO,
    Batch,
    add_to_row,
    by_address,
    clear,
    dot,
    kernel,
    kernel_part,
    new_batch,
)
from embedx.kernels.random import stream_key
from embedx.objectives.contract import Objective, log_softmax
from embedx.optimizers import update_rule
from embedx.optimizers.contract import Table, UpdateRule, new_table
from embedx.optimizers.descend import descend_row
from embedx.samplers.contract import (
    Pairs,
    Sampler,
    SamplerData,
    SampleWorkspace,
    new_sample_workspace,
    pairs_of,
)

OPTIMIZER = "rowwise-adagrad"
# Pairs that are trained at one learning rate.
CHUNK = 10_000
# Words whose probabilities are computed at a time.
WORDS_AT_A_TIME = 256


@by_address
class Shared(NamedTuple):
    """The parameters, and what the training of all pairs needs."""

    inputs: Table  # a row for each word; with biases 1 behind its vector
    outputs: Table  # a row for each word; with biases these behind its vector
    state: ndarray  # float32 (n_words, state_width): the objective's
    n_updates: ndarray  # int64 (n_words,)
    sampler_data: SamplerData
    constants: ndarray  # float32: the objective's
    optimizer: UpdateRule
    dim: int
    has_bias: bool
    n_draws: int
    keeps_accidental_hits: bool
    uses_log_expected_count: bool


@by_address
class Workspace(NamedTuple):
    """Buffers for one pair."""

    sampling: SampleWorkspace
    batch: Batch  # one example: the target, then the other rows drawn
    rows: ndarray  # int32 (1 + n_draws,): those of the candidates
    log_expected: ndarray  # float32 (1 + n_draws,)
    h_gradient: ndarray  # float32 (1, stride)
    w_gradient: ndarray  # float32 (1, stride)


@kernel
def train_pairs(
    coefficients,
    sample,
    log_expected_count,
    shared,
    workspace,
    inputs,
    targets,
    first,
    stream,
    rate,
):
    """Train on some pairs, one after another; return their summed loss.

    first  the number of the first of these pairs in the epoch, by which draws are random
    """
    loss = 0.0
    for p in range(inputs.size):
        x = int64(inputs[p])
        n = _select(sample, shared, workspace, x, targets[p], stream, first + p)
        if shared.uses_log_expected_count:
            log_expected = workspace.log_expected
            log_expected_count(
                shared.sampler_data, x, shared.n_draws, 0, workspace.rows, n, log_expected
            )
            for k in range(n):
                workspace.batch.log_expected_count[0, k] = log_expected[k]
        for k in range(n):
            row = int64(workspace.rows[k])
            workspace.batch.z[0, k] = dot(shared.inputs.rows, x, shared.outputs.rows, row)
        state_rate = rate * shared.optimizer.state_rate
        loss += coefficients(workspace.batch, shared.state, shared.constants, 1, n, state_rate)
        shared.n_updates[x] += 1
        _apply(shared, workspace, x, n, rate)
    return loss


@kernel_part
def _select(sample, shared, workspace, x, target, stream, pair):
    """Write the candidates of a pair, each row once, the target first; return their number."""
    batch = workspace.batch
    rows = workspace.rows
    batch.state_row[0] = x
    batch.n_updates[0] = shared.n_updates[x]
    first_draw = uint64(pair * shared.n_draws)
    n_drawn = sample(
        shared.sampler_data, x, stream, first_draw, shared.n_draws, 0, workspace.sampling
    )
    n_hits = ZERO
    n = 1
    for d in range(n_drawn):
        row = workspace.sampling.rows[d]
        if row == target:
            n_hits += ONE
            continue
        k = 1
        while k < n and rows[k] != row:
            k += 1
        if k < n:
            batch.sample_count[0, k] += ONE
        else:
            rows[n] = row
            set_negative(batch, 0, n, ONE)
            n += 1
    rows[0] = target
    set_positive(batch, 0, 0, ONE, n_hits, shared.keeps_accidental_hits)
    return n


@kernel_part
def _apply(shared, workspace, x, n, rate):
    """A step of each candidate's row and of the input's, by gradients at the values before."""
    inputs = shared.inputs
    outputs = shared.outputs
    h_gradient = workspace.h_gradient
    w_gradient = workspace.w_gradient
    stride = inputs.rows.shape[1]
    clear(h_gradient, 0, stride)
    for k in range(n):
        add_to_row(h_gradient, 0, workspace.batch.z[0, k], outputs.rows, int64(workspace.rows[k]))
    for k in range(n):
        clear(w_gradient, 0, stride)
        add_to_row(w_gradient, 0, workspace.batch.z[0, k], inputs.rows, x)
        row = int64(workspace.rows[k])
        descend_row(outputs, row, w_gradient, 0, stride, shared.optimizer, rate)
    if shared.has_bias:
        h_gradient[0, shared.dim] = 0
    descend_row(inputs, x, h_gradient, 0, stride, shared.optimizer, rate)


class PairTrainer:
    """Word vectors in training, by one objective; `draw_by` says by which noise.

    kept     how often each word is expected in training, int64 (n_words,)
    seconds  processor time of training and of fitting noise, so far
    """

    def __init__(
        self, objective: Objective, kept: ndarray, dim: int, has_bias: bool, seed: int
    ) -> None:
        self.objective = objective
        self.kept = kept
        self.dim = dim
        self.has_bias = has_bias
        self.seed = seed
        self.rule = update_rule(OPTIMIZER, row_length=dim)
        self.seconds = 0.0
        self.fit_seconds = 0.0
        n_words = len(kept)
        n_columns = dim + has_bias
        self.inputs = new_table(n_words, n_columns, self.rule)
        self.outputs = new_table(n_words, n_columns, self.rule)
        rng = np.random.default_rng(seed)
        self.inputs.rows[:, :dim] = rng.uniform(-0.5 / dim, 0.5 / dim, (n_words, dim))
        self.state = np.zeros((n_words, objective.state_width), float32)
        self.n_updates = np.zeros(n_words, int64)

    @property
    def vectors(self) -> ndarray:
        """The word vectors, float32 (n_words, dim), a copy."""
        return self.inputs.rows[:, : self.dim].copy()

    def begin(self, sampler: Sampler) -> None:
        """Start from biases by frequency, and draw by a sampler."""
        if self.has_bias:
            self.inputs.rows[:, self.dim] = 1
            frequency = self.kept / self.kept.sum()
            biases = self.objective.initial_bias(frequency, sampler.noise)
            self.outputs.rows[:, self.dim] = biases
        self.draw_by(sampler)

    def forget_outputs(self) -> None:
        """Set the output rows, and what the optimizer knows of them, to zero."""
        self.outputs.rows[:] = 0
        self.outputs.state[:] = 0

    # ---- noise

    def draw_by(self, sampler: Sampler) -> None:
        """Draw by a sampler from now on, by what it was fitted to, if to anything."""
        self.sampler = sampler
        self.features = self.vectors
        n_draws = self.objective.negatives
        traits = self.objective.traits
        self.shared = Shared(
            inputs=self.inputs,
            outputs=self.outputs,
            state=self.state,
            n_updates=self.n_updates,
            sampler_data=sampler.data(n_draws),
            constants=self.objective.constants(n_draws, len(self.kept)),
            optimizer=self.rule,
            dim=self.dim,
            has_bias=self.has_bias,
            n_draws=n_draws,
            keeps_accidental_hits=traits.keeps_accidental_hits,
            uses_log_expected_count=traits.uses_log_expected_count,
        )
        stride = self.inputs.rows.shape[1]
        self.workspace = Workspace(
            sampling=new_sample_workspace(n_draws, 0),
            batch=new_batch(1, 1 + n_draws),
            rows=np.zeros(1 + n_draws, int32),
            log_expected=np.zeros(1 + n_draws, float32),
            h_gradient=np.zeros((1, stride), float32),
            w_gradient=np.zeros((1, stride), float32),
        )
        like = (*self._arguments(np.zeros(0, int32), np.zeros(0, int32), 0, 0), float32(0))
        self.functions = compiled_functions(train_pairs, self.objective.coefficients, sampler, like)

    def fit(self, sampler: Sampler, inputs: ndarray, targets: ndarray) -> None:
        """Fit a sampler to the vectors of now and to some pairs, then draw by it."""
        start = time.process_time()
        pairs = counted_pairs(inputs, targets, len(self.kept))
        sampler.prepare(self.kept)
        sampler.fit(self.vectors, pairs, seed=self.seed)
        self.draw_by(sampler)
        passed = time.process_time() - start
        self.fit_seconds += passed
        self.seconds += passed

    # ---- training

    def train(
        self, inputs: ndarray, targets: ndarray, epoch: int, first_rate: float, last_rate: float
    ) -> float:
        """Train on the pairs of an epoch, int32 (n,) each, by a rate that falls linearly; the mean
        loss.
        """
        start = time.process_time()
        n_pairs = len(inputs)
        loss = 0.0
        for first in range(0, n_pairs, CHUNK):
            rate = first_rate + (last_rate - first_rate) * first / n_pairs
            chunk = slice(first, first + CHUNK)
            arguments = self._arguments(inputs[chunk], targets[chunk], epoch, first)
            loss += train_pairs(*self.functions, *arguments, float32(rate))
        self.seconds += time.process_time() - start
        return loss / max(n_pairs, 1)

    def _arguments(
        self, inputs: ndarray, targets: ndarray, epoch: int, first: int
    ) -> tuple[Any, ...]:
        """The arguments of `train_pairs` behind the functions, without the rate."""
        return (self.shared, self.workspace, inputs, targets, first, stream_key(self.seed, epoch))

    # ---- probabilities

    def log_probabilities(self, words: ndarray) -> Iterator[tuple[slice, ndarray]]:
        """log p(. | word) of some input words, float32 (n, n_words), some at a time."""
        for rows in some_at_a_time(len(words)):
            z = self.inputs.rows[words[rows]] @ self.outputs.rows.T
            log_noise = np.zeros(len(self.kept), float32)
            if self.objective.traits.adds_log_noise:
                log_noise = self.log_expected_counts(words[rows])
            yield rows, self.objective.log_probability(z, log_noise)

    def log_noise_probabilities(self, words: ndarray) -> Iterator[tuple[slice, ndarray]]:
        """`log_probabilities` by the noise alone."""
        for rows in some_at_a_time(len(words)):
            log_counts = np.atleast_2d(self.log_expected_counts(words[rows]))
            log_p = log_softmax(log_counts)
            yield rows, np.broadcast_to(log_p, (rows.stop - rows.start, len(self.kept)))

    def log_expected_counts(self, words: ndarray) -> ndarray:
        """The log of how often each word is expected among the draws for an input, (n, n_words), or
        (n_words,) if it does not depend on the input.
        """
        return self.sampler.log_noise_of(self.features[words], self.objective.negatives)


def some_at_a_time(n: int) -> Iterator[slice]:
    for start in range(0, n, WORDS_AT_A_TIME):
        yield slice(start, min(start + WORDS_AT_A_TIME, n))


def counted_pairs(inputs: ndarray, targets: ndarray, n_words: int) -> Pairs:
    """`Pairs` in which each pair is once, with the number of times that it occurs as weight."""
    codes, counts = np.unique(targets.astype(int64) * n_words + inputs, return_counts=True)
    return pairs_of(codes % n_words, codes // n_words, n_words, counts)
