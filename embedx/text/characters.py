"""Character classes of a tokeniser: part of a word (perhaps lower-cased), a separator, or one at
which Unicode's word boundaries (UAX 29) never divide words.

There are two tables. `plain`, by byte, is for ASCII. For other characters there is a two-stage
table of differences between a character and the one to append to the word; its blocks of 128 are
mostly alike, and equal ones are stored once.
"""

import functools
import re
import sys
import unicodedata
from typing import NamedTuple

import numpy as np
from numpy import int64

from embedx.text.tables import SENTENCE_END, TOKEN_END

# Entries of `plain` that are not the byte to append to the word.
SEPARATES, LINE_END, NOT_ASCII = 0, -1, -2
# The entry of `differences` for a separator; no difference of two characters is as large.
SEPARATOR = 1 << 24
BLOCK_BITS = 7
# Characters of a Unicode plane. Tables are made plane by plane, so that temporary arrays are small.
PLANE = 1 << 16
# Entries of characters that are not simply appended. `EXTENDS`: appended to the current word, but
# begins none, such as marks and zero-width joiners, or U+FE0F after an emoji. `IGNORED`: left out,
# such as soft hyphens and directional marks. `SIGMA`: a capital sigma, whose lower case depends on
# the letters after it.
EXTENDS = SEPARATOR + 1
IGNORED = SEPARATOR + 2
SIGMA = SEPARATOR + 3
JOINERS = "\u200c\u200d"
ZERO_WIDTH_SPACE = "\u200b"  # same category as the joiners, but divides words, as in Thai and Khmer
WHITE_SPACE = re.compile(r"[\s\0]")
CAPITAL_SIGMA = 0x3A3
# Properties of a character next to a capital sigma, for `str.lower` (Unicode 15, table 3-17).
CASED = 1
CASE_IGNORABLE = 2
# Python's lower() gives two characters for this one alone (U+0130): "i" and U+0307.
DOTTED_CAPITAL_I, DOT_ABOVE = 0x130, 0x307


class Characters(NamedTuple):
    """The tables of one tokeniser."""

    # int64 (256,): the byte to append to the word, or SEPARATES, LINE_END, NOT_ASCII
    plain: np.ndarray
    # int64 (0x110000 / 128,): the row of `differences` for each block of 128 characters
    blocks: np.ndarray
    # int64 (n, 128): the number to add to a character before it is appended, or SEPARATOR, EXTENDS,
    # IGNORED or SIGMA
    differences: np.ndarray
    # int32 (n,): characters that are CASED or CASE_IGNORABLE, ascending, and their case; (0,) if
    # text is not lower-cased
    case_characters: np.ndarray
    cases: np.ndarray


@functools.cache
def tables(tokenizer: str, lowercase: bool) -> Characters:
    """The tables for these settings, from the Unicode data of this Python."""
    rows: dict[bytes, int] = {}
    blocks: list[int] = []
    for first in range(0, sys.maxunicode + 1, PLANE):
        difference = differences_of_plane(first, tokenizer, lowercase)
        blocks += [
            rows.setdefault(row.tobytes(), len(rows))
            for row in difference.reshape(-1, 1 << BLOCK_BITS)
        ]
    differences = np.array([np.frombuffer(row, int64) for row in rows])
    ascii_differences = differences[0]
    plain = np.full(256, NOT_ASCII, int64)
    plain[:128] = np.where(
        ascii_differences == SEPARATOR, SEPARATES, np.arange(128) + ascii_differences
    )
    plain[ord("\n")] = LINE_END
    return Characters(
        plain,
        np.array(blocks),
        differences,
        *(case_contexts() if lowercase else no_case_contexts()),
    )


def differences_of_plane(first: int, tokenizer: str, lowercase: bool) -> np.ndarray:
    """The entries of `Characters.differences` for the plane that begins with character `first`."""
    codes = np.arange(first, first + PLANE)
    characters = codes_to_text(codes)
    difference = np.zeros(PLANE, int64)
    if lowercase:
        lower = characters.replace(chr(DOTTED_CAPITAL_I), "i").lower()
        difference = text_to_codes(lower) - codes
        difference[codes == CAPITAL_SIGMA] = SIGMA
    if tokenizer == "words":
        categories = categories_of(characters)
        major = categories.view("U1")[::2]
        difference[(major != "L") & (major != "M") & (major != "N")] = SEPARATOR
        difference[major == "M"] = EXTENDS
        difference[categories == "Cf"] = IGNORED
        difference[np.isin(codes, [*map(ord, JOINERS)])] = EXTENDS
        difference[codes == ord(ZERO_WIDTH_SPACE)] = SEPARATOR
    else:
        difference[[space.start() for space in WHITE_SPACE.finditer(characters)]] = SEPARATOR
    return difference


def codes_to_text(codes: np.ndarray) -> str:
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


def text_to_codes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(int64)


def categories_of(characters: str) -> np.ndarray:
    """Unicode's category of each character, such as "Lu"."""
    return np.fromiter(map(unicodedata.category, characters), "U2", len(characters))


@functools.cache
def case_contexts() -> tuple[np.ndarray, np.ndarray]:
    """(`Characters.case_characters`, `Characters.cases`), found by `str.lower`."""
    codes = []
    contexts = []
    for first in range(0, sys.maxunicode + 1, PLANE):
        plane = np.arange(first, first + PLANE)
        # Most characters are of these categories, and neither cased nor ignorable.
        is_neither = np.isin(categories_of(codes_to_text(plane)), ("Lo", "Cn", "Co", "Cs"))
        for code in plane[~is_neither].tolist():
            c = chr(code)
            if f"αΣ{c}α".lower()[1] == "ς":
                continue  # a sigma before it is final, whatever follows
            codes.append(code)
            contexts.append(CASED if f"αΣ{c}".lower()[1] == "σ" else CASE_IGNORABLE)
    return np.array(codes, np.int32), np.array(contexts, np.int32)


def no_case_contexts() -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(0, np.int32), np.zeros(0, np.int32)


@functools.cache
def whole_tokens() -> Characters:
    """The tables for tokens that end with TOKEN_END or SENTENCE_END, bytes that are never in UTF-8,
    and may contain any others.
    """
    plain = np.full(256, NOT_ASCII, int64)
    plain[:128] = range(128)
    plain[[0, TOKEN_END[0]]] = SEPARATES
    plain[SENTENCE_END[0]] = LINE_END
    return Characters(
        plain,
        np.zeros((sys.maxunicode + 1) >> BLOCK_BITS, int64),
        np.zeros((1, 1 << BLOCK_BITS), int64),
        *no_case_contexts(),
    )
