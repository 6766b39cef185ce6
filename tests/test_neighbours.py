"""Neighbours: search and blend beside brute force, what `auto` takes, and models that have them."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random

from embedx.classification import classifier, neighbours
from embedx.classification.neighbours import Blend, NearestRows, Neighbours
from embedx.classification.row_blocks import joined_blocks
from embedx.errors import DataError
from embedx.evaluation.labels import hits
from embedx.labeled.data import Labels
from embedx.search.blended_labels import RowLabels
from embedx.search.nearest_rows import nearest_rows, row_index
from tests.support.label_data import topics
from tests.support.noisy_labels import answers, largest_error, noisy, trained
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused


def some_rows(n, n_features, seed, signed, equal=()):
    """Rows whose features are as rare as words, some of them equal, one empty."""
    rng = np.random.default_rng(seed)
    common = 1 / np.arange(1, n_features + 1) ** 0.7
    x = (rng.random((n, n_features)) < common) * rng.random((n, n_features)) * (1 - 0.9 * common)
    if signed:
        x *= rng.choice([-1, 1], x.shape)
    x[1] = x[n // 2] = x[n - 1]
    x[0] = 0
    for row, other in equal:
        x[row] = other
    return csr_matrix(x.astype(np.float32))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("n", "k"), [(1500, 10), (5, 9), (66_000, 3)])
@pytest.mark.slow
def test_the_nearest_rows_are_those_of_brute_force(n, k, signed):
    rows = some_rows(n, 150, 0, signed)
    queries = some_rows(80, 150, 1, signed, [(3, rows[[1]].toarray()), (4, 0)])
    index = row_index(rows)
    ids, cosines = nearest_rows(index, queries, k, 1)
    for pair in zip(nearest_rows(index, queries, k, 3), (ids, cosines), strict=True):
        np.testing.assert_array_equal(*pair)
    dense = [matrix.toarray().astype(np.float64) for matrix in (queries, rows)]
    unit = [x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-30) for x in dense]
    every = unit[0] @ unit[1].T
    best = np.pad(-np.sort(-np.maximum(every, 0), axis=1), ((0, 0), (0, k)))[:, :k]
    np.testing.assert_allclose(cosines, best, atol=1e-5)
    is_near = cosines > 0
    np.testing.assert_allclose(
        np.take_along_axis(every, ids, 1)[is_near], cosines[is_near], atol=1e-5
    )
    assert all(
        len(set(row[is_there])) == is_there.sum()
        for row, is_there in zip(ids, is_near, strict=True)
    )
    assert ids[3, :3].tolist() == [1, n // 2, n - 1]
    assert not is_near[4].any()


@pytest.mark.parametrize("root", neighbours.ROOTS)
def test_a_blend_equals_its_formula(root):
    rng = np.random.default_rng(0)
    n = 50
    n_labels = 30
    blend = Blend(4, 2, 0.3, root)
    labels = Labels.of_rows(
        [rng.choice(n_labels, rng.integers(0, 5), replace=False) for _ in range(20)]
    )
    table = Neighbours(
        row_index(csr_matrix((20, 1), dtype=np.float32)),
        RowLabels(labels.offsets, labels.ids),
        n_labels,
    )
    ids = np.array([rng.choice(n_labels, 8, replace=False) for _ in range(n)], dtype=np.int32)
    p = -np.sort(-rng.random((n, 8)), axis=1)
    near = NearestRows(
        np.array([rng.choice(20, 6, replace=False) for _ in range(n)], dtype=np.int32),
        rng.random((n, 6), np.float32),
    )
    near.cosines[0] = 0
    best, scores = table.blended(ids, p, near, blend, 5, threads=2)
    for e in range(n):
        blended = np.zeros(n_labels)
        blended[ids[e]] = p[e]
        weights = near.cosines[e, :4] ** 2.0
        q = np.zeros(n_labels)
        for row, weight in zip(near.ids[e], weights / max(weights.sum(), 1e-30), strict=False):
            q[labels[row]] += weight
        expected = 0.7 * blended**root + 0.3 * q**root
        np.testing.assert_allclose(scores[e], -np.sort(-expected)[:5], atol=1e-6)
        np.testing.assert_allclose(expected[best[e]], scores[e], atol=1e-6)
        assert len(set(best[e])) == 5


def clustered(n, seed):
    """Rows around prototypes, whose labels only the prototype tells: no sum over features does."""
    rng = np.random.default_rng(seed)
    fixed = np.random.default_rng(9)
    prototypes = random(200, 60, 0.25, random_state=3).toarray()
    names = [fixed.choice(40, 3, replace=False) for _ in prototypes]
    which = rng.integers(0, len(prototypes), n)
    x = prototypes[which] * rng.uniform(0.7, 1.3, (n, 60))
    data = noisy(n, seed)
    return type(data)(
        csr_matrix(x.astype(np.float32)), Labels.of_rows([names[k] for k in which]), 40
    )


@pytest.mark.parametrize(
    "options",
    [{"weights": "sparse"}, {"weights": "tree", "leaf_size": 4}, {"objective": "softmax"}],
)
@pytest.mark.slow
def test_auto_takes_neighbours_that_help_and_all_works_with_them(tmp_path, options):
    data = clustered(2000, 0)
    test = clustered(2000, 1)
    notes = Notes()
    blended = trained(data, progress=notes, **options)
    without = trained(data, neighbours="none", **options)
    assert any(
        "nearest of 1,800 training rows" in line and "index takes" in line for line in notes.notes
    )
    metrics = blended.evaluate(test)
    before = without.evaluate(test)
    assert metrics["p@1"] > before["p@1"] + 0.02, (metrics, before)
    assert metrics.get("log_likelihood") == before.get("log_likelihood")
    p, is_right = answers(blended, test)
    assert largest_error(p, is_right) < 0.08
    ids, _ = joined_blocks(blended.iter_top_k(test.features, 5, threads=2))
    assert hits(ids, test.labels)[:, 0].mean() == metrics["p@1"]
    sets = Labels.of_matrix(blended.predict_set(test.features, coverage=0.8))

    def pairs(labels):
        """A number for each pair of a row and a label."""
        return labels.row_of_id * test.n_labels + labels.ids

    is_covered = np.isin(pairs(test.labels), pairs(sets))
    assert is_covered.mean() == pytest.approx(0.8, abs=0.05)
    loaded = classifier.load(blended.save(tmp_path / "model"))
    best = joined_blocks(blended.iter_top_k(test.features, 5))
    loaded_best = joined_blocks(loaded.iter_top_k(test.features, 5, threads=1))
    np.testing.assert_array_equal(best, loaded_best)
    assert [part[0].shape for part in loaded.iter_top_k(test.features[:2], 0)] == [(2, 0)]


def test_damaged_neighbours_are_refused(tmp_path):
    blended = trained(clustered(2000, 0), weights="sparse")
    for name, damage in (
        ("neighbour_features", lambda a: a + 10**6),
        ("neighbour_labels", lambda a: -a - 1),
        ("neighbour_offsets", lambda a: a[::-1].copy()),
        # which overflow in differences
        ("neighbour_offsets", lambda a: np.array([0, 2**63 - 1, -2, *a[3:]])),
        ("neighbour_blend", lambda a: -a),
        ("neighbour_calibration", lambda a: a[:, ::-1].copy()),
    ):
        arrays = blended.arrays | {name: damage(blended.arrays[name])}
        broken = type(blended)(
            blended.objective,
            arrays,
            blended.schema,
            blended.counts,
            blended.settings,
            blended.facts,
        )
        with pytest.raises(DataError) as raised:
            classifier.load(broken.save(tmp_path / "broken", overwrite=True))
        assert Path(raised.value.file).name == f"{name}.npy"


def test_neighbours_are_used_if_they_help_or_if_their_number_is_given():
    data = noisy(2000, 0)
    notes = Notes()
    shuffled = type(data)(
        data.features, data.labels.rows(np.random.default_rng(5).permutation(2000)), data.n_labels
    )
    assert not trained(shuffled, progress=notes).has_neighbours
    assert lines_with(notes.notes, "no neighbours, ", "P@1, P@3 and P@5")
    assert trained(data, neighbours="7").arrays["neighbour_blend"][0] == 7
    few = topics(60)
    assert not trained(few).has_neighbours
    np.testing.assert_array_equal(
        trained(few, neighbours="3").arrays["neighbour_blend"], [3, *neighbours.USUAL]
    )
    with refused("neighbours", value="5"):
        trained(noisy(200, 0, dense=True), neighbours="5")
