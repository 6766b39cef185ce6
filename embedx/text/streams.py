"""A source as blocks of UTF-8 text: opened once, unpacked by what it holds rather than by its name,
read ahead in a thread.
"""

import bz2
import codecs
import contextlib
import functools
import gzip
import http.client
import io
import itertools
import lzma
import queue
import re
import select
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from embedx.errors import DataError, Setting, Text
from embedx.settings import Record
from embedx.text import archives, tables
from embedx.text.cells import SEPARATOR_NAMES, cell_tokens
from embedx.text.in_order import in_order
from embedx.text.parquet import parquet_values
from embedx.text.settings import TextSettings
from embedx.text.sources import EDGES, ROWS, STANDARD_INPUT, Source, is_url, reader_of
from embedx.text.tables import PARQUET_START, LabelledDataError, NotTextError
from embedx.text.unicode_forms import normalized_blocks
from embedx.text.wikipedia import DumpError, paragraphs

BLOCK_BYTES = 1 << 18
TIMEOUT = 60.0  # seconds without a byte from a server
# Wikimedia requires a name; some servers refuse Python's own
AGENT = "embedx (https://pypi.org/project/embedx)"
# The extra of pyproject.toml that each kind of storage needs; smart_open itself reads the others.
EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gcs",
    "azure": "azure",
    "ssh": "ssh",
    "scp": "ssh",
    "sftp": "ssh",
}
SCHEMES = ("file", "http", "https", "ftp", "ftps", "hdfs", "viewfs", "webhdfs", *EXTRAS)
BLOCKS_AHEAD = 8  # enough to even out the speeds of the two threads
MAX_AHEAD = 128  # where several sources are read at once: most of one whose turn is still to come
ZSTD_BYTES = 1 << 11  # read at a time, which bounds the output: at most 64 MB
BZIP2_PART_BYTES = 1 << 20  # as stored, that a thread unpacks at a time
MAX_STREAM_BYTES = 1 << 24  # as stored; a longer one is unpacked by one thread
MAX_UNPACKED_BLOCKS = 64  # of a part of a bzip2 file, that wait for those before
MAX_XZ_MEMORY = 1 << 30  # bytes that a file may make its reader allocate; `xz -9` takes 65 MB

BZIP2_START = re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")
XZ_MAGIC = b"\xfd7zXZ\0"
# a frame, or one to skip, with which pzstd begins
ZSTD_START = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
# What begins so, and what to do with it.
NOT_TEXT: dict[bytes, tuple[str, Text]] = {
    b"PK\x03\x04": ("a zip archive", "unzip it, or name it .zip"),
    b"%PDF-": ("a PDF", "convert it with pdftotext"),
    PARQUET_START: ("a Parquet file", ("name the column with the text by ", Setting("column"))),
    codecs.BOM_UTF16_LE: ("UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"),
    codecs.BOM_UTF16_BE: ("UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"),
}
TAR_MAGIC, TAR_MAGIC_PLACE = b"ustar", 257
# Nothing is given back: a comment ends at its first "-->". Otherwise n comments could be separated
# in 2^n ways.
DUMP_START = re.compile(
    r"\ufeff?\s*+(?:<\?xml[^>]*+>\s*+)?+(?:(?><!--.*?-->)\s*+)*+<mediawiki\b", re.DOTALL
)
DUMP_START_BYTES = 4096
# Text in an 8-bit encoding, or with damaged places, stays well below this; about half of random
# bytes is not UTF-8.
MAX_UNREADABLE = 0.3
MIN_BYTES_TO_JUDGE = 64
# Of labelled data: the header of an XC file, a row of such a file or LIBSVM's, fastText's labels
XC_HEADER = re.compile(rb"\d+\s+\d+\s+\d+")
# the last number may be cut
SPARSE_ROW = re.compile(rb"(?:[^\s:]+\s+|\s*)(?:\d+:[-+.\deE]+(?:\s+|$))+(?:\d+:?)?")
FASTTEXT_LABEL = re.compile(rb"(?:^|\s)__label__\S")
LABELLED_HEAD = 4096  # bytes that it is recognised by
PLAIN = TextSettings()
DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, UnicodeError, *archives.DAMAGED_ARCHIVE)


class CountedReader(io.RawIOBase):
    """Passes on what it reads from `file` and counts it: progress is measured in bytes
    as stored.
    """

    def __init__(self, file: Any, expected: int | None = None) -> None:
        self.file = file
        self.expected = expected
        self.count = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self.file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self.expected = None  # what is read from another place on is not all
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def readinto(self, buffer: Any) -> int:
        try:
            # a pipe that does not block, and is empty
            while (n := self.file.readinto(buffer)) is None:
                select.select([self.file], [], [])
        except OSError:
            raise
        except Exception as error:  # every kind of storage has its own
            raise OSError(reason(error)) from error
        self.count += n
        if not n and self.expected is not None and self.count < self.expected:
            raise OSError(f"the connection ended after {self.count} of {self.expected} bytes")
        return n

    def close(self) -> None:
        if not self.closed:
            self.file.close()
        super().close()


class UnpackedReader(archives.BlockReader):
    """What a source holds, decompressed if need be, as a file that is read once. Damage to it is an
    `EmbedxError`.
    """

    def __init__(self, source: Source, as_it_comes: bool = False) -> None:
        """`as_it_comes`: whether a read gives what a pipe holds, without waiting for more."""
        self._file = open_source(source)
        super().__init__(self._content(source, as_it_comes))

    def _content(self, source: Source, as_it_comes: bool) -> Iterator[bytes]:
        file = io.BufferedReader(self._file, BLOCK_BYTES)
        with damage_explained(source):
            yield from without_mark(unpacked(source, file, as_it_comes=as_it_comes))

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def open_source(source: Source) -> CountedReader:
    """Open it, for the one and only time, as it is stored; `EmbedxError` if that fails."""
    address = source.address
    try:
        if address == STANDARD_INPUT:
            # Without the buffer of `sys.stdin`, whose lock a waiting reader holds: the interpreter
            # takes that lock at its end, and aborts where another thread holds it. What was read
            # before, or the buffer holds, is lost.
            if sys.stdin is None:
                raise OSError("it is closed")
            return CountedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
        return _opened(address)
    except ImportError as error:
        scheme = scheme_of(address)
        if scheme not in EXTRAS:
            raise
        problem = f"reading {scheme}:// needs more packages"
        remedy = f'pip install "embedx[{EXTRAS[scheme]}]"'
        raise DataError(source.name, None, problem, remedy) from error
    except Exception as error:  # every kind of storage has its own
        problem = f"cannot be opened ({reason(error)})"
        remedy = "check the name and your permissions"
        raise DataError(source.name, None, problem, remedy) from error


def _opened(address: str) -> CountedReader:
    """A file or URL, opened by smart_open.

    Nothing is decompressed: smart_open goes by names and takes damaged data for the end of a file.
    """
    import smart_open  # here because it takes a while to import

    if not is_url(address):
        # with its scheme and from the root on, so that no name is read as anything else
        place = f"file://{Path(address).absolute()}"
        return CountedReader(smart_open.open(place, "rb", buffering=0, compression="disable"))
    scheme = scheme_of(address)
    if scheme not in SCHEMES:
        raise OSError(f"{scheme}:// is none of {', '.join(SCHEMES)}")
    if scheme not in ("http", "https"):
        return CountedReader(smart_open.open(address, "rb", compression="disable"))
    headers = {"User-Agent": AGENT, "Accept-Encoding": "identity"}
    file: Any = smart_open.open(
        address,
        "rb",
        compression="disable",
        transport_params={"timeout": TIMEOUT, "headers": headers},
    )
    return CountedReader(file, file.content_length if file.content_length >= 0 else None)


def scheme_of(url: str) -> str:
    """What stands before `://`, in small letters."""
    return url.partition("://")[0].lower()


# ---- decompression


@contextlib.contextmanager
def damage_explained(source: Source) -> Iterator[None]:
    """Turn what decompressors, decoders and the XML parser raise into an `EmbedxError` with the
    source's name and a remedy.
    """
    try:
        yield
    except EOFError as error:
        problem = "the compressed data are truncated"
        raise DataError(source.name, None, problem, "fetch or copy it again") from error
    except DumpError as error:
        raise DataError(source.name, None, str(error)) from error
    except DAMAGED as error:
        problem = f"cannot be read ({reason(error)})"
        raise DataError(source.name, None, problem, "fetch or copy it again") from error


def unpacked(
    source: Source, file: Any, threads: int = 1, as_it_comes: bool = False
) -> Iterator[bytes]:
    """What the file holds, decompressed if need be, in blocks. Raises one of DAMAGED where it is
    damaged.
    """
    magic = file.peek(512)[:512]
    if BZIP2_START.match(magic):
        return _bzip2_blocks(file, threads)
    if magic.startswith(XZ_MAGIC):
        return _stream_blocks(file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, MAX_XZ_MEMORY))
    if ZSTD_START.match(magic):
        return _zstd_blocks(source.name, file)
    stream = gzip.GzipFile(fileobj=file) if magic.startswith(b"\x1f\x8b") else file
    read = stream.read1 if as_it_comes else stream.read
    return iter(lambda: read(BLOCK_BYTES), b"")


def without_mark(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks without the byte order mark that some editors write before UTF-8."""
    head = b""
    while len(head) < len(codecs.BOM_UTF8) and (block := next(blocks, b"")):
        head += block
    yield head.removeprefix(codecs.BOM_UTF8)
    yield from blocks


def _stream_blocks(
    file: Any, decompressor: Callable[[], Any], step: int = BLOCK_BYTES
) -> Iterator[bytes]:
    """The content of one compressed stream after the other, as bzip2, xz and zstd write several;
    reads `step` bytes at a time.

    What follows a stream and begins none, but for zeros, is damage too. Python's own readers take
    it for the end, so that text is lost where a stream's first bytes are damaged. zstandard's
    decompressor, which has no `needs_input`, takes no limit of its output.
    """
    data = b""
    while data or (data := file.read(step)):
        stream = decompressor()
        limit = (BLOCK_BYTES,) if hasattr(stream, "needs_input") else ()
        while not stream.eof:
            yield stream.decompress(data, *limit)
            data = b""
            if (
                getattr(stream, "needs_input", True)
                and not stream.eof
                and not (data := file.read(step))
            ):
                raise EOFError
        data = stream.unused_data.lstrip(b"\0")
        while not data and (data := file.read(step)):
            data = data.lstrip(b"\0")


def _zstd_blocks(name: str, file: Any) -> Iterator[bytes]:
    """The content of a zstd file."""
    try:
        import zstandard
    except ImportError as error:
        remedy = 'pip install "embedx[zstd]"'
        raise DataError(name, None, "reading .zst needs zstandard", remedy) from error
    try:
        yield from _stream_blocks(file, zstandard.ZstdDecompressor().decompressobj, ZSTD_BYTES)
    except zstandard.ZstdError as error:
        raise OSError(str(error)) from error


def _bzip2_blocks(file: Any, threads: int) -> Iterator[bytes]:
    """The content of a bzip2 file, its streams unpacked by several threads.

    Wikipedia's multistream dumps have a stream for each 100 pages, pbzip2 writes one for each 900
    kB. A longer stream, as bzip2 itself writes, is unpacked by one thread.
    """

    def unpack(part: Any) -> Iterator[bytes]:
        """The content of a part, of which the thread unpacks so much that memory stays bounded."""
        blocks = _stream_blocks(part, bz2.BZ2Decompressor)
        return itertools.chain(list(itertools.islice(blocks, MAX_UNPACKED_BLOCKS)), blocks)

    def parts() -> Iterator[Any]:
        data = b""
        while more := file.read(BZIP2_PART_BYTES):
            data += more
            if cut := max((start.start() for start in BZIP2_START.finditer(data, 1)), default=0):
                yield io.BytesIO(data[:cut])
                data = data[cut:]
            elif len(data) > MAX_STREAM_BYTES:
                yield archives.BlockReader(
                    itertools.chain([data], iter(lambda: file.read(BLOCK_BYTES), b""))
                )
                return
        yield io.BytesIO(data)

    pool = ThreadPoolExecutor(threads, "embedx-bzip2")
    try:
        for blocks in in_order((pool.submit(unpack, part) for part in parts()), 2 * threads):
            yield from blocks
    finally:
        # Without waiting: the garbage collector may end a generator in a thread that holds a lock
        # of `threading`.
        pool.shutdown(wait=False, cancel_futures=True)


# ---- text


def text_blocks(
    source: Source,
    file: CountedReader,
    settings: TextSettings = PLAIN,
    threads: int = 1,
    report: Record | None = None,
) -> Iterator[bytes]:
    """The text of an open source as blocks of UTF-8 (where it is well-formed), a few times
    BLOCK_BYTES or a record.

    report  of the source, where records without text are counted
    """
    report = report or new_report(source)
    with damage_explained(source):
        if not source.members:
            yield from _text_of_file(source, file, settings, threads, report)
            return
        found, whole = False, source.has_sentences(settings)
        for name, opened in archives.members(
            file, source.members, functools.partial(unpacked, source)
        ):
            found = True
            reader = source.format(settings) if whole or source.reader != "any" else reader_of(name)
            member = replace(source, name=f"{source.name}: {name}", reader=reader, members="")
            # the tokenizer skips only the mark at the beginning of the source
            yield from without_mark(text_blocks(member, CountedReader(opened), settings, 1, report))
            if not whole:  # where records end sentences by themselves
                yield b"\n"
        if not found:
            problem = f"no member matches {source.members}"
            raise DataError(source.name, None, problem, "is it the right file?")


def _text_of_file(
    source: Source, file: CountedReader, settings: TextSettings, threads: int, report: Record
) -> Iterator[bytes]:
    name, format, whole = source.name, source.format(settings), source.has_sentences(settings)
    field = settings.json_field if format == "json" else settings.column
    note_bad = functools.partial(tables.count_bad, report, settings.on_bad_record)
    buffered = io.BufferedReader(file, BLOCK_BYTES)
    if format == "table" and buffered.peek(4)[:4] == PARQUET_START:
        buffered.detach()  # it would close the file
        return tables.text_of(parquet_values(file, name, field), name, field or "", whole, note_bad)
    blocks = unpacked(source, buffered, threads)
    head = next(filter(None, blocks), b"")
    blocks = itertools.chain([head], blocks)
    if source.reader == ROWS and head.startswith(PARQUET_START):
        remedy = "save it to a file first"
        raise DataError(name, None, "Parquet needs random access", remedy)
    _check_is_text(name, head)
    if format in ("json", "table"):
        lines = tables.lines_of(blocks, name)
        if format == "json":
            values = tables.json_values(lines, name, field)
        elif field is not None and field.isdecimal():
            values = _values_at(int(field), lines, name)
        else:
            values = tables.table_values(lines, name, field)
        return tables.text_of(values, name, field or "", whole, note_bad)
    if DUMP_START.match(head[:DUMP_START_BYTES].decode("utf-8", "ignore")):
        return paragraphs(blocks, source.cut_off, threads)
    if format == "wikipedia":
        start = "it does not begin with <mediawiki>"
        problem = f"not a Wikipedia dump, despite its name or recipe: {start}"
        raise DataError(name, None, problem)
    if source.reader != ROWS and settings.format != "text" and begins_labelled(head):
        raise LabelledDataError(name)
    if source.reader == EDGES:
        separator = settings.edge_separator
        return cell_tokens(blocks, name, None if separator is None else SEPARATOR_NAMES[separator])
    return blocks


def _values_at(position: int, lines: Iterator[bytes], name: str) -> Iterator[tuple[int, Any]]:
    """The cells of a column of a table, by its number from 1; the first row has one too."""
    for number, row in tables.table_rows(lines, name, ()):
        if not isinstance(row, tables.Bad) and not 1 <= position <= len(row):
            columns = ", ".join(row)
            raise DataError(
                name,
                None,
                f"no column {position}",
                ("choose ", Setting("column"), f" among {columns}, or by its number, from 1"),
            )
        yield number, row if isinstance(row, tables.Bad) else row[position - 1]


def _check_is_text(name: str, head: bytes) -> None:
    """Raise `NotTextError` if what begins so is another kind of file."""
    for start, (problem, remedy) in NOT_TEXT.items():
        if head.startswith(start):
            raise NotTextError(name, problem, remedy, "binary")
    if head[TAR_MAGIC_PLACE:].startswith(TAR_MAGIC):
        remedy = "name it .tar, or unpack it with tar -x"
        raise NotTextError(name, "a tar archive", remedy, "binary")

    text = head.decode("utf-8", "replace")
    unreadable = text.count("\ufffd") + text.count("\0")
    if len(head) >= MIN_BYTES_TO_JUDGE and unreadable > MAX_UNREADABLE * len(text):
        share = f"{unreadable / len(text):.0%}"
        problem = f"not UTF-8 text: {share} of its first characters cannot be read"
        remedy = "if it is text, convert it with iconv -t UTF-8"
        raise NotTextError(name, problem, remedy, "binary")


def begins_labelled(head: bytes) -> bool:
    """Whether what begins so is labelled data as `embedx classify` reads them, each of the first
    lines.
    """
    *lines, last = head[:LABELLED_HEAD].removeprefix(codecs.BOM_UTF8).split(b"\n")
    if not lines or SPARSE_ROW.fullmatch(last.strip()):  # else it may be cut anywhere
        lines.append(last)
    lines = [line.strip() for line in lines if line.strip()]
    if lines and XC_HEADER.fullmatch(lines[0]):
        return any(map(SPARSE_ROW.fullmatch, lines[1:]))
    return bool(lines) and (
        all(map(SPARSE_ROW.fullmatch, lines)) or all(map(FASTTEXT_LABEL.search, lines))
    )


def reason(error: BaseException) -> str:
    """Why something could not be opened or read, in one line: what the system said first, where
    libraries have made errors of their own of it, which repeat the secrets of a URL.
    """
    response = getattr(error, "response", None)
    if response is not None and hasattr(response, "status_code"):
        return f"HTTP {response.status_code} {response.reason}"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        if isinstance(cause, http.client.IncompleteRead):
            n_read: object = cause.partial  # the bytes or, of urllib3, their number
            if isinstance(n_read, int) and cause.expected is not None:
                total = n_read + cause.expected
                return f"the connection ended after {n_read} of {total} bytes"
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(error).split()) or type(error).__name__


# ---- reading ahead


def new_report(source: Source) -> Record:
    """What is found in a source; `skipped` is what it is if it is no text, but in a folder beside
    text.
    """
    found = {
        "tokens": 0,
        "bad_utf8": 0,
        "first_bad_byte": None,
        "too_long": 0,
        "bad_records": 0,
        "first_bad_record": "",
    }
    return {"name": source.name, **found, "skipped": ""}


class TextBlock(NamedTuple):
    """A piece of the text of sources[source]; an empty one ends it."""

    source: int
    data: bytes
    stored: int  # bytes read from all sources so far, as stored


class ReadAhead:
    """Iterates over the blocks of all sources; threads read and decompress them, some blocks ahead.

    Up to `threads` sources are read at a time, each by a thread; if there are fewer, several
    threads decompress each of them.
    """

    def __init__(
        self, sources: Sequence[Source], settings: TextSettings = PLAIN, threads: int = 1
    ) -> None:
        self._sources = sources
        self._settings = settings
        self.reports = [new_report(source) for source in sources]
        self._at_once = max(1, min(threads, len(sources)))
        self._threads_each = max(1, threads // self._at_once)
        # Of each source its blocks, with the bytes read so far, as stored; an empty block or an
        # error ends them.
        self._queues: list[queue.Queue[Any]] = [
            queue.Queue(BLOCKS_AHEAD if self._at_once == 1 else MAX_AHEAD) for _ in sources
        ]
        self._stopped = threading.Event()
        for number in range(self._at_once):
            self._start(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()

    def __iter__(self) -> Iterator[TextBlock]:
        done = 0
        for number, blocks in enumerate(self._queues):
            data = None
            while data != b"":
                item = blocks.get()
                if isinstance(item, BaseException):
                    raise item
                data, stored = item
                yield TextBlock(number, data, done + stored)
            done += stored
            self._start(number + self._at_once)

    def _start(self, number: int) -> None:
        """Read a source in a thread of its own."""
        if number < len(self._sources):
            # A daemon, because a read from a terminal or a slow server cannot be interrupted.
            threading.Thread(
                target=self._run, args=(number,), daemon=True, name="embedx-reader"
            ).start()

    def _run(self, number: int) -> None:
        source, report = self._sources[number], self.reports[number]
        try:
            with open_source(source) as file:
                blocks = text_blocks(
                    source, file, self._settings, self._threads_each, report=report
                )
                if self._settings.normalize is not None:
                    blocks = normalized_blocks(blocks, self._settings.normalize)
                for block in blocks:
                    for start in range(0, len(block), BLOCK_BYTES):
                        self._put(number, (block[start : start + BLOCK_BYTES], file.count))
                    if self._stopped.is_set():
                        return
                end: Any = b"", file.count
        except BaseException as error:  # to be raised where the blocks are read
            end = error
            if isinstance(error, NotTextError) and source.folder and not source.members:
                report["skipped"] = error.kind
                end = b"", source.size or 0
        self._put(number, end)

    def _put(self, number: int, item: Any) -> None:
        """Wait for a place in the queue, unless the blocks are no longer read."""
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Full):
                self._queues[number].put(item, timeout=0.1)
                return
