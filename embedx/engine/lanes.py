"""Stretches of text that are trained apart: each lane of a round on copies of the rows that it meets.

Lanes read the tables and do not write to them. A row is copied when a block of the lane needs it first, and the lane reads and
updates its copy from then on, so that none sees what another does. When all lanes are done, every row becomes

    w + Σ_l share_l · (w_l - w)      s + Σ_l (s_l - s)      over the lanes l that have copies w_l, in the order of the lanes

where s is the optimiser's state of the row: the sum of what it is told in all lanes, or the mean if it fades. The share of one
lane by itself is 1; else what its steps were divided by over what they would be, divisor(s_l) / divisor(new s), times

    overlap = (1 - e^-κU) / Σ_l (1 - e^-κU/n)      U uses by blocks in n lanes

which says that each use leads a part κ of the way to where blocks want the row: then U uses one after the other lead 1 - e^-κU
of it, but n lanes that do not know of each other 1 - e^-κU/n each, and together too far. So rare rows are summed, and those of
the most frequent words averaged. The numbers of updates are summed; the objective's own state of a word is that of the lane
which has updated it most. Rows are merged each for itself: it makes no difference which thread does it, or when.
"""

from typing import Any, NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.simd import LANES as FLOATS
from embedx.kernels.simd import aligned_zeros, divide, load, multiply_add, prefetch, splat, store, zeros
from embedx.optimizers.contract import NOTHING, NUMBER, ROW, Table
from embedx.optimizers.descend import number_divisor, row_divisor

AHEAD = 16  # rows that are asked for before they are needed
NONE = -1
WAY = np.float32(0.02)  # to where a block wants a row, that it is taken by one block
OWN_LINE = 8  # int64 of a cache line, so that no two lanes write to the same


class Copies(NamedTuple):
    """Where the copies are that a lane has of a table's rows."""

    place: np.ndarray  # int32 (n_rows,): of the copy of each row among the lane's, or NONE
    row: np.ndarray  # int32 (most,): which row each copy is of
    n: np.ndarray  # int64 (OWN_LINE,): the first is how many there are
    uses: np.ndarray  # int32 (most,): by how many blocks each was used


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
    state_of: int  # as the table's
    uses: np.ndarray  # int32 (lanes · most,)
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
        place=np.full((lanes, len(table.rows)), NONE, dtype=np.int32),
        row=np.zeros((lanes, most), dtype=np.int32),
        n=np.zeros((lanes, OWN_LINE), dtype=np.int64),
        uses=np.zeros(lanes * most, dtype=np.int32),
        rows=aligned_zeros(lanes * most, stride),
        state=state,
        state_of=table.state_of,
        most=most,
    )


def copies_of(copies: AllCopies, lane: int) -> Copies:
    """A lane's own, views."""
    return Copies(copies.place[lane], copies.row[lane], copies.n[lane], np.split(copies.uses, len(copies.n))[lane])


def table_of(copies: AllCopies, lane: int, table: Table) -> Table:
    """A lane's copies as a table, a view; `table` is what they are of."""
    own = slice(lane * copies.most, (lane + 1) * copies.most)
    return Table(copies.rows[own], copies.state[own], table.decay_clock, table.state_of, table.frozen)


# ---- within a lane


@kernel_part
def forget_copies(copies):
    """Leave no copies, as a round begins."""
    for k in range(copies.n[0]):
        copies.place[copies.row[k]] = NONE
    copies.n[0] = 0


@kernel_part
def prefetch_copies(table, own, copies, rows, n):
    """Ask for the copies of rows[:n], or of those that there are not yet for the rows."""
    for k in range(n):
        row = np.int64(rows[k])
        place = np.int64(copies.place[row])
        if place == NONE:
            for d in range(0, table.rows.shape[1], FLOATS):
                prefetch(table.rows, row, d)
        else:
            for d in range(0, table.rows.shape[1], FLOATS):
                prefetch(own.rows, place, d)


@kernel_part
def copy_rows(table, own, copies, rows, n, at):
    """Write to at[:n] where a lane's copies of the table's rows[:n] are; those that there are not yet are made."""
    for k in range(n):
        at[k] = use_copy(table, own, copies, np.int64(rows[k]))


@kernel_part
def use_copy(table, own, copies, row):
    """Where a lane's copy of a row is, which a block uses; one that there is not yet is made."""
    if copies.place[row] == NONE:
        _copy_row(table, own, copies, row)
    place = np.int64(copies.place[row])
    copies.uses[place] += 1
    return place


@kernel_part
def copy_all_rows(table, own, copies):
    """Copy every row to its own place."""
    for row in range(table.rows.shape[0]):
        _copy_row(table, own, copies, row)


@kernel_part
def use_all_rows(copies):
    """A block uses the copies of all rows."""
    for k in range(copies.n[0]):
        copies.uses[k] += 1


@kernel_part
def _copy_row(table, own, copies, row):
    """Copy a row, which has no copy yet, to the next place."""
    place = copies.n[0]
    copies.n[0] = place + 1
    copies.place[row] = place
    copies.row[place] = row
    copies.uses[place] = 0
    _overwrite(own, place, table, row)


@kernel_part
def _overwrite(table, row, other, at):
    """Overwrite a row of a table and its optimiser's state by those at a place of another one."""
    for d in range(0, table.rows.shape[1], FLOATS):
        store(table.rows, row, d, load(other.rows, at, d))
    if table.state_of == NUMBER:
        for d in range(0, table.rows.shape[1], FLOATS):
            store(table.state, row, d, load(other.state, at, d))
    elif table.state_of == ROW:
        table.state[row, 0] = other.state[at, 0]


@kernel_part
def copy_state(shared, own, copies, first):
    """Copy the objective's state of the words that were copied to the places from `first` on; rows after those of the words
    belong to n-grams and have none.
    """
    if shared.state.shape[1] > 0:
        for place in range(first, copies.n[0]):
            row = copies.row[place]
            if row < shared.state.shape[0]:
                own.n_updates[place] = shared.n_updates[row]
                for d in range(shared.state.shape[1]):
                    own.state[place, d] = shared.state[row, d]


# ---- together again


@kernel
def merge_rows(table, copies, n_lanes, optimizer, part, parts):
    """Bring every parts-th of the rows up to date with what the first n_lanes lanes have made of them."""
    for lane in range(n_lanes):
        n = copies.n[lane, 0]
        for k in range(n):
            if k + AHEAD < n and copies.row[lane, k + AHEAD] % parts == part:
                for d in range(0, table.rows.shape[1], FLOATS):
                    prefetch(table.rows, np.int64(copies.row[lane, k + AHEAD]), d)
            row = np.int64(copies.row[lane, k])
            if row % parts == part and is_first(copies, lane, row) and not is_frozen(table, row):
                _merge_row(table, copies, lane, n_lanes, optimizer, row)


@kernel_part
def is_frozen(table, row):
    """Whether a row must not be moved."""
    return table.frozen.size > 0 and table.frozen[row] > 0


@kernel_part
def is_first(copies, lane, row):
    """Whether no lane before has a copy of the row."""
    other = 0
    while other < lane and copies.place[other, row] == NONE:
        other += 1
    return other == lane


@kernel_part
def _at(copies, lane, row):
    """Where a lane's copy of a row is among those of all lanes; negative if it has none."""
    place = np.int64(copies.place[lane, row])
    return place if place == NONE else lane * copies.most + place


@kernel_part
def _merge_row(table, copies, first, n_lanes, optimizer, row):
    """Bring a row up to date of which lane `first` is the first to have a copy."""
    n, uses = 0, 0
    for lane in range(first, n_lanes):
        if _at(copies, lane, row) != NONE:
            n += 1
            uses += copies.uses[_at(copies, lane, row)]
    if n == 1:
        _overwrite(table, row, copies, _at(copies, first, row))
    elif table.state_of == NUMBER:
        _merge_numbers(table, copies, first, n_lanes, optimizer, row, n, _overlap(n, uses))
    else:
        _merge_as_a_whole(table, copies, first, n_lanes, optimizer, row, n, _overlap(n, uses))


@kernel_part
def _overlap(n, uses):
    """What one way of n copies, that were used so often in all, counts for where the ways of all are added."""
    if uses == 0:  # where all rows compete, and a stretch has no words
        return np.float32(1)
    x = WAY * np.float32(uses)
    return (np.float32(1) - np.exp(-x)) / (np.float32(n) * (np.float32(1) - np.exp(-x / np.float32(n))))


@kernel_part
def _merge_as_a_whole(table, copies, first, n_lanes, optimizer, row, n, overlap):
    """Bring a row up to date all of whose numbers have one rate."""
    if table.state_of == ROW:
        before = total = table.state[row, 0]
        for lane in range(first, n_lanes):
            at = _at(copies, lane, row)
            total += copies.state[at, 0] - before if at != NONE else np.float32(0)
        table.state[row, 0] = min(total, optimizer.limit)
    left = np.float32(1)
    for lane in range(first, n_lanes):
        at = _at(copies, lane, row)
        left -= (
            overlap * row_divisor(copies, at, optimizer) / row_divisor(table, row, optimizer) if at != NONE else np.float32(0)
        )
    for d in range(0, table.rows.shape[1], FLOATS):
        store(table.rows, row, d, multiply_add(splat(left), load(table.rows, row, d), zeros()))
    for lane in range(first, n_lanes):
        at = _at(copies, lane, row)
        if at != NONE:
            share = splat(overlap * row_divisor(copies, at, optimizer) / row_divisor(table, row, optimizer))
            for d in range(0, table.rows.shape[1], FLOATS):
                store(table.rows, row, d, multiply_add(share, load(copies.rows, at, d), load(table.rows, row, d)))


@kernel_part
def _merge_numbers(table, copies, first, n_lanes, optimizer, row, n, overlap):
    """Bring a row up to date each of whose numbers has a rate of its own."""
    weight = splat(np.float32(1 / n if optimizer.fades else 1))
    for d in range(0, table.rows.shape[1], FLOATS):
        w, s = load(table.rows, row, d), load(table.state, row, d)
        new_w, new_s = w, s
        for lane in range(first, n_lanes):
            at = _at(copies, lane, row)
            if at != NONE:
                new_s = multiply_add(weight, load(copies.state, at, d) - s, new_s)
        per_divisor = divide(splat(overlap), number_divisor(optimizer.kind, new_s))
        for lane in range(first, n_lanes):
            at = _at(copies, lane, row)
            if at != NONE:
                share = per_divisor * number_divisor(optimizer.kind, load(copies.state, at, d))
                new_w = multiply_add(share, load(copies.rows, at, d) - w, new_w)
        store(table.rows, row, d, new_w)
        store(table.state, row, d, new_s)


@kernel
def merge_state(state, n_updates, own_state, own_n_updates, copies, n_lanes, part, parts):
    """The same for the objective's state of words, and how often it was updated."""
    for lane in range(n_lanes):
        for k in range(copies.n[lane, 0]):
            row = np.int64(copies.row[lane, k])
            if row < n_updates.size and row % parts == part and is_first(copies, lane, row):
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
