"""Try random cases for some minutes: python -m tests.fuzz --minutes 60 [--target NAME ...] [--seed
N]

Prints each finding once, by the last line of its traceback, and how many inputs were tried. One
case again, with its file: python -m tests.fuzz --case TARGET:SEED --keep FOLDER
"""

import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import typer

from .run import run, tried
from .targets import TARGETS

OUTCOMES = ("read", "refused", "findings")


def main(
    minutes: float = 1,
    target: list[str] | None = None,
    seed: int = int(time.time()),
    case: str = "",
    keep: Path = Path("fuzz-case"),
):
    """Try cases of each --target, others with each seed; or one --case in this process, whose files
    go to a new folder.
    """
    if case:
        keep.mkdir()
        refusal, problem = tried(*case.split(":", 1), keep)
        print(problem or refusal or "read")
        sys.exit(problem != "")
    names = target or list(TARGETS)
    counts = Counter()
    findings = set()
    for case, refusal, problem in run(cases_for(minutes, names, seed)):
        name = case.partition(":")[0]
        outcome = outcome_of(refusal, problem)
        counts.update([(name, outcome), ("all", outcome)])
        if problem and (name, last_line(problem)) not in findings:
            findings.add((name, last_line(problem)))
            print(f"---- {case}\n{problem.strip()}", flush=True)
    for name in (*names, "all"):
        columns = [f"{counts[name, outcome]:8,} {outcome}" for outcome in OUTCOMES]
        print(f"{name:16}", *columns)
    sys.exit(len(findings) > 0)


def cases_for(minutes: float, names: list[str], seed: int) -> Iterator[str]:
    """A case of each target in turn, TARGET:SEED, until the time is over."""
    end = time.monotonic() + 60 * minutes
    for n in itertools.count():
        for name in names:
            if time.monotonic() >= end:
                return
            yield f"{name}:{seed}-{n}"


def last_line(problem: str) -> str:
    """The beginning of the last line of a traceback."""
    return problem.strip().splitlines()[-1][:60]


def outcome_of(refusal: str, problem: str) -> str:
    """What came of a case."""
    if problem:
        return "findings"
    return "refused" if refusal else "read"


if __name__ == "__main__":  # not in the process that tries cases
    typer.run(main)
