"""Results in rows: a table on a terminal, elsewhere tab-separated values without a heading, or
JSON.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from embedx.errors import visible
from embedx.pages.plain import aligned, tab_separated
from embedx.spelling import as_typed


def show(heading: Sequence[str], rows: Sequence[Sequence[str]], value: Any = None) -> None:
    """Print `value` as JSON or, if it is None, the rows."""
    if value is not None:
        print(json.dumps(value))
    elif sys.stdout.isatty():
        print("\n".join(aligned([heading, *([*map(visible, row)] for row in rows)])))
    else:
        print("".join(f"{line}\n" for line in tab_separated(rows)), end="")


def show_facts(facts: Mapping[str, Any], as_json: bool) -> None:
    """Print named values of any kind, a row each."""
    rows = [(name.replace("_", " "), text(value)) for name, value in facts.items()]
    show(("name", "value"), rows, facts if as_json else None)


def text(value: Any) -> str:
    """A value for people."""
    if isinstance(value, list | tuple):
        return " ".join(map(text, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name.replace('_', '-')}={text(item)}" for name, item in value.items())
    if type(value) is int:
        return f"{value:,}"
    return as_typed(value) or "-"
