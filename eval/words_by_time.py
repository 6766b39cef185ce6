"""Word vectors by processor time: one run in a process of its own (`eval.process`), by one thread.

Seconds are those of the thread that trains, chunk by chunk: text, compilation and measuring do not
count.
"""

import time
from pathlib import Path
from typing import Any

from embedx.evaluation import words
from embedx.runtime.progress import SILENT
from embedx.skipgram.configuration import configure
from embedx.skipgram.reading import read_corpora
from embedx.skipgram.run import WordVectorsRun
from embedx.training import life
from eval import word_tests
from eval.records import Job, Result

REPORTED = ("WordSim-353", "SimLex-999", "Google analogies")


class Stopwatch:
    """Counts the processor time of a strategy's chunks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def wrap(self, strategy: Any) -> Any:
        """The strategy, whose run ends where it diverges."""
        train_chunk = strategy.train_chunk

        def timed(*arguments: Any) -> Any:
            start = time.thread_time()
            tally = train_chunk(*arguments)
            self.seconds += time.thread_time() - start
            return tally

        strategy.train_chunk = timed
        strategy.is_guarded = False
        return strategy


def train(job: Job, files: dict[str, str]) -> Result:
    """Held-out log-likelihood, that of frequencies, and scores on packaged test sets."""
    options = {"heldout": 0.01, "threads": 1, **job["options"]}
    config = configure(job["objective"], options)
    stopwatch = Stopwatch()
    with read_corpora([files["text"]], config, SILENT, Path(files["tokens"])) as encoded:
        run = WordVectorsRun.resolved(encoded, config, SILENT)
        run.wrap = stopwatch.wrap
        vectors = life.train_model(run, None).model
    answers = words.score_items(vectors, word_tests.tests(files.get("data")))
    scores = {answer.test.name: answer.score for answer in answers}
    return {
        "seconds": stopwatch.seconds,
        "heldout": vectors.facts["heldout"],
        "scores": {name: scores[name] for name in REPORTED if name in scores},
    }
