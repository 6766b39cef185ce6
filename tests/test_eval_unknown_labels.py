"""eval unknown-labels: labels are left out of training and test alike, and the area under ROC."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx.labeled.data import Labeled, Labels
from eval import unknown_labels


def test_rows_keep_the_labels_that_are_known_numbered_anew():
    labels = Labels.of_rows([[0], [1, 2], [2], [3, 0]])
    data = Labeled(csr_matrix(np.eye(4, dtype=np.float32)), labels, 4)
    is_known = np.array([False, True, False, True])
    known = unknown_labels.with_labels(data, is_known)
    assert known.n_labels == 2
    assert known.labels.n_of_row.tolist() == [1, 1]
    assert known.labels.ids.tolist() == [0, 1]
    assert known.features.indices.tolist() == [1, 3]
    assert unknown_labels.has_label(data, is_known).tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("known", "unknown", "area"),
    [([0.9, 0.8], [0.1], 1.0), ([0.5], [0.5, 0.7], 0.25), ([0.1, 0.9], [0.5], 0.5)],
)
def test_the_area_is_the_share_of_pairs_in_order(known, unknown, area):
    assert unknown_labels.area(np.array(known), np.array(unknown)) == area


def test_intents_are_read_with_the_words_of_training(tmp_path):
    parts = {
        "train": [["pay my bill", "pay"], ["what time", "time"]] * 2,
        "test": [["pay", "pay"]],
        "oos_test": [["sing, please", "oos"]],
    }
    file = tmp_path / "data_full.json"
    file.write_text(json.dumps(parts), "utf-8")
    rows = unknown_labels.intents(file, tmp_path)
    assert rows.training.n_labels == 2
    assert len(rows.known) == len(rows.unknown) == 1
