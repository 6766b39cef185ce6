"""Decompresses bzip2, gzip, xz and zstd, recognised by their first bytes, not by names."""

import bz2
import codecs
import contextlib
import glob
import gzip
import io
import itertools
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from embedx.errors import DataError, no_such
from embedx.text import archives
from embedx.text.in_order import in_order
from embedx.text.opening import BLOCK_BYTES, open_source, reason
from embedx.text.sources import (
    STANDARD_INPUT,
    Source,
    find_sources,
    is_url,
    recipe_meant,
)
from embedx.text.wikipedia import DumpError

GZIP_START = b"\x1f\x8b"
BZIP2_START = re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")
XZ_START = b"\xfd7zXZ\0"
# The start of a frame, or of a skippable frame, which is the first in files of pzstd.
ZSTD_START = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")

# Compressed bytes read at a time; this bounds the output to 64 MB.
ZSTD_BYTES = 1 << 11
# Number of compressed bytes that a thread unpacks at a time.
BZIP2_PART_BYTES = 1 << 20
# A stream of more compressed bytes is unpacked by one thread.
MAX_STREAM_BYTES = 1 << 24
# Maximum number of blocks of one part of a bzip2 file that wait for the previous parts.
MAX_UNPACKED_BLOCKS = 64
# Maximum number of bytes that a decompressor may allocate; `xz -9` needs 65 MB.
MAX_XZ_MEMORY = 1 << 30

DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, UnicodeError, *archives.DAMAGED_ARCHIVE)


class UnpackedReader(archives.BlockReader):
    """The content of a source, decompressed if necessary, as a file that is read once. Raises
    `DataError` if it is damaged.
    """

    def __init__(self, source: Source, as_it_comes: bool = False) -> None:
        """
        as_it_comes  a read returns the bytes available in a pipe, without waiting for more
        """
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


def lines_of_file(name: str) -> Iterator[bytes]:
    """The lines of a file, which may be compressed, or of all files that match a pattern. Raises
    `DataError` if there is no file.
    """
    is_one_file = not glob.has_magic(name) and not is_url(name) and name != STANDARD_INPUT
    if is_one_file and not os.path.lexists(name) and recipe_meant(name) is None:
        raise no_such("file", name)
    for source in find_sources([name]):
        with UnpackedReader(source) as reader:
            yield from reader


@contextlib.contextmanager
def damage_explained(source: Source) -> Iterator[None]:
    """Replace the errors of decompressors, decoders and the XML parser by a `DataError` with the
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
    """Yield the content of a file in blocks, decompressed if necessary.

    as_it_comes  a block is the bytes available in a pipe, without waiting for more
    Raises one of DAMAGED where the file is damaged.
    """
    start = file.peek(512)[:512]
    if BZIP2_START.match(start):
        return _bzip2_blocks(file, threads)
    if start.startswith(XZ_START):
        return _stream_blocks(file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, MAX_XZ_MEMORY))
    if ZSTD_START.match(start):
        return _zstd_blocks(source.name, file)
    if start.startswith(GZIP_START):
        file = gzip.GzipFile(fileobj=file)
    read = file.read1 if as_it_comes else file.read
    return iter(lambda: read(BLOCK_BYTES), b"")


def without_mark(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks without the byte order mark that some editors write before UTF-8."""
    head = b""
    while len(head) < len(codecs.BOM_UTF8):
        block = next(blocks, b"")
        if not block:
            break
        head += block
    yield head.removeprefix(codecs.BOM_UTF8)
    yield from blocks


def _stream_blocks(
    file: Any, new_decompressor: Callable[[], Any], step: int = BLOCK_BYTES
) -> Iterator[bytes]:
    """Yield the content of the compressed streams of a file; bzip2, xz and zstd may write several.

    Bytes between streams other than zeros are damage. Python's own readers treat them as the end of
    the file, so text would be lost if the first bytes of a stream are damaged. zstandard's
    decompressor, which has no `needs_input`, cannot limit its output.

    step  number of bytes read at a time
    """
    data = file.read(step)
    while data:
        stream = new_decompressor()
        limit = (BLOCK_BYTES,) if hasattr(stream, "needs_input") else ()
        while not stream.eof:
            yield stream.decompress(data, *limit)
            data = b""
            needs_input = getattr(stream, "needs_input", True)
            if needs_input and not stream.eof:
                data = file.read(step)
                if not data:
                    raise EOFError
        data = _skip_zeros(stream.unused_data, file, step)


def _skip_zeros(data: bytes, file: Any, step: int) -> bytes:
    """The bytes after the zeros at the beginning of `data`, read from the file if `data` has only
    zeros; empty at the end of the file.
    """
    data = data.lstrip(b"\0")
    while not data:
        block = file.read(step)
        if not block:
            break
        data = block.lstrip(b"\0")
    return data


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

    Wikipedia's multistream dumps have a stream per 100 pages, pbzip2 writes one per 900 kB. A
    longer stream, as written by bzip2 itself, is unpacked by one thread.
    """
    pool = ThreadPoolExecutor(threads, "embedx-bzip2")
    submitted = (pool.submit(_unpack_bzip2, part) for part in _bzip2_parts(file))
    try:
        for blocks in in_order(submitted, 2 * threads):
            yield from blocks
    finally:
        # Without waiting: the garbage collector may end a generator in a thread that holds a lock
        # of `threading`.
        pool.shutdown(wait=False, cancel_futures=True)


def _bzip2_parts(file: Any) -> Iterator[Any]:
    """Yield the file in parts, each a file of whole streams. If a stream is too long, the last part
    is the rest of the file from there on.
    """
    data = b""
    while block := file.read(BZIP2_PART_BYTES):
        data += block
        starts = [match.start() for match in BZIP2_START.finditer(data, 1)]
        if starts:
            last_start = starts[-1]
            yield io.BytesIO(data[:last_start])
            data = data[last_start:]
        elif len(data) > MAX_STREAM_BYTES:
            rest = iter(lambda: file.read(BLOCK_BYTES), b"")
            yield archives.BlockReader(itertools.chain([data], rest))
            return
    yield io.BytesIO(data)


def _unpack_bzip2(part: Any) -> Iterator[bytes]:
    """The content of a part: the first blocks are unpacked immediately, the others when they are
    read, so that memory is bounded.
    """
    blocks = _stream_blocks(part, bz2.BZ2Decompressor)
    first = list(itertools.islice(blocks, MAX_UNPACKED_BLOCKS))
    return itertools.chain(first, blocks)
