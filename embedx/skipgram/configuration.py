"""The configuration of a run of word vectors: the options of the user, completed by defaults.

`configure` is called by the command line and by `SkipGram`, before the text is read.
`resolve_settings` (resolve.py) then chooses the settings that depend on the text.
"""

import dataclasses

from embedx import optimizers, samplers
from embedx.engine.settings import check_stopping
from embedx.errors import Setting
from embedx.graphs.settings import GraphSettings, graph_settings
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import COLLAPSED
from embedx.samplers.contract import Sampler
from embedx.samplers.search import IndexSettings, index_settings
from embedx.settings import Options, Record, Settings, check_used, settings_of
from embedx.skipgram.defaults import TEXT, default_rate
from embedx.skipgram.layers import Layers, layers_of
from embedx.skipgram.refusals import (
    STREAMING_SETTINGS,
    check_collapsed,
    check_combinations,
    check_effects,
    check_not_collapsed,
)
from embedx.skipgram.sampler_choice import retrieves, samplers_for_words
from embedx.skipgram.settings import CollapsedSettings, SkipGramSettings
from embedx.skipgram.start import Start, started
from embedx.text.settings import (
    PhraseSettings,
    TextSettings,
    VocabularySettings,
    check_word_settings,
    noun_of,
)
from embedx.vectors.model import WordVectors


@dataclasses.dataclass(frozen=True)
class Configuration:
    """The settings that are resolved before the text is read.

    collapsed         with --collapsed
    start             with --start
    graph             with --walks
    sampler_options   settings of the sampler's own
    kind              kind of data, see `defaults`
    origins           reasons of settings that differ from the usual defaults, by name
    inherited         settings that are taken from the model of --start
    is_sized_by_text  whether the size of the text chooses the optimizer and its learning rate
    """

    objective: Objective
    settings: SkipGramSettings
    text: TextSettings
    vocabulary: VocabularySettings
    phrases: PhraseSettings
    collapsed: CollapsedSettings | None
    start: Start | None
    graph: GraphSettings | None
    sampler_options: Record
    kind: str = TEXT
    origins: dict[str, str] = dataclasses.field(default_factory=dict)
    inherited: Record = dataclasses.field(default_factory=dict)
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
        by counts to the power of 0.75, -8.877 as kept (explored, not on record).
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


def configure(
    objective: str | None,
    options: Options,
    *,
    is_collapsed: bool = False,
    defaults: Options | None = None,
    model: WordVectors | None = None,
) -> Configuration:
    """The configuration that options ask for, with defaults by the layers of layers.py.

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

    layers = layers_of(objective, options, defaults or {}, start, is_collapsed=is_collapsed)
    if is_collapsed:
        check_collapsed(layers.objective, options)
    else:
        check_not_collapsed(options)
    values = layers.values()
    new_objective = layers.objective(layers.objective.Settings.from_options(values))
    settings = SkipGramSettings.from_options(values)
    if is_collapsed:
        settings = _settings_of_counts(settings, layers)
    else:
        settings = _settings_of_blocks(settings, new_objective, options, layers)
    phrases = PhraseSettings.from_options(values)
    if start is not None:
        phrases = start.phrase_settings(values)

    configuration = Configuration(
        objective=new_objective,
        settings=settings,
        text=TextSettings.from_options(values),
        vocabulary=VocabularySettings.from_options(values),
        phrases=phrases,
        collapsed=CollapsedSettings.from_options(values) if is_collapsed else None,
        start=start,
        graph=graph,
        sampler_options=samplers.options_of_samplers(values),
        kind=layers.kind,
        is_sized_by_text=layers.is_sized_by_text,
    )
    configuration.new_sampler()  # refuses settings of other samplers
    return _with_origins(configuration, layers)


def _settings_of_counts(settings: SkipGramSettings, layers: Layers) -> SkipGramSettings:
    """The settings with a sampler. Raises `EmbedxError` for an optimizer of blocks."""
    optimizers.find(settings.optimizer, COLLAPSED)
    return dataclasses.replace(settings, sampler=layers.objective.samplers()[0])


def _settings_of_blocks(
    settings: SkipGramSettings, objective: Objective, options: Options, layers: Layers
) -> SkipGramSettings:
    """The settings with a sampler, with the number of buckets if words have n-grams, and with a
    learning rate unless the text decides it. Raises `EmbedxError` for settings that do not apply.
    """
    sampler = settings.sampler or samplers_for_words(objective)[0]
    buckets = settings.buckets
    if settings.ngrams is not None:
        buckets = settings.ngrams.n_buckets
    settings = dataclasses.replace(settings, sampler=sampler, buckets=buckets)
    check_effects(options, settings, objective)
    check_combinations(settings, objective)
    if settings.learning_rate is None and not layers.is_sized_by_text:
        rate = default_rate(settings.optimizer, layers.kind)
        settings = dataclasses.replace(settings, learning_rate=rate)
    return settings


def _with_origins(config: Configuration, layers: Layers) -> Configuration:
    """The configuration with what it inherits, and the reason of each setting that the model to
    start from or the kind of data decides.
    """
    layer_of = layers.layer_of_setting()
    used = {"objective", *config.record()}
    origins = {
        name: f"default for {config.kind}"
        for name, layer in layer_of.items()
        if layer == "kind" and name in used
    }
    inherited: Record = {}
    if config.start is not None:
        from_model = layers.by_name["start"].items()
        inherited = {name: value for name, value in from_model if layer_of[name] == "start"}
        origins |= dict.fromkeys(inherited, f"as in {config.start.path}")
    return dataclasses.replace(config, origins=origins, inherited=inherited)
