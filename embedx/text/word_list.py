"""The words of a corpus, stored as bytes in one array; strings are created on use.

A string takes at least 60 bytes, and most of twenty million words occur once or twice and are never
used.
"""

import mmap
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from embedx.errors import DataError

# Number of words converted to strings at a time in iterations.
WORDS_PER_STEP = 1 << 18


class WordList(Sequence[str]):
    """Words by provisional id, numbered in the order of their first appearance.

    letters  bytes of all words in UTF-8, with lone surrogates encoded by `surrogatepass`; may be
             mapped from a file
    starts   int64 (n_words + 1,): where each begins
    """

    def __init__(self, letters: bytes | mmap.mmap, starts: np.ndarray) -> None:
        self.letters = letters
        self.starts = starts

    @classmethod
    def of(cls, words: Iterable[str]) -> Self:
        """The word list of any strings."""
        letters = [word.encode("utf-8", "surrogatepass") for word in words]
        return cls(b"".join(letters), np.cumsum([0, *map(len, letters)], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.at(np.arange(len(self))[index])
        return self.at(np.array([range(len(self))[index]]))[0]

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), WORDS_PER_STEP):
            yield from self.at(np.arange(first, min(first + WORDS_PER_STEP, len(self))))

    def at(self, ids: np.ndarray) -> list[str]:
        """The words with the ids `ids`, int64."""
        starts = self.starts[ids].tolist()
        ends = self.starts[ids + 1].tolist()
        return [
            self.letters[start:end].decode("utf-8", "surrogatepass")
            for start, end in zip(starts, ends, strict=True)
        ]


def check_words(words: object, number: int, argument: str) -> None:
    """Raise `DataError` unless these are a list of strings.

    number    the place of the list, from 1, in an argument of a function
    argument  the name of that argument
    """
    for word in check_is_list(words, number, argument):
        if not isinstance(word, str):
            problem = f"number {number:,} has {reprlib.repr(word)} among its words"
            raise DataError(argument, None, problem, "give strings")


def check_is_list(words: object, number: int, argument: str) -> Iterable[Any]:
    """The words. Raises `DataError` if they are a string, or a missing value."""
    if isinstance(words, str):
        problem = f"number {number:,} is the string {reprlib.repr(words)}"
        raise DataError(argument, None, problem, "give a list of words: split the text")
    if isinstance(words, bytes) or not isinstance(words, Iterable):
        problem = f"number {number:,} is {reprlib.repr(words)}, not a list of words"
        raise DataError(argument, None, problem, "leave missing ones out")
    return words
