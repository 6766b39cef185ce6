"""A ranking as text, as CSV with all numbers, and as a page."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from embedx.comparison.ranking import MEASURE_NAMES, Line, Ranking
from embedx.errors import Setting, Spelling, Text, in_python, joined, one_line, spelled
from embedx.evaluation.statistics import LEVEL, Standing
from embedx.pages import charts as drawing, notebook
from embedx.pages.document import render
from embedx.pages.plain import aligned, csv_text as as_csv
from embedx.settings import Options

MEGABYTE = 1e6
DASH = "-"
NOTE = (
    " ± beside a score: half of its 95 % interval; beside a difference: its standard error."
    " A rank is one more than the number of objectives that are significantly better (Student's t"
    " at 5 %, with Holm's correction for all pairs of objectives)."
)


def about(ranking: Ranking) -> str:
    """A sentence on the measure of the ranking, its errors and ranks."""
    return f"Ranked by {MEASURE_NAMES[str(ranking.by)]}.{NOTE}"


def shown(value: float, error: float, sign: str = "") -> str:
    """A value with its error, `-8.876 ± 0.011`; unknown parts are left out."""
    if not math.isfinite(value):
        return DASH
    text = f"{value:{sign}.3f}"
    if math.isfinite(error):
        text += f" ± {error:.3f}"
    return text


def ranking_row(ranking: Ranking, line: Line) -> dict[str, str]:
    """The rank and the scores of one objective, by column, as people read them."""
    by = ranking.by
    row = {
        "objective": line.objective,
        "rank": str(line.standings[by].rank) if by in line.standings else DASH,
    }
    for measure in ranking.measures:
        standing = line.standings.get(measure)
        row[MEASURE_NAMES[measure]] = score_cell(standing)
        if measure == by:
            row[f"minus {ranking.first.objective}"] = difference_cell(standing)
    return row


def cost_row(ranking: Ranking, line: Line) -> dict[str, str]:
    """The time and memory of one objective, by column, as people read them."""
    row = {
        "objective": line.objective,
        f"{ranking.unit}/s": f"{line.pace:,.0f}",
        "peak MB": DASH if line.peak is None else f"{line.peak / MEGABYTE:,.0f}",
        "epochs": f"{line.epochs:.1f}",
        "seconds": f"{line.seconds:.1f}",
        "runs": str(len(line.seeds)),
    }
    if any(other.converged for other in ranking.lines):
        row["trained"] = "to convergence" if line.converged else "for the time"
    return row


def settings_text(settings: Options, spelling: Spelling) -> str:
    """Settings as the user writes them; "" without any."""
    return spelled(joined(itertools.starmap(Setting, settings.items()), " "), spelling)


def tuned_options(ranking: Ranking, spelling: Spelling) -> list[dict[str, str]]:
    """By objective, the options that were tuned; nothing if no options were tuned."""
    if not any(line.tuned for line in ranking.lines):
        return []
    return [
        {
            "objective": line.objective,
            "options": settings_text(line.tuned, spelling) or "the defaults",
        }
        for line in ranking.lines
    ]


def score_cell(standing: Standing | None) -> str:
    """A score, and half of its interval."""
    if standing is None:
        return DASH
    return shown(standing.score.value, standing.score.half_width())


def difference_cell(standing: Standing | None) -> str:
    """The difference to the best, and its standard error."""
    if standing is None or standing.behind is None:
        return DASH
    return shown(standing.behind.value, standing.behind.error, "+")


def text(ranking: Ranking, spelling: Spelling = in_python) -> str:
    """Scores, failures, costs and conclusions, for a terminal."""
    if not ranking.lines:
        return "\n".join(sentences(ranking.troubles, spelling))
    scores = aligned(scores_table(ranking))
    troubles = sentences(ranking.troubles, spelling)
    costs = aligned(costs_table(ranking, spelling))
    advice = sentences(ranking.advice, spelling)
    return "\n".join([*scores, about(ranking), *troubles, "", *costs, "", *advice])


def html(ranking: Ranking, spelling: Spelling = in_python) -> str:
    """The same for a notebook."""
    parts = [notebook.sentences(sentences(ranking.troubles, spelling))]
    if ranking.lines:
        scores = notebook.table(scores_table(ranking))
        costs = notebook.table(costs_table(ranking, spelling))
        parts = [scores, notebook.sentences([about(ranking)]), *parts, costs]
        parts.append(notebook.sentences(sentences(ranking.advice, spelling)))
    return "".join(parts)


def scores_table(ranking: Ranking) -> list[list[str]]:
    """A heading, and a row for each objective: its rank and scores."""
    return table([ranking_row(ranking, line) for line in ranking.lines])


def costs_table(ranking: Ranking, spelling: Spelling) -> list[list[str]]:
    """A heading, and a row for each objective: speed, memory, what was tuned."""
    tuned = {row["objective"]: row["options"] for row in tuned_options(ranking, spelling)}
    return table(
        [
            cost_row(ranking, line) | ({"tuned": tuned[line.objective]} if tuned else {})
            for line in ranking.lines
        ]
    )


def sentences(texts: Iterable[Text], spelling: Spelling) -> list[str]:
    """Conclusions, or failures, as the user reads them."""
    return [one_line(spelled(text, spelling)) for text in texts]


def numbers(ranking: Ranking) -> list[dict[str, Any]]:
    """Every number, by name, of each objective; None where there is none."""
    reference = ranking.first.objective if ranking.lines else ""
    tuned = sorted({name for line in ranking.lines for name in line.tuned})
    rows = []
    for line in ranking.lines:
        row: dict[str, Any] = {"objective": line.objective, "runs": len(line.seeds)}
        for measure in ranking.measures:
            row |= numbers_of(measure, line.standings.get(measure), reference)
        row |= {
            f"{ranking.unit}_per_second": round(line.pace),
            "peak_memory_mb": line.peak and round(line.peak / MEGABYTE, 1),
            "epochs": round(line.epochs, 3),
            "seconds": round(line.seconds, 3),
            "training_loss": line.loss and rounded(line.loss),
        }
        row |= {name: line.tuned.get(name) for name in tuned}
        rows.append(row)
    return rows


def numbers_of(measure: str, standing: Standing | None, reference: str) -> dict[str, Any]:
    """Every number, by name, of an objective in one measure."""
    score = standing and standing.score
    behind = standing and standing.behind
    difference = f"{measure}_minus_{reference}"
    return {
        measure: score and rounded(score.value),
        f"{measure}_standard_error": score and rounded(score.error),
        f"{measure}_rank": standing and standing.rank,
        difference: behind and rounded(behind.value),
        f"{difference}_standard_error": behind and rounded(behind.error),
        f"{measure}_items": standing and standing.items,
    }


def rounded(value: float) -> float | None:
    """A number with five decimals for a file; None if it is not finite."""
    return round(value, 5) if math.isfinite(value) else None


def csv_text(ranking: Ranking) -> str:
    """`numbers` as CSV."""
    rows = numbers(ranking)
    if not rows:
        return ""
    return as_csv([list(rows[0]), *(list(row.values()) for row in rows)])


def as_dict(ranking: Ranking, spelling: Spelling = in_python) -> dict[str, Any]:
    """The ranking as JSON types."""
    return {
        "ranked_by": ranking.by,
        "objectives": numbers(ranking),
        "advice": sentences(ranking.advice, spelling),
        "troubles": sentences(ranking.troubles, spelling),
    }


def table(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Rows of a table under a row of their names."""
    if not rows:
        return []
    body = [["" if cell is None else str(cell) for cell in row.values()] for row in rows]
    return [list(rows[0]), *body]


def page(
    name: str,
    ranking: Ranking,
    curve_of: str,
    setup: Mapping[str, str],
    spelling: Spelling = in_python,
) -> str:
    """The page of a comparison on the data of that name."""
    curves = drawing.drawable(ranking.curves)
    styles = {line.objective: drawing.style_of(k) for k, line in enumerate(ranking.lines)}
    charts = []
    if curves:
        charts = [
            drawing.curves_chart(curves, against, curve_of, f"plot{against}", styles=styles)
            for against in (drawing.SECONDS, drawing.EPOCHS)
        ]

    facts = dict(setup)
    when = facts.pop("when", "")
    command = facts.pop("command", None)
    origin = [when, facts.get("versions", ""), facts.get("machine", "")]
    measure = ""
    explanation = ""
    if ranking.by is not None:
        measure = MEASURE_NAMES[ranking.by]
        explanation = about(ranking)
    return render(
        "compare.html",
        f"Objectives compared on {name}",
        advice=sentences(ranking.advice, spelling),
        troubles=sentences(ranking.troubles, spelling),
        measure=measure,
        about=explanation,
        about_charts=about_charts(ranking),
        command=command,
        when=list(filter(None, origin)),
        scores=score_charts(ranking, styles),
        names=styles,
        rows=table([ranking_row(ranking, line) for line in ranking.lines]),
        costs=table([cost_row(ranking, line) for line in ranking.lines]),
        tuned=table(tuned_options(ranking, spelling)),
        best=[line is ranking.best(ranking.by) for line in ranking.lines],
        charts=charts,
        numbers=[*map(list, zip(*table(numbers(ranking)), strict=True))],
        setup=[f"{key}: {value}" for key, value in facts.items()],
    )


def about_charts(ranking: Ranking) -> str:
    """The legend of the charts of scores; "" without scores."""
    if ranking.by is None:
        return ""
    first = ranking.first.objective
    return (
        f"Dots are differences to {first} on the same items, means over seeds. Lines are their"
        " intervals, which hold for all pairs of objectives together at 95 %: where one does not"
        f" reach 0, the dashed line, the difference to {first} is significant. Ranks are decided"
        " step by step, by Holm's method, and may tell objectives apart whose lines just reach 0."
        " The scores themselves are in the table."
    )


def score_charts(ranking: Ranking, styles: Mapping[str, str]) -> list[dict[str, Any]]:
    """The score ranked by against speed, and each score as a dot plot, that one first."""
    if ranking.by is None:
        return []
    by = ranking.by
    paces = {line.objective: max(line.pace, 1.0) for line in ranking.lines}
    speed = drawing.against_speed(
        intervals(ranking, by), paces, axis_title(ranking, by), f"{ranking.unit}/s", "speed", styles
    )
    in_order = [by, *(measure for measure in ranking.measures if measure != by)]
    dot_plots = [
        drawing.dot_plot(
            intervals(ranking, measure), axis_title(ranking, measure), f"dots{k}", styles
        )
        for k, measure in enumerate(in_order)
    ]
    return [dot_plots[0], speed, *dot_plots[1:]]


def has_differences(ranking: Ranking, measure: str) -> bool:
    """Whether there are several objectives, all scored on the same items."""
    standings = {
        line.objective: line.standings[measure]
        for line in ranking.lines
        if measure in line.standings
    }
    reference = ranking.first.objective
    if reference not in standings or len(standings) < 2:
        return False
    return all(
        standing.behind is not None for name, standing in standings.items() if name != reference
    )


def intervals(ranking: Ranking, measure: str) -> dict[str, drawing.Interval]:
    """By objective: the difference to the first with its interval, or, where the items differ, the
    score with its 95 % interval.

    Intervals of differences hold for all pairs of objectives together, by Bonferroni's correction.
    """
    standings = {
        line.objective: line.standings[measure]
        for line in ranking.lines
        if measure in line.standings
    }
    if not has_differences(ranking, measure):
        return {
            name: (standing.score.value, *standing.score.interval())
            for name, standing in standings.items()
        }
    n_pairs = max(1, math.comb(len(standings), 2))
    by_objective = dict.fromkeys(standings, (0.0, math.nan, math.nan))
    for name, standing in standings.items():
        if standing.behind is not None:
            difference = standing.behind.value
            width = standing.behind.half_width(LEVEL / n_pairs)
            by_objective[name] = (difference, difference - width, difference + width)
    return by_objective


def difference_rows(ranking: Ranking) -> list[dict[str, Any]]:
    """A row for each measure and objective: its `intervals` by name."""
    rows = []
    for measure in ranking.measures:
        column = "score"
        if has_differences(ranking, measure):
            column = "difference"
        for name, (value, low, high) in intervals(ranking, measure).items():
            place = {"measure": measure, "objective": name}
            rows.append({**place, column: value, "low": low, "high": high})
    return rows


def curve_rows(ranking: Ranking) -> list[dict[str, Any]]:
    """A row for each point of the curves of all runs."""
    return [
        {"objective": name, "run": run, "epoch": epoch, "seconds": seconds, "value": value}
        for name, runs in ranking.curves.items()
        for run, points in enumerate(runs, 1)
        for epoch, seconds, value in points
    ]


def axis_title(ranking: Ranking, measure: str) -> str:
    """The title of the axis of a chart of `intervals`."""
    if has_differences(ranking, measure):
        return f"{MEASURE_NAMES[measure]} minus that of {ranking.first.objective}"
    return MEASURE_NAMES[measure]
