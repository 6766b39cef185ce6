"""The words of a corpus as they lie in memory: letters one after the other, each word made a string
only when it is used.

A string of its own takes 60 bytes and more; of twenty million words, most are seen once or twice
and never used.
"""

import mmap
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from embedx.errors import DataError

AT_ONCE = 1 << 18  # words that are made strings together


class WordList(Sequence[str]):
    """Words by provisional id, which is by first appearance.

    letters  bytes of all words in UTF-8, lone surrogates as Python has them; they may be mapped
             from a file
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

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice):
            return self.at(np.arange(len(self))[which])
        return self.at(np.array([range(len(self))[which]]))[0]

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), AT_ONCE):
            yield from self.at(np.arange(first, min(first + AT_ONCE, len(self))))

    def at(self, ids: np.ndarray) -> list[str]:
        """The words of int64 `ids`."""
        letters, starts, ends = (
            self.letters,
            self.starts[ids].tolist(),
            self.starts[ids + 1].tolist(),
        )
        return [
            letters[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends, strict=True)
        ]


def check_words(words: object, number: int, argument: str) -> None:
    """Raise `DataError` for what is no list of strings.

    number    of the list, from 1, in an argument of a function
    argument  its name
    """
    for word in check_is_list(words, number, argument):
        if not isinstance(word, str):
            problem = f"number {number:,} has {reprlib.repr(word)} among its words"
            raise DataError(argument, None, problem, "give strings")


def check_is_list(words: object, number: int, argument: str) -> Iterable[Any]:
    """The words. Raises `DataError` for a string, and for a missing value in place of a list."""
    if isinstance(words, str):
        problem = f"number {number:,} is the string {reprlib.repr(words)}"
        raise DataError(argument, None, problem, "give a list of words: split the text")
    if isinstance(words, bytes) or not isinstance(words, Iterable):
        problem = f"number {number:,} is {reprlib.repr(words)}, not a list of words"
        raise DataError(argument, None, problem, "leave missing ones out")
    return words
