"""Fits at the same time in one process: a web server, joblib's threads."""

import json

import joblib
import numpy as np
from sklearn.model_selection import GridSearchCV

from embedx import SoftmaxClassifier
from tests.support.forked import ROOT, environment, run


def test_four_threads_fit_every_objective_as_one_does(tmp_path):
    code = "from tests.support.concurrent_fits import main\nmain()"
    completed = run(code=code, cwd=ROOT, env=environment(tmp_path))
    assert json.loads(completed.stdout) == []


def test_a_grid_search_by_threads_has_all_scores():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 4))
    labels = (rows[:, 0] > 0).astype(int)
    objectives = {"objective": ["ove", "ns", "softmax", "nce"]}
    model = SoftmaxClassifier(epochs=2, optimizer="adagrad", n_jobs=1, random_state=0)
    with joblib.parallel_backend("threading"):
        search = GridSearchCV(model, objectives, n_jobs=4, cv=3, error_score="raise")
        search.fit(rows, labels)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
