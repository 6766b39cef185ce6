"""What is said of labelled data that cannot be read: one line with the file, the line and what to
do.
"""

import io
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from scipy.sparse import csr_matrix, save_npz

from embedx.errors import EmbedxError
from embedx.labeled.data import DataSchema
from embedx.labeled.ids import read_names
from embedx.labeled.read import read
from tests.support.npy import npy
from tests.support.refusals import refused_data
from tests.support.report_setup import words_as_they_are

SPARSE_LIKE = DataSchema(3, 2)
NAMED_LIKE = DataSchema(3, 2, ["a", "b"], by_name=True, first_feature=1)
WORDS_LIKE = DataSchema(2, 1, ["a"], words_as_they_are("xy"), by_name=True)


def message_of(*arguments, **options):
    with pytest.raises(EmbedxError) as caught:
        read(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


NOT_A_FEATURE = (
    "a:b",
    "0:1:2",
    "0:1e",
    "0:1_0",
    "0:",
    ":1",
    "0:0x10",
    "1.5:1",
    "0:١",
    "0:nan",
    "0:-Inf",
    "0:1e39",
    "1",
)
NOT_A_FEATURE += ("0:3.4028236e38",)
NOT_IN_RANGE = {"-1": 3, "3": 3, "99999999999999999999": 3, "0": 0}  # by number of features


@pytest.mark.parametrize("word", NOT_A_FEATURE)
def test_what_is_no_feature_is_shown(write, word):
    message = (
        f'train.txt:3: feature "{word}" is not ID:VALUE with a value that is a finite float32, as'
        " 17:0.5 is; a line is LABEL"
    )
    assert message in message_of(write(f"2 3 2\n0 0:1\n1 2:1 {word} 1:1\n"))


@pytest.mark.parametrize(("number", "n"), NOT_IN_RANGE.items())
def test_feature_ids_are_those_of_the_header(write, number, n):
    message = (
        f"train.txt:2: feature id {number} is not from 0 to {n - 1}, the features of the header;"
        " correct one of them"
    )
    assert message in message_of(write(f"1 {n} 1\n0 {number}:1\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"train.txt: an empty file; is it the right one, and was it copied whole\?"),
        ("\n\r\n", r"train.txt: an empty file"),
        (b"1 3 2\n0 0:\xff\n", r'feature "0:�" is not ID:VALUE'),
        ("1 3 2\n0, 1 1 0:1\n", r'train.txt:2: feature "1" is not ID:VALUE'),
        (
            "0 99999999999:1\n",
            r"train.txt:1: feature id 99999999999 is not from 0 to 2147483646; renumber them",
        ),
        (
            "2 3 2\n0 0:1\n2 0:1\n",
            (
                r'train.txt:3: label "2" is not a whole number from 0 to 1, the labels of the'
                r" header; correct"
            ),
        ),
        ("1 3 2\n0,-1 0:1\n", r'train.txt:2: label "-1" is not a whole number from 0 to 1'),
        ("1 3 2\ncat 0:1\n", r'train.txt:2: label "cat" is not a whole number from 0 to 1'),
        (
            "1 3 0\n0 0:1\n",
            r'train.txt:2: label "0" is not a whole number from 0 to -1, the labels of the header',
        ),
        (
            "3 3 2\n0 0:1\n1 0:1\n",
            (
                r"train.txt:1: the header says 3 rows, but there are 2; copy the file again or"
                r" correct it"
            ),
        ),
        ("1 3 2\n", r"train.txt:1: the header says 1 rows, but there are 0"),
        ("\n1 3 2\n0 0:1\n1 0:1\n", r"train.txt:2: the header says 1 rows, but there are 2"),
        ("0 3 2\n", r"train.txt:1: the header says 0 rows"),
        (
            "1 3 3000000000\n0 0:1\n",
            r"train.txt:1: more than 2147483647 features or labels; correct the header",
        ),
        (
            "1 cat\n",
            (
                r"train.txt:1: no known format; begin with a header ROWS FEATURES LABELS, write"
                r" lines LABEL ID:VALUE"
            ),
        ),
        ("10 20\n0 0:1\n", r"train.txt:1: no known format"),
        (
            b"\xe9 1:1\n",
            r"train.txt: label b'\\xe9' is not UTF-8; convert the file with iconv -t UTF-8",
        ),
        (
            b"__label__a x\n__label__b \xe9\n",
            r"train.txt:2: not UTF-8; convert the file with iconv -t UTF-8",
        ),
    ],
)
def test_malformed_text_is_an_error_of_one_line(write, text, message):
    assert re.search(message, message_of(write(text)))


def test_the_line_is_right_far_into_a_file(write):
    rows = "".join(f"1 {n % 10}:0.5\n" for n in range(100_000))
    assert "train.txt:100002: feature" in message_of(write(f"100001 10 2\n{rows}0 1:x\n"))
    assert 'train.txt:100002: label "2" is' in message_of(write(f"100001 10 2\n{rows}2 1:1\n"))
    labels = "".join("__label__a é\n" for _ in range(50_000)).encode()
    assert "train.txt:50001: not UTF-8" in message_of(write(labels + b"x \xff\n"))


def test_files_that_cannot_be_opened_are_named(tmp_path, write):
    assert re.search(
        "missing.txt: cannot be opened .*; check the name and your permissions",
        message_of(str(tmp_path / "missing.txt")),
    )
    assert re.search("a directory without files", message_of(str(tmp_path)))
    train = write("1 3 2\n 0:1\n")
    assert re.search(
        "missing.txt: cannot be opened", message_of(train, str(tmp_path / "missing.txt"))
    )
    assert re.search("missing.txt: cannot be opened", message_of(f"{train}@{tmp_path}/missing.txt"))
    with refused_data("missing.txt"):
        read_names(str(tmp_path / "missing.txt"))
    assert (
        message_of("-", "-")
        == "-: standard input cannot be both the features and the labels; name a file for one of"
        " them"
    )


def test_cut_off_files_are_named(write):
    images = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2]) + bytes(8)
    message = message_of(write(images[:-1], "images-idx3-ubyte"))
    assert (
        "images-idx3-ubyte: 23 bytes, but its IDX header says 24; fetch or copy it again" in message
    )
    assert "images-idx3-ubyte: 25 bytes, but its" in message_of(
        write(images + b"\0", "images-idx3-ubyte")
    )
    assert "images-idx3-ubyte: no readable IDX file" in message_of(
        write(images[:13], "images-idx3-ubyte")
    )
    assert re.search(
        r"x.npy: no readable array of numpy.save \(.*\); write it again",
        message_of(write(npy(np.eye(9))[:-8], "x.npy")),
    )


def test_arrays_that_are_no_features_say_so(write, tmp_path):
    printed = message_of(write(npy(np.ones(3)), "x.npy"))
    assert "x.npy: shape (3,) of float64; features are numbers in rows and columns" in printed
    assert "x.npy: shape (2, 2) of complex128" in message_of(
        write(npy(np.ones((2, 2), complex)), "x.npy")
    )
    assert "x.npy: no readable array of numpy.save" in message_of(
        write(npy(np.array([[None]])), "x.npy")
    )
    bad = np.zeros((5000, 1000), np.float32)
    bad[4999, 7] = np.nan
    assert (
        "x.npy: row 5000, feature 7 is not a finite float32; correct or rescale it"
        in message_of(write(npy(bad), "x.npy"))
    )
    assert "row 2, feature 0 is not a finite float32" in message_of(
        write(npy(np.array([[0, 1], [1e39, 0]])), "x.npy")
    )
    np.savez(tmp_path / "x.npz", x=np.eye(2))
    assert "x.npz: no readable sparse matrix of scipy.sparse.save_npz" in message_of(
        str(tmp_path / "x.npz")
    )
    save_npz(tmp_path / "x.npz", csr_matrix(np.array([[np.inf]])))
    assert "x.npz: value 1 is not a finite float32" in message_of(str(tmp_path / "x.npz"))
    message = message_of(write(b"\1\2\3\4" + bytes(99), "train-images-idx3-ubyte"))
    assert (
        "no IDX file: it begins with 01 02 03 04, not 00 00 TYPE DIMENSIONS; fetch it again"
        in message
    )


def npz(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def compressed(indptr, indices, shape=(3, 5), format="csr", **others):
    """A file as save_npz writes it, of whatever indices."""
    arrays = {
        "indptr": np.array(indptr),
        "indices": np.array(indices),
        "data": np.ones(len(indices), np.float32),
    }
    return npz(**arrays | {"shape": np.array(shape), "format": np.array(format.encode())} | others)


INDICES = {  # of (3, 5)
    "too large": (compressed([0, 1, 2, 3], [0, 10**9, 1]), "1000000000 among indices of 5"),
    "negative": (compressed([0, 1, 2, 3], [0, -1, 1]), "-1 among indices of 5"),
    "falling": (compressed([0, 2, 1, 3], [0, 1, 2]), "offset 2 is below the one before"),
    "falls till it overflows": (
        compressed(np.int32([0, 2**31 - 1, -(2**31), 2]), [0, 1]),
        "offset 2 is below the one before",
    ),
    "too few pointers": (compressed([0, 3], [0, 1, 2]), "index pointer"),
    "too many pointers": (compressed([0, 1, 2, 9], [0, 1, 2]), "Last value"),
    "more values than indices": (compressed([0, 1, 2, 3], [0, 1, 2], data=np.ones(9)), ""),
    "blocks": (
        compressed([0, 1], [0], (2, 4), "bsr", data=np.ones((1, 2, 2))),
        "2 dimensions as bsr, not 2 as csr, csc or coo",
    ),
    "coordinates": (
        npz(row=[0, 1], col=[0, 5], data=[1.0, 2.0], shape=[3, 5], format=b"coo"),
        "axis 1 index 5 exceeds matrix dimension 5",
    ),
    "too many columns": (
        compressed([0, 1, 1, 1], [0], (3, 2**31)),
        "shape (3, 2147483648), of which no number may be above",
    ),
    "a shape below zero": (compressed([0, 1], [0], (-1, 5)), ""),
    "another format": (compressed([0, 1], [0], (1, 5), "lil"), ""),
    "pickled": (compressed([0, 1], [0], (1, 5), data=np.array([None])), "Object"),
}


@pytest.mark.parametrize("content", INDICES.values(), ids=list(INDICES))
@pytest.mark.filterwarnings("error")
def test_indices_that_leave_the_matrix_are_reported_before_compiled_code_follows_them(
    write, content
):
    content, reason = content
    message = f"x.npz: no readable sparse matrix of scipy.sparse.save_npz ({reason}"
    assert message in message_of(write(content, "x.npz"))
    # as labels
    assert message in message_of(write(npy(np.eye(3)), "x.npy"), write(content, "x.npz"))


NUMBERS = st.integers(-2, 6)


@given(
    st.sampled_from(["csr", "csc"]),
    st.lists(NUMBERS, min_size=1, max_size=5),
    st.lists(NUMBERS, max_size=5),
    st.data(),
)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100
)
def test_sparse_files_of_any_numbers_are_read_as_they_say_or_refused(
    write, format, indptr, indices, data
):
    shape = data.draw(st.sampled_from([(len(indptr) - 1, 5), (5, len(indptr) - 1), (2, 2)]))
    name = write(compressed([0, *indptr[1:]], indices, shape, format), "x.npz")
    lines = np.array(shape)[[0, 1] if format == "csr" else [1, 0]]
    rises = all(a <= b for a, b in pairwise([0, *indptr[1:]])) and indptr[1:][-1:] <= [len(indices)]
    used = indices[: indptr[-1]] if len(indptr) > 1 else []
    if not (
        0 not in shape
        and lines[0] == len(indptr) - 1
        and rises
        and all(0 <= i < lines[1] for i in used)
    ):
        message_of(name)
        return
    dense = np.zeros(lines)
    for line, (start, end) in enumerate(pairwise([0, *indptr[1:]])):
        for i in indices[start:end]:
            dense[line, i] += 1
    np.testing.assert_array_equal(
        read(name).features.toarray(), dense if format == "csr" else dense.T
    )


def test_marks_of_labels_are_finite_numbers(write, tmp_path):
    x = write(npy(np.eye(1)), "x.npy")
    save_npz(tmp_path / "y.npz", csr_matrix(np.array([[np.nan, 1]])))
    assert "y.npz: value 1 is not a finite float32; correct or rescale it" in message_of(
        x, str(tmp_path / "y.npz")
    )
    save_npz(tmp_path / "y.npz", csr_matrix(np.array([[1j, 1]])))
    message = message_of(x, str(tmp_path / "y.npz"))
    assert (
        "y.npz: 2 dimensions of complex128; labels are integers (ROWS,), or a sparse matrix"
        in message
    )


def test_sums_of_values_are_finite_too(write):
    assert "train.txt: value 1 is not a finite float32" in message_of(
        write("1 3 2\n0 1:3e38 1:3e38 2:1\n")
    )
    printed = message_of(
        write(compressed([0, 2], [1, 1], (1, 5), data=np.full(2, 3e38, np.float32)), "x.npz")
    )
    assert "x.npz: value 1 is not a finite float32" in printed


def test_headers_that_python_cannot_parse_say_so(write):
    start = b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little")
    assert "x.npy: no readable array of numpy.save" in message_of(
        write(start + b"(" * 9000, "x.npy")
    )
    message = message_of(write(b"PK\x03\x04" + bytes(100), "x.npz"))
    assert "x.npz: no readable sparse matrix of scipy.sparse.save_npz" in message


@pytest.mark.parametrize("digits", ["1" * 5000, "0" * 5000 + "1"])
def test_numbers_that_python_does_not_read_say_so(write, digits):
    assert "train.txt:1: no known format" in message_of(write(f"{digits} 3 2\n0 0:1\n"))
    x, y = write(npy(np.eye(1)), "x.npy"), write(f"{'1' * 5000}\n", "y.txt")
    assert "is too large" in message_of(x, y)
    data = write("1 3 2\n0 0:1\n")
    assert "no row of the data, which has rows 1 to 1" in message_of(
        f"{data}@{write(digits, 'split.txt')}"
    )
    assert "cannot be opened" in message_of(f"{data}@split.txt:{digits}")
    assert read(write(f"{digits} 1:1\n2 1:1\n")).schema.names == [digits, "2"]


@pytest.mark.parametrize(
    ("name", "labels", "message"),
    [
        (
            "y.npy",
            npy(np.array([0, 1])),
            r"y.npy: labels of 2 rows, but the features have 3; do they belong together\?",
        ),
        ("y.txt", b"1\n2\n", r"y.txt: labels of 2 rows, but the features have 3"),
        ("y.txt", b"1\n2\n3\n4\n", r"y.txt: labels of 4 rows, but the features have 3"),
        ("y.npy", npy(np.array([0, -1, 1])), r"y.npy: label -1 of row 2; number the labels from 0"),
        (
            "y.npy",
            npy(np.array([0, 1, 2.0])),
            r"y.npy: 1 dimensions of float64; labels are integers \(ROWS,\), or a sparse",
        ),
        ("y.npy", npy(np.eye(3, dtype=int)), r"y.npy: 2 dimensions of int64; labels are integers"),
        (
            "y.txt",
            b"1\n2\n99999999999\n",
            r"y.txt: label 99999999999 is too large; ids count from 0",
        ),
        ("y.txt", b"", r"y.txt: an empty file"),
        ("y.txt", b"a\n\xff\nb\n", r"y.txt:2: not UTF-8"),
    ],
)
def test_labels_that_do_not_fit_say_so(write, name, labels, message):
    assert re.search(message, message_of(write(npy(np.eye(3)), "x.npy"), write(labels, name)))


def test_a_file_with_labels_takes_no_others(write):
    message = message_of(write("1 3 2\n0 0:1\n"), write("1\n", "y.txt"))
    assert re.search(
        r"train.txt: has labels of its own; leave out the file of labels, .*y.txt", message
    )


@pytest.mark.parametrize(
    ("split", "column", "message"),
    [
        (
            "1\n3\n",
            "",
            (
                r'split.txt:2: column 1 is "3", no row of the data, which has rows 1 to 2; is it'
                r" their split\?"
            ),
        ),
        ("1\n0\n", "", r'split.txt:2: column 1 is "0", no row of the data'),
        (
            "1\n" + "0" * 19 + "1\n",
            "",
            r'split.txt:2: column 1 is "00000000000000000001", no row of the data',
        ),
        ("1 2\nx 1\n", "", r'split.txt:2: column 1 is "x", no row of the data'),
        ("1 2\n2\n", ":2", r'split.txt:2: column 2 is "", no row of the data'),
        ("1 2\n2\n", ":0", r'split.txt:1: column 0 is "", no row of the data'),
    ],
)
def test_splits_that_do_not_fit_say_so(write, split, column, message):
    data = write("2 3 2\n0 0:1\n1 0:1\n")
    assert re.search(message, message_of(f"{data}@{write(split, 'split.txt')}{column}"))


@pytest.mark.parametrize(
    ("like", "text", "message"),
    [
        (
            WORDS_LIKE,
            "1 3 2\n0 0:1\n",
            r"train.txt: features are ID:VALUE, but those of the training data are words; give",
        ),
        (
            SPARSE_LIKE,
            "__label__a x\n",
            r"train.txt: features are words, but those of the training data are ID:VALUE; give",
        ),
        (
            SPARSE_LIKE,
            "cat 0:1\n",
            r'train.txt:1: label "cat" is not a whole number from 0 to 2147483646; renumber them',
        ),
        (
            NAMED_LIKE,
            "a 1:1\nb 0:1\n",
            (
                r"train.txt:2: feature id 0 is not from 1 to 2147483646, as in the training data;"
                r" renumber one"
            ),
        ),
    ],
)
def test_test_data_of_another_kind_say_so(write, like, text, message):
    assert re.search(message, message_of(write(text), like=like))


def test_arrays_of_another_width_say_so(write):
    printed = message_of(write(npy(np.eye(4)), "x.npy"), like=SPARSE_LIKE)
    assert "x.npy: 4 features, but the training data have 3; give the same" in printed
    message = message_of(
        write(npy(np.eye(3)), "x.npy"), write("0\ncat\n1\n", "y.txt"), like=SPARSE_LIKE
    )
    assert (
        'y.txt: label "cat" is not an id; the labels of the training data are whole numbers from 0'
        in message
    )
