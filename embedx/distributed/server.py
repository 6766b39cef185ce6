"""The parameter server: has the run's parameters, adds the deltas of workers, and knows which rows each worker lacks.

A delta is the change of some rows, in float16. Each row has the version at which it changed last, and by which worker. A worker
has all rows up to its version, and the rows that it alone has changed since.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from embedx.distributed.merging import Partner
from embedx.engine.merging import add_half, gather_half
from embedx.kernels.simd import SIMD_WIDTH as FLOATS
from embedx.kernels.simd import aligned_zeros
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, Table, UpdateRule

NOBODY, SEVERAL = -1, -2
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


@dataclass
class WorkerState:
    """A worker, as the server knows it."""

    number: int
    version: int = -1  # of its replica; -1 if it is new


class ParameterServer:
    """The server of tables that all workers train. A version is the number of deltas that were added.

    Methods may be called by several threads; while `lock` is held nothing changes.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters, self.lock, self.version = parameters, threading.Lock(), 0
        sizes = {name: len(table.rows) for name, table in parameters.tables.items()}
        sizes[STATE] = len(parameters.state) if parameters.state.shape[1] else 0
        self.changed_in = {name: np.zeros(n, np.int64) for name, n in sizes.items()}
        self.changed_by = {name: np.full(n, NOBODY, np.int32) for name, n in sizes.items()}

    def is_ready(self, worker: WorkerState) -> bool:
        """Whether the worker has parameters to train."""
        return worker.version >= 0

    def is_done(self, epoch: int, chunks: range) -> bool:
        """Whether nothing is left to train in these chunks."""
        return False

    def remote_delta(self, worker: WorkerState) -> Deltas:
        """What other workers changed since the worker's version, which becomes the current one; all rows for a new worker."""
        with self.lock:
            before, worker.version = worker.version, self.version
            return {
                name: self._rows(
                    name, np.flatnonzero((version > before) & (self.changed_by[name] != worker.number)), before >= 0
                )
                for name, version in self.changed_in.items()
            }

    def add(self, worker: WorkerState, delta: Deltas) -> None:
        """Add a worker's local delta, merged with the remote delta that it was sent last."""
        with self.lock:
            self.version += 1
            for name, local in delta.items():
                version, changed_by, row = self.changed_in[name], self.changed_by[name], local.row
                is_alone = (version[row] <= worker.version) | (changed_by[row] == worker.number)
                changed_by[row] = np.where(is_alone, worker.number, SEVERAL)
                version[row] = self.version
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
