"""Parts of the engine, each by itself and small, against NumPy."""

from typing import NamedTuple

import numpy as np
import pytest

from embedx.engine import lanes
from embedx.optimizers import update_rule
from embedx.optimizers.contract import new_table

N_ROWS, DIM, LANES = 40, 20, 3

# ---- lanes


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "rowwise-adagrad"])
def test_a_row_is_copied_once_and_its_uses_are_counted(optimizer):
    rng, rule = np.random.default_rng(0), update_rule(optimizer)
    table = new_table(N_ROWS, DIM, rule)
    table.rows[:], table.state[:] = rng.normal(size=table.rows.shape), rng.uniform(1, 2, table.state.shape)
    copies = lanes.new_copies(table, LANES, 7)
    copies.uses[:] = 9  # of a round before
    own, where = lanes.table_of(copies, 1, table), lanes.copies_of(copies, 1)
    at = np.full(6, -1)
    lanes.copy_rows(table, own, where, np.array([30, 4, 30, 5, 8, 8], np.int32), 5, at)
    assert at.tolist() == [0, 1, 0, 2, 3, -1]
    assert where.n[0] == 4
    assert where.row[:4].tolist() == [30, 4, 5, 8]
    assert where.uses[:4].tolist() == [2, 1, 1, 1]
    assert where.place[[30, 4, 5, 8]].tolist() == [0, 1, 2, 3]
    assert (where.place >= 0).sum() == 4
    np.testing.assert_array_equal(own.rows[:4], table.rows[[30, 4, 5, 8]])
    if len(table.state):
        np.testing.assert_array_equal(own.state[:4], table.state[[30, 4, 5, 8]])
    assert not own.rows[4:].any()
    assert not copies.rows[:7].any(), "of another lane"
    lanes.use_all_rows(where)
    assert where.uses[:5].tolist() == [3, 2, 2, 2, 9]
    own.rows[0] += 1
    assert lanes.use_copy(table, own, where, 30) == 0
    np.testing.assert_array_equal(own.rows[0], table.rows[30] + 1)
    lanes.forget_copies(where)
    assert where.n[0] == 0
    assert (where.place == lanes.NONE).all()


def test_all_rows_are_copied_to_their_own_places():
    table = new_table(6, DIM, update_rule("sgd"))
    table.rows[:] = np.random.default_rng(0).normal(size=table.rows.shape)
    copies = lanes.new_copies(table, 2, 6)
    own, where = lanes.table_of(copies, 1, table), lanes.copies_of(copies, 1)
    lanes.copy_all_rows(table, own, where)
    np.testing.assert_array_equal(own.rows, table.rows)
    assert where.place.tolist() == where.row.tolist() == list(range(6))
    assert where.n[0] == 6


def test_a_frozen_row_stays_and_one_that_no_block_used_moves_by_all_that_lanes_made_of_it():
    rule = update_rule("sgd")
    table = new_table(3, DIM, rule)._replace(frozen=np.array([0, 1, 0], np.float32))
    copies = lanes.new_copies(table, 2, 3)
    for lane in range(2):
        own, where = lanes.table_of(copies, lane, table), lanes.copies_of(copies, lane)
        lanes.copy_all_rows(table, own, where)
        own.rows[:, :DIM] += 1 + lane
    lanes.merge_rows(table, copies, 2, rule, 0, 1)
    assert (table.rows[:, :DIM] == np.array([[3], [0], [3]])).all()


def test_state_is_copied_of_words_and_not_of_ngrams():
    class Tables(NamedTuple):
        state: np.ndarray
        n_updates: np.ndarray

    shared = Tables(np.arange(8, dtype=np.float32).reshape(4, 2), np.array([4, 5, 6, 7]))
    own = Tables(np.full((5, 2), -1, np.float32), np.full(5, -1))
    copies = lanes.Copies(np.zeros(9, np.int32), np.array([1, 3, 6, 0, 2], np.int32), np.array([4]), np.zeros(5, np.int32))
    lanes.copy_state(shared, own, copies, 1)
    assert own.state.tolist() == [[-1, -1], [6, 7], [-1, -1], [0, 1], [-1, -1]]
    assert own.n_updates.tolist() == [-1, 7, -1, 4, -1]
