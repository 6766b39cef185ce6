"""Sparse weights of labels: what is stored and when, their scores, and data at the edge."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx.classification import label_weights
from embedx.classification.row_blocks import joined_blocks
from embedx.classification.settings import ClassifySettings
from embedx.labeled.data import Labeled, Labels
from tests.support.label_data import ova, topics, trained
from tests.support.label_settings import resolved
from tests.support.sparse_weights import dense_of


@pytest.mark.parametrize(
    ("weights", "loss", "bias"),
    [
        ("sparse", "squared-hinge", "zero"),
        ("tree", "logistic", "zero"),
        ("tree", "squared-hinge", "frequency"),
    ],
)
def test_sparse_weights_rank_unseen_rows_as_dense_ones_do(weights, loss, bias):
    data = topics(seed=0)
    test = topics(seed=0, n=900).rows(np.arange(600, 900))
    precision = {}
    for kind in ("dense", weights):
        model = trained(
            data,
            loss=loss,
            weights=kind,
            bias=bias,
            **({"leaf_size": 8, "beam": 4} if kind == "tree" else {}),
        )
        precision[kind] = model.evaluate(test)["p@1"]
    assert precision["dense"] > 0.8
    assert precision[weights] > precision["dense"] - 0.05


@pytest.mark.parametrize(("weights", "loss"), [("sparse", "squared-hinge"), ("tree", "logistic")])
def test_sparse_weights_do_not_depend_on_the_scale_of_features(weights, loss):
    data = topics()
    tree_options = {"leaf_size": 8} if weights == "tree" else {}
    large = Labeled((data.features * np.float32(1024)).tocsr(), data.labels, data.n_labels)
    options = {
        "weights": weights,
        **tree_options,
        **({"optimizer": None} if loss == "squared-hinge" else {}),
    }
    for penalty in ({}, {"l2": 1e-3}):
        scaled = {"l2": penalty["l2"] * 1024**2} if penalty else {}
        model = trained(data, loss=loss, **options, **penalty)
        same = trained(large, loss=loss, **options, **scaled)
        assert len(model.arrays["tree_weight"]) == len(same.arrays["tree_weight"]) > 0
        np.testing.assert_allclose(
            model.arrays["tree_weight"], 1024 * same.arrays["tree_weight"], rtol=1e-4
        )
        assert model.evaluate(data)["p@1"] == same.evaluate(large)["p@1"] > 0.8


def test_words_of_other_labels_speak_against_a_label_that_has_weights_for_all_features():
    data = topics()
    scores = {}
    for label_features in ("positives", "all"):
        model = trained(data, optimizer="dcd", weights="sparse", label_features=label_features)
        weights = dense_of(model.trees[0].levels[0], data.n_features)
        has_feature = np.stack([weights_of_label != 0 for weights_of_label in weights])
        rows = [data.labels.row_of_id[data.labels.ids == k] for k in model.trees[0].labels]
        is_own = np.array([data.features[some].sum(axis=0).A1 > 0 for some in rows])
        scores[label_features] = (has_feature & ~is_own).sum()
    assert scores["positives"] == 0
    assert scores["all"] > 0


def test_labels_have_weights_for_all_features_where_these_are_few(monkeypatch):
    data = topics()

    def chosen(weights):
        return resolved(ClassifySettings(weights=weights), ova(), data).label_features

    assert chosen("sparse") == "all"
    monkeypatch.setattr(label_weights, "MAX_OF_ALL_FEATURES", data.n_labels * data.n_features - 1)
    assert chosen("sparse") == "positives"
    assert chosen("tree") is None
    assert chosen("dense") is None


def test_scores_of_sparse_weights_are_those_of_their_rows_and_unseen_labels_are_there():
    data = topics()
    data = Labeled(data.features, data.labels, data.n_labels + 2)  # two labels that no row has
    model = trained(data, weights="sparse", weight_threshold=0.02)
    level = model.trees[0].levels[0]
    labels = model.trees[0].labels
    assert len(labels) == data.n_labels - 2
    z = data.features @ dense_of(level, data.n_features).T + level.bias
    np.testing.assert_allclose(model.scores(data.features)[:, labels], z, atol=1e-5)
    metrics = model.evaluate(data)
    assert np.isfinite(metrics["log_likelihood"])
    ids, p = joined_blocks(model.iter_top_k(data.features, 5))
    np.testing.assert_array_equal(ids[:, 0], model.scores(data.features).argmax(axis=1))
    assert ((p >= 0) & (p <= 1)).all()
    assert np.abs(level.weight).min() > 0.02


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        ("squared-hinge", {}),
        ("squared-hinge", {"weights": "tree", "leaf_size": 8, "trees": 2}),
        ("logistic", {}),
    ],
)
def test_probabilities_are_divided_by_a_power_of_the_propensity_of_the_label(loss, options):
    data, (a, b, power) = topics(n=400), (0.6, 2.6, 0.7)
    options = {"weights": "sparse", "optimizer": None if loss == "logistic" else "dcd"} | options
    usual = trained(data, loss=loss, **options, propensity=0.0)
    model = trained(data, loss=loss, **options, propensity=power, propensity_a=a, propensity_b=b)
    c = (np.log(400) - 1) * (b + 1) ** a
    inverse = 1 + c * np.exp(-a * np.log(usual.counts + b))  # Jain et al. 2016, eq. 1
    for before, after in zip(usual.trees, model.trees, strict=True):
        z, raised = (
            data.features @ dense_of(tree.levels[-1], 200).T + tree.levels[-1].bias
            for tree in (before, after)
        )
        p, q = (
            (1 + scores) / 2 if loss == "squared-hinge" else np.exp(scores)
            for scores in (z, raised)
        )
        np.testing.assert_allclose(
            q, p * (inverse / inverse.max())[before.labels] ** power, rtol=1e-3, atol=1e-4
        )
        for level, same in zip(before.levels[:-1], after.levels[:-1], strict=True):
            np.testing.assert_array_equal(level.weight, same.weight)
    rows = [labels.tolist() for labels in np.split(data.labels.ids, data.labels.offsets[1:-1])]
    best = np.concatenate([ids[:, 0] for ids, _ in model.iter_top_k(data.features, 1)])
    gained = sum(inverse[k] for k, labels in zip(best, rows, strict=True) if k in labels)
    assert model.evaluate(data)["psp@1"] == pytest.approx(
        gained / sum(inverse[labels].max() for labels in rows)
    )


@pytest.mark.parametrize(
    "options", [{"weights": "sparse"}, {"weights": "tree", "leaf_size": 8, "arity": 4, "trees": 2}]
)
def test_the_number_of_threads_changes_nothing(options):
    one, three = (trained(topics(), **options, threads=threads) for threads in (1, 3))
    assert one.arrays.keys() == three.arrays.keys()
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, three.arrays[name])
    other = trained(topics(), **options, seed=9)
    assert not np.array_equal(one.arrays["tree_weight"], other.arrays["tree_weight"])


EDGES = [
    [[0]] * 6,
    [[0], [], [], [], [], []],
    [[0], [0, 1], [1], [], [2], [2]],
    [[k] for k in range(6)],
    [[*range(6)]] * 6,
]
KINDS = ["alike", "empty", "one row has features", "random"]


@pytest.mark.parametrize("weights", ["sparse", "tree"])
@pytest.mark.parametrize(
    ("lists", "kind"), [*zip(EDGES, KINDS, strict=False), *zip(EDGES[1:], KINDS[::-1], strict=True)]
)
def test_degenerate_data_can_be_trained_on(weights, lists, kind):
    x = np.zeros((6, 4), dtype=np.float32)
    if kind == "alike":
        x[:, 1] = 1
    elif kind == "one row has features":
        x[0, 2] = 1
    elif kind == "random":
        x[:] = np.random.default_rng(0).random((6, 4))
    data = Labeled(csr_matrix(x), Labels.of_rows(lists), 7)
    tree_options = {"leaf_size": 1, "arity": 2, "beam": 3} if weights == "tree" else {}
    model = trained(data, weights=weights, **tree_options)
    assert all(np.isfinite(array).all() for array in model.arrays.values())
    metrics = model.evaluate(data)
    assert 0 <= metrics["p@1"] <= 1
    ids, p = joined_blocks(model.iter_top_k(data.features, 9))
    assert all(sorted(row) == list(range(7)) for row in ids.tolist())
    assert (np.diff(p, axis=1) <= 1e-6).all()
    assert [len(ids) for ids, _ in model.iter_top_k(data.features[:0], 3)] in ([], [0])
    several = any(len(ids) > 1 for ids in lists)
    if not several and weights == "tree":
        sums = p.sum(axis=1)
        assert (sums <= 1 + 1e-4).all()
        # a row without features has at most the shares of the labels in training
        np.testing.assert_allclose(sums[x.any(axis=1)], 1, atol=1e-4)
