"""The words of an encoded corpus that training sees: those that survive subsampling, and how far
the window of each reaches.

Both are drawn by position in the corpus, so that every pass draws again and any two runs of a seed
draw the same.
"""

from typing import NamedTuple

import numpy as np
from numpy import int32, ndarray, uint64

from embedx.kernels import bits, by_address, high_half, kernel_part, low_half_below
from embedx.text.heldout import PIECE
from embedx.text.tokenizer import END_OF_SENTENCE

LEFT_OUT = -1
# the widest window, which alone is not drawn: every other word of the sentence, up to this far
WHOLE_SENTENCE = 1000
LOOKED_AT = 1 << 22  # tokens, for the length of sentences


@by_address
class TokenStream(NamedTuple):
    """The corpus as it lies on disk and what makes words of it."""

    tokens: ndarray  # int32 (n,): provisional ids, END_OF_SENTENCE between sentences
    word: ndarray  # int32 (n_types,): the word of a provisional id, or LEFT_OUT
    keep: ndarray  # uint32 (n_types,): kept when 32 random bits do not exceed this
    # uint8 (n / PIECE, rounded up): 1 for a piece of tokens that training must not see
    held_out: ndarray


@by_address
class KeptWords(NamedTuple):
    """The kept words of a chunk and its margins."""

    word: ndarray  # int32
    sentence: ndarray  # int32: which sentence each stands in
    reach: ndarray  # int32: how far each one's window reaches


def new_words(window: int, n_tokens: int) -> KeptWords:
    """Memory for the words of chunks of up to `n_tokens` tokens."""
    capacity = n_tokens + 2 * window
    return KeptWords(*(np.zeros(capacity, int32) for _ in range(3)))


def context_words(tokens: ndarray, window: int) -> float:
    """How many words a centre has around it, before any is left out: exact where windows are drawn
    and sentences long.
    """
    if window != WHOLE_SENTENCE:
        return window + 1
    ends = np.flatnonzero(np.append(tokens[:LOOKED_AT], int32(END_OF_SENTENCE)) == END_OF_SENTENCE)
    lengths = np.diff(ends, prepend=-1) - 1
    return float((lengths * np.minimum(lengths - 1, 2 * window)).sum() / max(lengths.sum(), 1))


@kernel_part
def keep_words(stream, window, start, stop, key, words):
    """Write the words of tokens[start:stop] that survive subsampling, with up to `window` more on
    each side of the chunk.

    Return where the centres begin and end in `words`, how many words were written, and how many
    tokens of the chunk are words at all. Words that the left margin lacks stand in a sentence of
    their own. Without any centre nothing is written: a long run of words left out is walked through
    only once.
    """
    n = window  # those before are for the left margin
    n_seen = sentence = 0
    for position in range(start, stop):
        if _ends_sentence(stream, position):
            sentence += 1
            continue
        word, drawn = stream.word[stream.tokens[position]], bits(key, uint64(position))
        # whether it is kept cannot be predicted: no branch
        words.word[n], words.sentence[n] = word, sentence
        words.reach[n] = window if window == WHOLE_SENTENCE else 1 + low_half_below(drawn, window)
        n_seen += word != LEFT_OUT
        n += (word != LEFT_OUT) & _survives(stream, position, drawn)
    if n == window:
        return 0, 0, 0, n_seen
    last, position = n, stop
    while (
        position < stream.tokens.size and n - last < window and not _ends_sentence(stream, position)
    ):
        n += _add_to_margin(stream, position, key, words, n, sentence)
        position += 1
    first, position = window, start
    while position > 0 and first > 0 and not _ends_sentence(stream, position - 1):
        position -= 1
        first -= _add_to_margin(stream, position, key, words, first - 1, 0)
    words.word[:first], words.sentence[:first] = 0, LEFT_OUT
    return window, last, n, n_seen


def has_pairs(stream: TokenStream) -> bool:
    """Whether two words of the vocabulary stand in one sentence: before subsampling, each is in the
    other's window.
    """
    after_word = False
    for piece, is_held_out in enumerate(stream.held_out > 0):
        tokens = stream.tokens[piece * PIECE : (piece + 1) * PIECE]
        is_word = (
            (tokens != END_OF_SENTENCE) & (stream.word[tokens] != LEFT_OUT) & (not is_held_out)
        )
        words_and_ends = np.append(
            after_word, is_word[is_word | (tokens == END_OF_SENTENCE) | is_held_out]
        )
        if (words_and_ends[1:] & words_and_ends[:-1]).any():
            return True
        after_word = bool(words_and_ends[-1])
    return False


@kernel_part
def _ends_sentence(stream, position):
    """Whether no window reaches across the token at `position`: a mark between sentences, or held
    out.
    """
    return stream.tokens[position] == END_OF_SENTENCE or stream.held_out[position // PIECE] > 0


@kernel_part
def _survives(stream, position, drawn):
    """Whether the token at `position`, a word of the vocabulary, survives subsampling by its random
    bits.
    """
    return high_half(drawn) <= uint64(stream.keep[stream.tokens[position]])


@kernel_part
def _add_to_margin(stream, position, key, words, n, sentence):
    """Write the token at `position` to place n if it is kept; return whether it is."""
    word = stream.word[stream.tokens[position]]
    if word == LEFT_OUT or not _survives(stream, position, bits(key, uint64(position))):
        return False
    words.word[n], words.sentence[n] = word, sentence
    return True
