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

# A function of how often items are drawn, float64 (resamples, size) for each set, to the value of
# each resample.
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
        return math.hypot(*(error.value for error in self.errors))

    def half_width(self, level: float = LEVEL) -> float:
        """Half the width of the confidence interval of probability 1 - level."""
        half_widths = []
        for error in self.errors:
            t = float(special.stdtrit(max(error.freedom, 1), 1 - level / 2))
            half_widths.append(t * error.value)
        return math.hypot(*half_widths)

    def interval(self, low: float = -math.inf, high: float = math.inf) -> tuple[float, float]:
        """The 95 % interval, clipped to the range that a score can have."""
        width = self.half_width()
        if not math.isfinite(width):
            return math.nan, math.nan
        return max(self.value - width, low), min(self.value + width, high)

    def sign(self, level: float = LEVEL) -> int:
        """1 or -1 where the number differs from 0 significantly; 0 also without a known error."""
        is_significant = abs(self.value) > self.half_width(level)
        if not is_significant:
            return 0
        return 1 if self.value > 0 else -1


@dataclass(frozen=True, eq=False)
class Score:
    """A score of one run, or the mean or difference of those of several, by parts; see above.

    parts    float64: sums of groups, or values on resamples
    sizes    of the groups; None where the parts are resamples
    overlap  groups per item
    """

    value: float
    parts: ndarray
    sizes: ndarray | None
    items: int
    overlap: int = 1

    @classmethod
    def of_groups(cls, sums: Sequence[float], sizes: Sequence[int], overlap: int = 1) -> "Score":
        """The mean over all items."""
        parts = np.asarray(sums, float64)
        counts = np.asarray(sizes, np.int64)
        value = float(parts.sum() / counts.sum())
        n_items = int(counts.sum()) // overlap
        return cls(value, parts, counts, n_items, overlap)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Score":
        """The score that `record` wrote."""
        if "sums" in record:
            return cls.of_groups(record["sums"], record["sizes"], record.get("overlap", 1))
        parts = np.asarray(record["resampled"], float64)
        return cls(record["value"], parts, None, record["items"])

    def record(self) -> dict[str, Any]:
        """As plain JSON types."""
        parts = [round(value, 6) for value in self.parts.tolist()]
        if self.sizes is None:
            return {"value": round(self.value, 6), "items": self.items, "resampled": parts}
        record = {"sums": parts, "sizes": self.sizes.tolist()}
        if self.overlap > 1:
            record["overlap"] = self.overlap
        return record

    @property
    def is_finite(self) -> bool:
        """Whether the score and all its parts are numbers."""
        return math.isfinite(self.value) and bool(np.isfinite(self.parts).all())

    def is_of_same_items(self, other: "Score") -> bool:
        """Whether the other score has as many items, in groups of the same sizes."""
        if self.sizes is None or other.sizes is None:
            return self.sizes is other.sizes and self.items == other.items
        return self.overlap == other.overlap and np.array_equal(self.sizes, other.sizes)

    def item_error(self) -> Error:
        """The error by the choice of items."""
        if self.sizes is None:
            return self._resampling_error()
        n = len(self.sizes)
        if n < 2:
            return Error(math.nan, n - 1)
        residuals = self.parts - self.sizes * self.value
        error = math.sqrt(n / (n - 1) * float(residuals @ residuals)) / self.items
        return Error(error, n - 1)

    def _resampling_error(self) -> Error:
        """The standard deviation over the resamples."""
        # A correlation has no value on a resample without variation.
        values = self.parts[np.isfinite(self.parts)]
        n = len(values)
        deviation = float(values.std(ddof=1)) if n > 1 else math.nan
        return Error(deviation, n - 1)


def grouped(values: ndarray, groups: ndarray) -> Score:
    """The mean of values, float64 (n,), by independent groups.

    groups  int (n,), or (overlap, n) where each item is in several
    """
    groups = np.atleast_2d(groups)
    overlap = len(groups)
    _, group = np.unique(groups, return_inverse=True)
    group = group.ravel()
    sums = np.bincount(group, np.tile(values, overlap))
    sizes = np.bincount(group)
    return Score.of_groups(sums.tolist(), sizes.tolist(), overlap)


def mean(scores: Sequence[Score]) -> Score:
    """The mean of scores of the same items."""
    value = float(np.mean([score.value for score in scores]))
    parts = np.mean([score.parts for score in scores], axis=0)
    return Score(value, parts, scores[0].sizes, scores[0].items, scores[0].overlap)


def gain(a: Sequence[Score], b: Sequence[Score]) -> Score:
    """The mean of the first scores minus that of the second, of the same items."""
    mean_a = mean(a)
    mean_b = mean(b)
    value = mean_a.value - mean_b.value
    parts = mean_a.parts - mean_b.parts
    return Score(value, parts, mean_a.sizes, mean_a.items, mean_a.overlap)


def pooled_deviation(groups: Sequence[Sequence[float]]) -> Error:
    """The standard deviation within groups of numbers, pooled; 0 where no group has two."""
    freedom = sum(max(len(group) - 1, 0) for group in groups)
    sum_of_squares = sum(len(group) * float(np.var(group)) for group in groups if group)
    return Error(math.sqrt(sum_of_squares / max(freedom, 1)), freedom)


def between_seeds(configurations: Sequence[Sequence[Score]]) -> Error:
    """The standard deviation between the runs of a configuration, pooled over all of them.

    The variance from noise in single items is subtracted. 0 where no configuration has two runs.
    """
    total = pooled_deviation([[run.value for run in runs] for runs in configurations])
    item_errors = [
        gain([run], runs).item_error().value
        for runs in configurations
        if len(runs) > 1
        for run in runs
    ]
    item_variance = sum(error**2 for error in item_errors) / max(total.freedom, 1)
    return Error(math.sqrt(max(0.0, total.value**2 - item_variance)), total.freedom)


def estimate(scores: Sequence[Score], seeds: Error) -> Estimate:
    """The mean over runs; `seeds` is their standard deviation, see `between_seeds`."""
    mean_score = mean(scores)
    seed_error = Error(seeds.value / math.sqrt(len(scores)), seeds.freedom)
    return Estimate(mean_score.value, (mean_score.item_error(), seed_error))


def difference(a: Sequence[Score], b: Sequence[Score], seeds: Error) -> Estimate | None:
    """How much higher the first runs score on average; None if their items differ."""
    if not all(score.is_of_same_items(a[0]) for score in (*a, *b)):
        return None
    mean_gain = gain(a, b)
    seed_error = Error(seeds.value * math.sqrt(1 / len(a) + 1 / len(b)), seeds.freedom)
    return Estimate(mean_gain.value, (mean_gain.item_error(), seed_error))


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
    """1 where the first of two configurations is significantly higher, -1 where lower, else 0.

    Each two configurations are compared, and stand in the result both ways round.
    """
    seeds = between_seeds(list(runs.values()))
    differences = {
        (a, b): difference(runs[a], runs[b], seeds) for a, b in itertools.combinations(runs, 2)
    }
    sign_of_pair = signs(differences)
    return sign_of_pair | {(b, a): -sign for (a, b), sign in sign_of_pair.items()}


class Standing(NamedTuple):
    """The score and rank of a configuration by one measure.

    rank    1 + the number of configurations that are significantly higher
    behind  the score minus that of the reference; None for the reference itself
    """

    score: Estimate
    rank: int
    behind: Estimate | None
    items: int


def standings(
    runs: Mapping[str, Sequence[Score]], reference: str | None = None
) -> dict[str, Standing]:
    """The standing of each configuration, the highest score first, from the scores of its runs.

    reference  the configuration that differences are to; by default the one with the highest score
    """
    seeds = between_seeds(list(runs.values()))
    order = orders(runs)
    estimates = {name: estimate(scores, seeds) for name, scores in runs.items()}
    names = sorted(estimates, key=lambda name: -estimates[name].value)
    if reference not in estimates:
        reference = next(iter(names), None)

    result = {}
    for name in names:
        n_higher = sum(order[name, other] < 0 for other in names if other != name)
        behind = None
        if reference is not None and name != reference:
            behind = difference(runs[name], runs[reference], seeds)
        result[name] = Standing(estimates[name], 1 + n_higher, behind, runs[name][0].items)
    return result


# ---- resampling


def resampled(
    statistic: Statistic, sizes: Sequence[int], seed: int, n_resamples: int = RESAMPLES
) -> Score:
    """The statistic of sets of items, with its values on resamples of them.

    sizes  the numbers of items of the sets, each of which is resampled by itself
    """
    rng = np.random.default_rng(seed)
    step = max(1, BLOCK_FLOATS // sum(sizes))
    parts = []
    for start in range(0, n_resamples, step):
        rows = min(step, n_resamples - start)
        parts.append(statistic([_draw_counts(rng, rows, size) for size in sizes]))
    value = float(statistic([np.ones((1, size)) for size in sizes])[0])
    return Score(value, np.concatenate(parts), None, sum(sizes))


def _draw_counts(rng: np.random.Generator, rows: int, size: int) -> ndarray:
    """How often each of `size` items is drawn in each resample, float64 (rows, size)."""
    draws = rng.integers(size, size=(rows, size)) + size * np.arange(rows)[:, None]
    return np.bincount(draws.ravel(), minlength=rows * size).reshape(rows, size).astype(float64)


def mean_spearman(sets: Sequence[tuple[ndarray, ndarray]]) -> Statistic:
    """The mean of Spearman's correlations of pairs of arrays, float64 (n,) both, weighted by n."""
    weights = [len(values) for values, _ in sets]

    def statistic(counts: Sequence[ndarray]) -> ndarray:
        correlations = [
            _spearman(a, b, set_counts) for (a, b), set_counts in zip(sets, counts, strict=True)
        ]
        return np.average(correlations, axis=0, weights=weights)

    return statistic


def _spearman(a: ndarray, b: ndarray, counts: ndarray) -> ndarray:
    """Spearman's correlation in each resample, Pearson's of the ranks, float64 (resamples,)."""
    x = _centred_ranks(a, counts)
    y = _centred_ranks(b, counts)
    covariance = (counts * x * y).sum(axis=1)
    product_of_variances = (counts * x * x).sum(axis=1) * (counts * y * y).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):  # all values equal: no correlation
        return covariance / np.sqrt(product_of_variances)


def _centred_ranks(values: ndarray, counts: ndarray) -> ndarray:
    """The ranks in each resample less their mean, float64 (resamples, n)."""
    rank = ranks(values, counts)
    return rank - (counts * rank).mean(axis=1, keepdims=True)


def ranks(values: ndarray, counts: ndarray) -> ndarray:
    """The rank of each item in each resample, (resamples, n); equal values share a mean rank.

    counts  float64 (resamples, n): how often each item was drawn
    """
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    starts = np.cumsum(sizes) - sizes
    n_members = np.add.reduceat(counts[:, np.argsort(group)], starts, axis=1)
    group_ranks = np.cumsum(n_members, axis=1) - (n_members - 1) / 2
    return group_ranks[:, group]


def number(value: float) -> float | None:
    """For JSON: None where there is no finite number."""
    return float(value) if math.isfinite(value) else None
