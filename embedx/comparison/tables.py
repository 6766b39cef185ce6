"""A ranking as text, as CSV with all numbers, and as a page."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from embedx.comparison.ranking import NAMES, Line, Ranking
from embedx.pages import charts as drawing
from embedx.pages.document import render
from embedx.pages.plain import aligned, csv_text as as_csv
from embedx.settings import as_arguments

MEGABYTE = 1e6
DASH = "-"
NOTE = (
    "± beside a score: half of its 95 % interval; beside a difference: its standard error."
    " Objectives share a rank unless they differ significantly (Student's t at 5 %, with Holm's"
    " correction for all pairs of objectives)."
)


def shown(value: float, error: float, sign: str = "") -> str:
    """`-8.876 ± 0.011`; without what is not known."""
    if not math.isfinite(value):
        return DASH
    return f"{value:{sign}.3f}" + (f" ± {error:.3f}" if math.isfinite(error) else "")


def cells(ranking: Ranking, line: Line) -> dict[str, str]:
    """The columns of one objective, as people read them."""
    by = ranking.by
    found = {
        "objective": line.objective,
        "rank": str(line.standings[by].rank) if by in line.standings else DASH,
    }
    for measure in ranking.measures:
        standing = line.standings.get(measure)
        found[NAMES[measure]] = (
            DASH if standing is None else shown(standing.score.value, standing.score.half_width())
        )
        if measure == by:
            behind = standing.behind if standing else None
            found[f"minus {ranking.first.objective}"] = (
                DASH if behind is None else shown(behind.value, behind.error, "+")
            )
    found |= {
        f"{ranking.unit}/s": f"{line.pace:,.0f}",
        "peak MB": DASH if line.peak is None else f"{line.peak / MEGABYTE:,.0f}",
        "epochs": f"{line.epochs:.1f}",
        "seconds": f"{line.seconds:.1f}",
        "runs": str(len(line.seeds)),
    }
    if any(each.converged for each in ranking.lines):
        found["trained"] = "to convergence" if line.converged else "for the time"
    return found | (
        {"tuned": " ".join(as_arguments(line.tuned)) or DASH}
        if any(each.tuned for each in ranking.lines)
        else {}
    )


def text(ranking: Ranking) -> str:
    """The table, what went wrong and what follows, for a terminal."""
    if not ranking.lines:
        return "\n".join(ranking.troubles)
    lines = aligned(table([cells(ranking, line) for line in ranking.lines]))
    return "\n".join([*lines, NOTE, *ranking.troubles, "", *ranking.advice])


def numbers(ranking: Ranking) -> list[dict[str, Any]]:
    """Every number, by name, of each objective; None where there is none."""
    reference = ranking.first.objective if ranking.lines else ""
    tuned = sorted({name for line in ranking.lines for name in line.tuned})
    rows = []
    for line in ranking.lines:
        row = {"objective": line.objective, "runs": len(line.seeds)}
        for measure in ranking.measures:
            standing = line.standings.get(measure)
            score, behind = (standing.score, standing.behind) if standing else (None, None)
            row |= {
                measure: score and rounded(score.value),
                f"{measure}_standard_error": score and rounded(score.error),
                f"{measure}_rank": standing and standing.rank,
                f"{measure}_minus_{reference}": behind and rounded(behind.value),
                f"{measure}_minus_{reference}_standard_error": behind and rounded(behind.error),
                f"{measure}_items": standing and standing.items,
            }
        row |= {
            f"{ranking.unit}_per_second": round(line.pace),
            "peak_memory_mb": line.peak and round(line.peak / MEGABYTE, 1),
            "epochs": round(line.epochs, 3),
            "seconds": round(line.seconds, 3),
            "training_loss": line.loss and rounded(line.loss),
            **{name: line.tuned.get(name) for name in tuned},
        }
        rows.append(row)
    return rows


def rounded(value: float) -> float | None:
    return round(value, 5) if math.isfinite(value) else None


def csv_text(ranking: Ranking) -> str:
    """The same as a file."""
    rows = numbers(ranking)
    return as_csv([list(rows[0]), *(list(row.values()) for row in rows)]) if rows else ""


def as_dict(ranking: Ranking) -> dict[str, Any]:
    """The same as plain JSON types."""
    return {
        "ranked_by": ranking.by,
        "objectives": numbers(ranking),
        "advice": ranking.advice,
        "troubles": ranking.troubles,
    }


def table(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Rows of a table under a row of their names."""
    return (
        [
            list(rows[0]),
            *(["" if cell is None else str(cell) for cell in row.values()] for row in rows),
        ]
        if rows
        else []
    )


def page(name: str, ranking: Ranking, curve_of: str, circumstances: Mapping[str, str]) -> str:
    """The page of a comparison on the data of that name."""
    drawn, about = drawing.drawable(ranking.curves), dict(circumstances)
    styles = {line.objective: drawing.style_of(k) for k, line in enumerate(ranking.lines)}
    ends = about.pop("when", ""), about.get("versions", ""), about.get("machine", "")
    return render(
        "compare.html",
        f"Objectives compared on {name}",
        advice=ranking.advice,
        troubles=ranking.troubles,
        about=NOTE,
        command=about.pop("command", None),
        when=list(filter(None, ends)),
        scores=score_charts(ranking, styles),
        names=styles,
        rows=table([cells(ranking, line) for line in ranking.lines]),
        best=[
            ranking.by in line.standings and line.standings[str(ranking.by)].rank == 1
            for line in ranking.lines
        ],
        charts=[
            drawing.curves_chart(drawn, x, curve_of, f"plot{x}", styles=styles)
            for x in (drawing.SECONDS, drawing.EPOCHS)
            if drawn
        ],
        numbers=table(numbers(ranking)),
        circumstances=[f"{key}: {value}" for key, value in about.items()],
    )


def score_charts(ranking: Ranking, styles: Mapping[str, str]) -> list[dict[str, Any]]:
    """The score ranked by against speed, and each score as a dot plot, that one first."""
    found: dict[str, dict[str, drawing.Interval]] = {}
    for line in ranking.lines:
        for measure, each in line.standings.items():
            ends = each.score.interval()
            found.setdefault(measure, {})[line.objective] = (each.score.value, *ends)
    paces = {line.objective: max(line.pace, 1.0) for line in ranking.lines}
    by = found.get(str(ranking.by), {})
    if not by:
        return []
    speed = drawing.against_speed(
        by, paces, NAMES[str(ranking.by)], f"{ranking.unit}/s", "speed", styles
    )
    first, *others = sorted(found, key=lambda measure: measure != ranking.by)
    dots = {
        m: drawing.dot_plot(found[m], NAMES[m], f"dots{k}", styles) for k, m in enumerate(found)
    }
    return [dots[first], speed, *(dots[m] for m in others)]
