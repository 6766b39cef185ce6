"""Locks on folders, which end with their process: they show whether a run is still using a folder.

A temporary folder that no process has locked was left by a killed process, and may be deleted.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import filelock

try:
    import fcntl
except ImportError:  # Windows
    LOCKS_FOLDERS = False
else:
    LOCKS_FOLDERS = True

# The descriptor of a locked folder; on Windows the lock on a file next to it.
Lock: TypeAlias = "int | filelock.BaseFileLock"


def lock(folder: Path, wait: bool = True) -> "Lock | None":
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


def take(folder: Path) -> "Lock | None":
    """A lock on `folder`, which is created if needed, for `unlock`.

    None if its file system has no locks. Raises `BlockingIOError` if another process has the lock.
    """
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            return _locked(folder, wait=False)
        except BlockingIOError:
            raise
        except OSError:
            if folder.exists():
                return None


def is_of(held: "Lock | None", folder: Path) -> bool:
    """Whether a lock is still on `folder`, which another process may have replaced."""
    try:
        return not isinstance(held, int) or os.path.samestat(os.fstat(held), os.stat(folder))
    except OSError:
        return False


def _locked(folder: Path, wait: bool) -> "Lock":
    """`lock`, but raises OSError if the folder cannot be locked."""
    if not LOCKS_FOLDERS:
        return _locked_beside(folder, wait)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if not os.path.samestat(os.fstat(descriptor), os.stat(folder)):
            raise OSError("renamed meanwhile")
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _locked_beside(folder: Path, wait: bool) -> "filelock.BaseFileLock":
    """A lock on a file next to `folder`: Windows cannot lock folders, nor rename open ones."""
    import filelock

    held = filelock.FileLock(f"{folder}.lock", timeout=-1 if wait else 0)
    if not folder.exists():
        raise FileNotFoundError(folder)
    try:
        held.acquire()
    except filelock.Timeout as error:
        raise BlockingIOError(folder) from error
    if not folder.exists():
        held.release()
        raise OSError("renamed meanwhile")
    return held


def unlock(held: "Lock | None") -> None:
    """Release a lock, if it is not None."""
    if isinstance(held, int):
        os.close(held)
    elif held is not None:
        held.release()


# ---- temporary folders


def new_locked(make: Callable[[], Path]) -> "tuple[Path, Lock | None]":
    """A new folder by `make`, and its lock. Another process may take it for one of a killed run and
    delete it before it is locked: then another one is created.
    """
    while True:
        folder = make()
        held = lock(folder)
        if held is not None or folder.exists():
            return folder, held


def remove(folder: Path, held: "Lock | None") -> None:
    """Delete a folder and release its lock."""
    shutil.rmtree(folder, ignore_errors=True)
    unlock(held)


def remove_if_left(folder: Path) -> bool:
    """Delete a temporary folder if no process has locked it; return whether it was deleted."""
    held = lock(folder, wait=False)
    if held is not None:
        remove(folder, held)
    return held is not None
