"""The task of word vectors: from corpora to a trained model, one call.

corpora -> encoded tokens -> vocabulary -> [engine: blocks of text] -> model
"""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy import float32, float64, ndarray

from embedx.engine import skipgram as engine, subwords
from embedx.errors import DataError, DivergedError, Setting
from embedx.evaluation import heldout
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MemoryPlan, allocating, available_memory, n_bytes, plan_memory
from embedx.runtime.progress import SILENT, Progress
from embedx.samplers.contract import Sampler
from embedx.settings import Options, Record, as_typed
from embedx.skipgram.configuration import Configuration
from embedx.skipgram.resolve import CountedText, resolve, warn_of_rate
from embedx.skipgram.strategies import SMALLER, RetrievedStream, Streamed, empty_tables
from embedx.text.cooccurrence import no_pair_kept
from embedx.text.encode import Corpora, encode
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.heldout import HeldOut, hold_out, n_pieces
from embedx.text.ngrams import encoded
from embedx.text.phrase_list import Phrases
from embedx.text.phrases import phrases_of
from embedx.text.segmentation import advice as unsegmented
from embedx.text.settings import PhraseSettings
from embedx.text.subsampling import TokenStream, context_words, has_pairs
from embedx.text.vocabulary import Vocabulary, keep_probability, kept_counts, listed, select
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints, checksum
from embedx.training.guard import SLACK
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally
from embedx.vectors import model
from embedx.vectors.subwords import Subwords

INITIAL = 2**32  # the place of the initial vectors among a seed's random numbers
INITIAL_FLOATS = 1 << 23  # drawn at a time
MAX_SOURCES = 20  # whose names a model keeps
BYTES_PER_WORD = 12  # with its count, in a model's folder, about


class EpochEnd(NamedTuple):
    """The argument of a callback."""

    epoch: int  # from 1
    loss: float | None  # mean per pair over the epoch, in nats; None if there was no pair
    words: int  # of the vocabulary that were read in it
    seconds: float  # of training so far
    model: model.WordVectors  # as it is now: views of tables that training changes later


# called after each epoch; what returns True ends the training
Callback = Callable[[EpochEnd], object]


@dataclass(frozen=True)
class TrainedVectors:
    """A trained model and how its training went."""

    vectors: model.WordVectors
    outcome: trainer.Outcome


@dataclass
class Task:
    """A run with everything decided."""

    corpus: EncodedCorpus
    config: Configuration  # whose settings are resolved
    words: Vocabulary
    remap: ndarray
    heldout: HeldOut | None
    sampler: Sampler  # where a search finds candidates, what draws until it can
    tables: engine.SkipGramTables
    buckets: ndarray  # int32 (n,), ascending: those of n-grams, whose rows follow the words'
    progress: Progress
    plan: MemoryPlan | None = None  # of memory
    loss_unit: str = ""
    origins: dict[str, str] = field(default_factory=dict)  # why settings were chosen, by name
    history: list[Record] = field(default_factory=list)  # held-out log-likelihoods, sums by span

    @property
    def kept(self) -> ndarray:
        """How often each word is expected to survive subsampling, int64 (n_words,)."""
        return kept_counts(self.words.trained_counts, self.config.vocabulary.sample)

    @property
    def size(self) -> str:
        """The size of the tables, for people."""
        of_ngrams = f" and {len(self.buckets):,} buckets" if len(self.buckets) else ""
        return f"{len(self.words):,} words{of_ngrams} × {self.config.settings.dim} numbers"

    def identity(self) -> Record:
        """What decides the result, by which a resumed run is recognised."""
        start = self.config.start
        return {
            **({"start": start.identity()} if start else {}),
            "corpus": [
                checksum(self.corpus.tokens),
                zlib.crc32("\n".join(self.words.words).encode()),
            ],
            "settings": {
                name: value for name, value in self.config.record().items() if name != "threads"
            },
        }

    # ---- before training

    def stream(self) -> TokenStream:
        """The corpus as training sees it."""
        keep = np.zeros(len(self.remap), np.uint32)
        chance = keep_probability(self.words.trained_counts, self.config.vocabulary.sample).astype(
            float64
        )
        keep[self.remap >= 0] = np.minimum(chance * 2**32, 2**32 - 1)[self.remap[self.remap >= 0]]
        held_out = (
            self.heldout.pieces
            if self.heldout
            else np.zeros(n_pieces(self.corpus.tokens), np.uint8)
        )
        return TokenStream(self.corpus.tokens, self.remap, keep, held_out)

    def memory_plan(self) -> MemoryPlan:
        """What the run needs, before its tables are written to.

        Raises `EmbedxError` where even the workspaces of its threads cannot be allocated.
        """
        tables, settings = self.tables, self.config.settings
        threads = Setting("threads", settings.threads)
        window = Setting("window", settings.window)
        with allocating((self.size, " with ", threads, " and ", window), SMALLER):
            of_training = self.strategy().memory()
        state = {
            "vectors": (tables.inputs.rows, tables.outputs.rows),
            "optimizer": (tables.inputs[1:], tables.outputs[1:]),
            "objective": (tables.state, tables.n_updates),
        }
        return plan_memory(
            {**state, **of_training, "subwords": (tables.parts, self.buckets)}, state
        )

    def on_disk(self) -> tuple[int, int]:
        """Bytes of the model's folder, and of the run's state in a checkpoint."""
        tables, settings, n_words = self.tables, self.config.settings, len(self.words)
        n_rows = n_words + len(tables.outputs.rows)
        if settings.ngrams is not None:  # the words' own parts beside their vectors
            n_rows += len(tables.inputs.rows)
        numbers = n_rows * settings.dim + len(self.buckets) + len(tables.outputs.rows)
        return 4 * numbers + n_words * BYTES_PER_WORD, n_bytes(
            (tables.inputs, tables.outputs, tables.state, tables.n_updates)
        )

    def initialise(self) -> None:
        """Write to tables of zeros what training starts from: inputs uniform in ±1/(2 dim), outputs
        zero but for biases; and the rows of a model that it continues from.
        """
        settings, inputs, outputs = (
            self.config.settings,
            self.tables.inputs.rows,
            self.tables.outputs.rows,
        )
        dim, rng = settings.dim, np.random.default_rng([settings.seed, INITIAL])
        # by blocks, so that no second table is ever in memory
        step = max(1, min(65536, INITIAL_FLOATS // dim))
        for start in range(0, len(inputs), step):
            block = inputs[start : start + step, :dim]
            block[:] = (rng.random(block.shape, dtype=float32) - float32(0.5)) / float32(dim)
        if settings.bias != "none":
            inputs[:, dim] = 1
        if settings.bias == "frequency":
            outputs[:, dim] = self.frequency_scores()
        if self.config.start is not None:
            self.tables = self.config.start.write(
                self.tables, self.words.words, self.config.objective, settings, self.buckets
            )

    def frequency_scores(self) -> ndarray:
        """(n_rows,): scores by which the objective predicts how often each word occurs."""
        return self.config.objective.initial_bias(self.kept / self.kept.sum(), self.sampler.noise)

    # ---- training

    def strategy(self) -> Streamed:
        """How its chunks are trained."""
        kind = RetrievedStream if self.config.retrieves else Streamed
        made = self.corpus.generated
        found = kind(
            self.config.objective,
            self.config.settings,
            self.sampler,
            self.tables,
            self.stream(),
            made,
        )
        found.frequency_scores = self.frequency_scores()
        return found

    def run(
        self,
        strategy: Strategy,
        snapshot: Options | None = None,
        checkpoints: Checkpoints | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> trainer.Outcome:
        """Train the tables in place; `snapshot` is of the state of a run that was set up alike, to
        resume.
        """
        if checkpoints is not None:
            checkpoints.identify(lambda: self.identity() | strategy.identity())
        settings, state, self.loss_unit = self.config.settings, TrainState(), strategy.loss_unit
        if settings.heldout_points:
            state.add_attribute("task.history", self, "history")

        def after_epoch(epoch: int, tally: Tally, seconds: float) -> bool:
            if settings.heldout_points:
                self._score_heldout(epoch + 1, seconds, settings.heldout_points)
            end = EpochEnd(epoch + 1, tally.mean_loss, tally.words, seconds, self.model(None))
            answers = [each(end) for each in callbacks]
            return any(isinstance(each, bool | np.bool_) and bool(each) for each in answers)

        n_words = int(self.corpus.counts[self.remap >= 0].sum()) - (
            int(self.heldout.counts.sum()) if self.heldout else 0
        )
        rate = float(settings.learning_rate or 0)
        schedule = Schedule(rate, strategy.n_chunks, n_words, settings.epochs, settings.time_budget)
        watch = after_epoch if callbacks or settings.heldout_points else None
        return trainer.run(
            strategy, schedule, self.progress, watch, snapshot, state, checkpoints, plan=self.plan
        )

    def _score_heldout(self, epochs: int, seconds: float, points: int) -> None:
        """Report the held-out log-likelihood after so many epochs and seconds, if one of the points
        of the run is passed.
        """
        settings, last = (
            self.config.settings,
            self.history[-1] if self.history else {"epoch": 0, "seconds": 0.0},
        )
        now, before = epochs / settings.epochs, last["epoch"] / settings.epochs
        if settings.time_budget is not None:
            now, before = seconds / settings.time_budget, last["seconds"] / settings.time_budget
        # the end of the run is scored anyway
        if now < 1 and int(now * points) > int(before * points):
            found = self.heldout_metrics()["log_likelihood"]
            self.progress.note(f"epoch {epochs}: held-out log-likelihood {found:.4f}")
            self.history.append(
                {"epoch": epochs, "seconds": round(seconds, 3), "log_likelihood": found}
            )

    def heldout_metrics(self) -> dict[str, float]:
        """How likely what was learned so far finds the text that was held out; see
        `embedx.evaluation.heldout`.
        """
        vectors = self.model(None)
        assert self.heldout is not None
        pairs, calibration = heldout.draw(
            self.heldout.words, self.heldout.sentences, vectors, groups=self.heldout.spans
        )
        return heldout.evaluate(vectors, pairs, calibration).metrics()

    # ---- the model

    def model(self, outcome: trainer.Outcome | None) -> model.WordVectors:
        """What was learned so far, as views of the tables; word vectors that are means of rows are
        new.
        """
        settings, tables, start, dim = (
            self.config.settings,
            self.tables,
            self.config.start,
            self.config.settings.dim,
        )
        arrays = {
            "input": engine.input_vectors(tables)[:, :dim],
            "output": tables.outputs.rows[:, :dim],
        }
        subwords = None
        if settings.ngrams is not None:
            own, of_buckets = np.split(tables.inputs.rows[:, :dim], [len(self.words)])
            arrays |= {"word_part": own, "ngram": of_buckets, "ngram_bucket": self.buckets}
            subwords = Subwords(settings.ngrams, of_buckets, self.buckets)
        if settings.bias != "none":
            arrays["bias"] = tables.outputs.rows[:, dim]
        if self.words.held_out is not None:
            arrays["heldout_counts"] = self.words.held_out
        sources = [each["name"] for each in self.corpus.report["sources"] if not each["skipped"]][
            :MAX_SOURCES
        ]
        facts = {
            "objective": self.config.objective.name,
            "corpus": self.corpus.key,
            "sources": sources,
            "corpus_tokens": self.corpus.n_tokens,
            "words": len(self.words),
        }
        if start is not None:
            facts |= {
                "words_kept": len(start.model),
                "words_added": len(self.words) - len(start.model),
            }
        if outcome is not None:
            tally, seconds = outcome.tally, outcome.seconds
            facts |= {"pairs_trained": tally.pairs, **outcome.facts(self.loss_unit)}
            if self.config.collapsed is None:
                facts |= {
                    "words_trained": tally.words,
                    "words_per_second": round(tally.words / max(seconds, 1e-9)),
                }
        if self.origins:
            facts["chosen"] = self.origins
        if self.history:
            facts["history"] = self.history
        return model.WordVectors(
            self.words.words,
            arrays,
            counts=self.words.counts,
            settings=self.config.record(),
            facts=facts,
            phrases=phrases_of(self.corpus),
            subwords=subwords,
        )


def train(
    corpora: Corpora,
    config: Configuration,
    *,
    progress: Progress = SILENT,
    cache_dir: Path | None = None,
    snapshot: Options | None = None,
    checkpoints: Checkpoints | None = None,
    callbacks: Iterable[Callback] = (),
    wrap: Callable[[Task], Strategy] | None = None,
) -> TrainedVectors:
    """Word vectors of `corpora`: what the command line takes (paths, globs, URLs, recipes, "-"), or
    an iterable of token lists.

    snapshot     of the `outcome.state` of a run with the same configuration on the same corpora, to
                 resume
    checkpoints  keep its state on disk
    callbacks    are called after each epoch, and may end the training
    wrap         makes the strategy that trains a prepared run, in place of its own, with one
                 thread's memory here
    Raises `EmbedxError` for what the user can mend and `DivergedError` when training diverges, at
    lower rates too, with nothing learned. Where something was, that is returned, with the reason in
    the outcome; Ctrl-C likewise ends the training early with what was learned so far, and is raised
    if that is nothing.
    """
    with encoded_corpus(corpora, config, progress, cache_dir) as corpus:
        if wrap is not None:
            config = replace(config, settings=replace(config.settings, threads=1))
        task = prepared(corpus, config, progress)
        task.plan = task.memory_plan()
        task.plan.check(task.size, SMALLER)
        if checkpoints is not None:
            checkpoints.check_disk(*task.on_disk())
        task.initialise()
        strategy = wrap(task) if wrap is not None else task.strategy()
        outcome = task.run(strategy, snapshot, checkpoints, tuple(callbacks))
        outcome.check_trained(no_pair_kept() if outcome.tally.words else None)
        to_the_end(lambda: _check_finite(task))
        vectors = task.model(outcome)
        if task.heldout is not None and outcome.interrupted_by is None:
            found = vectors.facts["heldout"] = to_the_end(task.heldout_metrics)
            if config.objective.calibrated and outcome.diverged is None:
                outcome.diverged = _check_heldout(found, task, outcome)
    return TrainedVectors(vectors, outcome)


def encoded_corpus(
    corpora: Corpora, config: Configuration, progress: Progress, cache_dir: Path | None
) -> EncodedCorpus:
    """The corpora as token ids, with collocations joined: those found in them, or those of the
    model to start from; or walks over the graph that they are.
    """
    if config.graph is not None:
        from embedx.graphs.walks import walks_of  # imported here, because few runs have any

        return walks_of(
            corpora,
            config.graph,
            config.settings,
            progress,
            cache_dir,
            is_stored=config.collapsed is not None,
            edge_separator=config.text.edge_separator,
        )
    phrases: PhraseSettings | Phrases | None = config.phrases
    if config.start is not None and config.start.objective is not None:
        phrases = config.start.model.phrases
    return encode(
        corpora, config.text, progress, cache_dir, phrases, threads=config.settings.threads
    )


def prepared(corpus: EncodedCorpus, config: Configuration, progress: Progress) -> Task:
    """A run on an encoded corpus with everything decided; its tables are of zeros, and take no
    memory yet.

    Raises `EmbedxError` where the vocabulary is empty or the tables cannot be had.
    """
    objective, settings, vocabulary, start = (
        config.objective,
        config.settings,
        config.vocabulary,
        config.start,
    )
    if settings.subwords is None and config.graph is None and (advice := unsegmented(corpus)):
        progress.note(advice)
    form = config.text.normalize
    if start:
        words, remap = start.vocabulary(corpus, vocabulary)
    else:
        words, remap = select(corpus, vocabulary, form)
    n_tokens = int(corpus.counts[remap >= 0].sum())
    if objective.words_caution:
        progress.note(
            "warning: ", Setting("objective", objective.name), f": {objective.words_caution}"
        )
    progress.note(f"vocabulary: {len(words):,} words, {n_tokens:,} of {corpus.n_tokens:,} tokens")
    if vocabulary.vocab is not None:
        missing = set(listed(vocabulary.vocab, form)) - set(words.words)
        progress.note(
            Setting("vocab", vocabulary.vocab),
            f": {len(missing):,} of its words are not in the text",
        )
    if start is not None:
        progress.note(start.summary(corpus, words, objective, settings.bias != "none"))
    held_out = (
        hold_out(corpus.tokens, remap, settings.heldout, len(words))
        if settings.heldout > 0
        else None
    )
    if held_out:
        of_start = 0 if words.held_out is None else words.held_out
        words = replace(words, held_out=held_out.counts + of_start)
    kept = kept_counts(words.trained_counts, vocabulary.sample)
    objective.prepare(kept)
    sampler = config.new_sampler()
    sampler.prepare(
        kept if config.draws_kept_words else words.trained_counts, paths=objective.paths()
    )
    origins: dict[str, str] = {}
    if config.collapsed is None:
        n_context = context_words(corpus.tokens, settings.window)
        settings, origins = resolve(config, CountedText(n_tokens, kept, n_context, sampler))
        warn_of_rate(settings, objective, progress)
        for name, reason in origins.items():
            value = as_typed(getattr(settings, name))
            progress.detail(f"{name.replace('_', '-')}={value}, chosen: {reason}")
    else:
        settings = replace(settings, threads=settings.threads or trainer.usable_cores())
    parts, buckets = subwords.NO_PARTS, np.zeros(0, np.int32)
    if settings.ngrams is not None:
        in_utf8 = [encoded(word) for word in words.words]
        need = subwords.listing_bytes(in_utf8, settings.ngrams)
        plan = MemoryPlan({"n-grams": need}, 0, available_memory())
        remedy = ("lower ", Setting("max_vocab"), " or ", Setting("buckets"))
        plan.check(f"the n-grams of {len(words):,} words", remedy)
        parts, buckets = subwords.listed(in_utf8, settings.ngrams)
    tables = empty_tables(objective, settings, len(words), len(buckets))._replace(parts=parts)
    config = replace(config, settings=settings)
    task = Task(
        corpus,
        config,
        words,
        remap,
        held_out,
        sampler,
        tables,
        buckets,
        progress,
        origins=origins,
    )
    if not has_pairs(task.stream()):
        names = [source["name"] for source in corpus.report["sources"]]
        problem = "no sentence has two words of the vocabulary, so there is nothing to train on"
        write = "write sentences of several words, one a line, or lower "
        lower = (write, Setting("min_count"))
        raise DataError(names[0] if names else "corpora", None, problem, lower)
    return task


def _check_finite(task: Task) -> None:
    """Raise `DivergedError` if a parameter is not finite."""
    if not all(
        np.isfinite(table.rows.sum(dtype=float64))
        for table in (task.tables.inputs, task.tables.outputs)
    ):
        rate = task.config.settings.learning_rate
        remedy = ("try a smaller ", Setting("learning_rate"), f" than {rate:g}")
        raise DivergedError("vectors are no longer finite at the end of training", remedy)


def _check_heldout(
    found: Mapping[str, float], task: Task, outcome: trainer.Outcome
) -> DivergedError | None:
    """That the run diverged, if its model predicts held-out text worse than word frequencies do
    after its rate was lowered, or far worse; a warning if it is no better, or only by scores
    divided by a temperature.
    """
    best, unigram = max(found["log_likelihood"], found["calibrated"]), found["unigram"]
    if best > unigram:
        if found["log_likelihood"] <= unigram:
            task.progress.note(
                "warning: the model does not beat the unigram baseline on held-out text"
                f" ({found['log_likelihood']:.4f} and {unigram:.4f} nats a pair) unless its scores"
                f" are divided by a temperature ({best:.4f}): its probabilities are overconfident;"
                " try a smaller ",
                Setting("learning_rate"),
            )
        return None
    rate = [float(task.config.settings.learning_rate or 0), *outcome.lowered_rates][-1]
    lowered = ", to which the run was lowered" if outcome.lowered_rates else ""
    problem = (
        f"at the learning rate {rate:.3g}{lowered}, the model does not beat the unigram baseline on"
        f" held-out text ({best:.4f} and {unigram:.4f} nats a pair)"
    )
    remedy = ("try another ", Setting("learning_rate"))
    if outcome.lowered_rates or found["log_likelihood"] < unigram - SLACK:
        return DivergedError(problem, remedy)
    task.progress.note("warning: ", problem, "; ", remedy, ", or more ", Setting("epochs"))
    return None
