"""Labelled rows in text files: XC and fastText."""

import gzip
import os
import re
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sklearn.datasets import load_svmlight_file

from embedx.errors import DataError
from embedx.labeled.files import LabelledFile, source_of
from embedx.labeled.formats import format_of
from embedx.labeled.options import ReadOptions
from embedx.labeled.read import read, read_arriving, read_to_predict, read_training
from embedx.runtime.progress import SILENT
from tests.support.compressed_text import PACKERS
from tests.support.label_data import label_rows
from tests.support.needs import needs_data
from tests.support.notes import Notes, lines_with
from tests.support.npy import npy
from tests.support.refusals import refused_data
from tests.support.web_server import serving

DATA = Path(os.environ.get("EMBEDX_DATA", "")) / "xc"
BLOCK_SIZES = pytest.mark.parametrize("size", [40, 1 << 18])


def read_by_blocks(monkeypatch, size):
    """Files are read in blocks of this size, which several threads parse."""
    for module in ("decompression", "read_ahead"):
        monkeypatch.setattr(f"embedx.text.{module}.BLOCK_BYTES", size)
    monkeypatch.setattr("embedx.labeled.sparse.usable_cores", lambda: 3)


# ---- XC


def test_xc_rows_may_lack_labels_or_features(write):
    data = read(write("5 4 3\n2,0 0:1 3:0.5\n 1:2\n1:-3 2:1e2\n1\n\n"))
    assert data.features.toarray().tolist() == [
        [1, 0, 0, 0.5],
        [0, 2, 0, 0],
        [0, -3, 100, 0],
        [0] * 4,
        [0] * 4,
    ]
    assert label_rows(data) == [[2, 0], [], [], [1], []]
    assert (data.n_features, data.n_labels, data.schema.names, data.schema.vocabulary) == (
        4,
        3,
        None,
        None,
    )
    assert data.features.dtype == np.float32
    assert data.labels.ids.dtype == np.int32
    assert data.labels.offsets.dtype == np.int64


def test_columns_are_sorted_and_summed_and_labels_kept_once_in_their_order(write):
    data = read(write("2 9 9\n7,3,7,1,3 5:1 2:2 5:4\n3,3 1:1\n"))
    assert data.features.indices.tolist() == [2, 5, 1]
    assert data.features.data.tolist() == [2, 5, 1]
    assert data.features.has_canonical_format
    assert label_rows(data) == [[7, 3, 1], [3]]


@pytest.mark.parametrize(
    "text",
    [
        "2 3 2\r\n1 0:1\r\n0 2:2\r\n",
        "\ufeff2 3 2\n1 0:1\n0 2:2",
        "2\t3\t2 \n1\t0:1  \n 0   2:2\n\n\n",
    ],
)
def test_line_ends_byte_order_mark_and_blanks_do_not_matter(write, text):
    data = read(write(text))
    assert data.features.toarray().tolist() == [[1, 0, 0], [0, 0, 2]]
    assert label_rows(data) == [[1], [0]]


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_files_are_unpacked(write, suffix):
    rows = "".join(f"{n % 7} {n % 50}:{n}\n" for n in range(60_000))
    data = read(write(PACKERS[suffix](f"60000 50 7\n{rows}".encode()), f"train.txt.{suffix}"))
    assert data.features.data.tolist() == list(range(60_000))
    assert data.labels.ids.tolist() == [n % 7 for n in range(60_000)]


@pytest.mark.parametrize("words", [("1 1:1", "2 2:1"), ("__label__1 a", "__label__2 b")])
@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\r\n\r\n\r\n", "\n\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1 << 18])
def test_rows_to_predict_are_as_many_as_the_lines(write, monkeypatch, words, end, size):
    read_by_blocks(monkeypatch, size)
    known = read(write("\n".join(words))).schema
    text = f"\n{words[0]}\n\n{words[1]}{end}"
    rows = read_to_predict(write(text, "test.txt"), known).features.toarray().sum(axis=1).tolist()
    assert rows == [0, 1, 0, 1] + [0] * (len(text.splitlines()) - 4)
    assert len(read(write(text, "test.txt"), schema=known)) == 4


def test_lines_beyond_the_rows_of_the_header_are_not_predicted(write):
    known = read(write("1 3 2\n1 0:1\n")).schema
    rows = read_to_predict(write("2 3 2\n1 0:1\n\n\n\n", "test.txt"), known)
    assert len(rows) == 2


@BLOCK_SIZES
@pytest.mark.parametrize("end_of_line", ["\n", " # a comment\n", "\n# a comment\n"])
def test_rows_and_names_of_labels_keep_the_order_of_the_file(write, monkeypatch, size, end_of_line):
    read_by_blocks(monkeypatch, size)
    rows = [f"label{n * 7 % 90} {n + 1}:{n}{end_of_line}" for n in range(90)]
    data = read(write("".join(rows)))
    assert data.features.indices.tolist() == list(range(90))
    assert data.features.data.tolist() == list(range(90))
    assert data.labels.ids.tolist() == list(range(90))
    assert data.schema.names == [f"label{n * 7 % 90}" for n in range(90)]


@BLOCK_SIZES
@pytest.mark.parametrize(
    ("row", "quoting"),
    [("1 3:x", '"3:x"'), ("1 99:1", "99"), ("7 1:1", '"7"'), ("1, 99 2:1", '"99"')],
)
def test_the_first_invalid_line_of_a_file_is_reported(write, monkeypatch, size, row, quoting):
    read_by_blocks(monkeypatch, size)
    rows = ["1 3:1"] * 400
    rows[100] = "# a comment"
    rows[251] = row
    rows[252] = "1 too:late"
    rows[390] = "1 too:late"
    file = write("400 9 5\n" + "\n".join(rows))
    with refused_data(f"{file}:253", quoting=quoting):
        read(file)


def test_a_line_of_megabytes_is_parsed_like_others(write):
    n = 1 << 18
    long = " ".join(f"{column}:1" for column in range(n))
    data = read(write(f"3 {n} 2\n0 0:1\n1 {long}\n0 1:1\n"))
    assert data.features.indptr.tolist() == [0, 1, n + 1, n + 2]
    assert label_rows(data) == [[0], [1], [0]]


DIGITS = st.text("0123456789", min_size=1, max_size=25)


@given(
    st.lists(
        st.one_of(
            st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
            st.floats(-1e30, 1e30).map(repr),
            st.tuples(DIGITS, DIGITS, st.integers(-60, 12)).map(lambda x: f"{x[0]}.{x[1]}e{x[2]}"),
            # many of these lie in the middle between two float32
            st.integers(2**24, 2**27).map(str),
            st.floats(2.0**-99, 2.0**99, width=32).map(
                lambda x: f"{(x + float(np.nextafter(np.float32(x), 1e38))) / 2:.16e}"
            ),
            st.sampled_from(
                [
                    "1.",
                    ".5",
                    "+3",
                    "-0.25E+1",
                    "1e-400",
                    "16777217",
                    "3.4028235e38",
                    "1e-45",
                    "00012.50",
                ]
            ),
        ),
        min_size=1,
        max_size=20,
    )
)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100
)
def test_values_of_up_to_fifteen_digits_are_to_the_last_bit_what_python_reads(write, texts):
    data = read(
        write(f"1 {len(texts)} 1\n0 " + " ".join(f"{n}:{text}" for n, text in enumerate(texts)))
    )
    expected = np.array([np.float32(float(text)) for text in texts])
    np.testing.assert_array_max_ulp(data.features.data, expected, maxulp=1)
    is_short = np.array([len(re.sub(r"[eE].*|\D", "", text)) <= 15 for text in texts])
    np.testing.assert_array_equal(data.features.data[is_short], expected[is_short])


ROWS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 99), unique=True, max_size=4),
        st.dictionaries(
            st.integers(0, 199),
            st.floats(width=32, allow_nan=False, allow_infinity=False),
            max_size=6,
        ),
    ),
    min_size=1,
    max_size=20,
)


@given(ROWS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_written_as_xc_is_read_back(write, rows):
    lines = [
        ",".join(map(str, labels)) + "".join(f" {f}:{v!r}" for f, v in features.items())
        for labels, features in rows
    ]
    data = read(write(f"{len(rows)} 200 100\n" + "".join(line + "\n" for line in lines)))
    dense = np.zeros((len(rows), 200), np.float32)
    for row, (_, features) in enumerate(rows):
        dense[row, list(features)] = list(features.values())
    np.testing.assert_array_equal(data.features.toarray(), dense)
    assert label_rows(data) == [labels for labels, _ in rows]


def test_split_files_choose_rows_from_one(write):
    data = write("4 2 4\n" + "".join(f"{n} 0:{n}\n" for n in range(4)), "data.txt")
    split = write("4 1\n2 3\n", "split.txt")
    assert label_rows(read(f"{data}@{split}")) == [[3], [1]]
    assert label_rows(read(f"{data}@{split}:2")) == [[0], [2]]
    assert label_rows(read(f"{data}@" + write("2\n", "split:2"))) == [[1]]  # a colon in its name
    assert label_rows(read(write(Path(data).read_text(), "me@home.txt"))) == [[0], [1], [2], [3]]


def test_test_data_get_the_features_and_labels_of_the_training_data(write):
    known = read(write("1 3 2\n0 0:1\n")).schema
    notes = Notes()
    data = read(write("2 9 5\n4,1 2:1 3:1 8:1\n 7:1\n", "test.txt"), schema=known, progress=notes)
    assert data.features.toarray().tolist() == [[0, 0, 1], [0, 0, 0]]
    assert label_rows(data) == [[4, 1], []]
    assert data.n_labels == 2
    (note,) = notes.notes
    assert lines_with(note, "test.txt: 3 values", "below 3 ")
    assert read(write("1 2 1\n0 1:1\n", "test.txt"), schema=known).n_features == 3


def test_progress_is_in_stored_bytes(write):
    file = write(gzip.compress(b"1 2 1\n0 1:1\n"), "train.txt.gz")
    progress = Mock()
    read(file, progress=progress)
    size = os.path.getsize(file)
    progress.start.assert_called_once_with("reading", size, "B")
    progress.update.assert_called_with(size)
    progress.finish.assert_called_once_with()


def test_standard_input_is_read_once(write, monkeypatch):
    with open(write("1 2 1\n0 1:1\n")) as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert read("-").features.toarray().tolist() == [[0, 1]]


def test_remote_files_are_read(write):
    with serving() as site:
        site.contents = {
            "/train.txt.gz": gzip.compress(b"2 2 1\n0 1:1\n0 0:3\n"),
            "/x.npy": npy(np.eye(2, dtype=np.float32)),
        }
        rows = f"{site.url}/train.txt.gz"
        assert read(rows).features.toarray().tolist() == [[0, 1], [3, 0]]
        assert label_rows(read(f"{rows}@{write('2', 'split.txt')}")) == [[0]]
        assert read(f"{site.url}/x.npy").features.tolist() == [[1, 0], [0, 1]]
        with refused_data(f"{site.url}/nothing.txt", quoting="404"):
            read(f"{site.url}/nothing.txt")


# ---- fastText, and what sparse files have in common


def test_fasttext_lines_are_bags_of_words(write):
    data = read_training(write("__label__a __label__b x y x\n\nz __label__b\n"))
    known = data.schema
    assert data.features.toarray().tolist() == [[2, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert data.features.has_canonical_format
    assert (data.schema.vocabulary, data.schema.names) == (["x", "y", "z"], ["a", "b"])
    assert label_rows(data) == [[0, 1], [], [1]]
    test = read(write("unseen z z x\n__label__c __label__b\n", "test.txt"), schema=known)
    # the last column counts unknown words
    assert test.features.toarray().tolist() == [[1, 0, 2, 1], [0, 0, 0, 0]]
    assert label_rows(test) == [[], [2, 1]]
    assert (test.n_labels, test.schema.vocabulary) == (2, known.vocabulary)


def test_fasttext_lines_are_recognised_by_a_label_anywhere_in_the_first_lines(write):
    assert read(write("good film __label__a\n")).schema.vocabulary == ["good", "film"]
    assert read(write("no label\n__label__a film\n")).n_labels == 1


def test_comments_and_blanks_between_labels_of_sparse_rows_are_read(write):
    data = read(write("# made by a tool\n\n# 3 4\n1, 2 1:1 # first\n#no row\n2 , 3 2:1\n3 1:1\n"))
    assert label_rows(data) == [[0, 1], [1, 2], [2]]
    assert data.features.shape == (3, 2)
    data = read(write("# XC\n2 3 4\n0, 1 0:1\n# more\n3 2:1 # two\n"))
    assert label_rows(data) == [[0, 1], [3]]
    with refused_data("train.txt:6", quoting='"x"'):
        read(write("# a\n1 1:1\n# b\n\n# c\n2 x 1:2\n"))


@BLOCK_SIZES
def test_recognising_a_file_takes_nothing_from_it(write, monkeypatch, size):
    read_by_blocks(monkeypatch, size)
    comments = "# made by a tool\n" * 40 + "\n# another\n"
    for rows in ("2 9 3\n0,2 0:1.5 8:-2e-3\n1 3:1\n", "cat 1:1\ndog 2:1\n"):
        content = comments + rows
        file = LabelledFile(source_of(write(content)), SILENT)
        formats = [format_of(file, ReadOptions()) for _ in range(2)]
        assert formats[0] is formats[1]
        assert formats[0].name == ("XC" if rows.startswith("2 9 3") else "LIBSVM")
        assert file.lines.number_of_first_row == 43
        assert file.lines.chunk_line == 1
        assert b"".join(file.lines).decode() == content


def test_comments_alone_have_no_format_and_lines_that_begin_with_one_may_be_predicted(
    write, monkeypatch
):
    with refused_data("train.txt"):
        read(write("\n# only\n# comments\n"))
    schema = read(write("2 9 3\n0,2 0:1.5 8:-2e-3\n1 3:1\n")).schema
    for rows in ([b"3:1\n", b"0:2\n"], [b"2 9 3\n", b"0 3:1\n", b"1 0:2\n"]):
        arriving = [b"# a comment\n", *rows]
        monkeypatch.setattr("embedx.labeled.read.arriving_lines", lambda a=arriving: iter(a))
        parts = [part.features.toarray() for part in read_arriving(schema)]
        assert np.concatenate(parts)[:, [0, 3]].tolist() == [[0, 1], [2, 0]]


def test_a_corpus_of_one_file_has_training_rows_and_test_rows(write, workdir):
    write("3 2 2\n0 0:1\n1 1:1\n1 0:1\n", "data.txt")
    write("1\n2\n", "tr.txt")
    write("3\n", "tst.txt")
    write(
        'kind = "classes"\nreader = "xc"\nfiles = ["data.txt"]\nsplits = ["tr.txt", "tst.txt"]\n',
        "both.toml",
    )
    training = read_training("both")
    assert label_rows(training) == [[0], [1]]
    assert label_rows(read("both", schema=training.schema)) == [[1]]
    assert label_rows(read_training("both@tr.txt")) == [[0], [1]]
    os.remove("tst.txt")
    with pytest.raises(DataError) as caught:
        read("both", schema=training.schema)
    assert "tst.txt" in caught.value.problem
    with gzip.open("TST.txt.gz", "wt") as file:
        file.write("3\n")
    assert label_rows(read("both", schema=training.schema)) == [[1]]


def test_labels_far_apart_are_kept_once_too(write):
    data = read(write("1 9 2147483647\n2147483646,5,2147483646,7,5 1:1\n"))
    assert label_rows(data) == [[2147483646, 5, 7]]


# ---- real data


@needs_data
@pytest.mark.parametrize(
    "name", ["bibtex/test.txt.gz", "omniglot/test.txt.gz", "eurlex-4.3k/dev.txt.gz"]
)
def test_real_files_are_read_as_scikit_learn_reads_them(name):
    data = read(str(DATA / name))
    with gzip.open(DATA / name) as lines:
        n_rows, n_features, n_labels = map(int, next(lines).split())
        features, labels = load_svmlight_file(
            lines, n_features=n_features, dtype=np.float32, multilabel=True, zero_based=True
        )
    assert [len(data), data.n_features, data.n_labels] == [n_rows, n_features, n_labels]
    assert label_rows(data) == [[*map(int, row)] for row in labels]
    assert (data.features != features).nnz == 0
