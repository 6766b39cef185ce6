"""What the experiments of papers share: data sets, and training of one classifier."""

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from embedx import objectives
from embedx.classification.classifier import Classifier
from embedx.classification.objective_choice import ClassifierConfiguration
from embedx.classification.run import ClassifierRun
from embedx.classification.settings import ClassifySettings
from embedx.classification.trained_classifier import TrainedClassifier
from embedx.evaluation.labels import LabelMetrics
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.label_rules import chosen_labels, known_labels
from embedx.training import life
from embedx.training.outcome import Outcome
from embedx.training.strategy import Tally
from eval import datasets
from eval.papers_variants import VARIANTS
from eval.records import Job

QUICK_ROWS = 500  # of each half, in a trial run
# Other splits and forms of data sets that papers print numbers of.
OTHER_FORMS = {
    "bibtex-xc": "bibtex",
    "bibtex-mulan": "bibtex",
    "delicious-mulan": "delicious",
    "omniglot-28": "omniglot",
    "omniglot-grey": "omniglot",
}
# What is not given, as it was in all records.
AS_MEASURED: dict[str, Any] = {
    "epochs": 10,
    "bias": "zero",
    "initial_gradient": 0.0,
    "calibration": 0.0,
}


@functools.lru_cache(maxsize=1)  # one at a time
def load(folder: Path | None, name: str, quick: bool = False) -> tuple[Labeled, Labeled]:
    """Training data and test data; of a trial run few rows, generated if the data are not here.

    folder  that of --data
    """
    if not quick:
        return datasets.halves(name, folder)
    if datasets.is_here(name, folder):
        both = datasets.halves(name, folder)
    else:
        both = datasets.stand_in(name)
    training, test = (half.rows(np.arange(min(len(half), QUICK_ROWS))) for half in both)
    return training, test


def printed(name: str) -> Any:
    """The numbers that a paper prints, by data set; those of OTHER_FORMS beside."""
    numbers = json.loads(Path(__file__).with_name("printed.json").read_text("utf-8"))[name]
    return with_other_forms(numbers)


def with_other_forms(numbers: Any) -> Any:
    """The numbers, where they are by data set, with those of its other forms too."""
    if not isinstance(numbers, dict):
        return numbers
    filled = {key: with_other_forms(value) for key, value in numbers.items()}
    forms = {form: filled[name] for form, name in OTHER_FORMS.items() if name in filled}
    return filled | forms


def some_rows(data: Labeled, n: int) -> Labeled:
    """At most n rows, chosen at random, in their order."""
    return data.rows(np.sort(np.random.default_rng(1).permutation(len(data))[:n]))


def numbered(
    *parts: Any, rule: str = "first", scale: float = 1, keeps_unknown: bool = False
) -> list[Any]:
    """Parts of a data set with one label a row, chosen by a rule, and features divided by `scale`.
    Labels are numbered by those of the first part; rows of others are left out, or have a number
    beyond them.
    """
    first = chosen_labels(parts[0].labels, rule).ids
    seen = np.unique(first)
    counts = np.bincount(first, minlength=parts[0].n_labels)
    parts_of_known_labels = []
    for part in parts:
        labels = chosen_labels(
            part.labels if rule == "first" else known_labels(part.labels, counts), rule
        )
        is_kept = np.isin(labels.ids, seen) | keeps_unknown
        ids = np.where(np.isin(labels.ids, seen), np.searchsorted(seen, labels.ids), len(seen))[
            is_kept
        ]
        features = part.features[np.flatnonzero(labels.n_of_row)[is_kept]] / np.float32(scale)
        parts_of_known_labels.append(
            Labeled(features.astype(np.float32), Labels.single(ids), len(seen))
        )
    return parts_of_known_labels


def fit(
    training: Any,
    objective: str,
    options: dict[str, Any],
    *,
    start: Any = None,
    watch: Callable[..., Any] | None = None,
) -> Any:
    """Train one classifier; `options` are settings of the task, the objective and the sampler
    together, `start` a run to continue. It has the given rate, or `DivergedError` is raised.
    """
    options = AS_MEASURED | options
    objective_class = objective_called(objective)
    instance = objective_class(objective_class.Settings.from_options(options))
    config = ClassifierConfiguration(instance, ClassifySettings.from_options(options), options)
    return life.train_model(
        ClassifierRun(training, config, start=start, watch=watch, wrap=unguarded)
    )


def objective_called(name: str) -> Any:
    """An objective of embedx, or a variant of one that is measured only here."""
    return VARIANTS.get(name) or objectives.find(name)


def search_rates(job_at: Callable[[int], Job], score: Callable[[Job], float]) -> Iterator[Job]:
    """The jobs by step, a number of factors from the first rate, until the best so far has both its
    neighbours.
    """
    tried = [0]
    yield job_at(0)
    while True:
        best = max(tried, key=lambda step: score(job_at(step)))
        new = next((step for step in (best - 1, best + 1) if step not in tried), None)
        if new is None:
            return
        tried.append(new)
        yield job_at(new)


def best_rate(achieved: dict[float, float]) -> float:
    """The learning rate that achieved most, of several the smallest."""
    return max(sorted(achieved), key=lambda rate: achieved[rate])


def unguarded(strategy: Any) -> Any:
    """The strategy, whose run ends where it diverges."""
    strategy.is_guarded = False
    return strategy


def start_from(training: Any, objective: str, arrays: dict[str, np.ndarray]) -> Any:
    """A run to continue, with these parameters."""
    counts = np.maximum(np.bincount(training.labels.ids, minlength=training.n_labels), 1)
    objective_class = objective_called(objective)
    classifier = Classifier(
        objective_class(objective_class.Settings()),
        arrays,
        training.schema,
        counts,
        {"optimizer": None},
    )
    return TrainedClassifier(classifier, Outcome(Tally(), 0.0, 0.0, None))


def drawn(n: int, k: int) -> np.ndarray:
    """n of the values 0 .. k - 1, each with a probability proportional to the square of a uniform
    number.
    """
    rng = np.random.default_rng(0)
    p = rng.random(k) ** 2
    return rng.choice(k, n, p=p / p.sum())


def estimates(classifier: Any) -> np.ndarray:
    """float64 (n_labels,): the probabilities that a classifier without features gives
    its labels.
    """
    z = classifier.arrays["bias"].astype(np.float64)
    p = np.exp(z - z.max())
    return p / p.sum()


def accuracy_of(classifier: Any, data: Any, multilabel: bool) -> dict[str, float]:
    """Accuracy, top-5 accuracy and mean reciprocal rank, ties counted against; of several labels
    P@1, 3 and 5.
    """
    block = max(1, (1 << 25) // data.n_labels)
    starts = range(0, len(data), block)
    if multilabel:
        metrics = LabelMetrics(data.n_labels)
        for start in starts:
            rows = np.arange(start, min(start + block, len(data)))
            metrics.add(None, classifier.scores(data.features[rows]), data.labels.rows(rows))
        return {name: value for name, value in metrics.result().items() if name.startswith("p@")}
    ranks = []
    for start in starts:
        y = data.labels.ids[start : start + block]
        z = classifier.scores(data.features[start : start + block])
        ranks.append((z >= z[np.arange(len(y)), y][:, None]).sum(axis=1))  # 1 is best
    rank = np.concatenate(ranks)
    return {
        "accuracy": float((rank == 1).mean()),
        "top-5": float((rank <= 5).mean()),
        "reciprocal rank": float((1 / rank).mean()),
    }
