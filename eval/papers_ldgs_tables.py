"""Tables, targets and pictures of papers_ldgs.py, from its records."""

import math
import statistics
from typing import Any

from eval import papers_ldgs_words as words
from eval.page import DASH, exceeds, number, plotted, table, target
from eval.papers_ldgs_tasks import TASKS
from eval.records import Records, Result, grouped


def curves(records: Records, section: str) -> dict[str, Result]:
    """The recorded curves by contender."""
    return {
        record["job"]["contender"]: record["result"]
        for record in records.find(section=section, what="curve")
    }


def rounded(x: float | None) -> str:
    """Three digits of a number, all digits of a large one."""
    if x is None:
        return DASH
    return f"{x:.3g}" if x < 1000 else f"{x:,.0f}"


def clock_of(section: str) -> str:
    """Which time of a point is told: of the trainer, or the processor's where others work too."""
    return "processor" if TASKS[section].identities else "seconds"


def at_epoch(points: list[dict[str, float]], measure: str, epoch: float) -> float | None:
    return next((point[measure] for point in points if point["epochs"] == epoch), None)


def curve_table(section: str, records: Records) -> str:
    """How good each contender ends, how fast it is, and when it reaches nine tenths of what the
    best one has.
    """
    results = curves(records, section)
    measure = TASKS[section].measure
    clock = clock_of(section)
    rows = []
    level = 0.9 * max(
        (result["final"][measure] for result in results.values() if result["final"]), default=0.0
    )
    ends = {point["epochs"] for result in results.values() for point in result["points"]}
    for name, result in results.items():
        points = result["points"]
        options = result["options"]
        row = {
            "contender": f"`{name}`",
            "optimizer": "adagrad",
            "batch": options["batch_size"],
            "rate": f"{options['learning_rate']:g}",
        }
        rows.append(row)
        if not points or result["final"] is None:
            row["examples/s"] = "diverged"
            continue
        last = points[-1]
        when = (point[clock] for point in points if point[measure] >= level)
        row |= {
            "examples/s": rounded(last["examples"] / last[clock]),
            "epochs": number(last["epochs"], 2),
        }
        row |= {"seconds": rounded(last[clock])} | {
            f"{kind}, end": number(end, 4) for kind, end in result["final"].items()
        }
        for epoch in (1.0, 3.0, 10.0):
            if epoch in ends:
                row[f"{measure} after {epoch:g} epochs"] = number(at_epoch(points, measure, epoch))
        row[f"seconds to {measure} {level:.3f}"] = rounded(next(when, None))
    return table(rows)


def rates_table(section: str, records: Records) -> str:
    """What each rate achieved on validation rows."""
    by_contender = grouped(records.find(section=section, what="rate"), lambda job: job["contender"])
    tried = {
        name: {record["job"]["rate"]: record["result"]["measure"] for record in runs}
        for name, runs in by_contender.items()
    }
    rates = sorted({rate for by_rate in tried.values() for rate in by_rate})
    return table(
        [
            {"contender": f"`{name}`", "optimizer": "adagrad"}
            | {
                f"{r:g}": "diverged"
                if r in by_rate and by_rate[r] is None
                else number(by_rate.get(r))
                for r in rates
            }
            for name, by_rate in tried.items()
        ]
    )


def speeds(
    records: Records, section: str, n_labels: int, threads: int
) -> dict[str, dict[str, float]]:
    """Medians of each contender over its turns, with the batch that is its best."""
    turns = records.find(section="speed", what=section, labels=n_labels, threads=threads)
    best: dict[str, dict[str, float]] = {}
    for (name, batch), runs in grouped(turns, lambda job: (job["contender"], job["batch"])).items():
        medians = {
            name: statistics.median(record["result"][name] for record in runs)
            for name in ("seconds", "once")
        }
        if name not in best or medians["seconds"] < best[name]["seconds"]:
            best[name] = medians | {"batch": batch, "turns": len(runs)}
    return best


def speed_table(records: Records) -> str:
    """The time per example beside ldgs."""
    rows = []
    cases = {
        tuple(record["job"][name] for name in ("what", "labels", "threads"))
        for record in records.find(section="speed")
    }
    for section, n_labels, threads in sorted(cases):
        by_contender = speeds(records, section, n_labels, threads)
        ldgs = by_contender.get("ldgs")
        rows += [
            {
                "data": section,
                "labels": f"{n_labels:,}",
                "threads": threads,
                "contender": f"`{name}`",
                "batch": medians["batch"],
                "milliseconds an example": f"{1000 * medians['seconds']:.3f}",
                "seconds once": f"{medians['once']:.1f}",
                "over `ldgs`": f"{medians['seconds'] / ldgs['seconds']:.2f}" if ldgs else DASH,
                "turns": medians["turns"],
            }
            for name, medians in by_contender.items()
        ]
    return table(rows)


def speed_target(
    records: Records, section: str, n_labels: int, contender: str, factor: float, promise: str
) -> dict[str, str]:
    """Whether a contender takes `factor` times as long per example as ldgs, with all threads."""
    timed = records.find(section="speed", what=section, labels=n_labels, contender="ldgs")
    threads = max((record["job"]["threads"] for record in timed), default=0)
    by_contender = speeds(records, section, n_labels, threads)
    if not {"ldgs", contender} <= by_contender.keys():
        return target(promise, None)
    ratio = by_contender[contender]["seconds"] / by_contender["ldgs"]["seconds"]
    return target(promise, f"{ratio:.1f} times", ratio >= factor)


def accuracy_target(
    records: Records, section: str, other: str, factor: float, promise: str
) -> dict[str, str]:
    """Whether ldgs has more than `factor` times the measure of another contender after as many
    epochs as both have; on all test rows if both end there.
    """
    measure = TASKS[section].measure
    ours = curves(records, section).get("ldgs")
    theirs = curves(records, section).get(other)
    if not (ours and theirs and ours["final"] and theirs["final"]):
        return target(promise, None)
    our_epochs = {point["epochs"] for point in ours["points"]}
    their_epochs = {point["epochs"] for point in theirs["points"]}
    epoch = max(our_epochs & their_epochs)
    if epoch == ours["points"][-1]["epochs"] == theirs["points"][-1]["epochs"]:
        values = ours["final"][measure], theirs["final"][measure]
        n_rows = ours["test_rows"]
    else:
        values = (
            at_epoch(ours["points"], measure, epoch),
            at_epoch(theirs["points"], measure, epoch),
        )
        n_rows = ours["curve_rows"]
    first, second = values
    our_error, their_error = (math.sqrt(share * (1 - share) / n_rows) for share in values)
    measured = f"{first:.4f} beside {second:.4f}, each ± {their_error:.4f}, after {epoch:g} epochs"
    is_met = exceeds(first - factor * second, math.hypot(our_error, factor * their_error))
    return target(promise, measured, is_met)


BEST_BATCH = "margin, best batch"
PAPERS_OWN = "wikilshtc-325k"  # our targets are of other data
SPEED_TARGETS = (
    # section, labels, contender, factor, promise
    (
        "faces",
        200_000,
        "margin",
        10,
        "200,000 faces: `ldgs` 10 times faster an example than exact `margin`, batch 10",
    ),
    ("faces", 200_000, BEST_BATCH, 3, "200,000 faces: 3 times faster than with its best batch"),
    (
        "documents",
        300_000,
        "margin",
        10,
        "300,000 labels of documents: 10 times faster, batch 10",
    ),
)


def targets(records: Records) -> str:
    """A row for each target."""
    rows = [speed_target(records, *arguments) for arguments in SPEED_TARGETS]
    for section, task in TASKS.items():
        if section == PAPERS_OWN:
            continue
        near = f"{section}: `ldgs` ends within 1 % of exact `margin` in {task.measure}"
        rows.append(accuracy_target(records, section, BEST_BATCH, 0.99, near))
        higher = f"{section}: `ldgs` ends higher than `mips`, which looks at as many rows"
        rows.append(accuracy_target(records, section, "mips", 1, higher))
    return table(rows)


def plot_curves(section: str, records: Records) -> Any:
    """Accuracy against seconds of training and against epochs."""
    results = curves(records, section)
    measure = TASKS[section].measure
    if not any(result["points"] for result in results.values()):
        return None
    styles = {
        name: {
            "label": name,
            "color": COLORS.get(name.split(",")[0]),
            "ls": "--" if "," in name else "-",
            "marker": ".",
        }
        for name in results
    }
    lines = [
        [
            ([p[x] for p in result["points"]], [p[measure] for p in result["points"]], styles[name])
            for name, result in results.items()
        ]
        for x in (clock_of(section), "epochs")
    ]
    first = {"xscale": "log", "xlabel": "seconds of training", "title": section}
    return plotted(
        11,
        4,
        [(lines[0], first), (lines[1], {"xscale": "log", "xlabel": "epochs"})],
        ylabel=f"test {measure}",
        sharey=True,
    )


COLORS = words.COLORS | {
    "sampled-softmax": "tab:green",
    "margin": "tab:orange",
    "ns": "tab:gray",
    "ar": "tab:pink",
}
