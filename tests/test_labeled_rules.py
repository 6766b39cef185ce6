"""Which labels of a row count, which of them training knew, and the scales of features."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_matrix

from embedx.labeled.data import Labels
from embedx.labeled.rules import (
    LABEL_RULES,
    chosen_labels,
    chosen_scaling,
    column_maxima,
    known_labels,
    scaled,
    scaling_arrays,
)

ROWS = [[], [4, 1, 7], [2], [], [], [9, 0], []]
SOME_ROWS = st.lists(st.lists(st.integers(0, 9), unique=True, max_size=4), max_size=8)


def as_lists(labels):
    assert labels.ids.dtype == np.int32
    assert labels.offsets.dtype == np.int64
    return [labels[row].tolist() for row in range(len(labels))]


def test_label_rules_choose_the_labels_they_describe():
    labels = Labels.of_rows(ROWS)
    assert as_lists(chosen_labels(labels, "first")) == [[], [4], [2], [], [], [9], []]
    assert as_lists(chosen_labels(labels, "lowest-id")) == [[], [1], [2], [], [], [0], []]
    for rule in ("all", "one"):
        assert as_lists(chosen_labels(labels, rule)) == ROWS


@given(SOME_ROWS)
def test_a_rule_leaves_one_label_of_each_row_that_has_any(rows):
    for rule, choose in (("first", lambda row: row[0]), ("lowest-id", min)):
        assert as_lists(chosen_labels(Labels.of_rows(rows), rule)) == [
            [choose(row)] if row else [] for row in rows
        ]


@given(SOME_ROWS, st.lists(st.integers(0, 2), max_size=12))
def test_labels_that_training_never_saw_are_taken_out_in_place(rows, counts):
    """They have no count, or an id beyond all counts."""
    known = known_labels(Labels.of_rows(rows), np.array(counts, dtype=np.int64))
    assert as_lists(known) == [
        [k for k in row if k < len(counts) and counts[k] > 0] for row in rows
    ]


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
    rows = dense(scaled(form(X), "l2"))
    np.testing.assert_allclose(rows[0], [0.6, 0, -0.8, 0], rtol=1e-6)
    assert not rows[1].any()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [1, 0, 1], rtol=1e-6)


@BOTH
def test_columns_by_their_largest_absolute_value(form):
    maxima = column_maxima(form(X))
    assert maxima.dtype == np.float32
    assert maxima.tolist() == [3, 1, 4, np.float32(1e-3)]  # 1 where there is nothing to divide
    np.testing.assert_allclose(
        dense(scaled(form(X), "column-max", {"maxima": maxima})),
        [[1, 0, -1, 0], [0] * 4, [0, 0, 0.5, 1]],
    )


@BOTH
def test_scaling_none_does_not_change_features(form):
    features = form(X)
    assert scaled(features, "none") is features
    before = dense(features).copy()
    scaled(features, "l2")
    for scaling in ("column-max", "tf-idf"):
        scaled(features, scaling, scaling_arrays(features, scaling))
    assert (dense(features) == before).all()


def test_no_rows_have_maxima_of_one():
    for form in (np.asarray, csr_matrix):
        assert column_maxima(form(X)[:0]).tolist() == [1] * 4


@BOTH
def test_tf_idf_by_its_formula(form):
    """Smoothed idf of the training rows, 1 + ln of the counts above 1, then rows of length 1."""
    train = np.float32([[3, 0, 1, 0], [0, 0, 0, 0], [1, 2, 0, 0]])
    test = np.float32([[2, 1, 0, 7], [-3, 0.5, 0, 0], [0] * 4])
    weight = [math.log(4 / (1 + df)) + 1 for df in (2, 1, 1, 0)]
    expected = np.array(
        [
            [(1 + math.log(2)) * weight[0], weight[1], 0, (1 + math.log(7)) * weight[3]],
            [-(1 + math.log(3)) * weight[0], 0.5 * weight[1], 0, 0],
            [0] * 4,
        ]
    )
    expected[:2] /= np.linalg.norm(expected[:2], axis=1, keepdims=True)
    np.testing.assert_allclose(
        dense(scaled(form(test), "tf-idf", scaling_arrays(form(train), "tf-idf"))),
        expected,
        rtol=1e-5,
    )


def test_the_scaling_is_chosen_by_the_values():
    rng = np.random.default_rng(0)
    counts = csr_matrix(rng.poisson(0.4, (200, 50)), dtype=np.float32)
    lengths = rng.uniform(1, 9, (200, 1)).astype(np.float32)
    unequal = csr_matrix(rng.uniform(0.5, 1, (200, 5)).astype(np.float32) * lengths)
    pixels = csr_matrix(rng.integers(1, 256, (200, 50)), dtype=np.float32)
    assert chosen_scaling(counts) == "tf-idf"
    assert chosen_scaling(counts.toarray()) == "none"
    assert chosen_scaling(counts.sign()) == "none"
    assert chosen_scaling(counts * 0.5) == "none"
    assert chosen_scaling(-counts) == "none"
    assert chosen_scaling(unequal) == "l2"
    assert chosen_scaling(scaled(unequal, "l2")) == "none"
    assert chosen_scaling(pixels) == "none"
    assert chosen_scaling(counts[:0]) == "none"
