"""Weights of rows: the weight of a row multiplies its loss, by every objective and optimizer."""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.utils.class_weight import compute_sample_weight

from embedx import optimizers, samplers
from embedx.classification.estimator import SoftmaxClassifier
from embedx.classification.objective_choice import new_objective
from embedx.classification.row_blocks import joined_blocks
from embedx.classification.row_weights import balanced_weights
from embedx.classification.settings import ClassifySettings
from embedx.labeled.data import Labeled, Labels
from embedx.objectives import OBJECTIVES
from embedx.optimizers.contract import LABELS
from tests.support.label_training import train

# Steps on all rows at once, and no rows for calibration: nothing depends on the order of the rows.
ALL_AT_ONCE = {
    "batch_size": "all",
    "epochs": 4,
    "learning_rate": 0.2,
    "initial_gradient": 0.0,
    "bias": "zero",
    "calibration": 0.0,
}
SCORING_ALL_ROWS = [
    name
    for name, objective in OBJECTIVES.items()
    if "all" in objective.samplers()
    and objective.step == "gradient"
    and not objective.state_width
    and not objective.uniforms_width
]
STEPS = [name for name in optimizers.taken_by(LABELS) if name not in ("lbfgs", "dcd")]


def some_rows(n=40, n_features=6, n_labels=5, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, n_features)).astype(np.float32)
    x[rng.random(x.shape) < 0.3] = 0
    return x, rng.integers(0, n_labels, n), rng.integers(1, 4, n)


def repeated(x, y, weights):
    rows = np.repeat(np.arange(len(y)), weights)
    return x[rows], y[rows]


def assert_weights_are_repetitions(classifier, x, y, weights):
    weighted = classifier.fit(x, y, sample_weight=weights).predict_proba(x)
    unweighted = classifier.fit(x, y).predict_proba(x)
    with_repetitions = classifier.fit(*repeated(x, y, weights)).predict_proba(x)
    off = np.abs(weighted - with_repetitions).max()
    assert off < 0.01 * np.abs(weighted - unweighted).max()


@pytest.mark.parametrize("optimizer", STEPS)
@pytest.mark.parametrize("objective", SCORING_ALL_ROWS)
def test_a_row_of_weight_2_is_the_row_twice_in_steps_on_all_rows(objective, optimizer):
    x, y, weights = some_rows()
    classifier = SoftmaxClassifier(objective, optimizer=optimizer, sampler="all", **ALL_AT_ONCE)
    assert_weights_are_repetitions(classifier, x, y, weights)


@pytest.mark.parametrize("objective", ["softmax", "ova", "ove"])
def test_a_row_of_weight_2_is_the_row_twice_in_steps_by_matrix_products(objective):
    x, y, weights = some_rows(n=420, n_features=40, n_labels=80)
    classifier = SoftmaxClassifier(objective, optimizer="sgd", sampler="all", **ALL_AT_ONCE)
    assert_weights_are_repetitions(classifier, x, y, weights)


@pytest.mark.parametrize("hidden", [None, 4])
@pytest.mark.parametrize("objective", ["softmax", "ova", "ove"])
def test_a_row_of_weight_2_is_the_row_twice_with_sparse_features(objective, hidden):
    x, y, weights = some_rows()
    settings = {"optimizer": "adagrad", "sampler": "all", "hidden": hidden, **ALL_AT_ONCE}
    classifier = SoftmaxClassifier(objective, **settings)
    assert_weights_are_repetitions(classifier, csr_matrix(x), y, weights)


@pytest.mark.parametrize("objective", ["softmax", "ova"])
def test_a_row_of_weight_2_is_the_row_twice_at_the_optimum(objective):
    x, y, weights = some_rows()
    classifier = SoftmaxClassifier(objective, optimizer="lbfgs")
    assert_weights_are_repetitions(classifier, x, y, weights)


def fit_by_task(data, objective, **options):
    objective = new_objective(OBJECTIVES[objective], options)
    settings = ClassifySettings.from_options({"threads": 1, "calibration": 0.0, **options})
    sampler_options = samplers.options_of_samplers(options)
    return train(data, objective, settings, options=sampler_options).classifier


@pytest.mark.parametrize("optimizer", ["dcd", "adagrad"])
@pytest.mark.parametrize("weights", ["sparse", "tree"])
@pytest.mark.slow
def test_a_row_of_weight_2_is_about_the_row_twice_where_labels_are_trained_in_turn(
    weights, optimizer
):
    """The order of the rows is drawn, and plays little role after many epochs."""
    x, y, row_weights = some_rows()
    x = csr_matrix(np.abs(x))
    options = {
        "loss": "squared-hinge",
        "weights": weights,
        **({"leaf_size": 2} if weights == "tree" else {}),
        "weight_threshold": 0.0,
        "optimizer": optimizer,
        "l2": 0.1,
        "epochs": 100,
        "propensity": 0.0,
    }

    def probabilities(x_trained, y_trained, row_weights=None):
        data = Labeled(x_trained, Labels.single(y_trained), 5, weights=row_weights)
        ids, p = joined_blocks(fit_by_task(data, "ova", **options).iter_top_k(x, 5))
        return np.take_along_axis(p, np.argsort(ids, axis=1), axis=1)

    weighted = probabilities(x, y, row_weights)
    off = np.abs(weighted - probabilities(*repeated(x, y, row_weights))).mean()
    assert off < 0.4 * np.abs(weighted - probabilities(x, y)).mean()


@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.slow
def test_weights_of_2_are_twice_the_rate_of_plain_steps(objective, is_sparse, batch_size):
    """Rows without labels take the other half of all weight, so that a labelled one has 2 on
    average; the state that an objective keeps of a row moves at its own rate.
    """
    x, y, _ = some_rows()
    labels = Labels(np.minimum(np.arange(2 * len(y) + 1), len(y)), y.astype(np.int32))
    x = np.concatenate([x, np.zeros_like(x)])
    data = Labeled(csr_matrix(x) if is_sparse else x, labels, 5)
    if OBJECTIVES[objective].step == "proximal":
        batch_size = 1
    steps = {"optimizer": "sgd", "bias": "zero", "epochs": 3, "batch_size": batch_size}
    weights = np.repeat([1.0, 1e-12], len(y))
    weighted = fit_by_task(
        dataclasses.replace(data, weights=weights), objective, learning_rate=0.125, **steps
    )
    plain = fit_by_task(data, objective, learning_rate=0.25, **steps)
    unweighted = fit_by_task(data, objective, learning_rate=0.125, **steps)
    np.testing.assert_array_equal(weighted.arrays["output"], plain.arrays["output"])
    assert (weighted.arrays["output"] != unweighted.arrays["output"]).any()


def imbalanced(seed=0):
    """Four labels, the last of which has 3 % of the rows, and overlaps with the first."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2, 3], [200, 150, 130, 15])
    centres = np.array([[2, 0, 0], [0, 2, 0], [0, 0, 2], [2, 1, 1]])
    x = np.abs(centres[y] + rng.normal(size=(len(y), 3))).astype(np.float32)
    order = rng.permutation(len(y))
    return x[order], y[order]


def recall_of_last(classifier, x, y):
    return (classifier.fit(x, y).predict(x)[y == 3] == 3).mean()


@pytest.mark.parametrize("optimizer", [None, *STEPS])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_balanced_weights_find_more_of_a_rare_label(objective, optimizer):
    if OBJECTIVES[objective].step == "proximal" and optimizer not in (None, "sgd"):
        pytest.skip("proximal steps are those of sgd")
    x, y = imbalanced()
    settings = {"optimizer": optimizer, "epochs": 30}
    plain = recall_of_last(SoftmaxClassifier(objective, **settings), x, y)
    balanced = recall_of_last(
        SoftmaxClassifier(objective, class_weight="balanced", **settings), x, y
    )
    assert balanced > plain


@pytest.mark.parametrize("weights", ["sparse", "tree"])
def test_balanced_weights_find_more_of_a_rare_label_where_labels_are_trained_in_turn(weights):
    x, y = imbalanced()
    data = Labeled(csr_matrix(x), Labels.single(y), 4)
    options = {
        "loss": "squared-hinge",
        "weights": weights,
        **({"leaf_size": 2} if weights == "tree" else {}),
        "propensity": 0.0,
        "epochs": 100,
    }

    def recall(**weighting):
        fitted = fit_by_task(data, "ova", **options, **weighting)
        best, _ = joined_blocks(fitted.iter_top_k(data.features, 1))
        return (best[y == 3, 0] == 3).mean()

    assert recall(class_weight="balanced") > recall()


# ---- where weights come from


def test_balanced_weights_of_one_label_a_row_are_those_of_scikit_learn():
    y = np.array([0, 0, 0, 1, 2, 2])
    weights = balanced_weights(Labels.single(y), 4, None)
    np.testing.assert_allclose(weights, compute_sample_weight("balanced", y))


def test_a_row_of_several_labels_has_the_mean_of_their_weights_and_one_of_none_stays():
    labels = Labels.of_rows([[0], [0, 1], [], [0]])
    weights = balanced_weights(labels, 2, np.array([1.0, 1.0, 5.0, 2.0]))
    # label 0 has rows of weight 4, label 1 one of weight 1; they sum to 4 as before
    expected = np.array([1 / 4, (1 / 4 + 1) / 2, 0, 2 / 4])
    np.testing.assert_allclose(weights[[0, 1, 3]], (4 * expected / expected.sum())[[0, 1, 3]])
    assert weights[2] == 5


def test_rows_of_weight_0_are_left_out_and_equal_weights_are_none():
    x, y, _ = some_rows()
    settings = {"optimizer": "adagrad", "epochs": 2}
    weights = np.where(np.arange(len(y)) % 3, 7.0, 0.0)
    some = SoftmaxClassifier("ns", **settings).fit(x, y, sample_weight=weights)
    others = SoftmaxClassifier("ns", **settings).fit(x[weights > 0], y[weights > 0])
    np.testing.assert_array_equal(some.coef_, others.coef_)


def test_a_dict_has_the_weights_of_labels_by_name():
    x, y, _ = some_rows(n_labels=2)
    y = np.array(["ham", "spam"])[y]
    by_label = SoftmaxClassifier(class_weight={"spam": 3}).fit(x, y)
    by_row = SoftmaxClassifier().fit(x, y, sample_weight=np.where(y == "spam", 3, 1))
    np.testing.assert_array_equal(by_label.coef_, by_row.coef_)


@pytest.mark.parametrize(
    "class_weight", [{"spam": -1}, {"spam": "much"}, {"egg": 2}, {"ham": 0, "spam": 0}]
)
def test_invalid_class_weights_are_refused(class_weight):
    x, y, _ = some_rows(n_labels=2)
    classifier = SoftmaxClassifier(class_weight=class_weight)
    with pytest.raises(ValueError, match="class_weight"):
        classifier.fit(x, np.array(["ham", "spam"])[y])


def test_continued_training_refuses_to_balance_labels_that_it_does_not_know():
    x, y, _ = some_rows()
    classifier = SoftmaxClassifier(class_weight="balanced", optimizer="adagrad")
    with pytest.raises(ValueError, match="partial_fit"):
        classifier.partial_fit(x, y, classes=range(5))
