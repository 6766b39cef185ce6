"""The tables of `cluster`, and the numbers of workers that it compares."""

import math
import statistics
from typing import Any

import numpy as np

from embedx.distributed import words as distributed_words
from embedx.distributed.connection import ClusterSize
from embedx.skipgram.strategies import TOKENS_PER_CHUNK
from eval import word_tests
from eval.cluster_model import (
    Costs,
    Machines,
    rows_changed,
    uses_of,
    vocabulary_of,
    words_per_second,
    zipf,
)
from eval.page import DASH, number, table, thousands
from eval.records import Records, Result

OBJECTIVES = ("ns", "hs", "ar", "ove", "sampled-softmax")
WORKERS = (1, 2, 4, 8, 16)
MERGES = (20, 50)  # by each worker over the run; 20 to 50 by default
HOW = ((0, 2), (1, 2), (2, 1), (0, 1), (4, 1))  # workers (0 without a cluster) and threads of each
NODES = (1, 8, 16, 64)
CORES = 16
TEXTS = {"a billion words": 1e9, "100 billion words": 1e11}
NETWORKS = {"1 Gbit/s": 1.25e8, "10 Gbit/s": 1.25e9, "100 Gbit/s": 1.25e10}
ROUND_TRIP = 2e-4  # seconds, within a data centre
PASSES = 5  # over the text


def quality(records: Records) -> str:
    """Each number of workers beside one of the same objective, by held-out log-likelihood and
    pooled similarity.
    """
    rows: list[dict[str, Any]] = []
    for objective in OBJECTIVES:
        alone = records.succeeded(kind="quality", objective=objective, workers=1)
        values = [record["result"]["heldout"]["log_likelihood"] for record in alone]
        cases = [(1, MERGES[0]), *((n, merges) for merges in MERGES for n in WORKERS[1:])]
        for n, merges in cases if alone else ():
            if n == 1:
                runs = alone
            else:
                runs = records.succeeded(
                    kind="quality", objective=objective, workers=n, merges=merges
                )[-1:]
            if not runs:
                continue
            value = float(
                np.mean([record["result"]["heldout"]["log_likelihood"] for record in runs])
            )
            row = {
                "objective": objective,
                "workers": str(n),
                "merges": DASH if n == 1 else str(merges),
                "runs": str(len(runs)),
                "held-out log-likelihood": number(value, 3),
            }
            if n == 1:
                row["minus one worker's"] = (
                    f"± {np.std(values, ddof=1):.3f}" if len(values) > 1 else DASH
                )
            else:
                row["minus one worker's"] = f"{value - np.mean(values):+.3f}"
            difference = word_tests.similarity(runs, alone) if n > 1 else None
            rows.append(
                row
                | {
                    "pooled similarity": number(mean_similarity(runs), 3),
                    "minus its": f"{difference.value:+.3f} ± {difference.error:.3f}"
                    if difference
                    else DASH,
                    "bytes/word": (
                        DASH if n == 1 else number(runs[0]["result"]["bytes_per_word"], 0)
                    ),
                }
            )
    return table(rows)


def mean_similarity(runs: list[Any]) -> float | None:
    scores = [
        record["result"]["pooled"]["score"] for record in runs if "pooled" in record["result"]
    ]
    return float(np.mean(scores)) if scores else None


def titled(workers: int, threads: int) -> str:
    per_worker = f"{threads} thread{'s' * (threads > 1)}"
    if workers:
        return f"{workers} worker{'s' * (workers > 1)} × {per_worker}"
    return f"no cluster, {per_worker}"


def time(records: Records) -> str:
    """Medians over the runs."""
    rows = []
    plain = records.median("seconds", kind="run", workers=0, threads=2)
    for workers, threads in HOW:
        results = records.results(kind="run", workers=workers, threads=threads)
        if not results:
            continue
        seconds = statistics.median(result["seconds"] for result in results)
        bytes_per_word = [
            result["cluster"]["bytes_merged"] / result["words_trained"]
            for result in results
            if result["cluster"]
        ]
        rows.append(
            {
                "how": titled(workers, threads),
                "runs": str(len(results)),
                "training, s": number(seconds, 1),
                "times no cluster, 2 threads": number(seconds / plain, 2) if plain else DASH,
                "words/s": thousands(
                    statistics.median(result["words_per_second"] for result in results)
                ),
                "held-out log-likelihood": number(
                    float(np.mean([result["heldout"]["log_likelihood"] for result in results])), 3
                ),
                "pooled similarity": number(
                    float(
                        np.mean(
                            [result["pooled"]["score"] for result in results if "pooled" in result]
                        )
                    ),
                    3,
                ),
                "bytes/word": number(float(np.mean(bytes_per_word)), 1) if bytes_per_word else DASH,
            }
        )
    return table(rows)


def costs(records: Records) -> str:
    """What the simulation takes from this machine."""
    if (cost := records.last(kind="costs")) is None:
        return table([])
    return table(
        [
            {"what": what, "measured": measured}
            for what, measured in {
                "words trained by a thread in a second": thousands(cost["words_per_second"]),
                "a worker merges a row, µs": number(1e6 * cost["merged"], 2),
                "the head adds a row, µs": number(1e6 * cost["added"], 2),
                "the head gathers a row, µs": number(1e6 * cost["gathered"], 2),
                "a call of a worker, ms": number(1e3 * cost["latency"], 2),
                "bytes of a row that travels": number(cost["row_bytes"], 0),
                "bytes a second from one process to another, GB": number(1e-9 / cost["moved"], 2),
                f"rows changed by a range, of {thousands(cost['rows'])}": thousands(
                    cost["rows_changed"]
                ),
                "the same as the simulation expects it": thousands(cost["rows_expected"]),
            }.items()
        ]
    )


def checked(records: Records) -> str:
    """Workers on this machine, simulated and measured: words a second of all."""
    cost = records.last(kind="costs")
    alone = records.median("words_per_second", kind="run", workers=0, threads=1)
    rows = []
    for workers, threads in HOW:
        runs = records.succeeded(kind="run", workers=workers, threads=threads)
        if not (workers and runs and cost and alone):
            continue
        range_words = float(TOKENS_PER_CHUNK * runs[-1]["result"]["cluster"]["chunks_of_range"])
        machines = Machines(workers, threads, math.inf, 0.0, range_words)
        n_cores = records.environment_of(runs[-1])["machine"]["cores"]
        simulated = simulated_here(cost, machines, alone, n_cores)
        measured = statistics.median(run["result"]["words_per_second"] for run in runs)
        rows.append(
            {
                "how": titled(workers, threads),
                "simulated, words/s": thousands(simulated),
                "measured, words/s": thousands(measured),
                "simulated / measured": number(simulated / measured, 2),
            }
        )
    return table(rows)


def simulated_here(cost: Result, machines: Machines, alone: float, n_cores: int) -> float:
    """Words a second of workers on one machine, whose cores also do the head's work, and are shared
    where threads are more.

    alone  words a second of one thread without a cluster
    """
    uses = np.repeat(cost["uses"], round(cost["rows"] / len(cost["uses"])))
    range_words = machines.range_words
    n_threads = machines.workers * machines.threads
    shared = cost | {"words_per_second": alone * min(1.0, n_cores / n_threads)}
    seconds = range_words / alone + seconds_to_merge(cost, machines, uses)
    return min(words_per_second(shared, machines, uses), n_cores * range_words / seconds)


def seconds_to_merge(cost: Costs, machines: Machines, uses: np.ndarray) -> float:
    """Processor time of the worker and of the head for one merge, at which each worker has trained
    one range since the last.
    """
    n_local = rows_changed(uses, machines.range_words)
    n_remote = n_local if machines.workers > 1 else 0.0
    return (
        n_local * (cost["merged"] + cost["added"])
        + n_remote * cost["gathered"]
        + (n_local + n_remote) * cost["row_bytes"] * cost["moved"]
    )


def predicted(records: Records) -> str:
    """Machines of CORES cores each, which merge as often as by default: the share of what they
    would do alone.
    """
    if (cost := records.last(kind="costs")) is None:
        return table([])
    rows = []
    for text, n_words in TEXTS.items():
        # a tenth of the time
        uses = uses_of(zipf(vocabulary_of(n_words)), 1e-4, cost["draws_per_word"]).astype(
            np.float32
        )
        for nodes in NODES:
            size = ClusterSize(nodes, CORES)
            length = float(
                TOKENS_PER_CHUNK
                * distributed_words.chunks_per_range(
                    None, round(n_words / TOKENS_PER_CHUNK), PASSES, len(uses), size
                )
            )
            row: dict[str, Any] = {"text": text, "machines": str(nodes)}
            known: dict[int, float] = {}
            for network, bandwidth in NETWORKS.items():
                rate = words_per_second(
                    cost, Machines(nodes, CORES, bandwidth, ROUND_TRIP, length), uses, known
                )
                hours = PASSES * n_words / rate / 3600
                duration = f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.1f} min"
                row[network] = (
                    f"{rate / (nodes * CORES * cost['words_per_second']):.2f}; {duration}"
                )
                row["words of a range"] = f"{length / 1e6:.0f} M"
            rows.append(row)
    return table(rows)
