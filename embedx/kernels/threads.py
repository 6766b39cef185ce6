"""Work shared by threads, which run compiled code side by side."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np


def in_threads(work: Callable[..., Any], threads: int, *each: Iterable[Any]) -> list[Any]:
    """The results of `work` on each of some arguments, in order.

    One thread is the caller's: to start and end another takes a quarter of a millisecond.
    """
    if threads == 1:
        return list(map(work, *each))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, *each))


def in_parts(work: Callable[[int, int], Any], n: int, threads: int) -> list[Any]:
    """The results of work(begin, end) on equal parts of 0..n, one for each of at most n threads."""
    threads = max(min(threads, n), 1)
    edges = np.linspace(0, n, threads + 1).astype(np.int64)
    return in_threads(work, threads, edges[:-1], edges[1:])
