"""The folder for what embedx keeps between runs: compiled kernels, encoded corpora."""

import atexit
import contextlib
import functools
import logging
import os
import shutil
import stat
import tempfile
from pathlib import Path

# a warning is a line on standard error, unless the program that imports embedx sees to it
log = logging.getLogger("embedx")


def cache_home() -> Path:
    """The folder for everything embedx keeps between runs: $EMBEDX_CACHE_DIR, else the user's cache
    folder.

    Where nothing can be written to it, as in a container that has no home, it is one among the
    temporary folders.
    """
    if chosen := os.environ.get("EMBEDX_CACHE_DIR"):
        return writable(Path(chosen))
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return writable(Path(chosen, "embedx"))
    home = Path(os.path.expanduser("~"))  # unlike `Path.home`, that says "~" of a user who has none
    return writable(home / ".cache" / "embedx", home)


@functools.cache  # so that it is told once
def writable(folder: Path, home: Path | None = None, *, instead: str = "") -> Path:
    """`folder`, which is made if need be, but not its `home`; where that cannot be, the spare
    folder's `instead`.
    """
    try:
        if home is not None:
            home.stat()
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        spare = spare_folder()
        where = "nothing is kept between runs" if spare is None else f"{spare} takes its place"
        log.warning(
            f"{folder}: cannot be written ({error.strerror or error}); {where}; EMBEDX_CACHE_DIR"
            " names another folder"
        )
        return folder if spare is None else spare / instead
    return folder


@functools.cache
def spare_folder() -> Path | None:
    """The user's own folder among the temporary ones, the same in each run; None if there can be
    none.

    Compiled kernels are code that will be run. So if anybody else made a folder of that name, or
    could write to it, or put another one in its place, it is not used, but one that lasts as long
    as this run.
    """
    try:
        folder = Path(
            tempfile.gettempdir(), f"embedx-{os.geteuid()}" if os.name == "posix" else "embedx"
        )
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
    """Whether a folder belongs to this user, who alone may look into it, write to it or
    rename it.
    """
    if os.name != "posix":  # there each user has temporary folders of his own
        return True
    own, parent = folder.lstat(), folder.parent.stat()
    closed = stat.S_ISDIR(own.st_mode) and own.st_uid == os.geteuid() and not own.st_mode & 0o077
    return bool(closed and (parent.st_mode & stat.S_ISVTX or not parent.st_mode & 0o022))
