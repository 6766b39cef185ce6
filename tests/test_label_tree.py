"""Trees over labels: levels against exhaustive search, clusters, runs that were cut short, damaged
folders.
"""

import _thread
import contextlib
import itertools

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array

from embedx.classification import (
    classifier,
    clustering,
    label_tree,
    labelwise,
    tree_plans,
)
from embedx.classification.clustering import vectors_of
from embedx.engine import sparse_levels, tiles
from embedx.engine.sparse_levels import TileWeights
from embedx.errors import DataError
from embedx.labeled.data import Labels
from embedx.runtime import locks
from embedx.search.balanced_tree import SparseVectors, balanced_tree
from tests.support.checkpoints import checkpoints_of
from tests.support.label_data import ova, settings, topics, trained
from tests.support.label_training import train
from tests.support.notes import Notes
from tests.support.refusals import refused
from tests.support.sparse_weights import dense_of


def random_level(rng, first_node, n_features):
    """A level of random sparse weights, made of tiles, and the same weights as a matrix."""
    n_nodes = first_node[-1]
    w = np.where(
        rng.random((n_nodes, n_features)) < 0.3, rng.normal(size=(n_nodes, n_features)), 0
    ).astype(np.float32)
    tiles = []
    for group, (first, last) in enumerate(itertools.pairwise(first_node)):
        for at in range(first, last, 4):
            feature, lane = (
                part.astype(np.int32) for part in np.nonzero(w[at : min(at + 4, last)].T)
            )
            mixed = rng.permutation(len(feature))  # features come in any order
            tiles.append(
                TileWeights(
                    group, at, feature[mixed], lane[mixed], w[at + lane[mixed], feature[mixed]]
                )
            )
    bias = rng.normal(size=n_nodes).astype(np.float32)
    return sparse_levels.level_of(np.array(first_node), tiles, bias, n_features), w


def test_a_level_stores_weights_by_feature():
    rng = np.random.default_rng(0)
    level, w = random_level(rng, [0, 9, 9, 14, 15], 20)  # one group is empty
    np.testing.assert_array_equal(dense_of(level, 20), w)
    for c in range(level.n_groups):
        assert (np.diff(level.features[level.first_row[c] : level.first_row[c + 1]]) > 0).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_a_beam_of_all_nodes_is_the_exhaustive_search(threads):
    rng = np.random.default_rng(2)
    n_features, n = 30, 40
    upper, w_upper = random_level(rng, [0, 5], n_features)
    lower, w_lower = random_level(rng, [0, 3, 7, 8, 14, 20], n_features)
    x = random_array((n, n_features), density=0.3, rng=rng, dtype=np.float32, format="csr")
    features = csr_matrix(x)
    objective = ova("logistic")
    parent = np.repeat(np.arange(5), np.diff(lower.first_node))
    log_p = objective.log_label_probability(x @ w_lower.T + lower.bias)
    log_p = log_p + objective.log_label_probability(x @ w_upper.T + upper.bias)[:, parent]
    order = np.argsort(-log_p, axis=1)[:, :6]
    above = sparse_levels.best_nodes(
        features, upper, None, 5, objective.log_label_probability, threads
    )
    by_beam = sparse_levels.best_nodes(
        features, lower, above, 6, objective.log_label_probability, threads
    )
    np.testing.assert_array_equal(by_beam.node, order)
    np.testing.assert_allclose(
        by_beam.log_p, np.take_along_axis(log_p, order, 1), rtol=1e-4, atol=1e-5
    )
    labels = rng.permutation(25)[:20].astype(np.int32)
    tree = label_tree.LabelTree([upper, lower], labels)
    best = label_tree.search([tree], features, 6, 5, objective.log_label_probability, 25, threads)
    np.testing.assert_array_equal(best.node, labels[order])
    narrow = label_tree.search([tree], features, 6, 2, objective.log_label_probability, 25, threads)
    allowed = np.argsort(-(x @ w_upper.T + upper.bias), axis=1)[:, :2]
    is_allowed = (parent[None, :, None] == allowed[:, None, :]).any(axis=2)
    within = np.argsort(-np.where(is_allowed, log_p, -np.inf), axis=1)
    for row in range(n):
        m = min(6, is_allowed[row].sum())
        np.testing.assert_array_equal(narrow.node[row, :m], labels[within[row, :m]])
        assert np.isfinite(narrow.log_p[row, :m]).all()
        assert np.isneginf(narrow.log_p[row, m:]).all()
        assert len(set(narrow.node[row].tolist())) == 6


def test_trees_are_averaged_over_their_probabilities():
    rng = np.random.default_rng(4)
    n_features = 12
    features = csr_matrix(
        random_array((9, n_features), density=0.5, rng=rng, dtype=np.float32, format="csr")
    )
    objective = ova("logistic")
    trees = []
    p = np.zeros((9, 7))
    for _ in range(3):
        level, w = random_level(rng, [0, 7], n_features)
        labels = rng.permutation(7).astype(np.int32)
        trees.append(label_tree.LabelTree([level], labels))
        p[:, labels] += np.exp(objective.log_label_probability(features @ w.T + level.bias)) / 3
    best = label_tree.search(trees, features, 4, 1, objective.log_label_probability, 7, 1)
    np.testing.assert_array_equal(best.node, np.argsort(-p, axis=1)[:, :4])
    np.testing.assert_allclose(np.exp(best.log_p), -np.sort(-p, axis=1)[:, :4], rtol=1e-4)


@pytest.mark.parametrize(("n_kept", "block"), [(1, 99), (3, 5), (20, 99)])
def test_the_vector_of_a_label_is_the_sum_of_its_examples(n_kept, block, monkeypatch):
    rng = np.random.default_rng(0)
    # sums are zero again and again on the way
    x = rng.choice([-1.0, 0.0, 1.0, 2.5], (40, 9)).astype(np.float32)
    lists = [rng.choice(12, rng.integers(0, 6), replace=False).tolist() for _ in range(40)]
    monkeypatch.setattr(clustering, "MAX_FEATURES", n_kept)
    monkeypatch.setattr(clustering, "BLOCK_LABELS", block)
    labels = np.concatenate(lists).astype(int)
    rows = np.repeat(np.arange(len(lists)), [len(labels_of_row) for labels_of_row in lists])
    vectors = vectors_of(csr_matrix(x), Labels.of_rows(lists), np.arange(12))
    for k in range(12):
        total = x[rows[labels == k]].sum(axis=0)
        order = np.lexsort((np.arange(9), -np.abs(total)))[:n_kept]
        expected = np.zeros(9)
        expected[order] = total[order]
        expected /= max(np.linalg.norm(expected), 1e-15)
        span = slice(*vectors.offsets[k : k + 2])
        assert len(set(vectors.columns[span].tolist())) == span.stop - span.start <= n_kept
        vector = np.zeros(9)
        vector[vectors.columns[span]] = vectors.values[span]
        np.testing.assert_allclose(vector, expected, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 17])
def test_clusters_of_equal_vectors_are_balanced(n):
    vectors = SparseVectors(
        np.arange(n + 1, dtype=np.int64), np.zeros(n, dtype=np.int32), np.ones(n, dtype=np.float32)
    )
    depth = int(np.log2(n))
    order, edges = balanced_tree(vectors, 1, depth, 0, 1)
    assert sorted(order.tolist()) == list(range(n))
    assert np.diff(edges).min() >= 1
    assert np.ptp(np.diff(edges)) <= 1


@pytest.mark.parametrize(("depth", "arity"), [(0, 2), (1, 2), (4, 4), (5, 4), (5, 64)])
def test_a_tree_plan_has_every_label_once(depth, arity):
    n = 77
    edges = np.linspace(0, n, 2**depth + 1).astype(np.int64)
    plan = tree_plans.tree_plan(np.arange(n, dtype=np.int32), depth, edges, arity)
    nodes_above = 1
    for level in plan.levels[:-1]:
        assert len(level.first_node) - 1 == nodes_above
        assert np.diff(level.first_node).max() <= arity
        nodes_above = level.first_node[-1]
        assert set(level.node_of_place.tolist()) == set(range(nodes_above))
    assert len(plan.levels[-1].first_node) - 1 == nodes_above == 2**depth
    for level in plan.levels:
        nodes = [node for _, first, last in level.tiles for node in range(first, last)]
        assert nodes == list(range(level.first_node[-1]))
        assert all(last - first <= tiles.TILE_WIDTH for _, first, last in level.tiles)
    np.testing.assert_array_equal(plan.levels[-1].node_of_place, np.arange(n))


def test_labels_alone_are_trained_on_examples_that_the_levels_above_assign_to_their_group(
    monkeypatch,
):
    data = topics()
    prepare = labelwise.LabelwiseTraining.prepare
    n_levels = 0

    def checked(self, level_number):
        nonlocal n_levels
        prepare(self, level_number)
        t, plan = self.level_plans[level_number]
        group_of_label = plan.node_above[self.place_of_label[t]]
        group_of_member = np.repeat(np.arange(plan.n_groups), np.diff(self.members.indptr))
        n_matched = 0
        for i in range(self.n_examples):
            of_labels = set(group_of_label[data.labels[i]].tolist())
            reached = set(group_of_member[self.members.indices == i].tolist())
            assert reached >= of_labels
            n_matched += len(reached - of_labels)
            if self.is_of_labels(level_number):
                assert len(reached) >= labelwise.MATCHED_NODES
                assert len(reached - of_labels) <= labelwise.MATCHED_NODES
        assert (n_matched > 0) == self.is_of_labels(level_number)
        n_levels += 1

    monkeypatch.setattr(labelwise.LabelwiseTraining, "prepare", checked)
    trained(data, weights="tree", leaf_size=8, arity=4)
    assert n_levels == 3


@pytest.mark.parametrize("stop_after", [0, 2, 9])
def test_an_interrupted_run_resumes_to_the_same_model(tmp_path, stop_after, monkeypatch):
    options = {"weights": "tree", "leaf_size": 8, "arity": 4, "trees": 2}
    data = topics()
    whole = trained(data, **options)
    count = 0
    train_tile = labelwise.LabelwiseTraining.train_chunk

    def interrupted(self, *arguments):
        nonlocal count
        if count == stop_after:
            _thread.interrupt_main()
            return None
        count += 1
        return train_tile(self, *arguments)

    monkeypatch.setattr(labelwise.LabelwiseTraining, "train_chunk", interrupted)
    checkpoints = checkpoints_of(tmp_path / "model")
    progress = Notes()
    with contextlib.suppress(KeyboardInterrupt):  # raised where there is no model yet
        train(data, ova(), settings(**options), checkpoints=checkpoints, progress=progress)
        assert progress.notes[-1].startswith("interrupted: ")
    monkeypatch.undo()
    assert count == stop_after
    locks.unlock(checkpoints.lock)
    checkpoints = checkpoints_of(tmp_path / "model", resume=True)
    assert checkpoints.is_resuming == (stop_after > 0)
    again = train(data, ova(), settings(**options), checkpoints=checkpoints).classifier
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(array, again.arrays[name])
    checkpoints.remove()


def test_a_folder_gives_the_same_answers(tmp_path):
    data = topics()
    for options in ({"weights": "sparse"}, {"weights": "tree", "leaf_size": 8, "trees": 2}):
        model = trained(data, **options)
        loaded = classifier.load(model.save(tmp_path / options["weights"]))
        for best, loaded_best in zip(
            model.iter_top_k(data.features, 5), loaded.iter_top_k(data.features, 5), strict=True
        ):
            np.testing.assert_array_equal(best[0], loaded_best[0])
            np.testing.assert_array_equal(best[1], loaded_best[1])
        assert loaded.evaluate(data) == model.evaluate(data)


def damages():
    """Each array with a change that would lead out of the others."""
    yield "tree_levels", lambda array: array * 2
    yield "tree_levels", lambda array: array[:0]
    yield "tree_first_node", lambda array: array[::-1].copy()
    yield (
        "tree_n_rows",
        lambda array: np.where(np.arange(len(array)) == 0, -1, array).astype(array.dtype),
    )
    yield "tree_features", lambda array: array + 10**6
    yield "tree_features", lambda array: array - 10**6
    yield "tree_n_weights", lambda array: array + array.dtype.type(1)
    yield "tree_child", lambda array: array + array.dtype.type(60_000)
    yield "tree_child", lambda array: np.append(array[:-1], array[-1] + array.dtype.type(60_000))
    yield "tree_child", lambda array: array.astype(np.int32) - 10**6
    yield "tree_weight", lambda array: array[:-1]
    yield "tree_bias", lambda array: np.append(array, np.float32(0))
    yield "tree_labels", lambda array: np.zeros_like(array)
    yield "tree_labels", lambda array: array + 10**6


def test_a_damaged_tree_is_reported(tmp_path):
    folder = trained(topics(), weights="tree", leaf_size=8, epochs=1).save(tmp_path / "model")
    for name, damage in damages():
        array = np.load(folder / f"{name}.npy")
        np.save(folder / f"{name}.npy", damage(array))
        with pytest.raises(DataError) as raised:
            classifier.load(folder)
        assert raised.value.file.name.startswith("tree_")
        np.save(folder / f"{name}.npy", array)
    classifier.load(folder)


def test_a_search_by_an_index_is_refused():
    model = trained(topics(), weights="tree", leaf_size=8, epochs=1)
    with refused("search", quoting=("its own tree",)):
        model.searched_top_k(topics().features)
    with refused("search", quoting=("dense weights",)):
        trained(topics(), weights="sparse", epochs=1).searched_top_k(topics().features)
    with refused("weights", value="tree"):
        model.scores(topics().features)
