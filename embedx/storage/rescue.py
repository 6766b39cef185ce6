"""Saving a finished model: in its output folder or, if that fails, anywhere it can be written."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from embedx.errors import DataError, EmbedxError, Text, in_python, spelled

# Maximum bytes of a name for every file system, with `.replaced-XXXXXXXX` added.
MAX_NAME = 120


class RescuedError(EmbedxError):
    """A model could not be saved in its output folder.

    problem  why
    remedy   where it is instead, or what to do
    """

    def __init__(self, problem: Text, remedy: Text) -> None:
        super().__init__(problem, *(("; ", remedy) if remedy else ()))
        self.args = (problem, remedy)
        self.problem = problem
        self.remedy = remedy


def save_or_rescue(
    save: Callable[[Path], Path], folder: Path, how_to_resume: Callable[[], str] = str
) -> Path:
    """Save a model to `folder` by `save`, and return its path.

    Raises `EmbedxError` if that fails for any reason. The model is then saved in another folder,
    named by the error; if that fails, too, the error lists the folders tried and `how_to_resume`
    the run.
    """
    try:
        return save(folder)
    except Exception as error:
        problem, remedy = _reason(error)
        if not isinstance(error, EmbedxError):
            problem = (f"{folder}: cannot write the model: ", problem)
        tried = []
        for place in _spare_places():
            rescued = _saved_within(save, place, folder.name)
            if isinstance(rescued, Path):
                raise RescuedError(problem, f"use the model in {rescued}") from error
            tried.append(f"{place} ({rescued})")
        nowhere = ", ".join(tried) or "no temporary folder was found"
        remedy = how_to_resume() or remedy
        unsaved = (problem, f"; it could not be saved elsewhere either: {nowhere}")
        raise RescuedError(unsaved, remedy) from error


def _saved_within(save: Callable[[Path], Path], place: Path, name: str) -> Path | str:
    """The path of a model saved in a new folder in `place`, or why that failed."""
    spare = None
    try:
        spare = Path(tempfile.mkdtemp(prefix="embedx-", dir=place))
        return save(spare / (name if len(os.fsencode(name)) < MAX_NAME else "model"))
    except Exception as error:
        if spare is not None:
            shutil.rmtree(spare, ignore_errors=True)
        return spelled(_reason(error)[0], in_python).rpartition(": ")[2]


def _reason(error: Exception) -> tuple[Text, Text]:
    """(problem, remedy) of an error; the remedy is "" if there is none."""
    if isinstance(error, DataError):
        return DataError(error.file, error.line, error.problem).parts, error.remedy
    if isinstance(error, EmbedxError):
        return error.parts, ""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror, ""
    return f"{type(error).__name__} ({error})", ""


def _spare_places() -> Iterator[Path]:
    """Folders that may take a model: that of temporary files, others of this system, the working
    folder, and the user's.
    """
    names = ["/var/tmp", os.curdir, os.path.expanduser("~"), "/dev/shm"]
    # Python raises it where nothing can be written to any that it knows.
    with contextlib.suppress(OSError):
        names.insert(0, tempfile.gettempdir())
    places = (Path(name).absolute() for name in names)
    yield from dict.fromkeys(place for place in places if place.is_dir())
