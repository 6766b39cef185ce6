"""Locks on folders, which end with the process that has them: they tell whether a run is still at work in a folder."""

import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: there nothing can be locked, so nothing is ever taken for what a killed run left
    fcntl = None  # type: ignore[assignment]


def lock(folder: Path, wait: bool = True) -> int | None:
    """A lock on `folder`, to be given to `unlock`, whatever the folder is called by then.

    None if there is no such folder, if it is on a file system without locks, or if another process has it and `wait` is false.
    """
    if fcntl is None:
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if os.path.samestat(os.fstat(descriptor), os.stat(folder)):  # else it was renamed meanwhile
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def is_locked(folder: Path) -> bool:
    """Whether another process, or another part of this one, has the lock on `folder`."""
    if fcntl is None:
        return False
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def unlock(descriptor: int | None) -> None:
    """End a lock; None is none."""
    if descriptor is not None:
        os.close(descriptor)
