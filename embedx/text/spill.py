"""Words that outgrow the memory for them: they go to disk, table by table, and are merged when the text is read to its end.

Where the table of words has become too large it is emptied, and its words are written out, sorted by hash. The tokens read
since it was empty are a segment of the corpus: they stand on disk by the numbers that the words had in that table, which are
by first appearance. At the end

    1. the sorted words are merged, a range of hashes at a time: of each it is found in which segment it was seen first
    2. words get their final numbers, segment by segment: those that were seen first there get the next ones, in their order
    3. the tokens are numbered anew and counted in one pass; each segment's own words are written in the order of the numbers

so that every word has the number that it would have had in one table of all. Words of the same hash are told apart by their
letters. Memory is taken by one segment, or by a range of hashes over all of them, and by the counts, 8 bytes a word; what
grows with the number of segments is on disk, some 40 bytes for each word of each segment.

Measured on one thread, 120 million words of 5 million types: with 64 MB for words, reading takes 94 MB beside what the program
has anyway, and 15 seconds of computing; with room for all words 491 MB and 12.

An entry is a word of a segment; entries are counted through, segment by segment. In the folder of the corpus while it is built:

    spilled-hashes.bin    int64 (n_entries,), ascending within a segment, by which the other files are sorted
    spilled-numbers.bin   int32: the word's number in its segment
    spilled-letters.bin   the words in UTF-8
    spilled-starts.bin    int64 (n_entries + 1,): where each begins
    spilled-first.bin     int64: where the word was seen first: the number of its segment's first entry, and its own in there
    spilled-final.bin     int32: the final number of each word of a segment, by its number there
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from embedx.errors import EmbedxError
from embedx.kernels.compiled import kernel
from embedx.text.tokenizer import END_OF_SENTENCE, HASH_MASK, LONG, MAX_TYPES, long_signature
from embedx.training.progress import Progress

HASHES, NUMBERS, LETTERS, STARTS, FIRST, FINAL = (
    f"spilled-{name}.bin" for name in ("hashes", "numbers", "letters", "starts", "first", "final")
)
BYTES_PER_ENTRY = 64  # that merging takes, beside the letters: hashes, places and what sorting needs
LEAST_AT_ONCE = 1 << 17  # entries merged at a time, however little memory there is: each time all segments are looked at
RENUMBER_TOKENS = 1 << 18  # at a time, as many as the processor's cache holds


class Segment(NamedTuple):
    """A part of the corpus that was read with one table."""

    first: int  # of its entries
    stop: int
    end: int  # of its tokens: how many there are up to there, marks between sentences included

    @property
    def entries(self) -> slice:
        return slice(self.first, self.stop)


class Merged(NamedTuple):
    """The files of the corpus that are made of the segments; the tokens are there, and are numbered anew in place."""

    tokens: Path  # int32
    letters: Path
    starts: Path  # .npy
    counts: Path  # .npy


class Spill:
    """Tables of words on disk, in `folder`, to be merged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.segments: list[Segment] = []
        self._n_letters = 0

    @property
    def n_entries(self) -> int:
        """How many words were written, those of each table."""
        return self.segments[-1].stop if self.segments else 0

    def add(self, letters: np.ndarray, starts: np.ndarray, end: int) -> None:
        """Write out the words of a table, by which the tokens are numbered from the end of the segment before to `end`."""
        hashes = np.empty(len(starts) - 1, np.int64)
        hash_all(letters, starts, hashes)
        order = np.argsort(hashes)
        self._append(HASHES, hashes[order])
        del hashes
        self._append(NUMBERS, order.astype(np.int32))
        letters, starts = picked(letters, starts, order)
        self._append(LETTERS, letters)
        self._append(STARTS, starts[:-1] + self._n_letters)
        self._n_letters += len(letters)
        self.segments.append(Segment(self.n_entries, self.n_entries + len(order), end))

    def merge(self, into: Merged, memory: int, progress: Progress) -> None:
        """Write the files of the corpus, in about so much memory, in bytes, and delete those of the segments.

        Raises `EmbedxError` if there are more words than numbers, and OSError.
        """
        self._append(STARTS, np.array([self._n_letters]))
        self._find_first(memory, progress)
        n_types = self._number()
        self._write(into, n_types, progress)
        for name in (HASHES, NUMBERS, LETTERS, STARTS, FIRST, FINAL):
            (self.folder / name).unlink()

    def _find_first(self, memory: int, progress: Progress) -> None:
        """Write where each word was seen first."""
        hashes, numbers, starts, letters = self._words()
        with (self.folder / FIRST).open("wb") as out:
            progress.start("merging words", self.n_entries, " words")
            for spans in self._ranges(hashes, memory):
                parts = [slice(first, stop) for first, stop in spans]
                keys = np.concatenate([hashes[part] for part in parts])
                own = zip(self.segments, parts, strict=True)
                entries = np.concatenate([numbers[part] + np.int64(segment.first) for segment, part in own])
                lengths = np.concatenate([np.diff(starts[first : stop + 1]) for first, stop in spans])
                words = np.concatenate([letters[starts[first] : starts[stop]] for first, stop in spans])
                order = np.argsort(keys, kind="stable")  # of equal hashes the earliest segment comes first
                found = np.empty(len(order), np.int64)
                find_first(order, keys, words, starts_of(lengths), found)
                found, at = entries[found], 0
                for first, stop in spans:
                    out.seek(found.itemsize * first)
                    out.write(found[at : at + stop - first].data)
                    at += stop - first
                progress.update(sum(stop for _, stop in spans) - sum(segment.first for segment in self.segments))
            progress.finish()

    def _ranges(self, hashes: np.ndarray, memory: int) -> Iterator[list[tuple[int, int]]]:
        """Of each range of hashes the first entry and the one after the last, in each segment."""
        at_once = max(memory // (BYTES_PER_ENTRY + 2 * self._n_letters // self.n_entries), LEAST_AT_ONCE)
        n = -(-self.n_entries // at_once)
        bounds = LONG + np.arange(n + 1) * (HASH_MASK + 1) // n
        cuts = [each.first + np.searchsorted(hashes[each.entries], bounds) for each in self.segments]
        for number in range(n):
            yield [(int(cut[number]), int(cut[number + 1])) for cut in cuts]

    def _number(self) -> int:
        """Write the final numbers; how many words there are."""
        _, numbers, _, _ = self._words()
        first_seen = np.memmap(self.folder / FIRST, np.int64, "r")
        n_types = 0
        for segment in self.segments:
            first = np.empty(segment.stop - segment.first, np.int64)
            first[numbers[segment.entries]] = first_seen[segment.entries]
            is_new = first >= segment.first
            final = np.empty(len(first), np.int32)
            n_new = int(np.count_nonzero(is_new))
            if n_types + n_new > MAX_TYPES:
                raise EmbedxError(f"more than {MAX_TYPES} different words: clean the text, or try --tokenizer words")
            final[is_new] = np.arange(n_types, n_types + n_new)
            if segment.first:
                final[~is_new] = np.memmap(self.folder / FINAL, np.int32, "r")[first[~is_new]]
            self._append(FINAL, final)
            n_types += n_new
        return n_types

    def _write(self, into: Merged, n_types: int, progress: Progress) -> None:
        """Write the words and their counts, and number the tokens anew."""
        _, numbers, starts, letters = self._words()
        finals = np.memmap(self.folder / FINAL, np.int32, "r")
        counts = np.zeros(n_types, np.int64)
        n_known = n_letters = begin = 0
        with into.tokens.open("r+b") as tokens, into.letters.open("wb") as all_letters, into.starts.open("wb") as all_starts:
            header = {"descr": np.lib.format.dtype_to_descr(starts.dtype), "fortran_order": False, "shape": (n_types + 1,)}
            np.lib.format.write_array_header_1_0(all_starts, header)
            all_starts.write(np.zeros(1, np.int64).data)
            progress.start("numbering words", self.segments[-1].end, " tokens")
            for segment in self.segments:
                final = np.array(finals[segment.entries])
                in_order = final[numbers[segment.entries]]
                new = np.flatnonzero(in_order >= n_known)
                new = new[np.argsort(in_order[new])]
                first, stop = starts[segment.first], starts[segment.stop]
                own_starts = starts[segment.first : segment.stop + 1] - first
                own_letters, own_starts = picked(np.array(letters[first:stop]), own_starts, new)
                all_letters.write(own_letters.data)
                all_starts.write((own_starts[1:] + n_letters).data)
                n_known, n_letters = n_known + len(new), n_letters + len(own_letters)
                for at in range(begin, segment.end, RENUMBER_TOKENS):
                    part = np.empty(min(RENUMBER_TOKENS, segment.end - at), np.int32)
                    tokens.seek(part.itemsize * at)
                    tokens.readinto(part.data)
                    renumber_and_count(part, final, counts)
                    tokens.seek(part.itemsize * at)
                    tokens.write(part.data)
                    progress.update(at + len(part))
                begin = segment.end
            progress.finish()
        np.save(into.counts, counts)

    def _append(self, name: str, array: np.ndarray) -> None:
        with (self.folder / name).open("ab") as out:
            out.write(array.data)

    def _words(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Hashes, numbers, starts and letters of all entries, mapped."""
        files = ((HASHES, np.int64), (NUMBERS, np.int32), (STARTS, np.int64), (LETTERS, np.uint8))
        hashes, numbers, starts, letters = (np.asarray(np.memmap(self.folder / name, kind, "r")) for name, kind in files)
        return hashes, numbers, starts, letters


def starts_of(lengths: np.ndarray) -> np.ndarray:
    """Where words of these lengths begin, one after the other, and the last one ends, int64 (n_words + 1,)."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def picked(letters: np.ndarray, starts: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The letters and starts of the words `which`, int64, in their order."""
    new_starts = starts_of(np.diff(starts)[which])
    new_letters = np.empty(int(new_starts[-1]), np.uint8)
    pick(letters, starts, which, new_starts, new_letters)
    return new_letters, new_starts


@kernel
def hash_all(letters, starts, hashes):  # type: ignore[no-untyped-def]
    """Write the hash of each word, by which the table finds long ones; here short ones have it too."""
    for word in range(len(hashes)):
        hashes[word] = long_signature(letters, starts[word], starts[word + 1])


@kernel
def pick(letters, starts, which, new_starts, new_letters):  # type: ignore[no-untyped-def]
    """Write the letters of the words `which` one after the other."""
    for k in range(len(which)):
        end = starts[which[k] + 1]
        to = new_starts[k]
        for i in range(starts[which[k]], end):
            new_letters[to] = letters[i]
            to += 1


@kernel
def find_first(order, hashes, letters, starts, first):  # type: ignore[no-untyped-def]
    """Write to first[k] which word in `order`, that sorts by hashes, is the first of those equal to word k."""
    group = 0
    for k in range(len(order)):
        word = order[k]
        if hashes[word] != hashes[order[group]]:
            group = k
        first[word] = word
        length = starts[word + 1] - starts[word]
        for other in order[group:k]:
            if first[other] == other and starts[other + 1] - starts[other] == length:
                i = np.int64(0)
                while i < length and letters[starts[word] + i] == letters[starts[other] + i]:
                    i += 1
                if i == length:
                    first[word] = other
                    break


@kernel
def renumber_and_count(tokens, numbers, counts):  # type: ignore[no-untyped-def]
    """Write numbers[token] for each token that is a word, and add 1 to its count."""
    for i in range(len(tokens)):
        if tokens[i] != END_OF_SENTENCE:
            number = numbers[tokens[i]]
            tokens[i] = number
            counts[number] += 1
