"""Search as a proposal: rows that an index finds, certain, and drawn rows with importance weights
for the others (`--sampler search` of `ove` and `ar`), beside drawn rows alone and beside the
objectives that are made for a search.

    bibtex, eurlex-4.3k, enwiki-cat    the first label of each row, by 512 principal components
    words                              10 MB of Wikipedia

Labels: each contender's rate is searched for by factors of the root of 10, by the log-likelihood of
validation rows after a run as long as those that are measured, until the best is at no edge. With
it the contender trains with three seeds for equal processor time of one thread, and for equal
epochs. In these a contender that draws rows alone draws as many as a search scores and draws.

Words: an epoch says how many fit in the time; rates are the defaults.
"""

import functools
import math
import statistics
import time
from collections.abc import Iterator
from typing import Any

from threadpoolctl import threadpool_limits

from embedx.errors import DivergedError
from eval import corpus, datasets, papers, papers_adversarial as rows_by_time, words_by_time
from eval.experiment import Experiment, Run, in_process
from eval.page import DASH, mean_and_deviation, number, table
from eval.papers_adversarial import Contender, Split
from eval.records import Job, Records, Result

LABELS = ("bibtex", "eurlex-4.3k", "enwiki-cat")
DATA = (*LABELS, "words")
# Rows that are drawn, and that a search scores beside its clusters: of so few labels the least.
DRAWN = 20
SCORED = 100
FEW = {"negatives": DRAWN}
AS_MANY = {"negatives": DRAWN + SCORED}
FOUND = FEW | {"sampler": "search"}
CONTENDERS = {
    "ove": Contender("ove", FEW),
    "ove-many": Contender("ove", AS_MANY),
    "ove-search": Contender("ove", FOUND),
    "ar": Contender("ar", FEW),
    "ar-many": Contender("ar", AS_MANY),
    "ar-search": Contender("ar", FOUND),
    "nested-ove": Contender("nested-ove", FEW),
    "ldgs": Contender("ldgs", FEW | {"loss": "softmax", "blocks": 1}),
    "ns": Contender("ns", FEW | {"sampler": "uniform"}),
    "ns-many": Contender("ns", AS_MANY | {"sampler": "uniform"}),
}
# In the comparison by equal rows: those that score as many.
EQUAL_ROWS = ("ove-many", "ove-search", "ar-many", "ar-search", "nested-ove", "ldgs", "ns-many")
WORD_CONTENDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "ove": ("ove", {}),
    "ove-search": ("ove", {"sampler": "search"}),
    "ove-search-16": ("ove", {"sampler": "search", "found": 16}),
    "ar": ("ar", {}),
    "ar-search": ("ar", {"sampler": "search"}),
    "ar-search-16": ("ar", {"sampler": "search", "found": 16}),
    "nested-ove": ("nested-ove", {}),
    "ldgs": ("ldgs", {}),
    "ns": ("ns", {}),
}
FIRST_RATE = 0.1
FULL = {
    "seconds": 2.0,
    "epochs": 5,
    "seeds": 3,
    "rows": 15_000,
    "megabytes": 10.0,
    "word_seconds": 10.0,
}
QUICK = {
    "seconds": 0.1,
    "epochs": 1,
    "seeds": 2,
    "rows": 300,
    "megabytes": 1.5,
    "word_seconds": 0.2,
}


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    for name in run.chosen("data"):
        for contender in run.chosen("contender"):
            if name == "words" and contender in WORD_CONTENDERS:
                yield from word_jobs(run, contender)
            elif name != "words" and contender in CONTENDERS:
                yield from label_jobs(run, name, contender)


def label_jobs(run: Run, name: str, contender: str) -> Iterator[Job]:
    job: Job = {"data": name, "contender": contender}
    yield from search(run, job)
    for seed in range(1, run.settings.seeds + 1):
        yield job | {"what": "time", "seconds": run.settings.seconds, "seed": seed}
        if contender in EQUAL_ROWS:
            yield job | {"what": "rows", "epochs": run.settings.epochs, "seed": seed}


def search(run: Run, job: Job) -> Iterator[Job]:
    """Runs by rate, beside the best one so far."""

    def at(step: int) -> Job:
        rate = float(f"{FIRST_RATE * 10 ** (step / 2):.3g}")
        return job | {"what": "rate", "rate": rate, "seconds": run.settings.seconds}

    return papers.search_rates(at, lambda job: likelihood(run.records.get(job)))


def likelihood(result: Result | None) -> float:
    """The log-likelihood at the end of a run, by which its rate is chosen."""
    if not result or not result["points"]:
        return -math.inf
    return float(result["points"][-1]["log-likelihood"])


def best_rate(records: Records, job: Job) -> float:
    tried = records.find(data=job["data"], contender=job["contender"], what="rate")
    return float(max(tried, key=lambda record: likelihood(record["result"]))["job"]["rate"])


def word_jobs(run: Run, contender: str) -> Iterator[Job]:
    """One epoch, and as many as fit in the time by what it took."""
    job: Job = {"data": "words", "contender": contender, "megabytes": run.settings.megabytes}
    first = job | {"epochs": 1, "seed": 1}
    yield first
    result = run.records.get(first)
    if result and "error" not in result:
        epochs = max(round(run.settings.word_seconds / result["seconds"]), 1)
        for seed in range(1, run.settings.seeds + 1):
            yield job | {"epochs": epochs, "seed": seed}


# ---- measuring


@functools.lru_cache(maxsize=1)  # one at a time
def data_of(run: Run, name: str) -> Split:
    both = rows_by_time.components(*papers.load(run.data_folder, name, run.quick))
    return rows_by_time.split_rows(*both, min(run.settings.rows, 3 * len(both[0]) // 4))


def measure(run: Run, job: Job) -> Result:
    if job["data"] == "words":
        return measured_words(run, job)
    data = data_of(run, job["data"])
    contender = CONTENDERS[job["contender"]]
    rate = job.get("rate") or best_rate(run.records, job)
    tried = {"contender": job["contender"], "rate": rate, "penalty": 0.0}
    options = rows_by_time.options_of(contender, tried, job.get("seed", 1))
    if job["contender"] not in run.warm:
        rows_by_time.compile_kernels(contender.objective, options, data.training)
        run.warm.add(job["contender"])
    if job["what"] == "rows":
        return after_epochs(contender, rate, options | {"epochs": job["epochs"]}, data)
    scored = data.validation if job["what"] == "rate" else data.test
    points = rows_by_time.curve(
        contender.objective, options, data.training, scored, job["seconds"], growth=math.inf
    )
    return {"rate": rate, "labels": data.training.n_labels, "points": points}


def after_epochs(contender: Contender, rate: float, options: dict[str, Any], data: Split) -> Result:
    """What is measured on test rows after so many epochs, and their processor time."""
    start = time.process_time()
    try:
        with threadpool_limits(1):
            trained = papers.fit(data.training, contender.objective, options)
    except DivergedError:
        return {"rate": rate, "points": []}
    seconds = time.process_time() - start
    point = {"seconds": round(seconds, 3), "epochs": float(options["epochs"])}
    final_point = point | rows_by_time.measured(trained.classifier, data.test)
    return {"rate": rate, "points": [final_point]}


def measured_words(run: Run, job: Job) -> Result:
    """A run of word vectors in a process of its own."""
    objective, options = WORD_CONTENDERS[job["contender"]]
    options = {**options, "epochs": job["epochs"], "seed": job["seed"]}
    job = {"objective": objective, "options": options}
    files = {"text": run.files["beginning"], "tokens": str(run.folder / "tokens")}
    if run.has_data:
        files["data"] = str(run.data)
    return in_process("eval.words_by_time", "train", job, files)


def prepare(run: Run) -> dict[str, Any]:
    """The beginning of the text of Wikipedia."""
    if "words" not in run.chosen("data"):
        return {"data": {}}
    about = corpus.unpacked(run, pools_pairs=False)
    megabytes = run.settings.megabytes
    return {"corpus": about | corpus.beginning(run, run.folder / "text", b" ", megabytes)}


# ---- tables


def tables_of(name: str, what: str) -> Any:
    def results(records: Records) -> str:
        rows = []
        for contender in CONTENDERS:
            runs = [
                record["result"]
                for record in records.find(data=name, contender=contender, what=what)
            ]
            ends = [result["points"][-1] for result in runs if result["points"]]
            if ends:
                rows.append(
                    {
                        "contender": f"`{contender}`",
                        "rate": f"{runs[0]['rate']:g}",
                        "log-likelihood": mean_and_deviation(
                            [end["log-likelihood"] for end in ends]
                        ),
                        "accuracy": mean_and_deviation([end["accuracy"] for end in ends]),
                        "epochs": number(statistics.fmean(end["epochs"] for end in ends), 1),
                        "seconds": number(statistics.fmean(end["seconds"] for end in ends), 1),
                    }
                )
        return table(rows)

    return results


def words(records: Records) -> str:
    rows = []
    for contender in WORD_CONTENDERS:
        runs_of_words = records.find(data="words", contender=contender)
        runs = [record for record in runs_of_words if "error" not in record["result"]]
        longest = max((run["job"]["epochs"] for run in runs), default=0)
        results = [run["result"] for run in runs if run["job"]["epochs"] == longest]
        if not results:
            continue
        row = {
            "contender": f"`{contender}`",
            "log-likelihood": mean_and_deviation(
                [result["heldout"]["log_likelihood"] for result in results]
            ),
        }
        for test in words_by_time.REPORTED:
            scores = [result["scores"][test] for result in results if test in result["scores"]]
            row[test] = mean_and_deviation(scores) if scores else DASH
        row["epochs"] = f"{longest}"
        row["seconds"] = number(statistics.fmean(result["seconds"] for result in results), 1)
        rows.append(row)
    return table(rows)


def sizes(records: Records) -> str:
    rows = {
        record["job"]["data"]: record["result"]["labels"] for record in records.find(what="time")
    }
    return table([{"data": name, "labels": f"{labels:,}"} for name, labels in rows.items()])


EXPERIMENT = Experiment(
    name="search-proposal",
    title="Search as a proposal, for losses over all rows",
    choices={"data": DATA, "contender": tuple(dict.fromkeys([*CONTENDERS, *WORD_CONTENDERS]))},
    jobs=jobs,
    measure=measure,
    tables={
        "sizes": sizes,
        **{f"{name.partition('-')[0]}-time": tables_of(name, "time") for name in LABELS},
        **{f"{name.partition('-')[0]}-rows": tables_of(name, "rows") for name in LABELS},
        "words": words,
    },
    plots={},
    settings=FULL | {"corpus": None},
    quick=QUICK,
    prepare=prepare,
    needs=lambda run: [datasets.TEXT if name == "words" else name for name in run.chosen("data")],
    mixed=True,
)
