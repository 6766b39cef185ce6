"""Lanes, which train on copies of rows: what a row becomes when they are brought together."""

import numpy as np
import pytest

from embedx.engine import lanes
from embedx.optimizers import OPTIMIZERS, update_rule
from embedx.optimizers.contract import WORDS, Table, new_table

N_ROWS, DIM, LANES = 40, 20, 3


def merged(optimizer, parts=1):
    """A table, three lanes' copies of some of its rows that have moved, and the table after they were merged."""
    rng = np.random.default_rng(7)
    rule = update_rule(optimizer)
    table = new_table(N_ROWS, DIM, rule)
    table.rows[:, :DIM], table.state[:, :DIM] = rng.normal(size=(N_ROWS, DIM)), rng.uniform(1, 2, table.state[:, :DIM].shape)
    before = Table(*(np.copy(part) if isinstance(part, np.ndarray) else part for part in table))
    copies = lanes.new_copies(table, LANES, 30)
    for lane in range(LANES):
        rows = rng.choice(N_ROWS, 15 + lane, replace=False)
        own, where = lanes.table_of(copies, lane, table), lanes.copies_of(copies, lane)
        where.row[: len(rows)], where.place[rows], where.n[0] = rows, np.arange(len(rows)), len(rows)
        where.uses[: len(rows)] = rng.integers(1, 100, len(rows))
        own.rows[: len(rows), :DIM] = before.rows[rows, :DIM] + rng.normal(size=(len(rows), DIM))
        if len(before.state):
            width = before.state[:, :DIM].shape[1]
            own.state[: len(rows), :DIM] = before.state[rows, :DIM] + rng.uniform(size=(len(rows), width))
    for part in range(parts):
        lanes.merge_rows(table, copies, LANES, rule, part, parts)
    return before, copies, table, OPTIMIZERS[optimizer]


@pytest.mark.parametrize("optimizer", sorted(name for name, each in OPTIMIZERS.items() if WORDS in each.commands))
def test_a_row_becomes_what_the_lanes_have_made_of_it(optimizer):
    before, copies, table, rule = merged(optimizer)
    for row in range(N_ROWS):
        at = [lane * copies.most + place for lane, place in enumerate(copies.place[:, row]) if place >= 0]
        w, s = before.rows[row], before.state[row] if rule.keeps != "nothing" else None
        own = copies.rows[at]
        if len(at) == 1:
            new_w, new_s = own[0], None if s is None else copies.state[at[0]]
        elif at:
            uses = lanes.WAY * copies.uses[at].sum()
            share = np.full((len(at), 1), (1 - np.exp(-uses)) / (len(at) * (1 - np.exp(-uses / len(at)))))
            new_s = None
            if s is not None:
                gained = copies.state[at] - s
                new_s = np.minimum(s + (gained.mean(axis=0) if rule.fades else gained.sum(axis=0)), rule.limit)
                share = share * divisor(rule, copies.state[at]) / divisor(rule, new_s)
            new_w = w + (share * (own - w)).sum(axis=0)
        else:
            new_w, new_s = w, s
        np.testing.assert_allclose(table.rows[row, :DIM], new_w[:DIM], rtol=1e-5, atol=1e-5)
        if s is not None:
            np.testing.assert_allclose(table.state[row, :DIM], new_s[:DIM], rtol=1e-5)


def divisor(rule, s):
    """Of some states."""
    return np.array([rule.divisor(np.float32(each)) for each in s.ravel()]).reshape(s.shape)


@pytest.mark.parametrize("parts", [2, 3])
def test_it_makes_no_difference_who_merges_a_row(parts):
    _, _, alone, _ = merged("rowwise-adagrad")
    _, _, together, _ = merged("rowwise-adagrad", parts)
    np.testing.assert_array_equal(together.rows, alone.rows)
    np.testing.assert_array_equal(together.state, alone.state)


def test_the_state_of_a_word_is_that_of_the_lane_which_has_updated_it_most():
    table = new_table(4, DIM, update_rule("sgd"))
    copies = lanes.new_copies(table, LANES, 2)
    state, n_updates = np.array([[0.0], [1], [2], [3]], dtype=np.float32), np.array([5, 5, 5, 5])
    own_state, own_n_updates = np.arange(10, 16, dtype=np.float32)[:, None], np.array([7, 6, 9, 5, 9, 0])
    for lane, rows in enumerate([[0, 1], [0, 3], [0]]):
        where = lanes.copies_of(copies, lane)
        where.row[: len(rows)], where.place[rows], where.n[0] = rows, np.arange(len(rows)), len(rows)
    lanes.merge_state(state, n_updates, own_state, own_n_updates, copies, LANES, 0, 1)
    assert state[:, 0].tolist() == [12, 11, 2, 3]  # lanes 1 and 2 have updated word 0 equally often
    assert n_updates.tolist() == [5 + 2 + 4 + 4, 6, 5, 5]
