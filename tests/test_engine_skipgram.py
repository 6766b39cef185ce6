"""The skip-gram kernel against the naive reference, and what a user relies on: every word once, nothing twice."""

import numpy as np
import pytest
import reference

from embedx.engine import skipgram as engine
from embedx.engine.random import stream_key
from embedx.objectives.contract import SampledSettings
from embedx.objectives.ns import NegativeSampling
from embedx.progress import Silent
from embedx.samplers.alias import alias_table, draw
from embedx.skipgram import load_kernels

K, DIM, WINDOW = 12, 10, 3
OBJECTIVE = NegativeSampling(SampledSettings(negatives=4))


class Setup:
    """A corpus of 3 sentences over 12 words (and 2 left out), random tables, and one way of forming blocks."""

    def __init__(self, share=1, draws=4, additive=True, seed=0, n_tokens=120, keep_all=False):
        rng = np.random.default_rng(seed)
        tokens = rng.integers(0, K + 2, n_tokens).astype(np.int32)
        tokens[[n_tokens // 3, n_tokens // 2]] = engine.END_OF_SENTENCE
        tokens.setflags(write=False)
        word = np.full(K + 2, engine.LEFT_OUT, dtype=np.int32)
        word[2:] = rng.permutation(K)
        keep = np.full(K + 2, 2**32 - 1, dtype=np.uint32)
        if not keep_all:
            keep[2:7] = rng.integers(2**30, 2**32, 5)
        self.stream = engine.Stream(tokens, word, keep)
        self.tables = engine.Tables(
            engine.aligned_zeros(K, DIM), engine.aligned_zeros(K, DIM), np.zeros((K, 0), np.float32), np.zeros(1, np.int64)
        )
        self.tables.inputs[:, :DIM] = rng.normal(0, 0.5, (K, DIM))
        self.tables.outputs[:, :DIM] = rng.normal(0, 0.5, (K, DIM))
        noise = rng.uniform(0.5, 1.5, K)
        self.sampler = alias_table(noise)
        self.log_expected = np.log(draws * noise / noise.sum()).astype(np.float32)
        self.plan = engine.Plan(WINDOW, share, draws, additive, True, False, False)
        self.key, self.noise_key = stream_key(1, 0), stream_key(1, 0, 7)
        self.numbers = OBJECTIVE.numbers(draws, 10)
        self.scratch = engine.new_scratch(self.plan, n_tokens, DIM, 0)

    def exact_tables(self):
        return self.tables.inputs[:, :DIM].astype(np.float64), self.tables.outputs[:, :DIM].astype(np.float64)

    def train(self, start, stop, lr=0.1):
        arguments = (
            self.tables, self.stream, self.sampler, self.log_expected, self.numbers, self.plan, self.scratch,
            start, stop, np.float32(lr), self.key, self.noise_key,
        )  # fmt: skip
        load_kernels(OBJECTIVE, arguments, Silent())
        return engine.train_stretch(OBJECTIVE.coefficients, *arguments)

    def kept(self):
        stream = self.stream
        return reference.kept_words(stream.tokens, stream.word, stream.keep, WINDOW, self.key)

    def noise(self, n, first=0):
        return [int(draw(self.sampler, self.noise_key, np.uint64(first + i))) for i in range(n)]


def assert_trains_as_the_reference(setup, start, stop, lr=0.1):
    """Train on tokens[start:stop] by the kernel and by the naive reference; the tables must agree."""
    share, draws = setup.plan.share, setup.plan.n_draws
    inputs, outputs = setup.exact_tables()
    pairs = reference.pairs_of(setup.kept(), start, stop)
    centres = [i for i, (position, *_) in enumerate(setup.kept()) if start <= position < stop]
    if share == 0:
        blocks = [[pair] for pair in pairs]
    else:
        groups = [centres[g : g + share] for g in range(0, len(centres), share)]
        blocks = [[pair for pair in pairs if pair[2] in group] for group in groups]
    expected = 0.0
    for number, block in enumerate(blocks):
        noise = setup.noise(draws, first=draws * number)
        expected += reference.ns_update(inputs, outputs, [pair[:2] for pair in block], noise, 4, lr)
    loss, n_pairs, n_words = setup.train(start, stop, lr)
    assert n_pairs == len(pairs)
    assert n_words == sum(setup.stream.word[t] >= 0 for t in setup.stream.tokens[start:stop] if t >= 0)
    assert loss == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(setup.tables.inputs[:, :DIM], inputs, atol=1e-5)
    np.testing.assert_allclose(setup.tables.outputs[:, :DIM], outputs, atol=1e-5)


@pytest.mark.parametrize(("share", "draws"), [(0, 4), (1, 4), (1, 9), (4, 6), (5, 20), (64, 3)])
@pytest.mark.parametrize("additive", [True, False])
def test_the_kernel_does_what_the_formula_says(share, draws, additive):
    assert_trains_as_the_reference(Setup(share, draws, additive), 10, 100)


@pytest.mark.parametrize("share", [17, 20, 40])
def test_a_short_block_after_longer_ones_remembers_nothing_of_them(share):
    """A worker's memory is used again and again; where a longer block had centres, a shorter one has noise."""
    setup = Setup(share, draws=20)
    for stop in range(120, 60, -5):
        assert_trains_as_the_reference(setup, 0, stop, lr=0.001)


@pytest.mark.parametrize("stretch", [1, 7, 50, 120])
def test_every_pair_is_seen_once_wherever_the_stretches_are_cut(stretch):
    setup = Setup(share=3)
    seen = [setup.train(start, min(start + stretch, 120), lr=0.0)[1:] for start in range(0, 120, stretch)]
    assert sum(pairs for pairs, _ in seen) == len(reference.pairs_of(setup.kept(), 0, 120))
    assert sum(words for _, words in seen) == sum(setup.stream.word[t] >= 0 for t in setup.stream.tokens if t >= 0)


def test_windows_end_at_sentences():
    setup = Setup(keep_all=True)
    setup.stream.word[:] = np.arange(K + 2) % K
    position = 40  # the first mark
    before, after = setup.train(position - 1, position, 0.0)[1], setup.train(position + 1, position + 2, 0.0)[1]
    assert 1 <= before <= WINDOW
    assert 1 <= after <= WINDOW


def test_padding_stays_zero():
    setup = Setup(share=4, draws=7)
    setup.train(0, 120)
    assert not setup.tables.inputs[:, DIM:].any()
    assert not setup.tables.outputs[:, DIM:].any()


def test_a_word_that_is_neither_seen_nor_drawn_keeps_its_vectors():
    setup = Setup(share=4)
    setup.stream.word[5] = engine.LEFT_OUT
    rare = (set(range(K)) - set(setup.stream.word.tolist())).pop()
    weights = np.ones(K)
    weights[rare] = 0
    setup.sampler = alias_table(weights)
    before = setup.tables.inputs[rare].copy(), setup.tables.outputs[rare].copy()
    setup.train(0, 120)
    assert (setup.tables.inputs[rare] == before[0]).all()
    assert (setup.tables.outputs[rare] == before[1]).all()


def test_same_seed_same_bytes():
    first, second = Setup(share=5), Setup(share=5)
    assert first.train(0, 120) == second.train(0, 120)
    assert first.tables.inputs.tobytes() == second.tables.inputs.tobytes()
    assert first.tables.outputs.tobytes() == second.tables.outputs.tobytes()


def test_subsampling_keeps_the_share_that_it_says():
    setup = Setup(n_tokens=60_000)
    setup.stream.keep[:] = np.uint32(0.3 * 2**32)
    kept = len(setup.kept())
    eligible = sum(setup.stream.word[t] >= 0 for t in setup.stream.tokens if t >= 0)
    assert kept / eligible == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("additive", [True, False])
def test_random_numbers_for_the_objective_are_fresh_for_every_example(additive):
    setup = Setup(share=4, additive=additive)
    setup.scratch = engine.new_scratch(setup.plan, 120, DIM, uniforms_width=2)
    setup.train(0, 60)
    first = setup.scratch.uniforms.copy()
    used = first[first[:, 0] > 0]
    assert len(used) >= 3
    assert (used < 1).all()
    assert len(np.unique(used)) == used.size
    setup.noise_key = stream_key(1, 0, 8)
    setup.train(0, 60)
    assert not np.isin(setup.scratch.uniforms, used).any()


def test_one_engine_serves_every_objective_with_one_signature():
    Setup(share=2).train(0, 50)
    Setup(share=9, draws=5, additive=False).train(0, 50)
    if hasattr(engine.train_stretch, "overloads"):
        assert len(engine.train_stretch.overloads) == 1


def test_a_long_run_of_words_left_out_is_walked_through_once():
    """Stretches without a centre return at once, however far the next kept word is."""
    setup = Setup(n_tokens=2000)
    setup.stream.word[:] = engine.LEFT_OUT
    assert [setup.train(start, start + 100)[:3] for start in range(0, 2000, 100)] == [(0.0, 0, 0)] * 20
