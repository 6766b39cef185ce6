"""`SoftmaxClassifier` by scikit-learn's conventions: checks, parameters, pipelines, searches."""

import inspect
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_classifier_multioutput, check_estimator

import embedx
from embedx.classification import estimator_settings
from embedx.classification.estimator import SoftmaxClassifier
from embedx.classification.settings import ClassifySettings
from embedx.errors import DataError, InapplicableError
from embedx.objectives import OBJECTIVES
from embedx.runtime import progress
from embedx.samplers import SAMPLERS
from embedx.settings import settings_of
from tests.support.refusals import refused, refused_data

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


@pytest.mark.slow
def test_the_settings_are_used_and_recorded(digit_arrays):
    X, y, *_ = digit_arrays
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
    digit_arrays, parameters, optimizer, monkeypatch
):
    if "n_jobs" in parameters:
        monkeypatch.setattr(estimator_settings, "MAX_PRODUCTS_FOR_LBFGS", 600 * 256 * 10 - 1)
    fitted = SoftmaxClassifier(**parameters).fit(*digit_arrays[:2])
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
def test_invalid_parameters_are_refused_by_fit(digit_arrays, parameters, setting, quoted):
    with refused(setting, quoting=quoted):
        SoftmaxClassifier(**parameters).fit(*digit_arrays[:2])


def test_lbfgs_that_does_not_converge_gives_a_warning(digit_arrays):
    with pytest.warns(ConvergenceWarning, match="3 iterations"):
        fitted = SoftmaxClassifier(max_iterations=3).fit(*digit_arrays[:2])
    assert fitted.n_iter_ == 3


def test_a_fit_takes_one_number_from_a_random_state(digit_arrays):
    X, y, *_ = digit_arrays
    state = np.random.RandomState(3)
    fitted = SoftmaxClassifier("ns", epochs=1, random_state=state).fit(X, y)
    expected = np.random.RandomState(3)
    assert fitted.classifier_.settings["seed"] == expected.randint(2**31)
    assert state.randint(2**31) == expected.randint(2**31)


def test_a_generator_is_no_random_state(digit_arrays):
    with refused("random_state"):
        SoftmaxClassifier(random_state=np.random.default_rng(3)).fit(*digit_arrays[:2])


def test_epochs_and_a_time_budget_are_not_both_given(digit_arrays):
    with refused("epochs", kind=InapplicableError):
        SoftmaxClassifier(epochs=3, time_budget="1m").fit(*digit_arrays[:2])


def test_a_random_state_determines_the_weights(digit_arrays):
    X, y, *_ = digit_arrays

    def weights(random_state):
        return SoftmaxClassifier("ns", epochs=1, random_state=random_state).fit(X, y).coef_

    np.testing.assert_array_equal(weights(None), weights(None))
    np.testing.assert_array_equal(
        weights(np.random.RandomState(3)), weights(np.random.RandomState(3))
    )
    assert not np.array_equal(weights(0), weights(3))


def test_verbose_reports_on_standard_error(digit_arrays, monkeypatch, capsys):
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
    SoftmaxClassifier(epochs=1).fit(*digit_arrays[:2])
    assert capsys.readouterr().err == ""
    reported.clear()
    SoftmaxClassifier(epochs=1, verbose=True).fit(*digit_arrays[:2])
    assert reported[0] is sys.stderr
    assert reported[1] > 0


def test_scikit_learns_check_of_several_outputs():
    check_classifier_multioutput("SoftmaxClassifier", SoftmaxClassifier("ova"))


# ---- in pipelines, searches and other processes


@pytest.mark.parametrize(
    ("rows", "labels", "remedy"),
    [
        (["tea", "coffee"], [["hot"], ["hot", "black"]], "MultiLabelBinarizer"),
        (["tea", "coffee"], pd.Series([["hot"], []]), "MultiLabelBinarizer"),
        (pd.DataFrame({"n": [1, 2], "text": ["tea", "coffee"]}), [0, 1], r"X\['text'\]"),
    ],
)
def test_lists_of_labels_and_columns_of_texts_are_refused_with_the_form_to_give(
    rows, labels, remedy
):
    with pytest.raises(ValueError, match=remedy):
        SoftmaxClassifier().fit(rows, labels)


def test_a_data_frame_in_place_of_a_file_is_refused(tmp_path):
    frame = pd.DataFrame({"text": ["tea", "coffee"], "label": [0, 1]})
    with refused_data("train", quoting="SoftmaxClassifier().fit(X, y)"):
        embedx.classify(frame)
    with refused_data("data", quoting="write the rows to a file"):
        embedx.compare(frame, "softmax", tmp_path / "out")


def test_pipelines_searches_and_cross_validation_fit_it(digit_arrays):
    X, y, unseen, truth = digit_arrays
    pipeline = make_pipeline(StandardScaler(), SoftmaxClassifier(l2=1e-2))
    assert pipeline.fit(X, y).score(unseen, truth) > 0.85
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.8
    search = GridSearchCV(SoftmaxClassifier(), {"l2": np.logspace(-4, 1, 3)}, cv=3).fit(X, y)
    assert search.best_params_["l2"] < 1
    assert search.score(unseen, truth) > 0.85


def test_a_search_by_several_processes_finds_the_better_parameters(digit_arrays):
    grid = {"negatives": [2, 5], "epochs": [np.int64(1), np.int64(20)]}
    search = GridSearchCV(SoftmaxClassifier("ns"), grid, cv=2, n_jobs=2).fit(*digit_arrays[:2])
    assert search.best_params_["epochs"] == 20


def test_clones_and_pickles_predict_and_continue_alike(digit_arrays):
    X, y, unseen, _ = digit_arrays
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


@pytest.mark.parametrize(
    ("method", "more"), [("fit", {}), ("partial_fit", {"classes": ["b", "\ud800"]})]
)
def test_labels_that_no_file_can_hold_are_refused_before_training(method, more):
    with pytest.raises(DataError) as error:
        getattr(SoftmaxClassifier("softmax"), method)(np.eye(2), ["\ud800", "b"], **more)
    assert error.value.file == "y"
