"""eval scale: the generated text and dump, and what the tables tell."""

import bz2
from collections import Counter

import pytest
from eval_setup import Run, found

from eval import scale


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
    import numpy as np

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
