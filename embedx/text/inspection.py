"""What a text looks like, from one pass over its bytes: damage with its places, lines, repeated lines, scripts.

Repeated lines are found by 64-bit hashes of lines in a table of fixed size. When it is full, lines are left out whose hash
does not end in another zero bit: the lines that remain are a sample by content, with all their repetitions, so that shares of
it stand for shares of the whole (Gibbons 2001, Distinct sampling for highly-accurate answers to distinct values queries).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel
from embedx.text.tokenizer import decoded

GIANT = 1 << 20  # bytes of a line; books have some 500 kB in all
PLACES = 3  # of each kind that are told
SLOTS = 1 << 22  # of the table of lines: 100 MB
FULL = 0.6  # of the slots

# What the scanner remembers between calls, by place in `state`, int64.
OFFSET, LINES, LINE_START, LONGEST, LONGEST_LINE, LONGEST_START, BEFORE, N_KEYS, CUT_OFF, STATE_WIDTH = range(10)
KINDS = ("not UTF-8", "replaced", "wrongly decoded", "control characters", "giant lines")
BAD, REPLACED, MOJIBAKE, CONTROL, LINE = range(len(KINDS))

REPLACEMENT = 0xFFFD
HASH_START, HASH_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a, 64 bits
MIX = np.uint64(0xFF51AFD7ED558CCD)  # of MurmurHash3's finaliser

# Letters of these ranges are of a script; those elsewhere are "other". After Unicode's Blocks.txt.
SCRIPTS = (
    ("Latin", 0x41, 0x24F), ("Latin", 0x250, 0x2AF), ("Latin", 0x1E00, 0x1EFF), ("Latin", 0x2C60, 0x2C7F),
    ("Latin", 0xA720, 0xA7FF), ("Latin", 0xFB00, 0xFB06), ("Latin", 0xFF21, 0xFF5A),
    ("Greek", 0x370, 0x3FF), ("Greek", 0x1F00, 0x1FFF),
    ("Cyrillic", 0x400, 0x52F), ("Cyrillic", 0x1C80, 0x1C8F), ("Cyrillic", 0xA640, 0xA69F),
    ("Armenian", 0x530, 0x58F), ("Hebrew", 0x590, 0x5FF), ("Hebrew", 0xFB1D, 0xFB4F),
    ("Arabic", 0x600, 0x6FF), ("Arabic", 0x750, 0x77F), ("Arabic", 0x8A0, 0x8FF), ("Arabic", 0xFB50, 0xFDFF),
    ("Arabic", 0xFE70, 0xFEFE), ("Syriac", 0x700, 0x74F), ("Devanagari", 0x900, 0x97F), ("Bengali", 0x980, 0x9FF),
    ("Gurmukhi", 0xA00, 0xA7F), ("Gujarati", 0xA80, 0xAFF), ("Odia", 0xB00, 0xB7F), ("Tamil", 0xB80, 0xBFF),
    ("Telugu", 0xC00, 0xC7F), ("Kannada", 0xC80, 0xCFF), ("Malayalam", 0xD00, 0xD7F), ("Sinhala", 0xD80, 0xDFF),
    ("Thai", 0xE00, 0xE7F), ("Lao", 0xE80, 0xEFF), ("Tibetan", 0xF00, 0xFFF), ("Myanmar", 0x1000, 0x109F),
    ("Georgian", 0x10A0, 0x10FF), ("Georgian", 0x1C90, 0x1CBF), ("Georgian", 0x2D00, 0x2D2F),
    ("Hangul", 0x1100, 0x11FF), ("Hangul", 0x3130, 0x318F), ("Hangul", 0xAC00, 0xD7FF), ("Ethiopic", 0x1200, 0x139F),
    ("Khmer", 0x1780, 0x17FF), ("Mongolian", 0x1800, 0x18AF), ("Hiragana", 0x3040, 0x309F), ("Katakana", 0x30A0, 0x30FF),
    ("Katakana", 0xFF66, 0xFF9D), ("Han", 0x3400, 0x4DBF), ("Han", 0x4E00, 0x9FFF), ("Han", 0xF900, 0xFAFF),
    ("Han", 0x20000, 0x323AF),
)  # fmt: skip
NAMES = (None, "other", *dict.fromkeys(name for name, _, _ in SCRIPTS))  # by the number that a letter has; None is no letter
LAST_LETTER = 0x323AF


def script_table() -> np.ndarray:
    """The number of each character's script, int8 (0x110000,); see NAMES."""
    table = np.zeros(0x110000, np.int8)
    table[: LAST_LETTER + 1] = [chr(code).isalpha() for code in range(LAST_LETTER + 1)]
    for name, first, last in SCRIPTS:
        table[first : last + 1] *= np.int8(NAMES.index(name))
    return table


class LineTable(NamedTuple):
    """Different lines by open addressing; slot by slot."""

    keys: np.ndarray  # uint64 (SLOTS,): hashes; 0 is an empty slot
    counts: np.ndarray  # int64 (SLOTS,): how often the line was seen
    lengths: np.ndarray  # int64 (SLOTS,): bytes


@kernel
def tallied(kind, place, line, counts, places):
    """Count something of a kind, and note where it is if it is among the first."""
    if counts[kind] < len(places[kind]):
        places[kind, counts[kind], 0] = place
        places[kind, counts[kind], 1] = line
    counts[kind] += 1


@kernel
def entered(key, count, length, table):
    """Add a line to the table; whether it is new."""
    slots = np.uint64(len(table.keys) - 1)
    place = (key >> np.uint64(20)) & slots
    while table.keys[place] != 0 and table.keys[place] != key:
        place = (place + np.uint64(1)) & slots
    is_new = table.keys[place] == 0
    table.keys[place] = key
    table.counts[place] += count
    table.lengths[place] = length
    return is_new


@kernel
def mixed(h):
    """A hash whose every bit depends on all bits of h; never 0."""
    h = (h ^ (h >> np.uint64(33))) * MIX
    h = h ^ (h >> np.uint64(33))
    return h | (np.uint64(1) << np.uint64(63))


@kernel
def end_line(place, mask, state, line_hash, counts, places, table):
    """Count the line that ends before `place`."""
    start = state[LINE_START]
    length = place - start
    state[LINES] += 1
    if length > state[LONGEST]:
        state[LONGEST], state[LONGEST_LINE], state[LONGEST_START] = length, state[LINES], start
    if length > GIANT:
        tallied(LINE, start, state[LINES], counts, places)
    if length > 0:
        key = mixed(line_hash[0])
        if key & mask == 0:
            state[N_KEYS] += entered(key, 1, length, table)
    line_hash[0] = HASH_START
    state[LINE_START] = place + 1


@kernel
def look(data, p, last, scripts, mask, state, line_hash, counts, places, letters, table):
    """Look at data[p:]; returns how far it came: to the end, a character cut off there (unless `last`), or a full table."""
    n = len(data)
    before = state[BEFORE]  # the character before, if it is one that wrong decoding leaves
    most = int(FULL * len(table.keys))
    h = line_hash[0]
    while p < n:
        byte = data[p]
        if byte == 10:
            line_hash[0] = h
            end_line(state[OFFSET] + p, mask, state, line_hash, counts, places, table)
            h = line_hash[0]
            p += 1
            before = 0
            if state[N_KEYS] > most:
                break
            continue
        width = 1
        code = np.int64(byte)
        if byte >= 0x80:
            code, width = decoded(data, p, n)
            if width == 0:
                if not last:
                    state[CUT_OFF] = 1
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


@kernel
def enter_sampled(old, mask, table):
    """Enter the lines of one table whose hashes end in zeros under `mask` into an empty one; how many."""
    n = 0
    for i in range(len(old.keys)):
        if old.keys[i] != 0 and old.keys[i] & mask == 0:
            n += entered(old.keys[i], old.counts[i], old.lengths[i], table)
    return n


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
    is_sampled: bool  # these shares are of a sample
    scripts: dict[str, float]  # share of the letters, the largest first


class Inspector:
    """Looks at sources, one after the other, a block at a time."""

    def __init__(self, slots: int = SLOTS) -> None:
        self.scripts = script_table()
        self.state = np.zeros(STATE_WIDTH, np.int64)
        self.line_hash = np.full(1, HASH_START)
        self.counts = np.zeros(len(KINDS), np.int64)
        self.letters = np.zeros(len(NAMES), np.int64)
        self.table = _new_table(slots)
        self.mask = 0
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
            with np.errstate(over="ignore"):
                end_line(int(state[OFFSET]), np.uint64(self.mask), state, self.line_hash, self.own, self.places, self.table)
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
        """What was found in the sources that were finished; the memory for it is let go."""
        is_line = self.table.keys != 0
        times, lengths = self.table.counts[is_line], self.table.lengths[is_line]
        self.table = _new_table(1)
        n_lines, n_bytes = int(times.sum()), int((times * lengths).sum())
        letters = {str(name): int(n) for name, n in zip(NAMES[1:], self.letters[1:], strict=True) if n}
        most_first = sorted(letters, key=lambda name: -letters[name])
        return Findings(
            self.n_bytes,
            self.n_lines,
            *self.longest,
            dict(zip(KINDS, self.counts.tolist(), strict=True)),
            self.found,
            repeated_lines=(n_lines - len(times)) / max(n_lines, 1),
            repeated_bytes=(n_bytes - int(lengths.sum())) / max(n_bytes, 1),
            is_sampled=self.mask > 0,
            scripts={name: letters[name] / sum(letters.values()) for name in most_first},
        )

    def _look(self, block: bytes, last: bool) -> None:
        data = np.frombuffer(block, np.uint8)
        p = 0
        while True:
            with np.errstate(over="ignore"):  # hashes wrap, of which numpy warns where this is not compiled
                p = look(
                    data, p, last, self.scripts, np.uint64(self.mask), self.state, self.line_hash, self.own, self.places,
                    self.letters, self.table,
                )  # fmt: skip
            if p == len(data) or self.state[CUT_OFF]:
                break
            self._thin()
        self.rest = block[p:]
        self.state[OFFSET] += p
        self.state[CUT_OFF] = 0

    def _thin(self) -> None:
        """Leave out half of the lines."""
        self.mask = 2 * self.mask + 1
        table = _new_table(len(self.table.keys))
        self.state[N_KEYS] = enter_sampled(self.table, np.uint64(self.mask), table)
        self.table = table


def _new_table(slots: int) -> LineTable:
    return LineTable(np.zeros(slots, np.uint64), np.zeros(slots, np.int64), np.zeros(slots, np.int64))
