"""The collocations that were joined to single words, stored with a model, so that other text is
joined in the same way.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

JOINED_BY = "_"


class Collocation(NamedTuple):
    """Words to be joined to one.

    times  number of times that they are adjacent, before anything is joined in that pass
    """

    words: tuple[str, ...]
    times: int
    score: float

    @property
    def joined(self) -> str:
        """The joined word."""
        return JOINED_BY.join(self.words)


@dataclass(frozen=True)
class Phrases:
    """The collocations to join, in any text, pass by pass.

    passes  the collocations that are joined in each pass, the highest score first
    """

    connectors: tuple[str, ...]
    passes: tuple[tuple[Collocation, ...], ...]

    def __len__(self) -> int:
        return sum(map(len, self.passes))

    def identity(self) -> Any:
        """Their identity, as JSON types, for keys of the cache."""
        words = [[list(pair.words) for pair in collocations] for collocations in self.passes]
        return [list(self.connectors), words]
