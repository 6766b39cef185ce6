"""Classifiers trained by workers, each on tiles of labels, with the same bits as on one machine."""

import contextlib
import copy
import dataclasses
import math
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedx.classification.labelwise import LabelwiseTraining, LevelSetup, TrainedTile
from embedx.distributed.answers import check_array, is_number, require
from embedx.distributed.connection import ClusterSize
from embedx.distributed.worker import WorkerPlan
from embedx.engine.sparse_levels import Level

# Ranges of a level's tiles for each thread, so that all threads end at about the same time.
RANGES_PER_THREAD = 32


@dataclass(frozen=True)
class TilesPlan(WorkerPlan):
    """A plan by which every worker trains tiles of labels."""

    setup: LevelSetup

    def components(self) -> tuple[Any, ...]:
        return self.setup

    def build(self, threads: int) -> LabelwiseTraining:
        # A copy, because arrays that Ray sends are read-only, which is another type to kernels.
        setup = copy.deepcopy(self.setup)
        settings = dataclasses.replace(setup.settings, threads=threads)
        return LabelwiseTraining(setup._replace(settings=settings))

    def server(self, strategy: LabelwiseTraining) -> "TileServer":
        return TileServer(strategy)

    def replica(self, strategy: LabelwiseTraining) -> "TileReplica":
        return TileReplica(strategy)


def plan_of(strategy: LabelwiseTraining, size: ClusterSize) -> tuple[TilesPlan, int]:
    """The plan of each worker, and the number of tiles that it trains before it sends them."""
    threads = size.workers * size.threads
    tiles_per_range = max(size.threads, strategy.n_chunks // (RANGES_PER_THREAD * threads))
    return TilesPlan(strategy.setup), tiles_per_range


class TileServer:
    """Collects tiles. Methods are those of `ParameterServer`."""

    def __init__(self, strategy: LabelwiseTraining) -> None:
        self.strategy = strategy
        self.lock = threading.Lock()
        # The level that each worker trains.
        self.level_of: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def is_ready(self, worker: Any) -> bool:
        return self.level_of.get(worker) == self.strategy.level_number

    def is_done(self, epoch: int, chunks: range) -> bool:
        n_tiles = len(self.strategy.level_plans[epoch][1].tiles)
        return all(chunk >= n_tiles or chunk in self.strategy.trained_tiles for chunk in chunks)

    def remote_delta(self, worker: Any) -> tuple[int, list[Level]] | None:
        """The number of the level that is to be trained, and the trained levels of its tree; None
        if the worker has them.
        """
        level = self.strategy.level_number
        levels = self.strategy.level_plans
        if self.is_ready(worker) or level == len(levels):
            return None
        self.level_of[worker] = level
        return level, self.strategy.trained_levels[levels[level][0]]

    def add(self, worker: Any, delta: tuple[int, dict[int, TrainedTile]]) -> None:
        """Store trained tiles of the current level. Raises `LostWorkerError`, and stores none, if
        they do not fit it.
        """
        self._check(delta)
        level, tiles = delta
        with self.lock:
            if level == self.strategy.level_number:
                # Copied, because arrays from Ray are in its store.
                self.strategy.trained_tiles |= copy.deepcopy(tiles)

    def _check(self, delta: Any) -> None:
        is_pair = type(delta) is tuple and len(delta) == 2
        require(is_pair and type(delta[0]) is int and type(delta[1]) is dict, "tiles of no level")
        level, tiles = delta
        is_used = level == self.strategy.level_number and level < len(self.strategy.level_plans)
        if not is_used:
            return
        bounds = self.strategy.level_plans[level][1].tiles
        for number, trained in tiles.items():
            is_tile = type(number) is int and 0 <= number < len(bounds)
            require(is_tile and type(trained) is TrainedTile, "a tile that is none")
            _, first, last = bounds[number]
            _check_tile(trained, last - first, self.strategy.n_features)


def _check_tile(trained: TrainedTile, n_nodes: int, n_features: int) -> None:
    """Raise `LostWorkerError` unless it has weights of these numbers of nodes and features."""
    require(type(trained.value) is np.ndarray, "weights that are no array")
    n = trained.value.size
    check_array(trained.value, np.float32, (n,), "weights")
    check_array(trained.bias, np.float32, (n_nodes,), "biases")
    for ids, end in ((trained.feature, n_features), (trained.label, n_nodes)):
        check_array(ids, np.int32, (n,), "ids of weights")
        require(bool(((ids >= 0) & (ids < end)).all()), f"ids of weights beyond {end - 1}")
    require(is_number(trained.loss) and math.isfinite(trained.loss), "a loss that is none")


class TileReplica:
    """Trains tiles of a level, and drops those that it has sent."""

    training = contextlib.nullcontext()

    def __init__(self, strategy: LabelwiseTraining) -> None:
        self.strategy = strategy
        self.level = 0

    def merge(
        self, remote: tuple[int, list[Level]] | None, n_trained: float, lr: float
    ) -> tuple[int, dict[int, TrainedTile]]:
        """The tiles trained so far. Then sets the level that the server sent, if it sent one."""
        strategy = self.strategy
        trained = self.level, strategy.trained_tiles.copy()
        for n in trained[1]:
            del strategy.trained_tiles[n]
        if remote is not None:
            self.level, above = remote
            strategy.trained_levels = [[] for _ in strategy.tree_plans]
            strategy.trained_levels[strategy.level_plans[self.level][0]] = [
                Level(*map(np.array, trained_level)) for trained_level in above
            ]
            strategy.trained_tiles = {}
            strategy.prepare(self.level)
        return trained
