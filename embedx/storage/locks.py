"""Locks on folders, which end with the process that has them: they show whether a run is still at work in a folder.

A temporary folder is marked by a file. A marked folder that nobody has locked was left by a killed process and may be deleted,
as may an empty one with the name of such folders.
"""

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: nothing can be locked there, so nothing is taken for left by a killed run
    fcntl = None  # type: ignore[assignment]


def lock(folder: Path, wait: bool = True) -> int | None:
    """A lock on `folder`, for `unlock`; the folder may be renamed meanwhile.

    None if there is no such folder, if its file system has no locks, or if another process has the lock and `wait` is false.
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

UNFINISHED, UNFINISHED_TEXT = "unfinished.txt", "embedx is at work here; if it was killed, its next run deletes this folder\n"


def new_marked(make: Callable[[], Path]) -> tuple[Path, int | None]:
    """A new folder by `make`, marked, and its lock. Another process may delete it before it is locked, as left by a killed run:
    then another one is made.
    """
    while True:
        folder = make()
        held = mark(folder)
        if held is not None or folder.exists():
            return folder, held


def mark(folder: Path) -> int | None:
    """Lock a new folder and mark it as temporary; its lock."""
    held = lock(folder)
    if held is not None:
        try:
            (folder / UNFINISHED).write_text(UNFINISHED_TEXT, "utf-8")  # once it is locked, so that nobody deletes it
        except OSError:
            remove(folder, held)
            raise
    return held


def remove(folder: Path, held: int | None) -> None:
    """Delete a marked folder and end its lock; the mark goes last, in case this is cut short."""
    with contextlib.suppress(OSError):
        for each in folder.iterdir():
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            elif each.name != UNFINISHED:
                each.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    unlock(held)


def remove_if_left(folder: Path, even_empty: bool = False) -> bool:
    """Delete a marked folder that nobody has locked, with `even_empty` also one not yet marked; whether it was one."""
    held = lock(folder, wait=False)
    if held is not None:
        with contextlib.suppress(OSError, ValueError):
            names = set(os.listdir(folder))
            text = (folder / UNFINISHED).read_text("utf-8") if UNFINISHED in names else ""
            if text == UNFINISHED_TEXT or (even_empty and names <= {UNFINISHED} and UNFINISHED_TEXT.startswith(text)):
                remove(folder, held)
                return True
    unlock(held)
    return False
