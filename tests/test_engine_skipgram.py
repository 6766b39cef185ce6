"""The skip-gram kernel against the naive reference, and what a user relies on: every word once,
nothing twice.
"""

import numpy as np
import pytest
import reference

from embedx.engine import skipgram as engine
from embedx.kernels.compiled import kernel
from embedx.kernels.random import stream_key
from embedx.objectives.ar import AugmentReduce
from embedx.objectives.contract import Objective, SampledSettings, Traits
from embedx.objectives.ns import NegativeSampling
from embedx.objectives.ove import OneVsEach
from embedx.text.held_out import PIECE
from embedx.text.subsampling import LEFT_OUT
from embedx.text.tokenizer import END_OF_SENTENCE
from tests.support.skipgram_setup import Setup

K, WINDOW = 12, 3
NS = NegativeSampling(NegativeSampling.Settings(negatives=4))
OVE = OneVsEach(OneVsEach.Settings())
AR = AugmentReduce(AugmentReduce.Settings())
# By the form of the loss: a sum over candidates, one loss for a set of pairs, one for each pair.
FORMS = {"sums": NS, "sets": AR, "pairs": OVE}


@pytest.mark.parametrize("objective", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("chunk", [1, 7, 50, 120])
def test_every_pair_is_seen_once_wherever_the_chunks_are_cut(chunk, objective):
    setup = Setup(objective, block_size=3)
    trained_counts = [
        setup.train(start, min(start + chunk, 120), lr=0.0)[1:] for start in range(0, 120, chunk)
    ]
    assert sum(pairs for pairs, _ in trained_counts) == len(
        reference.pairs_of(setup.kept(), 0, 120)
    )
    assert sum(words for _, words in trained_counts) == setup.n_corpus_words(0, 120)


@pytest.mark.parametrize("objective", FORMS.values(), ids=FORMS)
def test_a_word_that_is_neither_seen_nor_drawn_keeps_its_vectors(objective):
    word = Setup(objective).stream.word.copy()
    word[5] = LEFT_OUT
    rare = (set(range(K)) - set(word.tolist())).pop()
    setup = Setup(objective, block_size=4, noise=np.where(np.arange(K) == rare, 0.0, 1.0))
    setup.stream.word[:] = word
    before = setup.tables.inputs.rows.copy(), setup.tables.outputs.rows.copy()
    setup.train(0, 120)
    for table, old in zip(
        (setup.tables.inputs.rows, setup.tables.outputs.rows), before, strict=True
    ):
        moved = (table != old).any(axis=1)
        assert not moved[rare]
        assert moved.sum() == K - 1


def test_subsampling_keeps_words_at_their_keep_probability():
    setup = Setup(NS, n_tokens=60_000)
    setup.stream.keep[:] = np.uint32(0.3 * 2**32)
    assert len(setup.kept()) / setup.n_corpus_words(0, 60_000) == pytest.approx(0.3, abs=0.01)


def test_one_engine_serves_every_objective_with_one_signature():
    Setup(NS, block_size=2).train(0, 50)
    Setup(OVE, block_size=9, draws=5).train(0, 50)
    Setup(AR, block_size=9, bias=True, sampler="all", optimizer="rowwise-adagrad").train(0, 50)
    if hasattr(engine.train_chunk, "overloads"):
        assert len(engine.train_chunk.overloads) == 1


def test_a_long_run_of_words_left_out_is_walked_through_once():
    """Chunks without a centre return at once, however far the next kept word is."""
    setup = Setup(NS, n_tokens=2000)
    setup.stream.word[:] = LEFT_OUT
    assert [setup.train(start, start + 100)[:3] for start in range(0, 2000, 100)] == [
        (0.0, 0, 0)
    ] * 20


# ---- what is held out


def held_out_setup(objective=NS, block_size=5, **options):
    """Pieces 1, 3 and 4 of a corpus of 6 are held out; they alone hold the words 6 and up, the
    others alone those below.
    """
    setup = Setup(
        objective,
        block_size=block_size,
        n_tokens=5 * PIECE + 300,
        noise=np.where(np.arange(K) < 6, 1.0, 0.0),
        **options,
    )
    setup.stream.held_out[[1, 3, 4]] = 1
    setup.stream.word[2:] = np.arange(K)
    tokens = np.where(np.repeat(setup.stream.held_out, PIECE) > 0, 8, 2)[: setup.n_tokens]
    tokens += np.random.default_rng(3).integers(0, 6, len(tokens))
    tokens[::37] = 0  # left out
    tokens[[500, 2500]] = END_OF_SENTENCE
    setup.set_tokens(tokens.astype(np.int32))
    return setup


@pytest.mark.parametrize("objective", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("chunk", [700, 5300])
def test_words_that_are_held_out_are_neither_centre_nor_context(objective, chunk):
    setup = held_out_setup(objective)
    before = setup.tables.inputs.rows.copy(), setup.tables.outputs.rows.copy()
    for start in range(0, setup.n_tokens, chunk):
        setup.train(start, min(start + chunk, setup.n_tokens), lr=0.01)
    for table, old in zip(
        (setup.tables.inputs.rows, setup.tables.outputs.rows), before, strict=True
    ):
        moved = (table != old).any(axis=1)
        assert moved[:6].all()
        assert not moved[6:].any()


@pytest.mark.parametrize("chunk", [1, 333, 5300])
def test_no_window_reaches_across_what_is_held_out(chunk):
    """The words before and after a piece of one word are not neighbours, though nothing kept stands
    between them.
    """
    setup = held_out_setup()
    around = range(990, 2010) if chunk == 1 else range(0, setup.n_tokens, chunk)
    trained_counts = [
        setup.train(start, min(start + chunk, setup.n_tokens), lr=0.0)[1:] for start in around
    ]
    start = around[0]
    stop = min(around[-1] + chunk, setup.n_tokens)
    pairs = reference.pairs_of(setup.kept(), start, stop)
    assert sum(pairs for pairs, _ in trained_counts) == len(pairs)
    assert sum(words for _, words in trained_counts) == setup.n_corpus_words(start, stop)
    setup.stream.word[8:] = LEFT_OUT
    setup.stream.held_out[:] = 0
    assert len(reference.pairs_of(setup.kept(), start, stop)) > len(pairs)  # as it would be without


# ---- random numbers


@kernel
def record(batch, state, constants, n_examples, n, lr):
    """Write the random numbers of every example to a row of `state` of its own; state[0, 0] counts
    them.
    """
    for e in range(n_examples):
        batch.z[e, :n] = 0
        state[0, 0] += 1
        for d in range(batch.uniforms.shape[1]):
            state[int(state[0, 0]), d] = batch.uniforms[e, d]
    return np.float64(0)


class Recorder(Objective):
    """An objective that learns nothing but what random numbers it is given."""

    coefficients = staticmethod(record)
    state_width = uniforms_width = 2

    def __init__(self, positives="single", merges_pairs=False):
        super().__init__(SampledSettings())
        self.positives = positives
        self.traits = Traits(merges_pairs=merges_pairs, keeps_accidental_hits=positives == "summed")

    def recorded(self, noise_key=7, **options):
        """The random numbers of every line of one chunk, (n, 2), and its number of pairs."""
        setup = Setup(self, **options)
        setup.tables = setup.tables._replace(objective_state=np.zeros((5000, 2), dtype=np.float32))
        setup.noise_key = stream_key(1, 0, noise_key)
        _, pairs, _ = setup.train(0, 120)
        return setup.tables.objective_state[1 : 1 + int(setup.tables.objective_state[0, 0])], pairs


RECORDERS = {"sums": Recorder("summed"), "sets": Recorder(merges_pairs=True), "pairs": Recorder()}


@pytest.mark.parametrize(("sampler", "block_size"), [("unigram", 0), ("all", 4), ("unigram", 64)])
@pytest.mark.parametrize("form", RECORDERS)
def test_random_numbers_for_the_objective_are_fresh_for_every_line(form, block_size, sampler):
    uniforms, pairs = RECORDERS[form].recorded(block_size=block_size, sampler=sampler)
    # pairs of the same words are one line
    assert len(uniforms) == pairs if block_size == 0 else 20 < len(uniforms) < pairs
    assert (uniforms > 0).all()
    assert (uniforms < 1).all()
    assert len(np.unique(uniforms)) > 0.99 * uniforms.size  # of 2^23
    assert uniforms.mean() == pytest.approx(0.5, abs=4 / np.sqrt(12 * uniforms.size))


@pytest.mark.parametrize("form", RECORDERS)
def test_chunks_have_different_random_numbers(form):
    first, _ = RECORDERS[form].recorded(block_size=4, noise_key=7)
    second, _ = RECORDERS[form].recorded(block_size=4, noise_key=8)
    assert np.isin(second, first).mean() < 0.01
