"""Names of labels: in files of labels, in the rows themselves, and by `--label-names`."""

import json
import re

import numpy as np
import pytest

from embedx.errors import DataError
from embedx.labeled.data import DataSchema
from embedx.labeled.ids import read_label_names, read_names
from embedx.labeled.label_files import with_names
from embedx.labeled.read import read, read_training
from embedx.labeled.tables.settings import TableSettings
from tests.support.label_data import label_rows
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused, refused_data


def test_lines_of_labels_are_ids_if_all_are_numbers_and_names_otherwise(write, tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3, dtype=np.float32))
    x = str(tmp_path / "x.npy")
    commas = TableSettings(label_separator=",")
    blanks = TableSettings(label_separator=" ")
    data = read(x, write("3,1\n\n7, 1\n"), table=commas)
    assert (label_rows(data), data.n_labels, data.schema.names) == ([[3, 1], [], [7, 1]], 8, None)
    data = read_training(x, write("cat dog\r\n7\n\n"), table=blanks)
    known = data.schema
    assert (label_rows(data), data.schema.names) == ([[0, 1], [2], []], ["cat", "dog", "7"])
    # separated as in training
    assert label_rows(read(x, write("7 dog\nemu\n\n"), schema=known)) == [[2, 1], [3], []]
    np.save(tmp_path / "y.npy", [7, 1, 7])  # looked up like other names
    assert label_rows(read(x, str(tmp_path / "y.npy"), schema=known)) == [[2], [3], [2]]
    assert label_rows(read(write("3 2 0\n 0:1\n 1:1\n\n", "x.txt"), write("b\na\nb\n"))) == [
        [0],
        [1],
        [0],
    ]


def test_a_line_of_labels_is_one_label_unless_it_is_a_list_or_a_separator_is_given(write, tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3, dtype=np.float32))
    x = str(tmp_path / "x.npy")
    notes = Notes()
    data = read(x, write("credit card\nloan, personal\n042\n"), progress=notes)
    assert data.schema.names == ["credit card", "loan, personal", "042"]
    assert not notes.notes
    data = read(x, write("['credit card', 'loan']\nloan\n[]\n"))
    assert [[data.schema.names[k] for k in row] for row in label_rows(data)] == [
        ["credit card", "loan"],
        ["loan"],
        [],
    ]
    with pytest.raises(DataError) as caught:
        read(x, write("a\n['a' b]\nc\n", "y.txt"))
    assert caught.value.line == 2
    read(x, write("3,1\n2\n1,2\n", "y.txt"), progress=notes)
    assert lines_with(notes.notes[-1], '"3,1"', "--set label-separator=,")


def test_labels_of_digits_are_text_except_where_the_format_defines_numbers(write, tmp_path):
    codes = ["042", "0042", "V270", "42"]
    lines = "".join(f"{code},word\n" for code in codes)
    objects = "".join(json.dumps({"label": code, "text": "word"}) + "\n" for code in codes)
    fasttext = "".join(f"__label__{code} word\n" for code in codes)
    np.save(tmp_path / "x.npy", np.eye(4, dtype=np.float32))
    x = str(tmp_path / "x.npy")
    y = write("".join(f"{code}\n" for code in codes), "y.txt")
    csv_file = write("label,text\n" + lines, "a.csv")
    quoted = write("label,text\n" + re.sub(r"\w+", r'"\g<0>"', lines), "q.csv")
    for data in (
        read(csv_file),
        read(quoted),
        read(write(objects, "a.jsonl")),
        read(write(fasttext, "a.txt")),
        read(x, y),
    ):
        assert data.schema.names == codes
        assert label_rows(data) == [[0], [1], [2], [3]]
    # whole numbers are sorted, and later files do not shift them
    schema = read(write("label,text\n10,a\n042,a\n0042,a\n2,a\n", "b.csv")).schema
    assert schema.names == ["2", "10", "042", "0042"]
    later = write("label,text\n0042,a\n42,a\n2,a\n042,a\n", "c.csv")
    assert label_rows(read(later, schema=schema)) == [[3], [4], [0], [2]]
    # numbers are compared by value
    numbers = "".join(f'{{"label": {label}, "text": "a"}}\n' for label in ("7", "7.0", '"07"'))
    assert read(write(numbers, "n.jsonl")).schema.names == ["7", "07"]
    libsvm = read(write("+1 1:1\n-1 1:2\n1 1:3\n01 1:4\n"))
    assert (libsvm.schema.names, label_rows(libsvm)) == (["-1", "1"], [[1], [0], [1], [1]])
    signs = DataSchema(1, 2, ["+1", "-1"], by_name=True, first_feature=1)
    assert label_rows(read(write("1 1:1\n-1 1:2\n+1 1:2\n"), schema=signs)) == [[0], [1], [0]]


def test_names_are_lines_or_the_last_column(write):
    assert read_names(write("cat\nbig dog\r\ncafé\n")) == ["cat", "big dog", "café"]
    assert read_names(write("0\t12\tcat\n1\t7\tbig dog\n")) == ["cat", "big dog"]
    file = write("0\tcat\n2\tdog\n")
    with refused(kind=DataError, file=file, line=2):
        read_names(file)


def test_each_label_name_stands_once(write):
    assert read_label_names(write("cat\nbig dog\n")) == ["cat", "big dog"]
    file = write("cat\ndog\n cat\n")
    with refused(kind=DataError, file=file, line=3) as raised:
        read_label_names(file)
    assert '"cat"' in raised.value.problem
    file = write("cat\n\ndog\n")
    with refused(kind=DataError, file=file, line=2):
        read_label_names(file)


NAMES = ["zero", "one", "two", "three"]


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("2 2 3\n2 0:1\n0 1:1\n", "2 2 3\n0 1:1\n2,1 0:1\n"),
        ("2 1:1\n0 2:1\n", "0 2:1\n2,1 1:1\n"),
        ("__label__2 a\n__label__0 b\n", "__label__0 b\n__label__2 __label__1 a\n"),
    ],
    ids=["XC", "LIBSVM", "fastText"],
)
def test_label_names_belong_to_the_ids_in_files_of_every_format(write, train, test):
    data = with_names(read_training(write(train)), NAMES[:3], "names.txt")
    schema = data.schema
    assert schema.names == data.schema.names == NAMES[:3]
    assert data.n_labels == schema.n_labels == 3
    assert [[schema.names[k] for k in row] for row in label_rows(data)] == [["two"], ["zero"]]
    tested = read(write(test, "test.txt"), schema=schema)
    assert [[schema.names[k] for k in row] for row in label_rows(tested)] == [
        ["zero"],
        ["two", "one"],
    ]


@pytest.mark.parametrize(
    ("train", "quoted"),
    [
        ("1 2 5\n0 0:1\n", ("4 names", "5 labels")),
        ("4 1:1\n", ("4 names", "5 labels")),
        ("1 2 3\n0 0:1\n", ("4 names", "3 labels")),
        ("2 1:1\n", ("4 names", "3 labels")),
        ("99999999999999999999 1:1\n", ("4 names", "2,147,483,648 labels")),
        ("0 1:1\n-1 1:1\n", ('"-1"', "label_names")),
        ("__label__cat a\n__label__1 b\n", ('"cat"', "label_names")),
    ],
)
def test_names_that_cannot_apply_are_refused(write, train, quoted):
    with refused_data("names.txt", quoting=quoted):
        with_names(read(write(train)), NAMES, "names.txt")
