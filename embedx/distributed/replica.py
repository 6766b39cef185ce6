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
        # in which chunks are trained
        self.training: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        self.before_merge: Callable[[], None] = lambda: None
        self.parameters, self.base_updates = parameters, parameters.n_updates.copy()
        # The tables as last agreed on with the server.
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
        own, table = self.parameters, self.parameters.tables[name]
        damping = damping_of(
            table, own.partners.get(name), n_trained * own.update_rates[name], rate
        )
        return merge(table, self.base[name], remote, damping, own.optimizer)

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
