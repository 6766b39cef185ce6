"""Reads the text of sources in threads, some blocks ahead of its consumer."""

import contextlib
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

from embedx.text.opening import BLOCK_BYTES, CountedReader, open_source
from embedx.text.settings import TextSettings
from embedx.text.sources import Source
from embedx.text.streams import PLAIN, new_report, text_blocks
from embedx.text.tables import NotTextError
from embedx.text.unicode_forms import normalized_blocks

# Blocks read ahead of one source: enough to balance the speeds of reader and consumer.
BLOCKS_AHEAD = 8
# Blocks read ahead per source if several are read at once: most of them are used later.
MAX_AHEAD = 128


class TextBlock(NamedTuple):
    """A piece of the text of sources[source]; an empty one ends it.

    stored  bytes read from all sources so far, as stored
    """

    source: int
    data: bytes
    stored: int


class ReadAhead:
    """Iterates over the blocks of text of all sources, in order.

    Up to `threads` sources are read at a time, each by a thread; if there are fewer, several
    threads decompress each of them.

    reports  what is counted while each source is read
    """

    def __init__(
        self, sources: Sequence[Source], settings: TextSettings = PLAIN, threads: int = 1
    ) -> None:
        self._sources = sources
        self._settings = settings
        self.reports = [new_report(source) for source in sources]
        self._at_once = max(1, min(threads, len(sources)))
        self._threads_per_source = max(1, threads // self._at_once)
        max_blocks = BLOCKS_AHEAD if self._at_once == 1 else MAX_AHEAD
        # For each source: its blocks, with the stored bytes read so far; an empty block or an error
        # is the last entry.
        self._queues: list[queue.Queue[tuple[bytes, int] | BaseException]] = [
            queue.Queue(max_blocks) for _ in sources
        ]
        self._stopped = threading.Event()
        for number in range(self._at_once):
            self._start(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()

    def __iter__(self) -> Iterator[TextBlock]:
        stored_before = 0
        for number, blocks in enumerate(self._queues):
            data = None
            while data != b"":
                item = blocks.get()
                if isinstance(item, BaseException):
                    raise item
                data, stored = item
                yield TextBlock(number, data, stored_before + stored)
            stored_before += stored
            self._start(number + self._at_once)

    def _start(self, number: int) -> None:
        """Start a thread that reads a source, if there is a source with that number."""
        if number >= len(self._sources):
            return
        # A daemon, because a read from a terminal or a slow server cannot be interrupted.
        thread = threading.Thread(
            target=self._read, args=(number,), daemon=True, name="embedx-reader"
        )
        thread.start()

    def _read(self, number: int) -> None:
        """Put the blocks of a source into its queue, and after them an empty block, or the error to
        be raised in the consumer.
        """
        source = self._sources[number]
        end: tuple[bytes, int] | BaseException
        try:
            with open_source(source) as file:
                for block in self._text(number, file):
                    for start in range(0, len(block), BLOCK_BYTES):
                        self._put(number, (block[start : start + BLOCK_BYTES], file.count))
                    if self._stopped.is_set():
                        return
                end = (b"", file.count)
        except BaseException as error:
            end = error
            if isinstance(error, NotTextError) and source.folder and not source.members:
                self.reports[number]["skipped"] = error.kind
                end = (b"", source.size or 0)
        self._put(number, end)

    def _text(self, number: int, file: CountedReader) -> Iterator[bytes]:
        """The text of an open source, in the Unicode normalisation form of the settings."""
        source = self._sources[number]
        report = self.reports[number]
        blocks = text_blocks(source, file, self._settings, self._threads_per_source, report)
        form = self._settings.normalize
        return blocks if form is None else normalized_blocks(blocks, form)

    def _put(self, number: int, item: tuple[bytes, int] | BaseException) -> None:
        """Put an item into the queue, waiting for a free place unless the consumer has stopped."""
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Full):
                self._queues[number].put(item, timeout=0.1)
                return
