"""Charts of a classifier's predictions for test rows: coverage, the best k, reliability."""

import math
from typing import Any

import numpy as np
from numpy import ndarray

from embedx.classification.classifier import Classifier
from embedx.classification.prediction_analysis import PredictionAnalysis, Predictions
from embedx.evaluation.error_analysis import Reliability
from embedx.evaluation.labels import LabelMetrics, hits
from embedx.labeled.data import Labels
from embedx.pages.axis import Axis
from embedx.pages.charts import BOTTOM, LEFT, RIGHT, TOP, chart, curves_chart, shown, style_of
from embedx.report.numbers import number

# Opacity of the bar of a bin with few predictions.
MIN_OPACITY = 0.35
# Points of the line of coverage.
MAX_POINTS = 200


def coverage_chart(analysis: PredictionAnalysis) -> dict[str, Any] | None:
    """The chart of accuracy against coverage, for the template; None without labelled rows."""
    _, coverage, accuracy = analysis.coverage
    if not len(coverage):
        return None
    points = np.unique(np.linspace(0, len(coverage) - 1, MAX_POINTS).round().astype(int))
    x = Axis("share of the rows that are accepted", 0.0, 1.0, LEFT, RIGHT)
    y = Axis("share of these that is correct", 0.0, 1.0, BOTTOM, TOP)
    line = " ".join(f"{x(coverage[k])},{y(accuracy[k])}" for k in points)
    marks = []
    for row in analysis.thresholds:
        if row.coverage > 0:
            cells = [f"{row.threshold:g}", *map(shown, (row.coverage, row.accuracy))]
            marks.append((x(row.coverage), y(row.accuracy), "c0", cells))
    caption = (
        "Coverage: best labels of at least a probability are accepted; the higher the threshold,"
        " the fewer rows, and the more of them are right. Points are the thresholds of the table."
    )
    return chart(
        x,
        y,
        "coverage",
        ["threshold", "rows accepted", "right of these"],
        lines=[("c0", line, "")],
        marks=marks,
        caption=caption,
        has_columns=False,
    )


def scores_at_each_k(top: ndarray, labels: Labels) -> dict[str, list[float]]:
    """Precision, recall and nDCG of the best k predictions for each k.

    top  int (rows, k): ids of labels
    """
    ks = range(1, top.shape[1] + 1)
    metrics = LabelMetrics(0, ks=tuple(ks))
    metrics.add_ranked(top, labels)
    scores = metrics.result()

    labelled = np.flatnonzero(labels.n_of_row)
    n_right = hits(top, labels)[labelled].cumsum(axis=1)
    if len(labelled):
        recall = (n_right / labels.n_of_row[labelled, None]).mean(axis=0)
    else:
        recall = np.full(len(ks), math.nan)
    return {
        "precision": [scores[f"p@{k}"] for k in ks],
        "recall": recall.tolist(),
        "nDCG": [scores[f"ndcg@{k}"] for k in ks],
    }


def at_each_k(classifier: Classifier, predicted: Predictions) -> dict[str, Any]:
    """The scores at each k as a table and a chart, for the template; without precision where rows
    have one label.
    """
    scores = scores_at_each_k(predicted.top, predicted.labels)
    if not classifier.has_several_labels:
        del scores["precision"]
    rows = [["k", *scores]]
    for k, scores_at_k in enumerate(zip(*scores.values(), strict=True), 1):
        rows.append([str(k), *map(number, scores_at_k)])

    lines = {
        name: [[(k, k, value) for k, value in enumerate(values, 1)]]
        for name, values in scores.items()
    }
    return {
        "by_k": rows,
        "chart_by_k": curves_chart(
            lines, 0, "score on labelled rows", "by-k", x_label="k, the number of predictions"
        ),
        "by_k_names": {name: style_of(n) for n, name in enumerate(scores)},
    }


def reliability_chart(classifier: Classifier, reliability: Reliability) -> dict[str, Any]:
    """Bars of the share of correct predictions by probability, for the template.

    Each has a point at its mean probability.
    """
    x = Axis("probability of the top prediction", 0.0, 1.0, LEFT, RIGHT)
    y = Axis("share that is correct", 0.0, 1.0, BOTTOM, TOP)
    bins = np.flatnonzero(reliability.n).tolist()
    return chart(
        x,
        y,
        "reliability",
        ["probability", "mean probability", "share correct", "predictions"],
        bars=[_bar(reliability, k, x, y) for k in bins],
        marks=[_mark(reliability, k, x, y) for k in bins],
        lines=[("c1 dashed", f"{LEFT},{BOTTOM} {RIGHT},{TOP}", "")],
        caption=_about_reliability(classifier, reliability),
        has_columns=False,
    )


def _bar(reliability: Reliability, k: int, x: Axis, y: Axis) -> dict[str, float]:
    """The bar of bin k, the more opaque the more predictions there are."""
    n_bins = len(reliability.n)
    top = y(float(reliability.accuracy[k]))
    share_of_largest = int(reliability.n[k]) / int(reliability.n.max())
    return {
        "x": x(k / n_bins) + 1,
        "y": top,
        "width": round((RIGHT - LEFT) / n_bins - 2, 1),
        "height": round(BOTTOM - top, 1),
        "opacity": round(MIN_OPACITY + (1 - MIN_OPACITY) * share_of_largest, 2),
    }


def _mark(
    reliability: Reliability, k: int, x: Axis, y: Axis
) -> tuple[float, float, str, list[Any]]:
    """The point of bin k: place, style and numbers."""
    n_bins = len(reliability.n)
    probability = float(reliability.confidence[k])
    accuracy = float(reliability.accuracy[k])
    ends = f"{k / n_bins:.1f} to {(k + 1) / n_bins:.1f}"
    row = [ends, shown(probability), shown(accuracy), int(reliability.n[k])]
    return x(probability), y(accuracy), "c0", row


def _about_reliability(classifier: Classifier, reliability: Reliability) -> str:
    """What the diagram shows, and where its probabilities come from."""
    about = (
        "Reliability: top predictions by their probability, and the share that is correct; on the"
        " diagonal both agree. The more predictions, the stronger the colour. Expected calibration"
        f" error {number(reliability.error)} over {reliability.n.sum():,} labelled rows."
    )
    if "calibration" in classifier.arrays:
        return f"{about} Probabilities are calibrated on rows that were held out of training."
    if not classifier.objective.traits.calibrated:
        return (
            f"{about} {classifier.objective.name} has no probabilities of its own: these are a"
            " softmax of its scores."
        )
    if classifier.has_several_labels and not classifier.has_independent_labels:
        return (
            f"{about} Labels share one probability, so that rows with several labels have more"
            " correct predictions than expected."
        )
    return about
