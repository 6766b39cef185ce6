"""Charts: coordinates and labels for the template, `plot` in parts.html.

Each mark of a chart has a row of numbers, by the columns of the chart: it is shown at the pointer,
and downloaded as CSV.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from embedx.pages.axis import Axis

# Points (epochs, seconds, score) of each run, by name.
Curves = Mapping[str, Sequence[Sequence[Sequence[float]]]]
# A score and the ends of its interval, NaN where they are unknown.
Interval = tuple[float, float, float]

# Places in a point.
EPOCHS = 0
SECONDS = 1
SCORE = 2
X_LABELS = {EPOCHS: "epochs", SECONDS: "seconds of training"}
# Small enough that letters of 12 pixels are readable on a phone, 360 pixels wide.
WIDTH = 440
HEIGHT = 300
# The plot within the picture.
LEFT = 66
RIGHT = 428
TOP = 10
BOTTOM = 258
# Pixels of a line and of a letter of a dot plot, and the maximum number of letters of a name there.
LINE_HEIGHT = 24
LETTER_WIDTH = 7
MAX_LETTERS = 18
# Minimum distance of names beside points, in pixels, so that all are readable.
NAME_HEIGHT = 13
# Colours of the page; further names are dashed.
N_COLOURS = 12
# Style of the line at 0 in a chart of differences.
ZERO_STYLE = "zero dashed"
# The ends of curves matter: scores in this share of the longest run, its beginning, are cut off
# where all later ones are better and would else have less than MIN_LATE_SHARE of the height.
EARLY_SHARE = 0.15
MIN_LATE_SHARE = 1 / 3


def chart(x: Axis, y: Axis, id: str, columns: Sequence[str], **parts: Any) -> dict[str, Any]:
    """A chart for the template; `parts` are lines, spans, bars, marks and texts.

    id  the name of the chart within its page
    """
    sizes = {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": RIGHT,
        "top": TOP,
        "bottom": BOTTOM,
    }
    axes = {"x_label": x.label, "y_label": y.label, "x_ticks": x.ticks(), "y_ticks": y.ticks()}
    empty: dict[str, Any] = {
        "lines": [],
        "spans": [],
        "bars": [],
        "marks": [],
        "texts": [],
        "rings": [],
        "has_columns": True,
    }
    empty |= {"caption": "", "is_curve": False}
    return {**sizes, **axes, **empty, "id": id, "columns": columns, **parts}


def style_of(k: int) -> str:
    """The style of the name number `k`."""
    colour = f"c{k % N_COLOURS}"
    return colour if k < N_COLOURS else f"{colour} dashed"


def shown(value: float) -> float:
    """A number with the digits that rows of marks have."""
    return float(f"{value:.5g}")


# ---- learning curves


def drawable(curves: Curves) -> dict[str, list[list[Sequence[float]]]]:
    """The runs of two points and more, by name."""
    long_runs = {
        name: [list(points) for points in runs if len(points) > 1] for name, runs in curves.items()
    }
    return {name: runs for name, runs in long_runs.items() if runs}


def over_runs(runs: Sequence[Sequence[Sequence[float]]], against: int) -> np.ndarray:
    """Mean x, and the mean, the lowest and the highest score of runs, point by point; float64 (4,
    n). Runs of fewer points are interpolated.

    against  the place of x in a point
    """
    n_points = max(map(len, runs))
    x = np.array([_interpolated(run, against, n_points) for run in runs])
    y = np.array([_interpolated(run, SCORE, n_points) for run in runs])
    return np.array([x.mean(axis=0), y.mean(axis=0), y.min(axis=0), y.max(axis=0)])


def _interpolated(run: Sequence[Sequence[float]], place: int, n_points: int) -> np.ndarray:
    """One number of each point of a run, float64 (n_points,)."""
    values = [float(point[place]) for point in run]
    return np.interp(np.linspace(0, 1, n_points), np.linspace(0, 1, len(run)), values)


def curves_chart(
    curves: Curves,
    against: int,
    y_label: str,
    id: str = "plot",
    falls: bool = False,
    styles: Mapping[str, str] | None = None,
    x_label: str | None = None,
    best: Sequence[float] | None = None,
    about: str = "",
) -> dict[str, Any]:
    """Scores against epochs or seconds: means over runs, and bands from the lowest to the highest.

    against  the place of x in a point: EPOCHS or SECONDS
    falls    the scores are losses
    best     the point that is marked as the best
    about    the beginning of the caption
    """
    points = [point for runs in curves.values() for run in runs for point in run]
    x_max = max(point[against] for point in points) or 1.0
    x = Axis(x_label or X_LABELS[against], 0.0, x_max, LEFT, RIGHT)
    y = Axis(y_label, *y_range(points, against, x_max, falls), BOTTOM, TOP)
    lines = []
    marks = []
    for k, (name, runs) in enumerate(curves.items()):
        style = (styles or {}).get(name, style_of(k))
        line, marks_of_curve = _curve(name, over_runs(runs, against), len(runs) > 1, x, y, style)
        lines.append(line)
        marks += marks_of_curve

    names = ["", x.label, y_label]
    captions = [about]
    n_runs = max(map(len, curves.values()))
    if n_runs > 1:
        names += ["lowest", "highest"]
        captions.append(f"mean of {n_runs} seeds, band from the lowest to the highest")
    captions.append(about_cut_off(points, y))

    parts: dict[str, Any] = {}
    if best is not None:
        place = (x(best[against]), y(best[SCORE]))
        parts["rings"] = [(*place, style_of(0))]
        parts["texts"] = [name_beside(place, "best")]
    caption = "; ".join(filter(None, captions))
    return chart(x, y, id, names, lines=lines, marks=marks, is_curve=True, caption=caption, **parts)


def _curve(
    name: str, curve: np.ndarray, has_band: bool, x: Axis, y: Axis, style: str
) -> tuple[tuple[str, str, str], list[Any]]:
    """The line of a curve with its band, empty if it has none, and the marks of its points.

    curve  as of `over_runs`
    """
    x_values, mean, low, high = curve.tolist()
    places = [x(value) for value in x_values]
    line = [*zip(places, map(y, mean), strict=True)]
    rows = curve[:2]
    band: list[tuple[float, float]] = []
    if has_band:
        rows = curve
        lower = [*zip(places, map(y, low), strict=True)]
        band = [*zip(places, map(y, high), strict=True), *reversed(lower)]
    marks = [
        (*place, style, [name, *map(shown, row)])
        for place, row in zip(line, rows.T.tolist(), strict=True)
    ]
    return (style, _svg_points(line), _svg_points(band)), marks


def about_cut_off(points: Sequence[Sequence[float]], y: Axis) -> str:
    """Which values lie beyond the ends of the axis; empty where none does."""
    values = [point[SCORE] for point in points]
    if max(values) > y.high:
        return f"values at the beginning are above the chart, up to {shown(max(values)):g}"
    if min(values) < y.low:
        return f"values at the beginning are below the chart, down to {shown(min(values)):g}"
    return ""


def name_beside(place: tuple[float, float], name: str) -> tuple[float, float, str, str]:
    """A name beside a point, on the side that has more room: x, y, alignment and name."""
    x, y = place
    if x > (LEFT + RIGHT) / 2:
        return x - 9, round(y + 4, 1), "end", name
    return x + 9, round(y + 4, 1), "start", name


def _svg_points(points: Sequence[tuple[float, float]]) -> str:
    """The points as SVG writes them."""
    return " ".join(f"{x},{y}" for x, y in points)


def y_range(
    points: Sequence[Sequence[float]], against: int, x_max: float, falls: bool = False
) -> tuple[float, float]:
    """The lowest and the highest score, or loss, shown, with a margin."""
    scores = [point[SCORE] for point in points]
    late = [point[SCORE] for point in points if point[against] >= EARLY_SHARE * x_max] or scores
    low = min(scores)
    high = max(scores)
    if falls:
        shown_low = low
        shown_high = max(late)
    else:
        shown_low = min(late)
        shown_high = high
    if shown_high - shown_low >= MIN_LATE_SHARE * (high - low):
        return with_margin(low, high)
    return with_margin(shown_low, shown_high)


def with_margin(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis for values from `low` to `high`."""
    margin = 0.06 * (high - low) or 0.01 * abs(high) or 0.01
    return low - margin, high + margin


# ---- scores with intervals


def known_values(interval: Interval) -> list[float]:
    """The score, and the ends of its interval if they are known."""
    return [value for value in interval if math.isfinite(value)]


def dot_plot(
    scores: Mapping[str, Interval], measure: str, id: str, styles: Mapping[str, str]
) -> dict[str, Any]:
    """A line for each name: its score and the interval of that."""
    left = 16 + LETTER_WIDTH * min(max(map(len, scores)), MAX_LETTERS)
    bottom = TOP + LINE_HEIGHT * len(scores)
    x = Axis(measure, *with_margin(*ends_of(scores)), left, RIGHT)
    y = Axis("", 0.0, len(scores), TOP, bottom)
    names = []
    spans = []
    marks = []
    zero = []
    if is_of_differences(scores):
        zero.append((ZERO_STYLE, f"{x(0)},{TOP} {x(0)},{bottom}", ""))
    for k, (name, interval) in enumerate(scores.items()):
        line = y(k + 0.5)
        names.append((line, shortened(name)))
        score, low, high = interval
        values = known_values(interval)
        if len(values) > 1:
            spans.append((x(low), line, x(high), line, styles[name]))
        marks.append((x(score), line, styles[name], [name, *map(shown, values)]))
    return chart(
        x,
        y,
        id,
        ["", measure, "low", "high"],
        left=left,
        bottom=bottom,
        height=bottom + HEIGHT - BOTTOM,
        y_ticks=names,
        lines=zero,
        spans=spans,
        marks=marks,
    )


def is_of_differences(scores: Mapping[str, Interval]) -> bool:
    """Whether the scores are differences to one of them, which is 0 and has no interval."""
    return len(scores) > 1 and any(known_values(interval) == [0.0] for interval in scores.values())


def shortened(name: str) -> str:
    """The name, its end left out where it is too long to stand beside a chart."""
    return name if len(name) <= MAX_LETTERS else f"{name[: MAX_LETTERS - 1]}…"


def ends_of(scores: Mapping[str, Interval]) -> tuple[float, float]:
    """The lowest and the highest of scores and their intervals."""
    values = [value for interval in scores.values() for value in known_values(interval)]
    return min(values), max(values)


def against_speed(
    scores: Mapping[str, Interval],
    speeds: Mapping[str, float],
    measure: str,
    unit: str,
    id: str,
    styles: Mapping[str, str],
) -> dict[str, Any]:
    """Scores with their intervals against speeds, on an axis of logarithms, with the names beside
    them.
    """
    slowest = min(speeds.values()) / 1.25
    fastest = max(speeds.values()) * 1.25
    x = Axis(unit, slowest, fastest, LEFT, RIGHT, is_log=True)
    y = Axis(measure, *with_margin(*ends_of(scores)), BOTTOM, TOP)
    places = {name: (x(speeds[name]), y(score)) for name, (score, _, _) in scores.items()}
    zero = []
    if is_of_differences(scores):
        zero.append((ZERO_STYLE, f"{LEFT},{y(0)} {RIGHT},{y(0)}", ""))
    spans = []
    marks = []
    for name, interval in scores.items():
        _, low, high = interval
        place = places[name]
        values = known_values(interval)
        if len(values) > 1:
            spans.append((place[0], y(low), place[0], y(high), styles[name]))
        marks.append((*place, styles[name], [name, round(speeds[name]), *map(shown, values)]))
    return chart(
        x,
        y,
        id,
        ["", unit, measure, "low", "high"],
        lines=zero,
        spans=spans,
        marks=marks,
        texts=_names_beside(places),
    )


def _names_beside(
    places: Mapping[str, tuple[float, float]],
) -> list[tuple[float, float, str, str]]:
    """Names beside their points, each below the one before it, so that all are readable: x, y,
    alignment and name.
    """
    texts = []
    last_y = -math.inf
    for name, (x, y) in sorted(places.items(), key=lambda item: item[1][1]):
        place_x, place_y, anchor, _ = name_beside((x, y), name)
        last_y = max(place_y, last_y + NAME_HEIGHT)
        texts.append((place_x, round(last_y, 1), anchor, name))
    return texts
