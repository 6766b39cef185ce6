"""The parameters that workers share: the server has those of the run, each worker has a replica.

The threads of a worker train its replica, which exchanges deltas with the server: it receives the
rows that others have changed since, and returns those that it has changed.
"""

import contextlib
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy import ndarray

from embedx.distributed import answers
from embedx.distributed.merging import Partner, add, damping_of, gather, merge, state_of
from embedx.engine.merging import Delta
from embedx.optimizers.contract import Table, UpdateRule

# The name of the objective's state, next to those of tables.
STATE = "objective"
# By table, and STATE.
Deltas = Mapping[str, Delta]


@dataclass(frozen=True)
class Parameters:
    """What workers share, as live arrays.

    Rows of tables are merged by `embedx.engine.merging`. The objective's state of a word or an
    example is that of the worker that updated it last; update counts are summed.

    state         (n, width) of the objective; width 0 if it keeps none
    n_updates     int64 (n,)
    update_rates  by table, float32 (n_rows,): updates for a word or example
    partners      by table, the vectors that its rows are multiplied by, if known
    """

    tables: Mapping[str, Table]
    optimizer: UpdateRule
    state: ndarray
    n_updates: ndarray
    update_rates: Mapping[str, ndarray]
    partners: Mapping[str, Partner] = field(default_factory=dict)


class ParameterServer:
    """The server of the parameters that all workers train. A worker is identified by any object,
    for as long as that object lives.

    Methods may be called by several threads; while `lock` is held nothing changes.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.lock = threading.Lock()
        self.sizes = {name: len(table.rows) for name, table in parameters.tables.items()}
        self.sizes[STATE] = len(parameters.state) if parameters.state.shape[1] else 0
        # By worker and table, bool (n_rows,): the rows that the worker lacks.
        self.lacking: weakref.WeakKeyDictionary[Any, dict[str, ndarray]] = (
            weakref.WeakKeyDictionary()
        )

    def is_ready(self, worker: Any) -> bool:
        """Whether the worker has parameters to train."""
        return worker in self.lacking

    def is_done(self, epoch: int, chunks: range) -> bool:
        """Whether these chunks are already trained."""
        return False

    def remote_delta(self, worker: Any) -> Deltas:
        """The rows that the worker lacks: what others changed since it was sent them, or all rows
        for a new worker.
        """
        with self.lock:
            if worker not in self.lacking:
                self.lacking[worker] = {name: np.ones(n, bool) for name, n in self.sizes.items()}
            parameters = self.parameters
            delta = {}
            for name, is_lacking in self.lacking[worker].items():
                row = np.flatnonzero(is_lacking).astype(np.int32)
                if name == STATE:
                    n_updates = parameters.n_updates[row][:, None]
                    delta[name] = Delta(row, parameters.state[row], n_updates)
                else:
                    delta[name] = gather(parameters.tables[name], row)
                is_lacking[:] = False
            return delta

    def add(self, worker: Any, delta: Deltas) -> None:
        """Add a worker's local delta, merged with the remote delta that it was sent last.

        Raises `LostWorkerError`, and adds nothing, if it does not fit the parameters.
        """
        self._check(delta)
        with self.lock:
            for name, local in delta.items():
                row = local.row
                for other, lacking in self.lacking.items():
                    if other is not worker:
                        lacking[name][row] = True
                if name == STATE:
                    self.parameters.state[row] = local.values
                    self.parameters.n_updates[row] += local.state[:, 0]
                else:
                    add(self.parameters.tables[name], local, self.parameters.optimizer)

    def _check(self, delta: Deltas) -> None:
        answers.check_names(delta, self.sizes)
        for name, table in self.parameters.tables.items():
            answers.check_table_delta(delta[name], table, state_of(table).shape[1])
        answers.check_objective_delta(delta[STATE], self.parameters.state)


class ParameterReplica:
    """The replica of what all workers train."""

    def __init__(self, parameters: Parameters) -> None:
        # Held while a chunk is trained, and while deltas are merged.
        self.training: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        self.before_merge: Callable[[], None] = lambda: None
        self.parameters = parameters
        # As of the last synchronisation with the server.
        self.base_updates = parameters.n_updates.copy()
        tables = parameters.tables.items()
        self.base = {
            name: table._replace(rows=table.rows.copy(), state=table.state.copy())
            for name, table in tables
        }
        for name, table in tables:
            # Compiles the kernels.
            self._merge_table(name, gather(table, np.zeros(0, np.int32)), 0.0, 0.0)

    def merge(self, remote: Deltas, n_trained: float, lr: float) -> Deltas:
        """Apply the remote delta and return the local one.

        n_trained  words or examples that the local one was trained on
        lr         the learning rate

        Chunks may be trained meanwhile.
        """
        with self.training:
            self.before_merge()
            local = {
                name: self._merge_table(name, remote[name], n_trained, lr) for name in self.base
            }
            return local | {STATE: self._merge_state(remote[STATE])}

    def _merge_table(self, name: str, remote: Delta, n_trained: float, lr: float) -> Delta:
        parameters = self.parameters
        table = parameters.tables[name]
        n_updates = n_trained * parameters.update_rates[name]
        damping = damping_of(table, parameters.partners.get(name), n_updates, lr)
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
