"""What the records of `objectives` say: the best points within a time, differences over the same held-out pairs, and ranks."""

import math
from typing import Any

import numpy as np

from eval.records import Job, Record, Records
from eval.under_test import objectives, statistics
from eval.word_tests import scores

Runs = dict[str, list[Record]]  # by objective, in the order of the registry; one for each seed, the least first

REFERENCE = "ns"
VALIDATION, TEST = 0, 1  # spans whose number leaves so much when divided by two


def newest(records: Records, part: str) -> Runs:
    """The last runs of each objective, one for each seed, with the options of the part's last run; in the part `rows` options
    differ by objective.
    """
    found = records.find(part=part)
    if part == "time":
        found = [each for each in found if "time_budget" in each["job"]["options"]]
    options = apart_from_seed(found[-1]) if found else None
    last: dict[str, dict[int, Record]] = {}
    for each in found:
        if part == "rows" or apart_from_seed(each) == options:
            last.setdefault(each["job"]["objective"], {})[seed_of(each)] = each
    return {name: [last[name][seed] for seed in sorted(last[name])] for name in objectives.OBJECTIVES if name in last}


def seed_of(each: Record) -> int:
    return int(each["job"]["options"].get("seed", 1))


def apart_from_seed(each: Record) -> Job:
    """The options, of the seed only whether there is one: without, what was held out was pieces of pages."""
    options = each["job"]["options"]
    return {**options, "seed": "seed" in options}


def finished(runs: Runs) -> Runs:
    """Those of which no run diverged."""
    return {name: of for name, of in runs.items() if not any("diverged" in each["result"] for each in of)}


END = "end"
Points = dict[str, list[Record]]  # runs by seed, of a number of epochs or of END


def points(records: Records) -> dict[str, Points]:
    """What each objective reached within the time of the part's last run, which is END's."""
    ends = newest(records, "time")
    if not ends:
        return {}
    options = next(iter(ends.values()))[0]["job"]["options"]
    budget, same = float(options["time_budget"].rstrip("s")), ("threads", "heldout")
    found: dict[str, Points] = {}
    for name, end in ends.items():
        found[name] = {END: end}
        for each in [*records.find(part="epochs", objective=name), *records.find(part="time", objective=name)]:
            theirs, result = each["job"]["options"], each["result"]
            alike = "epochs" in theirs and "seed" in theirs and all(theirs[key] == options[key] for key in same)
            if alike and "diverged" not in result and result["seconds"] <= 1.02 * budget:
                by_seed = {seed_of(run): run for run in [*found[name].get(str(theirs["epochs"]), []), each]}
                found[name][str(theirs["epochs"])] = [by_seed[seed] for seed in sorted(by_seed)]
    return found


def best_label(of: Points) -> str | None:
    """The number of epochs, or END, that makes the validation spans likeliest with the first seed."""
    tried = {label: runs[0] for label, runs in of.items() if seed_of(runs[0]) == 1 and "diverged" not in runs[0]["result"]}
    return max(tried, key=lambda label: mean_of(tried[label], VALIDATION), default=None)


def best_points(records: Records) -> Runs:
    """The runs of each objective's best point; those of END where all diverged."""
    return {name: of[best_label(of) or END] for name, of in points(records).items()}


def spans(each: Record, half: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Sums and sizes of the groups of held-out pairs, of all or of the spans for VALIDATION or TEST."""
    held = each["result"]["heldout"]
    sums, sizes = np.array(held["sums"]), np.array(held["sizes"])
    if half is None or "groups" not in held:
        return sums, sizes
    chosen = np.array(held["groups"]) % 2 == half
    return sums[chosen], sizes[chosen]


def fastest(runs: list[Record]) -> Record:
    """The run that was least disturbed by whatever else the machine did."""
    return max(runs, key=lambda each: each["result"]["words_per_second"])


def mean_of(each: Record, half: int | None = None) -> float:
    """The log-likelihood of one run."""
    sums, sizes = spans(each, half)
    return float(sums.sum() / sizes.sum())


def likelihoods(runs: Runs, half: int | None = None) -> dict[str, list[Any]]:
    """The log-likelihoods of the runs of each objective, by spans."""
    return {name: [statistics.Score.of_groups(*spans(each, half)) for each in of] for name, of in finished(runs).items()}


def similarities(runs: Runs) -> dict[str, list[Any]]:
    """The pooled similarities of the runs of each objective all of whose runs have one."""
    return {name: found for name, of in finished(runs).items() if len(found := scores(of)) == len(of)}


def share_of_gap(each: list[Record], exact: list[Record] | None) -> float | None:
    """(LL - unigram) / (LL of the exact softmax - unigram); None where the exact softmax leaves no gap to close."""
    if exact is None:
        return None
    unigram = exact[0]["result"]["heldout"]["unigram"]
    gap = log_likelihood(exact) - unigram
    return float((log_likelihood(each) - unigram) / gap) if gap > 0 else None


def mean(runs: list[Record], *names: str) -> float:
    """The mean over runs of a number of their results, by the names that lead to it; not a number where one has none."""

    def value(found: Any) -> float:
        for name in names:
            found = None if found is None else found.get(name)
        return math.nan if found is None else float(found)

    return float(np.mean([value(each["result"]) for each in runs]))


def log_likelihood(runs: list[Record]) -> float:
    return mean(runs, "heldout", "log_likelihood")


def likeliest(runs: Runs, among: tuple[str, ...] | None = None, half: int | None = None) -> str | None:
    """The objective under which the held-out text is likeliest."""
    found = finished(runs)
    names = [name for name in (found if among is None else among) if name in found]
    return max(names, key=lambda name: np.mean([mean_of(each, half) for each in found[name]]), default=None)


def slower(runs: Runs, name: str) -> float | None:
    """How many times as fast the reference is."""
    done = finished(runs)
    if name not in done or REFERENCE not in done:
        return None
    speed, of_reference = (fastest(done[each])["result"]["words_per_second"] for each in (name, REFERENCE))
    return float(of_reference / speed)
