"""What a text looks like, from one pass over its bytes: damage with its places, lines, repeated lines, scripts.

Repeated lines are found by hashes of all lines, counted in bounded memory (`embedx.text.counting`).
"""

import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from embedx.kernels.compiled import kernel
from embedx.text.counting import Counter
from embedx.text.tokenizer import decoded
from embedx.training.progress import Silent

GIANT = 1 << 20  # bytes of a line; books have some 500 kB in all
PLACES = 3  # of each kind that are reported
LINE_MEMORY = 1 << 26  # bytes, for the hashes of lines
# A line's key: the upper bits of its hash, and its length. Two lines of one length in 2^43 have the same key.
LENGTH_BITS = 20
MAX_LENGTH = (1 << LENGTH_BITS) - 1  # a longer line counts as one of this length
HASH_SHIFT = np.uint64(LENGTH_BITS + 1)

# What the scanner remembers between calls, by place in `state`, int64.
OFFSET, LINES, LINE_START, LONGEST, LONGEST_LINE, LONGEST_START, BEFORE, N_KEYS, STATE_WIDTH = range(9)
KINDS = ("not UTF-8", "replaced", "wrongly decoded", "control characters", "giant lines")
BAD, REPLACED, MOJIBAKE, CONTROL, LINE = range(len(KINDS))

REPLACEMENT = 0xFFFD
HASH_START, HASH_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a, 64 bits
MIX = np.uint64(0xFF51AFD7ED558CCD)  # of MurmurHash3's finaliser

# A letter is of the first of these scripts that its name in Unicode has as a word, as in "FULLWIDTH LATIN SMALL LETTER A".
SCRIPTS = (
    "Latin", "Greek", "Cyrillic", "Armenian", "Hebrew", "Arabic", "Syriac", "Devanagari", "Bengali", "Gurmukhi", "Gujarati",
    "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thai", "Lao", "Tibetan", "Myanmar", "Georgian", "Hangul",
    "Ethiopic", "Khmer", "Mongolian", "Hiragana", "Katakana", "Han",
)  # fmt: skip
NAMES = (None, "other", *SCRIPTS)  # by the number that a letter has; None is no letter


def script_table() -> np.ndarray:
    """The number of each character's script, int8 (0x110000,); see NAMES."""
    table = np.zeros(sys.maxunicode + 1, np.int8)
    numbers = {script.upper(): NAMES.index(script) for script in SCRIPTS} | {"CJK": NAMES.index("Han")}
    for code in range(len(table)):
        if (letter := chr(code)).isalpha():
            words = unicodedata.name(letter, "").split()
            table[code] = next((numbers[word] for word in words if word in numbers), 1)
    return table


@kernel
def tallied(kind, place, line, counts, places):
    """Count something of a kind, and note where it is if it is among the first."""
    if counts[kind] < len(places[kind]):
        places[kind, counts[kind], 0] = place
        places[kind, counts[kind], 1] = line
    counts[kind] += 1


@kernel
def mixed(h):
    """A hash whose every bit depends on all bits of h."""
    h = (h ^ (h >> np.uint64(33))) * MIX
    return h ^ (h >> np.uint64(33))


@kernel
def end_line(place, state, line_hash, counts, places, line_keys):
    """Count the line that ends before `place`."""
    start = state[LINE_START]
    length = place - start
    state[LINES] += 1
    if length > state[LONGEST]:
        state[LONGEST], state[LONGEST_LINE], state[LONGEST_START] = length, state[LINES], start
    if length > GIANT:
        tallied(LINE, start, state[LINES], counts, places)
    if length > 0:
        line_keys[state[N_KEYS]] = np.int64(mixed(line_hash[0]) >> HASH_SHIFT) << LENGTH_BITS | min(length, MAX_LENGTH)
        state[N_KEYS] += 1
    line_hash[0] = HASH_START
    state[LINE_START] = place + 1


@kernel
def look(data, last, scripts, state, line_hash, counts, places, letters, line_keys):
    """Look at data; returns how far it came: to the end, or to a character that is cut off there (unless `last`)."""
    n, p = len(data), 0
    before = state[BEFORE]  # the character before, if it is one that wrong decoding leaves
    h = line_hash[0]
    while p < n:
        byte = data[p]
        if byte == 10:
            line_hash[0] = h
            end_line(state[OFFSET] + p, state, line_hash, counts, places, line_keys)
            h = line_hash[0]
            p += 1
            before = 0
            continue
        width = 1
        code = np.int64(byte)
        if byte >= 0x80:
            code, width = decoded(data, p, n)
            if width == 0:
                if not last:
                    break
                width = n - p
        place, line = state[OFFSET] + p, state[LINES] + 1
        if code < 0:
            tallied(BAD, place, line, counts, places)
        elif code < 0x20 or 0x7F <= code < 0xC0:
            if code >= 0x80 and before != 0:
                tallied(MOJIBAKE, place - 2, line, counts, places)
            elif (code < 9 or code > 13) and code < 0xA0:
                tallied(CONTROL, place, line, counts, places)
            letters[scripts[code]] += 1
        else:
            if code == REPLACEMENT:
                tallied(REPLACED, place, line, counts, places)
            letters[scripts[code]] += 1
        before = 1 if code == 0xC2 or code == 0xC3 else 0
        for i in range(p, p + width):
            h = (h ^ np.uint64(data[i])) * HASH_PRIME
        p += width
    line_hash[0] = h
    state[BEFORE] = before
    return p


@dataclass(frozen=True)
class Place:
    """Where something was found."""

    source: str
    line: int  # from 1
    byte: int  # of the (unpacked) text of the source, from 0


@dataclass(frozen=True)
class Findings:
    """What a text looks like."""

    n_bytes: int
    n_lines: int
    longest: int  # bytes
    longest_at: Place | None
    counts: dict[str, int]  # how much there is of each of KINDS
    places: dict[str, list[Place]]  # where the first of them are
    repeated_lines: float  # share of the lines, but for empty ones, that stood there before
    repeated_bytes: float  # share of their bytes
    scripts: dict[str, float]  # share of the letters, the largest first


class Inspector:
    """Looks at sources, one after the other, a block at a time."""

    def __init__(self, folder: Path) -> None:
        """`folder` holds the hashes of lines that outgrow LINE_MEMORY."""
        self.scripts = script_table()
        self.state = np.zeros(STATE_WIDTH, np.int64)
        self.line_hash = np.full(1, HASH_START)
        self.counts = np.zeros(len(KINDS), np.int64)
        self.letters = np.zeros(len(NAMES), np.int64)
        self.lines = Counter(folder, LINE_MEMORY)
        self.found: dict[str, list[Place]] = {kind: [] for kind in KINDS}
        self.longest: tuple[int, Place | None] = (0, None)
        self.n_bytes = self.n_lines = 0
        self._begin()

    def _begin(self) -> None:
        self.state[[OFFSET, LINES, LINE_START, LONGEST, BEFORE]] = 0
        self.line_hash[0] = HASH_START
        self.rest = b""
        self.places = np.zeros((len(KINDS), PLACES, 2), np.int64)
        self.own = np.zeros(len(KINDS), np.int64)  # counts of this source

    def feed(self, block: bytes) -> None:
        """The next block of the current source."""
        self._look(self.rest + block, last=False)

    def finish_source(self, name: str) -> None:
        """The current source ends; the next block is of another one."""
        self._look(self.rest, last=True)
        state = self.state
        if state[OFFSET] > state[LINE_START]:
            self._look(b"\n", last=True)
            state[OFFSET] -= 1
        for kind, each in enumerate(KINDS):
            for byte, line in self.places[kind, : self.own[kind]].tolist()[: PLACES - len(self.found[each])]:
                self.found[each].append(Place(name, line, byte))
        if state[LONGEST] > self.longest[0]:
            self.longest = int(state[LONGEST]), Place(name, int(state[LONGEST_LINE]), int(state[LONGEST_START]))
        self.counts += self.own
        self.n_bytes += int(state[OFFSET])
        self.n_lines += int(state[LINES])
        self._begin()

    def findings(self) -> Findings:
        """What was found in the sources that were finished."""
        n_lines = n_bytes = n_distinct = distinct_bytes = 0
        for keys, times in self.lines.counted(Silent(), "", ""):
            lengths = keys & MAX_LENGTH
            n_lines, n_distinct = n_lines + int(times.sum()), n_distinct + len(keys)
            n_bytes, distinct_bytes = n_bytes + int((times * lengths).sum()), distinct_bytes + int(lengths.sum())
        letters = {str(name): int(n) for name, n in zip(NAMES[1:], self.letters[1:], strict=True) if n}
        most_first = sorted(letters, key=lambda name: -letters[name])
        return Findings(
            self.n_bytes,
            self.n_lines,
            *self.longest,
            dict(zip(KINDS, self.counts.tolist(), strict=True)),
            self.found,
            repeated_lines=(n_lines - n_distinct) / max(n_lines, 1),
            repeated_bytes=(n_bytes - distinct_bytes) / max(n_bytes, 1),
            scripts={name: letters[name] / sum(letters.values()) for name in most_first},
        )

    def _look(self, block: bytes, last: bool) -> None:
        line_keys = self.lines.reserve(len(block))
        self.state[N_KEYS] = 0
        with np.errstate(over="ignore"):  # hashes wrap, of which numpy warns where this is not compiled
            p = look(
                np.frombuffer(block, np.uint8), last, self.scripts, self.state, self.line_hash, self.own, self.places,
                self.letters, line_keys,
            )  # fmt: skip
        self.lines.commit(int(self.state[N_KEYS]))
        self.rest = block[p:]
        self.state[OFFSET] += p
