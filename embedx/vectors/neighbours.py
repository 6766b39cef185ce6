"""The nearest words of a word, and which of them are too rare to be relied on."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from embedx.errors import SettingError
from embedx.vectors.lookup import find_row
from embedx.vectors.model import COUNT, WordVectors
from embedx.vectors.queries import nearest_to_vector
from embedx.vectors.uncertainty import Uncertainty

# A word and its cosine.
Neighbour = tuple[str, float]

# Occurrences from which the vector of a word is reliable.
RELIABLE_COUNT = 20
# Occurrences from which a word is frequent.
FREQUENT_COUNT = 200


class NeighbourSearch(NamedTuple):
    """Which neighbours of a word are listed.

    restrict_vocab  only this number of the most frequent words; None: all
    excluded        words that are left out
    min_count       only words that occur at least this often
    uncertainty     gives the intervals of cosines; None: they are not wanted
    """

    vectors: WordVectors
    top_k: int
    restrict_vocab: int | None
    excluded: Sequence[str]
    min_count: int | None = None
    uncertainty: Uncertainty | None = None

    def neighbours(self, word: str) -> list[Neighbour]:
        """The nearest words of a word. Raises EmbedxError for a word without a vector."""
        vectors = self.vectors
        query = vectors[word]
        rows = {find_row(vectors, name) for name in (word, *self.excluded)}
        excluded = {row for row in rows if row is not None}
        return nearest_to_vector(vectors, query, excluded, self.top_k, self._n_searched())

    def bounds(self, word: str, neighbours: Sequence[Neighbour]) -> list[tuple[float, float]]:
        """The 95 % intervals of the cosines of a word's neighbours; none without `uncertainty`."""
        if self.uncertainty is None:
            return []
        names = [name for name, _ in neighbours]
        half_widths = self.uncertainty.half_widths(word, names)
        cosines = np.array([cosine for _, cosine in neighbours])
        lows = np.maximum(cosines - half_widths, -1).tolist()
        highs = np.minimum(cosines + half_widths, 1).tolist()
        return list(zip(lows, highs, strict=True))

    def _n_searched(self) -> int | None:
        """`restrict_vocab`, or the number of words that occur `min_count` times if that is less."""
        if self.min_count is None:
            return self.restrict_vocab
        n_frequent = self.vectors.n_frequent(self.min_count)
        if n_frequent == 0:
            problem = "no word of the model occurs so often"
            raise SettingError("min_count", self.min_count, problem)
        if self.restrict_vocab is None:
            return n_frequent
        return min(self.restrict_vocab, n_frequent)

    def rare_neighbours(self, neighbours_of_word: Mapping[str, Sequence[Neighbour]]) -> list[str]:
        """The neighbours of frequent words that are too rare to have reliable vectors; none without
        counts of words, and none with `min_count`, by which the user has chosen.
        """
        vectors = self.vectors
        if self.min_count is not None or vectors.counts is None:
            return []
        rare: dict[str, None] = {}
        for word, neighbours in neighbours_of_word.items():
            if word not in vectors or vectors.get_vecattr(word, COUNT) < FREQUENT_COUNT:
                continue
            names = [name for name, _ in neighbours]
            rare |= dict.fromkeys(
                name for name in names if vectors.get_vecattr(name, COUNT) < RELIABLE_COUNT
            )
        return list(rare)
