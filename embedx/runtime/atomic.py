"""Files that are complete or absent: written under a temporary name, synchronised to the disk, and
renamed.

A killed process leaves NAME.partial-XXXXXXXX next to the file, or its own temporary name.
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
# Ignored errors of opening or synchronising a folder, as on CIFS and some FUSE file systems:
# nothing more can be done there (as in PostgreSQL's fsync_fname_ext).
FOLDERS_NOT_OPENED = (errno.EACCES, errno.EPERM, errno.EISDIR)
FOLDERS_NOT_SYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF)


@contextlib.contextmanager
def replacing(file: Path, partial: Path | None = None) -> Iterator[IO[bytes]]:
    """A stream to a temporary file, which replaces `file` when the block ends and keeps its
    permissions. If the block raises, `file` is not changed.

    partial  the temporary file, on the same file system; by default a new name next to `file`
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
    """The target of a path's symbolic links. Raises `DataError` for circular links."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise DataError(
            path, None, "its symbolic links lead in a loop", "name another path, or remove the link"
        ) from error


@contextlib.contextmanager
def errors_named(file: Path, problem: str = "cannot be written") -> Iterator[None]:
    """Turn system errors of writing `file` into `DataError` with the file and a remedy."""
    try:
        yield
    except OSError as error:
        remedy = "choose another name"
        if error.errno in NO_SPACE:
            remedy = f"free some space, or {remedy}"
        raise DataError(file, None, f"{problem}: {error.strerror or error}", remedy) from error


def write_text(file: Path, text: str) -> None:
    """Replace a file, or the target of a link, by this text in UTF-8. Raises `EmbedxError` if that
    fails.
    """
    with errors_named(file), replacing(followed(file)) as out:
        out.write(utf8(text))


def utf8(text: str) -> bytes:
    """The text in UTF-8. A byte of a file name that is not UTF-8 is written as an escape,
    `\\udcff`, from which JSON restores the name.
    """
    return text.encode("utf-8", "backslashreplace")


def write_bytes(file: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a new file in a folder that will be renamed, and synchronise it."""
    with file.open("wb") as out:
        out.writelines(pieces)
        sync(out)


def beside(path: Path, kind: str) -> Path:
    """A new name next to `path`, of a kind that `leftovers` finds."""
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
    """Synchronise the open file `out` to the disk, so that it survives a power failure."""
    out.flush()
    _sync_content(out.fileno())


def sync_files(folder: Path) -> None:
    """Synchronise all files in a folder to the disk."""
    for parent, _, files in os.walk(folder):
        for name in files:
            with open(os.path.join(parent, name), "rb") as file:
                _sync_content(file.fileno())


def _sync_content(descriptor: int) -> None:
    """Synchronise the content of an open file to the disk. On macOS this includes the disk's own
    cache, which fsync leaves out (man 2 fsync), if the file system can do that.
    """
    if FULL_SYNC is not None:
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, FULL_SYNC)
            return
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Synchronise the names in a folder to the disk, if the file system can do that."""
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
