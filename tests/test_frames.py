"""Results as data frames of pandas, where it is installed."""

import sys

import numpy as np
import pytest

import embedx
from embedx.comparison import runs
from embedx.errors import DataError, EmbedxError
from tests.support.compared import run
from tests.support.needs import needs_pandas
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


@needs_pandas
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


@needs_pandas
def test_scores_have_a_row_for_each_set_and_model(model, pairs):
    report = embedx.evaluate(model, pairs=pairs)
    frame = report.to_frame()
    assert list(frame.columns) == report.tsv().splitlines()[0].split("\t")
    assert frame["set"].tolist() == [score.test for score in report.scores]
    assert frame["used"].iloc[0] == 3
    assert frame["score"].iloc[0] == report.scores[0].score


@needs_pandas
def test_a_ranking_has_a_row_for_each_objective(two_topics, tmp_path, monkeypatch):
    def measured(data, name, seed, *arguments):
        return {"result": run(name, seed, {"ns": -3.0, "hs": -2.0}[name])["result"]}

    monkeypatch.setattr(runs, "measured", measured)
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


def test_what_is_no_model_has_no_curves():
    with refused(kind=DataError, quoting="no trained model"):
        embedx.curves("model")
