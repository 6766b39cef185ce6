"""Uniform noise: all classes are equally likely, with or without replacement.

Without replacement n distinct classes are drawn among the K - n_excluded that are not excluded; the
expected count of each is n / (K - n_excluded).
"""

from typing import Any

import numpy as np

from embedx.kernels import ZERO, kernel, uniform
from embedx.samplers.alias import AliasSampler
from embedx.samplers.contract import FILTER_SIZE


@kernel
def sample_distinct(data, input_row, stream, first, n, n_excluded, workspace):
    """Draw distinct rows that are not excluded; see `contract`.

    Floyd's algorithm (Bentley & Floyd 1987) over the ranks of the rows that may be drawn; a rank
    becomes a row by skipping the excluded rows below it.
    """
    rows = workspace.rows
    excluded = workspace.excluded
    seen = workspace.seen
    for c in range(1, n_excluded):  # insertion sort
        row = excluded[c]
        at = c
        while at > 0 and excluded[at - 1] > row:
            excluded[at] = excluded[at - 1]
            at -= 1
        excluded[at] = row
    n_free = data.log_expected.size - n_excluded
    n = min(n, n_free)
    for d in range(n):
        last = n_free - n + d
        rank = min(np.int64(uniform(stream, first + np.uint64(d)) * (last + 1)), last)
        # If its place in the filter is unused, the rank is new.
        if seen[rank % FILTER_SIZE] >= 0:
            for before in range(d):
                if rows[before] == rank:
                    rank = last
                    break
        seen[rank % FILTER_SIZE] = d
        rows[d] = rank
    for d in range(n):
        seen[rows[d] % FILTER_SIZE] = -1
    for d in range(n):
        row = np.int64(rows[d])
        for c in range(n_excluded):
            row += excluded[c] <= row
        rows[d] = row
    return n


@kernel
def log_expected_distinct(data, input_row, n_drawn, n_excluded, rows, n, out):
    """Overwrite `out` by log(n_drawn / number of rows that are not excluded); see `contract`."""
    n_free = data.log_expected.size - n_excluded
    log_expected = np.float32(np.log(max(n_drawn, 1) / n_free)) if n_free > 0 else ZERO
    for k in range(n):
        out[k] = log_expected


class Uniform(AliasSampler):
    name = "uniform"
    meaning = "rows drawn uniformly"

    def __init__(self, settings: Any, *, replacement: bool = True) -> None:
        super().__init__(settings, replacement=replacement)
        if not replacement:
            self.sample, self.log_expected_count = sample_distinct, log_expected_distinct

    def probabilities(self, counts: np.ndarray) -> np.ndarray:
        return np.ones(len(counts))
