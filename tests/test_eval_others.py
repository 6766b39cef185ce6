"""eval scale and subwords: the texts and groups of word pairs that they measure with."""

import bz2
from collections import Counter

import numpy as np
import pytest

from embedx.evaluation import word_sets
from eval import scale, subwords


def test_generated_text_has_as_many_words_by_a_power_law(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "AT_ONCE", 700)
    for name in ("a", "b"):
        scale.write_text(tmp_path / name, 20_010, 500)
    text = (tmp_path / "a").read_text()
    assert text == (tmp_path / "b").read_text()
    counts = Counter(text.split())
    assert sum(counts.values()) == 20_010
    assert 450 < len(counts) <= 500
    assert [len(line.split()) for line in text.splitlines()] == [25] * 800 + [10]
    assert [word for word, _ in counts.most_common(3)] == ["a", "b", "c"]
    share = counts["a"] / counts["c"]  # ∫ from 1 to 2 over ∫ from 3 to 4 of x^-1.1
    assert share == pytest.approx((1 - 2**-0.1) / (3**-0.1 - 4**-0.1), rel=0.1)


def test_a_dump_of_pages_several_times_over_is_one_document(tmp_path):
    from xml.etree import ElementTree

    size = scale.write_dump(tmp_path / "dump", b"<mediawiki><siteinfo/><page>one</page> <page>two</page></mediawiki>")
    xml = bz2.decompress((tmp_path / "dump").read_bytes())
    assert len(xml) == size
    assert [page.text for page in ElementTree.fromstring(xml).iter("page")] == ["one", "two"] * scale.DUMP_COPIES


def test_pairs_are_grouped_by_the_rarer_word():
    pairs = word_sets.SimilarityPairs("set", [("a", "b"), ("a", "c"), ("c", "d"), ("a", "e")], np.arange(4.0))
    answers = word_sets.Answers(pairs, np.array([0.1, 0.2, 0.3, np.nan]))
    counts = Counter({"A": 100, "B": 60, "C": 49, "D": 5, "E": 4})
    groups = subwords.grouped([answers], counts, min_count=5, with_unseen=True)
    values = {name: [round(value, 1) for value in each.values[each.used]] for name, [each] in groups.items()}
    assert values == {"seen": [0.1, 0.2, 0.3], "rare": [0.2, 0.3], "unseen": [0.0], "all": [0.1, 0.2, 0.3, 0.0]}
    assert sorted(subwords.grouped([answers], counts, min_count=5, with_unseen=False)) == ["rare", "seen"]
