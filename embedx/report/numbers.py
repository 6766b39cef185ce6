"""Numbers as the pages of both tasks show them."""

import math
from collections.abc import Mapping
from typing import Any


def number(value: Any) -> str:
    """A count, or a number with four decimals."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}"


def number_rows(title: str, values: Mapping[str, Any]) -> list[list[str]]:
    """A table of names and numbers."""
    rows = [[title, "value"]]
    for name, value in values.items():
        rows.append([name.replace("_", " "), number(value)])
    return rows
