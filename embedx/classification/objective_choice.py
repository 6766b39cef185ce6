"""The objective of a classifier, named by the user or chosen by the data, and the settings given
with it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from embedx import objectives
from embedx.classification.effects import check_given
from embedx.classification.label_weights import MAX_DENSE_SAMPLED, asks_for_sparse
from embedx.classification.problem import ALL_ROWS
from embedx.classification.settings import ClassifySettings
from embedx.engine.settings import check_stopping
from embedx.labeled.data import Labeled
from embedx.labeled.rules import chosen_labels
from embedx.objectives.contract import Objective
from embedx.settings import Options, settings_of

# Share of the features that a row of words has on average, at most.
MAX_DENSITY_OF_WORDS = 0.05


def new_objective(objective: type[Objective], options: Options) -> Objective:
    """The objective with its own settings among `options`; those not given as it declares them for
    classification.
    """
    names = settings_of(objective.Settings)
    defaults = {name: v for name, v in objective.label_defaults.items() if name in names}
    return objective(objective.Settings.from_options({**defaults, **options}))


def default_objective(data: Labeled, options: Options) -> tuple[str, dict[str, Any]]:
    """The name of the objective for data where none is named, and settings of its own.

    Sparse weights and trees are for one-vs-all. On sparse features its squared hinge ranks several
    labels a row best, at the least cost, and one label a row where features are like words, but not
    where they are pixels (eval/results/defaults.md).
    """
    labels = chosen_labels(data.labels, str(options.get("labels", "all")))
    is_exact = options.get("sampler", ALL_ROWS) == ALL_ROWS
    has_hidden = options.get("hidden") or options.get("pretrained")
    if not data.is_sparse or has_hidden or not is_exact:
        return "softmax", {}
    if asks_for_sparse(options.get("weights")):
        return "ova", {"loss": "squared-hinge"}
    has_several = bool((labels.n_of_row > 1).any())
    is_large = data.n_labels * data.n_features > MAX_DENSE_SAMPLED
    is_like_words = data.features.nnz <= MAX_DENSITY_OF_WORDS * len(data) * data.n_features
    is_open = all(
        options.get(name) is None for name in ("time_budget", "optimizer", "learning_rate")
    )
    if has_several or is_large or (is_like_words and is_open):
        return "ova", {"loss": "squared-hinge"}
    return "softmax", {}


class RunSettings(NamedTuple):
    """The objective and settings of a run.

    options  those that were given, with those of a default objective
    """

    objective: Objective
    settings: ClassifySettings
    options: dict[str, Any]


def given_settings(name: str | None, options: Options, data: Callable[[], Labeled]) -> RunSettings:
    """The objective and the settings that options ask for, and the options with those of a default
    objective; `data` are read only where no objective is named.

    Raises `EmbedxError` for what does not apply.
    """
    check_stopping(options)
    ClassifySettings.from_options(dict(options))  # values out of range, before anything is read
    defaults: dict[str, Any] = {}
    if name is None:
        name, defaults = default_objective(data(), options)
    options = {**defaults, **options}
    objectives.check_applies(options, name)
    objective = new_objective(objectives.find(name), options)
    settings = ClassifySettings.from_options(options)
    check_given(options, settings, objective)
    return RunSettings(objective, settings, options)
