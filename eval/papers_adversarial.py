"""Bamler & Mandt 2020, "Extreme classification via adversarial softmax approximation": accuracy and likelihood against time.

Data: EURLex-4.3K (first label, the leading principal components of its features), next-word, enwiki-cat (first label,
likewise) and generated clusters, whose labels are pairs of two independent parts, so that no tree describes them. For each
contender and data set the rate is the one that makes validation rows likeliest after a share of the time; then it trains for
all the time, and after each epoch accuracy and log-likelihood are measured on these and on test rows. Time is that of
training, the fitting of the noise included, measuring left out.
"""

import functools
import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from eval import corpus, papers
from eval import papers_ldgs_data as sources
from eval.experiment import Experiment, Run
from eval.page import DASH, figure, number, table
from eval.records import Job, Record, Records, Result
from eval.under_test import DivergedError, Labeled, Labels, chosen_labels, usable_cores

CONTENDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "adversarial": ("ns", {"sampler": "adversarial"}),
    "uniform": ("ns", {"sampler": "uniform", "replacement": True}),
    "frequency": ("ns", {"sampler": "unigram", "sampler_exponent": 1.0, "replacement": True}),
    "NCE": ("nce", {"sampler": "unigram", "sampler_exponent": 1.0, "replacement": True}),
    "A&R": ("ar", {"sampler": "uniform"}),
    "OVE": ("ove", {"sampler": "uniform"}),
}
DATA = ("eurlex", "next-word", "enwiki-cat", "clusters")
RATES = (0.003, 0.01, 0.03, 0.1, 0.3)  # of adagrad, the paper's optimiser
NEGATIVES, BATCH = 1, 100  # the paper draws one negative for each positive
COMPONENTS = 512
REFERENCE = "uniform"
QUICKER = 10  # how many times sooner the target has its best accuracy reached


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    """Of each data set and contender the rates, then the curve at the best."""
    for data in run.chosen("data"):
        for name in run.chosen("contender"):
            key = {"data": data, "contender": name, "seconds": run.settings.seconds}
            yield from (key | {"what": "rate", "rate": rate} for rate in RATES)
            best = best_rate(run.records, key)
            if best is not None:
                yield key | {"what": "curve", "rate": best}


def best_rate(records: Records, key: Job) -> float | None:
    """The rate under which validation rows are likeliest; None where all diverged."""
    tried = {each["job"]["rate"]: each["result"]["log_likelihood"] for each in records.find(**key, what="rate")}
    able = {rate: value for rate, value in tried.items() if value is not None}
    return max(able, key=lambda rate: able[rate], default=None)


# ---- data


def principal_components(training: Any, others: list[Any], k: int) -> list[np.ndarray]:
    """float32 (n, k) for each: along the leading right singular vectors of the training rows, by a randomised range finder
    (Halko et al. 2011, algorithm 4.4, two iterations), to root mean square 1.
    """
    x = training.features
    k = min(k, x.shape[1], len(training))
    sketch = np.random.default_rng(0).standard_normal((x.shape[1], min(k + 10, x.shape[1])), dtype=np.float32)
    basis = np.linalg.qr(x @ sketch)[0]
    for _ in range(2):
        basis = np.linalg.qr(x @ np.linalg.qr(x.T @ basis)[0])[0]
    directions = np.linalg.svd(np.asarray(x.T @ basis).T, full_matrices=False)[2][:k].T
    found = [np.asarray(each.features @ directions, dtype=np.float32) for each in (training, *others)]
    scale = np.sqrt(np.mean(np.square(found[0])))
    return [each / scale for each in found]


def reduced(run: Run, name: str) -> tuple[Any, Any]:
    """Training and test rows with their first labels and principal components; test rows of labels seen in training."""
    train, test = papers.load(run.data, name, run.quick)
    ids = [chosen_labels(half.labels, "first").ids for half in (train, test)]
    features = principal_components(train, [test], run.settings.components)
    seen = np.isin(ids[1], ids[0])
    return (
        Labeled(features[0], Labels.single(ids[0]), train.n_labels),
        Labeled(features[1][seen], Labels.single(ids[1][seen]), train.n_labels),
    )


def clusters(n_labels: int, n: int, n_test: int) -> tuple[Any, Any]:
    """Rows about the centres of labels, whose frequencies follow Zipf's law. A centre is the sum of two parts out of about
    sqrt(n_labels) each: labels are near each other in two ways at once, which is no hierarchy.
    """
    rng, dim = np.random.default_rng(1), 64
    side = math.isqrt(n_labels - 1) + 1
    first, second = (sources.unit(rng.standard_normal((side, dim), dtype=np.float32)) for _ in range(2))
    order = rng.permutation(n_labels)
    ids = order[sources.zipf(n_labels, n_labels / 100, n + n_test, rng)]
    noise = rng.standard_normal((n + n_test, dim), dtype=np.float32) * np.float32(0.5 / np.sqrt(dim))
    features = (first[ids // side] + second[ids % side] + noise) * np.float32(np.sqrt(dim / 2.25))
    return tuple(Labeled(features[rows], Labels.single(ids[rows]), n_labels) for rows in (slice(n), slice(n, None)))  # type: ignore[return-value]


@functools.lru_cache(maxsize=1)
def data_of(run: Run, name: str) -> tuple[Any, Any, Any]:
    """Training, validation and test rows."""
    own = run.settings
    if name == "next-word":
        found = sources.next_word(str(corpus.of(run)), *own.positions, run.quick)
        training, test = found.training, found.test
    elif name == "clusters":
        training, test = clusters(own.labels, own.rows, own.test_rows)
    else:
        training, test = reduced(run, {"eurlex": "eurlex-4.3k"}.get(name, name))
    order = np.random.default_rng(2).permutation(len(training))
    n_validation = min(own.test_rows, len(training) // 10)
    some = np.random.default_rng(3).permutation(len(test))[: own.test_rows]
    return training.rows(order[n_validation:]), training.rows(order[:n_validation]), test.rows(some)


# ---- measurements


def measure(run: Run, job: Job) -> Result:
    """At a rate, for a share of the time: the last log-likelihood. At the best, for all of it: a point after each epoch."""
    training, validation, test = data_of(run, job["data"])
    share = run.settings.rate_share if job["what"] == "rate" else 1.0
    points: list[dict[str, float]] = []
    spent = 0.0  # on measuring
    began = time.monotonic()

    def watch(classifier: Any, epoch: int, _: float) -> dict[str, float]:
        nonlocal spent
        now = time.monotonic()
        point = {"epoch": epoch + 1.0, "seconds": now - began - spent}
        for half, rows in (("validation", validation), ("test", test)) if job["what"] == "curve" else ():
            found = classifier.evaluate(rows)
            point |= {f"{half} {name}": found[name] for name in ("accuracy", "log_likelihood")}
        points.append(point)
        spent += time.monotonic() - now
        return {}

    objective, options = CONTENDERS[job["contender"]]
    negatives = {"negatives": NEGATIVES}
    options = options | negatives | {
        "learning_rate": job["rate"], "optimizer": "adagrad", "schedule": "constant", "batch_size": BATCH, "epochs": 10**6,
        "threads": usable_cores(), "time_budget": share * job["seconds"],
    }  # fmt: skip
    try:
        trained = papers.fit(training, objective, options, watch=watch)
    except DivergedError:
        return {"log_likelihood": None, "points": []}
    found = trained.classifier.evaluate(validation)
    return {"log_likelihood": found["log_likelihood"], "accuracy": found["accuracy"], "points": points}


# ---- tables and pictures


def curves(records: Records) -> dict[str, dict[str, Record]]:
    """The last curve of each contender, by data set."""
    found: dict[str, dict[str, Record]] = {}
    for data in DATA:
        of = {each["job"]["contender"]: each for each in records.find(data=data, what="curve") if each["result"]["points"]}
        if of:
            found[data] = {name: of[name] for name in CONTENDERS if name in of}
    return found


def best_point(each: Record) -> dict[str, float]:
    """The point of best validation accuracy."""
    return max(each["result"]["points"], key=lambda point: point["validation accuracy"])


def reached(each: Record, accuracy: float) -> float | None:
    """Seconds until the validation accuracy was as good; None if it never was."""
    return next((point["seconds"] for point in each["result"]["points"] if point["validation accuracy"] >= accuracy), None)


def results(records: Records) -> str:
    """Each contender at its best point by validation accuracy, and how soon it was as good as the reference ever was."""
    rows = []
    for data, of in curves(records).items():
        bar = best_point(of[REFERENCE]) if REFERENCE in of else None
        for name, each in of.items():
            best = best_point(each)
            row = {"data": data, "contender": name, "rate": f"{each['job']['rate']:g}", "epochs": f"{best['epoch']:.0f}",
                   "seconds": f"{best['seconds']:.1f}", "test accuracy": number(best["test accuracy"]),
                   "test log-likelihood": number(best["test log_likelihood"])}  # fmt: skip
            if bar is not None:
                at = reached(each, bar["validation accuracy"])
                row[f"best of {REFERENCE} reached after"] = DASH if at is None else f"{at:.1f} s"
                row["times sooner"] = DASH if at is None else f"{bar['seconds'] / at:.1f}"
            rows.append(row)
    return table(rows)


def plot(records: Records) -> Any:
    """Test accuracy and log-likelihood against time, a panel of each for each data set, like the paper's figure 1."""
    found = curves(records)
    if not found:
        return None
    picture, panels = figure(4 * 2 * len(found), 3.6, 2 * len(found), dpi=70)
    for k, (data, of) in enumerate(found.items()):
        for axes, measured in zip(panels[2 * k : 2 * k + 2], ("test accuracy", "test log_likelihood"), strict=True):
            for name, each in of.items():
                points = each["result"]["points"]
                axes.plot([point["seconds"] for point in points], [point[measured] for point in points], label=name)
            axes.set(xscale="log", xlabel="seconds", title=f"{data}, {measured.replace('_', '-')}")
    panels[0].legend(fontsize=7)
    return picture


EXPERIMENT = Experiment(
    name="papers-adversarial",
    title="Bamler & Mandt 2020, adversarial softmax approximation",
    choices={"data": DATA, "contender": tuple(CONTENDERS)},
    settings={"seconds": 60.0, "rate_share": 0.1, "components": COMPONENTS, "positions": (500_000, 20_000, 0.01),
              "corpus": None, "labels": 200_000, "rows": 500_000, "test_rows": 2_000},
    quick={"seconds": 1.0, "rate_share": 0.5, "components": 8, "positions": (3_000, 300, 0.1), "labels": 300, "rows": 2_000,
           "test_rows": 100},
    jobs=jobs,
    measure=measure,
    tables={"results": results},
    plots={"": plot},
    mixed=True,
)  # fmt: skip
