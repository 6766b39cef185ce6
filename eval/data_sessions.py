"""Sessions of clicks of Diginetica (CIKM Cup 2016), as lines of the numbers of items: from files of
Python's pickle with the sessions to train on, and with all beginnings of those to test on.
"""

import io
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from embedx.errors import DataError
from eval.data_repositories import Repository

DIGINETICA = Repository(
    "https://github.com/CCIIPLab/GCE-GNN",
    "212575302e42d64b8cf0b9ffe1b71b0db398d5be",
    "datasets/diginetica",
)
TRAINING = "all_train_seq.txt"
TEST = "test.txt"


class _PlainReader(pickle.Unpickler):
    """Reads lists and numbers alone: whatever else a pickle names could run code."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        problem = "in a file that should hold lists of numbers alone"
        raise DataError(f"{module}.{name}", None, problem, "do not use that file")


def unpickled(content: bytes) -> Any:
    """The lists in a pickle. Raises `DataError` if it holds anything but lists and numbers."""
    return _PlainReader(io.BytesIO(content)).load()


def whole_sessions(
    beginnings: Sequence[Sequence[int]], next_items: Sequence[int]
) -> Iterator[list[int]]:
    """The sessions whose beginnings these are: of each the longest first, down to one item, each
    with the item after it.
    """
    length_before = 1
    for beginning, item in zip(beginnings, next_items, strict=True):
        if length_before == 1:
            yield [*beginning, item]
        length_before = len(beginning)


def session_lines(sessions: Iterable[Iterable[int]]) -> Iterator[str]:
    """A line for each session."""
    for session in sessions:
        yield " ".join(map(str, session)) + "\n"
