"""Runs work in several threads, with results in the order of submission."""

import collections
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_order(submitted: Iterator[Future[T]], ahead: int) -> Iterator[T]:
    """Yield the results, with up to `ahead` pending futures. An error of the iterator is raised
    after the results before it.
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
