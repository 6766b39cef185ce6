"""Trains at far too high rates: `python -m tests.diverging TEXT --data bibtex.txt --seconds 200`.

Every objective is trained at 1,000, 10,000 and 100,000 times its default learning rate, on text and on labelled data. A run has
to end with finite parameters that predict better than how often each word or label occurs, or as one that diverged. Prints how
each ended, and by how much it was better: nats a pair of held-out text, or the share of examples whose first label is right.
Word vectors of an objective that has no probabilities of its own need not be better.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np

from embedx.errors import DivergedError
from embedx.labeled.data import Labeled
from embedx.labeled.digits import digits
from embedx.labeled.read import read_training
from embedx.objectives import OBJECTIVES
from tests.test_guard import TIMES, labels_at, words_at


def of_words(name: str, times: float, text: str, dim: int) -> tuple[list[float], bool, float]:
    """The rates that a run was lowered to, whether its parameters are finite, and how much better it is."""
    vectors, outcome, _ = words_at(name, [text], times, dim=dim)
    outcome.raise_reason()
    found = vectors.facts["heldout"]
    better = max(found["log_likelihood"], found["calibrated"]) - found["unigram"]
    if OBJECTIVES[name].calibrated is False:
        better = float("inf")
    return outcome.lowered_rates, all(np.isfinite(array).all() for array in vectors.arrays.values()), better


def of_labels(name: str, times: float, data: Labeled) -> tuple[list[float], bool, float]:
    """The same."""
    classifier, outcome, _ = labels_at(name, data, times)
    outcome.raise_reason()
    found = classifier.evaluate(data)
    better = found.get("accuracy", found["p@1"]) - classifier.counts.max() / len(data)
    return outcome.lowered_rates, all(np.isfinite(array).all() for array in classifier.arrays.values()), better


def tried(run: Callable[[], tuple[list[float], bool, float]]) -> tuple[str, bool]:
    """How a run ended, and whether it may end so."""
    try:
        lowered, is_finite, better = run()
    except DivergedError as error:
        return f"diverged: {error}", True
    except Exception as error:
        return f"{type(error).__name__}: {error}", False
    rates = ", ".join(f"{rate:.3g}" for rate in lowered) or "as it was"
    return f"{better:+.4f}, rate {rates}", is_finite and better > 0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("text")
    parser.add_argument("--data", help="labelled data; by default drawn digits")
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--only", default="", help="runs whose name has this in it")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="the last run begins before that")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore", ".*encountered in", RuntimeWarning)
    data = read_training(asked.data) if asked.data else digits()[0]
    began, wrong = time.monotonic(), 0
    for name in OBJECTIVES:
        for times in TIMES:
            runs = {
                f"train {name} {times:g}": lambda name=name, times=times: of_words(name, times, asked.text, asked.dim),
                f"classify {name} {times:g}": lambda name=name, times=times: of_labels(name, times, data),
            }
            for run_name, run in runs.items():
                if asked.only in run_name and time.monotonic() - began < asked.seconds:
                    printed, is_well = tried(run)
                    wrong += not is_well
                    print(f"{run_name}: {'' if is_well else 'WRONG: '}{printed}", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
