"""Try random cases for some minutes: python -m tests.fuzz --minutes 60 [--target NAME ...] [--seed
N]

Prints each finding once, by the last line of its traceback, and how many inputs were tried. One
case again, with its file: python -m tests.fuzz --case TARGET:SEED --keep FOLDER
"""

import itertools
import sys
import time
from collections import Counter
from pathlib import Path

import typer

from .run import run, tried
from .targets import TARGETS


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
        line, wrong = tried(*case.split(":", 1), keep)
        print(wrong or line or "read")
        sys.exit(bool(wrong))

    end = time.monotonic() + 60 * minutes
    endless = (
        f"{target_name}:{seed}-{n}" for n in itertools.count() for target_name in target or TARGETS
    )
    counts, known = Counter(), set()
    for case, line, wrong in run(itertools.takewhile(lambda _: time.monotonic() < end, endless)):
        each = case.partition(":")[0]
        outcome = "findings" if wrong else "refused" if line else "read"
        counts.update([(each, outcome), ("all", outcome)])
        if wrong and (last := (each, wrong.strip().splitlines()[-1][:60])) not in known:
            known.add(last)
            print(f"---- {case}\n{wrong.strip()}", flush=True)
    for each in (*(target or TARGETS), "all"):
        print(
            f"{each:16}",
            *(f"{counts[each, kind]:8,} {kind}" for kind in ("read", "refused", "findings")),
        )
    sys.exit(bool(known))


if __name__ == "__main__":  # not in the process that tries cases
    typer.run(main)
