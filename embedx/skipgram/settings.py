"""Settings of skip-gram, and what becomes of them: as an objective has them, and for a vocabulary on this machine."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from embedx import optimizers, samplers
from embedx.engine.encoders import ENCODERS, pairs_of_centre
from embedx.engine.settings import MAX_RATE, TrainingSettings, check_sampler
from embedx.errors import EmbedxError
from embedx.objectives import OBJECTIVES
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import COLLAPSED, WORDS
from embedx.samplers.contract import Sampler
from embedx.settings import as_arguments, as_typed, check_used, fraction, param, settings_of
from embedx.text.ngrams import MAX_BUCKETS, NGrams, ngrams
from embedx.text.subsampling import WHOLE_SENTENCE
from embedx.training import trainer
from embedx.training.progress import Progress

PREFERRED = ("search", "unigram")  # samplers, before those that an objective has in mind for labels
# A drawn word stands for negatives × pairs / draws of a block's pairs and moves by all of them at once. Word similarity and
# analogies are best up to 8 (learning rate 0.04, 100 MB of Wikipedia), slightly worse at 15, worse at 30; 60 diverges.
PAIRS_PER_DRAW = 7.5
MAX_DRAWS = 1024
# Nor may a block bring more than this many pairs to the most frequent word's row, which matters for vocabularies of some dozen
# words: there a block of 16 centres holds each of them many times.
PAIRS_PER_ROW = 30
LARGE_TEXT = 15_000_000  # tokens from which on an objective's `large_text_defaults` apply: somewhat less than 100 MB of English
FAR_RATE = 30  # a learning rate so many times the default, or as much below, is warned of
BUCKETS = 2_000_000  # fastText's default
# Defaults for words with n-grams where the default without them is an optimiser whose rate stops falling: an n-gram is in far
# more words than one, and the mean moves by the mean of its parts' rates. `ns` on 10 MB of Wikipedia, 5 epochs, similarity over
# five sets and held-out log-likelihood: bounded-adagrad at 2 .277, -8.820, at 5 .292, -8.955; rowwise-adagrad at 1.5 .267,
# -8.817, at 3 .323, -8.813, at 6 .315, -8.919. (With the gradient divided by the root of the number of parts bounded-adagrad at
# 2 has .305, -8.802, rowwise-adagrad at 4 .314, -8.841; that sgd would then be too slow is why it is not.)
OF_SUBWORDS = {"optimizer": "rowwise-adagrad", "learning_rate": 3.0}


def distance(text: str) -> int:
    """What `--window` says. Raises `EmbedxError` if it is no number, and not `all`."""
    try:
        return WHOLE_SENTENCE if text == "all" else int(text)
    except ValueError:
        raise EmbedxError(f"--window {text}: not a whole number; write 5, or all") from None


def large_text_defaults() -> str:
    """`--optimizer sgd --block-size 16 for ns`, of all objectives that have such defaults."""
    found = {name: each.large_text_defaults for name, each in OBJECTIVES.items() if each.large_text_defaults}
    return ", ".join(f"{' '.join(as_arguments(options))} for {name}" for name, options in found.items())


@dataclasses.dataclass(frozen=True)
class SkipGramSettings(TrainingSettings):
    """How skip-gram trains, whatever the objective."""

    architecture: str = param(
        "skipgram",
        "`skipgram`, where each context word predicts the centre, or `cbow`, where their mean does; the default block size of "
        f"cbow is {ENCODERS['cbow'].DEFAULTS['block_size']}",
        choices=tuple(ENCODERS),
        panel="Model",
    )
    dim: int = param(100, "dimension of the word vectors", at_least=1, panel="Model")
    window: int = param(
        5,
        "maximum distance between centre and context word, in kept words; each centre's own window is drawn between 1 and "
        f"this; `all`, which is {WHOLE_SENTENCE}, draws none: all other words of a sentence are context, so far",
        at_least=1,
        at_most=WHOLE_SENTENCE,  # a block has the rows of a whole window, and Ctrl-C waits for a chunk of them
        parse=distance,
        panel="Model",
    )
    optimizer: str = param(
        "rowwise-adagrad",
        f"optimiser: {optimizers.meanings(WORDS, COLLAPSED)}; from {LARGE_TEXT:,} tokens on by default "
        f"{large_text_defaults()}, unless one of --optimizer, --learning-rate and --block-size is given",
        choices=optimizers.taken_by(WORDS, COLLAPSED),
    )
    learning_rate: float | None = param(
        None,
        f"learning rate at the start; falls linearly to zero over the run; by default {optimizers.usual_rates(WORDS)}",
        above=0.0,
        at_most=MAX_RATE,
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
    )
    draws: int | None = param(
        None,
        "noise words drawn for each block, with --collapsed for each input; by default enough to keep each update small",
        at_least=1,
        at_most=MAX_DRAWS,
    )
    shuffle: bool = param(
        True,
        "train on chunks of 10,000 tokens in an order drawn for each epoch, so that a corpus sorted by subject or date "
        "is learned evenly; otherwise in the order of the corpus",
    )
    subwords: str | None = param(
        None,
        "lengths of character n-grams, such as 3-6: a word's vector is the mean of a vector of its own and of those of its "
        "n-grams, so that words which were never seen have one too",
    )
    buckets: int | None = param(
        None,
        f"with --subwords: how many vectors n-grams are hashed to; by default {BUCKETS:,}, of which only those of the "
        "vocabulary take memory",
        at_least=1,
        at_most=MAX_BUCKETS,
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


class SizedSettings(SkipGramSettings):
    """Settings for a small text of which those that are `open` were not given: `by_size` decides them."""

    open = ("optimizer", "learning_rate", "block_size")


def chosen(objective: type[Objective], options: dict[str, Any]) -> tuple[SkipGramSettings, Objective]:
    """The settings among `options`, those not given at the defaults for the objective, and the objective with its own.

    Raises `EmbedxError` for what the objective does not take.
    """
    architecture = ENCODERS.get(options.get("architecture") or SkipGramSettings.architecture)
    of_architecture = architecture.DEFAULTS if architecture else {}
    defaults = dict(objective.word_defaults) | of_architecture
    default_optimizer = defaults.get("optimizer", SkipGramSettings.optimizer)
    if options.get("subwords") is not None and math.isfinite(optimizers.OPTIMIZERS[default_optimizer].limit):
        defaults |= OF_SUBWORDS
        default_optimizer = OF_SUBWORDS["optimizer"]
    if options.get("optimizer", default_optimizer) != default_optimizer:
        defaults.pop("learning_rate", None)  # of another optimizer
    made = objective(objective.Settings.from_options({**defaults, **options}))
    decides = (*SizedSettings.open, "subwords")
    is_open = objective.large_text_defaults and not of_architecture and all(options.get(name) is None for name in decides)
    settings = completed((SizedSettings if is_open else SkipGramSettings).from_options({**defaults, **options}), made)
    sampler = samplers.SAMPLERS[str(settings.sampler)]
    needs = (
        *((name, settings.heldout > 0, "--heldout") for name in ("heldout_every", "heldout_points")),
        ("draws", sampler.candidates in ("drawn", "retrieved"), "a sampler that draws"),
        ("buckets", settings.subwords is not None, "--subwords"),
        *((name, False, "labels, which have features") for name in objective.label_settings),
    )
    check_used(options, needs)
    return settings, made


def completed(settings: SkipGramSettings, objective: Objective) -> SkipGramSettings:
    """The settings with a sampler and a rate. Raises `EmbedxError` if the objective does not take what was asked for."""
    taken = in_order(objective)
    sampler = settings.sampler or taken[0]
    if sampler in samplers.SAMPLERS and samplers.SAMPLERS[sampler].conditional:
        raise EmbedxError(f"--sampler {sampler} is for `embedx classify`; for word vectors take {' or '.join(taken)}")
    check_sampler(sampler, objective.name, tuple(taken))
    is_retrieved = samplers.SAMPLERS[sampler].candidates == "retrieved"
    if settings.block_size == 0 and (is_retrieved or not ENCODERS[settings.architecture].PER_CONTEXT):
        other = f"--sampler {sampler}" if is_retrieved else f"--architecture {settings.architecture}"
        raise EmbedxError(f"--block-size 0 draws candidates for each pair, which {other} cannot do; take 1 or more")
    optimizer = optimizers.find(settings.optimizer, WORDS)
    if objective.kind == "proximal" and optimizer.keeps == "per_coordinate":
        raise EmbedxError(
            f"--optimizer {settings.optimizer} gives each number of a row a rate of its own, but the step of --objective "
            f"{objective.name} is at one rate for each row; take rowwise-adagrad, bounded-adagrad or sgd"
        )
    rate = settings.learning_rate or optimizer.rates[WORDS]
    buckets = settings.ngrams.n_buckets if settings.ngrams else settings.buckets
    return dataclasses.replace(settings, sampler=sampler, learning_rate=rate, buckets=buckets)


def by_size(settings: SkipGramSettings, objective: Objective, n_tokens: int, progress: Progress) -> SkipGramSettings:
    """The settings with those that are open chosen by the number of tokens of the vocabulary in the text, which is reported."""
    if not settings.open:
        return settings
    options = {name: getattr(settings, name) for name in settings_of(SkipGramSettings)}
    if n_tokens >= LARGE_TEXT:
        options |= {"learning_rate": None, **objective.large_text_defaults}
    found = completed(SkipGramSettings.from_options(options), objective)
    values = " ".join(f"{name.replace('_', '-')}={as_typed(getattr(found, name))}" for name in settings.open)
    progress.note(f"chosen by the number of tokens: {values}")
    return found


def warn_of_rate(settings: SkipGramSettings, objective: Objective, progress: Progress) -> None:
    """Warn of a learning rate that is far from the default: it may be meant for another optimiser."""
    rate, usual = float(settings.learning_rate or 0), optimizers.OPTIMIZERS[settings.optimizer].rates[WORDS]
    if settings.optimizer == objective.word_defaults.get("optimizer", SkipGramSettings.optimizer):
        usual = float(objective.word_defaults.get("learning_rate", usual))
    if not usual / FAR_RATE < rate < usual * FAR_RATE:
        remedy = "leave it out" + (", or add --optimizer sgd for a rate of word2vec" if rate < usual else "")
        progress.note(
            f"warning: --learning-rate {rate:g} is far from {usual:g}, the default of {settings.optimizer} here; {remedy}"
        )


def chosen_samplers(
    objective: Objective, settings: SkipGramSettings, options: Mapping[str, Any]
) -> tuple[Sampler, Sampler | None]:
    """As `new_samplers`, before anything is known of the words."""
    return samplers.with_warm_up(str(settings.sampler), in_order(objective), options, corrected=objective.adds_log_noise)


def in_order(objective: Objective) -> list[str]:
    """The samplers that the objective takes for word vectors, the default first."""
    taken = [name for name in objective.samplers() if not samplers.SAMPLERS[name].conditional]
    return sorted(taken, key=lambda name: PREFERRED.index(name) if name in PREFERRED else len(PREFERRED))


def new_samplers(
    objective: Objective, settings: SkipGramSettings, options: Mapping[str, Any], counts: np.ndarray
) -> tuple[Sampler, Sampler | None]:
    """The sampler that the settings name, and what draws before it can retrieve rows, if it retrieves them.

    options   settings of the sampler's own; those of what draws, where rows are retrieved
    counts    int64 (n_words,)  how often each word occurs
    """
    return samplers.prepared(chosen_samplers(objective, settings, options), counts, objective.paths())


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
    n_pairs = pairs_of_centre(settings.architecture, settings.window + 1 if n_around is None else n_around)
    retrieves = samplers.SAMPLERS[str(settings.sampler)].candidates == "retrieved"
    negatives = objective.negatives if sampler.candidates == "drawn" and not retrieves else 0
    is_path = sampler.candidates == "path"
    likeliest = max(float(kept.max() / kept.sum()), float(sampler.noise.max()) if negatives else 0.0)
    of_centre = n_pairs * (1 + negatives) * (1.0 if is_path else likeliest)  # pairs of a centre with the likeliest row, or root
    block_size = min(settings.block_size, max(1, int(PAIRS_PER_ROW / of_centre)))
    if block_size < settings.block_size and not is_path:
        progress.note(f"small vocabulary: blocks of {block_size} words instead of {settings.block_size}")
    draws = max(negatives, math.ceil(negatives * block_size * n_pairs / PAIRS_PER_DRAW))
    if retrieves:
        draws = objective.negatives  # before the search begins; they count once each, whatever the pairs
    return dataclasses.replace(
        settings,
        block_size=block_size,
        draws=settings.draws or min(draws, MAX_DRAWS) or None,  # None where nothing is drawn
        threads=1 if settings.deterministic else settings.threads or trainer.usable_cores(),
    )
