"""Labelled data to compare objectives on: how a run is started, and how its classifier is scored."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedx import objectives
from embedx.classification import classifier
from embedx.classification.settings import ClassifySettings, share_of_rows
from embedx.comparison.settings import OF_LABELS, CompareSettings
from embedx.errors import EmbedxError
from embedx.evaluation import learning_curves
from embedx.evaluation.statistics import Score
from embedx.labeled.arrays import is_binary
from embedx.labeled.digits import GENERATED
from embedx.labeled.files import head_of, source_of
from embedx.labeled.read import read, read_training
from embedx.settings import as_arguments, as_typed, option_name
from embedx.text.sources import STANDARD_INPUT
from embedx.text.streams import begins_labelled
from embedx.training.progress import Progress

GROUPS = 50  # of test rows: a standard error from so many is itself within a tenth, as a rule
VALIDATION, MAX_VALIDATION = 0.1, 2000  # share of the training rows, and how many at most: they are scored after each epoch
PATIENCE = 2**31 - 1  # epochs: no run ends before its time


class LabelledData:
    """Training and test data.

    train   what `embedx classify` takes, with `train_labels` where it holds none; `test` and `test_labels` likewise
    options  passed to each run
    """

    command, unit = "classify", "examples"

    def __init__(
        self,
        train: Sequence[str],
        options: Mapping[str, Any],
        settings: CompareSettings,
        train_labels: str | None = None,
        test: str | None = None,
        test_labels: str | None = None,
    ) -> None:
        if others := sorted(options.keys() - set(OF_LABELS)):
            raise EmbedxError(f"{option_name(others[0])} applies to text; with --test, DATA are labelled")
        if len(train) > 1:
            raise EmbedxError(f"{train[1]}: with --test, DATA is one file of training rows")
        if test is None and train[0] != GENERATED:
            raise EmbedxError(f"{train[0]}: name the labelled data to score on with --test")
        if STANDARD_INPUT in (train[0], train_labels, settings.validation):
            raise EmbedxError("-: can be read only once, and each run reads it; name a file")
        self.train, self.train_labels, self.test, self.test_labels = train[0], train_labels, test, test_labels
        self.options, self.settings = dict(options), settings
        self.validation = settings.validation
        self.is_single = False

    @property
    def measures(self) -> tuple[str, ...]:
        precisions = ("p@1", "p@3", "p@5")
        return ("log_likelihood", *precisions, "ndcg@5") if self.is_single else ("ndcg@5", *precisions, "log_likelihood")

    @property
    def name(self) -> str:
        return os.path.basename(self.train)

    @property
    def curve_of(self) -> str:
        return "validation " + ("log-likelihood" if self.is_single else "nDCG@5")

    def check(self, names: Sequence[str]) -> None:
        """Raise `EmbedxError` if the options are not taken."""
        for name in names:
            objectives.find(name)
        ClassifySettings.from_options(self.options)

    def identity(self) -> dict[str, Any]:
        """What decides the results, beside time, threads and machine."""
        validation = self.settings.validation or ""
        files = [self.train, self.train_labels, self.test, self.test_labels, validation, self.settings.validation_labels]
        return {
            "data": [None if file is None else [file, fingerprint(file)] for file in files],
            "options": {name: as_typed(value) for name, value in self.options.items()},
        }

    def arguments(self) -> list[str]:
        """What a run is started with, beside objective, seed, time and places."""
        own: dict[str, Any] = {"train_labels": self.train_labels}
        if self.validation is not None:
            own |= {"validation": self.validation, "validation_labels": self.settings.validation_labels, "patience": PATIENCE}
        return [self.train, *as_arguments(self.options | {name: value for name, value in own.items() if value is not None})]

    def prepare(self, progress: Progress) -> dict[str, Any]:
        """Read the data; what is to be known of them. Raises `EmbedxError` for what is wrong with them."""
        training, known = read_training(self.train, self.train_labels, progress=progress)
        self.rows = read(self.test or GENERATED, self.test_labels, progress=progress, like=known)
        if len(self.rows) == 0:
            raise EmbedxError(f"{self.test}: holds no rows to score on")
        one = self.options.get("labels") in ("first", "lowest-id")
        self.is_single = one or bool((self.rows.labels.n_of_row <= 1).all())
        if self.validation is None:
            self.validation = f"{min(VALIDATION, MAX_VALIDATION / len(training)):.3g}"
        elif share_of_rows(self.validation) == 0:
            if self.settings.tune:
                raise EmbedxError("--tune needs validation data, but --validation is 0; leave out one of them")
            self.validation = None
        return {
            "training rows": len(training), "features": training.n_features, "labels": training.n_labels,
            "test rows": len(self.rows), "validation": self.validation or "none",
        }  # fmt: skip

    def validation_score(self, model: Path, facts: Mapping[str, Any]) -> float | None:
        """The best score of the validation data."""
        return max((score for _, _, score in self.curve(facts)), default=None)

    def scores(self, model: Path) -> tuple[dict[str, Score], dict[str, Any]]:
        """The scores of a saved classifier on the test rows, and facts that stand beside them."""
        found, n = classifier.load(model), len(self.rows)
        groups = [found.evaluate(self.rows.rows(np.arange(k, n, GROUPS))) for k in range(min(GROUPS, n))]
        counted = [int(each["n"]) for each in groups]
        sizes: dict[str, list[int]] = dict.fromkeys(self.measures, counted)
        sizes["log_likelihood"] = [int(each["n"] - each["n_unknown"]) for each in groups]
        scores = {}
        for name in self.measures:
            if all(name in each for each in groups) and sum(sizes[name]) > 0:
                sums = [each[name] * size if size else 0.0 for each, size in zip(groups, sizes[name], strict=True)]
                scores[name] = Score.of_groups(sums, sizes[name])
        return scores, {}

    def curve(self, facts: Mapping[str, Any]) -> list[list[float]]:
        """[epochs, seconds, score of the validation data] after each epoch, from what a run printed."""
        measure = "log_likelihood" if self.is_single else "ndcg@5"
        return learning_curves.validation_points(facts, measure)


def fingerprint(file: str) -> list[int] | None:
    """Size and time of what a file is now; None for what is no file."""
    try:
        status = os.stat(file.split("@")[0])
    except (OSError, ValueError):
        return None
    return [status.st_size, status.st_mtime_ns]


def looks_labelled(name: str) -> bool:
    """Whether a file begins like labelled data that `embedx classify` reads."""
    if not os.path.isfile(name):
        return False
    head = head_of(source_of(name))
    return is_binary(head) or begins_labelled(head)
