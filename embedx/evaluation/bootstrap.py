"""How sure a score is: percentile intervals from resampling the items of a test set.

A resample of n items is a row of counts, how often each item was drawn; the plain score is the one where every count is 1.
A statistic therefore maps counts (resamples, n) to values (resamples,). Two models are compared on the same resamples, so
that what makes an item hard for both cancels out.

The interval speaks of the choice of items, nothing else: not of the luck of a training run. Models trained with several
seeds enter as the mean of their scores, which makes that luck smaller but does not measure it; `of_runs` does, by drawing
runs beside items.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

RESAMPLES = 2000  # the ends of a 95 % interval then vary by about 2 % of its width from seed to seed
BLOCK_FLOATS = 1 << 20

Statistic = Callable[[np.ndarray], np.ndarray]


def resamples(n: int | Sequence[int], seed: int, how_many: int = RESAMPLES) -> Iterator[np.ndarray]:
    """Counts of resamples of n items, a block at a time: float64 (some, n). Of several sets each is resampled by itself, and
    their counts stand side by side.
    """
    sizes = [n] if isinstance(n, int) else list(n)
    rng = np.random.default_rng(seed)
    step = max(1, BLOCK_FLOATS // sum(sizes))
    for start in range(0, how_many, step):
        rows = min(step, how_many - start)
        counts = []
        for size in sizes:
            draws = rng.integers(size, size=(rows, size)) + size * np.arange(rows)[:, None]
            counts.append(np.bincount(draws.ravel(), minlength=rows * size).reshape(rows, size).astype(np.float64))
        yield np.concatenate(counts, axis=1)


def point(statistic: Statistic, n: int) -> float:
    """The statistic of the items as they are."""
    return float(statistic(np.ones((1, n)))[0])


def resampled(statistic: Statistic, n: int | Sequence[int], seed: int, how_many: int = RESAMPLES) -> np.ndarray:
    """The statistic of each resample, float64 (how_many,)."""
    return np.concatenate([statistic(counts) for counts in resamples(n, seed, how_many)])


def interval(statistic: Statistic, n: int | Sequence[int], seed: int) -> tuple[float, float]:
    """Ends of the 95 % percentile interval; not a number where no resample has a value."""
    values = resampled(statistic, n, seed)
    values = values[np.isfinite(values)]
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def mean(values: np.ndarray) -> Statistic:
    """The mean of `values`, float64 (n,)."""
    return lambda counts: counts @ values / counts.sum(axis=1)


def spearman(gold: np.ndarray, values: np.ndarray) -> Statistic:
    """Spearman's correlation of two arrays, float64 (n,): Pearson's of their ranks, equal values sharing a mean rank."""
    rank_gold, rank_values = ranks(gold), ranks(values)

    def statistic(counts: np.ndarray) -> np.ndarray:
        x, y = rank_gold(counts), rank_values(counts)
        total = counts.sum(axis=1, keepdims=True)
        x = x - (counts * x).sum(axis=1, keepdims=True) / total
        y = y - (counts * y).sum(axis=1, keepdims=True) / total
        spread = (counts * x * x).sum(axis=1) * (counts * y * y).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):  # all values equal: no correlation
            return np.asarray((counts * x * y).sum(axis=1) / np.sqrt(spread))

    return statistic


def ranks(values: np.ndarray) -> Statistic:
    """A function from counts (resamples, n) to the rank of each item in each resample, without sorting again."""
    order = np.argsort(values, kind="stable")
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    starts = np.cumsum(sizes) - sizes  # of each group of equal values, in sorted order

    def rank(counts: np.ndarray) -> np.ndarray:
        members = np.add.reduceat(counts[:, order], starts, axis=1)
        return np.asarray((np.cumsum(members, axis=1) - (members - 1) / 2)[:, group])

    return rank


def average(statistics: list[Statistic]) -> Statistic:
    return lambda counts: np.mean([statistic(counts) for statistic in statistics], axis=0)


def of_runs(statistics: Sequence[Statistic], seed: int | Sequence[int]) -> Statistic:
    """The mean over runs, as many drawn with replacement as there are, anew for each resample of items.

    Of n runs such a mean has only (n - 1)/n of the variance that the mean over n runs has, so its deviations are stretched by
    the root of n/(n - 1) (Davison & Hinkley 1997, Bootstrap Methods, 2.3). One run is the same each time.
    """
    rng, n = np.random.default_rng(seed), len(statistics)

    def statistic(counts: np.ndarray) -> np.ndarray:
        values = np.array([each(counts) for each in statistics])  # (runs, resamples)
        mean = values.mean(axis=0)
        drawn = np.take_along_axis(values, rng.integers(n, size=values.shape), axis=0).mean(axis=0)
        return np.asarray(mean + np.sqrt(n / max(n - 1, 1)) * (drawn - mean))

    return statistic


def weighted(statistics: Sequence[Statistic], sizes: Sequence[int]) -> Statistic:
    """The mean of statistics of sets of items that stand side by side, each weighted by the size of its set."""
    ends = np.cumsum(sizes)

    def statistic(counts: np.ndarray) -> np.ndarray:
        parts = np.split(counts, ends[:-1], axis=1)
        return np.average([each(part) for each, part in zip(statistics, parts, strict=True)], axis=0, weights=sizes)

    return statistic


def difference(a: Statistic, b: Statistic) -> Statistic:
    return lambda counts: a(counts) - b(counts)
