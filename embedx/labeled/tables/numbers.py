"""Numbers of a table as features: intervals beside text, else standardised columns."""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix

from embedx.labeled.data import offsets_of
from embedx.labeled.scaling import MAX_DEVIATIONS

INTERVALS_PER_COLUMN = 10


def scales_of(values: np.ndarray, has_text: bool) -> list[list[float]]:
    """Bounds of each column's intervals or, without text, all means and standard deviations."""
    if has_text:
        return [interval_bounds(column) for column in values.T]
    numbers = np.ma.masked_invalid(values)
    means = numbers.mean(axis=0).filled(0)
    deviations = numbers.std(axis=0).filled(1)
    return [means.tolist(), np.where(deviations > 0, deviations, 1).tolist()]


def interval_bounds(values: np.ndarray) -> list[float]:
    """The distinct deciles of the values that are there."""
    numbers = values[~np.isnan(values)]
    if not len(numbers):
        return []
    shares = np.arange(1, INTERVALS_PER_COLUMN) / INTERVALS_PER_COLUMN
    bounds: list[float] = np.unique(np.quantile(numbers, shares)).tolist()
    return bounds


def standardised(values: np.ndarray, scales: Sequence[Sequence[float]]) -> np.ndarray:
    """Numbers less the means and divided by the deviations, float32; 0 where there is none."""
    means, deviations = scales
    z = np.nan_to_num((values - np.array(means)) / np.array(deviations))
    return z.clip(-MAX_DEVIATIONS, MAX_DEVIATIONS).astype(np.float32)


def interval_indicators(values: np.ndarray, bounds: Sequence[float]) -> csr_matrix:
    """Indicators of the interval of each number, float32 (n_rows, n_intervals); NaN has none."""
    has_number = ~np.isnan(values)
    interval = np.searchsorted(bounds, values[has_number], side="right")
    ones = np.ones(len(interval), np.float32)
    shape = (len(values), len(bounds) + 1)
    return csr_matrix((ones, interval, offsets_of(has_number)), shape)
