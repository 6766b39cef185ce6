"""The folder of a run's checkpoints, next to its output: its name, its files, and its lock.

OUTPUT.checkpoint/
    run.json             the command of the run (run_command.py)
    state-00000001.npz   a checkpoint: the run's state (state_file.py)
"""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from embedx.errors import DataError, Setting
from embedx.runtime import atomic, locks

SUFFIX = ".checkpoint"
RUN = "run.json"
PARTIAL_RUN = "run.partial"
OURS = re.compile(r"state-\d{8}\.(npz|partial)|run\.(json|partial)")


def folder_of(output: Path) -> Path:
    """The folder of the checkpoints of a run that writes its model to `output`."""
    output = atomic.followed(output)
    if not output.name:
        raise DataError(output, None, "the root of all folders", "name a folder within it")
    return output.with_name(output.name + SUFFIX)


def output_of(named: Path) -> Path:
    """The output of a run, by its name or that of its folder of checkpoints."""
    if not named.name.endswith(SUFFIX):
        return named
    return named.with_name(named.name.removesuffix(SUFFIX))


def is_checkpoint_folder(folder: Path) -> bool:
    """Whether a folder has the files of checkpoints, and no others."""
    names = [file.name for file in folder.iterdir()]
    return bool(names) and all(OURS.fullmatch(name) for name in names)


def check_not_in_use(output: Path) -> None:
    """Raise `DataError` if another run is writing `output`."""
    if locks.is_locked(folder_of(output)):
        raise _in_use(output)


@contextlib.contextmanager
def reserved(output: Path) -> "Iterator[locks.Lock | None]":
    """A lock on the output of a run for its duration. Raises `DataError` if another run has it.

    Locks the folder of checkpoints, and deletes it if it is empty at the end.
    """
    folder = folder_of(output)
    new_folders = [folder, *(parent for parent in folder.parents if not parent.exists())]
    try:
        with atomic.errors_named(folder):
            held = locks.take(folder)
    except DataError as error:
        if isinstance(error.__cause__, BlockingIOError):
            raise _in_use(output) from None
        raise
    try:
        yield held
    finally:
        if locks.is_of(held, folder):
            for path in new_folders:
                # A folder that is not empty is kept.
                with contextlib.suppress(OSError):
                    path.rmdir()
        locks.unlock(held)


def _in_use(output: Path) -> DataError:
    remedy = ("wait for it, or choose another ", Setting("output"))
    return DataError(output, None, "in use by a run that writes it", remedy)
