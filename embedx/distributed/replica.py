"""A worker's replica of the parameters: trained by its threads, and merged with the deltas of other
workers.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from embedx.distributed.merging import damping_of, gather, merge
from embedx.distributed.server import STATE, Deltas, Parameters
from embedx.engine.merging import Delta


class ParameterReplica:
    """The replica of what all workers train."""

    def __init__(self, parameters: Parameters) -> None:
        # held while a chunk is trained, and while deltas are merged
        self.training: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        self.before_merge: Callable[[], None] = lambda: None
        self.parameters = parameters
        # as last agreed on with the server
        self.base_updates = parameters.n_updates.copy()
        tables = parameters.tables.items()
        self.base = {
            name: table._replace(rows=table.rows.copy(), state=table.state.copy())
            for name, table in tables
        }
        for name, table in tables:
            # compiles the kernels
            self._merge_table(name, gather(table, np.zeros(0, np.int32)), 0.0, 0.0)

    def merge(self, remote: Deltas, n_trained: float, rate: float) -> Deltas:
        """Apply the remote delta and return the local one, of so many words or examples at this
        learning rate.

        Chunks may be trained meanwhile.
        """
        with self.training:
            self.before_merge()
            local = {
                name: self._merge_table(name, remote[name], n_trained, rate) for name in self.base
            }
            return local | {STATE: self._merge_state(remote[STATE])}

    def _merge_table(self, name: str, remote: Delta, n_trained: float, rate: float) -> Delta:
        parameters = self.parameters
        table = parameters.tables[name]
        n_updates = n_trained * parameters.update_rates[name]
        damping = damping_of(table, parameters.partners.get(name), n_updates, rate)
        return merge(table, self.base[name], remote, damping, parameters.optimizer)

    def _merge_state(self, remote: Delta) -> Delta:
        """Rows that were updated here keep their values; numbers of updates are summed."""
        state = self.parameters.state
        n_updates = self.parameters.n_updates
        base = self.base_updates
        if not state.shape[1]:
            return remote
        row = np.flatnonzero(n_updates != base).astype(np.int32)
        local = Delta(row, state[row], (n_updates[row] - base[row])[:, None])
        state[remote.row] = remote.values
        n_updates[remote.row] = remote.state[:, 0]
        base[remote.row] = remote.state[:, 0]
        base[row] += local.state[:, 0]
        state[row] = local.values
        n_updates[row] = base[row]
        return local
