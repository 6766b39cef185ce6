"""Settings of word vectors. What becomes of them for an objective and a text is in
`configuration`.
"""

from embedx import optimizers
from embedx.engine.encoders import ENCODERS
from embedx.engine.settings import MAX_RATE, TrainingSettings
from embedx.errors import SettingError
from embedx.objectives import OBJECTIVES
from embedx.optimizers.contract import COLLAPSED, WORDS
from embedx.settings import Record, Settings, fraction, param
from embedx.spelling import as_arguments
from embedx.text.ngrams import MAX_BUCKETS, NGrams, ngrams
from embedx.text.subsampling import WHOLE_SENTENCE

# Tokens from which on an objective's `large_text_defaults` apply: of some 9 MB of English
# (measured: docs/constants.md).
LARGE_TEXT = 1_500_000
# As in fastText.
BUCKETS = 2_000_000
MAX_DRAWS = 1024


def distance(text: str) -> int:
    """The number of words that `--window` says. Raises `EmbedxError` if it is no number, and not
    `all`.
    """
    try:
        if text == "all":
            return WHOLE_SENTENCE
        return int(text)
    except ValueError:
        problem = "not a whole number"
        raise SettingError("window", text, problem, "write 5, or all") from None


def large_text_defaults() -> str:
    """`--optimizer sgd for ns`, of all objectives that have such defaults."""
    defaults = []
    for name, objective in OBJECTIVES.imported().items():
        if objective.large_text_defaults:
            arguments = " ".join(as_arguments(objective.large_text_defaults))
            defaults.append(f"{arguments} for {name}")
    return ", ".join(defaults)


class SkipGramSettings(TrainingSettings):
    """How word vectors are trained, whatever the objective."""

    architecture: str = param(
        "skipgram",
        "how the centre word is predicted; "
        + "; ".join(f"`{name}`: {encoder.ABOUT}" for name, encoder in ENCODERS.items()),
        choices=tuple(ENCODERS),
        panel="Model",
    )
    dim: int = param(100, "dimension of the word vectors", at_least=1, panel="Model")
    window: int = param(
        5,
        "maximum distance between centre and context word; it is counted in words that subsampling"
        " kept, and drawn from 1 to this for each centre; `all`: the whole sentence is context, up"
        f" to {WHOLE_SENTENCE} words away",
        at_least=1,
        at_most=WHOLE_SENTENCE,
        parse=distance,
        metavar="int|all",
        panel="Model",
    )
    optimizer: str = param(
        "rowwise-adagrad",
        f"optimiser; {optimizers.meanings(WORDS, COLLAPSED)}; from {LARGE_TEXT:,} tokens on"
        f" {large_text_defaults()}, unless --optimizer, --learning-rate, --subwords or cbow"
        " is given",
        choices=optimizers.taken_by(WORDS, COLLAPSED),
    )
    learning_rate: float | None = param(
        None,
        "initial learning rate; it falls linearly to 0; by default"
        f" {optimizers.usual_rates(WORDS)}",
        above=0.0,
        at_most=MAX_RATE,
    )
    bias: str = param(
        "frequency",
        "initial biases of the output vectors; `frequency`: log frequencies, `none`: no biases are"
        " trained, and the word vectors of a text are centred in the end: their mean is subtracted"
        " from them, and its scores are the biases",
        choices=("frequency", "zero", "none"),
        panel="Model",
    )
    block_size: int = param(
        8,
        "consecutive centre words that share their negatives; 0 draws negatives for each pair"
        " separately",
        at_least=0,
        at_most=64,
    )
    draws: int | None = param(
        None,
        "negatives per block, with --collapsed per input; by default enough to keep each update"
        " small",
        at_least=1,
        at_most=MAX_DRAWS,
        has_option=False,
    )
    shuffle: bool = param(
        True, "train on chunks of 10,000 tokens in random order; otherwise in corpus order"
    )
    subwords: str | None = param(
        None,
        "lengths of character n-grams, such as 3-6; a word's vector is the mean of its own and its"
        " n-grams' vectors, so that unseen words have vectors too",
        metavar="min-max",
    )
    buckets: int | None = param(
        None,
        f"with --subwords: number of hash buckets for n-grams; by default {BUCKETS:,}",
        at_least=1,
        at_most=MAX_BUCKETS,
        has_option=False,
    )
    heldout: float = param(
        0.0,
        "fraction of the corpus held out of training, such as 0.1%; a few dozen spans with a border"
        " around each, whose log-likelihood is reported at the end",
        at_least=0.0,
        at_most=0.5,
        parse=fraction,
        metavar="fraction",
        panel="Held-out text",
    )
    heldout_points: int | None = param(
        None,
        "with --heldout: report the log-likelihood about N times during the run; the model keeps"
        " them",
        at_least=1,
        panel="Held-out text",
        has_option=False,
    )

    @property
    def ngrams(self) -> NGrams | None:
        """The n-grams that words have; None without. Raises `EmbedxError` if `subwords` are no
        lengths.
        """
        if self.subwords is None:
            return None
        return ngrams(self.subwords, self.buckets or BUCKETS)


class CollapsedSettings(Settings):
    """What only the collapsed objective takes."""

    panel = "With --collapsed"

    warm_start: str = param(
        "ns",
        "objective of one epoch of streaming for initialisation; `none` initialises at random",
        choices=("ns", "none"),
        has_option=False,
    )
    # One pass instead of five fits what happened to be kept: after 10 iterations on 10 MB of
    # Wikipedia held-out text had -8.23 instead of -8.13 nats (explored, not on record).
    count_passes: int = param(
        5,
        "passes over the corpus to count pairs, each with its own subsampling and windows",
        at_least=1,
        has_option=False,
    )


class StartSettings(Settings):
    """The model that training continues from."""

    panel = "Continuing from a model"

    start: str | None = param(
        None,
        "continue training from this model folder, or start from the vectors of a file of any"
        " format that `embedx nn` reads; its words keep their vectors, new words are added",
        metavar="path",
    )
    freeze: bool = param(False, "with --start: train only the vectors of new words")
    anchored: bool = param(
        True,
        "with --start: a word of the model gets the mean of its old and its trained vector,"
        " weighted by its counts in both texts; no: the trained one",
        has_option=False,
    )

    def record(self) -> Record:
        """The values; none without --start."""
        return super().record() if self.start else {}
