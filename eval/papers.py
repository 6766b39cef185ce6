"""The experiments of the papers, by their own protocols, beside the numbers that they printed.

    python eval/papers.py augment-and-reduce
    python eval/papers.py one-vs-each unbiased-softmax --quick

Each experiment writes a page with tables `paper | ours | difference` and its plots to eval/results/. The data lie where
$EMBEDX_DATA/xc or --data points; they are not always the papers' own splits, and each page says so beside the numbers.
"""

import argparse
import importlib
import os
from pathlib import Path

EXPERIMENTS = {
    "augment-and-reduce": "papers_augment_and_reduce",
    "ldgs": "papers_ldgs",
    "one-vs-each": "papers_one_vs_each",
    "unbiased-softmax": "papers_unbiased_softmax",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=EXPERIMENTS)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("EMBEDX_DATA", "data")) / "xc")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--only", nargs="*", default=None, help="sections of the experiment; by default all")
    parser.add_argument("--quick", action="store_true", help="a few iterations of everything, to see that it runs")
    parser.add_argument("--report-only", action="store_true", help="write the page from the records that are there")
    parser.add_argument("--corpus", help="of ldgs: a text, by default 100 MB of Wikipedia beside the data")
    parser.add_argument("--seconds", type=float, help="of ldgs: train no longer than this for a curve, by default 15 minutes")
    arguments = parser.parse_args()
    more = {name: value for name in ("corpus", "seconds") if (value := getattr(arguments, name)) is not None}
    if more and arguments.names != ["ldgs"]:
        parser.error("--corpus and --seconds are for ldgs alone")
    for name in arguments.names:
        experiment = importlib.import_module(EXPERIMENTS[name])
        experiment.run(arguments.data, arguments.results, arguments.only, arguments.quick, arguments.report_only, **more)


if __name__ == "__main__":
    main()
