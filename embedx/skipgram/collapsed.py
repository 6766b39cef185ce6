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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from embedx.engine import collapsed as engine
from embedx.engine.alternating import Descent, Iteration, Side
from embedx.errors import Setting
from embedx.kernels import stream_key
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MemoryPlan, available_memory, n_bytes
from embedx.runtime.progress import SILENT, Progress
from embedx.skipgram.configuration import Configuration, configure
from embedx.skipgram.settings import CollapsedSettings
from embedx.skipgram.strategies import SMALLER
from embedx.skipgram.task import Task, TrainedVectors, encoded_corpus, prepared
from embedx.text import cooccurrence
from embedx.text.cooccurrence import Counts
from embedx.text.encode import Corpora
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints
from embedx.training.strategy import Tally
from embedx.vectors import model

# Settings that the epoch of streaming takes, too; the last so that the size of the text does not
# choose its optimizer.
SHARED = ("dim", "window", "bias", "threads", "heldout", "seed", "deterministic", "block_size")
MAX_COUNTING = 4_000_000_000  # bytes
# of the tables, in memory beside them: gradient and step, copies, the optimizers' states
COPIES = 3


def train(
    corpora: Corpora,
    config: Configuration,
    *,
    progress: Progress = SILENT,
    cache_dir: Path | None = None,
    watch: Callable[[model.WordVectors, Iteration], None] | None = None,
    snapshot: Mapping[str, Any] | None = None,
    checkpoints: Checkpoints | None = None,
) -> TrainedVectors:
    """Word vectors of `corpora` as by `embedx.skipgram.task.train`, with a configuration for
    --collapsed.

    watch   is called with the vectors, which are views, at the start and after each iteration; its
            time is not counted
    Raises `EmbedxError` for what the user can mend. Ctrl-C and the end of the time budget end the
    training with the vectors that were last found to be better than those before.
    """
    own = config.collapsed or CollapsedSettings()
    with encoded_corpus(corpora, config, progress, cache_dir) as corpus:
        task = prepared(corpus, config, progress)
        settings, memory = task.config.settings, _check_memory(task)
        task.initialise()
        if checkpoints is not None:
            checkpoints.check_disk(*task.on_disk())
            checkpoints.identify(task.identity)
        keys = [stream_key(settings.seed, epoch) for epoch in range(own.count_passes)]
        n_words = len(task.words)
        with cooccurrence.counted(
            task.stream(), n_words, settings.window, keys, memory, progress, cache_dir
        ) as counts:
            resumes = snapshot is not None or (checkpoints is not None and checkpoints.resumes)
            warm = (
                None if own.warm_start == "none" or resumes else _warm_start(task, own.warm_start)
            )
            seconds = warm.seconds if warm else 0.0
            descent = _descent(task, counts, seconds)
            if watch is not None:
                descent.watch = lambda iteration: watch(task.model(None), iteration)
            task.loss_unit = descent.loss_unit
            if warm is not None and warm.interrupted_by is not None:
                outcome = trainer.Outcome(Tally(), seconds, 0, None, warm.interrupted_by)
            else:
                outcome = descent.run(snapshot, checkpoints)
                outcome.seconds += seconds
        if warm is None and outcome.epochs == 0:
            dataclasses.replace(outcome, final_loss=None).check_trained()
        vectors = task.model(outcome)
        vectors.facts |= {
            "collapsed": True,
            "history": [dataclasses.asdict(iteration) for iteration in descent.history],
        }
        if task.heldout is not None and outcome.interrupted_by is None:
            vectors.facts["heldout"] = to_the_end(task.heldout_metrics)
    return TrainedVectors(vectors, outcome)


def _check_memory(task: Task) -> int:
    """Bytes that are free for counting the pairs. Raises `EmbedxError` if the tables and their
    gradients will not fit.
    """
    plan = memory_plan(task)
    plan.check((task.size, " with ", Setting("collapsed", True)), SMALLER)
    plan.report(task.progress)
    return min(MAX_COUNTING, plan.available // 2)


def memory_plan(task: Task) -> MemoryPlan:
    """What the run needs, beside the counts, which go to disk where they do not fit."""
    n_words, tables = len(task.words), n_bytes((task.tables.inputs.rows, task.tables.outputs.rows))
    blocks = (
        4 * 5 * min(engine.BLOCK_FLOATS, n_words * n_words) * (task.config.settings.threads or 1)
    )
    return MemoryPlan(
        {"tables": tables, "gradients": COPIES * tables + blocks}, 0, available_memory()
    )


def _warm_start(task: Task, objective: str) -> trainer.Outcome:
    """Give the task the tables after one epoch of streaming with an objective; its outcome.

    That objective's scores mean what its `log_probability` says; what it gives to scores of zero is
    added to the biases. (For negative sampling the log of the noise: 10 MB of Wikipedia then start
    at 8.15 nats a pair instead of 8.73.)
    """
    options = {name: getattr(task.config.settings, name) for name in SHARED}
    config = dataclasses.replace(
        configure(objective, {**options, "epochs": 1}), vocabulary=task.config.vocabulary
    )
    warm = dataclasses.replace(prepared(task.corpus, config, SILENT), progress=task.progress)
    warm.initialise()
    outcome = warm.run(warm.strategy())
    if outcome.diverged is not None:
        raise outcome.diverged
    outputs, dim = warm.tables.outputs.rows, config.settings.dim
    if config.settings.bias != "none":
        no_scores = np.zeros((1, len(outputs)), np.float32)
        outputs[:, dim] += config.objective.log_probability(no_scores, np.log(warm.sampler.noise))[
            0
        ]
    task.tables = warm.tables
    return outcome


def _descent(task: Task, counts: Counts, seconds_before: float) -> Descent:
    """The steps that the settings ask for, from where the tables are."""
    objective, settings, outputs = (
        task.config.objective,
        task.config.settings,
        task.tables.outputs.rows,
    )
    of_inputs, of_targets = cooccurrence.totals(counts)
    task.progress.note(f"{of_inputs.sum():,.0f} pairs, {len(counts.targets):,} of them distinct")
    columns = settings.dim + (settings.bias != "none")
    shared = objective, counts, len(outputs), columns, settings.threads or 1
    rows = engine.AllRows(*shared)
    if search := objective.search(len(outputs)):
        tail = (
            engine.Tail(task.sampler, settings.draws or 0, settings.seed)
            if objective.has_tail
            else engine.NO_TAIL
        )
        rows = engine.FoundRows(*shared, search.for_columns(columns), settings.seed, tail)
    rate, budget = float(settings.learning_rate or 0), settings.time_budget
    inputs, targets = (
        Side(task.tables.inputs.rows, settings.dim, of_inputs, rate),
        Side(outputs, columns, of_targets, rate),
    )
    n_iterations, seconds = (
        (None, budget - seconds_before) if budget else (settings.epochs, math.inf)
    )
    return Descent(rows, inputs, targets, n_iterations, seconds, task.progress)
