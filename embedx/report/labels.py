"""The page of a classifier: its predictions for test data."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy import int32, ndarray

from embedx import samplers
from embedx.classification.classifier import Classifier
from embedx.classification.label_metrics import likelihood_warning
from embedx.classification.label_report import report_of_one, warn_of_training_rows
from embedx.classification.prediction_analysis import (
    PredictionAnalysis,
    Predictions,
    frequency_rows,
    name_of_label,
    threshold_rows,
)
from embedx.classification.settings import ClassifySettings
from embedx.errors import Setting, public_url
from embedx.evaluation import error_analysis
from embedx.evaluation.f1 import per_label_rows
from embedx.evaluation.labels import hits
from embedx.evaluation.learning_curves import validation_points
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.read import read_test
from embedx.report.confusion import heatmap
from embedx.report.contract import PageRequest
from embedx.report.label_charts import at_each_k, coverage_chart, reliability_chart
from embedx.report.numbers import number_rows
from embedx.report.settings import ReportSettings
from embedx.settings import Settings

N_SHOWN_PREDICTIONS = 5
N_SHOWN_WORDS = 12
N_MISTAKES = 10
# Rows of a table of labels.
MAX_ROWS = 25
# Labels listed with precision and recall.
MAX_LABELS = 100
DASH = "–"
# Measures at the top of a page, by whether rows have several labels.
MEASURES = {
    False: {"accuracy": "accuracy", "log_likelihood": "log-likelihood"},
    True: {"p@1": "P@1", "p@5": "P@5", "log_likelihood": "log-likelihood"},
}


def values_for_model(classifier: Classifier, request: PageRequest) -> dict[str, Any]:
    """What the page of a classifier shows, for its template.

    These are the predictions for test data or, without these, the labels in training.
    """
    measures = MEASURES[classifier.has_several_labels]
    first = next(iter(measures.values()))
    curves = {
        f"validation {first}": validation_points(classifier.facts, "p@1"),
        "validation log-likelihood": validation_points(classifier.facts, "log_likelihood"),
    }
    values: dict[str, Any] = {
        "defaults": default_settings(classifier),
        "curve_of": curves,
        "curve_settings": request.spelled(Setting("validation", 0.1)),
        "test_setting": request.spelled(Setting("test")),
    }
    if request.test is not None:
        return values | _values_for_test(classifier, request.test, request)
    key_figures = {"labels": f"{classifier.n_labels:,}"}
    return values | {"source": None, "key_figures": key_figures} | in_training(classifier)


def _values_for_test(classifier: Classifier, source: str, request: PageRequest) -> dict[str, Any]:
    """What the page shows of the predictions for the test data `source`."""
    progress = request.progress
    data = read_test(source, request.test_labels, schema=classifier.schema, progress=progress)
    warn_of_training_rows(classifier, data, source, progress)
    metrics = report_of_one(classifier, request.names[0], data, progress)
    analysis = metrics.analysis
    assert analysis is not None
    predicted = analysis.predicted

    key_figures = {"labels": f"{classifier.n_labels:,}", "test rows": f"{len(predicted.kept):,}"}
    for name, title in MEASURES[classifier.has_several_labels].items():
        if name in metrics:
            key_figures[title] = f"{metrics[name]:.4f}"
    return {
        "key_figures": key_figures,
        "source": Path(public_url(source)).name,
        "metrics": number_rows("metric", metrics),
        "warning": likelihood_warning(classifier, metrics),
        **at_each_k(classifier, predicted),
        "chart_of_reliability": reliability_chart(classifier, analysis.reliability),
        "headlines": " ".join(analysis.headlines),
        "thresholds": threshold_rows(analysis.thresholds),
        "chart_of_coverage": coverage_chart(analysis),
        "bins": frequency_rows(analysis.by_frequency),
        "by_label": label_rows(analysis)[: 1 + MAX_LABELS],
        "confused": confusion_rows(analysis),
        "chart_of_confusion": confusion_chart(analysis),
        **example_tables(classifier, data, predicted, request.settings),
    }


def default_settings(classifier: Classifier) -> dict[str, Any]:
    """The defaults of the settings of training, the objective and the sampler, by name."""
    groups: list[type[Settings]] = [ClassifySettings, type(classifier.objective.settings)]
    sampler = samplers.SAMPLERS.get(str(classifier.settings.get("sampler")))
    if sampler is not None:
        groups.append(sampler.Settings)
    defaults: dict[str, Any] = {}
    for group in groups:
        defaults |= group().record()
    return defaults


# ---- test rows with their predictions


def example_tables(
    classifier: Classifier, data: Labeled, predicted: Predictions, settings: ReportSettings
) -> dict[str, list[list[str]] | None]:
    """The wrong predictions of the highest probability, and random rows, for the template."""
    is_right = hits(predicted.top, predicted.labels)
    labelled = np.flatnonzero(predicted.labels.n_of_row)
    wrong = labelled[~is_right[labelled, 0]]
    by_probability = np.argsort(-predicted.probability[wrong, 0], kind="stable")
    mistakes = wrong[by_probability][:N_MISTAKES]

    rng = np.random.default_rng(settings.seed)
    random_rows = rng.permutation(len(predicted.kept))[: settings.examples]

    tested = data.rows(predicted.kept)
    return {
        "mistakes": example_rows(classifier, tested, predicted, mistakes),
        "examples": example_rows(classifier, tested, predicted, np.sort(random_rows)),
    }


def example_rows(
    classifier: Classifier, tested: Labeled, predicted: Predictions, rows: ndarray
) -> list[list[str]] | None:
    """A table of rows with their labels and predictions; None without rows.

    Where features are words, it has those of the largest values.
    """
    if len(rows) == 0:
        return None
    has_words = tested.schema.vocabulary is not None and tested.is_sparse
    head = ["row" if tested.ids is None else "id", "labels", "best predictions"]
    if has_words:
        head.append("words")

    table = [head]
    for row in rows.tolist():
        id_of_row = f"{predicted.kept[row]:,}" if tested.ids is None else str(tested.ids[row])
        labels = ", ".join(name_of_label(classifier, label) for label in predicted.labels[row])
        cells = [id_of_row, labels or DASH, shown_predictions(classifier, predicted, row)]
        if has_words:
            cells.append(" ".join(largest_words(tested, row)))
        table.append(cells)
    return table


def shown_predictions(classifier: Classifier, predicted: Predictions, row: int) -> str:
    """The best predictions of a row with their probabilities: `sport 0.812 ✓, film 0.101`."""
    best = predicted.top[row, :N_SHOWN_PREDICTIONS].tolist()
    correct = set(predicted.labels[row])
    texts = []
    for label, probability in zip(best, predicted.probability[row], strict=False):
        mark = " ✓" if label in correct else ""
        texts.append(f"{name_of_label(classifier, label)} {probability:.3f}{mark}")
    return ", ".join(texts)


def largest_words(data: Labeled, row: int) -> list[str]:
    """The words of a row that have the largest values, the largest first."""
    vocabulary = data.schema.vocabulary
    assert vocabulary is not None
    start, end = data.features.indptr[row : row + 2]
    order = np.argsort(-data.features.data[start:end], kind="stable")
    features = data.features.indices[start:end][order]
    # Ids of n-grams follow those of words.
    words = features[features < len(vocabulary)]
    return [vocabulary[word] for word in words[:N_SHOWN_WORDS]]


# ---- tables of labels


def in_training(classifier: Classifier) -> dict[str, list[list[str]]]:
    """How often labels occur in training: by frequency, and the most frequent ones."""
    no_rows = np.zeros((0, 1), int32)
    bins = error_analysis.by_frequency(no_rows, Labels.of_rows([]), classifier.counts)
    # The columns about test rows are left out.
    bin_rows = [row[:2] for row in frequency_rows(bins)]

    most_frequent = np.argsort(-classifier.counts, kind="stable")[:MAX_ROWS]
    label_rows = [
        [classifier.name(label), f"{classifier.counts[label]:,}"]
        for label in most_frequent.tolist()
    ]
    return {"bins": bin_rows, "frequent": [["label", "training rows"], *label_rows]}


def label_rows(analysis: PredictionAnalysis) -> list[list[str]]:
    """A table of labels, the most frequent in test rows first; empty where the classifier has no
    probabilities to decide by.
    """
    if not analysis.by_label:
        return []
    head, *rows = per_label_rows(analysis.by_label)
    rows.sort(key=lambda row: -int(row[2]))
    return [head, *rows]


def confusion_rows(analysis: PredictionAnalysis) -> list[list[str]] | None:
    """A table of labels that are missed for another, the most frequent first; None without any."""
    if not analysis.confused:
        return None
    rows = [["label", "wrong prediction", "rows"]]
    for confusion in analysis.confused[:MAX_ROWS]:
        label = analysis.name_of(confusion.label)
        wrong_label = analysis.name_of(confusion.prediction)
        rows.append([label, wrong_label, f"{confusion.rows:,}"])
    return rows


def confusion_chart(analysis: PredictionAnalysis) -> dict[str, Any] | None:
    """The heatmap of test rows, for the template; None unless rows have one label each."""
    if analysis.confusion is None:
        return None
    return heatmap(analysis.names_of(analysis.confusion.labels), analysis.confusion)
