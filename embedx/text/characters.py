"""What each character means to a tokeniser: part of a word (perhaps lower-cased) or a separator.

Two tables say it. `plain`, by byte, serves ASCII. All other characters go through a two-stage table
of differences (character -> what to append to the word), whose blocks of 128 are mostly alike and
stored once.
"""

import functools
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
# Python's lower() gives two characters for this one alone (U+0130): "i" and U+0307.
DOTTED_CAPITAL_I, DOT_ABOVE = 0x130, 0x307


class Characters(NamedTuple):
    """The tables of one tokeniser."""

    # int64 (256,): the byte to append to the word, or SEPARATES, LINE_END, NOT_ASCII
    plain: np.ndarray
    # int64 (0x110000 / 128,): row of `differences` for each block of 128 characters
    blocks: np.ndarray
    # int64 (n, 128): what to add to a character before it is appended, or SEPARATOR
    differences: np.ndarray


@functools.cache
def tables(tokenizer: str, lowercase: bool) -> Characters:
    """The tables for these settings, from the Unicode data of this Python."""
    characters = list(map(chr, range(sys.maxunicode + 1)))
    difference = np.zeros(len(characters), int64)
    if lowercase:
        for code, c in enumerate(characters):
            # Each by itself; the context that str.lower() looks at would make a capital sigma that
            # ends a word ς.
            if (lower := c.lower()) != c:
                difference[code] = ord(lower[0]) - code
    if tokenizer == "words":
        separates = [category[0] not in "LMN" for category in map(unicodedata.category, characters)]
    else:
        separates = [c.isspace() or c == "\0" for c in characters]
    difference[separates] = SEPARATOR
    plain = np.full(256, NOT_ASCII, int64)
    plain[:128] = np.where(
        difference[:128] == SEPARATOR, SEPARATES, np.arange(128) + difference[:128]
    )
    plain[ord("\n")] = LINE_END
    rows: dict[bytes, int] = {}
    blocks = [
        rows.setdefault(row.tobytes(), len(rows)) for row in difference.reshape(-1, 1 << BLOCK_BITS)
    ]
    return Characters(
        plain, np.array(blocks), np.array([np.frombuffer(row, int64) for row in rows])
    )


@functools.cache
def whole_tokens() -> Characters:
    """The tables for tokens that are ended by TOKEN_END and SENTENCE_END, bytes that UTF-8 never
    has, and hold any others.
    """
    plain = np.full(256, NOT_ASCII, int64)
    plain[:128] = range(128)
    plain[[0, TOKEN_END[0]]] = SEPARATES
    plain[SENTENCE_END[0]] = LINE_END
    return Characters(
        plain,
        np.zeros((sys.maxunicode + 1) >> BLOCK_BITS, int64),
        np.zeros((1, 1 << BLOCK_BITS), int64),
    )
