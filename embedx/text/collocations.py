"""Collocations: words that occur next to each other so often that they are one expression, such as
`new york`.

A pair is two words of a sentence that are adjacent, or have only connector words (`of`, `the`)
between them. Connector words are part of the expression, but not of its score. With c the number of
occurrences of a word, or of a pair with its connector words:

    word2phrase  (c(ab) - m) / (c(a) c(b)) · K        Mikolov et al. 2013, eq. 6, scaled as in
                                                      gensim: m the minimum count, K the number of
                                                      distinct words and pairs
    npmi         ln(p(ab) / (p(a) p(b))) / -ln p(ab)  Bouma 2009, p = c / number of tokens, for
                                                      c(ab) >= m

A pair whose score is above the threshold is a collocation. Pairs are counted in bounded memory
(`embedx.text.counting`) by codes of 63 bits:

    id of the first word | number of the sequence of connector words between | id of the second word

A sequence of connector words that is too long for its number ends an expression.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy import int32, int64, ndarray

from embedx.kernels import kernel, kernel_part
from embedx.runtime.disk import amount
from embedx.runtime.memory import available_memory
from embedx.runtime.progress import Progress
from embedx.text.counting import BYTES_PER_KEY, Counter
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.phrase_list import Collocation
from embedx.text.settings import PhraseSettings

CHUNK = 1 << 20  # tokens between two updates of the progress
MAX_SEQUENCE_BITS = 32
MEMORY_SHARE = 0.5  # share of the free memory that pairs may use


class Pairs(NamedTuple):
    """The encoding of pairs. The number of a sequence of connector words has a digit for each word;
    it is 0 without any.
    """

    connector: ndarray  # int32 (n_words,): the digit of a connector word, from 1; 0 for other words
    base: int  # base of the numbers of sequences
    word_bits: int
    sequence_bits: int

    def code(self, ids: Sequence[int]) -> int:
        """The code of a pair from the ids of its words and the connectors between; -1 if these ids
        are no pair.
        """
        tokens = np.array(ids, int32)
        tokens.setflags(write=False)  # like tokens of a corpus: a second type would compile again
        code, last = pair_at(tokens, 0, self)
        return code if last == len(ids) - 1 else -1

    def between(self, code: int, connectors: Sequence[str]) -> tuple[str, ...]:
        """The connector words of a pair; `connectors` by digit, from 1."""
        number = (code >> self.word_bits) & ((1 << self.sequence_bits) - 1)
        words: tuple[str, ...] = ()
        while number:
            number, digit = divmod(number, self.base)
            words = (connectors[digit - 1], *words)
        return words


def pairs_of(words: Sequence[str], connectors: Sequence[str]) -> Pairs:
    """The codes of the pairs of `words`, by id."""
    digits = {word: digit for digit, word in enumerate(connectors, 1)}
    connector = np.fromiter((digits.get(word, 0) for word in words), int32, len(words))
    word_bits = len(words).bit_length()
    return Pairs(
        connector, len(connectors) + 1, word_bits, min(63 - 2 * word_bits, MAX_SEQUENCE_BITS)
    )


def find(
    corpus: EncodedCorpus, settings: PhraseSettings, folder: Path, progress: Progress
) -> list[Collocation]:
    """The collocations of a corpus, the highest score first.

    folder  for pairs that do not fit into memory
    """
    pairs = pairs_of(corpus.words, settings.connectors)
    codes, times, n_pairs = _frequent_pairs(corpus.tokens, pairs, settings, folder, progress)
    first = codes >> (pairs.word_bits + pairs.sequence_bits)
    last = codes & ((1 << pairs.word_bits) - 1)
    n_strings = int(np.count_nonzero(pairs.connector == 0)) + n_pairs
    counts = corpus.counts
    n_tokens = int(counts.sum())
    scores = scores_of(counts[first], counts[last], times, n_strings, n_tokens, settings)

    accepted = np.flatnonzero(scores > settings.threshold)
    columns = (codes[accepted].tolist(), times[accepted].tolist(), scores[accepted].tolist())
    collocations = [
        Collocation((a, *pairs.between(code, settings.connectors), b), n, score)
        for a, b, code, n, score in zip(
            corpus.words.at(first[accepted]), corpus.words.at(last[accepted]), *columns, strict=True
        )
    ]
    return sorted(collocations, key=lambda pair: (-pair.score, -pair.times, pair.words))


def _frequent_pairs(
    tokens: ndarray, pairs: Pairs, settings: PhraseSettings, folder: Path, progress: Progress
) -> tuple[ndarray, ndarray, int]:
    """The codes of the pairs that occur often enough, how often they do, and the number of all
    different pairs.
    """
    memory = int(
        min(
            1e9 * settings.phrase_memory,
            BYTES_PER_KEY * len(tokens),
            MEMORY_SHARE * available_memory(),
        )
    )
    counter = Counter(folder, memory)
    progress.start("counting pairs of words", len(tokens), "tokens")
    for start in range(0, len(tokens), CHUNK):
        stop = min(start + CHUNK, len(tokens))
        counter.commit(write_pairs(tokens, start, stop, pairs, counter.reserve(stop - start)))
        progress.update(stop)
    progress.finish()

    n_pairs = 0
    frequent = [np.empty((0, 2), int64)]
    for codes, times in counter.counted(progress, "merging pairs of words", "pairs"):
        n_pairs += len(codes)
        frequent.append(np.column_stack([codes, times])[times >= settings.phrase_min_count])
    progress.detail(f"{n_pairs:,} different pairs of words, counted in {amount(memory)} of memory")
    codes, times = np.concatenate(frequent).T
    return codes, times, n_pairs


def scores_of(
    a: ndarray, b: ndarray, ab: ndarray, n_strings: int, n_tokens: int, settings: PhraseSettings
) -> ndarray:
    """The scores of pairs, float64, by the formulas of the module's docstring.

    a, b, ab  int64 counts of first words, second words and pairs
    """
    if settings.phrase_scoring == "npmi":
        p_a = a / n_tokens
        p_b = b / n_tokens
        p_ab = ab / n_tokens
        return np.log(p_ab / (p_a * p_b)) / -np.log(p_ab)
    return (ab - settings.phrase_min_count) / (a * b).astype(np.float64) * n_strings


@kernel_part
def pair_at(tokens, at, pairs):
    """(code, place of the second word) of the pair that begins at tokens[at]; (-1, at) if there is
    none.
    """
    word = int64(tokens[at])
    if word < 0 or pairs.connector[word] > 0:
        return int64(-1), at
    sequence = int64(0)
    for place in range(at + 1, tokens.size):
        other = int64(tokens[place])
        if other < 0:
            break
        connector = pairs.connector[other]
        if connector == 0:
            return (((word << pairs.sequence_bits) | sequence) << pairs.word_bits) | other, place
        sequence = sequence * pairs.base + connector
        if sequence >> pairs.sequence_bits:
            break
    return int64(-1), at


@kernel
def write_pairs(tokens, start, stop, pairs, codes):
    """Write the codes of the pairs with their first word in tokens[start:stop]; return their
    number.
    """
    n = 0
    for at in range(start, stop):
        code, _ = pair_at(tokens, at, pairs)
        if code >= 0:
            codes[n] = code
            n += 1
    return n
