"""Tables as plain text: on a terminal, and as CSV for spreadsheets."""

import csv
import io
from collections.abc import Iterable, Sequence

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\n")


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, its columns side by side."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


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
        cell = cell.replace("\r", "\\r")  # which csv does not quote
    if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) and not _is_number(cell):
        return f"'{cell}"
    return cell


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
