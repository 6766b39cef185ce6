"""The words of an encoded corpus that are trained on, those that survive subsampling, and their
window widths.

Both are drawn by epoch and position in the corpus, so that each epoch draws anew and all runs of a
seed draw the same.
"""

from typing import NamedTuple

import numpy as np
from numpy import int32, ndarray, uint64

from embedx.kernels import bits, by_address, high_half, kernel_part, low_half_below
from embedx.text.held_out import PIECE
from embedx.text.tokenizer import END_OF_SENTENCE

LEFT_OUT = -1
# The maximum window. It is not drawn at random: contexts are all words of the sentence within it.
WHOLE_SENTENCE = 1000
LOOKED_AT = 1 << 22  # tokens from which the mean length of sentences is estimated


@by_address
class TokenStream(NamedTuple):
    """The corpus as stored, and the tables that turn its tokens into training words."""

    tokens: ndarray  # int32 (n,): provisional ids, END_OF_SENTENCE between sentences
    word: ndarray  # int32 (n_types,): the word of a provisional id, or LEFT_OUT
    keep: ndarray  # uint32 (n_types,): a word is kept if 32 random bits do not exceed this
    # uint8 (n / PIECE, rounded up): 1 for a piece that is not trained on
    held_out: ndarray


@by_address
class KeptWords(NamedTuple):
    """The kept words of a chunk and its margins."""

    word: ndarray  # int32
    sentence: ndarray  # int32: number of its sentence
    reach: ndarray  # int32: width of its window to each side


def new_words(window: int, n_tokens: int) -> KeptWords:
    """Buffers for the words of chunks of up to `n_tokens` tokens."""
    capacity = n_tokens + 2 * window
    return KeptWords(
        word=np.zeros(capacity, int32),
        sentence=np.zeros(capacity, int32),
        reach=np.zeros(capacity, int32),
    )


def context_words(tokens: ndarray, window: int) -> float:
    """Mean number of context words of a centre without subsampling; exact if windows are drawn and
    sentences long.
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

    Returns (begin and end of the centres in `words`, number of words written, number of tokens of
    the chunk in the vocabulary). Missing words of the left margin are in a sentence of their own.
    Without any centre nothing is written, so that a long run of dropped words is scanned only once.
    """
    begin = window  # the places before are for the left margin
    end, n_seen, sentence = _keep_centres(stream, window, start, stop, key, words, begin)
    if end == begin:
        return 0, 0, 0, n_seen
    n = _keep_right_margin(stream, window, stop, key, words, end, sentence)
    _keep_left_margin(stream, start, key, words, begin)
    return begin, end, n, n_seen


@kernel_part
def _keep_centres(stream, window, start, stop, key, words, begin):
    """Write the words of tokens[start:stop] that survive, from place `begin` on. Returns (their
    end, number of tokens in the vocabulary, number of the last sentence).
    """
    n = begin
    n_seen = 0
    sentence = 0
    for position in range(start, stop):
        if _ends_sentence(stream, position):
            sentence += 1
            continue
        word = stream.word[stream.tokens[position]]
        drawn = bits(key, uint64(position))
        # Without a branch, which the CPU could not predict: the next word replaces one that is not
        # kept.
        words.word[n] = word
        words.sentence[n] = sentence
        words.reach[n] = window if window == WHOLE_SENTENCE else 1 + low_half_below(drawn, window)
        n_seen += word != LEFT_OUT
        n += (word != LEFT_OUT) & _survives(stream, position, drawn)
    return n, n_seen, sentence


@kernel_part
def _keep_right_margin(stream, window, stop, key, words, end, sentence):
    """Write up to `window` words behind the chunk to places from `end` on; return their end."""
    n = end
    position = stop
    while (
        position < stream.tokens.size and n - end < window and not _ends_sentence(stream, position)
    ):
        n += _add_to_margin(stream, position, key, words, n, sentence)
        position += 1
    return n


@kernel_part
def _keep_left_margin(stream, start, key, words, begin):
    """Write words before the chunk to all places before `begin`, as far as there are any."""
    first = begin
    position = start
    while position > 0 and first > 0 and not _ends_sentence(stream, position - 1):
        position -= 1
        first -= _add_to_margin(stream, position, key, words, first - 1, 0)
    words.word[:first] = 0
    words.sentence[:first] = LEFT_OUT


def has_pairs(stream: TokenStream) -> bool:
    """Whether any sentence has two words of the vocabulary, a pair before subsampling."""
    is_after_word = False
    for piece, is_held_out in enumerate(stream.held_out > 0):
        if is_held_out:
            is_after_word = False
            continue
        tokens = stream.tokens[piece * PIECE : (piece + 1) * PIECE]
        is_end = tokens == END_OF_SENTENCE
        is_word = ~is_end & (stream.word[tokens] != LEFT_OUT)
        # Words and ends of sentences in text order, True for a word.
        marks = np.append(is_after_word, is_word[is_word | is_end])
        if (marks[1:] & marks[:-1]).any():
            return True
        is_after_word = bool(marks[-1])
    return False


@kernel_part
def _ends_sentence(stream, position):
    """Whether windows end at the token at `position`: a mark between sentences, or held out."""
    return stream.tokens[position] == END_OF_SENTENCE or stream.held_out[position // PIECE] > 0


@kernel_part
def _survives(stream, position, drawn):
    """Whether the token at `position`, a word of the vocabulary, survives subsampling with these
    random bits.
    """
    return high_half(drawn) <= uint64(stream.keep[stream.tokens[position]])


@kernel_part
def _add_to_margin(stream, position, key, words, n, sentence):
    """Write the token at `position` to place n if it survives; return whether it does."""
    word = stream.word[stream.tokens[position]]
    if word == LEFT_OUT or not _survives(stream, position, bits(key, uint64(position))):
        return False
    words.word[n] = word
    words.sentence[n] = sentence
    return True
