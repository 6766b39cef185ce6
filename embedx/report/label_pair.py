"""The page of two classifiers: their scores on the same test rows, side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedx.classification.classifier import Classifier
from embedx.classification.label_report import report_of_one, warn_of_training_rows
from embedx.errors import public_url
from embedx.evaluation import statistics
from embedx.evaluation.f1 import per_label_rows
from embedx.evaluation.labels import scores_by_groups
from embedx.evaluation.statistics import Score
from embedx.evaluation.word_report import with_ends
from embedx.labeled.data import Labeled
from embedx.labeled.read import read_test
from embedx.pages import charts as drawing
from embedx.report.contract import PageRequest
from embedx.report.label_charts import scores_at_each_k
from embedx.report.runs import styles_of
from embedx.runtime.progress import Progress

# Measures, by whether rows have several labels.
MEASURES = {
    False: {"accuracy": "accuracy", "ndcg@5": "nDCG@5", "log_likelihood": "log-likelihood"},
    True: {
        "p@1": "P@1",
        "p@3": "P@3",
        "p@5": "P@5",
        "ndcg@5": "nDCG@5",
        "log_likelihood": "log-likelihood",
    },
}
# Columns of `per_label_rows`.
TEST_ROWS = 2
RECALL = 5
F1 = 6
# Number of labels listed that gain most, and of those that lose most.
MAX_LABELS = 10


def values_for_pair(classifiers: Sequence[Classifier], request: PageRequest) -> dict[str, Any]:
    """Scores, those at each number of predictions, and the labels that differ most.

    Empty without test data.
    """
    test = request.test
    if test is None:
        return {}
    progress = request.progress
    data = [
        read_test(test, request.test_labels, schema=classifier.schema, progress=progress)
        for classifier in classifiers
    ]
    for classifier, rows in zip(classifiers, data, strict=True):
        warn_of_training_rows(classifier, rows, test, progress)
    return {
        "source": Path(public_url(test)).name,
        **tested(classifiers, request.names, data, progress),
    }


def tested(
    models: Sequence[Classifier],
    names: Sequence[str],
    data: Sequence[Labeled],
    progress: Progress,
) -> dict[str, Any]:
    """The scores of two classifiers on the same test rows, for the template.

    These are the scores with the intervals of paired differences, precision (or recall, where rows
    have one label) at each number of predictions, and the labels that differ most.

    data  the test rows as each model reads them
    """
    have_several_labels = any(model.has_several_labels for model in models)
    measures = MEASURES[have_several_labels]
    measure_at_k = "precision" if have_several_labels else "recall"
    scores = [
        scores_by_groups(model.evaluate, rows, measures)
        for model, rows in zip(models, data, strict=True)
    ]
    curves = {}
    label_rows = []
    for name, model, rows in zip(names, models, data, strict=True):
        analysis = report_of_one(model, name, rows, progress).analysis
        assert analysis is not None
        predicted = analysis.predicted
        at_k = scores_at_each_k(predicted.top, predicted.labels)[measure_at_k]
        curves[name] = [[(k, k, value) for k, value in enumerate(at_k, 1)]]
        label_rows.append({row[0]: row for row in per_label_rows(analysis.by_label)[1:]})

    chart = drawing.curves_chart(
        curves,
        0,
        measure_at_k,
        "by-k",
        styles=styles_of(names),
        x_label="k, the number of predictions",
    )
    return {
        "scores": score_rows(names, measures, *scores),
        "chart_by_k": chart,
        "labels": differing_labels(names, *label_rows),
    }


def score_rows(
    names: Sequence[str],
    measures: Mapping[str, str],
    scores_a: Mapping[str, Score],
    scores_b: Mapping[str, Score],
) -> list[list[str]]:
    """A table of the measures that both models have, with their differences.

    measures  their titles by name
    """
    rows = [["measure", *names, " - ".join(names)]]
    for measure, title in measures.items():
        if measure not in scores_a or measure not in scores_b:
            continue
        runs = {"A": [scores_a[measure]], "B": [scores_b[measure]]}
        standings = statistics.standings(runs, "B")
        row = [title]
        for side in ("A", "B"):
            score = standings[side].score
            row.append(with_ends(measure, score.value, score.interval()))
        difference = standings["A"].behind
        if difference is None:
            row.append("–")
        else:
            row.append(with_ends(measure, difference.value, difference.interval(), "+"))
        rows.append(row)
    return rows


def differing_labels(
    names: Sequence[str],
    rows_a: Mapping[str, Sequence[str]],
    rows_b: Mapping[str, Sequence[str]],
) -> list[list[str]]:
    """The labels of which the first model finds the most test rows more than the second, and the
    most fewer.

    rows_a, rows_b  by label: its row of `per_label_rows`
    """

    def gain(label: str) -> float:
        recall_a = float(rows_a[label][RECALL])
        recall_b = float(rows_b[label][RECALL])
        return int(rows_a[label][TEST_ROWS]) * (recall_a - recall_b)

    labels = rows_a.keys() & rows_b.keys()
    ordered = sorted(labels, key=lambda label: (-gain(label), label))
    columns = [f"{measure} of {side}" for measure in ("recall", "F1") for side in names]
    rows = [["label", "test rows", *columns]]
    for label in dict.fromkeys([*ordered[:MAX_LABELS], *ordered[-MAX_LABELS:]]):
        a = rows_a[label]
        b = rows_b[label]
        rows.append([label, a[TEST_ROWS], a[RECALL], b[RECALL], a[F1], b[F1]])
    return rows
