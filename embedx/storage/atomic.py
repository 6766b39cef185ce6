"""Files that are complete or absent: written under a temporary name, synchronised to the disk, and
renamed.

A killed process leaves NAME.partial-XXXXXXXX beside the file, or the temporary name that it chose.
"""

import contextlib
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from embedx.errors import DataError, EmbedxError


@contextlib.contextmanager
def replacing(file: Path, partial: Path | None = None) -> Iterator[IO[bytes]]:
    """A stream to a temporary file, which replaces `file` when the block ends; if it raises, `file`
    stays as it was.

    partial  the temporary file, on the same file system; by default a new name beside `file`
    """
    partial = partial or beside(file, "partial")
    try:
        with partial.open("wb") as out:
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


def write_text(file: Path, text: str) -> None:
    """Replace a file, or that to which it links, by one of this text, in UTF-8. Raises
    `EmbedxError` if that cannot be done.
    """
    try:
        with replacing(followed(file)) as out:
            out.write(text.encode())
    except OSError as error:
        raise EmbedxError(
            f"{file}: cannot be written: {error.strerror or error}; free some space, or name"
            " another"
        ) from error


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
            each
            for each in path.parent.iterdir()
            if name.fullmatch(each.name) and not each.is_symlink()
        ]
    except OSError:
        return []


def sync(out: Any) -> None:
    """Have the disk hold what was written to the open file `out`, so that it is there after a power
    cut.
    """
    out.flush()
    os.fsync(out.fileno())


def sync_folder(folder: Path) -> None:
    """Have the disk hold the names in a folder, where the system can do that."""
    if os.name != "posix":  # elsewhere folders cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
