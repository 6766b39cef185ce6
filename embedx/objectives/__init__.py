"""The registry of objectives, one line each. `contract` defines what an objective is."""

import json
from pathlib import Path
from typing import Any

from embedx import samplers
from embedx.errors import DataError, InapplicableError, Setting, SettingError, choice
from embedx.objectives.contract import About, Objective
from embedx.registry import REMEDY, Registry, wrong_class
from embedx.settings import Options, Record, settings_of, wrong_settings

# Each as file.Class of this folder, in the order of all tables.
REGISTRY = (
    "softmax.Softmax",
    "ns.NegativeSampling",
    "hs.HierarchicalSoftmax",
    "ar.AugmentReduce",
    "ove.OneVsEach",
    "implicit.Implicit",
    "ldgs.Ldgs",
    "mips.Mips",
    "margin.Margin",
    "nested_ove.NestedOneVsEach",
    "ova.OneVsAll",
    "nce.NoiseContrastive",
    "sampled_softmax.SampledSoftmax",
    "complementary_sum.ComplementarySum",
    "bouchard.Bouchard",
    "umax.Umax",
    "sgd_double_sum.SgdDoubleSum",
    "scgd.Scgd",
    "ar_probit.AugmentReduceProbit",
    "ar_logistic.AugmentReduceLogistic",
)


def _wrong(objective: Any) -> str:
    """Why an objective of another package cannot be used; "" if it can."""
    problem = wrong_class(objective, Objective, ("name", "about"))
    if not problem and not isinstance(objective.about, About):
        return f"{objective.__qualname__}.about is not an `About`"
    return problem or wrong_settings(objective.Settings, __name__)


# Other packages add theirs by the entry point `embedx.objectives`.
OBJECTIVES: Registry[type[Objective]] = Registry(
    __name__, REGISTRY, setting="objective", group="embedx.objectives", check=_wrong
)


def find(name: str) -> type[Objective]:
    """The objective called `name`. Logs the objectives and samplers of other packages that cannot
    be used.
    """
    OBJECTIVES.check_usable(name)
    report_broken()
    if name not in OBJECTIVES:
        remedy = choice(name, OBJECTIVES)
        raise SettingError("objective", name, "no such objective", remedy)
    return OBJECTIVES[name]


def report_broken() -> None:
    """Log a line for each objective and sampler of another package that cannot be used, once."""
    OBJECTIVES.report_broken()
    samplers.SAMPLERS.report_broken()


def packages(objective: str, sampler: str | None) -> Record:
    """The facts of a model that name the other packages it needs; empty if it needs none."""
    origins = {"objective": OBJECTIVES.origin(objective)}
    if sampler is not None:
        origins["sampler"] = samplers.SAMPLERS.origin(sampler)
    needed = {setting: origin for setting, origin in origins.items() if origin}
    return {"packages": needed} if needed else {}


def check_packages(file: object, facts: Options, settings: Options) -> None:
    """Raise `DataError`, which names the package, if a saved model needs an objective or a sampler
    that is not installed.
    """
    registries = (
        ("objective", facts.get("objective"), OBJECTIVES),
        ("sampler", settings.get("sampler"), samplers.SAMPLERS),
    )
    for setting, name, registry in registries:
        if name is not None and name not in registry:
            origin = (facts.get("packages") or {}).get(setting)
            problem, remedy = _missing(registry.broken.get(name), origin)
            raise DataError(file, None, f"was trained with the {setting} {name}, {problem}", remedy)


def _missing(complaint: str | None, origin: Any) -> tuple[str, str]:
    """(problem, remedy) for a missing objective or sampler that a model was trained with.

    complaint  why an installed package cannot be used; None if it is not installed
    origin     the package, as in the facts of the model
    """
    if complaint is not None:
        return f"but {complaint}", REMEDY
    is_known = isinstance(origin, dict)
    if is_known and "package" in origin:
        package = origin["package"]
        version = origin.get("version")
        return (
            f"of the package {package} {version}, which is not installed",
            f"pip install {package}",
        )
    if is_known and "module" in origin:
        module = origin["module"]
        return f"which the module {module} defines", f"import {module} and register it first"
    return "which is unknown here", "install the package that defines it, or a newer embedx"


def check_applies(given: Options, objective: str) -> None:
    """Raise `EmbedxError` for a given setting that only other objectives have."""
    for name in set(given) - set(samplers.options_of_samplers(given)):
        takers = [
            taker
            for taker, objective_class in OBJECTIVES.items()
            if name in settings_of(objective_class.Settings)
        ]
        if takers and objective not in takers:
            problem = ("does not apply to ", Setting("objective", objective))
            raise InapplicableError(name, None, problem, f"use it with {', '.join(takers)}")


# ---- the table of objectives: what `embedx objectives` prints; docs/objectives.md has the same

DESCRIBED = ("objective", "loss", "paper", "rows", "samplers", "needs", "when")
MEASURED = ("log-likelihood", "WordSim-353", "words/s")
TABLE_HEAD = DESCRIBED + MEASURED
# written by `python -m eval objectives --publish`
MEASURED_FILE = Path(__file__).with_name("measured.json")


def table() -> list[tuple[str, ...]]:
    """A row for each objective, with the columns TABLE_HEAD; "rows" is the number of output rows
    scored for an example with one label.
    """
    report_broken()
    return [_row(objective) for objective in OBJECTIVES.values()]


def _row(objective: type[Objective]) -> tuple[str, ...]:
    about = objective.about
    rows = {"all": "K", "path": "log K", "drawn": "1 + m", "retrieved": "found"}
    scores = measured()["objectives"]
    return (
        objective.name,
        about.formula,
        f"{about.title}; {about.paper}",
        rows[objective.candidates[0]],
        ", ".join(objective.samplers()),
        needs(objective),
        "; ".join(filter(None, [about.advice, about.words_caution])),
        *measured_cells(scores.get(objective.name)),
    )


def needs(objective: type[Objective]) -> str:
    """The inputs that an objective needs in addition to the scores, in words."""
    traits = objective(objective.Settings()).traits
    is_drawn = "drawn" in objective.candidates
    states = _count(objective.state_width, "state value")
    numbers = _count(objective.uniforms_width, "random number")
    conditions = [
        ("a tree", "path" in objective.candidates),
        ("sampling probabilities", is_drawn and traits.uses_log_expected_count),
        (f"{states} per input", objective.state_width > 0),
        (f"{numbers} per example", objective.uniforms_width > 0),
        ("the norm of the input vector", traits.uses_score_gain),
        ("its own update step", objective.step == "proximal"),
    ]
    return ", ".join(need for need, holds in conditions if holds) or "-"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")


def measured() -> Record:
    """Measurements of skip-gram: `about` describes them, `objectives` has the numbers by name."""
    return dict(json.loads(MEASURED_FILE.read_text("utf-8")))


def measured_cells(numbers: Record | None) -> tuple[str, ...]:
    """The measured numbers of an objective as cells of a table, with the columns MEASURED."""
    if numbers is None:
        return ("-",) * len(MEASURED)
    if numbers.get("diverged"):
        return ("diverged", *("-",) * (len(MEASURED) - 1))
    speed = round(numbers["words_per_second"], -3)
    return f"{numbers['log_likelihood']:.3f}", f"{numbers['wordsim']:.3f}", f"{speed:,}"


def measured_how() -> str:
    """The conditions of the measurement, in a line."""
    about = measured()["about"]
    if not about:
        return "The last three columns are filled by `python -m eval objectives --publish`."
    return (
        f"The last three columns: skip-gram at the defaults of {about['date']} on {about['corpus']}"
        f" ({about['words']:,} words), {about['epochs']} epochs, {about['threads']} threads of"
        f" {about['machine']}; the log-likelihood is of the {about['heldout']}"
        f" held out, where the unigram model has {about['unigram']:.3f}."
    )
