"""Counts integer keys in bounded memory: sorted runs are written to disk and merged range by range.

Used for co-occurring words, pairs of neighbours (collocations), repeated lines, and to merge tables
of words on disk (`embedx.text.spilled_words`).
"""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy import int64, ndarray

from embedx.runtime.progress import Progress

BYTES_PER_KEY = 8
# Bytes of a key and its value, and of copies of both in another order.
BYTES_PER_MERGED_ENTRY = 64
# Minimum, however little memory there is: every range needs a pass over all runs.
MIN_ENTRIES_PER_RANGE = 1 << 17
# Number of sorted keys that are counted at a time.
KEYS_PER_BLOCK = 1 << 20


class SortedRuns:
    """Ascending runs of int64 keys, each with a value, in two files."""

    def __init__(self, folder: Path, name: str, dtype: Any) -> None:
        self.keys = folder / f"{name}-keys.bin"
        self.values = folder / f"{name}-values.bin"
        self.dtype = dtype
        self.bounds = [0]

    def add(self, blocks: Iterable[tuple[ndarray, ndarray]]) -> None:
        """Write a run: its keys and values, block by block."""
        n = self.bounds[-1]
        with self.keys.open("ab") as key_file, self.values.open("ab") as value_file:
            for keys, values in blocks:
                key_file.write(keys.data)
                value_file.write(values.astype(self.dtype, copy=False).data)
                n += len(keys)
        self.bounds.append(n)

    def merged(
        self, memory: int, progress: Progress, title: str, unit: str
    ) -> Iterator[tuple[ndarray, ndarray, ndarray]]:
        """Yield keys, values, and the start of each group of equal keys, one range of keys at a
        time, in about `memory` bytes.

        Keys ascend; equal keys are in the order of their runs. The files are deleted.
        """
        bounds = itertools.pairwise(self.bounds)
        runs = [slice(first, stop) for first, stop in bounds if first < stop]
        if not runs:
            return
        max_entries = max(memory // BYTES_PER_MERGED_ENTRY, MIN_ENTRIES_PER_RANGE)
        done = 0
        progress.start(title, self.bounds[-1], unit)
        for parts in self._ranges(runs, max_entries):
            keys, values = self._read(parts)
            if len(keys):
                is_first = np.concatenate(([True], keys[1:] != keys[:-1]))
                yield keys, values, np.flatnonzero(is_first)
            done += len(keys)
            progress.update(done)
        progress.finish()
        self.keys.unlink()
        self.values.unlink()

    def _ranges(self, runs: list[slice], max_entries: int) -> Iterator[tuple[slice, ...]]:
        """Yield ascending ranges of keys with at most about `max_entries` entries: for each range
        its part of every run.
        """
        step = max(max_entries // (2 * len(runs)), 1)
        keys = np.memmap(self.keys, int64, "r")
        samples = np.sort(np.concatenate([keys[run][::step] for run in runs]))
        bounds = samples[len(runs) :: len(runs)]
        parts_by_run = []
        for run in runs:
            inner = run.start + np.searchsorted(keys[run], bounds)
            cuts = [run.start, *inner.tolist(), run.stop]
            parts_by_run.append(map(slice, cuts, cuts[1:]))
        return zip(*parts_by_run, strict=True)

    def _read(self, parts: Iterable[slice]) -> tuple[ndarray, ndarray]:
        """The keys of some parts of runs, ascending, and their values."""
        # mapped again each time, so that pages read before take no memory
        all_keys = np.memmap(self.keys, int64, "r")
        all_values = np.memmap(self.values, self.dtype, "r")
        keys = np.concatenate([all_keys[part] for part in parts])
        values = np.concatenate([all_values[part] for part in parts])
        # timsort, which merges sorted runs
        order = np.argsort(keys, kind="stable")
        return keys[order], values[order]


class Counter:
    """Counts int64 keys exactly, in about `memory` bytes; more are written to `folder`."""

    def __init__(self, folder: Path, memory: int) -> None:
        self.memory = memory
        self.buffer = np.empty(max(memory // BYTES_PER_KEY, 1), int64)
        self.n_buffered = 0
        self.runs = SortedRuns(folder, "counted", np.int32)

    def reserve(self, n: int) -> ndarray:
        """The buffer for the next n keys; `commit` then tells how many were written."""
        if self.n_buffered + n > len(self.buffer):
            self._write_run()
        if n > len(self.buffer):
            self.buffer = np.empty(n, int64)
        return self.buffer[self.n_buffered : self.n_buffered + n]

    def commit(self, n: int) -> None:
        """Count the first n keys of the buffer that `reserve` returned."""
        self.n_buffered += n

    def counted(
        self, progress: Progress, title: str, unit: str
    ) -> Iterator[tuple[ndarray, ndarray]]:
        """Yield the distinct keys, ascending, and their counts, int64, in blocks. The counter
        cannot be used afterwards.
        """
        self._write_run()
        self.buffer = np.empty(0, int64)
        for keys, counts, first in self.runs.merged(self.memory, progress, title, unit):
            yield keys[first], np.add.reduceat(counts, first, dtype=int64)

    def _write_run(self) -> None:
        keys = self.buffer[: self.n_buffered]
        keys.sort()
        starts = range(0, len(keys), KEYS_PER_BLOCK)
        blocks = (keys[start : start + KEYS_PER_BLOCK] for start in starts)
        self.runs.add(np.unique(block, return_counts=True) for block in blocks)
        self.n_buffered = 0
