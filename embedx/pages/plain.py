"""Tables as plain text: on a terminal, and as CSV for spreadsheets."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\n")
ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
ESCAPED = re.compile(r"[\\\t\n\r]")
BREAKS_TABLES = re.compile(r"[\t\n\r]")


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, its columns side by side."""
    rows = [[as_cell(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def metric_rows(*columns: Mapping[str, float]) -> list[list[str]]:
    """A row for each metric of the first column: its name, and its value in each column."""
    return [[name, *(metric_cell(column.get(name)) for column in columns)] for name in columns[0]]


def metric_cell(value: float | None) -> str:
    """A metric as people read it; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}"


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """The rows as CSV. Text that a spreadsheet would take for a formula, which can run programs,
    begins with an apostrophe.
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([*map(inert, row)] for row in rows)
    return out.getvalue()


def inert(cell: object) -> object:
    """The cell, with an apostrophe before text that a spreadsheet would take for a formula."""
    if isinstance(cell, str):
        # The csv module does not quote it.
        cell = cell.replace("\r", "\\r")
    if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) and not _is_number(cell):
        return f"'{cell}"
    return cell


def _is_number(cell: str) -> bool:
    """Whether a cell is a number, perhaps with its error, as in `-8.0 ± 0.1`."""
    try:
        for part in cell.split(" ± "):
            float(part)
    except ValueError:
        return False
    return True


def tab_separated(rows: Iterable[Iterable[str]]) -> list[str]:
    """The lines of tab-separated values; see `as_cell`."""
    return ["\t".join(map(as_cell, row)) for row in rows]


def escape(name: str) -> str:
    """The name with a tab, newline, carriage return or backslash written as `\\t`, `\\n`,
    `\\r` and two backslashes.
    """
    return ESCAPED.sub(lambda match: ESCAPES[match[0]], name)


def as_cell(text: str) -> str:
    """The text as a cell of tab-separated values: escaped as in the .tsv files of a model folder if
    it has a tab or a line end.
    """
    return escape(text) if BREAKS_TABLES.search(text) else text
