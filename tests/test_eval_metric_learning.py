"""eval metric-learning: queries, the search for rates, and the table of a set."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist

from embedx.labeled.data import Labeled, Labels
from eval import metric_learning as script, papers
from tests.support.eval_setup import Records, Run, environment, experiment_called, rows_of


@pytest.mark.parametrize(("measure", "metric"), [("cosine", "cosine"), ("distance", "euclidean")])
def test_a_query_is_answered_by_the_nearest_others(measure, metric):
    rng = np.random.default_rng(0)
    n = script.BLOCK + 20
    h = rng.normal(size=(n, 3))
    label = np.append(rng.integers(0, 40, n - 1), 40)  # the last label has one row: no query
    away = cdist(h, h, metric)
    np.fill_diagonal(away, np.inf)
    right = label[np.argsort(away, axis=1)[:, :5]] == label[:, None]
    has_others = np.bincount(label)[label] > 1
    measures = script.retrieved(h, Labeled(h, Labels.single(label.astype(np.int32)), 41))
    assert measures["queries"] == has_others.sum() < n
    naive = [right[has_others, :k].any(axis=1).mean() for k in (1, 5)]
    assert measures[measure] == pytest.approx(naive)


def characters(*_):
    """Two halves of forty labels, each with features of its own."""
    rng = np.random.default_rng(0)
    label = np.arange(200, dtype=np.int32) % 40
    x = rng.random((200, 80)) < 0.1
    x[np.arange(200), 2 * label] = True
    half = Labeled(csr_matrix(x.astype(np.float32)), Labels.single(label), 40)
    return half, half


def test_a_set_from_its_rates_to_its_table(tmp_path, monkeypatch):
    monkeypatch.setattr(papers, "load", characters)
    script.parts_of.cache_clear()
    run = Run(experiment_called("metric-learning"), ["omniglot", "ns"], quick=True, data=tmp_path)
    run.records = Records(tmp_path / "raw", environment(quick=True), mixed=True)
    run.measure(resume=True)
    parts = script.parts_of(run, "omniglot")
    trained, choosing, test = (len(np.unique(part.labels.ids)) for part in parts)
    assert trained > choosing > 1
    assert test > 1
    for score in script.SCORES:
        tried = [record["job"]["rate"] for record in run.records.find(what="rate", score=score)]
        job = {"data": "omniglot", "contender": "ns", "score": score}
        best = script.best_of(run.records, job)["job"]["rate"]
        assert min(tried) < best < max(tried)
        for record in run.records.find(**job, what="test"):
            assert record["result"]["rate"] == best
    text = script.tables_of("omniglot")(run.records)
    assert [*rows_of(text)] == ["ns", "the features themselves"]
    assert "euclidean" in text
    assert script.tables_of("enwiki-cat")(run.records) == "Not measured."
