"""Stretches of text that are trained apart: each lane of a round on copies of the rows that it meets.

Lanes read the tables and do not write to them. A row is copied when a block of the lane needs it first, and the lane reads and
updates its copy from then on, so that none sees what another does. When all lanes are done, every row becomes

    row + Σ over the lanes that have a copy of it (copy - row)      in the order of the lanes

and so do the optimiser's state of the row and its number of updates; the objective's own state of a word is that of the lane
which has updated it most. Rows are merged each for itself: it makes no difference which thread does it, or when.
"""

from typing import Any, NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.simd import LANES as FLOATS
from embedx.kernels.simd import aligned_zeros, load, prefetch, store
from embedx.optimizers.contract import NOTHING, NUMBER, ROW, Table

AHEAD = 8  # rows that are asked for before they are needed
NONE = -1
OWN_LINE = 8  # int64 of a cache line, so that no two lanes write to the same


class Copies(NamedTuple):
    """Where the copies are that a lane has of a table's rows."""

    place: np.ndarray  # int32 (n_rows,): of the copy of each row among the lane's, or NONE
    row: np.ndarray  # int32 (most,): which row each copy is of
    n: np.ndarray  # int64 (OWN_LINE,): the first is how many there are


class Lane(NamedTuple):
    """What a lane is told beside the tables that it trains, which are its copies; empty, and not looked at, without lanes."""

    number: int
    shared: Any  # the tables that the copies are of: `SkipGramTables`
    inputs: Copies
    outputs: Copies


class AllCopies(NamedTuple):
    """The copies of a table's rows, those of lane l from place l · most on."""

    place: np.ndarray  # int32 (lanes, n_rows)
    row: np.ndarray  # int32 (lanes, most)
    n: np.ndarray  # int64 (lanes, OWN_LINE)
    rows: np.ndarray  # float32 (lanes · most, stride)
    state: np.ndarray  # float32, the optimiser's: like the rows, (lanes · most, 1) or (0, stride)
    most: int  # copies of a lane


def new_copies(table: Table, lanes: int, most: int) -> AllCopies:
    """Memory for as many lanes, each of which has up to `most` copies of the table's rows."""
    stride = table.rows.shape[1]
    state = {
        NOTHING: lambda: aligned_zeros(0, stride),
        NUMBER: lambda: aligned_zeros(lanes * most, stride),
        ROW: lambda: np.zeros((lanes * most, 1), dtype=np.float32),
    }[table.state_of]()
    return AllCopies(
        np.full((lanes, len(table.rows)), NONE, dtype=np.int32), np.zeros((lanes, most), dtype=np.int32),
        np.zeros((lanes, OWN_LINE), dtype=np.int64), aligned_zeros(lanes * most, stride), state, most,
    )  # fmt: skip


def copies_of(copies: AllCopies, lane: int) -> Copies:
    """A lane's own, views."""
    return Copies(copies.place[lane], copies.row[lane], copies.n[lane])


def table_of(copies: AllCopies, lane: int, table: Table) -> Table:
    """A lane's copies as a table, a view; `table` is what they are of."""
    own = slice(lane * copies.most, (lane + 1) * copies.most)
    return Table(copies.rows[own], copies.state[own], table.decay_clock, table.state_of)


# ---- within a lane


@kernel_part
def forget_copies(copies):
    """Leave no copies, as a round begins."""
    for k in range(copies.n[0]):
        copies.place[copies.row[k]] = NONE
    copies.n[0] = 0


@kernel_part
def copy_rows(table, own, copies, rows, n, at):
    """Write to at[:n] where a lane's copies of the table's rows[:n] are; those that there are not yet are made."""
    for k in range(n):
        if k + AHEAD < n and copies.place[rows[k + AHEAD]] == NONE:
            for d in range(0, table.rows.shape[1], FLOATS):
                prefetch(table.rows, np.int64(rows[k + AHEAD]), d)
        row = np.int64(rows[k])
        if copies.place[row] == NONE:
            _copy_row(table, own, copies, row)
        at[k] = copies.place[row]


@kernel_part
def copy_all_rows(table, own, copies):
    """Copy every row to its own place."""
    for row in range(table.rows.shape[0]):
        _copy_row(table, own, copies, row)


@kernel_part
def _copy_row(table, own, copies, row):
    """Copy a row, which has no copy yet, and its optimiser's state to the next place."""
    place = copies.n[0]
    copies.n[0] = place + 1
    copies.place[row] = place
    copies.row[place] = row
    for d in range(0, table.rows.shape[1], FLOATS):
        store(own.rows, place, d, load(table.rows, row, d))
    if table.state_of == NUMBER:
        for d in range(0, table.rows.shape[1], FLOATS):
            store(own.state, place, d, load(table.state, row, d))
    elif table.state_of == ROW:
        own.state[place, 0] = table.state[row, 0]


@kernel_part
def copy_state(shared, own, copies, first):
    """Copy the objective's state of the words that were copied to the places from `first` on."""
    if shared.state.shape[1] > 0:
        for place in range(first, copies.n[0]):
            row = copies.row[place]
            own.n_updates[place] = shared.n_updates[row]
            for d in range(shared.state.shape[1]):
                own.state[place, d] = shared.state[row, d]


# ---- together again


@kernel
def merge_rows(table, copies, n_lanes, part, parts):
    """Bring every parts-th of the rows up to date with what the first n_lanes lanes have made of them."""
    for lane in range(n_lanes):
        n = copies.n[lane, 0]
        for k in range(n):
            if k + AHEAD < n and copies.row[lane, k + AHEAD] % parts == part:
                for d in range(0, table.rows.shape[1], FLOATS):
                    prefetch(table.rows, np.int64(copies.row[lane, k + AHEAD]), d)
            row = np.int64(copies.row[lane, k])
            if row % parts == part and is_first(copies, lane, row):
                _merge_vectors(table.rows, copies.rows, copies, lane, n_lanes, row)
                if table.state_of == NUMBER:
                    _merge_vectors(table.state, copies.state, copies, lane, n_lanes, row)
                elif table.state_of == ROW:
                    before, total = table.state[row, 0], copies.state[lane * copies.most + k, 0]
                    for other in range(lane + 1, n_lanes):
                        if copies.place[other, row] != NONE:
                            total += copies.state[other * copies.most + copies.place[other, row], 0] - before
                    table.state[row, 0] = total


@kernel_part
def is_first(copies, lane, row):
    """Whether no lane before has a copy of the row."""
    other = 0
    while other < lane and copies.place[other, row] == NONE:
        other += 1
    return other == lane


@kernel_part
def _merge_vectors(table, own, copies, lane, n_lanes, row):
    """Bring a row up to date; `lane` is the first that has a copy."""
    for d in range(0, table.shape[1], FLOATS):
        before, total = load(table, row, d), load(own, lane * copies.most + copies.place[lane, row], d)
        for other in range(lane + 1, n_lanes):
            if copies.place[other, row] != NONE:
                total = total + (load(own, other * copies.most + copies.place[other, row], d) - before)
        store(table, row, d, total)


@kernel
def merge_state(state, n_updates, own_state, own_n_updates, copies, n_lanes, part, parts):
    """The same for the objective's state of words, and how often it was updated."""
    for lane in range(n_lanes):
        for k in range(copies.n[lane, 0]):
            row = np.int64(copies.row[lane, k])
            if row % parts == part and is_first(copies, lane, row):
                total, best, most = n_updates[row], np.int64(-1), np.int64(0)
                for other in range(lane, n_lanes):
                    if copies.place[other, row] != NONE:
                        place = other * copies.most + copies.place[other, row]
                        gained = own_n_updates[place] - n_updates[row]
                        total += gained
                        if gained > most:
                            best, most = place, gained
                n_updates[row] = total
                if best >= 0:
                    for d in range(state.shape[1]):
                        state[row, d] = own_state[best, d]
