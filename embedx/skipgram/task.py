"""The task of word vectors: from corpora to a trained model, one call.

corpora -> encoded tokens -> vocabulary -> [engine: blocks of skip-gram pairs] -> model
"""

import dataclasses
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from embedx import objectives, optimizers, samplers
from embedx.engine import skipgram as engine
from embedx.engine import subwords
from embedx.engine.settings import MOST_RATE, TrainingSettings, check_sampler
from embedx.errors import DivergedError, EmbedxError
from embedx.evaluation import heldout
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import COLLAPSED, WORDS, Optimizer, new_table
from embedx.run import trainer
from embedx.run.checkpoint import Checkpoints, checksum
from embedx.run.guard import Guard
from embedx.run.interrupts import to_the_end
from embedx.run.memory import Plan, amount, available_memory, memory_taken, n_bytes, plan_memory
from embedx.run.progress import Progress, Silent
from embedx.run.rounds import InRounds
from embedx.run.state import TrainState
from embedx.run.strategy import Strategy
from embedx.run.tally import Tally
from embedx.samplers.contract import Sampler
from embedx.settings import (
    PhraseSettings,
    Settings,
    StartSettings,
    TextSettings,
    VocabularySettings,
    by_present_names,
    check_phrase_settings,
    check_used,
    check_vocabulary_settings,
    fraction,
    param,
    settings_of,
)
from embedx.skipgram.fitted import FittedStream
from embedx.skipgram.start import Start, started
from embedx.skipgram.strategies import RetrievedStream, Streamed
from embedx.text import cache
from embedx.text.encode import Corpora, encode
from embedx.text.heldout import HeldOut, hold_out, n_chunks
from embedx.text.joined import Phrases
from embedx.text.ngrams import MOST_BUCKETS, NGrams, encoded, ngrams
from embedx.text.phrases import phrases_of
from embedx.text.subsampling import WHOLE_SENTENCE, TokenStream, context_words
from embedx.text.vocabulary import Vocabulary, kept_counts, listed, select
from embedx.vectors import model
from embedx.vectors.model import WordVectors
from embedx.vectors.subwords import Subwords

INITIAL = 2**32  # the place of the initial vectors among a seed's random numbers
INITIAL_FLOATS = 1 << 23  # drawn at a time
MANY_WORDS = 20_000
OF_TABLES = ("vectors", "optimiser", "objective")  # what is copied, to go back to
LATER = ("saving", "testing")  # what comes when training is over
SMALLER = "lower --dim or --max-vocab"  # where memory is short
MOST_SOURCES = 20  # whose names a model keeps
BYTES_PER_LINE = 12  # of a word and its count in a model's folder, about
COUNT_BYTES = 8
BYTES_PER_WORD = 150  # while a vocabulary is checked and written
OUT_OF_HAND = 100.0  # a loss so many times the first is that of a run that diverged, be it finite
PREFERRED = ("search", "unigram")  # samplers, before those that an objective has in mind for labels
# A drawn word stands for negatives × pairs / draws of a block's pairs and moves by all of them at once. Word similarity and
# analogies are best up to 8 (learning rate 0.04, 100 MB of Wikipedia), slightly worse at 15, worse at 30; 60 diverges.
PAIRS_PER_DRAW = 7.5
MOST_DRAWS = 1024
BUCKETS = 2_000_000  # fastText's default
# What suits words with n-grams where an optimiser whose rate stops falling suits those without: an n-gram is met by far more
# words than a word, and the mean moves by the mean of its parts' rates. `ns` on 10 MB of Wikipedia, 5 epochs, similarity over
# five sets and held-out log-likelihood: bounded-adagrad at 2 .277, -8.820, at 5 .292, -8.955; rowwise-adagrad at 1.5 .267,
# -8.817, at 3 .323, -8.813, at 6 .315, -8.919. (With the gradient divided by the root of the number of parts bounded-adagrad at
# 2 has .305, -8.802, rowwise-adagrad at 4 .314, -8.841; that sgd would then be too slow is why it is not.)
OF_SUBWORDS = {"optimizer": "rowwise-adagrad", "learning_rate": 3.0}
# Nor may a block bring more than this many pairs to the most frequent word's row, which matters for vocabularies of some dozen
# words: there a block of 16 centres holds each of them many times.
PAIRS_PER_ROW = 30


def distance(text: str) -> int:
    """What `--window` says. Raises `EmbedxError` if it is no number, and not `all`."""
    try:
        return WHOLE_SENTENCE if text == "all" else int(text)
    except ValueError:
        raise EmbedxError(f"--window {text}: not a whole number; write 5, or all") from None


@dataclasses.dataclass(frozen=True)
class SkipGramSettings(TrainingSettings):
    """How skip-gram trains, whatever the objective."""

    dim: int = param(100, "dimension of the word vectors", at_least=1, panel="Model")
    window: int = param(
        5,
        "maximum distance between centre and context word, in kept words; each centre's own window is drawn between 1 and "
        f"this; `all`, which is {WHOLE_SENTENCE}, draws none: all other words of a sentence are context, so far",
        at_least=1,
        at_most=WHOLE_SENTENCE,  # a block has the rows of a whole window, and Ctrl-C waits for a stretch of them
        parse=distance,
        panel="Model",
    )
    optimizer: str = param(
        "rowwise-adagrad",
        f"optimiser: {optimizers.meanings(WORDS, COLLAPSED)}",
        choices=optimizers.taken_by(WORDS, COLLAPSED),
    )
    learning_rate: float | None = param(
        None,
        f"learning rate at the start; falls linearly to zero over the run; by default {optimizers.usual_rates(WORDS)}",
        above=0.0,
        at_most=MOST_RATE,
    )
    bias: str = param(
        "frequency",
        "initial value of the output rows' biases: `frequency` predicts how often each word occurs; `none` trains no biases",
        choices=("frequency", "zero", "none"),
        panel="Model",
    )
    block_size: int = param(
        8,
        "consecutive centre words that are trained together and share their noise words; 0 draws noise for each "
        "pair separately",
        at_least=0,
        at_most=64,
        formerly="share",
    )
    fit_after: float = param(
        0.5,
        "passes over the corpus by other noise before a sampler that depends on the input word is fitted to the vectors; it is "
        "fitted anew after as many again, unless predictions are corrected for the noise",
        at_least=0.0,
    )
    draws: int | None = param(
        None,
        "noise words drawn for each block, with --collapsed for each input; by default enough to keep each update small",
        at_least=1,
        at_most=MOST_DRAWS,
    )
    shuffle: bool = param(
        True,
        "train on stretches of 10,000 tokens in an order drawn anew for each epoch, so that a corpus sorted by subject or date "
        "is learned evenly; otherwise in the order of the corpus",
    )
    subwords: str | None = param(
        None,
        "lengths of character n-grams, such as 3-6: a word's vector is the mean of a vector of its own and of those of its "
        "n-grams, so that words which were never seen have one too",
    )
    buckets: int | None = param(
        None,
        f"with --subwords: how many vectors n-grams are hashed to; by default {BUCKETS:,}, of which those that the vocabulary "
        "meets take memory",
        at_least=1,
        at_most=MOST_BUCKETS,
    )
    heldout: float = param(
        0.0,
        "fraction of the corpus that is left out of training, such as 0.1%, in a few dozen contiguous spans, beside a border "
        "about each; its log-likelihood is reported at the end",
        at_least=0.0,
        at_most=0.5,
        parse=fraction,
        panel="Held-out text",
    )
    heldout_every: int | None = param(None, "also report it after every N epochs", at_least=1, panel="Held-out text")
    heldout_points: int | None = param(
        None,
        "also report it about N times over the run, at ends of epochs; the model's `history` has the values",
        at_least=1,
        panel="Held-out text",
    )

    @property
    def ngrams(self) -> NGrams | None:
        """The n-grams that words have; None without. Raises `EmbedxError` if `subwords` are no lengths."""
        return ngrams(self.subwords, self.buckets or BUCKETS) if self.subwords is not None else None


class EpochEnd(NamedTuple):
    """What a callback hears after an epoch."""

    epoch: int  # from 1
    loss: float | None  # mean per pair over the epoch, in nats; None if there was no pair
    words: int  # of the vocabulary that were read in it
    seconds: float  # of training so far
    model: WordVectors  # as it is now: views of tables that training goes on to change


Callback = Callable[[EpochEnd], object]  # what returns True ends the training


@dataclasses.dataclass(frozen=True)
class TrainedVectors:
    """A trained model and how its training went."""

    vectors: model.WordVectors
    outcome: trainer.Outcome


def train(
    corpora: Corpora,
    objective: Objective,
    settings: SkipGramSettings,
    *,
    sampler_options: Mapping[str, Any] | None = None,
    text: TextSettings | None = None,
    vocabulary: VocabularySettings | None = None,
    phrases: PhraseSettings | None = None,
    start: Start | None = None,
    progress: Progress | None = None,
    cache_dir: Path | None = None,
    snapshot: Mapping[str, Any] | None = None,
    checkpoints: Checkpoints | None = None,
    callbacks: Iterable[Callback] = (),
) -> TrainedVectors:
    """Word vectors of `corpora`: what the command line takes (paths, globs, URLs, recipes, "-"), or an iterable of token lists.

    `sampler_options` are settings of the sampler's own, by name; `start` is a model to go on from, with which `phrases` must be
    as its `joining` says; `snapshot`, of the `outcome.state` of a run with the same settings on the same corpora, is where
    training goes on from; `checkpoints` keep its state on disk; `callbacks` hear of the end of each epoch, and may end the
    training. Raises `EmbedxError` for what the user can mend and `DivergedError` when training diverges, at lower rates too,
    with nothing learned. Where something was, that is returned, and the outcome tells; Ctrl-C likewise ends the training early
    with what was learned so far.
    """
    settings = suited(settings, objective)
    progress = progress or Silent()
    text, vocabulary, phrases = text or TextSettings(), vocabulary or VocabularySettings(), phrases or PhraseSettings()
    joined: PhraseSettings | Phrases | None = phrases
    if start is not None:
        phrases, joined = start.joining()
    with encode(corpora, text, progress, cache_dir, joined, threads=settings.threads) as corpus:
        task = prepared(
            corpus, objective, settings, sampler_options or {}, text, vocabulary, progress, phrases=phrases, start=start
        )
        task.plan = task.memory_plan(checkpoints)
        task.plan.check(task.size, task.remedy)
        if checkpoints is not None:
            checkpoints.check_disk(*task.on_disk())
        task.initialise()
        outcome = task.run(snapshot, checkpoints, callbacks)
        to_the_end(lambda: _check(task.tables, task.settings, outcome, progress))
        vectors = task.model(outcome)
        if task.heldout is not None and outcome.interrupted_by is None:
            found = vectors.facts["heldout"] = to_the_end(task.heldout_metrics)
            best = max(found["log_likelihood"], found["calibrated"])
            is_weak = objective.calibrated and not best > found["unigram"]
            if outcome.lowered_rates and outcome.diverged is None and is_weak:
                outcome.diverged = DivergedError(
                    f"at the learning rate {outcome.lowered_rates[-1]:.3g}, to which the run was lowered, held-out text is no "
                    f"likelier than by word frequencies ({best:.4f} and {found['unigram']:.4f}); try another --learning-rate"
                )
    return TrainedVectors(vectors, outcome)


def prepared(
    corpus: cache.EncodedCorpus,
    objective: Objective,
    settings: SkipGramSettings,
    sampler_options: Mapping[str, Any],
    text: TextSettings,
    vocabulary: VocabularySettings,
    progress: Progress,
    *,
    phrases: PhraseSettings | None = None,
    start: Start | None = None,
) -> "Task":
    """A run on an encoded corpus with everything decided; its tables are of zeros, and take no memory yet.

    `settings` are `suited` to the objective. Raises `EmbedxError` where the vocabulary is empty or the tables cannot be had.
    """
    words, remap = start.vocabulary(corpus, vocabulary) if start else select(corpus, vocabulary)
    n_tokens = int(corpus.counts[remap >= 0].sum())
    progress.note(f"vocabulary: {len(words):,} words, {n_tokens:,} of {corpus.n_tokens:,} tokens")
    if vocabulary.vocab is not None:
        missing = set(listed(vocabulary.vocab)) - words.index.keys()
        progress.note(f"--vocab {vocabulary.vocab}: {len(missing):,} of its words are not in the text")
    if start is not None:
        progress.note(start.told(corpus, words, objective, settings.bias != "none"))
    held_out = hold_out(corpus.tokens, remap, settings.heldout, len(words)) if settings.heldout > 0 else None
    words = words.without(held_out.counts) if held_out else words
    kept = kept_counts(words.trained_counts, vocabulary.sample)
    objective.prepare(kept)
    sampler, warm_up = new_samplers(objective, settings, sampler_options, words.trained_counts)
    wide = context_words(corpus.tokens, settings.window)
    settings = resolved(settings, objective, warm_up or sampler, kept, progress, wide)
    if sampler.candidates == "all" and len(words) > MANY_WORDS:
        progress.note(f"every pair meets all {len(words):,} words, which is slow; --max-vocab 5000 keeps the most frequent")
    parts, buckets = subwords.NO_PARTS, None
    if settings.ngrams is not None:
        in_utf8 = [encoded(word) for word in words.words]
        need, have = subwords.listing_bytes(in_utf8, settings.ngrams), available_memory()
        if need > have:
            raise EmbedxError(
                f"the n-grams of {len(words):,} words need {amount(need)}, more than the {amount(have)} there are; lower "
                "--max-vocab or --buckets"
            )
        parts, buckets = subwords.listed(in_utf8, settings.ngrams)
        n_each = (len(parts.rows) - len(words)) / max(len(words), 1)
        progress.note(f"subwords: {n_each:.1f} n-grams a word, in {len(buckets):,} of {settings.buckets:,} buckets")
    tables = empty_tables(objective, settings, len(words), 0 if buckets is None else len(buckets))
    return Task(
        corpus, words, remap, sampler, warm_up, tables._replace(parts=parts), objective, settings, text, vocabulary, progress,
        held_out, phrases or PhraseSettings(), start, buckets,
    )  # fmt: skip


def chosen(objective: type[Objective], options: dict[str, Any]) -> tuple[SkipGramSettings, Objective]:
    """The settings among `options`, those not given as they suit the objective best, and the objective with its own.

    Raises `EmbedxError` for what the objective does not take.
    """
    suits = dict(objective.word_defaults)
    if options.get("subwords") is not None and math.isfinite(_optimizer_of(suits).limit):
        suits |= OF_SUBWORDS
    suited_by = suits.get("optimizer", SkipGramSettings.optimizer)
    if options.get("optimizer", suited_by) != suited_by:
        suits.pop("learning_rate", None)  # of another optimizer
    made = objective(objective.Settings.from_options({**suits, **options}))
    settings = suited(SkipGramSettings.from_options({**suits, **options}), made)
    sampler = samplers.SAMPLERS[str(settings.sampler)]
    conditional = " or ".join(name for name, each in samplers.SAMPLERS.items() if each.conditional)
    needs = (
        *((name, settings.heldout > 0, "--heldout") for name in ("heldout_every", "heldout_points")),
        ("fit_after", sampler.conditional, f"--sampler {conditional}"),
        ("draws", sampler.candidates in ("drawn", "retrieved"), "a sampler that draws"),
        ("buckets", settings.subwords is not None, "--subwords"),
    )
    check_used(options, (*needs, *((name, False, "labels, which have features") for name in objective.label_settings)))
    return settings, made


def _optimizer_of(options: Mapping[str, Any]) -> type[Optimizer]:
    """The optimiser that the options name, or the default."""
    return optimizers.OPTIMIZERS[options.get("optimizer", SkipGramSettings.optimizer)]


def suited(settings: SkipGramSettings, objective: Objective) -> SkipGramSettings:
    """The settings with a sampler and a rate. Raises `EmbedxError` if the objective does not take what was asked for."""
    sampler = settings.sampler or in_order(objective)[0]
    check_sampler(sampler, objective.name, objective.samplers())
    optimizer = optimizers.find(settings.optimizer, WORDS)
    if objective.kind == "proximal" and optimizer.keeps == "number":
        raise EmbedxError(
            f"--optimizer {settings.optimizer} gives each number of a row a rate of its own, but the step of --objective "
            f"{objective.name} is at one rate for each row; take rowwise-adagrad, bounded-adagrad or sgd"
        )
    rate = settings.learning_rate or optimizer.rates[WORDS]
    buckets = settings.ngrams.n_buckets if settings.ngrams else settings.buckets
    return dataclasses.replace(settings, sampler=sampler, learning_rate=rate, buckets=buckets)


def new_tables(objective: Objective, settings: SkipGramSettings, kept: np.ndarray, noise: np.ndarray) -> engine.SkipGramTables:
    """Parameters before training: inputs uniform in ±1/(2 dim), each number drawn for itself; outputs zero but for biases.

    kept   int64 (n_words,)  how often each word is expected to survive subsampling; `noise` (n_words,) what is drawn by
    Raises `EmbedxError` when they do not fit in memory.
    """
    tables = empty_tables(objective, settings, len(kept))
    initialise(tables, objective, settings, kept, noise)
    return tables


def empty_tables(objective: Objective, settings: SkipGramSettings, n_words: int, n_buckets: int = 0) -> engine.SkipGramTables:
    """Parameters of zeros, whose memory is taken when they are written to, with rows for buckets of n-grams after those of the
    words. Raises `EmbedxError` when they cannot be had.
    """
    has_bias, n_rows = settings.bias != "none", objective.n_rows(n_words)
    try:
        rule = optimizers.update_rule(settings.optimizer)
        inputs, outputs = (new_table(n, settings.dim + has_bias, rule) for n in (n_words + n_buckets, n_rows))
    except (MemoryError, ValueError) as error:  # the latter from numpy, for more than there are addresses
        need = 4 * optimizers.OPTIMIZERS[settings.optimizer].copies * (n_words + n_buckets + n_rows) * settings.dim
        of_ngrams = f" and {n_buckets:,} buckets" if n_buckets else ""
        raise EmbedxError(
            f"two tables of {n_words:,} words{of_ngrams} × {settings.dim} numbers need {amount(need)}, more than there is; "
            f"{SMALLER}"
        ) from error
    return engine.SkipGramTables(
        inputs,
        outputs,
        state=np.zeros((n_words, objective.state_width), dtype=np.float32),
        n_updates=np.zeros(n_words if objective.state_width else 1, dtype=np.int64),
    )


def initialise(
    tables: engine.SkipGramTables, objective: Objective, settings: SkipGramSettings, kept: np.ndarray, noise: np.ndarray
) -> None:
    """Write to tables of zeros what training starts from; see `new_tables`."""
    dim, has_bias = settings.dim, settings.bias != "none"
    rng = np.random.default_rng([settings.seed, INITIAL])
    step = max(1, min(65536, INITIAL_FLOATS // dim))  # by blocks, so that no second table is ever in memory
    for start in range(0, len(tables.inputs.rows), step):
        block = tables.inputs.rows[start : start + step, :dim]
        block[:] = (rng.random(block.shape, dtype=np.float32) - np.float32(0.5)) / np.float32(dim)
    if has_bias:
        tables.inputs.rows[:, dim] = 1
    if settings.bias == "frequency":
        tables.outputs.rows[:, dim] = objective.initial_bias(kept / kept.sum(), noise)


def chosen_samplers(
    objective: Objective, settings: SkipGramSettings, options: Mapping[str, Any]
) -> tuple[Sampler, Sampler | None]:
    """As `new_samplers`, before anything is known of the words."""
    name, preferred, corrected = str(settings.sampler), in_order(objective), objective.adds_log_noise
    if samplers.SAMPLERS[name].conditional:  # which has to know the vectors first
        first = next(each for each in preferred if each != name and samplers.SAMPLERS[each].candidates == "drawn")
        return samplers.make(name, options, corrected=corrected), samplers.make(first, {})
    return samplers.with_warm_up(name, preferred, options, corrected=corrected)


def in_order(objective: Objective) -> list[str]:
    """The samplers that the objective takes, those that suit words best first."""
    taken = objective.samplers()
    return [*(name for name in PREFERRED if name in taken), *taken]


def new_samplers(
    objective: Objective, settings: SkipGramSettings, options: Mapping[str, Any], counts: np.ndarray
) -> tuple[Sampler, Sampler | None]:
    """The sampler that the settings name, and what draws before it can retrieve rows or be fitted, if it has to.

    options   settings of the sampler's own; those of what draws, where rows are retrieved
    counts    int64 (n_words,)  how often each word occurs
    """
    sampler, warm_up = chosen_samplers(objective, settings, options)
    sampler.prepare(counts, paths=objective.paths())
    if warm_up is not None:
        warm_up.prepare(counts)
    return sampler, warm_up


def resolved(
    settings: SkipGramSettings,
    objective: Objective,
    sampler: Sampler,
    kept: np.ndarray,
    progress: Progress,
    n_around: float | None = None,
) -> SkipGramSettings:
    """The settings with nothing left open: what `block_size`, `draws` and `threads` are for this vocabulary on this machine.

    sampler   what draws, if anything does, prepared
    kept      int64 (n_words,)  how often each word is expected to survive subsampling
    n_around  how many context words a centre has, where sentences do not end before windows do unless given
    """
    n_around = settings.window + 1 if n_around is None else n_around
    retrieves = samplers.SAMPLERS[str(settings.sampler)].candidates == "retrieved"
    negatives = objective.negatives if sampler.candidates == "drawn" and not retrieves else 0
    likeliest = max(float(kept.max() / kept.sum()), float(sampler.noise.max()) if negatives else 0.0)
    on_path = sampler.candidates == "path"
    if on_path:
        likeliest = 1.0  # the root's
    pairs_of_centre = n_around * (1 + negatives) * likeliest  # that one centre brings to the likeliest row
    block_size = min(settings.block_size, max(1, int(PAIRS_PER_ROW / pairs_of_centre)))
    if block_size < settings.block_size and not on_path:
        progress.note(f"small vocabulary: blocks of {block_size} words instead of {settings.block_size}")
    if sampler.conditional and block_size > 0:
        progress.note(f"--sampler {sampler.name} draws for each input by itself, as with --block-size 0")
        block_size = 0
    draws = min(max(negatives, math.ceil(negatives * block_size * n_around / PAIRS_PER_DRAW)), MOST_DRAWS)
    if retrieves:
        draws = min(objective.negatives, MOST_DRAWS)  # before the search begins; they count once each, whatever the pairs
    return dataclasses.replace(
        settings,
        block_size=block_size,
        draws=settings.draws or draws or None,  # which nothing is where nothing is drawn
        threads=settings.threads or trainer.usable_cores(),
    )


@dataclasses.dataclass
class Task:
    """A run with everything decided; `settings` are resolved."""

    corpus: cache.EncodedCorpus
    words: Vocabulary
    remap: np.ndarray
    sampler: Sampler
    warm_up: Sampler | None  # what draws before the sampler can
    tables: engine.SkipGramTables
    objective: Objective
    settings: SkipGramSettings
    text: TextSettings
    vocabulary: VocabularySettings
    progress: Progress
    heldout: HeldOut | None
    phrases: PhraseSettings = dataclasses.field(default_factory=PhraseSettings)
    start: Start | None = None
    buckets: np.ndarray | None = None  # int32 (n,), ascending: those of n-grams, whose rows follow the words'; None without
    plan: Plan | None = None  # of memory
    remedy: str = SMALLER  # where that is short
    kernels: int = 0  # bytes that they took when they were compiled or loaded
    history: list[dict[str, float]] = dataclasses.field(default_factory=list)  # held-out log-likelihood on the way

    def stream(self) -> TokenStream:
        """The corpus as training sees it."""
        keep = np.zeros(len(self.remap), dtype=np.uint32)
        chance = self.words.keep_probability(self.vocabulary.sample).astype(np.float64)
        keep[self.remap >= 0] = np.minimum(chance * 2**32, 2**32 - 1)[self.remap[self.remap >= 0]]
        held_out = self.heldout.chunks if self.heldout else np.zeros(n_chunks(self.corpus.tokens), dtype=np.uint8)
        return TokenStream(self.corpus.tokens, self.remap, keep, held_out)

    def strategy(self) -> Streamed:
        """How its stretches are trained; with --deterministic by the lanes of rounds."""
        objective, settings, tables, stream = self.objective, self.settings, self.tables, self.stream()
        if self.warm_up is None:
            return Streamed(objective, settings, self.sampler, tables, stream)
        way = FittedStream if self.sampler.conditional else RetrievedStream
        return way(objective, settings, self.warm_up, tables, stream, self.sampler)

    def initialise(self) -> None:
        """Write to the tables what training starts from."""
        kept = kept_counts(self.words.trained_counts, self.vocabulary.sample)
        initialise(self.tables, self.objective, self.settings, kept, (self.warm_up or self.sampler).noise)
        if self.start is not None:
            rate, has_bias = float(self.settings.learning_rate or 0), self.settings.bias != "none"
            self.tables = self.start.write(
                self.tables, self.words, self.objective, self.settings.optimizer, rate, has_bias, self.buckets
            )  # fmt: skip

    def memory(self) -> dict[str, float]:
        """Bytes that training, testing and saving will take, by purpose. Raises `EmbedxError` where threads cannot have it."""
        tables, n_words = self.tables, len(self.words)
        try:
            of_training = self.strategy().memory()
        except MemoryError as error:
            threads = f"{self.settings.threads} threads with --window {self.settings.window}"
            raise EmbedxError(f"{self.size} and {threads} need more memory than there is; lower them, or --dim") from error
        return {
            "vectors": n_bytes((tables.inputs.rows, tables.outputs.rows)),
            "optimiser": n_bytes((tables.inputs[1:], tables.outputs[1:])),
            "objective": n_bytes((tables.state, tables.n_updates)),
            **of_training,
            "subwords": n_bytes((tables.parts, self.buckets)),
            "saving": BYTES_PER_WORD * n_words + (4 * n_words * tables.inputs.rows.shape[1] if self.settings.subwords else 0),
            "testing": heldout.memory(n_words, self._n_heldout_pairs()) if self.heldout else 0,
        }

    def _n_heldout_pairs(self) -> float:
        """How many pairs the held-out text will bring, about."""
        assert self.heldout is not None
        counts = self.heldout.counts  # with those of the borders, where nothing is scored
        kept = counts @ self.words.keep_probability(self.vocabulary.sample) / max(counts.sum(), 1)
        return float(kept) * self.heldout.n_words * (self.settings.window + 1)

    def memory_plan(self, checkpoints: Checkpoints | None = None) -> Plan:
        """What the run takes at the most, to be asked for before its tables are written to."""
        needs = self.memory()
        later = {name: needs.pop(name) for name in LATER if name != "testing" or not self._tells()}
        workers = next(value for name, value in needs.items() if name not in OF_TABLES)
        self.remedy = "lower --threads or --window" if 2 * workers > sum(needs.values()) else SMALLER
        copy = sum(needs[name] for name in OF_TABLES)
        written = copy if checkpoints is not None and checkpoints.are_asked_for else 0.0
        return plan_memory(needs, copy, written=written, later=later, corpus=(self.corpus.folder, self.corpus.bytes))

    def on_disk(self) -> tuple[int, int]:
        """Bytes of the model's folder, and of the run's state in a checkpoint."""
        tables, n_words, dim = self.tables, len(self.words), self.settings.dim
        n_rows = len(tables.outputs.rows)
        numbers = (n_words + n_rows) * dim + (n_rows if self.settings.bias != "none" else 0)
        if self.buckets is not None:  # the words' own parts beside their vectors, and the buckets
            numbers += len(tables.inputs.rows) * dim + len(self.buckets)
        of_words = BYTES_PER_LINE + (COUNT_BYTES if self.heldout else 0)
        return 4 * numbers + of_words * n_words, n_bytes((tables.inputs, tables.outputs, tables.state, tables.n_updates))

    @property
    def size(self) -> str:
        """How large the tables are, in words."""
        of_ngrams = "" if self.buckets is None else f" and {len(self.buckets):,} buckets"
        return f"{len(self.words):,} words{of_ngrams} × {self.settings.dim} numbers"

    def identity(self) -> dict[str, Any]:
        """What decides the result, for a run that goes on to be sure that it is the same one."""
        settings = self.settings.record() | self.objective.settings.record() | self.text.record() | self.vocabulary.record()
        settings |= self.phrases.record()
        for sampler in (self.warm_up, self.sampler):
            settings |= sampler.settings.record() if sampler is not None else {}
        return {
            **({"start": self.start.identity()} if self.start else {}),
            "corpus": [checksum(self.corpus.tokens), zlib.crc32("\n".join(self.words.words).encode())],
            "settings": {name: value for name, value in settings.items() if name != "threads"},
        }

    def run(
        self,
        snapshot: Mapping[str, Any] | None = None,
        checkpoints: Checkpoints | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> trainer.Outcome:
        """Train the tables in place; `snapshot` is of the state of a run that was set up alike, to go on from."""
        if checkpoints is not None:
            checkpoints.identify(self.identity)
        settings, strategy = self.settings, self._ready_strategy()
        schedule = self._schedule(strategy, settings.epochs, settings.time_budget)
        heard = tuple(callbacks)

        def after_epoch(epoch: int, tally: Tally, seconds: float) -> bool:
            if self._tells():
                self._after_epoch(epoch, tally, seconds)
            if not heard:
                return False
            end = EpochEnd(epoch + 1, tally.mean_loss, tally.words, seconds, self.model(None))
            answers = [each(end) for each in heard]
            return any(isinstance(each, bool | np.bool_) and bool(each) for each in answers)

        return trainer.run(
            strategy,
            schedule,
            self.progress,
            after_epoch if heard or self._tells() else None,
            snapshot,
            self._state(),
            checkpoints,
            Guard(has_room=self.plan is None or self.plan.has_room),
            self.plan,
        )

    def _ready_strategy(self) -> Strategy:
        streamed = self.strategy()
        kept = kept_counts(self.words.trained_counts, self.vocabulary.sample)
        streamed.frequency_scores = self.objective.initial_bias(kept / kept.sum(), (self.warm_up or self.sampler).noise)
        return InRounds(streamed, int(self.settings.threads or 1)) if self.settings.deterministic else streamed

    @property
    def n_trained_words(self) -> int:
        """How many tokens of the vocabulary a pass over the corpus reads."""
        return int(self.corpus.counts[self.remap >= 0].sum()) - (int(self.heldout.counts.sum()) if self.heldout else 0)

    def _schedule(self, strategy: Strategy, epochs: float, time_budget: float | None) -> trainer.Schedule:
        rate = float(self.settings.learning_rate or 0)
        return trainer.Schedule(rate, strategy.n_stretches, self.n_trained_words, epochs, time_budget)

    def trial(self, seconds: float) -> trainer.Outcome:
        """Train for so long, as `run` does to begin with, to see how fast that goes; more than 0."""
        strategy = self._ready_strategy()
        self.kernels = max(self.kernels, memory_taken(lambda: strategy.compile(self.progress)))
        return trainer.run(
            strategy, self._schedule(strategy, self.settings.epochs, seconds), Silent(), guard=Guard(is_on=False)
        )

    def _tells(self) -> bool:
        settings = self.settings
        return self.heldout is not None and (settings.heldout_every is not None or settings.heldout_points is not None)

    def _state(self) -> TrainState:
        """What was told so far of the held-out text."""
        state = TrainState()
        if self._tells():
            state.add_attribute("task.history", self, "history", "last")
        return state

    def _after_epoch(self, epoch: int, tally: Tally, seconds_passed: float) -> bool:
        """Tell the held-out log-likelihood if its turn has come; never ends the training."""
        every = self.settings.heldout_every
        if (every is not None and (epoch + 1) % every == 0) or self._is_point(epoch + 1, seconds_passed):
            found = self.heldout_metrics()["log_likelihood"]
            self.progress.note(f"epoch {epoch + 1}: held-out log-likelihood {found:.4f}")
            self.history.append({"epoch": epoch + 1, "seconds": round(seconds_passed, 3), "log_likelihood": found})
        return False

    def _is_point(self, epochs: int, seconds_passed: float) -> bool:
        """Whether the run has come to another of --heldout-points since the last one; its end is told anyway."""
        budget, last = self.settings.time_budget, self.history[-1] if self.history else {"epoch": 0, "seconds": 0.0}
        now, before = (
            (epochs / self.settings.epochs, last["epoch"] / self.settings.epochs)
            if budget is None
            else (seconds_passed / budget, last["seconds"] / budget)
        )
        points = self.settings.heldout_points or 0
        return now < 1 and int(now * points) > int(before * points)

    def heldout_metrics(self) -> dict[str, float]:
        """How likely what was learned so far finds the text that was held out; see `embedx.evaluation.heldout`."""
        vectors = self.model(None)
        assert self.heldout is not None
        pairs, calibration = heldout.draw(self.heldout.words, self.heldout.sentences, vectors, groups=self.heldout.spans)
        return heldout.evaluate(vectors, pairs, calibration).metrics()

    def model(self, outcome: trainer.Outcome | None) -> model.WordVectors:
        """What was learned so far, as views of the tables; word vectors that are means of rows are new."""
        settings, dim = self.settings, self.settings.dim
        arrays = {"input": engine.input_vectors(self.tables)[:, :dim], "output": self.tables.outputs.rows[:, :dim]}
        if self.buckets is not None:
            own, of_buckets = np.split(self.tables.inputs.rows[:, :dim], [len(self.words)])
            arrays |= {"word_part": own, "ngram": of_buckets, "ngram_bucket": self.buckets}
        if settings.bias != "none":
            arrays["bias"] = self.tables.outputs.rows[:, dim]
        if self.words.held_out is not None:
            arrays["heldout_counts"] = self.words.held_out
        record = settings.record() | self.objective.settings.record()
        for sampler in (self.warm_up, self.sampler):
            record |= sampler.settings.record() if sampler is not None else {}
        if self.warm_up is not None and self.sampler.conditional:
            if self.sampler.is_fitted:
                arrays |= self.sampler.arrays(of_keys=True)
            else:  # the run ended before
                record["sampler"] = self.warm_up.name
        record |= self.text.record() | self.vocabulary.record() | self.phrases.record()
        facts: dict[str, Any] = {
            "objective": self.objective.name,
            "corpus": self.corpus.key,
            "sources": [source["name"] for source in self.corpus.report["sources"][:MOST_SOURCES]],
            "corpus_tokens": self.corpus.n_tokens,
            "words": len(self.words),
        }
        if self.start is not None:
            record |= {"start": str(self.start.path), "freeze": self.start.freezes}
            facts |= {"words_kept": len(self.start.model), "words_added": len(self.words) - len(self.start.model)}
        if outcome is not None:
            facts |= {
                "final_loss": outcome.final_loss,
                "highest_loss": outcome.highest_loss,
                "epochs": round(outcome.epochs, 4),
                "words_trained": outcome.tally.words,
                "pairs_trained": outcome.tally.pairs,
                "seconds": round(outcome.seconds, 3),
                "words_per_second": round(outcome.tally.words / max(outcome.seconds, 1e-9)),
                "interrupted": outcome.interrupted_by is not None,
                **outcome.facts(),
            }
            if self.history:
                facts["history"] = self.history
        joined = phrases_of(self.corpus)
        found = None
        if settings.ngrams is not None:
            found = Subwords(settings.ngrams, arrays["ngram"], self.buckets)
        return model.WordVectors(
            self.words.words, arrays, counts=self.words.counts, settings=record, facts=facts, phrases=joined, subwords=found
        )


def _check(tables: engine.SkipGramTables, settings: SkipGramSettings, outcome: trainer.Outcome, progress: Progress) -> None:
    """Raise `DivergedError` if a parameter is not finite or the loss was out of hand, though it may have come back; note it if
    it rose instead of falling.
    """
    first, highest, final = outcome.first_loss or 0.0, outcome.highest_loss or 0.0, outcome.final_loss or 0.0
    rise = highest / first if first > 0 else 0.0
    told = f"the loss rose from {first:.4g} to {highest:.4g}" + (f" and ended at {final:.4g}" if final < highest else "")
    if rise > OUT_OF_HAND:
        raise DivergedError(f"{told}; try a smaller --learning-rate than {settings.learning_rate or 0:g}")
    if rise > 1.5:
        progress.note(f"warning: {told}; try a smaller --learning-rate than {settings.learning_rate or 0:g}")
    for table in (tables.inputs.rows, tables.outputs.rows):
        for start in range(0, len(table), 65536):
            if not np.isfinite(table[start : start + 65536]).all():
                raise DivergedError(
                    f"vectors are no longer finite at the end of training; try a smaller --learning-rate than "
                    f"{settings.learning_rate or 0:g}"
                )


def save(vectors: model.WordVectors, folder: Path, overwrite: bool = False) -> Path:
    """Write the model folder."""
    return model.save(
        folder,
        words=vectors.words,
        counts=vectors.counts,
        arrays=vectors.arrays,
        settings=vectors.settings,
        facts=vectors.facts,
        phrases=vectors.phrases,
        overwrite=overwrite,
    )


class SkipGram:
    """Word vectors from Python: `SkipGram(objective="ns", dim=100).fit("corpus.txt").model.most_similar("city")`.

    Takes every setting of `embedx train` by name. `fit` accepts what the command line does, or an iterable of token lists. Of
    token lists it is a transformer by scikit-learn's conventions, whose `transform` gives each the mean of its words' vectors.
    """

    def __init__(self, objective: str = "ns", *, cache_dir: str | Path | None = None, **options: Any) -> None:
        self._params = {"objective": objective, "cache_dir": cache_dir, **options}
        found = objectives.find(objective)
        of_samplers = [each.Settings for each in samplers.SAMPLERS.values()]
        groups: list[type[Settings]] = [SkipGramSettings, TextSettings, VocabularySettings, PhraseSettings, StartSettings]
        groups += [found.Settings, *of_samplers]
        options = by_present_names(options, (field for group in groups for field in dataclasses.fields(group)))
        known = {name for group in groups for name in settings_of(group)}
        if unknown := options.keys() - known:
            raise TypeError(f"SkipGram takes no {', '.join(sorted(unknown))}; its settings are {', '.join(sorted(known))}")
        check_phrase_settings(options)
        check_vocabulary_settings(options)
        self.start = started(options)
        options = self.start.with_defaults(options) if self.start else options
        self.settings, self.objective = chosen(found, options)
        self.sampler_options = samplers.own_options(options)
        self.text = TextSettings.from_options(options)
        self.vocabulary = VocabularySettings.from_options(options)
        self.phrases = PhraseSettings.from_options(options)
        self.cache_dir = Path(cache_dir) if cache_dir else None

    def __repr__(self) -> str:
        given = {name: value for name, value in self._params.items() if name == "objective" or value is not None}
        return f"SkipGram({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    # ---- training

    def fit(self, corpora: Corpora, y: object = None, *, callbacks: Iterable[Callback] = ()) -> Self:
        """Train; the result is `self.model`. Raises `EmbedxError`. Ctrl-C keeps the model so far and is raised again; so is
        `DivergedError` when training diverges at lower rates too, with the model of what was last found good, if anything was.

        y          not looked at
        callbacks  each is called with an `EpochEnd` after every epoch; training ends when one returns True
        """
        trained = train(
            corpora, self.objective, self.settings, sampler_options=self.sampler_options, text=self.text,
            vocabulary=self.vocabulary, phrases=self.phrases, start=self.start, cache_dir=self.cache_dir, callbacks=callbacks,
        )  # fmt: skip
        self.model, self.outcome = trained.vectors, trained.outcome.without_state()
        self.outcome.raise_reason()
        return self

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write the model folder."""
        return save(self.model, Path(folder), overwrite)

    # ---- by scikit-learn's conventions

    def transform(self, documents: Iterable[Sequence[str]]) -> np.ndarray:
        """float32 (documents, dim): the mean of the vectors of each document's tokens; zeros where none is a known word."""
        return self._fitted().mean_vectors(documents)

    def fit_transform(self, documents: Sequence[Sequence[str]], y: object = None, **fit_params: Any) -> np.ndarray:
        """`fit`, then `transform` of the same token lists."""
        return self.fit(documents, y, **fit_params).transform(documents)

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Names of the columns of `transform`."""
        return np.array([f"skipgram{k}" for k in range(self._fitted().vector_size)], dtype=object)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings that were given; others have their defaults."""
        return dict(self._params)

    def set_params(self, **params: Any) -> Self:
        """Change settings, any that `SkipGram` takes. Raises as making one does, and then changes nothing."""
        vars(self).update(vars(type(self)(**{**self._params, **params})))
        return self

    def _fitted(self) -> model.WordVectors:
        if not self.__sklearn_is_fitted__():
            raise EmbedxError("this SkipGram is not fitted yet; call fit first")
        return self.model

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        repeats = self.settings.threads == 1 or self.settings.deterministic
        return Tags(
            estimator_type="transformer", target_tags=TargetTags(required=False), transformer_tags=TransformerTags(),
            input_tags=InputTags(two_d_array=False), non_deterministic=not repeats,
        )  # fmt: skip
