"""Replacing a model folder while other processes may read or write it.

A folder is written as NAME.partial-XXXXXXXX and renamed, so a model is always complete. Overwriting
takes two renames: NAME to NAME.replaced-XXXXXXXX, then the new folder to NAME. If a process is
killed between the two, `current_path` finds the old model under its new name.

Only models are overwritten: their model.json lists their files (and is deleted last), and other
files in the folder move to the new one. Folders of a killed process are deleted when NAME is next
written, unless another process has locked them (`embedx.runtime.locks`).
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from embedx.errors import DataError, EmbedxError, Setting
from embedx.runtime import atomic, locks
from embedx.storage.description import read_description
from embedx.storage.folder_files import DESCRIPTION

# Maximum number of attempts to read a model that other processes replace.
MAX_TRIES = 20

Content = TypeVar("Content")


def at_one_moment(path: str | Path, read_from: Callable[[Path], Content]) -> Content:
    """The result of `read_from`, repeated if another process replaces the folder meanwhile."""
    for _ in range(MAX_TRIES):
        folder = current_path(path)
        with _watch_replacement(folder) as is_replaced:
            try:
                content = read_from(folder)
            except EmbedxError:
                if not is_replaced():
                    raise
            else:
                if not is_replaced():
                    return content
    problem = "replaced again and again while it was read"
    raise DataError(path, None, problem, "read it when no run writes it")


@contextlib.contextmanager
def _watch_replacement(folder: Path) -> Iterator[Callable[[], bool]]:
    """A function that returns whether another folder has replaced this one."""

    def identity() -> tuple[int, int] | None:
        try:
            status = os.stat(folder)
        except (OSError, ValueError):
            return None
        return status.st_dev, status.st_ino

    # An open folder keeps its inode number, so that no later one can get it.
    handle = None
    if os.name == "posix":
        with contextlib.suppress(OSError, ValueError):
            handle = os.open(folder, os.O_RDONLY | os.O_NONBLOCK)
    before = identity()
    try:
        yield lambda: identity() != before
    finally:
        if handle is not None:
            os.close(handle)


def exists(file: Path) -> bool:
    """Whether a file exists, or cannot be accessed, which reading it will report."""
    try:
        file.stat()
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def current_path(path: str | Path) -> Path:
    """The folder or file `path`, or the renamed folder of its model if a process was killed between
    the two renames of an overwrite. Raises `DataError` for what is no path.
    """
    folder = as_path(path)
    if os.path.exists(folder) or not folder.name:
        return folder
    models = (left for left in atomic.leftovers(folder, "replaced") if is_model(left))
    return next(models, folder)


def as_path(path: object, argument: str = "model") -> Path:
    """The path that a string or a path names. Raises `DataError` for all else, such as a model.

    argument  its name
    """
    if isinstance(path, str | os.PathLike):
        return Path(path)
    kind = type(path)
    remedy = "give the name of a folder or file"
    if kind.__module__.partition(".")[0] == "gensim":
        remedy = "write its vectors by save_word2vec_format, and give the name of that file"
    problem = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    raise DataError(argument, None, f"not a path but of type {problem}", remedy)


def is_model(folder: Path) -> bool:
    """Whether `save` wrote the folder, by its description: other programs have files of the same
    name.
    """
    return bool(files_of(folder))


def files_of(folder: Path) -> list[str]:
    """The files of the model in `folder`, the description last; none if `save` did not write it."""
    try:
        description = read_description(folder)
    except EmbedxError:
        return []
    return [
        *(f"{name}.npy" for name in description["arrays"]),
        *(f"{stem}.tsv" for stem in description["names"]),
        DESCRIPTION,
    ]


# ---- writing


def check_output(folder: Path, overwrite: bool) -> None:
    """Raise EmbedxError if a model cannot be saved as `folder`; called before training."""
    place = atomic.followed(folder)
    if not place.name:
        raise DataError(folder, None, "the root of all folders", "name a folder within it")
    try:
        existing = current_path(place)
        if existing.exists():
            _check_replaceable(existing, overwrite)
        _try_to_write_beside(place)
    except OSError as error:
        problem = f"{error.strerror or error}, so it cannot be written to"
        raise DataError(folder, None, problem, ("choose another ", Setting("output"))) from error


def _check_replaceable(folder: Path, overwrite: bool) -> None:
    """Raise `DataError` if a folder may not or cannot be replaced by a model."""
    output = Setting("output")
    if not overwrite:
        remedy = ("add ", Setting("overwrite", True), ", or choose another ", output)
        raise DataError(folder, None, "exists already", remedy)
    if os.path.ismount(folder):
        problem = "a mount point, which cannot be replaced"
        raise DataError(folder, None, problem, ("name a folder within it as ", output))
    if is_model(folder):
        return
    is_empty_folder = folder.is_dir() and not any(folder.iterdir())
    if not is_empty_folder:
        problem = "not a model folder, so it is not overwritten"
        raise DataError(folder, None, problem, ("choose another ", output))


def _try_to_write_beside(place: Path) -> None:
    """Create and delete a folder with the longest temporary name of a model and its checkpoints.
    Raises `OSError` if that fails.
    """
    parent = next(folder for folder in place.parents if folder.exists())
    trial = parent / atomic.beside(place, "replaced").name
    trial.mkdir()
    # Another process may have taken it for one of a killed run, and deleted it.
    with contextlib.suppress(FileNotFoundError):
        trial.rmdir()


def put_in_place(partial: Path, folder: Path) -> None:
    """Rename `partial` to `folder`; an old model there is renamed first, and deleted afterwards."""
    old = current_path(folder)
    replaced = atomic.beside(folder, "replaced")
    lock = locks.lock(old, wait=False)
    try:
        if old.exists():
            old.rename(replaced)
        try:
            partial.rename(folder)
        except OSError:
            if replaced.exists():
                replaced.rename(old)
            raise
        atomic.sync_folder(folder.parent)
        if replaced.exists():
            delete_replaced(replaced, folder)
    finally:
        locks.unlock(lock)


def delete_replaced(old: Path, new: Path) -> None:
    """Delete a model that `new` replaces. Other files in its folder move to `new`, or stay if a
    file of that name exists there.
    """
    files = files_of(old)
    with contextlib.suppress(OSError):
        for other in {file.name for file in old.iterdir()} - set(files):
            if not os.path.lexists(new / other):
                with contextlib.suppress(OSError):
                    (old / other).rename(new / other)
        for file in files:
            (old / file).unlink(missing_ok=True)
        old.rmdir()


def delete_leftovers(folder: Path) -> None:
    """Delete files of killed processes next to `folder`, which is complete."""
    for left in atomic.leftovers(folder, "partial"):
        locks.remove_if_left(left)
    for left in atomic.leftovers(folder, "replaced"):
        lock = locks.lock(left, wait=False)
        if lock is not None and (is_model(left) or not any(left.iterdir())):
            delete_replaced(left, folder)
        locks.unlock(lock)
