"""Parts of the engine, each by itself and small, against NumPy."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
import reference
from reference_search import find_candidates_batch
from scipy.sparse import csr_matrix

from embedx.engine import blocks, collapsed, examples, skipgram, sparse_levels, subwords
from embedx.engine.examples import examples_of
from embedx.kernels import gemm
from embedx.kernels.simd import aligned_zeros, padded
from embedx.labeled.data import Labels
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


def test_examples_are_copied_one_after_another():
    found, x, labels = some_examples()
    order = np.array([8, 0, 5, 1])
    out = examples.examples_at(found, order)
    for e, i in enumerate(order):
        row = np.zeros(8, np.float32)
        row[out.columns[out.offsets[e] : out.offsets[e + 1]]] = out.values[out.offsets[e] : out.offsets[e + 1]]
        np.testing.assert_array_equal(row, x[i])
        assert out.label_ids[out.label_offsets[e] : out.label_offsets[e + 1]].tolist() == labels[i]


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
    printed = subwords.listing_bytes([encoded(word) for word in words], spec)
    n_bytes = sum(len(encoded(word)) + 2 for word in words)
    assert printed == 5 * n_buckets + 8 * n_bytes * (longest - shortest + 1)


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
    expected, macs = 0, collapsed.find_rows(index, search, h, rows, n_found, new_query_workspace(n_rows, search))
    alone = new_query_workspace(n_rows, search)
    for e in range(4):
        one_row, n = np.zeros((1, n_rows), np.int32), np.zeros(1, np.int64)
        find_candidates_batch(index, search, h[e : e + 1], 0, 1, rows[0], np.zeros(2, np.int64), one_row, n, alone)
        assert rows[e, : n_found[e]].tolist() == one_row[0, : n[0]].tolist()
        for j in range(blocks):
            sizes = index.list_sizes[j, alone.probed[j, : alone.n_probed[j]]]
            expected += (5 + sum(padded(size) for size in sizes)) * (index.edges[j + 1] - index.edges[j])
    assert macs == expected
