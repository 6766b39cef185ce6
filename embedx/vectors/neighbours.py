"""The nearest words of a word, and which of them are too rare to be relied on."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from embedx.errors import SettingError
from embedx.vectors.model import COUNT, WordVectors
from embedx.vectors.uncertainty import INTERVAL, Uncertainty

# A word and its cosine.
Neighbour = tuple[str, float]

# Occurrences from which the vector of a word is reliable.
RELIABLE_COUNT = 20
# Occurrences from which a word is frequent.
FREQUENT_COUNT = 200


class NeighbourSearch(NamedTuple):
    """Which neighbours of a word are listed.

    restrict   only those among this number of the most frequent words
    excluded   words that are left out
    min_count  only words that occur at least this often
    uncertainty  what tells the intervals of cosines, if they are wanted
    """

    vectors: WordVectors
    top_k: int
    restrict: int | None
    excluded: Sequence[str]
    min_count: int | None = None
    uncertainty: Uncertainty | None = None

    def neighbours(self, word: str) -> list[Neighbour]:
        """The nearest words of a word."""
        vectors = self.vectors
        query = vectors[word]
        left_out = {vectors.spelled(name) for name in (word, *self.excluded)}
        nearest = vectors.similar_by_vector(query, self.top_k + len(left_out), self.n_candidates)
        return [(name, cosine) for name, cosine in nearest if name not in left_out][: self.top_k]

    def bounds(self, word: str, neighbours: Sequence[Neighbour]) -> list[tuple[float, float]]:
        """The 95 % intervals of the cosines of a word's neighbours; none without `uncertainty`."""
        if self.uncertainty is None:
            return []
        names = [name for name, _ in neighbours]
        errors = INTERVAL * self.uncertainty.of_cosines(word, names)
        cosines = np.array([cosine for _, cosine in neighbours])
        lows = np.maximum(cosines - errors, -1).tolist()
        highs = np.minimum(cosines + errors, 1).tolist()
        return list(zip(lows, highs, strict=True))

    @property
    def n_candidates(self) -> int:
        """How many of the words, from the most frequent on, may be neighbours."""
        n_words = len(self.vectors)
        if self.restrict is not None:
            n_words = min(n_words, self.restrict)
        if self.min_count is not None:
            n_frequent = self.vectors.n_frequent(self.min_count)
            if n_frequent == 0:
                problem = "no word of the model occurs so often"
                raise SettingError("min_count", self.min_count, problem)
            n_words = min(n_words, n_frequent)
        return n_words

    def rare_neighbours(self, neighbours_of_word: Mapping[str, Sequence[Neighbour]]) -> list[str]:
        """The neighbours of frequent words that are too rare to have reliable vectors, if the
        counts of words are known and no smallest one was given.
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
