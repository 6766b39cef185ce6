"""Replicas of workers and a parameter server, without Ray: how rows are rounded and merged."""

import numpy as np
import pytest
import reference

from embedx.distributed.merging import (
    DAMPING_PER_RATE,
    DAMPING_WITHOUT_PARTNER,
    N_DIRECTIONS,
    STATELESS_FACTOR,
    Partner,
    gather,
)
from embedx.distributed.parameters import STATE, ParameterReplica, Parameters, ParameterServer
from embedx.engine.merging import Delta
from embedx.optimizers import OPTIMIZERS, update_rule
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, WORDS, new_table
from tests.support.replicas import DIM, N_ROWS, WorkerKey, parameters_of, table_at_random

BY_MINIBATCH = [
    name
    for name, optimizer in OPTIMIZERS.items()
    if optimizer.keeps is not None and WORDS in optimizer.commands
]


def update_at_random(table, rows, rng):
    """Changes some rows of a table in place, as training does."""
    table.rows[rows, :DIM] += rng.normal(0, 0.3, (len(rows), DIM))
    if table.keeps in (PER_ROW, PER_COORDINATE):
        table.state[rows] += rng.uniform(0, 2, (len(rows), table.state.shape[1]))


def dequantized(delta):
    """The values of a delta that was rounded to int16."""
    return delta.values * delta.scale


def replica_of(table, rule, uses=None, partner=None):
    """A worker's replica of one table: its `merge` of that table."""
    replica = ParameterReplica(parameters_of(table, rule, uses=uses, partner=partner))
    return lambda *remote: replica.merge({"rows": remote[0], STATE: None}, *remote[1:])["rows"]


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
    merge = replica_of(table, rule)
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
    merge = replica_of(table, rule, uses, partner)
    before = [table.rows.copy(), table.state.copy()]
    rng = np.random.default_rng(1)
    local_rows = np.arange(0, 30)
    remote_rows = np.arange(5, 36).astype(np.int32)
    n_trained = 1024.0
    update_at_random(table, local_rows, rng)
    shared, _ = table_at_random(name)
    update_at_random(shared, remote_rows, rng)
    now = [table.rows.copy(), table.state.copy()]
    has_states = table.keeps in (PER_ROW, PER_COORDINATE)
    remote_state = shared.state[remote_rows] if has_states else None
    remote_delta = delta_of(remote_rows, shared.rows[remote_rows], remote_state)
    shared.rows[remote_rows] = dequantized(remote_delta)

    local_delta = merge(remote_delta, n_trained, rate)

    assert local_delta.row.tolist() == local_rows.tolist()
    optimizer_class = OPTIMIZERS[name]
    divisor = optimizer_class.divisor if has_states else lambda state: np.float32(1)
    slack = 1e-4 if partner is None else 1e-2  # damping that is too small is left out
    for k, row in enumerate(local_rows):
        states = [
            states[row] if has_states else np.zeros(1)
            for states in (before[1], now[1], shared.state)
        ]
        to_row, to_state = reference.merged_row(
            before[0][row],
            states[0],
            now[0][row],
            states[1],
            shared.rows[row],
            states[2],
            expected_damping(uses[row], n_trained, rate, partner, has_states, table.rows.shape[1]),
            lambda s: np.array([divisor(np.float32(x)) for x in s]),
            optimizer_class.limit,
            optimizer_class.is_ema,
        )
        np.testing.assert_allclose(dequantized(local_delta)[k], to_row, rtol=1e-3, atol=slack)
        np.testing.assert_allclose(
            table.rows[row], shared.rows[row] + to_row, rtol=1e-4, atol=slack
        )
        if has_states:
            state = np.minimum(shared.state[row] + to_state, optimizer_class.limit)
            np.testing.assert_allclose(local_delta.state[k], to_state, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(table.state[row], state, rtol=1e-4)
    for row in range(30, 36):
        np.testing.assert_allclose(table.rows[row], shared.rows[row], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(table.rows[36:], before[0][36:])


def test_the_constant_column_of_biases_stays_1():
    table, rule = table_at_random("sgd")
    table.rows[:, DIM - 1] = 1
    merge = replica_of(table, rule, np.ones(N_ROWS, np.float32), some_partner(rule))
    shared = table.rows.copy()
    table.rows[:, : DIM - 1] += 0.5
    shared[:, : DIM - 1] -= 0.25
    local_delta = merge(delta_of(np.arange(N_ROWS), shared), 100.0, 1.0)
    assert np.abs(dequantized(local_delta)).max() > 0.1
    assert (table.rows[:, DIM - 1] == 1).all()


def test_a_covariance_that_is_not_finite_has_no_principal_directions():
    table, rule = table_at_random("sgd")
    partner = some_partner(rule)
    partner.rows()[5] = np.nan
    merge = replica_of(table, rule, np.ones(N_ROWS, np.float32), partner)
    table.rows[3, :DIM] += 0.5
    merge(delta_of([3], table.rows[[3]] - 1), 100.0, 1.0)
    assert np.isfinite(table.rows).all()


@pytest.mark.parametrize("name", BY_MINIBATCH)
def test_rounding_errors_of_a_delta_are_sent_later(name):
    """After many merges of one worker the server's table is its own, though each addition is
    rounded.
    """
    table, rule = table_at_random(name)
    shared, _ = table_at_random(name)
    server = ParameterServer(parameters_of(shared, rule))
    replica = ParameterReplica(parameters_of(table, rule))
    worker = WorkerKey()
    rng = np.random.default_rng(2)
    server.add(worker, replica.merge(server.remote_delta(worker), 0.0, 0.0))
    for _ in range(200):
        update_at_random(table, rng.choice(N_ROWS, 10, replace=False), rng)
        server.add(worker, replica.merge(server.remote_delta(worker), 1.0, 1.0))
    assert np.abs(table.rows).max() > 3
    np.testing.assert_allclose(shared.rows, table.rows, atol=2e-3)
    if table.keeps in (PER_ROW, PER_COORDINATE):
        np.testing.assert_allclose(shared.state, table.state, rtol=1e-5)


# ---- what is sent to whom


def two_workers(name="rowwise-adagrad", width=2):
    """A server, its table, its two workers, and for each (table, parameters, replica)."""
    rng = np.random.default_rng(5)
    shared, rule = table_at_random(name)
    state = rng.normal(0, 1, (N_ROWS, width)).astype(np.float32)
    n_updates = np.zeros(N_ROWS, np.int64)
    server = ParameterServer(parameters_of(shared, rule, state, n_updates))
    workers = [WorkerKey(), WorkerKey()]
    replicas = []
    for worker in workers:
        worker_table = new_table(N_ROWS, DIM, rule)
        parameters = parameters_of(
            worker_table, rule, np.zeros((N_ROWS, width), np.float32), np.zeros(N_ROWS, np.int64)
        )
        replicas.append((worker_table, parameters, ParameterReplica(parameters)))
        server.add(worker, replicas[-1][2].merge(server.remote_delta(worker), 0.0, 0.0))
    return server, shared, workers, replicas


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
    server, shared, workers, replicas = two_workers()
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
        np.testing.assert_allclose(worker_table.rows, shared.rows, atol=5e-3)
        np.testing.assert_allclose(worker_table.state, shared.state, rtol=1e-4)
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
