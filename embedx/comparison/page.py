"""A comparison as one page that needs nothing else: no file, no network, no extra; light and dark, and readable on a phone."""

from collections.abc import Mapping, Sequence
from html import escape

from embedx.comparison import curves as drawing
from embedx.comparison import tables
from embedx.comparison.ranking import Ranking

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1a; --paper: #fcfcfa; --faint: #6b6b66; --line: #d9d9d2; --best: #eef3e6;
  --c0: #2868b0; --c1: #c4551a; --c2: #2f7d3b; --c3: #8a4fa8; --c4: #b3263f; --c5: #1b8080; --c6: #8a6d0b; --c7: #5c5c5c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e3; --paper: #181817; --faint: #a0a098; --line: #3a3a37; --best: #26301c;
    --c0: #79b0f2; --c1: #f29a63; --c2: #7fcf8b; --c3: #c79be3; --c4: #f2808f; --c5: #63cccc; --c6: #d9bb52; --c7: #b5b5b5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; line-height: 1.25; margin: .5rem 0 1rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
ul { padding-left: 1.2rem; } .faint, caption { color: var(--faint); font-size: .875rem; }
.wide { overflow-x: auto; }
.charts { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .3rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--paper); }
th.name, td.name { text-align: left; } tr.best td { background: var(--best); }
th button { all: unset; cursor: pointer; font-weight: 600; } th button:focus-visible { outline: 2px solid var(--c0); }
th[aria-sort=ascending] button::after { content: " \\2191"; } th[aria-sort=descending] button::after { content: " \\2193"; }
figure { margin: 0; } figcaption { font-size: .875rem; color: var(--faint); }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--faint); }
.grid { stroke: var(--line); stroke-width: 1; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; } .dashed { stroke-dasharray: 6 4; }
.legend span { white-space: nowrap; margin-right: 1rem; } svg.key { width: 24px; height: 8px; }
code { font-size: .875rem; }
""" + "\n".join(f".c{k} {{ stroke: var(--c{k}); }}" for k in range(drawing.N_COLOURS))

SCRIPT = """
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.parentElement, table = head.closest("table"), column = head.cellIndex, body = table.tBodies[0];
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const each of table.querySelectorAll("th")) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = row => row.cells[column].textContent.replaceAll(",", ""), number = text => parseFloat(text);
  body.append(...[...body.rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)], [m, n] = [number(x), number(y)];
    if (isNaN(m) !== isNaN(n)) return isNaN(m) ? 1 : -1;
    return (up ? 1 : -1) * (isNaN(m) ? x.localeCompare(y) : m - n);
  }));
});
"""


def page(name: str, ranking: Ranking, curve_of: str, circumstances: Mapping[str, str]) -> str:
    """The page of a comparison on the data of that name."""
    body = [f"<h1>Objectives compared on {escape(name)}</h1>"]
    body += items(ranking.advice)
    if ranking.lines:
        rows = [tables.cells(ranking, line) for line in ranking.lines]
        best = [ranking.by in line.standings and line.standings[str(ranking.by)].rank == 1 for line in ranking.lines]
        body += ["<h2>Ranking</h2>", table([list(rows[0]), *(list(row.values()) for row in rows)], best)]
        body.append(f'<p class="faint">{escape(tables.NOTE)}</p>')
    else:
        body.append("<p>No run has finished.</p>")
    if ranking.troubles:
        body += ["<h2>What went wrong</h2>", *items(ranking.troubles)]
    body += charts(ranking, curve_of)
    if ranking.lines:
        body += ["<h2>All numbers</h2>", '<p class="faint">The same as in compare.csv.</p>', table(tables.all_numbers(ranking))]
    facts = [f"{key}: {value}" for key, value in circumstances.items()]
    body += ["<h2>How it was measured</h2>", *items(facts)]
    return "\n".join(
        [
            "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Objectives compared on {escape(name)}</title>", f"<style>{STYLE}</style>", "</head>", "<body>",
            *body, f"<script>{SCRIPT}</script>", "</body>", "</html>", "",
        ]
    )  # fmt: skip


def items(lines: Sequence[str]) -> list[str]:
    """A list of sentences."""
    return ["<ul>", *(f"<li>{escape(line)}</li>" for line in lines), "</ul>"] if lines else []


def table(rows: Sequence[Sequence[str]], best: Sequence[bool] = ()) -> str:
    """A table whose columns sort at a click on their names; `best` says which rows stand out."""

    def row(tag: str, texts: Sequence[str]) -> str:
        kinds = (' class="name"' if head == "objective" else "" for head in rows[0])
        return "".join(f"<{tag}{kind}>{text}</{tag}>" for text, kind in zip(texts, kinds, strict=True))

    head = row("th", [f'<button type="button">{escape(text)}</button>' for text in rows[0]])
    starts = ('<tr class="best">' if is_best else "<tr>" for is_best in best or [False] * (len(rows) - 1))
    lines = [start + row("td", list(map(escape, texts))) + "</tr>" for start, texts in zip(starts, rows[1:], strict=True)]
    return "\n".join(
        ['<div class="wide"><table>', f"<thead><tr>{head}</tr></thead>", "<tbody>", *lines, "</tbody></table></div>"]
    )


def charts(ranking: Ranking, curve_of: str) -> list[str]:
    """The learning curves against time and against epochs."""
    drawn = drawing.drawable(ranking.curves)
    if not drawn:
        return ["<h2>Learning curves</h2>", "<p>None: the runs ended before a second point could be measured.</p>"]
    parts = ["<h2>Learning curves</h2>", drawing.legend(list(drawn)), '<div class="charts">']
    for against, label in ((drawing.SECONDS, "seconds of training"), (drawing.EPOCHS, "epochs")):
        caption = f"<figcaption>{escape(curve_of)} against {label}; a line for each run</figcaption>"
        parts.append(f"<figure>{drawing.svg(drawn, against, label, curve_of)}{caption}</figure>")
    return [*parts, "</div>", '<p class="faint">The learning rate falls to zero at the end of each run.</p>']
