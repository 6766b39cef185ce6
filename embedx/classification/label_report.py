"""Scores of classifiers on test data, for `embedx eval --test` and `embedx.evaluate`: of one, of
several side by side, or beside the predictions of another program.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from embedx.classification import label_figures, label_frames, prediction_analysis
from embedx.classification.classifier import Classifier, load
from embedx.classification.prediction_analysis import PredictionAnalysis
from embedx.classification.suggestions import read_suggestions
from embedx.errors import InapplicableError, public_url
from embedx.evaluation import statistics
from embedx.evaluation.labels import scores_by_groups
from embedx.evaluation.statistics import Estimate, Score
from embedx.labeled.data import Labeled
from embedx.labeled.labelled_rows_from_python import labelled_rows
from embedx.labeled.read import read_test
from embedx.labeled.tables.settings import TableSettings
from embedx.pages import notebook
from embedx.pages.plain import aligned, metric_rows
from embedx.runtime.frames import data_frame
from embedx.runtime.progress import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Means over rows, whose differences are paired. PSP@k is a ratio of sums.
PAIRED_METRICS = (
    "accuracy",
    "log_likelihood",
    "log_likelihood_tempered",
    *(f"{name}@{k}" for name in ("p", "ndcg") for k in (1, 3, 5)),
)
Metrics = dict[str, float]


@dataclass(frozen=True)
class LabelTests:
    """Files of test data; each classifier reads them with its own features and labels.

    predictions  file of labels that another program suggests for the same rows
    """

    test: str
    labels: str | None = None
    table: TableSettings = dataclasses.field(default_factory=TableSettings)
    predictions: str | None = None

    def read(self, model: Classifier, progress: Progress) -> Labeled:
        """The test rows for a classifier."""
        note_probabilities(model, progress)
        data = read_test(
            self.test,
            self.labels,
            schema=model.schema,
            progress=progress,
            table=self.table,
            names_new_labels=self.predictions is not None,
        )
        warn_of_training_rows(model, data, self.test, progress)
        return data


@dataclass(frozen=True)
class RowsInMemory:
    """Test rows given from Python, as `labelled_rows` takes them."""

    rows: Any
    labels: Any
    table: TableSettings = dataclasses.field(default_factory=TableSettings)
    predictions: str | None = None

    def read(self, model: Classifier, progress: Progress) -> Labeled:
        """The test rows for a classifier."""
        note_probabilities(model, progress)
        return labelled_rows(
            self.rows,
            self.labels,
            schema=model.schema,
            table=self.table,
            names_new_labels=self.predictions is not None,
        )


class LabelReport(Metrics):
    """The metrics of a classifier on test data, by name: a dict, which prints as `embedx eval`
    does. It may have other sides, models or files of predictions, which are scored on the same
    rows.

    sides        their names, that of the classifier first
    metrics      those of each side
    differences  of two sides: how much higher the first scores, paired by rows
    analysis     details of the predictions, for a single classifier
    """

    def __init__(
        self,
        sides: Sequence[str],
        metrics: Sequence[Metrics],
        differences: Mapping[str, Estimate] | None = None,
        analysis: PredictionAnalysis | None = None,
    ) -> None:
        super().__init__(metrics[0])
        self.sides = list(sides)
        self.metrics = list(metrics)
        self.differences = dict(differences or {})
        self.analysis = analysis

    @property
    def headlines(self) -> list[str]:
        """Sentences for people, as "92 of 100 first suggestions are right."; none of several
        sides.
        """
        return self.analysis.headlines if self.analysis else []

    def __repr__(self) -> str:
        parts = [self.headlines, aligned(self._metric_rows()), *map(aligned, self._detail_rows())]
        return "\n\n".join("\n".join(part) for part in parts if part)

    def _repr_html_(self) -> str:
        metrics = notebook.table(self._metric_rows(), has_heading=len(self.sides) > 1)
        details = map(notebook.table, self._detail_rows())
        return "".join([notebook.sentences(self.headlines), metrics, *details])

    def _metric_rows(self) -> list[list[str]]:
        """A row for each metric, below the names of the sides if there are several."""
        columns = self.columns()
        heading = [["metric", *columns]] if len(self.sides) > 1 else []
        return [*heading, *metric_rows(*columns.values())]

    def _detail_rows(self) -> list[list[list[str]]]:
        """The tables of the analysis, each with a heading."""
        if self.analysis is None:
            return []
        return [
            prediction_analysis.frequency_rows(self.analysis.by_frequency),
            prediction_analysis.threshold_rows(self.analysis.thresholds),
        ]

    def columns(self) -> dict[str, Metrics]:
        """The metrics by the name of the side; of two sides also their difference, and the ends of
        its 95 % interval, `from` and `to`.
        """
        columns = dict(zip(self.sides, self.metrics, strict=True))
        return columns | self.columns_of_difference()

    def columns_of_difference(self) -> dict[str, Metrics]:
        """The last three columns; none where there are no differences."""
        if not self.differences:
            return {}
        intervals = {name: estimate.interval() for name, estimate in self.differences.items()}
        return {
            "difference": {name: estimate.value for name, estimate in self.differences.items()},
            "from": {name: low for name, (low, _) in intervals.items()},
            "to": {name: high for name, (_, high) in intervals.items()},
        }

    def to_frame(self, kind: str = "metrics") -> Any:
        """A `pandas.DataFrame`. Raises `EmbedxError` without pandas, and where there is none of
        that kind.

        kind  "metrics": a row for each metric, with its name and a column for each side; of two
              sides also for the difference and the ends of its 95 % interval.

              Of one classifier alone also

              "labels"       each label with its precision, recall and F1, as by --per-label
              "frequency"    rare to frequent labels with recall and precision
              "thresholds"   coverage, the share of the rows that is accepted, and accuracy, the
                             share of these that is right, at a few thresholds
              "coverage"     the same at every probability of a first prediction
              "reliability"  first predictions in bins by their probability: their mean
                             probability, `confidence`, and the share that is right, `accuracy`
              "confusion"    rows of each label (index) by first prediction (columns), where rows
                             have one label; of more than 30 labels the 20 most confused
              "confused"     pairs of a missed label and a wrong prediction, the most frequent first
        """
        if kind != "metrics":
            return label_frames.frame(self._detail_for(kind), kind)
        columns = self.columns()
        rows = [
            {"metric": metric}
            | {name: column[metric] for name, column in columns.items() if metric in column}
            for metric in self
        ]
        return data_frame(rows, ["metric", *columns])

    def plot(self, kind: str | None = None, ax: "Axes | None" = None) -> "Axes":
        """Draw a figure, and return its matplotlib Axes. Raises `EmbedxError` without matplotlib,
        and where there is no figure of that kind.

        kind  of two sides "differences" with their 95 % intervals. Of one classifier alone
              "coverage" (the default), "thresholds", "reliability" or "confusion", as of
              `to_frame`; colours of a confusion are shares of a label's rows
        ax    where to draw; by default new Axes
        """
        if (kind is None and self.differences) or kind == "differences":
            return label_figures.differences(self._intervals(), " - ".join(self.sides), ax)
        kind = kind or "coverage"
        return label_figures.figure(self._detail_for(kind), kind, self.sides[0], ax)

    def _intervals(self) -> dict[str, tuple[float, float, float]]:
        """The differences of means of rows that lie within 0 and 1, with their 95 % intervals.
        Raises `InapplicableError` where there are none.
        """
        if not self.differences:
            problem = "needs two classifiers"
            remedy = "evaluate one against another"
            raise InapplicableError("kind", "differences", problem, remedy)
        return {
            name: (self.differences[name].value, *self.differences[name].interval())
            for name in PAIRED_METRICS
            if name in self.differences and not name.startswith("log_")
        }

    def _detail_for(self, kind: str) -> PredictionAnalysis:
        """The details of predictions; raises `InapplicableError` if there are several sides."""
        if self.analysis is None:
            problem = "is for a single classifier"
            raise InapplicableError("kind", kind, problem, "evaluate one alone")
        return self.analysis


def report_of_one(
    model: Classifier,
    name: str,
    data: Labeled,
    progress: Progress,
    *,
    needs_decisions: bool = False,
) -> LabelReport:
    """The metrics of a classifier on test rows with those of its decisions, and their detail.

    Without probabilities there is no threshold to decide by: then there are none of decisions, or
    with `needs_decisions` an `EmbedxError` is raised.
    """
    metrics = model.evaluate(data, progress=progress)
    decisions = None
    can_decide = not model.has_several_labels or model.has_probabilities
    if can_decide or needs_decisions:
        measures, decisions = model.evaluate_decisions(data, progress=progress)
        metrics |= measures
    analysis = PredictionAnalysis(
        prediction_analysis.predictions(model, data, progress),
        model.counts,
        partial(prediction_analysis.name_of_label, model),
        decisions,
        metrics.get("threshold"),
    )
    return LabelReport([name], [metrics], analysis=analysis)


def evaluate(
    models: Sequence[Classifier | str], tests: LabelTests | RowsInMemory, progress: Progress
) -> LabelReport:
    """The scores of classifiers or their folders, and of the predictions if there are any; of one
    classifier alone with the metrics of its decisions.
    """
    names = _names_of(models)
    if len(models) == 1 and tests.predictions is None:
        model = _opened(models[0])
        return report_of_one(model, names[0], tests.read(model, progress), progress)

    has_two_sides = len(models) + (tests.predictions is not None) == 2
    metrics_of_side = []
    scores = []
    for model_or_folder in models:
        model = _opened(model_or_folder)
        data = tests.read(model, progress)
        metrics_of_side.append(model.evaluate(data, progress=progress))
        if has_two_sides:
            scores.append(scores_by_groups(model.evaluate, data, PAIRED_METRICS))
    if tests.predictions is not None:
        names.append(tests.predictions)
        # Any of the models serves to number the labels: the last one, whose rows are at hand.
        suggestions = read_suggestions(tests.predictions, model, data)
        numbered = dataclasses.replace(data, ids=np.arange(len(data)))
        metrics_of_side.append(suggestions.evaluate(numbered))
        if has_two_sides:
            scores.append(scores_by_groups(suggestions.evaluate, numbered, PAIRED_METRICS))
    differences = paired_differences(*scores) if has_two_sides else None
    return LabelReport(names, metrics_of_side, differences)


def _opened(model: Classifier | str) -> Classifier:
    """The classifier, or that in the folder."""
    return load(model) if isinstance(model, str) else model


def _names_of(models: Sequence[Classifier | str]) -> list[str]:
    """The folders, or the objectives of classifiers in memory; numbered where several are alike."""
    names = [model if isinstance(model, str) else model.objective.name for model in models]
    numbers = [names[: k + 1].count(name) for k, name in enumerate(names)]
    return [
        name if number == 1 else f"{name} {number}"
        for name, number in zip(names, numbers, strict=True)
    ]


def paired_differences(
    first: Mapping[str, Score], second: Mapping[str, Score]
) -> dict[str, Estimate]:
    """The paired difference of each metric that both have for the same rows."""
    differences = {}
    for name, score in first.items():
        if name not in second:
            continue
        sides = ([score], [second[name]])
        difference = statistics.difference(*sides, statistics.between_seeds(sides))
        if difference is not None:
            differences[name] = difference
    return differences


def warn_of_training_rows(model: Classifier, data: Labeled, file: str, progress: Progress) -> None:
    """Warn if the test rows are those that the classifier was trained on."""
    if data.hash() == model.facts.get("data_hash"):
        progress.warn(
            f"{public_url(file)} has the rows that the classifier was trained on: scores of new"
            " rows are lower"
        )


def note_probabilities(model: Classifier, progress: Progress) -> None:
    """Say so if probabilities are only a softmax of scores: see `has_probabilities`."""
    if not model.has_probabilities:
        progress.note(
            f"{model.objective.name} defines no probabilities; those shown are a softmax of its"
            " scores"
        )
