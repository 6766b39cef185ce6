"""Learning curves as inline SVG, by own code so that no extra is needed, and as a PNG where matplotlib is installed."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

Curves = Mapping[str, Sequence[Sequence[Sequence[float]]]]  # by name, by run: points (epochs, seconds, score)

EPOCHS, SECONDS = 0, 1  # what a point has first
WIDTH, HEIGHT = 440, 300  # so that letters of 12 are read on a phone, where the picture is 360 pixels wide
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 10, 42  # of the plot within the picture
TICKS = 5
N_COLOURS = 8  # those of the page; a second round of names is dashed
SHOWN_FROM = 0.15  # of the longest run: what is worse than all scores after that is cut off, for the ends are what matters


def drawable(curves: Curves) -> dict[str, list[list[Sequence[float]]]]:
    """The curves of two points and more."""
    found = {name: [list(points) for points in runs if len(points) > 1] for name, runs in curves.items()}
    return {name: runs for name, runs in found.items() if runs}


def svg(curves: Curves, against: int, x_label: str, y_label: str, id: str = "plot", falls: bool = False) -> str:
    """A chart of the scores, or losses, which fall, against epochs or seconds; a line for each run, in the colour of its name.

    id  of the chart among those of its page
    """
    points = [point for runs in curves.values() for run in runs for point in run]
    x_most = max(point[against] for point in points) or 1.0
    low, high = y_range(points, against, x_most, falls)

    def at(point: Sequence[float]) -> str:
        x = LEFT + (WIDTH - LEFT - RIGHT) * point[against] / x_most
        y = TOP + (HEIGHT - TOP - BOTTOM) * (high - point[2]) / (high - low)
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(y_label)} against {escape(x_label)}">',
        f'<clipPath id="{id}"><rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" '
        f'height="{HEIGHT - TOP - BOTTOM}"/></clipPath>',
    ]
    y_ticks, x_ticks = ticks(low, high), ticks(0.0, x_most)
    for value in y_ticks:
        y = float(at((0.0, 0.0, value)).split(",")[1])
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick_label(value, y_ticks)}</text>')
    for value in x_ticks:
        x = LEFT + (WIDTH - LEFT - RIGHT) * value / x_most
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick_label(value, x_ticks)}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(f'<g clip-path="url(#{id})">')
    for k, (name, runs) in enumerate(curves.items()):
        for run in runs:
            line = " ".join(map(at, run))
            parts.append(f'<polyline class="{style_of(k)}" points="{line}"><title>{escape(name)}</title></polyline>')
    parts.append("</g></svg>")
    return "\n".join(parts)


def legend(names: Sequence[str]) -> str:
    """Which colour is whose."""
    start, end = '<span><svg viewBox="0 0 24 8" class="key" aria-hidden="true">', "</svg>"
    keys = (
        f'{start}<polyline class="{style_of(k)}" points="0,4 24,4"/>{end} {escape(name)}</span>' for k, name in enumerate(names)
    )
    return f'<p class="legend">{" ".join(keys)}</p>'


def style_of(k: int) -> str:
    return f"curve c{k % N_COLOURS}" + (" dashed" if k >= N_COLOURS else "")


def y_range(points: Sequence[Sequence[float]], against: int, x_most: float, falls: bool = False) -> tuple[float, float]:
    """The least and the highest score, or loss, shown, with a little room."""
    every = [point[2] for point in points]
    late = [point[2] for point in points if point[against] >= SHOWN_FROM * x_most] or every
    low, high = (min(every), max(late)) if falls else (min(late), max(every))
    room = 0.06 * (high - low) or 0.01 * abs(high) or 0.01
    return low - room, high + room


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between two."""
    raw = (high - low) / TICKS
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * times for times in (1, 2, 5, 10) if size * times >= raw)
    first = math.ceil(low / step - 1e-9)
    return [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_label(value: float, among: Sequence[float]) -> str:
    """With as many decimals as tell it from the others."""
    step = among[1] - among[0] if len(among) > 1 else 1.0
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{round(value, digits) + 0.0:,.{digits}f}"


def write_png(curves: Curves, y_label: str, file: Path) -> bool:
    """The same two charts as a picture; whether matplotlib was there to draw it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(11, 4.5), dpi=100, layout="constrained")
    panels = figure.subplots(1, 2)
    for panel, against, x_label in zip(panels, (SECONDS, EPOCHS), ("seconds of training", "epochs"), strict=True):
        points = [point for runs in curves.values() for run in runs for point in run]
        for k, (name, runs) in enumerate(curves.items()):
            for j, run in enumerate(runs):
                x, y = ([point[i] for point in run] for i in (against, 2))
                panel.plot(x, y, color=f"C{k % 10}", linestyle="-" if k < 10 else "--", label=None if j else name)
        panel.set_ylim(*y_range(points, against, max(point[against] for point in points)))
        panel.set_xlabel(x_label)
        panel.set_ylabel(y_label)
    panels[0].legend(frameon=False)
    new = file.with_name(f"new-{file.name}")
    figure.savefig(new)
    new.replace(file)
    return True
