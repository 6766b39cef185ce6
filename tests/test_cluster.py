"""Workers with replicas and a parameter server, without Ray: rows merged, ranges trained, workers
lost.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import reference

from embedx.distributed import connection, strategy as distributed_strategy
from embedx.distributed.connection import ClusterSize
from embedx.distributed.merging import (
    DAMPING_PER_RATE,
    DAMPING_WITHOUT_PARTNER,
    N_DIRECTIONS,
    STATELESS_FACTOR,
    Partner,
    gather,
)
from embedx.distributed.parameters import STATE, ParameterReplica, Parameters, ParameterServer
from embedx.distributed.settings import ClusterSettings
from embedx.distributed.words import chunks_per_range
from embedx.distributed.worker import Worker, WorkerPlan
from embedx.engine.merging import Delta
from embedx.errors import InapplicableError, SettingError
from embedx.optimizers import OPTIMIZERS, update_rule
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, WORDS, new_table
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

BY_MINIBATCH = [
    name
    for name, optimizer in OPTIMIZERS.items()
    if optimizer.keeps is not None and WORDS in optimizer.commands
]
N_ROWS, DIM = 40, 20


def table_at_random(name, seed=0, n_rows=N_ROWS):
    rng = np.random.default_rng(seed)
    rule = update_rule(name)
    table = new_table(n_rows, DIM, rule)
    table.rows[:, :DIM] = rng.normal(0, 1, (n_rows, DIM))
    if table.keeps in (PER_ROW, PER_COORDINATE):
        table.state[:] = rng.uniform(1, 4, table.state.shape)
    return table, rule


def update_at_random(table, rows, rng):
    """Changes some rows of a table in place, as training does."""
    table.rows[rows, :DIM] += rng.normal(0, 0.3, (len(rows), DIM))
    if table.keeps in (PER_ROW, PER_COORDINATE):
        table.state[rows] += rng.uniform(0, 2, (len(rows), table.state.shape[1]))


def dequantized(delta):
    """The values of a delta that was rounded to int16."""
    return delta.values * delta.scale


def parameters_of(table, rule, state=None, n_updates=None, uses=None, partner=None):
    n_rows = len(table.rows)
    state = np.zeros((n_rows, 0), np.float32) if state is None else state
    n_updates = np.zeros(1, np.int64) if n_updates is None else n_updates
    uses = np.zeros(n_rows, np.float32) if uses is None else uses
    return Parameters(
        {"rows": table},
        rule,
        state,
        n_updates,
        {"rows": uses},
        {} if partner is None else {"rows": partner},
    )


def copy_of(table, rule, uses=None, partner=None):
    """A worker's replica of one table: its `merge` of that table."""
    replica = ParameterReplica(parameters_of(table, rule, uses=uses, partner=partner))
    return lambda *remote: replica.merge({"rows": remote[0], STATE: None}, *remote[1:])["rows"]


class WorkerKey:
    """Stands for a worker, of which the server only keeps what it has sent to it."""


def delta_of(row, values, state=None):
    """What the server sends of rows that have these values."""
    table = new_table(*values.shape, update_rule("sgd"))._replace(rows=values)
    delta = gather(table, np.arange(len(values), dtype=np.int32))._replace(
        row=np.asarray(row, np.int32)
    )
    return delta if state is None else delta._replace(state=state)


# ---- numbers that travel


def test_numbers_are_rounded_to_a_share_of_the_largest_of_their_row():
    rng = np.random.default_rng(0)
    values = (rng.normal(0, 1, (300, 32)) * 10.0 ** rng.uniform(-44, 30, (300, 1))).astype(
        np.float32
    )
    values[5], values[6], values[:, 3] = 0, 2.0**15 - 1, 1  # the last as a feature that is always 1
    values[7, :3] = 1e-44
    _, rounded, _, scale = delta_of(range(300), values)
    assert rounded.dtype == np.int16
    error = np.abs(rounded * scale - values)
    assert (error <= np.abs(values).max(axis=1, keepdims=True) * 2.0**-14).all()
    is_larger = np.abs(values).max(axis=1) >= 2.0**14
    assert (rounded[~is_larger, 3] * scale[~is_larger, 0] == 1).all()


def test_rows_that_are_not_finite_stay_with_their_worker():
    table, rule = table_at_random("sgd")
    merge = copy_of(table, rule)
    others = table.rows[:3].copy()
    table.rows[0, 0] = np.nan
    table.rows[1, 0] = np.inf
    table.rows[2, 0] = 7
    assert merge(delta_of([0, 1], others[:2] + 1), 1.0, 1.0).row.tolist() == [2]


# ---- the rule


def some_partner(rule, width=DIM):
    """A table whose rows are larger along some axes than along others."""
    rng = np.random.default_rng(7)
    table = new_table(30, width, rule)
    table.rows[:, :width] = (
        rng.normal(0, 1, (30, width)) * np.linspace(0.1, 3, width)
    ) @ rng.normal(0, 0.3, (width, width))
    return Partner(lambda: table.rows, rng.uniform(0.1, 1, 30).astype(np.float32))


def expected_damping(uses, n_trained, rate, partner, has_states, width):
    """The damping of a row that is updated `uses` times a word: a number without a partner, else
    float (width, width).
    """
    if partner is None:
        return 1 - np.exp(-DAMPING_WITHOUT_PARTNER * n_trained * uses)
    damping = np.zeros((width, width))
    per_update = DAMPING_PER_RATE * rate * (1 if has_states else STATELESS_FACTOR)
    damping[:DIM, :DIM] = reference.damping_of(
        partner.rows()[:, :DIM], partner.uses, per_update * n_trained * uses, N_DIRECTIONS
    )
    return damping


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize("name", BY_MINIBATCH)
def test_rows_are_merged_by_the_rule(name, is_alone):
    table, rule = table_at_random(name)
    uses = (2.0 ** -np.arange(N_ROWS)).astype(np.float32)
    partner = None if is_alone else some_partner(rule)
    rate = 0.5
    merge = copy_of(table, rule, uses, partner)
    before = [table.rows.copy(), table.state.copy()]
    rng = np.random.default_rng(1)
    local_rows = np.arange(0, 30)
    remote_rows = np.arange(5, 36).astype(np.int32)
    n_trained = 1024.0
    update_at_random(table, local_rows, rng)
    common, _ = table_at_random(name)
    update_at_random(common, remote_rows, rng)
    now = [table.rows.copy(), table.state.copy()]
    has_states = table.keeps in (PER_ROW, PER_COORDINATE)
    remote_state = common.state[remote_rows] if has_states else None
    remote_delta = delta_of(remote_rows, common.rows[remote_rows], remote_state)
    common.rows[remote_rows] = dequantized(remote_delta)

    local_delta = merge(remote_delta, n_trained, rate)

    assert local_delta.row.tolist() == local_rows.tolist()
    optimizer_class = OPTIMIZERS[name]
    divisor = optimizer_class.divisor if has_states else lambda state: np.float32(1)
    slack = 1e-4 if partner is None else 1e-2  # damping that is too small is left out
    for k, row in enumerate(local_rows):
        states = [
            states[row] if has_states else np.zeros(1)
            for states in (before[1], now[1], common.state)
        ]
        to_row, to_state = reference.merged_row(
            before[0][row],
            states[0],
            now[0][row],
            states[1],
            common.rows[row],
            states[2],
            expected_damping(uses[row], n_trained, rate, partner, has_states, table.rows.shape[1]),
            lambda s: np.array([divisor(np.float32(x)) for x in s]),
            optimizer_class.limit,
            optimizer_class.is_ema,
        )
        np.testing.assert_allclose(dequantized(local_delta)[k], to_row, rtol=1e-3, atol=slack)
        np.testing.assert_allclose(
            table.rows[row], common.rows[row] + to_row, rtol=1e-4, atol=slack
        )
        if has_states:
            state = np.minimum(common.state[row] + to_state, optimizer_class.limit)
            np.testing.assert_allclose(local_delta.state[k], to_state, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(table.state[row], state, rtol=1e-4)
    for row in range(30, 36):
        np.testing.assert_allclose(table.rows[row], common.rows[row], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(table.rows[36:], before[0][36:])


def test_the_constant_column_of_biases_stays_1():
    table, rule = table_at_random("sgd")
    table.rows[:, DIM - 1] = 1
    merge = copy_of(table, rule, np.ones(N_ROWS, np.float32), some_partner(rule))
    common = table.rows.copy()
    table.rows[:, : DIM - 1] += 0.5
    common[:, : DIM - 1] -= 0.25
    local_delta = merge(delta_of(np.arange(N_ROWS), common), 100.0, 1.0)
    assert np.abs(dequantized(local_delta)).max() > 0.1
    assert (table.rows[:, DIM - 1] == 1).all()


def test_a_covariance_that_is_not_finite_has_no_principal_directions():
    table, rule = table_at_random("sgd")
    partner = some_partner(rule)
    partner.rows()[5] = np.nan
    merge = copy_of(table, rule, np.ones(N_ROWS, np.float32), partner)
    table.rows[3, :DIM] += 0.5
    merge(delta_of([3], table.rows[[3]] - 1), 100.0, 1.0)
    assert np.isfinite(table.rows).all()


@pytest.mark.parametrize("name", BY_MINIBATCH)
def test_rounding_errors_of_a_delta_are_sent_later(name):
    """After many merges of one worker the table in common is its own, though each addition is
    rounded.
    """
    table, rule = table_at_random(name)
    common, _ = table_at_random(name)
    server = ParameterServer(parameters_of(common, rule))
    replica = ParameterReplica(parameters_of(table, rule))
    worker = WorkerKey()
    rng = np.random.default_rng(2)
    server.add(worker, replica.merge(server.remote_delta(worker), 0.0, 0.0))
    for _ in range(200):
        update_at_random(table, rng.choice(N_ROWS, 10, replace=False), rng)
        server.add(worker, replica.merge(server.remote_delta(worker), 1.0, 1.0))
    assert np.abs(table.rows).max() > 3
    np.testing.assert_allclose(common.rows, table.rows, atol=2e-3)
    if table.keeps in (PER_ROW, PER_COORDINATE):
        np.testing.assert_allclose(common.state, table.state, rtol=1e-5)


# ---- what is sent to whom


def two_workers(name="rowwise-adagrad", width=2):
    """A server, its table, its two workers, and for each (table, parameters, replica)."""
    rng = np.random.default_rng(5)
    common, rule = table_at_random(name)
    state = rng.normal(0, 1, (N_ROWS, width)).astype(np.float32)
    n_updates = np.zeros(N_ROWS, np.int64)
    server = ParameterServer(parameters_of(common, rule, state, n_updates))
    workers = [WorkerKey(), WorkerKey()]
    replicas = []
    for worker in workers:
        worker_table = new_table(N_ROWS, DIM, rule)
        parameters = parameters_of(
            worker_table, rule, np.zeros((N_ROWS, width), np.float32), np.zeros(N_ROWS, np.int64)
        )
        replicas.append((worker_table, parameters, ParameterReplica(parameters)))
        server.add(worker, replicas[-1][2].merge(server.remote_delta(worker), 0.0, 0.0))
    return server, common, workers, replicas


def test_a_worker_receives_only_the_changes_of_others():
    server, _, (a, b), ((table, _, replica), _) = two_workers()
    table.rows[[4, 7], :DIM] += 1
    server.add(a, replica.merge(server.remote_delta(a), 1.0, 1.0))
    assert server.remote_delta(a)["rows"].row.tolist() == []
    assert server.remote_delta(b)["rows"].row.tolist() == [4, 7]
    assert server.remote_delta(b)["rows"].row.tolist() == []
    table.rows[[7, 9], :DIM] += 1
    server.add(a, replica.merge(server.remote_delta(a), 1.0, 1.0))
    assert server.remote_delta(b)["rows"].row.tolist() == [7, 9]


def test_replicas_that_received_all_changes_are_equal():
    server, common, workers, replicas = two_workers()
    rng = np.random.default_rng(6)
    for _ in range(20):
        for worker, (worker_table, parameters, replica) in zip(workers, replicas, strict=True):
            rows = rng.choice(N_ROWS, 12, replace=False)
            update_at_random(worker_table, rows, rng)
            parameters.state[rows] += 1
            parameters.n_updates[rows] += 1
            server.add(worker, replica.merge(server.remote_delta(worker), 3.0, 1.0))
    for worker, (_, _, replica) in zip(workers, replicas, strict=True):
        server.add(worker, replica.merge(server.remote_delta(worker), 0.0, 1.0))
    for worker_table, parameters, _ in replicas[1:]:  # the last worker that merged
        np.testing.assert_allclose(worker_table.rows, common.rows, atol=5e-3)
        np.testing.assert_allclose(worker_table.state, common.state, rtol=1e-4)
        np.testing.assert_array_equal(parameters.n_updates, server.parameters.n_updates)
    assert server.parameters.n_updates.sum() == 2 * 20 * 12


def test_the_state_of_a_word_is_that_of_the_worker_who_updated_it_last():
    state = np.zeros((6, 2), np.float32)
    n_updates = np.zeros(6, np.int64)
    copy = ParameterReplica(Parameters({}, update_rule("sgd"), state, n_updates, {}))
    state[[1, 2]], n_updates[[1, 2]] = 5, 3
    remote = Delta(
        np.array([2, 4], np.int32), np.full((2, 2), 9, np.float32), np.array([[10], [11]])
    )
    sent = copy.merge({STATE: remote}, 1.0, 1.0)[STATE]
    assert (sent.row.tolist(), sent.values[:, 0].tolist(), sent.state[:, 0].tolist()) == (
        [1, 2],
        [5, 5],
        [3, 3],
    )
    assert state[:, 0].tolist() == [0, 5, 5, 0, 9, 0]
    assert n_updates.tolist() == [0, 3, 13, 0, 11, 0]
    nothing = {STATE: Delta(*(array[:0] for array in remote))}
    assert len(copy.merge(nothing, 1.0, 1.0)[STATE].row) == 0


# ---- ranges


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
