"""Sources read in parts, wherever that is done, and put together to what one reading of all would have written, byte for byte.

The tokens of a part are numbered by its own words, by first appearance. Parts come in the order of the sources; their words are
merged, and their tokens renumbered, as those of tables that outgrew memory are (`embedx.text.spill`).
"""

import pickle
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedx.settings import TextSettings
from embedx.text.building import Building
from embedx.text.reading import known_size, memory_for_words, read, report_of
from embedx.text.sources import Source
from embedx.text.tokenizer import END_OF_SENTENCE, Tokenizer
from embedx.training.progress import Progress

MIN_BYTES = 1 << 24  # of sources, as stored, in a part: seconds of work, beside which it costs nothing to hand it over
BLOCK_TOKENS = 1 << 22  # that are handed over at a time


class Part(NamedTuple):
    """What was found in some sources, but for the tokens."""

    report: dict[str, Any]  # as `reading.read` has it
    letters: np.ndarray  # uint8, of all words in UTF-8, one after the other
    starts: np.ndarray  # int64 (n_types + 1,), where each begins


def divided(sources: Sequence[Source], min_bytes: int = MIN_BYTES) -> list[list[Source]]:
    """The sources in parts of at least `min_bytes`, in order; a source of that size, or of unknown size, by itself."""
    parts: list[list[Source]] = []
    size = min_bytes
    for source in sources:
        own = min_bytes if source.size is None else source.size
        if size >= min_bytes or own >= min_bytes:
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
        self.building, self.settings, self.progress = building, settings, progress
        self._size = known_size(sources)
        self.reports: list[dict[str, Any]] = []
        self.n_tokens = self.stored = 0

    def add(self, part: Part, tokens: Iterable[np.ndarray]) -> None:
        """Write a part, with its tokens in order."""
        if part.report["n_tokens"] and self.building.n_entries():
            self.building.write_tokens(np.array([END_OF_SENTENCE], np.int32))
        for block in tokens:
            self.building.write_tokens(block)
        self.reports += part.report["sources"]
        self.n_tokens += part.report["n_tokens"]
        self.stored += part.report["bytes_read"]
        self.building.check_disk(self.stored, self._size)
        if part.report["n_tokens"]:
            self.building.set_aside(part.letters, part.starts)

    def finish(self) -> dict[str, Any]:
        """Write the words of all parts; the report of all."""
        self.building.finish_words(Tokenizer(self.settings), memory_for_words(self.settings), self.progress)
        return report_of(self.reports, self.stored)


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
