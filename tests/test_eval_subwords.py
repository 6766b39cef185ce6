"""eval subwords: the groups of word pairs, fastText's better rate, and what the tables tell."""

from collections import Counter

import numpy as np
import pytest
from eval_setup import Records, Run, environment, found

from embedx.evaluation import word_sets
from eval import subwords

NGRAMS = [3, 6]


def test_pairs_are_grouped_by_the_rarer_word():
    pairs = word_sets.SimilarityPairs("set", [("a", "b"), ("a", "c"), ("c", "d"), ("a", "e")], np.arange(4.0))
    answers = word_sets.Answers(pairs, np.array([0.1, 0.2, 0.3, np.nan]))
    counts = Counter({"A": 100, "B": 60, "C": 49, "D": 5, "E": 4})
    groups = subwords.grouped([answers], counts, min_count=5, with_unseen=True)
    values = {name: [round(value, 1) for value in each.values[each.used]] for name, [each] in groups.items()}
    assert values == {"seen": [0.1, 0.2, 0.3], "rare": [0.2, 0.3], "unseen": [0.0], "all": [0.1, 0.2, 0.3, 0.0]}
    assert sorted(subwords.grouped([answers], counts, min_count=5, with_unseen=False)) == ["rare", "seen"]


@pytest.fixture
def records(tmp_path):
    kept = Records(tmp_path / "subwords.jsonl", environment())
    common = {"kind": "quality", "ngrams": NGRAMS}
    for seed in (1, 2):
        for tool, rate, value in (("embedx", None, 0.5), ("fasttext", 0.05, 0.3), ("fasttext", 0.1, 0.4)):
            score = {"score": value + 0.001 * seed, "pairs": 100, "resampled": list(value + np.linspace(-0.01, 0.01, 200))}
            job = common | {"tool": tool, "seed": seed} | ({"alpha": rate} if rate else {})
            if seed == 1 or rate != 0.05:
                kept.add(job, {"groups": {"seen": score}}, "x")
    return kept


def test_fasttext_is_compared_at_its_better_rate(records):
    run = Run(found("subwords"), ["quality", "fasttext"], quick=False)
    run.need, run.records = lambda *_: True, records
    jobs = [(job["seed"], job["alpha"]) for job in subwords.jobs(run) if job["ngrams"] is not None]
    assert jobs == [(1, 0.05), (1, 0.1), (2, 0.1), (3, 0.1)]
