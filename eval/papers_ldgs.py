"""Yen et al. 2018, "Loss decomposition for fast learning in large output spaces": exact losses
beside rows found by search.

    next-word    which of all words stands between these, from text: accuracy against time
    faces        identities by unit vectors, to the shape of MegaFace: accuracy against time
    faces-100k   100,000 identities and 512 features, other objectives beside them
    faces-600k   600,000
    documents    EURLex-4.3K with a hidden layer: P@1, 3 and 5 against time
    wikilshtc-325k
                 the same on the paper's data
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
    papers_ldgs_tables as tables,
    papers_ldgs_words as words,
)
from eval.experiment import Experiment, Run
from eval.papers import fit
from eval.papers_ldgs_tasks import TASKS
from eval.records import Job, Records, Result


@dataclasses.dataclass(frozen=True)
class Contender:
    """An objective and the settings of `Task.settings` that it takes. Of `batch` None the quickest
    batch is chosen.
    """

    objective: str
    takes: tuple[str, ...] = ()
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
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
    "ns, adversarial noise": Contender("ns", options={"sampler": "adversarial"}),
    "ar": Contender("ar", batch=100),
}
JOINT = "sampled-softmax, joint"
# in the paper there is none of these
BESIDE = ("ns, adversarial noise", "ar")
OF_MANY = (
    "softmax, best batch",
    "sampled-softmax",
    "margin, best batch",
    "mips",
    "ldgs",
    *BESIDE,
)
BATCHES = (100, 400, 1000)  # for large matrix products
LARGEST_SCORES = 1 << 29  # floats of a batch's scores
OPTIMIZER = {"optimizer": "adagrad", "schedule": "constant"}
RATES = (0.03, 0.1, 0.3)  # and on by factors of three where the best one is at an end
FULL = {
    "corpus": None,  # a text, or the name of one that comes with a recipe
    "seconds": 900.0,  # of training for each curve
    "rate_seconds": 30.0,  # of training for each rate
    # of next-word: for training, for test, share of the text held out
    "positions": (500_000, 20_000, 0.01),
    "identities": 20_000,
    # of faces-100k and faces-600k: processor seconds of a curve and of a rate; test images
    # at the end and between legs
    "many": (240.0, 24.0, 2_000, 1_000),
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
    "many": (1.0, 0.1, 100, 50),
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
    names = [data for section, task in TASKS.items() if section in sections and (data := task.data)]
    if "messages-documents" in sections:
        names.append("eurlex-4.3k")
    of_text = {"next-word", "words", "growth", "messages-next-word"}
    if of_text & {*sections} and not run.settings.corpus:
        names.append(datasets.TEXT)
    return names


def curve_jobs(run: Run, section: str) -> Iterator[Job]:
    """For each contender, runs by learning rate and the curve at the best one."""
    for name in run.chosen("contender"):
        if name not in contenders_of(section):
            continue
        if CONTENDERS[name].batch is None:
            yield batches_job(section, CONTENDERS[name].objective)
        key = {"section": section, "contender": name, "optimizer": "adagrad"}
        rates = list(RATES)
        while rates:
            yield from (key | {"what": "rate", "rate": rate} for rate in rates)
            tried = achieved(run.records, key)
            rates = []
            best = papers.best_rate(tried)
            if len(tried) < run.settings.max_rates and best in (min(tried), max(tried)):
                rates = [float(f"{best / 3 if best == min(tried) else best * 3:.1g}")]
        yield key | {"what": "curve"}


def contenders_of(section: str) -> tuple[str, ...]:
    """The names of a section's contenders."""
    if TASKS[section].identities:
        return OF_MANY
    return tuple(
        name
        for name in CONTENDERS
        if name not in BESIDE and (name != JOINT or TASKS[section].multilabel)
    )


def batches_job(section: str, objective: str) -> Job:
    return {"section": section, "what": "batches", "objective": objective, "optimizer": "adagrad"}


def achieved(records: Records, key: Job) -> dict[float, float]:
    """Validation scores by learning rate; -1 where training diverged."""
    runs = records.find(**key, what="rate")
    return {
        record["job"]["rate"]: -1.0 if (value := record["result"]["measure"]) is None else value
        for record in runs
    }


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
                if name not in contenders_of("faces"):
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


@functools.lru_cache(maxsize=1)  # one at a time
def data_of(run: Run, name: str, n_labels: int = 0) -> sources.Data:
    """What a section is about; of so many labels, if these are given, to time steps on."""
    settings = run.settings
    if name == "next-word":
        return sources.next_word(sources.text_of(run), *settings.positions, run.quick)
    identities = TASKS[name].identities
    if identities:
        n_test = settings.many[2]
        return sources.many_faces(identities // (1000 if run.quick else 1), TASKS[name].dim, n_test)
    if name == "faces":
        if n_labels:
            return sources.some_faces(n_labels, 2 * settings.timed)
        return sources.faces(settings.identities)
    if n_labels:
        return sources.documents(*settings.documents[:2], n_labels)
    data = TASKS[name].data
    assert data is not None
    if run.quick and not datasets.is_here(data, run.data_folder):
        return sources.documents(*settings.documents, n_test=200)
    return sources.real_documents(run.data_folder, data, run.quick)


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
    limited_by: str = "seconds",
) -> tuple[list[dict[str, float]], Any]:
    """What is measured after each leg, with the epochs, examples and seconds of training so far;
    ends before it takes longer.

    `seconds` are those of the trainer, `whole` those of all calls, with setting up and checking,
    and `processor` their processor time. `limited_by` names what must not take longer. None if it
    diverged.
    """
    trained = None
    points: list[dict[str, float]] = []
    passed = dict.fromkeys(("epochs", "examples", "seconds", "whole", "processor"), 0.0)
    warm_up(data, contender.objective, options)
    for epoch, rows in legs(len(data), epochs, 1):
        taken = passed[limited_by]
        if points and taken * (1 + len(rows) / passed["examples"]) > max_seconds:
            break
        leg_options = (
            options | {"epochs": 1, "seed": len(points) + 1} | (contender.later if trained else {})
        )
        start = time.monotonic()
        processor_start = time.process_time()
        try:
            trained = fit(data.rows(rows), contender.objective, leg_options, start=trained)
        except DivergedError:
            return points, None
        passed = {
            "epochs": epoch,
            "examples": passed["examples"] + len(rows),
            "seconds": passed["seconds"] + trained.outcome.seconds,
            "whole": passed["whole"] + time.monotonic() - start,
            "processor": passed["processor"] + time.process_time() - processor_start,
        }
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
    return {
        "batch_size": batch,
        "threads": 1 if task.identities else usable_cores(),
        **OPTIMIZER,
        **hidden,
        **taken,
        **CONTENDERS[name].options,
    }


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
        if batch * data.n_labels > LARGEST_SCORES:
            continue
        options = options_of(name, section, data.n_labels, batch) | {"learning_rate": 1e-3}
        if not seconds:
            warm_up(data, objective, options | {"batch_size": 10})
        n_rows = 2 * batch if TASKS[section].identities else max(run.settings.timed, 2 * batch)
        rows = np.arange(min(len(data), n_rows))
        seconds[str(batch)] = fit(
            data.rows(rows), objective, options | {"epochs": 1}
        ).outcome.seconds / len(rows)
    return {"seconds": seconds}


def rate_epochs(task: Any) -> tuple[float, ...]:
    """When training by a rate may end; it is cut where its time is up."""
    if task.identities:
        return tuple(epoch for epoch in task.epochs if epoch <= 1)
    return tuple(np.arange(1, 9) / 8)


def limits(run: Run, section: str) -> tuple[float, float, str]:
    """The time of a curve and of a rate, and which time is meant."""
    settings = run.settings
    if TASKS[section].identities:
        seconds, rate_seconds, *_ = settings.many
        return seconds, rate_seconds, "processor"
    return settings.seconds, min(settings.rate_seconds, settings.seconds / 8), "seconds"


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
    n_watched = settings.many[2] if task.identities else settings.validation
    watched = data.rows(order[len(training) :][:n_watched])
    options = chosen_options(run, job, data.n_labels)
    curve_options = options | {"learning_rate": job["rate"]}
    _, max_seconds, limited_by = limits(run, section)
    points, trained = curve(
        training,
        CONTENDERS[job["contender"]],
        curve_options,
        rate_epochs(task),
        max_seconds,
        lambda _: {},
        limited_by,
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
    options["learning_rate"] = papers.best_rate(
        achieved(run.records, {name: job[name] for name in ("section", "contender")})
    )
    n_rows = run.settings.many[3] if task.identities else run.settings.curve_rows
    curve_rows = data.test.rows(np.random.default_rng(3).permutation(len(data.test))[:n_rows])
    seconds, _, limited_by = limits(run, job["section"])
    points, trained = curve(
        data.training,
        CONTENDERS[job["contender"]],
        options,
        task.epochs,
        seconds,
        lambda classifier: papers.accuracy_of(classifier, curve_rows, task.multilabel),
        limited_by,
    )
    final = papers.accuracy_of(trained.classifier, data.test, task.multilabel) if trained else None
    return {
        "options": options,
        "curve_rows": len(curve_rows),
        "test_rows": len(data.test),
        "points": points,
        "final": final,
    }


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
        "targets": tables.targets,
        **{section: functools.partial(tables.curve_table, section) for section in TASKS},
        **{f"{section}-rates": functools.partial(tables.rates_table, section) for section in TASKS},
        "speed": tables.speed_table,
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
        **{f"-{section}": functools.partial(tables.plot_curves, section) for section in TASKS},
        "-words": words.plot,
    },
    mixed=True,
)
