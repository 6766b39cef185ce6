"""The cache folders: compiled kernels, encoded corpora."""

import atexit
import contextlib
import errno
import functools
import logging
import os
import shutil
import stat
import tempfile
from pathlib import Path

# Warnings are lines on standard error, unless the program that imports embedx handles them.
log = logging.getLogger("embedx")


def kept_in(name: str, *, is_code: bool = False) -> tuple[Path, ...]:
    """The cache folders of this name: all are read, and the first one is written to.

    They are in $EMBEDX_CACHE_DIR, else in the user's cache folder. If that cannot be written to, as
    in a container with a read-only root, or for a user without a home, the first one is in the
    spare folder.

    is_code  whether they contain code that will be run
    """
    chosen = os.environ.get("EMBEDX_CACHE_DIR")
    if chosen:
        return usable(absolute(chosen) / name, name, is_code=is_code)
    cache_home = os.environ.get("XDG_CACHE_HOME")
    if cache_home:
        return usable(absolute(cache_home) / "embedx" / name, name, is_code=is_code)
    # Unlike `Path.home`, this does not raise for a user without a home.
    home = Path(os.path.expanduser("~"))
    return usable(home / ".cache" / "embedx" / name, name, home=home, is_code=is_code)


@functools.cache  # so that a later change of the working folder does not move it
def absolute(folder: str) -> Path:
    """The absolute path of a folder, without `~`."""
    expanded = os.path.expanduser(folder)
    try:
        return Path(os.path.abspath(expanded))
    except OSError:
        # The working folder was deleted, so that nothing can be created in it.
        return Path(expanded)


@functools.cache  # so that it warns once
def usable(
    folder: Path, name: str, *, home: Path | None = None, is_code: bool = False
) -> tuple[Path, ...]:
    """The folders to use for `folder`: itself, created if needed; if it is read-only, also the
    spare folder's `name` before it; if it cannot be read, that one alone.

    home     must exist
    is_code  whether it contains code that will be run: then it is not used if other users can write
             to it
    """
    remedy = "EMBEDX_CACHE_DIR names another folder"
    try:
        if home is not None:
            home.stat()
        make_private(folder)
        culprit = writable_by_others(folder) if is_code else None
        if culprit is None:
            return with_spare(folder, name)
        problem = f"is not used, because other users can write to {culprit}"
        remedy = f"delete {folder} and make {culprit} yours alone (chown, chmod go-w); {remedy}"
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
    spare = spare_folder()
    where = "nothing is kept between runs" if spare is None else f"{spare} takes its place"
    log.warning(f"{folder}: {problem}; {where}; {remedy}")
    if spare is not None:
        return (spare / name,)
    return () if is_code else (folder,)


def with_spare(folder: Path, name: str) -> tuple[Path, ...]:
    """A folder, and before it the spare folder's `name` if the folder is read-only. Raises
    `OSError` if it cannot be read either.
    """
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        if not os.access(folder, os.R_OK | os.X_OK):
            raise
        spare = spare_folder()
        return (folder,) if spare is None else (spare / name, folder)
    return (folder,)


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, accessible to this user alone."""
    if folder.is_dir():
        return
    make_private(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():  # else another run has created it meanwhile
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None


def writable_by_others(folder: Path) -> Path | None:
    """The first of a folder and its parents that users other than this one and root could have
    changed or replaced; None if there is none.
    """
    if os.name != "posix":
        return None
    real = folder.resolve()
    for path in (folder, *folder.parents, real, *real.parents):
        status = path.lstat()
        is_sticky = path not in (folder, real) and status.st_mode & stat.S_ISVTX
        is_open = not stat.S_ISLNK(status.st_mode) and not is_sticky and _others_write(status)
        if status.st_uid not in (0, os.geteuid()) or is_open:
            return path
    return None


def _others_write(status: os.stat_result) -> bool:
    """Whether users other than the owner can write to a folder. A group with the owner's name and
    without other members counts as the owner: many systems let it write to all of its user's files.
    """
    if status.st_mode & stat.S_IWOTH:
        return True
    if not status.st_mode & stat.S_IWGRP:
        return False
    import grp
    import pwd

    try:
        group = grp.getgrgid(status.st_gid)
        owner = pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        return True
    return group.gr_name != owner or not set(group.gr_mem) <= {owner}


@functools.cache
def spare_folder() -> Path | None:
    """The user's folder for temporary files of embedx, the same in each run; None if it cannot be
    created.

    It contains compiled kernels, which will be run. If other users created it, or can write to it
    or replace it, a new folder of this run alone is used.
    """
    try:
        name = f"embedx-{os.geteuid()}" if os.name == "posix" else "embedx"
        folder = Path(tempfile.gettempdir(), name)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        if is_private(folder):
            return folder
        folder = Path(tempfile.mkdtemp(prefix="embedx-"))
    except OSError:
        return None
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def is_private(folder: Path) -> bool:
    """Whether a folder belongs to this user, who alone may read, write or rename it."""
    # On other systems temporary folders belong to a user.
    if os.name != "posix":
        return True
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    if status.st_mode & 0o077:
        return False
    parent_mode = folder.parent.stat().st_mode
    return bool(parent_mode & stat.S_ISVTX) or not parent_mode & 0o022
