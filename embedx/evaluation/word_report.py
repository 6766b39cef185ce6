"""Scores of word vectors as a table for people and as plain types for programs."""

import dataclasses
import math
from typing import Any

from embedx.evaluation import bootstrap


@dataclasses.dataclass(frozen=True)
class Score:
    """One model's score on one test, or on several together, and how it came about."""

    test: str
    model: str
    measure: str
    score: float
    interval: tuple[float, float]
    used: int  # items
    total: int
    candidates: int
    details: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class ScoreDifference:
    """How much better the first model is on the items that both can score."""

    test: str
    measure: str
    difference: float
    interval: tuple[float, float]
    shared: int  # items


@dataclasses.dataclass(frozen=True)
class Report:
    """The scores of one model or two, with differences if there are two."""

    models: list[str]
    scores: list[Score]
    differences: list[ScoreDifference]
    warnings: list[str]
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types; None where there is no number."""
        return {
            "models": self.models,
            "protocol": {
                "case": "ignored; the most frequent variant counts",
                "unknown_words": "items with one are left out and counted as oov",
                "pooled": "mean of the sets' correlations weighted by their items; a set that is a part of another is left out",
                "interval": "95 %, percentile bootstrap over items",
                "resamples": bootstrap.RESAMPLES,
                "seed": self.seed,
                "scored_by": "gensim",
            },
            "scores": [
                {
                    "set": s.test,
                    "model": s.model,
                    "measure": s.measure,
                    "score": number(s.score),
                    "interval": [number(end) for end in s.interval],
                    "used": s.used,
                    "total": s.total,
                    "oov": s.total - s.used,
                    "case": "ignored",
                    "candidates": s.candidates,
                    **s.details,
                }
                for s in self.scores
            ],
            "differences": [
                {
                    "set": d.test,
                    "measure": d.measure,
                    "difference": number(d.difference),
                    "interval": [number(end) for end in d.interval],
                    "shared": d.shared,
                }
                for d in self.differences
            ],
            "warnings": self.warnings,
        }

    def rows(self) -> list[list[str]]:
        """The scores, a row for each under a row of names."""
        several = len(self.models) > 1
        rows = [["set", *["model"] * several, "measure", "score", "95 % interval", "used/total", "OOV", "case", "candidates"]]
        for i, s in enumerate(self.scores):
            which = ["AB"[i % 2]] if several else []  # the two scores of a set follow each other
            score, ends = shown(s.measure, s.score), shown(s.measure, *s.interval)
            used = [f"{s.used:,}/{s.total:,}", f"{s.total - s.used:,}", "ignored", f"{s.candidates:,}"]
            rows.append([s.test, *which, s.measure, score, ends, *used])
        return rows

    def table(self) -> str:
        """The same for people."""
        lines = aligned(self.rows())
        if len(self.models) > 1:
            rows = [["set", "measure", "A - B", "95 % interval", "shared items"]]
            for d in self.differences:
                difference, ends = shown(d.measure, d.difference, sign="+"), shown(d.measure, *d.interval, sign="+")
                rows.append([d.test, d.measure, difference, ends, f"{d.shared:,}"])
            lines = [f"A: {self.models[0]}", f"B: {self.models[1]}", "", *lines, "", *aligned(rows)]
        return "\n".join(lines)


def number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def shown(measure: str, *values: float, sign: str = "") -> str:
    """One number, or the two ends of an interval; accuracies in per cent, their differences in percentage points."""
    if not all(math.isfinite(value) for value in values):
        return "-"
    percent = measure == "accuracy"
    texts = [f"{100 * value:{sign}.1f}" if percent else f"{value:{sign}.3f}" for value in values]
    return " to ".join(texts) + (" points" if sign else " %") * percent


def aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
