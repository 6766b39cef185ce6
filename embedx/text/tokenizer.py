"""From bytes of UTF-8 to word numbers: the compiled scanner, and `Tokenizer`, which feeds it and keeps its tables.

The scanner is an automaton that can stop after any byte. It appends the characters of the current word, lower-cased if
wanted, to the end of `letters`, where all different words lie one after the other. At a separator the word is looked up in an
open-addressing hash table: a known word is taken off the end of `letters` again, a new one stays there and gets the next
number. Cutting the text anywhere changes nothing.

A run of more than MAX_WORD_BYTES without a separator is no word, but data of another kind: it is left out and counted, as bad
UTF-8 is. So one endless word does not take all memory.
"""

from collections.abc import Iterator

import numpy as np

from embedx.errors import EmbedxError
from embedx.kernels.compiled import kernel
from embedx.settings import TextSettings
from embedx.text.characters import BLOCK_BITS, DOT_ABOVE, DOTTED_CAPITAL_I, LINE_END, NOT_ASCII, SEPARATOR, tables, whole_tokens
from embedx.text.tables import SENTENCE_END
from embedx.training.memory import available_memory

END_OF_SENTENCE = -1
BLOCK_BYTES = 1 << 18  # a block, its tokens and the table's busy part fit into a core's own cache together
MAX_WORD_BYTES = 1 << 22
MAX_LETTERS = 0.2  # of the memory that is available, before they grow by half and are copied for it
MAX_TYPES = 2**31 - 1  # a word's number is an int32, and 31 bits of a slot
FIRST_LETTERS, FIRST_TYPES = 1 << 16, 1 << 12  # the capacity of an empty table
NEARLY_FULL = 0.9  # of the capacity; the words of the next block are fewer than the rest, as a rule

# What the scanner remembers between calls, by place in `state`, int64.
END, KEY, TYPES, EMITTED, LINE_ENDED, BAD, FIRST_BAD, OFFSET, CUT_OFF, TOO_LONG, STATE_WIDTH = range(11)

BYTE_ORDER_MARK, REPLACEMENT = 0xFEFF, 0xFFFD
ON_BAD = {"replace": 0, "skip": 1, "error": 2}
SKIP, ERROR = ON_BAD["skip"], ON_BAD["error"]

# A word of up to seven bytes is its own signature in the hash table; a longer one has a flag and a hash there, and its bytes
# are compared. 0 is an empty slot: no word has a zero byte.
SHORT, SHORT_MASK, LONG = 7, (1 << 56) - 1, 1 << 56
# FNV-1a's offset basis (lower 32 bits) and 32-bit prime, but 38 bits kept: products then just fit into an int64.
HASH_START, HASH_PRIME, HASH_MASK = 0x811C9DC5, 0x01000193, (1 << 38) - 1
SPREAD = 0x9E3779  # the golden ratio's first 24 bits, odd: spreads signatures over the slots (Knuth, TAOCP 3, 6.4)


@kernel
def packed(key, byte):  # type: ignore[no-untyped-def]
    """The last seven bytes of a word as a number."""
    return ((key << 8) | byte) & SHORT_MASK


@kernel
def long_signature(letters, start, end):  # type: ignore[no-untyped-def]
    h = np.int64(HASH_START)
    for i in range(start, end):
        h = ((h ^ np.int64(letters[i])) * HASH_PRIME) & HASH_MASK
    return LONG | h


@kernel
def home_slot(signature, slots):  # type: ignore[no-untyped-def]
    folded = (signature ^ (signature >> 25)) & HASH_MASK
    return ((folded * SPREAD) >> 18) & (len(slots) - 1)


@kernel
def decoded(data, p, n):  # type: ignore[no-untyped-def]
    """The character at data[p] and its width; (-1, width) if ill-formed, its width as Python's decoder replaces it;
    (-1, 0) if data[:n] ends before the character does. Well-formed: Unicode 15, table 3-7."""
    lead = np.int64(data[p])
    low, high = 0x80, 0xBF  # range of the second byte
    if 0xC2 <= lead <= 0xDF:
        width, code = 2, lead & 0x1F
    elif 0xE0 <= lead <= 0xEF:
        width, code = 3, lead & 0x0F
        if lead == 0xE0:
            low = 0xA0
        elif lead == 0xED:
            high = 0x9F
    elif 0xF0 <= lead <= 0xF4:
        width, code = 4, lead & 0x07
        if lead == 0xF0:
            low = 0x90
        elif lead == 0xF4:
            high = 0x8F
    else:
        return np.int64(-1), 1
    for i in range(1, width):
        if p + i >= n:
            return np.int64(-1), 0
        byte = np.int64(data[p + i])
        if byte < low or byte > high:
            return np.int64(-1), i
        low, high = 0x80, 0xBF
        code = (code << 6) | (byte & 0x3F)
    return code, width


@kernel
def appended(letters, end, key, code):  # type: ignore[no-untyped-def]
    """Append the character to `letters` as UTF-8; its new end and `packed`."""
    if code < 0x80:
        width, mark, shift = 1, 0, 0
    elif code < 0x800:
        width, mark, shift = 2, 0xC0, 6
    elif code < 0x10000:
        width, mark, shift = 3, 0xE0, 12
    else:
        width, mark, shift = 4, 0xF0, 18
    for _ in range(width):
        byte = mark | ((code >> shift) & (0x7F if mark == 0 else 0x3F))
        letters[end] = byte
        end += 1
        key = packed(key, byte)
        mark = 0x80
        shift -= 6
    return end, key


@kernel
def find_slot(letters, starts, slots, start, end, signature):  # type: ignore[no-untyped-def]
    """Where the word letters[start:end] is, or should go, in the table."""
    place = home_slot(signature, slots)
    while slots[place, 0] != 0:
        if slots[place, 0] == signature:
            if signature < LONG:
                return place
            other = starts[slots[place, 1]]
            if starts[slots[place, 1] + 1] - other == end - start:
                i = start
                while i < end and letters[i] == letters[other]:
                    i += 1
                    other += 1
                if i == end:
                    return place
        place = (place + 1) & (len(slots) - 1)
    return place


@kernel
def scan(data, p, last, on_bad, plain, blocks, differences, state, letters, starts, slots, out):  # type: ignore[no-untyped-def]
    """Tokenise data[p:] into `out`; returns how far it came: to the end, a character cut off there (unless `last`), bad UTF-8
    that is an error, or a point where `out`, the table or the list of words is full. Updates `state` and the tables."""
    n = len(data)
    end = state[END]
    key = state[KEY]
    types = state[TYPES]
    emitted = state[EMITTED]
    line_ended = state[LINE_ENDED]
    while p < n:
        letter = plain[data[p]]
        if letter > 0:
            letters[end] = letter
            end += 1
            key = packed(key, letter)
            p += 1
            continue
        width = 1
        if letter == NOT_ASCII:
            code, width = decoded(data, p, n)
            if width == 0:
                if not last:
                    state[CUT_OFF] = 1
                    break
                width = n - p
            if code < 0:
                if state[BAD] == 0:
                    state[FIRST_BAD] = state[OFFSET] + p
                state[BAD] += 1
                if on_bad == ERROR:
                    break
                if on_bad == SKIP:
                    p += width
                    continue
                code = np.int64(REPLACEMENT)
            elif code == BYTE_ORDER_MARK and state[OFFSET] + p == 0:
                p += width
                continue
            difference = differences[blocks[code >> BLOCK_BITS], code & ((1 << BLOCK_BITS) - 1)]
            if difference != SEPARATOR:
                end, key = appended(letters, end, key, code + difference)
                if code == DOTTED_CAPITAL_I and difference != 0:
                    end, key = appended(letters, end, key, DOT_ABOVE)
                p += width
                continue
        start = starts[types]
        if end - start > MAX_WORD_BYTES:
            state[TOO_LONG] += 1
            end = start
            key = np.int64(0)
        if end > start:
            if emitted + 2 > len(out) or types + 2 > len(starts) or 2 * types >= len(slots):
                break
            signature = key if end - start <= SHORT else long_signature(letters, start, end)
            place = find_slot(letters, starts, slots, start, end, signature)
            if slots[place, 0] != 0:
                number = slots[place, 1]
                end = start
            else:
                number = types
                slots[place, 0] = signature
                slots[place, 1] = number
                types += 1
                starts[types] = end
            key = np.int64(0)
            if line_ended:
                out[emitted] = END_OF_SENTENCE
                emitted += 1
                line_ended = np.int64(0)
            out[emitted] = number
            emitted += 1
        if letter == LINE_END:
            line_ended = np.int64(1)
        p += width
    state[END] = end
    state[KEY] = key
    state[TYPES] = types
    state[EMITTED] = emitted
    state[LINE_ENDED] = line_ended
    return p


@kernel
def enter_words(others, other_starts, which, state, letters, starts, slots, numbers):  # type: ignore[no-untyped-def]
    """Enter the words `which` of `others`, unless they are there; writes the number of each to `numbers`."""
    types = state[TYPES]
    for word in which:
        start = end = starts[types]
        key = np.int64(0)
        for i in range(other_starts[word], other_starts[word + 1]):
            letters[end] = others[i]
            end += 1
            key = packed(key, np.int64(others[i]))
        signature = key if end - start <= SHORT else long_signature(letters, start, end)
        place = find_slot(letters, starts, slots, start, end, signature)
        if slots[place, 0] == 0:
            slots[place, 0] = signature
            slots[place, 1] = types
            types += 1
            starts[types] = end
        numbers[word] = slots[place, 1]
    state[TYPES] = types
    state[END] = starts[types]


@kernel
def renumber(tokens, numbers):  # type: ignore[no-untyped-def]
    """Write numbers[token] for each token that is a word."""
    for i in range(len(tokens)):
        if tokens[i] != END_OF_SENTENCE:
            tokens[i] = numbers[tokens[i]]


@kernel
def count_tokens(tokens, counts):  # type: ignore[no-untyped-def]
    """Add 1 to the count of a word for each token that is one."""
    for token in tokens:
        if token != END_OF_SENTENCE:
            counts[token] += 1


@kernel
def enter_all(old, slots):  # type: ignore[no-untyped-def]
    """Enter the words of the table `old` into the empty table `slots`."""
    for entry in range(len(old)):
        if old[entry, 0] != 0:
            place = home_slot(old[entry, 0], slots)
            while slots[place, 0] != 0:
                place = (place + 1) & (len(slots) - 1)
            slots[place, 0] = old[entry, 0]
            slots[place, 1] = old[entry, 1]


class Tokenizer:
    """Numbers words in order of first appearance, over any number of sources.

    `feed` and `finish_source` yield the tokens as int32 arrays that are valid until the next is taken. The first may be
    END_OF_SENTENCE, where a text begins with empty lines.
    """

    def __init__(self, settings: TextSettings) -> None:
        self.characters = tables(settings)
        self.whole = False  # whether the current source has its tokens ended by bytes of their own
        self.on_bad = ON_BAD[settings.on_bad_utf8]
        self.state = np.zeros(STATE_WIDTH, np.int64)
        self._new_table()
        self.out = np.zeros(1 << 16, np.int32)
        self.cut_off = b""  # the first bytes of a character whose others are in the next block

    def _new_table(self) -> None:
        self.letters = np.zeros(FIRST_LETTERS, np.uint8)
        self.starts = np.zeros(FIRST_TYPES + 1, np.int64)  # word i is letters[starts[i]:starts[i + 1]]
        self.slots = np.zeros((2 * FIRST_TYPES, 2), np.int64)  # signature and number of each word

    @property
    def n_types(self) -> int:
        return int(self.state[TYPES])

    @property
    def word_letters(self) -> np.ndarray:
        """All words in UTF-8, one after the other, uint8."""
        return self.letters[: self.starts[self.n_types]]

    @property
    def word_starts(self) -> np.ndarray:
        """Where each word begins, and the last one ends, int64 (n_types + 1,)."""
        return self.starts[: self.n_types + 1]

    def enter(self, others: np.ndarray, starts: np.ndarray, which: np.ndarray, numbers: np.ndarray) -> None:
        """Number the words `which`, int64, of others, that begin and end at `starts`, and write it to `numbers`, int32."""
        self._reserve(int((starts[which + 1] - starts[which]).sum()), len(which))
        enter_words(others, starts, which, self.state, self.letters, self.starts, self.slots, numbers)

    def outgrows(self, memory: int) -> bool:
        """Whether the table of words takes more than so many bytes, or soon would, when it is copied to grow."""
        types = self.n_types
        size = 2 * int(self.state[END]) + types * self.starts.itemsize + self.slots.nbytes
        if 2 * types >= NEARLY_FULL * len(self.slots):
            size += 2 * self.slots.nbytes
        return size > memory

    def emptied(self) -> tuple[np.ndarray, np.ndarray]:
        """The letters and starts of all words, which the table no longer has; it keeps that of which only a part was read."""
        words = self.word_letters, self.word_starts
        part = self.letters[self.starts[self.n_types] : self.state[END]]
        self._new_table()
        self.letters = np.concatenate([part, self.letters])
        self.state[TYPES], self.state[END] = 0, len(part)
        return words

    def feed(self, block: bytes) -> Iterator[np.ndarray]:
        """The tokens that end within the next block of the current source."""
        for first in range(0, len(block), BLOCK_BYTES):
            yield from self._scan(self.cut_off + block[first : first + BLOCK_BYTES], last=False)

    def start_chunk(self, offset: int = 0, continues: bool = False) -> None:
        """The next block fed is at that byte of its source; it `continues` the last one, or else no line ended before it."""
        self.state[[BAD, FIRST_BAD, TOO_LONG]] = 0
        self.state[OFFSET] = offset - len(self.cut_off)
        self.state[LINE_ENDED] &= continues

    def finish_source(self) -> Iterator[np.ndarray]:
        """The tokens left at the end of a source, which ends a sentence."""
        yield from self._scan(self.cut_off, last=True)
        yield from self._scan(SENTENCE_END if self.whole else b"\n", last=True)

    def _scan(self, block: bytes, last: bool) -> Iterator[np.ndarray]:
        data = np.frombuffer(block, np.uint8)
        p = 0
        characters = whole_tokens() if self.whole else self.characters
        while True:
            self._reserve(len(data) - p)
            p = scan(
                data, p, last, self.on_bad, *characters,
                self.state, self.letters, self.starts, self.slots, self.out,
            )  # fmt: skip
            longest = int(self.starts[self.n_types]) + MAX_WORD_BYTES
            self.state[END] = min(int(self.state[END]), longest + 1)  # of a word that is too long the length is enough
            if emitted := int(self.state[EMITTED]):
                self.state[EMITTED] = 0
                yield self.out[:emitted]
            if self.state[BAD] and self.on_bad == ERROR:
                raise BadUtf8Error(int(self.state[FIRST_BAD]))
            if p == len(data) or self.state[CUT_OFF]:
                break
        self.cut_off = block[p:]
        self.state[OFFSET] += p
        self.state[CUT_OFF] = 0

    def _reserve(self, n_bytes: int, n_words: int = 1) -> None:
        """Grow whatever may become full. A byte appends at most three (one bad byte as U+FFFD)."""
        end, types = int(self.state[END]), self.n_types + n_words - 1
        if end + 3 * n_bytes > len(self.letters):
            if len(self.letters) > MAX_LETTERS * available_memory():
                raise EmbedxError("the different words do not fit into memory: lower --vocab-memory, or clean the text")
            self.letters = grown(self.letters, end + 3 * n_bytes)
        if types + 2 > len(self.starts):
            if types >= MAX_TYPES:
                raise EmbedxError(f"more than {MAX_TYPES} different words: clean the text, or try --tokenizer words")
            self.starts = grown(self.starts, types + 2)
        while 2 * types >= len(self.slots):
            slots = np.zeros((2 * len(self.slots), 2), np.int64)
            enter_all(self.slots, slots)
            self.slots = slots


class BadUtf8Error(Exception):
    """Bytes that are not UTF-8, and the settings say that this is an error."""

    source = 0  # the number of the source

    def __init__(self, offset: int) -> None:
        super().__init__(f"not UTF-8 at byte {offset}")
        self.offset = offset


def grown(array: np.ndarray, needed: int) -> np.ndarray:
    """A copy with a capacity of `needed` elements or half as many again, whichever is more; the new ones are 0."""
    new = np.zeros(max(needed, len(array) * 3 // 2), array.dtype)
    new[: len(array)] = array
    return new
