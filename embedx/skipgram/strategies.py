"""How a chunk of text is trained, one class for each kernel.

Streamed         candidates are drawn rows, all rows, or those on a tree's path     engine/skipgram.py
RetrievedStream  they are the rows that an index finds                              engine/skipgram_retrieved.py
"""

import math
from typing import Any, NamedTuple

import numpy as np

from embedx import optimizers
from embedx.engine import blocks
from embedx.engine import skipgram as engine
from embedx.engine import skipgram_retrieved as retrieved
from embedx.engine.encoders import ENCODERS, pairs_of_centre
from embedx.engine.loading import load_kernel
from embedx.engine.select import JOINT, SINGLE, SUMMED
from embedx.kernels.random import stream_key
from embedx.objectives.contract import Objective
from embedx.objectives.retrieval import RetrievalObjective
from embedx.samplers.contract import Sampler
from embedx.search.index import Index, empty_index
from embedx.search.updater import IndexUpdater
from embedx.skipgram.settings import PAIRS_PER_DRAW
from embedx.text.subsampling import TokenStream
from embedx.training.progress import Progress
from embedx.training.schedule import Orders
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally

SHUFFLED = 2**34  # the place of the order of chunks among a seed's random numbers
CHUNK = 10_000  # tokens a worker trains between two looks at the clock: about 5 ms
# What is known of the loss before training is from one chunk in so many, and not from more than a few.
SPARED, MOST_LOOKED_AT = 100, 8
# After each chunk this share of the rows is brought up to date in the index, in turn, but at least so many.
REFRESHED_SHARE = 0.02
REFRESHED_ROWS = 500
REBUILD_SHARE = 0.5  # as that of `search.updater`, but rarer: a word keeps what it has found for long


def form_of(objective: Objective) -> int:
    """How the objective gets the pairs of a block."""
    if objective.positives == "summed":
        return SUMMED
    return JOINT if objective.merges_pairs or objective.pairs_as_set else SINGLE


def pairs_per_draw(objective: Objective, settings: Any, n_draws: int) -> float:
    """How many times as many pairs as by default a drawn word stands for, at least 1: its gradient is so much longer."""
    n_pairs = max(settings.block_size, 1) * pairs_of_centre(settings.architecture, settings.window + 1)
    by_default = objective.negatives * n_pairs / PAIRS_PER_DRAW
    return max(by_default / n_draws, 1.0) if n_draws else 1.0


def state_of(tables: engine.SkipGramTables) -> TrainState:
    """The parameters, and what the optimiser and the objective keep beside them."""
    state = TrainState()
    for name, table in (("inputs", tables.inputs), ("outputs", tables.outputs)):
        state.add_array(f"{name}.rows", table.rows)
        state.add_array(f"{name}.optimizer", table.state)
    state.add_array("objective.state", tables.state)
    state.add_array("objective.n_updates", tables.n_updates)
    return state


def loss_unit(objective: Objective, sampler: Sampler, architecture: str) -> str:
    """The unit of the mean loss, with the rows that it is a sum over if these are not all that it should be."""
    return objective.loss_unit(ENCODERS[architecture].PAIR) + (
        objective.loss_scope if sampler.candidates == "retrieved" else ""
    )


class Streamed(Strategy):
    """Blocks of consecutive words against rows that are drawn for each block, against all rows, or along a tree's paths.

    settings  resolved `SkipGramSettings`
    sampler   what draws, if anything does
    """

    def __init__(
        self,
        objective: Objective,
        settings: Any,
        sampler: Sampler,
        tables: engine.SkipGramTables,
        stream: TokenStream,
    ) -> None:
        self.objective, self.settings, self.sampler, self.tables, self.stream = objective, settings, sampler, tables, stream
        self.loss_unit = objective.loss_unit(ENCODERS[settings.architecture].PAIR)
        self.frequency_scores: np.ndarray | None = None  # (n_rows,), by which the objective predicts how often each word occurs
        self.n_chunks = -(-len(stream.tokens) // CHUNK)
        self.orders = Orders(self.n_chunks, settings.seed, SHUFFLED)
        n_words, n_rows = len(tables.state), len(tables.outputs.rows)
        n_draws = settings.draws if sampler.candidates == "drawn" else 0
        is_proximal = objective.kind == "proximal"
        self.plan = blocks.BlockPlan(
            list(ENCODERS).index(settings.architecture), settings.window, settings.block_size, n_draws, n_rows,
            blocks.CANDIDATES[sampler.candidates], form_of(objective), objective.keeps_accidental_hits,
            objective.uses_log_expected_count, objective.uses_score_gain,
            settings.dim if settings.bias != "none" else -1,
            optimizers.update_rule(
                settings.optimizer, row_length=settings.dim,
                max_gradient=math.inf if is_proximal else engine.MAX_GRADIENT * pairs_per_draw(objective, settings, n_draws),
            ),
            is_proximal,
        )  # fmt: skip
        self.draws = sampler.data(n_draws)
        self.constants = objective.constants(n_draws or n_rows, n_words)
        self.prepare()
        self.workers = self.new_workers()

    def prepare(self) -> None:
        """Set up what a subclass needs, before workers have their memory."""

    def new_workers(self) -> list[Any]:
        """Memory for each thread."""
        longest = int(np.diff(self.draws.offsets).max(initial=1))
        return [self.new_workspace(self.plan, longest) for _ in range(self.settings.threads)]

    def new_workspace(self, plan: blocks.BlockPlan, longest_path: int) -> engine.SkipGramWorkspace:
        """A worker's memory for blocks."""
        columns = self.tables.inputs.rows.shape[1]
        return engine.new_workspace(plan, CHUNK, columns, longest_path, self.objective.uniforms_width)

    def memory(self) -> dict[str, Any]:
        """The arrays that training needs beside the tables, by purpose."""
        n = len(self.workers)
        return {f"{n} thread{'s' * (n > 1)}": self.workers}

    def compile(self, progress: Progress) -> None:
        like = self._arguments(self.workers[0], 0, 0, 0.0)
        self.functions = load_kernel(engine.train_chunk, self.objective.coefficients, self.sampler, like, progress)

    def train(self, worker: Any, epoch: int, chunk: int, rate: float) -> Tally:
        return Tally(*engine.train_chunk(*self.functions, *self._arguments(worker, epoch, chunk, rate)))

    def state(self) -> TrainState:
        return state_of(self.tables)

    def untrained_loss(self) -> float | None:
        """From chunks all over the corpus, at rate 0."""
        n = min(max(self.n_chunks // SPARED, 1), MOST_LOOKED_AT)
        tally = Tally()
        for k in range(n):
            at = k * self.n_chunks // n
            at = next(each for each in (at, k, 0) if self.phase(each) == 0 or each == 0)
            tally += self.train(self.workers[0], 0, at, 0.0)
        return tally.mean_loss

    def baseline_loss(self) -> float | None:
        if self.frequency_scores is None:
            return None
        tables = self.tables
        tables.inputs.rows[:], tables.outputs.rows[:], tables.n_updates[:] = 0, 0, 0
        tables.inputs.rows[:, 0], tables.outputs.rows[:, 0] = 1, self.frequency_scores
        return self.untrained_loss()

    def _arguments(self, worker: engine.SkipGramWorkspace, epoch: int, chunk: int, rate: float) -> tuple[Any, ...]:
        worker.longest_step[0] = engine.LONGEST_STEP * rate / (self.settings.learning_rate * self.rate_factor)
        return self.run(self.plan), worker, self.place(epoch, chunk, rate)

    def run(self, plan: blocks.BlockPlan) -> engine.Run:
        """What the kernels read of the run."""
        return engine.Run(self.tables, self.stream, self.draws, self.constants, plan)

    def place(self, epoch: int, chunk: int, rate: float) -> engine.Chunk:
        """The chunk that is trained as number `chunk` of an epoch."""
        at = int(self.orders.of(epoch)[chunk]) if self.settings.shuffle else chunk
        start, stop = at * CHUNK, min((at + 1) * CHUNK, len(self.stream.tokens))
        seed = self.settings.seed
        return engine.Chunk(start, stop, np.float32(rate), stream_key(seed, epoch), stream_key(seed, epoch, at))


class _Worker(NamedTuple):
    """A worker's memory."""

    workspace: engine.SkipGramWorkspace
    finding: retrieved.RetrievalWorkspace


class RetrievedStream(Streamed):
    """Candidates are the rows that an index finds, and a few drawn rows for all others; drawn rows alone for the first share of
    the run, while all scores are alike.
    """

    def prepare(self) -> None:
        objective, tables = self.objective, self.tables
        assert isinstance(objective, RetrievalObjective)
        own = objective.settings
        self.loss_unit += objective.loss_scope
        n_words, n_rows = len(tables.state), len(tables.outputs.rows)
        self.columns = self.settings.dim + (self.settings.bias != "none")
        search = objective.search(n_rows)
        assert search is not None
        search = search.for_columns(self.columns)
        most = max(own.found, math.ceil(own.candidate_fraction * search.n_scored))
        self.search = search._replace(max_candidates=most)
        self.found = retrieved.new_found_rows(n_words, min(own.found, n_rows))
        self.retrieved_plan = self.plan._replace(
            candidates=blocks.RETRIEVED, n_draws=self.plan.n_draws if objective.has_tail else 0
        )
        self.n_refreshed = max(math.ceil(REFRESHED_SHARE * n_rows), REFRESHED_ROWS)
        self.n_drawn_first = own.warm_up * self.n_chunks

    def new_workers(self) -> list[Any]:
        n_rows, found = len(self.tables.outputs.rows), self.found.rows.shape[1]
        most = min(found * blocks.max_inputs(self.plan), n_rows)  # rows that a block's inputs can have found
        widest = self.plan._replace(n_draws=self.plan.n_draws + most)
        dim = self.tables.inputs.rows.shape[1]
        return [
            _Worker(self.new_workspace(widest, 1), retrieved.new_retrieval_workspace(n_rows, found, self.search, dim))
            for _ in range(self.settings.threads)
        ]

    def memory(self) -> dict[str, Any]:
        return super().memory() | {"rows found": self.found, "search": [self.tables.outputs.rows] * 2}

    def compile(self, progress: Progress) -> None:
        self.updater = IndexUpdater(
            self.tables.outputs.rows, len(self.tables.outputs.rows), self.columns, self.search,
            seed=self.settings.seed, threads=self.settings.threads, progress=progress, rebuild_share=REBUILD_SHARE,
        )  # fmt: skip
        workspace, _ = self.workers[0]
        like = self._arguments(workspace, 0, 0, 0.0)
        self.functions = load_kernel(engine.train_chunk, self.objective.coefficients, self.sampler, like, progress)
        like = self._retrieved_arguments(empty_index(self.search.blocks), self.workers[0], 0, 0, 0.0)
        load_kernel(retrieved.train_chunk, self.objective.coefficients, self.sampler, like, progress)
        kept = self.found.rows
        size = f"{kept.nbytes / 1e6:.3g} MB"
        progress.note(f"each word keeps the {kept.shape[1]} rows of the highest scores that it finds: {size}")

    def phase(self, step: int) -> int:
        return int(step >= self.n_drawn_first)

    def searches_at(self, epoch: int, chunk: int) -> bool:
        """Whether the time of drawn rows alone is over."""
        return bool(epoch * self.n_chunks + chunk >= self.n_drawn_first)

    def train(self, worker: Any, epoch: int, chunk: int, rate: float) -> Tally:
        if not self.searches_at(epoch, chunk):
            return super().train(worker.workspace, epoch, chunk, rate)
        arguments = self._retrieved_arguments(self.updater.current(), worker, epoch, chunk, rate)
        tally = Tally(*retrieved.train_chunk(*self.functions, *arguments))
        self.updater.update_next(self.n_refreshed)
        return tally

    def state(self) -> TrainState:
        state = super().state()
        state.include(self.updater.state())
        for name, array in self.found._asdict().items():
            state.add_array(f"found.{name}", array)
        return state

    def _retrieved_arguments(self, index: Index, worker: _Worker, epoch: int, chunk: int, rate: float) -> tuple[Any, ...]:
        retrieval = retrieved.Retrieval(index, self.search, self.found, self.objective.settings.refresh)
        run, place = self.run(self.retrieved_plan), self.place(epoch, chunk, rate)
        return run, retrieval, worker.workspace, worker.finding, place
