"""A source as blocks of UTF-8 text: opened once, unpacked by what it holds rather than by its name, read ahead in a thread."""

import bz2
import codecs
import contextlib
import functools
import gzip
import io
import itertools
import lzma
import queue
import re
import select
import shlex
import sys
import threading
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self, TypeAlias
from xml.parsers.expat import ExpatError

from embedx.errors import EmbedxError
from embedx.settings import TextSettings
from embedx.text import archives
from embedx.text.block_reader import BlockReader
from embedx.text.sources import ROWS, STANDARD_INPUT, Source, is_url
from embedx.text.tables import PARQUET_START, BadRecords, json_text, lines_of, parquet_text, table_text
from embedx.text.wikipedia import DumpError, paragraphs

BLOCK_BYTES = 1 << 18
EXTRA = re.compile(r"smart_open\[\w+\]")  # in what smart_open says of a library that is missing
BLOCKS_AHEAD = 8  # enough to even out the speeds of the two threads
MAX_AHEAD = 128  # where several sources are read at once: most of one whose turn is still to come
# A zstd decompressor's output has no limit, so its input gets one, by what the last piece became.
MIN_ZSTD_BYTES, MAX_ZSTD_BYTES = 1 << 6, 1 << 11
MAX_XZ_MEMORY = 1 << 30  # bytes that a file may make its reader allocate; `xz -9` takes 65 MB

BZIP2_START = re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")
XZ_MAGIC = b"\xfd7zXZ\0"
ZSTD_START = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # a frame, or one to skip, with which pzstd begins
NOT_TEXT = {
    b"PK\x03\x04": "a zip archive; unzip it, or name it .zip",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack it",
    b"Rar!": "a rar archive; unpack it",
    b"\x04\x22\x4d\x18": "lz4 data; unpack it with lz4 -d",
    b"%PDF-": "a PDF; convert it with pdftotext",
    PARQUET_START: "a Parquet file; name the column with the text by --column",
    b"\x93NUMPY": "a NumPy array; embedx train reads text",
}
TAR_MAGIC, TAR_MAGIC_PLACE = b"ustar", 257
# Longest first, because the mark of UTF-16 LE begins that of UTF-32 LE.
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Nothing is given back: a comment ends at its first "-->". Otherwise n comments could be separated in 2^n ways.
DUMP_START = re.compile(r"\s*+(?:<\?xml[^>]*+>\s*+)?+(?:(?><!--.*?-->)\s*+)*+<mediawiki\b", re.DOTALL)
DUMP_START_BYTES = 4096
# Text in an 8-bit encoding, or with damaged places, stays well below this; about half of random bytes is not UTF-8.
MAX_UNREADABLE = 0.3
MIN_BYTES_TO_JUDGE = 64
# Of labelled data: the header of an XC file, a row of such a file or LIBSVM's, fastText's labels
XC_HEADER = re.compile(rb"\d+\s+\d+\s+\d+")
SPARSE_ROW = re.compile(rb"(?:[^\s:]+\s+|\s*)(?:\d+:[-+.\deE]+(?:\s+|$))+")
FASTTEXT_LABEL = re.compile(rb"(?:^|\s)__label__\S")
LABELLED_HEAD = 4096  # bytes that it is recognised by
BINARY, LABELLED = "binary", "labelled data (embedx classify)"  # what a folder may hold beside text
PLAIN = TextSettings()
DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, UnicodeError, ExpatError, *archives.DAMAGED_ARCHIVE)


class NotTextError(EmbedxError):
    """A file is no text, but of another kind."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class CountedReader(io.RawIOBase):
    """Passes on what it reads from `file` and counts it: progress is measured in bytes as stored."""

    def __init__(self, file: Any, expected: int | None = None, keep_open: bool = False) -> None:
        self.file = file
        self.expected = expected
        self.keep_open = keep_open
        self.count = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self.file.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return int(self.file.seek(offset, whence))

    def tell(self) -> int:
        return int(self.file.tell())

    def readinto(self, buffer: Any) -> int:
        try:
            while (n := self.file.readinto(buffer)) is None:  # a pipe that does not block, and is empty
                select.select([self.file], [], [])
        except OSError:
            raise
        except Exception as error:  # every kind of storage has its own
            raise OSError(reason(error)) from error
        self.count += n
        if not n and self.expected is not None and self.count < self.expected:
            raise OSError(f"the connection ended after {self.count} of {self.expected} bytes")
        return int(n)

    def close(self) -> None:
        if not self.closed and not self.keep_open:
            self.file.close()
        super().close()


class UnpackedReader(BlockReader):
    """What a source holds, decompressed if need be, as a file that is read once. Damage to it is an `EmbedxError`."""

    def __init__(self, source: Source) -> None:
        self._file = open_source(source)
        super().__init__(_with_damage_explained(source, unpacked(source, io.BufferedReader(self._file, BLOCK_BYTES))))

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _with_damage_explained(source: Source, blocks: Iterator[bytes]) -> Iterator[bytes]:
    with damage_explained(source):
        yield from blocks


def open_source(source: Source) -> CountedReader:
    """Open it, for the one and only time; `EmbedxError` if that fails."""
    address = source.address
    try:
        if address == STANDARD_INPUT:
            return _standard_input()
        if not is_url(address):
            return CountedReader(open(address, "rb", buffering=0))
        if address.startswith(("http://", "https://")):
            # Not through smart_open, which needs the package requests for it.
            response = urllib.request.urlopen(address)
            return CountedReader(response, response.length)
        import smart_open  # here because it takes a while to import

        return CountedReader(smart_open.open(address, "rb", compression="disable"))
    except ImportError as error:
        extra = EXTRA.search(str(error))  # which is not always the scheme
        raise EmbedxError(
            f'{source.name}: reading this needs more packages; pip install "{extra[0] if extra else "smart_open[all]"}"'
        ) from error
    except Exception as error:  # every kind of storage has its own
        raise EmbedxError(f"{source.name}: cannot be opened ({reason(error)}); check the name and your rights") from error


def _standard_input() -> CountedReader:
    """Standard input without the buffer of `sys.stdin`, whose lock a waiting reader holds.

    The interpreter takes that lock at its end, to close `sys.stdin`, and aborts where another thread holds it. What was read
    from `sys.stdin` before is not read again, nor what its buffer holds.
    """
    if sys.stdin is None:
        raise OSError("it is closed")
    try:
        descriptor = sys.stdin.fileno()
    except (AttributeError, OSError):  # something in memory stands for it
        return CountedReader(sys.stdin.buffer, keep_open=True)
    return CountedReader(io.FileIO(descriptor, closefd=False))


def text_blocks(
    source: Source,
    file: CountedReader,
    settings: TextSettings = PLAIN,
    threads: int = 1,
    whole: bool | None = None,
    bad: BadRecords | None = None,
) -> Iterator[bytes]:
    """The text of an open source as blocks of UTF-8 (where it is well-formed), a few times BLOCK_BYTES or a record.

    bad     counts records without text
    whole   whether other bytes than white space end its tokens, see `embedx.text.tables`; by default `source.has_sentences`
    """
    whole = source.has_sentences(settings) if whole is None else whole
    bad = bad or BadRecords(settings.on_bad_record)
    if source.members:
        yield from _text_of_members(source, file, settings, whole, bad)
        return
    with damage_explained(source):
        buffered: Any = io.BufferedReader(file, BLOCK_BYTES)
        format = source.format(settings)
        if format == "table" and buffered.peek(4)[:4] == PARQUET_START:
            yield from _parquet_blocks(source, file, settings.column, whole, bad)
            return
        blocks = unpacked(source, buffered, threads)
        head = next((block for block in blocks if block), b"")
        for start, kind in NOT_TEXT.items():
            if head.startswith(start):
                raise NotTextError(f"{source.name}: {kind}", BINARY)
        blocks = itertools.chain([head], blocks)
        encoding = next((name for mark, name in BYTE_ORDER_MARKS if head.startswith(mark)), "utf-8")
        if format in ("json", "table"):
            if encoding == "utf-8":
                _check_is_text(source, head)
            lines = lines_of(blocks if encoding == "utf-8" else _recoded(blocks, encoding), source.name)
            if format == "json":
                yield from json_text(lines, source.name, settings.json_field, whole, bad)
            else:
                yield from table_text(lines, source.name, settings.column, whole, bad)
        elif DUMP_START.match(head[:DUMP_START_BYTES].decode(encoding, "ignore").lstrip("\ufeff")):
            yield from paragraphs(blocks, source.cut_off, threads)
        elif source.reader == "wikipedia":
            raise EmbedxError(
                f"{source.name}: no Wikipedia dump, as its name or recipe says: it does not begin with <mediawiki>"
            )
        elif encoding != "utf-8":
            yield from _recoded(blocks, encoding)
        else:
            _check_is_text(source, head)
            if source.reader != ROWS and begins_labelled(head):
                command = f"embedx classify {shlex.quote(source.name)}"
                raise NotTextError(
                    f"{source.name}: labelled data, no text; train a classifier on it with `{command}`", LABELLED
                )
            yield from blocks


def _text_of_members(
    source: Source, archive: CountedReader, settings: TextSettings, whole: bool, bad: BadRecords
) -> Iterator[bytes]:
    """The text of an archive's members, one after the other; the end of each ends a line."""
    found = False
    with damage_explained(source):
        for name, file in archives.members(archive, source.members, functools.partial(unpacked, source)):
            found = True
            member = CountedReader(file, keep_open=True)
            yield from text_blocks(source.member(name), member, settings, whole=whole, bad=bad)
            if not whole:  # where records end sentences by themselves
                yield b"\n"
    if not found:
        raise EmbedxError(f"{source.name}: no member of it is {source.members}; is it the right file?")


@contextlib.contextmanager
def damage_explained(source: Source) -> Iterator[None]:
    """Turn what decompressors, decoders and the XML parser raise into an `EmbedxError` with the source's name and a remedy."""
    try:
        yield
    except EOFError as error:
        raise EmbedxError(f"{source.name}: ends too early, the compressed data are cut off; fetch or copy it again") from error
    except ExpatError as error:
        raise EmbedxError(f"{source.name}: not a whole Wikipedia dump ({error}); fetch or copy it again") from error
    except DumpError as error:
        raise EmbedxError(f"{source.name}: no dump as MediaWiki writes it ({error}); is it the right file?") from error
    except DAMAGED as error:
        raise EmbedxError(f"{source.name}: cannot be read ({reason(error)}); fetch or copy it again") from error


def unpacked(source: Source, file: io.BufferedReader, threads: int = 1) -> Iterator[bytes]:
    """What the file holds, decompressed if need be, in blocks. Raises one of DAMAGED where it is damaged."""
    magic = file.peek(512)[:512]
    if ZSTD_START.match(magic):
        yield from _zstd_blocks(source, file)
    elif BZIP2_START.match(magic):
        yield from _bzip2_blocks(file, threads)
    elif magic.startswith(XZ_MAGIC):
        yield from _stream_blocks(file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, MAX_XZ_MEMORY))
    else:
        stream = gzip.GzipFile(fileobj=file) if magic.startswith(b"\x1f\x8b") else file
        while block := stream.read(BLOCK_BYTES):
            yield block


def _bzip2_blocks(file: io.BufferedReader, threads: int) -> Iterator[bytes]:
    """The content of a bzip2 file; by several threads, or by one where they fail and it can be read again."""
    n_bytes = 0
    counted: Any = file.raw
    can_be_read_again = threads > 1 and isinstance(counted, CountedReader) and isinstance(counted.file, io.FileIO)
    if threads > 1:
        from embedx.text import bzip2  # here because numba takes a while to import

        try:
            for block in bzip2.unpacked(file, threads):
                n_bytes += len(block)
                yield block
            return
        except (OSError, EOFError):
            if not (can_be_read_again and counted.seekable()):
                raise
        counted.seek(0)
        counted.count = 0
        file = io.BufferedReader(counted, BLOCK_BYTES)
    for block in _stream_blocks(file, bz2.BZ2Decompressor):
        yield block[n_bytes:]
        n_bytes -= min(n_bytes, len(block))


def _stream_blocks(file: io.BufferedReader, decompressor: Callable[[], Any]) -> Iterator[bytes]:
    """The blocks of one stream after the other, as bzip2 and xz write several.

    What follows a stream and begins none, but for zeros, is damage too. Python's own readers take it for the end, so that text
    is lost where a stream's first bytes are damaged.
    """
    data = b""
    while data or (data := file.read(BLOCK_BYTES)):
        stream = decompressor()
        while not stream.eof:
            yield stream.decompress(data, BLOCK_BYTES)
            data = b""
            if stream.needs_input and not stream.eof and not (data := file.read(BLOCK_BYTES)):
                raise EOFError
        data = stream.unused_data.lstrip(b"\0")
        while not data and (data := file.read(BLOCK_BYTES)):
            data = data.lstrip(b"\0")


def _zstd_blocks(source: Source, file: Any) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError as error:
        raise EmbedxError(f'{source.name}: reading .zst needs zstandard; pip install "embedx[zstd]"') from error
    unpack = None
    step = MIN_ZSTD_BYTES
    try:
        while data := file.read(step):
            while data:
                unpack = unpack or zstandard.ZstdDecompressor().decompressobj()
                block = unpack.decompress(data)
                yield block
                step = min(max(MIN_ZSTD_BYTES, step * BLOCK_BYTES // (len(block) + 1)), MAX_ZSTD_BYTES)
                data = b""
                if unpack.eof:  # another frame may follow
                    data, unpack = unpack.unused_data, None
    except zstandard.ZstdError as error:
        raise OSError(str(error)) from error
    if unpack is not None:
        raise EOFError


def _parquet_blocks(source: Source, file: CountedReader, column: str | None, whole: bool, bad: BadRecords) -> Iterator[bytes]:
    """The text of a column of a Parquet file; `file` counts as read what its rows are of all."""
    stored = file.file
    if not stored.seekable():
        raise EmbedxError(f"{source.name}: Parquet is read from its end; store it in a file first")
    size = stored.seek(0, io.SEEK_END)
    stored.seek(0)
    for share, block in parquet_text(stored, source.name, column, whole, bad):
        file.count = int(share * size)
        yield block
    file.count = size


def _recoded(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    for block in blocks:
        yield decoder.decode(block).encode("utf-8")
    decoder.decode(b"", final=True)


def _check_is_text(source: Source, head: bytes) -> None:
    if head[TAR_MAGIC_PLACE:].startswith(TAR_MAGIC):
        raise NotTextError(f"{source.name}: a tar archive; name it .tar, or unpack it with tar -x", BINARY)
    text = head.decode("utf-8", "replace")
    unreadable = text.count("\ufffd") + text.count("\0")
    if len(head) >= MIN_BYTES_TO_JUDGE and unreadable > MAX_UNREADABLE * len(text):
        raise NotTextError(
            f"{source.name}: not UTF-8 text: {unreadable / len(text):.0%} of its first characters cannot be read; "
            "if it is text, convert it with iconv -t UTF-8",
            BINARY,
        )


def begins_labelled(head: bytes) -> bool:
    """Whether what begins so is labelled data as `embedx classify` reads them, each of the first lines."""
    *lines, last = head[:LABELLED_HEAD].removeprefix(codecs.BOM_UTF8).split(b"\n")
    whole = (each for each in (last, last.rpartition(b" ")[0]) if SPARSE_ROW.fullmatch(each.strip()))  # it may be cut
    lines.append(next(whole, b"" if lines else last))
    lines = [line.strip() for line in lines if line.strip()]
    if lines and XC_HEADER.fullmatch(lines[0]):
        return any(map(SPARSE_ROW.fullmatch, lines[1:]))
    return bool(lines) and (all(map(SPARSE_ROW.fullmatch, lines)) or all(map(FASTTEXT_LABEL.search, lines)))


def reason(error: BaseException) -> str:
    """Why something could not be opened or read, in one line."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(reason.split()) or type(error).__name__


class TextBlock(NamedTuple):
    """A piece of the text of sources[source]; an empty one ends it."""

    source: int
    data: bytes
    stored: int  # bytes read from all sources so far, as stored


Blocks: TypeAlias = "queue.Queue[tuple[bytes, int] | BaseException]"  # of a source, with the bytes read so far, as stored


class ReadAhead:
    """Iterates over the blocks of all sources; threads read and decompress them, some blocks ahead.

    Each of `threads` reads a source, in their order; what those ahead hold is bounded. Where its format allows it, all of them
    decompress one source.
    """

    def __init__(self, sources: Sequence[Source], settings: TextSettings = PLAIN, threads: int = 1) -> None:
        self._sources = sources
        self._settings = settings
        self.bad_records = [BadRecords(settings.on_bad_record) for _ in sources]  # of each, when all of it was read
        self.skipped = [""] * len(sources)  # what each is that is no text, but in a folder beside text
        n = max(1, min(threads, len(sources)))
        self._threads_each = max(1, threads // n)
        self._ahead = BLOCKS_AHEAD if n == 1 else MAX_AHEAD
        self._next = iter(range(len(sources)))
        self._queues: dict[int, Blocks] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        # Daemons, because a read from a terminal or a slow server cannot be interrupted.
        self._threads = [threading.Thread(target=self._run, daemon=True, name="embedx-reader") for _ in range(n)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()

    def __iter__(self) -> Iterator[TextBlock]:
        done = 0
        for number in range(len(self._sources)):
            blocks = self._blocks_of(number)
            data: bytes | None = None
            while data != b"":
                item = blocks.get()
                if isinstance(item, BaseException):
                    raise item
                data, stored = item
                yield TextBlock(number, data, done + stored)
            done += stored
            del self._queues[number]

    def _blocks_of(self, number: int) -> Blocks:
        with self._lock:
            return self._queues.setdefault(number, queue.Queue(self._ahead))

    def _run(self) -> None:
        while True:
            with self._lock:
                number = next(self._next, None)
            if number is None:
                return
            source, blocks = self._sources[number], self._blocks_of(number)
            try:
                try:
                    self._read(number, source, blocks)
                except NotTextError as error:
                    if not source.folder or source.members:
                        raise
                    self.skipped[number] = error.kind
                    self._put(blocks, (b"", source.size or 0))
            except Stopped:
                return
            except BaseException as error:  # to be raised where the blocks are read
                with contextlib.suppress(Stopped):  # or nowhere
                    self._put(blocks, error)
                return

    def _read(self, number: int, source: Source, blocks: Blocks) -> None:
        """Read a source to its end. Raises `NotTextError` before there is any block."""
        if source.folder and (option := source.option_to_read(self._settings)) is not None:
            kind = "JSON" if option == "--json-field" else "CSV/TSV/Parquet"
            raise NotTextError(f"{source.name}: name its text by {option}", f"{kind} ({option})")
        with open_source(source) as file:
            bad = self.bad_records[number]
            for block in text_blocks(source, file, self._settings, self._threads_each, bad=bad):
                for start in range(0, len(block), BLOCK_BYTES):
                    self._put(blocks, (block[start : start + BLOCK_BYTES], file.count))
            self._put(blocks, (b"", file.count))

    def _put(self, blocks: Blocks, item: Any) -> None:
        while not self._stopped.is_set():
            try:
                return blocks.put(item, timeout=0.1)
            except queue.Full:
                continue
        raise Stopped


class Stopped(Exception):
    """The blocks are no longer read."""
