"""The strategies of word vectors: the tables of parameters, and the kernel that trains them on a
chunk of text.

    class                   kernel                 candidates
    BlockTraining           train_chunk            drawn rows, the nodes on a tree's path, or all
                                                   rows
    RetrievedBlockTraining  train_chunk_retrieved  the rows that an index finds, and drawn rows
"""

import math
from typing import Any, NamedTuple

import numpy as np

from embedx import optimizers
from embedx.engine import blocks, skipgram as engine, skipgram_retrieved as retrieved
from embedx.engine.encoders import ENCODERS, pairs_of_centre
from embedx.engine.loading import load_kernel
from embedx.errors import Setting
from embedx.kernels import stream_key
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import new_table
from embedx.runtime.memory import THREADS, allocating
from embedx.runtime.progress import Progress
from embedx.runtime.random_streams import CHUNK_ORDER, GENERATED_WINDOWS
from embedx.samplers.contract import Sampler
from embedx.samplers.search import IndexSettings
from embedx.search.index import Index
from embedx.search.query import Searcher
from embedx.search.spec import SearchSpec
from embedx.search.updater import IndexUpdater
from embedx.skipgram.settings import SkipGramSettings
from embedx.text.encoded_corpus import GeneratedTokens
from embedx.text.held_out import PIECE
from embedx.text.subsampling import TokenStream, context_words
from embedx.training.schedule import orders
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally

# Remedies if memory is too small.
SMALLER = (
    ("lower ", Setting("dim"), ", ", Setting("max_vocab")),
    (", ", Setting("threads"), " or ", Setting("window")),
)
# A worker trains a chunk in about 5 ms.
TOKENS_PER_CHUNK = 10_000
# `TokenStream.held_out` of a chunk of walks.
NONE_HELD_OUT = np.zeros(math.ceil(TOKENS_PER_CHUNK / PIECE), np.uint8)
# Initial Adagrad accumulators of the output rows if every row is a candidate of every block. From
# 0, the first step of a row would be equally long for a gradient of nearly zero
# (docs/objectives.md, "The exact softmax of words").
INITIAL_STATE_OF_ALL_ROWS = 1.0
# The loss before training is that of one chunk in CHUNKS_PER_SAMPLE, of MAX_SAMPLES at most.
CHUNKS_PER_SAMPLE = 100
MAX_SAMPLES = 8
# Share of the rows that are updated in the index after each chunk, in turn, and their minimum.
REFRESHED_SHARE = 0.01
MIN_REFRESHED_ROWS = 200
# Default number of rows found for each word, with and without drawn rows for all others.
N_FOUND_WITH_TAIL = 2
N_FOUND_WITHOUT_TAIL = 8
# Share of the rows that change clusters before the index is rebuilt; larger than the default of
# `search.updater`, because words keep the rows found for them.
REBUILD_SHARE = 0.5


def empty_tables(
    objective: Objective,
    settings: SkipGramSettings,
    sampler: Sampler,
    n_words: int,
    n_buckets: int = 0,
) -> engine.SkipGramTables:
    """Parameters of zeros, whose memory is taken when they are written to, with rows for buckets of
    n-grams after those of the words. Raises `EmbedxError` when they cannot be had.
    """
    columns = settings.dim + (settings.bias != "none")
    rule = optimizers.update_rule(settings.optimizer)
    n_inputs = n_words + n_buckets
    with allocating(f"two tables of {n_inputs:,} rows × {settings.dim} numbers", SMALLER):
        inputs = new_table(n_inputs, columns, rule)
        outputs = new_table(objective.n_outputs(n_words), columns, rule)
        if sampler.candidates == "all" and not rule.is_ema:
            outputs.state.fill(INITIAL_STATE_OF_ALL_ROWS)
    state = np.zeros((n_words, objective.state_width), np.float32)
    n_updates = np.zeros(n_words if state.size else 1, np.int64)
    return engine.SkipGramTables(inputs, outputs, state, n_updates)


def block_plan(
    objective: Objective,
    settings: SkipGramSettings,
    selection: int,
    n_outputs: int,
    n_context: float,
    max_gradient: float,
) -> blocks.BlockPlan:
    """How blocks are formed, with resolved `SkipGramSettings`.

    selection  of candidates, one of `blocks.SELECTIONS`
    n_context  mean number of context words of a centre
    """
    n_draws = 0
    if selection == blocks.DRAWN:
        n_draws = settings.draws or 0
    is_proximal = objective.step == "proximal"
    if is_proximal:
        max_gradient = math.inf
    elif n_draws > 0:
        max_gradient *= _gradient_factor(objective, settings, n_draws, n_context)
    return blocks.BlockPlan(
        encoder=list(ENCODERS).index(settings.architecture),
        window=settings.window,
        block_size=settings.block_size,
        n_draws=n_draws,
        n_outputs=n_outputs,
        selection=selection,
        form=blocks.form_of(objective),
        keeps_accidental_hits=objective.traits.keeps_accidental_hits,
        uses_log_expected_count=objective.traits.uses_log_expected_count,
        uses_score_gain=objective.traits.uses_score_gain,
        bias=settings.dim if settings.bias != "none" else -1,
        optimizer=optimizers.update_rule(
            settings.optimizer, row_length=settings.dim, max_gradient=max_gradient
        ),
        is_proximal=is_proximal,
    )


def _gradient_factor(
    objective: Objective, settings: SkipGramSettings, n_draws: int, n_context: float
) -> float:
    """Default draws over draws, at least 1: with fewer draws each is for more pairs, and the
    gradient of a drawn row is longer by this factor.
    """
    n_pairs = max(settings.block_size, 1) * pairs_of_centre(settings.architecture, n_context)
    default_draws = objective.negatives * n_pairs / objective.pairs_per_draw
    return max(default_draws / n_draws, 1.0)


class Frequencies(NamedTuple):
    """The frequencies of words in the training text.

    kept_share  float64 (n_words,): the tokens of each word that survive subsampling, over all
                tokens of the vocabulary
    scores      (n_outputs,): scores by which the objective predicts the frequencies
    """

    kept_share: np.ndarray
    scores: np.ndarray


class BlockTraining(Strategy):
    """Blocks of consecutive words against rows that are drawn for each block, against all rows, or
    along a tree's paths.

    settings     resolved `SkipGramSettings`
    generated    walks in place of the tokens of the stream, see `EncodedCorpus`
    frequencies  None if neither `baseline_loss` nor a cluster needs them
    """

    def __init__(
        self,
        objective: Objective,
        settings: SkipGramSettings,
        sampler: Sampler,
        tables: engine.SkipGramTables,
        stream: TokenStream,
        generated: GeneratedTokens | None = None,
        frequencies: Frequencies | None = None,
    ) -> None:
        self.objective = objective
        self.settings = settings
        self.sampler = sampler
        self.tables = tables
        self.stream = stream
        self.generated = generated
        self.frequencies = frequencies
        self.loss_unit = objective.loss_unit(ENCODERS[settings.architecture].PAIR)
        if generated is None:
            self.n_chunks = math.ceil(len(stream.tokens) / TOKENS_PER_CHUNK)
        else:
            self.n_chunks = generated.n_chunks(TOKENS_PER_CHUNK)
        self.order_of = orders(self.n_chunks, settings.seed, CHUNK_ORDER)
        self.n_words = len(tables.objective_state)
        self.n_outputs = len(tables.outputs.rows)
        n_context = context_words(stream.tokens, settings.window)
        max_gradient = engine.MAX_GRADIENT if generated is None else generated.max_gradient
        selection = blocks.SELECTIONS[sampler.candidates]
        self.plan = block_plan(
            objective, settings, selection, self.n_outputs, n_context, max_gradient
        )
        self.sampler_data = sampler.data(self.plan.n_draws)
        constants = objective.constants(self.plan.n_draws or self.n_outputs, self.n_words)
        self.shared = engine.SkipGramShared(tables, stream, self.sampler_data, constants, self.plan)
        self.workers: list[Any] = [
            self.new_workspace(self.plan) for _ in range(settings.threads or 1)
        ]

    def new_workspace(self, plan: blocks.BlockPlan) -> engine.SkipGramWorkspace:
        """A thread's workspace for blocks."""
        longest_path = int(np.diff(self.sampler_data.offsets).max(initial=1))
        columns = self.tables.inputs.rows.shape[1]
        uniforms_width = self.objective.uniforms_width
        n_generated = 0 if self.generated is None else TOKENS_PER_CHUNK
        return engine.new_workspace(
            plan, TOKENS_PER_CHUNK, columns, longest_path, uniforms_width, n_generated
        )

    def memory(self) -> dict[str, Any]:
        """The arrays that training needs beside the tables, by purpose."""
        return {THREADS: self.workers}

    def compile(self, progress: Progress) -> None:
        like = self._arguments(self.workers[0], 0, 0, 0.0)
        self.functions = load_kernel(
            engine.train_chunk, self.objective.coefficients, self.sampler, like, progress
        )

    def train_chunk(self, worker: Any, epoch: int, number: int, lr: float) -> Tally:
        arguments = self._arguments(worker, epoch, number, lr)
        return Tally(*engine.train_chunk(*self.functions, *arguments))

    def state(self) -> TrainState:
        """The parameters, and the states of optimizer and objective."""
        state = TrainState()
        tables = self.tables
        for name, table in (("inputs", tables.inputs), ("outputs", tables.outputs)):
            state.add_array(f"{name}.rows", table.rows)
            state.add_array(f"{name}.optimizer", table.state)
        state.add_array("objective.state", tables.objective_state)
        state.add_array("objective.n_updates", tables.n_updates)
        return state

    def sampled_loss(self) -> float | None:
        """The mean loss of a few chunks, spread over the corpus, at rate 0."""
        n = min(max(self.n_chunks // CHUNKS_PER_SAMPLE, 1), MAX_SAMPLES)
        tally = Tally()
        for k in range(n):
            number = self._first_in_phase_0(k * self.n_chunks // n, k)
            tally += self.train_chunk(self.workers[0], 0, number, 0.0)
        return tally.mean_loss

    def _first_in_phase_0(self, *numbers: int) -> int:
        """The first of these chunks that is trained in phase 0; chunk 0 if none is."""
        return next((number for number in numbers if self.phase(number) == 0), 0)

    def baseline_loss(self) -> float | None:
        """The loss of a model of word frequencies alone. Overwrites the tables by that model."""
        if self.frequencies is None:
            return None
        tables = self.tables
        inputs = tables.inputs.rows
        outputs = tables.outputs.rows
        inputs[:] = 0
        outputs[:] = 0
        tables.n_updates[:] = 0
        inputs[:, 0] = 1
        outputs[:, 0] = self.frequencies.scores
        return self.sampled_loss()

    def _arguments(self, worker: Any, epoch: int, number: int, lr: float) -> tuple[Any, ...]:
        """The arguments of the kernel for the chunk of this number in an epoch."""
        shared, chunk = self._begin_chunk(worker, self.shared, epoch, number, lr)
        return shared, worker, chunk

    def _begin_chunk(
        self,
        workspace: engine.SkipGramWorkspace,
        shared: engine.SkipGramShared,
        epoch: int,
        number: int,
        lr: float,
    ) -> tuple[engine.SkipGramShared, engine.Chunk]:
        """(shared, chunk) of this number in an epoch, with tokens that are generated now if the
        text is made of walks. Sets the workspace's longest step.
        """
        assert self.settings.learning_rate is not None
        workspace.longest_step[0] = engine.LONGEST_STEP * lr / self.settings.learning_rate
        chunk = self.chunk_at(epoch, number, lr)
        if self.generated is None:
            return shared, chunk
        place = self._place_of(epoch, number)
        n_tokens = self.generated.write_chunk(epoch, place, TOKENS_PER_CHUNK, workspace.tokens)
        tokens = workspace.tokens[:n_tokens]
        tokens.flags.writeable = False  # as those of a corpus are, which is another type to kernels
        stream = self.stream._replace(tokens=tokens, held_out=NONE_HELD_OUT)
        text_key = stream_key(self.settings.seed, epoch, place, GENERATED_WINDOWS)
        chunk = chunk._replace(start=0, stop=n_tokens, text_key=text_key)
        return shared._replace(stream=stream), chunk

    def _place_of(self, epoch: int, number: int) -> int:
        """The place in the text of the chunk of this number in an epoch."""
        return int(self.order_of(epoch)[number]) if self.settings.shuffle else number

    def chunk_at(self, epoch: int, number: int, lr: float) -> engine.Chunk:
        """The tokens of the chunk of this number in an epoch."""
        place = self._place_of(epoch, number)
        start = place * TOKENS_PER_CHUNK
        stop = min(start + TOKENS_PER_CHUNK, len(self.stream.tokens))
        seed = self.settings.seed
        epoch_key = stream_key(seed, epoch)
        return engine.Chunk(start, stop, np.float32(lr), epoch_key, stream_key(seed, epoch, place))


class RetrievedBlockTraining(BlockTraining):
    """Candidates are the rows that an index finds, and a few drawn rows for all others; during
    warm-up, while scores hardly differ, drawn rows alone. A worker is a pair of workspaces, for
    blocks and for searching.

    index_settings  settings of the search; the other arguments are those of `BlockTraining`
    """

    def __init__(
        self,
        objective: Objective,
        settings: SkipGramSettings,
        *others: Any,
        index_settings: IndexSettings,
    ) -> None:
        super().__init__(objective, settings, *others)
        self.index_settings = index_settings
        self.columns = settings.dim + (settings.bias != "none")
        has_tail = objective.traits.unbiased or objective.traits.has_tail
        if not has_tail:
            self.loss_unit += " among the rows found"
        n_found = index_settings.found or (N_FOUND_WITH_TAIL if has_tail else N_FOUND_WITHOUT_TAIL)
        n_found = min(n_found, self.n_outputs)
        self.search = self._search_spec(n_found)
        self.found_rows = retrieved.new_found_rows(self.n_words, n_found)
        n_draws = self.plan.n_draws if has_tail else 0
        self.shared_with_search = self.shared._replace(
            plan=self.plan._replace(selection=blocks.RETRIEVED, n_draws=n_draws)
        )
        self.workers = [self._new_workspaces(n_found) for _ in self.workers]

    def _search_spec(self, n_found: int) -> SearchSpec:
        """The search for n_found rows of a word."""
        search = self.objective.search(self.n_outputs) or self.index_settings.spec(self.n_outputs)
        max_candidates = max(
            n_found, math.ceil(self.index_settings.candidate_fraction * search.n_scored)
        )
        return search.for_columns(self.columns)._replace(max_candidates=max_candidates)

    def _new_workspaces(
        self, n_found: int
    ) -> tuple[engine.SkipGramWorkspace, retrieved.RetrievalWorkspace]:
        """A thread's workspaces, for blocks and for searching."""
        max_found_in_block = min(n_found * blocks.max_inputs(self.plan), self.n_outputs)
        n_certain = self.plan.block_size + max_found_in_block
        # For the sizes of buffers alone: certain rows are counted as draws.
        widest = self.plan._replace(
            selection=blocks.RETRIEVED, n_draws=self.plan.n_draws + n_certain
        )
        stride = self.tables.inputs.rows.shape[1]
        return (
            self.new_workspace(widest),
            retrieved.new_retrieval_workspace(self.n_outputs, n_found, self.search, stride),
        )

    def memory(self) -> dict[str, Any]:
        return super().memory() | {
            "rows found": self.found_rows,
            # The index copies all rows; while it is rebuilt, the old one stays.
            "search": [self.tables.outputs.rows] * 2,
        }

    def compile(self, progress: Progress) -> None:
        self.updater = IndexUpdater(
            self.tables.outputs.rows,
            self.n_outputs,
            self.columns,
            self.search,
            seed=self.settings.seed,
            threads=len(self.workers),
            progress=progress,
            rebuild_share=REBUILD_SHARE,
        )
        super().compile(progress)
        like = self._arguments_with_index(self.updater.index, self.workers[0], 0, 0, 0.0)
        self.functions_with_index = load_kernel(
            engine.train_chunk_retrieved, self.objective.coefficients, self.sampler, like, progress
        )
        megabytes = self.found_rows.rows.nbytes / 1e6
        n_found = self.found_rows.rows.shape[1]
        progress.detail(f"each word keeps its {n_found} highest-scoring rows: {megabytes:.3g} MB")

    def phase(self, number: int) -> int:
        """1 if rows are retrieved; 0 during warm-up."""
        return int(number >= self.index_settings.warm_up * self.n_chunks)

    def train_chunk(self, worker: Any, epoch: int, number: int, lr: float) -> Tally:
        if self.phase(epoch * self.n_chunks + number) == 0:
            return super().train_chunk(worker, epoch, number, lr)
        arguments = self._arguments_with_index(self.updater.current(), worker, epoch, number, lr)
        tally = Tally(*engine.train_chunk_retrieved(*self.functions_with_index, *arguments))
        n_refreshed = max(math.ceil(REFRESHED_SHARE * self.n_outputs), MIN_REFRESHED_ROWS)
        self.updater.update_next(n_refreshed)
        return tally

    def state(self) -> TrainState:
        state = super().state()
        state.include(self.updater.state())
        for name, array in self.found_rows._asdict().items():
            state.add_array(f"found.{name}", array)
        return state

    def _arguments(self, worker: Any, epoch: int, number: int, lr: float) -> tuple[Any, ...]:
        workspace, _ = worker
        return super()._arguments(workspace, epoch, number, lr)

    def _arguments_with_index(
        self, index: Index, worker: Any, epoch: int, number: int, lr: float
    ) -> tuple[Any, ...]:
        """As `_arguments`, for `train_chunk_retrieved`."""
        workspace, search_workspace = worker
        shared, chunk = self._begin_chunk(workspace, self.shared_with_search, epoch, number, lr)
        searcher = Searcher(index, self.search, search_workspace.query)
        retrieval = retrieved.Retrieval(searcher, self.found_rows, self.index_settings.refresh)
        return shared, retrieval, workspace, search_workspace, chunk
