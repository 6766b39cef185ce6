"""One measurement of `cluster.py` in a process of its own: prints one line of JSON.

python -m eval.cluster_process JOB FILES      JOB and FILES are JSON objects

Workers of `quality` are in this process and train in turn, by the code that runs on a cluster: each merges after its range with
what the others have learned since its turn before. That is what as many machines of one speed do, whatever this one has.
"""

import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from embedx import objectives
from embedx.cluster import copies
from embedx.cluster.shared import Common, Place, n_bytes
from embedx.cluster.worker import Range, Worker
from embedx.run.progress import Silent
from embedx.run.tally import Tally
from embedx.settings import TextSettings, VocabularySettings
from embedx.skipgram import settings as streaming
from embedx.skipgram import task as skipgram
from embedx.skipgram.on_cluster import strategy_for
from embedx.skipgram.tables import empty_tables
from embedx.text.encode import encode
from eval import word_tests
from eval.under_test import words

Job = dict[str, Any]


def quality(job: Job, files: dict[str, str]) -> dict[str, Any]:
    """Held-out log-likelihood and pooled similarity after workers in turn, and the bytes that they exchanged."""
    if "way" in job:
        copies.WAY = job["way"]
    if job.get("whole_floats"):
        copies.LARGEST_HALF = 0.0
    options = {"threads": 1, "heldout": 0.01, "seed": job["seed"], "epochs": job["epochs"]}
    settings, objective = streaming.chosen(objectives.find(job["objective"]), options)
    with encode([files["beginning"]], TextSettings(), Silent(), Path(files["tokens"]), threads=1) as corpus:
        task = skipgram.prepared(corpus, objective, settings, {}, TextSettings(), VocabularySettings(), Silent())
        task.initialise()
        inner = task.strategy()
        inner.kept_share = task.kept_share()
        inner.compile(Silent())
        common = Common(inner.parameters())
        workers = [Worker(lambda threads: copied(task, threads), 1) for _ in range(job["workers"])]
        places = [Place(number) for number in range(len(workers))]
        total = inner.n_stretches * int(settings.epochs)
        each = max(1, round(total / len(workers) / job["merges"]))
        tally, travelled, merge_seconds, seconds = Tally(), 0, 0.0, 0.0
        steps = [(epoch, first) for epoch in range(int(settings.epochs)) for first in range(0, inner.n_stretches, each)]
        for turn, (epoch, first) in enumerate(steps):
            worker, place = workers[turn % len(workers)], places[turn % len(workers)]
            if place.told is None:
                worker.begin(common.everything(place))
            share = (epoch + first / inner.n_stretches) / settings.epochs
            stretches = range(first, min(first + each, inner.n_stretches))
            done, taken = worker.train(Range(epoch, stretches, float(settings.learning_rate or 0) * (1 - share), 1.0))
            assert done is not None
            tally += done
            begun = time.perf_counter()
            news = common.news(place)
            changes = worker.merge(news)
            common.add(place, changes)
            merge_seconds += time.perf_counter() - begun
            seconds += taken
            travelled += n_bytes(news) + n_bytes(changes)
        vectors = task.model(None)
        answers = words.score(vectors, word_tests.tests(Path(files["data"]) if "data" in files else None))
        return {
            "heldout": task.heldout_metrics(), "loss": tally.mean_loss, "words": tally.words, "range_words": each * 10_000,
            "bytes_per_word": travelled / tally.words, "merge_seconds": merge_seconds, "seconds": seconds, "merges": len(steps),
            "vocabulary": len(task.words), "rows": int(sum(len(table.rows) for table in inner.parameters().tables.values())),
            **word_tests.pooled(answers),
        }  # fmt: skip


def copied(task: Any, threads: int) -> Any:
    """What a worker trains: the run's stream, on tables of its own."""
    settings = dataclasses.replace(task.settings, threads=threads)
    tables = empty_tables(task.objective, settings, len(task.words))
    made = strategy_for(task.objective, settings, task.sampler, task.warm_up, tables, task.stream())
    made.kept_share = task.kept_share()
    return made


if __name__ == "__main__":
    found = quality(json.loads(sys.argv[1]), json.loads(sys.argv[2]))
    print(json.dumps(found, default=lambda value: value.tolist() if isinstance(value, np.ndarray) else float(value)))
