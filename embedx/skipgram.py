"""The task of word vectors: from corpora to a trained model, one call.

corpora -> encoded tokens -> vocabulary -> [engine: blocks of skip-gram pairs] -> model
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numba import typeof, types

from embedx import model, objectives
from embedx.compiled import is_cached
from embedx.engine import skipgram as engine
from embedx.engine import trainer
from embedx.engine.random import stream_key
from embedx.engine.simd import aligned_zeros
from embedx.errors import DivergedError, EmbedxError
from embedx.interrupts import to_the_end
from embedx.objectives.contract import COEFFICIENTS, Objective
from embedx.progress import Progress, Silent
from embedx.samplers.alias import AliasTable, alias_table
from embedx.settings import Settings, TextSettings, VocabularySettings, param, seconds, settings_of
from embedx.text import cache, sources
from embedx.text.vocabulary import Vocabulary, select

STRETCH = 10_000  # tokens a worker trains between two looks at the clock: about 5 ms
INITIAL = 2**32  # the place of the initial vectors among a seed's random numbers
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
    learning_rate: float = param(0.04, "step size at the start; falls linearly to zero over the run", above=0.0)
    sampler: str = param("unigram", "what noise words are drawn by: their count, or evenly", choices=("unigram", "uniform"))
    sampler_exponent: float = param(0.75, "the power of the count that `unigram` draws by", at_least=0.0, at_most=1.0)
    share: int = param(
        8,
        "consecutive words whose windows share one set of noise words; 0 draws afresh for every pair",
        at_least=0,
        at_most=64,
    )
    draws: int | None = param(
        None, "noise words drawn for each set; by default enough to keep each one's step small", at_least=1, at_most=MOST_DRAWS
    )
    threads: int | None = param(None, "worker threads; by default one for each usable core", at_least=1)
    time_budget: float | None = param(
        None,
        "train for this long instead of --epochs: 90s, 10m, 2h; the rate reaches zero at the bell",
        above=0.0,
        parse=seconds,
    )
    seed: int = param(1, "every random choice derives from this", at_least=0)


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained model and how its training went."""

    vectors: model.WordVectors
    outcome: trainer.Outcome


Corpora = str | Path | Sequence[str | Path] | Iterable[Sequence[str]]  # names of corpora, or sentences as lists of tokens


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
    if settings.sampler not in objective.samplers or objective.takes == "set":
        raise EmbedxError(f"--objective {objective.name}: `embedx classify` has it; word vectors are trained by ns")
    progress = progress or Silent()
    text, vocabulary = text or TextSettings(), vocabulary or VocabularySettings()
    with encode(corpora, text, progress, cache_dir) as corpus:
        words, remap = select(corpus, vocabulary)
        progress.note(f"vocabulary: {len(words):,} words, {words.n_tokens:,} of {corpus.n_tokens:,} tokens")
        noise = noise_distribution(words.counts, settings)
        settings = resolved(settings, objective, words.counts * words.keep_probability(vocabulary.sample), noise, progress)
        tables = new_tables(len(words), objective, settings)
        outcome = _run(corpus, words, remap, noise, tables, objective, settings, vocabulary.sample, progress)
        to_the_end(lambda: _check(tables, settings, outcome, progress))
        facts = _facts(corpus, words, objective, settings, outcome)
    arrays = {"input": tables.inputs[:, : settings.dim], "output": tables.outputs[:, : settings.dim]}
    record = settings.record() | objective.settings.record() | text.record() | vocabulary.record()
    return Trained(model.WordVectors(words.words, arrays, counts=words.counts, settings=record, facts=facts), outcome)


def encode(corpora: Corpora, text: TextSettings, progress: Progress, cache_dir: Path | None) -> cache.EncodedCorpus:
    """The corpora as provisional token ids; read now, or found in the token cache."""
    if isinstance(corpora, str | Path):
        corpora = [corpora]
    if isinstance(corpora, Sequence) and (names := [str(name) for name in corpora if isinstance(name, str | Path)]):
        return cache.encode(sources.resolve(names), text, progress, cache_dir)
    return cache.encode_sentences(cast(Iterable[Sequence[str]], corpora), progress, cache_dir)


def new_tables(n_words: int, objective: Objective, settings: SkipGramSettings) -> engine.Tables:
    """Parameters before training: inputs uniform in ±1/(2 dim), each number drawn for itself; outputs zero.

    Raises `EmbedxError` when they do not fit in memory.
    """
    try:
        inputs = aligned_zeros(n_words, settings.dim)
        outputs = aligned_zeros(objective.n_rows(n_words), settings.dim)
        rng = np.random.default_rng([settings.seed, INITIAL])
        for start in range(0, n_words, 65536):  # by blocks, so that no second table is ever in memory
            block = inputs[start : start + 65536, : settings.dim]
            block[:] = (rng.random(block.shape, dtype=np.float32) - np.float32(0.5)) / np.float32(settings.dim)
    except MemoryError as error:
        need = 8 * n_words * settings.dim / 1e9
        raise EmbedxError(
            f"two tables of {n_words:,} words × {settings.dim} numbers need {need:.1f} GB, more than there is; "
            "lower --dim or --max-vocab"
        ) from error
    return engine.Tables(
        inputs,
        outputs,
        state=np.zeros((n_words, objective.state_width), dtype=np.float32),
        visits=np.zeros(n_words if objective.state_width else 1, dtype=np.int64),
    )


def noise_distribution(counts: np.ndarray, settings: SkipGramSettings) -> np.ndarray:
    """float64 (n_words,): the probability of each word to be drawn as noise."""
    exponent = settings.sampler_exponent if settings.sampler == "unigram" else 0.0
    weights = counts.astype(np.float64) ** exponent
    return np.asarray(weights / weights.sum())


def resolved(
    settings: SkipGramSettings, objective: Objective, kept_counts: np.ndarray, noise: np.ndarray, progress: Progress
) -> SkipGramSettings:
    """The settings with nothing left open: what `share`, `draws` and `threads` come to for this vocabulary on this machine.

    kept_counts  float (n_words,)  how often each word is expected to survive subsampling
    noise        float (n_words,)  the noise distribution
    """
    negatives = objective.negatives
    likeliest = max(float(kept_counts.max() / kept_counts.sum()), float(noise.max()))
    pairs_of_centre = (settings.window + 1) * (1 + negatives) * likeliest  # that one centre brings to the likeliest row
    share = min(settings.share, max(1, int(PAIRS_PER_ROW / pairs_of_centre)))
    if share < settings.share:
        progress.note(f"small vocabulary: noise words are shared by {share} consecutive words instead of {settings.share}")
    draws = min(max(negatives, math.ceil(negatives * share * (settings.window + 1) / PAIRS_PER_DRAW)), MOST_DRAWS)
    threads = settings.threads or trainer.usable_cores()
    return dataclasses.replace(settings, share=share, draws=settings.draws or draws, threads=threads)


def _run(
    corpus: cache.EncodedCorpus,
    words: Vocabulary,
    remap: np.ndarray,
    noise: np.ndarray,
    tables: engine.Tables,
    objective: Objective,
    settings: SkipGramSettings,
    sample: float,
    progress: Progress,
) -> trainer.Outcome:
    """Train the tables in place; `settings` are resolved."""
    draws, n_threads = settings.draws or 0, settings.threads or 0
    plan = engine.Plan(
        settings.window, settings.share, draws,
        objective.takes == "sum", objective.keeps_hits, objective.uses_loge, objective.uses_norm,
    )  # fmt: skip
    sampler: AliasTable = alias_table(noise)
    log_expected = np.log(draws * noise).astype(np.float32)
    numbers = objective.numbers(draws, len(words))
    keep = np.zeros(len(remap), dtype=np.uint32)
    keep[remap >= 0] = np.minimum(words.keep_probability(sample).astype(np.float64) * 2**32, 2**32 - 1)[remap[remap >= 0]]
    stream = engine.Stream(corpus.tokens, remap, keep)
    scratches = [engine.new_scratch(plan, STRETCH, settings.dim, objective.uniforms_width) for _ in range(n_threads)]

    def train_one(scratch: engine.Scratch, epoch: int, stretch: int, rate: float) -> trainer.Tally:
        start, stop = stretch * STRETCH, min((stretch + 1) * STRETCH, len(corpus.tokens))
        loss, pairs, seen = engine.train_stretch(
            objective.coefficients, tables, stream, sampler, log_expected, numbers, plan, scratch,
            start, stop, np.float32(rate), stream_key(settings.seed, epoch), stream_key(settings.seed, epoch, stretch),
        )  # fmt: skip
        return trainer.Tally(loss, pairs, seen)

    like = (tables, stream, sampler, log_expected, numbers, plan, scratches[0], 0, 0, np.float32(0), np.uint64(0), np.uint64(0))
    load_kernels(objective, like, progress)
    schedule = trainer.Schedule(
        settings.learning_rate, -(-len(corpus.tokens) // STRETCH), words.n_tokens, settings.epochs, settings.time_budget
    )
    return trainer.run(train_one, scratches, schedule, progress)


def load_kernels(objective: Objective, like: tuple[Any, ...], progress: Progress) -> None:
    """Compile the kernels for arguments `like` these, or load them from the disk cache; says so when it will take a while.

    The engine is compiled once for all objectives: it takes `coefficients` as a function pointer with a fixed signature.
    """
    if not hasattr(engine.train_stretch, "compile"):  # plain Python under NUMBA_DISABLE_JIT
        return
    if not is_cached(engine.train_stretch, objective.coefficients):
        progress.note("compiling kernels, once for this version on this machine: about 20 seconds")
    objective.coefficients.compile(COEFFICIENTS)
    signature = (types.FunctionType(COEFFICIENTS), *(typeof(argument) for argument in like))
    engine.train_stretch.disable_compile(False)
    engine.train_stretch.compile(signature)
    engine.train_stretch.disable_compile()  # else a call would compile again for this very `coefficients`, uncached


def _check(tables: engine.Tables, settings: SkipGramSettings, outcome: trainer.Outcome, progress: Progress) -> None:
    """Raise `DivergedError` if a parameter is not finite; note it if the loss rose instead of falling."""
    if outcome.first_loss and outcome.final_loss and outcome.final_loss > 1.5 * outcome.first_loss:
        progress.note(
            f"warning: the loss rose from {outcome.first_loss:.4g} to {outcome.final_loss:.4g}; "
            f"try a smaller --learning-rate than {settings.learning_rate:g}"
        )
    for table in (tables.inputs, tables.outputs):
        for start in range(0, len(table), 65536):
            if not np.isfinite(table[start : start + 65536]).all():
                raise DivergedError(
                    f"vectors are no longer finite at the end of training; try a smaller --learning-rate than "
                    f"{settings.learning_rate:g}"
                )


def _facts(
    corpus: cache.EncodedCorpus, words: Vocabulary, objective: Objective, settings: SkipGramSettings, outcome: trainer.Outcome
) -> dict[str, Any]:
    """What is told of the run beside the model."""
    return {
        "objective": objective.name,
        "corpus": corpus.key,
        "corpus_tokens": corpus.n_tokens,
        "words": len(words),
        "final_loss": outcome.final_loss,
        "epochs": round(outcome.epochs, 4),
        "words_trained": outcome.tally.words,
        "pairs_trained": outcome.tally.pairs,
        "seconds": round(outcome.seconds, 3),
        "words_per_second": round(outcome.tally.words / outcome.seconds),
        "interrupted": outcome.interrupted_by is not None,
    }


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
        self.settings = SkipGramSettings.from_options(options)
        self.text = TextSettings.from_options(options)
        self.vocabulary = VocabularySettings.from_options(options)
        self.objective = found(found.Settings.from_options(options))
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
