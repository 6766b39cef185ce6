"""Locks on folders, which end with the process that has them: they show whether a run is still at
work in a folder.

A folder with a name of temporary folders that nobody has locked was left by a killed process, and
may be deleted.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

try:
    import fcntl
except (
    ImportError
):  # Windows: nothing can be locked there, so nothing is taken for left by a killed run
    fcntl = None  # type: ignore[assignment]


def lock(folder: Path, wait: bool = True) -> int | None:
    """A lock on `folder`, for `unlock`; the folder may be renamed meanwhile.

    None if there is no such folder, if its file system has no locks, or if another process has the
    lock and `wait` is false.
    """
    try:
        return _locked(folder, wait)
    except OSError:
        return None


def is_locked(folder: Path) -> bool:
    """Whether another process, or another part of this one, has the lock on `folder`."""
    try:
        unlock(_locked(folder, wait=False))
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _locked(folder: Path, wait: bool) -> int:
    """As `lock`. Raises OSError if it cannot be locked."""
    if fcntl is None:
        raise OSError("no locks")
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if not os.path.samestat(os.fstat(descriptor), os.stat(folder)):
            raise OSError("renamed meanwhile")
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def unlock(descriptor: int | None) -> None:
    """End a lock; None is none."""
    if descriptor is not None:
        os.close(descriptor)


# ---- temporary folders


def new_locked(make: Callable[[], Path]) -> tuple[Path, int | None]:
    """A new folder by `make`, and its lock. Another process may delete it before it is locked, as
    left by a killed run: then another one is made.
    """
    while True:
        folder = make()
        held = lock(folder)
        if held is not None or folder.exists():
            return folder, held


def remove(folder: Path, held: int | None) -> None:
    """Delete a folder and end its lock."""
    shutil.rmtree(folder, ignore_errors=True)
    unlock(held)


def remove_if_left(folder: Path) -> bool:
    """Delete a temporary folder that nobody has locked; whether it was one."""
    held = lock(folder, wait=False)
    if held is not None:
        remove(folder, held)
    return held is not None
