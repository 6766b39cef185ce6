"""The task of word vectors by the collapsed objective: count all pairs of a corpus, then take full
gradient steps.

corpora -> encoded tokens -> vocabulary -> counts of pairs -> an epoch of streaming -> [engine:
alternating steps] -> model

Yen et al. 2018, section 5.3: pairs of the same two words are one term, weighted by how often they
occur (eq. 9), and gradient steps are taken on all input vectors and on all output vectors in turn,
from where one epoch of negative sampling leads.
"""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from embedx.engine import collapsed as engine
from embedx.engine.alternating import Descent, Iteration, Side
from embedx.errors import Setting
from embedx.kernels import stream_key
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MemoryPlan, available_memory, n_bytes
from embedx.runtime.progress import SILENT
from embedx.skipgram.configuration import configure
from embedx.skipgram.run import TrainedWordVectors, WordVectorsRun
from embedx.skipgram.settings import CollapsedSettings
from embedx.skipgram.strategies import SMALLER
from embedx.text import cooccurrence
from embedx.text.cooccurrence import Counts
from embedx.training.checkpoint import Checkpoints
from embedx.training.life import Size
from embedx.training.outcome import Outcome
from embedx.training.strategy import Tally
from embedx.vectors.model import WordVectors

# Settings that the epoch of streaming takes, too.
SHARED = ("dim", "window", "bias", "threads", "heldout", "seed", "deterministic", "block_size")
MAX_BYTES_OF_COUNTING = 4_000_000_000
# Gradient and step, copies, and the optimizers' states, each as large as the tables.
COPIES_OF_TABLES = 3

# Called with the vectors, which are views, at the start and after each iteration.
Watch = Callable[[WordVectors, Iteration], None]


@dataclasses.dataclass
class CollapsedRun(WordVectorsRun):
    """A run with --collapsed.

    cache_dir  where counts go that do not fit into memory
    watch      its time is not counted
    """

    cache_dir: Path | None = None
    watch: Watch | None = None
    descent: Descent = dataclasses.field(init=False)

    def size(self) -> Size:
        size = super().size()
        return Size((size.parameters, " with ", Setting("collapsed", True)), SMALLER)

    def allocate(self) -> MemoryPlan:
        """Make tables of zeros; what the run needs beside the counts, which go to disk where they
        do not fit.
        """
        self._allocate_tables()
        n_words = len(self.vocabulary)
        tables = n_bytes((self.tables.inputs.rows, self.tables.outputs.rows))
        n_threads = self.config.settings.threads or 1
        blocks = 4 * 5 * min(engine.BLOCK_FLOATS, n_words * n_words) * n_threads
        needs = {"tables": tables, "gradients": COPIES_OF_TABLES * tables + blocks}
        return MemoryPlan(needs, 0, available_memory())

    def train(self, plan: MemoryPlan, checkpoints: Checkpoints | None) -> Outcome:
        """Count all pairs, train an epoch by streaming, and take full gradient steps from there.

        Ctrl-C and the end of the time budget end it with the vectors that were last found to be
        better than those before.
        """
        plan.report(self.progress)
        self.initialise()
        if checkpoints is not None:
            checkpoints.begin(self.identity)
        settings = self.config.settings
        collapsed = self._collapsed()
        keys = [stream_key(settings.seed, epoch) for epoch in range(collapsed.count_passes)]
        with cooccurrence.counted(
            self.stream(),
            len(self.vocabulary),
            settings.window,
            keys,
            min(MAX_BYTES_OF_COUNTING, plan.available // 2),
            self.progress,
            self.cache_dir,
        ) as counts:
            return self._train_on(counts, checkpoints)

    def _train_on(self, counts: Counts, checkpoints: Checkpoints | None) -> Outcome:
        """Minimise the loss over all pairs, from an epoch of streaming if the settings say so."""
        warm_start = self._collapsed().warm_start
        is_resuming = checkpoints is not None and checkpoints.is_resuming
        warm = None
        if warm_start != "none" and self.snapshot is None and not is_resuming:
            warm = _warm_start(self, warm_start)
        seconds = 0.0 if warm is None else warm.seconds
        self.descent = _descent(self, counts, seconds)
        watch = self.watch
        if watch is not None:
            self.descent.watch = lambda iteration: watch(self.word_vectors(None), iteration)
        self.loss_unit = self.descent.loss_unit
        if warm is not None and warm.interrupted_by is not None:
            return Outcome(Tally(), seconds, 0, None, warm.interrupted_by)
        outcome = self.descent.run(self.snapshot, checkpoints)
        outcome.seconds += seconds
        if warm is None and outcome.epochs == 0:
            dataclasses.replace(outcome, final_loss=None).check_trained()
        return outcome

    def finish(self, outcome: Outcome) -> TrainedWordVectors:
        """The trained word vectors, scored on the held-out text."""
        vectors = self.word_vectors(outcome)
        history = [dataclasses.asdict(iteration) for iteration in self.descent.history]
        vectors.facts |= {"collapsed": True, "history": history}
        if self.held_out_text is not None and outcome.interrupted_by is None:
            vectors.facts["heldout"] = to_the_end(self.held_out_metrics)
        return TrainedWordVectors(vectors, outcome)

    def _collapsed(self) -> CollapsedSettings:
        return self.config.collapsed or CollapsedSettings()


def _warm_start(run: WordVectorsRun, objective: str) -> Outcome:
    """Give the run the tables after one epoch of streaming with an objective; its outcome.

    The steps after it take scores as log-probabilities. Therefore what the objective's
    `log_probability` gives to scores of zero is added to the biases: for negative sampling the log
    of the noise. (10 MB of Wikipedia then started at 8.15 nats a pair instead of 8.73; not on
    record.)
    """
    shared = {name: getattr(run.config.settings, name) for name in SHARED}
    config = configure(objective, {**shared, "epochs": 1})
    config = dataclasses.replace(config, vocabulary=run.config.vocabulary)
    warm = WordVectorsRun.resolved(run.corpus, config, SILENT)
    warm.progress = run.progress
    outcome = warm.train(warm.allocate(), None)
    if outcome.divergence is not None:
        raise outcome.divergence
    if config.settings.bias != "none":
        outputs = warm.tables.outputs.rows
        no_scores = np.zeros((1, len(outputs)), np.float32)
        log_noise = np.log(warm.sampler.noise)
        log_probability = config.objective.log_probability(no_scores, log_noise)[0]
        outputs[:, config.settings.dim] += log_probability
    run.tables = warm.tables
    return outcome


def _descent(run: WordVectorsRun, counts: Counts, seconds_before: float) -> Descent:
    """The steps that the settings ask for, from where the tables are."""
    settings = run.config.settings
    outputs = run.tables.outputs.rows
    input_totals, target_totals = cooccurrence.totals(counts)
    run.progress.note(f"{input_totals.sum():,.0f} pairs, {len(counts.targets):,} of them distinct")
    columns = settings.dim + (settings.bias != "none")
    rows = _candidate_rows(run, counts, columns)
    rate = float(settings.learning_rate or 0)
    inputs = Side(run.tables.inputs.rows, settings.dim, input_totals, rate)
    targets = Side(outputs, columns, target_totals, rate)
    n_iterations: int | None = settings.epochs
    seconds = math.inf
    if settings.time_budget:
        n_iterations = None
        seconds = settings.time_budget - seconds_before
    return Descent(rows, inputs, targets, n_iterations, seconds, run.progress)


def _candidate_rows(
    run: WordVectorsRun, counts: Counts, columns: int
) -> engine.AllRows | engine.FoundRows:
    """The output rows that are scored for each input: all, or those that a search finds."""
    objective = run.config.objective
    settings = run.config.settings
    n_outputs = len(run.tables.outputs.rows)
    loss = engine.CollapsedLoss(objective, counts, n_outputs, columns, settings.threads or 1)
    search = objective.search(n_outputs)
    if search is None:
        return engine.AllRows(loss)
    tail = engine.NO_TAIL
    if objective.traits.has_tail:
        tail = engine.Tail(run.sampler, settings.draws or 0, settings.seed)
    return engine.FoundRows(loss, search.for_columns(columns), settings.seed, tail)
