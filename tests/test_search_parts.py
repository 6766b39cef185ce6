"""The parts of the search, each by itself and small, against NumPy."""

import numpy as np
import pytest

from embedx.kernels.simd import aligned_zeros, padded
from embedx.runtime.progress import Silent
from embedx.search import index as indexing, kmeans as clustering, query
from embedx.search.cluster_scores import EMPTY_CLUSTER_SCORE
from embedx.search.kmeans import MASKED_SCORE
from embedx.search.spec import SearchSpec
from embedx.search.updater import IndexUpdater, mark_stale, new_stale_rows
from tests.support.search_tables import check, clustered

N, DIM = 70, 11


def rows_of(panels):
    """The vectors of some panels, a row each."""
    return panels.transpose(0, 2, 1).reshape(-1, panels.shape[1])


def vectors_of(centroids, j, clusters):
    """float32 (clusters, columns of the block + 1): the centroids of block j."""
    vectors = rows_of(centroids.vectors[j])[
        :clusters, : centroids.edges[j + 1] - centroids.edges[j]
    ]
    return np.column_stack([vectors, centroids.augmented[j, :clusters]])


def spec(blocks=1, clusters=19, n_scored=30, max_gap=1.0, **others):
    settings = {
        "max_candidates": N,
        "threshold": 0.0,
        "min_coefficient": 1e-3,
        "from_logsumexp": False,
        "message_iterations": 0,
    }
    return SearchSpec(
        blocks=blocks, clusters=clusters, n_scored=n_scored, max_gap=max_gap, **(settings | others)
    )


def built(search, n=N, seed=0, table=None):
    table = clustered(n, DIM, groups=9, seed=seed) if table is None else table
    return indexing.build_index(table, len(table), DIM, search, np.random.default_rng(0)), table


def a_query(seed=3, size=1.0):
    h = np.zeros(padded(DIM), dtype=np.float32)
    h[:DIM] = size * np.random.default_rng(seed).normal(size=DIM)
    return h


def searcher_of(index, search):
    """Searches the index; its buffers are those of a new worker."""
    n_rows = index.slot.shape[1]
    return query.Searcher(index, search, query.new_query_workspace(n_rows, search))


def begin_query(searcher, h, positives):
    """Search all blocks for h, whose positives are masked."""
    rows = np.array([positives], np.int32)
    query.search_all_blocks(searcher, h[None], 0, rows, 0, len(positives))


def updated(index, table, rows, clusters=19):
    rows = np.asarray(rows, dtype=np.int32)
    return [
        indexing.update_rows(index, table, rows, j, aligned_zeros(1, clusters))
        for j in range(len(index.ids))
    ]


# ---- the coarse quantizer


def naive_centroids(rows, clusters, seed, j):
    """Spherical k-means of rows that all have a direction, float64; the first centroids are drawn
    as those of the index.
    """
    rng = np.random.default_rng(0)
    n_sampled = min(len(rows), clustering.MAX_ROWS_PER_CENTROID * clusters)
    sample = np.sort(rng.choice(len(rows), n_sampled, replace=False))
    rng = np.random.default_rng([j, int(rng.integers(0, 2**31, j + 1)[j])])
    rows = rows[sample].astype(float)
    norms = np.linalg.norm(rows, axis=1)
    augmented = np.column_stack(
        [rows, np.sqrt(np.maximum(np.quantile(norms, clustering.NORM_QUANTILE) ** 2 - norms**2, 0))]
    )
    directions = augmented / np.linalg.norm(augmented, axis=1, keepdims=True)
    centroids = directions[rng.choice(n_sampled, clusters, replace=False)]
    for _ in range(clustering.N_ITERATIONS - 1):
        nearest = (directions @ centroids.T).argmax(axis=1)
        sums = np.array([directions[nearest == c].sum(axis=0) for c in range(clusters)])
        assert (np.linalg.norm(sums, axis=1) > 0).all(), "no cluster is empty"
        centroids = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    return centroids


@pytest.mark.parametrize(("n", "clusters", "blocks"), [(N, 5, 1), (N, 4, 2), (150, 2, 2)])
def test_centroids_are_those_of_spherical_k_means(n, clusters, blocks, monkeypatch):
    monkeypatch.setattr(clustering, "MAX_ROWS_PER_CENTROID", 64)
    index, table = built(spec(blocks, clusters), n)
    for j in range(blocks):
        expected = naive_centroids(table[:, index.edges[j] : index.edges[j + 1]], clusters, 0, j)
        np.testing.assert_allclose(vectors_of(index.centroids, j, clusters), expected, atol=1e-4)


def test_an_empty_cluster_begins_anew_as_a_row():
    """Two directions make two clusters; the third is reset to one of them each time."""
    table = aligned_zeros(40, DIM)
    table[:20, 0], table[20:, 1] = 1, 1
    index, _ = built(spec(1, 3), table=table)
    directions = np.eye(DIM + 1)[:2]
    for vector in vectors_of(index.centroids, 0, 3):
        assert np.abs(directions - vector).max(axis=1).min() < 1e-6


def test_rows_without_direction_are_dealt_to_the_clusters_in_turn():
    index, _ = built(spec(2, 3), table=aligned_zeros(10, DIM))
    np.testing.assert_array_equal(index.cluster, [np.arange(10) % 3] * 2)


# ---- the index and its sums


def check_sums(index, table, *, moments=True):
    """The statistics of each cluster are those of its rows."""
    blocks, clusters = index.list_sizes.shape
    for j in range(blocks):
        block = table[:, index.edges[j] : index.edges[j + 1]].astype(float)
        sums = rows_of(index.statistics.sums[j])
        for c in range(clusters):
            rows = block[index.cluster[j] == c]
            assert index.list_sizes[j, c] == len(rows)
            np.testing.assert_allclose(sums[c, : block.shape[1]], rows.sum(axis=0), atol=1e-4)
            np.testing.assert_allclose(
                index.statistics.square_sums[j, c], (rows**2).sum(), rtol=1e-4, atol=1e-4
            )
            assert index.statistics.inverse_size[j, c] == pytest.approx(
                1 / len(rows) if len(rows) else 0
            )
            if len(rows) and moments:
                spread = np.sqrt(rows.var(axis=0).mean())
                np.testing.assert_allclose(index.statistics.std[j, c], spread, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("blocks", [1, 3])
def test_an_index_and_its_sums_follow_the_table(blocks):
    index, table = built(spec(blocks))
    check(index, table)
    check_sums(index, table)
    rng = np.random.default_rng(1)
    before = index.cluster.copy()
    for turn in range(4):
        rows = rng.choice(N, 30, replace=False)
        table[rows[:, None], np.arange(DIM)] += rng.normal(0, 1.5, (30, DIM))
        old = index.cluster.copy()
        n_reassigned = updated(index, table, rows)
        np.testing.assert_array_equal(n_reassigned, (index.cluster != old).sum(axis=1))
        check(index, table)
        check_sums(index, table)
        assert (index.update_count == (np.arange(N) == rows[:, None]).any(axis=0)).all() or turn
    assert (index.cluster != before).mean() > 0.1
    assert (index.list_sizes == 0).any()


@pytest.mark.parametrize(("threads", "blocks"), [(1, 1), (3, 2)])
def test_threads_share_the_rows_of_a_new_index(threads, blocks):
    table = clustered(50, DIM, groups=9)

    def built_by(n_threads):
        rng = np.random.default_rng(0)
        return indexing.build_index(table, 47, DIM, spec(blocks, 5), rng, n_threads)

    index = built_by(threads)
    np.testing.assert_array_equal(index.cluster, built_by(1).cluster)
    check(index, table[:47])


# ---- a query


def naive_estimates(index, table, j, h):
    block = slice(index.edges[j], index.edges[j + 1])
    out = np.full(index.list_sizes.shape[1], float(EMPTY_CLUSTER_SCORE))
    for c in np.flatnonzero(index.list_sizes[j]):
        rows = table[index.cluster[j] == c, block].astype(float)
        out[c] = rows.mean(axis=0) @ h[block] + np.sqrt(rows.var(axis=0).mean()) * np.linalg.norm(
            h[block]
        )
    return out


def naive_search(index, table, search, h, j, capacity):
    """(lists, [(row, score)] of each list) that are probed in block j."""
    block = slice(index.edges[j], index.edges[j + 1])
    blocks = len(index.ids)
    lists = []
    scores = []
    room = capacity
    for c in np.argsort(-naive_estimates(index, table, j, h)):
        if sum(map(len, scores)) >= search.n_scored or room == 0:
            break
        rows = index.ids[
            j,
            index.list_offsets[j, c] : index.list_offsets[j, c] + min(index.list_sizes[j, c], room),
        ]
        lists.append(int(c))
        scores.append([(int(row), float(table[row, block] @ h[block])) for row in rows])
        room -= padded(len(rows))
        if search.from_logsumexp and len(rows):
            all_of_it = [blocks * z for scored_rows in scores for _, z in scored_rows]
            if (
                max(blocks * z for _, z in scores[-1])
                < np.logaddexp.reduce(all_of_it) - search.max_gap
            ):
                break
    return lists, scores


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize(
    ("size", "options"),
    [
        (1, {}),
        (1, {"n_scored": 1}),
        (2, {"from_logsumexp": True, "n_scored": N, "max_gap": 2.0}),
        (1, {"n_scored": 1000}),
    ],
)
def test_the_best_lists_are_scored_until_there_are_enough_rows(blocks, size, options):
    search = spec(blocks, **options)
    index, table = built(search)
    searcher = searcher_of(index, search)
    workspace = searcher.query
    for seed in range(3):
        h = a_query(seed, size)
        for j in range(blocks):
            query.search_block(searcher, h[None], 0, j)
            lists, scores = naive_search(index, table, search, h, j, workspace.scores.shape[1])
            n = int(workspace.n_probed[j])
            assert workspace.probed[j, :n].tolist() == lists
            rank = np.zeros(19, dtype=int)
            rank[lists] = 1 + np.arange(n)
            np.testing.assert_array_equal(workspace.probe_rank[j], rank)
            for p, scored_rows in enumerate(scores):
                begin, end = workspace.offsets[j, p : p + 2]
                assert end - begin == padded(len(scored_rows))
                np.testing.assert_allclose(
                    workspace.scores[j, begin : begin + len(scored_rows)],
                    [z for _, z in scored_rows],
                    atol=1e-4,
                )
                assert (workspace.scores[j, begin + len(scored_rows) : end] == MASKED_SCORE).all()
                for k, (row, _) in enumerate(scored_rows):
                    assert query.score_position(index, workspace, j, row) == begin + k
            scored = {row for scored_rows in scores for row, _ in scored_rows}
            others = set(range(N)) - scored
            assert all(query.score_position(index, workspace, j, row) == -1 for row in others)
            assert options.get("n_scored", 30) == 1000 or others


def test_a_list_without_room_is_scored_as_far_as_there_is():
    table = clustered(N, DIM, groups=1, spread=0.01)
    search = spec(1, clusters=1, n_scored=5)
    index, _ = built(search, table=table)
    searcher = searcher_of(index, search)
    workspace = searcher.query
    query.search_block(searcher, a_query()[None], 0, 0)
    assert workspace.scores.shape[1] == workspace.offsets[0, 1] == 32
    np.testing.assert_allclose(workspace.scores[0], table[:32] @ a_query(), atol=1e-4)


def test_candidates_are_appended_once_up_to_the_capacity():
    search = spec(2, n_scored=1000, clusters=5)
    index, table = built(search)
    searcher = searcher_of(index, search)
    workspace = searcher.query
    rows = np.full((2, N), -1, dtype=np.int32)
    begin_query(searcher, a_query(), [8, 9])
    expected = []
    for j in range(2):
        _, scores = naive_search(index, table, search, a_query(), j, workspace.scores.shape[1])
        expected += [
            row
            for scored_rows in scores
            for row, z in scored_rows
            if z > 0.5 and row not in (*expected, 8, 9)
        ]
    n = query.add_candidates(index, workspace, 0, np.float32(0.5), rows, 1, 2, 7)
    assert (n, rows[1, 2:].tolist()) == (7, [*expected[:5], *[-1] * (N - 7)])
    begin_query(searcher, a_query(), [8, 9])
    for j in range(2):
        n = query.add_candidates(index, workspace, j, np.float32(0.5), rows, 1, n if j else 2, N)
    assert rows[1, 2:n].tolist() == expected
    assert len(expected) > 20
    assert (rows[0] == -1).all()


def test_the_numbers_of_queries_stay_within_int32():
    search = spec(1, clusters=2)
    index, _ = built(search, n=20)
    searcher = searcher_of(index, search)
    workspace = searcher.query
    workspace.query_number[0] = 2**31 - 3
    numbers = []
    for _ in range(3):
        begin_query(searcher, a_query(), [3])
        numbers.append(int(workspace.query_number[0]))
        assert workspace.last_query[3] == numbers[-1]
    assert numbers == [2**31 - 2, 0, 1]


# ---- updates


def test_a_row_that_changed_twice_is_stale_once():
    stale = new_stale_rows(N)
    mark_stale(np.array([9, 3, 9], np.int32), 3, stale)
    assert (stale.rows[: stale.n[0]].tolist(), np.flatnonzero(stale.is_stale).tolist()) == (
        [9, 3],
        [3, 9],
    )


def test_reassignments_are_counted_by_block():
    table = clustered(N, DIM, groups=9)
    updater = IndexUpdater(table, N, DIM, spec(2, 5), seed=1, threads=1, progress=Silent())
    before = updater.current().cluster.copy()
    table[:] = np.roll(table, 1, axis=0)
    updater.update_next(40)
    updater.update_next(20)
    assert updater.next_row == 60
    np.testing.assert_array_equal(
        updater.n_reassigned, (updater.index.cluster != before).sum(axis=1)
    )
    assert (updater.n_reassigned > 0).all()
    assert (updater.index.cluster[:, 60:] == before[:, 60:]).all()
    updater.update_next(2 * N + 5)
    assert updater.next_row == (60 + 2 * N + 5) % N
    check(updater.index, table)
