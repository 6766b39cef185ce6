"""What is said of labelled data that cannot be read: one line with the file, the line and what to
do.
"""

import io
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from scipy.sparse import csr_matrix, save_npz

from embedx.labeled.data import DataSchema
from embedx.labeled.ids import read_names
from embedx.labeled.read import read
from tests.support.npy import npy
from tests.support.refusals import refused_data
from tests.support.report_models import words_as_they_are

TRAINED_ON_SPARSE = DataSchema(3, 2)
TRAINED_ON_NAMES = DataSchema(3, 2, ["a", "b"], by_name=True, first_feature=1)
TRAINED_ON_WORDS = DataSchema(2, 1, ["a"], words_as_they_are("xy"), by_name=True)


def assert_refused(place, quoting, *files, **options):
    """Reading these files ends with an error of one line about this place, which quotes this."""
    with refused_data(place, quoting=quoting) as caught:
        read(*files, **options)
    assert "\n" not in str(caught.value)


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
def test_invalid_features_are_quoted(write, word):
    text = f"2 3 2\n0 0:1\n1 2:1 {word} 1:1\n"
    assert_refused("train.txt:3", f'"{word}"', write(text))


@pytest.mark.parametrize(("number", "n"), NOT_IN_RANGE.items())
def test_feature_ids_are_those_of_the_header(write, number, n):
    text = f"1 {n} 1\n0 {number}:1\n"
    assert_refused("train.txt:2", (f" {number} ", f"0 to {n - 1},", "header"), write(text))


@pytest.mark.parametrize(
    ("text", "place", "quoting"),
    [
        ("", "train.txt", "empty"),
        ("\n\r\n", "train.txt", "empty"),
        (b"1 3 2\n0 0:\xff\n", "train.txt:2", '"0:�"'),
        ("1 3 2\n0, 1 1 0:1\n", "train.txt:2", 'feature "1"'),
        ("0 99999999999:1\n", "train.txt:1", ("99999999999", "0 to 2147483646")),
        ("2 3 2\n0 0:1\n2 0:1\n", "train.txt:3", ('label "2"', "0 to 1,", "header")),
        ("1 3 2\n0,-1 0:1\n", "train.txt:2", ('label "-1"', "0 to 1,")),
        ("1 3 2\ncat 0:1\n", "train.txt:2", ('label "cat"', "0 to 1,")),
        ("1 3 0\n0 0:1\n", "train.txt:2", ('label "0"', "0 to -1,", "header")),
        ("3 3 2\n0 0:1\n1 0:1\n", "train.txt:1", ("header", "3 rows", " 2")),
        ("1 3 2\n", "train.txt:1", ("header", "1 row", " 0")),
        ("\n1 3 2\n0 0:1\n1 0:1\n", "train.txt:2", ("header", "1 row", " 2")),
        ("0 3 2\n", "train.txt:1", ("header", "0 rows")),
        ("1 3 3000000000\n0 0:1\n", "train.txt:1", ("2147483647", "header")),
        ("1 cat\n", "train.txt:1", ("format", "ROWS FEATURES LABELS", "LABEL ID:VALUE")),
        ("10 20\n0 0:1\n", "train.txt:1", "format"),
        (b"\xe9 1:1\n", "train.txt", (r"b'\xe9'", "UTF-8", "iconv -f CP1252 -t UTF-8")),
        (b"__label__a x\n__label__b \xe9\n", "train.txt:2", ("UTF-8", "iconv -f CP1252 -t UTF-8")),
    ],
)
def test_malformed_text_is_an_error_of_one_line(write, text, place, quoting):
    assert_refused(place, quoting, write(text))


def test_the_line_is_right_far_into_a_file(write):
    rows = "".join(f"1 {n % 10}:0.5\n" for n in range(100_000))
    assert_refused("train.txt:100002", "feature", write(f"100001 10 2\n{rows}0 1:x\n"))
    assert_refused("train.txt:100002", 'label "2"', write(f"100001 10 2\n{rows}2 1:1\n"))
    labels = "".join("__label__a é\n" for _ in range(50_000)).encode()
    assert_refused("train.txt:50001", "UTF-8", write(labels + b"x \xff\n"))


def test_files_that_cannot_be_opened_are_named(tmp_path, write):
    missing = str(tmp_path / "missing.txt")
    train = write("1 3 2\n 0:1\n")
    for files in ([missing], [train, missing], [f"{train}@{missing}"]):
        assert_refused("missing.txt", "no such file", *files)
    (tmp_path / "folder").mkdir()
    assert_refused("folder", "without files", str(tmp_path / "folder"))
    with refused_data("missing.txt"):
        read_names(str(tmp_path / "missing.txt"))
    assert_refused("-", ("standard input", "features", "labels"), "-", "-")


NO_ARRAY = "numpy.save"
NO_SPARSE_MATRIX = "scipy.sparse.save_npz"


def test_cut_off_files_are_named(write):
    images = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2]) + bytes(8)
    name = "images-idx3-ubyte"
    assert_refused(name, ("23 bytes", "IDX header", "24"), write(images[:-1], name))
    assert_refused(name, ("25 bytes", "IDX header", "24"), write(images + b"\0", name))
    assert_refused(name, "IDX", write(images[:13], name))
    assert_refused("x.npy", f"{NO_ARRAY} (", write(npy(np.eye(9))[:-8], "x.npy"))


def test_arrays_that_are_no_features_are_refused(write, tmp_path):
    vector = np.ones(3)
    complex_numbers = np.ones((2, 2), complex)
    objects = np.array([[None]])
    assert_refused("x.npy", "shape (3,) of float64", write(npy(vector), "x.npy"))
    assert_refused("x.npy", "shape (2, 2) of complex128", write(npy(complex_numbers), "x.npy"))
    assert_refused("x.npy", NO_ARRAY, write(npy(objects), "x.npy"))
    bad = np.zeros((5000, 1000), np.float32)
    bad[4999, 7] = np.nan
    assert_refused("x.npy", ("row 5000, feature 7", "float32"), write(npy(bad), "x.npy"))
    too_large = np.array([[0, 1], [1e39, 0]])
    assert_refused("x.npy", ("row 2, feature 0", "float32"), write(npy(too_large), "x.npy"))
    sparse = tmp_path / "x.npz"
    np.savez(sparse, x=np.eye(2))
    assert_refused("x.npz", NO_SPARSE_MATRIX, str(sparse))
    save_npz(sparse, csr_matrix(np.array([[np.inf]])))
    assert_refused("x.npz", ("value 1", "float32"), str(sparse))
    name = "train-images-idx3-ubyte"
    assert_refused(name, ("IDX", "01 02 03 04", "00 00"), write(b"\1\2\3\4" + bytes(99), name))


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
    reason_of_library = f"{NO_SPARSE_MATRIX} ({reason}"
    assert_refused("x.npz", reason_of_library, write(content, "x.npz"))
    features = write(npy(np.eye(3)), "x.npy")
    assert_refused("x.npz", reason_of_library, features, write(content, "x.npz"))


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
        assert_refused("x.npz", (), name)
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
    marks = tmp_path / "y.npz"
    save_npz(marks, csr_matrix(np.array([[np.nan, 1]])))
    assert_refused("y.npz", ("value 1", "float32"), x, str(marks))
    save_npz(marks, csr_matrix(np.array([[1j, 1]])))
    assert_refused("y.npz", ("2 dimensions of complex128", "integers"), x, str(marks))


def test_sums_of_values_are_finite_too(write):
    text = "1 3 2\n0 1:3e38 1:3e38 2:1\n"
    assert_refused("train.txt", ("value 1", "float32"), write(text))
    twice = compressed([0, 2], [1, 1], (1, 5), data=np.full(2, 3e38, np.float32))
    assert_refused("x.npz", ("value 1", "float32"), write(twice, "x.npz"))


def test_unreadable_headers_are_refused(write):
    start = b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little")
    assert_refused("x.npy", NO_ARRAY, write(start + b"(" * 9000, "x.npy"))
    assert_refused("x.npz", NO_SPARSE_MATRIX, write(b"PK\x03\x04" + bytes(100), "x.npz"))


@pytest.mark.parametrize("digits", ["1" * 5000, "0" * 5000 + "1"])
def test_unreadable_numbers_are_refused(write, digits):
    assert_refused("train.txt:1", "format", write(f"{digits} 3 2\n0 0:1\n"))
    x = write(npy(np.eye(1)), "x.npy")
    y = write(f"{'1' * 5000}\n", "y.txt")
    assert_refused("y.txt", "too large", x, y)
    data = write("1 3 2\n0 0:1\n")
    split = write(digits, "split.txt")
    assert_refused("split.txt:1", "rows 1 to 1", f"{data}@{split}")
    assert_refused(f"split.txt:{digits}", "opened", f"{data}@split.txt:{digits}")
    assert read(write(f"{digits} 1:1\n2 1:1\n")).schema.names == [digits, "2"]


@pytest.mark.parametrize(
    ("name", "labels", "place", "quoting"),
    [
        ("y.npy", npy(np.array([0, 1])), "y.npy", ("2 rows", " 3;")),
        ("y.txt", b"1\n2\n", "y.txt", ("2 rows", " 3;")),
        ("y.txt", b"1\n2\n3\n4\n", "y.txt", ("4 rows", " 3;")),
        ("y.npy", npy(np.array([0, -1, 1])), "y.npy", ("label -1", "row 2")),
        ("y.npy", npy(np.array([0, 1, 2.0])), "y.npy", ("1 dimensions of float64", "(ROWS,)")),
        ("y.npy", npy(np.eye(3, dtype=int)), "y.npy", ("2 dimensions of int64", "integers")),
        ("y.txt", b"1\n2\n99999999999\n", "y.txt", ("99999999999", "too large", "from 0")),
        ("y.txt", b"", "y.txt", "empty"),
        ("y.txt", b"a\n\xff\nb\n", "y.txt:2", "UTF-8"),
    ],
)
def test_labels_that_do_not_fit_the_rows_are_refused(write, name, labels, place, quoting):
    assert_refused(place, quoting, write(npy(np.eye(3)), "x.npy"), write(labels, name))


def test_a_file_with_labels_takes_no_others(write):
    labels = write("1\n", "y.txt")
    assert_refused("train.txt", labels, write("1 3 2\n0 0:1\n"), labels)


@pytest.mark.parametrize(
    ("split", "column", "line", "quoting"),
    [
        ("1\n3\n", "", 2, ('column 1 is "3"', "rows 1 to 2")),
        ("1\n0\n", "", 2, 'column 1 is "0"'),
        ("1\n" + "0" * 19 + "1\n", "", 2, 'column 1 is "00000000000000000001"'),
        ("1 2\nx 1\n", "", 2, 'column 1 is "x"'),
        ("1 2\n2\n", ":2", 2, 'column 2 is ""'),
        ("1 2\n2\n", ":0", 1, 'column 0 is ""'),
    ],
)
def test_splits_that_do_not_fit_the_rows_are_refused(write, split, column, line, quoting):
    data = write("2 3 2\n0 0:1\n1 0:1\n")
    file = write(split, "split.txt")
    assert_refused(f"split.txt:{line}", quoting, f"{data}@{file}{column}")


@pytest.mark.parametrize(
    ("trained", "text", "place", "quoting"),
    [
        (
            TRAINED_ON_WORDS,
            "1 3 2\n0 0:1\n",
            "train.txt",
            ("are ID:VALUE", "training data are words"),
        ),
        (
            TRAINED_ON_SPARSE,
            "__label__a x\n",
            "train.txt",
            ("are words", "training data are ID:VALUE"),
        ),
        (TRAINED_ON_SPARSE, "cat 0:1\n", "train.txt:1", ('label "cat"', "0 to 2147483646")),
        (TRAINED_ON_NAMES, "a 1:1\nb 0:1\n", "train.txt:2", ("feature id 0", "1 to 2147483646")),
    ],
)
def test_test_data_of_another_kind_are_refused(write, trained, text, place, quoting):
    assert_refused(place, quoting, write(text), schema=trained)


def test_arrays_of_another_width_are_refused(write):
    wide = write(npy(np.eye(4)), "x.npy")
    assert_refused("x.npy", ("4 features", "training data have 3"), wide, schema=TRAINED_ON_SPARSE)
    features = write(npy(np.eye(3)), "x.npy")
    labels = write("0\ncat\n1\n", "y.txt")
    assert_refused(
        "y.txt", ('label "cat"', "training data"), features, labels, schema=TRAINED_ON_SPARSE
    )
