"""A strategy that workers train: its chunks are ranges of the chunks of the strategy that it wraps.

The trainer has the learning rate, progress, checkpoints and the divergence guard, as on one
machine. A range whose worker is lost is trained by another.
"""

import math
from collections.abc import Sequence
from typing import Any

from embedx.classification.labelwise import LabelwiseTraining
from embedx.classification.minibatches import MinibatchTraining
from embedx.distributed import examples, tiles, words
from embedx.distributed.answers import LostWorkerError, check_trained
from embedx.distributed.connection import ClusterSize
from embedx.distributed.ray_backend import RANGES_PER_WORKER, WorkerHandle, Workers
from embedx.distributed.settings import ClusterSettings
from embedx.distributed.worker import WorkerPlan
from embedx.runtime.memory import n_bytes
from embedx.runtime.progress import Progress
from embedx.settings import Record
from embedx.skipgram.strategies import BlockTraining
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally, Wrap

# A worker counts as lost if a range takes this many times the mean.
MAX_TIMES_MEAN = 10.0
MIN_SECONDS_TO_WAIT = 60.0


class Distributed(Strategy):
    """The training of `inner`, which has the server's parameters, by workers.

    server  the parameters that the workers train; made by `compile`, as is `pool`
    """

    server: Any
    pool: Workers

    def __init__(
        self, inner: Strategy, plan: WorkerPlan, size: ClusterSize, chunks_per_range: int
    ) -> None:
        self.inner = inner
        self.plan = plan
        self.size = size
        self.chunks_per_range = min(chunks_per_range, inner.n_chunks)
        self.n_chunks = -(-inner.n_chunks // self.chunks_per_range)
        self.workers: Sequence[None] = [None] * (RANGES_PER_WORKER * size.workers)
        self.is_guarded = inner.is_guarded
        self.loss_unit = inner.loss_unit
        self.n_bytes_sent = 0
        # Seconds of a range; None before the first one.
        self.mean_seconds: float | None = None

    def compile(self, progress: Progress) -> None:
        self.inner.compile(progress)
        self.server = self.plan.server(self.inner)
        self.pool = Workers(self.plan, self.size, progress)
        self.pool.wait()

    def train_chunk(self, worker: None, epoch: int, number: int, lr: float) -> Tally | None:
        first = number * self.chunks_per_range
        chunks = range(first, min(first + self.chunks_per_range, self.inner.n_chunks))
        if self.server.is_done(epoch, chunks):
            return Tally()
        while (taken := self.pool.take()) is not None:
            try:
                tally = self._train(taken, epoch, chunks, lr)
                self.pool.give_back(taken)
                return tally
            except LostWorkerError as error:
                self.pool.lost(taken, str(error))
        return None

    def _train(self, worker: WorkerHandle, epoch: int, chunks: range, lr: float) -> Tally:
        """Have a worker train a range and merge. Raises `LostWorkerError`."""
        with worker.merging:
            if not self.server.is_ready(worker):
                self._merge(worker, None)
        timeout = None
        if self.mean_seconds is not None:
            timeout = max(MAX_TIMES_MEAN * self.mean_seconds, MIN_SECONDS_TO_WAIT)
        answer = worker.call("train_range", epoch, chunks, lr, timeout=timeout)
        tally, seconds = check_trained(answer)
        if self.mean_seconds is None:
            self.mean_seconds = seconds
        self.mean_seconds = 0.9 * self.mean_seconds + 0.1 * seconds
        if math.isfinite(tally.loss):
            with worker.merging:
                self._merge(worker, MIN_SECONDS_TO_WAIT)
        return tally

    def _merge(self, worker: WorkerHandle, timeout: float | None) -> None:
        remote = self.server.remote_delta(worker)
        local = worker.call("merge", remote, timeout=timeout)
        self.server.add(worker, local)
        self.n_bytes_sent += n_bytes(remote) + n_bytes(local)

    def state(self) -> TrainState:
        """The state, which can be read with the server's lock while workers train: after a
        rollback, current ranges are repeated.
        """
        state = self.inner.state()
        state.read_lock = self.server.lock
        return state

    @property
    def loss(self) -> float | None:
        return self.inner.loss

    def phase(self, number: int) -> int:
        epoch, at = divmod(number, self.n_chunks)
        return self.inner.phase(epoch * self.inner.n_chunks + at * self.chunks_per_range)

    def sampled_loss(self) -> float | None:
        return self.inner.sampled_loss()

    def baseline_loss(self) -> float | None:
        return self.inner.baseline_loss()

    def identity(self) -> Record:
        return self.inner.identity() | {
            "chunks of an epoch": self.inner.n_chunks,
            "chunks that a worker trains before it merges": self.chunks_per_range,
        }

    def facts(self) -> Record:
        facts = {
            "workers": self.size.workers,
            "threads_of_worker": self.size.threads,
            "chunks_of_range": self.chunks_per_range,
            "bytes_merged": self.n_bytes_sent,
        }
        return self.inner.facts() | {"cluster": facts}

    def after_rollback(self) -> None:
        """Restart the workers after a rollback, from the parameters of the server."""
        self.inner.after_rollback()
        self.pool.restart()

    def interrupt(self) -> None:
        """End the workers; their current ranges are lost."""
        self.pool.close()


def by_workers(cluster: ClusterSettings, size: ClusterSize) -> Wrap:
    """A wrapper that has the connected cluster's workers train a strategy."""

    def distributed(strategy: Strategy) -> Distributed:
        plan, chunks_per_range = _plan_of(strategy, cluster, size)
        return Distributed(strategy, plan, size, chunks_per_range)

    return distributed


def _plan_of(
    strategy: Strategy, cluster: ClusterSettings, size: ClusterSize
) -> tuple[WorkerPlan, int]:
    """The plan of each worker, and the number of chunks that it trains before it merges."""
    if isinstance(strategy, BlockTraining):
        return words.plan_of(strategy, cluster, size)
    if isinstance(strategy, LabelwiseTraining):
        return tiles.plan_of(strategy, size)
    assert isinstance(strategy, MinibatchTraining)
    return examples.plan_of(strategy, cluster, size)
