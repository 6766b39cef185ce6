"""What competing rows are chosen by: noise drawn from an alias table, or the paths of a tree."""

from typing import NamedTuple

import numpy as np

from embedx.samplers.alias import AliasTable, alias_table
from embedx.samplers.path import Paths


class Draws(NamedTuple):
    """Either is empty where the other is used."""

    alias: AliasTable
    log_expected: np.ndarray  # float32 (n_classes,): log of the expected number of draws; unused for distinct draws
    path_offsets: np.ndarray  # of contract.Paths
    path_nodes: np.ndarray
    path_bits: np.ndarray


def new_draws(noise: np.ndarray, expected: np.ndarray, paths: Paths | None) -> Draws:
    """`noise` (n_classes,) is what is drawn by, `expected` (n_classes,) how often each is to be expected among the draws."""
    if paths is None:
        paths = Paths(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32))
    return Draws(alias_table(noise), np.log(np.maximum(expected, 1e-37)).astype(np.float32), *paths)


def noise_distribution(counts: np.ndarray, sampler: str, exponent: float) -> np.ndarray:
    """float64 (n_classes,): the probability of each class to be drawn; one that never occurred counts as seen once."""
    weights = np.maximum(counts, 1).astype(np.float64) ** (exponent if sampler == "unigram" else 0.0)
    return np.asarray(weights / weights.sum())
