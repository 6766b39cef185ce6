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
        with pytest.raises(IndexError, match="of 8"):
            words[place]


def test_letters_that_are_not_utf8_are_an_error():
    WordList.of(WORDS).check()
    with pytest.raises(UnicodeDecodeError):
        WordList("aé".encode(), np.array([0, 1, 2, 3])).check()


def test_it_equals_what_has_the_same_words():
    words = WordList.of(WORDS)
    assert words == WORDS
    assert words == WordList.of(WORDS)
    assert words != WORDS[:-1]
    assert words != [*WORDS[:-1], "y"]
    assert words != 3
    assert WordList.of([]) == []


@pytest.mark.parametrize("twins", [(0, 5), (6, 7), (1, 1000)])
def test_twins_are_found_wherever_they_stand(twins):
    rng = np.random.default_rng(3)
    words = list(dict.fromkeys("".join(map(chr, rng.integers(97, 100, rng.integers(1, 12)))) for _ in range(2000)))
    assert not WordList.of(words).has_twins()
    words[twins[1]] = words[twins[0]]
    assert WordList.of(words).has_twins()


def test_words_of_the_same_letters_are_no_twins():
    words = ["ab", "ba", "a", "aa", "", "b", "\x00", "\x00\x00"]
    assert not WordList.of(words).has_twins()
    assert not WordList.of([]).has_twins()


def test_words_whose_hashes_are_alike_are_compared(monkeypatch):
    monkeypatch.setattr(WordList, "_hashes", lambda self: np.zeros(len(self), np.uint64))
    assert not WordList.of(["a", "b", "c"]).has_twins()
    assert WordList.of(["a", "b", "a"]).has_twins()
