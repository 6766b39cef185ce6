"""Sources read in parts, wherever that is done, and put together to what one reading of all would have written, byte for byte.

The tokens of a part are numbered by its own words, by first appearance. Parts come in the order of the sources. The words of
each are entered into the table of all, where those that are new get the next numbers, in their order, and so by first
appearance among all; by these its tokens are numbered anew. Where the words outgrow the memory for them, the table is set aside
as `embedx.text.spill` has it, and so is a part that would outgrow it by itself.
"""

import pickle
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedx.settings import TextSettings
from embedx.text.building import Building
from embedx.text.reading import Writing, read, report_of
from embedx.text.sources import Source
from embedx.text.tokenizer import END_OF_SENTENCE, Tokenizer, renumber
from embedx.training.progress import Progress

LEAST_BYTES = 1 << 24  # of sources, as stored, in a part: seconds of work, beside which it costs nothing to hand it over
BLOCK_TOKENS = 1 << 22  # that are handed over at a time
ENTERED = 1 << 16  # words at a time, for which there must be room though they be known
BYTES_PER_TYPE = 48  # that a table takes, beside the letters, when it is full enough to grow


class Part(NamedTuple):
    """What was found in some sources, but for the tokens."""

    report: dict[str, Any]  # as `reading.read` has it
    letters: np.ndarray  # uint8, of all words in UTF-8, one after the other
    starts: np.ndarray  # int64 (n_types + 1,), where each begins
    counts: np.ndarray  # int64 (n_types,)


def divided(sources: Sequence[Source], at_least: int = LEAST_BYTES) -> list[list[Source]]:
    """The sources in parts, in order: as many together as have so many bytes, one as large as that by itself, and likewise one
    that does not tell.
    """
    parts: list[list[Source]] = []
    size = at_least
    for source in sources:
        own = at_least if source.size is None else source.size
        if size >= at_least or own >= at_least:
            parts.append([])
            size = 0
        parts[-1].append(source)
        size += own
    return parts


def encoded(
    sources: Sequence[Source], settings: TextSettings, progress: Progress, home: Path, threads: int
) -> Generator["Part | np.ndarray", None, None]:
    """What is found in the sources, a `Part`, and after it the tokens, int32, BLOCK_TOKENS at a time; the same wherever it is
    done. Until they are taken they lie in a folder in `home`.
    """
    with Building(home) as building:
        report = read(sources, settings, progress, building, threads)
        yield Part(report, *building.words())
        with building.written_tokens() as file:
            while tokens := file.read(BLOCK_TOKENS * np.dtype(np.int32).itemsize):
                yield np.frombuffer(tokens, np.int32)


class Parts:
    """Puts parts together in `building`, in the order in which they are added."""

    def __init__(self, sources: Sequence[Source], settings: TextSettings, building: Building, progress: Progress) -> None:
        self.building = building
        self.words = Tokenizer(settings)
        self.writing = Writing(sources, settings, building, progress)
        self.reports: list[dict[str, Any]] = []
        self.n_tokens = self.stored = 0

    def add(self, part: Part, tokens: Iterable[np.ndarray]) -> None:
        """Write a part, with its tokens in order."""
        letters, starts = (np.require(each, requirements="W") for each in (part.letters, part.starts))  # as kernels take them
        is_large = BYTES_PER_TYPE * len(part.counts) + 2 * len(letters) > self.writing.memory
        if is_large:
            self._set_aside()
        numbers = None if is_large else self._entered(letters, starts)
        follows = self.building.n_entries() > 0
        for block in tokens:
            if follows:
                self.building.write_tokens(np.array([END_OF_SENTENCE], np.int32))
                follows = False
            if numbers is not None:
                block = np.array(block)
                renumber(block, numbers)
            self.building.write_tokens(block)
        self.reports += part.report["sources"]
        self.n_tokens += part.report["n_tokens"]
        self.stored += part.report["bytes_read"]
        self.writing.check_room(self.stored)
        if numbers is None:
            self.writing.set_aside(letters, starts, self.n_tokens)
            return
        self.words.counts[numbers] += part.counts
        if self.words.outgrows(self.writing.memory):
            self._set_aside()

    def finish(self) -> dict[str, Any]:
        """Write the words of all parts; the report of all."""
        self.writing.finish(self.words, self.n_tokens)
        return report_of(self.reports, self.stored)

    def _entered(self, letters: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """The numbers of these words in the table of all."""
        numbers = np.empty(len(starts) - 1, np.int32)
        for first in range(0, len(numbers), ENTERED):
            self.words.enter(letters, starts, np.arange(first, min(first + ENTERED, len(numbers))), numbers)
        return numbers

    def _set_aside(self) -> None:
        if self.words.n_types:
            self.writing.set_aside(*self.words.emptied(), self.n_tokens)


def keep(items: Iterable[Part | np.ndarray], path: Path) -> None:
    """Write what `encoded` yields to a file."""
    with path.open("wb") as out:
        for item in items:
            if isinstance(item, Part):
                pickle.dump(item, out, pickle.HIGHEST_PROTOCOL)
            else:
                out.write(item.data)


def kept(path: Path) -> Iterator[Part | np.ndarray]:
    """What `keep` has written."""
    with path.open("rb") as file:
        yield pickle.load(file)
        while tokens := file.read(BLOCK_TOKENS * np.dtype(np.int32).itemsize):
            yield np.frombuffer(tokens, np.int32)
