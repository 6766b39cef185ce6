"""Results as notebooks show them: HTML without style, as that of pandas. All text is escaped."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any


def table(rows: Iterable[Sequence[Any]], has_heading: bool = True) -> str:
    """The rows as a table, of which the first names the columns; none where there are no rows."""
    rows = list(rows)
    if not rows:
        return ""
    heading = ""
    if has_heading:
        heading = f"<thead>{_row('th', rows.pop(0))}</thead>"
    body = "".join(_row("td", row) for row in rows)
    return f'<table class="dataframe">{heading}<tbody>{body}</tbody></table>'


def facts_table(facts: Mapping[str, Any]) -> str:
    """A row for each fact: its name and its value."""
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(_shown(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table>{rows}</table>"


def sentences(lines: Iterable[str]) -> str:
    """A paragraph for each line that is not empty."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines if line)


def _shown(value: Any) -> str:
    """Whole numbers with commas, others to six digits, as `embedx info` prints them."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def _row(kind: str, cells: Iterable[Any]) -> str:
    inner = "".join(f"<{kind}>{escape(str(cell))}</{kind}>" for cell in cells)
    return f"<tr>{inner}</tr>"
