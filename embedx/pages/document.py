"""A page from its parts: head and body, lists of sentences, key figures, tables that sort, data for its script.

All text is escaped here, whatever is in it.
"""

import json
from collections.abc import Container, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STYLE, SCRIPT = (HERE / "page.css").read_text("utf-8"), (HERE / "tables.js").read_text("utf-8")


def document(title: str, body: Sequence[str], style: str = "", script: str = "") -> str:
    """The whole page, whose body is HTML that was escaped already; `style` and `script` come after those of tables."""
    return "\n".join(
        [
            "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>", f"<style>\n{STYLE}{style}</style>", "</head>", "<body>",
            f"<h1>{escape(title)}</h1>", *body, f"<script>\n{SCRIPT}{script}</script>", "</body>", "</html>", "",
        ]
    )  # fmt: skip


def items(lines: Sequence[str]) -> list[str]:
    """A list of sentences."""
    return ["<ul>", *(f"<li>{escape(line)}</li>" for line in lines), "</ul>"] if lines else []


def note(text: str) -> str:
    """A paragraph in a smaller, paler hand."""
    return f'<p class="faint">{escape(text)}</p>'


def figures(values: Mapping[str, str]) -> str:
    """The numbers that one looks at first, by their names."""
    parts = (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in values.items())
    return f'<dl class="figures">{"".join(parts)}</dl>'


def table(
    rows: Sequence[Sequence[str]], best: Sequence[bool] = (), names: Container[str] = ("objective",), texts: Container[str] = ()
) -> str:
    """A table, the first row its head, whose columns sort at a click on their names; `best` says which rows stand out.

    names  columns that hold names, to the left and sorted by their letters; the others hold numbers
    texts  columns of names that hold several, in lines as long as there is room
    """
    kinds = ["name text" if head in texts else "name" if head in names else "" for head in rows[0]]

    def row(tag: str, cells: Sequence[str]) -> str:
        attributes = (f' class="{kind}"' if kind else "" for kind in kinds)
        return "".join(f"<{tag}{kind}>{cell}</{tag}>" for cell, kind in zip(cells, attributes, strict=True))

    head = row("th", [f'<button type="button">{escape(text)}</button>' for text in rows[0]])
    starts = ('<tr class="best">' if is_best else "<tr>" for is_best in best or [False] * (len(rows) - 1))
    lines = [start + row("td", list(map(escape, cells))) + "</tr>" for start, cells in zip(starts, rows[1:], strict=True)]
    return "\n".join(
        ['<div class="wide"><table>', f"<thead><tr>{head}</tr></thead>", "<tbody>", *lines, "</tbody></table></div>"]
    )


def data(name: str, value: Any) -> str:
    """Plain JSON types as an element of that id, for a script to parse; no text in them ends the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{name}">{text}</script>'
