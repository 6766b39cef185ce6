"""Output files: refused before any work if they cannot be written, never overwriting an input, and
complete or absent.
"""

import contextlib
import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from embedx.errors import DataError, Setting
from embedx.runtime import atomic

Names = Iterable[str | Path]


def check_file(file: Path, overwrite: bool, inputs: Names = ()) -> None:
    """Raise `DataError` if `file` cannot be written, exists without `overwrite`, is not a file, or
    is one of the inputs. Called before any work.
    """
    with atomic.errors_named(file):
        place = atomic.followed(file)
        if place.exists():
            if not place.is_file():
                raise DataError(
                    file, None, "is a folder, a pipe or a device", "give the name of a file"
                )
            if not overwrite:
                raise exists_already(file)
        check_not_read(file, inputs)
        trial = atomic.beside(place, "partial")
        trial.touch(exist_ok=False)
        trial.unlink()


def exists_already(file: Path) -> DataError:
    """The error for an output that exists, without `overwrite`."""
    remedy = ("add ", Setting("overwrite", True), ", or choose another name")
    return DataError(file, None, "exists already", remedy)


def check_not_read(output: Path, inputs: Names) -> None:
    """Raise `DataError` if writing `output` would change an input: the same file, by any name or
    link, or a file in an input folder. In a model folder only the files of the model are inputs; a
    model in an input folder is not.
    """
    if not os.path.exists(output):
        return
    place = atomic.followed(output)
    for name in inputs:
        for path in map(Path, _paths_named(str(name))):
            if _is_part(place, path):
                raise DataError(
                    output, None, f"it is read by this command, as {name}", "write to another file"
                )


def _is_part(place: Path, path: Path) -> bool:
    """Whether `place` is the file or folder `path`, or an input in that folder."""
    # Imported here, because it imports numpy.
    from embedx.storage.replacement import files_of

    if os.path.samefile(place, path):
        return True
    if not path.is_dir() or files_of(place):
        return False
    files: Iterable[Path] = [path / name for name in files_of(path)]
    if not files:
        files = (Path(parent, name) for parent, _, names in os.walk(path) for name in names)
    return any(file.exists() and os.path.samefile(place, file) for file in files)


def _paths_named(name: str) -> list[str]:
    """The files and folders of a name, which may be a pattern, ARCHIVE:MEMBER or DATA@SPLIT."""
    if os.path.exists(name):
        return [name]
    shorter = {name.rpartition(":")[0], name.partition("@")[0], name.rpartition("@")[0]}
    paths = [path for path in shorter if path and os.path.exists(path)]
    return paths or (glob.glob(name, recursive=True) if glob.has_magic(name) else [])


@contextlib.contextmanager
def writing(file: Path, overwrite: bool, inputs: Names = ()) -> Iterator[IO[bytes]]:
    """A stream to `file`, which appears when the block ends.

    Raises the errors of `check_file`, and `DataError` if it cannot be written.
    """
    check_file(file, overwrite, inputs)
    with atomic.errors_named(file), atomic.replacing(atomic.followed(file)) as out:
        yield out
