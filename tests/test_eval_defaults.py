"""eval defaults: the data it is measured on, and what its tables tell."""

import numpy as np
import pytest
from eval_setup import Records, environment

from eval import defaults, defaults_data


@pytest.fixture
def records(tmp_path):
    found = Records(tmp_path / "defaults.jsonl", environment())
    found.add({"set": "tags", "tool": "LinearSVC"}, {"p@1": 0.5, "p@3": 0.4, "p@5": 0.3, "seconds": 2.0, "c": 1.0}, "x")
    found.add({"set": "tags", "tool": "LogisticRegression"}, {"left_out": True}, "x")
    for objective, which, precision in (("ns", "now", 0.449), ("ar", "now", 0.451), ("ar", "before", 0.123)):
        job = {"set": "tags", "tool": "embedx", "objective": objective, "defaults": which, "threads": 1}
        found.add(job, {"p@1": precision, "p@3": 0.2, "p@5": 0.1, "seconds": 1.0, "settings": {"epochs": 3}}, "x")
    return found


def test_what_is_more_than_a_tenth_below_the_better_linear_classifier_is_bold(records):
    lines = {line.split(" | ")[0].strip("| "): line for line in defaults.precisions("unseen", records).splitlines()}
    assert "**0.449**" in lines["`ns`"]
    assert "0.451 (0.123)" in lines["`ar`"]
    assert "**" not in lines["`ar`"]
    assert "0.500" in lines["LinearSVC"]
    assert "0." not in lines["LogisticRegression"]
    assert "0.90" in next(line for line in defaults.relative(records).splitlines() if "`ns`" in line)


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
