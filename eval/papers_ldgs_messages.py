"""Algorithm 2 of Yen et al. 2018, greedy message passing, beside the other ways to the gradient of
the smoothed max-margin loss: exact, one search over whole rows (mips), and the exact scores of the
rows that several blocks of columns find (rescoring).

Sections are called after their data. Every contender has the rate, of nine, that is best after one
epoch on validation rows, and is then trained by it. The message passing of `embedx` ends after T
iterations; T = 1 is what the paper measures.
"""

import functools
import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from embedx.errors import DivergedError
from eval import datasets, papers_ldgs_data as sources
from eval.experiment import Run
from eval.page import DASH, number, table
from eval.papers import accuracy_of, best_rate, fit
from eval.records import Job, Record, Records, Result


class Setting(NamedTuple):
    """What the paper sets for data of one label a row, or of several, and what is judged."""

    smoothing: float
    blocks: int
    is_multilabel: bool
    measure: str
    tuned_by: str
    hidden: int | None = None


ONE_LABEL = Setting(1.0, 8, False, "accuracy", "reciprocal rank")
SECTIONS = {
    "messages-faces": ONE_LABEL,
    "messages-documents": Setting(5.0, 4, True, "p@1", "p@1", hidden=sources.DIM),
    "messages-next-word": ONE_LABEL,
}
RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
BLOCKS = (2, 4, 8, 10)
ITERATIONS = (1, 3, 7)
INDEXES: dict[str, dict[str, Any]] = {
    "ours": {},
    "paper's": {"clusters": 100, "candidate_fraction": 1.0},
    "all rows": {"scored_fraction": 1.0, "candidate_fraction": 1.0},
}
SHARE_TRAINED_ON = 0.8  # of the training rows, where a rate is tried
BATCH = 10  # the paper's
FULL = {
    "message_identities": 1_500,
    "message_documents": 6_000,
    # of the next word: positions for training, for test, words, bytes of the text
    "message_words": (10_000, 10_000, 2_000, 10_000_000),
    "message_epochs": 5,
}
QUICK = {
    "message_identities": 60,
    "message_documents": 200,
    "message_words": (200, 100, 100, 100_000),
    "message_epochs": 1,
}
TEST_IMAGES = 5  # of each identity: one is too few for 1,500 of them


# ---- the jobs


def searches(blocks: int) -> Iterator[Job]:
    """The contenders; `blocks` are those of the paper."""
    yield {"search": "exact"}
    for index in ("ours", "paper's"):
        yield {"search": "mips", "index": index}
    for n_blocks in BLOCKS:
        yield {"search": "rescoring", "index": "ours", "blocks": n_blocks}
    for n_blocks in BLOCKS:
        for iterations in ITERATIONS:
            yield messages(n_blocks, iterations, "ours")
    for index in ("paper's", "all rows"):
        for iterations in ITERATIONS:
            yield messages(blocks, iterations, index)


def messages(n_blocks: int, iterations: int, index: str) -> Job:
    return {
        "search": "algorithm 2",
        "index": index,
        "blocks": n_blocks,
        "iterations": iterations,
    }


def jobs(run: Run, section: str) -> Iterator[Job]:
    """For each contender, runs by learning rate and training at the best one."""
    size = sizes(run, section)
    for search in searches(SECTIONS[section].blocks):
        key = {"section": section, **size, **search}
        for rate in RATES:
            yield {**key, "what": "rate", "rate": rate}
        yield {**key, "what": "end", "epochs": run.settings.message_epochs}


def sizes(run: Run, section: str) -> Job:
    """How large the data of a section are."""
    settings = run.settings
    if section == "messages-faces":
        return {"identities": settings.message_identities}
    if section == "messages-documents":
        return {"documents": settings.message_documents}
    positions, _, n_words, n_bytes = settings.message_words
    return {"positions": positions, "words": n_words, "bytes": n_bytes}


# ---- data


@functools.lru_cache(maxsize=1)
def data_of(run: Run, section: str) -> sources.Data:
    """The data of a section, of the size that the settings say."""
    settings = run.settings
    if section == "messages-faces":
        return sources.faces(settings.message_identities, TEST_IMAGES)
    if section == "messages-documents":
        return documents(run, settings.message_documents)
    return next_word(run, *settings.message_words)


def documents(run: Run, n_rows: int) -> sources.Data:
    """So many training rows of EURLex-4.3K; made-up ones in a trial without it."""
    if run.quick and not datasets.is_here("eurlex-4.3k", run.data_folder):
        return sources.documents(n_rows, 1_000, 100, n_test=100)
    data = sources.real_documents(run.data_folder, "eurlex-4.3k", run.quick)
    kept = np.random.default_rng(1).permutation(len(data.training))[:n_rows]
    return sources.Data(data.training.rows(kept), data.test)


def next_word(run: Run, n: int, n_test: int, n_words: int, n_bytes: int) -> sources.Data:
    """Positions in the beginning of the text, among its most frequent words."""
    excerpt = run.folder / "excerpt.txt"
    with sources.opened(sources.text_of(run)) as text:
        excerpt.write_bytes(text.read(n_bytes))
    return sources.next_word(str(excerpt), n, n_test, 0.1, run.quick, max_vocab=n_words)


# ---- measurements


def measure(run: Run, job: Job) -> Result:
    if job["what"] == "rate":
        return at_rate(run, job)
    return at_best_rate(run, job)


def at_rate(run: Run, job: Job) -> Result:
    """What a rate achieves on validation rows after an epoch on the others."""
    setting = SECTIONS[job["section"]]
    data = data_of(run, job["section"]).training
    order = np.random.default_rng(2).permutation(len(data))
    n_trained_on = int(SHARE_TRAINED_ON * len(data))
    options = options_of(job) | {"epochs": 1, "learning_rate": job["rate"]}
    trained = fitted(data.rows(order[:n_trained_on]), job, options)
    if trained is None:
        return {"measure": None, "options": options}
    scores = accuracy_of(trained.classifier, data.rows(order[n_trained_on:]), setting.is_multilabel)
    return {"measure": scores[setting.tuned_by], "options": options}


def at_best_rate(run: Run, job: Job) -> Result:
    """What the best rate achieves on test rows, and the time of a processor that it takes.
    Whatever else is done with the machine counts as no time.
    """
    data = data_of(run, job["section"])
    rate = best_rate(tried(run.records, job))
    options = options_of(job) | {"epochs": job["epochs"], "learning_rate": rate}
    fitted(data.training.rows(np.arange(2 * BATCH)), job, options | {"epochs": 1})
    start = time.process_time()
    trained = fitted(data.training, job, options)
    seconds = time.process_time() - start
    result = {
        "options": options,
        "rows": len(data.training),
        "labels": data.training.n_labels,
        "test_rows": len(data.test),
        "cpu_seconds": seconds,
    }
    if trained is None:
        return result | {"final": None}
    is_multilabel = SECTIONS[job["section"]].is_multilabel
    return result | {"final": accuracy_of(trained.classifier, data.test, is_multilabel)}


def options_of(job: Job) -> dict[str, Any]:
    """All settings of a contender but the rate and the epochs."""
    setting = SECTIONS[job["section"]]
    options = {
        "optimizer": "adagrad",
        "schedule": "constant",
        "batch_size": BATCH,
        "threads": 1,
        "smoothing": setting.smoothing,
    }
    if setting.hidden:
        options["hidden"] = setting.hidden
    if job["search"] == "exact":
        return options
    options |= {"loss": "margin", **INDEXES[job["index"]]}
    if job["search"] == "mips":
        return options
    options["blocks"] = job["blocks"]
    if job["search"] == "algorithm 2":
        options |= {"rescore": False, "iterations": job["iterations"]}
    return options


def fitted(data: Any, job: Job, options: dict[str, Any]) -> Any:
    """The run of a contender; None if it diverged."""
    objective = {"exact": "margin", "mips": "mips"}.get(job["search"], "ldgs")
    try:
        return fit(data, objective, options)
    except DivergedError:
        return None


def tried(records: Records, job: Job) -> dict[float, float]:
    """What each rate of a contender achieved; -1 where training diverged."""
    key = {name: value for name, value in job.items() if name not in ("what", "rate", "epochs")}
    scores = {}
    for record in records.find(**key, what="rate"):
        if record["job"].keys() - {"what", "rate"} != key.keys():
            continue
        value = record["result"]["measure"]
        scores[record["job"]["rate"]] = -1.0 if value is None else value
    return scores


# ---- tables


def ends(records: Records, section: str) -> list[Record]:
    """The contenders that were trained by their best rates."""
    return records.find(section=section, what="end")


def contenders_table(section: str, records: Records) -> str:
    """How good each contender ends, at which rate, and what an example takes."""
    measure = SECTIONS[section].measure
    rows = []
    for record in ends(records, section):
        job = record["job"]
        result = record["result"]
        row = {
            "gradient": job["search"],
            "index": job.get("index", DASH),
            "blocks": job.get("blocks", DASH),
            "T": job.get("iterations", DASH),
            "rate": f"{result['options']['learning_rate']:g}",
        }
        if result["final"] is None:
            row[measure] = "diverged"
        else:
            row |= {name: number(value) for name, value in result["final"].items()}
            row[measure] += f" ± {error_of(result, measure):.3f}"
        n_examples = job["epochs"] * result["rows"]
        row["µs of CPU an example"] = f"{1e6 * result['cpu_seconds'] / n_examples:.0f}"
        rows.append(row)
    return table(rows)


def error_of(result: Result, measure: str) -> float:
    """The standard error of a share by the choice of test rows."""
    share = result["final"][measure]
    return math.sqrt(share * (1 - share) / result["test_rows"])


def rates_table(section: str, records: Records) -> str:
    """What each rate achieved on validation rows."""
    rows = []
    for record in ends(records, section):
        job = record["job"]
        achieved = tried(records, job)
        row = {name: job.get(name, DASH) for name in ("search", "index", "blocks", "iterations")}
        row |= {f"{rate:g}": shown(achieved.get(rate)) for rate in RATES}
        rows.append(row)
    return table(rows)


def shown(value: float | None) -> str:
    return "diverged" if value == -1 else number(value)
