"""A worker's replica of the parameters: trained by its threads, and merged with the deltas of other workers."""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from embedx.distributed.merging import Partner, damping_of
from embedx.distributed.server import STATE, Delta, Deltas, Parameters, aligned_copy, bits_of, has_state
from embedx.engine.merging import NONE, Buffers, LocalDelta, RemoteDelta, merge_rows
from embedx.kernels.simd import aligned_zeros
from embedx.optimizers.contract import PER_COORDINATE, Table, UpdateRule


class ParameterReplica:
    """The replica of tables that all workers train."""

    def __init__(self, parameters: Parameters) -> None:
        self.training: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()  # in which chunks are trained
        self.before_merge: Callable[[], None] = lambda: None
        self.parameters, self.base_updates = parameters, parameters.n_updates.copy()
        self.tables = {
            name: TableReplica(table, parameters.optimizer, parameters.update_rates[name], parameters.partners.get(name))
            for name, table in parameters.tables.items()
        }

    def merge(self, remote: Deltas, n_trained: float, rate: float) -> Deltas:
        """Apply the remote delta and return the local one, of so many words or examples at this learning rate.

        Chunks may be trained meanwhile.
        """
        with self.training:
            self.before_merge()
            local = {name: table.merge(remote[name], n_trained, rate) for name, table in self.tables.items()}
            return local | {STATE: self._merge_state(remote[STATE])}

    def _merge_state(self, remote: Delta) -> Delta:
        """Rows that were updated here keep their values; numbers of updates are summed."""
        state, n_updates, base = self.parameters.state, self.parameters.n_updates, self.base_updates
        if not state.shape[1]:
            return remote
        row = np.flatnonzero(n_updates != base).astype(np.int32)
        local = Delta(row, state[row], (n_updates[row] - base[row])[:, None])
        state[remote.row] = remote.values
        n_updates[remote.row] = base[remote.row] = remote.state[:, 0]
        base[row] += local.state[:, 0]
        state[row], n_updates[row] = local.values, base[row]
        return local


class TableReplica:
    """A worker's copy of a table, and its rows as last agreed on with the server, the base."""

    def __init__(self, table: Table, optimizer: UpdateRule, update_rates: np.ndarray, partner: Partner | None) -> None:
        self.table, self.optimizer, self.update_rates, self.partner = table, optimizer, update_rates, partner
        self.base = table._replace(rows=aligned_copy(table.rows), state=aligned_copy(table.state))
        local, server, remote, correction = (aligned_zeros(1, table.rows.shape[1]) for _ in range(4))
        self.buffers = Buffers(local, local.view(np.uint32), server, server.view(np.uint32), remote, correction)
        self.merge(Delta(np.zeros(0, np.int32), table.rows[:0], table.state[:0]), 0.0, 0.0)  # compiles the kernel

    def merge(self, remote: Delta, n_trained: float, rate: float) -> Delta:
        """As `ParameterReplica.merge`, of one table."""
        table, n_rows = self.table, len(self.table.rows)
        damping = damping_of(table, self.partner, n_trained * self.update_rates, rate)
        position = np.full(n_rows, NONE, np.int32)
        position[remote.row] = np.arange(len(remote.row), dtype=np.int32)
        is_half, empty = remote.values.dtype == np.float16, table.rows[:0]
        sent = RemoteDelta(
            position, bits_of(remote.values if is_half else empty.astype(np.float16)),
            empty if is_half else aligned_copy(remote.values), aligned_copy(remote.state),
        )  # fmt: skip
        state = aligned_zeros(*table.state.shape) if table.state_of == PER_COORDINATE else np.empty_like(table.state)
        local = LocalDelta(np.empty(n_rows, np.int32), np.empty((n_rows, table.rows.shape[1]), np.uint16), state)
        n = int(merge_rows(table, self.base, sent, damping, local, self.buffers, self.optimizer))
        return Delta(local.row[:n], local.half[:n].view(np.float16), state[:n] if has_state(table) else state[:0])
