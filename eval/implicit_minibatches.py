"""Does it pay to take the proximal step of a minibatch at once (Fagan & Iyengar 2018, sections 5
and F.3), instead of single steps?

At the minimum of the joint problem each example's own step is that of `implicit`, from the scores
that the steps of the others leave (docs/derivations.md, "A minibatch at once"). So the examples of
a minibatch are taken in turns: the first turn is the sequence of single steps, further turns come
to the joint minimum.

    1 turn, 10 epochs    single steps
    3 turns, 10 epochs   close to the joint step, in three times the solved steps
    1 turn, 30 epochs    single steps, as many

The method is the paper's: no biases, no regularisation, plain SGD whose rate falls by the same
factor over all epochs, u of the proposed double sum, first labels, rows of length 1. A minibatch
draws five classes for each of its examples, and all of them share these.
"""

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse
from threadpoolctl import threadpool_limits

from embedx.kernels.batch import new_batch
from embedx.objectives import OBJECTIVES
from eval import papers_unbiased_runs as paper
from eval.experiment import Experiment, Run
from eval.page import DASH, mean_and_deviation, table
from eval.records import Job, Records, Result

SETS = ("mnist", "bibtex", "eurlex-4.3k")
SIZES = (1, 10, 100)  # examples of a minibatch
# (turns, multiple of the epochs)
CONTENDERS = ((1, 1), (3, 1), (1, 3))
RATES = (1.0, 10.0, 100.0, 1000.0)
DRAWS = 5  # for each example
DECAY = 0.9  # of the rate, over each of the epochs of (1, 1)
FULL = {"rows": 1500, "epochs": 10, "seeds": 3}
QUICK = {"rows": 100, "epochs": 1, "seeds": 1}
IMPLICIT = OBJECTIVES["implicit"]
METHOD = IMPLICIT(IMPLICIT.Settings(double_sum="proposed", negatives=DRAWS))


def jobs(run: Run) -> Iterator[Job]:
    for name in run.chosen("data"):
        for size in SIZES:
            for turns, multiple in CONTENDERS:
                if size == 1 and turns > 1:  # a single step is exact
                    continue
                for rate in RATES:
                    for seed in range(1, run.settings.seeds + 1):
                        yield {
                            "data": name,
                            "size": size,
                            "turns": turns,
                            "epochs": multiple * run.settings.epochs,
                            "rate": rate,
                            "seed": seed,
                        }


@functools.lru_cache(maxsize=1)
def data_of(run: Run, name: str) -> tuple[Any, Any]:
    training, test = paper.prepared(run.data_folder, name, run.quick)
    return paper.part(training, min(run.settings.rows / len(training), 1.0)), test


def measure(run: Run, job: Job) -> Result:
    """Log-losses and errors on training and on test rows."""
    training, test = data_of(run, job["data"])
    decay = DECAY ** (run.settings.epochs / job["epochs"])
    with threadpool_limits(1):  # products are small
        weights = trained(training, job, decay)
    if not np.isfinite(weights).all():
        return {"diverged": True}

    def scores(features: Any) -> np.ndarray:
        return np.asarray(features @ weights.T)

    return {"train": paper.losses(scores, training), "test": paper.losses(scores, test)}


def trained(data: Any, job: Job, decay: float) -> np.ndarray:
    """The weights after all epochs, float64 (n_labels, n_features)."""
    rng = np.random.default_rng(job["seed"])
    weights = np.zeros((data.n_labels, data.n_features))
    state = np.full(len(data), np.nan)
    for epoch in range(job["epochs"]):
        order = rng.permutation(len(data))
        for start in range(0, len(data), job["size"]):
            rows = order[start : start + job["size"]]
            h = data.features[rows]
            h = h.toarray() if issparse(h) else np.asarray(h, float)
            drawn = rng.integers(data.n_labels, size=DRAWS * len(rows))
            lr = job["rate"] * decay**epoch
            state[rows] = step(weights, h, data.labels.ids[rows], drawn, lr, state[rows], job)
    return weights


def step(
    weights: np.ndarray,
    h: np.ndarray,
    labels: np.ndarray,
    drawn: np.ndarray,
    lr: float,
    state: np.ndarray,
    job: Job,
) -> np.ndarray:
    """Update the weights by a minibatch; return its new u.

    h      float64 (n, n_features)
    state  u of each example before; NaN at its first visit
    """
    candidates = np.union1d(labels, drawn)
    counts = np.bincount(np.searchsorted(candidates, drawn), minlength=len(candidates))
    log_expected = np.log(len(drawn) / len(weights))
    place = np.searchsorted(candidates, labels)
    gram = h @ h.T
    before = h @ weights[candidates].T
    first_visit = np.isnan(state)
    state = np.where(first_visit, log_ratio(before, place, counts, log_expected), state)

    coefficients = np.zeros_like(before)
    u = np.zeros(len(h))
    batch = new_batch(1, len(candidates), dtype=np.float64)
    batch.log_expected_count[:] = log_expected
    batch.n_updates[:] = 1
    for _ in range(job["turns"]):
        for e, y in enumerate(place):
            others = gram[e] @ coefficients - gram[e, e] * coefficients[e]
            batch.z[0] = before[e] - lr * others
            batch.label[0] = 0
            batch.label[0, y] = 1
            batch.sample_count[0] = counts
            batch.sample_count[0, y] = 0
            batch.score_gain[:] = gram[e, e]
            u_of_example = np.full((1, 1), state[e], np.float32)
            constants = METHOD.constants(len(drawn), len(weights))
            METHOD.coefficients(batch, u_of_example, constants, 1, len(candidates), lr)
            coefficients[e] = batch.z[0]
            u[e] = u_of_example[0, 0]
    weights[candidates] -= lr * coefficients.T @ h
    return u


def log_ratio(
    z: np.ndarray, place: np.ndarray, counts: np.ndarray, log_expected: float
) -> np.ndarray:
    """The draws' estimate of log Σ_k e^{z_k} - z_y of each example: where its u begins."""
    relative = z - z[np.arange(len(z)), place][:, None]
    weights = np.tile(counts * np.exp(-log_expected), (len(z), 1))
    weights[np.arange(len(z)), place] = 1
    return np.log((weights * np.exp(np.minimum(relative, 60))).sum(axis=1))


# ---- tables


def results_of(name: str) -> Any:
    def results(records: Records) -> str:
        """Test log-loss and error at each rate, by size of the minibatch, turns and epochs."""
        rows = []
        for size in SIZES:
            jobs_of_size = [record["job"] for record in records.find(data=name, size=size)]
            for turns, epochs in dict.fromkeys(
                (job["turns"], job["epochs"]) for job in jobs_of_size
            ):
                about = {"data": name, "size": size, "turns": turns, "epochs": epochs}
                row = {"examples": f"{size}", "turns": f"{turns}", "epochs": f"{epochs}"}
                for part in ("train", "test"):
                    for rate in RATES:
                        found = records.results(**about, rate=rate)
                        row[f"{part}, rate {rate:g}"] = cell(found, part)
                rows.append(row)
        return table(rows)

    return results


def cell(results: list[Result], part: str) -> str:
    """Mean log-loss and its standard deviation over seeds."""
    if not results:
        return DASH
    values = [result.get(part, {}).get("log_loss") for result in results]
    if any(value is None for value in values):
        return "diverged"
    return mean_and_deviation(values)


EXPERIMENT = Experiment(
    name="implicit-minibatches",
    title="The proximal step of a minibatch at once",
    choices={"data": SETS},
    jobs=jobs,
    measure=measure,
    tables={name.partition("-")[0]: results_of(name) for name in SETS},
    plots={},
    settings=FULL,
    quick=QUICK,
    needs=lambda run: list(run.chosen("data")),
    mixed=True,
)
