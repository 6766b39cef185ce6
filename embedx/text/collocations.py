"""Collocations: which words stand beside each other so often that they are one expression, such as `new york`.

A pair is two words of a sentence that follow one another, or that only connector words (`of`, `the`) stand between, which are
then a part of the expression but not of its score. With c how often a word, or a pair with what is between, occurs:

    word2phrase  (c(ab) - m) / (c(a) c(b)) · K        Mikolov et al. 2013, eq. 6, as gensim scales it: m the minimum count, K
                                                      the number of different words and pairs
    npmi         ln(p(ab) / (p(a) p(b))) / -ln p(ab)  Bouma 2009, p = c / number of tokens, where c(ab) >= m

A pair whose score is above the threshold is a collocation. A word is what is written: where a pair reads like a word, or like
another pair, once it is joined (`new_york city` and `new york_city`), they count together, as in gensim's `Phrases`.

Pairs are counted by 64-bit hashes of the joined strings, in bounded memory (`embedx.text.counting`); a second pass over the
tokens finds the words of the frequent ones. The hash is polynomial, so that it is computed from those of the words.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from embedx.errors import EmbedxError
from embedx.kernels.compiled import kernel, kernel_part
from embedx.settings import PhraseSettings
from embedx.storage.disk import amount
from embedx.text.counting import BYTES_PER_KEY, Counter
from embedx.text.phrase_list import JOINED_BY, Collocation
from embedx.text.word_list import WordList
from embedx.training.memory import available_memory
from embedx.training.progress import Progress, Silent

CHUNK = 1 << 20  # tokens between two looks at the progress
H, G, Q = range(3)  # of a word: its own hash; with JOINED_BY before it, what it adds and by what the hash before is multiplied
BASE = np.uint64(0x9E3779B97F4A7C15)  # odd: of a polynomial hash of bytes, modulo 2^64
FIRST, LAST = range(2)  # where a pair was seen: its first token and its last
MASK, SPREAD = np.int64((1 << 31) - 1), np.int64(0x9E3779B1)  # products of the two fit into an int64


def find(
    tokens: np.ndarray,
    words: Sequence[str],
    counts: np.ndarray,
    settings: PhraseSettings,
    folder: Path,
    progress: Progress | None = None,
) -> list[Collocation]:
    """The collocations of a text, the highest score first.

    tokens    int32: ids of words, END_OF_SENTENCE between sentences
    words     by id; `counts` int64: how often each occurs among the tokens
    folder    for what does not fit into the memory that the settings allow
    Raises `EmbedxError` if there is less memory than that.
    """
    progress = progress or Silent()
    connectors = set(settings.connectors)
    is_connector = np.array([word in connectors for word in words], np.bool_)
    compounds = np.array([k for k, word in enumerate(words) if JOINED_BY in word and word not in connectors], np.int64)
    hashes = word_hashes(words)
    counter = Counter(folder, _memory(len(tokens), settings), len(tokens))
    for keys, _ in _pairs(tokens, hashes, is_connector, progress, "counting pairs of words"):
        counter.reserve(len(keys))[:] = keys
        counter.commit(len(keys))
    totals, own = counts.copy(), hashes[compounds, H].astype(np.int64)
    n_strings, n_pairs = int((~is_connector).sum()), 0
    frequent = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for keys, times in counter.counted(progress, "merging pairs of words", " pairs"):
        n_pairs += len(keys)
        place = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
        is_here = keys[place] == own  # a pair that reads like a word
        n_strings += len(keys) - int(is_here.sum())
        times[place[is_here]] += counts[compounds[is_here]]
        totals[compounds[is_here]] = times[place[is_here]]
        is_frequent = times >= settings.phrase_min_count
        frequent.append((keys[is_frequent], times[is_frequent]))
    progress.note(f"{n_pairs:,} different pairs of words, counted in {amount(counter.memory)} of memory")
    keys, times = (np.concatenate(each) for each in zip(*frequent, strict=True))
    found, places = _places(tokens, keys, hashes, is_connector, progress)
    times = times[np.searchsorted(keys, found)]
    first, last = places[:, FIRST], places[:, LAST]
    scores = scores_of(totals[tokens[first]], totals[tokens[last]], times, n_strings, int(counts.sum()), settings)
    named = [
        Collocation(tuple(words[each] for each in tokens[first[k] : last[k] + 1].tolist()), int(times[k]), float(scores[k]))
        for k in np.flatnonzero(scores > settings.threshold)
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


def _memory(n_tokens: int, settings: PhraseSettings) -> int:
    """Bytes for counting. Raises `EmbedxError` if there are not so many."""
    need, have = min(int(1e9 * settings.phrase_memory), BYTES_PER_KEY * n_tokens), available_memory()
    if need > have:
        raise EmbedxError(
            f"--phrases: counting pairs would take {amount(need)}, more than the {amount(have)} there are; "
            f"try --phrase-memory {have / 2e9:.2g}"
        )
    return need


def _places(
    tokens: np.ndarray, keys: np.ndarray, hashes: np.ndarray, is_connector: np.ndarray, progress: Progress
) -> tuple[np.ndarray, np.ndarray]:
    """The keys of the different pairs that have one of these keys, and where each is seen first, int64 (n_pairs, 2)."""
    slots, places = hash_table(keys, np.full((len(keys), 2), -1, np.int64))
    n_free = len(keys) + 1  # places for pairs of different words that read alike
    for found, seen in _pairs(tokens, hashes, is_connector, progress, "finding collocations"):
        at = 0
        while at < len(found):
            at, n_free = match_pairs(tokens, found, seen, at, slots, places, n_free)
            if not n_free:
                n_free = int(np.count_nonzero(slots))
                slots, places = hash_table(slots[slots != 0], places[slots != 0])
    is_seen = places[:, FIRST] >= 0
    return slots[is_seen], places[is_seen]


def hash_table(keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An open-addressing table of int64 keys, 0 where a slot is empty, and beside them int64 rows of values; at most a quarter
    is filled.
    """
    n_slots = 1 << (4 * len(keys) + 4).bit_length()
    slots, slot_values = np.zeros(n_slots, np.int64), np.full((n_slots, values.shape[1]), -1, np.int64)
    insert(keys, values, slots, slot_values)
    return slots, slot_values


def _pairs(
    tokens: np.ndarray, hashes: np.ndarray, is_connector: np.ndarray, progress: Progress, title: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The keys of all pairs, and where they are, int64 (n, 2); valid until the next are taken."""
    keys, places, state = np.empty(CHUNK, np.int64), np.empty((CHUNK, 2), np.int64), np.zeros(3, np.uint64)
    progress.start(title, len(tokens), " tokens")
    for start in range(0, len(tokens), CHUNK):
        stop = min(start + CHUNK, len(tokens))
        with np.errstate(over="ignore"):  # hashes wrap, of which numpy warns where this is not compiled
            n = write_pairs(tokens, start, stop, hashes, is_connector, state, keys, places)
        yield keys[:n], places[:n]
        progress.update(stop)
    progress.finish()


def word_hashes(words: Sequence[str]) -> np.ndarray:
    """H, G and Q of each word, uint64 (n_words, 3)."""
    listed = words if isinstance(words, WordList) else WordList.of(words)
    hashes = np.empty((len(words), 3), np.uint64)
    starts = listed.starts.view()
    starts.flags.writeable = False  # as where they are mapped: one type, one compilation
    with np.errstate(over="ignore"):
        hash_words(np.frombuffer(listed.letters, np.uint8), starts, np.uint64(ord(JOINED_BY) + 1), hashes)
    return hashes


# ---- kernels


@kernel
def hash_words(letters, starts, joint, hashes):
    """Write H, G and Q of the words letters[starts[k] : starts[k + 1]]."""
    for k in range(hashes.shape[0]):
        own, power = np.uint64(0), np.uint64(1)
        for i in range(starts[k], starts[k + 1]):
            own = own * BASE + np.uint64(letters[i]) + np.uint64(1)
            power = power * BASE
        hashes[k, H] = own
        hashes[k, G] = joint * power + own
        hashes[k, Q] = power * BASE


@kernel
def write_pairs(tokens, start, stop, hashes, is_connector, state, keys, places):
    """Write the pairs that end in tokens[start:stop]; return how many. `state` keeps the pair that is begun."""
    is_open, h, first = state[0] > 0, state[1], np.int64(state[2])
    n = 0
    for at in range(start, stop):
        word = tokens[at]
        if word < 0:
            is_open = False
            continue
        joined = h * hashes[word, Q] + hashes[word, G]
        if is_connector[word]:
            h = joined
            continue
        if is_open:
            keys[n] = np.int64(joined)
            places[n, FIRST], places[n, LAST] = first, at
            n += 1
        is_open, h, first = True, hashes[word, H], np.int64(at)
    state[0], state[1], state[2] = np.uint64(is_open), h, np.uint64(first)
    return n


@kernel_part
def home_slot(slots, key):
    """Where the search for a key begins in an open-addressing table, in which 0 is empty."""
    return ((((key >> 32) ^ key) & MASK) * SPREAD >> 20) & (slots.size - 1)


@kernel
def insert(keys, key_values, slots, values):
    """Put keys into a table that has enough free slots, each with its values."""
    for k in range(keys.size):
        slot = home_slot(slots, keys[k])
        while slots[slot] != 0:
            slot = (slot + 1) & (slots.size - 1)
        slots[slot] = keys[k]
        for column in range(values.shape[1]):
            values[slot, column] = key_values[k, column]


@kernel
def match_pairs(tokens, keys, seen, at, slots, places, n_free):
    """Note the place of each different pair among keys[at:] that the table has the key of; return where it stopped, which is
    earlier where no slots are free any more, and how many are.
    """
    while at < keys.size and n_free > 0:
        slot = home_slot(slots, keys[at])
        has_key = is_known = False
        while slots[slot] != 0 and not is_known:
            if slots[slot] == keys[at]:
                has_key = True
                if places[slot, FIRST] < 0:
                    places[slot, FIRST], places[slot, LAST] = seen[at, FIRST], seen[at, LAST]
                is_known = _are_equal(tokens, places, slot, seen, at)
            slot = (slot + 1) & (slots.size - 1)
        if has_key and not is_known:
            slots[slot], places[slot, FIRST], places[slot, LAST] = keys[at], seen[at, FIRST], seen[at, LAST]
            n_free -= 1
        at += 1
    return at, n_free


@kernel_part
def _are_equal(tokens, places, k, others, j):
    """Whether the same words stand at places[k] and at others[j]."""
    a, b, n = places[k, FIRST], others[j, FIRST], places[k, LAST] - places[k, FIRST] + 1
    if others[j, LAST] - b + 1 != n:
        return False
    i = 0
    while i < n and tokens[a + i] == tokens[b + i]:
        i += 1
    return i == n
