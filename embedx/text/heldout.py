"""Which part of a corpus is held out from training: some tens of contiguous spans, with a border
about each that is not used.

A page keeps to its topic, so that text beside what is held out gives it away: on 100 MB of
Wikipedia (pages of 1,100 words on average) a word that occurs 20 to 100 times comes again within
250 tokens 1,100 times as often as it would anywhere, 140 times at 2,000, 45 times at 4,000, 10
times at 8,000 and no more often than elsewhere from 16,000 on. Tokens of a border are neither
trained on nor scored. BORDER is where 92 % of these excess repetitions are nearer (95 % of those of
rarer words, 79 % at half of it), at the cost of 1.9 % of that corpus. On less text borders are
shorter, so that together they are at most a twentieth of it; where that is too little for a PIECE
on each side they are a tenth of a PIECE of the span itself.

The corpus is cut into as many equal chunks as there are spans, each at a random place of its own
chunk. The number of tokens and the share decide alone, so that the same text is held out whatever
the seed, the settings and the threads. A span ends with a sentence where sentences are marked and
are not very long.

The vocabulary is that of the whole corpus: which words there are is known before anything is held
out. How often they occur is counted without the spans and their borders for all that training and
evaluation make of it: subsampling, noise, trees, initial biases, the unigram model. See
`embedx.text.vocabulary.trained_counts`.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64, ndarray

from embedx.errors import SettingError
from embedx.text.tokenizer import END_OF_SENTENCE

PIECE = 1000  # tokens; what training leaves out is whole pieces of the corpus
SEED = 2**33
# a standard error from so many independent spans is itself within an eighth, as a rule
MAX_SPANS = 40
MIN_SPANS = 8  # as long as that many pieces are held out
SPAN = 2  # pieces that a span has at least where there may be fewer spans
BORDER = 4  # pieces on each side
MAX_DROPPED = 1 / 20  # of the corpus, for borders


class HeldOut(NamedTuple):
    """The part that training never sees."""

    # uint8 (n_pieces,): 1 where a piece is held out or a border, and so is not trained on
    pieces: ndarray
    bounds: ndarray  # int64 (n_spans, 2): first token of each span, and the one after its last
    # int32 (n,): the words of the spans in text order, -1 where one is not of the vocabulary
    words: ndarray
    sentences: ndarray  # int64 (n,): the sentence each word stands in; none is in two spans
    spans: ndarray  # int64 (n,): the number of its span
    counts: ndarray  # int64 (n_words,): how often each word of the vocabulary occurs in `pieces`

    @property
    def n_words(self) -> int:
        """How many words of the vocabulary are scored."""
        return int((self.words >= 0).sum())


def n_pieces(tokens: ndarray) -> int:
    """How many pieces a corpus has."""
    return -(-len(tokens) // PIECE)


def hold_out(tokens: ndarray, remap: ndarray, share: float, n_words: int | None = None) -> HeldOut:
    """A share of the corpus; `remap` int32 (n_types,) makes words of provisional ids, of which
    there are `n_words`, if that is more than the corpus has. Raises `EmbedxError` if too small.
    """
    pieces = np.zeros(n_pieces(tokens), np.uint8)
    spans, border = spans_of(len(pieces), share)
    inside = 0 if border else PIECE // 10
    bounds = []
    for first, last in spans.tolist():
        pieces[first - border : last + border] = 1
        bounds.append(
            whole_sentences(tokens, first * PIECE + inside, min(last * PIECE, len(tokens)) - inside)
        )
    held = np.concatenate([tokens[start:stop] for start, stop in bounds])
    span = np.repeat(np.arange(len(bounds)), [stop - start for start, stop in bounds])
    sentence = np.cumsum((held == END_OF_SENTENCE) | (np.diff(span, prepend=0) != 0))
    is_word = held != END_OF_SENTENCE
    counts = np.zeros(int(remap.max(initial=-1)) + 1 if n_words is None else n_words, int64)
    for place in np.flatnonzero(pieces).tolist():
        piece = tokens[place * PIECE : (place + 1) * PIECE]
        words = remap[piece[piece != END_OF_SENTENCE]]
        counts += np.bincount(words[words >= 0], minlength=len(counts))
    return HeldOut(
        pieces, np.array(bounds), remap[held[is_word]], sentence[is_word], span[is_word], counts
    )


def spans_of(n: int, share: float) -> tuple[ndarray, int]:
    """The spans of a corpus of n pieces, int64 (n_spans, 2), by first piece and the one after the
    last, and how many pieces on each side of them are border. Raises `EmbedxError` if there are no
    two spans.
    """
    held = round(share * n)
    if held < 2:
        problem = f"fewer than 2 of the corpus's {n:,} pieces of {PIECE:,} words"
        remedy = "hold out more, or take a text of its own to `embedx eval --text`"
        raise SettingError("heldout", share, problem, remedy)
    max_dropped = int(MAX_DROPPED * n)
    fewest = min(held, MIN_SPANS)
    with_borders = max_dropped // BORDER  # fewer spans rather than borders below half of BORDER
    n_spans = max(min(held // SPAN, MAX_SPANS, with_borders), fewest)
    longest = -(-held // n_spans)
    # a third, for training, at least
    border = min(max_dropped // (2 * n_spans), BORDER, (n // n_spans - longest) // 3)
    chunk = np.arange(n_spans + 1) * n // n_spans
    length = np.diff(np.arange(n_spans + 1) * held // n_spans)
    spare = np.diff(chunk) - length - 2 * border
    first = (
        chunk[:-1]
        + border
        + (np.random.default_rng(SEED).random(n_spans) * (spare + 1)).astype(int64)
    )
    return np.column_stack([first, first + length]), border


def whole_sentences(tokens: ndarray, start: int, stop: int) -> tuple[int, int]:
    """tokens[start:stop] without the sentences that either end would cut, unless more than a
    quarter of PIECE would be lost.
    """
    quarter = PIECE // 4
    head, tail = tokens[start : start + quarter], tokens[max(stop - quarter, start) : stop]
    begins, ends = np.flatnonzero(head == END_OF_SENTENCE), np.flatnonzero(tail == END_OF_SENTENCE)
    lost = [int(begins[0]) + 1 if len(begins) else 0, len(tail) - int(ends[-1]) if len(ends) else 0]
    return (start + lost[0], stop - lost[1]) if stop - start > 2 * quarter else (start, stop)
