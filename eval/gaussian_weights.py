"""Gaussian weights: are labels, rare ones above all, likelier by a normal distribution of each
weight than by a number?

    bibtex        references by their words
    eurlex-4.3k   documents by their words
    omniglot      characters by their pixels

Each row has the first of its labels. Some rows are trained on, of which a quarter is held out for
the prior and the temperature; others choose the l2 penalty of each way of predicting. One training
gives both: its weights as numbers, and as the means of distributions.
"""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from embedx.classification.classifier import Classifier
from embedx.evaluation.temperature import fit_temperature
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.scaling import input_length
from embedx.objectives.contract import log_softmax
from eval import papers
from eval.experiment import Experiment, Run
from eval.page import mean_and_deviation, table
from eval.records import Job, Records, Result

DATA = ("bibtex", "eurlex-4.3k", "omniglot")
OBJECTIVES = ("softmax", "ar")
WAYS = ("point", "gaussian")
# The penalty of weights, in units of mean |x|² / rows.
PENALTIES = (0.0, 0.03, 0.1)
# Training rows of a label: the first and the last number of each group.
GROUPS = {"1 to 4 rows": (1, 4), "5 to 19": (5, 19), "20 and more": (20, 10**9)}
N_BINS = 10
FULL = {"rows": 5_000, "choosing": 1_000, "test": 2_000, "epochs": 20, "seeds": 3}
QUICK = {"rows": 600, "choosing": 100, "test": 100, "epochs": 1, "seeds": 1}


# ---- data


class Parts(NamedTuple):
    """Rows to train on, rows that choose the penalty, and test rows."""

    training: Labeled
    choosing: Labeled
    test: Labeled


@functools.lru_cache(maxsize=1)  # one at a time
def parts_of(run: Run, name: str, seed: int) -> Parts:
    """A data set, of which some rows are taken at random."""
    settings = run.settings
    halves = papers.load(run.data_folder, name, run.quick)
    order = np.random.default_rng(seed).permutation(len(halves[0]))
    n_training = min(settings.rows, len(order) * 4 // 5)
    training = halves[0].rows(order[:n_training])
    choosing = halves[0].rows(order[n_training : n_training + settings.choosing])
    test = halves[1].rows(np.random.default_rng(0).permutation(len(halves[1]))[: settings.test])
    return Parts(*papers.numbered(training, choosing, test))


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    for name in run.chosen("data"):
        for objective in run.chosen("objective"):
            for seed in range(1, run.settings.seeds + 1):
                job = {"data": name, "objective": objective, "seed": seed}
                for penalty in PENALTIES:
                    yield job | {"epochs": run.settings.epochs, "penalty": penalty}
                # As many as by default, which is more.
                yield job | {"epochs": None, "penalty": 0.0}


def measure(run: Run, job: Job) -> Result:
    parts = parts_of(run, job["data"], job["seed"])
    length = input_length(parts.training.features)
    options = {
        "posterior": "gaussian",
        "weights": "dense",
        "scaling": "none",
        "l2": job["penalty"] * length**2 / len(parts.training),
        "epochs": job["epochs"],
        "bias": "frequency",
        "initial_gradient": 4.0,
        "calibration": 0.25,
        "seed": job["seed"],
        "threads": 1,
    }
    classifier = papers.fit(parts.training, job["objective"], options).classifier
    relative_prior = classifier.facts["prior_variance"] * length**2
    result: dict[str, Any] = {"prior": relative_prior}
    for way in reversed(WAYS):
        if way == "point":
            del classifier.arrays["variance"]
        log_p, label = predicted(classifier, parts.choosing)
        test_log_p, test_label = predicted(classifier, parts.test)
        factor = fitted_factor(log_p, label)
        tempered = log_softmax(factor * test_log_p)
        result[way] = {
            "choosing": float(log_p[np.arange(len(label)), label].mean()),
            "tempered": float(tempered[np.arange(len(test_label)), test_label].mean()),
            **measures(test_log_p, test_label, classifier.trained_counts[test_label]),
        }
    return result


def fitted_factor(log_p: np.ndarray, label: np.ndarray) -> float:
    """The factor of log-probabilities by which these labels are likeliest."""
    labels = Labels.single(label)
    return fit_temperature(lambda: [(log_p, labels)])


def predicted(classifier: Classifier, rows: Labeled) -> tuple[np.ndarray, np.ndarray]:
    """The log-probabilities of all labels of the rows whose label was trained, and that label."""
    known = np.flatnonzero(classifier.trained_counts[rows.labels.ids])
    blocks = [log_p for _, log_p in classifier.blocks(rows.features[known])]
    return np.concatenate(blocks), rows.labels.ids[known]


def measures(log_p: np.ndarray, label: np.ndarray, counts: np.ndarray) -> dict[str, Any]:
    """The mean log-probability of labels, all and by their training rows; and the calibration error
    of the likeliest.
    """
    of_label = log_p[np.arange(len(label)), label]
    p = np.exp(log_p.max(axis=1))
    is_right = log_p.argmax(axis=1) == label
    groups = [of_label[(low <= counts) & (counts <= high)] for low, high in GROUPS.values()]
    return {
        "rows": len(label),
        "log_likelihood": float(of_label.mean()),
        "groups": [float(group.mean()) if len(group) else None for group in groups],
        "accuracy": float(is_right.mean()),
        "calibration_error": calibration_error(p, is_right),
    }


def calibration_error(p: np.ndarray, is_right: np.ndarray) -> float:
    """The mean distance of the probability of the likeliest label from how often it is right, over
    bins of rows of like probability.
    """
    bins = np.minimum((p * N_BINS).astype(int), N_BINS - 1)
    gaps = np.bincount(bins, is_right - p, N_BINS)
    return float(np.abs(gaps).sum() / len(p))


# ---- tables


def tables_of(name: str) -> Any:
    def results(records: Records) -> str:
        rows = [
            line
            for objective in OBJECTIVES
            for way in WAYS
            for line in lines(records, name, objective, way)
        ]
        return table(rows)

    return results


def lines(records: Records, name: str, objective: str, way: str) -> Iterator[dict[str, str]]:
    """Rows of the table: by the default number of epochs, by fewer, and by fewer with the penalty
    that other rows choose.
    """
    runs_of_objective = records.find(data=name, objective=objective)
    by_default = [run["result"] for run in runs_of_objective if run["job"]["epochs"] is None]
    penalised = [run for run in runs_of_objective if run["job"]["epochs"] is not None]
    plain = [run["result"] for run in penalised if run["job"]["penalty"] == 0]
    by_seed: dict[int, list[Result]] = {}
    for one in penalised:
        by_seed.setdefault(one["job"]["seed"], []).append(one["result"])
    chosen = [max(runs, key=lambda run: run[way]["choosing"]) for runs in by_seed.values()]
    yield from line(objective, way, "default", "none", by_default)
    yield from line(objective, way, "fewer", "none", plain)
    yield from line(objective, way, "fewer", "chosen", chosen)


def line(
    objective: str, way: str, epochs: str, penalty: str, results: list[Result]
) -> Iterator[dict[str, str]]:
    """Means ± standard deviations over the seeds, and of the difference from the same weights as
    points; nothing where nothing was measured.
    """
    if not results:
        return
    measured = [result[way] for result in results]
    row = {"objective": f"`{objective}`", "weights": way, "epochs": epochs, "l2": penalty}
    row["log-likelihood"] = mean_and_deviation([one["log_likelihood"] for one in measured])
    row["after a temperature"] = mean_and_deviation(
        [one["tempered"] for one in measured if "tempered" in one]
    )
    gains = [one[way]["log_likelihood"] - one["point"]["log_likelihood"] for one in results]
    row["above the points"] = ""
    if way != "point":
        row["above the points"] = mean_and_deviation(gains)
    for place, group in enumerate(GROUPS):
        values = [one["groups"][place] for one in measured]
        row[group] = mean_and_deviation([value for value in values if value is not None])
    row["accuracy"] = mean_and_deviation([one["accuracy"] for one in measured])
    row["calibration error"] = mean_and_deviation([one["calibration_error"] for one in measured])
    yield row


EXPERIMENT = Experiment(
    name="gaussian-weights",
    title="Gaussian weights: labels by distributions of weights",
    choices={"data": DATA, "objective": OBJECTIVES},
    jobs=jobs,
    measure=measure,
    tables={name.partition("-")[0]: tables_of(name) for name in DATA},
    plots={},
    settings=FULL,
    quick=QUICK,
    needs=lambda run: list(run.chosen("data")),
    mixed=True,
)
