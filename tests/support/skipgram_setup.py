"""A small corpus and random tables for the skip-gram kernel, called as
`embedx.skipgram` calls it.
"""

import numpy as np
import reference

from embedx import samplers
from embedx.engine import blocks, skipgram as engine
from embedx.engine.encoders import ENCODERS
from embedx.engine.loading import load_kernel
from embedx.engine.subwords import NO_PARTS, Parts
from embedx.kernels.random import stream_key
from embedx.optimizers import update_rule
from embedx.optimizers.contract import new_table
from embedx.runtime.progress import Silent
from embedx.samplers.alias import AliasTable
from embedx.text.held_out import PIECE, n_pieces
from embedx.text.subsampling import LEFT_OUT, TokenStream
from embedx.text.tokenizer import END_OF_SENTENCE
from tests.support.noise_sampler import GivenNoise


def parts_at_random(n_words, n_ngrams):
    """Words of 0 to 6 n-grams, some of them the same ones."""
    rng = np.random.default_rng(8)
    parts_of_words = [
        [word, *(n_words + rng.integers(0, n_ngrams, word % 7))] for word in range(n_words)
    ]
    ends = np.cumsum([0, *map(len, parts_of_words)])
    return Parts(ends.astype(np.int64), np.concatenate(parts_of_words).astype(np.int32))


def stream_at_random(rng, n_tokens, n_words, keep_all):
    """Three sentences of `n_words` words, and of two more that are left out of the vocabulary; some
    words are subsampled unless all are kept.
    """
    tokens = rng.integers(0, n_words + 2, n_tokens).astype(np.int32)
    tokens[[n_tokens // 3, n_tokens // 2]] = END_OF_SENTENCE
    word = np.full(n_words + 2, LEFT_OUT, dtype=np.int32)
    word[2:] = rng.permutation(n_words)
    keep = np.full(n_words + 2, 2**32 - 1, dtype=np.uint32)
    if not keep_all:
        keep[2:7] = rng.integers(2**30, 2**32, 5)[:n_words]
    return TokenStream(tokens, word, keep, np.zeros(n_pieces(tokens), dtype=np.uint8))


def tables_at_random(rng, objective, rule, n_words, n_ngrams, dim, bias):
    """Tables with rows for words and n-grams."""
    n_outputs = objective.n_outputs(n_words)
    columns = dim + bias
    tables = engine.SkipGramTables(
        new_table(n_words + n_ngrams, columns, rule),
        new_table(n_outputs, columns, rule),
        np.zeros((n_words, objective.state_width), dtype=np.float32),
        np.zeros(n_words, dtype=np.int64),
        parts_at_random(n_words, n_ngrams) if n_ngrams else NO_PARTS,
    )
    inputs = tables.inputs.rows
    inputs[:n_words, :dim] = rng.normal(0, 0.5, (n_words, dim))
    inputs[n_words:, :dim] = np.random.default_rng(9).normal(0, 0.5, (n_ngrams, dim))
    tables.outputs.rows[:, :columns] = rng.normal(0, 0.5, (n_outputs, columns))
    if bias:
        inputs[:, dim] = 1
    return tables


class Setup:
    """A corpus of 3 sentences over `n_words` words (and 2 left out), random tables, and one way of
    forming blocks.
    """

    def __init__(
        self,
        objective,
        *,
        block_size=1,
        draws=4,
        sampler="unigram",
        bias=False,
        optimizer="sgd",
        seed=0,
        n_tokens=120,
        n_words=12,
        dim=10,
        window=3,
        keep_all=False,
        noise=None,
        n_ngrams=0,
        architecture="skipgram",
    ):
        rng = np.random.default_rng(seed)
        self.objective = objective
        self.sampler = sampler
        self.optimizer = optimizer
        self.dim = dim
        self.n_tokens = n_tokens
        self.functions = None
        self.stream = stream_at_random(rng, n_tokens, n_words, keep_all)
        self.set_tokens(self.stream.tokens)
        counts = rng.integers(1, 100, n_words)
        objective.prepare(counts)

        rule = update_rule(optimizer, row_length=dim)
        self.tables = tables_at_random(rng, objective, rule, n_words, n_ngrams, dim, bias)
        if noise is None:
            noise = rng.uniform(0.5, 1.5, n_words) if sampler == "unigram" else np.ones(n_words)
        self.drawing = (
            GivenNoise(noise) if sampler in ("unigram", "uniform") else samplers.make(sampler, {})
        )
        self.drawing.prepare(counts, paths=objective.paths())
        n_draws = draws if self.drawing.candidates == "drawn" else 0
        self.sampler_data = self.drawing.data(n_draws)
        self.alias = AliasTable(self.sampler_data.values, self.sampler_data.rows)

        n_outputs = len(self.tables.outputs.rows)
        self.plan = blocks.BlockPlan(
            encoder=list(ENCODERS).index(architecture),
            window=window,
            block_size=block_size,
            n_draws=n_draws,
            n_outputs=n_outputs,
            selection=blocks.SELECTIONS[self.drawing.candidates],
            form=blocks.form_of(objective),
            keeps_accidental_hits=objective.traits.keeps_accidental_hits,
            uses_log_expected_count=objective.traits.uses_log_expected_count,
            uses_score_gain=objective.traits.uses_score_gain,
            bias=dim if bias else -1,
            optimizer=rule,
            is_proximal=objective.step == "proximal",
        )
        self.constants = objective.constants(n_draws or n_outputs, n_words)
        self.text_key = stream_key(1, 0)
        self.noise_key = stream_key(1, 0, 7)
        longest_path = int(np.diff(self.sampler_data.offsets).max(initial=1))
        stride = self.tables.inputs.rows.shape[1]
        self.workspace = engine.new_workspace(
            self.plan, n_tokens, stride, longest_path, objective.uniforms_width
        )

    def set_tokens(self, tokens):
        """Make `tokens` the corpus, which is read from disk and hence not to be written."""
        tokens = tokens.copy()
        tokens.setflags(write=False)
        self.stream = self.stream._replace(tokens=tokens)

    def run_and_chunk(self, start, stop, lr):
        run = engine.SkipGramShared(
            self.tables, self.stream, self.sampler_data, self.constants, self.plan
        )
        return run, engine.Chunk(start, stop, np.float32(lr), self.text_key, self.noise_key)

    def train(self, start, stop, lr=0.1):
        run, chunk = self.run_and_chunk(start, stop, lr)
        arguments = run, self.workspace, chunk
        if self.functions is None:
            self.functions = load_kernel(
                engine.train_chunk, self.objective.coefficients, self.drawing, arguments, Silent()
            )
        return engine.train_chunk(*self.functions, *arguments)

    def assert_moves_by_the_gradient(self, places, times, start, stop, lr=1e-3):
        """Each place (row, column) of the inputs moves by so many times its derivative of the loss,
        by finite differences.
        """
        rows = self.tables.inputs.rows
        before = rows.copy()

        def loss(place, step):
            rows[:] = before
            rows[place] += np.float32(step)
            return self.train(start, stop, lr=0.0)[0]

        slopes = np.array([(loss(place, 0.05) - loss(place, -0.05)) / 0.1 for place in places])
        rows[:] = before
        _, n_pairs, _ = self.train(start, stop, lr=lr)
        assert np.abs(slopes).max() > 0.1
        np.testing.assert_allclose(
            [(before[place] - rows[place]) / lr for place in places], times * slopes, 0.03, 0.05
        )
        return n_pairs

    def kept(self):
        stream = self.stream
        held_out = np.repeat(stream.held_out, PIECE)
        return reference.kept_words(
            stream.tokens, stream.word, stream.keep, self.plan.window, self.text_key, held_out
        )

    def n_corpus_words(self, start, stop):
        """How many of tokens[start:stop] are words that may be trained on."""
        held_out = np.repeat(self.stream.held_out, PIECE)
        return sum(
            token >= 0 and self.stream.word[token] >= 0 and not held_out[start + i]
            for i, token in enumerate(self.stream.tokens[start:stop])
        )
