"""The compiled tokeniser says the same as the naive one, wherever the text is cut."""

import random

import numpy as np
import pytest
import reference_text

from embedx.errors import DataError
from embedx.text import reading, tokenizer
from embedx.text.characters import tables
from embedx.text.settings import TextSettings
from embedx.text.tokenizer import Tokenizer
from tests.support.needs import needs_compiler
from tests.support.notes import Notes
from tests.support.refusals import refused

# Whatever ends, joins, lower-cases or breaks words, next to ordinary letters.
PIECES = [
    *(
        c.encode()
        for c in "aB7 \n'_-éßΣİȺ日𝒳\t\x0b\x1c\x85\xa0\u2028\u3000\u0301\ufeff\u200b\U0001f600"
    ),
    b"\r\n",
    b"\r",
    b"\0",
    b"  ",
    b"word",
    b"WORD",
    b"\xff",
    b"\x80",
    b"\xc0\x80",
    b"\xe0\x80\x80",
    b"\xf0\x80\x80\x80",
    b"\xe2\x82",
    b"\xed\xa0\x80",
    b"\xf0\x90\x80",
    b"\xf4\x90\x80\x80",
    b"\xc3",
    b"\xe0\x9f\xbf",
    b"\xed\x9f\xbf",
    b"\xf0\x8f\xbf\xbf",
    b"\xf4\x8f\xbf\xbf",
    b"\xf5",
]
ALL_SETTINGS = [
    TextSettings(tokenizer=name, lowercase=lower, on_bad_utf8=bad)
    for name in ("whitespace", "words", "none")
    for lower in (False, True)
    for bad in ("replace", "skip")
    if not (lower and name == "none")
]


def tokenized(sources, settings, block_bytes=1 << 18):
    """Tokens and words of some sources, given in blocks of that many bytes."""
    scanner = Tokenizer(settings)
    tokens = []
    for data in sources:
        for start in range(0, max(len(data), 1), block_bytes):
            ids = scanner.tokenize(
                data[start : start + block_bytes], start, start + block_bytes >= len(data)
            ).tolist()
            tokens += ids[ids[:1] == tokens[-1:] == [-1] :]
    while tokens[-1:] == [-1]:
        tokens.pop()
    return tokens[tokens[:1] == [-1] :], [*scanner.words]


def expected(sources, settings):
    return reference_text.encoded(
        [reference_text.sentences(data, **settings.record()) for data in sources]
    )[:2]


@pytest.mark.parametrize(
    "settings", ALL_SETTINGS, ids=lambda s: f"{s.tokenizer}-{s.lowercase}-{s.on_bad_utf8}"
)
def test_random_text_in_blocks_of_any_size_is_tokenised_as_the_reference_does(settings):
    rng = random.Random(str(settings))
    for _ in range(150):
        sources = [
            b"".join(rng.choices(PIECES, k=rng.randrange(25))) for _ in range(rng.randrange(1, 4))
        ]
        for block_bytes in (1, 7, 1 << 18):
            assert tokenized(sources, settings, block_bytes) == expected(sources, settings), sources


@pytest.mark.parametrize("tokenizer_name", ["whitespace", "words"])
def test_characters_are_classified_and_lowered_as_python_does(tokenizer_name):
    settings = TextSettings(tokenizer=tokenizer_name, lowercase=True)
    codes = [
        *range(0x3000),
        *range(0x3000, 0xD800, 17),
        *range(0xE000, 0x20000, 17),
        *range(0x20000, 0x110000, 61),
    ]
    data = "".join(f"a{chr(c)}b\n" for c in codes).encode()
    assert tokenized([data], settings) == expected([data], settings)


@pytest.mark.parametrize("kind", ["words", "whitespace"])
def test_tables_are_compact(kind):
    assert sum(table.nbytes for table in tables(kind, True)) < 400_000


def test_a_word_longer_than_many_blocks_is_one_word():
    word = b"x" * 1_000_000 + "é".encode() * 100_000
    tokens, words = tokenized([word + b" short " + word], TextSettings())
    assert tokens == [0, 1, 0]
    assert words == [word.decode(), "short"]


def test_tables_grow_with_the_number_of_words():
    rng = np.random.default_rng(3)
    data = b" ".join(b"%x" % n for n in rng.integers(0, 100_000, 300_000))
    assert tokenized([data], TextSettings()) == expected([data], TextSettings())


def test_two_words_with_the_same_hash_stay_apart():
    first, second = b"urahjeia", b"xyzfrssr"
    letters = np.frombuffer(first + second, np.uint8)
    assert tokenizer.long_signature(letters, 0, 8) == tokenizer.long_signature(letters, 8, 16)
    tokens, words = tokenized([first + b" " + second + b" " + first], TextSettings())
    assert tokens == [0, 1, 0]
    assert words == [first.decode(), second.decode()]


@pytest.mark.parametrize("block_bytes", [1, 3, 100])
def test_bad_utf8_that_is_an_error_reports_its_offset_in_the_source(block_bytes):
    scanner = Tokenizer(TextSettings(on_bad_utf8="error"))
    data = b"\xef\xbb\xbf caf\xe9 bar"
    start = 0
    while not scanner.state[tokenizer.N_BAD]:
        scanner.tokenize(data[start : start + block_bytes], start, start + block_bytes >= len(data))
        start += block_bytes
    assert scanner.state[tokenizer.FIRST_BAD] == 7


@needs_compiler
def test_the_scanner_is_compiled_once():
    for settings in ALL_SETTINGS:
        tokenized([b"some", "text é".encode()], settings, 3)
    assert len(tokenizer.scan.signatures) == 1


def test_more_words_than_numbers_is_an_error(monkeypatch):
    monkeypatch.setattr(tokenizer, "MAX_TYPES", 5000)
    with refused(None, "tokenizer", kind=DataError, file="the text"):
        tokenized([b" ".join(b"%d" % n for n in range(10_000))], TextSettings())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("می\u200cخواهم کتاب", ["می\u200cخواهم", "کتاب"]),
        ("ශ්\u200dරී ලංකා", ["ශ්\u200dරී", "ලංකා"]),
        ("love ❤\ufe0f it", ["love", "it"]),
        ("co\u00adoperate \u200fשלום\u200f", ["cooperate", "שלום"]),
        ("ภาษา\u200bไทย", ["ภาษา", "ไทย"]),
    ],
    ids=["Persian", "Sinhala", "emoji", "invisible", "zero-width space"],
)
def test_words_are_not_divided_where_unicode_does_not_divide_them(text, words):
    settings = TextSettings(tokenizer="words")
    assert tokenized([text.encode()], settings, block_bytes=1)[1] == words


def test_a_capital_sigma_is_lowered_by_its_place_in_the_word():
    text = "ΟΔΟΣ ΣΟΦΟΣ Σ ΑΣ' ΟΔΟΣ, ΑΣ.Α ΑΣΣ ΑΣ\u0301 ABΣ aΣb"
    _, words = tokenized([text.encode()], TextSettings(lowercase=True), block_bytes=1)
    assert words == text.lower().split()
    assert words[:2] == ["οδος", "σοφος"]


@needs_compiler
@pytest.mark.parametrize(("is_kept", "n_notes"), [(True, 0), (False, 1)])
def test_compiling_the_tokenizer_is_reported_if_it_is_not_cached(monkeypatch, is_kept, n_notes):
    """It is kept by the signature that it is then called with."""
    words = Tokenizer(TextSettings())
    words.tokenize(b"two words", 0, True)
    kernels = []

    def is_cached(needed):
        kernels.extend(needed)
        return is_kept

    monkeypatch.setattr(reading, "is_cached", is_cached)
    notes = Notes()
    reading.note_compiling(words, notes)
    assert len(notes.compiling) == n_notes
    assert notes.notes == []
    ((function, signature),) = kernels
    assert signature in function.overloads
