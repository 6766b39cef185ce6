"""Collocations that were joined to one word each: what a model keeps of them, so that other text is
joined alike.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

JOINED_BY = "_"


class Collocation(NamedTuple):
    """Words that are to be one."""

    words: tuple[str, ...]
    times: int  # that they were seen side by side, before anything was joined in that pass
    score: float

    @property
    def joined(self) -> str:
        """The one word that they become."""
        return JOINED_BY.join(self.words)


@dataclass(frozen=True)
class Phrases:
    """All that it takes to join other text alike."""

    connectors: tuple[str, ...]
    passes: tuple[tuple[Collocation, ...], ...]  # each the highest score first

    def __len__(self) -> int:
        return sum(map(len, self.passes))

    def identity(self) -> Any:
        """What distinguishes them from others, as JSON types."""
        return [
            list(self.connectors),
            [[list(each.words) for each in found] for found in self.passes],
        ]
