"""The work of `embedx predict`, and of `embedx eval` on test data of classifiers."""

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from numpy import ndarray

from embedx.classification import classifier, label_report
from embedx.classification.classifier import Classifier
from embedx.classification.label_report import (
    LabelReport,
    LabelTests,
    note_probabilities,
)
from embedx.classification.predictions import max_labels
from embedx.classification.ranking import UnknownCount, unknown_rows
from embedx.classification.row_blocks import Best
from embedx.cli.requests import EvaluateRequest, PredictRequest
from embedx.cli.streams import is_read_at_once, request_progress
from embedx.distributed.settings import ClusterSettings
from embedx.errors import DataError, InapplicableError, Setting, Text
from embedx.evaluation.f1 import per_label_rows
from embedx.labeled.data import Labeled
from embedx.labeled.read import ArrivedRows, read_arriving, read_to_predict
from embedx.labeled.tables.settings import TableSettings
from embedx.pages.plain import csv_text, tab_separated
from embedx.runtime import atomic
from embedx.runtime.progress import SILENT, Progress
from embedx.settings import Record
from embedx.storage import outputs
from embedx.text.sources import STANDARD_INPUT

# Labels printed for a row, unless a number, a threshold or a coverage is given.
DEFAULT_TOP_K = 5
NONE_OF_THESE = "none of these"


# ---- prediction


class LabelFilter(NamedTuple):
    """Which of the best labels of a row are printed."""

    top_k: int
    min_probability: float
    # Whether a threshold or a coverage was asked for.
    is_decision: bool


@dataclasses.dataclass
class PrintedCounts:
    """How much was printed."""

    rows: int = 0
    labels: int = 0
    empty_rows: int = 0


class AnsweredRows(NamedTuple):
    """The best labels of some rows, and the ids of those rows where a table has them."""

    best: Best
    row_ids: ndarray | None


def predict(request: PredictRequest) -> None:
    """Print the best labels of each row, by name, with their probabilities."""
    _check_options_go_together(request)
    progress = request_progress(
        request, is_alone=request.output is not None or not is_read_at_once()
    )
    model = classifier.load(request.model)
    note_probabilities(model, progress)
    label_filter = _label_filter(request, model)

    names: list[str | None] = [model.name(label) for label in range(model.n_labels)]
    if request.abstain:
        # The id NONE is the last place.
        names.append(None if request.as_json else NONE_OF_THESE)
    answers = _answers(request, model, label_filter.top_k, progress)
    counts = _print_labels(answers, names, label_filter, request.as_json)
    if label_filter.is_decision and counts.rows:
        progress.note(
            f"labels of probability {label_filter.min_probability:.4g} and more:"
            f" {counts.labels / counts.rows:.2f} for each of {counts.rows:,} rows on average, none"
            f" for {counts.empty_rows:,}"
        )


def _check_options_go_together(request: PredictRequest) -> None:
    """Raise `InapplicableError` for options of which only one can be followed."""
    has_cluster = ClusterSettings(request.cluster, request.workers).is_asked_for
    has_coverage = request.coverage is not None
    if has_coverage and (request.search or request.threshold is not None):
        raise _inapplicable("coverage", Setting("threshold"), " or ", Setting("search"))
    if request.abstain and (request.search or has_cluster or has_coverage):
        others = (Setting("search"), ", ", Setting("cluster"), " or ", Setting("coverage"))
        raise _inapplicable("abstain", *others)
    if request.search and has_cluster:
        raise _inapplicable("search", Setting("cluster"))


def _inapplicable(setting: str, *others: Text) -> InapplicableError:
    """The error for an option that does not go with others."""
    problem = ("does not apply with ", *others)
    return InapplicableError(setting, None, problem, "leave out one of them")


def _answers(
    request: PredictRequest, model: Classifier, top_k: int, progress: Progress
) -> Iterator[AnsweredRows]:
    """The best labels of all rows, in their order; those of standard input as they come."""
    cluster = ClusterSettings(request.cluster, request.workers)
    table = TableSettings(request.text_column, None, request.id_column, header=request.header)
    is_answered_as_it_comes = not (request.search or cluster.is_asked_for)
    if request.data == STANDARD_INPUT and is_answered_as_it_comes:
        arriving = read_arriving(
            model.schema, table=table, progress=progress, threads=request.threads
        )
        yield from best_of_arriving(
            model, arriving, top_k, progress, request.threads, request.abstain
        )
        return
    data = read_to_predict(
        request.data, model.schema, table=table, progress=progress, threads=request.threads
    )
    unknown = UnknownCount()
    unknown.add(unknown_rows(model, data.features))
    best = _best_of_rows(data, model, request, top_k, cluster, progress)
    yield from _with_ids(best, data.ids)
    unknown.note(progress)


def _with_ids(best: Iterable[Best], row_ids: ndarray | None) -> Iterator[AnsweredRows]:
    """The labels of blocks of rows, with the ids of the rows of each."""
    end = 0
    for block in best:
        start = end
        end += len(block[0])
        yield AnsweredRows(block, None if row_ids is None else row_ids[start:end])


def _label_filter(request: PredictRequest, model: Classifier) -> LabelFilter:
    """Which labels to print. Raises `EmbedxError` where the model allows no threshold."""
    is_decision = request.threshold is not None or request.coverage is not None
    if not is_decision:
        return LabelFilter(request.top_k or DEFAULT_TOP_K, 0.0, is_decision)
    return LabelFilter(
        request.top_k or max_labels(model, in_sets=request.coverage is not None),
        model.min_probability(request.threshold, request.coverage),
        is_decision,
    )


def _print_labels(
    answers: Iterable[AnsweredRows],
    names: list[str | None],
    label_filter: LabelFilter,
    as_json: bool,
) -> PrintedCounts:
    """Print the labels of each row, after its id if rows have ids; how many they were."""
    counts = PrintedCounts()
    for (ids, probabilities), row_ids in answers:
        rows = zip(ids.tolist(), probabilities.tolist(), strict=True)
        for number, (row, row_probabilities) in enumerate(rows):
            labels = [
                {"label": names[label], "probability": probability}
                for label, probability in zip(row, row_probabilities, strict=True)
                if probability >= label_filter.min_probability
            ]
            row_id = None if row_ids is None else row_ids[number]
            _print_row(labels, row_ids is not None, row_id, as_json)
            counts.rows += 1
            counts.labels += len(labels)
            counts.empty_rows += not labels
        # Who wrote the lines may wait for the answers.
        sys.stdout.flush()
    return counts


def _print_row(labels: list[Record], has_id: bool, row_id: object, as_json: bool) -> None:
    """Print one row: JSON, or its id, labels and probabilities separated by tabs."""
    if as_json:
        print(json.dumps({"id": row_id, "labels": labels} if has_id else labels, default=str))
        return
    cells = [" ".join(str(row_id).split())] if has_id else []
    for label in labels:
        cells += [label["label"], f"{label['probability']:.4g}"]
    print(*tab_separated([cells]))


def best_of_arriving(
    model: Classifier,
    arriving: Iterable[ArrivedRows],
    top_k: int,
    progress: Progress = SILENT,
    threads: int | None = None,
    abstain: bool = False,
) -> Iterator[AnsweredRows]:
    """The best labels of rows that arrive on standard input, of those that are there at a time."""
    unknown = UnknownCount()
    for features, row_ids in arriving:
        unknown.add(unknown_rows(model, features))
        best = model.iter_top_k(features, top_k, threads=threads, abstain=abstain)
        yield from _with_ids(best, row_ids)
    unknown.note(progress)


def _best_of_rows(
    data: Labeled,
    model: Classifier,
    request: PredictRequest,
    top_k: int,
    cluster: ClusterSettings,
    progress: Progress,
) -> Iterable[Best]:
    """The best labels of rows that were read: by a cluster's workers, an index, or all scores."""
    if cluster.is_asked_for:
        from embedx.distributed.predict import predict as predict_by_workers

        return predict_by_workers(cluster, model, data.features, top_k, request.threads, progress)
    if request.search:
        return model.searched_top_k(
            data.features, top_k, request.scored_fraction, progress, request.threads
        )
    return model.iter_top_k(data.features, top_k, progress, request.threads, request.abstain)


# ---- test data of saved classifiers


def tests_of(request: EvaluateRequest) -> LabelTests:
    """The test data that a request names."""
    if request.test is None:
        model = request.models[0]
        raise DataError(model, None, "a classifier", ("name its test data with ", Setting("test")))
    table = TableSettings(label_column=request.label_column, header=request.header)
    return LabelTests(request.test, request.test_labels, table, request.predictions)


def tested(request: EvaluateRequest, progress: Progress) -> LabelReport:
    """The metrics of a saved classifier on test data and of its decisions, and their detail.

    Those of each label are written to the file of --per-label.
    """
    per_label = request.per_label
    if per_label is not None:
        outputs.check_file(per_label, request.overwrite)
    folder = request.models[0]
    model = classifier.load(folder)
    data = tests_of(request).read(model, progress)
    report = label_report.report_of_one(
        model, folder, data, progress, needs_decisions=per_label is not None
    )
    if per_label is not None:
        assert report.analysis is not None
        atomic.write_text(per_label, csv_text(per_label_rows(report.analysis.by_label)))
    return report


def compared_metrics(request: EvaluateRequest, progress: Progress) -> LabelReport:
    """The metrics of classifiers, and of another program's predictions, on the same rows."""
    if request.per_label is not None:
        remedy = "score one classifier at a time"
        raise InapplicableError("per_label", None, "does not apply to several models", remedy)
    return label_report.evaluate(request.models, tests_of(request), progress)
