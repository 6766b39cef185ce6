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

A folder is written as NAME.partial-XXXXXXXX and renamed, so a model is always complete. Overwriting
takes two renames: NAME to NAME.replaced-XXXXXXXX, then the new folder to NAME. If a process is
killed between the two, `read` finds the old model under its new name.

Only models are overwritten: their model.json lists their files (and is deleted last), and other
files in the folder move to the new one. Folders of a killed process are deleted when NAME is next
written, unless another process has locked them (`embedx.runtime.locks`).
"""

import contextlib
import datetime
import io
import json
import os
import re
import stat
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy import ndarray

from embedx.errors import DataError, EmbedxError, Setting, SettingError, Text, no_such, public_url
from embedx.pages.plain import ESCAPES, escape
from embedx.runtime import atomic, locks
from embedx.settings import Options, Record
from embedx.storage.schema import FolderSchema, check_can_be_saved, row_blocks

FORMAT = 1
DESCRIPTION = "model.json"
# The JSON objects of a description, and its required keys.
PARTS = ("names", "arrays", "settings", "facts")
# By the task of a model, for messages about one of another task.
COMMANDS_OF_TASK = {"skipgram": "`embedx nn`", "classification": "`embedx predict`"}
REQUIRED_KEYS = ("format", *PARTS, "task")
REMEDY = "restore the folder from a copy, or train again"
# Maximum number of attempts to read a model that other processes replace.
MAX_TRIES = 20

Content = TypeVar("Content")
# Maximum sum of the counts of all names, so that sums stay within int64.
MAX_SUM_OF_COUNTS = 2**62
MAX_LETTERS_IN_MESSAGE = 200
# Names of arrays and stems of names, which cannot lead out of the folder.
PLAIN_NAME = re.compile(r"[a-z][a-z0-9_]*")

ESCAPE = re.compile(r"\\.")
UNESCAPES = {escape: character for character, escape in ESCAPES.items()}


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


# ---- reading


def read(path: str | Path, schema: FolderSchema) -> Folder:
    """The model in a folder, checked against the schema of its task. It is consistent even if
    another process replaces it meanwhile.

    Raises EmbedxError, with the file and a remedy, for a model that is missing, damaged, too new or
    of another task.
    """
    return _at_one_moment(path, lambda folder: _read(folder, schema))


def _at_one_moment(path: str | Path, read_from: Callable[[Path], Content]) -> Content:
    """The result of `read_from`, repeated if another process replaces the folder meanwhile."""
    for _ in range(MAX_TRIES):
        folder = present(Path(path))
        with _held(folder) as is_replaced:
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
def _held(folder: Path) -> Iterator[Callable[[], bool]]:
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


def no_model_folder(
    path: str | Path, source: str = "`embedx train` or `embedx classify` wrote"
) -> DataError:
    """The error for a path that is no model folder; `source` is what wrote such folders."""
    remedy = f"give a folder that {source}"
    if not os.path.exists(path):
        return no_such("model folder", path, remedy)
    if os.path.isdir(path):
        return DataError(path, None, f"not a model folder (it has no {DESCRIPTION})", remedy)
    return DataError(path, None, "a file, not a model folder", remedy)


def _read(path: Path, schema: FolderSchema) -> Folder:
    """The model in a folder that no process replaces meanwhile."""
    if not _exists(path / DESCRIPTION):
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


def facts_of(description: Options) -> Record:
    """The facts of a run, with the version of embedx that wrote them and when."""
    return {
        "version": description.get("embedx"),
        "created": description.get("created"),
        **description["facts"],
    }


def damaged(file: Path, complaint: Text) -> DataError:
    """The error for a damaged file."""
    return DataError(file, None, complaint, REMEDY)


@contextlib.contextmanager
def reading(file: Path) -> Iterator[None]:
    """Turn errors of reading a file into `DataError` with its name."""
    try:
        # Opening a pipe would wait for a writer.
        if not stat.S_ISREG(file.stat().st_mode):
            raise OSError("not a regular file")
        yield
    except EmbedxError:
        raise
    except FileNotFoundError:
        raise damaged(file, "missing") from None
    except PermissionError as error:
        problem = f"cannot be read ({error.strerror})"
        raise DataError(file, None, problem, "check its permissions") from error
    except Exception as error:
        # numpy may raise any exception for damaged bytes.
        raise damaged(file, f"damaged ({_reason(error)})") from error


def _reason(error: Exception) -> str:
    """The message of an error, in one line."""
    text = str(getattr(error, "strerror", None) or error)
    if isinstance(error, KeyError):
        text = f"no {error}"
    return _short(" ".join(text.split()) or type(error).__name__)


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
    return _at_one_moment(path, _task_of_folder)


def _task_of_folder(folder: Path) -> str | None:
    if not _exists(folder / DESCRIPTION):
        return None
    return str(read_description(folder)["task"])


def _exists(file: Path) -> bool:
    """Whether a file exists, or cannot be accessed, which reading it will report."""
    try:
        file.stat()
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def read_description(path: Path) -> Record:
    """The content of model.json, with checks of its list of files."""
    file = path / DESCRIPTION
    with reading(file):
        description = json.loads(file.read_bytes())
        if not isinstance(description, dict):
            raise ValueError("it is not a JSON object")
        missing = [key for key in REQUIRED_KEYS if key not in description]
        if missing:
            raise KeyError(missing[0])
        version = description["format"]
        if version != FORMAT:
            problem = f"format {_short(version)}, while this embedx reads format {FORMAT}"
            raise DataError(file, None, problem, "upgrade embedx")
        checksum = checksum_of(description)
        if description.get("checksum", checksum) != checksum:
            raise ValueError("its checksum differs")
        if not _describes_files(description):
            raise ValueError("it does not describe files as `embedx` does")
        return description


def _describes_files(description: Record) -> bool:
    """Whether the parts of a description are JSON objects, and its names those of files."""
    if not all(isinstance(description[part], dict) for part in PARTS):
        return False
    names = (*description["names"], *description["arrays"])
    return all(PLAIN_NAME.fullmatch(name) for name in names)


def read_described(path: Path, schema: FolderSchema) -> Record:
    """The content of model.json, checked against the schema of its task."""
    file = path / DESCRIPTION
    description = read_description(path)
    task = description["task"]
    if task != schema.task:
        problem = f"a model of the task {_short(task)!r}"
        remedy = f"give one that {schema.source}"
        if task in COMMANDS_OF_TASK:
            remedy += f"; for this one there is {COMMANDS_OF_TASK[task]}"
        raise DataError(file, None, problem, remedy)
    problem = schema.missing(description) or schema.wrong_values(description)
    if problem:
        raise damaged(file, problem)
    return description


def checksum_of(description: Options) -> int:
    """CRC-32 of the content of model.json without its checksum."""
    rest = {name: value for name, value in description.items() if name != "checksum"}
    return zlib.crc32(json.dumps(rest, sort_keys=True).encode())


def as_text(description: Options) -> str:
    """A description as the text of model.json."""
    content = json.loads(json.dumps(description, default=plain))
    return json_text({**content, "checksum": checksum_of(content)})


def json_text(value: Options) -> str:
    """A value as indented JSON in valid UTF-8: undecodable file names are written with escapes,
    from which they can be restored.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return atomic.utf8(text).decode()


def _short(value: Any) -> str:
    text = str(value)
    if len(text) <= MAX_LETTERS_IN_MESSAGE:
        return text
    return f"{text[:MAX_LETTERS_IN_MESSAGE]}…"


def read_array(file: Path, expected: Record) -> ndarray:
    """The array in `file`, memory-mapped read-only, which must have the shape and dtype that
    model.json states.
    """
    with reading(file):
        mapped = map_array(file)
        shape = mapped.shape
        dtype = mapped.dtype
        if list(shape) != expected["shape"] or str(dtype) != expected["dtype"]:
            described = f"{expected['dtype']} {expected['shape']}"
            raise damaged(file, f"holds {dtype} {shape}, but {DESCRIPTION} says {described}")
        n_bytes = file.stat().st_size - mapped.offset
        if n_bytes != mapped.nbytes:
            raise ValueError(f"{n_bytes:,} bytes of numbers instead of {mapped.nbytes:,}")
        # The same pages without the memmap class, which slows down every small slice.
        return np.asarray(mapped)


def map_array(file: Path) -> np.memmap[Any, Any]:
    """The array in an .npy file, memory-mapped read-only.

    numpy parses the header as Python source. In CPython before 3.13 this sometimes fails in
    concurrent threads ("AST constructor recursion depth mismatch"), so that only one does it at a
    time.
    """
    with _reading_header:
        return np.lib.format.open_memmap(file, mode="r")


_reading_header = threading.Lock()


def read_names(file: Path, lines: int) -> tuple[list[str], ndarray | None]:
    """The names in `file`, whose number must be that of model.json, and their counts, int64, or
    None if the file has none.
    """
    with reading(file):
        text = file.read_bytes().decode("utf-8")
    if text and not text.endswith("\n"):
        raise damaged(file, "cut short within its last line")
    parts = [line.partition("\t") for line in text.split("\n")[:-1]]
    names = [unescape(name) if "\\" in name else name for name, _, _ in parts]
    if len(names) != lines:
        raise damaged(file, f"{len(names)} lines, but {DESCRIPTION} says {lines}")
    if len(set(names)) < len(names):
        raise damaged(file, "a name occurs twice")
    if not any(tab for _, tab, _ in parts):
        return names, None
    for line, (_, _, count) in enumerate(parts, 1):
        if not (count.isascii() and count.isdigit() and len(count) <= 18):
            problem = "no count after the name; lines look like `name TAB count`"
            raise DataError(file, line, problem, REMEDY)
    counts = [int(count) for _, _, count in parts]
    if sum(counts) > MAX_SUM_OF_COUNTS:
        raise damaged(file, f"counts of more than {MAX_SUM_OF_COUNTS:,} together")
    return names, np.array(counts, np.int64)


def unescape(name: str) -> str:
    return ESCAPE.sub(lambda match: UNESCAPES.get(match[0], match[0]), name)


# ---- writing


def check_output(folder: Path, overwrite: bool) -> None:
    """Raise EmbedxError if a model cannot be saved as `folder`; called before training."""
    place = atomic.followed(folder)
    if not place.name:
        raise DataError(folder, None, "the root of all folders", "name a folder within it")
    try:
        existing = present(place)
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
        "settings": {name: _without_secrets(value) for name, value in settings.items()},
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
    sweep(folder)
    return folder


def _write_files(
    folder: Path,
    description: Options,
    arrays: Mapping[str, ndarray],
    names: Mapping[str, tuple[Sequence[str], ndarray | None]],
) -> None:
    """Write all files of a model, and wait until they are on disk."""
    atomic.write_bytes(folder / DESCRIPTION, [as_text(description).encode()])
    for name, array in arrays.items():
        atomic.write_bytes(folder / f"{name}.npy", npy_blocks(array))
    for stem, (names_in_file, counts) in names.items():
        atomic.write_bytes(folder / f"{stem}.tsv", name_lines(names_in_file, counts))
    atomic.sync_folder(folder)


def npy_blocks(array: ndarray) -> Iterator[bytes | memoryview]:
    """`array` as C-order npy, a block of rows at a time, which drops any padding
    between the rows.
    """
    header = {
        "descr": np.lib.format.dtype_to_descr(array.dtype),
        "fortran_order": False,
        "shape": array.shape,
    }
    header_bytes = io.BytesIO()
    np.lib.format.write_array_header_1_0(header_bytes, header)
    yield header_bytes.getvalue()
    for rows in row_blocks(array):
        yield np.ascontiguousarray(rows).data


def name_lines(names: Sequence[str], counts: ndarray | None) -> Iterator[bytes]:
    if counts is None:
        return (f"{escape(name)}\n".encode() for name in names)
    return (
        f"{escape(name)}\t{count}\n".encode()
        for name, count in zip(names, counts.tolist(), strict=True)
    )


def put_in_place(partial: Path, folder: Path) -> None:
    """Rename `partial` to `folder`; an old model there is renamed first, and deleted afterwards."""
    old = present(folder)
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
            discard(replaced, folder)
    finally:
        locks.unlock(lock)


def discard(old: Path, new: Path) -> None:
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


def sweep(folder: Path) -> None:
    """Delete files of killed processes next to `folder`, which is complete."""
    for left in atomic.leftovers(folder, "partial"):
        locks.remove_if_left(left)
    for left in atomic.leftovers(folder, "replaced"):
        lock = locks.lock(left, wait=False)
        if lock is not None and (is_model(left) or not any(left.iterdir())):
            discard(left, folder)
        locks.unlock(lock)


def _without_secrets(value: Any) -> Any:
    """The value of a setting, with URLs without secrets."""
    return public_url(value) if isinstance(value, str) else value


def present(folder: Path) -> Path:
    """`folder`, or the renamed folder of its model if a process was killed between the two renames
    of an overwrite.
    """
    if os.path.exists(folder) or not folder.name:
        return folder
    models = (left for left in atomic.leftovers(folder, "replaced") if is_model(left))
    return next(models, folder)


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


def plain(value: Any) -> Any:
    """numpy's numbers and arrays, and paths, as JSON types."""
    if isinstance(value, np.generic | ndarray):
        return value.tolist()
    return str(value)


def installed_version() -> str:
    try:
        return metadata.version("embedx")
    except metadata.PackageNotFoundError:
        return "unknown"
