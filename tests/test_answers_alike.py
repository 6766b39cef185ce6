"""A classifier answers alike on the command line and in Python, whichever of them trained it."""

import importlib
import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz
from sklearn.datasets import load_svmlight_file

import embedx
from embedx import api
from embedx.classification import classifier, row_blocks
from embedx.classification.estimator import SoftmaxClassifier
from embedx.classification.row_blocks import joined_blocks
from embedx.errors import DataError
from embedx.labeled.read import read
from tests.support.commands import invoke
from tests.support.refusals import refused, refused_data

N_CLASSES = 6


def svmlight_lines(first_id: int) -> str:
    """Rows whose class is told by one feature; a second one says nothing, and has the last id."""
    last = first_id + N_CLASSES
    rows = range(20 * N_CLASSES)
    return "".join(
        f"{k % N_CLASSES} {first_id + k % N_CLASSES}:1 {last}:{1 + k % 2}\n" for k in rows
    )


# ---- where feature ids begin


@pytest.mark.parametrize(
    ("first_id", "zero_based"), [(1, "auto"), (0, "auto"), (1, False), (1, True), (2, "auto")]
)
def test_libsvm_files_are_read_as_by_load_svmlight_file(tmp_path, first_id, zero_based):
    file = tmp_path / "rows.svm"
    file.write_text(svmlight_lines(first_id))
    features, labels = load_svmlight_file(file, zero_based=zero_based)
    fitted = SoftmaxClassifier(epochs=20).fit(features, labels)
    assert fitted.score(features, labels) == 1
    loaded = classifier.load(fitted.save(tmp_path / "model"))
    measures = loaded.evaluate(read(str(file), schema=loaded.schema))
    assert measures["accuracy"] == 1
    assert measures["n_unknown"] == 0


# ---- the columns of a table


def write_table(file, texts, numbers, kinds):
    heading = [*(["text"] if texts else []), *numbers.dtype.names, "label"]
    rows = zip(texts or [None] * len(kinds), numbers.tolist(), kinds, strict=True)
    lines = [
        ",".join([*([text] if texts else []), *("" if x != x else str(x) for x in row), kind])
        for text, row, kind in rows
    ]
    file.write_text("\n".join([",".join(heading), *lines]) + "\n")


@pytest.fixture(params=["numbers", "text and numbers", "text"])
def table(request, tmp_path):
    """A file of rows, some with a missing number, and these as records without their labels."""
    rng = np.random.default_rng(0)
    n = 150
    kind = rng.integers(0, 3, n)
    names = ["area", "year"] if "numbers" in request.param else []
    numbers = np.zeros(n, [(name, float) for name in names])
    for name, scale in zip(names, (50, 3), strict=False):
        numbers[name] = np.round(1900 + scale * kind + rng.normal(size=n), 3)
        numbers[name][::10] = np.nan
    words = np.array(["flat", "house", "castle"])
    texts = [f"a {word} here" for word in words[kind]] if "text" in request.param else None
    write_table(tmp_path / "rows.csv", texts, numbers, [f"kind {k}" for k in kind])
    records = [dict(zip(names, row, strict=True)) for row in numbers.tolist()]
    if texts:
        records = [{"text": text} | record for text, record in zip(texts, records, strict=True)]
    return tmp_path / "rows.csv", records


def test_rows_of_a_table_are_answered_in_python_as_their_file_is(table, tmp_path):
    file, records = table
    trained = api.classify(file, label_column="label", output=tmp_path / "model", threads=1)
    data = read(str(file), schema=trained.schema)
    loaded = SoftmaxClassifier.load(tmp_path / "model")
    ids, p = joined_blocks(trained.iter_top_k(data.features, 3))
    assert trained.evaluate(data)["accuracy"] > 0.9
    for model in (trained, loaded, classifier.load(tmp_path / "model")):
        labels, probabilities = model.top_k(records, 3)
        np.testing.assert_array_equal(probabilities, p)
        np.testing.assert_array_equal(labels, loaded.classes_[ids])
        np.testing.assert_array_equal(model.predict(records), loaded.classes_[ids[:, 0]])
        np.testing.assert_array_equal(model.predict_proba(records), loaded.predict_proba(records))
        np.testing.assert_array_equal(model.top_k([records[7]], 3)[1], p[7:8])
        if "text" not in records[0]:
            rows = np.array([[*record.values()] for record in records])
            np.testing.assert_array_equal(model.top_k(rows, 3)[1], p)
        if [*records[0]] == ["text"]:
            np.testing.assert_array_equal(model.top_k([row["text"] for row in records], 3)[1], p)


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_arrays_of_the_numbers_of_a_table_are_read_as_its_rows(tmp_path, suffix, capsys):
    numbers = np.array([[2.0, 70.0], [3.0, 5.0], [0.0, 40.0], [1.0, 6.0]] * 10)
    kinds = ["house", "hut"] * 20
    rows = [f"{a},{b},{kind}" for (a, b), kind in zip(numbers.tolist(), kinds, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["rooms,area,kind", *rows]) + "\n")
    trained = api.classify(tmp_path / "rows.csv", label_column="kind", output=tmp_path / "model")
    array = tmp_path / f"rows.{suffix}"
    if suffix == "npy":
        np.save(array, numbers)
    else:
        save_npz(array, csr_matrix(numbers))
    (tmp_path / "kinds.txt").write_text("\n".join(kinds) + "\n")

    answers = []
    for file in (tmp_path / "rows.csv", array):
        words = ["predict", str(tmp_path / "model"), str(file), "--json"]
        invoke(*words)
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    assert json.loads(answers[0].splitlines()[0])[0]["label"] == "house"
    for model in (trained, SoftmaxClassifier.load(tmp_path / "model")):
        measures = api.evaluate(model, test=array, test_labels=str(tmp_path / "kinds.txt"))
        assert measures["accuracy"] == 1
    np.testing.assert_array_equal(trained.predict(csr_matrix(numbers)), kinds)


def test_a_classifier_of_several_labels_decides_alike_in_python(tmp_path):
    lines = [f"__label__{'a __label__b' if k % 3 else 'c'} word{k % 3}" for k in range(60)]
    (tmp_path / "rows.txt").write_text("\n".join(lines) + "\n")
    trained = api.classify(tmp_path / "rows.txt", objective="ova", output=tmp_path / "model")
    texts = ["word0", "word1"]
    decided = trained.predict(texts)
    np.testing.assert_array_equal(
        decided.toarray(), SoftmaxClassifier.load(tmp_path / "model").predict(texts).toarray()
    )
    np.testing.assert_array_equal(trained.label_names[decided[1].indices], ["a", "b"])


@pytest.fixture(scope="module")
def two_texts(tmp_path_factory):
    """A classifier of texts, and its folder."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "rows.txt").write_text("__label__a one\n__label__b two\n" * 9)
    return api.classify(folder / "rows.txt", output=folder / "model"), folder / "model"


@pytest.mark.parametrize("top_k", [None, 1.5, "2", -1])
def test_a_number_of_answers_is_a_whole_number(two_texts, top_k):
    trained, folder = two_texts
    for model in (trained, SoftmaxClassifier.load(folder)):
        with refused("top_k", value=top_k):
            model.top_k(["one"], top_k)


@pytest.mark.parametrize(
    "settings",
    [{"objective": "hs"}, {"weights": "tree"}, {"neighbours": "2"}, {"objective": "ova"}],
)
def test_no_rows_have_no_answers_of_the_usual_shape(tmp_path, settings):
    (tmp_path / "rows.txt").write_text("__label__a one\n__label__b two\n__label__c three\n" * 9)
    model = api.classify(tmp_path / "rows.txt", threads=1, epochs=1, **settings)
    assert [part.shape for part in model.top_k([], 2)] == [(0, 2), (0, 2)]
    assert model.predict([]).shape == (0,)
    assert model.predict_proba([]).shape == (0, 3)
    assert model.predict_set([], threshold=0.5).shape == (0, 3)


@pytest.mark.parametrize(
    "rows", ["one text", [{"area": 3}], ["a", 3], [[1.0]], np.zeros((2, 9)), [["a"]]]
)
def test_rows_of_another_kind_than_the_training_rows_are_an_error(two_texts, rows):
    trained, _ = two_texts
    with pytest.raises(DataError) as raised:
        trained.predict(rows)
    assert raised.value.file == "X"


def test_data_frames_are_answered_as_their_rows(table, tmp_path):
    pandas = importlib.import_module("pandas")
    file, records = table
    api.classify(file, label_column="label", output=tmp_path / "model", threads=1)
    loaded = SoftmaxClassifier.load(tmp_path / "model")
    frame = pandas.DataFrame(records)
    for columns in (frame.columns, frame.columns[::-1]):
        probabilities = loaded.predict_proba(frame[columns])
        np.testing.assert_array_equal(probabilities, loaded.predict_proba(records))


def test_a_record_without_a_column_of_the_training_data_is_an_error(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("area,label\n" + "1,a\n2,b\n" * 20)
    api.classify(file, label_column="label", output=tmp_path / "model")
    loaded = SoftmaxClassifier.load(tmp_path / "model")
    with refused_data("X", quoting=("area", "size")):
        loaded.predict([{"size": 3}])
    with refused_data("X", quoting=("area", "none")):
        loaded.predict([{}])
    with refused_data("X:1", quoting=("area", "wide")):
        loaded.predict([{"area": "wide"}])
    with refused_data("X", quoting=("one record", "a list of records")):
        embedx.load(tmp_path / "model").predict({"area": 3})


def test_test_data_may_have_another_name_for_the_label_column(tmp_path):
    rows = "1,a\n2,b\n" * 20
    (tmp_path / "train.csv").write_text("area,label\n" + rows)
    (tmp_path / "test.csv").write_text("area,answer\n" + rows)
    api.classify(tmp_path / "train.csv", label_column="label", output=tmp_path / "model")
    measures = api.evaluate(tmp_path / "model", test=tmp_path / "test.csv", label_column="answer")
    assert measures["accuracy"] == 1


def test_eval_takes_the_column_of_labels(tmp_path, capsys):
    file = tmp_path / "rows.csv"
    file.write_text("area,answer\n" + "1,a\n2,b\n" * 20)
    api.classify(file, label_column="answer", feature_columns="area", output=tmp_path / "model")
    file.write_text("area,truth\n" + "1,a\n2,b\n" * 20)
    command = ["eval", tmp_path / "model", "--test", file, "--label-column", "truth", "--json"]
    words = [str(word) for word in command]
    invoke(*words)
    assert json.loads(capsys.readouterr().out)["test"]["accuracy"] == 1


def test_a_request_of_few_rows_does_not_query_the_number_of_cores(tmp_path, monkeypatch):
    (tmp_path / "rows.txt").write_text("__label__a one\n__label__b two\n" * 9)
    trained = api.classify(tmp_path / "rows.txt", neighbours="2", output=tmp_path / "model")
    monkeypatch.setattr(row_blocks, "usable_cores", lambda: pytest.fail("the cores are counted"))
    assert trained.predict(["one", "two"]).tolist() == ["a", "b"]
