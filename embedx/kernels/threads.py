"""Work in parallel threads, for compiled code without the GIL."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

# Parts for each thread, where equal parts take unequal times: the others share what is left.
PARTS_PER_THREAD = 4


def in_threads(work: Callable[..., Any], threads: int, *arguments: Iterable[Any]) -> list[Any]:
    """The results of `work` for successive arguments, like `map`, in order.

    A single thread is the caller's own: starting another takes a quarter of a millisecond.
    """
    if threads == 1:
        return list(map(work, *arguments))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, *arguments))


def in_parts(
    work: Callable[[int, int], Any], n: int, threads: int, parts_per_thread: int = 1
) -> list[Any]:
    """The results of work(begin, end) on equal parts of range(n), at most n.

    parts_per_thread  more than one where equal parts take unequal times
    """
    threads = max(min(threads, n), 1)
    n_parts = min(threads * parts_per_thread, n) if threads > 1 else 1
    edges = np.linspace(0, n, n_parts + 1).astype(np.int64)
    return in_threads(work, threads, edges[:-1], edges[1:])
