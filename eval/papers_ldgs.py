"""Yen et al. 2018, "Loss decomposition for fast learning in large output spaces": exact losses
beside rows found by search.

    next-word    which of all words stands between these, from text: accuracy against time
    faces        identities by unit vectors, to the shape of MegaFace: accuracy against time
    documents    EURLex-4.3K with a hidden layer: P@1, 3 and 5 against time
    speed        time per example with 200,000 and more labels, once the rows are trained
    words        skip-gram on the collapsed objective: held-out likelihood against time and
                 multiply-adds
    growth       the same: what one iteration takes, exactly and with found rows, on more and more
                 words
    messages-*   algorithm 2, greedy message passing, on small faces, documents and next words

What a run trains on is cut into legs, each a call of `classification.train` that continues the one
before. Measuring takes place between legs and does not count as training.
"""

import dataclasses
import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from embedx.errors import DivergedError
from embedx.runtime.cores import usable_cores
from eval import (
    datasets,
    papers,
    papers_ldgs_data as sources,
    papers_ldgs_messages as messages,
    papers_ldgs_words as words,
)
from eval.experiment import Experiment, Run
from eval.page import DASH, exceeds, number, plotted, table, target
from eval.papers import fit
from eval.records import Job, Records, Result, grouped


@dataclasses.dataclass(frozen=True)
class Contender:
    """An objective and the settings of `Task.settings` that it takes. Of `batch` None the quickest
    batch is chosen.
    """

    objective: str
    takes: tuple[str, ...] = ()
    batch: int | None = 10  # the paper's
    # settings of all legs but the first
    later: dict[str, Any] = dataclasses.field(default_factory=dict)


SEARCH = ("loss", "smoothing", "scored_fraction")
CONTENDERS = {
    "softmax": Contender("softmax"),
    "softmax, best batch": Contender("softmax", batch=None),
    "sampled-softmax": Contender("sampled-softmax", ("negatives", "sampler")),
    # all labels of a row in one candidate set, as in the paper
    "sampled-softmax, joint": Contender("sampled-softmax-joint", ("negatives", "sampler")),
    "margin": Contender("margin", ("smoothing",)),
    "margin, best batch": Contender("margin", ("smoothing",), batch=None),
    "mips": Contender("mips", SEARCH, later={"warm_up": 0}),
    "ldgs": Contender("ldgs", (*SEARCH, "blocks"), later={"warm_up": 0}),
}
JOINT = "sampled-softmax, joint"
BATCHES = (100, 400, 1000)  # for large matrix products
LARGEST_SCORES = 1 << 29  # floats of a batch's scores
OPTIMIZER = {"optimizer": "adagrad", "schedule": "constant"}
RATES = (0.03, 0.1, 0.3)  # and on by factors of three where the best one is at an end


@dataclasses.dataclass(frozen=True)
class Task:
    """A data set and how it is learned: what the paper sets for multiclass data, or for several
    labels.
    """

    multilabel: bool
    measure: str  # what is drawn and judged
    tuned_by: str  # what rates are chosen by, which must differ after little training
    tuned_on: float  # on this share of the rows, once through
    epochs: tuple[float, ...]  # when to measure; the last is the end
    smoothing: float
    blocks: int
    hidden: int | None = None

    def settings(self, n_labels: int) -> dict[str, Any]:
        return {
            "smoothing": self.smoothing,
            "blocks": self.blocks,
            "loss": "margin",
            "scored_fraction": 0.01,
            "sampler": "uniform",
            "negatives": max(1, n_labels // 100),
        }


NEXT_WORD = Task(
    multilabel=False,
    measure="accuracy",
    tuned_by="reciprocal rank",
    tuned_on=0.1,
    epochs=(0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 4),
    smoothing=1.0,
    blocks=8,
)
FACES_EPOCHS = (0.1, 0.2, 0.5, 1, 1.5, 2, 3, 5, 7, 10)
TASKS = {
    "next-word": NEXT_WORD,
    "faces": dataclasses.replace(NEXT_WORD, tuned_on=0.8, epochs=FACES_EPOCHS),
    "documents": Task(
        multilabel=True,
        measure="p@1",
        tuned_by="p@1",
        tuned_on=0.8,
        epochs=(0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 7, 10),
        smoothing=5.0,
        blocks=4,
        hidden=sources.DIM,
    ),
}
FULL = {
    "corpus": None,  # a text, or the name of one that comes with a recipe
    "seconds": 900.0,  # of training for each curve
    "rate_seconds": 30.0,  # of training for each rate
    # of next-word: for training, for test, share of the text held out
    "positions": (500_000, 20_000, 0.01),
    "identities": 20_000,
    "documents": (50_000, 200_000, 300_000),  # made-up documents, words, labels
    "speed_faces": (200_000, 670_000),
    "timed": 2_000,  # examples
    "repetitions": 3,  # turns of timing
    "validation": 5_000,  # rows by which rates are chosen
    "curve_rows": 10_000,  # test rows between legs; at the end all of them
    "max_rates": 7,
    "n_words": 20_000,  # of the section words: so many that an exact iteration takes seconds
    "growing": (20_000, 77_000, 200_000),  # words of the section growth
    **messages.FULL,
}
QUICK = {
    "seconds": 1.0,
    "rate_seconds": 0.1,
    "positions": (3_000, 300, 0.1),
    "identities": 300,
    "documents": (1_000, 2_000, 500),
    "speed_faces": (2_000,),
    "timed": 100,
    "repetitions": 1,
    "validation": 300,
    "curve_rows": 300,
    "max_rates": 4,
    "n_words": 200,
    "growing": (100, 200),
    **messages.QUICK,
}


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    other = {
        "speed": speed_jobs,
        "words": lambda run: words.jobs(run.settings.n_words),
        "growth": lambda run: words.growth_jobs(run.settings.growing),
    }
    for section in run.chosen("section"):
        if section in other:
            yield from other[section](run)
        elif section in messages.SECTIONS:
            yield from messages.jobs(run, section)
        else:
            yield from curve_jobs(run, section)


def needs(run: Run) -> list[str]:
    """The data sets of the chosen sections; a text may be named by --set instead."""
    sections = run.chosen("section")
    names = []
    if {"documents", "messages-documents"} & {*sections}:
        names.append("eurlex-4.3k")
    of_text = {"next-word", "words", "growth", "messages-next-word"}
    if of_text & {*sections} and not run.settings.corpus:
        names.append(datasets.TEXT)
    return names


def curve_jobs(run: Run, section: str) -> Iterator[Job]:
    """Of each contender the rates, and the curve at the best of them."""
    for name in run.chosen("contender"):
        if name == JOINT and not TASKS[section].multilabel:
            continue
        if CONTENDERS[name].batch is None:
            yield batches_job(section, CONTENDERS[name].objective)
        key = {"section": section, "contender": name, "optimizer": "adagrad"}
        rates = list(RATES)
        while rates:
            yield from (key | {"what": "rate", "rate": rate} for rate in rates)
            tried = achieved(run.records, key)
            rates = []
            best = best_rate(tried)
            if len(tried) < run.settings.max_rates and best in (min(tried), max(tried)):
                rates = [float(f"{best / 3 if best == min(tried) else best * 3:.1g}")]
        yield key | {"what": "curve"}


def batches_job(section: str, objective: str) -> Job:
    return {"section": section, "what": "batches", "objective": objective, "optimizer": "adagrad"}


def achieved(records: Records, key: Job) -> dict[float, float]:
    """By rate; -1 where training diverged."""
    runs = records.find(**key, what="rate")
    return {
        record["job"]["rate"]: -1.0 if (value := record["result"]["measure"]) is None else value
        for record in runs
    }


def best_rate(tried: dict[float, float]) -> float:
    """The rate that achieved most, of several the smallest."""
    return max(sorted(tried), key=lambda rate: tried[rate])


def speed_jobs(run: Run) -> Iterator[Job]:
    """Turn by turn; the exact ones with every batch that fits in memory."""
    cores = usable_cores()
    settings = run.settings
    cases = [
        ("faces", n_labels, threads)
        for n_labels in settings.speed_faces
        for threads in sorted({1, cores})
    ]
    for what, n_labels, threads in [*cases, ("documents", settings.documents[2], cores)]:
        for turn in range(settings.repetitions):
            for name in run.chosen("contender"):
                if name == JOINT:
                    continue
                for batch in [CONTENDERS[name].batch] if CONTENDERS[name].batch else BATCHES:
                    if batch * n_labels <= LARGEST_SCORES:
                        yield {
                            "section": "speed",
                            "what": what,
                            "contender": name,
                            "labels": n_labels,
                            "threads": threads,
                            "batch": batch,
                            "turn": turn,
                        }


def measure(run: Run, job: Job) -> Result:
    if job["section"] in messages.SECTIONS:
        return messages.measure(run, job)
    match job:
        case {"section": "words" | "growth"}:
            return words.measure(job, sources.text_of(run), run.folder, run.settings.seconds)
        case {"section": "speed"}:
            return time_of(run, job)
        case {"what": "batches"}:
            return times_of_batches(run, job)
        case {"what": "rate"}:
            return at_rate(run, job)
        case _:
            return at_best_rate(run, job)


# ---- data


@functools.lru_cache(maxsize=1)  # one at a time
def data_of(run: Run, name: str, n_labels: int = 0) -> sources.Data:
    """What a section is about; of so many labels, if these are given, to time steps on."""
    settings = run.settings
    if name == "next-word":
        return sources.next_word(sources.text_of(run), *settings.positions, run.quick)
    if name == "faces":
        if n_labels:
            return sources.some_faces(n_labels, 2 * settings.timed)
        return sources.faces(settings.identities)
    if n_labels:
        return sources.documents(*settings.documents[:2], n_labels)
    if run.quick and not datasets.is_here("eurlex-4.3k", run.data_folder):
        return sources.documents(*settings.documents, n_test=200)
    return sources.eurlex(run.data_folder, run.quick)


# ---- training


def warm_up(data: Any, objective: str, options: dict[str, Any]) -> None:
    """Train on a few rows, so that kernels are compiled and loaded before the clock runs."""
    short = {"schedule": "constant", "epochs": 1, "learning_rate": 1e-3}
    fit(data.rows(np.arange(min(len(data), 20))), objective, options | short)


def legs(n: int, epochs: tuple[float, ...], seed: int) -> Iterator[tuple[float, np.ndarray]]:
    """(epochs when it is done, its rows) of each leg; every epoch goes once through all n rows in a
    random order.
    """
    order = np.empty(0, dtype=np.int64)
    of_epoch = -1
    begin = 0
    for epoch in sorted({*epochs, *range(1, int(epochs[-1]) + 1)}):
        end = round(epoch * n)
        if begin // n != of_epoch:
            of_epoch = begin // n
            order = np.random.default_rng([seed, of_epoch]).permutation(n)
        if end > begin:
            yield float(epoch), order[begin - of_epoch * n : end - of_epoch * n]
        begin = end


def curve(
    data: Any,
    contender: Contender,
    options: dict[str, Any],
    epochs: tuple[float, ...],
    max_seconds: float,
    measure: Callable[[Any], dict[str, float]],
) -> tuple[list[dict[str, float]], Any]:
    """What is measured after each leg, with the epochs, examples and seconds of training so far;
    ends before it takes longer.

    `seconds` are those of the trainer, `whole` those of all calls, with setting up and checking.
    None if it diverged.
    """
    trained = None
    points: list[dict[str, float]] = []
    examples, seconds, wall_seconds = 0, 0.0, 0.0
    warm_up(data, contender.objective, options)
    for epoch, rows in legs(len(data), epochs, 1):
        if seconds + len(rows) * (seconds / examples if examples else 0) > max_seconds:
            break
        leg_options = (
            options | {"epochs": 1, "seed": len(points) + 1} | (contender.later if trained else {})
        )
        start = time.monotonic()
        try:
            trained = fit(data.rows(rows), contender.objective, leg_options, start=trained)
        except DivergedError:
            return points, None
        wall_seconds += time.monotonic() - start
        seconds = seconds + trained.outcome.seconds
        examples = examples + len(rows)
        passed = {"epochs": epoch, "examples": examples, "seconds": seconds, "whole": wall_seconds}
        points.append(passed | measure(trained.classifier))
    return points, trained


def options_of(name: str, section: str, n_labels: int, batch: int) -> dict[str, Any]:
    """All settings of a contender but the rate."""
    task = TASKS[section]
    hidden = {"hidden": task.hidden} if task.hidden else {}
    taken = {
        option: value
        for option, value in task.settings(n_labels).items()
        if option in CONTENDERS[name].takes
    }
    return {"batch_size": batch, "threads": usable_cores(), **OPTIMIZER, **hidden, **taken}


def chosen_options(run: Run, job: Job, n_labels: int) -> dict[str, Any]:
    """The same, with the batch that takes the least time per example where it is to be the best."""
    contender = CONTENDERS[job["contender"]]
    timed = (run.records.get(batches_job(job["section"], contender.objective)) or {}).get(
        "seconds", {}
    )
    return options_of(
        job["contender"],
        job["section"],
        n_labels,
        contender.batch or int(min(timed, key=timed.get)),
    )


# ---- measurements: accuracy against time


def times_of_batches(run: Run, job: Job) -> Result:
    """Seconds per example of an exact objective by batch."""
    section = job["section"]
    objective = job["objective"]
    data = data_of(run, job["section"]).training
    name = next(
        contender_name
        for contender_name, contender in CONTENDERS.items()
        if contender.objective == objective
    )
    seconds = {}
    for batch in BATCHES:
        options = options_of(name, section, data.n_labels, batch) | {"learning_rate": 1e-3}
        if not seconds:
            warm_up(data, objective, options | {"batch_size": 10})
        rows = np.arange(min(len(data), max(run.settings.timed, 2 * batch)))
        seconds[str(batch)] = fit(
            data.rows(rows), objective, options | {"epochs": 1}
        ).outcome.seconds / len(rows)
    return {"seconds": seconds}


def at_rate(run: Run, job: Job) -> Result:
    """What a rate achieves on validation rows after once through a share of the others, if the time
    allows.
    """
    section = job["section"]
    settings = run.settings
    task = TASKS[job["section"]]
    data = data_of(run, section).training
    order = np.random.default_rng(2).permutation(len(data))
    training = data.rows(order[: int(task.tuned_on * len(data))])
    watched = data.rows(order[len(training) :][: settings.validation])
    options = chosen_options(run, job, data.n_labels)
    curve_options = options | {"learning_rate": job["rate"]}
    max_seconds = min(settings.rate_seconds, settings.seconds / 8)
    points, trained = curve(
        training,
        CONTENDERS[job["contender"]],
        curve_options,
        tuple(np.arange(1, 9) / 8),
        max_seconds,
        lambda _: {},
    )
    if trained:
        score = papers.accuracy_of(trained.classifier, watched, task.multilabel)[task.tuned_by]
    else:
        score = None
    return {"measure": score, "points": points[-1:], "options": options}


def at_best_rate(run: Run, job: Job) -> Result:
    """The curve of one contender at its best rate."""
    task = TASKS[job["section"]]
    data = data_of(run, job["section"])
    options = chosen_options(run, job, data.training.n_labels)
    options["learning_rate"] = best_rate(
        achieved(run.records, {name: job[name] for name in ("section", "contender")})
    )
    curve_rows = data.test.rows(
        np.random.default_rng(3).permutation(len(data.test))[: run.settings.curve_rows]
    )
    points, trained = curve(
        data.training,
        CONTENDERS[job["contender"]],
        options,
        task.epochs,
        run.settings.seconds,
        lambda classifier: papers.accuracy_of(classifier, curve_rows, task.multilabel),
    )
    final = papers.accuracy_of(trained.classifier, data.test, task.multilabel) if trained else None
    return {
        "options": options,
        "curve_rows": len(curve_rows),
        "test_rows": len(data.test),
        "points": points,
        "final": final,
    }


# ---- measurements: time per example


def time_of(run: Run, job: Job) -> Result:
    """Of two runs, one of half as many examples and one of half as many more than are timed: what
    the difference takes.

    So whatever a run does once is separated; building an index is by its own clock.
    """
    from threadpoolctl import threadpool_limits  # which scikit-learn brings

    data = data_of(run, job["what"], job["labels"])
    contender = CONTENDERS[job["contender"]]
    n = run.settings.timed
    options = (
        options_of(job["contender"], job["what"], job["labels"], job["batch"]) | contender.later
    )
    options |= {
        "optimizer": "sgd",
        "learning_rate": 1e-3,
        "epochs": 1,
        "threads": job["threads"],
        "seed": job["turn"] + 1,
    }
    start = papers.start_from(data.training, contender.objective, dict(data.start or {}))
    rows = np.random.default_rng(job["turn"]).permutation(len(data.training))
    seconds, wall_seconds, indexing = [], [], []
    warm_up(data.training, contender.objective, options)
    with threadpool_limits(job["threads"]):
        for n_rows in (n // 2, n + n // 2):
            start_time = time.monotonic()
            trained = fit(
                data.training.rows(rows[:n_rows]), contender.objective, options, start=start
            )
            wall_seconds.append(time.monotonic() - start_time)
            indexing.append(float(trained.classifier.facts.get("index_seconds", 0.0)))
            seconds.append(trained.outcome.seconds - indexing[-1])
    an_example = (seconds[1] - seconds[0]) / n
    once = seconds[0] + indexing[0] - an_example * (n // 2)
    return {
        "seconds": an_example,
        "once": once,
        "whole": wall_seconds,
        "indexing": indexing,
        "options": options,
    }


# ---- tables: accuracy against time


def curves(records: Records, section: str) -> dict[str, Result]:
    """The recorded curves by contender."""
    return {
        record["job"]["contender"]: record["result"]
        for record in records.find(section=section, what="curve")
    }


def short(x: float | None) -> str:
    """Three digits, of seconds."""
    return DASH if x is None else f"{x:.3g}" if x < 1000 else f"{x:,.0f}"


def at_epoch(points: list[dict[str, float]], measure: str, epoch: float) -> float | None:
    return next((point[measure] for point in points if point["epochs"] == epoch), None)


def curve_table(section: str, records: Records) -> str:
    """How good each contender ends, how fast it is, and when it reaches nine tenths of what the
    best one has.
    """
    results = curves(records, section)
    measure = TASKS[section].measure
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
        when = (point["seconds"] for point in points if point[measure] >= level)
        row |= {
            "examples/s": short(last["examples"] / last["seconds"]),
            "epochs": number(last["epochs"], 2),
        }
        row |= {"seconds": short(last["seconds"])} | {
            f"{kind}, end": number(end, 4) for kind, end in result["final"].items()
        }
        for epoch in (1.0, 3.0, 10.0):
            if epoch in ends:
                row[f"{measure} after {epoch:g} epochs"] = number(at_epoch(points, measure, epoch))
        row[f"seconds to {measure} {level:.3f}"] = short(next(when, None))
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


# ---- tables: time per example


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


def faster(
    records: Records, section: str, n_labels: int, against: str, factor: float, promise: str
) -> dict[str, str]:
    """Whether ldgs takes so much less time per example, with all threads."""
    timed = records.find(section="speed", what=section, labels=n_labels, contender="ldgs")
    by_contender = speeds(
        records, section, n_labels, max((record["job"]["threads"] for record in timed), default=0)
    )
    if not {"ldgs", against} <= by_contender.keys():
        return target(promise, None)
    ratio = by_contender[against]["seconds"] / by_contender["ldgs"]["seconds"]
    return target(promise, f"{ratio:.1f} times", ratio >= factor)


# ---- tables: targets


def side_by_side(
    records: Records, section: str, other: str, factor: float, promise: str
) -> dict[str, str]:
    """Whether ldgs has more than so many times the measure of another after as many epochs as both
    have; on all test rows if both end there.
    """
    measure = TASKS[section].measure
    ours, theirs = runs = [curves(records, section).get(name) for name in ("ldgs", other)]
    if not (ours and theirs and ours["final"] and theirs["final"]):
        return target(promise, None)
    shared = max(set.intersection(*({point["epochs"] for point in run["points"]} for run in runs)))
    is_end = all(run["points"][-1]["epochs"] == shared for run in runs)
    first, second = (
        run["final"][measure] if is_end else at_epoch(run["points"], measure, shared)
        for run in runs
    )
    errors = [
        math.sqrt(share * (1 - share) / ours["test_rows" if is_end else "curve_rows"])
        for share in (first, second)
    ]
    shown = f"{first:.4f} beside {second:.4f}, each ± {errors[1]:.4f}, after {shared:g} epochs"
    return target(
        promise, shown, exceeds(first - factor * second, math.hypot(errors[0], factor * errors[1]))
    )


def targets(records: Records) -> str:
    """A row for each target."""
    ten = "200,000 faces: `ldgs` 10 times faster an example than exact `margin`, batch 10"
    best = "margin, best batch"
    rows = [
        faster(records, "faces", 200_000, "margin", 10, ten),
        faster(
            records,
            "faces",
            200_000,
            best,
            3,
            "200,000 faces: 3 times faster than with its best batch",
        ),
        faster(
            records,
            "documents",
            300_000,
            "margin",
            10,
            "300,000 labels of documents: 10 times faster, batch 10",
        ),
    ]
    for section, task in TASKS.items():
        near = f"{section}: `ldgs` ends within 1 % of exact `margin` in {task.measure}"
        higher = f"{section}: `ldgs` ends higher than `mips`, which looks at as many rows"
        rows += [
            side_by_side(records, section, best, 0.99, near),
            side_by_side(records, section, "mips", 1, higher),
        ]
    return table(rows)


# ---- pictures


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
        for x in ("seconds", "epochs")
    ]
    first = {"xscale": "log", "xlabel": "seconds of training", "title": section}
    return plotted(
        11,
        4,
        [(lines[0], first), (lines[1], {"xscale": "log", "xlabel": "epochs"})],
        ylabel=f"test {measure}",
        sharey=True,
    )


COLORS = words.COLORS | {"sampled-softmax": "tab:green", "margin": "tab:orange"}


EXPERIMENT = Experiment(
    name="papers-ldgs",
    title="Yen et al. 2018, loss decomposition for large output spaces",
    choices={
        "section": (*TASKS, "speed", "words", "growth", *messages.SECTIONS),
        "contender": tuple(CONTENDERS),
    },
    settings=FULL,
    quick=QUICK,
    packages=("scipy",),
    jobs=jobs,
    needs=needs,
    measure=measure,
    tables={
        "targets": targets,
        **{section: functools.partial(curve_table, section) for section in TASKS},
        **{f"{section}-rates": functools.partial(rates_table, section) for section in TASKS},
        "speed": speed_table,
        "words": words.runs,
        "words-targets": words.targets,
        "growth": words.growth,
        **{
            section: functools.partial(messages.contenders_table, section)
            for section in messages.SECTIONS
        },
        **{
            f"{section}-rates": functools.partial(messages.rates_table, section)
            for section in messages.SECTIONS
        },
    },
    plots={
        **{f"-{section}": functools.partial(plot_curves, section) for section in TASKS},
        "-words": words.plot,
    },
    mixed=True,
)
