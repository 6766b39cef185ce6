"""The members of a tar or zip archive, read one after the other, without unpacking to disk; and
blocks of bytes as a file.
"""

import fnmatch
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

ZIP_MAGIC = b"PK\x03\x04"
# beside OSError, EOFError and what decompressors raise
DAMAGED_ARCHIVE = (tarfile.TarError, zipfile.BadZipFile)
READ_BYTES = 1 << 18
TAR_BLOCK = 512  # bytes; zeros end an archive


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
            "a zip archive is read from its end, which a pipe or a server does not have; save it as"
            " a file"
        )
    archive = zipfile.ZipFile(file)
    for each in archive.infolist():
        if not each.is_dir() and _is_wanted(each.filename, pattern):
            try:
                opened = archive.open(each)
            except RuntimeError as error:  # a method that Python lacks; a password
                raise OSError(f"{each.filename} in it: {error}") from error
            with opened:
                yield each.filename, opened


def _tar_members(blocks: Iterable[bytes], pattern: str) -> Iterator[tuple[str, IO[bytes]]]:
    last = b""  # bytes so far

    def watched() -> Iterator[bytes]:
        nonlocal last
        for block in blocks:
            last = (last + block)[-TAR_BLOCK:]
            yield block

    file = BlockReader(watched())
    with tarfile.open(fileobj=file, mode="r|", bufsize=READ_BYTES) as archive:
        for each in archive:
            if _is_wanted(each.name, pattern) and (
                opened := archive.extractfile(each) if each.isfile() else None
            ):
                yield each.name, opened
    while file.read(READ_BYTES):  # checksums are at the end
        pass
    if last.strip(b"\0") or not last:  # Python's reader takes a cut between two members for the end
        raise EOFError
