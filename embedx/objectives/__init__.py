"""The registry of objectives: one line each. `contract` says what an objective is, its own file
what it computes.
"""

import json
from pathlib import Path

from embedx import registry
from embedx.errors import InapplicableError, Setting, SettingError, choice
from embedx.objectives.contract import Objective
from embedx.settings import Options, Record, settings_of

# Each as file.Class of this folder, in the order of all tables. An import needs no second line that
# way.
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
    "ova.OneVsAll",
    "nce.NoiseContrastive",
    "sampled_softmax.SampledSoftmax",
    "bouchard.Bouchard",
    "umax.Umax",
    "sgd_double_sum.SgdDoubleSum",
    "ar_probit.AugmentReduceProbit",
    "ar_logistic.AugmentReduceLogistic",
)

OBJECTIVES: dict[str, type[Objective]] = registry.load(__name__, REGISTRY)


def find(name: str) -> type[Objective]:
    """The objective called `name`."""
    if name not in OBJECTIVES:
        remedy = choice(name, OBJECTIVES)
        raise SettingError("objective", name, "no such objective", remedy)
    return OBJECTIVES[name]


def check_applies(given: Options, objective: str) -> None:
    """Raise `EmbedxError` if a setting was given that only other objectives have."""
    for name in given:
        takers = [other for other, each in OBJECTIVES.items() if name in settings_of(each.Settings)]
        if takers and objective not in takers:
            problem = ("does not apply to ", Setting("objective", objective))
            raise InapplicableError(name, None, problem, f"taken by {', '.join(takers)}")


# ---- the table of objectives: what `embedx objectives` prints; docs/objectives.md has the same

DESCRIBED = ("objective", "loss", "paper", "rows", "samplers", "needs", "when")
MEASURED = ("log-likelihood", "WordSim-353", "words/s")
TABLE_HEAD = DESCRIBED + MEASURED
# written by `python -m eval objectives --publish`
MEASURED_FILE = Path(__file__).with_name("measured.json")


def table() -> list[tuple[str, ...]]:
    """All objectives, a row each, under TABLE_HEAD; "rows" is how many output rows are scored for
    an example with one label.
    """
    rows = {"all": "K", "path": "log K", "drawn": "1 + m", "retrieved": "found"}
    scores = measured()["objectives"]
    return [
        (
            name,
            each.formula,
            f"{each.title}; {each.paper}",
            rows[each.candidates[0]],
            ", ".join(each.samplers()),
            needs(each),
            "; ".join(filter(None, [each.advice, each.words_caution])),
            *measured_cells(scores.get(name)),
        )
        for name, each in OBJECTIVES.items()
    ]


def needs(objective: type[Objective]) -> str:
    """What an objective needs beside the scores, in words."""
    uses_chance = objective(objective.Settings()).uses_log_expected_count
    found = [
        ("a tree", "path" in objective.candidates),
        ("sampling probabilities", "drawn" in objective.candidates and uses_chance),
        (f"{_count(objective.state_width, 'state value')} per input", objective.state_width),
        (
            f"{_count(objective.uniforms_width, 'random number')} per example",
            objective.uniforms_width,
        ),
        ("the norm of the input vector", objective.uses_score_gain),
        ("its own update step", objective.kind == "proximal"),
    ]
    return ", ".join(words for words, it_does in found if it_does) or "-"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")


def measured() -> Record:
    """What was measured of skip-gram: `about` the measurement, and of `objectives` by name their
    numbers.
    """
    return dict(json.loads(MEASURED_FILE.read_text("utf-8")))


def measured_cells(numbers: Record | None) -> tuple[str, ...]:
    """The measured numbers of an objective as a table shows them, under MEASURED."""
    if numbers is None:
        return ("-",) * len(MEASURED)
    if numbers.get("diverged"):
        return ("diverged", *("-",) * (len(MEASURED) - 1))
    speed = round(numbers["words_per_second"], -3)
    return f"{numbers['log_likelihood']:.3f}", f"{numbers['wordsim']:.3f}", f"{speed:,}"


def measured_how() -> str:
    """What was measured, in a line."""
    about = measured()["about"]
    if not about:
        return "The last three columns are filled by `python -m eval objectives --publish`."
    return (
        f"The last three columns: skip-gram at each objective's defaults on {about['corpus']}"
        f" ({about['words']:,} words), {about['epochs']} epochs, {about['threads']} threads of"
        f" {about['machine']}, {about['date']}; the log-likelihood is of the {about['heldout']}"
        f" held out, where the unigram model has {about['unigram']:.3f}."
    )
