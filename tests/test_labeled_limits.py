"""Readers of labelled data: input lengths, numbers of features, empty lines at the end."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx.labeled.read import read, read_training
from embedx.labeled.scaling import NEARLY, input_length


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_input_length_is_the_root_mean_square_over_rows_with_features(form):
    x = np.array([[3, 4, 0], [0, 0, 0], [0, 0, 12]], np.float32)
    assert input_length(form(x)) == pytest.approx(np.sqrt((25 + 144) / 2))
    assert input_length(form(0 * x)) == 1
    assert input_length(form(np.array([[np.inf]], np.float32))) == 1
    for length in (1 + NEARLY / 2, 1 - NEARLY / 2):
        assert input_length(form(np.array([[length]], np.float32))) == 1
    for length in (1 + 2 * NEARLY, 1 - 2 * NEARLY):
        assert input_length(form(np.array([[length]], np.float32))) == pytest.approx(length)


def test_the_training_data_determine_the_number_of_features(write):
    x = write("", "x.npy")
    y = write("", "y.npy")
    np.save(x, np.ones((3, 2), np.float32))
    np.save(y, np.array([0, 4, 1]))
    data = read_training(x, y)
    schema = data.schema
    assert (schema.n_features, schema.n_labels) == (data.n_features, data.n_labels) == (2, 5)
    assert len(read(x, y, schema=schema)) == 3


@pytest.mark.parametrize(
    ("text", "labels"), [("0\n4\n1\n\n\n", [[0], [4], [1]]), ("0\n4\n\n", [[0], [4], []])]
)
def test_empty_lines_at_the_end_are_rows_up_to_the_number_of_feature_rows(write, text, labels):
    x = write("", "x.npy")
    np.save(x, np.ones((3, 2), np.float32))
    data = read(x, write(text, "y.txt"))
    assert [data.labels[row].tolist() for row in range(3)] == labels
