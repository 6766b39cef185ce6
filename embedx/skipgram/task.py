"""The task of word vectors: from corpora to a trained model, one call.

corpora -> encoded tokens -> vocabulary -> [engine: blocks of skip-gram pairs] -> model
"""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from embedx import objectives, optimizers
from embedx.engine import blocks
from embedx.engine import skipgram as engine
from embedx.engine import skipgram_retrieved as found
from embedx.engine.loading import load_kernel
from embedx.errors import DivergedError, EmbedxError
from embedx.evaluation import heldout
from embedx.kernels.random import stream_key
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import COLLAPSED, WORDS, new_table
from embedx.run import trainer
from embedx.run.interrupts import to_the_end
from embedx.run.progress import Progress, Silent
from embedx.samplers.draws import Draws, new_draws, noise_distribution
from embedx.search.index import Index, empty
from embedx.search.updater import Follower
from embedx.settings import Settings, TextSettings, VocabularySettings, param, seconds, settings_of, share_of
from embedx.text import cache
from embedx.text.encode import Corpora, encode
from embedx.text.heldout import hold_out, n_chunks
from embedx.text.vocabulary import Vocabulary, kept_counts, select
from embedx.vectors import model

STRETCH = 10_000  # tokens a worker trains between two looks at the clock: about 5 ms
INITIAL = 2**32  # the place of the initial vectors among a seed's random numbers
MANY_WORDS = 20_000
OUT_OF_HAND = 100.0  # a loss so many times the first is that of a run that diverged, be it finite
ROWS = {"unigram": blocks.DRAWN, "uniform": blocks.DRAWN, "search": blocks.DRAWN, "all": blocks.ALL, "path": blocks.PATH}
# A drawn word stands for negatives × pairs / draws of a block's pairs and moves by all of them at once. Word similarity and
# analogies are best up to 8 (learning rate 0.04, 100 MB of Wikipedia), slightly worse at 15, worse at 30; 60 diverges.
PAIRS_PER_DRAW = 7.5
MOST_DRAWS = 1024
# Nor may a block bring more than this many pairs to the most frequent word's row, which matters for vocabularies of some dozen
# words: there a block of 16 centres holds each of them many times.
PAIRS_PER_ROW = 30


@dataclasses.dataclass(frozen=True)
class SkipGramSettings(Settings):
    """How skip-gram trains, whatever the objective."""

    dim: int = param(100, "numbers in a word's vector", at_least=1)
    window: int = param(5, "the context reaches up to this many kept words to each side; drawn anew for each word", at_least=1)
    epochs: int = param(5, "passes over the corpus", at_least=1)
    optimizer: str = param(
        "rowwise-adagrad",
        f"what a row does with its gradient: {optimizers.meanings(WORDS, COLLAPSED)}",
        choices=optimizers.taken_by(WORDS, COLLAPSED),
    )
    learning_rate: float | None = param(
        None,
        f"step size at the start; falls linearly to zero over the run; by default {optimizers.usual_rates(WORDS)}",
        above=0.0,
    )
    sampler: str | None = param(
        None,
        "which rows compete with the positive: those that an index finds, words drawn by their count, or evenly, all words, or "
        "the path of a tree; by default the first of these that the objective takes",
        choices=("search", "unigram", "uniform", "all", "path"),
    )
    sampler_exponent: float = param(0.75, "the power of the count that `unigram` draws by", at_least=0.0, at_most=1.0)
    bias: str = param(
        "frequency",
        "a bias for each output row, which starts at what its frequency alone suggests, or at zero; or none",
        choices=("frequency", "zero", "none"),
    )
    share: int = param(
        8,
        "consecutive words whose windows share one set of noise words; 0 draws afresh for every pair",
        at_least=0,
        at_most=64,
    )
    draws: int | None = param(
        None, "noise words drawn for each set; by default enough to keep each one's step small", at_least=0, at_most=MOST_DRAWS
    )
    threads: int | None = param(None, "worker threads; by default one for each usable core", at_least=1)
    time_budget: float | None = param(
        None,
        "train for this long instead of --epochs: 90s, 10m, 2h; the rate reaches zero at the bell",
        above=0.0,
        parse=seconds,
    )
    heldout: float = param(
        0.0,
        "the share of the corpus that training never sees, 0.1% say; its log-likelihood is told at the end",
        at_least=0.0,
        at_most=0.5,
        parse=share_of,
    )
    heldout_every: int | None = param(None, "tell it after so many epochs, too", at_least=1)
    seed: int = param(1, "every random choice derives from this", at_least=0)


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained model and how its training went."""

    vectors: model.WordVectors
    outcome: trainer.Outcome


def train(
    corpora: Corpora,
    objective: Objective,
    settings: SkipGramSettings,
    *,
    text: TextSettings | None = None,
    vocabulary: VocabularySettings | None = None,
    progress: Progress | None = None,
    cache_dir: Path | None = None,
) -> Trained:
    """Word vectors of `corpora`: what the command line takes (paths, globs, URLs, recipes, "-"), or an iterable of token lists.

    Raises `EmbedxError` for what the user can mend and `DivergedError` when training leaves the finite numbers. Ctrl-C ends the
    training early with what was learned so far; the outcome tells.
    """
    settings = suited(settings, objective)
    progress = progress or Silent()
    text, vocabulary = text or TextSettings(), vocabulary or VocabularySettings()
    with encode(corpora, text, progress, cache_dir) as corpus:
        words, remap = select(corpus, vocabulary)
        progress.note(f"vocabulary: {len(words):,} words, {words.n_tokens:,} of {corpus.n_tokens:,} tokens")
        drawn_by = "unigram" if settings.sampler == "search" else str(settings.sampler)
        noise = noise_distribution(words.counts, drawn_by, settings.sampler_exponent)
        kept = kept_counts(words.counts, vocabulary.sample)
        objective.prepare(kept)
        settings = resolved(settings, objective, kept, noise, progress)
        if settings.sampler == "all" and len(words) > MANY_WORDS:
            progress.note(f"every pair meets all {len(words):,} words, which is slow; --max-vocab 5000 keeps the most frequent")
        tables = new_tables(objective, settings, kept, noise)
        task = Task(corpus, words, remap, noise, tables, objective, settings, text, vocabulary, progress)
        outcome = task.run()
        to_the_end(lambda: _check(tables, settings, outcome, progress))
        vectors = task.model(outcome)
        if task.heldout is not None and outcome.interrupted_by is None:
            vectors.facts["heldout"] = to_the_end(task.heldout_metrics)
    return Trained(vectors, outcome)


def chosen(objective: type[Objective], options: dict[str, Any]) -> tuple[SkipGramSettings, Objective]:
    """The settings among `options`, those not given as they suit the objective best, and the objective with its own.

    Raises `EmbedxError` for what the objective does not take.
    """
    suits = dict(objective.word_defaults)
    suited_by = suits.get("optimizer", SkipGramSettings.optimizer)
    if options.get("optimizer", suited_by) != suited_by:
        suits.pop("learning_rate", None)  # of another optimizer
    options = {**suits, **options}
    made = objective(objective.Settings.from_options(options))
    return suited(SkipGramSettings.from_options(options), made), made


def suited(settings: SkipGramSettings, objective: Objective) -> SkipGramSettings:
    """The settings with a sampler and a rate. Raises `EmbedxError` if the objective does not take what was asked for."""
    usual = next(each for each in ("search", "unigram", *objective.samplers) if each in objective.samplers)
    sampler = settings.sampler or usual
    if sampler not in objective.samplers:
        raise EmbedxError(
            f"--sampler {sampler} does not apply to --objective {objective.name}, which takes {', '.join(objective.samplers)}"
        )
    if objective.kind == "proximal" and settings.optimizer != "sgd":
        raise EmbedxError(f"--optimizer {settings.optimizer} does not apply to --objective {objective.name}, which has its own")
    rate = settings.learning_rate or optimizers.find(settings.optimizer, WORDS).rates[WORDS]
    return dataclasses.replace(settings, sampler=sampler, learning_rate=rate)


def new_tables(objective: Objective, settings: SkipGramSettings, kept: np.ndarray, noise: np.ndarray) -> engine.Tables:
    """Parameters before training: inputs uniform in ±1/(2 dim), each number drawn for itself; outputs zero but for biases.

    kept   int64 (n_words,)  how often each word is expected to survive subsampling; `noise` (n_words,) what is drawn by
    Raises `EmbedxError` when they do not fit in memory.
    """
    n_words, dim = len(kept), settings.dim
    has_bias = settings.bias != "none"
    n_rows = objective.n_rows(n_words)
    try:
        rule = optimizers.update_rule(settings.optimizer)
        inputs, outputs = (new_table(n, dim + has_bias, rule) for n in (n_words, n_rows))
        rng = np.random.default_rng([settings.seed, INITIAL])
        for start in range(0, n_words, 65536):  # by blocks, so that no second table is ever in memory
            block = inputs.rows[start : start + 65536, :dim]
            block[:] = (rng.random(block.shape, dtype=np.float32) - np.float32(0.5)) / np.float32(dim)
    except MemoryError as error:
        need = 4 * optimizers.OPTIMIZERS[settings.optimizer].copies * (n_words + n_rows) * dim / 1e9
        raise EmbedxError(
            f"two tables of {n_words:,} words × {dim} numbers need {need:.1f} GB, more than there is; "
            "lower --dim or --max-vocab"
        ) from error
    if has_bias:
        inputs.rows[:, dim] = 1
    if settings.bias == "frequency":
        outputs.rows[:, dim] = objective.initial_bias(kept / kept.sum(), noise)
    return engine.Tables(
        inputs,
        outputs,
        state=np.zeros((n_words, objective.state_width), dtype=np.float32),
        n_updates=np.zeros(n_words if objective.state_width else 1, dtype=np.int64),
    )


def resolved(
    settings: SkipGramSettings, objective: Objective, kept: np.ndarray, noise: np.ndarray, progress: Progress
) -> SkipGramSettings:
    """The settings with nothing left open: what `share`, `draws` and `threads` come to for this vocabulary on this machine.

    kept    int64 (n_words,)  how often each word is expected to survive subsampling
    noise   float (n_words,)  the noise distribution
    """
    negatives = objective.negatives if settings.sampler in ("unigram", "uniform") else 0
    likeliest = max(float(kept.max() / kept.sum()), float(noise.max()) if negatives else 0.0)
    if settings.sampler == "path":
        likeliest = 1.0  # the root's
    pairs_of_centre = (settings.window + 1) * (1 + negatives) * likeliest  # that one centre brings to the likeliest row
    share = min(settings.share, max(1, int(PAIRS_PER_ROW / pairs_of_centre)))
    if share < settings.share and settings.sampler != "path":
        progress.note(f"small vocabulary: noise words are shared by {share} consecutive words instead of {settings.share}")
    draws = min(max(negatives, math.ceil(negatives * share * (settings.window + 1) / PAIRS_PER_DRAW)), MOST_DRAWS)
    if settings.sampler == "search":
        draws = min(objective.negatives, MOST_DRAWS)  # before the search begins; they count once each, whatever the pairs
    return dataclasses.replace(
        settings,
        share=share,
        draws=settings.draws or draws,
        threads=settings.threads or trainer.usable_cores(),
    )


@dataclasses.dataclass
class Task:
    """A run with everything decided; `settings` are resolved."""

    corpus: cache.EncodedCorpus
    words: Vocabulary
    remap: np.ndarray
    noise: np.ndarray
    tables: engine.Tables
    objective: Objective
    settings: SkipGramSettings
    text: TextSettings
    vocabulary: VocabularySettings
    progress: Progress

    def __post_init__(self) -> None:
        share = self.settings.heldout
        self.heldout = hold_out(self.corpus.tokens, self.remap, share) if share > 0 else None

    def stream(self) -> blocks.Stream:
        """The corpus as training sees it."""
        keep = np.zeros(len(self.remap), dtype=np.uint32)
        chance = self.words.keep_probability(self.vocabulary.sample).astype(np.float64)
        keep[self.remap >= 0] = np.minimum(chance * 2**32, 2**32 - 1)[self.remap[self.remap >= 0]]
        held_out = self.heldout.chunks if self.heldout else np.zeros(n_chunks(self.corpus.tokens), dtype=np.uint8)
        return blocks.Stream(self.corpus.tokens, self.remap, keep, held_out)

    def run(self) -> trainer.Outcome:
        """Train the tables in place."""
        settings, objective, corpus = self.settings, self.objective, self.corpus
        draws, n_threads = settings.draws or 0, settings.threads or 0
        paths = objective.paths() if settings.sampler == "path" else None
        has_bias = settings.bias != "none"
        plan = blocks.Plan(
            settings.window, settings.share, draws, len(self.tables.outputs.rows), ROWS[str(settings.sampler)],
            form_of(objective), objective.keeps_accidental_hits, objective.uses_log_expected_count, objective.uses_score_gain,
            settings.dim if has_bias else -1,
            optimizers.update_rule(settings.optimizer, row_length=settings.dim),
        )  # fmt: skip
        drawn_by = new_draws(self.noise, draws * self.noise, paths)
        constants = objective.constants(draws or len(self.tables.outputs.rows), len(self.words))
        stream = self.stream()
        longest, columns = int(np.diff(drawn_by.path_offsets).max(initial=1)), self.tables.inputs.rows.shape[1]
        n_words = self.words.n_tokens - (self.heldout.n_words if self.heldout else 0)
        rate, n_stretches = float(settings.learning_rate or 0), -(-len(corpus.tokens) // STRETCH)
        schedule = trainer.Schedule(rate, n_stretches, n_words, settings.epochs, settings.time_budget)
        after_epoch = self._after_epoch if self._tells() else None
        if settings.sampler == "search":
            way = _Found(self, stream, drawn_by, plan, n_stretches)
            return trainer.run(way.train, way.scratches, schedule, self.progress, after_epoch)
        scratches = [engine.new_scratch(plan, STRETCH, columns, longest, objective.uniforms_width) for _ in range(n_threads)]

        def train_one(scratch: engine.Scratch, epoch: int, stretch: int, rate: float) -> trainer.Tally:
            start, stop = stretch * STRETCH, min((stretch + 1) * STRETCH, len(corpus.tokens))
            loss, pairs, seen = engine.train_stretch(
                objective.coefficients, self.tables, stream, drawn_by, constants, plan, scratch,
                start, stop, np.float32(rate), stream_key(settings.seed, epoch), stream_key(settings.seed, epoch, stretch),
            )  # fmt: skip
            return trainer.Tally(loss, pairs, seen)

        like = (self.tables, stream, drawn_by, constants, plan, scratches[0], 0, 0, np.float32(0), np.uint64(0), np.uint64(0))
        load_kernel(engine.train_stretch, objective, like, self.progress)
        return trainer.run(train_one, scratches, schedule, self.progress, after_epoch)

    def _tells(self) -> bool:
        return self.heldout is not None and self.settings.heldout_every is not None

    def _after_epoch(self, epoch: int, tally: trainer.Tally, seconds_passed: float) -> bool:
        """Tell the held-out log-likelihood if its turn has come; never ends the training."""
        if (epoch + 1) % (self.settings.heldout_every or 1) == 0:
            self.progress.note(f"epoch {epoch + 1}: held-out log-likelihood {self.heldout_metrics()['log_likelihood']:.4f}")
        return False

    def heldout_metrics(self) -> dict[str, float]:
        """How likely what was learned so far finds the text that was held out; see `embedx.evaluation.heldout`."""
        vectors = self.model(None)
        assert self.heldout is not None
        pairs, calibration = heldout.draw(self.heldout.words, self.heldout.groups, vectors)
        return heldout.evaluate(vectors, pairs, calibration).metrics()

    def model(self, outcome: trainer.Outcome | None) -> model.WordVectors:
        """What was learned so far, as views of the tables."""
        settings, dim = self.settings, self.settings.dim
        arrays = {"input": self.tables.inputs.rows[:, :dim], "output": self.tables.outputs.rows[:, :dim]}
        if settings.bias != "none":
            arrays["bias"] = self.tables.outputs.rows[:, dim]
        record = settings.record() | self.objective.settings.record() | self.text.record() | self.vocabulary.record()
        facts: dict[str, Any] = {
            "objective": self.objective.name,
            "corpus": self.corpus.key,
            "corpus_tokens": self.corpus.n_tokens,
            "words": len(self.words),
        }
        if outcome is not None:
            facts |= {
                "final_loss": outcome.final_loss,
                "epochs": round(outcome.epochs, 4),
                "words_trained": outcome.tally.words,
                "pairs_trained": outcome.tally.pairs,
                "seconds": round(outcome.seconds, 3),
                "words_per_second": round(outcome.tally.words / max(outcome.seconds, 1e-9)),
                "interrupted": outcome.interrupted_by is not None,
            }
        return model.WordVectors(self.words.words, arrays, counts=self.words.counts, settings=record, facts=facts)


class _Found:
    """Training where an index finds the rows that compete, once a share of the run has drawn them instead."""

    def __init__(self, task: Task, stream: blocks.Stream, draws: Draws, plan: blocks.Plan, n_stretches: int) -> None:
        self.task, self.stream, self.n_stretches = task, stream, n_stretches
        settings, objective, tables = task.settings, task.objective, task.tables
        n_words, n_rows, columns = len(tables.inputs.rows), len(tables.outputs.rows), settings.dim + (settings.bias != "none")
        search = objective.search(n_words)
        assert search is not None
        search = search.of(columns)
        search = search._replace(kept=min(search.kept, found.MOST_FOUND // search.blocks))
        certain = draws._replace(log_expected=np.zeros(n_rows, dtype=np.float32))
        found_plan = plan._replace(rows=blocks.FOUND, n_draws=found.MOST_FOUND)
        self.constants = objective.constants(plan.n_draws, n_words)
        self.drawn, self.found = (plan, draws), (found_plan, certain)
        self.scratches = [
            (
                engine.new_scratch(found_plan, STRETCH, tables.inputs.rows.shape[1], 1, objective.uniforms_width),
                found.new_finding(n_words, n_rows, search),
            )
            for _ in range(settings.threads or 1)
        ]
        self.search = search
        self.follower = Follower(
            tables.outputs.rows, n_rows, columns, search,
            seed=settings.seed, threads=settings.threads or 1, progress=task.progress,
        )  # fmt: skip
        end = (0, 0, np.float32(0), np.uint64(0), np.uint64(0))
        scratch, finding = self.scratches[0]
        load_kernel(engine.train_stretch, objective, (*self._first(plan, draws, scratch), *end), task.progress)
        arguments = self._then(empty(search.blocks), scratch, finding)
        load_kernel(found.train_stretch, objective, (*arguments, *end), task.progress)

    def _first(self, plan: blocks.Plan, draws: Draws, scratch: engine.Scratch) -> tuple[Any, ...]:
        return self.task.tables, self.stream, draws, self.constants, plan, scratch

    def _then(self, index: Index, scratch: engine.Scratch, finding: found.Finding) -> tuple[Any, ...]:
        plan, draws = self.found
        return self.task.tables, self.stream, draws, index, self.search, self.constants, plan, scratch, finding

    def train(self, scratches: tuple[engine.Scratch, found.Finding], epoch: int, stretch: int, rate: float) -> trainer.Tally:
        task, (scratch, finding) = self.task, scratches
        start, stop = stretch * STRETCH, min((stretch + 1) * STRETCH, len(self.stream.tokens))
        seed = task.settings.seed
        end = (start, stop, np.float32(rate), stream_key(seed, epoch), stream_key(seed, epoch, stretch))
        coefficients = task.objective.coefficients
        if epoch * self.n_stretches + stretch < task.objective.settings.warm_up * self.n_stretches:
            plan, draws = self.drawn
            return trainer.Tally(*engine.train_stretch(coefficients, *self._first(plan, draws, scratch), *end))
        tally = found.train_stretch(coefficients, *self._then(self.follower.current(), scratch, finding), *end)
        self.follower.follow(finding.moved)
        return trainer.Tally(*tally)


def form_of(objective: Objective) -> int:
    """How the objective is told the pairs of a block."""
    if objective.positives == "summed":
        return blocks.SUMS
    return blocks.SETS if objective.merges_pairs or objective.pairs_as_set else blocks.PAIRS


def _check(tables: engine.Tables, settings: SkipGramSettings, outcome: trainer.Outcome, progress: Progress) -> None:
    """Raise `DivergedError` if a parameter is not finite or the loss out of hand; note it if it rose instead of falling."""
    rise = outcome.final_loss / outcome.first_loss if outcome.first_loss and outcome.final_loss else 0.0
    if rise > OUT_OF_HAND:
        raise DivergedError(
            f"the loss rose from {outcome.first_loss:.4g} to {outcome.final_loss:.4g}; try a smaller --learning-rate than "
            f"{settings.learning_rate or 0:g}"
        )
    if rise > 1.5:
        progress.note(
            f"warning: the loss rose from {outcome.first_loss:.4g} to {outcome.final_loss:.4g}; "
            f"try a smaller --learning-rate than {settings.learning_rate or 0:g}"
        )
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
        overwrite=overwrite,
    )


class SkipGram:
    """Word vectors from Python: `SkipGram(objective="ns", dim=100).fit("corpus.txt").model.most_similar("city")`.

    Takes every setting of `embedx train` by name. `fit` accepts what the command line does, or an iterable of token lists.
    """

    def __init__(self, objective: str = "ns", *, cache_dir: str | Path | None = None, **options: Any) -> None:
        found = objectives.find(objective)
        groups: tuple[type[Settings], ...] = (SkipGramSettings, TextSettings, VocabularySettings, found.Settings)
        known = {name for group in groups for name in settings_of(group)}
        if unknown := options.keys() - known:
            raise TypeError(f"SkipGram takes no {', '.join(sorted(unknown))}; its settings are {', '.join(sorted(known))}")
        self.settings, self.objective = chosen(found, options)
        self.text = TextSettings.from_options(options)
        self.vocabulary = VocabularySettings.from_options(options)
        self.cache_dir = Path(cache_dir) if cache_dir else None

    def fit(self, corpora: Corpora) -> "SkipGram":
        """Train; the result is `self.model`. Raises `EmbedxError`; Ctrl-C keeps the model so far and is raised again."""
        trained = train(
            corpora, self.objective, self.settings, text=self.text, vocabulary=self.vocabulary, cache_dir=self.cache_dir
        )
        self.model, self.outcome = trained.vectors, trained.outcome
        if self.outcome.interrupted_by is not None:
            raise self.outcome.interrupted_by
        return self

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write the model folder."""
        return save(self.model, Path(folder), overwrite)
