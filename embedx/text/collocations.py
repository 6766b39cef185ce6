"""Collocations: which words stand beside each other so often that they are one expression, such as `new york`.

A pair is two words of a sentence that follow one another, or that only connector words (`of`, `the`) stand between, which are
then a part of the expression but not of its score. With c how often a word, or a pair with what is between, occurs:

    word2phrase  (c(ab) - m) / (c(a) c(b)) · K        Mikolov et al. 2013, eq. 6, as gensim scales it: m the least count, K the
                                                      number of different words and pairs
    npmi         ln(p(ab) / (p(a) p(b))) / -ln p(ab)  Bouma 2009, p = c / number of tokens, where c(ab) >= m

A pair whose score is above the threshold is a collocation. A word is what is written: where a pair reads like a word, or like
another pair, once it is joined (`new_york city` and `new york_city`), they count together, as in gensim's `Phrases`.

Pairs are counted exactly, in a hash table of bounded memory. Where it fills up they are counted in parts: those whose hash
begins alike in one go over the tokens, which only looks at each. The hash is that of the joined string, computed from those of
its words, so that what is written alike is counted in the same part.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from embedx.errors import EmbedxError
from embedx.kernels.compiled import kernel, kernel_part
from embedx.settings import PhraseSettings
from embedx.storage.disk import amount
from embedx.text.joined import JOINED_BY, Collocation
from embedx.text.word_list import WordList
from embedx.training.memory import available_memory
from embedx.training.progress import Progress, Silent

CHUNK = 1 << 22  # tokens between two looks at the progress
BYTES_PER_SLOT = 32  # of the table: 16 there, 16 in the copy that is read out of it
FEWEST_SLOTS = 1 << 6
FULLEST = 0.75
FIRST, BETWEEN, PAIRS, SEQUENCES = range(4)  # places in the state of counting: the open word, what follows it, how many of each
NO_WORD = -1
A, B, M, VALUE = range(4)  # columns of a table: two words, what is between them, and a value that is 0 where a slot is empty
H, G, Q = range(3)  # hashes of a word: its own; what it adds, and by what the hash before is multiplied, after JOINED_BY
PRIME, BASE = 2**31 - 1, 911_382_323  # of a polynomial hash of bytes; products of two residues fit into an int64
HASH_BITS = 31
MIX_A, MIX_B, MIX_M = 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35  # odd, below 2^32: products with 31 bits fit into an int64
MOST_COUNTED = 2**31 - 1


class Sequences:
    """What stands between two words: each different sequence of connector words has a number, the empty one 0."""

    def __init__(self, n_slots: int = 1 << 10) -> None:
        self.table = np.zeros((n_slots, 4), np.int32)  # (sequence, word, 0, longer sequence)
        self.hashes = np.zeros((n_slots // 2 + 1, 2), np.int32)  # G and Q of each
        self.hashes[0, 1] = 1
        self.ends = np.full((n_slots // 2 + 1, 2), NO_WORD, np.int32)  # of each the sequence without its last word, and that

    def grow(self, n: int) -> None:
        """Room for twice as many; there are `n` now, the empty one included."""
        before = self.table[self.table[:, VALUE] > 0]
        hashes, ends = self.hashes, self.ends
        self.__init__(2 * len(self.table))  # type: ignore[misc]
        self.hashes[:n], self.ends[:n] = hashes[:n], ends[:n]
        fill(self.table, before)

    def words_of(self, number: int) -> list[int]:
        """The words of a sequence, in order."""
        found: list[int] = []
        while number > 0:
            number, word = self.ends[number].tolist()
            found.append(word)
        return found[::-1]


def find(
    tokens: np.ndarray,
    words: Sequence[str],
    counts: np.ndarray,
    settings: PhraseSettings,
    progress: Progress | None = None,
) -> list[Collocation]:
    """The collocations of a text, the highest score first.

    tokens    int32: ids of words, END_OF_SENTENCE between sentences
    words     by id; `counts` int64: how often each occurs among the tokens
    Raises `EmbedxError` if there is less memory than the settings allow for.
    """
    progress = progress or Silent()
    connectors = set(settings.connectors)
    is_connector = np.array([word in connectors for word in words]) if connectors else np.zeros(len(words), bool)
    if counts[~is_connector].max(initial=0) > MOST_COUNTED:
        raise EmbedxError("--phrases: a word occurs more often than pairs can be counted; make it one of --connector-words")
    n_words, n_tokens = int((~is_connector).sum()), int(counts.sum())
    compounds = np.array([k for k, word in enumerate(words) if JOINED_BY in word and word not in connectors], np.int32)
    hashes, sequences = word_hashes(words), Sequences()
    totals, n_strings = counts.copy(), n_words - len(compounds)
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for rows, own in _parts(tokens, hashes, is_connector, compounds, sequences, settings, progress):
        times = rows[:, VALUE].astype(np.int64)
        n_strings += len(rows) + len(own)
        if len(compounds):
            n_strings -= _add_up_equal_strings(rows, own, times, totals, counts, hashes, words, sequences)
        often = times >= settings.phrase_min_count
        found.append((rows[often, :VALUE], times[often]))
    pairs, times = (np.concatenate(each) for each in zip(*found, strict=True))
    scores = scores_of(totals[pairs[:, A]], totals[pairs[:, B]], times, n_strings, n_tokens, settings)
    above = np.flatnonzero(scores > settings.threshold)
    named = [
        Collocation((words[a], *(words[each] for each in sequences.words_of(m)), words[b]), int(times[k]), float(scores[k]))
        for k, (a, b, m) in zip(above, pairs[above].tolist(), strict=True)
    ]
    return sorted(named, key=lambda each: (-each.score, -each.times, each.words))


def scores_of(
    a: np.ndarray, b: np.ndarray, ab: np.ndarray, n_strings: int, n_tokens: int, settings: PhraseSettings
) -> np.ndarray:
    """The scores of pairs, float64, from the counts of their words and their own, int64; see above for the formulas."""
    if settings.phrase_scoring == "npmi":
        p_a, p_b, p_ab = a / n_tokens, b / n_tokens, ab / n_tokens
        return np.asarray(np.log(p_ab / (p_a * p_b)) / -np.log(p_ab))
    return np.asarray((ab - settings.phrase_min_count) / (a * b).astype(np.float64) * n_strings)


def _parts(
    tokens: np.ndarray,
    hashes: np.ndarray,
    is_connector: np.ndarray,
    compounds: np.ndarray,
    sequences: Sequences,
    settings: PhraseSettings,
    progress: Progress,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The pairs with their counts, as rows of the table, and the compound words whose hash begins alike, part by part."""
    most = _slots(len(tokens), settings)
    n_slots, is_used = max(most // 2, FEWEST_SLOTS), False  # as a rule half of it is enough
    table = np.zeros((n_slots, 4), np.int32)
    part, bits = 0, 0  # of 2^bits parts
    state = np.zeros(4, np.int64)
    state[SEQUENCES] = 1
    n_pairs = 0
    progress.start("counting pairs of words", None, " tokens")
    done = 0
    while part < 1 << bits:
        if is_used:
            table[:] = 0
        state[FIRST], state[BETWEEN], state[PAIRS] = NO_WORD, 0, 0
        at = 0
        while at < len(tokens) and state[PAIRS] < FULLEST * n_slots:
            stop = min(at + CHUNK, len(tokens))
            before = at
            at = count_pairs(
                tokens, at, stop, hashes, is_connector, sequences.table, sequences.hashes, sequences.ends, table,
                int(FULLEST * n_slots), part, HASH_BITS - bits, state,
            )  # fmt: skip
            done += at - before
            progress.update(done)
            if 2 * state[SEQUENCES] >= len(sequences.table):
                sequences.grow(int(state[SEQUENCES]))
        is_used = True
        if at < len(tokens) and n_slots < most:
            n_slots, is_used = 2 * n_slots, False
            table = np.zeros((n_slots, 4), np.int32)
            continue
        if at < len(tokens):  # the part is too large
            part, bits = 2 * part, bits + 1
            if bits == HASH_BITS:
                raise EmbedxError(f"--phrase-memory {settings.phrase_memory:g}: too little; raise it")
            continue
        n_pairs += int(state[PAIRS])
        own = compounds[hashes[compounds, H] >> (HASH_BITS - bits) == part]
        yield table[table[:, VALUE] > 0], own
        part += 1
    progress.finish()
    parts = "" if bits == 0 else ", a part of them at a time"
    progress.note(f"{n_pairs:,} different pairs of words, counted in {amount(BYTES_PER_SLOT * n_slots)} of memory{parts}")


def _slots(n_tokens: int, settings: PhraseSettings) -> int:
    """How large the table is: for all pairs that there can be, if memory is allowed for so many."""
    n_slots, most = FEWEST_SLOTS, int(1e9 * settings.phrase_memory) // BYTES_PER_SLOT
    while FULLEST * n_slots <= n_tokens and 2 * n_slots <= most:
        n_slots *= 2
    need, have = BYTES_PER_SLOT * n_slots, available_memory()
    if need > have:
        raise EmbedxError(
            f"--phrases: counting pairs would take {amount(need)}, more than the {amount(have)} there are; "
            f"try --phrase-memory {have / 2e9:.2g}"
        )
    return n_slots


def _add_up_equal_strings(
    rows: np.ndarray,
    own: np.ndarray,
    times: np.ndarray,
    totals: np.ndarray,
    counts: np.ndarray,
    hashes: np.ndarray,
    words: Sequence[str],
    sequences: Sequences,
) -> int:
    """Give pairs that are written alike once they are joined, and words like them, the sum of their counts.

    `times` of the pairs in `rows` and `totals` of the words in `own` are written; how many were one too many is returned.
    """
    keys = np.empty(len(rows) + len(own), np.int64)
    hash_pairs(rows, hashes, sequences.hashes, keys)
    keys[len(rows) :] = hashes[own, H]
    in_order = np.sort(keys)
    twice = in_order[1:][in_order[1:] == in_order[:-1]]
    alike: dict[str, list[int]] = {}
    for k in np.flatnonzero(np.isin(keys, twice)).tolist() if len(twice) else ():
        if k < len(rows):
            a, b, m, _ = rows[k].tolist()
            string = JOINED_BY.join(words[each] for each in (a, *sequences.words_of(m), b))
        else:
            string = words[own[k - len(rows)]]
        alike.setdefault(string, []).append(k)
    for group in alike.values():
        pairs, the_word = [k for k in group if k < len(rows)], [own[k - len(rows)] for k in group if k >= len(rows)]
        total = sum(rows[k, VALUE].item() for k in pairs) + sum(counts[word].item() for word in the_word)
        times[pairs] = total
        totals[the_word] = total
    return sum(len(group) - 1 for group in alike.values())


def word_hashes(words: Sequence[str]) -> np.ndarray:
    """H, G and Q of each word, int32 (n_words, 3)."""
    listed = words if isinstance(words, WordList) else WordList.of(words)
    hashes = np.empty((len(words), 3), np.int32)
    starts = listed.starts.view()
    starts.flags.writeable = False  # as where they are mapped: one type, one compilation
    hash_words(np.frombuffer(listed.letters, np.uint8), starts, ord(JOINED_BY), hashes)
    return hashes


# ---- kernels


@kernel
def hash_words(letters, starts, joint, hashes):
    """Write H, G and Q of the words letters[starts[k] : starts[k + 1]]."""
    for k in range(hashes.shape[0]):
        own, power = np.int64(0), np.int64(1)
        for i in range(starts[k], starts[k + 1]):
            own = (own * BASE + np.int64(letters[i]) + 1) % PRIME
            power = power * BASE % PRIME
        hashes[k, H] = own
        hashes[k, G] = ((np.int64(joint) + 1) * power + own) % PRIME
        hashes[k, Q] = power * BASE % PRIME


@kernel_part
def _hash_of_pair(hashes, between, a, b, m):
    """The hash of the joined string."""
    x = (np.int64(hashes[a, H]) * np.int64(between[m, 1]) + np.int64(between[m, 0])) % PRIME
    return (x * np.int64(hashes[b, Q]) + np.int64(hashes[b, G])) % PRIME


@kernel
def hash_pairs(rows, hashes, between, out):
    """Write the hash of each pair to the beginning of `out`."""
    for k in range(rows.shape[0]):
        out[k] = _hash_of_pair(hashes, between, np.int64(rows[k, A]), np.int64(rows[k, B]), np.int64(rows[k, M]))


@kernel_part
def slot_of(table, slot, a, b, m):
    """Where a key is in a table, or is to go; it is sought from `slot` on, of which as many bits count as there are slots."""
    mask = np.int64(table.shape[0] - 1)
    slot &= mask
    while table[slot, VALUE] != 0 and not (table[slot, A] == a and table[slot, B] == b and table[slot, M] == m):
        slot = (slot + 1) & mask
    return slot


@kernel_part
def slot_of_ids(table, a, b, m):
    """The same in a table that is not ordered by the hashes of strings."""
    return slot_of(table, ((np.int64(a) * MIX_A) ^ (np.int64(b) * MIX_B) ^ (np.int64(m) * MIX_M)) >> 20, a, b, m)


@kernel
def fill(table, rows):
    """Put rows into a table that has room for them."""
    for k in range(rows.shape[0]):
        slot = slot_of_ids(table, rows[k, A], rows[k, B], rows[k, M])
        for column in range(4):
            table[slot, column] = rows[k, column]


@kernel
def count_pairs(
    tokens, start, stop, hashes, is_connector, sequences, between, ends, table, most, part, shift, state
):  # fmt: skip
    """Count the pairs of tokens[start:stop] whose hash without its last `shift` bits is `part`; return where it stopped, which
    is earlier where the table has `most` pairs, or there is no room for another sequence.
    """
    a, m, n_pairs, n_sequences = state[FIRST], state[BETWEEN], state[PAIRS], state[SEQUENCES]
    at = start
    while at < stop and n_pairs < most and 2 * n_sequences < sequences.shape[0]:
        word = np.int64(tokens[at])
        if word < 0:
            a = np.int64(NO_WORD)
        elif is_connector[word]:
            if a >= 0:
                slot = slot_of_ids(sequences, m, word, 0)
                if sequences[slot, VALUE] == 0:
                    sequences[slot, A], sequences[slot, B], sequences[slot, M] = m, word, 0
                    sequences[slot, VALUE] = n_sequences
                    ends[n_sequences, 0], ends[n_sequences, 1] = m, word
                    power = np.int64(hashes[word, Q])
                    between[n_sequences, 0] = (np.int64(between[m, 0]) * power + np.int64(hashes[word, G])) % PRIME
                    between[n_sequences, 1] = np.int64(between[m, 1]) * power % PRIME
                    n_sequences += 1
                m = np.int64(sequences[slot, VALUE])
        else:
            if a >= 0:
                h = _hash_of_pair(hashes, between, a, word, m)
                if h >> shift == part:
                    slot = slot_of(table, (h * MIX_A) >> 20, a, word, m)
                    if table[slot, VALUE] == 0:
                        table[slot, A], table[slot, B], table[slot, M] = a, word, m
                        n_pairs += 1
                    table[slot, VALUE] += 1
            a, m = word, np.int64(0)
        at += 1
    state[FIRST], state[BETWEEN], state[PAIRS], state[SEQUENCES] = a, m, n_pairs, n_sequences
    return at
