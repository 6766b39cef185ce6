"""Charts of learning curves: coordinates and labels for the templates."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

Curves = Mapping[str, Sequence[Sequence[Sequence[float]]]]  # by name, by run: points (epochs, seconds, score)

EPOCHS, SECONDS = 0, 1  # columns of a point
X_LABELS = {EPOCHS: "epochs", SECONDS: "seconds of training"}
WIDTH, HEIGHT = 440, 300  # small enough that letters of 12 pixels are readable on a phone, 360 pixels wide
LEFT, RIGHT, TOP, BOTTOM = 54, 428, 10, 258  # of the plot within the picture
TICKS = 5
N_COLOURS = 8  # those of the page; further names are dashed
SHOWN_FROM = 0.15  # of the longest run: scores worse than all later ones are cut off, because the ends matter


def drawable(curves: Curves) -> dict[str, list[list[Sequence[float]]]]:
    """The curves of two points and more."""
    found = {name: [list(points) for points in runs if len(points) > 1] for name, runs in curves.items()}
    return {name: runs for name, runs in found.items() if runs}


def frame(x_label: str, y_label: str, **more: Any) -> dict[str, Any]:
    """What every chart has."""
    sizes = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM}
    return {**sizes, "x_label": x_label, "y_label": y_label, **more}


def chart(curves: Curves, against: int, y_label: str, id: str = "plot", falls: bool = False) -> dict[str, Any]:
    """A chart of scores, or of losses, which fall, against epochs or seconds: a line for each run, coloured by name.

    id  of the chart within its page
    """
    points = [point for runs in curves.values() for run in runs for point in run]
    x_max = max(point[against] for point in points) or 1.0
    low, high = y_range(points, against, x_max, falls)

    def x(value: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * value / x_max, 1)

    def y(value: float) -> float:
        return round(TOP + (BOTTOM - TOP) * (high - value) / (high - low), 1)

    x_ticks, y_ticks = ticks(0.0, x_max), ticks(low, high)
    return frame(
        X_LABELS[against],
        y_label,
        id=id,
        has_columns=True,
        x_ticks=[(x(value), tick_label(value, x_ticks)) for value in x_ticks],
        y_ticks=[(y(value), tick_label(value, y_ticks)) for value in y_ticks],
        lines=[
            (name, style_of(k), " ".join(f"{x(point[against])},{y(point[2])}" for point in run))
            for k, (name, runs) in enumerate(curves.items())
            for run in runs
        ],
    )


def style_of(k: int) -> str:
    return f"curve c{k % N_COLOURS}" + (" dashed" if k >= N_COLOURS else "")


def y_range(points: Sequence[Sequence[float]], against: int, x_max: float, falls: bool = False) -> tuple[float, float]:
    """The lowest and the highest score, or loss, shown, with a margin."""
    every = [point[2] for point in points]
    late = [point[2] for point in points if point[against] >= SHOWN_FROM * x_max] or every
    low, high = (min(every), max(late)) if falls else (min(late), max(every))
    margin = 0.06 * (high - low) or 0.01 * abs(high) or 0.01
    return low - margin, high + margin


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
