"""eval subwords: the groups of word pairs that it measures with."""

from collections import Counter

import numpy as np

from embedx.evaluation import word_sets
from eval import subwords


def test_pairs_are_grouped_by_the_rarer_word():
    pairs = word_sets.SimilarityPairs(
        "set", [("a", "b"), ("a", "c"), ("c", "d"), ("a", "e")], np.arange(4.0)
    )
    answers = word_sets.ItemScores(pairs, np.array([0.1, 0.2, 0.3, np.nan]))
    counts = Counter({"A": 100, "B": 60, "C": 49, "D": 5, "E": 4})
    groups = subwords.grouped([answers], counts, min_count=5, with_unseen=True)
    values = {
        name: [round(value, 1) for value in group.values[group.used]]
        for name, [group] in groups.items()
    }
    assert values == {
        "seen": [0.1, 0.2, 0.3],
        "rare": [0.2, 0.3],
        "unseen": [0.0],
        "all": [0.1, 0.2, 0.3, 0.0],
    }
    assert sorted(subwords.grouped([answers], counts, min_count=5, with_unseen=False)) == [
        "rare",
        "seen",
    ]
