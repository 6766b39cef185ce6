"""Word vectors trained by workers: the plan of each worker, and how often they merge."""

import copy
import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy import float32, ndarray

from embedx.distributed.connection import ClusterSize
from embedx.distributed.merging import MAX_PARTNER_ROWS, Partner, partner_of
from embedx.distributed.parameters import Parameters
from embedx.distributed.settings import ClusterSettings
from embedx.distributed.worker import WorkerPlan
from embedx.engine import blocks
from embedx.engine.skipgram import SkipGramTables
from embedx.engine.subwords import Parts, word_vectors
from embedx.objectives.contract import Objective
from embedx.samplers.contract import Sampler
from embedx.skipgram.settings import SkipGramSettings
from embedx.skipgram.strategies import TOKENS_PER_CHUNK, BlockTraining, empty_tables
from embedx.text.subsampling import TokenStream

# Number of merges of each worker over a run, where merging is cheap.
MERGES = 50
# More workers need more merges: each worker merges MERGES_BY_WORKERS · √workers times, as far as
# the head keeps up, but at least MIN_MERGES times.
MERGES_BY_WORKERS = 14.0
MIN_MERGES = 20
# Minimum number of merges with a single worker.
MIN_MERGES_ALONE = 10
# Words in a range per row of the tables, chosen so that merging takes about a tenth of the time and
# the head keeps up with all threads (explored, not on record).
WORDS_PER_ROW = 16
WORDS_PER_ROW_AND_THREAD = 0.5
# Lower bounds of these, where more merges are needed.
MIN_WORDS_PER_ROW = 2
MIN_WORDS_PER_ROW_AND_THREAD = 0.25
# Maximum number of chunks in a range per thread: a few seconds, which a lost worker costs.
MAX_CHUNKS = 400
# The same where the head would not keep up otherwise.
MAX_CHUNKS_FOR_HEAD = 2000


@dataclass(frozen=True)
class WordsPlan(WorkerPlan):
    """A plan by which every worker trains chunks of the stream on its own tables.

    parts       the n-grams of each word
    n_rows      numbers of words, and of buckets of n-grams
    frozen      bool (n_rows,) of the input and of the output rows that are not trained
    kept_share  float32 (n_words,); see `Frequencies`
    """

    objective: Objective
    settings: SkipGramSettings
    sampler: Sampler
    parts: Parts
    n_rows: tuple[int, int]
    frozen: tuple[ndarray, ndarray]
    kept_share: ndarray
    stream: TokenStream

    def components(self) -> tuple[Objective, Sampler]:
        return self.objective, self.sampler

    def build(self, threads: int) -> BlockTraining:
        settings = dataclasses.replace(self.settings, threads=threads)
        tables = empty_tables(self.objective, settings, self.sampler, *self.n_rows)
        # Copies, because arrays that Ray sends are read-only, which is another type to kernels. The
        # tokens are read-only everywhere.
        tokens = self.stream.tokens
        stream = copy.deepcopy(self.stream, {id(tokens): tokens})
        frozen_inputs, frozen_outputs = copy.deepcopy(self.frozen)
        tables = tables._replace(
            inputs=tables.inputs._replace(frozen=frozen_inputs),
            outputs=tables.outputs._replace(frozen=frozen_outputs),
            parts=copy.deepcopy(self.parts),
        )
        return BlockTraining(self.objective, settings, self.sampler, tables, stream)

    def parameters(self, strategy: BlockTraining) -> Parameters:
        tables = strategy.tables
        rates = update_rates(strategy, self.kept_share)
        outputs = partner_of(tables.outputs.rows, rates["outputs"])
        if len(tables.parts.offsets):
            inputs = self._word_vectors(tables)
        else:
            inputs = partner_of(tables.inputs.rows, self.kept_share)
        return Parameters(
            {"inputs": tables.inputs, "outputs": tables.outputs},
            strategy.plan.optimizer,
            tables.objective_state,
            tables.n_updates,
            rates,
            {"inputs": outputs, "outputs": inputs},
        )

    def _word_vectors(self, tables: SkipGramTables) -> Partner:
        """The vectors of the most frequent words, which are means of rows of the inputs."""
        parts = tables.parts
        frequent = np.argsort(-self.kept_share, kind="stable")[:MAX_PARTNER_ROWS]
        rows = [parts.rows[parts.offsets[word] : parts.offsets[word + 1]] for word in frequent]
        offsets = np.cumsum([0, *map(len, rows)])
        frequent_parts = parts._replace(rows=np.concatenate(rows), offsets=offsets)
        return Partner(
            lambda: word_vectors(tables.inputs.rows, frequent_parts), self.kept_share[frequent]
        )


def update_rates(strategy: BlockTraining, kept: ndarray) -> dict[str, ndarray]:
    """By table, float32 (n_rows,): the expected number of blocks that update each row, per word of
    the corpus.

    Output rows count as centre words, not as negatives: all candidates of a word together move as
    far as the word does.
    """
    tables = strategy.tables
    sampler_data = strategy.sampler_data
    plan = strategy.plan
    inputs = kept
    outputs = kept
    if len(tables.parts.offsets):
        inputs = np.bincount(
            tables.parts.rows,
            np.repeat(kept, np.diff(tables.parts.offsets)),
            len(tables.inputs.rows),
        )
    if plan.selection == blocks.PATH:
        outputs = np.bincount(
            sampler_data.rows,
            np.repeat(kept, np.diff(sampler_data.offsets)),
            len(tables.outputs.rows),
        )
    max_rate = kept.sum() / blocks.max_centres(plan)
    return {
        "inputs": inputs.astype(float32),
        "outputs": np.minimum(outputs, max_rate).astype(float32),
    }


def plan_of(
    strategy: BlockTraining, cluster: ClusterSettings, size: ClusterSize
) -> tuple[WordsPlan, int]:
    """The plan of each worker, and the number of chunks that it trains before it merges."""
    tables = strategy.tables
    stream = strategy.stream
    n_words = len(tables.objective_state)
    n_inputs = len(tables.inputs.rows)
    assert strategy.frequencies is not None
    plan = WordsPlan(
        strategy.objective,
        strategy.settings,
        strategy.sampler,
        tables.parts,
        (n_words, n_inputs - n_words),
        (tables.inputs.frozen, tables.outputs.frozen),
        strategy.frequencies.kept_share.astype(float32),
        # A memory map would not be sent as an array.
        stream._replace(tokens=np.asarray(stream.tokens)),
    )
    n_rows = n_inputs + len(tables.outputs.rows)
    epochs = strategy.settings.epochs
    per_range = chunks_per_range(cluster.merge_every, strategy.n_chunks, epochs, n_rows, size)
    return plan, per_range


def chunks_per_range(
    words: int | None, n_chunks: int, epochs: float, n_rows: int, size: ClusterSize
) -> int:
    """The number of chunks that a worker trains before it merges.

    words   words between two merges, if they are set
    n_rows  of all tables
    """
    if words is not None:
        return max(1, words // TOKENS_PER_CHUNK)
    chunks_per_worker = n_chunks * epochs / size.workers
    max_for_head = MAX_CHUNKS_FOR_HEAD * size.threads
    if size.workers == 1:
        return max(1, int(min(chunks_per_worker / MIN_MERGES_ALONE, max_for_head)))
    threads = size.workers * size.threads
    cheap_words = max(WORDS_PER_ROW, WORDS_PER_ROW_AND_THREAD * threads) * n_rows
    bearable_words = max(MIN_WORDS_PER_ROW, MIN_WORDS_PER_ROW_AND_THREAD * threads) * n_rows
    cheap = cheap_words / TOKENS_PER_CHUNK
    bearable = bearable_words / TOKENS_PER_CHUNK
    longest = min(max(MAX_CHUNKS * size.threads, cheap), max_for_head)
    n_good_merges = min(MERGES_BY_WORKERS * math.sqrt(size.workers), MERGES)
    good = chunks_per_worker / n_good_merges
    chosen = min(
        max(chunks_per_worker / MERGES, cheap),
        max(good, bearable),
        chunks_per_worker / MIN_MERGES,
        longest,
    )
    return max(1, int(chosen))
