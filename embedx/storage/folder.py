"""The model folder on disk, the result of training for every task.

    NAME.npy      an array
    STEM.tsv      name TAB count, or names alone, one per line; line k describes row k of some
                  arrays
    model.json    format number, embedx version, task, numbers of lines of the .tsv files, shapes
                  of the arrays, settings as used, facts of the run, and the CRC-32 of all this

The arrays and names of a task are declared in `embedx.vectors.model` and
`embedx.classification.model_folder`.

All formats are plain: arrays are memory-mapped when a model is loaded, and nothing is unpickled. In
a .tsv file a tab, newline, carriage return or backslash in a name is written as `\\t`, `\\n`, `\\r`
or `\\\\`.

A model is always complete, also while it is overwritten (replacement.py).
"""

import contextlib
import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from numpy import ndarray

from embedx.errors import DataError, EmbedxError, Setting, SettingError, no_such
from embedx.runtime import atomic, locks
from embedx.settings import Options, Record
from embedx.storage.description import (
    FORMAT,
    description_text,
    facts_of,
    installed_version,
    read_described,
    read_description,
    without_secrets,
)
from embedx.storage.folder_files import (
    DESCRIPTION,
    REMEDY,
    damaged,
    name_lines,
    npy_blocks,
    read_array,
    read_names,
)
from embedx.storage.replacement import (
    at_one_moment,
    check_output,
    delete_leftovers,
    exists,
    put_in_place,
)
from embedx.storage.schema import FolderSchema, check_can_be_saved

# By a file that they have: folders of other programs and of other commands.
OTHER_FOLDERS = {
    "config.cfg": "a spaCy pipeline",
    "modules.json": "a model of sentence-transformers",
    "config.json": "a model of Hugging Face",
    "saved_model.pb": "a model of TensorFlow",
    "runs.jsonl": "the folder of `embedx compare`",
    "run.json": "checkpoints of a run, which `embedx resume` continues",
}
# Names of models in a message.
MAX_NAMES = 5


@dataclass(frozen=True, eq=False)
class Folder:
    """The content of a model folder.

    names   names with their counts, int64 (names,), or None, by the stem of their file
    arrays  memory-mapped
    """

    path: Path
    task: str
    names: dict[str, tuple[list[str], ndarray | None]]
    arrays: dict[str, ndarray]
    settings: Record
    facts: Record


def read(path: str | Path, schema: FolderSchema) -> Folder:
    """The model in a folder, checked against the schema of its task. It is consistent even if
    another process replaces it meanwhile.

    Raises EmbedxError, with the file and a remedy, for a model that is missing, damaged, too new or
    of another task.
    """
    return at_one_moment(path, lambda folder: _read(folder, schema))


def _read(path: Path, schema: FolderSchema) -> Folder:
    """The model in a folder that no process replaces meanwhile."""
    if not exists(path / DESCRIPTION):
        raise no_model_folder(path, schema.source)
    description = read_described(path, schema)
    names = {
        stem: read_names(path / f"{stem}.tsv", lines)
        for stem, lines in description["names"].items()
    }
    arrays = {
        name: read_array(path / f"{name}.npy", expected)
        for name, expected in description["arrays"].items()
    }
    for name, complaint in schema.misfits(names, arrays, description["facts"]):
        raise damaged(path / name, complaint)
    return Folder(path, schema.task, names, arrays, description["settings"], facts_of(description))


def no_model_folder(
    path: str | Path, source: str = "`embedx train` or `embedx classify` wrote"
) -> DataError:
    """The error for a path that is no model folder; `source` is what wrote such folders."""
    remedy = f"give a folder that {source}"
    if not os.path.exists(path):
        return no_such("model folder", path, remedy)
    if os.path.isdir(path):
        kind = kind_of_other_folder(Path(path))
        if kind:
            return DataError(path, None, f"{kind}, not a model folder", remedy)
        models = sorted(file.parent.name for file in Path(path).glob(f"*/{DESCRIPTION}"))
        if models:
            shown = ", ".join(models[:MAX_NAMES])
            problem = "not a model folder but a folder of models"
            return DataError(path, None, problem, f"name one in it, such as {shown}")
        return DataError(path, None, f"not a model folder (it has no {DESCRIPTION})", remedy)
    return DataError(path, None, "a file, not a model folder", remedy)


def kind_of_other_folder(folder: Path) -> str:
    """The kind of a folder of another program or of another command; "" if unknown."""
    with contextlib.suppress(OSError):
        names = set(os.listdir(folder))
        return next((kind for file, kind in OTHER_FOLDERS.items() if file in names), "")
    return ""


@contextlib.contextmanager
def blamed_on(file: Path) -> Iterator[None]:
    """Add the folder and a remedy to errors of the checks of a task."""
    try:
        yield
    except DataError as error:
        # It names the file of an array.
        raise DataError(file.parent / str(error.file), None, error.problem, REMEDY) from error
    except SettingError as error:
        setting = Setting(error.setting, error.value)
        raise damaged(file, (setting, error.separator, error.problem)) from error
    except EmbedxError as error:
        raise damaged(file, str(error).partition("; ")[0]) from error


def task_of_model(path: str | Path) -> str | None:
    """The task of the model folder `path`, or None if it is none. Raises EmbedxError if its
    description is damaged.
    """
    return at_one_moment(path, _task_of_folder)


def _task_of_folder(folder: Path) -> str | None:
    if not exists(folder / DESCRIPTION):
        return None
    return str(read_description(folder)["task"])


# ---- writing


def save(
    folder: Path,
    *,
    task: str,
    names: Mapping[str, tuple[Sequence[str], ndarray | None]],
    arrays: Mapping[str, ndarray],
    settings: Options,
    facts: Options,
    overwrite: bool = False,
) -> Path:
    """Write a model folder and return its path. At any moment the folder is absent, the old model
    or the new one, always complete.

    names     names with counts, int64 (names,), or None, by the stem of their file
    arrays    by name; rows may be padded views
    settings  of the run, as JSON types; URLs are written without secrets
    facts     of the run, as JSON types: objective, final loss, seconds
    """
    for stem, (names_in_file, _) in names.items():
        if len(set(names_in_file)) < len(names_in_file):
            raise ValueError(f"{stem}: a name occurs twice")
        check_can_be_saved(names_in_file, stem)
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ValueError(f"{name}: arrays are plain numbers")
    check_output(folder, overwrite)
    folder = atomic.followed(folder)
    description = {
        "format": FORMAT,
        "embedx": installed_version(),
        "task": task,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "names": {stem: len(names_in_file) for stem, (names_in_file, _) in names.items()},
        "arrays": {
            name: {"shape": list(array.shape), "dtype": str(array.dtype)}
            for name, array in arrays.items()
        },
        "settings": {name: without_secrets(value) for name, value in settings.items()},
        "facts": facts,
    }
    partial = atomic.beside(folder, "partial")
    lock: locks.Lock | None = None

    def make_partial() -> Path:
        partial.mkdir(parents=True, exist_ok=True)
        return partial

    try:
        with atomic.errors_named(folder, "cannot write the model"):
            _, lock = locks.new_locked(make_partial)
            _write_files(partial, description, arrays, names)
            # Another process may have created the folder meanwhile.
            check_output(folder, overwrite)
            put_in_place(partial, folder)
    finally:
        locks.remove(partial, lock)
    delete_leftovers(folder)
    return folder


def _write_files(
    folder: Path,
    description: Options,
    arrays: Mapping[str, ndarray],
    names: Mapping[str, tuple[Sequence[str], ndarray | None]],
) -> None:
    """Write all files of a model, and wait until they are on disk."""
    atomic.write_bytes(folder / DESCRIPTION, [description_text(description).encode()])
    for name, array in arrays.items():
        atomic.write_bytes(folder / f"{name}.npy", npy_blocks(array))
    for stem, (names_in_file, counts) in names.items():
        atomic.write_bytes(folder / f"{stem}.tsv", name_lines(names_in_file, counts))
    atomic.sync_folder(folder)
