"""Try random cases for some minutes: python -m tests.fuzz --minutes 60 [--target NAME ...] [--seed N]

Prints each finding once, by the last line of its traceback, and how many inputs were tried. One case again, with its file:
python -m tests.fuzz --case TARGET:SEED --keep FOLDER
"""

import argparse
import itertools
import sys
import time
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
    known = set()

    def tell(case, wrong):
        last = (case.partition(":")[0], wrong.strip().splitlines()[-1][:60])
        if last not in known:
            known.add(last)
            print(f"---- {case}\n{wrong.strip()}", flush=True)

    report = run(itertools.takewhile(lambda _: time.monotonic() < end, endless), tell)
    for target, n in report.tried.items():
        bad = sum(case.startswith(f"{target}:") for case, _ in report.findings)
        print(f"{target:16} {n:8,} tried {report.read[target]:8,} read {bad:8,} findings")
    print(f"{'all':16} {report.tried.total():8,} tried {report.read.total():8,} read {len(report.findings):8,} findings")
    return bool(report.findings)


sys.exit(main())
