"""What a text looks like, from one pass over its bytes: damage with its places, lines, repeated
lines, line ends, scripts, composed and decomposed letters.

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

GIANT = 1 << 20  # bytes of a line; books have some 500 kB in all
PLACES = 3  # of each kind that are reported
LINE_MEMORY = 1 << 26  # bytes, for the hashes of lines

BAD, GIANT_LINES = "not UTF-8", "giant lines"
PATTERNS = {
    "replaced": re.compile("\ufffd".encode()),
    # Â or Ã, and what the byte after it becomes
    "wrongly decoded": re.compile(rb"\xc3[\x82\x83]\xc2[\x80-\xbf]"),
    "control characters": re.compile(
        rb"[\x00-\x08\x0e-\x1f\x7f]|(?<!\xc3[\x82\x83])\xc2[\x80-\x9f]"
    ),
}
CARRIAGE_RETURN = re.compile(rb"\r(?!\n|\Z)")  # blocks end where words do, perhaps before a \n
KINDS = (BAD, *PATTERNS, GIANT_LINES)


class Inspector:
    """Looks at sources, one after the other, a block at a time."""

    def __init__(self, folder: Path) -> None:
        """`folder` holds the hashes of lines that outgrow LINE_MEMORY."""
        self.counts = dict.fromkeys(KINDS, 0)
        self.places: dict[str, list[Record]] = {kind: [] for kind in KINDS}
        self.characters = np.zeros(sys.maxunicode + 1, np.int64)  # how often each occurs
        self.line_keys = Counter(folder, LINE_MEMORY)
        self.n_bytes = self.n_lines = self.n_carriage_returns = 0
        self.n_decomposed = 0  # marks that NFC joins to the letter before
        self._begin_source()

    def _begin_source(self) -> None:
        # bytes before the next block, and before the line that is begun
        self.offset = self.line_start = 0
        self.line = 1
        self.begun = b""  # the end of the line that is begun

    def feed(self, source: str, data: bytes, is_last: bool) -> None:
        """The next block of a source, which ends where a word does."""
        text = data.decode("utf-8", "replace")
        seen = np.bincount(np.frombuffer(text.encode("utf-32-le"), np.uint32), minlength=1)
        self.characters[: len(seen)] += seen
        self._note(
            BAD,
            source,
            data,
            text.count("\ufffd") - data.count("\ufffd".encode()),
            _bad_places(data),
        )
        for kind, pattern in PATTERNS.items():
            found = [each.start() for each in pattern.finditer(data)]
            self._note(kind, source, data, len(found), found)
        self.n_decomposed += n_decomposed(text)
        self.n_carriage_returns += len(CARRIAGE_RETURN.findall(data))
        self.n_bytes += len(data)
        is_unended = not (data or self.begun or b"\n").endswith(b"\n")
        self._end_lines(source, data + b"\n" * (is_last and is_unended))
        self.offset += len(data)
        if is_last:
            self._begin_source()

    def _place(self, source: str, data: bytes, at: int) -> Record:
        """Where data[at] is: line, from 1, and byte, from 0. Before the data begins the line in
        which they do.
        """
        return {
            "source": source,
            "line": self.line + data.count(b"\n", 0, max(at, 0)),
            "byte": self.offset + at,
        }

    def _note(self, kind: str, source: str, data: bytes, n: int, places: Iterable[int]) -> None:
        """Count `n` of a kind, and keep where the first of all are."""
        self.counts[kind] += n
        first = itertools.islice(places, min(n, PLACES - len(self.places[kind])))
        self.places[kind] += [self._place(source, data, at) for at in first]

    def _end_lines(self, source: str, data: bytes) -> None:
        """Count the lines that end in the data, of which the first may have begun before."""
        # bytes of the first line that are not kept
        n_cut = self.offset - self.line_start - len(self.begun)
        lines = (self.begun + data).split(b"\n")
        self.begun = lines.pop()[-GIANT:]
        if not lines:
            return
        lengths = np.array([*map(len, lines)])
        lengths[0] += n_cut
        starts = np.cumsum(lengths + 1) - lengths - 1 + self.line_start - self.offset
        giants = starts[lengths > GIANT].tolist()
        self._note(GIANT_LINES, source, data, len(giants), giants)
        keys = np.array([*map(hash, lines)])[lengths > 0]
        self.line_keys.reserve(len(keys))[:] = keys
        self.line_keys.commit(len(keys))
        self.n_lines += len(lines)
        self.line += len(lines)
        self.line_start += int((lengths + 1).sum())

    def findings(self) -> Record:
        """What was found in the sources that were finished, as plain types by name."""
        n_lines = n_distinct = 0
        for keys, times in self.line_keys.counted(SILENT, "", ""):
            n_lines, n_distinct = n_lines + int(times.sum()), n_distinct + len(keys)
        letters: Tally[str] = Tally()
        n_composed = 0
        for code in np.flatnonzero(self.characters).tolist():
            if chr(code).isalpha():
                letters[script(chr(code))] += int(self.characters[code])
            if is_composed(chr(code)):
                n_composed += int(self.characters[code])
        return {
            "n_bytes": self.n_bytes,
            "n_lines": self.n_lines,
            "carriage_returns": self.n_carriage_returns,  # without a line feed after them
            "composed": n_composed,  # letters that NFD takes apart
            "decomposed": self.n_decomposed,  # letters that NFC puts together
            "counts": self.counts,  # by kind of damage
            "places": self.places,  # of the first of each kind
            # share of those that are not empty
            "repeated_lines": (n_lines - n_distinct) / max(n_lines, 1),
            # shares of the letters
            "scripts": {name: n / letters.total() for name, n in letters.most_common()},
        }


def _bad_places(data: bytes) -> Iterator[int]:
    """Where sequences are that are not UTF-8."""
    at = 0
    while True:
        try:
            data[at:].decode()
            return
        except UnicodeDecodeError as error:
            yield at + error.start
            at += error.end


def is_composed(letter: str) -> bool:
    """Whether NFC keeps a character and NFD takes it apart, as it does é."""
    parts = unicodedata.normalize("NFD", letter)
    return len(parts) > 1 and unicodedata.normalize("NFC", letter) == letter


def n_decomposed(text: str) -> int:
    """The number of letters with a mark, or Korean vowel, after them that NFC joins to them."""
    if unicodedata.is_normalized("NFC", text):
        return 0
    pairs = Tally(joined_marks().findall(text))
    return sum(n for pair, n in pairs.items() if len(unicodedata.normalize("NFC", pair)) == 1)


@functools.cache
def joined_marks() -> re.Pattern[str]:
    """A character and one that is the second part of others, as U+0301 is of é."""
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
