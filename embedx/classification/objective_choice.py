"""The objective of a classifier, given or chosen from the data, and the settings given with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from embedx import objectives, samplers
from embedx.classification.ineffective_settings import check_given
from embedx.classification.label_weights import is_sparse_or_tree
from embedx.classification.problem import ALL_CANDIDATES
from embedx.classification.settings import GAUSSIAN, ClassifySettings
from embedx.engine.settings import check_stopping
from embedx.labeled.data import Labeled
from embedx.labeled.label_rules import chosen_labels
from embedx.objectives.contract import Objective
from embedx.settings import Options, Record, settings_of

# Maximum mean share of nonzero features per row for data to count as words.
MAX_DENSITY_OF_WORDS = 0.05
# Weights up to which a softmax, whose weights are dense, is the default on sparse features.
MAX_WEIGHTS_OF_SOFTMAX = 250_000_000


def new_objective(objective: type[Objective], options: Options) -> Objective:
    """The objective with its settings from `options`, others with its defaults here."""
    names = settings_of(objective.Settings)
    defaults = {name: v for name, v in objective.label_defaults.items() if name in names}
    return objective(objective.Settings.from_options({**defaults, **options}))


def default_objective(
    data: Labeled, options: Options, *, of_logistic_regression: bool = False
) -> tuple[str, dict[str, Any]]:
    """(name, settings) of the default objective for the data.

    Sparse weights and trees are for one-vs-all. On sparse features that are like words, of rows
    with one label or several, its squared hinge is the default: in eval/results/defaults.md its P@1
    is the highest on most sets and near it on the others but one. On pixels it is not.

    of_logistic_regression  take softmax wherever weights may be dense, as scikit-learn does
    """
    if of_logistic_regression and not is_sparse_or_tree(options.get("weights")):
        return "softmax", {}
    labels = chosen_labels(data.labels, str(options.get("labels", "all")))
    is_exact = options.get("sampler", ALL_CANDIDATES) == ALL_CANDIDATES
    has_hidden = options.get("hidden") or options.get("pretrained")
    needs_softmax = options.get("posterior") == GAUSSIAN
    if not data.is_sparse or has_hidden or not is_exact or needs_softmax:
        return "softmax", {}
    if is_sparse_or_tree(options.get("weights")):
        return "ova", {"loss": "squared-hinge"}
    has_several = bool((labels.n_of_row > 1).any())
    is_large = data.n_labels * data.n_features > MAX_WEIGHTS_OF_SOFTMAX
    is_like_words = data.features.nnz <= MAX_DENSITY_OF_WORDS * len(data) * data.n_features
    is_open = all(
        options.get(name) is None for name in ("time_budget", "optimizer", "learning_rate")
    )
    if has_several or is_large or (is_like_words and is_open):
        return "ova", {"loss": "squared-hinge"}
    return "softmax", {}


@dataclass(frozen=True)
class ClassifierConfiguration:
    """The objective and settings of a run, as the user gave them.

    options      given settings by name, also of the sampler, and those of a default objective
    given_names  names of the given settings; None: those that differ from their defaults
    """

    objective: Objective
    settings: ClassifySettings
    options: Mapping[str, Any] = field(default_factory=dict)
    given_names: frozenset[str] | None = None

    @property
    def sampler_options(self) -> Record:
        """The given settings of the sampler."""
        return samplers.options_of_samplers(self.options)


def configure_classifier(
    name: str | None, options: Options, data: Callable[[], Labeled]
) -> ClassifierConfiguration:
    """The objective and settings from options.

    `data` is called only if no objective is given. Raises `EmbedxError` for settings that do not
    apply.
    """
    check_stopping(options)
    # Check ranges before anything is read.
    ClassifySettings.from_options(dict(options))
    defaults: dict[str, Any] = {}
    if name is None:
        name, defaults = default_objective(data(), options)
    options = {**defaults, **options}
    objectives.check_applies(options, name)
    objective = new_objective(objectives.find(name), options)
    settings = ClassifySettings.from_options(options)
    check_given(options, settings, objective)
    return ClassifierConfiguration(objective, settings, options)
