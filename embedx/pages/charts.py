"""Charts: coordinates and labels for the template, `plot` in parts.html.

A mark of a chart has a row of its numbers, named by the chart's columns: it is shown under the
pointer, and downloaded as CSV.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# by name, by run: points (epochs, seconds, score)
Curves = Mapping[str, Sequence[Sequence[Sequence[float]]]]
Interval = tuple[float, float, float]  # value, and the ends of its interval, which may be unknown

EPOCHS, SECONDS = 0, 1  # columns of a point
X_LABELS = {EPOCHS: "epochs", SECONDS: "seconds of training"}
# small enough that letters of 12 pixels are readable on a phone, 360 pixels wide
WIDTH, HEIGHT = 440, 300
LEFT, RIGHT, TOP, BOTTOM = 66, 428, 10, 258  # of the plot within the picture
LINE = 24  # height of a line of a dot plot
LETTER, MAX_NAME = 7, 18  # width of a letter, and how many of a name are shown beside a dot plot
TICKS = 5
# relative difference of scores that are computed in another order
ROUNDING = 1e-9
N_COLOURS = 8  # those of the page; further names are dashed
# of the longest run: scores worse than all later ones are cut off, because the ends matter
SHOWN_FROM = 0.15


class Axis:
    """Values as places between two pixels, in equal steps or by their logarithms."""

    def __init__(
        self, label: str, low: float, high: float, start: float, end: float, *, is_log: bool = False
    ) -> None:
        if not is_log and high - low <= ROUNDING * max(abs(low), abs(high)):
            # values that are equal but for rounding lie in the middle
            margin = max(abs(low), abs(high)) or 1.0
            low -= margin
            high += margin
        self.label = label
        self.low = low
        self.high = high
        self.start = start
        self.end = end
        self.is_log = is_log

    def __call__(self, value: float) -> float:
        low, high, value = (
            map(math.log, (self.low, self.high, value))
            if self.is_log
            else (self.low, self.high, value)
        )
        return round(self.start + (self.end - self.start) * (value - low) / (high - low), 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Places and labels of round numbers; 1, 2 and 5 times powers of ten on an axis of
        logarithms.
        """
        if self.is_log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)))
            found = [times * 10.0**power for power in powers for times in (1, 2, 5)]
            return [
                (self(value), f"{value:,.15g}") for value in found if self.low <= value <= self.high
            ]
        found = ticks(self.low, self.high)
        return [(self(value), tick_label(value, found)) for value in found]


def chart(x: Axis, y: Axis, id: str, columns: Sequence[str], **parts: Any) -> dict[str, Any]:
    """A chart for the template; `parts` are lines, spans, bars, marks and texts.

    id  of the chart within its page
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
        "has_columns": True,
    }
    plain = {"caption": "", "is_curve": False}
    return {**sizes, **axes, **empty, **plain, "id": id, "columns": columns, **parts}


def style_of(k: int) -> str:
    return f"c{k % N_COLOURS}" + (" dashed" if k >= N_COLOURS else "")


def shown(value: float) -> float:
    """A number as a row of a mark has it."""
    return float(f"{value:.5g}")


# ---- learning curves


def drawable(curves: Curves) -> dict[str, list[list[Sequence[float]]]]:
    """The curves of two points and more."""
    found = {
        name: [list(points) for points in runs if len(points) > 1] for name, runs in curves.items()
    }
    return {name: runs for name, runs in found.items() if runs}


def over_runs(runs: Sequence[Sequence[Sequence[float]]], against: int) -> np.ndarray:
    """Runs taken together point by point: mean x, and the mean, the lowest and the highest score;
    float64 (4, n). Runs of fewer points are interpolated.
    """
    share = np.linspace(0, 1, max(map(len, runs)))
    found = [np.array(run, dtype=np.float64).T for run in runs]
    x, y = (
        np.array([np.interp(share, np.linspace(0, 1, len(run[0])), run[k]) for run in found])
        for k in (against, 2)
    )
    return np.array([x.mean(axis=0), y.mean(axis=0), y.min(axis=0), y.max(axis=0)])


def curves_chart(
    curves: Curves,
    against: int,
    y_label: str,
    id: str = "plot",
    falls: bool = False,
    styles: Mapping[str, str] | None = None,
    x_label: str | None = None,
) -> dict[str, Any]:
    """Scores, or losses, which fall, against epochs or seconds: means over runs, and bands from the
    lowest to the highest.
    """
    points = [point for runs in curves.values() for run in runs for point in run]
    x_max = max(point[against] for point in points) or 1.0
    x = Axis(x_label or X_LABELS[against], 0.0, x_max, LEFT, RIGHT)
    y = Axis(y_label, *y_range(points, against, x_max, falls), BOTTOM, TOP)
    lines, marks = [], []
    for k, (name, runs) in enumerate(curves.items()):
        style, found = (styles or {}).get(name, style_of(k)), over_runs(runs, against)
        places, mean, low, high = (
            [axis(value) for value in row]
            for axis, row in zip((x, y, y, y), found.tolist(), strict=True)
        )
        upper, lower = list(zip(places, high, strict=True)), list(zip(places, low, strict=True))
        band = [*upper, *reversed(lower)] if len(runs) > 1 else []
        lines.append(
            (
                style,
                *(
                    " ".join(f"{a},{b}" for a, b in row)
                    for row in (zip(places, mean, strict=True), band)
                ),
            )
        )
        rows = [[name, *map(shown, row)] for row in found[: 4 if len(runs) > 1 else 2].T.tolist()]
        marks += [(a, b, style, row) for a, b, row in zip(places, mean, rows, strict=True)]
    n_runs = max(map(len, curves.values()))
    spread = ["lowest", "highest"] if n_runs > 1 else []
    caption = f"mean of {n_runs} seeds, band from the lowest to the highest" if n_runs > 1 else ""
    return chart(
        x,
        y,
        id,
        ["", x.label, y_label, *spread],
        lines=lines,
        marks=marks,
        is_curve=True,
        caption=caption,
    )


def y_range(
    points: Sequence[Sequence[float]], against: int, x_max: float, falls: bool = False
) -> tuple[float, float]:
    """The lowest and the highest score, or loss, shown, with a margin."""
    every = [point[2] for point in points]
    late = [point[2] for point in points if point[against] >= SHOWN_FROM * x_max] or every
    return with_margin(min(every), max(late)) if falls else with_margin(min(late), max(every))


def with_margin(low: float, high: float) -> tuple[float, float]:
    margin = 0.06 * (high - low) or 0.01 * abs(high) or 0.01
    return low - margin, high + margin


# ---- scores with intervals


def known_ends(found: Interval) -> list[float]:
    return [value for value in found if math.isfinite(value)]


def dot_plot(
    scores: Mapping[str, Interval], measure: str, id: str, styles: Mapping[str, str]
) -> dict[str, Any]:
    """A line for each name: its score and the interval of that."""
    left = 16 + LETTER * min(max(map(len, scores)), MAX_NAME)
    bottom = TOP + LINE * len(scores)
    x = Axis(measure, *with_margin(*ends_of(scores)), left, RIGHT)
    y = Axis("", 0.0, len(scores), TOP, bottom)
    place = {name: y(k + 0.5) for k, name in enumerate(scores)}
    return chart(
        x,
        y,
        id,
        ["", measure, "low", "high"],
        left=left,
        bottom=bottom,
        height=bottom + HEIGHT - BOTTOM,
        y_ticks=[
            (place[name], name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…")
            for name in scores
        ],
        spans=[
            (x(each[1]), place[name], x(each[2]), place[name], styles[name])
            for name, each in scores.items()
            if len(known_ends(each)) > 1
        ],
        marks=[
            (x(each[0]), place[name], styles[name], [name, *map(shown, known_ends(each))])
            for name, each in scores.items()
        ],
    )


def ends_of(scores: Mapping[str, Interval]) -> tuple[float, float]:
    """The lowest and the highest of scores and their intervals."""
    every = [value for each in scores.values() for value in known_ends(each)]
    return min(every), max(every)


def against_speed(
    scores: Mapping[str, Interval],
    speeds: Mapping[str, float],
    measure: str,
    unit: str,
    id: str,
    styles: Mapping[str, str],
) -> dict[str, Any]:
    """Scores with their intervals against speeds, on an axis of logarithms, and the names beside
    them.
    """
    x = Axis(
        unit, min(speeds.values()) / 1.25, max(speeds.values()) * 1.25, LEFT, RIGHT, is_log=True
    )
    y = Axis(measure, *with_margin(*ends_of(scores)), BOTTOM, TOP)
    place = {name: (x(speeds[name]), y(each[0])) for name, each in scores.items()}
    spans = [
        (place[n][0], y(each[1]), place[n][0], y(each[2]), styles[n])
        for n, each in scores.items()
        if len(known_ends(each)) > 1
    ]
    texts, last = [], -math.inf
    # names below each other, so that all are readable
    for name, (a, b) in sorted(place.items(), key=lambda item: item[1][1]):
        last = max(b + 4, last + 13)
        is_right = a > (LEFT + RIGHT) / 2
        texts.append(
            (a - 9 if is_right else a + 9, round(last, 1), "end" if is_right else "start", name)
        )
    marks = [
        (*place[n], styles[n], [n, round(speeds[n]), *map(shown, known_ends(each))])
        for n, each in scores.items()
    ]
    return chart(
        x, y, id, ["", unit, measure, "low", "high"], spans=spans, marks=marks, texts=texts
    )


# ---- ticks


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between two."""
    raw = (high - low) / TICKS
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * times for times in (1, 2, 5, 10) if size * times >= raw)
    first = math.ceil(low / step - 1e-9)
    return [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_label(value: float, among: Sequence[float]) -> str:
    """With as many decimals as distinguish it from the others."""
    step = among[1] - among[0] if len(among) > 1 else 1.0
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{round(value, digits) + 0.0:,.{digits}f}"
