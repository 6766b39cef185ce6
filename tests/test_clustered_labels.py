"""Hierarchical softmax of classifiers: a tree over clusters of labels with similar features."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx import objectives
from embedx.classification import classifier
from embedx.classification.clustering import clustered_order
from embedx.classification.settings import ClassifySettings
from embedx.labeled.data import Labeled, Labels
from embedx.objectives import binary_tree
from tests.support.label_training import train
from tests.support.refusals import refused_data


def two_kinds(is_dense, several=False, n_labels=12):
    """Rows of labels of two kinds, even and odd ones; a kind has features of its own. The last two
    labels never occur.
    """
    rng = np.random.default_rng(6)
    y = rng.integers(0, n_labels - 2, 300)
    x = np.zeros((300, 2 * n_labels), dtype=np.float32)
    x[np.arange(300), y] = 1
    x[np.arange(300), n_labels + y % 2] = 2
    labels = Labels.of_rows([sorted({k, (k + 2) % (n_labels - 2)}) if several else [k] for k in y])
    return Labeled(x if is_dense else csr_matrix(x), labels, n_labels)


def hierarchical(data, hierarchy="clusters", start=None, **options):
    objective_class = objectives.find("hs")
    if start is None:
        objective = objective_class(objective_class.Settings(hierarchy=hierarchy))
    else:
        objective = start.classifier.objective
    return train(
        data,
        objective,
        ClassifySettings(**({"threads": 1, "epochs": 4, "batch_size": 10} | options)),
        start=start,
    )


@pytest.mark.parametrize("is_dense", [False, True])
def test_labels_with_similar_features_are_adjacent(is_dense):
    data = two_kinds(is_dense)
    counts = np.bincount(data.labels.ids, minlength=12)
    # what all have in common tells nothing
    features = data.features + 3 if is_dense else data.features
    order = clustered_order(features, data.labels, counts, 1, 1)
    assert order.dtype == np.int32
    assert order[-2:].tolist() == [10, 11]
    assert (
        len({k % 2 for k in order[:5].tolist()}) == len({k % 2 for k in order[5:10].tolist()}) == 1
    )
    np.testing.assert_array_equal(order, clustered_order(features, data.labels, counts, 1, 3))


@pytest.mark.parametrize(("is_dense", "hidden"), [(False, None), (True, None), (False, 8)])
def test_a_tree_of_clusters_is_kept_with_the_model(is_dense, hidden, tmp_path):
    data = two_kinds(is_dense, several=True)
    model = hierarchical(data, hidden=hidden).classifier
    assert not np.array_equal(
        model.objective.tree.leaf_branch, binary_tree.huffman(model.counts).leaf_branch
    )
    before = np.concatenate([log_p for _, log_p in model.blocks(data.features)])
    np.testing.assert_allclose(np.exp(before).sum(axis=1), 1, rtol=1e-5)
    loaded = classifier.load(model.save(tmp_path / "model"))
    np.testing.assert_allclose(
        np.concatenate([log_p for _, log_p in loaded.blocks(data.features)]), before, rtol=1e-5
    )
    assert loaded.evaluate(data)["p@1"] > 0.9


def test_continued_training_keeps_the_tree():
    data = two_kinds(is_dense=False)
    first = hierarchical(data)
    leaves = first.classifier.objective.tree.leaf_branch.copy()
    again = hierarchical(two_kinds(is_dense=False, several=True), start=first)
    np.testing.assert_array_equal(again.classifier.objective.tree.leaf_branch, leaves)
    np.testing.assert_array_equal(
        again.classifier.arrays["label_order"], first.classifier.arrays["label_order"]
    )


def test_a_damaged_order_of_leaves_is_reported(tmp_path):
    model = hierarchical(two_kinds(is_dense=False), epochs=1).classifier
    order = model.arrays["label_order"]
    model.arrays["label_order"] = np.where(order == 3, 4, order).astype(np.int32)
    with refused_data("twice/label_order.npy"):
        classifier.load(model.save(tmp_path / "twice"))
    del model.arrays["label_order"]
    with refused_data("missing/model.json", quoting="`label_order`"):
        classifier.load(model.save(tmp_path / "missing"))


@pytest.mark.parametrize("n_labels", [1, 2, 3])
def test_few_labels_and_rows_without_features_have_a_tree_of_clusters(n_labels):
    data = Labeled(
        csr_matrix((6, 4), dtype=np.float32), Labels.single(np.arange(6) % n_labels), n_labels
    )
    model = hierarchical(data, epochs=1).classifier
    (_, log_p), *_ = model.blocks(data.features)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, rtol=1e-5)
