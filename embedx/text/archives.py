"""Reads the members of a tar or zip archive in turn, without unpacking to disk; and presents blocks
of bytes as a file.

A small archive may unpack to any size, so members are read in blocks of bounded size, and the size
of their headers is limited.
"""

import bz2
import fnmatch
import io
import itertools
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

ZIP_MAGIC = b"PK\x03\x04"
# Errors of damaged archives, in addition to OSError, EOFError and those of decompressors.
DAMAGED_ARCHIVE = (tarfile.TarError, zipfile.BadZipFile)
READ_BYTES = 1 << 18
# A block of zeros ends a tar archive.
TAR_BLOCK_BYTES = 512
# Limit for long names and PAX headers of all members, which Python keeps in memory.
MAX_TAR_HEADER_BYTES = 1 << 24
TAR_HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
# Maximum number of bytes that the decompressor of a member may allocate.
MAX_LZMA_MEMORY = 1 << 30
# 4.3.7 and 4.4 of the ZIP specification: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
ZIP_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
# Bits of a member's flags.
ZIP_ENCRYPTED = 1
ZIP_LZMA_HAS_END_MARK = 2


class BlockReader(io.RawIOBase):
    """Blocks of bytes, one after the other, as a file that is read once."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def unread(self, data: bytes) -> None:
        """Put bytes back, so that the next read returns them."""
        self._rest = memoryview(data + self._rest)

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        n = min(len(buffer), len(self._rest))
        buffer[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n

    def close(self) -> None:
        if not self.closed and hasattr(self._blocks, "close"):
            # of a generator, with what it has opened
            self._blocks.close()
        super().close()


def members(
    file: Any, pattern: str, unpacked: Callable[[io.BufferedReader], Iterable[bytes]]
) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the files in an archive whose names match the glob `pattern`, in their order. Each must
    be read before the next is requested.

    file      a `CountedReader` of the archive; of a zip archive it must be seekable, unlike a pipe
    unpacked  decompresses a tar archive
    Raises OSError, EOFError, one of DAMAGED_ARCHIVE or an error of `unpacked` if the archive is
    damaged anywhere.
    """
    stored = io.BufferedReader(file)
    if stored.peek(len(ZIP_MAGIC)).startswith(ZIP_MAGIC):
        return _zip_members(stored, pattern)
    return _tar_members(unpacked(stored), pattern)


def _is_wanted(name: str, pattern: str) -> bool:
    """Whether a member's name matches a glob. Hidden members, and those that macOS adds, never
    match.
    """
    for part in name.split("/"):
        is_hidden = part.startswith(".") and part.strip(".")
        if is_hidden or part == "__MACOSX":
            return False
    return fnmatch.fnmatchcase(name, pattern)


def _zip_members(file: io.BufferedReader, pattern: str) -> Iterator[tuple[str, IO[bytes]]]:
    """The names and contents of the members that match, as of a zip archive. Raises OSError for a
    stream that cannot seek.
    """
    if not file.seekable():
        raise OSError(
            "a zip archive is read from its end, which a pipe and some servers do not have; save it"
            " as a file"
        )
    archive = zipfile.ZipFile(file)
    for member in archive.infolist():
        if not member.is_dir() and _is_wanted(member.filename, pattern):
            with io.BufferedReader(BlockReader(_zip_blocks(file, member))) as opened:
                yield member.filename, opened


def _zip_blocks(file: io.BufferedReader, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """The content of a member of a zip archive, in blocks of READ_BYTES. Python's own reader
    unpacks a whole block of bzip2 or LZMA at once.
    """
    if member.flag_bits & ZIP_ENCRYPTED:
        raise OSError(f"{member.filename} in it is encrypted, which needs a password")
    checksum = 0
    n_bytes = 0
    for block in _unzipped(member, _stored_blocks(file, member)):
        checksum = zlib.crc32(block, checksum)
        n_bytes += len(block)
        if n_bytes > member.file_size:
            break
        yield block
    if n_bytes != member.file_size or checksum != member.CRC:
        raise zipfile.BadZipFile(f"bad size or CRC-32 of {member.filename}")


def _stored_blocks(file: io.BufferedReader, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """The stored (compressed) bytes of a zip member, in blocks."""
    file.seek(member.header_offset)
    header = file.read(ZIP_LOCAL_HEADER.size)
    if len(header) < ZIP_LOCAL_HEADER.size or not header.startswith(ZIP_MAGIC):
        raise zipfile.BadZipFile(f"no header of {member.filename}")
    name_bytes, extra_bytes = ZIP_LOCAL_HEADER.unpack(header)[-2:]
    place = file.tell() + name_bytes + extra_bytes
    end = place + member.compress_size
    while place < end:
        # the position in the file may have changed since the last block
        file.seek(place)
        block = file.read(min(READ_BYTES, end - place))
        if not block:
            raise EOFError
        place += len(block)
        yield block


def _unzipped(member: zipfile.ZipInfo, stored: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress the stored blocks of a zip member."""
    method = member.compress_type
    if method == zipfile.ZIP_STORED:
        yield from stored
    elif method == zipfile.ZIP_DEFLATED:
        yield from _inflated(stored)
    elif method == zipfile.ZIP_BZIP2:
        yield from _decompressed(bz2.BZ2Decompressor(), stored)
    elif method == zipfile.ZIP_LZMA:
        decompressor = lzma.LZMADecompressor(lzma.FORMAT_ALONE, MAX_LZMA_MEMORY)
        first = _lzma_alone(member, next(stored, b""))
        yield from _decompressed(decompressor, itertools.chain([first], stored))
    else:
        raise OSError(f"{member.filename} in it is packed by method {method}, which is not read")


def _inflated(stored: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress a deflate stream."""
    decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
    for block in stored:
        data = block
        while data and not decompressor.eof:
            yield decompressor.decompress(data, READ_BYTES)
            data = decompressor.unconsumed_tail
        if decompressor.eof:
            return
    yield decompressor.flush()


def _decompressed(decompressor: Any, stored: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress a bzip2 or LZMA stream."""
    for block in stored:
        yield decompressor.decompress(block, READ_BYTES)
        while not (decompressor.eof or decompressor.needs_input):
            yield decompressor.decompress(b"", READ_BYTES)
        if decompressor.eof:
            return


def _lzma_alone(member: zipfile.ZipInfo, data: bytes) -> bytes:
    """The first block of an LZMA member, preceded by the header of an .lzma file: properties and
    size.
    """
    n_properties = int.from_bytes(data[2:4], "little")
    properties = data[4 : 4 + n_properties]
    size = member.file_size.to_bytes(8, "little")
    if member.flag_bits & ZIP_LZMA_HAS_END_MARK:
        size = b"\xff" * 8
    return properties + size + data[4 + n_properties :]


class _BoundedTarInfo(tarfile.TarInfo):
    """A member of a tar archive. Raises OSError if its header would need much memory: Python reads
    long names, PAX headers and the maps of sparse files at once, whatever their size.
    """

    def _proc_member(self, archive: Any) -> Any:
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise OSError(f"{self.name} in it is a sparse file, which is not read")
        if self.type in TAR_HEADERS:
            archive.header_bytes = getattr(archive, "header_bytes", 0) + self.size
            if archive.header_bytes > MAX_TAR_HEADER_BYTES:
                raise OSError(f"headers of more than {MAX_TAR_HEADER_BYTES:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]


def _tar_members(blocks: Iterable[bytes], pattern: str) -> Iterator[tuple[str, IO[bytes]]]:
    """The names and contents of the members that match, as of a tar archive in blocks of bytes.
    Raises OSError for one with sparse files or large headers, and EOFError for one that is cut off.
    """
    last_bytes = b""

    def watched() -> Iterator[bytes]:
        """Pass the blocks on and keep the last bytes of them."""
        nonlocal last_bytes
        for block in blocks:
            last_bytes = (last_bytes + block)[-TAR_BLOCK_BYTES:]
            yield block

    file = BlockReader(watched())
    with tarfile.open(
        fileobj=file, mode="r|", bufsize=READ_BYTES, tarinfo=_BoundedTarInfo
    ) as archive:
        while (member := archive.next()) is not None:
            # Otherwise `archive` would keep every member in memory.
            archive.members.clear()  # type: ignore[attr-defined]
            if member.issparse():
                raise OSError(f"{member.name} in it is a sparse file, which is not read")
            if not member.isfile() or not _is_wanted(member.name, pattern):
                continue
            opened = archive.extractfile(member)
            if opened is not None:
                yield member.name, opened
    # To the end, where the checksums are.
    while file.read(READ_BYTES):
        pass
    # Python's reader mistakes a truncation between two members for the end.
    if last_bytes.strip(b"\0") or not last_bytes:
        raise EOFError
