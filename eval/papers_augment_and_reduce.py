"""Augment and reduce (Ruiz et al. 2018): tables 2 and 3, figure 2 and the synthetic data of section 4.1, by their protocol.

    python eval/papers.py augment-and-reduce --only mnist bibtex

| section | what it measures |
|---|---|
| `mnist`, `bibtex`, `omniglot` | table 3 and figure 2: test log-likelihood, accuracy and bound of each method |
| `time` | table 2: seconds per epoch, the methods taking turns |
| `toy` | section 4.1: 300,000 labels of about 9,035 classes without features |
| `why` | one setting changed at a time, where embedx and the authors' code differ |
| `best` | the exact softmax with weight decay chosen on validation data, beside scikit-learn |

Times are seconds of CPU, for the machine may be shared; settings are those of one thread.
"""

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import papers_common as common
from embedx.classifier import Classifier
from embedx.engine.trainer import Outcome, Tally
from papers_common import Labeled, Records
from scipy.sparse import csr_matrix

from embedx import classify, objectives
from embedx.labeled.data import Labels
from embedx.labeled.known import Known
from embedx.labeled.rules import chosen_labels, known_labels

NAME = "papers-augment-and-reduce"
METHODS = {
    "softmax": "exact softmax",
    "ove": "one-vs-each",
    "ar": "A&R softmax",
    "ar-probit": "A&R probit",
    "ar-logistic": "A&R logistic",
}
SAMPLED = ("ove", "ar", "ar-probit", "ar-logistic")
# The paper's appendix; the state is that of the noise, and nothing holds it up.
PROTOCOL: dict[str, Any] = {
    "optimizer": "mixture", "schedule": "inverse-sqrt", "learning_rate": 0.02, "decay": 0.9, "decay_every": 2000,
    "gradient_scale": "sum", "replacement": False, "threads": 1, "augment": "noise", "threshold": 1e9, "local_rate": 0.01,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A row of tables 1 to 3."""

    title: str
    batch: int
    negatives: int
    iterations: int  # the paper's
    run: int  # ours
    seeds: dict[str, int]  # how many runs of each method
    log_likelihood: dict[str, float]
    accuracy: dict[str, float]
    seconds: dict[str, float]
    shape: tuple[int, int, int, int]  # training rows, test rows, features, classes
    caveat: str
    start: str  # "random" as in the paper, or "zero"


def _by_method(*values: float) -> dict[str, float]:
    return dict(zip(list(METHODS)[-len(values) :], values, strict=True))


EXPERIMENTS = {
    "mnist": Experiment(
        "MNIST", 500, 1, 35_000, 35_000, _by_method(1, 2, 2, 1, 1), _by_method(-0.261, -0.276, -0.271, -0.302, -0.287),
        _by_method(0.927, 0.919, 0.924, 0.918, 0.917), _by_method(0.336, 0.337, 0.431, 0.511), (60_000, 10_000, 784, 10),
        "the official files", "zero",
    ),
    "bibtex": Experiment(
        "Bibtex", 488, 20, 5_000, 5_000, _by_method(1, 1, 1, 1, 1), _by_method(-3.188, -3.300, -3.036, -4.184, -3.151),
        _by_method(0.361, 0.352, 0.361, 0.346, 0.353), _by_method(0.181, 0.188, 0.244, 0.246), (4_880, 2_413, 1_836, 148),
        "the paper's sizes, but another random split: neither rows nor classes are quite the same", "random",
    ),
    "omniglot": Experiment(
        "Omniglot", 541, 50, 45_000, 9_600, _by_method(1, 1, 1, 1, 1), _by_method(-5.667, -5.171, -7.350, -5.395),
        _by_method(0.179, 0.201, 0.178, 0.184), _by_method(4.47, 4.65, 5.63, 5.57), (25_968, 6_492, 784, 1_623),
        "the paper's sizes, drawers 1-16 for training; resized to 28 × 28 by others, with pixels 0 or 1", "random",
    ),
}  # fmt: skip
TOY = {"n": 300_000, "classes": 10_000, "batch_size": 500, "negatives": 100, "iterations": 500_000, "run": 24_000}
TOY_PRINTED = {"ar": (3.00e-6, -2.62e6, 0.196 * 60), "ove": (3.65e-6, -1.40e9, 0.189 * 60)}  # error, bound, seconds per epoch
RANDOM = {"start": "random"}
WHY: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "softmax": [("start from zero", {})],
    "ove": [("start from zero", {})],
    "ar": [
        ("start from zero", {}),
        ("state of the utility, not the noise", RANDOM | {"augment": "utility"}),
    ],
    "ar-probit": [
        ("no entropy, local step ten times smaller: the authors' code", RANDOM | {"entropy": False, "local_rate": 0.001}),
        ("state of the utility, not the noise", RANDOM | {"augment": "utility"}),
    ],
    "ar-logistic": [
        ("no entropy, local step ten times smaller: the authors' code", RANDOM | {"entropy": False, "local_rate": 0.001}),
    ],
}
L2 = {"mnist": (1e-5, 1e-4, 1e-3), "bibtex": (1e-4, 3e-4, 1e-3, 3e-3)}
BEST_ITERATIONS = {"mnist": 100, "bibtex": 200}
EARLY = (480, 2400)  # iterations after which Omniglot is looked at too; nothing in the schedule depends on where it ends
ROUNDS = {"mnist": (6, 11), "bibtex": (7, 11), "omniglot": (3, 9)}  # epochs of a run, and how many runs of each method
SECTIONS = (*EXPERIMENTS, "time", "toy", "why", "best")


def run(data: Path, results: Path, only: list[str] | None, quick: bool, report_only: bool) -> None:
    """Measure what is not on record yet and write the page."""
    from papers_augment_and_reduce_page import draw_bounds, page  # which needs the names above

    name = NAME + ("-quick" if quick else "")
    records = Records(results / f"{name}.jsonl")
    study = Study(data, records, quick, report_only, only or list(SECTIONS))
    study.all()
    (results / f"{name}.md").write_text(page(study, draw_bounds(study, results / f"{name}.png")))


# ---- data


@functools.cache
def prepared(data: Path, name: str) -> tuple[Labeled, Labeled]:
    """Training and test data as the paper has them: one label a row, the lowest id; classes are those of the training rows.

    A test row keeps its lowest label among these classes, and is left out if it has none. Pixels of MNIST are divided by 255.
    """
    training, test, _ = common.load(data, name)
    lowest = chosen_labels(training.labels, "lowest-id")
    classes, ids = np.unique(lowest.ids, return_inverse=True)
    counts = np.bincount(lowest.ids, minlength=training.n_labels)
    known = chosen_labels(known_labels(test.labels, counts), "lowest-id")
    kept = np.flatnonzero(known.n_of_row)

    def features(part: Labeled, rows: np.ndarray) -> Any:
        return part.features[rows] / np.float32(255) if name == "mnist" else part.features[rows]

    return (
        Labeled(features(training, np.flatnonzero(lowest.n_of_row)), Labels.single(ids), len(classes)),
        Labeled(features(test, kept), Labels.single(np.searchsorted(classes, known.ids)), len(classes)),
    )


@functools.cache
def toy() -> tuple[Labeled, np.ndarray]:
    """Labels without features, k with probability p_k ∝ u², u uniform, and how often each class occurs."""
    rng = np.random.default_rng(0)
    p = rng.random(TOY["classes"]) ** 2
    classes, ids, counts = np.unique(rng.choice(len(p), TOY["n"], p=p / p.sum()), return_inverse=True, return_counts=True)
    return Labeled(csr_matrix((TOY["n"], 0), dtype=np.float32), Labels.single(ids), len(classes)), counts


# ---- measurements


def epochs_of(n: int, batch: int, iterations: int) -> int:
    """Whole epochs that have at least so many iterations."""
    return -(-iterations // -(-n // batch))


def random_start(training: Labeled, method: str, seed: int) -> classify.Trained:
    """The paper's start, the same for all methods: weights of deviation 0.1, biases of 0.001."""
    rng = np.random.default_rng([seed, 0])
    arrays = {
        "output": rng.normal(0, 0.1, (training.n_labels, training.n_features)).astype(np.float32),
        "bias": rng.normal(0, 0.001, training.n_labels).astype(np.float32),
    }
    counts = np.bincount(training.labels.ids, minlength=training.n_labels).astype(np.int64)
    found = objectives.find(method)
    known = Known(training.n_features, training.n_labels)
    classifier = Classifier(found(found.Settings()), arrays, known, counts)
    return classify.Trained(classifier, Outcome(Tally(), 0.0, 0.0, None, None))


def timed_fit(
    training: Labeled, method: str, options: dict[str, Any], start: str = "zero"
) -> tuple[Classifier, list[float], list[float]]:
    """A classifier, seconds of CPU since the start and mean loss after each epoch."""
    marks: list[float] = []

    def watch(*_: Any) -> dict[str, float]:
        marks.append(time.process_time())
        return {}

    found = objectives.find(method)
    begun = time.process_time()
    classifier = classify.train(
        training,
        found(found.Settings.from_options(options)),
        classify.ClassifySettings.from_options(options),
        start=random_start(training, method, options["seed"]) if start == "random" else None,
        watch=watch,
    ).classifier
    losses = [entry["loss"] for entry in classifier.facts["history"]]
    return classifier, [mark - begun for mark in marks], losses


def options_of(experiment: Experiment, method: str, epochs: int, seed: int) -> dict[str, Any]:
    """All settings of a run."""
    sampler = {} if method == "softmax" else {"sampler": "uniform", "negatives": experiment.negatives}
    return PROTOCOL | sampler | {"batch_size": experiment.batch, "epochs": epochs, "seed": seed}


def thinned(values: list[float], most: int = 120) -> list[float]:
    """Every so many values, the last one included, to five digits."""
    step = max(1, len(values) // most)
    return [float(f"{value:.5g}") for value in values[::-1][::step][::-1]]


def measured(classifier: Any, test: Labeled) -> dict[str, float]:
    """The metrics that the paper prints."""
    found = classifier.evaluate(test, threads=1)
    names = ("log_likelihood", "log_likelihood_clamped", "log_likelihood_standard_error", "accuracy")
    return {name: found[name] for name in names}


class Study:
    """The records, measured as far as wanted, and the page written from them."""

    def __init__(self, data: Path, records: Records, quick: bool, report_only: bool, only: list[str]) -> None:
        self.data, self.records, self.quick = data, records, quick
        self.wanted = () if report_only else only

    def get(self, section: str, key: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        return self.records.get(key, measure if section in self.wanted else None)

    def result(
        self, name: str, method: str, seed: int, section: str, run: int | None = None, **changes: Any
    ) -> dict[str, Any] | None:
        """One run of table 3, of as many iterations as it has there or of `run`."""
        experiment = EXPERIMENTS[name]
        iterations = 20 if self.quick else run or experiment.run

        def measure() -> dict[str, Any]:
            training, test = prepared(self.data, name)
            epochs = epochs_of(len(training), experiment.batch, iterations)
            options = options_of(experiment, method, epochs, seed) | changes
            classifier, seconds, losses = timed_fit(training, method, options, changes.get("start", "zero"))
            found = measured(classifier, test)
            if method in ("softmax", "ove", "ar"):
                found["training_log_likelihood"] = classifier.evaluate(training, threads=1)["log_likelihood"]
            first = seconds[0] - statistics.median(np.diff(seconds)) if len(seconds) > 1 else 0.0  # compilation, or loading
            curve = {"seconds": thinned([second - first for second in seconds]), "loss": thinned(losses)}
            shape = [len(training), len(test), training.n_features, training.n_labels]
            return found | {"epochs": epochs, "loss": losses[-1], "curve": curve, "shape": shape}

        key = {"section": "table-3", "data": name, "method": method, "seed": seed, "iterations": iterations}
        return self.get(section, key | ({"changes": changes} if changes else {}), measure)

    def seeds(self, name: str, method: str) -> list[dict[str, Any]]:
        """The runs of a method that there are."""
        wanted = range(1, EXPERIMENTS[name].seeds.get(method, 0) + 1)
        start = {"start": "random"} if EXPERIMENTS[name].start == "random" else {}
        return [found for seed in wanted if (found := self.result(name, method, seed, name, **start))]

    def times(self, name: str) -> dict[str, list[float]] | None:
        """Seconds of CPU per epoch, a median for each round; in a round each method has one short run, in alternating order.

        The first epoch of a run is left out, and the first round, which compiles.
        """
        experiment = EXPERIMENTS[name]
        epochs, rounds = (2, 1) if self.quick else ROUNDS[name]

        def measure() -> dict[str, Any]:
            training, _ = prepared(self.data, name)
            found: dict[str, list[float]] = {method: [] for method in SAMPLED}
            for seed in range(rounds + 1):
                for method in SAMPLED[:: -1 if seed % 2 else 1]:
                    _, seconds, _ = timed_fit(training, method, options_of(experiment, method, epochs, seed))
                    if seed:
                        found[method].append(statistics.median(np.diff(seconds)))
            return found

        return self.get("time", {"section": "table-2", "data": name, "epochs": epochs, "rounds": rounds}, measure)

    def toy_result(self, method: str, iterations: int) -> dict[str, Any] | None:
        """One run on the synthetic data."""

        def measure() -> dict[str, Any]:
            training, counts = toy()
            epochs = epochs_of(len(training), TOY["batch_size"], iterations)
            options = PROTOCOL | {
                "sampler": "uniform",
                "negatives": TOY["negatives"],
                "batch_size": TOY["batch_size"],
                "epochs": epochs,
            }
            classifier, seconds, losses = timed_fit(training, method, options)
            bias = classifier.arrays["bias"].astype(np.float64)
            p, truth = np.exp(bias - bias.max()), counts / counts.sum()
            p /= p.sum()
            return {
                "error": float(np.abs(p - truth).mean()), "bound": -losses[-1] * len(training), "classes": len(counts),
                "best_bound": float((counts * np.log(truth)).sum()), "log_likelihood": float((counts * np.log(p)).sum()),
                "epochs": epochs, "seconds_per_epoch": statistics.median(np.diff(seconds)) if epochs > 1 else 0.0,
                "noise": float(np.sqrt(truth * (1 - truth) / len(training)).mean() * np.sqrt(2 / np.pi)),
            }  # fmt: skip

        return self.get("toy", {"section": "toy", "method": method, "iterations": iterations}, measure)

    def best(self, name: str, program: str) -> dict[str, Any] | None:
        """The exact softmax at the weight decay that is best on a tenth of the training rows."""
        grid = L2[name][:1] if self.quick else L2[name]
        iterations = 5 if self.quick else BEST_ITERATIONS[name]

        def measure() -> dict[str, Any]:
            training, test = prepared(self.data, name)
            order = np.random.default_rng(0).permutation(len(training))
            held, kept = np.split(order, [len(order) // 10])
            fit = fit_embedx if program == "embedx" else fit_sklearn
            started = time.process_time()
            tried = {l2: fit(training.rows(kept), training.rows(held), l2, iterations) for l2 in grid}
            chosen = max(tried, key=lambda l2: tried[l2]["log_likelihood"])
            found = fit(training, test, chosen, iterations)
            return found | {
                "l2": chosen,
                "seconds": time.process_time() - started,
                "tried": {f"{k:g}": v for k, v in tried.items()},
            }

        return self.get(
            "best", {"section": "best", "data": name, "program": program, "grid": grid, "iterations": iterations}, measure
        )

    def all(self) -> None:
        """Measure whatever is wanted."""
        for data in EXPERIMENTS:
            for method in METHODS:
                self.seeds(data, method)
        for data in EXPERIMENTS:
            self.times(data)
        for method in ("ove", "ar"):
            self.toy_result(method, 600 if self.quick else TOY["run"])
        for method, variants in WHY.items():
            for _, changes in variants:
                self.result("bibtex", method, 1, "why", **changes)
        for iterations in EARLY:
            for method in ("softmax", "ove", "ar"):
                self.result("omniglot", method, 1, "why", iterations, **RANDOM)
        for data in L2:
            for program in ("embedx", "scikit-learn"):
                self.best(data, program)


def fit_embedx(training: Labeled, test: Labeled, l2: float, iterations: int) -> dict[str, float]:
    """Test log-likelihood and accuracy of embedx's exact softmax."""
    options = {"optimizer": "lbfgs", "l2": l2, "max_iterations": iterations, "threads": 1}
    return measured(common.fit(training, "softmax", options).classifier, test)


def fit_sklearn(training: Labeled, test: Labeled, l2: float, iterations: int) -> dict[str, float]:
    """The same by scikit-learn, whose C is 1 / (rows · l2)."""
    import warnings

    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1 / (len(training) * l2), max_iter=iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the iterations end before convergence
        model.fit(training.features.astype(np.float64), training.labels.ids)
    log_p = np.full((len(test), test.n_labels), -np.inf)  # a class may be absent from nine tenths of the rows
    log_p[:, model.classes_] = model.predict_log_proba(test.features.astype(np.float64))
    own = log_p[np.arange(len(test)), test.labels.ids]
    return {
        "log_likelihood": float(own[np.isfinite(own)].mean()),
        "accuracy": float((log_p.argmax(axis=1) == test.labels.ids).mean()),
    }
