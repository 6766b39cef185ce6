"""The index of rows: it holds what the table holds, follows it, and finds what brute force finds."""

import numpy as np
import pytest
from reference_search import block_scores

from embedx.kernels.compiled import kernel
from embedx.kernels.simd import LANES, aligned_zeros, padded
from embedx.run.progress import Silent
from embedx.search import index as indexing
from embedx.search import query as look
from embedx.search.cluster_scores import EMPTY, promised
from embedx.search.clusters import LIMIT, NEVER, directions, new_seeker
from embedx.search.spec import Search
from embedx.search.top_k import search_of, top
from embedx.search.updater import Follower, new_moved, remember

N, DIM = 900, 37
NEITHER = {"kept": N, "threshold": 0.0, "tau": 1e-3, "from_sum": False, "steps": 0}


def search(blocks=1, clusters=20, looked_at=N, reach=1.0, **others):
    return Search(blocks=blocks, clusters=clusters, looked_at=looked_at, reach=reach, **(NEITHER | others))


def clustered(n=N, dim=DIM, groups=30, spread=0.3, seed=0):
    """float32 (n, padded): rows around common directions."""
    rng = np.random.default_rng(seed)
    table = aligned_zeros(n, dim)
    table[:, :dim] = rng.normal(size=(groups, dim))[rng.integers(0, groups, n)] + spread * rng.normal(size=(n, dim))
    return table


def built(table, how, seed=0):
    return indexing.build(table, len(table), DIM, how, np.random.default_rng(seed))


def check(index, table):
    """Every row lies once in each block, in the cluster and slot that it is told to lie in, and with its vector."""
    width = int(np.diff(index.edges).max())
    slots = index.ids.shape[1]
    panels = index.panels.reshape(len(index.ids), slots // LANES, width, LANES)
    for j in range(len(index.ids)):
        held = [s for c, n in enumerate(index.in_use[j]) for s in range(index.begin[j, c], index.begin[j, c] + n)]
        np.testing.assert_array_equal(np.sort(index.ids[j, held]), np.arange(len(table)))
        np.testing.assert_array_equal(index.ids[j, index.slot[j]], np.arange(len(table)))
        cluster = np.searchsorted(index.begin[j], index.slot[j], side="right") - 1
        np.testing.assert_array_equal(cluster, index.home[j])
        begin, end = index.edges[j], index.edges[j + 1]
        vectors = panels[j].transpose(0, 2, 1).reshape(slots, width)[:, : end - begin]
        np.testing.assert_array_equal(vectors[index.slot[j]], table[:, begin:end])


def found(index, how, h, positives=()):
    """The rows that compete for one h, behind its positives."""
    rows, n = np.zeros((1, N), dtype=np.int32), np.zeros(1, dtype=np.int64)
    positives = np.array(positives, dtype=np.int32)
    probe = look.new_probe(N, how)
    look.candidates_of(index, how, h[None], 0, 1, positives, np.array([0, len(positives)]), rows, n, probe)
    assert (rows[0, : len(positives)] == positives).all()
    chosen = rows[0, : n[0]].tolist()
    assert len(set(chosen)) == len(chosen)
    return set(chosen[len(positives) :])


@kernel
def look_through(index, how, h, probe):
    """Have `probe` hold what is found for h[0] in all blocks."""
    for j in range(index.ids.shape[0]):
        look.look(index, how, h, 0, j, probe)


def a_query(seed=3):
    h = np.zeros(padded(DIM), dtype=np.float32)
    h[:DIM] = np.random.default_rng(seed).normal(size=DIM)
    return h


@pytest.mark.parametrize("blocks", [1, 4, 8])
def test_an_index_holds_every_row_once(blocks):
    table = clustered()
    table[7] = 0  # points nowhere
    check(built(table, search(blocks)), table)


@pytest.mark.parametrize("blocks", [1, 8])
def test_an_index_follows_its_rows(blocks):
    table = clustered()
    index = built(table, search(blocks))
    homes = index.home.copy()
    rng = np.random.default_rng(1)
    seeker = new_seeker(20)
    for _ in range(12):
        rows = rng.choice(N, 200, replace=False).astype(np.int32)
        table[rows[:, None], np.arange(DIM)] += rng.normal(0, 1.5, (200, DIM))
        for j in range(blocks):
            indexing.refresh(index, table, rows, len(rows), j, seeker)
        check(index, table)
    assert (index.home != homes).mean() > 0.1


def test_rows_that_drift_come_to_their_new_clusters():
    """Each step is short, so that only the REHOMED-th seeks."""
    table = clustered()
    index = built(table, search())
    rows, way = np.arange(N, dtype=np.int32), (np.roll(table, 1, axis=0) - table) / 100
    left = []
    for _ in range(4 * indexing.REHOMED):
        assert (np.linalg.norm(way, axis=1) < indexing.FAR * np.linalg.norm(table, axis=1)).all()
        table += way
        left.append(indexing.refresh(index, table, rows, N, 0, new_seeker(20)))
    check(index, table)
    seeking = np.array(left).reshape(4, indexing.REHOMED)
    assert (seeking[:, :-1] == 0).all()
    assert seeking[:, -1].sum() > N // 20


def test_a_row_whose_new_cluster_is_full_stays_and_is_still_found():
    table = clustered()
    index = built(table, search())
    rows = np.arange(N, dtype=np.int32)
    table[:, :DIM] = table[0, :DIM]  # all point one way
    elsewhere = [indexing.refresh(index, table, rows, N, 0, new_seeker(20)) for _ in range(indexing.REHOMED)]
    check(index, table)
    assert len(np.unique(index.home)) > 1
    assert elsewhere[-1] == (index.home[0] != index.home[0, 0]).sum() > 0
    assert found(index, search(), table[0]) == set(range(N))


@pytest.mark.parametrize("blocks", [1, 4, 8])
@pytest.mark.parametrize("reach", [0.5, 4.0])
def test_what_is_found_is_what_lies_within_reach_in_some_block(blocks, reach):
    table, h = clustered(), a_query()
    how = search(blocks, reach=reach)
    z = blocks * block_scores(table[:, :DIM], h[:DIM], blocks)
    z[:, [5, 11]] = -np.inf
    expected = {int(row) for line in z for row in np.flatnonzero(line > line.max() - reach)}
    assert len(expected) >= blocks // 2
    assert found(built(table, how), how, h, positives=[5, 11]) == expected


@pytest.mark.parametrize("kept", [1, 7, 60, 61, 600, 740, 899])
@pytest.mark.parametrize("blocks", [1, 4])
def test_only_the_best_of_a_block_are_kept(kept, blocks):
    table, h = clustered(), a_query()
    table[100:160] = table[99]  # as many equal scores: those at the edge are left out
    how = search(blocks, reach=1e9, kept=kept)
    z = block_scores(table[:, :DIM], h[:DIM], blocks)
    edge = np.sort(z, axis=1)[:, ::-1][:, kept]
    assert blocks > 1 or (edge[0] == z[0, 99]) == (kept == 740)
    expected = {int(row) for line, last in zip(z, edge, strict=True) for row in np.flatnonzero(line > last + 1e-5)}
    chosen = found(built(table, how), how, h)
    assert expected <= chosen
    assert len(chosen) <= blocks * kept
    assert len(expected) >= min(kept, 300) - 1


def test_a_sum_over_all_rows_is_what_decides_for_a_softmax():
    table, h = clustered(), a_query()
    how = search(4, clusters=1, reach=-np.log(1e-3), from_sum=True)  # one cluster, so that nothing stops before the end
    z = 4 * block_scores(table[:, :DIM], h[:DIM], 4).astype(np.float64)
    z[:, 5] = -np.inf
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    chosen = found(built(table, how), how, h, positives=[5])
    surely = {int(row) for row in np.flatnonzero((p > 1.01e-3).any(axis=0))}
    perhaps = {int(row) for row in np.flatnonzero((p > 0.99e-3).any(axis=0))}
    assert surely <= chosen <= perhaps
    assert len(surely) > 4


def test_a_softmax_stops_at_a_cluster_that_adds_nothing():
    table, h = clustered(spread=0.05), a_query()
    h *= 5
    all_of_it, as_needed = search(1, clusters=30), search(1, clusters=30, reach=-np.log(1e-3), from_sum=True)
    index = built(table, all_of_it)
    probes = [look.new_probe(N, how) for how in (all_of_it, as_needed)]
    for how, probe in zip((all_of_it, as_needed), probes, strict=True):
        look_through(index, how, h[None], probe)
    assert probes[0].n_visited[0] == 30
    assert probes[1].n_visited[0] < 10


def test_a_threshold_passes_over_small_scores():
    table, h = clustered(), a_query()
    z = table[:, :DIM] @ h[:DIM]
    how = search(1, threshold=float(np.sort(np.abs(z))[-50]), reach=1e9)
    assert found(built(table, how), how, h) == set(np.flatnonzero(np.abs(z) > how.threshold).tolist())


def test_at_most_as_much_is_looked_at_as_there_is_room_for():
    table = clustered(groups=1, spread=0.01)
    how = search(1, clusters=2, looked_at=50)
    probe = look.new_probe(N, how)
    look_through(built(table, how), how, a_query()[None], probe)
    assert 50 <= probe.start[0, probe.n_visited[0]] <= probe.scores.shape[1] < N


def test_most_of_the_best_rows_are_found_by_a_look_at_a_tenth():
    table = clustered(5000, groups=200)
    rng = np.random.default_rng(5)
    h = table[rng.integers(0, 5000, 200)] + rng.normal(0, 0.1, (200, table.shape[1])).astype(np.float32)
    h[:, DIM:] = 0
    how = search_of(5000, 0.1, 5)
    index = indexing.build(table, 5000, DIM, how, np.random.default_rng(0), threads=2)
    ids, scores, log_sum = (np.concatenate(part) for part in zip(*top(index, how, h, 5, threads=2), strict=True))
    z = h @ table.T
    true = np.argsort(-z, axis=1)[:, :5]
    assert np.mean([np.isin(a, b).mean() for a, b in zip(true, ids, strict=True)]) > 0.9
    np.testing.assert_allclose(scores, np.take_along_axis(z, ids.astype(np.int64), axis=1), rtol=1e-4, atol=1e-4)
    assert (np.diff(scores, axis=1) <= 0).all()
    everything = search_of(5000, 1.0, 5)
    ids, _, log_sum = (np.concatenate(part) for part in zip(*top(index, everything, h, 5, threads=1), strict=True))
    np.testing.assert_array_equal(np.sort(ids), np.sort(true))
    np.testing.assert_allclose(log_sum, np.logaddexp.reduce(z.astype(np.float64), axis=1), rtol=1e-5)


def follows(follower, table, rows):
    moved = new_moved(N)
    remember(rows, len(rows), moved)
    remember(rows, len(rows), moved)
    assert moved.n[0] == len(rows)
    follower.follow(moved)
    assert moved.n[0] == 0


def test_a_follower_builds_anew_when_enough_rows_have_come_to_point_elsewhere():
    table = clustered()
    follower = Follower(table, N, DIM, search(2), seed=1, threads=1, progress=Silent())
    first = follower.current()
    everyone = np.arange(N, dtype=np.int32)
    for _ in range(20):  # they change, but point where they pointed
        table *= 1.001
        follows(follower, table, everyone)
        check(follower.index, table)
    assert follower.current() is first
    table[:] = np.roll(table, 1, axis=0)
    few = everyone[: N // 12]
    follows(follower, table, few)
    assert 0 < follower.n_left.sum() <= 2 * len(few)
    assert follower.current() is first
    follows(follower, table, everyone[N // 12 :])
    check(first, table)
    second = follower.current()
    assert second is not first
    assert (follower.n_builds, follower.n_left.sum()) == (2, 0)
    check(second, table)


@pytest.mark.parametrize("blocks", [1, 8])
def test_promises_follow_the_rows_of_each_cluster(blocks):
    table, h = clustered(), a_query()
    table[:300] *= 0.01
    index = built(table, search(blocks))
    rng = np.random.default_rng(1)
    for turn in range(6):
        if turn:
            rows = rng.choice(N, 300, replace=False).astype(np.int32)
            table[rows[:, None], np.arange(DIM)] += rng.normal(0, 1.0, (300, DIM))
            for j in range(blocks):
                indexing.refresh(index, table, rows, len(rows), j, new_seeker(20))
        for j in range(blocks):
            out = np.zeros((1, padded(20)), dtype=np.float32)
            promises(index, j, h, out)
            block = slice(index.edges[j], index.edges[j + 1])
            for c in range(20):
                rows_of = table[index.home[j] == c, block].astype(np.float64)
                if len(rows_of):
                    spread = np.sqrt(rows_of.var(axis=0).mean())
                    expected = rows_of.mean(axis=0) @ h[block] + spread * np.linalg.norm(h[block])
                    np.testing.assert_allclose(out[0, c], expected, rtol=1e-3, atol=1e-3)
                else:
                    assert out[0, c] == EMPTY
            assert (out[0, 20:] == NEVER).all()


@kernel
def promises(index, j, h, out):
    promised(index.promise, index.edges, index.in_use.shape[1], j, h.reshape(1, -1), 0, out)


def vectors_of(centres, j, clusters):
    """float32 (clusters, columns of the block + 1): the centres of block j."""
    panels = centres.vectors.reshape(len(centres.extra), -1, len(centres.vectors) * LANES // centres.extra.size, LANES)[j]
    vectors = panels.transpose(0, 2, 1).reshape(-1, panels.shape[1])[:clusters, : centres.edges[j + 1] - centres.edges[j]]
    return np.column_stack([vectors, centres.extra[j, :clusters]])


@pytest.mark.parametrize("blocks", [1, 4])
def test_rows_lie_with_the_centre_that_is_nearest_to_their_extended_direction(blocks):
    table = clustered()
    table[:300] *= 0.1
    table[7] = 0
    index = built(table, search(blocks))
    for j in range(blocks):
        rows = table[:, index.edges[j] : index.edges[j + 1]]
        lengths = np.linalg.norm(rows, axis=1)
        np.testing.assert_allclose(index.centres.limit[j], np.quantile(lengths, LIMIT), rtol=1e-6)
        longer = np.column_stack([rows, np.sqrt(np.maximum(index.centres.limit[j] ** 2 - lengths**2, 0))])
        centres = vectors_of(index.centres, j, 20)
        np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1, rtol=1e-5)
        scores = longer @ centres.T
        np.testing.assert_allclose(scores[np.arange(N), index.home[j]], scores.max(axis=1), rtol=1e-4, atol=1e-5)
        direction = directions(rows, index.centres.limit[j])
        np.testing.assert_allclose(direction, longer / np.linalg.norm(longer, axis=1, keepdims=True), rtol=1e-4, atol=1e-5)


def test_short_rows_do_not_hide_long_ones():
    """Rows of all lengths in every direction, looked at a fiftieth of them: the highest are among them."""
    rng = np.random.default_rng(0)
    n, dim = 20_000, 16
    table = aligned_zeros(n, dim)
    table[:] = rng.normal(size=(n, dim)) * np.exp(rng.normal(0, 1.5, (n, 1)))
    how = Search(1, 141, 400, n, 0.0, 1e-3, 1e9, from_sum=False, steps=0)
    index = indexing.build(table, n, dim, how, rng)
    probe, rows, n_found = look.new_probe(n, how), np.zeros((1, n), dtype=np.int32), np.zeros(1, dtype=np.int64)
    shares = []
    for h in rng.normal(size=(50, dim)).astype(np.float32):
        look.candidates_of(index, how, h[None], 0, 1, rows[0], np.zeros(2, dtype=np.int64), rows, n_found, probe)
        best = np.argsort(-(table @ h))[:20]
        shares.append(np.isin(best, rows[0, : n_found[0]]).mean())
    assert np.mean(shares) > 0.9


@pytest.mark.parametrize(
    ("n", "clusters", "blocks"), [(1, 1, 1), (5, 9, 4), (15, 4, 2), (40, 16, 8), (100, 17, 8), (300, 1, 4)]
)
def test_few_rows_and_any_number_of_clusters(n, clusters, blocks):
    table, h = clustered(n), a_query()
    how = search(blocks, clusters=clusters, looked_at=n, reach=2.0)
    index = indexing.build(table, n, DIM, how, np.random.default_rng(0))
    check(index, table)
    probe = look.new_probe(n, how)
    for step in range(5):
        table[:, :DIM] += np.float32(0.5) * np.random.default_rng(step).normal(size=(n, DIM)).astype(np.float32)
        for j in range(blocks):
            indexing.refresh(index, table, np.arange(n, dtype=np.int32), n, j, new_seeker(min(clusters, n)))
        check(index, table)
        z = blocks * block_scores(table[:, :DIM], h[:DIM], blocks)
        expected = {int(row) for line in z for row in np.flatnonzero(line > line.max() - 2.0)}
        rows, n_found = np.zeros((1, n), dtype=np.int32), np.zeros(1, dtype=np.int64)
        look.candidates_of(index, how, h[None], 0, 1, rows[0], np.zeros(2, dtype=np.int64), rows, n_found, probe)
        assert set(rows[0, : n_found[0]].tolist()) == expected


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, 1e18, -1e35])
@pytest.mark.parametrize("from_sum", [False, True])
def test_no_table_is_too_strange_to_be_looked_through(value, from_sum):
    """What diverges has to be told by its loss; until then nothing may hang or leave its memory."""
    table, h = clustered(), a_query()
    how = search(4, clusters=21, looked_at=100, reach=2.0, from_sum=from_sum)
    for share in (1.0, 0.3):
        table[: int(share * N), :DIM] = value
        index, probe = built(table, how), look.new_probe(N, how)
        for j in range(4):
            indexing.refresh(index, table, np.arange(N, dtype=np.int32), N, j, new_seeker(21))
        for scale in (1, 1e15):
            look_through(index, how, np.float32(scale) * h[None], probe)
            for j in range(4):
                visited = probe.visited[j, : probe.n_visited[j]]
                assert ((visited >= 0) & (visited < 21)).all()
                assert len(set(visited.tolist())) == len(visited)
        table = clustered()


def test_a_row_that_moves_while_it_is_asked_for_was_not_found():
    table, h = clustered(), a_query()
    how = search(clusters=20, looked_at=N)
    index, probe = built(table, how), look.new_probe(N, how)
    look_through(index, how, h[None], probe)
    row = int(index.ids[0, index.begin[0, 10]])
    assert place_of(index, probe, row) >= 0
    for slot in (index.begin[0, 3], index.begin[0, 15], index.ids.shape[1] - 1, 0):  # written before its home is
        index.slot[0, row] = slot
        assert place_of(index, probe, row) == -1


@kernel
def place_of(index, probe, row):
    return look.found_at(index, probe, 0, row)


def test_a_table_has_no_more_blocks_than_columns():
    assert search(8).of(5).blocks == 5
    assert search(8).of(100) == search(8)
