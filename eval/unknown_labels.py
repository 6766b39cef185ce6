"""Do rows of labels that a classifier was not trained on pass a threshold, and how many of the
others do?

A quarter of the labels that occur is left out of training, by chance and by seed: training rows
lose them, and rows without another label leave. Of the test rows those that have a label of the
model are known, the others are not. Classifiers have the defaults of `embedx classify`. A row
passes if its likeliest label has the probability THRESHOLD or more: with `--abstain`, and without.

The set `intents` is CLINC150 (Larson et al. 2019), which has questions of no intent in its test
part: `--set intents=FILE`, its data_full.json, of https://github.com/clinc/oos-eval. All of its
labels are trained.
"""

import csv
import dataclasses
import functools
import itertools
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedx import objectives
from embedx.classification.classifier import Classifier
from embedx.classification.objective_choice import (
    ClassifierConfiguration,
    default_objective,
    new_objective,
)
from embedx.classification.run import ClassifierRun
from embedx.classification.settings import ClassifySettings
from embedx.labeled.data import Labeled
from embedx.labeled.read import read_test, read_training
from embedx.training import life
from eval.defaults_data import MADE_OF, halves
from eval.experiment import Experiment, Run
from eval.page import DASH, number, table
from eval.records import Job, Records, Result, grouped

ABOUT = {
    "intents": "CLINC150: questions of 150 intents; unknown are those of no intent",
    "bibtex-first": "words of references, one label a row",
    "bibtex": "the same, several labels",
    "eurlex-first": "EURLex-4.3K, 9,000 rows, the first label alone",
    "pages": "categories of Wikipedia, the first alone, those that occur twenty times",
    "omniglot": "150 characters by their pixels",
    "mnist": "pixels of digits, 4,000 rows; dense",
    "digits": "8 × 8 pixels; dense",
    "articles": "generated: words of classes that share topics",
}
INTENTS = "intents"
LEFT_OUT = 0.25  # of the labels
THRESHOLD = 0.8
TARGET = 0.05  # of the rows of unknown labels
LABEL_FEATURES = ("default", "positives")
# sets whose labels have weights for all features by default
ALL_FEATURES = (INTENTS, "bibtex-first", "bibtex", "eurlex-first", "articles")


class Rows(NamedTuple):
    """What is trained on, and test rows with and without a label of the model."""

    training: Labeled
    known: Labeled
    unknown: Labeled


def jobs(run: Run) -> Iterator[Job]:
    for name in run.chosen("set"):
        if name == INTENTS and not run.settings.intents:
            continue
        if run.quick and name in MADE_OF:  # too few rows of it to hold some out
            continue
        for features in run.chosen("label-features"):
            if features != LABEL_FEATURES[0] and name not in ALL_FEATURES:
                continue
            for seed in range(1, run.settings.seeds + 1):
                yield {"set": name, "label features": features, "seed": seed}


def needs(run: Run) -> list[str]:
    if run.quick:
        return []
    return [MADE_OF[name] for name in run.chosen("set") if name in MADE_OF]


@functools.lru_cache(maxsize=1)  # one at a time
def rows_of(run: Run, name: str, seed: int) -> Rows:
    if name == INTENTS:
        return intents(Path(run.settings.intents), run.folder)
    training, test = halves(run.data_folder, name)
    counts = np.bincount(training.labels.ids, minlength=training.n_labels)
    occurring = np.flatnonzero(counts)
    rng = np.random.default_rng(seed)
    is_left_out = np.zeros(training.n_labels, bool)
    is_left_out[rng.choice(occurring, round(LEFT_OUT * len(occurring)), replace=False)] = True
    is_known = (counts > 0) & ~is_left_out
    return Rows(
        with_labels(training, is_known),
        with_labels(test, is_known),
        test.rows(np.flatnonzero(~has_label(test, is_known))),
    )


def intents(file: Path, folder: Path) -> Rows:
    """The rows of data_full.json, by tables of texts and labels."""
    parts = json.loads(file.read_text("utf-8"))
    tables = {}
    for part in ("train", "test", "oos_test"):
        tables[part] = folder / f"{part}.csv"
        with tables[part].open("w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([("text", "label"), *parts[part]])
    training = read_training(str(tables["train"]))
    known, unknown = (
        read_test(str(tables[part]), schema=training.schema) for part in ("test", "oos_test")
    )
    return Rows(training, known, unknown)


def has_label(data: Labeled, is_known: np.ndarray) -> np.ndarray:
    """Whether each row has one of these labels, bool (n,)."""
    n_known = np.bincount(
        data.labels.row_of_id, weights=is_known[data.labels.ids], minlength=len(data)
    )
    return np.asarray(n_known > 0)


def with_labels(data: Labeled, is_known: np.ndarray) -> Labeled:
    """The rows that have one of these labels, without others, numbered anew."""
    labels = data.labels.where(is_known[data.labels.ids])
    rows = np.flatnonzero(labels.n_of_row)
    labels = labels.rows(rows)
    new_ids = (np.cumsum(is_known) - 1).astype(labels.ids.dtype)
    labels = dataclasses.replace(labels, ids=new_ids[labels.ids])
    return Labeled(data.features[rows], labels, int(is_known.sum()))


def measure(run: Run, job: Job) -> Result:
    rows = rows_of(run, job["set"], job["seed"])
    options: dict[str, Any] = {"seed": job["seed"], "threads": 1}
    if job["label features"] != LABEL_FEATURES[0]:
        options["label_features"] = job["label features"]
    name, defaults = default_objective(rows.training, options)
    options = defaults | options
    made = new_objective(objectives.find(name), options)
    config = ClassifierConfiguration(made, ClassifySettings.from_options(options), options)
    classifier = life.train_model(ClassifierRun(rows.training, config)).classifier
    result: Result = {"labels": rows.training.n_labels, "n": len(rows.known)}
    for abstain in (False, True):
        ids, p = best_label(classifier, rows.known, abstain)
        _, p_of_unknown = best_label(classifier, rows.unknown, abstain)
        is_right = np.array(
            [label in truth for label, truth in zip(ids, rows.known.labels, strict=True)]
        )
        passes = p >= THRESHOLD
        result["abstain" if abstain else "usual"] = {
            "passed": float(passes.mean()),
            "right": float(is_right[passes].mean()) if passes.any() else None,
            "unknown": float((p_of_unknown >= THRESHOLD).mean()),
            "auc": area(p, p_of_unknown),
        }
    result["accuracy"] = float(is_right.mean())
    return result


def best_label(
    classifier: Classifier, rows: Labeled, abstain: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The likeliest label of each row that is not "none of these", and its probability."""
    parts = [
        (ids.copy(), p.copy())
        for ids, p in classifier.iter_top_k(rows.features, 2, threads=1, abstain=abstain)
    ]
    ids, p = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    place = (ids[:, 0] < 0).astype(int)  # of the second, where the first is none of these
    each = np.arange(len(ids))
    return ids[each, place], p[each, place]


def area(known: np.ndarray, unknown: np.ndarray) -> float:
    """The share of pairs of a known and an unknown row in which the known one has the higher
    probability, ties counted half: the area under the ROC curve.
    """
    ordered = np.sort(unknown)
    below = np.searchsorted(ordered, known, "left") + np.searchsorted(ordered, known, "right")
    return float(below.mean() / 2 / len(unknown))


def results(which: str, records: Records) -> str:
    """A row for each set and choice of the features for which labels have weights."""
    rows = []
    by_set = grouped(records.find(), lambda job: (job["set"], job["label features"]))
    for name, features in itertools.product(ABOUT, LABEL_FEATURES):
        runs = [record["result"] for record in by_set.get((name, features), [])]
        if not runs:
            continue
        shares = [run[which] for run in runs]
        right = [share["right"] for share in shares if share["right"] is not None]
        unknown = [share["unknown"] for share in shares]
        rows.append(
            {
                "set": name,
                "weights for": "features of positives" if features == "positives" else features,
                "labels": f"{runs[0]['labels']}",
                "accuracy": mean(run["accuracy"] for run in runs),
                "known rows pass": mean(share["passed"] for share in shares),
                "right of these": mean(right) if right else DASH,
                "unknown rows pass": mean(unknown),
                "at worst": number(max(unknown)),
                "area under ROC": mean(share["auc"] for share in shares),
                "runs": len(runs),
            }
        )
    return table(rows)


def mean(values: Any) -> str:
    return number(statistics.fmean(values))


def sets(records: Records) -> str:
    return table([{"set": f"`{name}`", "rows": about} for name, about in ABOUT.items()])


EXPERIMENT = Experiment(
    name="unknown-labels",
    title="Rows of labels that a classifier was not trained on",
    choices={"set": tuple(ABOUT), "label-features": LABEL_FEATURES},
    jobs=jobs,
    measure=measure,
    tables={
        "sets": sets,
        "abstaining": functools.partial(results, "abstain"),
        "usual": functools.partial(results, "usual"),
    },
    plots={},
    settings={"seeds": 3, "intents": None},
    quick={"seeds": 1},
    packages=("scipy", "scikit-learn"),
    needs=needs,
    mixed=True,
)
