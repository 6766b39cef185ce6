"""The files of labelled data, opened: text as chunks of whole lines, binary files as their unpacked
bytes.

A few megabytes of compressed data may unpack to any size, so readers count what they keep: more
than MAX_SHARE_READ of the available memory is an error, and so is a line, with the empty lines
before it, of more than MAX_LINE_BYTES.
"""

import copy
import glob
import io
import itertools
import math
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import IO

from embedx.errors import DataError, EmbedxError, no_such, public_url
from embedx.runtime.memory import available_memory
from embedx.runtime.progress import Progress
from embedx.text.decompression import UnpackedReader
from embedx.text.json_records import begins_spread
from embedx.text.opening import BLOCK_BYTES
from embedx.text.read_ahead import ReadAhead
from embedx.text.recipes import recipe_names
from embedx.text.sources import (
    LABELLED_ROWS,
    STANDARD_INPUT,
    Source,
    find_sources,
    is_url,
    recipe_meant,
    url_fingerprint,
)

UTF8_MARK = b"\xef\xbb\xbf"
COMMENTS = re.compile(rb"(?:\s*+#[^\n]*+\n)*+")
HEAD_BYTES = 512
READ_BYTES = 1 << 18
# of the memory that is available; the parameters and their optimiser need the rest
MAX_SHARE_READ = 0.5
# bytes that are taken without a look at how much memory there is: those of a text of some pages
UNMEASURED = 1 << 14
# a row of two million features; a hundred times what the largest public data sets have
MAX_LINE_BYTES = 1 << 25


def source_of(name: str) -> Source:
    """The one file, URL, recipe or standard input of that name; `EmbedxError` if it is none."""
    if name == STANDARD_INPUT or is_url(name):
        if is_url(name):
            return Source(public_url(name), LABELLED_ROWS, url_fingerprint(name), location=name)
        return Source(name, LABELLED_ROWS, None)
    if os.path.isdir(name):
        raise DataError(name, None, "a directory", "name the one file that holds the rows")
    path = name
    if recipe := recipe_meant(name):
        if recipe.kind != "classes":
            raise DataError(
                name,
                None,
                "text without labels",
                f"train word vectors on it with `embedx train {name}`",
            )
        path = recipe.find_files()[0]
    try:
        size = os.stat(path).st_size
    except FileNotFoundError as error:
        raise no_such("file or recipe", name, others=recipe_names()) from error
    except OSError as error:
        problem = f"cannot be opened ({error.strerror})"
        raise DataError(path, None, problem, "check the name and your permissions") from error
    # a pipe, as in <(zcat ...), is read once
    return Source(path, LABELLED_ROWS, {"size": size} if os.path.isfile(path) else None)


def sources_of(names: Sequence[str]) -> list[Source]:
    """The files that paths, patterns, folders, URLs, recipes or `-` name; one that is named twice
    is read once.
    """
    sources: dict[str, Source] = {}
    for name in names:
        for source in _sources_named(name):
            address = source.address
            if not is_url(address):
                address = os.path.realpath(address)
            sources.setdefault(address, source)
    return list(sources.values())


def _sources_named(name: str) -> list[Source]:
    """The files in a folder, those that a pattern matches, or the one that is called so."""
    if recipe_meant(name) is not None:
        return [source_of(name)]
    is_pattern = glob.has_magic(name) and not is_url(name) and not os.path.lexists(name)
    if is_pattern or os.path.isdir(name):
        return [source_of(source.name) for source in find_sources([name])]
    return [source_of(name)]


def head_of(source: Source) -> bytes:
    """The first unpacked bytes, by which binary formats are recognised; b"" for what can be read
    only once, such as a pipe, which holds text.
    """
    if source.fingerprint is None:
        return b""
    with io.BufferedReader(UnpackedReader(source)) as file:
        try:
            return file.read(HEAD_BYTES)
        except EmbedxError:
            # The reader of text reports what is wrong.
            return b""


def arriving_lines() -> Iterator[bytes]:
    """Whole lines of standard input, as many at a time as have arrived, so that each can be
    answered before the next is written.
    """
    begun = bytearray()
    with UnpackedReader(source_of(STANDARD_INPUT), as_it_comes=True) as file:
        while block := file.read(READ_BYTES):
            end = block.rfind(b"\n") + 1
            begun += block[:end]
            if end:
                yield bytes(begun)
                begun.clear()
            begun += block[end:]
    if begun:
        yield bytes(begun) + b"\n"


class MemoryBudget:
    """The limit of the bytes of one file's data that are kept in memory. Threads may share it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.n_taken = 0
        self._lock = threading.Lock()

    @cached_property
    def n_bytes(self) -> int:
        """A share of the memory that is free when this is first asked for."""
        return int(MAX_SHARE_READ * available_memory())

    def take(self, n_bytes: int) -> None:
        """Count bytes that are read. Raises `EmbedxError` if they are too many for memory."""
        with self._lock:
            self.n_taken += n_bytes
        if self.n_taken > UNMEASURED and self.n_taken > self.n_bytes:
            raise DataError(
                self.name,
                None,
                "takes more than half of the available memory",
                "use fewer rows or more memory",
            )


class Lines:
    """The lines of a text, in chunks of whole lines that each end with b"\\n"; iterated once.
    Chunks of spread JSON, which may be one line, end after a brace.

    The first chunk has a line that is not blank. Empty lines at the end are left out, except as
    many as make up `min_lines`.

    arrived  text that is read in place of the source

    head        what was read before iteration, by which the format is recognised: the first chunk
    chunk_line  the number of the first line of the chunk that iteration gave last
    min_lines   may be set before iteration
    """

    min_lines: float = 0

    def __init__(
        self, source: Source, progress: Progress, arrived: Iterable[bytes] | None = None
    ) -> None:
        self.name = source.name
        self.chunk_line = 1
        self.budget = MemoryBudget(source.name)
        blocks = _blocks_of(source) if arrived is None else ((block, 0) for block in arrived)
        self._chunks = self._read(blocks, source, progress)
        self.head = next(self._chunks, b"").removeprefix(UTF8_MARK)
        if not self.head:
            raise DataError(self.name, None, "an empty file", "check that it was copied whole")

    def keep_empty_lines(self) -> None:
        """Include all empty lines at the end: each is a row."""
        self.min_lines = math.inf

    @property
    def first_line(self) -> str:
        """The first line that is not blank, without its end."""
        return _first_line(self.head)

    @property
    def first_row(self) -> str:
        """The first line that is neither blank nor a comment, which begins with #; "" if none is.

        Of comments at most MAX_LINE_BYTES are looked at.
        """
        comments_end = self._comments_end()
        return _first_line(self.head[comments_end:])

    @property
    def number_of_first_row(self) -> int:
        """The number of that line."""
        comments_end = self._comments_end()
        rows = self.head[comments_end:]
        row_start = comments_end + len(rows) - len(rows.lstrip())
        return self.chunk_line + self.head.count(b"\n", 0, row_start)

    def skip_comments(self) -> None:
        """Leave out, before iteration, comments before the first row and blanks before them."""
        self._skip_bytes(self._comments_end())

    def skip_first_row(self) -> None:
        """Leave out, before iteration, the first row and what stands before it."""
        self.skip_comments()
        n_blank = len(self.head) - len(self.head.lstrip())
        self._skip_bytes(self.head.find(b"\n", n_blank) + 1)

    def __iter__(self) -> Iterator[bytes]:
        for chunk in itertools.chain([self.head], self._chunks):
            yield chunk
            self.chunk_line += chunk.count(b"\n")

    def _comments_end(self) -> int:
        """Where the comments before the first row end in `head`, which grows if it has no row."""
        comments_end = _end_of_comments(self.head, 0)
        while not self.head[comments_end:].strip() and len(self.head) <= MAX_LINE_BYTES:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            self.head += chunk
            comments_end = _end_of_comments(self.head, comments_end)
        return comments_end

    def _skip_bytes(self, n: int) -> None:
        self.chunk_line += self.head.count(b"\n", 0, n)
        self.head = self.head[n:]

    def _read(
        self, blocks: Iterable[tuple[bytes, int]], source: Source, progress: Progress
    ) -> Iterator[bytes]:
        progress.start("reading", source.size, "B")
        n_lines = 0
        # an incomplete line, and empty lines, which are given with the line after them
        rest = bytearray()
        is_spread = None
        for block, stored in blocks:
            rest += block
            if is_spread is None and rest.strip():
                is_spread = begins_spread(bytes(rest))
            if len(rest) > MAX_LINE_BYTES + len(block):
                line = n_lines + 1 + rest.count(b"\n")
                problem = f"a line of more than {MAX_LINE_BYTES:,} bytes"
                raise DataError(self.name, line, problem, "check that it is the right file")
            if is_spread:
                chunk = _take(rest, rest.rfind(b"}") + 1)
                n_lines += chunk.count(b"\n")
                if chunk:
                    yield chunk
            elif block.strip(b"\r\n"):
                chunk = _take_whole_lines(rest, rest.rfind(b"\n") + 1)
                n_lines += chunk.count(b"\n")
                if chunk:
                    yield chunk
            progress.update(stored)
        chunk = _take_whole_lines(rest, len(rest))
        n_lines += chunk.count(b"\n")
        if chunk:
            yield chunk
        progress.finish()
        n_empty = rest.count(b"\n") + rest.endswith(b"\r")
        n_kept = min(n_empty, self.min_lines - n_lines)
        if n_kept > 0:
            yield b"\n" * int(n_kept)


def _first_line(text: bytes) -> str:
    """The first line that is not blank, without its end."""
    return text.lstrip().split(b"\n", 1)[0].decode("utf-8", "replace").strip()


def _end_of_comments(text: bytes, start: int) -> int:
    """Where lines that begin with #, and blank ones before them, end after `start`."""
    match = COMMENTS.match(text, start)
    assert match is not None
    return match.end()


def _take_whole_lines(text: bytearray, end: int) -> bytes:
    """The lines of text[:end] up to the last one that is not empty, which are taken off it."""
    end_of_text = len(text[:end].rstrip(b"\r\n"))
    if not end_of_text:
        return b""
    end_of_line = text.find(b"\n", end_of_text) + 1 or len(text)
    lines = _take(text, end_of_line)
    if not lines.endswith(b"\n"):
        lines += b"\n"
    return lines


def _take(text: bytearray, end: int) -> bytes:
    """text[:end], which is taken off it."""
    taken = bytes(text[:end])
    del text[:end]
    return taken


def _blocks_of(source: Source) -> Iterator[tuple[bytes, int]]:
    """The text of a source in blocks, each with the number of bytes read so far, as stored."""
    with ReadAhead([source]) as blocks:
        for _, block, stored in blocks:
            yield block, stored


class LabelledFile:
    """A file, URL or standard input: its first bytes, its lines, or all that it unpacks to.

    arrived  text that is read in place of the source
    """

    def __init__(
        self, source: Source, progress: Progress, arrived: Iterable[bytes] | None = None
    ) -> None:
        self.source = source
        self.name = source.name
        self.progress = progress
        self._arrived = arrived

    @cached_property
    def head(self) -> bytes:
        """The first unpacked bytes; b"" where they could not be read again."""
        return head_of(self.source)

    @cached_property
    def lines(self) -> Lines:
        """The lines of a text; they can be iterated once."""
        return Lines(self.source, self.progress, self._arrived)

    @property
    def is_plain(self) -> bool:
        """Whether it is a file on disk that is not packed."""
        if is_url(self.name):
            return False
        with open(self.name, "rb") as stored:
            return stored.read(len(self.head)) == self.head

    def open_unpacked(self) -> IO[bytes]:
        """All that the file unpacks to."""
        if self.is_plain:
            return open(self.name, "rb")
        return content_of(self.source)


class LabelledFiles:
    """Files whose rows are one data set. They are opened one after the other."""

    def __init__(
        self,
        sources: Sequence[Source],
        progress: Progress,
        arrived: Iterable[bytes] | None = None,
    ) -> None:
        self.progress = progress
        self.first = LabelledFile(sources[0], progress, arrived)
        self._others = sources[1:]
        self._check: Callable[[LabelledFile], None] | None = None

    def checked_by(self, check: Callable[[LabelledFile], None]) -> "LabelledFiles":
        """The same files. `check` raises `DataError` for one that does not go with the first."""
        files = copy.copy(self)
        files._check = check
        return files

    @property
    def name(self) -> str:
        """The files, for a message: two by name, more by the first and their number."""
        if not self._others:
            return self.first.name
        if len(self._others) == 1:
            return f"{self.first.name} and {self._others[0].name}"
        return f"{self.first.name} and {len(self._others)} other files"

    def __iter__(self) -> Iterator[LabelledFile]:
        yield self.first
        for source in self._others:
            file = LabelledFile(source, self.progress)
            if self._check is not None:
                self._check(file)
            yield file


def content_of(source: Source) -> io.BytesIO:
    """All that a source unpacks to, in memory."""
    budget = MemoryBudget(source.name)
    content = io.BytesIO()
    with UnpackedReader(source) as file:
        while piece := file.read(BLOCK_BYTES):
            # Here and in the array.
            budget.take(2 * len(piece))
            content.write(piece)
    content.seek(0)
    return content
