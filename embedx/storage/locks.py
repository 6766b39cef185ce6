"""Locks on folders, which end with the process that has them: they tell whether a run is still at work in a folder.

A folder of a run's own that is not to stay holds a file that says so. If it has a name as such folders have, holds that file,
and is locked by nobody, it is left from a process that was killed, and may be deleted. So may an empty one whose name no other
program would choose.
"""

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: there nothing can be locked, so nothing is ever taken for what a killed run left
    fcntl = None  # type: ignore[assignment]


def lock(folder: Path, wait: bool = True) -> int | None:
    """A lock on `folder`, to be given to `unlock`, whatever the folder is called by then.

    None if there is no such folder, if it is on a file system without locks, or if another process has it and `wait` is false.
    """
    descriptor = _opened(folder)
    if descriptor is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if os.path.samestat(os.fstat(descriptor), os.stat(folder)):  # else it was renamed meanwhile
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _opened(folder: Path) -> int | None:
    """A descriptor of the folder to be locked by; None where there is none to be had."""
    if fcntl is None:
        return None
    try:
        return os.open(folder, os.O_RDONLY)
    except OSError:
        return None


def is_locked(folder: Path) -> bool:
    """Whether another process, or another part of this one, has the lock on `folder`."""
    descriptor = _opened(folder)
    if descriptor is None:
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


# ---- folders that do not stay

UNFINISHED, UNFINISHED_TEXT = "unfinished.txt", "embedx is at work here; if it was killed, its next run deletes this folder\n"


def new_marked(make: Callable[[], Path]) -> tuple[Path, int | None]:
    """A folder that `make` makes, a new one at each call, marked; what `lock` gives of it. Another process may delete it before
    it is locked, for an empty one may be left from a run that was killed: then there is another.
    """
    while True:
        folder = make()
        held = mark(folder)
        if held is not None or folder.exists():
            return folder, held


def mark(folder: Path) -> int | None:
    """Lock a new folder, and say in it that it is not to stay; what `lock` gives."""
    held = lock(folder)
    if held is not None:
        try:
            (folder / UNFINISHED).write_text(UNFINISHED_TEXT, "utf-8")  # not before it is locked: nobody may sweep it
        except OSError:
            remove(folder, held)
            raise
    return held


def is_marked(folder: Path) -> bool:
    """Whether `mark` was here."""
    try:
        return (folder / UNFINISHED).read_text("utf-8") == UNFINISHED_TEXT
    except (OSError, ValueError):
        return False


def remove(folder: Path, held: int | None) -> None:
    """Delete a marked folder and end its lock; what says that it may be deleted goes last, if this is cut short."""
    with contextlib.suppress(OSError):
        for each in folder.iterdir():
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            elif each.name != UNFINISHED:
                each.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    unlock(held)


def is_begun(folder: Path) -> bool:
    """Whether there is nothing in a folder but, perhaps, a part of what `mark` writes."""
    try:
        inside = list(folder.iterdir())
        return all(each.name == UNFINISHED and UNFINISHED_TEXT.encode().startswith(each.read_bytes()) for each in inside)
    except OSError:
        return False


def remove_if_left(folder: Path, even_empty: bool = False) -> bool:
    """Delete a marked folder that nobody has locked, or one that was about to be marked; whether that was so."""
    held = lock(folder, wait=False)
    if held is not None and (is_marked(folder) or (even_empty and is_begun(folder))):
        remove(folder, held)
        return True
    unlock(held)
    return False
