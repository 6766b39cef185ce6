"""What a measuring process of `cluster` does: a function for each kind of job."""

import contextlib
import json
import statistics
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
from eval import word_tests
from eval.cluster_model import rows_changed
from eval.records import Job, Result

CALLS = 200  # of a worker that does nothing
CALLS_WITH_ROWS = 20  # of one that returns as many bytes as it gets
BYTES_OF_CALL = 32_000_000
USES_ON_RECORD = 2000  # rows whose uses are on record, one of so many


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
        **{name: statistics.median(facts[name] for facts in ranges) for name in medians},
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
    return statistics.median(seconds)
