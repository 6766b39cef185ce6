"""The charts of pages as figures of matplotlib, which is no dependency."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy import ndarray

from embedx.errors import EmbedxError
from embedx.pages.charts import (
    EPOCHS,
    SCORE,
    X_LABELS,
    Curves,
    Interval,
    drawable,
    is_of_differences,
    known_values,
    over_runs,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours of groups: those of the page in light mode.
COLOURS = (
    "#2868b0",
    "#c4551a",
    "#2f7d3b",
    "#8a4fa8",
    "#b3263f",
    "#1b8080",
    "#8a6d0b",
    "#5c5c5c",
    "#b83f8c",
    "#5c7810",
    "#4f4fc8",
    "#7d4a26",
)
# Share of a line's height in a dot plot that the points of all sides take.
HEIGHT_OF_SIDES = 0.6


def axes_for(ax: "Axes | None") -> "Axes":
    """The Axes, new ones for None. Raises EmbedxError where matplotlib is not installed."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise EmbedxError("a figure needs matplotlib; pip install matplotlib") from None
    _, new_axes = pyplot.subplots(layout="constrained")
    return new_axes


def as_text(name: str) -> str:
    """A name that matplotlib shows as it is: no mathematics between dollar signs, nor one that a
    legend leaves out because it begins with an underscore.
    """
    shown = name.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def dot_plot(scores: Mapping[str, Interval], title: str, ax: "Axes | None") -> "Axes":
    """A line for each name, the first at the top: its score with its interval."""
    ax = axes_for(ax)
    for place, interval in enumerate(scores.values()):
        ax.errorbar(interval[0], place, xerr=_error(interval), fmt="o", capsize=3)
    if is_of_differences(scores):
        ax.axvline(0, color="gray", linestyle="--", linewidth=1)
    _name_lines(ax, scores, title)
    return ax


def dot_plot_of_sides(
    scores_of_side: Mapping[str, Mapping[str, Interval]], title: str, ax: "Axes | None"
) -> "Axes":
    """A line for each name, the first at the top: the scores of all sides with their intervals."""
    ax = axes_for(ax)
    n_sides = len(scores_of_side)
    names = dict.fromkeys(name for scores in scores_of_side.values() for name in scores)
    line_of_name = {name: line for line, name in enumerate(names)}
    for k, (side, scores) in enumerate(scores_of_side.items()):
        offset = HEIGHT_OF_SIDES * ((k + 0.5) / n_sides - 0.5)
        places = [line_of_name[name] + offset for name in scores]
        values, low, high = np.array([*scores.values()]).reshape(-1, 3).T
        error = [values - low, high - values]
        ax.errorbar(values, places, xerr=error, fmt="o", capsize=3, label=as_text(side))
    _name_lines(ax, names, title)
    if n_sides > 1:
        ax.legend()
    return ax


def _name_lines(ax: "Axes", names: Collection[str], title: str) -> None:
    """Write the names from the top to the bottom, and the title below."""
    ax.set_yticks(range(len(names)), [*map(as_text, names)])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel(as_text(title))


def against_speed(
    scores: Mapping[str, Interval],
    speeds: Mapping[str, float],
    title: str,
    unit: str,
    ax: "Axes | None",
) -> "Axes":
    """Scores with their intervals against speeds, on a logarithmic axis, with names beside them."""
    ax = axes_for(ax)
    for name, interval in scores.items():
        ax.errorbar(speeds[name], interval[0], yerr=_error(interval), fmt="o", capsize=3)
        place = (speeds[name], interval[0])
        ax.annotate(as_text(name), place, (6, 4), textcoords="offset points")
    if is_of_differences(scores):
        ax.axhline(0, color="gray", linestyle="--", linewidth=1)
    ax.set_xscale("log")
    ax.set_xlabel(unit)
    ax.set_ylabel(title)
    return ax


def curves(curves_by_name: Curves, title: str, ax: "Axes | None") -> "Axes":
    """Scores against epochs: means over runs, and bands from the lowest to the highest."""
    ax = axes_for(ax)
    for name, runs in drawable(curves_by_name).items():
        x, mean, low, high = over_runs(runs, EPOCHS)
        (line,) = ax.plot(x, mean, label=as_text(name))
        if len(runs) > 1:
            ax.fill_between(x, low, high, alpha=0.2, color=line.get_color())
    ax.set_xlabel(X_LABELS[EPOCHS])
    ax.set_ylabel(title)
    if ax.lines:
        ax.legend()
    return ax


def mark_best(ax: "Axes", point: Sequence[float] | None) -> None:
    """A ring around the best point of a curve, with its epoch."""
    if point is None:
        return
    epoch = point[EPOCHS]
    ax.plot([epoch], [point[SCORE]], "o", markersize=11, fillstyle="none", color="black")
    place = (epoch, point[SCORE])
    ax.annotate(f"best: epoch {epoch:.3g}", place, (8, -14), textcoords="offset points")


def points_by_group(
    places: ndarray, group: ndarray, names: Sequence[str], ax: "Axes | None"
) -> "Axes":
    """A map of points, coloured by their groups, with the names of the groups in a legend.

    places  float64 (n, 2)
    group   int (n,): of each point
    """
    ax = axes_for(ax)
    for k, name in enumerate(names):
        colour = COLOURS[k % len(COLOURS)]
        x, y = places[group == k].T
        ax.scatter(x, y, s=8, label=as_text(name), linewidths=0, color=colour)
        _write_on_map(ax, (float(np.median(x)), float(np.median(y))), name, colour)
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2)
    return ax


def _write_on_map(ax: "Axes", place: tuple[float, float], name: str, colour: str) -> None:
    """Write a name over the points of its group, its parts below each other."""
    from matplotlib.patheffects import withStroke

    text = as_text(name).replace(", ", "\n")
    outline = [withStroke(linewidth=2.5, foreground="white")]
    ax.text(
        *place,
        text,
        ha="center",
        va="center",
        color=colour,
        fontsize=8,
        weight="bold",
        path_effects=outline,
    )


def _error(interval: Interval) -> list[list[float]] | None:
    """How far the interval reaches below and above the score; None where it is unknown."""
    score, low, high = interval
    if len(known_values(interval)) < 3:
        return None
    return [[score - low], [high - score]]


def share_axes(ax: "Axes", x_label: str, y_label: str) -> None:
    """Make both axes from 0 to 1, with these labels."""
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.02)
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)


def heatmap(
    cells: Sequence[Sequence[float]], names: Sequence[str], title: str, ax: "Axes | None"
) -> "Axes":
    """A square for each pair of names: rows are labels, columns predictions."""
    ax = axes_for(ax)
    image = ax.imshow(cells, cmap="Blues", vmin=0, vmax=1)
    ax.figure.colorbar(image, ax=ax, label=title)
    shown = [*map(as_text, names)]
    ax.set_xticks(range(len(names)), shown, rotation=90)
    ax.set_yticks(range(len(names)), shown)
    ax.set_xlabel("best prediction")
    ax.set_ylabel("label")
    return ax
