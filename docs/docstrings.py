"""Docstrings as Markdown: our lists of names, each followed by two spaces or more and what it is,
become lists there too.
"""

import re
from typing import Any

ITEM = re.compile(r"(?P<name>[\w./-]+(?:, [\w./-]+)*) {2,}(?P<text>\S.*)")


def as_markdown(text: str) -> str:
    """The docstring, each line `name   meaning` with the lines below that are indented as an item
    of a list.
    """
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if found := ITEM.fullmatch(line.strip()):
            if not inside:
                lines.append("")
            lines.append(f"- `{found['name']}`: {found['text']}")
            inside = True
        elif inside and line.startswith("  ") and line.strip():
            lines.append("  " + line.strip())
        else:
            inside = False
            lines.append(line)
    return "\n".join(lines)


try:
    import griffe
except ImportError:  # the tests want `as_markdown` alone
    pass
else:

    class Lists(griffe.Extension):
        """What mkdocstrings loads."""

        def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
            if obj.docstring is not None:
                obj.docstring.value = as_markdown(obj.docstring.value)
