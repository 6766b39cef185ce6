"""Settings of word vectors. What becomes of them for an objective and a text is in `configuration`."""

import dataclasses

from embedx import optimizers
from embedx.engine.encoders import ENCODERS
from embedx.engine.settings import MAX_RATE, TrainingSettings
from embedx.errors import EmbedxError
from embedx.objectives import OBJECTIVES
from embedx.optimizers.contract import COLLAPSED, WORDS
from embedx.settings import Settings, as_arguments, fraction, param
from embedx.text.ngrams import MAX_BUCKETS, NGrams, ngrams
from embedx.text.subsampling import WHOLE_SENTENCE

# Tokens from which on an objective's `large_text_defaults` apply, of some 18 MB of English. `ns` by blocks of 16, two seeds,
# similarity over five sets by bounded-adagrad at 2 and sgd at 0.06: 1 MB .180 .078, 4 MB .291 .279, 10 MB .317 .313,
# 20 MB .362 .365, 100 MB (one seed) .418 .427.
LARGE_TEXT = 3_000_000
BUCKETS = 2_000_000  # fastText's default
MAX_DRAWS = 1024


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
    """How word vectors are trained, whatever the objective."""

    architecture: str = param(
        "skipgram",
        "; ".join(f"`{name}`: {encoder.ABOUT}" for name, encoder in ENCODERS.items()),
        choices=tuple(ENCODERS), panel="Model",
    )  # fmt: skip
    dim: int = param(100, "dimension of the word vectors", at_least=1, panel="Model")
    window: int = param(
        5,
        "maximum distance between centre and context word, in kept words; each centre's own window is drawn between 1 and "
        f"this; `all`, which is {WHOLE_SENTENCE}, draws none: all other words of a sentence are context, so far",
        at_least=1, at_most=WHOLE_SENTENCE, parse=distance, panel="Model",
    )  # fmt: skip
    optimizer: str = param(
        "rowwise-adagrad",
        f"optimiser: {optimizers.meanings(WORDS, COLLAPSED)}; from {LARGE_TEXT:,} tokens on by default "
        f"{large_text_defaults()}, unless --optimizer or --learning-rate is given",
        choices=optimizers.taken_by(WORDS, COLLAPSED),
    )
    learning_rate: float | None = param(
        None,
        f"initial learning rate; falls linearly to 0; by default {optimizers.usual_rates(WORDS)}",
        above=0.0,
        at_most=MAX_RATE,
    )
    bias: str = param(
        "frequency", "initial biases of output rows: `frequency` predicts how often each word occurs; `none` trains no biases",
        choices=("frequency", "zero", "none"), panel="Model",
    )  # fmt: skip
    block_size: int = param(
        8,
        "consecutive centre words that share their noise words; 0 draws noise for each pair separately",
        at_least=0,
        at_most=64,
    )
    draws: int | None = param(
        None, "noise words for each block (--collapsed: each input); by default so many that each update is small", at_least=1,
        at_most=MAX_DRAWS,
    )  # fmt: skip
    shuffle: bool = param(
        True, "train on chunks of 10,000 tokens in random order, for corpora sorted by subject or date; else in corpus order"
    )
    subwords: str | None = param(
        None,
        "lengths of character n-grams, such as 3-6: a word's vector is the mean of its own and its n-grams' vectors, so that "
        "words which were never seen have one too",
    )
    buckets: int | None = param(
        None, f"with --subwords: number of vectors that n-grams are hashed to; by default {BUCKETS:,}", at_least=1,
        at_most=MAX_BUCKETS,
    )  # fmt: skip
    heldout: float = param(
        0.0,
        "fraction of the corpus that is left out of training, such as 0.1%, in a few dozen contiguous spans, beside a border "
        "about each; its log-likelihood is reported at the end",
        at_least=0.0, at_most=0.5, parse=fraction, panel="Held-out text",
    )  # fmt: skip
    heldout_points: int | None = param(
        None, "also report it about N times over the run, after epochs; `history` in the model has them", at_least=1,
        panel="Held-out text",
    )  # fmt: skip

    @property
    def ngrams(self) -> NGrams | None:
        """The n-grams that words have; None without. Raises `EmbedxError` if `subwords` are no lengths."""
        return ngrams(self.subwords, self.buckets or BUCKETS) if self.subwords is not None else None


class SizedSettings(SkipGramSettings):
    """Settings for a small text of which those that are `open` were not given: `by_size` decides them."""

    open = ("optimizer", "learning_rate")


@dataclasses.dataclass(frozen=True)
class CollapsedSettings(Settings):
    """What only the collapsed objective takes."""

    panel = "With --collapsed"

    warm_start: str = param(
        "ns",
        "initialise by one epoch of streaming with this objective, or at random: `none`",
        choices=("ns", "none"),
        fine=True,
    )
    # One pass instead of five fits what happened to be kept: after 10 iterations on 10 MB of Wikipedia held-out text has -8.23
    # instead of -8.13 nats.
    count_passes: int = param(
        5, "passes over the corpus whose pairs are counted; each with its own subsampling and windows", at_least=1, fine=True
    )
