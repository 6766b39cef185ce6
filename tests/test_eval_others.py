"""eval defaults, scale and subwords: the data, texts and groups of word pairs that they measure with."""

import bz2
from collections import Counter

import numpy as np
import pytest
from eval_setup import Records, Run, environment, found

from embedx.evaluation import word_sets
from eval import defaults_data, scale, subwords


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


def test_words_are_spelt_once_each(tmp_path):
    out = np.empty(8 * 2000, np.uint8)
    low = 2001.0 ** (1 - scale.EXPONENT)
    middle = (np.arange(1, 2001) + 0.5) ** (1 - scale.EXPONENT)
    n = scale.spell((1 - middle) / (1 - low), 2000, 0, out)
    words = out[:n].tobytes().decode().split()
    assert len(set(words)) == len(words) == 2000
    assert words[:2] + words[25:28] == ["a", "b", "z", "aa", "ba"]


def test_a_dump_of_pages_several_times_over_is_one_document(tmp_path):
    from xml.etree import ElementTree

    size = scale.write_dump(tmp_path / "dump", b"<mediawiki><siteinfo/><page>one</page> <page>two</page></mediawiki>")
    xml = bz2.decompress((tmp_path / "dump").read_bytes())
    assert len(xml) == size
    assert [page.text for page in ElementTree.fromstring(xml).iter("page")] == ["one", "two"] * scale.DUMP_COPIES


def test_what_is_chosen_is_measured(tmp_path):
    run = Run(found("scale"), ["reading", "plain"], quick=False)
    assert [(job["cores"], job["repetition"]) for job in scale.jobs(run)] == [(t, r) for r in range(3) for t in (1, 2)]
    run = Run(found("scale"), ["billion", "small"], quick=False)
    assert [job["words"] for job in scale.jobs(run)] == [20_000_000]


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
