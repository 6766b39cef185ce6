"""Parts of the engine, each by itself and small, against NumPy."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx.engine import blocks, examples, lanes, subwords
from embedx.engine.examples import examples_of
from embedx.kernels.simd import aligned_zeros, padded
from embedx.labeled.data import Labels
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


# ---- examples


def some_examples(n=9, n_features=8, seed=0):
    """Examples with sparse features and several labels, and as dictionaries and lists."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((n, n_features)) < 0.4, rng.normal(size=(n, n_features)), 0).astype(np.float32)
    labels = [rng.choice(5, rng.integers(0, 4), replace=False).tolist() for _ in range(n)]
    return examples_of(csr_matrix(x), Labels.of_rows(labels)), x, labels


@pytest.mark.parametrize("n", [1, 4, 9])
def test_memory_for_some_examples_has_room_for_any_of_them(n):
    found, x, labels = some_examples()
    memory = examples.memory_for(found, n)
    sizes, counts = (sorted(each, reverse=True)[:n] for each in ((x != 0).sum(axis=1), map(len, labels)))
    assert len(memory.columns) == len(memory.values) == sum(sizes)
    assert len(memory.label_ids) == sum(counts)
    assert len(memory.offsets) == len(memory.label_offsets) == n + 1


def test_examples_are_copied_one_after_another():
    found, x, labels = some_examples()
    order, out = np.array([3, 8, 0, 5, 1, 7, 2, 4, 6]), examples.memory_for(found, 5)
    examples.copy_examples(found, order, 2, 6, out)
    for e, i in enumerate(order[2:6]):
        row = np.zeros(8, np.float32)
        row[out.columns[out.offsets[e] : out.offsets[e + 1]]] = out.values[out.offsets[e] : out.offsets[e + 1]]
        np.testing.assert_array_equal(row, x[i])
        assert out.label_ids[out.label_offsets[e] : out.label_offsets[e + 1]].tolist() == labels[i]


def test_entries_are_chained_by_row():
    groups, n_touched, rows = examples.new_groups(6, 8), 0, [4, 1, 4, 0, 1, 4]
    for entry, row in enumerate(rows):
        n_touched = examples.put(groups, row, entry, n_touched)
    assert groups.touched[:n_touched].tolist() == [4, 1, 0]
    for row in range(6):
        chain, entry = [], groups.first[row]
        while entry >= 0:
            chain.append(int(entry))
            entry = groups.following[entry]
        assert chain == [entry for entry, other in enumerate(rows) if other == row][::-1]


@pytest.mark.parametrize("parts", [1, 3])
def test_the_rows_of_features_take_a_step_each_by_what_their_examples_ask(parts):
    found, x, _ = some_examples(n_features=20)
    rng, rule = np.random.default_rng(1), update_rule("sgd")
    table = new_table(20, DIM, rule)
    table.rows[:, :DIM] = rng.normal(size=(20, DIM))
    before, order = table.rows.copy(), np.array([3, 8, 0, 5, 1, 7, 2, 4, 6])
    asked = aligned_zeros(6, DIM)
    asked[:, :DIM] = rng.normal(size=(6, DIM))
    workspace = examples.new_feature_workspace(found, 20, 6, DIM)
    assert len(workspace.value) == sum(sorted((x != 0).sum(axis=1))[-6:])
    for part in range(parts):
        for turn in range(2):  # the second finds nothing left of the first
            if turn == 0 or part == 0:
                rate = np.float32(0.5 if turn == 0 else 0)
                examples.descend_features(table, found, rule, DIM, workspace, asked, order, 2, 8, rate, part, parts)
    expected = before - np.float32(0.5) * x[order[2:8]].T @ asked
    np.testing.assert_allclose(table.rows, expected, atol=1e-5)
    assert (workspace.groups.first == -1).all()


def test_a_hidden_layer_is_the_weighted_sum_of_its_features_rows():
    found, x, _ = some_examples(n_features=20)
    rule = update_rule("sgd")
    table, h = new_table(20, DIM, rule), np.full((3, padded(DIM)), 7, np.float32)
    table.rows[:, :DIM] = np.random.default_rng(1).normal(size=(20, DIM))
    examples.sum_rows(found, 4, table, DIM, rule, np.zeros(1), h, 1)
    np.testing.assert_allclose(h[1], x[4] @ table.rows, atol=1e-5)
    assert (h[[0, 2]] == 7).all()


# ---- blocks


class Words(NamedTuple):
    reach: np.ndarray
    sentence: np.ndarray


def some_words(seed):
    rng = np.random.default_rng(seed)
    n = 14
    return Words(rng.integers(0, 4, n), np.sort(rng.integers(0, 3, n)))


@pytest.mark.parametrize("seed", range(4))
def test_the_span_of_a_block_is_that_of_its_windows(seed):
    words, n = some_words(seed), 14
    for first in range(n):
        for n_centres in (0, 1, 3):
            if first + n_centres <= n:
                ends = [(max(y - r, 0), min(y + r + 1, n)) for y, r in enumerate(words.reach)][first : first + n_centres]
                begin, end = min((a for a, _ in ends), default=first), max((b for _, b in ends), default=first)
                assert blocks._span(words, n, first, n_centres) == (begin, end)


@pytest.mark.parametrize("seed", range(4))
def test_pairs_come_one_by_one(seed):
    words, n = some_words(seed), 14
    expected = [
        (y, x)
        for y in range(3, 12)
        for x in range(max(y - words.reach[y], 0), min(y + words.reach[y] + 1, n))
        if x != y and words.sentence[x] == words.sentence[y]
    ]
    found, centre, context = [], 3, 0
    while True:
        x, end, centre, context, is_left = blocks._next_pair(words, n, centre, 12, context)
        if not is_left:
            break
        assert (end, context) == (x + 1, x + 1)
        found.append((centre, x))
    assert found == expected
    assert (x, end, centre) == (0, 0, 12)
    assert len(found) > 5


# ---- subwords


@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.parametrize("bias", [-1, 18])
def test_the_vector_of_a_word_is_the_mean_of_its_parts(is_apart, bias):
    rng = np.random.default_rng(0)
    parts = subwords.Parts(np.array([0, 1, 4, 6]), np.array([2, 0, 3, 4, 1, 4], np.int32))
    rows, place = rng.normal(size=(9, 32)).astype(np.float32), np.array([7, 1, 0, 8, 5], np.int32)
    copies = lanes.Copies(place, np.zeros(9, np.int32), np.zeros(1, np.int64), np.zeros(9, np.int32))
    at = place if is_apart else np.arange(5)
    expected = np.array([rows[at[parts.rows[a:b]]].mean(axis=0) for a, b in pairwise(parts.offsets)])
    if not is_apart:
        np.testing.assert_allclose(subwords.word_vectors(rows, parts), expected, rtol=1e-5, atol=1e-6)
    h, words = np.full((4, 32), 7, np.float32), np.array([2, 0, 1, 1], np.int32)
    subwords.fetch_means(rows, parts, is_apart, copies, words, 3, bias, h)
    wanted = expected[words[:3]].copy()
    if bias >= 0:
        wanted[:, bias] = rows[at[parts.rows[parts.offsets[words[:3]]]], bias]
    np.testing.assert_allclose(h[:3], wanted, rtol=1e-5, atol=1e-6)
    assert (h[3] == 7).all()


def test_ngrams_have_copies_where_words_have_them():
    parts = subwords.Parts(np.array([0, 1, 4, 6]), np.array([0, 1, 3, 4, 2, 4], np.int32))
    table = new_table(5, DIM, update_rule("sgd"))
    table.rows[:] = np.random.default_rng(0).normal(size=table.rows.shape)
    copies = lanes.new_copies(table, 1, 5)
    own, where = lanes.table_of(copies, 0, table), lanes.copies_of(copies, 0)
    subwords.copy_parts(table, own, parts, where, np.array([1, 2, 0], np.int32), 2)
    assert where.row[: where.n[0]].tolist() == [3, 4]
    assert where.uses[:2].tolist() == [1, 2]
    np.testing.assert_array_equal(own.rows[:2], table.rows[[3, 4]])
