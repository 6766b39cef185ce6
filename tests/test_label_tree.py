"""Sparse weights and trees over labels: against dense loops, exhaustive search, and data at the edge of what there is."""

import _thread
import contextlib
import dataclasses
import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
from reference_tiles import naive_dual_tile, naive_tile
from scipy.sparse import csr_matrix, random_array

from embedx import objectives
from embedx.classification import classifier, label_tree, tree_training
from embedx.classification.clustering import clustered_order
from embedx.classification.resolve import default_objective, resolved
from embedx.classification.settings import ClassifySettings
from embedx.classification.task import train
from embedx.engine import sparse_levels, tiles
from embedx.engine.examples import Csr, csr_of, examples_of
from embedx.engine.label_vectors import label_vectors
from embedx.engine.loading import load_kernel
from embedx.engine.select import JOINT
from embedx.errors import EmbedxError
from embedx.kernels.random import stream_key
from embedx.labeled.data import Labeled, Labels
from embedx.objectives import binary_tree
from embedx.optimizers import update_rule
from embedx.search.balanced_tree import SparseVectors, balanced_tree
from embedx.storage import locks
from embedx.training.checkpoint import Checkpoints, Request
from embedx.training.progress import Silent

KEY = stream_key(3, 5)


def of_lists(lists):
    """`Labels` from a list of labels for each row."""
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in lists])]).astype(np.int64)
    return Labels(offsets, np.array([k for each in lists for k in each], dtype=np.int32))


def topics(n=600, n_labels=90, n_features=200, seed=0, several=True):
    """Rows of sparse features whose labels can be told: each label has three features of its own, and there is noise."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, n_features, (n_labels, 3))
    lists = [np.sort(rng.choice(n_labels, rng.integers(1, 4) if several else 1, replace=False)) for _ in range(n)]
    x = np.zeros((n, n_features), dtype=np.float32)
    for i, labels in enumerate(lists):
        x[i, own[labels].ravel()] = 1
        x[i, rng.integers(0, n_features, 3)] += 0.5
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return Labeled(csr_matrix(x), of_lists([each.tolist() for each in lists]), n_labels)


def ova(loss="squared-hinge"):
    found = objectives.find("ova")
    return found(found.Settings(loss=loss))


def settings(loss="squared-hinge", **options):
    by_steps = options.get("weights") == "dense" or loss == "logistic" or options.get("bias")
    return ClassifySettings(
        **({"epochs": 6, "threads": 1} | ({"batch_size": 16, "learning_rate": 0.3} if by_steps else {}) | options)
    )


def trained(data, *, loss="squared-hinge", **options):
    return train(data, ova(loss), settings(loss, **options)).classifier


# ---- a tile against loops


@pytest.mark.parametrize("loss", ["squared-hinge", "logistic"])
@pytest.mark.parametrize(
    ("optimizer", "l2", "lr", "has_bias", "first_state"),
    [
        ("adagrad", 0, 0.3, True, 0), ("adagrad", 0.01, 0.3, True, 0), ("sgd", 0, 0.5, False, 0), ("sgd", 0.01, 0.5, True, 0),
        ("rowwise-adagrad", 0, 0.3, True, 0), ("adagrad", 0, 0.3, True, 0.01), ("rowwise-adagrad", 0, 0.3, True, 0.1),
    ],
)  # fmt: skip
def test_a_tile_is_trained_as_by_loops_on_rows_that_are_masked_to_their_support(loss, optimizer, l2, lr, has_bias, first_state):
    rng = np.random.default_rng(1)
    n, n_features, n_labels = 60, 25, 7
    x = np.asarray(random_array((n, n_features), density=0.2, rng=rng).todense(), dtype=np.float32)
    y = rng.random((n, n_labels)) < 0.1
    y[10] = False  # a row without labels meets nothing
    examples = examples_of(csr_matrix(x), of_lists([np.flatnonzero(row).tolist() for row in y]))
    members = np.flatnonzero(rng.random(n) < 0.8)  # of a group
    y_of = y.copy()
    y_of[np.setdiff1d(np.arange(n), members)] = False
    positives = csr_of(np.nonzero(y_of)[1], np.nonzero(y_of)[0], n_labels)
    rule = update_rule(optimizer, l2=l2, max_norm=None, row_length=5.0)
    objective = ova(loss)
    plan = tiles.TilePlan(
        8, 1.0, has_bias, keeps_accidental_hits=False, positives=JOINT, is_masked=True, optimizer=rule,
        constants=objective.constants(1, 1), epochs=4, lr=np.float32(lr), falls=True, threshold=np.float32(-1), key=KEY,
        first_state=np.float32(first_state),
    )  # fmt: skip
    worker = tiles.new_workspace(n, len(examples.values), n_features, 8, rule)
    of_group = Csr(np.array([0, 0, len(members)], dtype=np.int64), members.astype(np.int32))
    bias = np.zeros(n_labels, dtype=np.float32)
    arguments = (examples, tiles.LabelGroups(of_group, positives, bias), 1, 0, n_labels, plan, worker)
    functions = load_kernel(tiles.train_tile, objective.coefficients, None, arguments, Silent())
    for _ in range(2):  # what a tile leaves behind does not matter to the next
        bias[:] = 0
        found_loss, kept = tiles.train_tile(*functions, *arguments)
        feature, label, value = tiles.kept_weights(arguments[1], 0, n_labels, plan, worker, kept)
    found = np.zeros((n_labels, n_features + 1))
    found[label, feature] = value
    found[:, -1] = bias
    weight = y.any(axis=1).astype(float)
    expected, expected_loss = naive_tile(
        x[members].astype(np.float64), y[members], weight[members], plan, optimizer, l2, loss
    )  # fmt: skip
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=2e-4, rtol=2e-3)
    assert found_loss == pytest.approx(expected_loss, rel=1e-3)


@pytest.mark.parametrize(("c", "epochs"), [(1.0, 3), (0.2, 4), (5.0, 2), (1.0, 200)])
def test_a_tile_is_trained_by_the_dual_as_by_loops_and_comes_to_the_optimum(c, epochs):
    rng = np.random.default_rng(2)
    n, n_features, n_labels = 50, 20, 6
    x = np.asarray(random_array((n, n_features), density=0.3, rng=rng).todense(), dtype=np.float32)
    y = rng.random((n, n_labels)) < 0.15
    y[7] = False
    rows = csr_matrix(x)
    examples = examples_of(rows, of_lists([np.flatnonzero(row).tolist() for row in y]))
    positives = csr_of(np.nonzero(y)[1], np.nonzero(y)[0], n_labels)
    objective = ova()
    plan = tiles.TilePlan(
        1, 1.0, has_bias=True, keeps_accidental_hits=False, positives=JOINT, is_masked=True,
        optimizer=update_rule("dcd"), constants=objective.constants(1, 1), lr=np.float32(0), epochs=epochs,
        threshold=np.float32(-1), key=KEY, c=np.float32(c),
    )  # fmt: skip
    worker = tiles.new_workspace(n, len(examples.values), n_features, 1, update_rule("dcd"), is_dual=True)
    members = Csr(np.array([0, n], dtype=np.int64), np.arange(n, dtype=np.int32))
    bias = np.ones(n_labels, dtype=np.float32)
    arguments = (examples, tiles.LabelGroups(members, positives, bias), 0, 0, n_labels, plan, worker)
    functions = load_kernel(tiles.train_tile_dual, objective.dual_steps, None, arguments, Silent())
    _, kept = tiles.train_tile_dual(*functions, *arguments)
    feature, label, value = tiles.kept_weights(arguments[1], 0, n_labels, plan, worker, kept)
    found = np.zeros((n_labels, n_features + 1))
    found[label, feature] = value
    found[:, -1] = bias
    weight = y.any(axis=1).astype(float)
    expected, support = naive_dual_tile(x.astype(np.float64), y, weight, c, plan)
    np.testing.assert_allclose(found, expected, atol=2e-4)
    if epochs < 100:
        return
    with_one, sign = np.column_stack([x, np.ones(n)]).astype(np.float64), np.where(y, 1.0, -1.0)
    used = np.maximum(weight[:, None], y)

    def objective_and_slope(w):
        short = np.maximum(0, 1 - sign * (with_one @ w.T)) * used
        return 0.5 * np.sum(w * w) + c * np.sum(short**2), (w - 2 * c * (sign * short).T @ with_one) * support

    least, w = np.inf, np.zeros_like(found)
    for _ in range(3000):  # of gradient descent, on a smooth and strongly convex function
        least, slope = objective_and_slope(w)
        w -= 0.004 * slope
    assert np.abs(slope).max() < 1e-4
    assert objective_and_slope(found)[0] < 1.01 * least


# ---- levels


def dense_of(level, n_features):
    """float64 (n_nodes, n_features): a level's weights."""
    w = np.zeros((len(level.bias), n_features))
    for c in range(level.n_groups):
        for row in range(level.first_row[c], level.first_row[c + 1]):
            for at in range(level.first_weight[row], level.first_weight[row + 1]):
                w[level.first_node[c] + level.child[at], level.features[row]] = level.weight[at]
    return w


def random_level(rng, first_node, n_features):
    """A level of random sparse weights, made of tiles, and the same weights as a matrix."""
    n_nodes = first_node[-1]
    w = np.where(rng.random((n_nodes, n_features)) < 0.3, rng.normal(size=(n_nodes, n_features)), 0).astype(np.float32)
    tiles = []
    for group, (first, last) in enumerate(itertools.pairwise(first_node)):
        for at in range(first, last, 4):
            feature, lane = (part.astype(np.int32) for part in np.nonzero(w[at : min(at + 4, last)].T))
            mixed = rng.permutation(len(feature))  # features come in any order
            tiles.append((group, at, feature[mixed], lane[mixed], w[at + lane[mixed], feature[mixed]]))
    bias = rng.normal(size=n_nodes).astype(np.float32)
    return sparse_levels.level_of(np.array(first_node), tiles, bias, n_features), w


def test_a_level_stands_by_feature():
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
    above = sparse_levels.best_nodes(features, upper, None, 5, objective.log_label_probability, threads)
    found = sparse_levels.best_nodes(features, lower, above, 6, objective.log_label_probability, threads)
    np.testing.assert_array_equal(found.node, order)
    np.testing.assert_allclose(found.log_p, np.take_along_axis(log_p, order, 1), rtol=1e-4, atol=1e-5)
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
    features = csr_matrix(random_array((9, n_features), density=0.5, rng=rng, dtype=np.float32, format="csr"))
    objective = ova("logistic")
    trees, p = [], np.zeros((9, 7))
    for _ in range(3):
        level, w = random_level(rng, [0, 7], n_features)
        labels = rng.permutation(7).astype(np.int32)
        trees.append(label_tree.LabelTree([level], labels))
        p[:, labels] += np.exp(objective.log_label_probability(features @ w.T + level.bias)) / 3
    found = label_tree.search(trees, features, 4, 1, objective.log_label_probability, 7, 1)
    np.testing.assert_array_equal(found.node, np.argsort(-p, axis=1)[:, :4])
    np.testing.assert_allclose(np.exp(found.log_p), -np.sort(-p, axis=1)[:, :4], rtol=1e-4)


# ---- clusters


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n_kept", [1, 3, 20])
def test_the_vector_of_a_label_is_the_sum_of_its_examples(n_kept, threads):
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 0.0, 1.0, 2.5], (40, 9)).astype(np.float32)  # sums are zero again and again on the way
    lists = [rng.choice(12, rng.integers(0, 6), replace=False).tolist() for _ in range(40)]
    examples = examples_of(csr_matrix(x), of_lists(lists))
    rows, labels = (np.array(each) for each in zip(*((i, k) for i, own in enumerate(lists) for k in own), strict=True))
    found = label_vectors(examples, csr_of(labels, rows, 12), 9, n_kept, threads)
    for k in range(12):
        total = x[rows[labels == k]].sum(axis=0)
        order = np.lexsort((np.arange(9), -np.abs(total)))[:n_kept]
        expected = np.zeros(9)
        expected[order] = total[order]
        expected /= max(np.linalg.norm(expected), 1e-15)
        span = slice(*found.offsets[k : k + 2])
        assert len(set(found.columns[span].tolist())) == span.stop - span.start <= n_kept
        vector = np.zeros(9)
        vector[found.columns[span]] = found.values[span]
        np.testing.assert_allclose(vector, expected, atol=1e-6)


def test_clusters_are_balanced_and_of_like_vectors():
    rng = np.random.default_rng(0)
    n_clusters, of_each, n_columns = 8, 13, 64
    cluster = np.repeat(np.arange(n_clusters), of_each)
    x = 0.05 * rng.random((len(cluster), n_columns))
    for c in range(n_clusters):
        x[cluster == c, 8 * c : 8 * c + 8] += 1
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    sparse = csr_matrix(x[rng.permutation(len(x))].astype(np.float32))
    vectors = SparseVectors(sparse.indptr.astype(np.int64), sparse.indices, sparse.data)
    order, edges = balanced_tree(vectors, n_columns, 3, 0, 1)
    assert sorted(order.tolist()) == list(range(len(x)))
    assert set(np.diff(edges).tolist()) == {of_each}
    of = sparse.toarray().reshape(len(x), n_clusters, 8).sum(axis=2).argmax(axis=1)
    # Halves of halves may cut a cluster; chance would put a like vector beside one in one of eight places.
    assert np.mean([np.bincount(of[order[a:b]]).max() / (b - a) for a, b in itertools.pairwise(edges)]) > 0.8
    again, _ = balanced_tree(vectors, n_columns, 3, 0, 2)
    np.testing.assert_array_equal(again, order)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 17])
def test_clusters_of_vectors_that_are_all_alike_have_the_sizes_that_they_should(n):
    vectors = SparseVectors(np.arange(n + 1, dtype=np.int64), np.zeros(n, dtype=np.int32), np.ones(n, dtype=np.float32))
    depth = int(np.log2(n))
    order, edges = balanced_tree(vectors, 1, depth, 0, 1)
    assert sorted(order.tolist()) == list(range(n))
    assert np.diff(edges).min() >= 1
    assert np.ptp(np.diff(edges)) <= 1


@pytest.mark.parametrize(("depth", "arity"), [(0, 2), (1, 2), (4, 4), (5, 4), (5, 64)])
def test_a_plan_reaches_every_label_once(depth, arity):
    n = 77
    edges = np.linspace(0, n, 2**depth + 1).astype(np.int64)
    plan = tree_training.plan_of(np.arange(n, dtype=np.int32), depth, edges, arity)
    nodes_above = 1
    for level in plan.levels[:-1]:
        assert len(level.first_node) - 1 == nodes_above
        assert np.diff(level.first_node).max() <= arity
        nodes_above = level.first_node[-1]
        assert set(level.node_of_place.tolist()) == set(range(nodes_above))
    assert len(plan.levels[-1].first_node) - 1 == nodes_above == 2**depth
    for level in plan.levels:
        met = [node for _, first, last in level.tiles for node in range(first, last)]
        assert met == list(range(level.first_node[-1]))
        assert all(last - first <= tiles.WIDTH for _, first, last in level.tiles)
    np.testing.assert_array_equal(plan.levels[-1].node_of_place, np.arange(n))


# ---- the whole


@pytest.mark.parametrize(
    ("weights", "loss", "bias"),
    [("sparse", "squared-hinge", "zero"), ("tree", "logistic", "zero"), ("tree", "squared-hinge", "frequency")],
)
def test_sparse_weights_rank_unseen_rows_as_dense_ones_do(weights, loss, bias):
    data, test = topics(seed=0), topics(seed=0, n=900).rows(np.arange(600, 900))
    p = {}
    for kind in ("dense", weights):
        found = trained(data, loss=loss, weights=kind, bias=bias, **({"leaf_size": 8, "beam": 4} if kind == "tree" else {}))
        p[kind] = found.evaluate(test)["p@1"]
    assert p["dense"] > 0.8
    assert p[weights] > p["dense"] - 0.05


@pytest.mark.parametrize("weights", ["sparse", "tree"])
@pytest.mark.parametrize("loss", ["squared-hinge", "logistic"])
def test_the_scale_of_the_features_changes_nothing(weights, loss):
    data, own = topics(), {"leaf_size": 8} if weights == "tree" else {}
    large = Labeled((data.features * np.float32(1024)).tocsr(), data.labels, data.n_labels)
    options = {"weights": weights, **own, **({"optimizer": None} if loss == "squared-hinge" else {})}
    for each in ({}, {"l2": 1e-3}):
        scaled = {"l2": each["l2"] * 1024**2} if each else {}
        found, same = trained(data, loss=loss, **options, **each), trained(large, loss=loss, **options, **scaled)
        assert len(found.arrays["tree_weight"]) == len(same.arrays["tree_weight"]) > 0
        np.testing.assert_allclose(found.arrays["tree_weight"], 1024 * same.arrays["tree_weight"], rtol=1e-4)
        assert found.evaluate(data)["p@1"] == same.evaluate(large)["p@1"] > 0.8


def test_scores_of_sparse_weights_are_those_of_their_rows_and_unseen_labels_are_there():
    data = topics()
    data = Labeled(data.features, data.labels, data.n_labels + 2)  # two labels that no row has
    found = trained(data, weights="sparse", weight_threshold=0.02)
    level, labels = found.trees[0].levels[0], found.trees[0].labels
    assert len(labels) == data.n_labels - 2
    z = data.features @ dense_of(level, data.n_features).T + level.bias
    np.testing.assert_allclose(found.scores(data.features)[:, labels], z, atol=1e-5)
    metrics = found.evaluate(data)
    assert np.isfinite(metrics["log_likelihood"])
    ids, p = (np.concatenate(each) for each in zip(*found.top_k(data.features, 5), strict=True))
    np.testing.assert_array_equal(ids[:, 0], found.scores(data.features).argmax(axis=1))
    assert ((p >= 0) & (p <= 1)).all()
    assert np.abs(level.weight).min() > 0.02


@pytest.mark.parametrize("options", [{"weights": "sparse"}, {"weights": "tree", "leaf_size": 8, "arity": 4, "trees": 2}])
def test_the_number_of_threads_changes_nothing(options):
    one, three = (trained(topics(), **options, threads=threads) for threads in (1, 3))
    assert one.arrays.keys() == three.arrays.keys()
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, three.arrays[name])
    other = trained(topics(), **options, seed=9)
    assert not np.array_equal(one.arrays["tree_weight"], other.arrays["tree_weight"])


@pytest.mark.parametrize("stop_after", [0, 2, 4, 9])
def test_a_run_that_was_cut_short_goes_on_to_the_same_model(tmp_path, stop_after, monkeypatch):
    options = {"weights": "tree", "leaf_size": 8, "arity": 4, "trees": 2}
    data = topics()
    whole = trained(data, **options)
    request = Request("classify", {}, 1e9, False)
    count = 0
    train_tile = tree_training.TreeTraining.train

    def interrupted(self, *arguments):
        nonlocal count
        if count == stop_after:
            _thread.interrupt_main()
            return None
        count += 1
        return train_tile(self, *arguments)

    monkeypatch.setattr(tree_training.TreeTraining, "train", interrupted)
    checkpoints = Checkpoints(tmp_path / "model", request, False, Silent())
    with contextlib.suppress(KeyboardInterrupt):  # raised where there is no model yet
        train(data, ova(), settings(**options), checkpoints=checkpoints)
    monkeypatch.undo()
    assert count == stop_after
    locks.unlock(checkpoints.lock)
    checkpoints = Checkpoints(tmp_path / "model", dataclasses.replace(request, resumes=True), False, Silent())
    assert checkpoints.resumes == (stop_after > 0)
    again = train(data, ova(), settings(**options), checkpoints=checkpoints).classifier
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(array, again.arrays[name])
    checkpoints.remove()


def test_a_folder_gives_the_same_answers(tmp_path):
    data = topics()
    for options in ({"weights": "sparse"}, {"weights": "tree", "leaf_size": 8, "trees": 2}):
        found = trained(data, **options)
        loaded = classifier.load(found.save(tmp_path / options["weights"]))
        for ours, theirs in zip(found.top_k(data.features, 5), loaded.top_k(data.features, 5), strict=True):
            np.testing.assert_array_equal(ours[0], theirs[0])
            np.testing.assert_array_equal(ours[1], theirs[1])
        assert loaded.evaluate(data) == found.evaluate(data)


def damages():
    """Each array with a change that would lead out of the others."""
    yield "tree_levels", lambda a: a * 2
    yield "tree_levels", lambda a: a[:0]
    yield "tree_first_node", lambda a: a[::-1].copy()
    yield "tree_n_rows", lambda a: np.where(np.arange(len(a)) == 0, -1, a).astype(a.dtype)
    yield "tree_features", lambda a: a + 10**6
    yield "tree_features", lambda a: a - 10**6
    yield "tree_n_weights", lambda a: a + a.dtype.type(1)
    yield "tree_child", lambda a: a + a.dtype.type(60_000)
    yield "tree_child", lambda a: a.astype(np.int32) - 10**6
    yield "tree_weight", lambda a: a[:-1]
    yield "tree_bias", lambda a: np.append(a, np.float32(0))
    yield "tree_labels", lambda a: np.zeros_like(a)
    yield "tree_labels", lambda a: a + 10**6


def test_a_damaged_tree_is_reported(tmp_path):
    folder = trained(topics(), weights="tree", leaf_size=8, epochs=1).save(tmp_path / "model")
    for name, damage in damages():
        array = np.load(folder / f"{name}.npy")
        np.save(folder / f"{name}.npy", damage(array))
        with pytest.raises(EmbedxError, match=r"tree_|levels"):
            classifier.load(folder)
        np.save(folder / f"{name}.npy", array)
    classifier.load(folder)


# ---- edges


EDGES = [
    [[0]] * 6,
    [[0], [], [], [], [], []],
    [[0], [0, 1], [1], [], [2], [2]],
    [[k] for k in range(6)],
    [[0, 1, 2, 3, 4, 5]] * 6,
]
KINDS = ["alike", "empty", "one row has features", "random"]


@pytest.mark.parametrize("weights", ["sparse", "tree"])
@pytest.mark.parametrize(("lists", "kind"), [*zip(EDGES, KINDS, strict=False), *zip(EDGES[1:], KINDS[::-1], strict=True)])
def test_data_at_the_edge_end_well(weights, lists, kind):
    x = np.zeros((6, 4), dtype=np.float32)
    if kind == "alike":
        x[:, 1] = 1
    elif kind == "one row has features":
        x[0, 2] = 1
    elif kind == "random":
        x[:] = np.random.default_rng(0).random((6, 4))
    data = Labeled(csr_matrix(x), of_lists(lists), 7)
    own = {"leaf_size": 1, "arity": 2, "beam": 3} if weights == "tree" else {}
    found = trained(data, weights=weights, **own)
    assert all(np.isfinite(array).all() for array in found.arrays.values())
    metrics = found.evaluate(data)
    assert 0 <= metrics["p@1"] <= 1
    ids, p = (np.concatenate(each) for each in zip(*found.top_k(data.features, 9), strict=True))
    assert all(sorted(row) == list(range(7)) for row in ids.tolist())
    assert (np.diff(p, axis=1) <= 1e-6).all()
    assert [len(ids) for ids, _ in found.top_k(data.features[:0], 3)] in ([], [0])
    several = any(len(each) > 1 for each in lists)
    if not several and weights == "tree":
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 5}, "no --hidden"),
        ({"labels": "one"}, "--labels other than one"),
        ({"max_norm": 1.0}, "no --max-norm"),
        ({"time_budget": 3.0}, "--epochs"),
        ({"schedule": "inverse"}, "--schedule linear"),
        ({"sampler": "uniform"}, "--sampler all"),
        ({"optimizer": "lbfgs"}, "goes by steps"),
    ],
)
@pytest.mark.parametrize("weights", ["sparse", "tree"])
def test_what_sparse_weights_do_not_go_with_is_refused(weights, options, message):
    if weights == "sparse" and "sampler" in options:
        options, message = options | {"optimizer": "dcd"}, "dcd takes --sampler all"  # others do: see test_sparse_rows
    given = ClassifySettings(weights=weights, **options)
    with pytest.raises(EmbedxError, match=message):
        resolved(given, ova(), topics())


@pytest.mark.parametrize(
    ("data", "options", "chosen"),
    [
        (topics(), {}, ("ova", {"loss": "squared-hinge"})),
        (topics(several=False), {}, ("softmax", {})),
        (topics(n_labels=1200, several=False), {}, ("ova", {"loss": "squared-hinge"})),
        (topics(), {"hidden": 10}, ("softmax", {})),
        (topics(), {"sampler": "uniform"}, ("softmax", {})),
    ],
)
def test_the_objective_suits_the_data_where_none_is_named(data, options, chosen):
    assert default_objective(data, options) == chosen
    dense = Labeled(data.features.toarray(), data.labels, data.n_labels)
    assert default_objective(dense, options) == ("softmax", {})


@pytest.mark.parametrize(
    ("n_labels", "n_features", "options", "weights"),
    [
        (90, 200, {}, "dense"),
        (90, 200, {"optimizer": "dcd"}, "sparse"),
        (4_000, 5_000, {}, "sparse"),
        (4_000, 5_000, {"validation": "0.1"}, "dense"),
        (4_000, 5_000, {"weights": "dense"}, "dense"),
        (200_000_000, 5_000, {}, "tree"),
        (200_000_000, 5_000, {"hidden": 10}, "dense"),
    ],
)
def test_weights_are_stored_as_suits_their_number(n_labels, n_features, options, weights):
    data = topics()
    features = csr_matrix((data.features.data, data.features.indices, data.features.indptr), (len(data), n_features))
    chosen = resolved(ClassifySettings(**options), ova(), Labeled(features, data.labels, n_labels))
    assert chosen.weights == weights
    assert chosen.optimizer == ("adagrad" if weights == "dense" else "dcd")


def test_a_command_without_an_objective_names_the_one_that_it_takes(tmp_path):
    data = topics(n=80)
    lines = [f"{len(data)} {data.n_features} {data.n_labels}"]
    for i in range(len(data)):
        span = slice(*data.features.indptr[i : i + 2])
        pairs = zip(data.features.indices[span], data.features.data[span], strict=True)
        lines.append(",".join(map(str, data.labels[i].tolist())) + "".join(f" {f}:{v:.4f}" for f, v in pairs))
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "embedx", "classify", "train.txt", "--weights", "tree", "--leaf-size", "8", "--json"]
    done = subprocess.run([*command, "--test", "train.txt"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["objective"] == "ova"
    assert printed["settings"]["loss"] == "squared-hinge"
    assert printed["test"]["p@1"] > 0.7
    assert (tmp_path / "train.ova.embedx").is_dir()


@pytest.mark.parametrize("weights", ["sparse", "tree", "dense"])
def test_a_support_that_is_too_narrow_for_signed_features_is_warned_of(weights):
    notes = []

    class Notes(Silent):
        def note(self, message):
            notes.append(message)

    for sign in (1, -1):
        data = topics(n=60, n_labels=40)
        data.features.data[::7] *= sign
        train(data, ova(), settings(weights=weights, epochs=1), progress=Notes())
        is_warned = any(each.startswith(f"warning: --weights {weights} keeps") for each in notes)
        assert is_warned == (sign < 0 and weights != "dense")


def test_settings_that_are_resolved_stay_as_they_are():
    for given in ({}, {"weights": "sparse"}, {"weights": "tree", "l2": 0.1}, {"weights": "tree", "learning_rate": 0.1}):
        once = resolved(ClassifySettings(**given), ova(), topics())
        assert resolved(once, ova(), topics()) == once


def test_sparse_weights_need_a_loss_that_is_a_sum_over_labels_and_sparse_features():
    softmax = objectives.find("softmax")
    with pytest.raises(EmbedxError, match="sum over labels"):
        resolved(ClassifySettings(weights="tree"), softmax(softmax.Settings()), topics())
    data = topics()
    dense = Labeled(data.features.toarray(), data.labels, data.n_labels)
    with pytest.raises(EmbedxError, match="sparse features"):
        resolved(ClassifySettings(weights="sparse"), ova(), dense)


def test_a_search_by_an_index_is_refused():
    found = trained(topics(), weights="tree", leaf_size=8, epochs=1)
    with pytest.raises(EmbedxError, match="its own tree"):
        found.searched_top_k(topics().features)
    with pytest.raises(EmbedxError, match="through a tree"):
        found.scores(topics().features)


# ---- a tree of clusters for hierarchical softmax


def two_kinds(is_dense, several=False, n_labels=12):
    """Rows of labels of two kinds, even and odd ones; a kind has features of its own. The last two labels never occur."""
    rng = np.random.default_rng(6)
    y = rng.integers(0, n_labels - 2, 300)
    x = np.zeros((300, 2 * n_labels), dtype=np.float32)
    x[np.arange(300), y] = 1
    x[np.arange(300), n_labels + y % 2] = 2
    labels = Labels.of_rows([sorted({k, (k + 2) % (n_labels - 2)}) if several else [k] for k in y])
    return Labeled(x if is_dense else csr_matrix(x), labels, n_labels)


def hierarchical(data, hierarchy="clusters", start=None, **options):
    found = objectives.find("hs")
    objective = found(found.Settings(hierarchy=hierarchy)) if start is None else start.classifier.objective
    return train(data, objective, ClassifySettings(**({"threads": 1, "epochs": 4, "batch_size": 10} | options)), start=start)


@pytest.mark.parametrize("is_dense", [False, True])
def test_labels_with_similar_features_stand_together(is_dense):
    data = two_kinds(is_dense)
    counts = np.bincount(data.labels.ids, minlength=12)
    features = data.features + 3 if is_dense else data.features  # what all have in common tells nothing
    order = clustered_order(features, data.labels, counts, 1, 1)
    assert order.dtype == np.int32
    assert order[-2:].tolist() == [10, 11]
    assert len({k % 2 for k in order[:5].tolist()}) == len({k % 2 for k in order[5:10].tolist()}) == 1
    np.testing.assert_array_equal(order, clustered_order(features, data.labels, counts, 1, 3))


@pytest.mark.parametrize(("is_dense", "hidden"), [(False, None), (True, None), (False, 8)])
def test_a_tree_of_clusters_is_kept_with_the_model(is_dense, hidden, tmp_path):
    data = two_kinds(is_dense, several=True)
    found = hierarchical(data, hidden=hidden).classifier
    assert not np.array_equal(found.objective.tree.leaf_turn, binary_tree.huffman(found.counts).leaf_turn)
    before = np.concatenate([log_p for _, log_p in found.blocks(data.features)])
    np.testing.assert_allclose(np.exp(before).sum(axis=1), 1, rtol=1e-5)
    loaded = classifier.load(found.save(tmp_path / "model"))
    np.testing.assert_allclose(np.concatenate([log_p for _, log_p in loaded.blocks(data.features)]), before, rtol=1e-5)
    assert loaded.evaluate(data)["p@1"] > 0.9


def test_training_goes_on_in_the_same_tree():
    data = two_kinds(is_dense=False)
    first = hierarchical(data)
    leaves = first.classifier.objective.tree.leaf_turn.copy()
    again = hierarchical(two_kinds(is_dense=False, several=True), start=first)
    np.testing.assert_array_equal(again.classifier.objective.tree.leaf_turn, leaves)
    np.testing.assert_array_equal(again.classifier.arrays["label_order"], first.classifier.arrays["label_order"])


def test_a_damaged_order_of_leaves_is_reported(tmp_path):
    found = hierarchical(two_kinds(is_dense=False), epochs=1).classifier
    order = found.arrays["label_order"]
    found.arrays["label_order"] = np.where(order == 3, 4, order).astype(np.int32)
    with pytest.raises(EmbedxError, match=r"label_order.npy has not each label once; restore"):
        classifier.load(found.save(tmp_path / "twice"))
    del found.arrays["label_order"]
    with pytest.raises(EmbedxError, match="names no array `label_order`, which hierarchy=clusters needs"):
        classifier.load(found.save(tmp_path / "missing"))


@pytest.mark.parametrize("n_labels", [1, 2, 3])
def test_few_labels_and_rows_without_features_have_a_tree_of_clusters(n_labels):
    data = Labeled(csr_matrix((6, 4), dtype=np.float32), Labels.single(np.arange(6) % n_labels), n_labels)
    found = hierarchical(data, epochs=1).classifier
    (_, log_p), *_ = found.blocks(data.features)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, rtol=1e-5)
