"""Sparse weights of labels: tiles against loops, what is stored and when, and data at the edge."""

import json
import subprocess
import sys

import numpy as np
import pytest
from reference_tiles import naive_dual_tile, naive_tile
from scipy.sparse import csr_matrix, random_array

from embedx import objectives
from embedx.classification import label_weights
from embedx.classification.objective_choice import default_objective
from embedx.classification.settings import ClassifySettings
from embedx.engine import sparse_tiles, tiles
from embedx.engine.examples import Csr, csr_of, examples_of
from embedx.engine.loading import load_kernel
from embedx.engine.select import JOINT
from embedx.errors import Setting, SettingError
from embedx.kernels.random import stream_key
from embedx.labeled.data import Labeled, Labels
from embedx.optimizers import update_rule
from embedx.runtime.progress import Silent
from tests.support.label_data import ova, settings, topics, trained, write_xc
from tests.support.label_settings import resolved
from tests.support.label_training import train
from tests.support.notes import Notes
from tests.support.refusals import refused
from tests.support.sparse_weights import dense_of

KEY = stream_key(3, 5)


def labelled_rows(rng, n, n_features, n_labels, density, share):
    """Dense features (n, n_features) of which few are not 0, and which row has which label; one row
    has none.
    """
    x = np.asarray(
        random_array((n, n_features), density=density, rng=rng).todense(), dtype=np.float32
    )
    y = rng.random((n, n_labels)) < share
    y[7] = False
    return x, y


def tile_plan(objective, optimizer, batch_size=1, **options):
    options = {
        "has_bias": True,
        "lr": np.float32(0),
        "threshold": np.float32(-1),
        "key": KEY,
    } | options
    return tiles.TilePlan(
        batch_size,
        1.0,
        keeps_accidental_hits=False,
        positives=JOINT,
        is_sparse=True,
        optimizer=optimizer,
        constants=objective.constants(1, 1),
        **options,
    )


def some_weights(n):
    """Weights of rows, 1 on average."""
    weights = np.random.default_rng(3).choice([0.25, 1.0, 3.0], n)
    return weights / weights.mean()


def trained_tile(kernel, function, x, y, members, plan, row_weight):
    """The weights and biases of the labels, (n_labels, n_features + 1), trained on the rows that
    are members, and the loss.

    row_weight  1 on average
    """
    (n, n_features), n_labels = x.shape, y.shape[1]
    examples = examples_of(
        csr_matrix(x), Labels.of_rows([np.flatnonzero(row).tolist() for row in y]), row_weight
    )
    y_of_members = y.copy()
    y_of_members[np.setdiff1d(np.arange(n), members)] = False
    row, label = np.nonzero(y_of_members)
    positives = csr_of(label, row, n_labels)
    is_dual = kernel is sparse_tiles.train_tile_dual
    worker = tiles.new_workspace(
        n, len(examples.values), n_features, plan.batch_size, plan.optimizer, is_dual=is_dual
    )
    # the first of two groups is empty
    groups = Csr(np.array([0, 0, len(members)], dtype=np.int64), members.astype(np.int32))
    bias = np.zeros(n_labels, dtype=np.float32)
    arguments = (
        examples,
        sparse_tiles.LabelGroups(groups, positives, bias),
        1,
        0,
        n_labels,
        plan,
        worker,
    )
    functions = load_kernel(kernel, function, None, arguments, Silent())
    for _ in range(2):  # what a tile leaves behind does not matter to the next
        bias[:] = 0
        loss, kept = kernel(*functions, *arguments)
        feature, label, value = sparse_tiles.kept_weights(
            arguments[1], 0, n_labels, plan, worker, kept
        )
    weights = np.zeros((n_labels, n_features + 1))
    weights[label, feature], weights[:, -1] = value, bias
    return weights, loss


@pytest.mark.parametrize(
    ("loss", "optimizer", "l2", "lr", "has_bias", "first_state", "is_weighted", "of_positives"),
    [
        ("squared-hinge", "adagrad", 0, 0.3, True, 0, False, True),
        ("logistic", "adagrad", 0.01, 0.3, True, 0, False, True),
        ("logistic", "sgd", 0, 0.5, False, 0, False, True),
        ("squared-hinge", "sgd", 0.01, 0.5, True, 0, False, True),
        ("logistic", "adagrad", 0, 0.3, True, 0.01, False, True),
        ("logistic", "sgd", 0, 0.5, True, 0, True, True),
        ("squared-hinge", "adagrad", 0.01, 0.3, True, 0, True, True),
        ("logistic", "adagrad", 0.01, 0.3, True, 0, True, False),
    ],
)
def test_a_tile_is_trained_as_by_loops_with_sparsity_masks(
    loss, optimizer, l2, lr, has_bias, first_state, is_weighted, of_positives
):
    rng = np.random.default_rng(1)
    objective = ova(loss)
    x, y = labelled_rows(rng, 60, 25, 7, density=0.2, share=0.1)
    members = np.flatnonzero(rng.random(60) < 0.8)  # of a group
    plan = tile_plan(
        objective,
        update_rule(optimizer, l2=l2, max_norm=None, row_length=5.0),
        8,
        has_bias=has_bias,
        epochs=4,
        lr=np.float32(lr),
        lr_falls=True,
        first_state=np.float32(first_state),
        positives_features_only=of_positives,
    )
    row_weight = some_weights(60) if is_weighted else np.ones(60)
    weights, loss_of_tile = trained_tile(
        sparse_tiles.train_tile,
        objective.coefficients,
        x,
        y,
        members,
        plan,
        row_weight if is_weighted else None,
    )
    weight = y.any(axis=1).astype(float)
    expected, expected_loss = naive_tile(
        x[members].astype(np.float64),
        y[members],
        weight[members],
        plan,
        optimizer,
        l2,
        loss,
        row_weight[members],
    )
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(weights, expected, atol=2e-4, rtol=2e-3)
    assert loss_of_tile == pytest.approx(expected_loss, rel=1e-3)


@pytest.mark.parametrize("of_positives", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(("c", "epochs"), [(1.0, 3), (0.2, 4), (5.0, 2), (1.0, 200)])
def test_a_tile_is_trained_by_the_dual_as_by_loops_and_reaches_the_optimum(
    c, epochs, is_weighted, of_positives
):
    rng = np.random.default_rng(2)
    objective = ova()
    x, y = labelled_rows(rng, 50, 20, 6, density=0.3, share=0.15)
    plan = tile_plan(
        objective,
        update_rule("dcd"),
        epochs=epochs,
        c=np.float32(c),
        positives_features_only=of_positives,
    )
    row_weight = some_weights(50) if is_weighted else np.ones(50)
    weights, _ = trained_tile(
        sparse_tiles.train_tile_dual,
        objective.dual_steps,
        x,
        y,
        np.arange(50),
        plan,
        row_weight if is_weighted else None,
    )
    weight = y.any(axis=1).astype(float)
    expected, sparsity_mask = naive_dual_tile(x.astype(np.float64), y, weight, c, plan, row_weight)
    np.testing.assert_allclose(weights, expected, atol=2e-4)
    if epochs < 100:
        return
    with_one = np.column_stack([x, np.ones(50)]).astype(np.float64)
    sign = np.where(y, 1.0, -1.0)
    weight_of_pair = np.maximum(weight[:, None], y) * row_weight[:, None]

    def objective_and_slope(w):
        hinge = np.maximum(0, 1 - sign * (with_one @ w.T))
        return (
            0.5 * np.sum(w * w) + c * np.sum(weight_of_pair * hinge**2),
            (w - 2 * c * (sign * hinge * weight_of_pair).T @ with_one) * sparsity_mask,
        )

    minimum = np.inf
    w = np.zeros_like(weights)
    for _ in range(3000):  # of gradient descent, on a smooth and strongly convex function
        minimum, slope = objective_and_slope(w)
        w -= 0.004 * slope
    assert np.abs(slope).max() < 1e-4
    assert objective_and_slope(weights)[0] < 1.01 * minimum


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
    ids, p = (
        np.concatenate(parts) for parts in zip(*model.iter_top_k(data.features, 5), strict=True)
    )
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
    ids, p = (
        np.concatenate(parts) for parts in zip(*model.iter_top_k(data.features, 9), strict=True)
    )
    assert all(sorted(row) == list(range(7)) for row in ids.tolist())
    assert (np.diff(p, axis=1) <= 1e-6).all()
    assert [len(ids) for ids, _ in model.iter_top_k(data.features[:0], 3)] in ([], [0])
    several = any(len(ids) > 1 for ids in lists)
    if not several and weights == "tree":
        sums = p.sum(axis=1)
        assert (sums <= 1 + 1e-4).all()
        # a row without features has at most the shares of the labels in training
        np.testing.assert_allclose(sums[x.any(axis=1)], 1, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"hidden": 5}, Setting("hidden")),
        ({"labels": "one"}, Setting("labels")),
        ({"max_norm": 1.0}, Setting("max_norm")),
        ({"time_budget": 3.0}, Setting("epochs")),
        ({"schedule": "inverse"}, Setting("schedule", "linear")),
        ({"sampler": "uniform"}, Setting("sampler", "all")),
        ({"optimizer": "lbfgs"}, Setting("optimizer")),
        ({"propensity": 0.5, "weights": "dense"}, Setting("objective", "ova")),
    ],
)
@pytest.mark.parametrize("weights", ["sparse", "tree"])
def test_settings_that_exclude_sparse_weights_are_refused(weights, options, named):
    """The message names the setting that is in the way."""
    if weights == "sparse" and "sampler" in options:
        # sampled objectives can have sparse weights: see test_sparse_rows
        options = options | {"optimizer": "dcd"}
    settings = ClassifySettings(**{"weights": weights, **options})
    with pytest.raises(SettingError) as caught:
        resolved(settings, ova(), topics())
    assert named in caught.value.problem


@pytest.mark.parametrize(
    ("data", "options", "chosen"),
    [
        (topics(), {}, ("ova", {"loss": "squared-hinge"})),
        (topics(several=False), {"time_budget": 3.0}, ("softmax", {})),
        (topics(n_labels=1200, several=False), {}, ("ova", {"loss": "squared-hinge"})),
        (topics(), {"hidden": 10}, ("softmax", {})),
        (topics(), {"labels": "first"}, ("ova", {"loss": "squared-hinge"})),
        (topics(), {"pretrained": "v.vec"}, ("softmax", {})),
        (topics(), {"sampler": "uniform"}, ("softmax", {})),
    ],
)
def test_the_default_objective_depends_on_the_data(data, options, chosen):
    assert default_objective(data, options) == chosen
    dense = Labeled(data.features.toarray(), data.labels, data.n_labels)
    assert default_objective(dense, options) == ("softmax", {})


@pytest.mark.parametrize(
    ("n_labels", "n_features", "options", "weights"),
    [
        (90, 200, {}, "sparse"),
        (90, 200, {"batch_size": 50}, "dense"),
        (90, 200, {"optimizer": "dcd"}, "sparse"),
        (4_000, 5_000, {}, "sparse"),
        (4_000, 5_000, {"propensity": 0.5, "validation": "0.1"}, "sparse"),
        (4_000, 5_000, {"validation": "0.1"}, "dense"),
        (4_000, 5_000, {"weights": "dense"}, "dense"),
        (200_000_000, 5_000, {}, "tree"),
        (200_000_000, 5_000, {"hidden": 10}, "dense"),
    ],
)
def test_the_default_storage_of_weights_depends_on_their_number(
    n_labels, n_features, options, weights
):
    data = topics()
    features = csr_matrix(
        (data.features.data, data.features.indices, data.features.indptr), (len(data), n_features)
    )
    chosen = resolved(ClassifySettings(**options), ova(), Labeled(features, data.labels, n_labels))
    assert chosen.weights == weights
    assert chosen.optimizer == ("adagrad" if weights == "dense" else "dcd")


def test_a_command_without_an_objective_names_the_one_that_it_takes(tmp_path):
    data = topics(n=80)
    write_xc(
        tmp_path / "train.txt",
        data.features,
        [data.labels[i] for i in range(len(data))],
        data.n_labels,
    )
    command = [
        sys.executable,
        "-m",
        "embedx",
        "classify",
        "train.txt",
        "--weights",
        "tree",
        "--set",
        "leaf-size=8",
        "--json",
    ]
    completed = subprocess.run(
        [*command, "--test", "train.txt"], cwd=tmp_path, capture_output=True, text=True
    )
    assert completed.returncode == 0, completed.stderr
    result = json.loads(completed.stdout)
    assert result["objective"] == "ova"
    assert result["settings"]["loss"] == "squared-hinge"
    assert result["test"]["p@1"] > 0.7
    assert (tmp_path / "train.ova.embedx").is_dir()


@pytest.mark.parametrize("weights", ["sparse", "tree", "dense"])
def test_sparse_weights_on_negative_features_are_warned_of(weights):
    progress = Notes()
    for sign in (1, -1):
        data = topics(n=60, n_labels=40)
        data.features.data[::7] *= sign
        train(data, ova(), settings(weights=weights, epochs=1), progress=progress)
        is_warned = any(
            note.startswith(f"warning: --weights {weights} keeps") for note in progress.notes
        )
        assert is_warned == (sign < 0 and weights != "dense")


def test_sparse_weights_need_a_loss_that_is_a_sum_over_labels_and_sparse_features():
    softmax = objectives.find("softmax")
    data = topics()
    dense = Labeled(data.features.toarray(), data.labels, data.n_labels)
    for objective, rows, quoted in (
        (softmax(softmax.Settings()), data, "softmax"),
        (ova(), dense, "sparse features"),
    ):
        with refused("weights", value="tree", quoting=quoted):
            resolved(ClassifySettings(weights="tree"), objective, rows)
