"""A ranking as text, as CSV with all numbers, and as a page."""

import csv
import io
import math
from collections.abc import Mapping
from typing import Any

from embedx.comparison.ranking import NAMES, Line, Ranking
from embedx.evaluation.statistics import Error, Estimate, Standing
from embedx.evaluation.word_report import aligned
from embedx.pages import curves as drawing
from embedx.pages.document import render
from embedx.settings import as_arguments, as_typed

MEGABYTE = 1e6
DASH = "-"
NOTE = (
    "± beside a score: half of its 95 % interval; beside a difference: its standard error. Objectives share a rank unless they "
    "differ significantly (Student's t at 5 %, with Holm's correction for all pairs of objectives)."
)


def shown(value: float, error: float, sign: str = "") -> str:
    """`-8.876 ± 0.011`; without what is not known."""
    if not math.isfinite(value):
        return DASH
    return f"{value:{sign}.3f}" + (f" ± {error:.3f}" if math.isfinite(error) else "")


def cells(ranking: Ranking, line: Line) -> dict[str, str]:
    """The columns of one objective, as people read them."""
    by = ranking.by
    found = {"objective": line.objective, "rank": str(line.standings[by].rank) if by in line.standings else DASH}
    for measure in ranking.measures:
        standing = line.standings.get(measure)
        found[NAMES[measure]] = DASH if standing is None else shown(standing.score.value, standing.score.half_width())
        if measure == by:
            behind = standing.behind if standing else None
            found[f"minus {ranking.first.objective}"] = DASH if behind is None else shown(behind.value, behind.error, "+")
    found |= {
        f"{ranking.unit}/s": f"{line.pace:,.0f}",
        "peak MB": DASH if line.peak is None else f"{line.peak / MEGABYTE:,.0f}",
        "epochs": f"{line.epochs:.1f}",
        "seconds": f"{line.seconds:.1f}",
        "runs": str(len(line.seeds)),
    }
    return found | ({"tuned": " ".join(as_arguments(line.tuned)) or DASH} if any(each.tuned for each in ranking.lines) else {})


def text(ranking: Ranking) -> str:
    """The table, what went wrong and what follows, for a terminal."""
    if not ranking.lines:
        return "\n".join(ranking.troubles)
    rows = [cells(ranking, line) for line in ranking.lines]
    lines = aligned([list(rows[0]), *(list(row.values()) for row in rows)])
    return "\n".join([*lines, NOTE, *ranking.troubles, "", *ranking.advice])


def all_numbers(ranking: Ranking) -> list[list[str]]:
    """Every number, a row for each objective under a row of names; "" where there is none."""
    reference = ranking.first.objective if ranking.lines else ""
    tuned = sorted({name for line in ranking.lines for name in line.tuned})
    rows = []
    for line in ranking.lines:
        row = {"objective": line.objective, "runs": str(len(line.seeds))}
        for measure in ranking.measures:
            row |= numbers_of(measure, line.standings.get(measure), reference)
        row |= {
            f"{ranking.unit}_per_second": f"{line.pace:.0f}",
            "peak_memory_mb": "" if line.peak is None else f"{line.peak / MEGABYTE:.1f}",
            "epochs": f"{line.epochs:.3f}",
            "seconds": f"{line.seconds:.3f}",
            "training_loss": "" if line.loss is None else f"{line.loss:.5f}",
            **{name: as_typed(line.tuned.get(name)) for name in tuned},
        }
        rows.append(row)
    return [list(rows[0]), *(list(row.values()) for row in rows)] if rows else []


def numbers_of(measure: str, standing: Standing | None, reference: str) -> dict[str, str]:
    """The columns of one measure."""
    none = Estimate(math.nan, (Error(math.nan, 0),))
    score, behind = (standing.score, standing.behind or none) if standing else (none, none)
    return {
        measure: plain(score.value),
        f"{measure}_standard_error": plain(score.error),
        f"{measure}_rank": str(standing.rank) if standing else "",
        f"{measure}_minus_{reference}": plain(behind.value),
        f"{measure}_minus_{reference}_standard_error": plain(behind.error),
        f"{measure}_items": str(standing.items) if standing else "",
    }


def plain(value: float) -> str:
    return f"{value:.5f}" if math.isfinite(value) else ""


def csv_text(ranking: Ranking) -> str:
    """The same as a file."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(all_numbers(ranking))
    return out.getvalue()


def as_dict(ranking: Ranking) -> dict[str, Any]:
    """The same as plain JSON types; None where there is no number."""
    head, *rows = all_numbers(ranking) or [[]]
    numbers = [{name: as_number(cell) for name, cell in zip(head, row, strict=True)} for row in rows]
    return {"ranked_by": ranking.by, "objectives": numbers, "advice": ranking.advice, "troubles": ranking.troubles}


def as_number(cell: str) -> str | float | None:
    """A cell as the number that it is; a name as it is."""
    try:
        return int(cell) if cell.isdecimal() else float(cell) if cell else None
    except ValueError:
        return cell


def page(name: str, ranking: Ranking, curve_of: str, circumstances: Mapping[str, str]) -> str:
    """The page of a comparison on the data of that name."""
    rows = [cells(ranking, line) for line in ranking.lines]
    drawn = drawing.drawable(ranking.curves)
    return render(
        "compare.html",
        f"Objectives compared on {name}",
        advice=ranking.advice,
        troubles=ranking.troubles,
        about=NOTE,
        rows=[list(rows[0]), *(list(row.values()) for row in rows)] if rows else [],
        best=[ranking.by in line.standings and line.standings[str(ranking.by)].rank == 1 for line in ranking.lines],
        names={each: drawing.style_of(k) for k, each in enumerate(drawn)},
        charts=[drawing.chart(drawn, x, curve_of, f"plot{x}") for x in (drawing.SECONDS, drawing.EPOCHS)] if drawn else [],
        numbers=all_numbers(ranking),
        circumstances=[f"{key}: {value}" for key, value in circumstances.items()],
    )
