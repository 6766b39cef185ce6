"""A comparison as one page."""

from collections.abc import Mapping
from html import escape

from embedx.comparison import tables
from embedx.comparison.ranking import Ranking
from embedx.pages import curves as drawing
from embedx.pages.document import document, items, note, table


def page(name: str, ranking: Ranking, curve_of: str, circumstances: Mapping[str, str]) -> str:
    """The page of a comparison on the data of that name."""
    body = items(ranking.advice)
    if ranking.lines:
        rows = [tables.cells(ranking, line) for line in ranking.lines]
        best = [ranking.by in line.standings and line.standings[str(ranking.by)].rank == 1 for line in ranking.lines]
        body += ["<h2>Ranking</h2>", table([list(rows[0]), *(list(row.values()) for row in rows)], best)]
        body.append(note(tables.NOTE))
    else:
        body.append("<p>No run has finished.</p>")
    if ranking.troubles:
        body += ["<h2>What went wrong</h2>", *items(ranking.troubles)]
    body += charts(ranking, curve_of)
    if ranking.lines:
        body += ["<h2>All numbers</h2>", note("The same as in compare.csv."), table(tables.all_numbers(ranking))]
    facts = [f"{key}: {value}" for key, value in circumstances.items()]
    body += ["<h2>How it was measured</h2>", *items(facts)]
    return document(f"Objectives compared on {name}", body)


def charts(ranking: Ranking, curve_of: str) -> list[str]:
    """The learning curves against time and against epochs."""
    drawn = drawing.drawable(ranking.curves)
    if not drawn:
        return ["<h2>Learning curves</h2>", "<p>None: the runs ended before a second point could be measured.</p>"]
    parts = ["<h2>Learning curves</h2>", drawing.legend(list(drawn)), '<div class="charts">']
    for against, label in ((drawing.SECONDS, "seconds of training"), (drawing.EPOCHS, "epochs")):
        caption = f"<figcaption>{escape(curve_of)} against {label}; a line for each run</figcaption>"
        parts.append(f"<figure>{drawing.svg(drawn, against, label, curve_of, f'plot{against}')}{caption}</figure>")
    return [*parts, "</div>", note("The learning rate falls to zero at the end of each run.")]
