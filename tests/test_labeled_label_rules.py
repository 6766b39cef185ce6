"""Label rules, and labels that training knew."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from embedx.labeled.data import Labels
from embedx.labeled.label_rules import LABEL_RULES, chosen_labels, known_labels

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
