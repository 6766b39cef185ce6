"""Is a cluster as good as one machine, what does it cost, and how fast would many machines be?

Sections: `quality`, workers in turn within one process, by the code that runs on a cluster, on the
first megabytes of the text: each merges after its range with what the others have learned since its
turn before, as many machines of one speed would do it; `time`, the command with and without a
cluster of this machine alone, in turns; `costs`, what the simulation of `cluster_model.py` needs to
know of this machine. Every measurement is a process of its own.
"""

import contextlib
import json
import math
import statistics as median_of
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from embedx import load
from embedx.distributed import words as distributed_words
from embedx.distributed.connection import ClusterSize
from embedx.distributed.settings import ClusterSettings
from embedx.distributed.worker import Worker
from embedx.engine import blocks
from embedx.evaluation import words
from embedx.runtime.memory import n_bytes
from embedx.runtime.progress import Silent
from embedx.skipgram.configuration import configure
from embedx.skipgram.run import WordVectorsRun
from embedx.skipgram.strategies import TOKENS_PER_CHUNK
from embedx.text.encode import encode
from embedx.text.settings import TextSettings
from embedx.training.strategy import Tally
from eval import corpus, word_tests
from eval.cluster_model import (
    Costs,
    Machines,
    rows_changed,
    uses_of,
    vocabulary_of,
    words_per_second,
    zipf,
)
from eval.experiment import Experiment, Run, in_process
from eval.page import DASH, number, table, thousands
from eval.records import Job, Records, Result

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
MEASURES = {"costs": "measure_costs", "quality": "train_in_turn", "run": "run_command"}
CALLS = 200  # of a worker that does nothing
CALLS_WITH_ROWS = 20  # of one that returns as many bytes as it gets
BYTES_OF_CALL = 32_000_000
USES_ON_RECORD = 2000  # rows whose uses are on record, one of so many


def jobs(run: Run) -> Iterator[Job]:
    settings = run.settings
    sections = run.chosen("section")
    if "costs" in sections:
        yield {
            "kind": "costs",
            "range_words": int(settings.range_words),
            "ranges": int(settings.ranges),
        }
    if "time" in sections:
        for seed in range(1, int(settings.repetitions) + 1):
            for workers, threads in HOW:
                yield {
                    "kind": "run",
                    "workers": workers,
                    "threads": threads,
                    "epochs": settings.passes,
                    "seed": seed,
                }
    if "quality" in sections:
        for objective in run.chosen("objective"):
            common = {"kind": "quality", "objective": objective, "epochs": settings.epochs}
            yield from (
                common | {"workers": 1, "merges": MERGES[0], "seed": 1 + k}
                for k in range(int(settings.seeds))
            )
            for merges in MERGES:
                for n in WORKERS[1:]:
                    if n * merges <= MAX_MERGES:
                        yield common | {"workers": n, "merges": merges, "seed": 1}


def prepare(run: Run) -> dict[str, Any]:
    """The text, and its first megabytes."""
    about = corpus.unpacked(run)
    run.files["tokens"] = str(run.folder / "tokens")
    about["beginning"] = corpus.beginning(
        run, Path(run.files["text"]), b" ", run.settings.megabytes
    )
    return {"corpus": about}


def measure(run: Run, job: Job) -> Result:
    return in_process("eval.cluster", MEASURES[job["kind"]], job, run.files)


# ---- in a process of its own


def train_in_turn(job: Job, files: dict[str, str]) -> Result:
    """Held-out log-likelihood and pooled similarity after workers in turn, and the bytes that they
    exchanged.
    """
    options = {"threads": 1, "heldout": 0.01, "seed": job["seed"], "epochs": job["epochs"]}
    with prepared(job["objective"], options, files["beginning"], files) as (task, inner, plan):
        settings = task.config.settings
        server = plan.server(inner)
        workers = started(plan, job["workers"])
        total = inner.n_chunks * int(settings.epochs)
        chunks_per_merge = max(1, round(total / len(workers) / job["merges"]))
        tally = Tally()
        exchanged_bytes = 0
        merge_seconds = 0.0
        seconds = 0.0
        steps = [
            (epoch, first)
            for epoch in range(int(settings.epochs))
            for first in range(0, inner.n_chunks, chunks_per_merge)
        ]
        for turn, (epoch, first) in enumerate(steps):
            worker = workers[turn % len(workers)]
            if not server.is_ready(worker):
                server.add(worker, worker.merge(server.remote_delta(worker)))
            chunks = range(first, min(first + chunks_per_merge, inner.n_chunks))
            rate = float(settings.learning_rate or 0) * (
                1 - (epoch + chunks.start / inner.n_chunks) / settings.epochs
            )
            trained, worker_seconds = worker.train_range(epoch, chunks, rate)
            assert trained is not None
            tally += trained
            start = perf_counter()
            remote = server.remote_delta(worker)
            local = worker.merge(remote)
            server.add(worker, local)
            merge_seconds += perf_counter() - start
            seconds += worker_seconds
            exchanged_bytes += n_bytes(remote) + n_bytes(local)
        vectors = task.word_vectors(None)
        set_scores = words.score_items(vectors, word_tests.tests(files.get("data")))
        return {
            "heldout": task.held_out_metrics(),
            "loss": tally.mean_loss,
            "words": tally.items,
            "range_words": chunks_per_merge * TOKENS_PER_CHUNK,
            "bytes_per_word": exchanged_bytes / tally.items,
            "merge_seconds": merge_seconds,
            "seconds": seconds,
            "merges": len(steps),
            "vocabulary": len(task.vocabulary),
            "rows": len(inner.tables.inputs.rows) + len(inner.tables.outputs.rows),
            **word_tests.pooled(set_scores),
        }


@contextlib.contextmanager
def prepared(
    objective: str, options: dict[str, Any], text: str, files: dict[str, str]
) -> Iterator[tuple[Any, Any, Any]]:
    """A run on a text that is about to begin, how it would train on one machine, and how on
    workers.
    """
    with encode([text], TextSettings(), Silent(), Path(files["tokens"]), threads=1) as corpus:
        run = WordVectorsRun.resolved(corpus, configure(objective, options), Silent())
        run.allocate()
        run.initialise()
        inner = run.new_strategy()
        inner.compile(Silent())
        plan, _ = distributed_words.plan_of(inner, ClusterSettings(), ClusterSize(1, 1))
        yield run, inner, plan


def started(plan: Any, n: int) -> list[Any]:
    """n workers of one thread each, started."""
    workers = [Worker(plan, 1) for _ in range(n)]
    for worker in workers:
        worker.start()
    return workers


def run_command(job: Job, files: dict[str, str]) -> Result:
    """Seconds of training of the command, without a cluster or on one of this machine, and its
    held-out log-likelihood.
    """
    with contextlib.ExitStack() as opened:
        options: list[str] = []
        if job["workers"]:
            cluster = opened.enter_context(one_machine(job["workers"] * job["threads"]))
            options = ["--cluster", cluster, "--workers", str(job["workers"])]
        scratch = opened.enter_context(tempfile.TemporaryDirectory())
        command = [
            sys.executable,
            "-m",
            "embedx",
            "train",
            files["text"],
            "--output",
            str(Path(scratch, "model")),
            "--threads",
            str(job["threads"]),
            "--epochs",
            str(job["epochs"]),
            "--heldout",
            "1%",
            "--cache-dir",
            files["tokens"],
            "--seed",
            str(job["seed"]),
            "--json",
            *options,
        ]
        completed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        facts = json.loads(completed.stdout)
        vectors = load(str(Path(scratch, "model")))
        set_scores = words.score_items(vectors, word_tests.tests(files.get("data")))
    kept = {
        name: facts[name] for name in ("seconds", "words_trained", "words_per_second", "heldout")
    }
    return {**kept, "cluster": facts.get("cluster"), **word_tests.pooled(set_scores)}


@contextlib.contextmanager
def one_machine(cpus: int) -> Iterator[str]:
    """The address of a Ray cluster of this machine alone."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": cpus,
            "include_dashboard": False,
            "object_store_memory": 1_000_000_000,
        },
    )
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


def measure_costs(job: Job, files: dict[str, str]) -> Result:
    """The costs of `cluster_model.py`; and how many rows a range changes, measured and as expected
    from `uses`, the blocks that update a row, per word: a sample of all rows, the most used first.
    """
    options = {"threads": 1, "seed": 1, "epochs": 1}
    with prepared("ns", options, files["text"], files) as (task, inner, plan):
        lr = float(task.config.settings.learning_rate or 0)
        ranges = timed_ranges(job, inner, plan, lr)
        uses = np.sort(np.concatenate(uses_of_tables(inner, plan.kept_share)))[::-1]
        draws_per_word = inner.plan.n_draws / blocks.max_centres(inner.plan)
    n_words = sum(facts["words"] for facts in ranges)
    medians = ("merged", "added", "gathered", "row_bytes", "rows_changed")
    return {
        **{name: median_of.median(facts[name] for facts in ranges) for name in medians},
        "words_per_second": n_words / sum(facts["seconds"] for facts in ranges),
        "rows_expected": rows_changed(uses, n_words / len(ranges)),
        "rows": len(uses),
        **costs_of_calls(),
        "uses": uses[:: max(len(uses) // USES_ON_RECORD, 1)].tolist(),
        "draws_per_word": draws_per_word,
    }


def timed_ranges(job: Job, inner: Any, plan: Any, lr: float) -> list[dict[str, float]]:
    """What `timed_range` returns for ranges that two workers train in turn, without the first range
    of each.
    """
    server = plan.server(inner)
    workers = started(plan, 2)
    for worker in workers:
        server.add(worker, worker.merge(server.remote_delta(worker)))
    n_chunks = min(max(1, job["range_words"] // TOKENS_PER_CHUNK), inner.n_chunks)
    ranges = []
    for turn in range(job["ranges"]):
        first = turn * n_chunks % (inner.n_chunks - n_chunks + 1)
        chunks = range(first, first + n_chunks)
        ranges.append(timed_range(server, workers[turn % len(workers)], chunks, lr))
    return ranges[len(workers) :]


def timed_range(server: Any, worker: Any, chunks: range, lr: float) -> dict[str, float]:
    """Seconds and words of a range, the rows that it changed, the bytes of each, and the seconds
    that a row takes to be gathered, merged and added.
    """
    tally, seconds = worker.train_range(0, chunks, lr)
    start = perf_counter()
    remote = server.remote_delta(worker)
    gathered = perf_counter()
    local = worker.merge(remote)
    merged = perf_counter()
    server.add(worker, local)
    added = perf_counter()
    n_local = n_rows(local)
    return {
        "seconds": seconds,
        "words": tally.items,
        "rows_changed": n_local,
        "row_bytes": n_bytes(local) / n_local,
        "gathered": (gathered - start) / n_rows(remote),
        "merged": (merged - gathered) / n_local,
        "added": (added - merged) / n_local,
    }


def n_rows(deltas: Any) -> int:
    """Rows of all tables, at least 1."""
    return max(sum(len(delta.row) for delta in deltas.values()), 1)


def uses_of_tables(inner: Any, kept_share: np.ndarray) -> list[np.ndarray]:
    """(n_rows,) of the inputs and of the outputs: the expected number of blocks that update each
    row, per word of the corpus, with those that draw it.
    """
    rates = distributed_words.update_rates(inner, kept_share)
    n_blocks = float(kept_share.sum()) / blocks.max_centres(inner.plan)
    share_drawn = -np.expm1(inner.plan.n_draws * np.log1p(-inner.sampler.noise))
    outputs = np.minimum(rates["outputs"] + n_blocks * share_drawn, n_blocks)
    return [rates["inputs"], outputs]


def costs_of_calls() -> dict[str, float]:
    """Medians of the seconds of a call of a worker that does nothing (`latency`), and of those for
    each byte that goes there or comes back (`moved`).
    """
    import ray

    class Echo:
        def call(self, rows: Any = None) -> Any:
            return None if rows is None else rows + np.float32(1)

    rows = np.ones(BYTES_OF_CALL // 4, np.float32)
    with one_machine(1) as address:
        ray.init(address=address, log_to_driver=False)
        echo = ray.remote(Echo).remote()
        ray.get(echo.call.remote())
        latency = median_seconds(lambda: ray.get(echo.call.remote()), CALLS)
        with_rows = median_seconds(lambda: ray.get(echo.call.remote(rows)), CALLS_WITH_ROWS)
        ray.shutdown()
    addition = median_seconds(lambda: rows + np.float32(1), CALLS_WITH_ROWS)
    return {"latency": latency, "moved": (with_rows - latency - addition) / (2 * rows.nbytes)}


def median_seconds(function: Callable[[], Any], n: int) -> float:
    """The median of the seconds of n calls."""
    seconds = []
    for _ in range(n):
        start = perf_counter()
        function()
        seconds.append(perf_counter() - start)
    return median_of.median(seconds)


# ---- tables


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
        seconds = median_of.median(result["seconds"] for result in results)
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
                    median_of.median(result["words_per_second"] for result in results)
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
        measured = median_of.median(run["result"]["words_per_second"] for run in runs)
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


EXPERIMENT = Experiment(
    name="cluster",
    title="Workers on a cluster beside one machine",
    choices={"section": ("quality", "time", "costs"), "objective": OBJECTIVES},
    jobs=jobs,
    measure=measure,
    prepare=prepare,
    tables={
        "quality": quality,
        "time": time,
        "costs": costs,
        "checked": checked,
        "predicted": predicted,
    },
    plots={},
    settings={
        "corpus": None,
        "megabytes": 10.0,
        "epochs": 5,
        "passes": 5,
        "seeds": 3,
        "repetitions": 3,
        "range_words": 400_000,
        "ranges": 40,
    },
    quick={
        "megabytes": 1.0,
        "epochs": 1,
        "passes": 1,
        "seeds": 1,
        "repetitions": 1,
        "range_words": 20_000,
        "ranges": 6,
    },
    packages=("ray",),
    mixed=True,
)
