"""Scores of runs over the same items, their paired differences with standard errors, and ranks.

A score is known by parts, so that the error of any difference follows from what is on record:

    groups      sums of the items' values by group, and the sizes of the groups, which are taken for independent: spans of
                held-out text, every so manieth test row, analogies with the same first pair. With value v = Σ sums / Σ sizes
                and r_g = sum_g - size_g v of G groups, the standard error is sqrt(G / (G - 1) Σ_g r_g²) / Σ sizes
    resamples   the score on resamples of the items that are the same for all runs: its error is their standard deviation

Of several runs of an objective, which differ in their seed, the mean of all parts is taken. The standard deviation s between
seeds is estimated from all objectives together, for three runs of one tell little, and joins the error of a mean over n runs
as s / sqrt(n), that of a difference of two means as s sqrt(1/n + 1/m). Two objectives have no order where they differ by less
than ERRORS standard errors.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

ERRORS = 2.0  # standard errors within which there is no order


class Estimate(NamedTuple):
    """A number with its standard error, which is not a number where it is not known."""

    value: float
    error: float


@dataclass(frozen=True, eq=False)
class Score:
    """A score of one run, or the mean or the difference of those of several, by parts; see above."""

    value: float
    parts: np.ndarray  # float64: sums of groups, or values on resamples
    sizes: np.ndarray | None  # of the groups; None where the parts are resamples
    items: int

    @classmethod
    def of_groups(cls, sums: Sequence[float], sizes: Sequence[int]) -> "Score":
        """The mean over all items."""
        parts, counts = np.asarray(sums, dtype=np.float64), np.asarray(sizes, dtype=np.int64)
        return cls(float(parts.sum() / counts.sum()), parts, counts, int(counts.sum()))

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Score":
        """What `record` made of a score."""
        if "sums" in record:
            return cls.of_groups(record["sums"], record["sizes"])
        return cls(record["value"], np.asarray(record["resampled"], dtype=np.float64), None, record["items"])

    def record(self) -> dict[str, Any]:
        """As plain JSON types."""
        if self.sizes is not None:
            return {"sums": [round(value, 6) for value in self.parts.tolist()], "sizes": self.sizes.tolist()}
        resampled = [round(value, 6) for value in self.parts.tolist()]
        return {"value": round(self.value, 6), "items": self.items, "resampled": resampled}

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.value) and bool(np.isfinite(self.parts).all())

    def is_of_same_items(self, other: "Score") -> bool:
        if self.sizes is None or other.sizes is None:
            return self.sizes is other.sizes and self.items == other.items
        return np.array_equal(self.sizes, other.sizes)

    def item_error(self) -> float:
        """The standard error by the choice of items; not a number where there is one group."""
        if self.sizes is None:
            return float(self.parts.std(ddof=1))
        left, n = self.parts - self.sizes * self.value, len(self.sizes)
        return math.sqrt(n / (n - 1) * float(left @ left)) / self.items if n > 1 else math.nan


def mean(scores: Sequence[Score]) -> Score:
    """The mean of scores of the same items."""
    value = float(np.mean([each.value for each in scores]))
    return Score(value, np.mean([each.parts for each in scores], axis=0), scores[0].sizes, scores[0].items)


def estimate(scores: Sequence[Score], spread: float) -> Estimate:
    """The mean over runs; `spread` is the standard deviation between seeds."""
    together = mean(scores)
    return Estimate(together.value, math.hypot(together.item_error(), spread / math.sqrt(len(scores))))


def difference(a: Sequence[Score], b: Sequence[Score], spread: float) -> Estimate | None:
    """How much higher the first runs score on average; None where they were not scored on the same items."""
    if any(not each.is_of_same_items(a[0]) for each in (*a, *b)):
        return None
    ours, theirs = mean(a), mean(b)
    gain = Score(ours.value - theirs.value, ours.parts - theirs.parts, ours.sizes, ours.items)
    return Estimate(gain.value, math.hypot(gain.item_error(), spread * math.sqrt(1 / len(a) + 1 / len(b))))


def between_seeds(groups: Sequence[Sequence[float]]) -> float:
    """The standard deviation of a number between runs that differ in their seed, from all groups of such together; 0 where no
    group has two.
    """
    several = [each for each in groups if len(each) > 1]
    freedom = sum(len(each) - 1 for each in several)
    return math.sqrt(sum(len(each) * float(np.var(each)) for each in several) / freedom) if freedom else 0.0


def order(found: Estimate | None) -> int:
    """1 or -1 where a difference is larger than ERRORS standard errors, else 0; also where its error is not known."""
    if found is None or not abs(found.value) > ERRORS * found.error:
        return 0
    return 1 if found.value > 0 else -1


class Standing(NamedTuple):
    """What one measure says of an objective."""

    score: Estimate
    rank: int  # one more than how many are ahead by more than ERRORS standard errors
    behind: Estimate | None  # the score minus that of the reference; None for the reference itself
    items: int


def standings(runs: Mapping[str, Sequence[Score]], reference: str | None = None) -> dict[str, Standing]:
    """Where each objective stands, the highest score first, from the scores of its runs; `reference`, by default the first of
    these, is what the differences are to.
    """
    spread = between_seeds([[each.value for each in scores] for scores in runs.values()])
    found = {name: estimate(scores, spread) for name, scores in runs.items()}
    names = sorted(found, key=lambda name: -found[name].value)
    reference = reference if reference in found else next(iter(names), None)

    def ahead(name: str) -> int:
        return sum(order(difference(runs[other], runs[name], spread)) > 0 for other in names if other != name)

    return {
        name: Standing(
            found[name],
            1 + ahead(name),
            None if reference is None or name == reference else difference(runs[name], runs[reference], spread),
            runs[name][0].items,
        )
        for name in names
    }
