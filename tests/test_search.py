"""The index: it stores the rows of the table, is updated with them, and finds what brute force
finds.
"""

import numpy as np
import pytest
from reference_search import block_scores, candidates_of

from embedx.kernels.compiled import kernel
from embedx.kernels.simd import SIMD_WIDTH, aligned_zeros, padded
from embedx.objectives import OBJECTIVES
from embedx.runtime.progress import Silent
from embedx.search import index as indexing, updater as search_updater
from embedx.search.kmeans import MASKED_SCORE
from embedx.search.query import Searcher, new_query_workspace, score_position, search_block
from embedx.search.spec import SearchSpec
from embedx.search.top_k import search_top_k, top_k_spec
from embedx.search.updater import IndexUpdater, mark_stale, new_stale_rows
from tests.support.clock import Clock
from tests.support.search_tables import DIM, N, check, clustered

UNLIMITED = {
    "max_candidates": N,
    "threshold": 0.0,
    "min_coefficient": 1e-3,
    "from_logsumexp": False,
    "message_iterations": 0,
}


def spec(blocks=1, clusters=20, n_scored=N, max_gap=1.0, **others):
    return SearchSpec(
        blocks=blocks, clusters=clusters, n_scored=n_scored, max_gap=max_gap, **(UNLIMITED | others)
    )


def built(table, search, seed=0):
    return indexing.build_index(table, len(table), DIM, search, np.random.default_rng(seed))


def candidates_found(index, search, h, positives=()):
    """The candidates for one h, but for its positives."""
    n = index.slot.shape[1]
    rows = np.zeros((1, n), dtype=np.int32)
    positives = np.array(positives, dtype=np.int32)
    chosen = rows[
        0, : candidates_of(index, search, h[None], positives, rows, new_query_workspace(n, search))
    ].tolist()
    assert chosen[: len(positives)] == positives.tolist()
    assert len(set(chosen)) == len(chosen)
    return set(chosen[len(positives) :])


@kernel
def search_blocks(searcher, h):
    """Search all blocks for h[0]."""
    for j in range(searcher.row_index.ids.shape[0]):
        search_block(searcher, h, 0, j)


def a_query(seed=3):
    h = np.zeros(padded(DIM), dtype=np.float32)
    h[:DIM] = np.random.default_rng(seed).normal(size=DIM)
    return h


@pytest.mark.parametrize("blocks", [1, 4, 8])
def test_an_index_stores_every_row_once(blocks):
    table = clustered()
    table[7] = 0  # has no direction
    index = built(table, spec(blocks))
    check(index, table)
    spare = (
        np.diff(index.list_offsets)
        - index.list_sizes
        - (indexing.SPARE_SHARE * index.list_sizes).astype(int)
    )
    assert ((spare >= indexing.SPARE_SLOTS) & (spare < indexing.SPARE_SLOTS + SIMD_WIDTH)).all()


def test_clusters_do_not_depend_on_the_scale_of_the_table():
    table = clustered()
    np.testing.assert_array_equal(
        built(table, spec(2)).cluster, built(table * np.float32(2**-12), spec(2)).cluster
    )


@pytest.mark.slow
def test_rows_that_drift_are_reassigned():
    """Each step is short, so that only the REASSIGN_EVERY-th looks for the nearest centroid."""
    table = clustered()
    index = built(table, spec())
    rows = np.arange(N, dtype=np.int32)
    step = (np.roll(table, 1, axis=0) - table) / 100
    reassigned = []
    for _ in range(4 * indexing.REASSIGN_EVERY):
        assert (
            np.linalg.norm(step, axis=1) < indexing.REASSIGN_CHANGE * np.linalg.norm(table, axis=1)
        ).all()
        table += step
        reassigned.append(indexing.update_rows(index, table, rows, 0, aligned_zeros(1, 20)))
    check(index, table)
    turns = np.array(reassigned).reshape(4, indexing.REASSIGN_EVERY)
    assert (turns[:, :-1] == 0).all()
    assert turns[:, -1].sum() > N // 20


@pytest.mark.slow
def test_a_row_whose_new_list_is_full_stays_and_is_still_found():
    table = clustered()
    index = built(table, spec())
    rows = np.arange(N, dtype=np.int32)
    table[:, :DIM] = table[0, :DIM]  # all have one direction
    n_reassigned = [
        indexing.update_rows(index, table, rows, 0, aligned_zeros(1, 20))
        for _ in range(indexing.REASSIGN_EVERY)
    ]
    check(index, table)
    assert len(np.unique(index.cluster)) > 1
    assert n_reassigned[-1] == (index.cluster[0] != index.cluster[0, 0]).sum() > 0
    assert candidates_found(index, spec(), table[0]) == set(range(N))


@pytest.mark.parametrize("max_candidates", [1, 7, 60, 61, 600, 740, 899])
@pytest.mark.parametrize("blocks", [1, 4])
def test_a_block_gives_no_more_than_max_candidates(max_candidates, blocks):
    table = clustered()
    h = a_query()
    table[100:160] = table[99]  # as many equal scores: if they are at the cutoff, all are left out
    search = spec(blocks, max_gap=1e9, max_candidates=max_candidates)
    z = block_scores(table[:, :DIM], h[:DIM], blocks)
    cutoff = np.sort(z, axis=1)[:, ::-1][:, max_candidates]
    assert blocks > 1 or (cutoff[0] == z[0, 99]) == (max_candidates == 740)
    expected = {
        int(row)
        for line, last in zip(z, cutoff, strict=True)
        for row in np.flatnonzero(line > last + 1e-5)
    }
    chosen = candidates_found(built(table, search), search, h)
    assert expected <= chosen
    assert len(chosen) <= blocks * max_candidates
    assert len(expected) >= min(max_candidates, 300) - 1


# where one row has most of the probability, and where many share it
@pytest.mark.parametrize("size", [1, 0.1])
def test_candidates_of_a_softmax_are_the_rows_with_a_probability_above_tau(size):
    table = clustered()
    h = np.float32(size) * a_query()
    # one cluster: nothing ends the search early
    search = spec(4, clusters=1, max_gap=-np.log(1e-3), from_logsumexp=True)
    z = 4 * block_scores(table[:, :DIM], h[:DIM], 4).astype(np.float64)
    z[:, 5] = -np.inf
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    chosen = candidates_found(built(table, search), search, h, positives=[5])
    surely = {int(row) for row in np.flatnonzero((p > 1.01e-3).any(axis=0))}
    perhaps = {int(row) for row in np.flatnonzero((p > 0.99e-3).any(axis=0))}
    assert surely <= chosen <= perhaps
    assert len(surely) > 4


@pytest.mark.parametrize("blocks", [1, 4])
def test_where_all_rows_are_positives_there_are_no_candidates(blocks):
    search = spec(blocks, clusters=2, max_gap=1.0, from_logsumexp=True)
    index = indexing.build_index(clustered(20), 20, DIM, search, np.random.default_rng(0))
    assert candidates_found(index, search, a_query(), positives=range(20)) == set()


@pytest.mark.slow
def test_recall_is_high_when_a_tenth_of_the_rows_is_scored():
    table = clustered(5000, groups=200)
    rng = np.random.default_rng(5)
    h = table[rng.integers(0, 5000, 200)] + rng.normal(0, 0.1, (200, table.shape[1])).astype(
        np.float32
    )
    h[:, DIM:] = 0
    search = top_k_spec(5000, 0.1, 5)
    index = indexing.build_index(table, 5000, DIM, search, np.random.default_rng(0), threads=2)
    ids, scores, _ = search_top_k(index, search, h, 5, threads=2)
    z = h @ table.T
    true = np.argsort(-z, axis=1)[:, :5]
    assert np.mean([np.isin(a, b).mean() for a, b in zip(true, ids, strict=True)]) > 0.9
    np.testing.assert_allclose(
        scores, np.take_along_axis(z, ids.astype(np.int64), axis=1), rtol=1e-4, atol=1e-4
    )
    assert (np.diff(scores, axis=1) <= 0).all()
    everything = top_k_spec(5000, 1.0, 5)
    ids, _, log_sum = search_top_k(index, everything, h, 5, threads=1)
    np.testing.assert_array_equal(np.sort(ids), np.sort(true))
    np.testing.assert_allclose(
        log_sum, np.logaddexp.reduce(z.astype(np.float64), axis=1), rtol=1e-5
    )


def test_of_fewer_rows_than_k_the_rest_is_empty():
    table = clustered(3)
    h = a_query()
    search = top_k_spec(3, 1.0, 5)
    index = indexing.build_index(table, 3, DIM, search, np.random.default_rng(0))
    ids, scores, _ = search_top_k(index, search, h[None], 5, threads=1)
    z = table @ h
    assert ids[0].tolist() == [*np.argsort(-z), -1, -1]
    np.testing.assert_allclose(scores[0, :3], np.sort(z)[::-1], rtol=1e-5)
    assert (scores[0, 3:] == MASKED_SCORE).all()


@pytest.mark.parametrize(
    ("n", "share", "k", "n_scored"),
    [(5000, 0.1, 5, 500), (5000, 0.001, 5, 100), (5000, 0.001, 300, 300), (50, 0.1, 5, 50)],
)
def test_a_share_of_the_rows_is_scored_but_no_fewer_than_a_hundred_or_k(n, share, k, n_scored):
    search = top_k_spec(n, share, k)
    assert search.n_scored == search.max_candidates == n_scored
    assert 1 < search.clusters <= n


def update(updater, rows):
    stale = new_stale_rows(N)
    mark_stale(rows, len(rows), stale)
    updater.update(stale)
    assert stale.n[0] == 0


def test_an_index_is_rebuilt_when_enough_rows_have_been_reassigned(monkeypatch):
    clock = Clock(tick=0.25)
    monkeypatch.setattr(search_updater, "time", clock)
    table = clustered()
    updater = IndexUpdater(table, N, DIM, spec(2), seed=1, threads=1, progress=Silent())
    first = updater.current()
    assert updater.build_seconds == clock.tick
    everyone = np.arange(N, dtype=np.int32)
    for _ in range(20):  # they change, but not in direction
        table *= 1.001
        update(updater, everyone)
        check(updater.index, table)
    assert updater.current() is first
    table[:] = np.roll(table, 1, axis=0)
    some_rows = everyone[: N // 12]
    update(updater, some_rows)
    assert 0 < updater.n_reassigned.sum() <= 2 * len(some_rows)
    assert updater.current() is first
    update(updater, everyone[N // 12 :])
    check(first, table)
    second = updater.current()
    assert second is not first
    assert (updater.n_builds, updater.n_reassigned.sum()) == (2, 0)
    assert updater.build_seconds == 2 * clock.tick
    check(second, table)


def test_short_rows_do_not_hide_long_ones():
    """Rows of all norms in every direction, of which a fiftieth is scored: the best are
    among them.
    """
    rng = np.random.default_rng(0)
    n, dim = 20_000, 16
    table = aligned_zeros(n, dim)
    table[:] = rng.normal(size=(n, dim)) * np.exp(rng.normal(0, 1.5, (n, 1)))
    search = SearchSpec(1, 141, 400, n, 0.0, 1e-3, 1e9, from_logsumexp=False, message_iterations=0)
    index = indexing.build_index(table, n, dim, search, rng)
    recalls = []
    for h in rng.normal(size=(50, dim)).astype(np.float32):
        best = np.argsort(-(table @ h))[:20]
        recalls.append(np.isin(best, list(candidates_found(index, search, h))).mean())
    assert np.mean(recalls) > 0.9


@pytest.mark.parametrize(
    ("n", "clusters", "blocks"),
    [(1, 1, 1), (5, 9, 4), (15, 4, 2), (40, 16, 8), (100, 17, 8), (300, 1, 4)],
)
def test_few_rows_and_any_number_of_clusters(n, clusters, blocks):
    table = clustered(n)
    h = a_query()
    search = spec(blocks, clusters=clusters, n_scored=n, max_gap=2.0)
    index = indexing.build_index(table, n, DIM, search, np.random.default_rng(0))
    check(index, table)
    for step in range(5):
        table[:, :DIM] += np.float32(0.5) * np.random.default_rng(step).normal(
            size=(n, DIM)
        ).astype(np.float32)
        for j in range(blocks):
            indexing.update_rows(
                index, table, np.arange(n, dtype=np.int32), j, aligned_zeros(1, min(clusters, n))
            )
        check(index, table)
        z = blocks * block_scores(table[:, :DIM], h[:DIM], blocks)
        expected = {int(row) for line in z for row in np.flatnonzero(line > line.max() - 2.0)}
        assert candidates_found(index, search, h) == expected


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, 1e18, -1e35])
@pytest.mark.parametrize("from_logsumexp", [False, True])
def test_any_table_can_be_searched(value, from_logsumexp):
    """A diverged run shows in its loss; until then no query may hang or read outside its memory."""
    table = clustered()
    h = a_query()
    search = spec(4, clusters=21, n_scored=100, max_gap=2.0, from_logsumexp=from_logsumexp)
    for share in (1.0, 0.3):
        table[: int(share * N), :DIM] = value
        index = built(table, search)
        query = new_query_workspace(N, search)
        for j in range(4):
            indexing.update_rows(
                index, table, np.arange(N, dtype=np.int32), j, aligned_zeros(1, 21)
            )
        for scale in (1, 1e15):
            search_blocks(Searcher(index, search, query), np.float32(scale) * h[None])
            for j in range(4):
                probed = query.probed[j, : query.n_probed[j]]
                assert ((probed >= 0) & (probed < 21)).all()
                assert len(set(probed.tolist())) == len(probed)
        table = clustered()


def test_a_row_that_is_just_being_reassigned_counts_as_not_found():
    table = clustered()
    h = a_query()
    search = spec(clusters=20, n_scored=N)
    index = built(table, search)
    query = new_query_workspace(N, search)
    search_blocks(Searcher(index, search, query), h[None])
    row = int(index.ids[0, index.list_offsets[0, 10]])
    assert position_of(index, query, 0, row) >= 0
    for slot in (index.list_offsets[0, 3], index.list_offsets[0, 15], index.ids.shape[1] - 1, 0):
        index.slot[0, row] = slot  # written before its cluster is
        assert position_of(index, query, 0, row) == -1


@kernel
def position_of(index, query, j, row):
    return score_position(index, query, j, row)


def test_the_search_that_an_objective_is_set_to():
    def search(name, n_rows, **settings):
        settings = {
            "scored_fraction": 0.02,
            "candidate_fraction": 0.3,
            "smoothing": 2.0,
            "min_coefficient": 0.01,
            **settings,
        }
        return OBJECTIVES[name](OBJECTIVES[name].Settings(min_score=0.5, **settings)).search(n_rows)

    margin = search("mips", 100_000)
    assert margin == SearchSpec(
        blocks=1,
        clusters=316,
        n_scored=2000,
        max_candidates=600,
        threshold=0.5,
        min_coefficient=0.01,
        max_gap=2.0,
        from_logsumexp=False,
        message_iterations=0,
    )
    softmax = search("ldgs", 100_000, loss="softmax", blocks=4, slack=1.5)
    assert softmax == margin._replace(blocks=4, max_gap=1.5 - np.log(0.01), from_logsumexp=True)
    messages = search("ldgs", 100_000, rescore=False, blocks=4, slack=1.5, iterations=3)
    assert messages == margin._replace(blocks=4, message_iterations=3)
    expected = margin._replace(clusters=150, n_scored=100, max_candidates=100)
    assert search("mips", 150, clusters=1000) == expected
    assert search("mips", 40).n_scored == 40


def test_a_table_has_no_more_blocks_than_columns():
    assert spec(8).for_columns(5).blocks == 5
    assert spec(8).for_columns(100) == spec(8)
