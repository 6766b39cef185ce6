"""What the experiments of papers.py share: data sets, a run with its metrics, records on disk, tables."""

import json
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from embedx.classifier import Classifier

import embedx
from embedx import classify, folder, objectives
from embedx.labeled.data import Labeled
from embedx.labeled.known import Known
from embedx.labeled.read import read, read_training

FILES = {
    "mnist": (
        ("mnist/train-images-idx3-ubyte.gz", "mnist/train-labels-idx1-ubyte.gz"),
        ("mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz"),
    ),
    "bibtex": (("bibtex/train.txt.gz", None), ("bibtex/test.txt.gz", None)),
    "omniglot": (("omniglot/train.txt.gz", None), ("omniglot/test.txt.gz", None)),
    "eurlex-4.3k": (("eurlex-4.3k/train.txt.gz", None), ("eurlex-4.3k/test.txt.gz", None)),
}


def load(data: Path, name: str) -> tuple[Labeled, Labeled, Known]:
    """Training data, test data, and what the latter are read like."""
    (train, train_labels), (test, test_labels) = FILES[name]

    def full(file: str | None) -> str | None:
        return str(data / file) if file else None

    training, known = read_training(str(data / train), full(train_labels))
    return training, read(str(data / test), full(test_labels), like=known), known


def fit(
    training: Labeled, objective: str, options: dict[str, Any], watch: Callable[..., dict[str, float]] | None = None
) -> classify.Trained:
    """Train one classifier; `options` are settings of the task and of the objective together."""
    found = objectives.find(objective)
    return classify.train(
        training,
        found(found.Settings.from_options(options)),
        classify.ClassifySettings.from_options(options),
        watch=watch,
    )


class Records:
    """What was measured, one JSON object a line, kept the moment it is there; a key is measured only once."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.found = {}
        if file.exists():
            for line in file.read_text().splitlines():
                record = json.loads(line)
                self.found[json.dumps(record["key"], sort_keys=True)] = record["value"]

    def get(self, key: dict[str, Any], measure: Callable[[], dict[str, Any]] | None) -> dict[str, Any] | None:
        """The value for `key`: recorded, or measured now; None if it is not there and `measure` is None."""
        text = json.dumps(key, sort_keys=True)
        if text not in self.found and measure is not None:
            started = time.monotonic()
            value = measure()
            self.found[text] = value
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a") as out:
                out.write(json.dumps({"key": key, "value": value}) + "\n")
            print(f"{text}: {time.monotonic() - started:.1f} s", flush=True)
        return self.found.get(text)


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def commit() -> str:
    """What is checked out."""
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()


def provenance(command: str) -> str:
    """Command, version and machine, for the foot of a page, which may be younger than its records."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.processor())
    return (
        f"Command: `{command}`; embedx {folder.installed_version()}, Python {platform.python_version()}, {cpu}. Page written "
        f"at {commit()} on {time.strftime('%Y-%m-%d')}; each record was measured by the code of its time, that or "
        "earlier.\n"
    )


__all__ = ["FILES", "Classifier", "Labeled", "Records", "commit", "embedx", "fit", "load", "provenance", "table"]
