"""The generated digits: the same for everybody, quick, and neither trivial nor hopeless."""

import numpy as np
from sklearn.linear_model import LogisticRegression

from embedx.labeled.digits import digits


def test_digits_are_grey_pictures_of_ten_classes_equally_often():
    train, test = digits(400, 100)
    assert train.features.shape == (400, 256)
    assert test.features.shape == (100, 256)
    assert train.features.dtype == np.float32
    assert train.features.min() == 0
    assert 0.9 < train.features.max() <= 1
    assert np.bincount(train.labels.ids).tolist() == [40] * 10
    assert test.schema.names == [str(digit) for digit in range(10)]
    assert test.n_labels == 10


def test_same_seed_gives_same_digits_and_test_differs_from_training():
    first = digits(50, 50)
    again = digits(50, 50)
    other = digits(50, 50, seed=1)
    for part, same_part in zip(first, again, strict=True):
        np.testing.assert_array_equal(part.features, same_part.features)
        np.testing.assert_array_equal(part.labels.ids, same_part.labels.ids)
    assert not np.array_equal(first[0].features, other[0].features)
    assert not np.array_equal(first[0].features, first[1].features)


def test_a_linear_classifier_finds_digits_neither_trivial_nor_hopeless():
    train, test = digits()
    classifier = LogisticRegression(C=0.25, max_iter=500).fit(train.features, train.labels.ids)
    assert 0.9 < classifier.score(test.features, test.labels.ids) < 0.97


def test_a_one_is_a_vertical_stroke_and_a_seven_has_a_bar_on_top():
    train, _ = digits()

    def mean_picture(digit):
        return train.features[train.labels.ids == digit].mean(axis=0).reshape(16, 16)

    columns_of_one = mean_picture(1)[4:12].mean(axis=0)
    assert columns_of_one.argmax() in (7, 8)
    seven = mean_picture(7)
    assert seven[:5].sum() > 1.5 * seven[-5:].sum()
