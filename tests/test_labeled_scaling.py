"""Scalings of features, and the one that is chosen from the data."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx.labeled.scaling import chosen_scaling, column_maxima, scaled, scaling_arrays

X = np.array([[3, 0, -4, 0], [0, 0, 0, 0], [0, 0, 2, 1e-3]], dtype=np.float32)
BOTH = pytest.mark.parametrize("form", [np.asarray, csr_matrix], ids=["dense", "sparse"])


def dense(features):
    assert features.dtype == np.float32
    return features.toarray() if isinstance(features, csr_matrix) else features


@BOTH
def test_rows_are_scaled_to_length_1_and_empty_ones_stay_0(form):
    rows = dense(scaled(form(X), "l2", {}))
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
    assert scaled(features, "none", {}) is features
    before = dense(features).copy()
    scaled(features, "l2", {})
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
    assert chosen_scaling(scaled(unequal, "l2", {})) == "none"
    assert chosen_scaling(pixels) == "none"
    assert chosen_scaling(counts[:0]) == "none"


def test_standard_columns_have_mean_0_and_deviation_1_and_constant_ones_are_0():
    x = np.float32([[1, 5, 0.3], [3, 5, 0.3], [5, 5, 0.3]])
    arrays = scaling_arrays(x, "standard")
    z = scaled(x, "standard", arrays)
    assert z.dtype == np.float32
    np.testing.assert_allclose(z[:, 0], np.array([-1, 0, 1]) * math.sqrt(1.5), rtol=1e-6)
    np.testing.assert_allclose(z[:, 1:], 0, atol=1e-6)
    later = scaled(np.float32([[3, 6, 0.3]]), "standard", arrays)
    np.testing.assert_allclose(later, [[0, 1, 0]], atol=1e-6)


@BOTH
def test_standardised_values_are_clipped(form):
    x = form(np.float32([[1, 5], [3, 5], [5, 5]]))
    later = form(np.float32([[3, 1e30], [3, -1e30]]))
    z = dense(scaled(later, "standard", scaling_arrays(x, "standard")))
    np.testing.assert_allclose(z[:, 1], [1e6, -1e6])


def test_sparse_columns_are_divided_by_their_deviations_and_keep_their_zeros():
    x = np.float32([[3, 0, 2, 0], [0, 0, 2, 0], [0, 4, 2, 0]])
    arrays = scaling_arrays(csr_matrix(x), "standard")
    assert not arrays["means"].any()
    expected = x / np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    for form in (np.asarray, csr_matrix):
        np.testing.assert_allclose(dense(scaled(form(x), "standard", arrays)), expected, rtol=1e-6)


def test_dense_columns_on_different_scales_or_far_from_0_are_standardised_by_default():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 6)).astype(np.float32)
    assert chosen_scaling(z) == "none"
    assert chosen_scaling(100 * z) == "none"
    assert chosen_scaling(rng.random((200, 6), np.float32)) == "none"
    pixels = 255 * rng.random((200, 50)) * (rng.random((200, 50)) < np.linspace(0, 0.5, 50))
    assert chosen_scaling(pixels.astype(np.float32)) == "none"
    assert chosen_scaling(z * np.float32([1, 1, 1, 1, 1, 1000])) == "standard"
    assert chosen_scaling(z + np.float32(100)) == "standard"
    assert chosen_scaling(np.full((9, 2), np.float32(0.1))) == "none"
    assert chosen_scaling(np.zeros((0, 2), np.float32)) == "none"
    assert chosen_scaling(csr_matrix(1000 * np.abs(z))) != "standard"
