"""Scores of word vectors as a table for people and as plain types for programs."""

import math
from dataclasses import dataclass
from typing import Any

from embedx.evaluation import statistics
from embedx.evaluation.statistics import number
from embedx.pages.plain import aligned, tab_separated

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


@dataclass(frozen=True)
class TestScore:
    """One model's score on one test, or on several together."""

    test: str
    model: str
    measure: str
    score: float
    interval: tuple[float, float]
    used: int  # items
    total: int
    candidates: int
    details: dict[str, Any]

    @property
    def oov(self) -> int:
        """Items with an unknown word."""
        return self.total - self.used


@dataclass(frozen=True)
class ScoreDifference:
    """How much better the first model, or the mean of the first models, is on the items that all
    can score.
    """

    test: str
    measure: str
    difference: float
    interval: tuple[float, float]
    shared: int  # items
    runs: tuple[int, int] = (1, 1)  # models of either side


@dataclass(frozen=True, repr=False)
class Report:
    """The scores of one model or more, with differences if there are two or more."""

    models: list[str]
    scores: list[TestScore]  # those of a set follow each other, in the order of the models
    differences: list[ScoreDifference]
    warnings: list[str]
    seed: int
    protocol: str
    vectors: str
    n_first: int  # models of the first side; the others are of the second

    @property
    def sides(self) -> list[str]:
        """A letter for each model; with two sides for each side, with a number where it has several
        models.
        """
        if not self.differences:
            return [chr(ord("A") + k) if k < 26 else str(k + 1) for k in range(len(self.models))]
        sizes = {"A": self.n_first, "B": len(self.models) - self.n_first}
        return [
            side if size == 1 else f"{side}{k + 1}"
            for side, size in sizes.items()
            for k in range(size)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types; None where there is no number."""
        return {
            "models": self.models,
            "sides": self.sides,
            "vectors": self.vectors,
            "protocol": {"name": self.protocol, **PROTOCOL, "seed": self.seed},
            "scores": [
                {"set": s.test, "model": s.model, "measure": s.measure, "score": number(s.score)}
                | {
                    "interval": [*map(number, s.interval)],
                    "used": s.used,
                    "total": s.total,
                    "oov": s.oov,
                }
                | {"candidates": s.candidates, **s.details}
                for s in self.scores
            ],
            "differences": [
                {"set": d.test, "measure": d.measure, "difference": number(d.difference)}
                | {"interval": [*map(number, d.interval)], "shared": d.shared, "runs": list(d.runs)}
                for d in self.differences
            ],
            "conclusions": self.conclusions(),
            "warnings": self.warnings,
        }

    def rows(self) -> list[list[str]]:
        """The scores with their 95 % intervals, a row for each set and a column for each model and
        for the difference of two sides, under a row of names; items are those of the model that
        scores the fewest.
        """
        n, differences = len(self.models), {each.test: each for each in self.differences}
        names = [
            *(self.sides if n > 1 else ["score (95 % interval)"]),
            *["A - B"] * bool(differences),
        ]
        rows = [["set", "measure", *names, "items", "OOV", "candidates"]]
        for first in range(0, len(self.scores), n):
            some = self.scores[first : first + n]
            least = min(some, key=lambda each: each.used)
            cells = [with_ends(each.measure, each.score, each.interval) for each in some]
            if least.test in differences:
                found = differences[least.test]
                cells.append(with_ends(found.measure, found.difference, found.interval, "+"))
            sizes = f"{least.used:,}/{least.total:,}", f"{least.oov:,}", f"{least.candidates:,}"
            rows.append([least.test, least.measure, *cells, *sizes])
        return rows

    def table(self) -> str:
        """The same for people."""
        names = [f"{side}: {model}" for side, model in zip(self.sides, self.models, strict=True)]
        lines = [*names, "", *aligned(self.rows())] if len(names) > 1 else aligned(self.rows())
        return "\n".join([*lines, *[""] * bool(self.differences), *self.conclusions()])

    def __str__(self) -> str:
        return self.table()

    __repr__ = __str__  # in a notebook

    def tsv(self) -> str:
        """The same for programs: a row for each score, then one for each difference, whose model is
        `A - B`; six significant digits, and nothing where there is no number.
        """
        rows: list[list[Any]] = [
            [
                "set",
                "model",
                "measure",
                "score",
                "low",
                "high",
                "used",
                "total",
                "oov",
                "candidates",
            ]
        ]
        rows += [
            [s.test, s.model, s.measure, s.score, *s.interval, s.used, s.total, s.oov, s.candidates]
            for s in self.scores
        ]
        rows += [
            [d.test, "A - B", d.measure, d.difference, *d.interval, d.shared, "", "", ""]
            for d in self.differences
        ]
        return "\n".join(tab_separated(map(_as_text, row) for row in rows))

    def conclusions(self) -> list[str]:
        """A sentence for each difference."""
        found = [sentence(each) for each in self.differences if math.isfinite(each.difference)]
        if found and max(self.differences[0].runs) == 1:
            found.append(
                "A and B are one run each, so the intervals leave out the variance over seeds: give"
                " several seeds of both."
            )
        return found


def _as_text(cell: Any) -> str:
    if cell != cell:
        return ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def sentence(found: ScoreDifference) -> str:
    """Which side is better on a set, or that the difference is not significant."""
    low, high = found.interval
    ends = f"95 % interval {shown(found.measure, low, high, sign='+')}, {found.shared:,} items"
    runs = "" if found.runs == (1, 1) else f", {found.runs[0]} and {found.runs[1]} runs"
    if low > 0 or high < 0:
        better, worse = "AB" if low > 0 else "BA"
        by = shown(found.measure, abs(found.difference), sign="+").removeprefix("+")
        return f"{found.test}: {better} is better than {worse} by {by} (A - B: {ends}{runs})."
    return f"{found.test}: A and B cannot be told apart (A - B: {ends}{runs})."


def with_ends(measure: str, value: float, interval: tuple[float, float], sign: str = "") -> str:
    """A score with its interval: `0.651 (0.583 to 0.719)`."""
    found = shown(measure, value, sign=sign)
    return found if found == "-" else f"{found} ({shown(measure, *interval, sign=sign)})"


def shown(measure: str, *values: float, sign: str = "") -> str:
    """One number, or the two ends of an interval; accuracies in per cent, their differences in
    percentage points.
    """
    if not all(math.isfinite(value) for value in values):
        return "-"
    percent = measure == "accuracy"
    texts = [f"{100 * value:{sign}.1f}" if percent else f"{value:{sign}.3f}" for value in values]
    return " to ".join(texts) + (" points" if sign else " %") * percent
