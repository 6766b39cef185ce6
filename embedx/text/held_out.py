"""The part of a corpus that is held out from training: some tens of contiguous spans, each with a
border that is not used.

Text next to a span reveals its words, because pages have topics: on 100 MB of Wikipedia (pages of
1,100 words on average; counted once, not on record) a word with a count of 20 to 100 recurs within
250 tokens 1,100 times as often as by chance, 140 times as often at 2,000 tokens, 45 at 4,000, 10 at
8,000, and no more often from 16,000 on. Tokens of a border are neither trained on nor scored. 92 %
of the excess repetitions are nearer than BORDER (95 % for rarer words; 79 % at half of it), which
costs 1.9 % of that corpus. On less text borders are shorter, at most a twentieth of it together; if
that is less than a PIECE on each side, they are a tenth of a PIECE of the span itself.

The corpus is divided into as many equal chunks as there are spans, with a span at a random place of
each chunk. Only the number of tokens and the share determine the spans, so that the same text is
held out for any seed, settings and threads. A span ends with a sentence if sentences are marked and
not very long.

The vocabulary is that of the whole corpus. Counts for training and evaluation (subsampling, noise,
trees, initial biases, the unigram model) exclude spans and borders, see
`embedx.text.vocabulary.trained_counts`.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import int64, ndarray

from embedx.errors import Setting, SettingError, Text
from embedx.text.tokenizer import END_OF_SENTENCE

PIECE = 1000  # tokens; training leaves out whole pieces of the corpus
SEED = 2**33
# The relative error of a standard error over this many independent spans is about an eighth.
MAX_SPANS = 40
MIN_SPANS = 8  # if at least as many pieces are held out
SPAN = 2  # minimum number of pieces of a span, unless that leaves fewer than MIN_SPANS
BORDER = 4  # pieces on each side
MAX_SHARE = 0.5  # the maximum of --heldout
MAX_DROPPED = 1 / 20  # share of the corpus for borders
USUAL_SHARE = 0.01  # of a long text
MAX_USUAL_SHARE = 0.1  # if at least two pieces are held out


class HeldOut(NamedTuple):
    """The held-out part of a corpus."""

    # uint8 (n_pieces,): 1 where a piece is held out or a border, and so is not trained on
    pieces: ndarray
    bounds: ndarray  # int64 (n_spans, 2): first token of each span, and the one after its last
    # int32 (n,): the words of the spans in text order, -1 for words out of the vocabulary
    words: ndarray
    sentences: ndarray  # int64 (n,): the sentence of each word; none is in two spans
    spans: ndarray  # int64 (n,): the span of each word
    counts: ndarray  # int64 (n_words,): the count of each word of the vocabulary in `pieces`

    @property
    def n_words(self) -> int:
        """The number of words that are scored: those in the vocabulary."""
        return int((self.words >= 0).sum())


def n_pieces(tokens: ndarray) -> int:
    """The number of pieces of a corpus."""
    return -(-len(tokens) // PIECE)


def usual_share(n: int) -> float | None:
    """The share to hold out of n pieces: one of a hundred; of fewer pieces MIN_SPANS pieces, but at
    most a tenth, and at least two pieces. None of a text that is too short to hold out two.
    """
    if n < 2 / MAX_SHARE:
        return None
    share = max(USUAL_SHARE, min(MIN_SPANS / n, MAX_USUAL_SHARE), 2 / n)
    return math.ceil(100 * share) / 100


def hold_out(tokens: ndarray, remap: ndarray, share: float, n_words: int | None = None) -> HeldOut:
    """Hold out a share of the corpus. Raises `EmbedxError` if the corpus is too small.

    remap    int32 (n_types,): the word of each provisional id
    n_words  size of the vocabulary, if that is more than the corpus has
    """
    pieces = np.zeros(n_pieces(tokens), np.uint8)
    spans, border = spans_of(len(pieces), share)
    border_in_span = 0 if border else PIECE // 10  # tokens
    bounds = []
    for first, last in spans.tolist():
        pieces[first - border : last + border] = 1
        start = first * PIECE + border_in_span
        stop = min(last * PIECE, len(tokens)) - border_in_span
        bounds.append(whole_sentences(tokens, start, stop))

    held_out = np.concatenate([tokens[start:stop] for start, stop in bounds])
    span = np.repeat(np.arange(len(bounds)), [stop - start for start, stop in bounds])
    is_end = held_out == END_OF_SENTENCE
    sentence = np.cumsum(is_end | (np.diff(span, prepend=0) != 0))
    if n_words is None:
        n_words = int(remap.max(initial=-1)) + 1
    return HeldOut(
        pieces=pieces,
        bounds=np.array(bounds),
        words=remap[held_out[~is_end]],
        sentences=sentence[~is_end],
        spans=span[~is_end],
        counts=_counts_in_pieces(tokens, remap, pieces, n_words),
    )


def _counts_in_pieces(tokens: ndarray, remap: ndarray, pieces: ndarray, n_words: int) -> ndarray:
    """The count of each word in the pieces that are marked, int64 (n_words,)."""
    counts = np.zeros(n_words, int64)
    for number in np.flatnonzero(pieces).tolist():
        piece = tokens[number * PIECE : (number + 1) * PIECE]
        words = remap[piece[piece != END_OF_SENTENCE]]
        counts += np.bincount(words[words >= 0], minlength=n_words)
    return counts


def spans_of(n: int, share: float) -> tuple[ndarray, int]:
    """(spans, border) for a corpus of n pieces: the first piece of each span and the one after its
    last, int64 (n_spans, 2), and the number of border pieces on each side.

    Raises `EmbedxError` if there would be fewer than two spans.
    """
    n_held_out = round(share * n)
    if n_held_out < 2:
        problem = f"fewer than 2 of the corpus's {n:,} pieces of {PIECE:,} words"
        raise SettingError("heldout", share, problem, _hold_out_more(n))
    max_dropped = int(MAX_DROPPED * n)
    max_spans_with_borders = max_dropped // BORDER  # of half of BORDER or more on each side
    n_spans = min(n_held_out // SPAN, MAX_SPANS, max_spans_with_borders)
    n_spans = max(n_spans, min(n_held_out, MIN_SPANS))
    max_length = -(-n_held_out // n_spans)
    # At least a third of a chunk is for training.
    border = min(max_dropped // (2 * n_spans), BORDER, (n // n_spans - max_length) // 3)

    edges_of_chunks = np.arange(n_spans + 1) * n // n_spans
    lengths = np.diff(np.arange(n_spans + 1) * n_held_out // n_spans)
    n_spare = np.diff(edges_of_chunks) - lengths - 2 * border
    offsets = (np.random.default_rng(SEED).random(n_spans) * (n_spare + 1)).astype(int64)
    first = edges_of_chunks[:-1] + border + offsets
    return np.column_stack([first, first + lengths]), border


def _hold_out_more(n: int) -> Text:
    """What to do where the share held out of a corpus of n pieces is too small."""
    enough = math.ceil(200 / n) / 100
    if enough > MAX_SHARE:
        return "take a longer text"
    return ("give ", Setting("heldout", enough), " or more, or take a longer text")


def whole_sentences(tokens: ndarray, start: int, stop: int) -> tuple[int, int]:
    """The range start:stop without the sentences that it cuts at its ends, unless that loses more
    than a quarter of PIECE.
    """
    quarter = PIECE // 4
    if stop - start <= 2 * quarter:
        return start, stop
    ends_in_head = np.flatnonzero(tokens[start : start + quarter] == END_OF_SENTENCE)
    ends_in_tail = np.flatnonzero(tokens[stop - quarter : stop] == END_OF_SENTENCE)
    begin = start
    end = stop
    if len(ends_in_head):
        begin = start + int(ends_in_head[0]) + 1
    if len(ends_in_tail):
        end = stop - quarter + int(ends_in_tail[-1])
    return begin, end
