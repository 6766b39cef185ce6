"""Collocations that were joined to one word each: what a model keeps of them, so that other text is
joined alike.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

JOINED_BY = "_"


class Collocation(NamedTuple):
    """Words that are to be one.

    times  how often they stand side by side, before anything is joined in that pass
    """

    words: tuple[str, ...]
    times: int
    score: float

    @property
    def joined(self) -> str:
        """The one word that they become."""
        return JOINED_BY.join(self.words)


@dataclass(frozen=True)
class Phrases:
    """All that it takes to join other text alike.

    passes  the collocations that are joined in each pass, the highest score first
    """

    connectors: tuple[str, ...]
    passes: tuple[tuple[Collocation, ...], ...]

    def __len__(self) -> int:
        return sum(map(len, self.passes))

    def identity(self) -> Any:
        """What distinguishes them from others, as JSON types."""
        words = [[list(pair.words) for pair in collocations] for collocations in self.passes]
        return [list(self.connectors), words]
