"""The ranking of a comparison, from its records alone: a line for each objective, and conclusions
in sentences.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedx.comparison.records import FAILED, Run
from embedx.evaluation import statistics
from embedx.evaluation.statistics import Score, Standing

NAMES = {  # of measures, in sentences
    "log_likelihood": "log-likelihood",
    "similarity": "word similarity",
    "analogies": "analogies",
    "p@1": "P@1",
    "p@3": "P@3",
    "p@5": "P@5",
    "ndcg@5": "nDCG@5",
    "mrr": "MRR",
    "ndcg@10": "NDCG@10",
    "hr@10": "HR@10",
}
# the measure that the conclusions name beside the one ranked by
SECOND = {"words": "similarity", "examples": "p@1"}
FASTER = 1.2  # ratio of speeds from which a sentence says so


@dataclass(frozen=True)
class Line:
    """The results of an objective: means over its runs, except the median speed and the largest
    memory.
    """

    objective: str
    seeds: list[int]  # of the runs that finished
    standings: dict[str, Standing]  # by measure
    pace: float  # words or examples per second
    peak: float | None  # bytes
    epochs: float
    seconds: float
    loss: float | None
    converged: bool  # trained to the end by its own epochs, whatever the time of the others
    tuned: dict[str, Any]  # options that --tune chose; empty where the defaults were best


@dataclass(frozen=True)
class Ranking:
    """The objectives in order."""

    by: str | None  # the measure ranked by; None where no run finished
    lines: list[Line]
    measures: list[str]  # that any of them has
    unit: str
    unigram: float | None
    curves: dict[str, list[list[list[float]]]]  # by objective, by run: [epochs, seconds, score]
    troubles: list[str]  # failed runs, a sentence each
    advice: list[str]

    @property
    def first(self) -> Line:
        return self.lines[0]


def ranked(
    runs: Sequence[Run], names: Sequence[str], measures: Sequence[str], unit: str
) -> Ranking:
    """The ranking of the objectives `names`, by the first of the measures that all of them have."""
    finished = {
        name: [run for run in runs if run["objective"] == name and "result" in run]
        for name in names
    }
    finished = {
        name: sorted(of, key=lambda run: run["seed"]) for name, of in finished.items() if of
    }
    scores = {measure: scores_of(finished, measure) for measure in measures}
    scores = {measure: of for measure, of in scores.items() if of}
    by = next(
        (measure for measure in scores if len(scores[measure]) == len(finished)),
        next(iter(scores), None),
    )
    reference = next(iter(statistics.standings(scores[by])), None) if by else None
    found = {measure: statistics.standings(of, reference) for measure, of in scores.items()}
    in_order = [*found[by], *(name for name in finished if name not in found[by])] if by else []
    lines = [
        line_of(name, finished[name], {m: of[name] for m, of in found.items() if name in of})
        for name in in_order
    ]
    curves = {name: [run["result"]["curve"] for run in finished[name]] for name in in_order}
    unigram = next(
        (
            run["result"]["unigram"]
            for of in finished.values()
            for run in of
            if "unigram" in run["result"]
        ),
        None,
    )
    ranking = Ranking(by, lines, list(found), unit, unigram, curves, troubles(runs, names), [])
    if by:
        ranking.advice.extend(advice(ranking))
    return ranking


def scores_of(finished: Mapping[str, Sequence[Run]], measure: str) -> dict[str, list[Score]]:
    """The scores of each objective all of whose runs have that measure."""
    found = {
        name: [run["result"]["scores"].get(measure) for run in of] for name, of in finished.items()
    }
    return {name: [Score.from_record(each) for each in of] for name, of in found.items() if all(of)}


def line_of(name: str, runs: Sequence[Run], found: dict[str, Standing]) -> Line:
    results = [run["result"] for run in runs]
    known = {
        key: [each[key] for each in results if each[key] is not None]
        for key in ("epochs", "seconds", "pace", "loss")
    }
    peaks = [(each["compiled"], each["peak"]) for each in results if each["peak"] is not None]
    return Line(
        name,
        [run["seed"] for run in runs],
        found,
        pace=float(np.median(known["pace"])),
        peak=max(
            [peak for compiled, peak in peaks if not compiled] or [peak for _, peak in peaks],
            default=None,
        ),
        epochs=float(np.mean(known["epochs"])),
        seconds=float(np.mean(known["seconds"])),
        loss=float(np.mean(known["loss"])) if known["loss"] else None,
        converged=results[-1].get("converged", False),
        tuned=runs[-1].get("tuned", {}),
    )


def troubles(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """A sentence for each run that did not finish, or only at a lower learning rate."""
    found = []
    for name in names:
        for run in sorted(
            (run for run in runs if run["objective"] == name), key=lambda run: run["seed"]
        ):
            of = f"{name}, seed {run['seed']}"
            found += [f"{of}: {kind}: {run[kind]}" for kind in FAILED if kind in run]
            if "lowered" in run.get("result", {}):
                found.append(
                    f"{of}: diverged, and continued at the learning rate"
                    f" {run['result']['lowered']:.3g}"
                )
    return found


# ---- advice


def advice(ranking: Ranking) -> list[str]:
    """Conclusions, a sentence each."""
    by, lines = str(ranking.by), ranking.lines
    own = [line for line in lines if by in line.standings]
    leaders = [line for line in own if line.standings[by].rank == 1]
    sentences = [of_leaders(by, own, leaders), *of_pace(ranking, own, leaders), *of_second(ranking)]
    if ranking.unigram is not None and by == "log_likelihood":
        for line in own:
            if value_of(line, by) <= ranking.unigram:
                beaten = f"does not beat the unigram baseline ({ranking.unigram:.3f})"
                sentences.append(f"{line.objective} {beaten}: too little text or time.")
    if all(len(line.seeds) == 1 for line in lines) and len(lines) > 1:
        sentences.append(
            "Each was trained with one seed: errors and ranks leave out the variance over seeds;"
            " --seeds 3 measures it."
        )
    return sentences


def of_leaders(by: str, own: Sequence[Line], leaders: Sequence[Line]) -> str:
    """The best, and how much better it is, or those that share the first rank."""
    first, value = own[0].objective, spoken(value_of(own[0], by))
    if len(own) == 1:
        return f"Only {first} finished: {NAMES[by]} {value}."
    if len(leaders) > 1:
        return (
            f"{listed(leaders)} share the first rank in {NAMES[by]} ({first} has {value}): no"
            f" difference to {first} is significant."
        )
    behind = own[1].standings[by].behind
    lead = (
        f", {spoken(-behind.value)} ± {spoken(behind.error)} above {own[1].objective}, the next"
        if behind
        else ""
    )
    return f"{first} is best in {NAMES[by]}, {value}{lead}."


def of_second(ranking: Ranking) -> list[str]:
    """The best in the second measure."""
    measure = SECOND[ranking.unit]
    own = [line for line in ranking.lines if measure in line.standings]
    if measure == ranking.by or len(own) < 2:
        return []
    best = sorted(
        (line for line in own if line.standings[measure].rank == 1),
        key=lambda line: -value_of(line, measure),
    )
    are = "is" if len(best) == 1 else "are"
    return [
        f"In {NAMES[measure]} {listed(best)} {are} best ({spoken(value_of(best[0], measure))})."
    ]


def of_pace(ranking: Ranking, own: Sequence[Line], leaders: Sequence[Line]) -> list[str]:
    """The fastest of the best, and what a faster objective would cost."""
    fastest, quick = (max(lines, key=lambda line: line.pace) for lines in (leaders, own))
    sentences = []
    if len(leaders) > 1:
        sentences.append(
            f"Of these {fastest.objective} is the fastest, with {fastest.pace:,.0f} {ranking.unit}"
            " per second."
        )
    behind = quick.standings[str(ranking.by)].behind
    if behind is not None and quick not in leaders and quick.pace >= FASTER * fastest.pace:
        sentences.append(
            f"{quick.objective} goes through {quick.pace / max(fastest.pace, 1e-9):.1f} times as"
            f" many {ranking.unit} per second as {fastest.objective}, and is"
            f" {spoken(-behind.value)} below {own[0].objective}."
        )
    return sentences


def value_of(line: Line, measure: str) -> float:
    return line.standings[measure].score.value


def spoken(value: float) -> str:
    """A score, or a difference, as a table has it."""
    return "?" if math.isnan(value) else f"{value:.3f}"


def listed(lines: Sequence[Line]) -> str:
    names = [line.objective for line in lines]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
