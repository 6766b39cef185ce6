"""Classifiers trained by workers. Training is divided

by examples   every worker trains minibatches of its own on a replica of the parameters
by labels     every worker trains tiles of labels to the end, to the same bits as on one machine
"""

import contextlib
import copy
import dataclasses
import math
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedx import optimizers, samplers
from embedx.classification.label_weights import is_labelwise, trains_sparse_rows
from embedx.classification.labelwise import LabelwiseTraining, LevelInputs, TrainedTile
from embedx.classification.settings import DENSE, SPARSE, ClassifySettings
from embedx.classification.strategies import (
    Classification,
    Full,
    FullSparse,
    FullTiled,
    Sampled,
    StepInputs,
)
from embedx.distributed.ray_backend import Size
from embedx.distributed.received import check_array, is_number, require
from embedx.distributed.run import Distributed
from embedx.distributed.server import Parameters
from embedx.distributed.settings import ClusterSettings
from embedx.distributed.worker import Plan
from embedx.engine.select import SINGLE
from embedx.engine.sparse_levels import Level
from embedx.errors import InapplicableError, Setting, Text
from embedx.objectives.contract import Objective
from embedx.optimizers.lbfgs import Lbfgs

# Merges of each worker over a run, at least.
MIN_MERGES = 200
# Examples that a thread trains between two merges.
MIN_EXAMPLES = 2_000
MAX_EXAMPLES = 200_000
# Ranges of a level's labels for each thread, so that all threads end at about the same time.
RANGES_PER_THREAD = 32


@dataclass(frozen=True)
class ClassifierPlan(Plan):
    """Every worker trains minibatches, or tiles of labels."""

    kind: Callable[[Any], Classification | LabelwiseTraining]
    inputs: StepInputs | LevelInputs
    max_chunk: int | None = None  # examples, where chunks are to be shorter than usual

    def components(self) -> tuple[Any, ...]:
        return self.inputs

    def build(self, threads: int) -> Classification | LabelwiseTraining:
        # Copies, because arrays that Ray sends are read-only, which is another type to kernels.
        inputs = copy.deepcopy(self.inputs)
        settings = dataclasses.replace(inputs.settings, threads=threads)
        strategy = self.kind(inputs._replace(settings=settings))
        if self.max_chunk is not None and isinstance(strategy, Classification):
            strategy.shorten_chunks(self.max_chunk)
        return strategy

    def parameters(self, strategy: Classification) -> Parameters:
        of_features = np.ones(strategy.n_features)  # how often each has an example
        if not strategy.examples.dense.size:
            of_features = (
                np.bincount(strategy.examples.columns, minlength=strategy.n_features) / strategy.n
            )
        tables = {"outputs": strategy.outputs} | (
            {"hidden": strategy.hidden} if strategy.settings.hidden else {}
        )
        rates = {"outputs": _rates_of_outputs(strategy, of_features), "hidden": of_features}
        rates = {
            name: np.minimum(rate, 1 / strategy.batch).astype(np.float32)
            for name, rate in rates.items()
        }
        return Parameters(
            tables, strategy.optimizer, strategy.local_state, strategy.n_updates, rates
        )

    def server(self, strategy: Classification | LabelwiseTraining) -> Any:
        return (
            TileServer(strategy)
            if isinstance(strategy, LabelwiseTraining)
            else super().server(strategy)
        )

    def replica(self, strategy: Classification | LabelwiseTraining) -> Any:
        if isinstance(strategy, LabelwiseTraining):
            return TileReplica(strategy)
        replica = super().replica(strategy)
        replica.before_merge = strategy.apply_decay  # because its clock is not shared
        if isinstance(strategy, FullTiled):  # whose rows are copied, trained and written back
            replica.training = threading.Lock()
        return replica


def _rates_of_outputs(strategy: Classification, of_features: np.ndarray) -> np.ndarray:
    """float64 (rows of the table,): how often each row of `outputs` is updated for an example, if
    one is a minibatch.
    """
    if isinstance(strategy, FullSparse):  # whose rows are features
        return np.append(of_features, [1.0] * strategy.has_bias)
    if isinstance(strategy, Full):
        return np.ones(strategy.n_rows)
    assert isinstance(strategy, Sampled)
    plan = strategy.plan
    draws = strategy.draws
    shown = strategy.counts / strategy.n
    if plan.on_path:
        return np.bincount(draws.rows, np.repeat(shown, np.diff(draws.offsets)), strategy.n_rows)
    n_lines = shown.sum() if plan.positives == SINGLE and not plan.one_label else 1.0
    return shown + n_lines * (1 - (1 - strategy.drawing.noise) ** plan.n_draws)


class TileServer:
    """Collects tiles. Methods are those of `ParameterServer`."""

    def __init__(self, strategy: LabelwiseTraining) -> None:
        self.strategy = strategy
        self.lock = threading.Lock()
        # that each worker trains
        self.level_of: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def is_ready(self, worker: Any) -> bool:
        return self.level_of.get(worker) == self.strategy.level

    def is_done(self, epoch: int, chunks: range) -> bool:
        n_tiles = len(self.strategy.levels[epoch][1].tiles)
        return all(chunk >= n_tiles or chunk in self.strategy.done for chunk in chunks)

    def remote_delta(self, worker: Any) -> tuple[int, list[Level]] | None:
        """The number of the level that is to be trained, and the trained levels of its tree; None
        if the worker has them.
        """
        level = self.strategy.level
        levels = self.strategy.levels
        if self.is_ready(worker) or level == len(levels):
            return None
        self.level_of[worker] = level
        return level, self.strategy.trained[levels[level][0]]

    def add(self, worker: Any, delta: tuple[int, dict[int, TrainedTile]]) -> None:
        """Keep the tiles of the level that is under way. Raises `LostWorkerError`, and keeps none,
        if they do not fit it.
        """
        self._check(delta)
        level, tiles = delta
        with self.lock:
            if level == self.strategy.level:
                # arrays that Ray sends stay in its store
                self.strategy.done |= copy.deepcopy(tiles)

    def _check(self, delta: Any) -> None:
        is_pair = type(delta) is tuple and len(delta) == 2
        require(is_pair and type(delta[0]) is int and type(delta[1]) is dict, "tiles of no level")
        level, tiles = delta
        if level != self.strategy.level or level == len(self.strategy.levels):
            return  # it is not used
        bounds = self.strategy.levels[level][1].tiles
        for number, trained in tiles.items():
            is_tile = type(number) is int and 0 <= number < len(bounds)
            require(is_tile and type(trained) is TrainedTile, "a tile that is none")
            _, first, last = bounds[number]
            _check_tile(trained, last - first, self.strategy.n_features)


def _check_tile(trained: TrainedTile, n_nodes: int, n_features: int) -> None:
    """Raise `LostWorkerError` unless it has weights of so many nodes and features."""
    require(type(trained.value) is np.ndarray, "weights that are no array")
    n = trained.value.size
    check_array(trained.value, np.float32, (n,), "weights")
    check_array(trained.bias, np.float32, (n_nodes,), "biases")
    for ids, end in ((trained.feature, n_features), (trained.label, n_nodes)):
        check_array(ids, np.int32, (n,), "ids of weights")
        require(bool(((ids >= 0) & (ids < end)).all()), f"ids of weights beyond {end - 1}")
    require(is_number(trained.loss) and math.isfinite(trained.loss), "a loss that is none")


class TileReplica:
    """Trains the tiles of a level, and keeps none that it has sent."""

    training = contextlib.nullcontext()

    def __init__(self, strategy: LabelwiseTraining) -> None:
        self.strategy = strategy
        self.level = 0

    def merge(
        self, remote: tuple[int, list[Level]] | None, n_trained: float, rate: float
    ) -> tuple[int, dict[int, TrainedTile]]:
        """The tiles that were trained; then the replica is of the level that the server sent, if it
        sent one.
        """
        strategy = self.strategy
        trained = self.level, strategy.done.copy()
        for n in trained[1]:
            del strategy.done[n]
        if remote is not None:
            self.level, above = remote
            strategy.trained = [[] for _ in strategy.plans]
            strategy.trained[strategy.levels[self.level][0]] = [
                Level(*map(np.array, trained_level)) for trained_level in above
            ]
            strategy.done = {}
            strategy.prepare(self.level)
        return trained


def distributed(
    strategy: LabelwiseTraining | Classification, cluster: ClusterSettings, size: Size
) -> Distributed:
    """The strategy, trained by the workers of a cluster."""
    if isinstance(strategy, LabelwiseTraining):
        return _distributed_tree(strategy, size)
    max_chunk = None
    if cluster.merge_every is not None:
        max_chunk = max(1, cluster.merge_every // size.threads)
        strategy.shorten_chunks(max_chunk)
    n_examples = strategy.n * float(strategy.settings.epochs or 1)
    per_range = chunks_per_range(cluster.merge_every, strategy.chunk, n_examples, size)
    plan = ClassifierPlan(type(strategy), strategy.inputs, max_chunk)
    return Distributed(strategy, plan, size, per_range)


def _distributed_tree(strategy: LabelwiseTraining, size: Size) -> Distributed:
    per_range = strategy.n_chunks // (RANGES_PER_THREAD * size.workers * size.threads)
    plan = ClassifierPlan(type(strategy), strategy.inputs)
    return Distributed(strategy, plan, size, max(size.threads, per_range))


def chunks_per_range(merge_every: int | None, chunk: int, n_examples: float, size: Size) -> int:
    """The number of chunks that a worker trains before it merges.

    merge_every  examples between two merges, if they are set
    chunk        examples of a chunk
    n_examples   that all workers train in the run
    """
    if merge_every is None:
        examples_per_thread = n_examples / size.workers / MIN_MERGES / size.threads
        examples_per_thread = min(max(examples_per_thread, MIN_EXAMPLES), MAX_EXAMPLES)
        merge_every = size.threads * math.ceil(examples_per_thread)
    return max(1, round(merge_every / chunk))


def check(cluster: ClusterSettings, settings: ClassifySettings, objective: Objective) -> None:
    """Raise `EmbedxError` for what cannot be trained by workers; the settings are resolved."""
    if not is_labelwise(settings, objective):
        _check_steps(settings, objective)
    elif cluster.merge_every is not None:
        problem = "has no effect where each label is trained independently"
        raise InapplicableError("merge_every", None, problem, "leave it out")


def _check_steps(settings: ClassifySettings, objective: Objective) -> None:
    """Raise `EmbedxError` for training by steps, or to the optimum, that workers cannot do."""
    for setting, is_set, reason, remedy in _refusals_of_steps(settings, objective):
        if is_set:
            problem = ("does not apply with ", Setting("cluster"), f": {reason}")
            raise InapplicableError(setting.name, setting.value, problem, remedy)


def _refusals_of_steps(
    settings: ClassifySettings, objective: Objective
) -> Iterator[tuple[Setting, bool, str, Text]]:
    """What workers cannot do, whether the settings ask for it, why, and what to do instead."""
    sampler = samplers.SAMPLERS[str(settings.sampler)]
    optimizer = optimizers.OPTIMIZERS[str(settings.optimizer)]
    per_row_of_all = sampler.candidates == "all" and optimizer.keeps == "per_row"
    yield (
        Setting("optimizer", Lbfgs.name),
        settings.optimizer == Lbfgs.name,
        "it takes the gradient of all data at once",
        "use adagrad",
    )
    yield (
        Setting("sampler", "search"),
        sampler.candidates == "retrieved",
        "its index is on one machine",
        "use another sampler",
    )
    yield (
        Setting("deterministic", True),
        settings.deterministic,
        "workers merge in no fixed order",
        "leave out one of them",
    )
    yield (
        Setting("weights", SPARSE),
        trains_sparse_rows(settings, objective),
        "such rows cannot be merged",
        ("use ", Setting("weights", DENSE)),
    )
    yield (
        Setting("max_norm"),
        settings.max_norm is not None,
        "merged rows may be longer",
        ("use ", Setting("l2")),
    )
    yield (
        Setting("optimizer", optimizer.name),
        per_row_of_all,
        "all labels are candidates",
        "use adagrad",
    )
