"""One measurement of `cluster.py` in a process of its own: prints one line of JSON.

python -m eval.cluster_process JOB FILES      JOB and FILES are JSON objects

Workers of `quality` are in this process and train in turn, by the code that runs on a cluster: each merges after its range with
what the others have learned since its turn before. That is what as many machines of one speed do, whatever this one has.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from eval import word_tests
from eval.cluster_model import rows_changed
from eval.under_test import (
    ChunkRange,
    Silent,
    Tally,
    TextSettings,
    Worker,
    WorkerState,
    configure,
    distributed_words,
    encode,
    load,
    n_bytes,
    skipgram,
    words,
)

Job = dict[str, Any]


def quality(job: Job, files: dict[str, str]) -> dict[str, Any]:
    """Held-out log-likelihood and pooled similarity after workers in turn, and the bytes that they exchanged."""
    options = {"threads": 1, "heldout": 0.01, "seed": job["seed"], "epochs": job["epochs"]}
    with prepared(job["objective"], options, files["beginning"], files) as (task, inner, plan):
        settings, server = task.settings, plan.server(inner)
        workers, states = started(plan, job["workers"])
        total = inner.n_chunks * int(settings.epochs)
        each = max(1, round(total / len(workers) / job["merges"]))
        tally, travelled, merge_seconds, seconds = Tally(), 0, 0.0, 0.0
        steps = [(epoch, first) for epoch in range(int(settings.epochs)) for first in range(0, inner.n_chunks, each)]
        for turn, (epoch, first) in enumerate(steps):
            worker, state = workers[turn % len(workers)], states[turn % len(workers)]
            if (initial := server.initial(state)) is not None:
                worker.overwrite(initial)
            chunks = range(first, min(first + each, inner.n_chunks))
            rates = [
                float(settings.learning_rate or 0) * (1 - (epoch + at / inner.n_chunks) / settings.epochs)
                for at in (chunks.start, chunks.stop)
            ]
            done, taken = worker.train(ChunkRange(epoch, chunks, *rates, 1.0))
            assert done is not None
            tally += done
            begun = time.perf_counter()
            remote = server.remote_delta(state)
            local = worker.merge(remote)
            server.add(state, local)
            merge_seconds += time.perf_counter() - begun
            seconds += taken
            travelled += n_bytes(remote) + n_bytes(local)
        vectors = task.model(None)
        answers = words.score(vectors, word_tests.tests(Path(files["data"]) if "data" in files else None))
        return {
            "heldout": task.heldout_metrics(), "loss": tally.mean_loss, "words": tally.words, "range_words": each * 10_000,
            "bytes_per_word": travelled / tally.words, "merge_seconds": merge_seconds, "seconds": seconds, "merges": len(steps),
            "vocabulary": len(task.words), "rows": len(inner.tables.inputs.rows) + len(inner.tables.outputs.rows),
            **word_tests.pooled(answers),
        }  # fmt: skip


@contextlib.contextmanager
def prepared(objective: str, options: dict[str, Any], text: str, files: dict[str, str]) -> Iterator[tuple[Any, Any, Any]]:
    """A run on a text that is about to begin, how it would train on one machine, and how on workers."""
    with encode([text], TextSettings(), Silent(), Path(files["tokens"]), threads=1) as corpus:
        task = skipgram.prepared(corpus, configure(objective, options), Silent())
        task.initialise()
        inner = task.strategy()
        inner.compile(Silent())
        yield task, inner, distributed_words.plan_of(task, inner)


def started(plan: Any, n: int) -> tuple[list[Any], list[Any]]:
    """So many workers of one thread, and what the server knows of them."""
    workers = [Worker(plan, 1) for _ in range(n)]
    for worker in workers:
        worker.start()
    return workers, [WorkerState(number) for number in range(n)]


def run(job: Job, files: dict[str, str]) -> dict[str, Any]:
    """Seconds of training of the command, without a cluster or on one of this machine, and its held-out log-likelihood."""
    with contextlib.ExitStack() as opened:
        options: list[str] = []
        if job["workers"]:
            cluster = opened.enter_context(one_machine(job["workers"] * job["threads"]))
            options = ["--cluster", cluster, "--workers", str(job["workers"])]
        scratch = opened.enter_context(tempfile.TemporaryDirectory())
        command = [
            sys.executable, "-m", "embedx", "train", files["text"], "--output", str(Path(scratch, "model")),
            "--threads", str(job["threads"]), "--epochs", str(job["epochs"]), "--heldout", "1%", "--cache-dir", files["tokens"],
            "--seed", str(job["seed"]), "--json", *options,
        ]  # fmt: skip
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        facts = json.loads(done.stdout)
        vectors = load(str(Path(scratch, "model")))
        answers = words.score(vectors, word_tests.tests(Path(files["data"]) if "data" in files else None))
    kept = {name: facts[name] for name in ("seconds", "words_trained", "words_per_second", "heldout")}
    return {**kept, "cluster": facts.get("cluster"), **word_tests.pooled(answers)}


@contextlib.contextmanager
def one_machine(cpus: int) -> Iterator[str]:
    """The address of a Ray cluster of this machine alone."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": cpus, "include_dashboard": False, "object_store_memory": 1_000_000_000},
    )
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


def costs(job: Job, files: dict[str, str]) -> dict[str, Any]:
    """What it takes to merge, to add and to gather a row, to call a worker, and to train a word by one thread; and how often
    rows are used, as the sums of `cluster_model.rows_changed` for ranges of several lengths.
    """
    with prepared("ns", {"threads": 1, "seed": 1, "epochs": 1}, files["text"], files) as (task, inner, plan):
        rate, server = float(task.settings.learning_rate or 0), plan.server(inner)
        workers, states = started(plan, 2)
        for worker, state in zip(workers, states, strict=True):
            worker.overwrite(server.initial(state))
        spent: dict[str, list[float]] = {name: [] for name in ("merged", "added", "gathered", "trained")}
        changed, bytes_of_row, n_words = [], [], 0
        per_range = int(job["range_words"]) // 10_000
        for turn in range(int(job["ranges"])):
            worker, state = workers[turn % 2], states[turn % 2]
            first = turn * per_range % (inner.n_chunks - per_range)
            tally, seconds = worker.train(ChunkRange(0, range(first, first + per_range), rate, rate, 1.0))
            assert tally is not None
            moments = [time.perf_counter()]
            remote = server.remote_delta(state)
            moments.append(time.perf_counter())
            local = worker.merge(remote)
            moments.append(time.perf_counter())
            server.add(state, local)
            moments.append(time.perf_counter())
            if turn < 2:
                continue
            n_remote, n_local = (max(sum(len(each.row) for each in of.values()), 1) for of in (remote, local))
            gathered, merged, added = np.diff(moments)
            spent["gathered"].append(gathered / n_remote)
            spent["merged"].append(merged / n_local)
            spent["added"].append(added / n_local)
            spent["trained"].append(seconds)
            n_words += tally.words
            changed.append(n_local)
            bytes_of_row.append(n_bytes(local) / n_local)
        uses = np.concatenate(list(updated(inner, plan).values()))
        n_rows = len(uses)
    return {
        **{name: float(np.median(values)) for name, values in spent.items() if name != "trained"},
        "words_per_second": n_words / sum(spent["trained"]), "row_bytes": float(np.median(bytes_of_row)),
        "rows_changed": float(np.median(changed)), "rows_expected": rows_changed(uses, n_words / len(changed)), "rows": n_rows,
        **of_calls(), "uses": np.sort(uses)[::-1][:: max(n_rows // 2000, 1)].tolist(),
        "draws_per_word": float(task.settings.draws or 0) / max(task.settings.block_size, 1),
    }  # fmt: skip


def updated(inner: Any, plan: Any) -> dict[str, np.ndarray]:
    """How often each row is updated for a word, by what is drawn for its block too."""
    uses, n_blocks = plan.update_rates(inner), float(plan.kept_share.sum()) / inner.plan.block_size
    drawn = n_blocks * -np.expm1(inner.plan.n_draws * np.log1p(-inner.sampler.noise))
    return {**uses, "outputs": np.minimum(uses["outputs"] + drawn, n_blocks)}


def of_calls() -> dict[str, float]:
    """Seconds of a call of a worker that does nothing, and for each byte that goes there or comes back; medians of many."""
    import ray

    with one_machine(1) as address:
        ray.init(address=address, log_to_driver=False)

        class Nothing:
            def call(self, value: Any = None) -> Any:
                return None if value is None else value + np.float32(1)

        actor = ray.remote(Nothing).remote()
        ray.get(actor.call.remote())
        rows = np.ones(8_000_000, np.float32)
        spent: list[list[float]] = [[], []]
        for seconds, n, values in zip(spent, (200, 20), ((), (rows,)), strict=True):
            for _ in range(n):
                begun = time.perf_counter()
                ray.get(actor.call.remote(*values))
                seconds.append(time.perf_counter() - begun)
        ray.shutdown()
    latency, moved = map(float, map(np.median, spent))
    begun = time.perf_counter()
    rows + np.float32(1)
    return {"latency": latency, "moved": (moved - latency - (time.perf_counter() - begun)) / (2 * rows.nbytes)}


KINDS = {"quality": quality, "run": run, "costs": costs}

if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    found = KINDS[job["kind"]](job, json.loads(sys.argv[2]))
    print(json.dumps(found, default=lambda value: value.tolist() if isinstance(value, np.ndarray) else float(value)))
