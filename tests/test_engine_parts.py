"""Parts of the engine, each by itself and small, against NumPy."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
import reference
from reference_search import find_candidates_batch
from scipy.sparse import csr_matrix

from embedx.engine import blocks, collapsed, examples, skipgram, sparse_levels, sparse_rows, subwords
from embedx.engine.examples import examples_of
from embedx.kernels import gemm
from embedx.kernels.simd import aligned_zeros, padded
from embedx.labeled.data import Labels
from embedx.optimizers import update_rule
from embedx.optimizers.contract import new_table
from embedx.search.index import build_index
from embedx.search.query import new_query_workspace
from embedx.search.spec import SearchSpec
from embedx.text.ngrams import NGrams, encoded

N_ROWS, DIM, SIMD_WIDTH = 40, 20, 3

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


def test_the_rows_of_features_take_a_step_each_along_the_gradients_of_their_examples():
    found, x, _ = some_examples(n_features=20)
    rng, rule = np.random.default_rng(1), update_rule("sgd")
    table = new_table(20, DIM, rule)
    table.rows[:, :DIM] = rng.normal(size=(20, DIM))
    before, order = table.rows.copy(), np.array([3, 8, 0, 5, 1, 7, 2, 4, 6])
    gradient = aligned_zeros(6, DIM)
    gradient[:, :DIM] = rng.normal(size=(6, DIM))
    workspace = examples.new_feature_workspace(found, 20, 6, DIM)
    assert len(workspace.value) == sum(sorted((x != 0).sum(axis=1))[-6:])
    for rate in (0.5, 0.0):  # the second finds nothing left of the first
        examples.descend_features(table, found, rule, DIM, workspace, gradient, order, 2, 8, np.float32(rate))
    expected = before - np.float32(0.5) * x[order[2:8]].T @ gradient
    np.testing.assert_allclose(table.rows, expected, atol=1e-5)
    assert (workspace.groups.first == -1).all()


def test_a_hidden_layer_is_the_weighted_sum_of_its_features_rows():
    found, x, _ = some_examples(n_features=20)
    rule = update_rule("sgd")
    table, h = new_table(20, DIM, rule), np.full((3, padded(DIM)), 7, np.float32)
    table.rows[:, :DIM] = np.random.default_rng(1).normal(size=(20, DIM))
    examples.sum_rows(found, 4, table, DIM, rule, 0.0, h, 1)
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
    found, cursor = [], blocks.new_cursor()
    cursor[[blocks.N_WORDS, blocks.CENTRE, blocks.LAST]] = n, 3, 12
    while True:
        x, is_left = blocks._next_pair(words, cursor)
        if not is_left:
            break
        assert cursor[blocks.CONTEXT] == x + 1
        found.append((cursor[blocks.CENTRE], x))
    assert found == expected
    assert (x, cursor[blocks.CENTRE]) == (0, 12)
    assert len(found) > 5


# ---- subwords


@pytest.mark.parametrize("bias", [-1, 18])
def test_the_vector_of_a_word_is_the_mean_of_its_parts(bias):
    rng = np.random.default_rng(0)
    parts = subwords.Parts(np.array([0, 1, 4, 6]), np.array([2, 0, 3, 4, 1, 4], np.int32))
    rows = rng.normal(size=(9, 32)).astype(np.float32)
    expected = np.array([rows[parts.rows[a:b]].mean(axis=0) for a, b in pairwise(parts.offsets)])
    np.testing.assert_allclose(subwords.word_vectors(rows, parts), expected, rtol=1e-5, atol=1e-6)
    h, words = np.full((4, 32), 7, np.float32), np.array([2, 0, 1, 1], np.int32)
    for j in range(3):
        subwords.fetch_word(rows, parts, np.int64(words[j]), h, j, bias)
    wanted = expected[words[:3]].copy()
    if bias >= 0:
        wanted[:, bias] = rows[parts.rows[parts.offsets[words[:3]]], bias]
    np.testing.assert_allclose(h[:3], wanted, rtol=1e-5, atol=1e-6)
    assert (h[3] == 7).all()


# ---- rows that have few of the features


def sparse_output(n_rows=6, n_features=40, has_bias=True):
    """(slots, their table, the rows as dense ones (n_rows, n_features + bias), which numbers there are)."""
    rng = np.random.default_rng(n_features)
    mask = rng.random((n_rows, n_features)) < np.linspace(0, 0.3, n_rows)[:, None]
    mask[-1] = rng.random(n_features) < 0.7  # a row with slots for all features
    of_slot, offsets = [], [0]
    for row in range(n_rows):
        features = np.flatnonzero(mask[row])
        of_slot += np.where(mask[row], np.arange(n_features), -1).tolist() if row == n_rows - 1 else features.tolist()
        of_slot += [n_features] * has_bias
        offsets.append(len(of_slot))
    slots = examples.Csr(np.array(offsets), np.array(of_slot, np.int32))
    dense = np.where(np.column_stack([mask, *[np.ones(n_rows, bool)] * has_bias]), 1.0, 0.0).astype(np.float32)
    dense *= rng.normal(size=dense.shape).astype(np.float32)
    table = sparse_rows.new_sparse_table(slots, n_rows, update_rule("sgd"))
    for row in range(n_rows):
        for at in range(offsets[row], offsets[row + 1]):
            table.rows[0, at] = dense[row, of_slot[at]] if of_slot[at] >= 0 else 0
    return slots, table, dense, mask


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("n_features", [12, 40, 300])
def test_scores_and_gains_of_rows_that_have_few_of_the_features(n_features, has_bias):
    slots, table, dense, mask = sparse_output(n_features=n_features, has_bias=has_bias)
    found, x, _ = some_examples(n_features=n_features)
    sought = set()
    for i, given in enumerate(x):
        first, last = found.offsets[i : i + 2]
        for values in (last, min(first + 2, last)):  # an example of fewer values has rows sought in
            part = np.zeros(n_features, np.float32)
            columns = found.columns[first:values]
            part[columns] = given[columns]
            scattered = np.zeros(n_features, np.float32)
            sparse_rows.scatter(found, first, values, scattered)
            np.testing.assert_array_equal(scattered, part)
            for row in range(len(dense)):
                z = sparse_rows.score_of_row(found, first, values, scattered, slots, table, has_bias, row)
                assert z == pytest.approx(dense[row, :n_features] @ part + dense[row, n_features:].sum(), abs=1e-4)
                gain = sparse_rows.gain_of_row(scattered, slots, has_bias, row)
                assert gain == pytest.approx((part[mask[row]] ** 2).sum() + has_bias, rel=1e-5)
                is_sought = sparse_rows.is_sought(slots, has_bias, row, n_features, values - first)
                n = slots.indptr[row + 1] - slots.indptr[row] - has_bias
                assert is_sought == (n == n_features or n > sparse_rows.SOUGHT * (values - first))
                sought.add(bool(is_sought))
            sparse_rows.clear_scattered(found, first, values, scattered)
            assert not scattered.any()
    assert sought == {False, True}


@pytest.mark.parametrize("has_bias", [False, True])
def test_the_slots_that_move_are_those_with_a_gradient(has_bias):
    n_features = 40
    slots, _, _, mask = sparse_output(n_features=n_features, has_bias=has_bias)
    found, x, _ = some_examples(n_features=n_features)
    first, last = found.offsets[2:4]
    whole = np.random.default_rng(0).normal(size=n_features + has_bias).astype(np.float32)
    whole[::3] = 0
    whole[:n_features] *= x[2] != 0
    for row in range(len(mask)):
        expected = {int(f): whole[f] for f in np.flatnonzero(mask[row]) if whole[f] != 0}
        if has_bias and whole[-1] != 0:
            expected[n_features] = whole[-1]
        for is_sought in (False, True) if row < len(mask) - 1 else (True,):  # a row with slots for all is never read
            gradient, steps = whole[None].copy(), sparse_rows.new_slot_steps(n_features + 1)
            n = sparse_rows.collect_bias(slots, row, gradient[0, -1] if has_bias else np.float32(0), steps)
            assert n == (has_bias and whole[-1] != 0)
            if is_sought:
                n = sparse_rows.collect_sought(found, first, last, slots, has_bias, row, gradient, n, steps)
                assert not gradient[0, :n_features].any()
            else:
                n = sparse_rows.collect_read(slots, has_bias, row, gradient, n, steps)
            moved = {int(slots.indices[at]): g for at, g in zip(steps.slots[:n], steps.gradient[0, :n], strict=True)}
            assert moved == expected
            assert all(slots.indptr[row] <= at < slots.indptr[row + 1] for at in steps.slots[:n])


# ---- rows of a block


def test_rows_are_gathered_and_what_is_beyond_them_is_zero():
    table = np.random.default_rng(0).normal(size=(5, 32)).astype(np.float32)
    out = np.full((7, 32), 7, np.float32)
    skipgram.gather(table, np.array([3, 0, 4], np.int32), 3, 6, out)
    np.testing.assert_array_equal(out[:3], table[[3, 0, 4]])
    assert not out[3:6].any()
    assert (out[6] == 7).all()


def test_numbers_are_rounded_up_to_tiles_and_paddings():
    for n in range(70):
        for found, whole in (
            (gemm.round_up_to_tile(n), gemm.TILE), (blocks.round_up_to_padding(n), blocks.SCORE_PADDING)
        ):  # fmt: skip
            assert found % whole == 0
            assert 0 <= found - n < whole


# ---- n-grams of words


@pytest.mark.parametrize(("shortest", "longest", "n_buckets"), [(3, 6, 1000), (1, 3, 50), (2, 2, 1), (5, 20, 777)])
def test_words_are_listed_by_their_ngrams_buckets(shortest, longest, n_buckets):
    words = ["banana", "naïve", "日本語", "a", "<>", "</s>", "", "é😀"]
    spec = NGrams(shortest, longest, n_buckets)
    parts, buckets = subwords.listed([encoded(word) for word in words], spec)
    found = []
    for word in words:
        grams = reference.character_ngrams(word, shortest, longest)
        found.append([reference.fasttext_bucket(each, n_buckets) for each in grams])
    assert buckets.tolist() == sorted({bucket for each in found for bucket in each})
    for k, expected in enumerate(found):
        own, *others = parts.rows[parts.offsets[k] : parts.offsets[k + 1]].tolist()
        assert own == k
        assert buckets[np.array(others, int) - len(words)].tolist() == expected
    told = subwords.listing_bytes([encoded(word) for word in words], spec)
    n_bytes = sum(len(encoded(word)) + 2 for word in words)
    assert told == 5 * n_buckets + 8 * n_bytes * (longest - shortest + 1)


# ---- levels of sparse weights


def test_a_level_has_a_row_for_each_feature_of_a_group():
    """Two groups of three and two nodes, and one without any weight between them; the first in two tiles."""
    tiles = [
        (0, 0, np.array([4, 1], np.int32), np.array([0, 1], np.int32), np.array([0.1, 0.2], np.float32)),
        (0, 2, np.array([1], np.int32), np.array([0], np.int32), np.array([0.3], np.float32)),
        (2, 4, np.array([1, 0, 1], np.int32), np.array([1, 0, 0], np.int32), np.array([0.4, 0.5, 0.6], np.float32)),
    ]
    bias = np.arange(6, dtype=np.float32)
    level = sparse_levels.level_of(np.array([0, 3, 4, 6]), tiles, bias, 5)
    assert level.first_row.tolist() == [0, 2, 2, 4]
    assert level.features.tolist() == [1, 4, 0, 1]
    assert level.first_weight.tolist() == [0, 2, 3, 4, 6]
    assert level.child.tolist() == [1, 2, 0, 0, 1, 0]
    np.testing.assert_allclose(level.weight, [0.2, 0.3, 0.1, 0.5, 0.4, 0.6])
    assert (level.n_groups, level.widest) == (3, 3)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_best_of_a_slot_come_first(most):
    scores = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    scores[2, 1:] = scores[3] = sparse_levels.LOWEST
    place, best = np.full((6, most), 7, np.int32), np.full((6, most), 7, np.float32)
    sparse_levels.best_of_slots(scores, 1, 5, place, best)
    for s in range(1, 5):
        order = [k for k in np.argsort(-scores[s], kind="stable") if scores[s, k] > sparse_levels.LOWEST][:most]
        rest = most - len(order)
        assert place[s].tolist() == order + [0] * rest
        np.testing.assert_array_equal(best[s], [*scores[s, order], *[sparse_levels.LOWEST] * rest])
    assert (place[[0, 5]] == 7).all()


# ---- rows that are found


@pytest.mark.parametrize("blocks", [1, 3])
def test_multiply_adds_of_a_search_are_those_of_clusters_and_of_the_lists_probed(blocks):
    rng, n_rows, dim = np.random.default_rng(0), 50, 8
    table, h = aligned_zeros(n_rows, dim), aligned_zeros(4, dim)
    table[:, :dim], h[:, :dim] = rng.normal(size=(n_rows, dim)), rng.normal(size=(4, dim))
    search = SearchSpec(
        blocks=blocks, clusters=5, n_scored=20, max_candidates=n_rows, threshold=0.0, min_coefficient=1e-3, max_gap=2.0,
        from_logsumexp=False, message_iterations=0,
    )  # fmt: skip
    index = build_index(table, n_rows, dim, search, rng)
    rows, n_found = np.zeros((4, n_rows), np.int32), np.full(4, -1)
    expected, macs = 0, collapsed.find_rows(index, search, h, 1, 3, rows, n_found, new_query_workspace(n_rows, search))
    alone = new_query_workspace(n_rows, search)
    for e in (1, 2):
        one_row, n = np.zeros((1, n_rows), np.int32), np.zeros(1, np.int64)
        find_candidates_batch(index, search, h[e : e + 1], 0, 1, rows[0], np.zeros(2, np.int64), one_row, n, alone)
        assert rows[e, : n_found[e]].tolist() == one_row[0, : n[0]].tolist()
        for j in range(blocks):
            sizes = index.list_sizes[j, alone.probed[j, : alone.n_probed[j]]]
            expected += (5 + sum(padded(size) for size in sizes)) * (index.edges[j + 1] - index.edges[j])
    assert macs == expected
    assert n_found[[0, 3]].tolist() == [-1, -1]
