"""Collocations: which words stand beside each other so often that they are one expression, such as `new york`.

A pair is two words of a sentence that follow one another, or that only connector words (`of`, `the`) stand between, which are
then a part of the expression but not of its score. With c how often a word, or a pair with what is between, occurs:

    word2phrase  (c(ab) - m) / (c(a) c(b)) · K        Mikolov et al. 2013, eq. 6, as gensim scales it: m the minimum count, K
                                                      the number of different words and pairs
    npmi         ln(p(ab) / (p(a) p(b))) / -ln p(ab)  Bouma 2009, p = c / number of tokens, where c(ab) >= m

A pair whose score is above the threshold is a collocation. Pairs are counted in bounded memory (`embedx.text.counting`) by
codes of 63 bits:

    id of the first word | number of the sequence of connector words between | id of the second word
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from embedx.errors import EmbedxError
from embedx.kernels.compiled import kernel, kernel_part
from embedx.settings import PhraseSettings
from embedx.storage.disk import amount
from embedx.text.counting import BYTES_PER_KEY, Counter
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.phrase_list import Collocation
from embedx.training.memory import available_memory
from embedx.training.progress import Progress

CHUNK = 1 << 20  # tokens between two updates of the progress
MAX_SEQUENCE_BITS = 16
MAX_LONGER = 1 << 26  # entries of `Pairs.longer`; only those that are used take memory


class Pairs(NamedTuple):
    """How pairs are encoded. Sequences of connector words are numbered as they are first seen; the empty one is 0."""

    connector: np.ndarray  # int32 (n_words,): the number of a connector word, from 1; 0 for other words
    longer: np.ndarray  # int32 (max_sequences, n_connectors + 1): the sequence with that connector added, 0 if not seen yet
    n_sequences: np.ndarray  # int64 (1,)
    word_bits: int
    sequence_bits: int

    def code(self, ids: Sequence[int]) -> int:
        """The code of a pair by the ids of its words and of the connectors between; -1 if it is none."""
        tokens = np.array(ids, np.int32)
        tokens.setflags(write=False)  # as those of a corpus: one type, one compilation
        code, last = pair_at(tokens, 0, self)
        return int(code) if last == len(ids) - 1 else -1

    def first_words(self, codes: np.ndarray) -> np.ndarray:
        """The id of the first word of each pair."""
        return codes >> (self.word_bits + self.sequence_bits)

    def last_words(self, codes: np.ndarray) -> np.ndarray:
        """The id of the second word of each pair."""
        return codes & ((1 << self.word_bits) - 1)

    def between(self, codes: np.ndarray, connectors: Sequence[str]) -> list[tuple[str, ...]]:
        """The connector words of each pair; `connectors` by number, from 1."""
        before, added = np.nonzero(self.longer[: self.n_sequences[0]])
        sequences: list[tuple[str, ...]] = [()]
        for k in np.argsort(self.longer[before, added]).tolist():
            sequences.append((*sequences[before[k]], connectors[added[k] - 1]))
        numbers = (codes >> self.word_bits) & ((1 << self.sequence_bits) - 1)
        return [sequences[number] for number in numbers.tolist()]


def pairs_of(words: Iterable[str], n_words: int, connectors: Sequence[str]) -> Pairs:
    """The codes of the pairs of `words`, by id."""
    numbers = {word: number for number, word in enumerate(connectors, 1)}
    connector = np.fromiter((numbers.get(word, 0) for word in words), np.int32, n_words)
    word_bits = n_words.bit_length()
    sequence_bits = min(63 - 2 * word_bits, MAX_SEQUENCE_BITS)
    max_sequences = min(1 << sequence_bits, MAX_LONGER // (len(connectors) + 1))
    longer = np.zeros((max_sequences, len(connectors) + 1), np.int32)
    return Pairs(connector, longer, np.ones(1, np.int64), word_bits, sequence_bits)


def find(corpus: EncodedCorpus, settings: PhraseSettings, folder: Path, progress: Progress) -> list[Collocation]:
    """The collocations of a corpus, the highest score first.

    folder  for the pairs that do not fit into the memory that the settings allow
    Raises `EmbedxError` if less memory than that is available.
    """
    tokens, words, counts = corpus.tokens, corpus.words, corpus.counts
    memory, available = min(int(1e9 * settings.phrase_memory), BYTES_PER_KEY * len(tokens)), available_memory()
    if memory > available:
        raise EmbedxError(
            f"--phrases: counting pairs would take {amount(memory)}, more than the {amount(available)} there are; "
            f"try --phrase-memory {available / 2e9:.2g}"
        )
    pairs = pairs_of(words, len(words), settings.connectors)
    counter = Counter(folder, memory)
    progress.start("counting pairs of words", len(tokens), " tokens")
    for start in range(0, len(tokens), CHUNK):
        stop = min(start + CHUNK, len(tokens))
        counter.commit(write_pairs(tokens, start, stop, pairs, counter.reserve(stop - start)))
        progress.update(stop)
    progress.finish()
    n_pairs, frequent = 0, [np.empty((0, 2), np.int64)]
    for codes, times in counter.counted(progress, "merging pairs of words", " pairs"):
        n_pairs += len(codes)
        frequent.append(np.column_stack([codes, times])[times >= settings.phrase_min_count])
    progress.note(f"{n_pairs:,} different pairs of words, counted in {amount(memory)} of memory")
    codes, times = np.concatenate(frequent).T
    n_strings = int(np.count_nonzero(pairs.connector == 0)) + n_pairs
    first, last = pairs.first_words(codes), pairs.last_words(codes)
    scores = scores_of(counts[first], counts[last], times, n_strings, int(counts.sum()), settings)
    found = np.flatnonzero(scores > settings.threshold)
    named = zip(words.at(first[found]), pairs.between(codes[found], settings.connectors), words.at(last[found]), strict=True)
    collocations = [
        Collocation((a, *between, b), *of_pair)
        for (a, between, b), *of_pair in zip(named, times[found].tolist(), scores[found].tolist(), strict=True)
    ]
    return sorted(collocations, key=lambda each: (-each.score, -each.times, each.words))


def scores_of(
    a: np.ndarray, b: np.ndarray, ab: np.ndarray, n_strings: int, n_tokens: int, settings: PhraseSettings
) -> np.ndarray:
    """The scores of pairs, float64, from the counts of their words and their own, int64; see above for the formulas."""
    if settings.phrase_scoring == "npmi":
        p_a, p_b, p_ab = a / n_tokens, b / n_tokens, ab / n_tokens
        return np.asarray(np.log(p_ab / (p_a * p_b)) / -np.log(p_ab))
    return np.asarray((ab - settings.phrase_min_count) / (a * b).astype(np.float64) * n_strings)


@kernel_part
def pair_at(tokens, at, pairs):
    """The code of the pair whose first word is tokens[at], and where its second word is; (-1, at) if there is none."""
    word = np.int64(tokens[at])
    if word < 0 or pairs.connector[word] > 0:
        return np.int64(-1), at
    sequence = np.int64(0)
    for place in range(at + 1, tokens.size):
        other = np.int64(tokens[place])
        if other < 0:
            break
        connector = pairs.connector[other]
        if connector == 0:
            return (((word << pairs.sequence_bits) | sequence) << pairs.word_bits) | other, place
        longer = np.int64(pairs.longer[sequence, connector])
        if longer == 0:
            longer = pairs.n_sequences[0]
            if longer == pairs.longer.shape[0]:
                break
            pairs.longer[sequence, connector] = longer
            pairs.n_sequences[0] += 1
        sequence = longer
    return np.int64(-1), at


@kernel
def write_pairs(tokens, start, stop, pairs, codes):
    """Write the codes of the pairs whose first word is among tokens[start:stop]; return how many."""
    n = 0
    for at in range(start, stop):
        code, _ = pair_at(tokens, at, pairs)
        if code >= 0:
            codes[n] = code
            n += 1
    return n
