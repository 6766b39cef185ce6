"""One measurement of `scale.py` in a process of its own: prints one line of JSON.

python -m eval.scale_process JOB FILES BEGAN      JOB and FILES are JSON objects
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from eval.speed_process import bytes_in, run_embedx, watched_memory
from eval.under_test import Silent, TextSettings, encode, recipe_defaults

Job = dict[str, Any]
Files = dict[str, str]


def train(job: Job, files: Files) -> dict[str, Any]:
    """Seconds of each stage, the most memory that is not file-backed, and bytes on disk."""
    with tempfile.TemporaryDirectory(dir=files["folder"]) as folder, watched_memory() as most:
        cache = Path(folder) / "cache"
        vectors, watch = run_embedx(job, files["generated"], cache)
        stages = {title: end - start for title, (start, end) in watch.stages.items()}
        start = time.perf_counter()
        vectors.save(Path(folder) / "model")
        stages["saving"] = time.perf_counter() - start
        encoded, model = (bytes_in(Path(folder) / name) for name in ("cache", "model"))
        types = sum(file.stat().st_size // 8 for file in cache.rglob("counts.npy"))
    facts = vectors.facts
    return {
        "stages": stages, "anonymous": most[0], "encoded": encoded, "model": model, "text": os.path.getsize(files["generated"]),
        "tokens": facts["corpus_tokens"], "trained": facts["words_trained"], "vocabulary": len(vectors), "types": types,
    }  # fmt: skip


def read(job: Job, files: Files) -> dict[str, Any]:
    """On so many cores of those there are, with as many threads, or processes of gensim's."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job["cores"]])
    return (read_embedx if job["tool"] == "embedx" else read_gensim)(files[job["form"]], job["cores"])


def read_embedx(file: str, threads: int) -> dict[str, Any]:
    """Nothing is in the token cache; the kernels are compiled on a line of text before."""
    with tempfile.TemporaryDirectory() as folder:
        line = Path(folder) / "line.txt"
        line.write_text("a line of text")
        for name in (str(line), file):
            settings = TextSettings.from_options(recipe_defaults([name]))
            start = time.perf_counter()
            with encode(name, settings, Silent(), Path(folder) / "cache", threads=threads) as corpus:
                found = {"seconds": time.perf_counter() - start, "tokens": corpus.n_tokens}
    return found


def read_gensim(file: str, threads: int) -> dict[str, Any]:
    """WikiCorpus with as many processes; it leaves out short articles, and words of one letter."""
    from gensim.corpora.wikicorpus import WikiCorpus

    start = time.perf_counter()
    tokens = sum(len(text) for text in WikiCorpus(file, processes=threads, dictionary={}).get_texts())
    return {"seconds": time.perf_counter() - start, "tokens": tokens}


if __name__ == "__main__":
    job, files = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    print(json.dumps({"train": train, "read": read}[job["kind"]](job, files)))
