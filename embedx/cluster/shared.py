"""The parameters in common: what workers have learned is added here, and what the others have changed is told to each.

A row has the number of the addition that changed it last, and whose that was. A worker has been told of all additions up to
some number; a row that it alone has changed since then it knows already.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from embedx.cluster.axes import Partner, partner_of
from embedx.cluster.copies import Copy, Rows, StateCopy, bits_of, halved
from embedx.cluster.exchange import Apart, InCommon, Place
from embedx.engine.merging import add_half
from embedx.kernels.simd import aligned_zeros
from embedx.optimizers.contract import NUMBER, ROW, Table, UpdateRule

NOBODY, SEVERAL = -1, -2
OWN = "objective"  # the name, beside those of tables, of what the objective keeps
Changes = Mapping[str, Rows]  # by table, and OWN


@dataclass(frozen=True)
class Parameters:
    """Everything that training changes and that workers share; arrays stay where they are for the whole run.

    Tables are merged row by row by `embedx.engine.merging`. Of what an objective keeps of a word or an example, that of whoever
    updated it last counts, and the numbers of updates are summed.
    """

    tables: Mapping[str, Table]
    optimizer: UpdateRule
    state: np.ndarray  # (n, width), the objective's own; width 0 if it keeps none
    n_updates: np.ndarray  # int64 (n,)
    # By table, float32 (n_rows,): by how many updates a row is led for each word, or example, that is trained; none is as 0
    uses: Mapping[str, np.ndarray] = field(default_factory=dict)
    partners: Mapping[str, Partner] = field(default_factory=dict)  # by table, what its rows are multiplied by, if that is known


class Common(InCommon):
    """The parameters in common. A worker was told of so many additions."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.lock = threading.Lock()
        self.n_additions = 0
        self.buffer = {name: aligned_zeros(1, table.rows.shape[1]) for name, table in parameters.tables.items()}
        sizes = {name: len(table.rows) for name, table in parameters.tables.items()}
        sizes[OWN] = len(parameters.state) if parameters.state.shape[1] else 0
        self.last = {name: np.full(n, -1, np.int64) for name, n in sizes.items()}
        self.whose = {name: np.full(n, NOBODY, np.int32) for name, n in sizes.items()}

    def beginning(self, place: Place) -> Changes | None:
        return self.everything(place) if place.told is None else None

    def everything(self, place: Place) -> Changes:
        """All rows as they are, in full precision."""
        with self.lock:
            place.told = self.n_additions
            return {name: self._rows(name, np.arange(len(last), dtype=np.int32)) for name, last in self.last.items()}

    def news(self, place: Place) -> Changes:
        """The rows that others have changed since this was asked last."""
        with self.lock:
            told, place.told = place.told, self.n_additions
            assert told is not None
            found = {}
            for name, last in self.last.items():
                row = np.flatnonzero((last > told) & (self.whose[name] != place.number)).astype(np.int32)
                found[name] = self._rows(name, row, half=name != OWN)
            return found

    def add(self, place: Place, changes: Changes) -> None:
        """Add what a worker has learned, which was merged with what it was told last."""
        with self.lock:
            self.n_additions += 1
            told = place.told if place.told is not None else -1
            for name, added in changes.items():
                last, whose, row = self.last[name], self.whose[name], added.row
                is_known = (last[row] <= told) | (whose[row] == place.number)
                whose[row] = np.where(is_known, place.number, SEVERAL)
                last[row] = self.n_additions
                if name == OWN:
                    self.parameters.state[row] = added.values
                    self.parameters.n_updates[row] += added.state[:, 0]
                else:
                    table = self.parameters.tables[name]
                    add_half(table.rows, row, bits_of(added.values), self.buffer[name], self.buffer[name].view(np.uint32))
                    if has_states(table):
                        table.state[row] = np.minimum(table.state[row] + added.state, self.parameters.optimizer.limit)

    def _rows(self, name: str, row: np.ndarray, half: bool = False) -> Rows:
        if name == OWN:
            return Rows(row, self.parameters.state[row], self.parameters.n_updates[row][:, None])
        table = self.parameters.tables[name]
        values = halved(table.rows, row) if half else table.rows[row]
        return Rows(row, values, table.state[row] if has_states(table) else table.state[:0])


class Copies(Apart):
    """A worker's copies of everything in common."""

    def __init__(self, parameters: Parameters) -> None:
        self.tables = {
            name: Copy(table, parameters.optimizer, parameters.uses.get(name), parameters.partners.get(name))
            for name, table in parameters.tables.items()
        }
        self.own = StateCopy(parameters.state, parameters.n_updates)

    def overwrite(self, everything: Changes) -> None:
        """Begin from the parameters in common."""
        for name, copy in self.tables.items():
            copy.overwrite(everything[name])
        if len(everything[OWN].row):
            self.own.overwrite(everything[OWN])

    def merge(self, news: Changes, n_trained: float, rate: float) -> Changes:
        """See `copies.Copy.merge`."""
        changes = {name: copy.merge(news[name], n_trained, rate) for name, copy in self.tables.items()}
        return changes | {OWN: self.own.merge(news[OWN])} if self.own.state.shape[1] else changes


def compile_merging(parameters: Parameters) -> None:
    """Compile the kernels by which tables like these are merged, or load them."""
    for table in parameters.tables.values():
        rows, state = table.rows[:1].copy(), table.state[:1].copy()
        small = table._replace(rows=rows, state=state, decay_clock=table.decay_clock[:1], frozen=table.frozen[:1])
        nothing = Rows(np.zeros(0, np.int32), rows[:0], state[:0])
        copy = Copy(small, parameters.optimizer, partner=partner_of(rows, np.ones(1, np.float32)))
        copy.merge(nothing, 0.0, 0.0)
        buffer = aligned_zeros(1, rows.shape[1])
        add_half(rows, nothing.row, bits_of(halved(rows, nothing.row)), buffer, buffer.view(np.uint32))


def has_states(table: Table) -> bool:
    """Whether a row of the table has a state of the optimiser's that is merged with it."""
    return table.state_of in (ROW, NUMBER)
