"""A run of word vectors: an encoded corpus in, a trained model out.

    resolve   `WordVectorsRun.resolved`: the vocabulary, the sampler and the remaining settings
    allocate  the tables of parameters and the workspaces of threads
    train     initial values, then the loop over chunks of `training/trainer.py`
    finish    the model, scored on held-out text

`reading.py` encodes the corpus.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy import float32, float64, ndarray

from embedx.engine import subwords
from embedx.engine.skipgram import SkipGramTables
from embedx.errors import EmbedxError, Setting
from embedx.evaluation.held_out import draw as draw_pairs, evaluate as evaluate_pairs
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MemoryPlan, allocating, available_memory, n_bytes, plan_memory
from embedx.runtime.progress import Progress
from embedx.runtime.random_streams import INITIAL_PARAMETERS
from embedx.samplers.contract import Sampler
from embedx.settings import Options, Record
from embedx.skipgram.configuration import Configuration
from embedx.skipgram.final_checks import (
    check_finite,
    compare_with_start,
    judge_on_held_out,
    warn_of_loss,
)
from embedx.skipgram.preparation import (
    check_has_pairs,
    note_text,
    only_one_word,
    prepared_sampler,
    select_vocabulary,
    with_held_out,
)
from embedx.skipgram.resolve import CountedText, resolve_settings, warn_of_rate
from embedx.skipgram.strategies import (
    SMALLER,
    BlockTraining,
    Frequencies,
    RetrievedBlockTraining,
    empty_tables,
)
from embedx.skipgram.trained_model import has_centred_vectors, trained_model
from embedx.text.cooccurrence import no_pair_kept
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.held_out import HeldOut, hold_out, n_pieces
from embedx.text.ngrams import encoded
from embedx.text.subsampling import TokenStream, context_words
from embedx.text.vocabulary import Vocabulary, keep_probability, kept_counts
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints, checksum
from embedx.training.life import DiskNeeds, Size
from embedx.training.outcome import Outcome
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally, Wrap
from embedx.vectors.model import WordVectors

# Initial values drawn at a time: 32 MB.
FLOATS_AT_A_TIME = 1 << 23
# Approximate size of a line of vocabulary.tsv.
BYTES_PER_WORD = 12


class EpochEnd(NamedTuple):
    """The argument of a callback.

    epoch    number of the epoch, from 1
    loss     mean loss per pair over the epoch, in the unit of `Objective.loss_unit`; None if there
             was no pair
    words    number of words of the vocabulary read in the epoch
    seconds  duration of training so far
    model    the current word vectors; arrays are copies, or views of the tables, which training
             changes later
    """

    epoch: int
    loss: float | None
    words: int
    seconds: float
    model: WordVectors


# Called after each epoch; training ends if it returns True.
Callback = Callable[[EpochEnd], object]


@dataclass(frozen=True)
class TrainedWordVectors:
    """Trained word vectors and how their training went."""

    model: WordVectors
    outcome: Outcome

    def without_state(self) -> "TrainedWordVectors":
        """The same without the memory that only training needed."""
        return replace(self, outcome=self.outcome.without_state())


@dataclass
class WordVectorsRun:
    """A run on an encoded corpus, with resolved settings.

    remap          int32 (n_types,): from provisional ids to the words of the vocabulary, -1 if left
                   out
    held_out_text  None without --heldout, which is the share of the text
    sampler        draws the candidates; with a search, during warm-up and for the rows that the
                   search does not find
    origins        reasons of settings that were chosen, by name
    snapshot       state to resume from: `outcome.state` of a run with the same configuration and
                   text
    callbacks      called after each epoch
    wrap           replaces the strategy of this machine by that of a cluster
    history        held-out log-likelihoods during the run
    """

    corpus: EncodedCorpus
    config: Configuration
    vocabulary: Vocabulary
    remap: ndarray
    held_out_text: HeldOut | None
    sampler: Sampler
    progress: Progress
    origins: dict[str, str] = field(default_factory=dict)
    snapshot: Options | None = None
    callbacks: Sequence[Callback] = ()
    wrap: Wrap | None = None
    history: list[Record] = field(default_factory=list)

    tables: SkipGramTables = field(init=False)
    strategy: BlockTraining = field(init=False)
    # int32 (n,), ascending: buckets of n-grams, whose rows follow those of the words
    buckets: ndarray = field(init=False)
    loss_unit: str = field(init=False, default="")
    # Held-out metrics of the model that training continues from.
    start_metrics: dict[str, float] | None = field(init=False, default=None)

    @classmethod
    def resolved(cls, corpus: EncodedCorpus, config: Configuration, progress: Progress) -> Self:
        """A run on an encoded corpus: its vocabulary is selected and its settings are resolved.

        Raises `EmbedxError` where the vocabulary is empty or no sentence has two words.
        """
        note_text(corpus, config, progress)
        vocabulary, remap = select_vocabulary(corpus, config, progress)
        held_out_text = None
        if config.settings.heldout > 0:
            held_out_text = hold_out(corpus.tokens, remap, config.settings.heldout, len(vocabulary))
            vocabulary = with_held_out(vocabulary, held_out_text)

        kept = kept_counts(vocabulary.trained_counts, config.vocabulary.sample)
        config.objective.prepare(kept)
        sampler = prepared_sampler(config, vocabulary, kept)
        run = cls(corpus, config, vocabulary, remap, held_out_text, sampler, progress)
        check_has_pairs(run.stream(), corpus, config.noun)
        if config.collapsed is None:
            warn_of_rate(config, progress)
        run._resolve_settings()
        return run

    def _resolve_settings(self) -> None:
        """Choose the settings that depend on the text."""
        text = CountedText(
            n_tokens=self.n_tokens,
            kept=self.kept,
            n_context=context_words(self.corpus.tokens, self.config.settings.window),
            sampler=self.sampler,
        )
        settings, self.origins = resolve_settings(self.config, text)
        self.config = replace(self.config, settings=settings)

    @property
    def kept(self) -> ndarray:
        """How often each word is expected to survive subsampling, int64 (n_words,)."""
        return kept_counts(self.vocabulary.trained_counts, self.config.vocabulary.sample)

    def size(self) -> Size:
        """The size of the tables."""
        n_buckets = len(self.buckets)
        ngrams = f" and {n_buckets:,} buckets" if n_buckets else ""
        rows = f"{len(self.vocabulary):,} {self.config.noun}s{ngrams}"
        return Size(f"{rows} × {self.config.settings.dim} numbers", SMALLER)

    def used_settings(self) -> Record:
        """The settings of the run that have an effect, by name."""
        return {"objective": self.config.objective.name, **self.config.record()}

    def data_size(self) -> dict[str, int]:
        """Numbers of tokens and words."""
        return {"tokens": self.corpus.n_tokens, "words": len(self.vocabulary)}

    def data_hash(self) -> str:
        """A hash of the encoded corpus and its vocabulary."""
        return "".join(f"{part:08x}" for part in self._checksums())

    def _checksums(self) -> list[int]:
        """The checksums of the tokens and of the words."""
        words = "\n".join(self.vocabulary.words).encode()
        return [checksum(self.corpus.tokens), zlib.crc32(words)]

    def identity(self) -> Record:
        """What decides the result, by which a resumed run is recognised."""
        settings = {
            name: value for name, value in self.config.record().items() if name != "threads"
        }
        identity: Record = {}
        if self.config.start is not None:
            identity["start"] = self.config.start.identity()
        return identity | {"corpus": self._checksums(), "settings": settings}

    @property
    def n_tokens(self) -> int:
        """The number of tokens of the corpus that are words of the vocabulary."""
        return int(self.corpus.counts[self.remap >= 0].sum())

    # ---- allocate

    @property
    def chosen_threads(self) -> int | None:
        """The number of threads, where it was chosen; None where it was given."""
        return self.config.settings.threads if "threads" in self.origins else None

    def lower_threads(self, threads: int) -> None:
        """Train with fewer threads, because the memory of more does not fit."""
        settings = replace(self.config.settings, threads=threads)
        self.config = replace(self.config, settings=settings)
        self.origins = {**self.origins, "threads": "memory of a thread"}

    def allocate(self) -> MemoryPlan:
        """Make tables of zeros, whose memory is taken when it is written to; the memory that
        training needs.

        Raises `EmbedxError` where they cannot be had.
        """
        self._allocate_tables()
        settings = self.config.settings
        tables = self.tables
        threads = Setting("threads", settings.threads)
        window = Setting("window", settings.window)
        purpose = (self.size().parameters, " with ", threads, " and ", window)
        with allocating(purpose, SMALLER):
            self.strategy = self.new_strategy()
        trained_arrays = {
            "vectors": (tables.inputs.rows, tables.outputs.rows),
            "optimizer": (tables.inputs[1:], tables.outputs[1:]),
            "objective": (tables.objective_state, tables.n_updates),
        }
        others: dict[str, Any] = {"subwords": (tables.parts, self.buckets)}
        if has_centred_vectors(self.config):
            others["centred vectors"] = (tables.inputs.rows,)
        return plan_memory({**trained_arrays, **self.strategy.memory(), **others}, trained_arrays)

    def _allocate_tables(self) -> None:
        parts, self.buckets = self._ngrams()
        n_words = len(self.vocabulary)
        n_buckets = len(self.buckets)
        config = self.config
        tables = empty_tables(config.objective, config.settings, self.sampler, n_words, n_buckets)
        self.tables = tables._replace(parts=parts)
        if config.start is not None:
            self.tables = config.start.with_flags(self.tables)

    def _ngrams(self) -> tuple[subwords.Parts, ndarray]:
        """The n-grams of each word, and their buckets; none without --subwords."""
        ngrams = self.config.settings.ngrams
        if ngrams is None:
            return subwords.NO_PARTS, np.zeros(0, np.int32)
        in_utf8 = [encoded(word) for word in self.vocabulary.words]
        need = subwords.listing_bytes(in_utf8, ngrams)
        plan = MemoryPlan({"n-grams": need}, 0, available_memory())
        remedy = ("lower ", Setting("max_vocab"), " or ", Setting("buckets"))
        plan.check(f"the n-grams of {len(self.vocabulary):,} words", remedy)
        return subwords.parts_of_words(in_utf8, ngrams)

    def new_strategy(self) -> BlockTraining:
        """What trains chunks of the text."""
        config = self.config
        training: Callable[..., BlockTraining] = BlockTraining
        if config.index is not None:
            training = partial(RetrievedBlockTraining, index_settings=config.index)
        kept_share = self.kept / max(int(self.vocabulary.trained_counts.sum()), 1)
        return training(
            config.objective,
            config.settings,
            self.sampler,
            self.tables,
            self.stream(),
            self.corpus.generated,
            Frequencies(kept_share, self.frequency_scores()),
        )

    def stream(self) -> TokenStream:
        """The corpus as training sees it."""
        counts = self.vocabulary.trained_counts
        probability = keep_probability(counts, self.config.vocabulary.sample).astype(float64)
        is_word = self.remap >= 0
        keep = np.zeros(len(self.remap), np.uint32)
        keep[is_word] = np.minimum(probability * 2**32, 2**32 - 1)[self.remap[is_word]]
        if self.held_out_text is None:
            held_out_pieces = np.zeros(n_pieces(self.corpus.tokens), np.uint8)
        else:
            held_out_pieces = self.held_out_text.pieces
        return TokenStream(self.corpus.tokens, self.remap, keep, held_out_pieces)

    def frequency_scores(self) -> ndarray:
        """(n_outputs,): scores by which the objective predicts how often each word occurs."""
        kept = self.kept
        return self.config.objective.initial_bias(kept / kept.sum(), self.sampler.noise)

    def on_disk(self, plan: MemoryPlan) -> DiskNeeds:
        """Bytes of the model's folder, and of the run's state in a checkpoint."""
        tables = self.tables
        settings = self.config.settings
        n_words = len(self.vocabulary)
        n_outputs = len(tables.outputs.rows)
        n_rows = n_words + n_outputs
        if settings.ngrams is not None:
            n_rows += len(tables.inputs.rows)  # vectors are saved beside their parts
        n_numbers = n_rows * settings.dim + len(self.buckets) + n_outputs
        trained_arrays = (tables.inputs, tables.outputs, tables.objective_state, tables.n_updates)
        return DiskNeeds(
            model=4 * n_numbers + n_words * BYTES_PER_WORD,
            state=n_bytes(trained_arrays),
        )

    # ---- train

    def train(self, plan: MemoryPlan, checkpoints: Checkpoints | None) -> Outcome:
        """Train the tables from their initial values, in place."""
        self.initialise()
        if self.config.start is not None and self.held_out_text is not None:
            self.start_metrics = self.held_out_metrics()
        strategy: Strategy = self.strategy
        if self.wrap is not None:
            strategy = self.wrap(strategy)
        if checkpoints is not None:
            checkpoints.begin(lambda: self.identity() | strategy.identity())
        settings = self.config.settings
        self.loss_unit = strategy.loss_unit
        history_state = TrainState()
        if settings.heldout_points:
            history_state.add_attribute("task.history", self, "history")
        is_watched = bool(self.callbacks or settings.heldout_points)
        return trainer.train(
            strategy,
            self._schedule(strategy.n_chunks),
            self.progress,
            after_epoch=self._after_epoch if is_watched else None,
            snapshot=self.snapshot,
            extra_state=history_state,
            checkpoints=checkpoints,
            plan=plan,
        )

    def initialise(self) -> None:
        """Write to tables of zeros what training starts from: inputs uniform in ±1/(2 dim), outputs
        zero but for biases; and the rows of a model that it continues from.
        """
        settings = self.config.settings
        inputs = self.tables.inputs.rows
        dim = settings.dim
        _write_uniform(inputs[:, :dim], settings.seed)
        if settings.bias != "none":
            inputs[:, dim] = 1
        if settings.bias == "frequency":
            self.tables.outputs.rows[:, dim] = self.frequency_scores()
        if self.config.start is not None:
            self.config.start.write(
                self.tables, self.vocabulary.words, self.config.objective, settings, self.buckets
            )

    def _schedule(self, n_chunks: int) -> Schedule:
        """The schedule of training on this many chunks an epoch, without the held-out text."""
        settings = self.config.settings
        n_words = self.n_tokens
        if self.held_out_text is not None:
            n_words -= int(self.held_out_text.counts.sum())
        return Schedule(
            float(settings.learning_rate or 0),
            n_chunks,
            n_words,
            settings.epochs,
            settings.time_budget,
            unit=f"{self.config.noun}s",
        )

    def _after_epoch(self, epoch: int, tally: Tally, seconds: float) -> bool:
        """Score the held-out text and call the callbacks. Returns whether one returned True, which
        ends the training; an answer that is no bool does not.
        """
        points = self.config.settings.heldout_points
        if points:
            self._score_held_out(epoch + 1, seconds, points)
        end = EpochEnd(epoch + 1, tally.mean_loss, tally.items, seconds, self.word_vectors(None))
        answers = [callback(end) for callback in self.callbacks]
        booleans = [answer for answer in answers if isinstance(answer, bool | np.bool_)]
        return any(booleans)

    def _score_held_out(self, epochs: int, seconds: float, points: int) -> None:
        """Report the held-out log-likelihood after this number of epochs and seconds, if one of
        the points of the run is passed.
        """
        settings = self.config.settings
        last = self.history[-1] if self.history else {"epoch": 0, "seconds": 0.0}
        if settings.time_budget is None:
            share_done = epochs / settings.epochs
            share_scored = last["epoch"] / settings.epochs
        else:
            share_done = seconds / settings.time_budget
            share_scored = last["seconds"] / settings.time_budget
        # The end of the run is scored anyway.
        if share_done >= 1 or int(share_done * points) == int(share_scored * points):
            return
        log_likelihood = self.held_out_metrics()["log_likelihood"]
        self.progress.note(f"epoch {epochs}: held-out log-likelihood {log_likelihood:.4f}")
        point = {"epoch": epochs, "seconds": round(seconds, 3), "log_likelihood": log_likelihood}
        self.history.append(point)

    def held_out_metrics(self) -> dict[str, float]:
        """The likelihood of the held-out text; see `embedx.evaluation.held_out`."""
        vectors = self.word_vectors(None)
        assert self.held_out_text is not None
        pairs, calibration = draw_pairs(
            self.held_out_text.words,
            self.held_out_text.sentences,
            vectors,
            groups=self.held_out_text.spans,
        )
        return evaluate_pairs(vectors, pairs, calibration).metrics()

    # ---- finish

    def _why_untrained(self) -> EmbedxError:
        """The error of a run that went through words and found nothing to train on."""
        if len(self.vocabulary) == 1:
            return only_one_word(self.corpus, self.config.noun)
        return no_pair_kept()

    def finish(self, outcome: Outcome) -> TrainedWordVectors:
        """The trained word vectors, scored on the held-out text."""
        outcome.check_trained(self._why_untrained() if outcome.tally.items else None)
        rate = self.config.settings.learning_rate
        to_the_end(lambda: check_finite(self.tables, rate))
        vectors = to_the_end(lambda: self.word_vectors(outcome))
        if self.held_out_text is None:
            warn_of_loss(outcome, self.config, self.corpus, self.progress)
        elif outcome.interrupted_by is None:
            metrics = to_the_end(self.held_out_metrics)
            vectors.facts["heldout"] = metrics
            if self.start_metrics is not None:
                compare_with_start(metrics, self.start_metrics, self.progress)
            if self.config.objective.traits.calibrated and outcome.divergence is None:
                outcome.divergence = judge_on_held_out(metrics, outcome, rate, self.progress)
        return TrainedWordVectors(vectors, outcome)

    def word_vectors(self, outcome: Outcome | None) -> WordVectors:
        """What was learned so far, as views of the tables; word vectors that are centred, or means
        of rows, are new.
        """
        return trained_model(self, outcome)


def _write_uniform(vectors: ndarray, seed: int) -> None:
    """Write initial vectors, float32 (n, dim), uniform in ±1/(2 dim). It is done by blocks, so that
    no second table is ever in memory.
    """
    n_rows, dim = vectors.shape
    rng = np.random.default_rng([seed, INITIAL_PARAMETERS])
    step = max(1, min(65536, FLOATS_AT_A_TIME // dim))
    for start in range(0, n_rows, step):
        block = vectors[start : start + step]
        block[:] = (rng.random(block.shape, dtype=float32) - float32(0.5)) / float32(dim)
