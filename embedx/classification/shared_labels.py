"""Labels divided over workers: each trains tiles of labels by itself, and hands over the weights that it has kept of them.

Nothing but the examples and the levels of a tree above has an influence on a tile, so that whoever trains it, and when, makes
no difference to the last bit. A worker is told the levels above when one begins, and keeps nothing of what it has handed over.
"""

import threading
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from embedx.cluster.exchange import Apart, InCommon, Place
from embedx.engine.sparse_levels import Level

if TYPE_CHECKING:
    from embedx.classification.tree_training import TreeTraining

Kept = tuple[np.ndarray, np.ndarray, np.ndarray]  # of a tile: int32 feature, int32 label within the tile, float32 weight


class Beginning(NamedTuple):
    """A level that is to be trained."""

    level: int  # its number among the levels of all trees
    above: list[Level]  # the levels of its tree that are trained


class Tiles(NamedTuple):
    """What has become of some tiles of a level, one after another."""

    level: int
    tile: np.ndarray  # int64 (n,)
    n_kept: np.ndarray  # int64 (n,): weights of each
    feature: np.ndarray  # int32 (all weights,)
    lane: np.ndarray  # int32
    value: np.ndarray  # float32
    bias: np.ndarray  # float32 (all labels,)
    loss: np.ndarray  # float64 (n,): of the last pass


class TilesInCommon(InCommon):
    """The run's side: puts the tiles together. A worker was told of the level of this number."""

    def __init__(self, strategy: "TreeTraining") -> None:
        self.strategy, self.lock = strategy, threading.Lock()

    def beginning(self, place: Place) -> Beginning | None:
        level = self.strategy.level
        if place.told == level:
            return None
        place.told = level
        tree, _ = self.strategy.levels[level]
        return Beginning(level, self.strategy.trained[tree])

    def news(self, place: Place) -> tuple[()]:
        return ()

    def add(self, place: Place, changes: Tiles) -> None:
        strategy = self.strategy
        with self.lock:
            if changes.level != strategy.level:
                return
            first_kept = first_label = 0
            for k, tile in enumerate(changes.tile.tolist()):
                kept = slice(first_kept, first_kept + int(changes.n_kept[k]))
                _, first, last = strategy.tiles_of(changes.level)[tile]
                strategy.bias[first:last] = changes.bias[first_label : first_label + last - first]
                strategy.losses[changes.level][tile] = changes.loss[k]
                # Copies: views would hold on to whatever else has travelled with them.
                strategy.done[tile] = (changes.feature[kept].copy(), changes.lane[kept].copy(), changes.value[kept].copy())
                first_kept, first_label = kept.stop, first_label + last - first


class TilesApart(Apart):
    """The worker's side: trains the tiles of a level."""

    def __init__(self, strategy: "TreeTraining") -> None:
        self.strategy, self.level = strategy, -1

    def overwrite(self, told: Beginning) -> None:
        strategy, self.level = self.strategy, told.level
        tree, _ = strategy.levels[told.level]
        strategy.trained = [[] for _ in strategy.plans]
        # Copies: what has travelled cannot be written to, and would be another type to kernels.
        strategy.trained[tree] = [Level(*map(np.array, each)) for each in told.above]
        strategy.done = []
        strategy.prepare(told.level)

    def merge(self, news: tuple[()], n_trained: float, rate: float) -> Tiles:
        strategy, tiles = self.strategy, self.strategy.tiles_of(self.level)
        number = np.array([n for n, kept in enumerate(strategy.done) if kept is not None], dtype=np.int64)
        done = [(tiles[n], kept) for n in number if (kept := strategy.done[n]) is not None]
        feature, lane, value = (_joined([kept[k] for _, kept in done], dtype) for k, dtype in enumerate(DTYPES))
        bias = _joined([strategy.bias[first:last] for (_, first, last), _ in done], np.float32)
        n_kept = np.array([len(kept[0]) for _, kept in done], dtype=np.int64)
        for n in number:
            strategy.done[n] = None
        return Tiles(self.level, number, n_kept, feature, lane, value, bias, strategy.losses[self.level][number])


DTYPES = (np.int32, np.int32, np.float32)  # of `Kept`


def _joined(arrays: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=dtype)
