"""The runs on record that `speed` compares: each trainer at its best learning rate, gensim with its
fastest feed (the form in which it gets the corpus).
"""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from eval.records import Job, Record, Records
from eval.speed_process import PROGRAMS

DEFAULT = "embedx, defaults"  # the contender with all defaults
# variants of embedx; the values are options of `embedx train`
CONTENDERS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "embedx, bounded-adagrad": {"optimizer": "bounded-adagrad"},
    "embedx, sgd, blocks of 8 words": {"optimizer": "sgd", "block_size": 8},
    "embedx, sgd, 5 fresh negatives for each pair": {"optimizer": "sgd", "block_size": 0},
}
MANY_SEEDS = (DEFAULT,)  # contenders whose quality is measured with many seeds
RATES = (0.025, 0.05, 0.1)  # of every trainer but embedx
THREADS = (1, 2)
BEGINNINGS = {"peers": 20, "quality": 30, "objectives": 30}  # megabytes of the corpus
# of the section on quality: this and all of it
TEXTS: tuple[dict[str, Any], ...] = ({"megabytes": BEGINNINGS["quality"]}, {})
POOLED = "pooled similarity"
FEED_TRIAL = "feed"  # purpose of the jobs that time gensim's feeds


def best_feed(records: Records, threads: int, epochs: int, **text: Any) -> str:
    """The feed with which gensim is fastest: in a run of so many epochs from its start, or if they
    are 0 in training alone.
    """

    def seconds(record: Record) -> float:
        result = record["result"]
        return float(
            result["training"] if epochs == 0 else result["before"] + epochs * result["training"]
        )

    timed = runs_of(records, "gensim", FEED_TRIAL, threads=threads, **text)
    if not timed:
        raise SystemExit(
            f"gensim's feeds were not timed at {threads} threads: gensim takes part in this section"
        )
    return str(min(timed, key=seconds)["job"]["feed"])


def runs_of(records: Records, tool: str, purpose: str, **job: Any) -> list[Record]:
    """Training runs for a purpose, on the whole corpus unless `megabytes` are given."""
    return records.find(kind="train", tool=tool, purpose=purpose, **{"megabytes": None} | job)


def mean_scores(runs: Sequence[Record]) -> dict[str, float]:
    return {
        test: statistics.fmean(record["result"]["scores"][test] for record in runs)
        for test in runs[0]["result"]["scores"]
    }


def tuned_gensim(records: Records, **text: Any) -> list[Record]:
    """gensim's runs for quality at its best learning rate: the one with the highest sum of three
    scores with the first seed.
    """
    runs = runs_of(records, "gensim", "quality", **text)
    first = [
        record
        for record in runs
        if record["job"]["seed"] == min(run["job"]["seed"] for run in runs)
    ]
    best = max(first, key=lambda record: sum(mean_scores([record]).values()), default=None)
    return [record for record in runs if best and record["job"]["alpha"] == best["job"]["alpha"]]


def rate(records: Records, runs: Iterable[Record]) -> float:
    """Words of the text trained per second, the median of some runs: the same numerator for
    everybody.
    """
    about = records.environment["corpus"]

    def n_words(job: Job) -> int:
        return int(
            about[f"words of {job['megabytes']} MB"] if "megabytes" in job else about["words"]
        )

    return float(
        statistics.median(
            n_words(record["job"]) * record["job"]["epochs"] / record["result"]["training"]
            for record in runs
        )
    )


def best_of_peers(records: Records, tool: str, threads: int, **job: Any) -> Record | None:
    """The run with the highest pooled similarity of those of the section on peers."""
    runs = records.find(kind="train", purpose="peers", tool=tool, threads=threads, **job)
    return max(
        runs, key=lambda record: record["result"].get("pooled", {}).get("score", 0.0), default=None
    )


def best_peers(records: Records) -> list[Record]:
    """The run at the best rate of each trainer and number of threads."""
    best = [
        best_of_peers(records, tool, threads)
        for threads in THREADS
        for tool in ("gensim", *PROGRAMS)
    ]
    best += [
        best_of_peers(records, "embedx", threads, name=name)
        for threads in THREADS
        for name in CONTENDERS
    ]
    return [record for record in best if record]
