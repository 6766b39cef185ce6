"""Work in parallel threads, for compiled code without the GIL."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np


def in_threads(work: Callable[..., Any], threads: int, *each: Iterable[Any]) -> list[Any]:
    """The results of `work` for successive arguments, like `map`, in order.

    A single thread is the caller's own: starting another takes a quarter of a millisecond.
    """
    if threads == 1:
        return list(map(work, *each))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, *each))


def in_parts(work: Callable[[int, int], Any], n: int, threads: int) -> list[Any]:
    """The results of work(begin, end) on equal parts of range(n), at most n, one per thread."""
    threads = max(min(threads, n), 1)
    edges = np.linspace(0, n, threads + 1).astype(np.int64)
    return in_threads(work, threads, edges[:-1], edges[1:])
