"""Scores of word vectors as a table for people and as plain types for programs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embedx.errors import check_kind
from embedx.evaluation import statistics
from embedx.evaluation.statistics import number
from embedx.pages import figures, notebook
from embedx.pages.plain import aligned, tab_separated
from embedx.runtime.frames import data_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PROTOCOL = {
    "case": "ignored; the most frequent variant counts",
    "unknown_words": "items with one are left out and counted as oov",
    "pooled": (
        "mean of the sets' correlations weighted by their items; a set that is a part of another is"
        " left out"
    ),
    "interval": (
        "95 %, Student's t; by items, which are resampled for correlations, while analogies with a"
        " pair of words in common are one group; that of a difference also by the variance between"
        " the models of a side"
    ),
    "resamples": statistics.RESAMPLES,
}


# Columns of `Report.tsv`.
TSV_HEAD = [
    "set",
    "model",
    "measure",
    "score",
    "low",
    "high",
    "used",
    "total",
    "oov",
    "restrict_vocab",
]
# What the table calls the first side minus the second.
DIFFERENCE = "A - B"


@dataclass(frozen=True)
class TestScore:
    """One model's score on one test, or on several together.

    used, total     items that the model can score, and all
    restrict_vocab  number of the most frequent words that were looked at
    """

    test: str
    model: str
    measure: str
    score: float
    interval: tuple[float, float]
    used: int
    total: int
    restrict_vocab: int
    details: dict[str, Any]

    @property
    def oov(self) -> int:
        """Items with an unknown word."""
        return self.total - self.used

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types; None where there is no number."""
        return {
            "set": self.test,
            "model": self.model,
            "measure": self.measure,
            "score": number(self.score),
            "interval": [*map(number, self.interval)],
            "used": self.used,
            "total": self.total,
            "oov": self.oov,
            "restrict_vocab": self.restrict_vocab,
            **self.details,
        }

    def tsv_row(self) -> list[Any]:
        """The values of `TSV_HEAD`."""
        sizes = [self.used, self.total, self.oov, self.restrict_vocab]
        return [self.test, self.model, self.measure, self.score, *self.interval, *sizes]


@dataclass(frozen=True)
class ScoreDifference:
    """How much better the first model, or the mean of the first models, is on the items that all
    can score.

    shared  number of these items
    runs    number of models of either side
    """

    test: str
    measure: str
    difference: float
    interval: tuple[float, float]
    shared: int
    runs: tuple[int, int] = (1, 1)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types; None where there is no number."""
        return {
            "set": self.test,
            "measure": self.measure,
            "difference": number(self.difference),
            "interval": [*map(number, self.interval)],
            "shared": self.shared,
            "runs": list(self.runs),
        }

    def tsv_row(self) -> list[Any]:
        """The values of `TSV_HEAD`; those of single models are empty."""
        measured = [self.difference, *self.interval, self.shared]
        return [self.test, DIFFERENCE, self.measure, *measured, "", "", ""]


@dataclass(frozen=True, repr=False)
class Report:
    """The scores of one model or more, with differences if there are two or more.

    scores   those of a set follow each other, in the order of the models
    n_first  number of models of the first side; the others are of the second
    """

    models: list[str]
    scores: list[TestScore]
    differences: list[ScoreDifference]
    warnings: list[str]
    seed: int
    protocol: str
    vectors: str
    n_first: int

    @property
    def sides(self) -> list[str]:
        """A letter for each model; with two sides for each side, with a number where it has several
        models.
        """
        n_models = len(self.models)
        if not self.differences:
            return [*map(_letter, range(n_models))]
        return [*_names_of_side("A", self.n_first), *_names_of_side("B", n_models - self.n_first)]

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types; None where there is no number."""
        return {
            "models": self.models,
            "sides": self.sides,
            "vectors": self.vectors,
            "protocol": {"name": self.protocol, **PROTOCOL, "seed": self.seed},
            "scores": [score.as_dict() for score in self.scores],
            "differences": [difference.as_dict() for difference in self.differences],
            "conclusions": self.conclusions(),
            "warnings": self.warnings,
        }

    def to_frame(self) -> Any:
        """A `pandas.DataFrame` with a row for each score, then one for each difference, and the
        columns of `tsv`. Raises EmbedxError without pandas.
        """
        rows = [score.tsv_row() for score in self.scores]
        rows += [difference.tsv_row() for difference in self.differences]
        named = [
            {name: cell for name, cell in zip(TSV_HEAD, row, strict=True) if cell != ""}
            for row in rows
        ]
        return data_frame(named, TSV_HEAD)

    def plot(self, kind: str | None = None, ax: "Axes | None" = None) -> "Axes":
        """Draw a figure, and return its matplotlib Axes. Raises `EmbedxError` without matplotlib,
        and where there is no figure of that kind.

        kind  "scores" of each set with their 95 % intervals; of two sides also "differences", the
              default there
        ax    where to draw; by default new Axes
        """
        kinds = ["scores", "differences"] if self.differences else ["scores"]
        kind = kind or kinds[-1]
        check_kind(kind, kinds)
        if kind == "differences":
            differences = {
                _name_of_set(paired): (paired.difference, *paired.interval)
                for paired in self.differences
                if math.isfinite(paired.difference)
            }
            return figures.dot_plot(differences, f"difference {DIFFERENCE}", ax)
        n_models = len(self.models)
        scores_of_side = {
            side: {
                _name_of_set(score): (score.score, *score.interval)
                for score in self.scores[k::n_models]
                if math.isfinite(score.score)
            }
            for k, side in enumerate(self.sides)
        }
        return figures.dot_plot_of_sides(scores_of_side, "score", ax)

    def rows(self, sides: Sequence[str] = ()) -> list[list[str]]:
        """The scores with their 95 % intervals, a row for each set and a column for each model and
        for the difference of two sides, under a row of names; items are those of the model that
        scores the fewest.

        sides  names of the models, if letters do not serve
        """
        n_models = len(self.models)
        names = list(sides or self.sides)
        if n_models == 1:
            names = ["score (95 % interval)"]
        if self.differences:
            names.append(" - ".join(sides or "AB"))
        rows = [["set", "measure", *names, "items", "OOV", "restrict_vocab"]]
        difference_of_test = {difference.test: difference for difference in self.differences}
        for first in range(0, len(self.scores), n_models):
            scores = self.scores[first : first + n_models]
            rows.append(table_row(scores, difference_of_test.get(scores[0].test)))
        return rows

    def table(self) -> str:
        """The same for people."""
        lines = aligned(self.rows())
        if len(self.models) > 1:
            names = zip(self.sides, self.models, strict=True)
            lines = [*(f"{side}: {model}" for side, model in names), "", *lines]
        if self.differences:
            lines.append("")
        return "\n".join([*lines, *self.conclusions()])

    def __str__(self) -> str:
        return self.table()

    # What a notebook shows.
    __repr__ = __str__

    def _repr_html_(self) -> str:
        names: list[str] = []
        if len(self.models) > 1:
            pairs = zip(self.sides, self.models, strict=True)
            names = [f"{side}: {model}" for side, model in pairs]
        conclusions = notebook.sentences(self.conclusions())
        return notebook.sentences(names) + notebook.table(self.rows()) + conclusions

    def tsv(self) -> str:
        """The same for programs: a row for each score, then one for each difference, whose model is
        `A - B`; six significant digits, and nothing where there is no number.
        """
        rows: list[list[Any]] = [TSV_HEAD]
        rows += [score.tsv_row() for score in self.scores]
        rows += [difference.tsv_row() for difference in self.differences]
        return "\n".join(tab_separated(map(_as_text, row) for row in rows))

    def conclusions(self, sides: Sequence[str] = ()) -> list[str]:
        """A sentence for each difference between the two sides.

        sides  their names; by default those of two different models, else A and B
        """
        if not sides:
            sides = self.models if len(set(self.models)) == len(self.models) == 2 else ("A", "B")
        sentences = [
            sentence(difference, sides)
            for difference in self.differences
            if math.isfinite(difference.difference)
        ]
        if sentences and max(self.differences[0].runs) == 1:
            sentences.append(
                f"{' and '.join(sides)} are one run each, so the intervals leave out the variance"
                " over seeds: give several seeds of both."
            )
        return sentences


def _name_of_set(score: TestScore | ScoreDifference) -> str:
    """What a figure calls a set."""
    return f"{score.test} ({score.measure})"


def table_row(scores: Sequence[TestScore], difference: ScoreDifference | None) -> list[str]:
    """The scores of all models on one set, and their difference, as a row of the table."""
    least = min(scores, key=lambda score: score.used)
    cells = [with_ends(score.measure, score.score, score.interval) for score in scores]
    if difference is not None:
        cells.append(with_ends(difference.measure, difference.difference, difference.interval, "+"))
    sizes = [f"{least.used:,}/{least.total:,}", f"{least.oov:,}", f"{least.restrict_vocab:,}"]
    return [least.test, least.measure, *cells, *sizes]


def _letter(k: int) -> str:
    """The name of model k; a number where the letters do not suffice."""
    if k < 26:
        return chr(ord("A") + k)
    return str(k + 1)


def _names_of_side(side: str, n_models: int) -> list[str]:
    """The names of the models of one side, numbered if there are several."""
    if n_models == 1:
        return [side]
    return [f"{side}{k}" for k in range(1, n_models + 1)]


def _as_text(cell: Any) -> str:
    """A cell of a table for programs; nothing for NaN."""
    if not isinstance(cell, float):
        return str(cell)
    if math.isnan(cell):
        return ""
    return f"{cell:.6g}"


def sentence(difference: ScoreDifference, sides: Sequence[str]) -> str:
    """Which side is better on a set, or that the difference is not significant."""
    first, second = sides
    test = difference.test
    measure = difference.measure
    low, high = difference.interval
    interval = f"95 % interval {shown(measure, low, high, sign='+')}"
    details = f"{first} - {second}: {interval}, {difference.shared:,} items"
    if difference.runs != (1, 1):
        runs_a, runs_b = difference.runs
        details += f", {runs_a} and {runs_b} runs"
    is_significant = low > 0 or high < 0
    if not is_significant:
        return f"{test}: {first} and {second} cannot be told apart ({details})."
    better = second
    worse = first
    if low > 0:
        better = first
        worse = second
    gain = shown(measure, abs(difference.difference), sign="+").removeprefix("+")
    return f"{test}: {better} is better than {worse} by {gain} ({details})."


def with_ends(measure: str, value: float, interval: tuple[float, float], sign: str = "") -> str:
    """A score with its interval: `0.651 (0.583 to 0.719)`."""
    text = shown(measure, value, sign=sign)
    if text == "-":
        return text
    return f"{text} ({shown(measure, *interval, sign=sign)})"


def shown(measure: str, *values: float, sign: str = "") -> str:
    """One number, or the two ends of an interval; accuracies in per cent, their differences in
    percentage points.
    """
    if not all(math.isfinite(value) for value in values):
        return "-"
    if measure != "accuracy":
        return " to ".join(f"{value:{sign}.3f}" for value in values)
    unit = "points" if sign else "%"
    percentages = " to ".join(f"{100 * value:{sign}.1f}" for value in values)
    return f"{percentages} {unit}"
