"""What the experiments of papers share: data sets, and training of one classifier by embedx or by scikit-learn."""

import functools
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from eval.under_test import (
    Classifier,
    ClassifySettings,
    DataSchema,
    Outcome,
    Tally,
    TrainedClassifier,
    classification,
    objectives,
    read,
    read_training,
    samplers,
)

FILES = {  # in the folder xc of the data: training rows, their labels where they stand apart, test rows, theirs
    "mnist": (
        "mnist/train-images-idx3-ubyte.gz", "mnist/train-labels-idx1-ubyte.gz",
        "mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz",
    ),
    **{
        name: (f"{name}/train.txt.gz", None, f"{name}/test.txt.gz", None)
        for name in ("bibtex", "omniglot", "eurlex-4.3k", "enwiki-cat")
    },
}  # fmt: skip
QUICK_ROWS = 500  # of each half, in a trial run
# What is not given, as it was in all records.
AS_MEASURED: dict[str, Any] = {"epochs": 10, "bias": "zero", "initial_gradient": 0.0, "calibration": 0.0}


@functools.lru_cache(maxsize=1)  # one at a time
def load(data: Path, name: str, quick: bool = False) -> tuple[Any, Any]:
    """Training data and test data; of a trial run few rows."""
    train, train_labels, test, test_labels = (str(data / "xc" / file) if file else None for file in FILES[name])
    training = read_training(train, train_labels)
    schema = training.schema
    halves = training, read(test, test_labels, like=schema)
    return tuple(half.rows(np.arange(min(len(half), QUICK_ROWS))) for half in halves) if quick else halves


def fit(
    training: Any, objective: str, options: dict[str, Any], *, start: Any = None, watch: Callable[..., Any] | None = None
) -> Any:
    """Train one classifier; `options` are settings of the task, the objective and the sampler together, `start` a run to
    continue. It has the given rate, or `DivergedError` is raised.
    """
    options = AS_MEASURED | options
    found = objectives.find(objective)
    made, of_sampler = found(found.Settings.from_options(options)), samplers.own_options(options)
    settings = ClassifySettings.from_options(options)
    run = classification.Run(training, made, settings, of_sampler)
    run.wrap = unguarded
    return run.train(start, watch)


def unguarded(strategy: Any) -> Any:
    """The strategy, whose run ends where it diverges."""
    strategy.is_guarded = False
    return strategy


def start_from(training: Any, objective: str, arrays: dict[str, np.ndarray]) -> Any:
    """A run to go on from, with these parameters."""
    counts = np.maximum(np.bincount(training.labels.ids, minlength=training.n_labels), 1)
    found = objectives.find(objective)
    schema, no_memory = DataSchema(training.n_features, training.n_labels), {"optimizer": None}
    classifier = Classifier(found(found.Settings()), arrays, schema, counts, no_memory)
    return TrainedClassifier(classifier, Outcome(Tally(), 0.0, 0.0, None, None))


def drawn(n: int, k: int) -> np.ndarray:
    """n of the values 0 .. k - 1, each with a probability proportional to the square of a uniform number."""
    rng = np.random.default_rng(0)
    p = rng.random(k) ** 2
    return rng.choice(k, n, p=p / p.sum())


def estimates(classifier: Any) -> np.ndarray:
    """float64 (n_labels,): the probabilities that a classifier without features gives its labels."""
    z = classifier.arrays["bias"].astype(np.float64)
    p = np.exp(z - z.max())
    return p / p.sum()


def fit_sklearn(training: Any, test: Any, c: float, iterations: int) -> tuple[np.ndarray, int, float]:
    """Log-probabilities of test rows by LogisticRegression, -inf for labels not seen in training; iterations and seconds."""
    from sklearn.linear_model import LogisticRegression

    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the iterations end before convergence
        model = LogisticRegression(C=c, max_iter=iterations).fit(training.features, training.labels.ids)
    seconds = time.monotonic() - began
    log_p = np.full((len(test), training.n_labels), -np.inf)
    log_p[:, model.classes_] = model.predict_log_proba(test.features)
    return log_p, int(model.n_iter_.max()), seconds
