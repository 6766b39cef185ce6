"""Work done by several threads, its results in the order in which it was submitted."""

import collections
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_order(submitted: Iterator[Future[T]], ahead: int) -> Iterator[T]:
    """The results, with up to `ahead` futures waiting. An error of the iterator is raised after the
    results before it.
    """
    waiting: collections.deque[Future[T]] = collections.deque()
    while True:
        try:
            waiting.append(next(submitted))
        except Exception as error:
            end = error
            break
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
    if not isinstance(end, StopIteration):
        raise end
