"""The ranking of a comparison, from its records alone: a line for each objective, and conclusions in sentences."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedx.comparison.records import Run
from embedx.evaluation import statistics
from embedx.evaluation.statistics import Error, Estimate, Score, Standing

LAST = 0.8  # share of a run's time, after which a rise of the curve says that more time would help
NAMES = {  # of measures, in sentences
    "log_likelihood": "log-likelihood", "similarity": "word similarity", "analogies": "analogies",
    "p@1": "P@1", "p@3": "P@3", "p@5": "P@5", "ndcg@5": "nDCG@5",
}  # fmt: skip
SECOND = {"words": "similarity", "examples": "p@1"}  # the measure that the conclusions name beside the one ranked by
FASTER = 1.2  # ratio of speeds from which a sentence says so


@dataclass(frozen=True)
class Line:
    """The results of an objective: means over its runs, except the median speed and the largest memory."""

    objective: str
    seeds: list[int]  # of the runs that finished
    standings: dict[str, Standing]  # by measure
    pace: float  # words or examples per second
    peak: float | None  # bytes
    epochs: float
    seconds: float
    loss: float | None
    lowered: bool  # the learning rate, by a run that had diverged
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


def ranked(runs: Sequence[Run], names: Sequence[str], measures: Sequence[str], unit: str) -> Ranking:
    """The ranking of the objectives `names`, by the first of the measures that all of them have."""
    finished = {name: [run for run in runs if run["objective"] == name and "result" in run] for name in names}
    finished = {name: sorted(of, key=lambda run: run["seed"]) for name, of in finished.items() if of}
    scores = {measure: scores_of(finished, measure) for measure in measures}
    scores = {measure: of for measure, of in scores.items() if of}
    by = next((measure for measure in measures if finished and len(scores.get(measure, {})) == len(finished)), None)
    by = by or next(iter(scores), None)
    reference = next(iter(statistics.standings(scores[by])), None) if by else None
    found = {measure: statistics.standings(of, reference) for measure, of in scores.items()}
    in_order = [*found[by], *(name for name in finished if name not in found[by])] if by else []
    lines = [line_of(name, finished[name], {m: of[name] for m, of in found.items() if name in of}) for name in in_order]
    curves = {name: [run["result"]["curve"] for run in finished[name]] for name in in_order}
    unigrams = [run["result"]["unigram"] for of in finished.values() for run in of if "unigram" in run["result"]]
    unigram = unigrams[0] if unigrams else None
    ranking = Ranking(by, lines, list(found), unit, unigram, curves, troubles(runs, names), [])
    if by:
        ranking.advice.extend(advice(ranking, finished))
    return ranking


def scores_of(finished: Mapping[str, Sequence[Run]], measure: str) -> dict[str, list[Score]]:
    """The scores of each objective all of whose runs have that measure."""
    found = {name: [run["result"]["scores"].get(measure) for run in of] for name, of in finished.items()}
    return {name: [Score.from_record(each) for each in of] for name, of in found.items() if all(of)}


def line_of(name: str, runs: Sequence[Run], found: dict[str, Standing]) -> Line:
    results: list[dict[str, Any]] = [run["result"] for run in runs]
    warm = [each["peak"] for each in results if each["peak"] is not None and not each["compiled"]]
    peaks = warm or [each["peak"] for each in results if each["peak"] is not None]
    losses = [each["loss"] for each in results if each["loss"] is not None]
    return Line(
        name,
        [run["seed"] for run in runs],
        found,
        pace=float(np.median([each["pace"] for each in results])),
        peak=max(peaks, default=None),
        epochs=float(np.mean([each["epochs"] for each in results])),
        seconds=float(np.mean([each["seconds"] for each in results])),
        loss=float(np.mean(losses)) if losses else None,
        lowered=any("lowered" in each for each in results),
        tuned=runs[-1].get("tuned", {}),
    )


def troubles(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """A sentence for each run that did not finish, or only at a lower learning rate."""
    found = []
    for name in names:
        for run in sorted((run for run in runs if run["objective"] == name), key=lambda run: run["seed"]):
            of = f"{name}, seed {run['seed']}"
            found += [f"{of}: {kind}: {run[kind]}" for kind in ("diverged", "failed") if kind in run]
            if "lowered" in run.get("result", {}):
                found.append(f"{of}: diverged, and continued at the learning rate {run['result']['lowered']:.3g}")
    return found


# ---- advice


def advice(ranking: Ranking, finished: Mapping[str, Sequence[Run]]) -> list[str]:
    """Conclusions, a sentence each; `finished` are the runs of each objective."""
    by, lines = str(ranking.by), ranking.lines
    own = [line for line in lines if by in line.standings]
    leaders = [line for line in own if line.standings[by].rank == 1]
    sentences = [of_leaders(by, own, leaders)]
    sentences += of_pace(ranking, own, leaders)
    sentences += of_second(ranking, leaders)
    sentences += of_unigram(ranking, own) if by == "log_likelihood" else []
    sentences += of_time(ranking, leaders)
    sentences += of_falls(ranking, leaders, finished)
    if all(len(line.seeds) == 1 for line in lines) and len(lines) > 1:
        sentences.append(
            "Each was trained with one seed: errors and ranks leave out the variance over seeds; --seeds 3 measures it."
        )
    return sentences


def of_leaders(by: str, own: Sequence[Line], leaders: Sequence[Line]) -> str:
    first = own[0]
    value = spoken(by, first.standings[by].score.value)
    if len(own) == 1:
        return f"Only {first.objective} finished: {NAMES[by]} {value}."
    if len(leaders) == 1:
        second = own[1]
        behind = second.standings[by].behind
        how = (
            ""
            if behind is None
            else f", {spoken(by, -behind.value)} ± {spoken(by, behind.error)} above {second.objective}, the next"
        )
        return f"{first.objective} is best in {NAMES[by]}, {value}{how}."
    widest = max((line.standings[by].behind for line in leaders[1:]), key=lambda each: each.error if each else 0.0)
    errors = "" if widest is None or math.isnan(widest.error) else f" (standard errors of up to {spoken(by, widest.error)})"
    return (
        f"{listed(leaders)} share the first rank in {NAMES[by]} ({first.objective} has {value}): no difference to "
        f"{first.objective} is significant{errors}."
    )


def of_second(ranking: Ranking, leaders: Sequence[Line]) -> list[str]:
    """The best in the second measure, if these are others."""
    measure = SECOND[ranking.unit]
    own = [line for line in ranking.lines if measure in line.standings]
    if measure == ranking.by or len(own) < 2:
        return []
    best = sorted((line for line in own if line.standings[measure].rank == 1), key=lambda line: -value_of(line, measure))
    value, name = spoken(measure, value_of(best[0], measure)), NAMES[measure]
    if len(best) == len(own):
        return [f"In {name} there is no order between them (the highest is {value}, of {best[0].objective})."]
    if len(best) == 1 and best[0] is leaders[0]:
        return [f"{best[0].objective} is best in {name} too ({value})."]
    others = f"; {listed(best[1:])} {'share' if len(best) > 2 else 'shares'} its rank" if len(best) > 1 else ""
    beside = "" if leaders[0] in best else f"; {leaders[0].objective} has {score_text(leaders[0], measure)}"
    return [f"In {name} {best[0].objective} is {'highest' if others else 'best'} ({value}){others}{beside}."]


def of_pace(ranking: Ranking, own: Sequence[Line], leaders: Sequence[Line]) -> list[str]:
    """The fastest of the best, or what a faster objective would cost."""
    by, unit = str(ranking.by), ranking.unit
    fastest = max(leaders, key=lambda line: line.pace)
    sentences = []
    if len(leaders) > 1:
        slowest = min(leaders, key=lambda line: line.pace)
        times = fastest.pace / max(slowest.pace, 1e-9)
        beside = f", {times:.1f} times as many as {slowest.objective}" if times >= FASTER else ""
        sentences.append(f"Of these {fastest.objective} is the fastest, with {fastest.pace:,.0f} {unit} per second{beside}.")
    quick = max(own, key=lambda line: line.pace)
    if quick not in leaders and quick.pace >= FASTER * fastest.pace and (behind := quick.standings[by].behind) is not None:
        sentences.append(
            f"{quick.objective} goes through {quick.pace / max(fastest.pace, 1e-9):.1f} times as many {unit} per second as "
            f"{fastest.objective}, and is {spoken(by, -behind.value)} below {own[0].objective}."
        )
    return sentences


def of_unigram(ranking: Ranking, own: Sequence[Line]) -> list[str]:
    """Objectives that do not beat the unigram baseline."""
    if ranking.unigram is None:
        return []
    none = [line for line in own if value_of(line, "log_likelihood") <= ranking.unigram]
    if not none:
        return []
    return [
        f"{listed(none)} {'does' if len(none) == 1 else 'do'} not beat the unigram baseline ({ranking.unigram:.3f}): "
        "too little text or time."
    ]


def of_time(ranking: Ranking, leaders: Sequence[Line]) -> list[str]:
    """Whether the curve of the best still rose at the end."""
    rises = {name: [each for each in map(last_rise, runs) if each is not None] for name, runs in ranking.curves.items()}
    seeds = statistics.pooled_deviation(list(rises.values()))
    sentences = []
    for line in leaders[:1]:
        if not (own := rises[line.objective]):
            continue
        error = Error(seeds.value / math.sqrt(len(own)) if seeds.freedom else math.nan, seeds.freedom)
        rise = Estimate(float(np.mean(own)), (error,))
        amount = f"{abs(rise.value):.3g}" + ("" if math.isnan(rise.error) else f" ± {rise.error:.1g}")
        last = f"over the last {100 * (1 - LAST):.0f} % of its time"
        if math.isnan(rise.error):
            verb = "rose" if rise.value > 0 else "fell"
            sentences.append(
                f"The learning curve of {line.objective} {verb} by {amount} {last}; one run has no error to judge that by."
            )
        elif rise.sign() > 0:
            sentences.append(f"The learning curve of {line.objective} still rose {last}, by {amount}: more time may help.")
        elif rise.sign() < 0:
            sentences.append(
                f"The learning curve of {line.objective} fell {last}, by {amount}: less time, or more data, may help."
            )
        else:
            sentences.append(f"The learning curve of {line.objective} was flat {last} (a change of {amount}).")
    return sentences


def of_falls(ranking: Ranking, leaders: Sequence[Line], finished: Mapping[str, Sequence[Run]]) -> list[str]:
    """Which of the others were better before the end.

    The point of a run is chosen by the objective's other runs, on every other span of the held-out text; the fall since is
    measured on the remaining spans, so that no noise chooses what it is measured by.
    """
    falls: dict[str, list[Score]] = {}
    times: dict[str, float] = {}
    for line in ranking.lines:
        runs = [run["result"]["spans"] for run in finished[line.objective] if "spans" in run["result"]]
        n = min((len(each["points"]) for each in runs), default=1) - 1  # points before the end
        if line in leaders or len(runs) < 2 or n < 1:
            continue
        curves = np.array([[on_spans(run, k, slice(0, None, 2)).value for k in range(n)] for run in runs])
        chosen = [int(np.argmax(curves.sum(axis=0) - own)) for own in curves]
        falls[line.objective] = [
            statistics.gain([on_spans(run, k, slice(1, None, 2))], [on_spans(run, -1, slice(1, None, 2))])
            for run, k in zip(runs, chosen, strict=True)
        ]
        times[line.objective] = float(np.mean([run["points"][k][0] for run, k in zip(runs, chosen, strict=True)]))
    seeds = statistics.between_seeds(list(falls.values()))
    found = {name: statistics.estimate(each, seeds) for name, each in falls.items()}
    seconds = {line.objective: line.seconds for line in ranking.lines}
    return [
        f"The learning curve of {name} was highest after {times[name]:.3g} s, and fell by {found[name].value:.3g} ± "
        f"{found[name].error:.1g} since: it may do better with less time."
        for name, sign in statistics.signs(found).items()
        if sign > 0 and times[name] < LAST * seconds[name]
    ]


def on_spans(spans: Mapping[str, Any], point: int, some: slice) -> Score:
    """The score of some spans of the held-out text at a point of a run."""
    return Score.of_groups(spans["points"][point][1][some], spans["sizes"][some])


def last_rise(curve: Sequence[Sequence[float]]) -> float | None:
    """How much the score rose after LAST of the time; None where the curve has no point before."""
    if not curve:
        return None
    end = curve[-1]
    before = [point for point in curve[:-1] if point[1] <= LAST * end[1]]
    return end[2] - before[-1][2] if before else None


def value_of(line: Line, measure: str) -> float:
    return line.standings[measure].score.value


def score_text(line: Line, measure: str) -> str:
    return spoken(measure, value_of(line, measure)) if measure in line.standings else "none"


def spoken(measure: str, value: float) -> str:
    """A score, or a difference, as a table has it."""
    return "?" if math.isnan(value) else f"{value:.3f}"


def listed(lines: Sequence[Line]) -> str:
    names = [line.objective for line in lines]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
