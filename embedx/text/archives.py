"""The members of a tar or zip archive, read one after the other, without unpacking to disk; and
blocks of bytes as a file.

A small archive may stand for any amount: what a member unpacks to comes in pieces of bounded size,
and what describes members has bounds of its own.
"""

import bz2
import fnmatch
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

ZIP_MAGIC = b"PK\x03\x04"
# beside OSError, EOFError and what decompressors raise
DAMAGED_ARCHIVE = (tarfile.TarError, zipfile.BadZipFile)
READ_BYTES = 1 << 18
TAR_BLOCK = 512  # bytes; zeros end an archive
MAX_TAR_HEADERS = 1 << 24  # bytes of all long names and PAX headers, which are kept
TAR_HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
MAX_LZMA_MEMORY = 1 << 30  # bytes that a member may make its decompressor allocate
# 4.3.7 and 4.4 of the ZIP specification: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
ZIP_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
ZIP_ENCRYPTED, ZIP_HAS_END = 1, 2  # bits of flags; the latter of LZMA


class BlockReader(io.RawIOBase):
    """Blocks of bytes, one after the other, as a file that is read once."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def unread(self, data: bytes) -> None:
        """Let what was read last be read again."""
        self._rest = memoryview(data + self._rest)

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            if (block := next(self._blocks, None)) is None:
                return 0
            self._rest = memoryview(block)
        n = min(len(buffer), len(self._rest))
        buffer[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n

    def close(self) -> None:
        if not self.closed and hasattr(self._blocks, "close"):
            self._blocks.close()  # a generator, with what it has opened
        super().close()


def members(
    file: Any, pattern: str, unpacked: Callable[[io.BufferedReader], Iterable[bytes]]
) -> Iterator[tuple[str, IO[bytes]]]:
    """The files in an archive whose names match the glob `pattern`, as they come, each to be read
    before the next is taken.

    file      a `CountedReader` of the archive; of a zip archive it must be seekable, which pipes
              are not
    unpacked  decompresses a tar archive
    Raises OSError, EOFError, one of DAMAGED_ARCHIVE or what `unpacked` does where the archive is
    damaged, to its end.
    """
    stored = io.BufferedReader(file)
    if stored.peek(len(ZIP_MAGIC)).startswith(ZIP_MAGIC):
        return _zip_members(stored, pattern)
    return _tar_members(unpacked(stored), pattern)


def _is_wanted(name: str, pattern: str) -> bool:
    """Whether a member's name matches a glob; hidden ones, and what macOS adds, match none."""
    hidden = any(
        (part.startswith(".") and part.strip("./")) or part == "__MACOSX"
        for part in name.split("/")
    )
    return not hidden and fnmatch.fnmatchcase(name, pattern)


def _zip_members(file: io.BufferedReader, pattern: str) -> Iterator[tuple[str, IO[bytes]]]:
    if not file.seekable():
        raise OSError(
            "a zip archive is read from its end, which a pipe and some servers do not have; save it"
            " as a file"
        )
    archive = zipfile.ZipFile(file)
    for each in archive.infolist():
        if not each.is_dir() and _is_wanted(each.filename, pattern):
            with io.BufferedReader(BlockReader(_zip_blocks(file, each))) as opened:
                yield each.filename, opened


def _zip_blocks(file: io.BufferedReader, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """What a member of a zip archive unpacks to, in pieces of READ_BYTES. Python's own reader
    unpacks all that a piece of bzip2 or LZMA stands for at once.
    """
    if member.flag_bits & ZIP_ENCRYPTED:
        raise OSError(f"{member.filename} in it is encrypted, which needs a password")
    file.seek(member.header_offset)
    header = file.read(ZIP_LOCAL_HEADER.size)
    if len(header) < ZIP_LOCAL_HEADER.size or not header.startswith(ZIP_MAGIC):
        raise zipfile.BadZipFile(f"no header of {member.filename}")
    name_bytes, extra_bytes = ZIP_LOCAL_HEADER.unpack(header)[-2:]
    file.seek(name_bytes + extra_bytes, io.SEEK_CUR)
    place = file.tell()
    left = member.compress_size

    def stored() -> bytes:
        # whoever reads the archive may have moved on to another place
        nonlocal place, left
        file.seek(place)
        data = file.read(min(READ_BYTES, left))
        if left and not data:
            raise EOFError
        place += len(data)
        left -= len(data)
        return data

    checksum = n_bytes = 0
    for block in _unzipped(member, stored):
        checksum = zlib.crc32(block, checksum)
        n_bytes += len(block)
        if n_bytes > member.file_size:
            break
        yield block
    if n_bytes != member.file_size or checksum != member.CRC:
        raise zipfile.BadZipFile(f"bad size or CRC-32 of {member.filename}")


def _unzipped(member: zipfile.ZipInfo, stored: Callable[[], bytes]) -> Iterator[bytes]:
    """The pieces that the stored ones unpack to."""
    method = member.compress_type
    if method == zipfile.ZIP_STORED:
        yield from iter(stored, b"")
        return
    if method == zipfile.ZIP_DEFLATED:
        inflating = zlib.decompressobj(-zlib.MAX_WBITS)
        while not inflating.eof and (data := inflating.unconsumed_tail or stored()):
            yield inflating.decompress(data, READ_BYTES)
        if not inflating.eof:
            yield inflating.flush()
        return
    if method == zipfile.ZIP_BZIP2:
        decompressor: Any = bz2.BZ2Decompressor()
        data = stored()
    elif method == zipfile.ZIP_LZMA:
        decompressor = lzma.LZMADecompressor(lzma.FORMAT_ALONE, MAX_LZMA_MEMORY)
        data = _lzma_alone(member, stored())
    else:
        raise OSError(f"{member.filename} in it is packed by method {method}, which is not read")
    while True:
        yield decompressor.decompress(data, READ_BYTES)
        if decompressor.eof:
            return
        data = stored() if decompressor.needs_input else b""
        if decompressor.needs_input and not data:
            return


def _lzma_alone(member: zipfile.ZipInfo, data: bytes) -> bytes:
    """The first piece of a member by LZMA as an .lzma file begins: properties, and the size."""
    n_properties = int.from_bytes(data[2:4], "little")
    properties, rest = data[4 : 4 + n_properties], data[4 + n_properties :]
    has_end = member.flag_bits & ZIP_HAS_END
    size = b"\xff" * 8 if has_end else member.file_size.to_bytes(8, "little")
    return properties + size + rest


class _BoundedTarInfo(tarfile.TarInfo):
    """A member of a tar archive. Raises OSError where its header would take much memory: Python
    reads long names and PAX headers whole, and a map of a sparse file has no end.
    """

    def _proc_member(self, archive: Any) -> Any:
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise OSError(f"{self.name} in it is a sparse file, which is not read")
        if self.type in TAR_HEADERS:
            archive.header_bytes = getattr(archive, "header_bytes", 0) + self.size
            if archive.header_bytes > MAX_TAR_HEADERS:
                raise OSError(f"headers of more than {MAX_TAR_HEADERS:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]


def _tar_members(blocks: Iterable[bytes], pattern: str) -> Iterator[tuple[str, IO[bytes]]]:
    last = b""  # bytes so far

    def watched() -> Iterator[bytes]:
        nonlocal last
        for block in blocks:
            last = (last + block)[-TAR_BLOCK:]
            yield block

    file = BlockReader(watched())
    with tarfile.open(
        fileobj=file, mode="r|", bufsize=READ_BYTES, tarinfo=_BoundedTarInfo
    ) as archive:
        while (each := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # of which it keeps all
            if each.issparse():
                raise OSError(f"{each.name} in it is a sparse file, which is not read")
            if _is_wanted(each.name, pattern) and (
                opened := archive.extractfile(each) if each.isfile() else None
            ):
                yield each.name, opened
    while file.read(READ_BYTES):  # checksums are at the end
        pass
    if last.strip(b"\0") or not last:  # Python's reader takes a cut between two members for the end
        raise EOFError
