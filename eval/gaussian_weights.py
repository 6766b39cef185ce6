"""Gaussian weights: are labels, rare ones above all, likelier by a normal distribution of each
weight than by a number?

    bibtex        references by their words
    eurlex-4.3k   documents by their words
    omniglot      characters by their pixels

Each row has the first of its labels. Some rows are trained on, of which a quarter is held out for
the prior and the temperature; others choose the l2 penalty for each kind of weights. One training
gives both: its weights as numbers, and as the means of distributions.

    bibtex-all     the same rows with all their labels
    eurlex-all
    categories     pages of Wikipedia to all their categories, by a hidden layer

The softmax of a row with several labels is the distribution of one of them, taken at random.
"""

import functools
import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from embedx.classification.classifier import Classifier
from embedx.evaluation.temperature import fit_inverse_temperature
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.label_rules import known_labels
from embedx.labeled.scaling import input_length
from embedx.objectives.contract import log_softmax
from eval import papers
from eval.experiment import Experiment, Run
from eval.page import mean_and_deviation, table
from eval.records import Job, Records, Result


class SeveralLabels(NamedTuple):
    """A data set with several labels a row: its recipe, how many rows to train on, the settings of
    training, and the objectives.
    """

    recipe: str
    rows: int
    options: dict[str, Any]
    objectives: tuple[str, ...]


FIRST_LABELS = ("bibtex", "eurlex-4.3k", "omniglot")
ALL_LABELS = {
    "bibtex-all": SeveralLabels("bibtex", 5_000, {}, ("softmax", "ar")),
    "eurlex-all": SeveralLabels("eurlex-4.3k", 5_000, {}, ("softmax", "ar")),
    "categories": SeveralLabels("enwiki-cat", 20_000, {"hidden": 100}, ("ar",)),
}
DATA = (*FIRST_LABELS, *ALL_LABELS)
SOFTMAX = ("softmax", "ar")
# Measured with one label a row, at the default epochs, without a penalty.
UTILITIES = ("ar-probit", "ar-logistic")
OBJECTIVES = (*SOFTMAX, *UTILITIES)
WEIGHTS = ("point", "gaussian")
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


@functools.lru_cache(maxsize=1)  # one at a time
def halves_with_all_labels(run: Run, name: str, seed: int) -> tuple[Labeled, Labeled]:
    """Training and test rows with all their labels that occur in the training rows."""
    data = ALL_LABELS[name]
    halves = papers.load(run.data_folder, data.recipe, run.quick)
    n_training = min(run.settings.rows if run.quick else data.rows, len(halves[0]))
    order = np.random.default_rng(seed).permutation(len(halves[0]))[:n_training]
    test_order = np.random.default_rng(0).permutation(len(halves[1]))[: run.settings.test]
    training = halves[0].rows(order)
    return of_trained_labels(training, training), of_trained_labels(
        training, halves[1].rows(test_order)
    )


def of_trained_labels(training: Labeled, rows: Labeled) -> Labeled:
    """Rows with those of their labels that training rows have, numbered by these; rows without any
    are left out.
    """
    trained = np.unique(training.labels.ids)
    labels = rows.labels.where(np.isin(rows.labels.ids, trained))
    kept = np.flatnonzero(labels.n_of_row)
    labels = labels.rows(kept)
    numbers = np.searchsorted(trained, labels.ids).astype(np.int32)
    return Labeled(rows.features[kept], Labels(labels.offsets, numbers), len(trained))


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    for name in run.chosen("data"):
        chosen = run.chosen("objective")
        if name in FIRST_LABELS:
            yield from jobs_of_first_labels(run, name)
            continue
        for objective in ALL_LABELS[name].objectives:
            if objective in chosen:
                for seed in range(1, run.settings.seeds + 1):
                    yield {"data": name, "objective": objective, "seed": seed}


def jobs_of_first_labels(run: Run, name: str) -> Iterator[Job]:
    for objective in run.chosen("objective"):
        for seed in range(1, run.settings.seeds + 1):
            job = {"data": name, "objective": objective, "seed": seed}
            for penalty in PENALTIES if objective in SOFTMAX else ():
                yield job | {"epochs": run.settings.epochs, "penalty": penalty}
            # As many as by default, which is more.
            yield job | {"epochs": None, "penalty": 0.0}


# Of every run, so that it has the rows that it was given, in the same order.
OPTIONS = {
    "posterior": "gaussian",
    "weights": "dense",
    "scaling": "none",
    "bias": "frequency",
    "initial_gradient": 4.0,
    "calibration": 0.25,
    "threads": 1,
}


def measure(run: Run, job: Job) -> Result:
    if job["data"] in ALL_LABELS:
        return measure_all_labels(run, job)
    parts = parts_of(run, job["data"], job["seed"])
    length = input_length(parts.training.features)
    options = OPTIONS | {
        "l2": job["penalty"] * length**2 / len(parts.training),
        "epochs": job["epochs"],
        "seed": job["seed"],
    }
    classifier = papers.fit(parts.training, job["objective"], options).classifier
    relative_prior = classifier.facts["prior_variance"] * length**2
    result: dict[str, Any] = {"prior": relative_prior}
    for weights in reversed(WEIGHTS):
        if weights == "point":
            del classifier.arrays["variance"]
        log_p, label = predicted(classifier, parts.choosing)
        test_log_p, test_label = predicted(classifier, parts.test)
        factor = fitted_factor(log_p, label)
        tempered = log_softmax(factor * test_log_p)
        result[weights] = {
            "choosing": float(log_p[np.arange(len(label)), label].mean()),
            "tempered": float(tempered[np.arange(len(test_label)), test_label].mean()),
            **measures(test_log_p, test_label, classifier.trained_counts[test_label]),
        }
    return result


def measure_all_labels(run: Run, job: Job) -> Result:
    """The same at the defaults, of rows with several labels; neither penalty nor temperature."""
    training, test = halves_with_all_labels(run, job["data"], job["seed"])
    options = OPTIONS | {"epochs": None, "seed": job["seed"]} | ALL_LABELS[job["data"]].options
    classifier = papers.fit(training, job["objective"], options).classifier
    result: dict[str, Any] = {"labels": training.n_labels, "rows": len(training)}
    result["prior"] = classifier.facts["prior_variance"]
    for weights in reversed(WEIGHTS):
        if weights == "point":
            del classifier.arrays["variance"]
        result[weights] = measures_of_all_labels(classifier, test)
    return result


def measures_of_all_labels(classifier: Classifier, test: Labeled) -> dict[str, Any]:
    """`measures` of each label of each row whose label was trained; the likeliest label counts as
    right by the share of the row's labels that it is.
    """
    labels = known_labels(test.labels, classifier.trained_counts)
    of_labels = []
    p_of_best = []
    rightness = []
    for rows, log_p in classifier.blocks(test.features):
        of_block = labels.rows(rows)
        of_labels.append(log_p[of_block.row_of_id, of_block.ids])
        best = log_p.argmax(axis=1)
        is_best = of_block.ids == best[of_block.row_of_id]
        n_right = np.bincount(of_block.row_of_id[is_best], minlength=len(of_block))
        p_of_best.append(np.exp(log_p.max(axis=1)))
        rightness.append(n_right / np.maximum(of_block.n_of_row, 1))
    has_labels = labels.n_of_row > 0
    right = np.concatenate(rightness)[has_labels]
    return {
        "rows": int(has_labels.sum()),
        **log_likelihoods(np.concatenate(of_labels), classifier.trained_counts[labels.ids]),
        "accuracy": float((right > 0).mean()),
        "calibration_error": calibration_error(np.concatenate(p_of_best)[has_labels], right),
    }


def fitted_factor(log_p: np.ndarray, label: np.ndarray) -> float:
    """The factor of log-probabilities by which these labels are likeliest."""
    labels = Labels.single(label)
    return fit_inverse_temperature(lambda: [(log_p, labels)])


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
    return {
        "rows": len(label),
        **log_likelihoods(of_label, counts),
        "accuracy": float(is_right.mean()),
        "calibration_error": calibration_error(p, is_right),
    }


def log_likelihoods(of_label: np.ndarray, counts: np.ndarray) -> dict[str, Any]:
    """The mean log-probability of labels, of all and by their training rows."""
    groups = [of_label[(low <= counts) & (counts <= high)] for low, high in GROUPS.values()]
    return {
        "log_likelihood": float(of_label.mean()),
        "groups": [float(group.mean()) if len(group) else None for group in groups],
    }


def calibration_error(p: np.ndarray, is_right: np.ndarray) -> float:
    """The mean distance of the probability of the likeliest label from how often it is right, over
    bins of rows of like probability.
    """
    bins = np.minimum((p * N_BINS).astype(int), N_BINS - 1)
    gaps = np.bincount(bins, is_right - p, N_BINS)
    return float(np.abs(gaps).sum() / len(p))


# ---- tables


def table_of_all_labels(name: str) -> Any:
    def results(records: Records) -> str:
        return table(
            [
                row
                for objective in OBJECTIVES
                for weights in WEIGHTS
                for row in line_of_all_labels(records, name, objective, weights)
            ]
        )

    return results


def line_of_all_labels(
    records: Records, name: str, objective: str, weights: str
) -> Iterator[dict[str, str]]:
    """A row of the table: means ± standard deviations over the seeds."""
    results = [record["result"] for record in records.find(data=name, objective=objective)]
    if not results:
        return
    labels = statistics.fmean(result["labels"] for result in results)
    row = {"objective": f"`{objective}`", "labels": f"{labels:,.0f}", "weights": weights}
    yield row | columns_of(results, weights)


def columns_of(results: list[Result], weights: str) -> dict[str, str]:
    """Likelihoods, accuracy and calibration by one kind of weights."""
    measured = [result[weights] for result in results]
    columns = {"log-likelihood": mean_and_deviation([one["log_likelihood"] for one in measured])}
    gains = [one[weights]["log_likelihood"] - one["point"]["log_likelihood"] for one in results]
    columns["above the points"] = "" if weights == "point" else mean_and_deviation(gains)
    for place, group in enumerate(GROUPS):
        values = [one["groups"][place] for one in measured]
        columns[group] = mean_and_deviation([value for value in values if value is not None])
    columns["accuracy"] = mean_and_deviation([one["accuracy"] for one in measured])
    columns["calibration error"] = mean_and_deviation(
        [one["calibration_error"] for one in measured]
    )
    return columns


def tables_of(name: str) -> Any:
    def results(records: Records) -> str:
        rows = [
            line
            for objective in OBJECTIVES
            for weights in WEIGHTS
            for line in lines(records, name, objective, weights)
        ]
        return table(rows)

    return results


def lines(records: Records, name: str, objective: str, weights: str) -> Iterator[dict[str, str]]:
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
    chosen = [max(runs, key=lambda run: run[weights]["choosing"]) for runs in by_seed.values()]
    yield from line(objective, weights, "default", "none", by_default)
    yield from line(objective, weights, "fewer", "none", plain)
    yield from line(objective, weights, "fewer", "chosen", chosen)


def line(
    objective: str, weights: str, epochs: str, penalty: str, results: list[Result]
) -> Iterator[dict[str, str]]:
    """Means ± standard deviations over the seeds, and of the difference from the same weights as
    points; nothing where nothing was measured.
    """
    if not results:
        return
    measured = [result[weights] for result in results]
    row = {"objective": f"`{objective}`", "weights": weights, "epochs": epochs, "l2": penalty}
    columns = columns_of(results, weights)
    row["log-likelihood"] = columns["log-likelihood"]
    row["after a temperature"] = mean_and_deviation(
        [one["tempered"] for one in measured if "tempered" in one]
    )
    yield row | columns


def needs(run: Run) -> list[str]:
    """The data sets of the chosen jobs."""
    names = run.chosen("data")
    recipes = [ALL_LABELS[name].recipe if name in ALL_LABELS else name for name in names]
    return list(dict.fromkeys(recipes))


EXPERIMENT = Experiment(
    name="gaussian-weights",
    title="Gaussian weights: labels by distributions of weights",
    choices={"data": DATA, "objective": OBJECTIVES},
    jobs=jobs,
    measure=measure,
    tables={
        **{name.partition("-")[0]: tables_of(name) for name in FIRST_LABELS},
        **{name: table_of_all_labels(name) for name in ALL_LABELS},
    },
    plots={},
    settings=FULL,
    quick=QUICK,
    needs=needs,
    mixed=True,
)
