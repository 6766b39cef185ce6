"""One measurement of `subwords.py` in a process of its own: prints one line of JSON.

python -m eval.subwords_process JOB FILES BEGAN      JOB and FILES are JSON objects
"""

import collections
import dataclasses
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from eval import word_tests
from eval.speed_process import fasttext_model, run_embedx
from eval.under_test import load, word_sets, words

RARE = 50  # a word that occurs less often is rare
Job = dict[str, Any]
Files = dict[str, str]


def quality(job: Job, files: Files) -> dict[str, Any]:
    """The pooled similarity of each group of word pairs."""
    with tempfile.TemporaryDirectory() as scratch:
        vectors = trained(job, files, Path(scratch))
        tests = word_tests.tests(Path(files["data"]) if "data" in files else None)
        pairs = [test for test in tests if isinstance(test, word_sets.SimilarityPairs)]
        answers = words.score(vectors, pairs, oov=True)
    counts = collections.Counter(Path(files["lines"]).read_text().upper().split())
    found = grouped(answers, counts, job["min_count"], with_unseen=bool(job["ngrams"]))
    groups = {name: word_tests.pooled(chosen) for name, chosen in found.items()}
    return {"groups": {name: found["pooled"] for name, found in groups.items() if found}}


def grouped(answers: list[Any], counts: collections.Counter[str], min_count: int, with_unseen: bool) -> dict[str, list[Any]]:
    """What was made of the pairs of each group, the others left out; `counts` are of words in upper case. With n-grams a pair
    that a model says nothing of counts as unrelated, so that all models are scored on the same pairs.
    """
    found: dict[str, list[Any]] = {}
    for each in answers:
        rarer = np.array([min(counts[word.upper()] for word in pair) for pair in each.test.words])
        chosen = {"seen": rarer >= min_count, "rare": (rarer >= min_count) & (rarer < RARE)}
        if with_unseen:
            chosen |= {"unseen": rarer < min_count, "all": np.ones(len(rarer), bool)}
        values = np.nan_to_num(each.values) if with_unseen else each.values
        for name, is_in in chosen.items():
            found.setdefault(name, []).append(dataclasses.replace(each, values=np.where(is_in, values, np.nan)))
    return found


def trained(job: Job, files: Files, scratch: Path) -> Any:
    """Word vectors, with their n-grams; fastText's through its own file."""
    if job["tool"] == "embedx":
        return run_embedx(with_options(job), files["lines"], scratch)[0]
    fasttext_model(job, files, job["epochs"])[0].save_model(str(scratch / "model.bin"))
    return load(str(scratch / "model.bin"))


def with_options(job: Job) -> Job:
    return job | {"options": {"subwords": "{}-{}".format(*job["ngrams"])} if job["ngrams"] else {}}


def speed(job: Job, files: Files) -> dict[str, Any]:
    """Seconds of reading and training together, and of training alone; of fastText by a second call without an epoch."""
    if job["tool"] == "fasttext":
        total, before = (fasttext_model(job, files, epochs)[1] for epochs in (job["epochs"], 0))
        return {"total": total, "training": total - before}
    with tempfile.TemporaryDirectory() as scratch:
        begun = time.perf_counter()
        _, watch = run_embedx(with_options(job), files["lines"], Path(scratch))
        total = time.perf_counter() - begun
    started, ended = watch.stages["training"]
    return {"total": total, "training": ended - started}


if __name__ == "__main__":
    job, files = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    print(json.dumps({"quality": quality, "speed": speed}[job["kind"]](job, files)))
