"""Pages: hand-written Markdown whose tables, between markers, are made from the records; and how
numbers and pictures look.

<!-- table of NAME -->
(made anew by --report-only; nothing else in the file is touched)
<!-- end of the table -->
"""

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

MARKED = re.compile(r"(<!-- table of ([\w-]+) -->\n)(.*?)(\n?<!-- end of the table -->)", re.DOTALL)
DASH = "–"
MEGABYTE = 1e6
TRIAL = "**A trial run on little data: it shows that everything runs, its numbers mean nothing.**"


def filled(text: str, parts: Mapping[str, str], file: Path) -> str:
    """The page with each marked part replaced by the one of its name."""
    names = [match[2] for match in MARKED.finditer(text)]
    if sorted(names) != sorted(parts):
        odd = sorted({*names} ^ {*parts}) or sorted(
            {name for name in names if names.count(name) > 1}
        )
        raise SystemExit(
            f"{file}: must have a place for each table once, between its markers: {', '.join(odd)}"
        )
    return MARKED.sub(lambda match: match[1] + parts[match[2]] + "\n" + match[4].lstrip("\n"), text)


def skeleton(title: str, parts: Iterable[str], is_trial: bool) -> str:
    """A page without prose, for a trial run."""
    places = (
        f"## {name}\n\n<!-- table of {name} -->\n<!-- end of the table -->\n" for name in parts
    )
    return "\n".join([f"# {title}\n", *([TRIAL + "\n"] if is_trial else []), *places])


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown table of rows by column; a row without a column leaves it blank."""
    if not rows:
        return "Not measured."
    head = list(dict.fromkeys(name for row in rows for name in row))
    lines = [head, ["---"] * len(head), *([row.get(name, "") for name in head] for row in rows)]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines
    )


def in_two(rows: Sequence[Mapping[str, Any]], key: str, second: Sequence[str]) -> str:
    """Two tables of rows that have too many columns for a screen, the columns `second` in the
    second one; both have the column `key`.
    """
    has_second = [row for row in rows if any(name in row for name in second)]
    return "\n\n".join(
        [
            table([{name: row[name] for name in row if name not in second} for row in rows]),
            table(
                [{name: row[name] for name in (key, *second) if name in row} for row in has_second]
            ),
        ]
    )


def listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "Not measured."


def shown_settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in settings.items()
    )


def target(promise: str, measured: str | None, met: bool | None = None) -> dict[str, str]:
    """A row: what was promised, what was measured, and whether that keeps it; None where its error
    leaves that open.
    """
    if measured is None:
        return {"target": promise, "measured": "not measured", "verdict": ""}
    return {
        "target": promise,
        "measured": measured,
        "verdict": {True: "met", False: "**not met**", None: "not shown"}[met],
    }


def exceeds(difference: float, error: float) -> bool | None:
    """Whether a difference is above 0; None if it is within two standard errors of it."""
    return None if abs(difference) < 2 * error else difference > 0


def number(value: float | None, digits: int = 3) -> str:
    if value is None or value != value:
        return DASH
    if abs(value) < 1e5:
        return f"{value:.{digits}f}"
    return f"{value:.1e}"


def mean_and_deviation(values: Sequence[float], digits: int = 3) -> str:
    """Mean ± standard deviation of the values of several seeds; the mean alone of a single one."""
    if not values:
        return DASH
    mean = number(statistics.fmean(values), digits)
    if len(values) == 1:
        return mean
    return f"{mean} ± {number(statistics.stdev(values), digits)}"


def thousands(value: float) -> str:
    return f"{round(value, -3):,.0f}"


def beside(
    what: str, paper: float | None, ours: float | None, digits: int = 3, shown: str | None = None
) -> dict[str, str]:
    """The columns of one measure: the paper's number, ours, and the difference."""
    difference = DASH if paper is None or ours is None else f"{ours - paper:+.{digits}f}"
    return {
        f"{what}: paper": number(paper, digits),
        "ours" + f" {what}": shown or number(ours, digits),
        f"{what}: difference": difference,
    }


def plotted(
    width: float,
    height: float,
    panels: Sequence[tuple[Iterable[tuple[Any, Any, dict[str, Any]]], dict[str, Any]]],
    dpi: int = 70,
    legend: int = 0,
    ylabel: str = "",
    **options: Any,
) -> Any:
    """Panels in a row, each of lines (x, y, how it looks) and of what `Axes.set` takes; `ylabel` is
    that of the first.
    """
    picture, axes = figure(width, height, len(panels), dpi=dpi, **options)
    for axis, (lines, about) in zip(axes, panels, strict=True):
        for x, y, style in lines:
            axis.plot(x, y, **style)
        axis.set(**about)
    axes[0].set_ylabel(ylabel)
    axes[legend].legend(fontsize=7)
    return picture


def figure(
    width: float,
    height: float,
    columns: int = 1,
    dpi: int = 80,
    layout: str | None = "constrained",
    rows: int = 1,
    **options: Any,
) -> Any:
    """A picture and its panels, row by row."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(width, height), dpi=dpi, layout=layout)
    return picture, picture.subplots(rows, columns, squeeze=False, **options).ravel()
