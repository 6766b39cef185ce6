"""Words that outgrow the memory for them: they go to disk, table by table, and are merged when all text is read.

When the table of words has become too large its words are written out, and it is emptied. The tokens read since then are a
segment of the corpus: on disk they have the numbers of the words in that table, which are by first appearance. At the end

    1. words are merged by 64-bit hashes in sorted runs (`embedx.text.counting`): of each it is found where it was seen first
    2. words get their final numbers, segment by segment: those seen first there get the next ones, in their order
    3. the tokens are renumbered, and each segment's new words are written in the order of their numbers

so that every word has the number that it would have had in one table of all. Memory is taken by one segment, or by a range of
hashes; what grows with the number of segments is on disk, some 40 bytes for each word of each segment.

An entry is a word of a segment; entries are counted through, segment by segment. Files beside the runs, while the corpus is
built:

    spilled-letters.bin   the words in UTF-8
    spilled-starts.bin    int64 (n_entries + 1,): where each begins
    spilled-first.bin     int64 (n_entries,): the entry at which the word was seen first
    spilled-final.bin     int32 (n_entries,): the final number
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from embedx.errors import EmbedxError
from embedx.text.counting import SortedRuns
from embedx.text.tokenizer import MAX_TYPES, renumber
from embedx.training.progress import Progress

HASH_BYTES = 1 << 18  # of letters that are hashed together
HASH_SEED = 0x5EED
RENUMBER_TOKENS = 1 << 18  # at a time, as many as the processor's cache holds


class Segment(NamedTuple):
    """A part of the corpus that was read with one table."""

    first: int  # of its entries
    stop: int
    end: int  # of its tokens: how many there are up to there, marks between sentences included


class Spill:
    """Tables of words on disk, in `folder`, to be merged."""

    def __init__(self, folder: Path) -> None:
        self.segments: list[Segment] = []
        self._runs = SortedRuns(folder, "spilled", np.int64)
        files = (folder / f"spilled-{name}.bin" for name in ("letters", "starts", "first", "final"))
        self._letters, self._starts, self._first, self._final = files
        self._n_letters = 0

    def add(self, letters: np.ndarray, starts: np.ndarray, end: int) -> None:
        """Write out the words of a table, by which the tokens are numbered from the end of the segment before to `end`."""
        first = self.segments[-1].stop if self.segments else 0
        hashes = word_hashes(letters, starts).view(np.int64)
        order = np.argsort(hashes)
        self._runs.append(hashes[order], order + first)
        self._runs.end_run()
        _append(self._letters, letters)
        _append(self._starts, starts[:-1] + self._n_letters)
        self._n_letters += len(letters)
        self.segments.append(Segment(first, first + len(hashes), end))

    def merge(self, tokens: Path, letters: Path, starts: Path, memory: int, progress: Progress) -> None:
        """Renumber `tokens`, int32, in place, and write the words, in about `memory` bytes; the segments' files are deleted.

        Raises `EmbedxError` if there are more words than numbers, and OSError.
        """
        _append(self._starts, np.array([self._n_letters]))
        first = np.memmap(self._first, np.int64, "w+", shape=(self.segments[-1].stop,))
        for _, entries, groups in self._runs.merged(memory, progress, "merging words", " words"):
            first[entries] = np.repeat(entries[groups], np.diff(groups, append=len(entries)))
        n_types = self._number(first)
        self._write_words(letters, starts, n_types)
        self._renumber(tokens, progress)
        for file in (self._letters, self._starts, self._first, self._final):
            file.unlink()

    def _number(self, first_seen: np.ndarray) -> int:
        """Write the final numbers; how many words there are."""
        n_types = 0
        for segment in self.segments:
            first = np.array(first_seen[segment.first : segment.stop])
            is_new = first == np.arange(segment.first, segment.stop)
            n_new = int(np.count_nonzero(is_new))
            if n_types + n_new > MAX_TYPES:
                raise EmbedxError(f"more than {MAX_TYPES} different words: clean the text, or try --tokenizer words")
            final = np.empty(len(first), np.int32)
            final[is_new] = np.arange(n_types, n_types + n_new)
            if segment.first:
                final[~is_new] = np.memmap(self._final, np.int32, "r")[first[~is_new]]
            _append(self._final, final)
            n_types += n_new
        return n_types

    def _write_words(self, letters: Path, starts: Path, n_types: int) -> None:
        """Write the different words, in the order of their numbers."""
        finals, all_starts = np.memmap(self._final, np.int32, "r"), np.memmap(self._starts, np.int64, "r")
        all_letters = np.memmap(self._letters, np.uint8, "r").data
        new_starts = np.lib.format.open_memmap(starts, "w+", np.int64, shape=(n_types + 1,))
        n_known = 0
        with letters.open("wb") as out:
            for segment in self.segments:
                new = segment.first + np.flatnonzero(finals[segment.first : segment.stop] >= n_known)
                begins, ends = all_starts[new], all_starts[new + 1]
                out.writelines(all_letters[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True))
                new_starts[n_known + 1 : n_known + 1 + len(new)] = new_starts[n_known] + np.cumsum(ends - begins)
                n_known += len(new)

    def _renumber(self, tokens: Path, progress: Progress) -> None:
        finals = np.memmap(self._final, np.int32, "r")
        begin = 0
        progress.start("numbering words", self.segments[-1].end, " tokens")
        with tokens.open("r+b") as file:
            for segment in self.segments:
                final = np.array(finals[segment.first : segment.stop])
                for at in range(begin, segment.end, RENUMBER_TOKENS):
                    part = np.empty(min(RENUMBER_TOKENS, segment.end - at), np.int32)
                    file.seek(part.itemsize * at)
                    file.readinto(part.data)
                    renumber(part, final)
                    file.seek(part.itemsize * at)
                    file.write(part.data)
                    progress.update(at + len(part))
                begin = segment.end
        progress.finish()


def _append(path: Path, array: np.ndarray) -> None:
    with path.open("ab") as out:
        out.write(array.data)


def word_hashes(letters: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """uint64 (n_words,): sums of a word's letters, each times a random factor that belongs to its place."""
    n_words, hashes = len(starts) - 1, np.zeros(len(starts) - 1, np.uint64)
    longest = int(np.diff(starts).max(initial=1))
    factors = np.random.default_rng(HASH_SEED).integers(1, 2**64, longest, dtype=np.uint64) | np.uint64(1)
    first = 0
    while first < n_words:
        last = int(np.searchsorted(starts, starts[first] + HASH_BYTES, side="right")) - 1
        last = min(max(last, first + 1), n_words)
        offsets, n = starts[first:last] - starts[first], np.diff(starts[first : last + 1])
        place = np.arange(int(n.sum())) - np.repeat(offsets, n)
        values = (letters[starts[first] : starts[last]].astype(np.uint64) + np.uint64(1)) * factors[place]
        totals = np.concatenate((np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)))
        hashes[first:last] = totals[offsets + n] - totals[offsets]
        first = last
    return hashes
