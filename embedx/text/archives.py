"""The members of a tar or zip archive, read one after the other where they lie: nothing is unpacked to disk."""

import fnmatch
import io
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from embedx.text.block_reader import BlockReader

ARCHIVE_NAME = re.compile(r".*\.(zip|tar|tgz|tbz2?|txz|tar\.(gz|bz2|xz|zst))", re.IGNORECASE)
ZIP_MAGIC = b"PK\x03\x04"
DAMAGED_ARCHIVE = (tarfile.TarError, zipfile.BadZipFile)  # beside OSError, EOFError and what decompressors raise
READ_BYTES = 1 << 18
TAR_BLOCK = 512  # bytes; zeros end an archive


def is_archive(path: str) -> bool:
    """Whether a file is a tar or zip archive, by its name."""
    return ARCHIVE_NAME.fullmatch(path) is not None


def is_wanted(name: str, pattern: str) -> bool:
    """Whether a member's name matches a glob; hidden ones, and what macOS adds, match none."""
    hidden = any((part.startswith(".") and part.strip("./")) or part == "__MACOSX" for part in name.split("/"))
    return not hidden and fnmatch.fnmatchcase(name, pattern)


def members(
    file: Any, pattern: str, unpacked: Callable[[io.BufferedReader], Iterable[bytes]]
) -> Iterator[tuple[str, IO[bytes]]]:
    """The files in an archive whose names match the glob `pattern`, as they come, each to be read before the next is taken.

    file      a `CountedReader` of the archive; of a zip archive it must be one that can be sought in, which pipes cannot
    unpacked  decompresses a tar archive
    Raises OSError, EOFError, one of DAMAGED_ARCHIVE or what `unpacked` does where the archive is damaged, to its end.
    """
    stored = io.BufferedReader(file)
    if stored.peek(len(ZIP_MAGIC)).startswith(ZIP_MAGIC):
        stored.detach()  # which would close the file with itself
        return _zip_members(file, pattern)
    return _tar_members(_Tar(unpacked(stored)), pattern)


def _zip_members(file: Any, pattern: str) -> Iterator[tuple[str, IO[bytes]]]:
    if not file.seekable():
        raise OSError("a zip archive is read from its end, which a pipe or a server does not have; save it as a file")
    buffered = io.BufferedReader(file)
    try:
        archive = zipfile.ZipFile(buffered)
        for each in archive.infolist():
            if not each.is_dir() and is_wanted(each.filename, pattern):
                try:
                    opened = archive.open(each)
                except (NotImplementedError, RuntimeError) as error:  # a method that Python lacks; a password
                    raise OSError(f"{each.filename} in it: {error}") from error
                with opened:
                    yield each.filename, opened
    finally:
        buffered.detach()  # which would close the file with itself


def _tar_members(file: "_Tar", pattern: str) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(fileobj=file, mode="r|", bufsize=READ_BYTES) as archive:
        for each in archive:
            if each.isfile() and is_wanted(each.name, pattern):
                opened = archive.extractfile(each)
                assert opened is not None
                yield each.name, opened
    while file.read(READ_BYTES):  # checksums are at the end
        pass
    if file.last.strip(b"\0") or not file.last:  # Python's reader takes a cut between two members for the end
        raise EOFError


class _Tar(BlockReader):
    """A `BlockReader` of a tar archive; `last` are its last bytes so far, a few hundred."""

    last = b""

    def readinto(self, buffer: Any) -> int:
        n = super().readinto(buffer)
        self.last = (self.last + bytes(buffer[max(n - TAR_BLOCK, 0) : n]))[-TAR_BLOCK:]
        return n
