"""Results in rows: a table on a terminal, elsewhere tab-separated values without a heading, or JSON."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from embedx.pages.plain import aligned


def show(heading: Sequence[str], rows: Sequence[Sequence[str]], value: Any = None) -> None:
    """Print `value` as JSON or, if it is None, the rows."""
    if value is not None:
        print(json.dumps(value))
    elif sys.stdout.isatty():
        print("\n".join(aligned([heading, *rows])))
    else:
        print("".join("\t".join(row) + "\n" for row in rows), end="")
