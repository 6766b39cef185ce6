"""Work on the rows of a request or a data set, a block at a time, by several threads."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy import float32, ndarray
from scipy.sparse import csr_matrix

from embedx.runtime.cores import usable_cores
from embedx.runtime.progress import Progress

# The best labels of each row, int32 (n, k), and their probabilities or scores.
Best = tuple[ndarray, ndarray]
# Rows of a request, which one thread answers.
FEW_ROWS = 8


def joined_blocks(best: Iterable[Best]) -> Best:
    """The rows of all blocks."""
    ids, p = zip(*best, strict=True)
    return np.concatenate(ids), np.concatenate(p)


def rows_of(features: Any, rows: slice) -> Any:
    """These rows of features: those themselves where they are all, as of a request, because a copy
    takes longer than its answer.
    """
    if rows == slice(0, features.shape[0]):
        return features
    return features[rows]


def as_csr(features: Any) -> csr_matrix:
    """The features as a csr_matrix of float32, without a copy where they are one."""
    if isinstance(features, csr_matrix) and features.dtype == float32:
        return features
    return csr_matrix(features, dtype=float32)


def threads_for(features: Any, threads: int | None) -> int:
    """The number of threads: one where starting others takes longer than they save."""
    if features.shape[0] <= FEW_ROWS:
        return 1
    return threads or usable_cores()


def in_blocks(
    n: int, size: int, work: Callable[[slice], Any], progress: Progress, threads: int = 1
) -> Iterator[tuple[slice, Any]]:
    """(rows, work(rows)) for n rows, a block at a time, in order, by several threads.

    Without rows there is one empty block, so that results have their usual shapes.
    """
    starts = range(0, max(n, 1), size)
    blocks = [slice(start, min(start + size, n)) for start in starts]
    progress.start("predicting", n, "examples")
    if len(blocks) == 1:
        # Starting a thread would take longer than the rows of a request.
        yield blocks[0], work(blocks[0])
        progress.update(n)
        progress.finish()
        return
    with ThreadPoolExecutor(threads) as pool:
        for window in range(0, len(blocks), threads):
            started = blocks[window : window + threads]
            for rows, result in zip(started, pool.map(work, started), strict=True):
                yield rows, result
                progress.update(rows.stop)
    progress.finish()
