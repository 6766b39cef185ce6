"""Integer keys counted in bounded memory: sorted runs go to disk and are merged range by range.

Co-occurring words, pairs of neighbours (collocations) and repeated lines are counted so, and words
that outgrow the memory for them (`embedx.text.spilled_words`) are merged so.
"""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy import int64, ndarray

from embedx.runtime.progress import Progress

BYTES_PER_KEY = 8  # in the buffer
BYTES_PER_ENTRY = 64  # of a run, while it is merged: key, value, and copies in another order
# merged at a time, however little memory there is: each range looks at all runs
MIN_ENTRIES = 1 << 17
SORTED_AT_ONCE = 1 << 20  # keys of a sorted buffer that are counted together


class SortedRuns:
    """Runs of int64 keys, each ascending, with a number beside each key, in two files."""

    def __init__(self, folder: Path, name: str, dtype: Any) -> None:
        self.keys, self.values = folder / f"{name}-keys.bin", folder / f"{name}-values.bin"
        self.dtype = dtype
        self.ends = [0]  # of the runs

    def add(self, blocks: Iterable[tuple[ndarray, ndarray]]) -> None:
        """Write a run: its keys and values, block by block."""
        n = self.ends[-1]
        with self.keys.open("ab") as key_file, self.values.open("ab") as value_file:
            for keys, values in blocks:
                key_file.write(keys.data)
                value_file.write(values.astype(self.dtype, copy=False).data)
                n += len(keys)
        self.ends.append(n)

    def merged(
        self, memory: int, progress: Progress, title: str, unit: str
    ) -> Iterator[tuple[ndarray, ndarray, ndarray]]:
        """Keys, values, and where each group of equal keys begins, a range of keys at a time, in
        about `memory` bytes.

        Keys ascend; of equal keys that of the first run comes first. The files are deleted.
        """
        runs = [slice(first, stop) for first, stop in itertools.pairwise(self.ends) if first < stop]
        if not runs:
            return
        max_entries = max(memory // BYTES_PER_ENTRY, MIN_ENTRIES)
        step = max(max_entries // (2 * len(runs)), 1)
        all_keys = np.memmap(self.keys, int64, "r")
        bounds = np.sort(np.concatenate([all_keys[run][::step] for run in runs]))[
            len(runs) :: len(runs)
        ]
        cuts = [
            [run.start, *(run.start + np.searchsorted(all_keys[run], bounds)).tolist(), run.stop]
            for run in runs
        ]
        done = 0
        progress.start(title, self.ends[-1], unit)
        for parts in zip(*(map(slice, cut, cut[1:]) for cut in cuts), strict=True):
            # mapped again, so that what was read before takes no memory
            files = np.memmap(self.keys, int64, "r"), np.memmap(self.values, self.dtype, "r")
            keys, values = (np.concatenate([file[part] for part in parts]) for file in files)
            order = np.argsort(keys, kind="stable")  # by timsort, which merges runs
            keys, values = keys[order], values[order]
            if len(keys):
                yield keys, values, np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
            progress.update(done := done + len(keys))
        progress.finish()
        self.keys.unlink()
        self.values.unlink()


class Counter:
    """How often each int64 key occurs, exactly, in about `memory` bytes; the rest is in
    `folder`.
    """

    def __init__(self, folder: Path, memory: int) -> None:
        self.memory = memory
        self.buffer = np.empty(max(memory // BYTES_PER_KEY, 1), int64)
        self.n_keys = 0  # in the buffer
        self.runs = SortedRuns(folder, "counted", np.int32)

    def reserve(self, n: int) -> ndarray:
        """A place for the next n keys; `commit` says how many were written there."""
        if self.n_keys + n > len(self.buffer):
            self._write_run()
        if n > len(self.buffer):
            self.buffer = np.empty(n, int64)
        return self.buffer[self.n_keys : self.n_keys + n]

    def commit(self, n: int) -> None:
        """n keys were written to what `reserve` returned."""
        self.n_keys += n

    def counted(
        self, progress: Progress, title: str, unit: str
    ) -> Iterator[tuple[ndarray, ndarray]]:
        """The distinct keys, ascending, and their counts, int64, in blocks; the counter cannot be
        used afterwards.
        """
        self._write_run()
        self.buffer = np.empty(0, int64)
        for keys, counts, first in self.runs.merged(self.memory, progress, title, unit):
            yield keys[first], np.add.reduceat(counts, first, dtype=int64)

    def _write_run(self) -> None:
        keys = self.buffer[: self.n_keys]
        keys.sort()
        parts = (
            keys[start : start + SORTED_AT_ONCE] for start in range(0, self.n_keys, SORTED_AT_ONCE)
        )
        self.runs.add(np.unique(part, return_counts=True) for part in parts)
        self.n_keys = 0
