"""The words of a corpus without a string for each."""

import numpy as np
import pytest

from embedx.text import word_list
from embedx.text.word_list import WordList

WORDS = ["the", "", "café", "日本語", "the end", "e", "\udc80", "x" * 300]


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    monkeypatch.setattr(word_list, "AT_ONCE", 3)


def test_it_is_a_sequence_of_words():
    words = WordList.of(WORDS)
    assert len(words) == len(WORDS)
    assert list(words) == WORDS
    assert [words[k] for k in range(-len(WORDS), len(WORDS))] == WORDS * 2
    assert words[2:-1:2] == WORDS[2:-1:2]
    assert words.at(np.array([3, 0, 3])) == ["日本語", "the", "日本語"]
    assert "e" in words
    assert "E" not in words
    for place in (len(WORDS), -len(WORDS) - 1):
        with pytest.raises(IndexError, match="range"):
            words[place]
