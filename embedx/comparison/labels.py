"""Labelled data to compare objectives on: how a run is started, and how its classifier
is scored.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedx import objectives
from embedx.classification import classifier
from embedx.classification.resolve import (
    Problem,
    check_given,
    is_label_by_label,
    new_objective,
    resolve,
)
from embedx.classification.settings import ClassifySettings, share_of_rows
from embedx.comparison.data import Data
from embedx.comparison.settings import OF_LABELS, CompareSettings
from embedx.errors import EmbedxError
from embedx.evaluation import learning_curves
from embedx.evaluation.labels import scores_by_groups
from embedx.evaluation.statistics import Score
from embedx.labeled.arrays import is_binary
from embedx.labeled.digits import GENERATED
from embedx.labeled.files import head_of, source_of
from embedx.labeled.read import read, read_training
from embedx.labeled.tables import TableSettings
from embedx.objectives.contract import Objective
from embedx.settings import Record
from embedx.text.sources import STANDARD_INPUT, file_identity
from embedx.text.streams import begins_labelled
from embedx.training.progress import Progress

# share of the training rows, and how many at most: they are scored after each epoch
VALIDATION, MAX_VALIDATION = 0.1, 2000
PATIENCE = 2**31 - 1  # epochs: no run ends before its time
PRECISIONS = ("p@1", "p@3", "p@5")


class LabelledData(Data):
    """Training and test data.

    names  what `embedx classify` takes, with `train_labels` where it holds none; `test` and
           `test_labels` likewise
    """

    command, unit, taken, of_variants = "classify", "examples", OF_LABELS, ClassifySettings
    otherwise = "applies to text; with --test, DATA are labelled"

    def __init__(
        self,
        names: Sequence[str],
        options: Mapping[str, Any],
        settings: CompareSettings,
        **files: Any,
    ) -> None:
        super().__init__(names, options, settings, **files)
        self.train = names[0]
        self.variants: dict[str, tuple[ClassifySettings, Objective]] = {}
        self.train_labels, self.test, self.test_labels = map(
            files.get, ("train_labels", "test", "test_labels")
        )
        if len(names) > 1:
            raise EmbedxError(f"{names[1]}: with --test, DATA is one file of training rows")
        if self.test is None and self.train != GENERATED:
            raise EmbedxError(f"{self.train}: name the labelled data to score on with --test")
        if STANDARD_INPUT in (self.train, self.train_labels, settings.validation):
            raise EmbedxError("-: can be read only once, and each run reads it; name a file")

    def check(self, names: Sequence[str]) -> None:
        self.variants = {name: self._checked(name) for name in names}

    def _checked(self, name: str) -> tuple[ClassifySettings, Objective]:
        """The settings and the objective of a variant, as they are without a time budget."""
        objective, own = self.variant(name)
        objectives.check_applies(own, objective)
        settings, found = (
            ClassifySettings.from_options(self.options | own),
            new_objective(objectives.find(objective), own),
        )
        check_given(own, settings, found)
        return settings, found

    def fingerprints(self) -> list[Any]:
        validation = self.settings.validation or ""
        files = [
            self.train,
            self.train_labels,
            self.test,
            self.test_labels,
            validation,
            self.settings.validation_labels,
        ]
        return [None if file is None else [file, fingerprint(file)] for file in files]

    def prepare(self, progress: Progress) -> dict[str, Any]:
        table = TableSettings.from_options(self.options)
        training = read_training(self.train, self.train_labels, progress=progress, table=table)
        self.rows = read(
            self.test or GENERATED, self.test_labels, progress=progress, like=training.schema
        )
        if len(self.rows) == 0:
            raise EmbedxError(f"{self.test}: holds no rows to score on")
        one = self.options.get("labels") in ("first", "lowest-id")
        is_single = one or bool((self.rows.labels.n_of_row <= 1).all())
        self.measures = (
            ("log_likelihood", *PRECISIONS, "ndcg@5")
            if is_single
            else ("ndcg@5", *PRECISIONS, "log_likelihood")
        )
        self.curve_of = "validation " + ("log-likelihood" if is_single else "nDCG@5")
        # only those that ask for it: others are compared at equal time
        for name, (given, objective) in self.variants.items():
            if ":" not in name:
                continue
            resolved = resolve(Problem(given, objective, training, training))
            if is_label_by_label(resolved.settings, objective):
                self.converging.add(name)
        validation = (
            self.settings.validation or f"{min(VALIDATION, MAX_VALIDATION / len(training)):.3g}"
        )
        self.of_runs = {"train_labels": self.train_labels}
        if share_of_rows(validation) != 0:
            labels = self.settings.validation_labels
            self.of_runs |= {
                "validation": validation,
                "validation_labels": labels,
                "patience": PATIENCE,
            }
        elif self.settings.tune:
            raise EmbedxError(
                "--tune needs validation data, but --validation is 0; leave out one of them"
            )
        return {
            "training rows": len(training),
            "features": training.n_features,
            "labels": training.n_labels,
            "test rows": len(self.rows),
            "validation": self.of_runs.get("validation", "none"),
        }

    def validation_score(self, model: Path, facts: Mapping[str, Any]) -> float | None:
        return max((score for _, _, score in self.curve(facts)), default=None)

    def scores(self, model: Path) -> tuple[dict[str, Score], dict[str, Any]]:
        """The scores on the test rows, by groups of rows."""
        return scores_by_groups(classifier.load(model).evaluate, self.rows, self.measures), {}

    def curve(self, facts: Mapping[str, Any]) -> list[list[float]]:
        return learning_curves.validation_points(facts, self.measures[0])


def fingerprint(file: str) -> Record | None:
    """The identity of what a file is now; None for what is no file."""
    try:
        status = os.stat(file.split("@")[0])
    except (OSError, ValueError):
        return None
    return file_identity(status)


def looks_labelled(name: str) -> bool:
    """Whether a file begins like labelled data that `embedx classify` reads."""
    if not os.path.isfile(name):
        return False
    head = head_of(source_of(name))
    return is_binary(head) or begins_labelled(head)
