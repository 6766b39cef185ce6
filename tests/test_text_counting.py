"""Keys are counted exactly, however little memory there is."""

from collections import Counter as NaiveCounter

import numpy as np
import pytest

from embedx.text import counting
from embedx.text.counting import Counter
from embedx.training.progress import Silent


@pytest.mark.parametrize(("memory", "distinct"), [(8, 50), (800, 1), (800, 20_000), (80_000, 50), (8_000_000, 20_000)])
def test_counts_are_those_of_a_dictionary(tmp_path, monkeypatch, memory, distinct):
    monkeypatch.setattr(counting, "MIN_ENTRIES", 5)
    monkeypatch.setattr(counting, "SORTED_AT_ONCE", 70)
    rng = np.random.default_rng(memory)
    counter, naive = Counter(tmp_path, memory), NaiveCounter()
    for n in rng.integers(0, 300, 40).tolist():
        keys = rng.integers(-distinct, distinct, n) << 40
        counter.reserve(n + 3)[:n] = keys
        counter.commit(n)
        naive.update(keys.tolist())
    blocks = [(keys.tolist(), counts.tolist()) for keys, counts in counter.counted(Silent(), "", "")]
    assert [each for keys, counts in blocks for each in zip(keys, counts, strict=True)] == sorted(naive.items())
    assert len(blocks) > 1 or memory > 800 or distinct == 1
    assert list(tmp_path.iterdir()) == []


def test_nothing_was_counted(tmp_path):
    assert list(Counter(tmp_path, 100).counted(Silent(), "", "")) == []
