"""Classifiers trained by workers, each on its own minibatches and its own replica."""

import copy
import dataclasses
import math
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import float32, ndarray

from embedx.classification.full_minibatches import Full, FullSparse, FullTiled
from embedx.classification.minibatches import MinibatchTraining, StepSetup
from embedx.classification.sampled_minibatches import Sampled
from embedx.distributed.connection import ClusterSize
from embedx.distributed.parameters import ParameterReplica, Parameters
from embedx.distributed.settings import ClusterSettings
from embedx.distributed.worker import WorkerPlan
from embedx.engine.select import SINGLE

# Minimum number of merges of each worker over a run.
MIN_MERGES = 200
# Number of examples that a thread trains between two merges.
MIN_EXAMPLES = 2_000
MAX_EXAMPLES = 200_000


@dataclass(frozen=True)
class ExamplesPlan(WorkerPlan):
    """A plan by which every worker trains on minibatches.

    max_chunk  maximum number of examples in a chunk, if chunks have to be shorter than usual
    """

    kind: type[MinibatchTraining]
    setup: StepSetup
    max_chunk: int | None = None

    def components(self) -> tuple[Any, ...]:
        return self.setup

    def build(self, threads: int) -> MinibatchTraining:
        # A copy, because arrays that Ray sends are read-only, which is another type to kernels.
        setup = copy.deepcopy(self.setup)
        settings = dataclasses.replace(setup.settings, threads=threads)
        strategy = self.kind(setup._replace(settings=settings))
        if self.max_chunk is not None:
            strategy.shorten_chunks(self.max_chunk)
        return strategy

    def parameters(self, strategy: MinibatchTraining) -> Parameters:
        tables = {"outputs": strategy.outputs}
        if strategy.settings.hidden:
            tables["hidden"] = strategy.hidden
        return Parameters(
            tables,
            strategy.optimizer,
            strategy.local_state,
            strategy.n_updates,
            update_rates(strategy),
        )

    def replica(self, strategy: MinibatchTraining) -> ParameterReplica:
        replica = super().replica(strategy)
        # The clock of the decay is not shared.
        replica.before_merge = strategy.apply_decay
        if isinstance(strategy, FullTiled):
            # Its rows are copied, trained and written back.
            replica.training = threading.Lock()
        return replica


def update_rates(strategy: MinibatchTraining) -> dict[str, ndarray]:
    """By table, float32 (n_rows,): the number of minibatches that update each row, for an
    example.
    """
    feature_rates = np.ones(strategy.n_features)
    if not strategy.examples.dense.size:
        n_uses = np.bincount(strategy.examples.columns, minlength=strategy.n_features)
        feature_rates = n_uses / strategy.n
    rates = {"outputs": _output_rates(strategy, feature_rates), "hidden": feature_rates}
    max_rate = 1 / strategy.batch
    return {name: np.minimum(rate, max_rate).astype(float32) for name, rate in rates.items()}


def _output_rates(strategy: MinibatchTraining, feature_rates: ndarray) -> ndarray:
    """float64 (n_rows,): how often each row of `outputs` is updated for an example, if one is a
    minibatch.
    """
    if isinstance(strategy, FullSparse):
        # Its rows are features.
        return np.append(feature_rates, [1.0] * strategy.has_bias)
    if isinstance(strategy, Full):
        return np.ones(strategy.n_outputs)
    assert isinstance(strategy, Sampled)
    plan = strategy.plan
    sampler_data = strategy.sampler_data
    label_rates = strategy.counts / strategy.n
    if plan.on_path:
        times = np.repeat(label_rates, np.diff(sampler_data.offsets))
        return np.bincount(sampler_data.rows, times, strategy.n_outputs)
    n_lines = 1.0
    if plan.positives == SINGLE and not plan.one_label:
        n_lines = label_rates.sum()
    return label_rates + n_lines * (1 - (1 - strategy.sampler.noise) ** plan.n_draws)


def plan_of(
    strategy: MinibatchTraining, cluster: ClusterSettings, size: ClusterSize
) -> tuple[ExamplesPlan, int]:
    """The plan of each worker, and the number of chunks that it trains before it merges.

    Chunks of the strategy are shortened where they have more examples than are to be merged.
    """
    max_chunk = None
    if cluster.merge_every is not None:
        max_chunk = max(1, cluster.merge_every // size.threads)
        strategy.shorten_chunks(max_chunk)
    n_examples = strategy.n * float(strategy.settings.epochs or 1)
    per_range = chunks_per_range(cluster.merge_every, strategy.examples_per_chunk, n_examples, size)
    return ExamplesPlan(type(strategy), strategy.setup, max_chunk), per_range


def chunks_per_range(
    merge_every: int | None, chunk: int, n_examples: float, size: ClusterSize
) -> int:
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
