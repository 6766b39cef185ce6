"""Metric learning: are rows of labels that were never trained near the other rows of their label,
and do scores by distance help there?

    omniglot      characters by their pixels
    eurlex-4.3k   documents by their words, the first label of each
    enwiki-cat    pages by their words, the first category of each

Labels with at least two rows are divided at random: three fifths are trained, a fifth chooses the
learning rate, a fifth is the test. A hidden layer is trained by inner products and by distances
(`--score`); each row of the test labels is a query, whose nearest others, by the hidden layer, are
looked at. Rates are searched for by factors of three until the best one is at no edge.
"""

import functools
import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import vstack

from embedx.labeled.data import Labeled, Labels
from embedx.labeled.label_rules import chosen_labels
from eval import papers
from eval.experiment import Experiment, Run
from eval.page import mean_and_deviation, number, table
from eval.records import Job, Records, Result

DATA = ("omniglot", "eurlex-4.3k", "enwiki-cat")
CONTENDERS = ("softmax", "ldgs", "ns", "ar", "ove")
SCORES = ("inner-product", "euclidean")
# What is compared: the angle between two rows, or their distance.
MEASURES = ("cosine", "distance")
NEAREST = (1, 5)
# Of `embedx classify`, for rows of length 1: 0.4 with a hidden layer.
FIRST_RATE = 0.12
TRAINED, CHOOSING = 0.6, 0.8
BLOCK = 500
OPTIONS = {
    "hidden": 64,
    "weights": "dense",
    "neighbours": "none",
    "initial_gradient": 4.0,
    "threads": 1,
}
FULL = {"rows": 10_000, "queries": 3_000, "epochs": 10, "seeds": 3}
QUICK = {"rows": 200, "queries": 100, "epochs": 1, "seeds": 2}


# ---- data


class Parts(NamedTuple):
    """Rows to train on, whose labels are numbered anew, and those of the labels that choose the
    rate and that are the test.
    """

    training: Labeled
    choosing: Labeled
    test: Labeled


@functools.lru_cache(maxsize=1)  # one at a time
def parts_of(run: Run, name: str) -> Parts:
    """A data set, of which some rows are taken at random."""
    halves = papers.load(run.data_folder, name, run.quick)
    labels = [chosen_labels(half.labels, "first") for half in halves]
    features = vstack([half.features for half in halves]).tocsr()
    row = np.flatnonzero(np.concatenate([part.n_of_row for part in labels]))
    label = np.concatenate([part.ids for part in labels])
    features = features[row].astype(np.float32)
    features *= np.float32(1 / np.sqrt(features.multiply(features).sum(axis=1).mean()))

    rng = np.random.default_rng(1)
    place = rng.random(label.max() + 1)[label]
    is_repeated = np.bincount(label)[label] > 1

    def some_rows(low: float, high: float, n: int) -> Labeled:
        rows = np.flatnonzero((low <= place) & (place < high) & is_repeated)
        rows = np.sort(rng.permutation(rows)[:n])
        known, ids = np.unique(label[rows], return_inverse=True)
        return Labeled(features[rows], Labels.single(ids.astype(np.int32)), len(known))

    settings = run.settings
    return Parts(
        some_rows(0.0, TRAINED, settings.rows),
        some_rows(TRAINED, CHOOSING, settings.queries),
        some_rows(CHOOSING, 1.0, settings.queries),
    )


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    for name in run.chosen("data"):
        yield {"data": name, "what": "features"}
        for contender in run.chosen("contender"):
            for score in run.chosen("score"):
                job = {"data": name, "contender": contender, "score": score}
                yield from search(run, job)
                for seed in range(1, run.settings.seeds + 1):
                    yield job | {"what": "test", "seed": seed}


def search(run: Run, job: Job) -> Iterator[Job]:
    """Runs by rate, beside the best one so far."""

    def at(step: int) -> Job:
        return job | {"what": "rate", "rate": float(f"{FIRST_RATE * 3**step:.2g}")}

    return papers.search_rates(at, lambda job: recall(run.records.get(job)))


def recall(result: Result | None) -> float:
    """The share of queries whose nearest row has their label, by the better measure."""
    if not result or "error" in result:
        return 0.0
    return max(result[measure][0] for measure in MEASURES)


def best_of(records: Records, job: Job) -> dict[str, Any]:
    """The record of the best rate of a contender."""
    key = {name: job[name] for name in ("data", "contender", "score")}
    return max(records.find(**key, what="rate"), key=lambda record: recall(record["result"]))


def measure(run: Run, job: Job) -> Result:
    parts = parts_of(run, job["data"])
    if job["what"] == "features":
        test = parts.test
        return {"labels": parts.training.n_labels, **retrieved(test.features.toarray(), test)}
    by_distance = job["score"] == "euclidean"
    options = OPTIONS | {
        "score": job["score"],
        "bias": "none" if by_distance else "frequency",
        "epochs": run.settings.epochs,
        "negatives": 100 if job["contender"] == "ldgs" else 20,
        "seed": job.get("seed", 1),
    }
    rate = job.get("rate") or best_of(run.records, job)["job"]["rate"]
    try:
        trained = papers.fit(parts.training, job["contender"], options | {"learning_rate": rate})
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    rows = parts.test if job["what"] == "test" else parts.choosing
    h = trained.classifier.hidden_values(rows.features)
    return {"rate": rate, "seconds": trained.outcome.seconds, **retrieved(h, rows)}


def retrieved(h: np.ndarray, rows: Labeled) -> dict[str, Any]:
    """By measure, the shares of queries with a row of their label among the nearest, by how many
    of these are looked at; and the number of queries.
    """
    lengths = np.linalg.norm(h, axis=1, keepdims=True)
    label = rows.labels.ids
    has_others = np.bincount(label)[label] > 1
    recalls: dict[str, Any] = {"queries": int(has_others.sum())}
    for name, x in (("cosine", h / np.maximum(lengths, 1e-12)), ("distance", h)):
        right = np.concatenate([hits(x, label, at) for at in range(0, len(x), BLOCK)])[has_others]
        recalls[name] = [float(right[:, :n].any(axis=1).mean()) for n in NEAREST]
    return recalls


def hits(x: np.ndarray, label: np.ndarray, begin: int) -> np.ndarray:
    """Whether each of the nearest other rows has the label of a row, bool (n, max(NEAREST))."""
    rows = np.arange(begin, min(begin + BLOCK, len(x)))
    closeness = 2 * x[rows] @ x.T - np.square(x).sum(axis=1)
    closeness[np.arange(len(rows)), rows] = -np.inf
    nearest = np.argsort(-closeness, axis=1, kind="stable")[:, : max(NEAREST)]
    return label[nearest] == label[rows, None]


# ---- tables


def tables_of(name: str) -> Any:
    def results(records: Records) -> str:
        rows = [line for contender in CONTENDERS for line in lines(records, name, contender)]
        plain = records.find(data=name, what="features")
        if plain:
            result = plain[0]["result"]
            best = max(MEASURES, key=lambda measure: result[measure][0])
            recalls = {f"R@{n}": number(r) for n, r in zip(NEAREST, result[best], strict=True)}
            rows.append({"objective": "the features themselves", "compared by": best, **recalls})
        return table(rows)

    return results


def lines(records: Records, name: str, contender: str) -> Iterator[dict[str, str]]:
    """A row of the table for each score."""
    for score in SCORES:
        job = {"data": name, "contender": contender, "score": score}
        runs = [record["result"] for record in records.find(**job, what="test")]
        runs = [result for result in runs if "error" not in result]
        if not runs:
            continue
        chosen = best_of(records, job)["result"]
        best = max(MEASURES, key=lambda measure: chosen[measure][0])
        row = {
            "objective": f"`{contender}`",
            "score": score,
            "rate": f"{runs[0]['rate']:g}",
            "compared by": best,
        }
        for place, n in enumerate(NEAREST):
            values = [result[best][place] for result in runs]
            row[f"R@{n}"] = mean_and_deviation(values)
        row["seconds"] = number(statistics.median(result["seconds"] for result in runs), 1)
        yield row


def sizes(records: Records) -> str:
    runs = records.find(what="features")
    return table(
        [
            {
                "data": record["job"]["data"],
                "labels trained": f"{record['result']['labels']:,}",
                "queries": f"{record['result']['queries']:,}",
            }
            for record in runs
        ]
    )


EXPERIMENT = Experiment(
    name="metric-learning",
    title="Metric learning: labels that were not trained",
    choices={"data": DATA, "contender": CONTENDERS, "score": SCORES},
    jobs=jobs,
    measure=measure,
    tables={"sizes": sizes, **{name.partition("-")[0]: tables_of(name) for name in DATA}},
    plots={},
    settings=FULL,
    quick=QUICK,
    needs=lambda run: list(run.chosen("data")),
    mixed=True,
)
