"""The words of a corpus as they lie in memory: letters one after the other, each word made a string only when it is asked for.

A string of its own takes 60 bytes and more; of twenty million words, most are seen once or twice and never asked for.
"""

import mmap
from collections.abc import Iterable, Iterator, Sequence
from typing import Self, overload

import numpy as np

AT_ONCE = 1 << 18  # words, or bytes of letters, that are looked at together
SEED = 0x5EED


class WordList(Sequence[str]):
    """Words by provisional id, which is by first appearance.

    letters  bytes of all words in UTF-8, lone surrogates as Python has them; they may be mapped from a file
    starts   int64 (n_words + 1,): where each begins
    """

    def __init__(self, letters: bytes | mmap.mmap, starts: np.ndarray) -> None:
        self.letters, self.starts = letters, starts

    @classmethod
    def of(cls, words: Iterable[str]) -> Self:
        """A list of any strings."""
        letters = [word.encode("utf-8", "surrogatepass") for word in words]
        return cls(b"".join(letters), np.cumsum([0, *map(len, letters)], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, which: int) -> str: ...
    @overload
    def __getitem__(self, which: slice) -> list[str]: ...
    def __getitem__(self, which: int | slice) -> str | list[str]:
        if isinstance(which, slice):
            return self.at(np.arange(len(self))[which])
        if not -len(self) <= which < len(self):
            raise IndexError(f"word {which} of {len(self):,}")
        return self.at(np.array([which % len(self)]))[0]

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), AT_ONCE):
            yield from self.at(np.arange(first, min(first + AT_ONCE, len(self))))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def at(self, ids: np.ndarray) -> list[str]:
        """The words of int64 `ids`."""
        letters, starts, ends = self.letters, self.starts[ids].tolist(), self.starts[ids + 1].tolist()
        return [letters[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends, strict=True)]

    def check(self) -> None:
        """Raise UnicodeDecodeError unless each word is UTF-8, lone surrogates as Python has them."""
        for first in range(0, len(self), AT_ONCE):
            self.at(np.arange(first, min(first + AT_ONCE, len(self))))

    def has_twins(self) -> bool:
        """Whether some word stands there twice, told by hashes, and where these are alike by the words."""
        hashes = self._hashes()
        hashes.sort()  # in place, and as a rule that is enough: what tells whose they are takes twice the memory
        if not (hashes[1:] == hashes[:-1]).any():
            return False
        hashes = self._hashes()
        order = np.argsort(hashes, kind="stable")
        alike = np.flatnonzero(np.diff(hashes[order]) == 0)
        doubtful = self.at(order[np.union1d(alike, alike + 1)]) if len(alike) else []
        return len(set(doubtful)) < len(doubtful)

    def _hashes(self) -> np.ndarray:
        """uint64 (n_words,): sums of the letters, each times a random factor that belongs to its place."""
        parts = (self.starts[first : first + AT_ONCE + 1] for first in range(0, len(self), AT_ONCE))
        longest = max((int(np.diff(part).max()) for part in parts), default=1)
        rng = np.random.default_rng(SEED)
        factors = rng.integers(1, 2**64, max(longest, 1), dtype=np.uint64) | np.uint64(1)
        letters = np.frombuffer(self.letters, np.uint8)
        hashes = np.zeros(len(self), np.uint64)
        first = 0
        while first < len(self):
            last = int(np.searchsorted(self.starts, self.starts[first] + AT_ONCE, side="right")) - 1
            last = min(max(last, first + 1), len(self))
            offsets, n = self.starts[first:last] - self.starts[first], np.diff(self.starts[first : last + 1])
            place = np.arange(int(n.sum())) - np.repeat(offsets, n)
            values = (letters[self.starts[first] : self.starts[last]].astype(np.uint64) + np.uint64(1)) * factors[place]
            totals = np.concatenate((np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)))
            hashes[first:last] = totals[offsets + n] - totals[offsets]
            first = last
        return hashes
