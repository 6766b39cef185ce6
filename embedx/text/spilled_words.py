"""Words that do not fit into memory: tables of words are written to disk, and merged when all text
is read.

When the table of words becomes too large, its words are written to disk, and it is emptied. The
tokens read with one table are a segment of the corpus: on disk they are numbered by that table, in
the order of first appearance. At the end

    1. words are merged by 64-bit hashes in sorted runs (`embedx.text.counting`), which gives the
       first occurrence of each
    2. segment by segment, the words seen first there get the next numbers, in their order, and are
       written; then the tokens are renumbered

so that every word has the number that it would have in a single table. Memory holds one segment, or
one range of hashes; everything that grows with the number of segments is on disk, about 40 bytes
for each word of each segment.

An entry is a word of a segment; entries are numbered consecutively, segment by segment. Files while
the corpus is built, in addition to the runs:

    spilled-letters.bin   the words in UTF-8
    spilled-starts.bin    int64 (n_entries + 1,): the offset of each
    spilled-numbers.bin   int64 (n_entries,): the first entry of the word, then its final number
"""

from pathlib import Path

import numpy as np
from numpy import int32, int64, uint8

from embedx.runtime.progress import Progress
from embedx.text.counting import SortedRuns
from embedx.text.tokenizer import MAX_TYPES, renumber, too_many_words
from embedx.text.word_list import WordList


class Spill:
    """Tables of words on disk, in `folder`, to be merged."""

    def __init__(self, folder: Path) -> None:
        # the numbers of entries and of tokens up to the end of each segment
        self.segments: list[tuple[int, int]] = []
        self._runs = SortedRuns(folder, "spilled", int64)
        files = (folder / f"spilled-{name}.bin" for name in ("letters", "starts", "numbers"))
        self._letters, self._starts, self._numbers = files
        self._n_letters = 0

    def add(self, words: WordList, end: int) -> None:
        """Write the words of a table to disk; it numbers the tokens from the end of the previous
        segment to `end`.
        """
        first = self.segments[-1][0] if self.segments else 0
        hashes = np.fromiter(map(hash, words), int64, len(words))
        order = np.argsort(hashes)
        self._runs.add([(hashes[order], order + first)])
        _append(self._letters, np.frombuffer(words.letters, uint8))
        _append(self._starts, words.starts[:-1] + self._n_letters)
        self._n_letters += len(words.letters)
        self.segments.append((first + len(words), end))

    def merge(
        self, tokens: Path, letters: Path, starts: Path, memory: int, progress: Progress
    ) -> int:
        """Renumber `tokens`, int32, in place, and write the words, in about `memory` bytes; return
        how many there are. The segments' files are deleted. Raises `EmbedxError` if there are more
        words than numbers, and OSError.
        """
        _append(self._starts, np.array([self._n_letters]))
        n_types = self._find_first_entries(memory, progress)
        if n_types > MAX_TYPES:
            raise too_many_words()
        self._number_words(tokens, letters, starts, n_types, progress)
        for file in (self._letters, self._starts, self._numbers):
            file.unlink()
        return n_types

    def _find_first_entries(self, memory: int, progress: Progress) -> int:
        """Write for each entry the first entry of its word; return the number of words."""
        n_entries, _ = self.segments[-1]
        first_entries = np.memmap(self._numbers, int64, "w+", shape=(n_entries,))
        n_types = 0
        for _, entries, groups in self._runs.merged(memory, progress, "merging words", "words"):
            sizes = np.diff(groups, append=len(entries))
            first_entries[entries] = np.repeat(entries[groups], sizes)
            n_types += len(groups)
        return n_types

    def _number_words(
        self, tokens: Path, letters: Path, starts: Path, n_types: int, progress: Progress
    ) -> None:
        """Number the words in order of first appearance, write them, renumber the tokens."""
        numbers = np.memmap(self._numbers, int64, "r+")
        old_letters = np.memmap(self._letters, uint8, "r").data
        old_starts = np.memmap(self._starts, int64, "r")
        new_starts = np.lib.format.open_memmap(starts, "w+", int64, shape=(n_types + 1,))
        all_tokens = np.memmap(tokens, int32, "r+")
        _, n_tokens = self.segments[-1]
        n_words = 0
        first_entry = 0
        first_token = 0
        progress.start("numbering words", n_tokens, "tokens")
        with letters.open("wb") as out:
            for end_entry, end_token in self.segments:
                first_seen = np.array(numbers[first_entry:end_entry])
                is_new = first_seen == np.arange(first_entry, end_entry)
                new = first_entry + np.flatnonzero(is_new)
                numbers[new] = np.arange(n_words, n_words + len(new))
                # other entries get the number of the first entry of their word
                numbers[first_entry:end_entry] = numbers[first_seen]
                begins = old_starts[new]
                ends = old_starts[new + 1]
                spans = zip(begins.tolist(), ends.tolist(), strict=True)
                out.writelines(old_letters[begin:end] for begin, end in spans)
                next_starts = new_starts[n_words] + np.cumsum(ends - begins)
                new_starts[n_words + 1 : n_words + 1 + len(new)] = next_starts
                n_words += len(new)
                number_of_entry = np.asarray(numbers[first_entry:end_entry], int32)
                renumber(np.asarray(all_tokens[first_token:end_token]), number_of_entry)
                progress.update(end_token)
                first_entry = end_entry
                first_token = end_token
        progress.finish()


def _append(path: Path, array: np.ndarray) -> None:
    with path.open("ab") as out:
        out.write(array.data)
