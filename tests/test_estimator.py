"""The classifier by scikit-learn's conventions: its own checks for every objective, and what its
users count on.
"""

import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_classifier_multioutput, check_estimator

from embedx.classification import classifier, estimator_settings
from embedx.classification.estimator import SoftmaxClassifier
from embedx.classification.settings import ClassifySettings
from embedx.errors import DataError, InapplicableError, SettingError
from embedx.labeled.digits import digits
from embedx.objectives import OBJECTIVES
from embedx.runtime import progress
from embedx.samplers import SAMPLERS
from embedx.settings import settings_of
from tests.support.noisy_labels import N_LABELS, noisy
from tests.support.objective_classes import REPRESENTATIVES
from tests.support.refusals import refused

ORDER = (
    "the order of the steps, and the noise, are drawn by place: rows that stand elsewhere are met"
    " otherwise"
)
BY_STEPS = {
    f"check_sample_weight_equivalence_on_{kind}_data": ORDER for kind in ("dense", "sparse")
}
# of 100 on data that small: conventions are the same after any number, and this one learns
FEW = {"epochs": 5}
CANDIDATES = [
    (SoftmaxClassifier(), {}),
    (SoftmaxClassifier("ns", epochs=25), BY_STEPS),
    *((SoftmaxClassifier(name, **FEW), BY_STEPS) for name in ("hs", "ldgs", "implicit")),
    (SoftmaxClassifier("ova", optimizer="adagrad", **FEW), BY_STEPS),
    (SoftmaxClassifier(hidden=16, **FEW), BY_STEPS),
]


@pytest.mark.parametrize(
    ("candidate", "may_fail"), CANDIDATES, ids=[str(candidate) for candidate, _ in CANDIDATES]
)
@pytest.mark.filterwarnings("default")  # the checks provoke some
def test_scikit_learns_own_checks(candidate, may_fail):
    results = check_estimator(
        candidate, expected_failed_checks=may_fail, on_fail=None, on_skip=None
    )
    failed = {
        result["check_name"]: result["exception"]
        for result in results
        if result["status"] == "failed"
    }
    assert not failed
    assert len(results) > 50


# ---- parameters


def test_parameters_are_the_settings_of_embedx_classify():
    parameters = inspect.signature(SoftmaxClassifier).parameters
    groups = [ClassifySettings, *(sampler.Settings for sampler in SAMPLERS.values())]
    of_words = {name for sampler in SAMPLERS.values() for name in sampler.word_settings}
    settings = {name for group in groups for name in settings_of(group)} - of_words
    names = {
        name
        for objective in OBJECTIVES.values()
        for name in settings_of(objective.Settings)
        if name not in objective.word_settings
    }
    settings = {
        estimator_settings.OTHER_NAMES.get(name, name)
        for name in settings - estimator_settings.FILE_SETTINGS
    }
    assert parameters.keys() == settings | names | {"objective", "verbose"}
    assert all(parameters[name].default is None for name in settings)


@pytest.fixture(scope="module")
def data():
    """Training and test pictures of digits, with their labels."""
    train, test = digits(600, 200)
    return train.features, train.labels.ids, test.features, test.labels.ids


@pytest.mark.slow
def test_the_settings_are_used_and_recorded(data):
    X, y, *_ = data
    fitted = SoftmaxClassifier("ns", negatives=3, epochs=2, batch_size="all", random_state=7).fit(
        X, y
    )
    record = fitted.classifier_.settings
    assert [record[name] for name in ("negatives", "epochs", "batch_size", "seed", "threads")] == [
        3,
        2,
        len(X),
        7,
        1,
    ]
    assert fitted.n_iter_ == 2


@pytest.mark.parametrize(
    ("parameters", "optimizer"),
    [
        ({}, "lbfgs"),
        ({"objective": "ova"}, "lbfgs"),
        ({"objective": "ns"}, "adagrad"),
        ({"objective": "ove", "sampler": "all", "optimizer": "lbfgs"}, "lbfgs"),
        ({"epochs": 1}, "adagrad"),
        ({"time_budget": "0.1s"}, "adagrad"),
        ({"objective": "ova", "sampler": "uniform", "negatives": 2}, "adagrad"),
        ({"n_jobs": 2}, "adagrad"),
    ],
    ids=str,
)
def test_lbfgs_is_the_default_for_objectives_with_an_optimum_on_small_data(
    data, parameters, optimizer, monkeypatch
):
    if "n_jobs" in parameters:
        monkeypatch.setattr(estimator_settings, "MAX_PRODUCTS_FOR_LBFGS", 600 * 256 * 10 - 1)
    fitted = SoftmaxClassifier(**parameters).fit(*data[:2])
    assert fitted.classifier_.settings["optimizer"] == optimizer
    assert fitted.classifier_.settings["l2"] == (1 / 600 if optimizer == "lbfgs" else 0.0)


@pytest.mark.parametrize(
    ("parameters", "setting", "quoted"),
    [
        ({"objective": "magic"}, "objective", "'magic'"),
        ({"negatives": 5}, "negatives", "objective='softmax'"),
        ({"epochs": 0}, "epochs", "epochs=0"),
        ({"random_state": -1}, "seed", "random_state=-1"),
        ({"hidden": 5, "optimizer": "lbfgs"}, "optimizer", ("'lbfgs'", "hidden")),
    ],
    ids=str,
)
def test_invalid_parameters_are_refused_by_fit(data, parameters, setting, quoted):
    with refused(setting, quoting=quoted):
        SoftmaxClassifier(**parameters).fit(*data[:2])


def test_lbfgs_that_does_not_converge_gives_a_warning(data):
    with pytest.warns(ConvergenceWarning, match="3 iterations"):
        fitted = SoftmaxClassifier(max_iterations=3).fit(*data[:2])
    assert fitted.n_iter_ == 3


def test_a_fit_takes_one_number_from_a_random_state(data):
    X, y, *_ = data
    state = np.random.RandomState(3)
    fitted = SoftmaxClassifier("ns", epochs=1, random_state=state).fit(X, y)
    expected = np.random.RandomState(3)
    assert fitted.classifier_.settings["seed"] == expected.randint(2**31)
    assert state.randint(2**31) == expected.randint(2**31)


def test_epochs_and_a_time_budget_are_not_both_given(data):
    with refused("epochs", kind=InapplicableError):
        SoftmaxClassifier(epochs=3, time_budget="1m").fit(*data[:2])


def test_random_states(data):
    X, y, *_ = data

    def weights(random_state):
        return SoftmaxClassifier("ns", epochs=1, random_state=random_state).fit(X, y).coef_

    np.testing.assert_array_equal(weights(None), weights(None))
    np.testing.assert_array_equal(
        weights(np.random.RandomState(3)), weights(np.random.RandomState(3))
    )
    assert not np.array_equal(weights(0), weights(3))


def test_verbose_reports_on_standard_error(data, monkeypatch, capsys):
    reported = []
    monkeypatch.setattr(
        progress.Reporter,
        "start",
        lambda self, title, total, unit, done=0: reported.append(self.stream),
    )
    monkeypatch.setattr(
        progress.Reporter, "update", lambda self, done, **facts: reported.append(facts["loss"])
    )
    monkeypatch.setattr(progress.Reporter, "finish", lambda self: None)
    SoftmaxClassifier(epochs=1).fit(*data[:2])
    assert capsys.readouterr().err == ""
    reported.clear()
    SoftmaxClassifier(epochs=1, verbose=True).fit(*data[:2])
    assert reported[0] is sys.stderr
    assert reported[1] > 0


# ---- what is learned


@pytest.mark.parametrize(("strength", "seed"), [(0.1, None), (1.0, None), (1.0, 0)])
def test_the_optimum_is_that_of_logistic_regression(data, strength, seed):
    """Also with weights of rows, which may be any numbers."""
    X, y, unseen, _ = data
    weights = None if seed is None else np.random.default_rng(seed).uniform(0, 2, len(y))
    theirs = LogisticRegression(C=strength, tol=1e-8, max_iter=10_000).fit(
        X.astype(np.float64), y, weights
    )
    ours = SoftmaxClassifier(
        l2=1 / (strength * (len(y) if weights is None else weights.sum()))
    ).fit(X, y, weights)
    np.testing.assert_allclose(ours.predict_proba(unseen), theirs.predict_proba(unseen), atol=1e-3)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-2)
    if strength == 1:
        np.testing.assert_array_equal(SoftmaxClassifier().fit(X, y, weights).coef_, ours.coef_)


def test_two_classes_share_the_penalty_of_one_logistic_regression_with_twice_the_c(data):
    """w1 = -w0 = w / 2, so that |w0|² + |w1|² = |w|² / 2."""
    X, y, unseen, _ = data
    X = X[y < 2]
    y = y[y < 2]
    theirs = LogisticRegression(C=2, tol=1e-8, max_iter=10_000).fit(X.astype(np.float64), y)
    ours = SoftmaxClassifier().fit(X, y)
    assert ours.coef_.shape == theirs.coef_.shape == (1, 256)
    np.testing.assert_allclose(ours.predict_proba(unseen), theirs.predict_proba(unseen), atol=1e-3)


@pytest.mark.parametrize("name", ["softmax", "hs", "ar"])
@pytest.mark.slow
def test_objectives_learn_digits_from_dense_and_sparse_pictures(data, name):
    X, y, unseen, truth = data
    for features in (X, sparse.csr_matrix(X)):
        fitted = SoftmaxClassifier(name, epochs=20).fit(features, y)
        assert fitted.score(unseen, truth) > 0.75
        assert fitted.score(sparse.csr_matrix(unseen), truth) > 0.75
        np.testing.assert_allclose(fitted.predict_proba(unseen).sum(axis=1), 1, rtol=1e-4)


@pytest.mark.parametrize("name", ["ns", "softmax"])
def test_weights_of_rows_are_relative_where_training_goes_by_steps(data, name):
    X, y, *_ = data
    weights = np.where(y == 0, 0.5, 1.0)
    halves, wholes = (
        SoftmaxClassifier(name, optimizer="adagrad", epochs=1).fit(X, y, factor * weights).coef_
        for factor in (1, 2)
    )
    np.testing.assert_array_equal(halves, wholes)


# ---- what is predicted


def test_scores_are_linear_in_the_features(data):
    X, y, unseen, _ = data
    fitted = SoftmaxClassifier().fit(X, y)
    np.testing.assert_allclose(
        fitted.decision_function(unseen), unseen @ fitted.coef_.T + fitted.intercept_, rtol=1e-6
    )
    assert fitted.coef_.dtype == np.float64
    pair = SoftmaxClassifier().fit(X[y < 2], y[y < 2])
    np.testing.assert_allclose(
        pair.decision_function(unseen), (unseen @ pair.coef_.T + pair.intercept_)[:, 0], rtol=1e-6
    )
    assert not SoftmaxClassifier(bias="none").fit(X, y).intercept_.any()


def test_a_hidden_layer_takes_dense_features_as_sparse_ones_and_has_no_coef(data):
    fitted, other = (
        SoftmaxClassifier(hidden=8, epochs=1).fit(X, data[1])
        for X in (data[0], sparse.csr_matrix(data[0]))
    )
    assert not hasattr(fitted, "coef_")
    assert fitted.decision_function(data[2]).shape == (200, 10)
    np.testing.assert_array_equal(
        fitted.decision_function(data[2]), other.decision_function(data[2])
    )


def test_top_k_are_the_best_with_their_probabilities_in_a_saved_model_too(data, tmp_path):
    X, y, unseen, _ = data
    names = np.array([f"digit {k}" for k in range(10)])
    fitted = SoftmaxClassifier().fit(X, names[y])
    labels, probabilities = fitted.top_k(unseen, 3)
    assert labels.shape == probabilities.shape == (200, 3)
    np.testing.assert_array_equal(labels[:, 0], fitted.predict(unseen))
    np.testing.assert_allclose(
        probabilities, -np.sort(-fitted.predict_proba(unseen), axis=1)[:, :3]
    )
    assert fitted.top_k(unseen, 99)[0].shape == (200, 10)
    loaded = classifier.load(fitted.classifier_.save(tmp_path / "model"))
    best, p = loaded.top_k(unseen, 1)
    np.testing.assert_array_equal(best, labels[:, :1])
    np.testing.assert_allclose(p, probabilities[:, :1], rtol=1e-5)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    "parameters", [{"objective": "ova", "weights": "sparse"}, {"epochs": 5, "neighbours": "5"}]
)
def test_probabilities_of_all_classes_are_those_of_the_best(several, parameters):
    rows = noisy(1500, 0, several=several)
    ids = rows.labels.ids
    offsets = rows.labels.offsets
    if several:
        y = sparse.csr_matrix((np.ones(len(ids)), ids, offsets), (1500, N_LABELS)).toarray()
    else:
        y = ids
    fitted = SoftmaxClassifier(**parameters).fit(rows.features, y)
    assert "calibration" in fitted.classifier_.arrays
    probabilities = fitted.predict_proba(rows.features[:50])
    ids, p = fitted.top_k(rows.features[:50], N_LABELS)
    np.testing.assert_allclose(
        np.take_along_axis(probabilities, ids, 1),
        p if several else p / p.sum(axis=1, keepdims=True),
        rtol=1e-5,
    )


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


def test_the_data_of_the_user_are_not_changed(data):
    """Columns in disorder, twice and read-only are put in order in a copy."""
    y = data[1][:4]
    X = sparse.csr_matrix(
        (
            np.ones(8, dtype=np.float32),
            np.array([3, 1, 2, 2, 0, 1, 3, 2]),
            np.array([0, 2, 4, 6, 8]),
        ),
        (4, 4),
    )
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    ordered = X.toarray()
    fitted = SoftmaxClassifier("ns", epochs=2).fit(X, y)
    np.testing.assert_array_equal(X.indices, [3, 1, 2, 2, 0, 1, 3, 2])
    other = SoftmaxClassifier("ns", epochs=2).fit(sparse.csr_matrix(ordered), y)
    np.testing.assert_array_equal(
        fitted.predict_proba(X), other.predict_proba(sparse.csr_matrix(ordered))
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


def test_scikit_learns_check_of_several_outputs():
    check_classifier_multioutput("SoftmaxClassifier", SoftmaxClassifier("ova"))


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


# ---- going on


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_partial_fit_learns_from_one_part_after_another(data, name):
    X, y, unseen, truth = data
    fitted = SoftmaxClassifier(name)
    for _ in range(4):
        for part in np.array_split(np.arange(len(X)), 4):
            fitted.partial_fit(X[part], y[part], classes=np.arange(10))
    assert fitted.n_iter_ == 16
    assert fitted.score(unseen, truth) > 0.75


def test_partial_fit_keeps_what_the_optimiser_has_learned(data):
    """Adagrad's first step moves every weight by the learning rate; one that goes on moves them by
    less.
    """
    X, y, *_ = data
    plain = {"batch_size": "all", "learning_rate": 0.1, "initial_gradient": 0.0}
    fitted = SoftmaxClassifier("ova", optimizer="adagrad", **plain).fit(X, y)
    fitted.partial_fit(X, y)
    before = fitted.coef_.copy()
    fitted.partial_fit(X, y)
    assert 0 < np.abs(fitted.coef_ - before).max() < 0.05
    anew = SoftmaxClassifier("ova", **plain).partial_fit(X, y, classes=range(10))
    assert np.abs(anew.coef_).max() == pytest.approx(0.1)


def test_partial_fit_continues_from_the_optimum(data):
    X, y, *_ = data
    fitted = SoftmaxClassifier(learning_rate=1e-4)
    fitted.set_params(optimizer="lbfgs").fit(X, y)
    before = fitted.coef_.copy()
    fitted.set_params(optimizer="sgd").partial_fit(X, y)
    np.testing.assert_allclose(fitted.coef_, before, atol=1e-2)
    assert not np.array_equal(fitted.coef_, before)


def test_partial_fit_refuses_incomplete_or_changed_arguments(data):
    X, y, *_ = data
    with pytest.raises(ValueError, match="`classes`"):
        SoftmaxClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="optimizer='lbfgs'"):
        SoftmaxClassifier(optimizer="lbfgs").partial_fit(X, y, classes=range(10))
    fitted = SoftmaxClassifier().partial_fit(X[y < 5], y[y < 5], classes=range(9))
    with pytest.raises(ValueError, match=r"\b9\b"):
        fitted.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"classes=range\(0, 10\)"):
        fitted.partial_fit(X[y < 5], y[y < 5], classes=range(10))


# ---- texts, and folders

TEXTS = ["the cat purrs", "a dog and a cat", "the car on the road", "a road, a car"] * 20
TOPICS = ["pet", "pet", "car", "car"] * 20


def test_texts_are_classified_by_their_words_and_in_pipelines(tmp_path):
    from sklearn.feature_extraction.text import TfidfVectorizer

    alone = SoftmaxClassifier().fit(TEXTS, TOPICS)
    assert alone.predict(["my cat", "no road"]).tolist() == ["pet", "car"]
    assert alone.classifier_.settings["scaling"] == "tf-idf"
    pipeline = make_pipeline(TfidfVectorizer(), SoftmaxClassifier("ns", epochs=5))
    search = GridSearchCV(pipeline, {"softmaxclassifier__negatives": [1, 2]}, cv=2).fit(
        TEXTS, TOPICS
    )
    assert search.score(TEXTS, TOPICS) == 1
    loaded = SoftmaxClassifier.load(alone.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(TEXTS), alone.predict_proba(TEXTS))
    assert loaded.partial_fit(TEXTS, TOPICS).score(TEXTS, TOPICS) == 1


ROWS = np.arange(600)


@pytest.mark.parametrize(
    "labels", [ROWS % 3 - 1, ROWS % 2 == 0, ROWS % 3 * 1.0, np.eye(3, dtype=int)[ROWS % 3]]
)
def test_a_saved_classifier_has_the_same_classes_and_parameters(data, tmp_path, labels):
    fitted = SoftmaxClassifier(
        "ova", negatives=np.int64(2), sampler="uniform", epochs=1, random_state=3
    ).fit(data[0], labels)
    loaded = SoftmaxClassifier.load(fitted.save(tmp_path / "model"))
    assert loaded.get_params() == fitted.get_params()
    assert loaded.classes_.dtype == fitted.classes_.dtype
    np.testing.assert_array_equal(loaded.predict(data[2]), fitted.predict(data[2]))


# ---- among other estimators


def test_in_a_pipeline_a_search_and_cross_validation(data):
    X, y, unseen, truth = data
    pipeline = make_pipeline(StandardScaler(), SoftmaxClassifier(l2=1e-2))
    assert pipeline.fit(X, y).score(unseen, truth) > 0.85
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.8
    search = GridSearchCV(SoftmaxClassifier(), {"l2": np.logspace(-4, 1, 3)}, cv=3).fit(X, y)
    assert search.best_params_["l2"] < 1
    assert search.score(unseen, truth) > 0.85


def test_in_a_search_by_several_processes(data):
    grid = {"negatives": [2, 5], "epochs": [np.int64(1), np.int64(20)]}
    search = GridSearchCV(SoftmaxClassifier("ns"), grid, cv=2, n_jobs=2).fit(*data[:2])
    assert search.best_params_["epochs"] == 20


def test_clones_and_pickles(data):
    X, y, unseen, _ = data
    fitted = SoftmaxClassifier("hs", epochs=3, random_state=5).fit(X, y)
    again = clone(fitted).fit(X, y)
    thawed = pickle.loads(pickle.dumps(fitted))
    for other in (again, thawed):
        np.testing.assert_array_equal(other.predict_proba(unseen), fitted.predict_proba(unseen))
        assert other.get_params() == fitted.get_params()
    thawed.partial_fit(X, y)
    np.testing.assert_array_equal(thawed.coef_, fitted.partial_fit(X, y).coef_)


def test_without_scikit_learn_the_error_names_the_extra_and_the_rest_works():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from embedx import *\n"
        "SkipGram(dim=2)\n"
        "import embedx\n"
        "try: embedx.SoftmaxClassifier\n"
        "except ImportError as error: print(error)\n"
    )
    errors = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert 'pip install "embedx[sklearn]"' in errors


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


@pytest.mark.parametrize(
    ("method", "more"), [("fit", {}), ("partial_fit", {"classes": ["b", "\ud800"]})]
)
def test_labels_that_no_file_can_hold_are_refused_before_training(method, more):
    with pytest.raises(DataError) as error:
        getattr(SoftmaxClassifier("softmax"), method)(np.eye(2), ["\ud800", "b"], **more)
    assert error.value.file == "y"
