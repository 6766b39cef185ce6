"""What a run of papers_unbiased_softmax trains on, and what it measures."""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from embedx.errors import DivergedError
from embedx.labeled.data import Labeled
from embedx.labeled.scaling import unit_rows
from eval import papers_unbiased_published
from eval.experiment import Run
from eval.papers import fit, load, numbered, some_rows
from eval.papers_unbiased_jobs import BASELINES, DECAY, METHODS, OTHERS, PUBLISHED, PUBLISHED_M
from eval.records import Job, Result

# training rows taken at random: as many as the paper has of EURLex, AmazonCat-13K and Wiki-small
ROWS = {"eurlex-4.3k": 15_539, "amazoncat-13k": 100_000, "lshtc-wiki-small": 90_737}
MAX_TEST_ROWS = 100_000  # taken at random too
MAX_FEATURES = 10_000  # the first ones
# training rows by which curves are drawn, where all would take long
CURVE_ROWS = {"eurlex-4.3k": 1_500}
BLOCK_ROWS = 1000


# ---- data


@functools.lru_cache(maxsize=1)
def prepared(folder: Path | None, name: str, quick: bool = False) -> tuple[Any, Any]:
    """Training rows and test rows, of length 1: the first label of each, classes that training
    knows numbered from 0, as many rows as ROWS and MAX_TEST_ROWS allow.
    """
    training, test = (with_few_features(half) for half in load(folder, name, quick))
    training = some_rows(training, ROWS.get(name, len(training)))
    test = some_rows(test, MAX_TEST_ROWS)
    return tuple(
        Labeled(unit_rows(half.features), half.labels, half.n_labels)
        for half in numbered(training, test)
    )


def with_few_features(data: Labeled) -> Labeled:
    """The rows with their first MAX_FEATURES features; those that have none of these are left
    out.
    """
    if data.n_features <= MAX_FEATURES:
        return data
    kept = data.features[:, :MAX_FEATURES]
    rows = np.flatnonzero(np.diff(kept.indptr))
    return Labeled(kept[rows], data.labels.rows(rows), data.n_labels)


def part(training: Any, share: float) -> Any:
    """A share of the training rows, chosen at random; a larger share has the rows of a
    smaller one.
    """
    n = len(training)
    if share < 1:
        return training.rows(np.sort(np.random.default_rng(2).permutation(n)[: int(share * n)]))
    return training


# ---- measurements


def measure(run: Run, job: Job) -> Result:
    training, test = prepared(run.data_folder, job["data"], run.quick)
    if job["share"] < 1:
        return measured(part(training, job["share"]), None, job, 0)
    return measured(training, test, job, CURVE_ROWS.get(job["data"], len(training)))


def measured(data: Any, test: Any | None, job: Job, n_curve_rows: int) -> Result:
    """Train, and measure on the training data, at ten epochs on the way on some of them, and on
    test data.
    """
    if job["method"] in PUBLISHED:
        return measured_as_published(data, test, job)
    epochs = job["epochs"]
    method = (METHODS | OTHERS | BASELINES)[job["method"]]
    curve_data = data if n_curve_rows >= len(data) else data.rows(np.arange(n_curve_rows))
    curve: list[list[float | None]] = []

    def watch(classifier: Any, epoch: int, seconds: float) -> dict[str, float]:
        if (epoch + 1) % max(1, epochs // 10) == 0 and n_curve_rows:
            curve.append([epoch + 1, losses(classifier.scores, curve_data)["log_loss"]])
        return {}

    options = {
        "labels": "first",
        "bias": "none",
        "optimizer": "sgd",
        "schedule": "constant",
        "sampler": "uniform",
        "threads": 1,
        "batch_size": method.n,
        "negatives": method.m,
        "epochs": epochs,
        "seed": job["seed"],
        "learning_rate": job["rate"] * method.n,
        "decay": job.get("decay", DECAY),
    } | dict(method.settings)
    try:
        trained = fit(data, method.objective, options, watch=watch)
    except DivergedError:
        return {"diverged": True, "curve": curve}
    scores = trained.classifier.scores
    result = {
        "curve": curve,
        "seconds": round(trained.outcome.seconds, 2),
        "train": losses(scores, data),
    }
    return result | ({"test": losses(scores, test)} if test is not None else {})


def measured_as_published(data: Any, test: Any | None, job: Job) -> Result:
    """`measured` of the published U-max, at the end alone."""
    began = time.process_time()
    weights = papers_unbiased_published.train(
        csr_matrix(data.features),
        data.labels.ids,
        data.n_labels,
        form=PUBLISHED[job["method"]],
        rate=job["rate"],
        decay=DECAY,
        epochs=job["epochs"],
        m=PUBLISHED_M,
        seed=job["seed"],
        first_u=float(np.log(data.n_labels)) if job["start"] == "log K" else 0.0,
    )
    seconds = round(time.process_time() - began, 2)

    def scores(features: Any) -> np.ndarray:
        return np.asarray(features @ weights.T)

    result = {"seconds": seconds, "train": losses(scores, data)}
    return result | ({"test": losses(scores, test)} if test is not None else {})


def losses(scores: Callable[[Any], np.ndarray], data: Any) -> dict[str, float | None]:
    """Log-loss and error of softmax(scores), and the log-loss of softmax(softmax(scores)), which
    the paper's baselines got.

    None stands for what is no number, after the scores have left float32.
    """
    loss = doubled = 0.0
    wrong = 0
    with np.errstate(all="ignore"):
        for start in range(0, len(data), BLOCK_ROWS):
            y = data.labels.ids[start : start + BLOCK_ROWS]
            z = scores(data.features[start : start + BLOCK_ROWS]).astype(np.float64)
            wrong += int((z.argmax(axis=1) != y).sum())
            z -= z.max(axis=1, keepdims=True)
            score_of_label = z[np.arange(len(y)), y]
            p = np.exp(z)
            total = p.sum(axis=1)
            loss += float((np.log(total) - score_of_label).sum())
            p /= total[:, None]
            doubled += float((np.log(np.exp(p).sum(axis=1)) - p[np.arange(len(y)), y]).sum())
    metrics = {
        "log_loss": loss / len(data),
        "error": wrong / len(data),
        "doubled": doubled / len(data),
    }
    return {name: value if np.isfinite(value) else None for name, value in metrics.items()}
