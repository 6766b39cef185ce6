"""What `SoftmaxClassifier` learns: optima, several labels, sparse weights, `partial_fit`."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression

from embedx.classification.estimator import SoftmaxClassifier
from embedx.errors import SettingError
from tests.support.objective_classes import REPRESENTATIVES
from tests.support.refusals import refused


@pytest.mark.parametrize(("strength", "seed"), [(0.1, None), (1.0, None), (1.0, 0)])
def test_the_optimum_is_that_of_logistic_regression(digit_arrays, strength, seed):
    """Also with weights of rows, which may be any numbers."""
    X, y, unseen, _ = digit_arrays
    weights = None if seed is None else np.random.default_rng(seed).uniform(0, 2, len(y))
    reference = LogisticRegression(C=strength, tol=1e-8, max_iter=10_000).fit(
        X.astype(np.float64), y, weights
    )
    classifier = SoftmaxClassifier(
        l2=1 / (strength * (len(y) if weights is None else weights.sum()))
    ).fit(X, y, weights)
    np.testing.assert_allclose(
        classifier.predict_proba(unseen), reference.predict_proba(unseen), atol=1e-3
    )
    np.testing.assert_allclose(classifier.coef_, reference.coef_, atol=1e-2)
    if strength == 1:
        np.testing.assert_array_equal(
            SoftmaxClassifier().fit(X, y, weights).coef_, classifier.coef_
        )


def test_two_classes_share_the_penalty_of_one_logistic_regression_with_twice_the_c(digit_arrays):
    """w1 = -w0 = w / 2, so that |w0|² + |w1|² = |w|² / 2."""
    X, y, unseen, _ = digit_arrays
    X = X[y < 2]
    y = y[y < 2]
    reference = LogisticRegression(C=2, tol=1e-8, max_iter=10_000).fit(X.astype(np.float64), y)
    classifier = SoftmaxClassifier().fit(X, y)
    assert classifier.coef_.shape == reference.coef_.shape == (1, 256)
    np.testing.assert_allclose(
        classifier.predict_proba(unseen), reference.predict_proba(unseen), atol=1e-3
    )


@pytest.mark.parametrize("name", ["softmax", "hs", "ar"])
@pytest.mark.slow
def test_objectives_learn_digits_from_dense_and_sparse_pictures(digit_arrays, name):
    X, y, unseen, truth = digit_arrays
    for features in (X, sparse.csr_matrix(X)):
        fitted = SoftmaxClassifier(name, epochs=20).fit(features, y)
        assert fitted.score(unseen, truth) > 0.75
        assert fitted.score(sparse.csr_matrix(unseen), truth) > 0.75
        np.testing.assert_allclose(fitted.predict_proba(unseen).sum(axis=1), 1, rtol=1e-4)


@pytest.mark.parametrize("name", ["ns", "softmax"])
def test_weights_of_rows_are_relative_where_training_goes_by_steps(digit_arrays, name):
    X, y, *_ = digit_arrays
    weights = np.where(y == 0, 0.5, 1.0)
    fitted = SoftmaxClassifier(name, optimizer="adagrad", epochs=1).fit(X, y, weights)
    doubled = SoftmaxClassifier(name, optimizer="adagrad", epochs=1).fit(X, y, 2 * weights)
    np.testing.assert_array_equal(fitted.coef_, doubled.coef_)


def test_rows_whose_label_is_empty_are_not_trained_on():
    X = np.eye(6)[[0, 1, 2, 0, 1, 2]]
    y = np.array(["a", "b", "", "a", "b", " "])
    with pytest.warns(UserWarning, match="2 of 6"):
        fitted = SoftmaxClassifier().fit(X, y)
    assert fitted.classes_.tolist() == ["a", "b"]
    kept = [0, 1, 3, 4]
    np.testing.assert_allclose(
        fitted.coef_, SoftmaxClassifier(l2=1 / 6).fit(X[kept], y[kept]).coef_, atol=1e-5
    )


# ---- several labels


@pytest.fixture(scope="module")
def tagged():
    """Counts of words, and an indicator matrix of their texts' topics."""
    X, y = make_multilabel_classification(
        400, n_features=30, n_classes=6, n_labels=2, random_state=0
    )
    return X / X.max(), y


@pytest.mark.parametrize("loss", ["logistic", "squared-hinge"])
def test_independent_labels_are_predicted_above_one_half(tagged, loss):
    X, y = tagged
    fitted = SoftmaxClassifier("ova", loss=loss).fit(X, y)
    predicted = fitted.predict(X)
    assert (predicted == y).mean() > 0.8
    np.testing.assert_array_equal(predicted, fitted.predict_proba(X) > 0.5)
    np.testing.assert_array_equal(predicted, fitted.decision_function(X) > 0)
    assert fitted.predict_proba(X).sum(axis=1).max() > 1.5


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_objectives_rank_several_labels(tagged, name):
    X, y = tagged
    fitted = SoftmaxClassifier(name, epochs=20).fit(X, y)
    labels, probabilities = fitted.top_k(X, 1)
    often = y.mean(axis=0).max()
    has_any = y.any(axis=1)
    assert y[np.arange(len(y)), labels[:, 0]][has_any].mean() > often + 0.1
    assert probabilities.max() <= 1 + 1e-6
    predicted = fitted.predict(X)
    by_itself = fitted.classifier_.objective.label_probability(np.zeros((1, 6))) is not None
    assert by_itself or (predicted.sum(axis=1) == 1).all()


def test_sparse_indicators_are_answered_by_sparse_indicators(tagged):
    X, y = tagged
    dense = SoftmaxClassifier("ova").fit(X, y)
    for indicators in (sparse.csr_matrix(y), sparse.coo_array(y), sparse.csc_matrix(y)):
        fitted = SoftmaxClassifier("ova").fit(X, indicators)
        predicted = fitted.predict(X)
        assert sparse.issparse(predicted)
        np.testing.assert_array_equal(predicted.toarray(), dense.predict(X))
        assert fitted.score(X, indicators.tocsr()) == pytest.approx(dense.score(X, y))


# ---- partial_fit


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_partial_fit_learns_from_one_part_after_another(digit_arrays, name):
    X, y, unseen, truth = digit_arrays
    fitted = SoftmaxClassifier(name)
    for _ in range(4):
        for part in np.array_split(np.arange(len(X)), 4):
            fitted.partial_fit(X[part], y[part], classes=np.arange(10))
    assert fitted.n_iter_ == 16
    assert fitted.score(unseen, truth) > 0.75


def test_partial_fit_keeps_what_the_optimiser_has_learned(digit_arrays):
    """Adagrad's first step moves each weight by the learning rate; later ones move it by less."""
    X, y, *_ = digit_arrays
    plain = {"batch_size": "all", "learning_rate": 0.1, "initial_gradient": 0.0}
    fitted = SoftmaxClassifier("ova", optimizer="adagrad", **plain).fit(X, y)
    fitted.partial_fit(X, y)
    before = fitted.coef_.copy()
    fitted.partial_fit(X, y)
    assert 0 < np.abs(fitted.coef_ - before).max() < 0.05
    anew = SoftmaxClassifier("ova", **plain).partial_fit(X, y, classes=range(10))
    assert np.abs(anew.coef_).max() == pytest.approx(0.1)


def test_partial_fit_continues_from_the_optimum(digit_arrays):
    X, y, *_ = digit_arrays
    fitted = SoftmaxClassifier(learning_rate=1e-4)
    fitted.set_params(optimizer="lbfgs").fit(X, y)
    before = fitted.coef_.copy()
    fitted.set_params(optimizer="sgd").partial_fit(X, y)
    np.testing.assert_allclose(fitted.coef_, before, atol=1e-2)
    assert not np.array_equal(fitted.coef_, before)


def test_partial_fit_refuses_incomplete_or_changed_arguments(digit_arrays):
    X, y, *_ = digit_arrays
    with pytest.raises(ValueError, match="`classes`"):
        SoftmaxClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="optimizer='lbfgs'"):
        SoftmaxClassifier(optimizer="lbfgs").partial_fit(X, y, classes=range(10))
    fitted = SoftmaxClassifier().partial_fit(X[y < 5], y[y < 5], classes=range(9))
    with pytest.raises(ValueError, match=r"\b9\b"):
        fitted.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"classes=range\(0, 10\)"):
        fitted.partial_fit(X[y < 5], y[y < 5], classes=range(10))


# ---- sparse weights


@pytest.fixture(scope="module")
def several():
    """Sparse features, several labels a row as an indicator matrix."""
    X, y = make_multilabel_classification(300, 60, n_classes=12, n_labels=2, random_state=1)
    return sparse.csr_matrix(X, dtype=np.float32), y


HINGE = {"objective": "ova", "loss": "squared-hinge"}


def test_sparse_weights_predict_as_their_coefficients_say(several):
    X, y = several
    fitted = SoftmaxClassifier(**HINGE, weights="sparse").fit(X, y)
    assert fitted.classifier_.settings["weights"] == "sparse"
    assert fitted.classifier_.settings["optimizer"] == "dcd"
    assert sparse.issparse(fitted.coef_)
    scores = X @ fitted.coef_.T.toarray() + fitted.intercept_
    np.testing.assert_allclose(fitted.decision_function(X), scores, atol=1e-4)
    np.testing.assert_array_equal(fitted.predict(X), scores > 0)
    assert (fitted.predict(X) == y).mean() > 0.9


@pytest.mark.parametrize("weights", ["sparse", "tree"])
def test_weights_choose_the_objective_as_embedx_classify_does(weights):
    X = sparse.csr_matrix(np.eye(6, dtype=np.float32))
    y = np.arange(6) % 3
    objective = SoftmaxClassifier(weights=weights).fit(X, y).classifier_.objective
    assert (objective.name, objective.settings.loss) == ("ova", "squared-hinge")
    assert SoftmaxClassifier().fit(X, y).classifier_.objective.name == "softmax"
    with refused("weights", kind=SettingError):
        SoftmaxClassifier("softmax", weights=weights).fit(X, y)


def many_labels(n=600, n_labels=100):
    """Rows of one or two labels, each with two features of its own: too many labels for one cluster
    of a tree.
    """
    rng = np.random.default_rng(3)
    y = np.zeros((n, n_labels), dtype=np.int64)
    y[np.arange(n), np.arange(n) % n_labels] = 1
    y[np.arange(n), rng.integers(0, n_labels, n)] = 1
    return (
        sparse.csr_matrix(
            np.repeat(y, 2, axis=1) / np.sqrt(2 * y.sum(axis=1, keepdims=True)), dtype=np.float32
        ),
        y,
    )


def test_a_tree_finds_labels():
    X, y = many_labels()
    fitted = SoftmaxClassifier(**HINGE, weights="tree").fit(X, sparse.csr_matrix(y))
    assert fitted.classifier_.has_label_tree
    assert (fitted.predict(X).toarray() == y).mean() > 0.995
    ids, p = fitted.top_k(X, 3)
    assert ids.shape == p.shape == (len(y), 3)
    assert np.take_along_axis(y, ids[:, :1], 1).mean() > 0.95
    with refused("weights", value="tree"):
        fitted.predict_proba(X)
    with pytest.raises(AttributeError, match="coef_"):
        _ = fitted.coef_


def test_a_tree_of_single_labels_predicts_the_best_it_finds():
    X, y = many_labels()
    names = np.array([f"label {k:03d}" for k in range(100)])[y.argmax(axis=1)]
    fitted = SoftmaxClassifier(**HINGE, weights="tree").fit(X, names)
    assert fitted.classifier_.has_label_tree
    np.testing.assert_array_equal(fitted.predict(X), fitted.top_k(X, 1)[0][:, 0])
    assert (fitted.predict(X) == names).mean() > 0.6


def test_few_weights_are_dense_unless_asked_otherwise(several):
    fitted = SoftmaxClassifier(tolerance=0.1).fit(*several)
    assert fitted.classifier_.settings["weights"] == "dense"
    assert fitted.classifier_.settings["optimizer"] == "lbfgs"


def test_partial_fit_does_not_begin_with_sparse_weights_nor_continue_a_tree(several):
    with pytest.raises(ValueError, match="weights='sparse'"):
        SoftmaxClassifier(**HINGE, weights="sparse").partial_fit(*several)
    with refused("start", "weights"):
        SoftmaxClassifier(**HINGE, weights="tree", leaf_size=2).fit(*several).partial_fit(*several)


def test_partial_fit_of_sparse_weights_takes_the_mean_by_the_rows_of_a_label(several, tmp_path):
    X, Y = several
    Y = Y.copy()
    Y[:100, 3] = 0
    Y[100:, 5] = 0
    old = slice(None, 100)
    new = slice(100, None)
    settings = {**HINGE, "weights": "sparse"}
    fitted = SoftmaxClassifier(**settings).fit(X[old], Y[old])
    loaded = SoftmaxClassifier.load(fitted.save(tmp_path / "m"))
    seed = fitted.classifier_.settings["seed"] + fitted.n_iter_
    of_new = SoftmaxClassifier(**settings, random_state=seed).fit(X[new], Y[new])
    share = Y[new].sum(axis=0) / np.maximum(Y.sum(axis=0), 1)
    assert share[[3, 5]].tolist() == [1, 0]
    share[3] = 0.8  # a new label
    expected = fitted.coef_.toarray() + share[:, None] * (of_new.coef_ - fitted.coef_).toarray()
    intercept = fitted.intercept_ + share * (of_new.intercept_ - fitted.intercept_)

    fitted.partial_fit(X[new], Y[new])
    np.testing.assert_allclose(fitted.coef_.toarray(), expected, atol=1e-6)
    occurs = Y.any(axis=0)
    np.testing.assert_allclose(fitted.intercept_[occurs], intercept[occurs], atol=1e-6)
    np.testing.assert_array_equal(fitted.classifier_.counts, Y.sum(axis=0))
    loaded.partial_fit(X[new], Y[new])
    np.testing.assert_array_equal(loaded.coef_.toarray(), fitted.coef_.toarray())
    again = SoftmaxClassifier.load(fitted.save(tmp_path / "n"))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
