"""Draws with replacement from any fixed distribution in constant time: Walker's alias method, by
Vose's algorithm (1991).

Column k of the table is kept with a certain probability, a float32, and otherwise replaced by its
alias. One uniform number of 53 bits chooses both: its integer part the column, its fraction between
column and alias.
"""

import abc
from typing import NamedTuple

import numpy as np
from numpy import float32, float64, int32, int64, ndarray

from embedx.kernels import kernel, kernel_part, uniform
from embedx.samplers.contract import Candidates, Paths, Sampler, SamplerData, new_data


class AliasTable(NamedTuple):
    """An alias table of n columns."""

    keep: ndarray  # float32 (n,): probability that a column is kept
    other: ndarray  # int32 (n,): its alias


def alias_table(weights: ndarray) -> AliasTable:
    """The table that draws k with probability weights[k] / sum(weights); weights are finite and
    non-negative, and not all zero.
    """
    probability = np.asarray(weights, float64)
    total = probability.sum()
    if not (np.isfinite(total) and total > 0 and probability.min() >= 0):
        raise ValueError("weights must be finite and not negative, with a positive sum")
    scaled = probability * (probability.size / total)
    keep = np.ones(probability.size, float32)
    other = np.arange(probability.size, dtype=int32)
    _pair_up(scaled, keep, other, np.empty(keep.size, int32), np.empty(keep.size, int32))
    return AliasTable(keep, other)


@kernel
def _pair_up(scaled, keep, other, light, heavy):
    """Fill `keep` and `other`: a heavy column fills up each light one. Overwrites `scaled`, the
    probabilities times n.
    """
    n_light = 0
    n_heavy = 0
    for k in range(scaled.size):
        if scaled[k] < 1.0:
            light[n_light] = k
            n_light += 1
        else:
            heavy[n_heavy] = k
            n_heavy += 1
    while n_light > 0 and n_heavy > 0:
        n_light -= 1
        small = light[n_light]
        large = heavy[n_heavy - 1]
        keep[small] = scaled[small]
        other[small] = large
        scaled[large] -= 1.0 - scaled[small]
        if scaled[large] < 1.0:
            n_heavy -= 1
            light[n_light] = large
            n_light += 1


@kernel_part
def draw(table, key, counter):
    """One draw, by number `counter` of the stream `key`."""
    x = uniform(key, counter) * table.keep.size
    column = int64(x)
    if x - column < table.keep[column]:
        return column
    return int64(table.other[column])


# ---- a sampler of a fixed distribution


@kernel
def sample(data, input_row, stream, first, n, n_excluded, workspace):
    """Draw n rows with replacement; see `contract`."""
    table = AliasTable(data.values, data.rows)
    for d in range(n):
        workspace.rows[d] = draw(table, stream, first + np.uint64(d))
    return n


@kernel
def log_expected_count(data, input_row, n_drawn, n_excluded, rows, n, out):
    """Copy from `log_expected`, computed for the number of draws; see `contract`."""
    for k in range(n):
        out[k] = data.log_expected[rows[k]]


class AliasSampler(Sampler, abc.ABC):
    """Draws from a fixed distribution over the classes, the same for every input; a subclass
    defines it.
    """

    candidates: Candidates = "drawn"
    sample = staticmethod(sample)
    log_expected_count = staticmethod(log_expected_count)

    @abc.abstractmethod
    def probabilities(self, counts: ndarray) -> ndarray:
        """Numbers proportional to q, float64 (n_classes,), for class counts, int64 (n_classes,)."""

    def prepare(self, counts: ndarray, *, paths: Paths | None = None) -> None:
        super().prepare(counts, paths=paths)
        weights = np.asarray(self.probabilities(counts), float64)
        self._noise = weights / weights.sum()

    @property
    def noise(self) -> ndarray:
        return self._noise

    def expected_counts(self, n_draws: int) -> ndarray:
        """The expected count of each class among `n_draws` draws, float64 (n_classes,)."""
        return n_draws * self.noise if self.replacement else drawn_at_all(self.noise, n_draws)

    def log_noise(self, n_draws: int) -> ndarray:
        counts = self.noise if self.replacement else drawn_at_all(self.noise, n_draws)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(counts), float32)

    def data(self, n_draws: int) -> SamplerData:
        table = alias_table(self.noise)
        log_expected = np.log(np.maximum(self.expected_counts(n_draws), 1e-37)).astype(float32)
        return new_data(values=table.keep, rows=table.other, log_expected=log_expected)


def drawn_at_all(noise: ndarray, n_draws: int) -> ndarray:
    """The probability that each class is drawn at least once, float64 (n_classes,)."""
    return -np.expm1(n_draws * np.log1p(-np.minimum(noise, 1 - 1e-12)))
