"""The configuration of a run of word vectors: the options of the user, completed by defaults.

`configure` is called by the command line and by `SkipGram`, before the text is read. `resolve`
(resolve.py) then chooses the settings that depend on the text.
"""

import dataclasses
import math
from collections.abc import Mapping

from embedx import objectives, optimizers, samplers
from embedx.engine.encoders import ENCODERS
from embedx.engine.settings import check_sampler, check_stopping
from embedx.errors import InapplicableError, Setting, SettingError, Text
from embedx.graphs.settings import GraphSettings, graph_settings
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import COLLAPSED, WORDS
from embedx.samplers.contract import Sampler
from embedx.samplers.search import IndexSettings, Search, index_settings
from embedx.settings import (
    Options,
    Record,
    Settings,
    check_used,
    settings_of,
)
from embedx.skipgram.defaults import DEFAULTS, OBJECTIVE, RATES, TEXT, kind_of_data
from embedx.skipgram.settings import (
    CollapsedSettings,
    SkipGramSettings,
)
from embedx.skipgram.start import Start, started
from embedx.text.settings import (
    PhraseSettings,
    TextSettings,
    VocabularySettings,
    check_word_settings,
    noun_of,
)
from embedx.vectors.model import WordVectors

# The default sampler for words, unless the objective is made for a search; objectives declare their
# defaults for labels.
PREFERRED_SAMPLER = "unigram"
# Kinds of candidates for which a sampler draws; with a search, it does during warm-up.
CANDIDATES_WITH_DRAWS = ("drawn", "retrieved")
# Defaults for words with n-grams, where the default without them is an optimizer whose rate stops
# falling: an n-gram is in far more words than one, and the mean moves by the mean of its parts'
# rates. rowwise-adagrad at 3 has the best similarity and likelihood (eval/results/subwords.md).
SUBWORD_DEFAULTS = {"optimizer": "rowwise-adagrad", "learning_rate": 3.0, "block_size": 8}

# With --collapsed: settings that do not apply, and defaults that differ. K/20 is the paper's.
STREAMING_SETTINGS = ("sampler_exponent", "block_size", "negatives", "warm_up", "found", "refresh")
REFUSED_WITH_COLLAPSED = (
    "start",
    *STREAMING_SETTINGS,
    "sampler",
    "architecture",
    "subwords",
    "buckets",
    "heldout_points",
    "shuffle",
)
COLLAPSED_DEFAULTS = {
    "epochs": 20,
    "optimizer": "rowwise-adagrad-momentum",
    "learning_rate": 1.0,
    "scored_fraction": 0.05,
    "candidate_fraction": 0.1,
}
DRAWS_PER_INPUT = 1000


@dataclasses.dataclass(frozen=True)
class Configuration:
    """The settings that are resolved before the text is read.

    kind       kind of data, see `defaults`
    origins    reasons of settings that differ from the usual defaults, by name
    inherited  settings that are taken from the model of --start
    """

    objective: Objective
    settings: SkipGramSettings
    text: TextSettings
    vocabulary: VocabularySettings
    phrases: PhraseSettings
    collapsed: CollapsedSettings | None  # with --collapsed
    start: Start | None  # with --start
    graph: GraphSettings | None  # with --walks
    sampler_options: Record  # settings of the sampler's own
    kind: str = TEXT
    origins: dict[str, str] = dataclasses.field(default_factory=dict)
    inherited: Record = dataclasses.field(default_factory=dict)
    # whether the size of the text chooses the optimizer and its learning rate
    is_sized_by_text: bool = False

    @property
    def noun(self) -> str:
        """What gets vectors: a word, an item or a node."""
        return noun_of(self.record())

    @property
    def retrieves(self) -> bool:
        """Whether a search finds the candidates."""
        return retrieves(self.settings)

    @property
    def index(self) -> IndexSettings | None:
        """The settings of the search, if one finds the candidates."""
        if not self.retrieves:
            return None
        of_sampler = IndexSettings.from_options(self.sampler_options)
        return index_settings(self.objective.settings, of_sampler)

    @property
    def draws_kept_words(self) -> bool:
        """Whether words are drawn by their counts after subsampling, not by those in the text.

        Where draws estimate the normaliser over all rows not found, the estimate then has less
        variance. 10 MB of Wikipedia, held-out log-likelihood with 128 draws for each block: -8.892
        by counts to the power of 0.75, -8.877 as kept.
        """
        return self.collapsed is None and self.objective.traits.has_tail

    def new_sampler(self) -> Sampler:
        """The sampler, not prepared; with a search, the one that draws during warm-up and for the
        tail.
        """
        name = str(self.settings.sampler)
        if self.retrieves:
            name = samplers.first_drawn(samplers_for_words(self.objective))
        of_index = settings_of(IndexSettings)
        options = {
            name: value for name, value in self.sampler_options.items() if name not in of_index
        }
        if self.draws_kept_words and name == "unigram":
            options = {"sampler_exponent": 1.0, **options}
        return samplers.make(name, options, corrected=self.objective.traits.adds_log_noise)

    def groups(self) -> list[Settings]:
        """All settings."""
        groups = [
            self.settings,
            self.collapsed or self.new_sampler().settings,
            *([] if self.index is None else [self.index]),
            self.objective.settings,
            self.text,
            self.vocabulary,
            self.phrases,
        ]
        if self.start is not None:
            groups.append(self.start.settings)
        if self.graph is not None:
            groups.append(self.graph)
        return groups

    def record(self) -> Record:
        """All settings that apply, by name."""
        unused: set[str] = set()
        if self.collapsed is not None:
            unused |= set(STREAMING_SETTINGS)
            if not self.objective.traits.has_tail:
                unused.add("draws")
        return {
            name: value
            for group in self.groups()
            for name, value in group.record().items()
            if name not in unused
        }


def varying_defaults() -> frozenset[str]:
    """The settings whose defaults depend on the kind of data, the objective or the architecture."""
    layers: list[Options] = [*DEFAULTS.values()]
    layers += [encoder.DEFAULTS for encoder in ENCODERS.values()]
    for objective in objectives.OBJECTIVES.values():
        layers += [objective.word_defaults, objective.large_text_defaults]
    return frozenset(name for layer in layers for name in layer)


def configure(
    objective: str | None,
    options: Options,
    *,
    is_collapsed: bool = False,
    defaults: Options | None = None,
    model: WordVectors | None = None,
) -> Configuration:
    """The configuration that options ask for.

    A setting has the value of the first of these layers that has one:

        given         objective, options
        start         the model of --start
        collapsed     --collapsed
        kind          the table of `defaults` for the kind of data
        recipe        `defaults`
        objective     --subwords, where the optimizer would be one whose rate stops falling; then
                      --architecture; then the `word_defaults` of the objective

    and else the one that it is declared with.

    objective  by default that of the model of --start, or of the kind of data
    defaults   such as those of a recipe
    model      one in memory, in place of the folder of --start

    Raises `EmbedxError` for what is out of range or does not apply.
    """
    check_stopping(options)
    check_word_settings(options)
    start = started(options, model)
    graph = graph_settings(options)
    check_used(options, [("edge_separator", graph is not None, Setting("walks"))])

    layers: dict[str, Options] = {
        "given": options if objective is None else {"objective": objective, **options},
        "start": _start_defaults(start, options, is_collapsed),
    }
    recipe: Options = defaults or {}
    kind = kind_of_data(combined(*layers.values(), recipe))
    kind_defaults = {"objective": OBJECTIVE, **DEFAULTS[kind]}
    name = combined(*layers.values(), kind_defaults)["objective"]
    objectives.check_applies(options, name)
    objective_class = objectives.find(name)
    if is_collapsed:
        layers["collapsed"] = _collapsed_defaults(objective_class, options)
    else:
        unused = settings_of(CollapsedSettings)
        check_used(options, [(name, False, Setting("collapsed", True)) for name in unused])
    layers["kind"] = DEFAULTS[kind]
    layers["recipe"] = recipe
    chosen = combined(*layers.values())
    is_sized_by_text = not is_collapsed and _is_sized_by_text(objective_class, chosen)
    layers["objective"] = _objective_defaults(objective_class, chosen)
    values = combined(*layers.values())
    given = combined(layers["given"], recipe)
    if given.get("negatives") is not None and given.get("draws") is None:
        # These negatives decide how many are drawn for a block.
        values.pop("draws", None)

    new_objective = objective_class(objective_class.Settings.from_options(values))
    settings = SkipGramSettings.from_options(values)
    collapsed = None
    if is_collapsed:
        optimizers.find(settings.optimizer, COLLAPSED)
        settings = dataclasses.replace(settings, sampler=objective_class.samplers()[0])
        collapsed = CollapsedSettings.from_options(values)
    else:
        settings = _with_sampler_and_buckets(settings, new_objective)
        _check_effects(options, settings, new_objective)
        _check_combinations(settings, new_objective)
        if settings.learning_rate is None and not is_sized_by_text:
            rate = default_rate(settings.optimizer, kind)
            settings = dataclasses.replace(settings, learning_rate=rate)

    phrases = PhraseSettings.from_options(values)
    if start is not None:
        phrases = start.phrase_settings(values)
    configuration = Configuration(
        objective=new_objective,
        settings=settings,
        text=TextSettings.from_options(values),
        vocabulary=VocabularySettings.from_options(values),
        phrases=phrases,
        collapsed=collapsed,
        start=start,
        graph=graph,
        sampler_options=samplers.options_of_samplers(values),
        kind=kind,
        is_sized_by_text=is_sized_by_text,
    )
    configuration.new_sampler()  # refuses settings of other samplers
    return _with_origins(configuration, layers)


def _start_defaults(start: Start | None, options: Options, is_collapsed: bool) -> Record:
    """The settings of the model to start from, and its objective; none without a model."""
    if start is None:
        return {}
    defaults: Record = {}
    if start.objective is not None:
        defaults["objective"] = start.objective.name
    # --collapsed refuses --start later.
    return defaults if is_collapsed else defaults | start.defaults(options)


def _with_sampler_and_buckets(settings: SkipGramSettings, objective: Objective) -> SkipGramSettings:
    """The settings with a sampler, and with the number of buckets if words have n-grams."""
    sampler = settings.sampler or samplers_for_words(objective)[0]
    buckets = settings.buckets
    if settings.ngrams is not None:
        buckets = settings.ngrams.n_buckets
    return dataclasses.replace(settings, sampler=sampler, buckets=buckets)


def _with_origins(config: Configuration, layers: Mapping[str, Options]) -> Configuration:
    """The configuration with what it inherits, and the reason of each setting that the model to
    start from or the kind of data decides.

    layers  those of `configure`, by name
    """
    layer_of: dict[str, str] = {}
    for layer, values in layers.items():
        for name in values:
            layer_of.setdefault(name, layer)
    used = {"objective", *config.record()}
    origins = {
        name: f"default for {config.kind}"
        for name, layer in layer_of.items()
        if layer == "kind" and name in used
    }
    inherited: Record = {}
    if config.start is not None:
        from_model = layers["start"].items()
        inherited = {name: value for name, value in from_model if layer_of[name] == "start"}
        origins |= dict.fromkeys(inherited, f"as in {config.start.path}")
    return dataclasses.replace(config, origins=origins, inherited=inherited)


def combined(*layers: Options) -> Record:
    """The values of all layers; of a setting that several have, the value of the first.

    A learning rate is that of an optimizer: a layer's is left out below a layer with another one.
    """
    values: Record = {}
    for layer in layers:
        additions = {name: value for name, value in layer.items() if name not in values}
        optimizer = layer.get("optimizer", SkipGramSettings.optimizer)
        if values.get("optimizer", optimizer) != optimizer:
            additions.pop("learning_rate", None)
        values |= additions
    return values


def _objective_defaults(objective: type[Objective], chosen: Options) -> Record:
    """The defaults of n-grams, architecture and objective, where the values that come before them
    are `chosen`.
    """
    defaults = combined(_architecture_defaults(chosen), objective.word_defaults)
    optimizer = defaults.get("optimizer", SkipGramSettings.optimizer)
    has_limit = math.isfinite(optimizers.OPTIMIZERS[optimizer].limit)
    if chosen.get("subwords") is not None and has_limit:
        defaults = combined(SUBWORD_DEFAULTS, defaults)
    return defaults


def _architecture_defaults(chosen: Options) -> Options:
    """The defaults of the architecture; none of one that does not exist, which is refused later."""
    encoder = ENCODERS.get(chosen.get("architecture") or SkipGramSettings.architecture)
    return {} if encoder is None else encoder.DEFAULTS


def _is_sized_by_text(objective: type[Objective], chosen: Options) -> bool:
    """Whether large texts have defaults of their own, and nothing that decides them is chosen."""
    if not objective.large_text_defaults or _architecture_defaults(chosen):
        return False
    return all(chosen.get(name) is None for name in ("optimizer", "learning_rate", "subwords"))


# ---- without --collapsed


def _check_effects(options: Options, settings: SkipGramSettings, objective: Objective) -> None:
    """Raise `InapplicableError` if one of the options has no effect with the settings."""
    is_drawn = samplers.SAMPLERS[str(settings.sampler)].candidates in CANDIDATES_WITH_DRAWS
    uses_negatives = is_drawn or objective.traits.weighs_negatives
    needs: list[tuple[str, bool, Text]] = [
        ("heldout_points", settings.heldout > 0, Setting("heldout")),
        ("draws", is_drawn, "a sampler that draws"),
        ("negatives", uses_negatives, "a sampler that draws"),
        ("buckets", settings.subwords is not None, Setting("subwords")),
    ]
    searches = retrieves(settings) or "retrieved" in objective.candidates
    needs += [
        (name, searches, Setting("sampler", Search.name)) for name in settings_of(IndexSettings)
    ]
    needs += [(name, False, "labels, by `embedx classify`") for name in objective.label_settings]
    needs += [(name, False, need) for name, need in objective.without_effect().items()]
    check_used(options, needs)


def retrieves(settings: SkipGramSettings) -> bool:
    """Whether a search finds the candidates."""
    return samplers.SAMPLERS[str(settings.sampler)].candidates == "retrieved"


def default_rate(optimizer: str, kind: str) -> float:
    """The default learning rate of an optimizer of word vectors for a kind of data."""
    rates = optimizers.find(optimizer, WORDS).rates
    return RATES.get(kind, {}).get(optimizer, rates[WORDS])


def _check_combinations(settings: SkipGramSettings, objective: Objective) -> None:
    """Raise `SettingError` for settings that exclude each other."""
    sampler = str(settings.sampler)
    check_sampler(sampler, objective.name, tuple(samplers_for_words(objective)))
    is_retrieved = retrieves(settings)
    if settings.block_size == 0 and (
        is_retrieved or not ENCODERS[settings.architecture].PER_CONTEXT
    ):
        other = Setting("architecture", settings.architecture)
        if is_retrieved:
            other = Setting("sampler", sampler)
        raise SettingError(
            "block_size",
            0,
            ("draws candidates for each pair, which ", other, " cannot do"),
            "use 1 or more",
        )
    optimizer = optimizers.find(settings.optimizer, WORDS)
    if objective.step == "proximal" and optimizer.keeps == "per_coordinate":
        raise SettingError(
            "optimizer",
            settings.optimizer,
            (
                "has a learning rate for each coordinate, but the step of ",
                Setting("objective", objective.name),
                " needs one for each row",
            ),
            "use rowwise-adagrad, bounded-adagrad or sgd",
        )


def samplers_for_words(objective: Objective) -> list[str]:
    """The samplers that the objective takes for word vectors, the default first."""
    taken = [name for name in objective.samplers() if not samplers.SAMPLERS[name].conditional]
    made_for = Search.name if "retrieved" in objective.candidates else None
    return sorted(taken, key=lambda name: (name != made_for, name != PREFERRED_SAMPLER))


# ---- with --collapsed


def _collapsed_defaults(objective: type[Objective], options: Options) -> Record:
    """The defaults where pairs are counted. Raises `EmbedxError` for what cannot be."""
    counting = _with_counts(objective, options)
    if not collapses(counting):
        takers = [
            other
            for other, kind in objectives.OBJECTIVES.items()
            if collapses(_with_counts(kind, {}))
        ]
        problem = ("does not apply to ", Setting("objective", objective.name))
        raise InapplicableError(
            "collapsed", True, problem, f"taken by {', '.join(takers)}, by default"
        )

    defaults: Record = dict(COLLAPSED_DEFAULTS)
    # Of the warm start, which has an objective of its own.
    defaults["block_size"] = SkipGramSettings.block_size
    refused = [*REFUSED_WITH_COLLAPSED]
    if counting.traits.has_tail:
        defaults["draws"] = DRAWS_PER_INPUT
    else:
        refused.append("draws")
    for setting in refused:
        if options.get(setting) is not None:
            collapsed = (Setting("collapsed", True), " ", Setting("objective", objective.name))
            raise InapplicableError(setting, None, ("does not apply with ", collapsed))

    search = counting.search(2)
    if search is not None and search.message_iterations > 0:
        remedy = ("leave out ", Setting("rescore", False))
        raise InapplicableError("collapsed", True, "needs exact scores of the rows found", remedy)
    return defaults


def _with_counts(objective: type[Objective], options: Options) -> Objective:
    """The objective with its settings among `options`, by default those for word counts."""
    values = {**objective.word_defaults, **COLLAPSED_DEFAULTS, **options}
    return objective(objective.Settings.from_options(values))


def collapses(objective: Objective) -> bool:
    """Whether an objective takes the counts of an input as one example and is that of eq. 9: its
    candidates are all rows, or those that a search finds, it keeps no state, and its scores are
    logarithms of probabilities.
    """
    is_stateless = objective.state_width == 0 and objective.uniforms_width == 0
    if not is_stateless or objective.step != "gradient":
        return False
    if objective.candidates == ("all",) and objective.traits.merges_pairs:
        return True
    return "retrieved" in objective.candidates and objective.traits.calibrated
