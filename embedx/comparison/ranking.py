"""The ranking of a comparison, from its records: a line for each objective, and conclusions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedx.comparison.records import FAILED, RunRecord
from embedx.errors import Setting, Text, text_from_json
from embedx.evaluation import statistics
from embedx.evaluation.statistics import Score, Standing

# Names of measures in sentences.
MEASURE_NAMES = {
    "log_likelihood": "log-likelihood",
    "similarity": "word similarity",
    "analogies": "analogies",
    "accuracy": "accuracy",
    "p@1": "P@1",
    "p@3": "P@3",
    "p@5": "P@5",
    "ndcg@5": "nDCG@5",
    "mrr": "MRR",
    "ndcg@10": "NDCG@10",
    "hr@10": "HR@10",
}
# Measures that conclusions mention beside the one ranked by; data have one of them.
SECOND_MEASURES = ("similarity", "accuracy", "p@1")
# Minimum ratio of speeds for a sentence about a faster objective.
MIN_RATIO_OF_PACES = 1.2
# With fewer seeds a sentence says what they cannot show.
FEW_SEEDS = 3
MORE_SEEDS = 5


@dataclass(frozen=True)
class Line:
    """The results of an objective.

    seeds      of the runs that finished
    standings  by measure
    pace       words, items, nodes or examples per second, the median of the runs
    peak       memory in bytes, the largest of the runs
    epochs, seconds, loss  means over the runs
    converged  whether it trained to convergence, not for the time of the others
    tuned      options that were tuned; empty where the defaults were best
    """

    objective: str
    seeds: list[int]
    standings: dict[str, Standing]
    pace: float
    peak: float | None
    epochs: float
    seconds: float
    loss: float | None
    converged: bool
    tuned: dict[str, Any]


@dataclass(frozen=True)
class Ranking:
    """The objectives in order.

    by        the measure ranked by; None where no run finished
    measures  those that any objective has
    unit      see `Data`
    unigram   the score of the unigram baseline
    curves    by objective, by run: points [epochs, seconds, score]
    troubles  failed runs, a sentence each
    advice    conclusions, a sentence each
    """

    by: str | None
    lines: list[Line]
    measures: list[str]
    unit: str
    unigram: float | None
    curves: dict[str, list[list[list[float]]]]
    troubles: list[Text]
    advice: list[Text]

    @property
    def first(self) -> Line:
        """The objective of the highest score."""
        return self.lines[0]

    def best(self, measure: str | None) -> Line | None:
        """The objective that is significantly best in a measure, with errors that include the
        variance over seeds; None if there is none.
        """
        measured = [line for line in self.lines if measure in line.standings]
        leaders = [line for line in measured if line.standings[str(measure)].rank == 1]
        has_variance = any(len(line.seeds) > 1 for line in measured)
        if len(leaders) == 1 and len(measured) > 1 and has_variance:
            return leaders[0]
        return None


def ranked(
    runs: Sequence[RunRecord], names: Sequence[str], measures: Sequence[str], unit: str
) -> Ranking:
    """The ranking of the objectives `names`, by the first of the measures that all of them have."""
    finished = finished_runs(runs, names)
    scores = {measure: scores_of(finished, measure) for measure in measures}
    scores = {measure: by_objective for measure, by_objective in scores.items() if by_objective}
    by = ranking_measure(scores, len(finished))
    not_ranked_by = measures_of_differing_items(scores)
    standings = standings_of(scores, by)

    in_order: list[str] = []
    if by is not None:
        in_order += standings[by]
        in_order += [name for name in finished if name not in standings[by]]
    lines = []
    for name in in_order:
        by_measure = {measure: of[name] for measure, of in standings.items() if name in of}
        lines.append(line_of(name, finished[name], by_measure))

    ranking = Ranking(
        by,
        lines,
        measures=list(standings),
        unit=unit,
        unigram=unigram_score(finished),
        curves={name: [run["result"]["curve"] for run in finished[name]] for name in in_order},
        troubles=troubles(runs, names),
        advice=[],
    )
    if by is not None:
        ranking.advice.extend(advice(ranking))
        ranking.advice.extend(map(about_differing_items, not_ranked_by))
    return ranking


def finished_runs(runs: Sequence[RunRecord], names: Sequence[str]) -> dict[str, list[RunRecord]]:
    """The runs that have a result, by objective and in the order of seeds; objectives without one
    are left out.
    """
    finished = {}
    for name in names:
        with_result = [run for run in runs_of(name, runs) if "result" in run]
        if with_result:
            finished[name] = with_result
    return finished


def runs_of(name: str, runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs of an objective in the order of seeds."""
    return sorted(
        (run for run in runs if run["objective"] == name),
        key=lambda run: run["seed"],
    )


def scores_of(finished: Mapping[str, Sequence[RunRecord]], measure: str) -> dict[str, list[Score]]:
    """The scores of each objective all of whose runs have that measure."""
    scores = {}
    for name, runs in finished.items():
        records = [run["result"]["scores"].get(measure) for run in runs]
        if all(records):
            scores[name] = [Score.from_record(record) for record in records]
    return scores


def measures_of_differing_items(
    scores: Mapping[str, Mapping[str, Sequence[Score]]],
) -> list[str]:
    """The measures in which not all objectives are scored on the same items."""
    measures = []
    for measure, by_objective in scores.items():
        every_score = [score for of_runs in by_objective.values() for score in of_runs]
        if not all(score.is_of_same_items(every_score[0]) for score in every_score):
            measures.append(measure)
    return measures


def ranking_measure(
    scores: Mapping[str, Mapping[str, Sequence[Score]]], n_objectives: int
) -> str | None:
    """The first measure that all objectives have on the same items, else the first that all have,
    else the first of all; None without any.
    """
    of_all = [
        measure for measure, by_objective in scores.items() if len(by_objective) == n_objectives
    ]
    differing = measures_of_differing_items(scores)
    comparable = [measure for measure in of_all if measure not in differing]
    return next(iter([*comparable, *of_all, *scores]), None)


def standings_of(
    scores: Mapping[str, Mapping[str, Sequence[Score]]], by: str | None
) -> dict[str, dict[str, Standing]]:
    """By measure and objective, with differences to the best by the measure `by`."""
    if by is None:
        return {}
    reference = next(iter(statistics.standings(scores[by])), None)
    return {
        measure: statistics.standings(by_objective, reference)
        for measure, by_objective in scores.items()
    }


def unigram_score(finished: Mapping[str, Sequence[RunRecord]]) -> float | None:
    """The score of the unigram baseline, which is the same for all runs; None without one."""
    for runs in finished.values():
        for run in runs:
            if "unigram" in run["result"]:
                unigram: float | None = run["result"]["unigram"]
                return unigram
    return None


def line_of(name: str, runs: Sequence[RunRecord], standings: dict[str, Standing]) -> Line:
    """The line of an objective, from its finished runs."""
    results = [run["result"] for run in runs]
    losses = known_values(results, "loss")
    return Line(
        name,
        [run["seed"] for run in runs],
        standings,
        pace=float(np.median(known_values(results, "pace"))),
        peak=largest_peak(results),
        epochs=float(np.mean(known_values(results, "epochs"))),
        seconds=float(np.mean(known_values(results, "seconds"))),
        loss=float(np.mean(losses)) if losses else None,
        converged=results[-1].get("converged", False),
        tuned=runs[-1].get("tuned", {}),
    )


def known_values(results: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    """The values of a number in the results that have it."""
    return [result[key] for result in results if result[key] is not None]


def largest_peak(results: Sequence[Mapping[str, Any]]) -> float | None:
    """The largest memory of a run in bytes, of those that compiled no kernels if there are any."""
    without_compiling = [result for result in results if not result["compiled"]]
    peaks = known_values(without_compiling, "peak") or known_values(results, "peak")
    return max(peaks, default=None)


def troubles(runs: Sequence[RunRecord], names: Sequence[str]) -> list[Text]:
    """A sentence for each run that did not finish, or only at a lower learning rate."""
    sentences: list[Text] = []
    for name in names:
        for run in runs_of(name, runs):
            label = f"{name}, seed {run['seed']}"
            sentences += [
                (f"{label}: {kind}: ", text_from_json(run[kind])) for kind in FAILED if kind in run
            ]
            if "lowered" in run.get("result", {}):
                rate = f"{run['result']['lowered']:.3g}"
                sentences.append(f"{label}: diverged, and continued at the learning rate {rate}")
    return sentences


# ---- advice


def advice(ranking: Ranking) -> list[Text]:
    """Conclusions, a sentence each."""
    by = str(ranking.by)
    ranked_lines = [line for line in ranking.lines if by in line.standings]
    leaders = [line for line in ranked_lines if line.standings[by].rank == 1]
    sentences: list[Text] = [
        about_leaders(ranking, ranked_lines, leaders),
        *about_pace(ranking, ranked_lines, leaders),
        *about_second_measure(ranking),
    ]

    if ranking.unigram is not None and by == "log_likelihood":
        baseline = f"the unigram baseline ({ranking.unigram:.3f})"
        sentences += [
            f"{line.objective} does not beat {baseline}: too little text, or too few or too many"
            " epochs."
            for line in ranked_lines
            if value_of(line, by) <= ranking.unigram
        ]

    if len(ranked_lines) > 1:
        n_seeds = max(len(line.seeds) for line in ranked_lines)
        sentences += about_few_seeds(len(ranked_lines), n_seeds)
    return sentences


def about_few_seeds(n_objectives: int, n_seeds: int) -> list[Text]:
    """What so few seeds cannot show, and how to add more; nothing from FEW_SEEDS on."""
    if n_seeds >= FEW_SEEDS:
        return []
    more = (
        f"add {MORE_SEEDS - n_seeds} by ",
        Setting("seeds", MORE_SEEDS),
        " and ",
        Setting("resume", True),
        ".",
    )
    if n_seeds == 1:
        unknown = (
            "Each was trained with one seed: errors and ranks leave out the variance over seeds, so"
            " that another seed may rank them otherwise; "
        )
        return [(unknown, more)]
    shown = smallest_difference(n_objectives, n_seeds)
    shown_by_more = smallest_difference(n_objectives, MORE_SEEDS)
    differences = (
        f"Each was trained with {n_seeds} seeds, which show only differences of more than"
        f" {shown:.1f} standard deviations between runs; {MORE_SEEDS} seeds would show"
        f" {shown_by_more:.1f}: "
    )
    return [(differences, more)]


def smallest_difference(n_objectives: int, n_seeds: int) -> float:
    """The smallest significant difference of two objectives, in standard deviations over seeds,
    which are pooled over all objectives; at the first step of Holm's correction for all pairs.
    """
    error = statistics.Error(math.sqrt(2 / n_seeds), n_objectives * (n_seeds - 1))
    level = statistics.LEVEL / math.comb(n_objectives, 2)
    return statistics.Estimate(0.0, (error,)).half_width(level)


def about_leaders(ranking: Ranking, ranked_lines: Sequence[Line], leaders: Sequence[Line]) -> str:
    """The best, and how much better it is, or those that share the first rank."""
    by = str(ranking.by)
    first = ranked_lines[0].objective
    value = spoken(value_of(ranked_lines[0], by))
    if len(ranked_lines) == 1:
        return f"Only {first} finished: {MEASURE_NAMES[by]} {value}."
    if len(leaders) > 1:
        return (
            f"{listed(leaders)} share the first rank in {MEASURE_NAMES[by]} ({first} has {value}):"
            f" no difference to {first} is significant."
        )

    verb = f"has the highest {MEASURE_NAMES[by]}"
    if ranking.best(by) is not None:
        verb = f"is best in {MEASURE_NAMES[by]}"
    second = ranked_lines[1]
    behind = second.standings[by].behind
    lead = ""
    if behind is not None:
        difference = f"{spoken(-behind.value)} ± {spoken(behind.error)}"
        lead = f", {difference} above {second.objective}, the next"
    return f"{first} {verb}, {value}{lead}."


def about_pace(
    ranking: Ranking, ranked_lines: Sequence[Line], leaders: Sequence[Line]
) -> list[str]:
    """The fastest of the best, and what a faster objective would cost."""
    fastest_leader = max(leaders, key=lambda line: line.pace)
    fastest = max(ranked_lines, key=lambda line: line.pace)
    sentences = []
    if len(leaders) > 1:
        sentences.append(
            f"Of these {fastest_leader.objective} is the fastest, with"
            f" {fastest_leader.pace:,.0f} {ranking.unit} per second."
        )

    behind = fastest.standings[str(ranking.by)].behind
    is_faster = fastest.pace >= MIN_RATIO_OF_PACES * fastest_leader.pace
    if behind is not None and fastest not in leaders and is_faster:
        ratio = fastest.pace / max(fastest_leader.pace, 1e-9)
        sentences.append(
            f"{fastest.objective} goes through {ratio:.1f} times as many {ranking.unit} per second"
            f" as {fastest_leader.objective}, and is {spoken(-behind.value)} below"
            f" {ranked_lines[0].objective}."
        )
    return sentences


def about_second_measure(ranking: Ranking) -> list[str]:
    """The best in the second measure, or those that share the first rank."""
    measure = next((name for name in SECOND_MEASURES if name in ranking.measures), None)
    if measure is None:
        return []
    measured = [line for line in ranking.lines if measure in line.standings]
    if measure == ranking.by or len(measured) < 2:
        return []
    leaders = sorted(
        (line for line in measured if line.standings[measure].rank == 1),
        key=lambda line: -value_of(line, measure),
    )
    highest = spoken(value_of(leaders[0], measure))
    lowest = spoken(value_of(leaders[-1], measure))
    if len(leaders) > 1:
        scores = highest
        if lowest != highest:
            scores = f"{highest} to {lowest}"
        return [
            f"In {MEASURE_NAMES[measure]} {listed(leaders)} share the first rank ({scores}):"
            " no difference between them is significant."
        ]
    if ranking.best(measure) is None:
        return [f"In {MEASURE_NAMES[measure]} {leaders[0].objective} is the highest ({highest})."]
    return [f"In {MEASURE_NAMES[measure]} {leaders[0].objective} is best ({highest})."]


def about_differing_items(measure: str) -> str:
    """Why a measure is not compared."""
    return (
        f"Scores in {MEASURE_NAMES[measure]} are of different items, and not compared: settings"
        " such as the window or subsampling change which pairs are held out."
    )


def value_of(line: Line, measure: str) -> float:
    """The score of an objective in a measure that it has."""
    return line.standings[measure].score.value


def spoken(value: float) -> str:
    """A score, or a difference, as a table has it."""
    return "?" if math.isnan(value) else f"{value:.3f}"


def listed(lines: Sequence[Line]) -> str:
    """The names of the objectives, as a sentence has them: `ns, ove and ar`."""
    *names, last = [line.objective for line in lines]
    return f"{', '.join(names)} and {last}" if names else last
