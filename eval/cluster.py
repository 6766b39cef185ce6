"""Is a cluster as good as one machine, what does it cost, and how fast would many machines be?

Sections: `quality`, workers in turn within one process, by the code that runs on a cluster, on the first megabytes of the
`time`, the command with and without a cluster of this machine alone, in turns; `costs`, what the simulation of
`cluster_model.py` needs. Every measurement is a process of its own (`cluster_process.py`).
"""

import dataclasses
import math
import statistics as median_of
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from eval import corpus, word_tests
from eval.cluster_model import Costs, Machines, uses_of, vocabulary_of, words_per_second, zipf
from eval.experiment import Experiment, Run, in_process
from eval.page import DASH, number, table, thousands
from eval.records import Job, Records, Result
from eval.under_test import Size, distributed_words

OBJECTIVES = ("ns", "hs", "ar", "ove", "sampled-softmax")
WORKERS = (1, 2, 4, 8, 16)
MERGES = (20, 50)  # by each worker over the run; 20 to 50 by default
MAX_MERGES = 800  # of all workers: a range has no less than a chunk of the text
HOW = ((0, 2), (1, 2), (2, 1), (0, 1), (4, 1))  # workers (0 without a cluster) and threads of each
NODES = (1, 8, 16, 64)
CORES = 16
TEXTS = {"a billion words": 1e9, "100 billion words": 1e11}
NETWORKS = {"1 Gbit/s": 1.25e8, "10 Gbit/s": 1.25e9, "100 Gbit/s": 1.25e10}
ROUND_TRIP = 2e-4  # seconds, within a data centre
PASSES = 5  # over the text


def jobs(run: Run) -> Iterator[Job]:
    own, sections = run.settings, run.chosen("section")
    if "costs" in sections:
        yield {"kind": "costs", "range_words": int(own.range_words), "ranges": int(own.ranges)}
    if "time" in sections:
        for seed in range(1, int(own.repetitions) + 1):
            for workers, threads in HOW:
                yield {"kind": "run", "workers": workers, "threads": threads, "epochs": own.passes, "seed": seed}
    if "quality" in sections:
        for objective in run.chosen("objective"):
            common = {"kind": "quality", "objective": objective, "epochs": own.epochs}
            yield from (common | {"workers": 1, "merges": MERGES[0], "seed": 1 + k} for k in range(int(own.seeds)))
            for merges in MERGES:
                for n in WORKERS[1:]:
                    if n * merges <= MAX_MERGES:
                        yield common | {"workers": n, "merges": merges, "seed": 1}


def prepare(run: Run) -> dict[str, Any]:
    """The text, and its first megabytes."""
    about = corpus.unpacked(run)
    beginning = run.folder / "beginning"
    with Path(run.files["text"]).open("rb") as source, beginning.open("wb") as out:
        out.write(source.read(int(run.settings.megabytes * 1e6)).rpartition(b" ")[0])
    run.files |= {"beginning": str(beginning), "tokens": str(run.folder / "tokens")}
    if run.has_data:
        run.files["data"] = str(run.data)
    about["beginning"] = corpus.facts_of(beginning)
    return {"corpus": about}


def measure(run: Run, job: Job) -> Result:
    return in_process("eval.cluster_process", job, run.files)


# ---- tables


def quality(records: Records) -> str:
    """Each number of workers beside one of the same objective, by held-out log-likelihood and pooled similarity."""
    rows = []
    for objective in OBJECTIVES:
        alone = records.succeeded(kind="quality", objective=objective, workers=1)
        if not alone:
            continue
        values = [each["result"]["heldout"]["log_likelihood"] for each in alone]
        spread = f"± {np.std(values, ddof=1):.3f}" if len(values) > 1 else DASH
        rows.append({
            "objective": objective, "workers": "1", "merges": DASH, "runs": str(len(alone)),
            "held-out log-likelihood": number(float(np.mean(values)), 3), "minus one worker's": spread,
            "pooled similarity": number(mean_similarity(alone), 3), "minus its": DASH,
            "bytes/word": DASH,
        })  # fmt: skip
        for merges in MERGES:
            for n in WORKERS[1:]:
                for each in records.succeeded(kind="quality", objective=objective, workers=n, merges=merges)[-1:]:
                    result = each["result"]
                    value = result["heldout"]["log_likelihood"]
                    apart = word_tests.similarity([each], alone)
                    rows.append({
                        "objective": objective, "workers": str(n), "merges": str(merges), "runs": "1",
                        "held-out log-likelihood": number(value, 3), "minus one worker's": f"{value - np.mean(values):+.3f}",
                        "pooled similarity": number(mean_similarity([each]), 3),
                        "minus its": f"{apart.value:+.3f} ± {apart.error:.3f}" if apart else DASH,
                        "bytes/word": number(result["bytes_per_word"], 0),
                    })  # fmt: skip
    return table(rows)


def mean_similarity(runs: list[Any]) -> float | None:
    scores = [each["result"]["pooled"]["score"] for each in runs if "pooled" in each["result"]]
    return float(np.mean(scores)) if scores else None


def titled(workers: int, threads: int) -> str:
    of = f"{threads} thread{'s' * (threads > 1)}"
    return f"{workers} worker{'s' * (workers > 1)} × {of}" if workers else f"no cluster, {of}"


def time(records: Records) -> str:
    """Medians over the runs."""
    rows = []
    plain = records.median("seconds", kind="run", workers=0, threads=2)
    for workers, threads in HOW:
        of = records.results(kind="run", workers=workers, threads=threads)
        if not of:
            continue
        seconds = median_of.median(each["seconds"] for each in of)
        travelled = [each["cluster"]["bytes_merged"] / each["words_trained"] for each in of if each["cluster"]]
        rows.append({
            "how": titled(workers, threads), "runs": str(len(of)), "training, s": number(seconds, 1),
            "times no cluster, 2 threads": number(seconds / plain, 2) if plain else DASH,
            "words/s": thousands(median_of.median(each["words_per_second"] for each in of)),
            "held-out log-likelihood": number(float(np.mean([each["heldout"]["log_likelihood"] for each in of])), 3),
            "pooled similarity": number(float(np.mean([each["pooled"]["score"] for each in of if "pooled" in each])), 3),
            "bytes/word": number(float(np.mean(travelled)), 1) if travelled else DASH,
        })  # fmt: skip
    return table(rows)


def measured(records: Records) -> tuple[Costs, Result] | None:
    """The last costs on record."""
    if (last := records.last(kind="costs")) is None:
        return None
    names = ("words_per_second", "merged", "added", "gathered", "latency", "row_bytes", "moved")
    return Costs(**{name: last[name] for name in names}), last


def costs(records: Records) -> str:
    """What the simulation takes from this machine."""
    if (of := measured(records)) is None:
        return table([])
    cost, result = of
    return table([
        {"what": "words trained by a thread in a second", "measured": thousands(cost.words_per_second)},
        {"what": "a worker merges a row, µs", "measured": number(1e6 * cost.merged, 2)},
        {"what": "the head adds a row, µs", "measured": number(1e6 * cost.added, 2)},
        {"what": "the head gathers a row, µs", "measured": number(1e6 * cost.gathered, 2)},
        {"what": "a call of a worker, ms", "measured": number(1e3 * cost.latency, 2)},
        {"what": "bytes of a row that travels", "measured": number(cost.row_bytes, 0)},
        {"what": "bytes a second from one process to another, GB", "measured": number(1e-9 / cost.moved, 2)},
        {"what": f"rows changed by a range, of {thousands(result['rows'])}", "measured": thousands(result["rows_changed"])},
        {"what": "the same as the simulation expects it", "measured": thousands(result["rows_expected"])},
    ])  # fmt: skip


def checked(records: Records) -> str:
    """Workers on this machine, simulated and measured, in words a second of all."""
    if (of := measured(records)) is None:
        return table([])
    cost, result = of
    rows = []
    alone = records.median("words_per_second", kind="run", workers=0, threads=1)
    for workers, threads in HOW:
        job = {"kind": "run", "workers": workers, "threads": threads}
        last, real = records.last(**job), records.median("words_per_second", **job)
        if workers and last and real and alone:
            about = last["cluster"]
            per_range = float(distributed_words.CHUNK * about.get("chunks_of_range", about.get("stretches_of_range")))
            simulated = here(cost, result, workers, threads, alone, per_range)
            rows.append({
                "how": titled(workers, threads), "simulated, words/s": thousands(simulated),
                "measured, words/s": thousands(real), "simulated / measured": number(simulated / real, 2),
            })  # fmt: skip
    return table(rows)


def here(cost: Costs, result: Result, workers: int, threads: int, alone: float, per_range: float, cores: int = 2) -> float:
    """The same on one machine, whose cores also merge for the head, and are shared where threads are more."""
    uses = np.repeat(np.array(result["uses"]), result["rows"] / len(result["uses"]))
    rate = alone * min(1.0, cores / (workers * threads))
    own = float(-np.expm1(-uses * per_range).sum())
    news = own if workers > 1 else 0.0
    merging = own * (cost.merged + cost.added) + news * cost.gathered + (own + news) * cost.row_bytes * cost.moved
    bound = cores * per_range / (per_range / alone + merging)
    machines = Machines(workers, threads, math.inf, 0.0, per_range)
    made = dataclasses.replace(cost, words_per_second=rate)
    return min(words_per_second(made, machines, uses), bound)


def predicted(records: Records) -> str:
    """Machines of CORES cores each, which merge as often as by default: the share of what they would do alone."""
    if (of := measured(records)) is None:
        return table([])
    cost, result = of
    rows = []
    for text, words in TEXTS.items():
        uses = uses_of(zipf(vocabulary_of(words)), 1e-4, result["draws_per_word"])
        for nodes in NODES:
            chunk, size = distributed_words.CHUNK, Size(nodes, CORES)
            length = float(chunk * distributed_words.chunks_per_range(None, round(words / chunk), PASSES, len(uses), size))
            row: dict[str, Any] = {"text": text, "machines": str(nodes)}
            known: dict[int, float] = {}
            for network, bandwidth in NETWORKS.items():
                rate = words_per_second(cost, Machines(nodes, CORES, bandwidth, ROUND_TRIP, length), uses, known)
                hours = PASSES * words / rate / 3600
                duration = f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.1f} min"
                row[network] = f"{rate / (nodes * CORES * cost.words_per_second):.2f}; {duration}"
                row["words of a range"] = f"{length / 1e6:.0f} M"
            rows.append(row)
    return table(rows)


EXPERIMENT = Experiment(
    name="cluster",
    title="Workers on a cluster beside one machine",
    choices={"section": ("quality", "time", "costs"), "objective": OBJECTIVES},
    jobs=jobs, measure=measure, prepare=prepare,
    tables={"quality": quality, "time": time, "costs": costs, "checked": checked, "predicted": predicted}, plots={},
    settings={
        "corpus": None, "megabytes": 10.0, "epochs": 5, "passes": 5, "seeds": 3, "repetitions": 3, "range_words": 400_000,
        "ranges": 40,
    },
    quick={"megabytes": 1.0, "epochs": 1, "passes": 1, "seeds": 1, "repetitions": 1, "range_words": 20_000, "ranges": 6},
    packages=("ray",), mixed=True,
)  # fmt: skip
