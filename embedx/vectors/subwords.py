"""Vectors for words that were never seen, from those of their character n-grams; see `embedx.text.ngrams`."""

from typing import NamedTuple

import numpy as np

from embedx.errors import EmbedxError
from embedx.text.ngrams import NGrams


class Subwords(NamedTuple):
    """The vectors of n-grams, by their bucket."""

    ngrams: NGrams
    rows: np.ndarray  # float32 (n, dim)
    buckets: np.ndarray | None  # int32 (n,), ascending: of each row; None where row k is that of bucket k

    def vector(self, word: str) -> np.ndarray | None:
        """The mean of the vectors of a word's n-grams, float32 (dim,): of a word that is not in the vocabulary, for it has no
        row of its own. Buckets of no word of the vocabulary count as zeros. None where no n-gram has a vector.
        """
        wanted = place = np.array(self.ngrams.buckets(word), np.int64)
        if self.buckets is not None:
            place = np.searchsorted(self.buckets, wanted)
            is_there = place < len(self.buckets)
            is_there[is_there] = self.buckets[place[is_there]] == wanted[is_there]
            place = place[is_there]
        if len(place) == 0:
            return None
        return np.asarray(self.rows[place].sum(axis=0, dtype=np.float32) / np.float32(len(wanted)))


def check(subwords: Subwords) -> None:
    """Raise `EmbedxError` where buckets and rows do not fit together."""
    buckets = subwords.buckets
    if buckets is None or len(buckets) == 0:
        return
    if not (np.all(buckets[1:] > buckets[:-1]) and buckets[0] >= 0 and buckets[-1] < subwords.ngrams.n_buckets):
        raise EmbedxError(f"not a bucket for each row, ascending, of {subwords.ngrams.n_buckets:,}")
