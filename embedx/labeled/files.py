"""The files of labelled data, opened: text as chunks of whole lines, binary files as their unpacked bytes."""

import io
import os
from collections.abc import Iterator

from embedx.errors import EmbedxError
from embedx.run.progress import Progress
from embedx.text.sources import STANDARD_INPUT, Source, is_url
from embedx.text.streams import BLOCK_BYTES, DAMAGED, ReadAhead, open_source, unpacked

UTF8_MARK = b"\xef\xbb\xbf"
HEAD_BYTES = 512


def source_of(name: str) -> Source:
    """The one file, URL or standard input of that name; `EmbedxError` if it is none."""
    if name == STANDARD_INPUT or is_url(name):
        return Source(name, "text", {"url": name} if is_url(name) else None)
    if os.path.isdir(name):
        raise EmbedxError(f"{name}: a directory; name the one file that holds the rows")
    try:
        size = os.stat(name).st_size
    except OSError as error:
        raise EmbedxError(f"{name}: cannot be opened ({error.strerror}); check the name and your rights") from error
    if not os.path.isfile(name):  # a pipe, as in <(zcat ...), gives its content once
        return Source(name, "text", None)
    return Source(name, "text", {"size": size})


def head_of(source: Source) -> bytes:
    """The first unpacked bytes, by which binary files are known; b"" where they could not be read again: those hold text."""
    if source.fingerprint is None:
        return b""
    with open_source(source) as file:
        buffered = io.BufferedReader(file, 1 << 16)
        stored = buffered.peek(HEAD_BYTES)[:HEAD_BYTES]
        if stored.startswith((b"PK\x03\x04", b"\x93NUMPY")):
            return stored
        try:
            return next(unpacked(source, buffered), b"")[:HEAD_BYTES]
        except DAMAGED:
            return b""  # whoever reads it as text explains what is wrong


def content_of(source: Source) -> bytes:
    """All of a binary file, unpacked."""
    try:
        with open_source(source) as file:
            buffered = io.BufferedReader(file, 1 << 18)
            if buffered.peek(HEAD_BYTES).startswith((b"PK\x03\x04", b"\x93NUMPY")):
                return buffered.read()
            return b"".join(unpacked(source, buffered))
    except DAMAGED as error:
        raise EmbedxError(f"{source.name}: cut off or damaged ({one_line(error)}); fetch or copy it again") from error


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class Lines:
    """Iterates over a text in chunks of whole lines, each ended by b"\\n".

    Empty lines at the end are not among them, but counted in `n_empty_at_end`.
    """

    def __init__(self, source: Source, progress: Progress) -> None:
        self.name = source.name
        self.line = 1  # number of the first line of the chunk given last
        self.n_empty_at_end = 0
        self._chunks = self._read(source, progress)
        self.head = next(self._chunks, b"")  # the first chunk, to tell the format by
        if not self.head:
            raise EmbedxError(f"{self.name}: an empty file; is it the right one, and was it copied whole?")

    @property
    def first_line(self) -> str:
        """The first line that is not blank, without its end."""
        return self.head.lstrip().split(b"\n", 1)[0].decode("utf-8", "replace").strip()

    def __iter__(self) -> Iterator[bytes]:
        yield self.head
        self.line += self.head.count(b"\n")
        for chunk in self._chunks:
            yield chunk
            self.line += chunk.count(b"\n")

    def error(self, line: int, message: str) -> EmbedxError:
        """What is wrong in that line, to be raised."""
        return EmbedxError(f"{self.name}:{line}: {message}")

    def _read(self, source: Source, progress: Progress) -> Iterator[bytes]:
        progress.start("reading", source.size, "B")
        pieces: list[bytes] = []  # of a line that goes on
        n_empty = 0  # lines before it, held back as a number because they may be the last
        is_first = is_head = True
        with ReadAhead([source]) as blocks:
            for _, block, stored in blocks:
                if is_first:
                    block = block.removeprefix(UTF8_MARK)
                    is_first = False
                end = block.rfind(b"\n") + 1
                if end:
                    lines = b"".join([*pieces, block[:end]])
                    pieces = []
                    end_of_text = _end_of_text(lines)
                    if end_of_text and is_head:  # by which the format is told: not of empty lines alone
                        lines, end_of_text, n_empty = b"\n" * n_empty + lines, end_of_text + n_empty, 0
                        is_head = False
                    if end_of_text:
                        yield from _empty_lines(n_empty)
                        yield lines[:end_of_text]
                        n_empty = 0
                    n_empty += lines.count(b"\n", end_of_text)
                pieces.append(block[end:])
                progress.update(stored)
        last = b"".join(pieces)
        if last.strip(b"\r"):
            yield b"\n" * n_empty + last + b"\n"
        else:
            self.n_empty_at_end = n_empty
        progress.finish()


def _end_of_text(lines: bytes) -> int:
    """Where the last line ends that is not empty; 0 if there is none."""
    n = len(lines.rstrip(b"\r\n"))
    return lines.index(b"\n", n) + 1 if n else 0


def _empty_lines(n: int) -> Iterator[bytes]:
    """So many of them, some at a time."""
    for start in range(0, n, BLOCK_BYTES):
        yield b"\n" * min(BLOCK_BYTES, n - start)
