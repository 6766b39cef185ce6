"""Parts of the way from text to numbers, each by itself and small, against plain Python."""

import unicodedata
from itertools import pairwise

import numpy as np
import pytest

from embedx.settings import TextSettings
from embedx.text import cache, spill, tokenizer
from embedx.text.characters import LINE_END, NOT_ASCII, SEPARATES, SEPARATOR, tables
from embedx.text.tokenizer import long_signature


@pytest.mark.parametrize(("kind", "lowercase"), [("words", False), ("words", True), ("whitespace", True), ("none", False)])
def test_tables_say_what_becomes_of_each_character(kind, lowercase):
    found = tables(TextSettings(tokenizer=kind, lowercase=lowercase))
    for code in [*range(0x180), 0x130, 0x1E9E, 0x3000, 0x65E5, 0x1F600, 0x10FFFF]:
        c = chr(code)
        in_word = unicodedata.category(c)[0] in "LMN" if kind == "words" else not c.isspace() and c != "\0"
        becomes = ord(c.lower()[0]) if lowercase else code
        difference = found.differences[found.blocks[code >> 7], code & 127]
        assert difference == (becomes - code if in_word else SEPARATOR)
        if code < 128:
            assert found.plain[code] == (LINE_END if c == "\n" else becomes if in_word else SEPARATES)
    assert (found.plain[128:] == NOT_ASCII).all()


def packed(words):
    """Their letters one after the other, and where each begins."""
    return np.frombuffer("".join(words).encode(), np.uint8), spill.starts_of(np.array([len(word.encode()) for word in words]))


WORDS = ["longer words", "a", "longer words", "é", "another long one", "a", "longer wordz", ""]


def test_words_that_are_equal_have_one_hash_and_others_their_own():
    letters, starts = packed(WORDS)
    hashes = np.zeros(len(WORDS), np.int64)
    spill.hash_all(letters, starts, hashes)
    for k, word in enumerate(WORDS):
        assert hashes[k] == long_signature(letters, starts[k], starts[k + 1])
        assert [hashes[k] == other for other in hashes] == [word == other for other in WORDS]


@pytest.mark.parametrize("collide", [False, True])
def test_the_first_of_equal_words_is_found(collide):
    letters, starts = packed(WORDS)
    hashes = np.zeros(len(WORDS), np.int64)
    if not collide:
        spill.hash_all(letters, starts, hashes)
    first = np.full(len(WORDS), -1)
    spill.find_first(np.argsort(hashes, kind="stable"), hashes, letters, starts, first)
    assert first.tolist() == [WORDS.index(word) for word in WORDS]


def test_words_are_picked_in_their_order():
    letters, starts = packed(WORDS)
    chosen = np.array([4, 3, 7, 0])
    found, ends = spill.picked(letters, starts, chosen)
    assert [bytes(found[a:b]).decode() for a, b in pairwise(ends)] == [WORDS[k] for k in chosen]
    assert len(found) == ends[-1]


def test_tokens_are_numbered_anew_and_counted():
    tokens = np.array([2, 0, spill.END_OF_SENTENCE, 2, 1], np.int32)
    counts = np.array([5, 0, 0, 1])
    spill.renumber_and_count(tokens, np.array([3, 0, 1], np.int32), counts)
    assert tokens.tolist() == [1, 3, spill.END_OF_SENTENCE, 1, 0]
    assert counts.tolist() == [6, 2, 0, 2]


def test_a_workspace_is_made_wherever_it_is_asked_for_and_leaves_nothing(tmp_path):
    with cache.workspace(tmp_path / "not" / "there") as folder:
        assert folder.is_dir()
        (folder / "file").touch()
    assert not folder.exists()


def test_words_without_a_number_are_told_once():
    tokens = np.array([4, 1, 4, tokenizer.END_OF_SENTENCE, 0, 2, 4, 0], np.int32)
    numbers, which = np.array([-1, 7, 3, -1, -1], np.int32), np.full(8, -9)
    assert tokenizer.NO_NUMBER == -1
    n = tokenizer.without_number(tokens, numbers, which)
    assert which[:n].tolist() == [4, 0]
    assert numbers[[1, 2, 3]].tolist() == [7, 3, -1]
    assert (numbers[[0, 4]] != tokenizer.NO_NUMBER).all()


@pytest.mark.parametrize("first", [0xC2, 0xDF, 0xE0, 0xED, 0xF0, 0xF4])
def test_what_is_decoded_is_what_python_decodes(first):
    for second in range(256):
        content = bytes([first, second, 0x80, 0x80])
        code, width = tokenizer.decoded(np.frombuffer(content, np.uint8), 0, 4)
        try:
            expected = ord(content[: 2 if first < 0xE0 else 3 if first < 0xF0 else 4].decode())
        except UnicodeDecodeError:
            assert code < 0
        else:
            assert (code, width) == (expected, len(chr(expected).encode()))
