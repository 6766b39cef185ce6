"""The layers of settings of word vectors: of a setting that several layers have, the value of the
first one counts.

    given      objective, options
    start      the model of --start
    collapsed  --collapsed
    kind       DEFAULTS_BY_KIND for the kind of data (defaults.py)
    recipe     of the corpora
    objective  --subwords, where the optimizer would be one whose rate stops falling; then
               --architecture; then the `word_defaults` of the objective

and else the value that it is declared with.
"""

import math
from typing import NamedTuple

from embedx import objectives, optimizers
from embedx.engine.encoders import ENCODERS
from embedx.objectives.contract import Objective
from embedx.settings import Options, Record
from embedx.skipgram.defaults import DEFAULT_OBJECTIVE, DEFAULTS_BY_KIND, kind_of_data
from embedx.skipgram.settings import SkipGramSettings
from embedx.skipgram.start import Start

# Defaults for words with n-grams, where the default without them is an optimizer whose rate stops
# falling: an n-gram is in far more words than one, and the mean moves by the mean of its parts'
# rates. rowwise-adagrad at 3 was chosen by explorations that are not on record.
SUBWORD_DEFAULTS = {"optimizer": "rowwise-adagrad", "learning_rate": 3.0, "block_size": 8}
# Defaults with --collapsed. K/20 is the paper's.
COLLAPSED_DEFAULTS = {
    "epochs": 20,
    "optimizer": "rowwise-adagrad-momentum",
    "learning_rate": 1.0,
    "scored_fraction": 0.05,
    "candidate_fraction": 0.1,
}
DRAWS_PER_INPUT = 1000


class Layers(NamedTuple):
    """Values by layer, the first layer first.

    kind              of the data
    is_sized_by_text  whether the size of the text chooses the optimizer and its learning rate
    """

    by_name: dict[str, Options]
    kind: str
    objective: type[Objective]
    is_sized_by_text: bool

    def values(self) -> Record:
        """The value of each setting that a layer has; without `draws` where the user or the recipe
        gives `negatives` and no `draws`.
        """
        values = combined(*self.by_name.values())
        given = combined(self.by_name["given"], self.by_name["recipe"])
        if given.get("negatives") is not None and given.get("draws") is None:
            # These negatives decide how many are drawn for a block.
            values.pop("draws", None)
        return values

    def layer_of_setting(self) -> dict[str, str]:
        """The layer whose value counts, by name of a setting."""
        layer_of: dict[str, str] = {}
        for layer, values in self.by_name.items():
            for name in values:
                layer_of.setdefault(name, layer)
        return layer_of


def layers_of(
    objective: str | None,
    options: Options,
    recipe: Options,
    start: Start | None,
    *,
    is_collapsed: bool,
) -> Layers:
    """The layers of a run. Raises `EmbedxError` for an objective that does not exist, or to which
    options do not apply.
    """
    given = options if objective is None else {"objective": objective, **options}
    from_model = _start_defaults(start, options, is_collapsed)
    kind = kind_of_data(combined(given, from_model, recipe))
    of_kind = DEFAULTS_BY_KIND[kind]
    name = combined(given, from_model, {"objective": DEFAULT_OBJECTIVE, **of_kind})["objective"]
    objectives.check_applies(options, name)
    objective_class = objectives.find(name)

    layers: dict[str, Options] = {"given": given, "start": from_model}
    if is_collapsed:
        layers["collapsed"] = _collapsed_defaults(objective_class, options)
    layers |= {"kind": of_kind, "recipe": recipe}
    chosen = combined(*layers.values())
    is_sized_by_text = not is_collapsed and _is_sized_by_text(objective_class, chosen)
    layers["objective"] = _objective_defaults(objective_class, chosen)
    return Layers(layers, kind, objective_class, is_sized_by_text)


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


def _start_defaults(start: Start | None, options: Options, is_collapsed: bool) -> Record:
    """The settings of the model to start from, and its objective; none without a model."""
    if start is None:
        return {}
    defaults: Record = {}
    if start.objective is not None:
        defaults["objective"] = start.objective.name
    # --collapsed refuses --start later.
    return defaults if is_collapsed else defaults | start.defaults(options)


def _collapsed_defaults(objective: type[Objective], options: Options) -> Record:
    """The defaults where pairs are counted."""
    defaults: Record = dict(COLLAPSED_DEFAULTS)
    # Of the warm start, which has an objective of its own.
    defaults["block_size"] = SkipGramSettings.block_size
    if objective_for_counts(objective, options).traits.has_tail:
        defaults["draws"] = DRAWS_PER_INPUT
    return defaults


def objective_for_counts(objective: type[Objective], options: Options) -> Objective:
    """The objective with its settings among `options`, by default those for word counts."""
    values = {**objective.word_defaults, **COLLAPSED_DEFAULTS, **options}
    return objective(objective.Settings.from_options(values))


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


def varying_defaults() -> frozenset[str]:
    """The settings whose defaults depend on the kind of data, the objective or the architecture."""
    layers: list[Options] = [*DEFAULTS_BY_KIND.values()]
    layers += [encoder.DEFAULTS for encoder in ENCODERS.values()]
    for objective in objectives.OBJECTIVES.values():
        layers += [objective.word_defaults, objective.large_text_defaults]
    return frozenset(name for layer in layers for name in layer)
