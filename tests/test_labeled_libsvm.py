"""Labelled rows in LIBSVM files."""

import pytest

from embedx.labeled.data import DataSchema
from embedx.labeled.read import read, read_training
from tests.support.label_data import label_rows
from tests.support.notes import Notes
from tests.support.refusals import refused_data


def test_libsvm_counts_from_one_unless_there_is_a_zero(write):
    from_one = read(write("1 1:5 3:2\n2 2:1\n"), progress=(progress := Notes()))
    assert "read as LIBSVM" in progress.notes[-1]
    assert from_one.features.toarray().tolist() == [[5, 0, 2], [0, 1, 0]]
    assert from_one.schema.first_feature == 1
    from_zero = read(write("1 1:5 3:2\n2 0:1\n"))
    assert from_zero.features.toarray().tolist() == [[0, 5, 0, 2], [1, 0, 0, 0]]
    assert from_zero.schema.first_feature == 0


@pytest.mark.parametrize(
    ("labels", "names", "ids"),
    [
        (["+1", "-1", "1"], ["-1", "1"], [[1], [0], [1]]),
        (["10", "9", "2"], ["2", "9", "10"], [[2], [1], [0]]),
        (["cat,dog", "ant", "dog"], ["cat", "dog", "ant"], [[0, 1], [2], [1]]),
        (["b", "7", "café"], ["b", "7", "café"], [[0], [1], [2]]),
    ],
)
def test_libsvm_labels_are_names(write, labels, names, ids):
    data = read(write("".join(f"{label} 1:1\n" for label in labels)))
    assert data.schema.names == names
    assert label_rows(data) == ids
    assert data.n_labels == len(names)


def test_libsvm_test_data_follow_the_training_data(write):
    known = read(write("a 1:1 4:1\nb 2:1\n")).schema
    data = read(write("b,new,a 2:1 4:3 5:1\n3:1\nnewer 1:1\n", "test.txt"), schema=known)
    assert data.features.toarray().tolist() == [[0, 1, 0, 3], [0, 0, 1, 0], [1, 0, 0, 0]]
    assert label_rows(data) == [[1, 2, 0], [], [3]]
    assert data.schema.names == ["a", "b"]
    assert data.n_labels == 2


def test_rows_without_a_single_feature_are_no_training_data(write):
    for text in ("5.1,3.5,Iris-setosa\n4.9,3.0,Iris-setosa\n", "spam\nham\n", "2 3 2\n0\n1\n"):
        file = write(text)
        assert read(file).features.nnz == 0
        with refused_data("train.txt", "text_column", "label_column"):
            read_training(file)
    assert read_training(write("a\nb 1:1\n")).features.nnz == 1


def test_libsvm_without_labels_is_data_to_predict_but_not_to_train(write):
    file = write("1:1 2:1\n 2:2\n")
    assert label_rows(read(file)) == [[], []]
    assert read(file, schema=DataSchema(3, 2, first_feature=1)).features.toarray().tolist() == [
        [1, 1, 0],
        [0, 2, 0],
    ]
    with refused_data("train.txt", "train_labels"):
        read_training(file)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (
            "a film that __label__good people like\nand another line\n",
            ('"good"', "1 of 2 rows"),
        ),
        ("3 2 9\n7 0:1\n7 1:1\n 0:1\n", ('"7"', "2 of 3 rows")),
    ],
)
def test_a_single_label_is_refused(write, text, quoted):
    file = write(text)
    with refused_data("train.txt", quoting=quoted):
        read_training(file)


def test_labels_by_id_are_ids_in_a_headerless_test_file_too(write):
    known = read(write("1 3 9\n8 0:1\n")).schema
    assert label_rows(read(write("7,2 0:1\n", "test.txt"), schema=known)) == [[7, 2]]
