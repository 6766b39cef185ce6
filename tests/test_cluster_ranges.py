"""Ranges of chunks that workers of a cluster train, lost workers, and settings of a cluster."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from embedx.distributed import connection, strategy as distributed_strategy
from embedx.distributed.connection import ClusterSize
from embedx.distributed.parameters import ParameterServer
from embedx.distributed.settings import ClusterSettings
from embedx.distributed.words import chunks_per_range
from embedx.distributed.worker import Worker, WorkerPlan
from embedx.errors import InapplicableError, SettingError
from embedx.runtime.progress import Silent
from embedx.skipgram.strategies import TOKENS_PER_CHUNK
from embedx.tasks.requests import TrainRequest
from embedx.tasks.run import run_request
from embedx.training import trainer
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally
from tests.support.local_workers import LocalWorkers, lost_at
from tests.support.refusals import refused
from tests.support.replicas import WorkerKey, parameters_of, table_at_random


class Counting(Strategy):
    """Adds 1 to the row of each chunk that is trained."""

    def __init__(self, n_chunks=23, threads=2):
        self.n_chunks = n_chunks
        self.workers = list(range(threads))
        self.table, self.rule = table_at_random("sgd", n_rows=n_chunks)
        self.table.rows[:] = 0

    def compile(self, progress): ...

    def train_chunk(self, worker, epoch, chunk, rate):
        self.table.rows[chunk, 0] += 1
        return Tally(1.0, 1, 10)

    def state(self):
        state = TrainState()
        state.add_array("rows", self.table.rows)
        return state


class CountingPlan(WorkerPlan):
    def build(self, threads):
        return Counting(threads=threads)

    def parameters(self, strategy):
        return parameters_of(strategy.table, strategy.rule)


def started_worker(threads):
    worker = Worker(CountingPlan(), threads)
    worker.start()
    return worker


def run_on(monkeypatch, fails=lambda number, method: False, epochs=3, workers=3, per_range=2):
    inner = Counting()
    clusters = []

    def new(*arguments):
        clusters.append(LocalWorkers(*arguments, fails=fails))
        return clusters[-1]

    monkeypatch.setattr(distributed_strategy, "Workers", new)
    strategy = distributed_strategy.Distributed(
        inner, CountingPlan(), ClusterSize(workers, 2), per_range
    )
    schedule = Schedule(0.1, strategy.n_chunks, 230, epochs)
    outcome = trainer.train(strategy, schedule, Silent())
    return inner, outcome, clusters[0]


def test_workers_train_every_chunk_of_every_epoch_once(monkeypatch):
    inner, outcome, _ = run_on(monkeypatch)
    assert inner.table.rows[:, 0].tolist() == [3.0] * 23
    assert outcome.tally.items == 3 * 230


@pytest.mark.parametrize(("method", "times"), [("train_range", (4, 9)), ("merge", (5,))])
def test_ranges_of_a_lost_worker_are_trained_by_another(monkeypatch, method, times):
    inner, outcome, workers = run_on(monkeypatch, lost_at(method, *times))
    assert workers.n_lost == len(times)
    assert (inner.table.rows[:, 0] >= 3).all()
    # Of the other range that it had under way a part may have been merged before.
    assert inner.table.rows[:, 0].sum() <= 3 * 23 + 2 * len(times)
    assert outcome.tally.items == 3 * 230


def test_the_learning_rate_falls_over_ranges(monkeypatch):
    rates = {}
    train_chunk = Counting.train_chunk

    def recorded(self, worker, epoch, chunk, rate):
        rates[chunk] = rate
        return train_chunk(self, worker, epoch, chunk, rate)

    monkeypatch.setattr(Counting, "train_chunk", recorded)
    run_on(monkeypatch, epochs=1, workers=1)
    assert [rates[chunk] for chunk in range(23)] == pytest.approx(
        [0.1 * (1 - chunk // 2 / 12) for chunk in range(23)]
    )


def test_threads_continue_with_the_next_range():
    """While one thread is busy with the last chunk of a range, the others train the
    range after it.
    """
    worker = started_worker(2)
    inner = worker.strategy
    begun = threading.Event()
    both = threading.Event()
    in_use = set()

    def train(memory, epoch, chunk, rate):
        assert memory not in in_use
        in_use.add(memory)
        if chunk == 1:
            assert both.wait(20)
        elif chunk == 2:
            both.set()
        inner.table.rows[chunk, 0] += 1
        begun.set()
        in_use.remove(memory)
        return Tally(1.0, 1, 10)

    inner.train_chunk = train
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(worker.train_range, 0, range(2), 0.1)
        assert begun.wait(20)
        second = pool.submit(worker.train_range, 0, range(2, 5), 0.1)
        assert (first.result(20)[0].items, second.result(20)[0].items) == (20, 30)
    assert inner.table.rows[:, 0].tolist() == [1.0] * 5 + [0.0] * 18


def test_a_run_resumes_from_a_checkpoint_of_the_server(monkeypatch):
    """The first remote delta of a worker has all rows, whatever was in its replica."""
    inner, _, _ = run_on(monkeypatch, epochs=1)
    snapshot = inner.state().snapshot()
    again = Counting()
    again.state().restore(snapshot)
    server = ParameterServer(CountingPlan().parameters(again))
    worker = started_worker(1)
    worker.merge(server.remote_delta(WorkerKey()))
    np.testing.assert_array_equal(worker.strategy.table.rows, inner.table.rows)


# ---- settings


@pytest.mark.parametrize(
    ("words", "n_words", "n_rows", "workers", "threads", "merges"),
    [
        (None, 1e6, 1000, 1, 2, 10),  # a single worker
        (None, 1e7, 1000, 4, 1, 50),  # cheap
        (None, 1e7, 200_000, 4, 1, 28),  # dear
        # the head could not keep up with more
        (None, 1e7, 10_000, 16, 1, 50),
        (None, 1e9, 920_000, 8, 16, 21),
        (None, 1e7, 200_000, 16, 1, 20),
        (None, 5e9, 200_000, 8, 4, 195),  # ranges of some seconds
        # longer ones, so that the head keeps up, as far as that goes
        (None, 1e11, 6_000_000, 16, 16, 98),
        (50_000, 1e6, 1000, 4, 1, 25),  # as asked for
    ],
)
def test_how_often_a_worker_merges(words, n_words, n_rows, workers, threads, merges):
    size = ClusterSize(workers, threads)
    epochs = 5
    of_worker = epochs * n_words / workers
    n_chunks = int(n_words / TOKENS_PER_CHUNK)
    trained = TOKENS_PER_CHUNK * chunks_per_range(words, n_chunks, epochs, n_rows, size)
    assert of_worker / trained == pytest.approx(merges, rel=0.05)


def test_settings_of_a_cluster_need_one():
    with refused("workers", "cluster", "threads", kind=InapplicableError):
        ClusterSettings(workers=2)
    assert ClusterSettings("auto", workers=2).record()["workers"] == 2
    assert ClusterSettings().record() == {}
    with refused("workers", value=0):
        ClusterSettings(workers=0)


def test_no_cluster_is_reported_in_a_line(two_topics):
    request = TrainRequest(corpora=[str(two_topics)], options={"cluster": "127.0.0.1:1"})
    with pytest.raises(SettingError) as caught:
        run_request(request, Silent())
    assert (caught.value.setting, caught.value.value) == ("cluster", "127.0.0.1:1")
    assert "ray start --head" in caught.value.remedy


def test_words_with_a_search_are_refused(two_topics):
    settings = {"cluster": "auto", "sampler": "search"}
    request = TrainRequest(corpora=[str(two_topics)], objective="ove", options=settings)
    with refused("sampler", "cluster", kind=InapplicableError, value="search"):
        run_request(request, Silent())


def test_ray_that_is_not_installed_is_reported_in_a_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with refused("cluster", quoting='pip install "embedx[ray]"'):
        connection.ray()
