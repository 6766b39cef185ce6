"""The parameter server: has the run's parameters, adds the deltas of workers, and knows which rows each worker lacks.

A delta is the change of some rows, in float16. A worker lacks the rows that others changed since it was sent them.
"""

import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from embedx.distributed.merging import Partner
from embedx.engine.merging import add_half, gather_half
from embedx.kernels.simd import SIMD_WIDTH as FLOATS
from embedx.kernels.simd import aligned_zeros
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, Table, UpdateRule

STATE = "objective"  # the name, beside those of tables, of what the objective keeps


class Delta(NamedTuple):
    """Some rows of a table, or changes of them."""

    row: np.ndarray  # int32 (n,), ascending
    values: np.ndarray  # (n, stride), float32, or float16 as of `to_half`
    state: np.ndarray  # float32, the optimizer's: (n, stride), (n, 1), or (0, stride) if it keeps none


Deltas = Mapping[str, Delta]  # by table, and STATE


@dataclass(frozen=True)
class Parameters:
    """What workers share, as live arrays.

    Rows of tables are merged by `embedx.engine.merging`. Of what an objective keeps of a word or an example, that of the worker
    that updated it last counts; numbers of updates are summed.
    """

    tables: Mapping[str, Table]
    optimizer: UpdateRule
    state: np.ndarray  # (n, width), the objective's own; width 0 if it keeps none
    n_updates: np.ndarray  # int64 (n,)
    update_rates: Mapping[str, np.ndarray]  # by table, float32 (n_rows,): updates for a word or example
    partners: Mapping[str, Partner] = field(default_factory=dict)  # by table, what its rows are multiplied by, if known


def has_state(table: Table) -> bool:
    """Whether the optimizer keeps a state of each row, which is merged with it."""
    return table.state_of in (PER_ROW, PER_COORDINATE)


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """A copy as float32, aligned as tables are."""
    copy = aligned_zeros(*array.shape) if array.shape[1] % FLOATS == 0 else np.zeros(array.shape, np.float32)
    copy[:] = array
    return copy


def to_half(rows: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Some rows of a table as float16 times 1,024, if that can hold them; else as they are."""
    half = np.empty((len(row), rows.shape[1]), np.float16)
    return half if gather_half(rows.view(np.uint32), row, half.view(np.uint16)) else rows[row]


def bits_of(half: np.ndarray) -> np.ndarray:
    """float16 as bits, read-only as Ray's arrays are: kernels are compiled for one kind alone."""
    bits = half.view(np.uint16)
    bits.flags.writeable = False
    return bits


class ParameterServer:
    """The server of tables that all workers train. Any object stands for a worker, as long as that lives.

    Methods may be called by several threads; while `lock` is held nothing changes.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters, self.lock = parameters, threading.Lock()
        self.sizes = {name: len(table.rows) for name, table in parameters.tables.items()}
        self.sizes[STATE] = len(parameters.state) if parameters.state.shape[1] else 0
        # By worker and table, bool (n_rows,): the rows that the worker lacks.
        self.lacking: weakref.WeakKeyDictionary[Any, dict[str, np.ndarray]] = weakref.WeakKeyDictionary()

    def is_ready(self, worker: Any) -> bool:
        """Whether the worker has parameters to train."""
        return worker in self.lacking

    def is_done(self, epoch: int, chunks: range) -> bool:
        """Whether nothing is left to train in these chunks."""
        return False

    def remote_delta(self, worker: Any) -> Deltas:
        """The rows that the worker lacks: what others changed since it was sent them, or all rows for a new worker."""
        with self.lock:
            if is_new := worker not in self.lacking:
                self.lacking[worker] = {name: np.ones(n, bool) for name, n in self.sizes.items()}
            delta = {}
            for name, is_lacking in self.lacking[worker].items():
                delta[name] = self._rows(name, np.flatnonzero(is_lacking), not is_new)
                is_lacking[:] = False
            return delta

    def add(self, worker: Any, delta: Deltas) -> None:
        """Add a worker's local delta, merged with the remote delta that it was sent last."""
        with self.lock:
            for name, local in delta.items():
                row = local.row
                for other, lacking in self.lacking.items():
                    if other is not worker:
                        lacking[name][row] = True
                if name == STATE:
                    self.parameters.state[row] = local.values
                    self.parameters.n_updates[row] += local.state[:, 0]
                    continue
                table = self.parameters.tables[name]
                buffer = aligned_zeros(1, table.rows.shape[1])
                add_half(table.rows, row, bits_of(local.values), buffer, buffer.view(np.uint32))
                if has_state(table):
                    table.state[row] = np.minimum(table.state[row] + local.state, self.parameters.optimizer.limit)

    def _rows(self, name: str, row: np.ndarray, half: bool) -> Delta:
        row = row.astype(np.int32)
        if name == STATE:
            return Delta(row, self.parameters.state[row], self.parameters.n_updates[row][:, None])
        table = self.parameters.tables[name]
        values = to_half(table.rows, row) if half else table.rows[row]
        return Delta(row, values, table.state[row] if has_state(table) else table.state[:0])
