"""Labelled data to compare objectives on: how runs start, and how classifiers are scored."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedx import objectives
from embedx.classification import classifier
from embedx.classification.ineffective_settings import check_given
from embedx.classification.label_weights import is_labelwise
from embedx.classification.objective_choice import new_objective
from embedx.classification.problem import Problem, given_names
from embedx.classification.resolve import resolve_settings
from embedx.classification.settings import NONE, ClassifySettings, share_of_rows
from embedx.comparison.data import Data
from embedx.comparison.settings import LABEL_SETTINGS, CompareSettings
from embedx.errors import DataError, InapplicableError, Setting
from embedx.evaluation import learning_curves
from embedx.evaluation.labels import scores_by_groups
from embedx.evaluation.statistics import Score
from embedx.labeled.data import Labeled
from embedx.labeled.digits import GENERATED
from embedx.labeled.files import LabelledFile, source_of
from embedx.labeled.formats import array_format_of
from embedx.labeled.named_data import files_of, rows_to_test_on
from embedx.labeled.read import read_test, read_training
from embedx.labeled.repeated_rows import note_repeated_rows
from embedx.labeled.tables.settings import TableSettings
from embedx.objectives.contract import Objective
from embedx.runtime.progress import SILENT, Progress
from embedx.settings import Record
from embedx.tasks.requests import ClassifyRequest
from embedx.text.labelled_starts import begins_labelled
from embedx.text.sources import STANDARD_INPUT, file_identity

# Share and maximum number of training rows that are scored after each epoch.
VALIDATION_SHARE = 0.1
MAX_VALIDATION_ROWS = 2000
# In epochs: validation never ends a run early.
PATIENCE = 2**31 - 1
PRECISIONS = ("p@1", "p@3", "p@5")


class LabelledData(Data):
    """Training and test data.

    names  training data for `embedx classify`, with a file `train_labels` if they have no labels;
           `test` and `test_labels` likewise
    rows   the test rows, which `prepare` reads
    """

    rows: Labeled

    command = "classify"
    unit = "examples"
    pace = "examples_per_second"
    applicable = LABEL_SETTINGS
    variant_settings = ClassifySettings
    why_inapplicable = ("applies to text, but with ", Setting("test"), " DATA are labelled")

    def __init__(
        self,
        names: Sequence[str],
        options: Mapping[str, Any],
        settings: CompareSettings,
        **files: Any,
    ) -> None:
        super().__init__(names, options, settings, **files)
        self.train = list(names)
        self.variants: dict[str, tuple[ClassifySettings, Objective]] = {}
        self.train_labels = files.get("train_labels")
        self.test = files.get("test") or rows_to_test_on(names)
        self.test_labels = files.get("test_labels")

        if self.test is None and self.train != [GENERATED]:
            remedy = ("name them with ", Setting("test"))
            raise DataError(self.train[0], None, "no labelled data to score on", remedy)
        if STANDARD_INPUT in (*self.train, self.train_labels, settings.validation):
            raise DataError(
                STANDARD_INPUT, None, "can be read only once, and each run reads it", "name a file"
            )

    def check(self, names: Sequence[str]) -> None:
        self.variants = {name: self._checked(name) for name in names}

    def _checked(self, name: str) -> tuple[ClassifySettings, Objective]:
        """The settings and the objective of a variant, without a time budget."""
        objective_name, options = self.variant(name)
        objectives.check_applies(options, objective_name)
        settings = ClassifySettings.from_options(self.options | options)
        objective = new_objective(objectives.find(objective_name), options)
        check_given(options, settings, objective)
        return settings, objective

    def request_of(self, objective: str, options: Record) -> ClassifyRequest:
        return ClassifyRequest(
            train=self.train,
            train_labels=self.train_labels,
            objective=objective,
            options=options,
        )

    def fingerprints(self) -> list[Any]:
        files = files_of(self.train)
        if self.test is not None:
            files += files_of(self.test)
        validation = self.settings.validation
        if validation is not None and share_of_rows(validation) is None:
            files += files_of(validation)
        label_files = (self.train_labels, self.test_labels, self.settings.validation_labels)
        files += filter(None, label_files)
        return [[file, fingerprint(file)] for file in files]

    def prepare(self, progress: Progress) -> dict[str, Any]:
        table = TableSettings.from_options(self.options)
        threads = self.settings.threads
        training = read_training(
            self.train, self.train_labels, table=table, progress=progress, threads=threads
        )
        self.rows = read_test(
            self.test or GENERATED,
            self.test_labels,
            schema=training.schema,
            progress=progress,
            threads=threads,
        )

        note_repeated_rows(training, self.rows, progress)
        self.n_outputs = training.n_labels
        self._choose_measures()
        self.converging |= self._converging_variants(training)
        self.run_options = self._options_of_runs(len(training))
        text = training.schema.text
        if text is not None:
            # All runs have the features of the test rows.
            self.run_options["word_ngrams"] = text.settings["word_ngrams"]
        return {
            "training rows": len(training),
            "features": training.n_features,
            "labels": training.n_labels,
            "test rows": len(self.rows),
            "validation": self.run_options.get("validation", "none"),
        }

    def _choose_measures(self) -> None:
        """Rank by log-likelihood where test rows have one label each, else by nDCG."""
        keeps_one_label = self.options.get("labels") in ("first", "lowest-id")
        if keeps_one_label or bool((self.rows.labels.n_of_row <= 1).all()):
            self.measures = ("log_likelihood", "accuracy", "ndcg@5")
            self.curve_of = "validation log-likelihood"
        else:
            self.measures = ("ndcg@5", *PRECISIONS, "log_likelihood")
            self.curve_of = "validation nDCG@5"

    def _converging_variants(self, training: Labeled) -> set[str]:
        """The variants that train to convergence, among those with settings of their own.

        Objectives by name alone are compared at equal time.
        """
        converging = set()
        for name, (settings, objective) in self.variants.items():
            if ":" not in name:
                continue
            _, options = self.variant(name)
            names = given_names({**self.options, **options})
            problem = Problem(settings, objective, training, training, given_names=names)
            resolved = resolve_settings(problem)
            if is_labelwise(resolved.settings, objective):
                converging.add(name)
        return converging

    def _options_of_runs(self, n_training_rows: int) -> dict[str, Any]:
        """The validation data, and no neighbours: blended with the labels of the same neighbours,
        objectives would differ less than they do. A variant may name some.
        """
        options: dict[str, Any] = {"neighbours": NONE}
        default_share = min(VALIDATION_SHARE, MAX_VALIDATION_ROWS / n_training_rows)
        validation = self.settings.validation or f"{default_share:.3g}"
        if share_of_rows(validation) != 0:
            options["validation"] = validation
            options["validation_labels"] = self.settings.validation_labels
            options["patience"] = PATIENCE
        elif self.settings.tune:
            problem = ("needs validation data, but ", Setting("validation"), " is 0")
            raise InapplicableError("tune", None, problem, "leave out one of them")
        return options

    def validation_score(self, model: Path, facts: Mapping[str, Any]) -> float | None:
        return max((score for _, _, score in self.curve(facts)), default=None)

    def scores(self, model: Path) -> tuple[dict[str, Score], dict[str, Any]]:
        """The scores on the test rows, by groups of rows."""
        return scores_by_groups(classifier.load(model).evaluate, self.rows, self.measures), {}

    def curve(self, facts: Mapping[str, Any]) -> list[list[float]]:
        return learning_curves.validation_points(facts, self.measures[0])


def fingerprint(file: str) -> Record | None:
    """The identity of a file's current content; None if there is no file."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    return file_identity(status)


def looks_labelled(name: str) -> bool:
    """Whether a file begins like labelled data that `embedx classify` reads."""
    if not os.path.isfile(name):
        return False
    file = LabelledFile(source_of(name), SILENT)
    return array_format_of(file) is not None or begins_labelled(file.head)
