"""The task of word vectors by the collapsed objective: count all pairs of a corpus, then take full gradient steps.

corpora -> encoded tokens -> vocabulary -> counts of pairs -> an epoch of streaming -> [engine: alternating steps] -> model

Yen et al. 2018, section 5.3: pairs of the same two words are one term, weighted by how often they occur (eq. 9), and gradient
steps are taken on all input vectors and on all output vectors in turn, from where one epoch of negative sampling leads.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from embedx import objectives, optimizers, samplers
from embedx.engine import collapsed as engine
from embedx.engine.alternating import Descent, Iteration, Side
from embedx.errors import EmbedxError
from embedx.kernels.random import stream_key
from embedx.kernels.simd import padded
from embedx.objectives.contract import Objective
from embedx.objectives.retrieval import RetrievalObjective
from embedx.optimizers.contract import COLLAPSED
from embedx.settings import (
    PhraseSettings,
    Settings,
    TextSettings,
    VocabularySettings,
    check_used,
    option_name,
    param,
    settings_of,
)
from embedx.skipgram import settings as streaming
from embedx.skipgram.run import Task
from embedx.skipgram.settings import SkipGramSettings
from embedx.skipgram.tables import SMALLER, empty_tables
from embedx.skipgram.task import TrainedVectors
from embedx.text import cooccurrence
from embedx.text.cooccurrence import Counts
from embedx.text.counting import BYTES_PER_KEY
from embedx.text.encode import Corpora, encode
from embedx.text.heldout import hold_out
from embedx.text.vocabulary import kept_counts, select
from embedx.training import memory as in_all
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints
from embedx.training.interrupts import to_the_end
from embedx.training.progress import Progress, Silent
from embedx.training.strategy import Tally
from embedx.vectors import model

NOT_RECORDED = ("sampler_exponent", "block_size", "negatives", "warm_up", "found", "refresh")  # settings of streaming
NOT_TAKEN = (*NOT_RECORDED, "sampler", "architecture", "subwords", "buckets", "heldout_points", "shuffle")
SHARED = ("dim", "window", "bias", "threads", "heldout", "seed", "deterministic")  # settings of the epoch of streaming, too
# Settings that differ from streaming's. K/20 is the paper's.
DEFAULTS = {
    "epochs": 20, "optimizer": "rowwise-adagrad-momentum", "learning_rate": 1.0,
    "scored_fraction": 0.05, "candidate_fraction": 0.1,
}  # fmt: skip
TAIL = 1000  # rows drawn for each input, by default
MAX_COUNTING = 4_000_000_000  # bytes
TABLES = 8  # that are in memory while both sides are: tables, gradient, step, copies, the optimizers' states


@dataclasses.dataclass(frozen=True)
class CollapsedSettings(Settings):
    """What only the collapsed objective takes."""

    panel = "With --collapsed"

    warm_start: str = param(
        "ns",
        "initialise by one epoch of streaming with this objective, or at random (`none`)",
        choices=("ns", "none"),
        fine=True,
    )
    # One pass instead of five fits what happened to be kept: after 10 iterations on 10 MB of Wikipedia held-out text has -8.23
    # instead of -8.13 nats.
    count_passes: int = param(
        5, "passes over the corpus whose pairs are counted; each with its own subsampling and windows", at_least=1, fine=True
    )


Watch = Callable[[model.WordVectors, Iteration], None]


def _made(objective: type[Objective], options: dict[str, Any]) -> Objective:
    """The objective with its settings among `options`, by default those for word counts."""
    own = {name: value for name, value in objective.word_defaults.items() if name in settings_of(objective.Settings)}
    return objective(objective.Settings.from_options({**own, **DEFAULTS, **options}))


def collapses(objective: Objective) -> bool:
    """Whether an objective takes the counts of an input as one example and is that of eq. 9: its candidates are all rows, or
    those that a search finds, it keeps no state, and its scores are logarithms of probabilities.
    """
    is_stateless = objective.state_width == 0 and objective.uniforms_width == 0 and objective.kind == "gradient"
    takes_all = objective.candidates == ("all",) and objective.merges_pairs
    return is_stateless and (takes_all or ("retrieved" in objective.candidates and objective.calibrated))


def has_tail(objective: Objective) -> bool:
    """Whether drawn rows stand for those that a search does not find."""
    return isinstance(objective, RetrievalObjective) and objective.has_tail


def chosen(objective: type[Objective], options: dict[str, Any]) -> tuple[SkipGramSettings, CollapsedSettings, Objective]:
    """The settings among `options`, and the objective with its own.

    Raises `EmbedxError` for an objective that cannot be collapsed, or a setting that does not apply.
    """
    if not collapses(_made(objective, {})):
        takers = ", ".join(name for name, each in objectives.OBJECTIVES.items() if collapses(_made(each, {})))
        raise EmbedxError(f"--collapsed does not apply to --objective {objective.name}; taken by {takers}")
    made = _made(objective, options)
    for name in (*NOT_TAKEN, *([] if has_tail(made) else ["draws"])):
        if name in options:
            raise EmbedxError(f"{option_name(name)} does not apply with --collapsed --objective {objective.name}")
    if not collapses(made):
        raise EmbedxError(f"--collapsed takes --objective {objective.name} only with a loss that gives probabilities")
    search = made.search(2)
    if search is not None and search.message_iterations > 0:
        raise EmbedxError("--collapsed takes exact scores of the rows found; leave out --set rescore=no")
    draws = {"draws": TAIL} if has_tail(made) else {}
    settings = SkipGramSettings.from_options({**DEFAULTS, **draws, **options, "sampler": objective.samplers()[0]})
    optimizers.find(settings.optimizer, COLLAPSED)
    check_used(options, [("heldout_every", settings.heldout > 0, "--heldout")])
    return settings, CollapsedSettings.from_options(options), made


def check_not_typed(typed: dict[str, Any]) -> None:
    """Raise `EmbedxError` for a setting that only the collapsed objective takes."""
    check_used(typed, [(name, False, "--collapsed") for name in settings_of(CollapsedSettings)])


def train(
    corpora: Corpora,
    objective: Objective,
    settings: SkipGramSettings,
    collapsed: CollapsedSettings | None = None,
    *,
    text: TextSettings | None = None,
    vocabulary: VocabularySettings | None = None,
    phrases: PhraseSettings | None = None,
    progress: Progress | None = None,
    cache_dir: Path | None = None,
    watch: Watch | None = None,
    snapshot: Mapping[str, Any] | None = None,
    checkpoints: Checkpoints | None = None,
) -> TrainedVectors:
    """Word vectors of `corpora`, named or given as for `embedx.skipgram.train`; `settings` are those that `chosen` gives.

    watch   is called with the vectors, which are views, at the start and after each iteration; its time is not counted
    snapshot  of the `outcome.state` of a run with the same settings on the same corpora, to resume
    checkpoints  keep its state on disk
    Raises `EmbedxError` for what the user can mend. Ctrl-C and the end of the time budget end the training with the vectors
    that were last found to be better than those before.
    """
    collapsed, progress = collapsed or CollapsedSettings(), progress or Silent()
    text, vocabulary, phrases = text or TextSettings(), vocabulary or VocabularySettings(), phrases or PhraseSettings()
    settings = dataclasses.replace(settings, threads=settings.threads or trainer.usable_cores())
    with encode(corpora, text, progress, cache_dir, phrases, threads=settings.threads) as corpus:
        words, remap = select(corpus, vocabulary)
        progress.note(f"vocabulary: {len(words):,} words, {words.n_tokens:,} of {corpus.n_tokens:,} tokens")
        memory = counting_memory(len(corpus.tokens), len(words), settings, collapsed, progress)
        held_out = hold_out(corpus.tokens, remap, settings.heldout) if settings.heldout > 0 else None
        words = words.without(held_out.counts) if held_out else words
        sampler = samplers.make(str(settings.sampler), {})
        sampler.prepare(words.trained_counts, paths=objective.paths())
        objective.prepare(kept_counts(words.trained_counts, vocabulary.sample))
        tables = empty_tables(objective, settings, len(words))
        task = Task(
            corpus, words, remap, sampler, None, tables, objective, settings, text, vocabulary, progress, held_out, phrases
        )
        task.check_pairs()
        task.initialise()
        if checkpoints is not None:
            checkpoints.check_disk(*task.on_disk())
            checkpoints.identify(lambda: {**task.identity(), "collapsed": collapsed.record()})
        keys = [stream_key(settings.seed, epoch) for epoch in range(collapsed.count_passes)]
        with cooccurrence.counted(task.stream(), len(words), settings.window, keys, memory, progress, cache_dir) as counts:
            resumes = snapshot is not None or (checkpoints is not None and checkpoints.resumes)
            warm = _warm_start(task, collapsed) if collapsed.warm_start != "none" and not resumes else None

            def after_iteration(iteration: Iteration) -> None:
                if watch is not None:
                    watch(task.model(None), iteration)
                if settings.heldout_every and iteration.number and iteration.number % settings.heldout_every == 0:
                    found = task.heldout_metrics()["log_likelihood"]
                    progress.note(f"iteration {iteration.number}: held-out log-likelihood {found:.4f}")

            descent = _descent(task, counts, warm.seconds if warm else 0.0, after_iteration)
            if warm is not None and warm.interrupted_by is not None:
                outcome = trainer.Outcome(Tally(), warm.seconds, 0, None, None, warm.interrupted_by)
            else:
                outcome = descent.run(snapshot, checkpoints)
                outcome.seconds += warm.seconds if warm else 0.0
        if warm is None and outcome.epochs == 0:
            dataclasses.replace(outcome, final_loss=None).check_trained()
        vectors = _model(task, collapsed, descent, outcome)
        if task.heldout is not None and outcome.interrupted_by is None:
            vectors.facts["heldout"] = to_the_end(task.heldout_metrics)
    return TrainedVectors(vectors, outcome)


def counting_memory(
    n_tokens: int, n_words: int, settings: SkipGramSettings, collapsed: CollapsedSettings, progress: Progress
) -> int:
    """Bytes that counting the pairs will take, beyond which it uses files. Raises `EmbedxError` if the tables will not fit."""
    have = in_all.available_memory()
    n_pairs = n_tokens * 2 * settings.window * collapsed.count_passes
    counting = min(MAX_COUNTING, have // 2, BYTES_PER_KEY * n_pairs)
    table = 4 * n_words * padded(settings.dim + 1)
    blocks = 4 * 5 * min(engine.BLOCK_FLOATS, n_words * n_words) * (settings.threads or 1)
    needs = {"tables": 2 * table, "gradients": max((TABLES - 2) * table + blocks, counting)}  # counting is over before
    plan = in_all.MemoryPlan(needs, 0.0, have)
    plan.check(f"{n_words:,} words × {settings.dim} numbers with --collapsed", SMALLER)
    plan.report(progress)
    return counting


def _warm_start(task: Task, collapsed: CollapsedSettings) -> trainer.Outcome:
    """Give the task the tables after one epoch of streaming; its outcome.

    That objective's scores mean what its `log_probability` says; what it gives to scores of zero is added to the biases. (For
    negative sampling the log of the noise: 10 MB of Wikipedia then start at 8.15 nats a pair instead of 8.73.)
    """
    found = objectives.find(collapsed.warm_start)
    options = {name: getattr(task.settings, name) for name in SHARED}
    settings, objective = streaming.chosen(found, {**options, "epochs": 1})
    objective.prepare(task.kept)
    sampler, _ = streaming.new_samplers(objective, settings, {}, task.words.trained_counts)
    settings = streaming.resolved(settings, objective, sampler, task.kept, task.progress)
    tables = empty_tables(objective, settings, len(task.words))
    warm = dataclasses.replace(task, sampler=sampler, tables=tables, objective=objective, settings=settings)
    warm.initialise()
    outcome = warm.run(warm.strategy())
    if outcome.diverged is not None:
        raise outcome.diverged
    if settings.bias != "none":
        no_scores = np.zeros((1, len(tables.outputs.rows)), dtype=np.float32)
        tables.outputs.rows[:, settings.dim] += objective.log_probability(no_scores, np.log(sampler.noise))[0]
    task.tables = tables
    return outcome


def _descent(task: Task, counts: Counts, seconds_before: float, watch: Callable[[Iteration], None]) -> Descent:
    """The steps that the settings ask for, from where the tables are."""
    objective, settings, tables, outputs = task.objective, task.settings, task.tables, task.tables.outputs.rows
    of_inputs, of_targets = cooccurrence.totals(counts)
    task.progress.note(f"{of_inputs.sum():,.0f} pairs, {len(counts.targets):,} of them distinct")
    columns = settings.dim + (settings.bias != "none")
    rows = engine.AllRows(objective, counts, len(outputs), columns, settings.threads or 1)
    if search := objective.search(len(outputs)):
        tail = engine.NO_TAIL
        if has_tail(objective):
            drawing = samplers.make(samplers.first_drawn(streaming.in_order(objective)), {})
            drawing.prepare(task.words.trained_counts)
            tail = engine.Tail(drawing, settings.draws or TAIL, settings.seed)
        rows = engine.FoundRows(
            objective, counts, len(outputs), columns, settings.threads or 1, search.for_columns(columns), settings.seed, tail
        )
    rate, optimizer = float(settings.learning_rate or 0), optimizers.find(settings.optimizer, COLLAPSED)
    return Descent(
        rows,
        Side(tables.inputs.rows, settings.dim, of_inputs, rate, optimizer),
        Side(outputs, columns, of_targets, rate, optimizer),
        None if settings.time_budget else settings.epochs,
        settings.time_budget - seconds_before if settings.time_budget else math.inf,
        task.progress,
        watch,
    )


def _model(task: Task, collapsed: CollapsedSettings, descent: Descent, outcome: trainer.Outcome) -> model.WordVectors:
    """The word vectors with the record of the run."""
    vectors = task.model(None)
    for name in (*NOT_RECORDED, *([] if has_tail(task.objective) else ["draws"])):
        vectors.settings.pop(name, None)
    vectors.settings |= collapsed.record()
    vectors.facts |= {
        "collapsed": True,
        "final_loss": outcome.final_loss,
        "loss_unit": descent.loss_unit,
        **outcome.facts(),
        "epochs": outcome.epochs,
        "pairs": outcome.tally.pairs,
        "history": [dataclasses.asdict(iteration) for iteration in descent.history],
        "seconds": round(outcome.seconds, 3),
        "interrupted": outcome.interrupted_by is not None,
    }
    return vectors
