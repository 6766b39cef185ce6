"""Figures of a classifier's predictions by matplotlib, by kind."""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from embedx.classification.label_frames import confusion_of
from embedx.classification.prediction_analysis import PredictionAnalysis
from embedx.errors import check_kind
from embedx.evaluation.error_analysis import N_BINS
from embedx.pages import figures
from embedx.pages.charts import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Minimum difference of the accepted shares of two thresholds that are written next to their points.
MIN_SHARE_BETWEEN_NAMES = 0.05


def figure(analysis: PredictionAnalysis, kind: str, name: str, ax: "Axes | None") -> "Axes":
    """The Axes with a figure of that kind. Raises `EmbedxError` for an unknown kind.

    name  name of the classifier
    """
    check_kind(kind, ("differences", *FIGURES))
    return FIGURES[kind](analysis, figures.as_text(name), ax)


def differences(intervals: Mapping[str, Interval], title: str, ax: "Axes | None") -> "Axes":
    """Each difference of two sides with its interval."""
    ax = figures.dot_plot(intervals, title, ax)
    ax.axvline(0, color="gray", linestyle="--", linewidth=1)
    return ax


def coverage(analysis: PredictionAnalysis, name: str, ax: "Axes | None") -> "Axes":
    """Accuracy of the accepted rows against their share, with the thresholds as points."""
    ax = figures.axes_for(ax)
    _, covered, accuracy = analysis.coverage
    (line,) = ax.plot(covered, accuracy, label=name)
    points = [row for row in analysis.thresholds if row.coverage > 0]
    ax.plot(
        [row.coverage for row in points],
        [row.accuracy for row in points],
        "o",
        color=line.get_color(),
    )
    last_named = math.inf
    for row in points:
        place = (row.coverage, row.accuracy)
        if last_named - row.coverage < MIN_SHARE_BETWEEN_NAMES:
            continue
        last_named = row.coverage
        ax.annotate(f"{row.threshold:g}", place, (-4, -14), textcoords="offset points")
    figures.share_axes(ax, "share of the rows that are accepted", "share of these that is correct")
    return ax


def thresholds(analysis: PredictionAnalysis, name: str, ax: "Axes | None") -> "Axes":
    """Coverage and accuracy against the threshold."""
    ax = figures.axes_for(ax)
    threshold, covered, accuracy = analysis.coverage
    (line,) = ax.plot(threshold, accuracy, label=f"{name}: share that is correct")
    ax.plot(
        threshold,
        covered,
        "--",
        color=line.get_color(),
        label=f"{name}: share of the rows that are accepted",
    )
    figures.share_axes(ax, "threshold", "share")
    ax.legend()
    return ax


def reliability(analysis: PredictionAnalysis, name: str, ax: "Axes | None") -> "Axes":
    """Bars of the share that is correct, and points at the mean probability, by probability."""
    ax = figures.axes_for(ax)
    bins = analysis.reliability
    used = np.flatnonzero(bins.n)
    starts = used / N_BINS
    ax.bar(starts, bins.accuracy[used], 1 / N_BINS, align="edge", alpha=0.4, edgecolor="white")
    ax.plot(bins.confidence[used], bins.accuracy[used], "o", label=f"{name}: ECE {bins.error:.3f}")
    ax.axline((0, 0), slope=1, color="gray", linestyle="--", linewidth=1)
    figures.share_axes(ax, "probability of the top prediction", "share that is correct")
    ax.legend()
    return ax


def confusion(analysis: PredictionAnalysis, name: str, ax: "Axes | None") -> "Axes":
    """The heatmap of labels and first predictions, as shares of each label's rows."""
    matrix = confusion_of(analysis)
    n_of_label = np.maximum(matrix.n_of_label, 1)[:, None]
    names = analysis.names_of(matrix.labels)
    ax = figures.heatmap(matrix.rows / n_of_label, names, "share of the label's rows", ax)
    ax.set_title(name)
    return ax


FIGURES: Mapping[str, Callable[[PredictionAnalysis, str, "Axes | None"], "Axes"]] = {
    "coverage": coverage,
    "thresholds": thresholds,
    "reliability": reliability,
    "confusion": confusion,
}
