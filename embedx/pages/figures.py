"""The charts of pages as figures of matplotlib, which is no dependency."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from embedx.errors import EmbedxError
from embedx.pages.charts import Interval, is_of_differences, known_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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


def dot_plot(scores: Mapping[str, Interval], title: str, ax: "Axes | None") -> "Axes":
    """A line for each name, the first at the top: its score with its interval."""
    ax = axes_for(ax)
    for place, interval in enumerate(scores.values()):
        ax.errorbar(interval[0], place, xerr=_error(interval), fmt="o", capsize=3)
    if is_of_differences(scores):
        ax.axvline(0, color="gray", linestyle="--", linewidth=1)
    ax.set_yticks(range(len(scores)), list(scores))
    ax.set_ylim(len(scores) - 0.5, -0.5)
    ax.set_xlabel(title)
    return ax


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
        ax.annotate(name, place, (6, 4), textcoords="offset points")
    if is_of_differences(scores):
        ax.axhline(0, color="gray", linestyle="--", linewidth=1)
    ax.set_xscale("log")
    ax.set_xlabel(unit)
    ax.set_ylabel(title)
    return ax


def _error(interval: Interval) -> list[list[float]] | None:
    """How far the interval reaches below and above the score; None where it is unknown."""
    score, low, high = interval
    if len(known_values(interval)) < 3:
        return None
    return [[score - low], [high - score]]


def shares(ax: "Axes", x_label: str, y_label: str) -> None:
    """Both axes from 0 to 1, with these labels."""
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
    ax.set_xticks(range(len(names)), names, rotation=90)
    ax.set_yticks(range(len(names)), names)
    ax.set_xlabel("best prediction")
    ax.set_ylabel("label")
    return ax
