"""Draws from any fixed distribution in constant time: Walker's alias method, built by Vose's algorithm (1991).

Column k is kept with its own probability, a float32, and gives way to one alias otherwise; one uniform number with 53 bits
chooses both the column and, with the bits left over, between the two.
"""

from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.random import uniform


class AliasTable(NamedTuple):
    """`keep` float32 (n,): probability that a column stays itself; `other` int32 (n,): what it becomes otherwise."""

    keep: np.ndarray
    other: np.ndarray


def alias_table(weights: np.ndarray) -> AliasTable:
    """A table whose draws k have probability weights[k] / sum(weights); weights are finite, not negative, not all zero."""
    probability = np.asarray(weights, dtype=np.float64)
    total = probability.sum()
    if not (np.isfinite(total) and total > 0 and probability.min() >= 0):
        raise ValueError("weights must be finite and not negative, with a positive sum")
    scaled = probability * (probability.size / total)
    keep = np.ones(probability.size, dtype=np.float32)
    other = np.arange(probability.size, dtype=np.int32)
    _pair_up(scaled, keep, other, np.empty(keep.size, dtype=np.int32), np.empty(keep.size, dtype=np.int32))
    return AliasTable(keep, other)


@kernel
def _pair_up(scaled, keep, other, light, heavy):
    """Fill `keep` and `other`: each light column is topped up by a heavy one. Uses up `scaled`, the probabilities times n."""
    n_light = n_heavy = 0
    for k in range(scaled.size):
        if scaled[k] < 1.0:
            light[n_light] = k
            n_light += 1
        else:
            heavy[n_heavy] = k
            n_heavy += 1
    while n_light > 0 and n_heavy > 0:
        n_light -= 1
        small, large = light[n_light], heavy[n_heavy - 1]
        keep[small] = scaled[small]
        other[small] = large
        scaled[large] -= 1.0 - scaled[small]
        if scaled[large] < 1.0:
            n_heavy -= 1
            light[n_light] = large
            n_light += 1


@kernel_part
def draw(table, key, counter):
    """One draw: number `counter` of the stream `key`."""
    x = uniform(key, counter) * table.keep.size
    column = np.int64(x)
    if x - column < table.keep[column]:
        return column
    return np.int64(table.other[column])
