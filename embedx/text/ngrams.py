"""The character n-grams of a word, and the buckets that they are hashed to.

Bojanowski et al. 2017, "Enriching word vectors with subword information", section 3.2, with the
conventions of fastText 0.9.3, so that models can be exchanged with it:

    word      enclosed in < and >, so that prefixes and suffixes differ from other n-grams
    n-grams   all substrings of `shortest` to `longest` Unicode characters, repeats included,
              without the single characters < and >
    bucket    the 32-bit FNV-1a hash of the n-gram's UTF-8 bytes, modulo the number of buckets.
              fastText reads a byte as a signed char, so that a byte above 127 also flips the upper
              24 bits of the hash

fastText's mark for the end of a line, </s>, has no n-grams. `embedx.engine.subwords` lists those of
a vocabulary, compiled.
"""

import re
from typing import NamedTuple

from embedx.errors import SettingError

BEGINNING, END = "<", ">"
NOT_SPLIT = "</s>"
FNV_OFFSET, FNV_PRIME, MASK = 2166136261, 16777619, 0xFFFFFFFF
SIGN = 0xFFFFFF00  # the upper bits of a byte above 127 that is read as a signed char
LENGTHS = re.compile(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?")
MAX_CHARACTERS = 50  # in an n-gram
MAX_BUCKETS = 100_000_000


class NGrams(NamedTuple):
    """The lengths of n-grams, and the number of their buckets."""

    shortest: int  # characters
    longest: int
    n_buckets: int

    def of(self, word: str) -> list[str]:
        """The n-grams of a word in order of their beginnings, then of their lengths, repeats
        included.
        """
        if word == NOT_SPLIT:
            return []
        text = f"{BEGINNING}{word}{END}"
        longest = min(self.longest, len(text))
        spans = ((i, i + n) for i in range(len(text)) for n in range(self.shortest, longest + 1))
        return [
            text[i:j]
            for i, j in spans
            if j <= len(text) and not (j == i + 1 and (i == 0 or j == len(text)))
        ]

    def buckets(self, word: str) -> list[int]:
        """The buckets of `of(word)`."""
        return [fnv1a(encoded(ngram)) % self.n_buckets for ngram in self.of(word)]


def encoded(text: str) -> bytes:
    """The UTF-8 bytes of a text, which may have unpaired surrogates."""
    return text.encode("utf-8", "surrogatepass")


def fnv1a(content: bytes) -> int:
    """The FNV-1a hash of bytes, each read as a signed char."""
    value = FNV_OFFSET
    for byte in content:
        value = (value ^ (byte | SIGN if byte > 127 else byte)) * FNV_PRIME & MASK
    return value


def ngrams(lengths: str, n_buckets: int, setting: str = "subwords") -> NGrams:
    """`NGrams` for lengths such as "3-6" or "3". Raises `SettingError`, which names `setting`, for
    anything else.
    """
    match = LENGTHS.fullmatch(lengths)
    shortest = int(match[1]) if match else 0
    longest = int(match[2] or match[1]) if match else 0
    if not 1 <= shortest <= longest <= MAX_CHARACTERS:
        problem = f"lengths go from 1 to {MAX_CHARACTERS}, the shortest first"
        raise SettingError(setting, lengths, problem, "write 3-6")
    return NGrams(shortest, longest, n_buckets)
