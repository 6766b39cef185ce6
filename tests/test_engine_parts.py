"""Parts of the engine against NumPy."""

import numpy as np
import pytest
from reference_search import candidates_of
from scipy.sparse import csr_matrix

from embedx.engine import blocks, collapsed, examples, sparse_levels
from embedx.engine.examples import examples_of
from embedx.engine.sparse_levels import TileWeights
from embedx.kernels import gemm
from embedx.kernels.simd import aligned_zeros, padded
from embedx.labeled.data import Labels
from embedx.search.index import build_index
from embedx.search.query import Searcher, new_query_workspace
from embedx.search.spec import SearchSpec

# ---- examples


def some_examples(n=9, n_features=8, seed=0):
    """Examples with sparse features and several labels, and as dictionaries and lists."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((n, n_features)) < 0.4, rng.normal(size=(n, n_features)), 0).astype(
        np.float32
    )
    labels = [rng.choice(5, rng.integers(0, 4), replace=False).tolist() for _ in range(n)]
    return examples_of(csr_matrix(x), Labels.of_rows(labels)), x, labels


def test_examples_are_copied_one_after_another():
    all_examples, x, labels = some_examples()
    order = np.array([8, 0, 5, 1])
    out = examples.examples_at(all_examples, order)
    for e, i in enumerate(order):
        row = np.zeros(8, np.float32)
        row[out.columns[out.offsets[e] : out.offsets[e + 1]]] = out.values[
            out.offsets[e] : out.offsets[e + 1]
        ]
        np.testing.assert_array_equal(row, x[i])
        assert out.label_ids[out.label_offsets[e] : out.label_offsets[e + 1]].tolist() == labels[i]


# ---- sizes


def test_numbers_are_rounded_up_to_tiles_and_paddings():
    for n in range(70):
        for width, whole in (
            (gemm.round_up_to_tile(n), gemm.TILE),
            (blocks.round_up_to_padding(n), blocks.SCORE_PADDING),
        ):
            assert width % whole == 0
            assert 0 <= width - n < whole


# ---- levels of sparse weights


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_a_level_has_a_row_for_each_feature_of_a_group(threads):
    """Two groups of three and two nodes, and one without any weight between them; the first in two
    tiles.
    """
    tiles = [
        TileWeights(
            0,
            0,
            np.array([4, 1], np.int32),
            np.array([0, 1], np.int32),
            np.array([0.1, 0.2], np.float32),
        ),
        TileWeights(
            0, 2, np.array([1], np.int32), np.array([0], np.int32), np.array([0.3], np.float32)
        ),
        TileWeights(
            2,
            4,
            np.array([1, 0, 1], np.int32),
            np.array([1, 0, 0], np.int32),
            np.array([0.4, 0.5, 0.6], np.float32),
        ),
    ]
    bias = np.arange(6, dtype=np.float32)
    level = sparse_levels.level_of(np.array([0, 3, 4, 6]), tiles, bias, 5, threads)
    assert level.first_row.tolist() == [0, 2, 2, 4]
    assert level.features.tolist() == [1, 4, 0, 1]
    assert level.first_weight.tolist() == [0, 2, 3, 4, 6]
    assert level.child.tolist() == [1, 2, 0, 0, 1, 0]
    np.testing.assert_allclose(level.weight, [0.2, 0.3, 0.1, 0.5, 0.4, 0.6])
    assert (level.n_groups, level.widest) == (3, 3)


# ---- rows that are found


@pytest.mark.parametrize("blocks", [1, 3])
def test_multiply_adds_of_a_search_are_those_of_clusters_and_of_the_lists_probed(blocks):
    rng = np.random.default_rng(0)
    n_rows = 50
    dim = 8
    table = aligned_zeros(n_rows, dim)
    h = aligned_zeros(4, dim)
    table[:, :dim] = rng.normal(size=(n_rows, dim))
    h[:, :dim] = rng.normal(size=(4, dim))
    search = SearchSpec(
        blocks=blocks,
        clusters=5,
        n_scored=20,
        max_candidates=n_rows,
        threshold=0.0,
        min_coefficient=1e-3,
        max_gap=2.0,
        from_logsumexp=False,
        message_iterations=0,
    )
    index = build_index(table, n_rows, dim, search, rng)
    rows = np.zeros((4, n_rows), np.int32)
    n_found = np.full(4, -1)
    expected = 0
    macs = collapsed.find_rows(
        Searcher(index, search, new_query_workspace(n_rows, search)), h, rows, n_found
    )
    alone = new_query_workspace(n_rows, search)
    for e in range(4):
        one_row = np.zeros((1, n_rows), np.int32)
        n = candidates_of(index, search, h[e : e + 1], np.zeros(0, np.int32), one_row, alone)
        assert rows[e, : n_found[e]].tolist() == one_row[0, :n].tolist()
        for j in range(blocks):
            sizes = index.list_sizes[j, alone.probed[j, : alone.n_probed[j]]]
            expected += (5 + sum(padded(size) for size in sizes)) * (
                index.edges[j + 1] - index.edges[j]
            )
    assert macs == expected
