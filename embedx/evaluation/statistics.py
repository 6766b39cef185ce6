"""Scores with their errors: confidence intervals, differences over the same items, and ranks.

A score is known by parts, so that the error of any difference follows from what is on record:

    groups      sums of the items' values by group, and the sizes of the groups. Groups are
                independent, such as spans of held-out text or single items. With value v = Σ sums /
                Σ sizes and r_g = sum_g - size_g v of G groups, the standard error is sqrt(G / (G -
                1) Σ_g r_g²) / Σ sizes. Where each item is in several groups (`overlap`; an analogy
                in those of its two pairs of words), it is so many times that: the covariances of
                all items that share a group are added up, as in two-way clustering (Cameron,
                Gelbach & Miller 2011; Aronow, Samii & Assenova 2015), but those of items that share
                both groups count twice, which makes the error at most sqrt(2) times too large
    resamples   the score on bootstrap resamples of the items, the same for all runs: the error is
                their standard deviation

Of several runs that differ in their seed, the mean of all parts is taken. The standard deviation s
between seeds is estimated from all configurations together, which takes it to be the same for all;
what of it comes from noise in single items, which the error by items has already, is left out. It
adds s sqrt(1/n + 1/m) to the error of a difference of means over n and m runs.

The half width of an interval is the root of the sum of the squares of t times each of the two
errors, Student's t having the degrees of freedom of that error (Howe 1974): for items the groups or
resamples less one, for seeds the runs less the configurations. With one run of each configuration,
an interval covers the choice of items alone. Where several pairs are compared, levels are corrected
by Holm's method (1979), so that any two that are equal are ordered with a probability of LEVEL.
"""

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy import float64, ndarray
from scipy import special

LEVEL = 0.05
RESAMPLES = 2000
BLOCK_FLOATS = 1 << 20

# of float64 (resamples, size) for each set: how often items are drawn
Statistic = Callable[[Sequence[ndarray]], ndarray]
Key = TypeVar("Key", bound=Hashable)


class Error(NamedTuple):
    """A standard error, not a number where it is not known, with its degrees of freedom."""

    value: float
    freedom: int


@dataclass(frozen=True)
class Estimate:
    """A number with its independent errors."""

    value: float
    errors: tuple[Error, ...]

    @property
    def error(self) -> float:
        """The standard error."""
        return math.hypot(*(each.value for each in self.errors))

    def half_width(self, level: float = LEVEL) -> float:
        """Of the interval that holds the true number with the probability 1 - level."""
        quantiles = [
            float(special.stdtrit(max(each.freedom, 1), 1 - level / 2)) for each in self.errors
        ]
        return math.hypot(*(t * each.value for t, each in zip(quantiles, self.errors, strict=True)))

    def interval(self, low: float = -math.inf, high: float = math.inf) -> tuple[float, float]:
        """The 95 % interval, clipped to the range that a score can have."""
        width = self.half_width()
        return (
            (max(self.value - width, low), min(self.value + width, high))
            if math.isfinite(width)
            else (math.nan, math.nan)
        )

    def sign(self, level: float = LEVEL) -> int:
        """1 or -1 where the number differs from 0 significantly, else 0; also where its error is
        not known.
        """
        return (1 if self.value > 0 else -1) if abs(self.value) > self.half_width(level) else 0


@dataclass(frozen=True, eq=False)
class Score:
    """A score of one run, or the mean or the difference of those of several, by parts;
    see above.
    """

    value: float
    parts: ndarray  # float64: sums of groups, or values on resamples
    sizes: ndarray | None  # of the groups; None where the parts are resamples
    items: int
    overlap: int = 1  # groups that each item is in

    @classmethod
    def of_groups(cls, sums: Sequence[float], sizes: Sequence[int], overlap: int = 1) -> "Score":
        """The mean over all items."""
        parts, counts = np.asarray(sums, float64), np.asarray(sizes, np.int64)
        return cls(
            float(parts.sum() / counts.sum()), parts, counts, int(counts.sum()) // overlap, overlap
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Score":
        """What `record` made of a score."""
        if "sums" in record:
            return cls.of_groups(record["sums"], record["sizes"], record.get("overlap", 1))
        return cls(record["value"], np.asarray(record["resampled"], float64), None, record["items"])

    def record(self) -> dict[str, Any]:
        """As plain JSON types."""
        parts = [round(value, 6) for value in self.parts.tolist()]
        if self.sizes is not None:
            return {"sums": parts, "sizes": self.sizes.tolist()} | (
                {"overlap": self.overlap} if self.overlap > 1 else {}
            )
        return {"value": round(self.value, 6), "items": self.items, "resampled": parts}

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.value) and bool(np.isfinite(self.parts).all())

    def is_of_same_items(self, other: "Score") -> bool:
        if self.sizes is None or other.sizes is None:
            return self.sizes is other.sizes and self.items == other.items
        return self.overlap == other.overlap and np.array_equal(self.sizes, other.sizes)

    def item_error(self) -> Error:
        """By the choice of items."""
        if self.sizes is None:
            # a correlation has no value on a resample without variation
            values = self.parts[np.isfinite(self.parts)]
            return Error(
                float(values.std(ddof=1)) if len(values) > 1 else math.nan, len(values) - 1
            )
        left, n = self.parts - self.sizes * self.value, len(self.sizes)
        error = math.sqrt(n / (n - 1) * float(left @ left)) / self.items if n > 1 else math.nan
        return Error(error, n - 1)


def grouped(values: ndarray, groups: ndarray) -> Score:
    """The mean of values, float64 (n,), by independent groups, int (n,), or (overlap, n) where each
    item is in several.
    """
    groups = np.atleast_2d(groups)
    _, group = np.unique(groups, return_inverse=True)
    sums = np.bincount(group.ravel(), np.tile(values, len(groups)))
    return Score.of_groups(sums.tolist(), np.bincount(group.ravel()).tolist(), len(groups))


def mean(scores: Sequence[Score]) -> Score:
    """The mean of scores of the same items."""
    value, parts = (
        float(np.mean([each.value for each in scores])),
        np.mean([each.parts for each in scores], axis=0),
    )
    return Score(value, parts, scores[0].sizes, scores[0].items, scores[0].overlap)


def gain(a: Sequence[Score], b: Sequence[Score]) -> Score:
    """The mean of the first scores minus that of the second, of the same items."""
    ours, theirs = mean(a), mean(b)
    return Score(
        ours.value - theirs.value, ours.parts - theirs.parts, ours.sizes, ours.items, ours.overlap
    )


def pooled_deviation(groups: Sequence[Sequence[float]]) -> Error:
    """The standard deviation within groups of numbers, from all of them together; 0 where none has
    two.
    """
    freedom = sum(max(len(each) - 1, 0) for each in groups)
    return Error(
        math.sqrt(
            sum(len(each) * float(np.var(each)) for each in groups if each) / max(freedom, 1)
        ),
        freedom,
    )


def between_seeds(configurations: Sequence[Sequence[Score]]) -> Error:
    """The standard deviation between the runs of a configuration, from all configurations together,
    less what comes from noise in single items; 0 where none has two runs.
    """
    found = pooled_deviation([[run.value for run in runs] for runs in configurations])
    several = [runs for runs in configurations if len(runs) > 1]
    of_items = sum(
        gain([run], runs).item_error().value ** 2 for runs in several for run in runs
    ) / max(found.freedom, 1)
    return Error(math.sqrt(max(0.0, found.value**2 - of_items)), found.freedom)


def estimate(scores: Sequence[Score], seeds: Error) -> Estimate:
    """The mean over runs; `seeds` is their standard deviation, see `between_seeds`."""
    together = mean(scores)
    return Estimate(
        together.value,
        (together.item_error(), Error(seeds.value / math.sqrt(len(scores)), seeds.freedom)),
    )


def difference(a: Sequence[Score], b: Sequence[Score], seeds: Error) -> Estimate | None:
    """How much higher the first runs score on average; None where they were not scored on the same
    items.
    """
    if any(not each.is_of_same_items(a[0]) for each in (*a, *b)):
        return None
    found, of_seeds = gain(a, b), seeds.value * math.sqrt(1 / len(a) + 1 / len(b))
    return Estimate(found.value, (found.item_error(), Error(of_seeds, seeds.freedom)))


def signs(estimates: Mapping[Key, Estimate | None]) -> dict[Key, int]:
    """The sign of each number that differs from 0 significantly after Holm's correction, else 0."""
    known_signs = dict.fromkeys(estimates, 0)
    untested = {key: estimate for key, estimate in estimates.items() if estimate is not None}
    while untested:
        level = LEVEL / len(untested)
        signs_at_level = {key: estimate.sign(level) for key, estimate in untested.items()}
        significant = {key: sign for key, sign in signs_at_level.items() if sign != 0}
        if not significant:
            break
        known_signs |= significant
        untested = {key: untested[key] for key in untested if key not in significant}
    return known_signs


def orders(runs: Mapping[str, Sequence[Score]]) -> dict[tuple[str, str], int]:
    """For each two configurations, both ways, 1 where the first is significantly higher, -1 where
    it is lower, else 0.
    """
    seeds = between_seeds(list(runs.values()))
    found = signs(
        {(a, b): difference(runs[a], runs[b], seeds) for a, b in itertools.combinations(runs, 2)}
    )
    return found | {(b, a): -sign for (a, b), sign in found.items()}


class Standing(NamedTuple):
    """What one measure says of a configuration."""

    score: Estimate
    rank: int  # one more than how many are significantly higher
    behind: Estimate | None  # the score minus that of the reference; None for the reference itself
    items: int


def standings(
    runs: Mapping[str, Sequence[Score]], reference: str | None = None
) -> dict[str, Standing]:
    """Where each configuration stands, the highest score first, from the scores of its runs;
    differences are to `reference`, by default the first.
    """
    seeds, order = between_seeds(list(runs.values())), orders(runs)
    found = {name: estimate(scores, seeds) for name, scores in runs.items()}
    names = sorted(found, key=lambda name: -found[name].value)
    reference = reference if reference in found else next(iter(names), None)
    return {
        name: Standing(
            found[name],
            1 + sum(order[name, other] < 0 for other in names if other != name),
            (
                None
                if reference is None or name == reference
                else difference(runs[name], runs[reference], seeds)
            ),
            runs[name][0].items,
        )
        for name in names
    }


# ---- resampling


def resampled(
    statistic: Statistic, sizes: Sequence[int], seed: int, how_many: int = RESAMPLES
) -> Score:
    """The statistic of sets of items of these sizes, with its values on resamples of them, each set
    resampled by itself.
    """
    rng = np.random.default_rng(seed)
    step = max(1, BLOCK_FLOATS // sum(sizes))
    parts = []
    for start in range(0, how_many, step):
        rows = min(step, how_many - start)
        parts.append(statistic([_drawn(rng, rows, size) for size in sizes]))
    value = float(statistic([np.ones((1, size)) for size in sizes])[0])
    return Score(value, np.concatenate(parts), None, sum(sizes))


def _drawn(rng: np.random.Generator, rows: int, size: int) -> ndarray:
    """How often each of `size` items is drawn in each resample, float64 (rows, size)."""
    draws = rng.integers(size, size=(rows, size)) + size * np.arange(rows)[:, None]
    return np.bincount(draws.ravel(), minlength=rows * size).reshape(rows, size).astype(float64)


def mean_spearman(sets: Sequence[tuple[ndarray, ndarray]]) -> Statistic:
    """The mean of Spearman's correlations of pairs of arrays, float64 (n,) both, weighted by n:
    Pearson's of their ranks.
    """

    def statistic(counts: Sequence[ndarray]) -> ndarray:
        found = []
        for arrays, n in zip(sets, counts, strict=True):
            x, y = (ranks(each, n) for each in arrays)
            x, y = (rank - (n * rank).mean(axis=1, keepdims=True) for rank in (x, y))
            with np.errstate(invalid="ignore", divide="ignore"):  # all values equal: no correlation
                found.append(
                    (n * x * y).sum(axis=1)
                    / np.sqrt((n * x * x).sum(axis=1) * (n * y * y).sum(axis=1))
                )
        return np.average(found, axis=0, weights=[len(values) for values, _ in sets])

    return statistic


def ranks(values: ndarray, counts: ndarray) -> ndarray:
    """The rank of each item in each resample, (resamples, n), without sorting again; equal values
    share a mean rank.

    counts  float64 (resamples, n): how often each item was drawn
    """
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    members = np.add.reduceat(counts[:, np.argsort(group)], np.cumsum(sizes) - sizes, axis=1)
    return (np.cumsum(members, axis=1) - (members - 1) / 2)[:, group]


def number(value: float) -> float | None:
    """For JSON: None where there is no finite number."""
    return float(value) if math.isfinite(value) else None
