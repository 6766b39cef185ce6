"""Classifiers trained by workers. Training is divided

by examples   every worker trains minibatches of its own on a replica of the parameters
by labels     every worker trains tiles of labels to the end, to the same bits as on one machine
"""

import contextlib
import copy
import dataclasses
import math
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedx import optimizers, samplers
from embedx.classification import task as classification
from embedx.classification.defaults import is_label_by_label
from embedx.classification.settings import ClassifySettings
from embedx.classification.strategies import Classification, Full, FullSparse, FullTiled, Sampled
from embedx.classification.tree_training import Trained, TreeTraining
from embedx.distributed.ray_backend import Size
from embedx.distributed.replica import ParameterReplica
from embedx.distributed.run import Distributed
from embedx.distributed.server import Deltas, Parameters, WorkerState
from embedx.distributed.settings import ClusterSettings
from embedx.distributed.worker import Plan, TablesPlan
from embedx.engine.examples import examples_of
from embedx.engine.select import SINGLE
from embedx.engine.sparse_levels import Level
from embedx.errors import EmbedxError
from embedx.labeled.data import Labels
from embedx.objectives.contract import Objective

MERGES = 200  # at least, of each worker over a run
MIN_EXAMPLES, MAX_EXAMPLES = 2_000, 200_000  # that a thread trains between two merges
RANGES = 32  # of a level's labels for each thread, so that all end at about the same time


# ---- by examples


@dataclass(frozen=True)
class ExamplesPlan(TablesPlan):
    """Every worker trains minibatches."""

    kind: type[Classification]
    settings: ClassifySettings
    arguments: tuple[Any, ...]  # of the kind, but for the settings

    def build(self, threads: int) -> Classification:
        # Copies, because arrays that Ray sends are read-only, which is another type to kernels.
        objective, *others = copy.deepcopy(self.arguments)
        return self.kind(objective, dataclasses.replace(self.settings, threads=threads), *others)

    def parameters(self, strategy: Classification) -> Parameters:
        of_features = np.ones(strategy.n_features)  # how often each has an example
        if not strategy.examples.dense.size:
            of_features = np.bincount(strategy.examples.columns, minlength=strategy.n_features) / strategy.n
        tables = {"outputs": strategy.outputs} | ({"hidden": strategy.hidden} if strategy.settings.hidden else {})
        rates = {"outputs": _rates_of_outputs(strategy, of_features), "hidden": of_features}
        rates = {name: np.minimum(each, 1 / strategy.batch).astype(np.float32) for name, each in rates.items()}
        return Parameters(tables, strategy.optimizer, strategy.local_state, strategy.n_updates, rates)

    def replica(self, strategy: Classification) -> Any:
        return DecayedReplica(strategy, self.parameters(strategy))


def _rates_of_outputs(strategy: Classification, of_features: np.ndarray) -> np.ndarray:
    """float64 (rows of the table,): how often each row of `outputs` is updated for an example, if one is a minibatch."""
    if isinstance(strategy, FullSparse):  # whose rows are features
        return np.append(of_features, [1.0] * strategy.has_bias)
    if isinstance(strategy, Full):
        return np.ones(strategy.n_rows)
    assert isinstance(strategy, Sampled)
    plan, draws, shown = strategy.plan, strategy.draws, strategy.counts / strategy.n
    if plan.on_path:
        return np.bincount(draws.rows, np.repeat(shown, np.diff(draws.offsets)), strategy.n_rows)
    n_lines = shown.sum() if plan.positives == SINGLE and not plan.one_label else 1.0
    return np.asarray(shown + n_lines * (1 - (1 - strategy.drawing.noise) ** plan.n_draws))


class DecayedReplica(ParameterReplica):
    """Applies weight decay before each merge, because its clock is not shared."""

    def __init__(self, strategy: Classification, parameters: Parameters) -> None:
        super().__init__(parameters)
        self.strategy = strategy
        if isinstance(strategy, FullTiled):  # whose rows are copied, trained and written back
            self.training = threading.Lock()

    def merge(self, remote: Deltas, n_trained: float, rate: float) -> Deltas:
        with self.training:
            self.strategy.apply_decay()
            return super().merge(remote, n_trained, rate)


# ---- by labels


@dataclass(frozen=True)
class LabelsPlan(Plan):
    """Every worker trains tiles of labels."""

    settings: ClassifySettings
    arguments: tuple[Any, ...]  # objective, features, labels, optimizer, counts and trees

    def build(self, threads: int) -> TreeTraining:
        # Copies, because arrays that Ray sends are read-only, which is another type to kernels.
        objective, features, labels, *others = copy.deepcopy(self.arguments)
        settings = dataclasses.replace(self.settings, threads=threads)
        return TreeTraining(objective, settings, features, examples_of(features, labels), *others)

    def server(self, strategy: TreeTraining) -> "TileServer":
        return TileServer(strategy)

    def is_done(self, strategy: TreeTraining, epoch: int, chunks: range) -> bool:
        n_tiles = len(strategy.levels[epoch][1].tiles)
        return all(chunk >= n_tiles or chunk in strategy.done for chunk in chunks)

    def replica(self, strategy: TreeTraining) -> "TileReplica":
        return TileReplica(strategy)


class TileServer:
    """Collects tiles. A worker's version is the number of the level that it trains."""

    def __init__(self, strategy: TreeTraining) -> None:
        self.strategy, self.lock = strategy, threading.Lock()

    def initial(self, worker: WorkerState) -> tuple[int, list[Level]] | None:
        """The number of a level that is to be trained, and the trained levels of its tree."""
        level = self.strategy.level
        if worker.version == level:
            return None
        worker.version = level
        return level, self.strategy.trained[self.strategy.levels[level][0]]

    def remote_delta(self, worker: WorkerState) -> None:
        return None

    def add(self, worker: WorkerState, delta: tuple[int, dict[int, Trained]]) -> None:
        level, tiles = delta
        with self.lock:
            if level == self.strategy.level:
                self.strategy.done |= copy.deepcopy(tiles)  # arrays that Ray sends stay in its store


class TileReplica:
    """Trains the tiles of a level, and keeps none that it has sent."""

    training = contextlib.nullcontext()

    def __init__(self, strategy: TreeTraining) -> None:
        self.strategy, self.level = strategy, -1

    def overwrite(self, initial: tuple[int, list[Level]]) -> None:
        strategy, (self.level, above) = self.strategy, initial
        strategy.trained = [[] for _ in strategy.plans]
        strategy.trained[strategy.levels[self.level][0]] = [Level(*map(np.array, each)) for each in above]
        strategy.done = {}
        strategy.prepare(self.level)

    def merge(self, remote: None, n_trained: float, rate: float) -> tuple[int, dict[int, Trained]]:
        tiles = self.strategy.done.copy()
        for n in tiles:
            del self.strategy.done[n]
        return self.level, tiles


# ----


def distribute(task: classification.Run, cluster: ClusterSettings, size: Size) -> None:
    """Have a run trained by workers of the cluster that this process is `connected` to."""
    check(cluster, task.settings, task.objective)

    def distributed(own: TreeTraining | Classification) -> Distributed:
        if isinstance(own, TreeTraining):
            labels = Labels(own.examples.label_offsets, own.examples.label_ids)
            arguments: tuple[Any, ...] = own.objective, own.features, labels, own.optimizer, own.counts, list(own.plans)
            n_chunks = max(size.threads, own.n_chunks // (RANGES * size.workers * size.threads))
            return Distributed(own, LabelsPlan(own.settings, arguments), size, n_chunks)
        arguments = own.objective, own.sampler, own.examples, own.optimizer, own.counts, own.n_features, own.warm_up
        n_chunks = chunks_per_range(cluster.merge_every, own.chunk, own.n * float(own.settings.epochs or 1), size)
        return Distributed(own, ExamplesPlan(type(own), own.settings, arguments), size, n_chunks)

    task.wrap = distributed


def chunks_per_range(merge_every: int | None, chunk: int, n_examples: float, size: Size) -> int:
    """How many chunks, of so many examples, a worker trains before it merges; n_examples is how many all train."""
    if merge_every is None:
        of_thread = n_examples / size.workers / MERGES / size.threads
        merge_every = size.threads * math.ceil(min(max(of_thread, MIN_EXAMPLES), MAX_EXAMPLES))
    return max(1, round(merge_every / chunk))


def check(cluster: ClusterSettings, settings: ClassifySettings, objective: Objective) -> None:
    """Raise `EmbedxError` for what cannot be trained by workers; the settings are resolved."""
    sampler, optimizer = samplers.SAMPLERS[str(settings.sampler)], optimizers.OPTIMIZERS[str(settings.optimizer)]
    others = " or ".join(name for name in objective.samplers() if name != sampler.name)
    of_all, by_label = sampler.candidates == "all", is_label_by_label(settings, objective)
    if by_label and cluster.merge_every is not None:
        raise EmbedxError("--set merge-every has no effect where each label is trained by itself; leave it out")
    for option, is_so, why in (
        ("--optimizer lbfgs", settings.optimizer == "lbfgs", "it takes the gradient of all data at once; take adagrad"),
        ("--deterministic", settings.deterministic and not by_label, "workers merge in no fixed order; leave out one of them"),
        (f"--sampler {sampler.name}", sampler.candidates == "retrieved",
         "its index is of one machine; take " + (f"--sampler {others}" if others else "another --objective")),
        ("--weights sparse", settings.weights == "sparse" and not by_label, "such rows are not merged; take --weights dense"),
        ("--max-norm", settings.max_norm is not None and not by_label, "merged rows may be longer; take --l2"),
        (f"--optimizer {optimizer.name}", of_all and optimizer.keeps == "per_row" and not by_label,
         "all labels are candidates; take adagrad"),
    ):  # fmt: skip
        if is_so:
            raise EmbedxError(f"{option} does not apply with --cluster: {why}")
