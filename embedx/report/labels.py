"""The page of a classifier: its predictions for test data."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy import int32, ndarray

from embedx import samplers
from embedx.classification.classifier import Classifier
from embedx.classification.settings import ClassifySettings
from embedx.evaluation import answers
from embedx.evaluation.answers import FrequencyBin, Reliability
from embedx.evaluation.labels import LabelMetrics, hits, per_label_rows
from embedx.evaluation.learning_curves import validation_points
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.read import read
from embedx.pages import charts as drawing
from embedx.pages.charts import BOTTOM, LEFT, RIGHT, TOP, Axis
from embedx.report.settings import ReportSettings
from embedx.report.words import number
from embedx.settings import Settings
from embedx.training.progress import Progress

PREDICTIONS = 10  # predicted for each row
SHOWN_PREDICTIONS = 5
SHOWN_FEATURES = 12  # words of a row, those of the largest values
MISTAKES = 10
MAX_ROWS = 25  # of a table of labels
MAX_LABELS = 100  # with precision and recall
DASH = "–"
PALE = 0.35  # opacity of the bar of a bin with few predictions


def findings(
    classifier: Classifier,
    source: str | None,
    test_labels: str | None,
    settings: ReportSettings,
    progress: Progress,
) -> dict[str, Any]:
    """What the page of a classifier shows, for its template: the predictions for test data or,
    without these, the labels.
    """
    measures = {"p@1": "P@1", "p@5": "P@5", "log_likelihood": "log-likelihood"}
    sampler = samplers.SAMPLERS.get(str(classifier.settings.get("sampler")))
    used: list[type[Settings]] = [
        ClassifySettings,
        type(classifier.objective.settings),
        *([sampler.Settings] if sampler else []),
    ]
    defaults = {name: value for each in used for name, value in each().record().items()}
    curves = {
        f"validation {measures[name]}": validation_points(classifier.facts, name)
        for name in ("p@1", "log_likelihood")
    }
    common: dict[str, Any] = {"defaults": defaults, "curve_of": curves}
    figures = {"labels": f"{classifier.n_labels:,}"}
    if source is None:
        return common | {"source": None, "key_figures": figures, **in_training(classifier)}
    data = read(source, test_labels, progress=progress, like=classifier.known)
    decided, label_rows = by_label(classifier, data, progress)
    metrics = classifier.evaluate(data, progress=progress) | decided
    top, probability, labels, kept = predictions(classifier, data, progress)
    data = data.rows(kept)
    is_right = hits(top, labels)
    labelled = np.flatnonzero(labels.n_of_row)
    drawn = np.random.default_rng(settings.seed).permutation(len(data))[: settings.examples]
    wrong = labelled[~is_right[labelled, 0]]
    surest = wrong[np.argsort(-probability[wrong, 0], kind="stable")][:MISTAKES]

    def name(k: int) -> str:
        return classifier.name(k) if k < classifier.n_labels else f"unknown label {k}"

    def example_rows(rows: ndarray) -> list[list[str]] | None:
        """A table of rows with their labels and predictions and, where features are words, those of
        the largest values.
        """
        has_words = data.schema.vocabulary is not None and data.is_sparse
        found = [
            [
                "row" if data.ids is None else "id",
                "labels",
                "best predictions",
                *(["words"] if has_words else []),
            ]
        ]
        for row in rows.tolist():
            best = list(zip(top[row].tolist(), probability[row], is_right[row], strict=True))[
                :SHOWN_PREDICTIONS
            ]
            shown = ", ".join(f"{name(k)} {p:.3f}{' ✓' if right else ''}" for k, p, right in best)
            words = [" ".join(heaviest(data, row))] if has_words else []
            called = f"{kept[row]:,}" if data.ids is None else str(data.ids[row])
            found.append([called, ", ".join(map(name, labels[row])) or DASH, shown, *words])
        return found if len(rows) else None

    confused = answers.confusions(top, labels)
    reliability = answers.reliability(
        probability[labelled, 0].astype(np.float64), is_right[labelled, 0]
    )
    rows = [["label", "wrong prediction", "rows"]]
    rows += [
        [name(each.label), name(each.answer), f"{each.rows:,}"] for each in confused[:MAX_ROWS]
    ]
    figures["test rows"] = f"{len(data):,}"
    figures |= {
        title: f"{metrics[name]:.4f}" for name, title in measures.items() if name in metrics
    }
    return common | {
        "key_figures": figures,
        "source": Path(source).name,
        "metrics": [
            ["metric", "value"],
            *([name.replace("_", " "), number(value)] for name, value in metrics.items()),
        ],
        "warning": classifier.likelihood_warning(metrics),
        **at_each_k(top, labels),
        "chart_of_reliability": reliability_chart(
            reliability, about_reliability(classifier, reliability)
        ),
        "bins": frequency_rows(answers.by_frequency(top, labels, classifier.counts)),
        "by_label": label_rows[: 1 + MAX_LABELS],
        "confused": rows if confused else None,
        "mistakes": example_rows(surest),
        "examples": example_rows(np.sort(drawn)),
    }


def predictions(
    classifier: Classifier, data: Labeled, progress: Progress
) -> tuple[ndarray, ndarray, Labels, ndarray]:
    """The best labels of the rows that are tested, by id, int32 (rows, PREDICTIONS), their
    probabilities, the labels that these rows have, and which of all rows they are.
    """
    labels, kept = classifier.tested_labels(data.labels)
    best = list(classifier.top_k(data.features[kept], PREDICTIONS, progress))
    none = np.zeros((0, min(PREDICTIONS, classifier.n_labels)), np.float32)
    top, probability = (np.concatenate([each[k] for each in best] or [none]) for k in (0, 1))
    return top.astype(int32), probability, labels, kept


def heaviest(data: Labeled, row: int) -> list[str]:
    """The words of a row that have the largest values, the largest first."""
    assert data.schema.vocabulary is not None
    start, end = data.features.indptr[row : row + 2]
    order = np.argsort(-data.features.data[start:end], kind="stable")
    found = data.features.indices[start:end][order]
    # no n-grams
    return [
        data.schema.vocabulary[k]
        for k in found[found < len(data.schema.vocabulary)][:SHOWN_FEATURES]
    ]


# ---- tables


def percent(value: float) -> str:
    return f"{100 * value:.1f} %" if math.isfinite(value) else DASH


def in_training(classifier: Classifier) -> dict[str, list[list[str]]]:
    """How often labels occur in training: by frequency, and the most frequent ones."""
    bins = answers.by_frequency(np.zeros((0, 1), int32), Labels.of_rows([]), classifier.counts)
    first = np.argsort(-classifier.counts, kind="stable")[:MAX_ROWS].tolist()
    frequent = [
        ["label", "training rows"],
        *([classifier.name(k), f"{classifier.counts[k]:,}"] for k in first),
    ]
    return {"bins": [row[:3] for row in frequency_rows(bins)], "frequent": frequent}


def by_label(
    classifier: Classifier, data: Labeled, progress: Progress
) -> tuple[dict[str, float], list[list[str]]]:
    """The measures of decisions, and how well each label is decided on, the most frequent in test
    rows first; both are empty where the classifier has no probabilities to decide by.
    """
    if classifier.facts.get("several_labels") and not classifier.has_probabilities:
        return {}, []
    measures, counts = classifier.evaluate_decisions(data, progress=progress)
    names = [classifier.name(k) for k in range(classifier.n_labels)]
    head, *rows = per_label_rows(names, classifier.counts, measures.get("threshold"), counts)
    return measures, [head, *sorted(rows, key=lambda row: -int(row[2]))]


def frequency_rows(bins: Sequence[FrequencyBin]) -> list[list[str]]:
    """A row for each bin."""
    ks = list(bins[0].recall) if bins else []
    head = [
        "labels",
        "how many",
        "training rows of a label",
        "in test rows",
        *(f"recall at {k}" for k in ks),
    ]
    rows = [[*head, "top predictions", "precision"]]
    for each in bins:
        counted = [
            f"{each.labels:,}",
            f"{each.min_rows:,} to {each.max_rows:,}",
            f"{each.occurrences:,}",
        ]
        recall = [percent(each.recall[k]) for k in ks]
        rows.append([each.name, *counted, *recall, f"{each.predicted:,}", percent(each.precision)])
    return rows


# ---- the best k predictions


def scores_at_each_k(top: ndarray, labels: Labels) -> dict[str, list[float]]:
    """Precision, recall and nDCG of the best k predictions, int (rows, k) by id, for each k."""
    ks = range(1, top.shape[1] + 1)
    metrics, labelled = LabelMetrics(0, ks=tuple(ks)), np.flatnonzero(labels.n_of_row)
    metrics.add_ranked(top, labels)
    found, right = metrics.result(), hits(top, labels)[labelled].cumsum(axis=1)
    recall = (
        (right / labels.n_of_row[labelled, None]).mean(axis=0)
        if len(labelled)
        else np.full(len(ks), math.nan)
    )
    return {
        "precision": [found[f"p@{k}"] for k in ks],
        "recall": recall.tolist(),
        "nDCG": [found[f"ndcg@{k}"] for k in ks],
    }


def at_each_k(top: ndarray, labels: Labels) -> dict[str, Any]:
    """The same as a table and a chart."""
    curves, ks = scores_at_each_k(top, labels), range(1, top.shape[1] + 1)
    rows = [
        ["k", *curves],
        *([f"{k}", *(number(values[k - 1]) for values in curves.values())] for k in ks),
    ]
    lines = {
        name: [[(k, k, value) for k, value in zip(ks, values, strict=True)]]
        for name, values in curves.items()
    }
    chart = drawing.curves_chart(
        lines, 0, "score on labelled rows", "by-k", x_label="k, the number of predictions"
    )
    return {
        "by_k": rows,
        "chart_by_k": chart,
        "by_k_names": {name: drawing.style_of(n) for n, name in enumerate(curves)},
    }


# ---- reliability


def about_reliability(classifier: Classifier, found: Reliability) -> str:
    """What the diagram shows, and what its probabilities are."""
    about = (
        "Reliability: top predictions by their probability, and the share that is correct; on the"
        " diagonal both agree. The more predictions, the stronger the colour. Expected calibration"
        f" error {number(found.error)} over {found.n.sum():,} labelled rows."
    )
    if "calibration" in classifier.arrays:
        return f"{about} Probabilities are calibrated on rows that were held out of training."
    if not classifier.objective.calibrated:
        about += (
            f" {classifier.objective.name} has no probabilities of its own: these are a softmax of"
            " its scores."
        )
    elif classifier.facts.get("several_labels") and not classifier.judges_labels_alone:
        about += (
            " Labels share one probability, so that rows with several labels have more correct"
            " predictions than expected."
        )
    return about


def reliability_chart(found: Reliability, about: str) -> dict[str, Any]:
    """Bars of the share of correct predictions by probability, with a point at their mean
    probability, for the template.
    """
    x = Axis("probability of the top prediction", 0.0, 1.0, LEFT, RIGHT)
    y = Axis("share that is correct", 0.0, 1.0, BOTTOM, TOP)
    bins, n_max, bars, marks = len(found.n), max(int(found.n.max(initial=0)), 1), [], []
    for k in np.flatnonzero(found.n).tolist():
        right, mean, n = float(found.accuracy[k]), float(found.confidence[k]), int(found.n[k])
        size = {"width": round((RIGHT - LEFT) / bins - 2, 1), "height": round(BOTTOM - y(right), 1)}
        bars.append(
            {
                "x": x(k / bins) + 1,
                "y": y(right),
                **size,
                "opacity": round(PALE + (1 - PALE) * n / n_max, 2),
            }
        )
        marks.append(
            (
                x(mean),
                y(right),
                "c0",
                [f"{k / bins:.1f} to {(k + 1) / bins:.1f}", *map(drawing.shown, (mean, right)), n],
            )
        )
    columns = ["probability", "mean probability", "share correct", "predictions"]
    diagonal = [("c1 dashed", f"{LEFT},{BOTTOM} {RIGHT},{TOP}", "")]
    return drawing.chart(
        x,
        y,
        "reliability",
        columns,
        bars=bars,
        marks=marks,
        lines=diagonal,
        caption=about,
        has_columns=False,
    )
