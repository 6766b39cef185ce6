"""Fits by several threads of one process, which begin each at the same moment: run by
test_concurrent_fits in a process where no kernel is loaded yet.
"""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from embedx import SkipGram, SoftmaxClassifier
from embedx.objectives import OBJECTIVES

N_THREADS = 4
SENTENCES = [["cat", "dog", "fur"], ["car", "road", "wheel", "car"]] * 10


def fit_words(objective):
    model = SkipGram(objective, dim=4, epochs=1, threads=1, min_count=1, sample=0.0, seed=3)
    return model.fit(SENTENCES).transform([["cat"]]).tobytes()


def fit_labels(objective):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(40, 3))
    labels = rng.integers(0, 3, 40)
    model = SoftmaxClassifier(objective, learning_rate=0.1, epochs=1, n_jobs=1, random_state=3)
    return model.fit(rows, labels).decision_function(rows).tobytes()


def main():
    """Print what went wrong, as JSON: for each fit its task, objective, round and error."""
    barrier = threading.Barrier(N_THREADS)
    wrong = []
    models = {}

    def fit_all(thread):
        for round_of_fits in ("first", "later"):
            for fit in (fit_labels, fit_words):
                for objective in OBJECTIVES:
                    barrier.wait()
                    try:
                        model = fit(objective)
                    except Exception as error:
                        wrong.append((fit.__name__, objective, round_of_fits, repr(error)))
                        continue
                    if models.setdefault((fit.__name__, objective), model) != model:
                        wrong.append((fit.__name__, objective, round_of_fits, "another model"))

    with ThreadPoolExecutor(N_THREADS) as pool:
        list(pool.map(fit_all, range(N_THREADS)))
    json.dump(wrong, sys.stdout)
