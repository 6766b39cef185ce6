"""Files that are complete or absent: written under a temporary name, synchronised to the disk, and
renamed.

A killed process leaves NAME.partial-XXXXXXXX beside the file, or the temporary name that it chose.
"""

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from embedx.errors import DataError

try:
    import fcntl
except ImportError:  # on Windows
    FULL_SYNC = None
else:
    FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)  # on macOS alone

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
# Where a folder cannot be opened or synchronised, as on CIFS and some FUSE file systems, its names
# are as safe as they can be there (as in PostgreSQL's fsync_fname_ext).
FOLDERS_NOT_OPENED = (errno.EACCES, errno.EPERM, errno.EISDIR)
FOLDERS_NOT_SYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF)


@contextlib.contextmanager
def replacing(file: Path, partial: Path | None = None) -> Iterator[IO[bytes]]:
    """A stream to a temporary file, which replaces `file` when the block ends; if it raises, `file`
    stays as it was. A file that is replaced hands on its permissions.

    partial  the temporary file, on the same file system; by default a new name beside `file`
    """
    partial = partial or beside(file, "partial")
    try:
        with partial.open("wb") as out:
            with contextlib.suppress(OSError):
                partial.chmod(stat.S_IMODE(file.stat().st_mode))
            yield out
            sync(out)
        partial.replace(file)
        sync_folder(file.parent)
    finally:
        partial.unlink(missing_ok=True)


def followed(path: Path) -> Path:
    """Where the links of a path lead. Raises `DataError` for links that lead to themselves."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise DataError(
            path, None, "its symbolic links lead in a loop", "name another path, or remove the link"
        ) from error


@contextlib.contextmanager
def errors_named(file: Path, problem: str = "cannot be written") -> Iterator[None]:
    """Raise `DataError`, with the file and a remedy, for what the system says of writing it."""
    try:
        yield
    except OSError as error:
        remedy = "choose another name"
        if error.errno in NO_SPACE:
            remedy = f"free some space, or {remedy}"
        raise DataError(file, None, f"{problem}: {error.strerror or error}", remedy) from error


def write_text(file: Path, text: str) -> None:
    """Replace a file, or that to which it links, by one of this text, in UTF-8. Raises
    `EmbedxError` if that cannot be done.
    """
    with errors_named(file), replacing(followed(file)) as out:
        out.write(utf8(text))


def utf8(text: str) -> bytes:
    """The text in UTF-8. What stands for a byte of a file name that is no UTF-8 is written as an
    escape, `\\udcff`, which in JSON gives back the name.
    """
    return text.encode("utf-8", "backslashreplace")


def write_bytes(file: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a new file in a folder that will be renamed, and synchronise it."""
    with file.open("wb") as out:
        out.writelines(pieces)
        sync(out)


def beside(path: Path, kind: str) -> Path:
    """A new name beside `path`, of a kind that `leftovers` finds."""
    return path.with_name(f"{path.name}.{kind}-{secrets.token_hex(4)}")


def leftovers(path: Path, kind: str) -> list[Path]:
    """The files and folders that `beside` named."""
    name = re.compile(re.escape(path.name) + rf"\.{kind}-[0-9a-f]{{8}}")
    try:
        return [
            left
            for left in path.parent.iterdir()
            if name.fullmatch(left.name) and not left.is_symlink()
        ]
    except OSError:
        return []


def sync(out: IO[bytes]) -> None:
    """Have the disk hold what was written to the open file `out`, so that it is there after a power
    cut.
    """
    out.flush()
    _sync_content(out.fileno())


def sync_files(folder: Path) -> None:
    """Have the disk hold all files in a folder."""
    for parent, _, files in os.walk(folder):
        for name in files:
            with open(os.path.join(parent, name), "rb") as file:
                _sync_content(file.fileno())


def _sync_content(descriptor: int) -> None:
    """Have the disk hold the content of an open file: on macOS its own cache too, which fsync
    leaves out (man 2 fsync), where the file system can do that.
    """
    if FULL_SYNC is not None:
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, FULL_SYNC)
            return
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Have the disk hold the names in a folder, where the file system can do that."""
    if os.name != "posix":  # elsewhere folders cannot be opened
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        if error.errno in FOLDERS_NOT_OPENED:
            return
        raise
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in FOLDERS_NOT_SYNCED:
            raise
    finally:
        os.close(handle)
