"""From bytes of UTF-8 to word numbers: the compiled scanner, and `Tokenizer`, which feeds it and
keeps its tables.

The scanner can stop after any byte, so that text may be divided anywhere: what it knows of the
current word is in `state`. It appends the characters of the word, lower-cased if set, to the end of
`letters`, which holds all distinct words one after another. At a separator the word is looked up in
an open-addressing hash table: a known word is removed from the end of `letters`, a new one stays
there and gets the next number.

A slot of the hash table has the signature of a word, and its number + 1. The signature of a word of
up to seven bytes is these bytes; that of a longer one is a flag and a hash, and its bytes are
compared. 0 is an empty slot: no word has a zero byte.

More than MAX_WORD_BYTES without a separator are not a word, but other data. Like bad UTF-8 they are
left out and counted, so that an endless word does not fill the memory.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64, ndarray, uint8

from embedx.errors import DataError, Setting
from embedx.kernels import kernel, kernel_part, prefetch
from embedx.text.characters import (
    BLOCK_BITS,
    CAPITAL_SIGMA,
    CASE_IGNORABLE,
    CASED,
    DOT_ABOVE,
    DOTTED_CAPITAL_I,
    EXTENDS,
    LINE_END,
    NOT_ASCII,
    SEPARATOR,
    SIGMA,
    tables,
    whole_tokens,
)
from embedx.text.settings import TextSettings
from embedx.text.tables import SENTENCE_END
from embedx.text.word_list import WordList

END_OF_SENTENCE = -1
# Bytes scanned at a time: a block, its tokens and the frequent part of the table fit together into
# the core's own cache.
BLOCK_BYTES = 1 << 18
MAX_WORD_BYTES = 1 << 22
MAX_TYPES = 2**31 - 1  # a word's number is an int32
# Initial capacity of a table.
INITIAL_LETTERS = 1 << 16
INITIAL_TYPES = 1 << 12
# Share of a table's capacity; the rest usually suffices for the words of a block.
NEARLY_FULL = 0.9

# Places in `state`, int64. Of the current word: where it ends in `letters`; its last bytes, see
# `with_byte`; whether it has a capital sigma that is to be lower-cased.
WORD_END, LAST_BYTES, HAS_SIGMA = range(3)
# Of the text: words of the table; tokens written; sequences of bad UTF-8, and the byte offset of
# the first one in the source; words left out because of their length; bytes before the data.
N_TYPES, N_TOKENS, N_BAD, FIRST_BAD, N_TOO_LONG, SOURCE_OFFSET = range(3, 9)
STATE_WIDTH = 9

# Bytes of σ and ς in UTF-8, which have two bytes, like Σ.
SIGMA_LEAD = 0xCF
SMALL_SIGMA = 0x83
FINAL_SIGMA = 0x82
BYTE_ORDER_MARK = 0xFEFF
REPLACEMENT = 0xFFFD
ON_BAD = {"replace": 0, "skip": 1, "error": 2}
SKIP = ON_BAD["skip"]
ERROR = ON_BAD["error"]

# Signatures: see above.
MAX_SHORT_BYTES = 7
LAST_BYTES_MASK = (1 << 8 * MAX_SHORT_BYTES) - 1
LONG_FLAG = 1 << 8 * MAX_SHORT_BYTES
# FNV-1a's offset basis (lower 32 bits) and 32-bit prime, but 38 bits kept: products then just fit
# into an int64.
HASH_START = 0x811C9DC5
HASH_PRIME = 0x01000193
HASH_MASK = (1 << 38) - 1
# Slots are prefetched this many words before they are looked up.
PREFETCH_DISTANCE = 16
# The first 24 bits of the golden ratio, odd: spreads signatures over slots (Knuth, TAOCP 3, 6.4).
SPREAD = 0x9E3779

# By first byte: the number of bytes of a character, 0 if it begins none, and the range of its
# second byte (Unicode 15, table 3-7).
UTF8_WIDTH = np.zeros(256, int64)
UTF8_WIDTH[0xC2:0xE0] = 2
UTF8_WIDTH[0xE0:0xF0] = 3
UTF8_WIDTH[0xF0:0xF5] = 4
UTF8_LOW = np.full(256, 0x80)
UTF8_LOW[[0xE0, 0xF0]] = (0xA0, 0x90)
UTF8_HIGH = np.full(256, 0xBF)
UTF8_HIGH[[0xED, 0xF4]] = (0x9F, 0x8F)


def too_many_words() -> DataError:
    """The error for more than MAX_TYPES distinct words."""
    remedy = ("clean the text, or try ", Setting("tokenizer", "words"))
    return DataError("the text", None, f"more than {MAX_TYPES} distinct words", remedy)


class Table(NamedTuple):
    """Numbered words, with an open-addressing hash table that finds them."""

    letters: ndarray  # uint8: the words one after another, then the letters of the current word
    starts: ndarray  # int64: word i is letters[starts[i]:starts[i + 1]]
    slots: ndarray  # int64 (n_slots, 2): signature of each word, and its number + 1


@kernel_part
def with_byte(last_bytes, byte):
    """The last seven bytes of a word as a number, after one more byte."""
    return ((last_bytes << 8) | byte) & LAST_BYTES_MASK


@kernel_part
def long_signature(letters, start, end):
    """The signature of the word letters[start:end] of more than seven bytes."""
    h = int64(HASH_START)
    for i in range(start, end):
        h = ((h ^ int64(letters[i])) * HASH_PRIME) & HASH_MASK
    return LONG_FLAG | h


@kernel_part
def home_slot(signature, slots):
    """The slot in which the search for a signature begins."""
    folded = (signature ^ (signature >> 25)) & HASH_MASK
    return ((folded * SPREAD) >> 18) & (len(slots) - 1)


@kernel_part
def decoded(data, p, n):
    """(code, width) of the character at data[p]; (-1, width) of bytes that are ill-formed, as many
    as Python's decoder replaces; (-1, 0) if data[:n] ends before the character does.
    """
    lead = int64(data[p])
    width = UTF8_WIDTH[lead]
    low = UTF8_LOW[lead]
    high = UTF8_HIGH[lead]
    if width == 0:
        return -1, 1
    code = lead & (0x7F >> width)
    for i in range(1, width):
        if p + i >= n:
            return -1, 0
        byte = int64(data[p + i])
        if byte < low or byte > high:
            return -1, i
        low = 0x80
        high = 0xBF
        code = (code << 6) | (byte & 0x3F)
    return code, width


@kernel_part
def append_utf8(letters, end, last_bytes, code):
    """Append the character to `letters` as UTF-8; return the new end and last bytes."""
    width = 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000)
    shift = 6 * (width - 1)
    byte = (code >> shift) | (0 if width == 1 else (0xF00 >> width) & 0xFF)
    while True:
        letters[end] = byte
        end += 1
        last_bytes = with_byte(last_bytes, byte)
        if shift == 0:
            return end, last_bytes
        shift -= 6
        byte = 0x80 | ((code >> shift) & 0x3F)


@kernel_part
def case_of(characters, code):
    """CASED, CASE_IGNORABLE or 0."""
    place = np.searchsorted(characters.case_characters, code)
    if place < len(characters.cases) and characters.case_characters[place] == code:
        return characters.cases[place]
    return 0


@kernel_part
def lower_sigmas(characters, letters, start, end):
    """Lower-case the capital sigmas of the word letters[start:end] in place; return its last bytes.

    Like `str.lower`: to ς after a cased letter and before none, else to σ.
    """
    pending = -1  # place of a sigma after a cased letter, until another one follows
    after_cased = False
    p = start
    while p < end:
        code = int64(letters[p])
        width = 1
        if code >= 0x80:
            code, width = decoded(letters, p, end)
        case = case_of(characters, code)
        if case != CASE_IGNORABLE:
            if pending >= 0 and case == CASED:
                letters[pending + 1] = SMALL_SIGMA
            pending = -1
        if code == CAPITAL_SIGMA:
            letters[p] = SIGMA_LEAD
            letters[p + 1] = FINAL_SIGMA if after_cased else SMALL_SIGMA
            pending = p if after_cased else -1
        if case != CASE_IGNORABLE:
            after_cased = case == CASED
        p += width
    last_bytes = int64(0)
    for i in range(start, end):
        last_bytes = with_byte(last_bytes, int64(letters[i]))
    return last_bytes


@kernel_part
def slot_of(table, n_types, letters, start, end, signature):
    """The slot of the word letters[start:end] with this signature, if it is one of the first
    `n_types` words; else a slot that is empty or of a later word.
    """
    starts = table.starts
    slots = table.slots
    slot = home_slot(signature, slots)
    while slots[slot, 0] != 0:
        if slots[slot, 0] == signature:
            number = slots[slot, 1] - 1
            if signature < LONG_FLAG:
                break
            if 0 <= number < n_types and starts[number + 1] - starts[number] == end - start:
                i = start
                other = starts[number]
                while i < end and letters[i] == table.letters[other]:
                    i += 1
                    other += 1
                if i == end:
                    break
        slot = (slot + 1) & (len(slots) - 1)
    return slot


@kernel_part
def find_or_enter(table, n_types, end, last_bytes):
    """The number of the word letters[starts[n_types]:end]; a new word is entered with the number
    `n_types`.
    """
    letters, starts, slots = table
    start = starts[n_types]
    signature = last_bytes
    if end - start > MAX_SHORT_BYTES:
        signature = long_signature(letters, start, end)
    slot = slot_of(table, n_types, letters, start, end, signature)
    if slots[slot, 0] != 0:
        return slots[slot, 1] - 1
    slots[slot, 0] = signature
    slots[slot, 1] = n_types + 1
    starts[n_types + 1] = end
    return n_types


@kernel
def find_numbers(words, table, n_types, numbers):
    """Write to numbers[i] the number of word i of `words` in `table`, if it is one of the first
    `n_types` words there.

    Another thread may enter words into `table` meanwhile: a slot changes only from 0 to its final
    number, and later words are ignored.
    """
    slots = words.slots
    for slot in range(len(slots)):
        later_signature = slots[(slot + PREFETCH_DISTANCE) & (len(slots) - 1), 0]
        prefetch(table.slots, home_slot(later_signature, table.slots), 0)
        word = slots[slot, 1] - 1
        if 0 <= word < len(numbers):
            start = words.starts[word]
            end = words.starts[word + 1]
            slot_there = slot_of(table, n_types, words.letters, start, end, slots[slot, 0])
            number = table.slots[slot_there, 1] - 1
            if 0 <= number < n_types:
                numbers[word] = number


@kernel_part
def append_character(characters, table, state, n_types, end, last_bytes, code):
    """Append a character that is not ASCII to the current word, lower-cased if set; -1 and
    characters that are left out change nothing. Return the new end and last bytes, and whether the
    character is a separator instead.
    """
    if code < 0:
        return end, last_bytes, False
    difference = characters.differences[
        characters.blocks[code >> BLOCK_BITS], code & ((1 << BLOCK_BITS) - 1)
    ]
    if difference == SEPARATOR:
        return end, last_bytes, True
    is_appended_as_it_is = difference == SIGMA
    if difference == SIGMA:
        state[HAS_SIGMA] = 1
    elif difference == EXTENDS:
        is_appended_as_it_is = end > table.starts[n_types]
    if is_appended_as_it_is:
        end, last_bytes = append_utf8(table.letters, end, last_bytes, code)
    elif difference < SEPARATOR:
        end, last_bytes = append_utf8(table.letters, end, last_bytes, code + difference)
        if code == DOTTED_CAPITAL_I and difference != 0:
            end, last_bytes = append_utf8(table.letters, end, last_bytes, DOT_ABOVE)
    return end, last_bytes, False


@kernel_part
def end_word(characters, table, state, n_types, end, last_bytes):
    """Lower-case the sigmas of the current word; return its number, `n_types` if it is new."""
    if state[HAS_SIGMA] != 0:
        last_bytes = lower_sigmas(characters, table.letters, table.starts[n_types], end)
        state[HAS_SIGMA] = 0
    return find_or_enter(table, n_types, end, last_bytes)


@kernel_part
def character_at(data, p, on_bad, state):
    """(code, width) of the character at data[p], which is not ASCII.

    width is 0 where scanning ends: before a character that `data` holds in part, and at bad UTF-8
    that is an error. code is -1 for bytes that are left out: a byte order mark at the start of the
    source, and bad UTF-8 that is skipped. Counts bad UTF-8.
    """
    code, width = decoded(data, p, len(data))
    if width == 0:
        return code, width
    if code < 0:
        if state[N_BAD] == 0:
            state[FIRST_BAD] = state[SOURCE_OFFSET] + p
        state[N_BAD] += 1
        if on_bad == ERROR:
            return code, 0
        return int64(-1 if on_bad == SKIP else REPLACEMENT), width
    if code == BYTE_ORDER_MARK and state[SOURCE_OFFSET] + p == 0:
        return int64(-1), width
    return code, width


@kernel
def scan(data, p, on_bad, characters, state, table, out):
    """Tokenise data[p:] into `out`; return where it stopped: at the end, before an incomplete
    character there, at bad UTF-8 that is an error, or where the table or the list of words is full.
    Updates `state` and the tables.
    """
    n = len(data)
    letters, starts, slots = table
    end = state[WORD_END]
    last_bytes = state[LAST_BYTES]
    n_types = state[N_TYPES]
    n_tokens = state[N_TOKENS]
    while p < n:
        letter_or_class = characters.plain[data[p]]
        if letter_or_class > 0:
            letters[end] = letter_or_class
            end += 1
            last_bytes = with_byte(last_bytes, letter_or_class)
            p += 1
            continue

        width = 1
        if letter_or_class == NOT_ASCII:
            code, width = character_at(data, p, on_bad, state)
            if width == 0:
                break
            end, last_bytes, is_separator = append_character(
                characters, table, state, n_types, end, last_bytes, code
            )
            if not is_separator:
                p += width
                continue

        if end - starts[n_types] > MAX_WORD_BYTES:
            state[N_TOO_LONG] += 1
            state[HAS_SIGMA] = 0
            end = starts[n_types]
            last_bytes = int64(0)
        if end > starts[n_types]:
            if n_types + 2 > len(starts) or 2 * n_types >= len(slots):
                break
            word = end_word(characters, table, state, n_types, end, last_bytes)
            n_types += word == n_types
            end = starts[n_types]
            last_bytes = int64(0)
            out[n_tokens] = word
            n_tokens += 1
        if letter_or_class == LINE_END and (n_tokens == 0 or out[n_tokens - 1] != END_OF_SENTENCE):
            out[n_tokens] = END_OF_SENTENCE
            n_tokens += 1
        p += width
    state[WORD_END] = end
    state[LAST_BYTES] = last_bytes
    state[N_TYPES] = n_types
    state[N_TOKENS] = n_tokens
    return p


@kernel
def enter_words(others, words, state, table, numbers):
    """Enter the words `words` of the table `others` into `table`, if they are new; write their
    numbers to `numbers`.
    """
    n_types = state[N_TYPES]
    for word in words:
        end = table.starts[n_types]
        last_bytes = int64(0)
        for i in range(others.starts[word], others.starts[word + 1]):
            table.letters[end] = others.letters[i]
            end += 1
            last_bytes = with_byte(last_bytes, int64(others.letters[i]))
        numbers[word] = find_or_enter(table, n_types, end, last_bytes)
        n_types += numbers[word] == n_types
    state[N_TYPES] = n_types
    state[WORD_END] = table.starts[n_types]


@kernel
def renumber(tokens, numbers):
    """Replace each token that is a word by numbers[token]."""
    for i in range(len(tokens)):
        if tokens[i] != END_OF_SENTENCE:
            tokens[i] = numbers[tokens[i]]


@kernel
def count_tokens(tokens, counts):
    """Count the tokens that are words."""
    for token in tokens:
        if token != END_OF_SENTENCE:
            counts[token] += 1


@kernel
def rehash(old_slots, slots):
    """Enter the words that have slots in `old_slots` into `slots`, which are empty."""
    for old_slot in range(len(old_slots)):
        signature = old_slots[old_slot, 0]
        if signature != 0:
            slot = home_slot(signature, slots)
            while slots[slot, 0] != 0:
                slot = (slot + 1) & (len(slots) - 1)
            slots[slot, 0] = signature
            slots[slot, 1] = old_slots[old_slot, 1]


class Tokenizer:
    """Numbers words in order of first appearance, over any number of sources."""

    def __init__(self, settings: TextSettings) -> None:
        self.characters = tables(settings.tokenizer, settings.lowercase)
        self.on_bad = ON_BAD[settings.on_bad_utf8]
        self.state = np.zeros(STATE_WIDTH, int64)
        self.table = new_table()
        self.generation = 0  # number of calls of `take_words`
        self.cut_off = b""  # the first bytes of a character that continues in the next chunk

    @property
    def n_types(self) -> int:
        return int(self.state[N_TYPES])

    @property
    def words(self) -> WordList:
        """A copy of all words."""
        starts = self.table.starts[: self.n_types + 1].copy()
        return WordList(self.table.letters[: starts[-1]].tobytes(), starts)

    def enter(self, others: Table, numbers: ndarray) -> None:
        """Write the numbers of the words of another table to `numbers`, int32, where it is -1;
        enters new words.
        """
        unknown = np.flatnonzero(numbers < 0)
        n_bytes = int((others.starts[unknown + 1] - others.starts[unknown]).sum())
        self._reserve(n_bytes, len(unknown))
        enter_words(others, unknown, self.state, self.table, numbers)

    def outgrows(self, memory: int) -> bool:
        """Whether the table of words takes more than `memory` bytes, or will while it grows."""
        if self.n_types == 0:
            return False
        slots = self.table.slots
        grows_soon = 2 * self.n_types >= NEARLY_FULL * len(slots)
        slot_bytes = slots.nbytes
        if grows_soon:
            slot_bytes += 2 * slots.nbytes
        # `words` copies the letters.
        letter_bytes = 2 * int(self.state[WORD_END])
        return letter_bytes + 8 * self.n_types + slot_bytes > memory

    def take_words(self) -> WordList:
        """Empty the table; return its words."""
        words = self.words
        self.table = new_table()
        self.state[[N_TYPES, WORD_END]] = 0
        self.generation += 1
        return words

    def tokenize(self, data: bytes, offset: int, is_last: bool, is_whole: bool = False) -> ndarray:
        """The tokens that end within the data, int32, with END_OF_SENTENCE at line ends.

        offset    bytes of the source before the data
        is_last   whether it is the last data of the source
        is_whole  whether tokens end with bytes of their own instead of white space

        If bad UTF-8 is an error, the tokens end at the first bad byte. Raises `EmbedxError` if
        there are too many distinct words.
        """
        end = b""
        if is_last:
            end = SENTENCE_END if is_whole else b"\n"
        data = self.cut_off + data + end
        self.state[[N_TOKENS, N_BAD, FIRST_BAD, N_TOO_LONG]] = 0
        self.state[SOURCE_OFFSET] = offset - len(self.cut_off)
        out = np.empty(len(data) + 1, np.int32)
        characters = whole_tokens() if is_whole else self.characters
        content = np.frombuffer(data, uint8)
        p = 0
        is_incomplete = False
        while p < len(data) and not is_incomplete:
            stop = min(p + BLOCK_BYTES, len(data))
            self._reserve(stop - p)
            begin = p
            p = scan(content[:stop], begin, self.on_bad, characters, self.state, self.table, out)
            # The rest of the character is in the next chunk.
            is_incomplete = p == begin
            longest = int(self.table.starts[self.n_types]) + MAX_WORD_BYTES
            # Of a word that is too long, only the length matters.
            self.state[WORD_END] = min(int(self.state[WORD_END]), longest + 1)
            if self.state[N_BAD] and self.on_bad == ERROR:
                break
        self.cut_off = data[p:]
        return out[: self.state[N_TOKENS]].copy()

    def _reserve(self, n_bytes: int, n_words: int = 1) -> None:
        """Grow tables that may become full. A byte appends at most three (a bad one as U+FFFD)."""
        n_letters = int(self.state[WORD_END]) + 3 * n_bytes
        n_types = self.n_types + n_words - 1
        letters, starts, slots = self.table
        if n_letters > len(letters):
            letters = grown(letters, n_letters)
        if n_types + 2 > len(starts):
            if n_types >= MAX_TYPES:
                raise too_many_words()
            starts = grown(starts, n_types + 2)
        while 2 * n_types >= len(slots):
            larger = np.zeros((2 * len(slots), 2), int64)
            rehash(slots, larger)
            slots = larger
        self.table = Table(letters, starts, slots)


def new_table() -> Table:
    """A table without words."""
    return Table(
        np.zeros(INITIAL_LETTERS, uint8),
        np.zeros(INITIAL_TYPES + 1, int64),
        np.zeros((2 * INITIAL_TYPES, 2), int64),
    )


def grown(array: ndarray, needed: int) -> ndarray:
    """A copy with a capacity of `needed` elements, or 1.5 times its size if that is more; new
    elements are 0.
    """
    new = np.zeros(max(needed, len(array) * 3 // 2), array.dtype)
    new[: len(array)] = array
    return new
