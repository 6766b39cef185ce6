"""Temporary folders in the token cache, each locked by the run that uses it."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from embedx.errors import DataError, Setting
from embedx.runtime import locks
from embedx.runtime.cache_home import make_private

# a name is eight characters, which `mkdtemp` chooses, between these
PREFIX = "building-"
SUFFIX = ".embedx"


@contextlib.contextmanager
def workspace(home: Path) -> Iterator[Path]:
    """A locked folder in `home` for the files of this run alone; it is deleted however the run
    ends. Folders left by killed runs are deleted too.
    """
    with errors_explained(home):
        make_private(home)
        sweep(home)
        folder, lock = locks.new_locked(lambda: Path(tempfile.mkdtemp(SUFFIX, PREFIX, home)))
    try:
        yield folder
    finally:
        locks.remove(folder, lock)


def sweep(home: Path) -> None:
    """Delete the folders left by killed runs."""
    for folder in home.glob(f"{PREFIX}{'[a-z0-9_]' * 8}{SUFFIX}"):
        if not folder.is_symlink():
            locks.remove_if_left(folder)


@contextlib.contextmanager
def errors_explained(home: Path, attempt: str = "written") -> Iterator[None]:
    """Replace an error of the system when writing fails by a `DataError` with a remedy."""
    try:
        yield
    except OSError as error:
        problem = f"the token cache cannot be {attempt} ({error.strerror or error})"
        remedy = ("free some space or choose another folder with ", Setting("cache_dir"))
        raise DataError(home, None, problem, remedy) from error
