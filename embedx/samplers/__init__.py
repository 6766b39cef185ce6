"""The registry of negative samplers, one line each: which output rows are candidates in addition to
the positives. See `contract`.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from embedx.errors import InapplicableError, Setting, SettingError, choice
from embedx.registry import Registry, wrong_class
from embedx.samplers.contract import Candidates, Paths, Sampler
from embedx.settings import Options, Record, settings_of, wrong_settings

# Each as file.Class of this folder, in the order of help texts.
REGISTRY = (
    "search.Search",
    "unigram.Unigram",
    "uniform.Uniform",
    "adversarial.Adversarial",
    "all_rows.All",
    "path.Path",
)


def _wrong(sampler: Any) -> str:
    """Why a sampler of another package cannot be used; "" if it can."""
    problem = wrong_class(sampler, Sampler, ("name", "meaning", "candidates"))
    return problem or wrong_settings(sampler.Settings, __name__)


# Other packages add theirs by the entry point `embedx.samplers`.
SAMPLERS: Registry[type[Sampler]] = Registry(
    __name__, REGISTRY, setting="sampler", group="embedx.samplers", check=_wrong
)


def names_of(candidates: Iterable[Candidates], default: str) -> tuple[str, ...]:
    """The samplers of these kinds of candidates, in this order; of those that draw, `default` comes
    first.
    """
    names = []
    for kind in candidates:
        of_kind = [name for name, sampler in SAMPLERS.items() if sampler.candidates == kind]
        names += sorted(of_kind, key=lambda name: name != default)
    return tuple(names)


def first_drawn(names: Iterable[str]) -> str:
    """The first of these samplers that draws."""
    return next(name for name in names if SAMPLERS[name].candidates == "drawn")


def options_of_samplers(options: Options) -> Record:
    """The options that are settings of some sampler."""
    declared = {name for sampler in SAMPLERS.values() for name in settings_of(sampler.Settings)}
    return {name: value for name, value in options.items() if name in declared}


def make(
    name: str, options: Options, *, replacement: bool = True, corrected: bool = False
) -> Sampler:
    """The sampler called `name`, with its settings from `options`.

    corrected  whether the objective corrects its predictions for the noise

    Raises `EmbedxError` if the options have a setting that only other samplers take.
    """
    sampler_class = SAMPLERS[name]
    own_settings = settings_of(sampler_class.Settings)
    for other in SAMPLERS.values():
        for setting in settings_of(other.Settings):
            if setting in options and setting not in own_settings:
                problem = ("does not apply to ", Setting("sampler", name))
                raise InapplicableError(setting, None, problem, f"use it with {other.name}")
    settings = sampler_class.Settings.from_options(dict(options))
    resolved = sampler_class.fill_defaults(settings, corrected=corrected)
    return sampler_class(resolved, replacement=replacement)


def with_warm_up(
    name: str,
    taken: Iterable[str],
    options: Options,
    *,
    replacement: bool = True,
    corrected: bool = False,
) -> tuple[Sampler, Sampler | None]:
    """(sampler, warm-up sampler): the sampler called `name` and, if it retrieves rows, the first of
    `taken` that draws, which is used during warm-up.

    `options` have the settings of the sampler, and of the warm-up sampler if there is one. Raises
    `EmbedxError` like `make`.
    """
    if SAMPLERS[name].candidates != "retrieved":
        return make(name, options, replacement=replacement, corrected=corrected), None
    of_search = settings_of(SAMPLERS[name].Settings)
    search = make(name, {option: value for option, value in options.items() if option in of_search})
    others = {option: value for option, value in options.items() if option not in of_search}
    return search, make(first_drawn(taken), others, replacement=replacement, corrected=corrected)


def prepared(
    both: tuple[Sampler, Sampler | None], counts: np.ndarray, paths: Paths | None
) -> tuple[Sampler, Sampler | None]:
    """A sampler and its warm-up sampler, prepared for class counts, int64 (K,), and the tree of the
    objective.
    """
    sampler, warm_up = both
    sampler.prepare(counts, paths=paths)
    if warm_up is not None:
        warm_up.prepare(counts)
    return both


def recorded(settings: Options, *, replacement: bool) -> Sampler:
    """The sampler of a saved model, from its settings; `All` if they name none."""
    name = settings.get("sampler") or "all"
    if name not in SAMPLERS:
        raise SettingError("sampler", name, choice(name, SAMPLERS))
    sampler_class = SAMPLERS[name]
    return sampler_class(
        sampler_class.Settings.from_options(dict(settings)), replacement=replacement
    )
