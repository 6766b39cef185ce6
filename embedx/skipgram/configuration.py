"""The configuration of a run of word vectors: what options say, completed by the objective, and by
the text.

`configure` serves the command line and `SkipGram`; `by_size` and `resolved` decide what depends on
the counted text.
"""

import dataclasses
import math

import numpy as np

from embedx import objectives, optimizers, samplers
from embedx.engine.encoders import ENCODERS, pairs_of_centre
from embedx.engine.settings import check_sampler
from embedx.errors import EmbedxError
from embedx.graphs.settings import DEFAULTS as OF_GRAPHS, SGD_RATE, GraphSettings, graph_settings
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import COLLAPSED, WORDS
from embedx.samplers.contract import Sampler
from embedx.settings import (
    Options,
    Record,
    Settings,
    as_typed,
    check_used,
    option_name,
    settings_of,
)
from embedx.skipgram.settings import (
    LARGE_TEXT,
    MAX_DRAWS,
    CollapsedSettings,
    SizedSettings,
    SkipGramSettings,
)
from embedx.skipgram.start import Start, started
from embedx.text.settings import (
    PhraseSettings,
    TextSettings,
    VocabularySettings,
    check_word_settings,
)
from embedx.training import trainer
from embedx.training.progress import Progress
from embedx.vectors.model import WordVectors

PREFERRED = ("search", "unigram")  # samplers, before those that an objective has in mind for labels
# A drawn word stands for negatives × pairs / draws of a block's pairs and moves by all of them at
# once. Word similarity and analogies of `ns` are best up to 8 (100 MB of Wikipedia), slightly worse
# at 15, worse at 30; 60 diverges. From 32 draws on 15 is as good: blocks of 16, 20 MB, two seeds,
# similarity over five sets and analogies .365 and 13.4 % with 32 draws, .362 and 13.9 % with 64. So
# is 20 with a wide window: walks over BlogCatalog, micro and macro F1 at 50 % .381 and .225 with 44
# draws, .380 and .223 with 59, clipped alike. Where the loss is not a sum over pairs it is not: 10
# MB, held-out log-likelihood with 64 and 128 draws for blocks of 32: ar -8.545 and -8.534, umax
# -8.661 and -8.618.
PAIRS_PER_DRAW, FEW_DRAWS, PAIRS_PER_MORE_DRAWS = 7.5, 32, 20
# Nor may a block bring more than this many pairs to the most frequent word's row, which matters for
# vocabularies of some dozen words: there a block of 16 centres holds each of them many times.
PAIRS_PER_ROW = 30
FAR_RATE = 30  # a learning rate so many times the default, or as much below, is warned of
# Defaults for words with n-grams where the default without them is an optimiser whose rate stops
# falling: an n-gram is in far more words than one, and the mean moves by the mean of its parts'
# rates. `ns` on 10 MB of Wikipedia, 5 epochs, similarity over five sets and held-out
# log-likelihood: bounded-adagrad at 2 .277, -8.820, at 5 .292, -8.955; rowwise-adagrad at 1.5 .267,
# -8.817, at 3 .323, -8.813, at 6 .315, -8.919. (With the gradient divided by the root of the number
# of parts bounded-adagrad at 2 has .305, -8.802, rowwise-adagrad at 4 .314, -8.841; that sgd would
# then be too slow is why it is not.)
OF_SUBWORDS = {"optimizer": "rowwise-adagrad", "learning_rate": 3.0, "block_size": 8}

# With --collapsed: settings that do not apply, and defaults that differ. K/20 is the paper's.
OF_STREAMING = ("sampler_exponent", "block_size", "negatives", "warm_up", "found", "refresh")
NOT_TAKEN = (
    "start",
    *OF_STREAMING,
    "sampler",
    "architecture",
    "subwords",
    "buckets",
    "heldout_points",
    "shuffle",
)
DEFAULTS = {
    "epochs": 20,
    "optimizer": "rowwise-adagrad-momentum",
    "learning_rate": 1.0,
    "scored_fraction": 0.05,
    "candidate_fraction": 0.1,
}
TAIL = 1000  # rows drawn for each input


@dataclasses.dataclass(frozen=True)
class Configuration:
    """All that is decided before the text is read."""

    objective: Objective
    settings: SkipGramSettings
    text: TextSettings
    vocabulary: VocabularySettings
    phrases: PhraseSettings
    collapsed: CollapsedSettings | None  # with --collapsed
    start: Start | None  # with --start
    graph: GraphSettings | None  # with --walks
    sampler_options: Record  # settings of the sampler's own

    @property
    def retrieves(self) -> bool:
        """Whether a search finds the candidates."""
        return samplers.SAMPLERS[str(self.settings.sampler)].candidates == "retrieved"

    @property
    def draws_kept_words(self) -> bool:
        """Whether words are drawn as often as subsampling keeps them, and not by their counts in
        the text.

        Where draws estimate the normaliser over all rows not found, the estimate then has less
        variance. 10 MB of Wikipedia, held-out log-likelihood with 128 draws for each block: -8.892
        by counts to the power of 0.75, -8.877 as kept.
        """
        return self.collapsed is None and self.objective.has_tail

    def new_sampler(self) -> Sampler:
        """The sampler; where a search finds candidates, what draws until it can, and their tail. It
        is not prepared.
        """
        name = (
            samplers.first_drawn(in_order(self.objective))
            if self.retrieves
            else str(self.settings.sampler)
        )
        own = {"sampler_exponent": 1.0} if self.draws_kept_words and name == "unigram" else {}
        return samplers.make(
            name, own | self.sampler_options, corrected=self.objective.adds_log_noise
        )

    def groups(self) -> list[Settings]:
        """All settings."""
        own = self.collapsed or self.new_sampler().settings
        others = [
            *([self.start.settings] if self.start else []),
            *([self.graph] if self.graph else []),
        ]
        return [
            self.settings,
            own,
            self.objective.settings,
            self.text,
            self.vocabulary,
            self.phrases,
            *others,
        ]

    def record(self) -> Record:
        """All settings that apply, by name."""
        found = {name: value for group in self.groups() for name, value in group.record().items()}
        unused = (
            ()
            if self.collapsed is None
            else OF_STREAMING
            if self.objective.has_tail
            else (*OF_STREAMING, "draws")
        )
        return {name: value for name, value in found.items() if name not in unused}


def configure(
    objective: str | None,
    options: Options,
    *,
    is_collapsed: bool = False,
    defaults: Options | None = None,
    model: WordVectors | None = None,
) -> Configuration:
    """The configuration that options ask for; what they leave open is as in the model of --start,
    then in `defaults`, then as suits the objective, which is `ns` by default, or that of --start,
    which a `model` in memory takes the place of.

    Raises `EmbedxError` for what is out of range or does not apply.
    """
    check_word_settings(options)
    start, graph = started(options, model), graph_settings(options)
    if graph is not None:
        options = {**OF_GRAPHS, **({} if is_collapsed else {"epochs": 1}), **options}
    name = objective or (start.objective.name if start else "ns")
    if is_collapsed:
        made, settings = _collapsed(name, dict(options))
    else:
        check_used(
            options, [(each, False, "--collapsed") for each in settings_of(CollapsedSettings)]
        )
        options = start.with_defaults(options) if start else dict(options)
        made, settings = _streamed(name, options)
    options = {**(defaults or {}), **options}
    text, vocabulary = TextSettings.from_options(options), VocabularySettings.from_options(options)
    phrases = start.phrase_settings() if start else PhraseSettings.from_options(options)
    own = CollapsedSettings.from_options(options) if is_collapsed else None
    found = Configuration(
        made, settings, text, vocabulary, phrases, own, start, graph, samplers.own_options(options)
    )
    found.new_sampler()  # refuses settings of other samplers
    return found


def _streamed(name: str, options: Record) -> tuple[Objective, SkipGramSettings]:
    """The objective and the settings where pairs are streamed."""
    objective = objectives.find(name)
    architecture = ENCODERS.get(options.get("architecture") or SkipGramSettings.architecture)
    of_architecture = architecture.DEFAULTS if architecture else {}
    defaults = dict(objective.word_defaults) | of_architecture
    default_optimizer = defaults.get("optimizer", SkipGramSettings.optimizer)
    if options.get("subwords") is not None and math.isfinite(
        optimizers.OPTIMIZERS[default_optimizer].limit
    ):
        defaults |= OF_SUBWORDS
        default_optimizer = OF_SUBWORDS["optimizer"]
    if options.get("optimizer", default_optimizer) != default_optimizer:
        defaults.pop("learning_rate", None)  # of another optimizer
    made = objective(objective.Settings.from_options({**defaults, **options}))
    decides = (*SizedSettings.open, "subwords")
    is_open = (
        objective.large_text_defaults
        and not of_architecture
        and all(options.get(each) is None for each in decides)
    )
    settings = completed(
        (SizedSettings if is_open else SkipGramSettings).from_options({**defaults, **options}), made
    )
    needs = (
        ("heldout_points", settings.heldout > 0, "--heldout"),
        (
            "draws",
            samplers.SAMPLERS[str(settings.sampler)].candidates in ("drawn", "retrieved"),
            "a sampler that draws",
        ),
        ("buckets", settings.subwords is not None, "--subwords"),
        *((name, False, "labels, by `embedx classify`") for name in objective.label_settings),
        *((name, False, needed) for name, needed in made.without_effect().items()),
    )
    check_used(options, needs)
    return made, settings


def completed(settings: SkipGramSettings, objective: Objective) -> SkipGramSettings:
    """The settings with a sampler and a rate. Raises `EmbedxError` if the objective does not take
    what was asked for.
    """
    taken = in_order(objective)
    sampler = settings.sampler or taken[0]
    check_sampler(sampler, objective.name, tuple(taken))
    is_retrieved = samplers.SAMPLERS[sampler].candidates == "retrieved"
    if settings.block_size == 0 and (
        is_retrieved or not ENCODERS[settings.architecture].PER_CONTEXT
    ):
        other = (
            f"--sampler {sampler}" if is_retrieved else f"--architecture {settings.architecture}"
        )
        raise EmbedxError(
            f"--block-size 0 draws candidates for each pair, which {other} cannot do; use 1 or more"
        )
    optimizer = optimizers.find(settings.optimizer, WORDS)
    if objective.kind == "proximal" and optimizer.keeps == "per_coordinate":
        raise EmbedxError(
            f"--optimizer {settings.optimizer} has a learning rate for each coordinate, but the"
            f" step of --objective {objective.name} needs one for each row; use rowwise-adagrad,"
            " bounded-adagrad or sgd"
        )
    rate = settings.learning_rate or optimizer.rates[WORDS]
    buckets = settings.ngrams.n_buckets if settings.ngrams else settings.buckets
    return dataclasses.replace(settings, sampler=sampler, learning_rate=rate, buckets=buckets)


def in_order(objective: Objective) -> list[str]:
    """The samplers that the objective takes for word vectors, the default first."""
    taken = [name for name in objective.samplers() if not samplers.SAMPLERS[name].conditional]
    return sorted(
        taken, key=lambda name: PREFERRED.index(name) if name in PREFERRED else len(PREFERRED)
    )


# ---- with --collapsed


def _collapsed(name: str, options: Record) -> tuple[Objective, SkipGramSettings]:
    """The objective and the settings where pairs are counted."""
    objective = objectives.find(name)
    made = _with_counts(objective, options)
    if not collapses(made):
        takers = ", ".join(
            each
            for each, other in objectives.OBJECTIVES.items()
            if collapses(_with_counts(other, {}))
        )
        raise EmbedxError(
            f"--collapsed does not apply to --objective {name}; taken by {takers}, by default"
        )
    for each in (*NOT_TAKEN, *([] if made.has_tail else ["draws"])):
        if options.get(each) is not None:
            raise EmbedxError(
                f"{option_name(each)} does not apply with --collapsed --objective {name}"
            )
    search = made.search(2)
    if search is not None and search.message_iterations > 0:
        raise EmbedxError(
            "--collapsed needs exact scores of the rows found; leave out --set rescore=no"
        )
    draws = {"draws": TAIL} if made.has_tail else {}
    settings = SkipGramSettings.from_options(
        {**DEFAULTS, **draws, **options, "sampler": objective.samplers()[0]}
    )
    optimizers.find(settings.optimizer, COLLAPSED)
    return made, settings


def _with_counts(objective: type[Objective], options: Record) -> Objective:
    """The objective with its settings among `options`, by default those for word counts."""
    return objective(
        objective.Settings.from_options({**objective.word_defaults, **DEFAULTS, **options})
    )


def collapses(objective: Objective) -> bool:
    """Whether an objective takes the counts of an input as one example and is that of eq. 9: its
    candidates are all rows, or those that a search finds, it keeps no state, and its scores are
    logarithms of probabilities.
    """
    is_stateless = (
        objective.state_width == 0
        and objective.uniforms_width == 0
        and objective.kind == "gradient"
    )
    takes_all = objective.candidates == ("all",) and objective.merges_pairs
    return is_stateless and (
        takes_all or ("retrieved" in objective.candidates and objective.calibrated)
    )


# ---- once the text is counted


def by_size(config: Configuration, n_tokens: int, progress: Progress) -> SkipGramSettings:
    """The settings with those that are open chosen by the number of tokens of the vocabulary in the
    text, which is reported.
    """
    settings, rate = config.settings, SGD_RATE if config.graph else None
    if not settings.open:
        return settings
    large = (
        {"learning_rate": rate, **config.objective.large_text_defaults}
        if n_tokens >= LARGE_TEXT
        else {}
    )
    found = completed(SkipGramSettings.from_options({**vars(settings), **large}), config.objective)
    values = " ".join(
        f"{name.replace('_', '-')}={as_typed(getattr(found, name))}" for name in settings.open
    )
    progress.detail(f"chosen by the number of tokens: {values}")
    return found


def warn_of_rate(settings: SkipGramSettings, objective: Objective, progress: Progress) -> None:
    """Warn of a learning rate that is far from the default: it may be meant for another
    optimiser.
    """
    rate, usual = (
        float(settings.learning_rate or 0),
        optimizers.OPTIMIZERS[settings.optimizer].rates[WORDS],
    )
    if settings.optimizer == objective.word_defaults.get("optimizer", SkipGramSettings.optimizer):
        usual = float(objective.word_defaults.get("learning_rate", usual))
    if not usual / FAR_RATE < rate < usual * FAR_RATE:
        remedy = "leave it out" + (
            ", or add --optimizer sgd to use word2vec's rates" if rate < usual else ""
        )
        progress.note(
            f"warning: --learning-rate {rate:g} is far from {usual:g}, the default of"
            f" {settings.optimizer} here; {remedy}"
        )


def resolved(
    settings: SkipGramSettings,
    objective: Objective,
    sampler: Sampler,
    kept: np.ndarray,
    n_around: float,
) -> SkipGramSettings:
    """The settings with nothing left open: what `block_size`, `draws` and `threads` are for this
    vocabulary on this machine.

    sampler   what draws, if anything does, prepared
    kept      int64 (n_words,)  how often each word is expected to survive subsampling
    n_around  how many context words a centre has
    """
    n_pairs = pairs_of_centre(settings.architecture, n_around)
    retrieves = samplers.SAMPLERS[str(settings.sampler)].candidates == "retrieved"
    negatives = objective.negatives if sampler.candidates == "drawn" and not retrieves else 0
    is_path = sampler.candidates == "path"
    likeliest = max(
        float(kept.max() / kept.sum()), float(sampler.noise.max()) if negatives else 0.0
    )
    # pairs of a centre with the likeliest row, or root
    of_centre = n_pairs * (1 + negatives) * (1.0 if is_path else likeliest)
    block_size = min(settings.block_size, max(1, int(PAIRS_PER_ROW / of_centre)))
    wanted_pairs = negatives * block_size * n_pairs
    draws = max(negatives, math.ceil(wanted_pairs / PAIRS_PER_DRAW))
    if objective.positives == "summed" and draws > FEW_DRAWS:
        draws = max(FEW_DRAWS, math.ceil(wanted_pairs / PAIRS_PER_MORE_DRAWS))
    if retrieves:
        # before the search begins; they count once each, whatever the pairs
        draws = objective.negatives
    wanted = settings.draws or min(draws, MAX_DRAWS) or None  # None where nothing is drawn
    threads = 1 if settings.deterministic else settings.threads or trainer.usable_cores()
    return dataclasses.replace(settings, block_size=block_size, draws=wanted, threads=threads)
