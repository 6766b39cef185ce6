"""Inspects a text in one pass over its bytes: damage with its places, lines, repeated lines, line
ends, scripts, composed and decomposed letters.

Repeated lines are found by hashes of all lines, counted in bounded memory (`embedx.text.counting`).
"""

import functools
import itertools
import re
import sys
import unicodedata
from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from embedx.runtime.progress import SILENT
from embedx.settings import Record
from embedx.text.counting import Counter

# Longer lines, in bytes, are reported; a whole book has about 500 kB.
MAX_LINE_BYTES = 1 << 20
# Number of places reported for each kind of damage.
MAX_PLACES = 3
# Memory for the hashes of lines, in bytes.
LINE_MEMORY = 1 << 26

BAD_UTF8 = "not UTF-8"
GIANT_LINES = "giant lines"
PATTERNS = {
    "replaced": re.compile("\ufffd".encode()),
    # Â or Ã, and what the byte after it becomes
    "wrongly decoded": re.compile(rb"\xc3[\x82\x83]\xc2[\x80-\xbf]"),
    "control characters": re.compile(
        rb"[\x00-\x08\x0e-\x1f\x7f]|(?<!\xc3[\x82\x83])\xc2[\x80-\x9f]"
    ),
}
# A carriage return without a line feed after it. At the end of a block the next byte is unknown,
# because blocks end where words do.
CARRIAGE_RETURN = re.compile(rb"\r(?!\n|\Z)")
KINDS_OF_DAMAGE = (BAD_UTF8, *PATTERNS, GIANT_LINES)


class Inspector:
    """Inspects sources in turn, block by block.

    counts, places     by kind of damage: how often it occurs, and where at first
    characters         int64 (characters of Unicode,): how often each occurs
    line_hashes        hashes of all lines that are not empty
    n_decomposed       number of marks that NFC joins to the letter before them
    n_source_bytes     bytes of the source before the next block
    line               the number of the current line, which has not ended
    line_start         the byte of the source at which the current line begins
    unended_line       the last bytes of the current line so far
    """

    def __init__(self, folder: Path) -> None:
        """`folder` is for the hashes of lines that exceed LINE_MEMORY."""
        self.counts = dict.fromkeys(KINDS_OF_DAMAGE, 0)
        self.places: dict[str, list[Record]] = {kind: [] for kind in KINDS_OF_DAMAGE}
        self.characters = np.zeros(sys.maxunicode + 1, np.int64)
        self.line_hashes = Counter(folder, LINE_MEMORY)
        self.n_bytes = 0
        self.n_lines = 0
        self.n_carriage_returns = 0
        self.n_decomposed = 0
        self._begin_source()

    def _begin_source(self) -> None:
        self.n_source_bytes = 0
        self.line = 1
        self.line_start = 0
        self.unended_line = b""

    def feed(self, source: str, data: bytes, is_last: bool) -> None:
        """Inspect the next block of a source, which ends at the end of a word."""
        text = data.decode("utf-8", "replace")
        self._count_characters(text)
        self._note_damage(source, data, text)
        self.n_carriage_returns += len(CARRIAGE_RETURN.findall(data))
        self.n_bytes += len(data)
        lines = data
        has_unended_line = bool(self.unended_line or data) and not data.endswith(b"\n")
        if is_last and has_unended_line:
            lines = data + b"\n"
        self._end_lines(source, lines)
        self.n_source_bytes += len(data)
        if is_last:
            self._begin_source()

    def _count_characters(self, text: str) -> None:
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        times = np.bincount(codes, minlength=1)
        self.characters[: len(times)] += times
        self.n_decomposed += n_decomposed(text)

    def _note_damage(self, source: str, data: bytes, text: str) -> None:
        n_bad = text.count("\ufffd") - data.count("\ufffd".encode())
        self._note(BAD_UTF8, source, data, n_bad, _bad_places(data))
        for kind, pattern in PATTERNS.items():
            places = [match.start() for match in pattern.finditer(data)]
            self._note(kind, source, data, len(places), places)

    def _place(self, source: str, data: bytes, at: int) -> Record:
        """The place of data[at]: line, from 1, and byte, from 0. A negative `at` is in the line in
        which the data begin.
        """
        return {
            "source": source,
            "line": self.line + data.count(b"\n", 0, max(at, 0)),
            "byte": self.n_source_bytes + at,
        }

    def _note(self, kind: str, source: str, data: bytes, n: int, places: Iterable[int]) -> None:
        """Count `n` cases of a kind of damage, and keep the first places."""
        self.counts[kind] += n
        n_kept = min(n, MAX_PLACES - len(self.places[kind]))
        first_places = itertools.islice(places, n_kept)
        self.places[kind] += [self._place(source, data, at) for at in first_places]

    def _end_lines(self, source: str, data: bytes) -> None:
        """Count the lines that end in the data; the first may have begun in an earlier block."""
        # bytes of the first line that are not kept
        n_cut = self.n_source_bytes - self.line_start - len(self.unended_line)
        lines = (self.unended_line + data).split(b"\n")
        self.unended_line = lines.pop()[-MAX_LINE_BYTES:]
        if not lines:
            return
        lengths = np.array([*map(len, lines)])
        lengths[0] += n_cut
        ends = self.line_start + np.cumsum(lengths + 1)
        # places in the data, negative for a line that began before
        starts = ends - lengths - 1 - self.n_source_bytes
        giants = starts[lengths > MAX_LINE_BYTES].tolist()
        self._note(GIANT_LINES, source, data, len(giants), giants)
        hashes = np.array([*map(hash, lines)])[lengths > 0]
        self.line_hashes.reserve(len(hashes))[:] = hashes
        self.line_hashes.commit(len(hashes))
        self.n_lines += len(lines)
        self.line += len(lines)
        self.line_start = int(ends[-1])

    def findings(self) -> Record:
        """The results by name, as JSON types.

        carriage_returns      those without a line feed after them
        composed, decomposed  letters that NFD decomposes, and that NFC composes
        counts, places        by kind of damage: how often it occurs, and where at first
        repeated_lines        as a share of the lines that are not empty
        scripts               shares of the letters, the largest first
        """
        letters: Tally[str] = Tally()
        n_composed = 0
        for code in np.flatnonzero(self.characters).tolist():
            character = chr(code)
            times = int(self.characters[code])
            if character.isalpha():
                letters[script(character)] += times
            if is_composed(character):
                n_composed += times
        return {
            "n_bytes": self.n_bytes,
            "n_lines": self.n_lines,
            "carriage_returns": self.n_carriage_returns,
            "composed": n_composed,
            "decomposed": self.n_decomposed,
            "counts": self.counts,
            "places": self.places,
            "repeated_lines": self._repeated_share(),
            "scripts": {name: n / letters.total() for name, n in letters.most_common()},
        }

    def _repeated_share(self) -> float:
        """The share of the lines that repeat an earlier one; empty lines are not counted."""
        n_lines = 0
        n_distinct = 0
        for hashes, times in self.line_hashes.counted(SILENT, "", ""):
            n_lines += int(times.sum())
            n_distinct += len(hashes)
        return (n_lines - n_distinct) / max(n_lines, 1)


def _bad_places(data: bytes) -> Iterator[int]:
    """The offsets at which invalid UTF-8 sequences begin."""
    at = 0
    while True:
        try:
            data[at:].decode()
            return
        except UnicodeDecodeError as error:
            yield at + error.start
            at += error.end


def is_composed(letter: str) -> bool:
    """Whether NFC keeps a character and NFD decomposes it, such as é."""
    parts = unicodedata.normalize("NFD", letter)
    return len(parts) > 1 and unicodedata.normalize("NFC", letter) == letter


def n_decomposed(text: str) -> int:
    """The number of letters that NFC joins to the mark, or Korean vowel, after them."""
    if unicodedata.is_normalized("NFC", text):
        return 0
    pairs = Tally(pairs_with_marks().findall(text))
    return sum(n for pair, n in pairs.items() if len(unicodedata.normalize("NFC", pair)) == 1)


@functools.cache
def pairs_with_marks() -> re.Pattern[str]:
    """The pattern of a character followed by the second part of a composed one, such as U+0301 of
    é.
    """
    second_parts = set()
    for code in range(sys.maxunicode + 1):
        parts = unicodedata.normalize("NFD", chr(code))
        if len(parts) > 1 and is_composed(chr(code)):
            second_parts |= set(parts[1:])
    return re.compile(f".[{''.join(sorted(second_parts))}]", re.DOTALL)


def script(letter: str) -> str:
    """The script of a letter: the first word of its name in Unicode, as in "LATIN SMALL
    LETTER A".
    """
    name = unicodedata.name(letter, "other").split()[0]
    return "Han" if name == "CJK" else name.capitalize()
