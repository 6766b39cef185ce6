"""Training rows that repeat earlier ones, and test rows that are among the training rows."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx.labeled import repeated_rows
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.repeated_rows import note_repeated_rows, row_hashes
from tests.support.commands import run_command
from tests.support.notes import Notes


def rows_of(features, labels, n_labels=4):
    return Labeled(features, Labels.of_rows(labels), n_labels)


@pytest.mark.parametrize("kind", [csr_matrix, np.asarray])
def test_repeated_and_shared_rows_are_counted(kind, monkeypatch):
    monkeypatch.setattr(repeated_rows, "BLOCK", 3)
    features = kind(
        np.array([[1, 0, 2], [0, 1, 0], [1, 0, 2], [0, 0, 0], [1, 0, 2], [0, 0, 0]], np.float32)
    )
    training = rows_of(features, [[0, 1], [1], [1, 0], [2], [3], [2]])
    test = rows_of(kind(np.array([[0, 1, 0], [0, 0, 0], [0, 2, 0]], np.float32)), [[0], [1], [2]])
    notes = Notes()
    note_repeated_rows(training, test, notes)
    repeated, shared = notes.notes
    assert repeated.startswith("2 of 6 training rows ")
    assert "1 of them with other labels" in repeated
    assert shared.startswith("warning: 1 of 3 test rows ")


def test_rows_that_differ_are_not_noted():
    rng = np.random.default_rng(0)
    features = csr_matrix(rng.integers(0, 2, (500, 40)).astype(np.float32))
    n_distinct = len(np.unique(features.toarray(), axis=0))
    assert len(np.unique(row_hashes(features, rng.random(40)))) == n_distinct == 500
    notes = Notes()
    training = rows_of(features[:250], [[0]] * 250)
    note_repeated_rows(training, rows_of(features[250:], [[0]] * 250), notes)
    assert notes.notes == []


def test_a_test_row_with_an_unknown_word_is_no_training_row():
    training = rows_of(csr_matrix(np.eye(2, dtype=np.float32)), [[0], [1]])
    test = rows_of(csr_matrix(np.array([[1, 0, 1], [0, 1, 0]], np.float32)), [[0], [1]])
    notes = Notes()
    note_repeated_rows(training, test, notes)
    assert [note.split(" test")[0] for note in notes.notes] == ["warning: 1 of 2"]


def test_classify_tells_of_both(write, tmp_path):
    rows = [f"{word} number {k},{word}" for k in range(20) for word in ("lamp", "parcel")]
    training = write("\n".join(["text,label", *rows, *rows[:3]]) + "\n", "train.csv")
    test = write("\n".join(["text,label", *rows[:2], "a lamp,lamp"]) + "\n", "test.csv")
    ended = run_command(tmp_path, "classify", training, "--test", test, "--epochs", 1)
    assert "3 of 43 training rows have the features of an earlier row" in ended.stderr
    assert "2 of 3 test rows have the features of a training row" in ended.stderr
