"""Text files in a folder for each label."""

import json

import numpy as np
import pytest

import embedx
from embedx.labeled.read import read, read_test, read_to_predict, read_training
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused_data

REVIEWS = {
    "good": ["a nice film\nand funny", "nice", "funny"],
    "bad": ["a dull film", "dull\n\nand long", ""],
}


@pytest.fixture
def folder(tmp_path):
    """Writes reviews as a folder of that name: a file for each, with or without a suffix."""

    def folder(name, reviews=REVIEWS, suffix=".txt"):
        for label, texts in reviews.items():
            (tmp_path / name / label).mkdir(parents=True, exist_ok=True)
            for number, text in enumerate(texts):
                (tmp_path / name / label / f"{number}{suffix}").write_bytes(
                    text if isinstance(text, bytes) else text.encode()
                )
        return str(tmp_path / name)

    return folder


@pytest.mark.parametrize("suffix", [".txt", ""])
def test_a_document_is_a_row_whose_label_is_the_name_of_its_folder(folder, suffix):
    notes = Notes()
    data = read_training(folder("train", suffix=suffix), progress=notes)
    assert lines_with(notes.notes, "6 documents", "2 folders")
    names = data.schema.names
    assert [names[k] for k in data.labels.ids] == ["bad"] * 3 + ["good"] * 3
    assert data.ids.tolist() == [
        f"{label}/{number}{suffix}" for label in ("bad", "good") for number in range(3)
    ]
    counts = dict(zip(data.schema.vocabulary, data.features.toarray()[3], strict=True))
    assert {word for word, n in counts.items() if n} == {"a", "nice", "film", "and", "funny"}
    assert data.features[2].nnz == 0


def test_test_rows_and_rows_to_predict_have_the_same_layout(folder):
    training = read_training(folder("train"))
    lines = folder("lines", {"": ["a nice film and funny\n"]}) + "/0.txt"
    same = folder("test", {"good": REVIEWS["good"][:1], "other": ["unseen"]})
    as_lines = read_to_predict(lines, training.schema).features.toarray()[0]
    for data in (
        read_test(same, schema=training.schema),
        read_to_predict(same, training.schema),
    ):
        np.testing.assert_array_equal(data.features.toarray()[0], as_lines)
        assert data.ids.tolist() == ["good/0.txt", "other/0.txt"]
        assert data.labels.ids.tolist() == [1, 2]
        assert data.n_labels == 2


def test_after_training_on_documents_each_text_file_is_a_row(folder, tmp_path):
    schema = read_training(folder("train")).schema
    new = folder("new", {"": ["a nice\n\nfilm\n", "dull"]})
    paths = [f"{new}/0.txt", f"{new}/1.txt"]
    for source in (new, f"{new}/*.txt", paths):
        data = read_to_predict(source, schema)
        assert data.ids.tolist() == paths
        assert not len(data.labels.ids)
    words = {schema.vocabulary[k] for k in read_to_predict(paths[0], schema).features[0].indices}
    assert words == {"a", "nice", "film"}
    with refused_data("new", quoting="no row has a label"):
        read_test(new, schema=schema)
    with refused_data("new", quoting="no row has a label"):
        read_training(new, schema=schema)

    # Files of rows are read as such, and models of rows read the lines of text files.
    rows = tmp_path / "rows.txt"
    rows.write_text("__label__good nice\n__label__bad dull\n")
    assert len(read_to_predict(str(rows), schema)) == 2
    assert len(read_to_predict(paths[0], read_training(str(rows)).schema)) == 3


def test_a_model_remembers_that_it_was_trained_on_documents(folder, tmp_path):
    model = embedx.classify(folder("train"), epochs=1, calibration=0)
    model.save(tmp_path / "model")
    assert embedx.load(tmp_path / "model").schema.of_documents


def test_documents_that_are_not_utf8_are_read_as_latin1(folder):
    notes = Notes()
    reviews = REVIEWS | {"good": ["caf\xe9".encode("latin-1"), "caf\xe9"]}
    data = read_training(folder("train", reviews), progress=notes)
    assert "caf\xe9" in data.schema.vocabulary
    assert lines_with(notes.notes, "1 of 5 documents", "Latin-1")


def test_folders_of_labels_must_be_told_from_other_folders(folder, tmp_path):
    folder("deep/train")
    folder("deep/test")
    with refused_data("deep", quoting=("folders within", "deep/test")):
        read_training(str(tmp_path / "deep"))
    beside = folder("beside", REVIEWS | {"": ["a note"]})
    with refused_data("beside", quoting=("files beside", "0.txt")):
        read_training(beside)
    zeros = folder("zeros", REVIEWS | {"good": ["nice", "a\0b"]})
    with refused_data("1.txt", quoting="no text"):
        read_training(zeros)


@pytest.mark.parametrize(
    ("suffix", "rows"),
    [
        (".csv", "text,label\nnice,good\ndull,bad\n"),
        (".txt", "__label__good nice\n__label__bad dull\n"),
        (".json", json.dumps([{"text": "nice", "label": "good"}, {"text": "d", "label": "bad"}])),
    ],
)
def test_folders_of_files_of_rows_are_no_documents(folder, suffix, rows):
    data = read(folder("rows", {"2026": [rows], "2027": [rows]}, suffix))
    assert len(data) == 4
    assert sorted(data.schema.names) == ["bad", "good"]
