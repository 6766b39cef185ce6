"""The skip-gram kernel where words keep what they have found: the candidates, their weights, and
when rows are searched for anew.
"""

import itertools
from collections import Counter

import numpy as np
import pytest
from reference_skipgram import Block, Example, Naive, examples_of, groups_of, lines_of_draws

from embedx.engine import blocks, loading, skipgram as engine, skipgram_retrieved as retrieved
from embedx.engine.blocks import FORM_MERGED
from embedx.objectives.ldgs import Ldgs
from embedx.runtime.progress import Silent
from embedx.samplers.alias import draw
from embedx.search.index import build_index, empty_index
from embedx.search.query import Searcher
from embedx.search.updater import IndexUpdater
from tests.support.skipgram_setup import Setup

K = 30
FOUND = 3
DRAWS = 6
NEVER_AGAIN = 1000
SETTINGS = {
    "loss": "softmax",
    "found": FOUND,
    "clusters": 2,
    "blocks": 2,
    "scored_fraction": 1.0,
    "candidate_fraction": 1.0,
}


pytestmark = pytest.mark.usefixtures("few_rows_are_retrieved")


class Retrieving(Setup):
    """As `Setup`, with words that have found rows at random and never look again, unless told
    otherwise.
    """

    def __init__(self, block_size=4, draws=DRAWS, refresh=NEVER_AGAIN, known=True, **options):
        objective = Ldgs(
            Ldgs.Settings.from_options({**SETTINGS, "slack": 1e6, "min_coefficient": 1e-30})
        )
        super().__init__(objective, block_size=block_size, draws=draws, n_words=K, **options)
        columns = self.dim + (self.plan.bias >= 0)
        self.search = objective.search(K).for_columns(columns)
        self.found = retrieved.new_found_rows(K, FOUND)
        rng = np.random.default_rng(3)
        if known:
            self.found.rows[:] = [rng.choice(K, FOUND, replace=False) for _ in range(K)]
            self.found.n[:] = rng.integers(1, FOUND + 1, K)
            self.found.uses[:] = 0
        self.index = empty_index(self.search.blocks)
        if not known or refresh < NEVER_AGAIN:
            self.index = build_index(self.tables.outputs.rows, K, columns, self.search, rng)
        self.refresh = refresh
        self.retrieval = retrieved.new_retrieval_workspace(K, FOUND, self.search, self.dim)
        wide = self.plan._replace(n_draws=draws + K)
        self.workspace = engine.new_workspace(
            wide, self.n_tokens, self.tables.inputs.rows.shape[1], 1, 0
        )
        self.plan = self.plan._replace(selection=blocks.RETRIEVED)

    def train(self, start, stop, lr=0.1):
        run, chunk = self.run_and_chunk(start, stop, lr)
        shared = retrieved.Retrieval(
            Searcher(self.index, self.search, self.retrieval.query), self.found, self.refresh
        )
        arguments = run, shared, self.workspace, self.retrieval, chunk
        functions = loading.load_kernel(
            engine.train_chunk_retrieved,
            self.objective.coefficients,
            self.drawing,
            arguments,
            Silent(),
        )
        return engine.train_chunk_retrieved(*functions, *arguments)

    def naive_blocks(self, pairs, kept):
        """Every block of a chunk: centres and what was found are certain, and of the draws those
        count that are neither.
        """
        for number, (together, words) in enumerate(
            groups_of(pairs, kept, 0, self.n_tokens, self.plan.block_size)
        ):
            certain = list(dict.fromkeys(words))
            gathered, inputs = examples_of(together, kept, self.plan.encoder)
            for word in inputs:
                certain += [int(row) for row in self.found.rows[word, : self.found.n[word]]]
            certain = list(dict.fromkeys(certain))
            first = self.plan.n_draws * number
            drawn = [
                int(draw(self.alias, self.noise_key, np.uint64(first + i)))
                for i in range(self.plan.n_draws)
            ]
            noise = Counter(row for row in drawn if row not in certain)
            examples = [
                Example(
                    state_row,
                    contexts,
                    lines_of_draws(
                        n_pairs_of,
                        certain,
                        noise,
                        self.sampler_data.log_expected,
                        FORM_MERGED,
                        False,
                    ),
                )
                for state_row, contexts, n_pairs_of in gathered
            ]
            yield Block([*certain, *noise], inputs, examples)


@pytest.mark.parametrize(
    ("block_size", "draws", "bias", "n_ngrams", "architecture"),
    [
        (1, 6, False, 0, "skipgram"),
        (4, 6, True, 20, "skipgram"),
        (5, 20, True, 0, "cbow"),
        (64, 3, False, 20, "cbow"),
        (4, 0, True, 0, "skipgram"),
        (64, 6, True, 0, "skipgram"),
    ],
)
def test_found_rows_are_candidates_and_draws_represent_the_others(
    block_size, draws, bias, n_ngrams, architecture
):
    setup = Retrieving(block_size, draws, bias=bias, n_ngrams=n_ngrams, architecture=architecture)
    naive = Naive(
        setup.tables, setup.optimizer, setup.objective, setup.constants, setup.plan.bias, setup.dim
    )
    naive.inputs, naive.outputs = naive.inputs.copy(), naive.outputs.copy()
    pairs, kept = blocks_pairs(setup)
    expected = sum(naive.train(block, 0.1) for block in setup.naive_blocks(pairs, kept))
    loss, n_pairs, _ = setup.train(0, setup.n_tokens)
    assert n_pairs == (
        len(pairs) if architecture == "skipgram" else len({pair[2] for pair in pairs})
    )
    assert loss == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(setup.tables.inputs.rows, naive.inputs, atol=1e-4)
    np.testing.assert_allclose(setup.tables.outputs.rows, naive.outputs, atol=1e-4)


def blocks_pairs(setup):
    import reference

    kept = setup.kept()
    return reference.pairs_of(kept, 0, setup.n_tokens), kept


@pytest.mark.parametrize("n_certain", [0, 1, 2, 4])
def test_the_estimate_of_the_normaliser_is_unbiased_for_any_found_rows(n_certain):
    """Over all draws of two rows out of five, each with its probability."""
    q = np.array([0.1, 0.3, 0.2, 0.25, 0.15])
    z = np.random.default_rng(1).normal(size=5)
    plan = Setup(Ldgs(Ldgs.Settings()), block_size=4, n_words=5).plan
    block = blocks.new_block(plan._replace(n_draws=8), 1)
    workspace = np.zeros((5, 2), dtype=np.int64)
    mean = 0.0
    for drawn in itertools.product(range(5), repeat=2):
        retrieval_workspace = Retrieving().retrieval._replace(joined=workspace)
        retrieval_workspace.clock[0] = 1
        workspace[:] = 0
        for k in range(n_certain):
            block.candidates[k] = k
            workspace[k] = (1, k)
        block.sizes[blocks.CERTAIN] = n_certain
        retrieved._add_tail(np.array(drawn, dtype=np.int32), 2, retrieval_workspace, block)
        noise = range(n_certain, n_certain + block.sizes[blocks.NOISE])
        rows = block.candidates[list(noise)]
        assert not set(rows) & set(range(n_certain))
        weight = block.sample_count[0, list(noise)] / (2 * q[rows])
        mean += q[list(drawn)].prod() * (np.exp(z[:n_certain]).sum() + weight @ np.exp(z[rows]))
    assert mean == pytest.approx(np.exp(z).sum())


def test_a_word_keeps_the_rows_of_the_highest_scores():
    setup = Retrieving(known=False)
    setup.train(0, setup.n_tokens, lr=0.0)
    z = setup.tables.inputs.rows @ setup.tables.outputs.rows.T
    sought = np.flatnonzero(setup.found.uses >= 0)
    assert len(sought) > 10
    for word in sought:
        np.testing.assert_array_equal(setup.found.rows[word], np.argsort(-z[word])[:FOUND])


@pytest.mark.parametrize("refresh", [1, 3, NEVER_AGAIN])
def test_rows_of_a_word_are_searched_again_after_refresh_uses(refresh):
    setup = Retrieving(known=False, refresh=refresh)
    setup.train(0, setup.n_tokens, lr=0.0)
    pairs, kept = blocks_pairs(setup)
    groups = groups_of(pairs, kept, 0, setup.n_tokens, setup.plan.block_size)
    uses = Counter(kept[x][1] for together, _ in groups for x in {pair[3] for pair in together})
    for word, n in uses.items():
        assert setup.found.uses[word] == (n - 1) % refresh + 1  # since it was looked up
    assert any(n > 3 for n in uses.values())


def test_a_new_search_uses_the_current_rows():
    setup = Retrieving(known=False, refresh=1)
    setup.train(0, setup.n_tokens, lr=0.0)
    before = setup.found.rows.copy()
    setup.tables.outputs.rows[:] *= -1
    updater = IndexUpdater(
        setup.tables.outputs.rows, K, setup.dim, setup.search, seed=1, threads=1, progress=Silent()
    )
    updater.index = setup.index
    updater.n_builds = 1
    for _ in range(4):
        updater.update_next(8)
    setup.train(0, setup.n_tokens, lr=0.0)
    z = setup.tables.inputs.rows @ setup.tables.outputs.rows.T
    sought = np.flatnonzero(setup.found.uses >= 0)
    for word in sought:
        np.testing.assert_array_equal(setup.found.rows[word], np.argsort(-z[word])[:FOUND])
    assert (before[sought] != setup.found.rows[sought]).any()


def test_an_index_is_brought_up_to_date_in_turn():
    table = np.random.default_rng(0).normal(size=(K, 16)).astype(np.float32)
    search = Ldgs(Ldgs.Settings.from_options(SETTINGS)).search(K)
    updater = IndexUpdater(table, K, 16, search, seed=1, threads=1, progress=Silent())
    index = updater.current()
    table += 1
    for step in range(1, 4):
        updater.update_next(12)
        fresh = [
            row for row in range(K) if indexed_row(index, row) == pytest.approx(table[row, :8])
        ]
        assert len(fresh) == min(12 * step, K)
    assert updater.next_row == 36 - K


def indexed_row(index, row):
    """The columns of block 0 that the index has of a row."""
    slot = index.slot[0, row]
    return index.panels[0, slot // 16, : index.edges[1], slot % 16]
