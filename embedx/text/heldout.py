"""Which part of a corpus is held out from training: pieces of CHUNK tokens, chosen by the hash of their number alone.

So the same text is held out whatever the seed, the settings and the threads. Windows end where a piece does.
"""

from typing import NamedTuple

import numpy as np

from embedx.errors import EmbedxError
from embedx.text.tokenizer import END_OF_SENTENCE

CHUNK = 1000
SEED = 2**33


class HeldOut(NamedTuple):
    """The part that training never sees."""

    chunks: np.ndarray  # uint8 (n_chunks,): 1 where it is held out
    words: np.ndarray  # int32 (n,): its words in text order, -1 where one is not of the vocabulary
    groups: np.ndarray  # int64 (n,): the sentence or the piece each word stands in

    @property
    def n_words(self) -> int:
        return int((self.words >= 0).sum())


def n_chunks(tokens: np.ndarray) -> int:
    """How many pieces a corpus has."""
    return -(-len(tokens) // CHUNK)


def hold_out(tokens: np.ndarray, remap: np.ndarray, share: float) -> HeldOut:
    """A share of the corpus; `remap` int32 (n_types,) makes words of provisional ids. Raises `EmbedxError` if too small."""
    chunks = (np.random.default_rng(SEED).random(n_chunks(tokens)) < share).astype(np.uint8)
    chosen = np.flatnonzero(chunks)
    if len(chosen) < 2:
        raise EmbedxError(
            f"--heldout {share:g}: fewer than 2 of the corpus's {len(chunks):,} pieces of {CHUNK:,} words; hold out more, or "
            "take a text of its own to embedx eval --heldout"
        )
    held = np.concatenate([tokens[c * CHUNK : (c + 1) * CHUNK] for c in chosen])
    piece = np.repeat(chosen, CHUNK)[: len(held)]
    groups = np.cumsum((held == END_OF_SENTENCE) | (np.diff(piece, prepend=piece[0]) != 0))
    is_word = held != END_OF_SENTENCE
    return HeldOut(chunks, remap[held[is_word]], groups[is_word])
