"""The raw records of `speed.py` and what is decided from them: gensim's best feed and rate, the setting for the headline.

The raw file has a JSON object a line. An *environment* tells of the machine, the versions and the corpus; a *record* of one
measurement: its environment, the job with every setting, when it ended, and the result. A record is written the moment it is
there, so whatever was measured before an interruption is kept.
"""

import base64
import datetime
import json
import statistics
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedx.evaluation import words

DEFAULT = "embedx"  # the name of the contender with all defaults

# How much worse than gensim the lower end of a 95 % interval may be for a setting to count as of equal quality.
MARGINS = {"WordSim-353": 0.01, "SimLex-999": 0.01, "Google analogies": 0.01}


def packed(values: np.ndarray) -> str:
    """An array as text; float32 is what gensim's cosines are."""
    return base64.b32encode(zlib.compress(values.astype(np.float32).tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray:
    """float64 (items,)"""
    return np.frombuffer(zlib.decompress(base64.b32decode(text)), np.float32).astype(np.float64)


class Records:
    """What was measured in one environment, the newest in the file unless another is given."""

    def __init__(self, path: Path, environment: dict[str, Any] | None = None) -> None:
        self.path = path
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
        known = [line["environment"] for line in lines if "job" not in line]
        if environment is None and not known:
            raise SystemExit(f"{path}: no records there; run without --report-only first")
        self.environment: dict[str, Any] = environment or known[-1]
        self.id = self.environment["id"]
        self.records = [line for line in lines if "job" in line and line["environment"] == self.id]
        if self.environment not in known:
            self._append({"environment": self.environment})
            known.append(self.environment)
        self.commands = dict.fromkeys(each["command"] for each in known if each["id"] == self.id)  # that measured all this

    def _append(self, line: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def add(self, job: dict[str, Any], result: dict[str, Any], sources: str) -> None:
        """Keep a result; `sources` is a hash of the embedx that was measured."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        record = {"environment": self.id, "job": job, "ended": now, "sources": sources, "result": result}
        self.records.append(record)
        self._append(record)

    def have(self, job: dict[str, Any]) -> bool:
        return any(record["job"] == job for record in self.records)

    def find(self, **wanted: Any) -> list[dict[str, Any]]:
        """The records whose job has these values."""
        return [r for r in self.records if all(r["job"].get(name) == value for name, value in wanted.items())]

    def values(self, name: str, **wanted: Any) -> list[float]:
        """One number of each such record's result."""
        return [record["result"][name] for record in self.find(**wanted)]

    @property
    def sources(self) -> set[str]:
        """The states of embedx that the records speak of; more than one if it was edited on the way."""
        return {record["sources"] for record in self.records}


def median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


# ---- the peers at their best


def best_feed(records: Records, threads: int, epochs: int) -> str:
    """gensim's feed with the least time for a run of so many epochs, what comes before training included or not (epochs 0)."""

    def seconds(record: dict[str, Any]) -> float:
        result = record["result"]
        return float(result["training"] if epochs == 0 else result["before"] + epochs * result["training"])

    timed = records.find(kind="train", tool="gensim", threads=threads, purpose="feed")
    if not timed:
        raise ValueError(f"gensim's feeds were not timed at {threads} threads")
    return str(min(timed, key=seconds)["job"]["feed"])


def full_runs(records: Records, tool: str, name: str | None = None) -> list[dict[str, Any]]:
    """The runs at the full number of epochs whose quality was measured, by a tool or one of its variants."""
    wanted = {"name": name} if name else {}
    return records.find(kind="train", tool=tool, purpose="full", **wanted)


def mean_scores(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    return {test: statistics.fmean(run["result"]["scores"][test] for run in runs) for test in runs[0]["result"]["scores"]}


def tuned_gensim(records: Records) -> list[dict[str, Any]]:
    """gensim's runs at its better learning rate: the one with the higher sum of the three mean scores."""
    runs = full_runs(records, "gensim")
    by_rate = {rate: [run for run in runs if run["job"]["alpha"] == rate] for rate in {run["job"]["alpha"] for run in runs}}
    return max(by_rate.values(), key=lambda some: sum(mean_scores(some).values()), default=[])


# ---- quality


def differences(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> list[words.Difference]:
    """On each test, how much better our runs are than theirs, paired by item."""
    tests = words.default_tests()

    def answers(run: dict[str, Any]) -> list[words.Answers]:
        values = map(unpacked, run["result"]["answers"])
        return [words.Answers(test, each, float("nan"), {}) for test, each in zip(tests, values, strict=True)]

    a, b = [answers(run) for run in ours], [answers(run) for run in theirs]
    return [words.paired_difference([x[i] for x in a], [x[i] for x in b]) for i in range(len(tests))]


def as_good(found: Sequence[words.Difference]) -> bool:
    """Whether no interval reaches below the margin."""
    return all(each.interval[0] > -MARGINS[each.test] for each in found)


def rate(record: dict[str, Any], corpus_words: int) -> float:
    """Words of the corpus trained per second: the same numerator for everybody."""
    return float(corpus_words * record["job"]["epochs"] / record["result"]["training"])


def headline(records: Records) -> str | None:
    """The fastest variant of embedx that is as good as gensim; None if there is none, or too little was measured."""
    gensim, corpus_words = tuned_gensim(records), records.environment["corpus"]["words"]
    names = dict.fromkeys(run["job"]["name"] for run in full_runs(records, "embedx"))
    good = [name for name in names if gensim and as_good(differences(full_runs(records, "embedx", name), gensim))]

    def speed(name: str) -> float:
        return statistics.median(rate(run, corpus_words) for run in full_runs(records, "embedx", name))

    return max(good, key=speed, default=None)
