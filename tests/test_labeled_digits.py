"""The generated digits: the same for everybody, quick, and neither trivial nor hopeless."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from embedx.labeled import digits as drawing
from embedx.labeled.digits import digits, named


def linear_accuracy(train, test):
    """Of softmax regression, a little regularised."""
    x, targets = train.features, np.eye(10, dtype=np.float32)[train.labels.ids]
    mean = x.mean(axis=0)

    def loss(flat):
        weights = flat.reshape(-1, 10).astype(np.float32)
        scores = (x - mean) @ weights
        log_p = scores - logsumexp(scores, axis=1, keepdims=True)
        gradient = (x - mean).T @ (np.exp(log_p) - targets) / len(x) + 1e-3 * weights
        return -np.mean(log_p[targets > 0]) + 5e-4 * np.sum(weights**2), gradient.astype(float).ravel()

    weights = minimize(loss, np.zeros(10 * x.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 40}).x
    return np.mean(((test.features - mean) @ weights.reshape(-1, 10)).argmax(axis=1) == test.labels.ids)


def test_digits_are_grey_pictures_of_ten_classes_equally_often():
    train, test = digits(400, 100)
    assert train.features.shape == (400, 256)
    assert test.features.shape == (100, 256)
    assert train.features.dtype == np.float32
    assert train.features.min() == 0
    assert 0.9 < train.features.max() <= 1
    assert np.bincount(train.labels.ids).tolist() == [40] * 10
    assert test.names == [str(digit) for digit in range(10)]
    assert test.n_labels == 10


def test_a_digit_is_its_picture_moved_by_a_hand_and_inked():
    """Pixel by pixel, by the same random numbers."""
    n, rng, side = 12, np.random.default_rng(5), drawing.SIDE
    pictures = [line.split() for line in drawing.GLYPHS.strip().split("\n")]
    y = rng.permutation(np.arange(n) % 10)
    places = [[(r, c) for r in range(7) for c in range(5) if pictures[r][digit][c] == "#"] for digit in range(10)]
    most = max(map(len, places))
    growth, wobble = rng.normal(0, drawing.GROWTH, (n, 1, 2))[:, 0], rng.normal(0, drawing.WOBBLE, (n, most, 2))
    slant, shift = rng.normal(0, drawing.SLANT, n), rng.normal(0, drawing.SHIFT, (n, 2))
    thickness = rng.uniform(*drawing.THICKNESS, n)
    noise = rng.normal(0, drawing.NOISE, (n, side * side)).astype(np.float32)
    step = (side - 1 - 2 * drawing.MARGIN) / 6
    expected = np.zeros((n, side, side))
    for i in range(n):
        for k, (r, c) in enumerate(places[y[i]]):
            across = step * (c - 2) * np.exp(growth[i, 0]) + wobble[i, k, 0]
            down = step * (r - 3) * np.exp(growth[i, 1]) + wobble[i, k, 1]
            across += -slant[i] * down + shift[i, 0] + (side - 1) / 2
            down += shift[i, 1] + (side - 1) / 2
            for row in range(side):
                for column in range(side):
                    square = ((row - down) ** 2 + (column - across) ** 2) / thickness[i] ** 2
                    expected[i, row, column] += np.exp(-0.5 * square)
    expected = (np.tanh(expected).reshape(n, -1) + noise).clip(0, 1)
    train, _ = digits(n, 1, seed=5)
    np.testing.assert_array_equal(train.labels.ids, y)
    np.testing.assert_allclose(train.features, expected, atol=1e-5)


def test_same_seed_gives_same_digits_and_test_differs_from_training():
    first, again, other = digits(50, 50), digits(50, 50), digits(50, 50, seed=1)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.features, two.features)
        np.testing.assert_array_equal(one.labels.ids, two.labels.ids)
    assert not np.array_equal(first[0].features, other[0].features)
    assert not np.array_equal(first[0].features, first[1].features)


def test_a_linear_classifier_finds_digits_neither_trivial_nor_hopeless():
    assert 0.9 < linear_accuracy(*digits()) < 0.97


def test_a_one_is_a_vertical_stroke_and_a_seven_has_a_bar_on_top():
    train, _ = digits()
    mean = np.array([train.features[train.labels.ids == digit].mean(axis=0).reshape(16, 16) for digit in range(10)])
    assert mean[1][4:12].mean(axis=0).argmax() in (7, 8)
    assert mean[7][:5].sum() > 1.5 * mean[7][-5:].sum()


@pytest.mark.parametrize(("name", "is_there"), [("digits", True), ("digits.txt", False), ("mnist", False)])
def test_only_digits_has_that_name(name, is_there):
    assert (named(name) is not None) == is_there
