"""How readers of labelled data count what they keep, and where their limits lie exactly."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx.errors import EmbedxError
from embedx.labeled import files
from embedx.labeled.files import Lines, MemoryBudget, source_of
from embedx.labeled.read import read, read_training
from embedx.labeled.rules import NEARLY, input_length
from embedx.labeled.schema import WORD_BYTES
from embedx.labeled.words import read_bags
from embedx.training.progress import Silent

N = 500


@pytest.fixture
def taken(monkeypatch):
    """The bytes that readers say they keep, as a list; they read a kilobyte at a time."""
    told, take = [], MemoryBudget.take
    monkeypatch.setattr("embedx.text.streams.BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(MemoryBudget, "take", lambda self, n: told.append(n) or take(self, n))
    return told


def rows_of_text():
    """Lines of up to three labels and up to four features, without numbers for them."""
    rng = np.random.default_rng(0)
    return [(rng.integers(0, 4, rng.integers(1, 4)), np.flatnonzero(rng.random(9) < 0.3)) for _ in range(N)]


def test_bags_take_what_they_hold(write, taken):
    rows = rows_of_text()
    text = "".join(" ".join([*(f"__label__{y}" for y in labels), *(f"w{x}" for x in words)]) + "\n" for labels, words in rows)
    bags = read_bags(Lines(source_of(write(text)), Silent()), [f"w{x}" for x in range(9)])
    features = bags.features
    kept = features.data.nbytes + features.indices.nbytes + 2 * features.indptr.nbytes
    kept += bags.labels.nbytes + 2 * bags.offsets.nbytes + 4 * (len("__label__0") + WORD_BYTES)
    assert sum(taken) == pytest.approx(kept, rel=0.01)
    assert len(taken) > 20


def test_sparse_rows_take_what_they_hold(write, taken):
    rows = rows_of_text()
    text = "".join(",".join(map(str, labels)) + "".join(f" {x}:1" for x in columns) + "\n" for labels, columns in rows)
    n_labels, n_values = (sum(len(row[k]) for row in rows) for k in range(2))
    read(write(f"{N} 9 4\n" + text))
    assert sum(taken) == 16 * N + 8 * n_values + 4 * n_labels
    taken.clear()
    read(write(f"{N + 90} 9 4\n" + text + "\n" * 90))
    assert sum(taken) == 16 * (N + 90) + 8 * n_values + 4 * n_labels


def test_lines_of_labels_take_what_they_hold(write, taken):
    rows = rows_of_text()
    np.save(features := write("", "x.npy"), np.zeros((N, 1), np.float32))
    read(features, write("".join(" ".join(map(str, labels)) + "\n" for labels, _ in rows)))
    kept = 4 * sum(len(labels) for labels, _ in rows) + 8 * N + 4 * (1 + WORD_BYTES)
    assert sum(taken) == kept


@pytest.mark.parametrize("sparse", [False, True])
def test_the_rows_of_a_split_take_what_they_will_hold(write, taken, sparse):
    rng = np.random.default_rng(0)
    x = (rng.random((N, 9)) < 0.4).astype(np.float32)
    if sparse:
        lines = "".join("0" + "".join(f" {c}:1" for c in np.flatnonzero(row)) + "\n" for row in x)
        file = write(f"{N} 9 1\n{lines}")
    else:
        file = write("", "x.npy")
        np.save(file, x)
    read(file)
    without, chosen = sum(taken), rng.integers(1, N + 1, 300)
    taken.clear()
    split = write("".join(f"{row}\n" for row in chosen), "split.txt")
    data = read(f"{file}@{split}")
    kept = 8 * data.features.nnz if sparse else data.features.nbytes
    assert sum(taken) - without == pytest.approx(8 * 300 + kept, rel=0.1)


def test_as_many_empty_lines_may_come_first_as_a_line_has_bytes(write, monkeypatch):
    monkeypatch.setattr("embedx.text.streams.BLOCK_BYTES", 1)
    monkeypatch.setattr(files, "MOST_LINE_BYTES", 30)
    for end in ("", "\n"):
        assert b"".join(Lines(source_of(write("\n" * 30 + "a" + end)), Silent())) == b"\n" * 30 + b"a\n"
        with pytest.raises(EmbedxError, match=r"train\.txt:32: the first line that is not empty, after 31; is it"):
            Lines(source_of(write("\n" * 31 + "a" + end)), Silent())


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_the_length_of_inputs_is_of_rows_that_have_any_features(form):
    x = np.array([[3, 4, 0], [0, 0, 0], [0, 0, 12]], np.float32)
    assert input_length(form(x)) == pytest.approx(np.sqrt((25 + 144) / 2))
    assert input_length(form(0 * x)) == 1
    assert input_length(form(np.array([[np.inf]], np.float32))) == 1
    assert input_length(form(np.array([[1 + NEARLY / 2]], np.float32))) == 1
    assert input_length(form(np.array([[1 - NEARLY / 2]], np.float32))) == 1
    assert input_length(form(np.array([[1 + 2 * NEARLY]], np.float32))) == pytest.approx(1 + 2 * NEARLY)
    assert input_length(form(np.array([[1 - 2 * NEARLY]], np.float32))) == pytest.approx(1 - 2 * NEARLY)


def test_what_training_data_fix_is_their_width(write):
    np.save(x := write("", "x.npy"), np.ones((3, 2), np.float32))
    np.save(y := write("", "y.npy"), np.array([0, 4, 1]))
    data, known = read_training(x, y)
    assert (known.n_features, known.n_labels) == (data.n_features, data.n_labels) == (2, 5)
    assert len(read(x, y, like=known)) == 3


@pytest.mark.parametrize(("text", "labels"), [("0\n4\n1\n\n\n", [[0], [4], [1]]), ("0\n4\n\n", [[0], [4], []])])
def test_empty_lines_at_the_end_are_rows_as_far_as_there_are_features_for_them(write, text, labels):
    np.save(x := write("", "x.npy"), np.ones((3, 2), np.float32))
    data = read(x, write(text, "y.txt"))
    assert [data.labels[row].tolist() for row in range(3)] == labels
