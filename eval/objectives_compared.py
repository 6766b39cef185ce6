"""The runs of `objectives` on record: each objective's best point within a time, its scores, and
objectives compared by them.
"""

import math
from typing import Any

import numpy as np

from embedx import objectives
from embedx.evaluation import statistics
from eval.records import Job, Record, Records
from eval.word_tests import scores

# by objective, in the order of the registry; one for each seed, the least first
Runs = dict[str, list[Record]]
PARTS = {
    "time": "equal time",
    "epochs": "equal epochs",
    "exact": "beside the exact softmax",
    "rates": "by learning rate",
    "rows": "equal rows",
}
REFERENCE, EXACT = "ns", "softmax"
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)  # of an objective's own learning rate
VALIDATION, TEST = 0, 1  # spans whose number leaves so much when divided by two


def newest(records: Records, part: str) -> Runs:
    """The last runs of each objective, one for each seed, with the options of the part's last run;
    in the part `rows` options differ by objective.
    """
    found_runs = records.find(part=part)
    if part == "time":
        found_runs = [record for record in found_runs if "time_budget" in record["job"]["options"]]
    options = apart_from_seed(found_runs[-1]) if found_runs else None
    last: dict[str, dict[int, Record]] = {}
    for record in found_runs:
        if part == "rows" or apart_from_seed(record) == options:
            last.setdefault(record["job"]["objective"], {})[seed_of(record)] = record
    return {
        name: [last[name][seed] for seed in sorted(last[name])]
        for name in objectives.OBJECTIVES
        if name in last
    }


def seed_of(record: Record) -> int:
    return int(record["job"]["options"].get("seed", 1))


def apart_from_seed(record: Record) -> Job:
    """The options, of the seed only whether there is one: without, what was held out was pieces of
    pages.
    """
    options = record["job"]["options"]
    return {**options, "seed": "seed" in options}


def finished(runs: Runs) -> Runs:
    """The objectives of which no run diverged, with their runs."""
    return {
        name: records
        for name, records in runs.items()
        if not any("diverged" in record["result"] for record in records)
    }


END = "end"
Points = dict[str, list[Record]]  # runs by seed, of a number of epochs or of END


def points(records: Records) -> dict[str, Points]:
    """What each objective reached within the time of the part's last run, which is END's."""
    ends = newest(records, "time")
    if not ends:
        return {}
    options = next(iter(ends.values()))[0]["job"]["options"]
    budget = float(options["time_budget"].rstrip("s"))
    same = ("threads", "heldout")
    by_epochs: dict[str, Points] = {}
    for name, end in ends.items():
        by_epochs[name] = {END: end}
        for record in [
            *records.find(part="epochs", objective=name),
            *records.find(part="time", objective=name),
        ]:
            theirs = record["job"]["options"]
            result = record["result"]
            alike = (
                "epochs" in theirs
                and "seed" in theirs
                and all(theirs[key] == options[key] for key in same)
            )
            if alike and "diverged" not in result and result["seconds"] <= 1.02 * budget:
                by_seed = {
                    seed_of(run): run
                    for run in [*by_epochs[name].get(str(theirs["epochs"]), []), record]
                }
                by_epochs[name][str(theirs["epochs"])] = [by_seed[seed] for seed in sorted(by_seed)]
    return by_epochs


def best_label(runs_by_label: Points) -> str | None:
    """The number of epochs, or END, that makes the validation spans likeliest with the
    first seed.
    """
    tried = {
        label: runs[0]
        for label, runs in runs_by_label.items()
        if seed_of(runs[0]) == 1 and "diverged" not in runs[0]["result"]
    }
    return max(tried, key=lambda label: mean_of(tried[label], VALIDATION), default=None)


def best_points(records: Records) -> Runs:
    """The runs of each objective's best point; those of END where all diverged."""
    return {
        name: runs_by_label[best_label(runs_by_label) or END]
        for name, runs_by_label in points(records).items()
    }


def spans(record: Record, half: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Sums and sizes of the groups of held-out pairs, of all or of the spans for VALIDATION or
    TEST.
    """
    held = record["result"]["heldout"]
    sums = np.array(held["sums"])
    sizes = np.array(held["sizes"])
    if half is None or "groups" not in held:
        return sums, sizes
    chosen = np.array(held["groups"]) % 2 == half
    return sums[chosen], sizes[chosen]


def fastest(runs: list[Record]) -> Record:
    """The run that was least disturbed by whatever else the machine did."""
    return max(runs, key=lambda record: record["result"]["words_per_second"])


def mean_of(record: Record, half: int | None = None) -> float:
    """The log-likelihood of one run."""
    sums, sizes = spans(record, half)
    return float(sums.sum() / sizes.sum())


def likelihoods(runs: Runs, half: int | None = None) -> dict[str, list[Any]]:
    """The log-likelihoods of the runs of each objective, by spans."""
    return {
        name: [statistics.Score.of_groups(*spans(record, half)) for record in runs_of_name]
        for name, runs_of_name in finished(runs).items()
    }


def similarities(runs: Runs) -> dict[str, list[Any]]:
    """The pooled similarities of the runs of each objective all of whose runs have one."""
    return {
        name: pooled
        for name, runs_of_name in finished(runs).items()
        if len(pooled := scores(runs_of_name)) == len(runs_of_name)
    }


def mean(runs: list[Record], *names: str) -> float:
    """The mean over runs of a number of their results, by the names that lead to it; not a number
    where one has none.
    """

    def value(part: Any) -> float:
        for name in names:
            part = None if part is None else part.get(name)
        return math.nan if part is None else float(part)

    return float(np.mean([value(record["result"]) for record in runs]))


def log_likelihood(runs: list[Record]) -> float:
    return mean(runs, "heldout", "log_likelihood")


def likeliest(
    runs: Runs, among: tuple[str, ...] | None = None, half: int | None = None
) -> str | None:
    """The objective under which the held-out text is likeliest."""
    converged = finished(runs)
    names = [name for name in (converged if among is None else among) if name in converged]
    return max(
        names,
        key=lambda name: np.mean([mean_of(record, half) for record in converged[name]]),
        default=None,
    )


def slower(runs: Runs, name: str) -> float | None:
    """How many times as fast the reference is."""
    converged = finished(runs)
    if name not in converged or REFERENCE not in converged:
        return None
    speed, of_reference = (
        fastest(converged[contender])["result"]["words_per_second"]
        for contender in (name, REFERENCE)
    )
    return float(of_reference / speed)
