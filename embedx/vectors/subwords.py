"""Vectors for words that were never seen, from those of their character n-grams; see
`embedx.text.ngrams`.
"""

from typing import NamedTuple

import numpy as np

from embedx.text.ngrams import NGrams, encoded, fnv1a


class Subwords(NamedTuple):
    """The vectors of n-grams, by their bucket.

    rows     float32 (n, dim)
    buckets  int32 (n,), ascending: that of each row
    """

    ngrams: NGrams
    rows: np.ndarray
    buckets: np.ndarray

    def vector(self, word: str) -> np.ndarray | None:
        """The mean of the vectors of a word's n-grams, float32 (dim,): of a word that is not in the
        vocabulary, for it has no row of its own. Buckets of no word of the vocabulary count as
        zeros. None where no n-gram has a vector.
        """
        wanted = np.array(self.ngrams.buckets(word), np.int64)
        first = np.searchsorted(self.buckets, wanted, "left")
        end = np.searchsorted(self.buckets, wanted, "right")
        is_stored = first < end
        if not is_stored.any():
            return None
        total = self.rows[first[is_stored]].sum(axis=0, dtype=np.float32)
        return total / np.float32(len(wanted))

    def ngram_vector(self, ngram: str) -> np.ndarray:
        """The vector of an n-gram's bucket, float32 (dim,); zeros where it has none."""
        bucket = fnv1a(encoded(ngram)) % self.ngrams.n_buckets
        row = np.searchsorted(self.buckets, bucket)
        if row < len(self.buckets) and self.buckets[row] == bucket:
            return np.asarray(self.rows[row])
        return np.zeros(self.rows.shape[1], np.float32)
