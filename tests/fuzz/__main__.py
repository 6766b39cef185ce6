"""Try random cases for some minutes: python -m tests.fuzz --minutes 60 [--target NAME ...] [--seed N]

Prints each finding once, by the last line of its traceback, and how many inputs were tried. One case again, with its file:
python -m tests.fuzz --case TARGET:SEED --keep FOLDER
"""

import argparse
import itertools
import sys
import time
from collections import Counter
from pathlib import Path

from .run import run, tried
from .targets import TARGETS


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--target", action="append", choices=TARGETS, help="all, if not given; may be given several times")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="other cases with each")
    parser.add_argument("--case", help="TARGET:SEED, to be tried in this process")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-case"), help="a new folder for the files of that case")
    given = parser.parse_args()
    if given.case:
        given.keep.mkdir()
        target, _, seed = given.case.partition(":")
        line, wrong = tried(target, seed, given.keep)
        print(wrong or line or "read")
        return bool(wrong)

    end = time.monotonic() + 60 * given.minutes
    endless = (f"{target}:{given.seed}-{n}" for n in itertools.count() for target in given.target or TARGETS)
    counts, known = Counter(), set()
    for case, line, wrong in run(itertools.takewhile(lambda _: time.monotonic() < end, endless)):
        target = case.partition(":")[0]
        outcome = "findings" if wrong else "refused" if line else "read"
        counts.update([(target, outcome), ("all", outcome)])
        if wrong and (last := (target, wrong.strip().splitlines()[-1][:60])) not in known:
            known.add(last)
            print(f"---- {case}\n{wrong.strip()}", flush=True)
    for target in (*(given.target or TARGETS), "all"):
        print(f"{target:16}", *(f"{counts[target, each]:8,} {each}" for each in ("read", "refused", "findings")))
    return bool(known)


if __name__ == "__main__":  # not in the process that tries cases
    sys.exit(main())
