"""Results as data frames of pandas, where it is installed."""

import sys

import numpy as np
import pytest

import embedx
from embedx.comparison import runs
from embedx.errors import DataError, EmbedxError, InapplicableError
from tests.support.comparison_records import run
from tests.support.refusals import refused

HISTORY = [
    {"epoch": 1, "seconds": 2.0, "loss": 3.0, "validation": {"p@1": 0.5}},
    {"epoch": 2, "seconds": 4.0, "loss": 2.5, "validation": {"p@1": 0.75}},
]


@pytest.fixture
def model():
    vectors = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    return embedx.WordVectors(["a", "b", "c"], {"input": vectors}, facts={"history": HISTORY})


@pytest.fixture
def pairs(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("a\tb\t1\na\tc\t3\nb\tc\t2\n")
    return str(file)


def test_curves_have_a_row_for_each_point(model):
    frame = embedx.curves(model)
    assert list(frame.columns) == ["curve", "epoch", "seconds", "value"]
    assert frame.values.tolist() == [
        ["loss", 1, 2.0, 3.0],
        ["loss", 2, 4.0, 2.5],
        ["validation p@1", 1, 2.0, 0.5],
        ["validation p@1", 2, 4.0, 0.75],
    ]
    of_a_file = embedx.WordVectors(["a"], {"input": np.ones((1, 2), np.float32)})
    assert embedx.curves(of_a_file).empty


def test_scores_have_a_row_for_each_set_and_model(model, pairs):
    report = embedx.evaluate(model, pairs=pairs)
    frame = report.to_frame()
    assert list(frame.columns) == report.tsv().splitlines()[0].split("\t")
    assert frame["set"].tolist() == [score.test for score in report.scores]
    assert frame["used"].iloc[0] == 3
    assert frame["score"].iloc[0] == report.scores[0].score


def test_metrics_of_labels_have_a_row_each_and_a_column_for_each_side(tmp_path):
    rows = tmp_path / "rows.txt"
    rows.write_text("__label__a one\n__label__b two\n" * 9)
    other = tmp_path / "other.txt"
    other.write_text("a\na\n" * 9)
    model = embedx.classify(rows, threads=1)
    alone = embedx.evaluate(model, test=rows).to_frame()
    assert list(alone.columns) == ["metric", "softmax"]
    assert alone.set_index("metric")["softmax"]["f1_macro"] == 1

    frame = embedx.evaluate(model, test=rows, predictions=other).to_frame().set_index("metric")
    assert list(frame.columns) == ["softmax", str(other), "difference", "from", "to"]
    accuracy = frame.loc["accuracy"].tolist()
    assert accuracy[:3] == [1, 0.5, 0.5]
    assert np.isnan(frame.loc["n", "difference"])


def test_a_ranking_has_a_row_for_each_objective(two_topics, tmp_path, monkeypatch):
    def measured(runner, name, seed, options):
        return {"result": run(name, seed, {"ns": -3.0, "hs": -2.0}[name])["result"]}

    monkeypatch.setattr(runs.Runner, "run", measured)
    settings = {"epochs": 1, "seeds": 2, "threads": 1, "heldout": 0.3}
    outcome = embedx.compare(str(two_topics), "ns,hs", tmp_path / "out", **settings)
    frame = outcome.to_frame()
    assert frame["objective"].tolist() == ["hs", "ns"]
    assert frame["log_likelihood"].tolist() == [-2.0, -3.0]


def test_without_pandas_one_line_says_how_to_install_it(model, pairs, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    report = embedx.evaluate(model, pairs=pairs)
    for frame in (report.to_frame, lambda: embedx.curves(model)):
        with refused(kind=EmbedxError, quoting="pip install pandas"):
            frame()


def test_word_vectors_are_not_scored_beside_predictions_of_labels(model):
    with refused("predictions", kind=InapplicableError, quoting="for classifiers"):
        embedx.evaluate(model, predictions="other.tsv")


def test_curves_of_something_that_is_no_model_are_refused():
    with refused(kind=DataError, file="str"):
        embedx.curves("model")
