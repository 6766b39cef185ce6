"""eval defaults: the data it is measured on."""

import numpy as np
import pytest

from eval import defaults_data


@pytest.mark.parametrize("make", [defaults_data.articles, defaults_data.tags], ids=["articles", "tags"])
def test_generated_sets_are_the_same_each_time(make):
    first, second = make(300), make(300)
    assert (first.features != second.features).nnz == 0
    np.testing.assert_array_equal(first.labels.ids, second.labels.ids)
    assert (first.labels.n_of_row >= 1).all()
    assert np.diff(first.features.indptr).min() > 0


def test_rows_are_trained_on_or_scored():
    train, test = defaults_data.carved(defaults_data.tags(200))
    assert (len(train), len(test)) == (150, 50)
    both = np.concatenate([half.features.toarray() for half in (train, test)])
    whole = defaults_data.tags(200).features.toarray()
    assert sorted(map(bytes, both)) == sorted(map(bytes, whole))


def test_the_first_label_of_a_row_is_kept_where_it_occurs_often():
    data = defaults_data.tags(200)
    single = defaults_data.first_labels(data, 4)
    firsts = np.array([data.labels[row][0] for row in range(len(data))])
    counts = np.bincount(firsts)
    assert len(single) == (counts[firsts] >= 4).sum() > 0
    assert single.n_labels == (counts >= 4).sum()
    assert np.bincount(single.labels.ids).min() >= 4
