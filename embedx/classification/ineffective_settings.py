"""Settings that have an effect only with others, and their refusal without these."""

from collections.abc import Iterator

from embedx import samplers
from embedx.classification.label_weights import conditions_of_weights
from embedx.classification.problem import IGNORED_BY_DUAL
from embedx.classification.settings import (
    GAUSSIAN,
    STEP_SETTINGS,
    ClassifySettings,
    share_of_rows,
)
from embedx.errors import InapplicableError, Setting, Text
from embedx.objectives.contract import Objective
from embedx.optimizers.dcd import DualCoordinateDescent
from embedx.optimizers.lbfgs import Lbfgs
from embedx.settings import Options


def conditions(
    settings: ClassifySettings, objective: Objective
) -> Iterator[tuple[str, bool, Text]]:
    """Names of settings that need another one, whether they have an effect, and what they need."""
    optimizer = settings.optimizer or objective.label_defaults.get("optimizer")
    by_steps = optimizer != Lbfgs.name
    validates = settings.validation is not None
    validates_by_file = validates and share_of_rows(str(settings.validation)) is None
    yield from conditions_of_weights(settings)
    yield "validation_labels", validates_by_file, ("a file for ", Setting("validation"))
    yield "patience", validates, Setting("validation")
    yield "decay_every", settings.decay < 1, Setting("decay")
    is_gaussian = settings.posterior == GAUSSIAN
    yield "prior_variance", is_gaussian, Setting("posterior", GAUSSIAN)
    for name in ("max_iterations", "tolerance"):
        yield name, not by_steps, Setting("optimizer", Lbfgs.name)
    for name in (*STEP_SETTINGS, "time_budget", "replacement", "patience"):
        yield name, by_steps, ("a stochastic ", Setting("optimizer"))
    for name, need in objective.without_effect().items():
        yield name, False, need
    usual_sampler = objective.label_defaults.get("sampler", objective.samplers()[0])
    kind = samplers.SAMPLERS[str(settings.sampler or usual_sampler)].candidates
    counts_negatives = kind in ("drawn", "retrieved") or objective.traits.weighs_negatives
    yield "negatives", counts_negatives, "a sampler that draws"


def check_given(options: Options, settings: ClassifySettings, objective: Objective) -> None:
    """Raise `SettingError` if one of the options that were given has no effect."""
    for name, has_effect, need in conditions(settings, objective):
        if options.get(name) is not None and not has_effect:
            needs = need if isinstance(need, tuple) else (need,)
            raise InapplicableError(name, None, ("applies only with ", *needs))


def without_effect(settings: ClassifySettings, objective: Objective) -> set[str]:
    """The names of the settings that have no effect on a run with these."""
    names = {name for name, has_effect, _ in conditions(settings, objective) if not has_effect}
    if settings.optimizer == DualCoordinateDescent.name:
        names |= set(IGNORED_BY_DUAL)
    return names
