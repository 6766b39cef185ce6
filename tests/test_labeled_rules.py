"""Which labels of a row count, which of them training knew, and the scales of features."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from embedx.labeled.data import Labels
from embedx.labeled.rules import LABEL_RULES, chosen_labels, column_maxima, known_labels, scaled

ROWS = [[], [4, 1, 7], [2], [], [], [9, 0], []]
SOME_ROWS = st.lists(st.lists(st.integers(0, 9), unique=True, max_size=4), max_size=8)


def as_lists(labels):
    assert labels.ids.dtype == np.int32
    assert labels.offsets.dtype == np.int64
    return [labels[row].tolist() for row in range(len(labels))]


def test_the_rules():
    labels = Labels.of_rows(ROWS)
    assert as_lists(chosen_labels(labels, "first")) == [[], [4], [2], [], [], [9], []]
    assert as_lists(chosen_labels(labels, "lowest-id")) == [[], [1], [2], [], [], [0], []]
    for rule in ("all", "one"):
        assert as_lists(chosen_labels(labels, rule)) == ROWS


@given(SOME_ROWS)
def test_a_rule_leaves_one_label_of_each_row_that_has_any(rows):
    for rule, choose in (("first", lambda row: row[0]), ("lowest-id", min)):
        assert as_lists(chosen_labels(Labels.of_rows(rows), rule)) == [[choose(row)] if row else [] for row in rows]


@given(SOME_ROWS, st.lists(st.integers(0, 2), max_size=12))
def test_labels_that_training_never_saw_are_taken_out_in_place(rows, counts):
    """They have no count, or an id beyond all counts."""
    known = known_labels(Labels.of_rows(rows), np.array(counts, dtype=np.int64))
    assert as_lists(known) == [[k for k in row if k < len(counts) and counts[k] > 0] for row in rows]


@pytest.mark.parametrize("rule", LABEL_RULES)
def test_no_rows_and_rows_without_labels_stay_what_they_are(rule):
    assert as_lists(chosen_labels(Labels.of_rows([]), rule)) == []
    assert as_lists(chosen_labels(Labels.of_rows([[], []]), rule)) == [[], []]


X = np.array([[3, 0, -4, 0], [0, 0, 0, 0], [0, 0, 2, 1e-3]], dtype=np.float32)
BOTH = pytest.mark.parametrize("form", [np.asarray, csr_matrix], ids=["dense", "sparse"])


def dense(features):
    assert features.dtype == np.float32
    return features.toarray() if isinstance(features, csr_matrix) else features


@BOTH
def test_rows_of_length_one(form):
    found = dense(scaled(form(X), "l2"))
    np.testing.assert_allclose(found[0], [0.6, 0, -0.8, 0], rtol=1e-6)
    assert not found[1].any()
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 0, 1], rtol=1e-6)


@BOTH
def test_columns_by_their_largest_absolute_value(form):
    maxima = column_maxima(form(X))
    assert maxima.dtype == np.float32
    assert maxima.tolist() == [3, 1, 4, np.float32(1e-3)]  # 1 where there is nothing to divide
    np.testing.assert_allclose(dense(scaled(form(X), "column-max", maxima)), [[1, 0, -1, 0], [0] * 4, [0, 0, 0.5, 1]])


@BOTH
def test_nothing_is_done_to_features_as_they_are(form):
    features = form(X)
    assert scaled(features, "none") is features
    before = dense(features).copy()
    scaled(features, "l2")
    scaled(features, "column-max", column_maxima(features))
    assert (dense(features) == before).all()


def test_no_rows_have_maxima_of_one():
    for form in (np.asarray, csr_matrix):
        assert column_maxima(form(X)[:0]).tolist() == [1] * 4
