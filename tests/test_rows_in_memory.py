"""`embedx.evaluate(classifier, X, y)`: rows and labels of a program, scored as the same rows of a
file are.
"""

import importlib

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import embedx
from embedx.errors import InapplicableError
from tests.support.refusals import refused, refused_data

TEXTS = ["one two", "three four", "five six", "three two"] * 12
TOPICS = ["a", "b", "c", "a"] * 12


def text_file(place, labels_of_rows):
    """A file of TEXTS in the format of fastText."""
    lines = [
        " ".join([*(f"__label__{label}" for label in labels), text])
        for labels, text in zip(labels_of_rows, TEXTS, strict=True)
    ]
    place.write_text("\n".join(lines) + "\n")
    return place


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A classifier of texts, and its report of the file that it was trained on."""
    file = text_file(tmp_path_factory.mktemp("texts") / "rows.txt", [[topic] for topic in TOPICS])
    model = embedx.classify(file, threads=1)
    return model, embedx.evaluate(model, test=file)


@pytest.mark.parametrize(
    "form", [list, np.array, lambda values: [[value] for value in values], iter]
)
def test_texts_and_labels_are_scored_as_their_file_is(texts, form):
    model, of_file = texts
    report = embedx.evaluate(model, TEXTS, form(TOPICS))
    assert report == of_file
    assert str(report) == str(of_file)
    assert report.to_frame("confusion").equals(of_file.to_frame("confusion"))


def test_missing_labels_of_a_series_are_counted_and_left_out(texts):
    pandas = importlib.import_module("pandas")
    model, _ = texts
    labels = pandas.Series([*TOPICS[:4], None, np.nan])
    report = embedx.evaluate(model, pandas.Series([*TEXTS[:4], "one", "two"]), labels)
    assert report["n"] == 4
    assert report["n_without_labels"] == 2


def test_labels_unknown_to_the_model_are_mistakes(texts):
    model, _ = texts
    report = embedx.evaluate(model, TEXTS[:2], ["a", "new"])
    assert report["accuracy"] == 0.5
    assert report["n_unknown"] == 1
    with refused_data("y", quoting=("A", "a")):
        embedx.evaluate(model, TEXTS[:2], ["A", "B"])


def test_predictions_of_another_program_stand_beside_rows_in_memory(texts, tmp_path):
    model, _ = texts
    other = tmp_path / "other.txt"
    other.write_text("a\nnew\n")
    report = embedx.evaluate(model, TEXTS[:2], ["a", "new"], predictions=other)
    assert [side["accuracy"] for side in report.metrics] == [0.5, 1]


def test_several_labels_are_lists_or_indicators(tmp_path):
    pandas = importlib.import_module("pandas")
    labels = [["a", "b"] if k % 3 else ["c"] for k in range(len(TEXTS))]
    file = text_file(tmp_path / "rows.txt", labels)
    model = embedx.classify(file, objective="ova", threads=1)
    of_file = embedx.evaluate(model, test=file)
    marks = np.array([[name in row for name in model.label_names] for row in labels]).astype(int)
    frame = pandas.DataFrame(marks, columns=model.label_names)[["c", "a", "b"]]
    for y in (
        labels,
        [set(row) for row in labels],
        marks,
        csr_matrix(marks),
        marks.tolist(),
        frame,
    ):
        assert embedx.evaluate(model, TEXTS, y) == of_file
    with refused_data("y", quoting="a, b, wrong"):
        embedx.evaluate(model, TEXTS, frame.rename(columns={"c": "wrong"})[["a", "b", "wrong"]])
    with refused_data("y", quoting="(48, 2)"):
        embedx.evaluate(model, TEXTS, marks[:, :2])


@pytest.fixture
def table(tmp_path):
    pandas = importlib.import_module("pandas")
    frame = pandas.DataFrame({"area": [1.0, 2.0, 9.0, 8.0] * 12, "year": [3.0, 1.0, 7.0, 6.0] * 12})
    frame["kind"] = ["hut", "hut", "castle; house", "castle"] * 12
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return frame


def test_a_data_frame_has_the_labels_in_its_own_column(table, tmp_path):
    file = tmp_path / "rows.csv"
    model = embedx.classify(file, label_column="kind", label_separator=";", threads=1)
    of_file = embedx.evaluate(model, test=file)
    assert embedx.evaluate(model, table) == of_file
    assert embedx.evaluate(model, table.to_dict("records")) == of_file
    assert embedx.evaluate(model, table, table["kind"]) == of_file
    assert embedx.evaluate(model, table[["year", "area"]], table["kind"]) == of_file
    renamed = table.rename(columns={"kind": "answer"})
    assert embedx.evaluate(model, renamed, label_column="answer") == of_file
    with refused_data("X", "label_column"):
        embedx.evaluate(model, renamed)


@pytest.mark.parametrize("classes", [[0, 1], [1.0, 4.0], [True, False], ["no", "yes"]])
def test_classes_of_any_type_are_scored(classes, tmp_path):
    X = np.array([[1.0, 0.0], [0.0, 1.0]] * 20, np.float32)
    y = np.array(classes * 20)
    fitted = embedx.SoftmaxClassifier().fit(X, y)
    wrong = y.copy()
    wrong[:10] = y[1:11]
    loaded = embedx.load(fitted.save(tmp_path / "model"))
    for model in (fitted, tmp_path / "model", loaded):
        assert embedx.evaluate(model, X, y)["accuracy"] == 1
        assert embedx.evaluate(model, X.tolist(), wrong.tolist())["accuracy"] == 0.75


def test_columns_of_a_data_frame_are_found_by_their_names(tmp_path):
    pandas = importlib.import_module("pandas")
    frame = pandas.DataFrame({"x": [1.0, 0.0] * 20, "z": [0.0, 1.0] * 20, "u": [2.0, 2.0] * 20})
    y = ["a", "b"] * 20
    fitted = embedx.SoftmaxClassifier().fit(frame, y)
    loaded = embedx.load(fitted.save(tmp_path / "model"))
    assert embedx.evaluate(fitted, frame[["u", "z", "x"]], y)["accuracy"] == 1
    assert loaded.predict(frame[["z", "x", "u"]]).tolist() == y
    again = embedx.SoftmaxClassifier.load(tmp_path / "model")
    assert again.feature_names_in_.tolist() == ["x", "z", "u"]
    with refused_data("X", quoting=("z", "x, u")):
        loaded.predict(frame[["x", "u"]])


def test_two_classifiers_are_scored_on_the_same_rows(texts):
    model, of_file = texts
    report = embedx.evaluate(model, TEXTS, TOPICS, against=model)
    assert report.differences["accuracy"].value == 0
    assert report.metrics[1]["accuracy"] == of_file["accuracy"]


def test_rows_in_memory_are_not_named(texts, tmp_path):
    model, _ = texts
    with refused_data("X", "test"):
        embedx.evaluate(model, "rows.txt")
    with refused("test", kind=InapplicableError):
        embedx.evaluate(model, TEXTS, TOPICS, test="rows.txt")
    with refused("y"):
        embedx.evaluate(model, TEXTS)
    with refused_data("y", quoting=("47", "48")):
        embedx.evaluate(model, TEXTS, TOPICS[1:])
    with refused_data("y", quoting="one text"):
        embedx.evaluate(model, TEXTS, "topic")


def test_word_vectors_take_no_rows():
    vectors = embedx.WordVectors(["a"], {"input": np.ones((1, 2), np.float32)})
    with refused("X", kind=InapplicableError):
        embedx.evaluate(vectors, TEXTS)
