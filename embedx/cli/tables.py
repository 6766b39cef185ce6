"""Results in rows: a table on a terminal, elsewhere tab-separated values without a heading, or JSON."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def show(heading: Sequence[str], rows: Iterable[Sequence[str]], value: Any = None) -> None:
    """Print `value` as JSON or, if it is None, the rows; columns of numbers are right-aligned on a terminal."""
    if value is not None:
        print(json.dumps(value))
        return
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(row))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    if not rows:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for k, title in enumerate(heading):
        table.add_column(title, justify="right" if all(_is_number(row[k]) for row in rows) else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(file=sys.stdout).print(table)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True
