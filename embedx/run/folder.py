"""The model folder on disk: what training leaves behind, whatever the task.

    NAME.npy      an array
    STEM.tsv      name TAB count, one name a line, or names alone; line k describes row k of the arrays that it belongs to
    model.json    format number, embedx version, task, lines of the .tsv files, shapes of the arrays, settings as used, facts
                  of the run

Which arrays and names there are is the task's affair: see `embedx.vectors.model` and
`embedx.classification.classifier`.

Everything is plain: arrays are memory-mapped when a model is loaded, and nothing is ever unpickled. In a .tsv file a tab,
newline, carriage return or backslash within a name is written as `\\t`, `\\n`, `\\r` or `\\\\`.

A folder is written beside its final place, as NAME.partial-XXXXXXXX, and renamed into it, so whoever looks sees a complete
model. Overwriting takes two renames: NAME to NAME.replaced-XXXXXXXX, then the new folder to NAME. A process killed between the
two leaves the old model there, where `read` still finds it when it is asked for NAME, as it finds NAME.replaced, which earlier
versions left.

Only models are overwritten, of which model.json says what files they have; others in their folder go on to the new one. What a
killed process left of either name is deleted when NAME is next written, if a model.json says that it is one (so that is
written first, and deleted last) and no other process has locked it.
"""

import contextlib
import datetime
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from embedx.errors import EmbedxError
from embedx.run import locks

FORMAT = 1
DESCRIPTION = "model.json"
REMEDY = "restore the folder from a copy, or train again"
SOURCES = {"skipgram": "`embedx train` wrote, or a vector file", "classification": "`embedx classify` wrote"}  # by task

BLOCK_FLOATS = 1 << 22  # rows are copied and normed 16 MB at a time, so that a huge table is never doubled in memory

ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
UNESCAPES = {escape: character for character, escape in ESCAPES.items()}


@dataclass(frozen=True, eq=False)
class Folder:
    """The content of a model folder."""

    path: Path
    task: str
    names: dict[str, tuple[list[str], np.ndarray | None]]  # by the stem of their file; counts int64 (names,), or None
    arrays: dict[str, np.ndarray]  # memory-mapped
    settings: dict[str, Any]
    facts: dict[str, Any]


def row_blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Consecutive rows of `array`, a few megabytes at a time; at least one block."""
    width = max(1, array[:1].size)
    step = max(1, BLOCK_FLOATS // width)
    for start in range(0, max(1, len(array)), step):
        yield array[start : start + step]


# ---- reading


def read(path: str | Path, task: str) -> Folder:
    """The model of `task` in a folder.

    Raises EmbedxError, naming the file and a remedy, for whatever is missing, damaged, too new or of another task.
    """
    path = present(Path(path))
    if not os.path.exists(path / DESCRIPTION):  # unlike `Path.exists`, that may be asked where one may not look
        what = f"not a model folder (it has no {DESCRIPTION})" if os.path.exists(path) else "no such folder"
        raise EmbedxError(f"{path}: {what}; give one that {SOURCES[task]}")
    description = read_description(path)
    check_task(path / DESCRIPTION, description["task"], task)
    return Folder(
        path,
        task,
        {stem: read_names(path / f"{stem}.tsv", lines) for stem, lines in description["names"].items()},
        {name: read_array(path / f"{name}.npy", expected) for name, expected in description["arrays"].items()},
        description["settings"],
        {"version": description.get("embedx"), "created": description.get("created"), **description["facts"]},
    )


def task_of(path: str | Path) -> str | None:
    """The task of the model folder `path`, or None if it is none. Raises EmbedxError if its description is damaged."""
    path = present(Path(path))
    return str(read_description(path)["task"]) if os.path.exists(path / DESCRIPTION) else None


def read_description(path: Path) -> dict[str, Any]:
    """The content of model.json, with what `read` relies on checked."""
    file = path / DESCRIPTION
    try:
        description = json.loads(file.read_bytes())
        version = description["format"]
        if "names" not in description:  # written before there were other tasks
            description["names"] = {"vocabulary": description["words"]}
        objects = [description[key] for key in ("names", "arrays", "settings", "facts")]
        description["task"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:  # the last of brackets within brackets
        raise EmbedxError(f"{file}: damaged ({error}); {REMEDY}") from error
    if version != FORMAT:
        raise EmbedxError(f"{file}: format {version}, while this embedx reads format {FORMAT}; upgrade embedx")
    is_whole = all(isinstance(each, dict) for each in objects)
    is_whole = is_whole and all(isinstance(each, dict) for each in description["arrays"].values())
    if not is_whole:
        raise EmbedxError(f"{file}: damaged (names, arrays, settings and facts must be objects); {REMEDY}")
    return dict(description)


def check_task(file: Path, given: str, wanted: str) -> None:
    """Raise EmbedxError if a model of the task `given` was taken for one of the task `wanted`."""
    if given == wanted:
        return
    if wanted == "skipgram":
        raise EmbedxError(f"{file}: a model of the task {given!r} has no word vectors; give a skipgram model")
    kind = "word vectors are" if given == "skipgram" else f"a model of the task {given!r} is"
    raise EmbedxError(f"{file}: {kind} no classifier; give a model that {SOURCES[wanted]}")


def read_array(file: Path, expected: dict[str, Any]) -> np.ndarray:
    """The array in `file`, memory-mapped read-only, which must have the shape and dtype that model.json states."""
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise EmbedxError(f"{file}: missing; {REMEDY}") from None
    except Exception as error:  # damaged bytes make numpy fail in many ways
        raise EmbedxError(f"{file}: damaged ({error}); {REMEDY}") from error
    if [list(array.shape), str(array.dtype)] != [expected.get("shape"), expected.get("dtype")]:
        raise EmbedxError(
            f"{file}: holds {array.dtype} {array.shape}, but {DESCRIPTION} says "
            f"{expected.get('dtype')} {expected.get('shape')}; {REMEDY}"
        )
    return np.asarray(array)  # the same pages without the memmap class, which slows every small slice


def read_names(file: Path, lines: int) -> tuple[list[str], np.ndarray | None]:
    """The names in `file`, which must be as many as model.json states, and their counts as int64 where the file has them."""
    try:
        text = file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise EmbedxError(f"{file}: missing; {REMEDY}") from None
    except (OSError, ValueError) as error:
        raise EmbedxError(f"{file}: damaged ({error}); {REMEDY}") from error
    if text and not text.endswith("\n"):
        raise EmbedxError(f"{file}: cut short within its last line; {REMEDY}")
    parts = [line.partition("\t") for line in text.split("\n")[:-1]]
    names = [unescape(name) if "\\" in name else name for name, _, _ in parts]
    if len(names) != lines:
        raise EmbedxError(f"{file}: {len(names)} lines, but {DESCRIPTION} says {lines}; {REMEDY}")
    if len(set(names)) < len(names):
        raise EmbedxError(f"{file}: some name stands there twice; {REMEDY}")
    if not any(tab for _, tab, _ in parts):
        return names, None
    try:
        counts = np.array([int(count) for _, _, count in parts], np.int64)
    except (ValueError, OverflowError):
        line = next(i for i, (_, _, count) in enumerate(parts, 1) if not re.fullmatch(r"\d{1,18}", count))
        raise EmbedxError(f"{file}:{line}: no count after the name; lines look like `name TAB count`; {REMEDY}") from None
    return names, counts


def escape(name: str) -> str:
    return re.sub(r"[\\\t\n\r]", lambda match: ESCAPES[match[0]], name)


def unescape(name: str) -> str:
    return re.sub(r"\\.", lambda match: UNESCAPES.get(match[0], match[0]), name)


# ---- writing


def check_output(folder: Path, overwrite: bool) -> None:
    """Raise EmbedxError if a model cannot be saved as `folder`; call it before training for hours."""
    try:
        there = present(folder.resolve())
        if there.exists():
            if not overwrite:
                raise EmbedxError(f"{there}: exists already; add --overwrite, or choose another --output")
            if os.path.ismount(there):
                raise EmbedxError(f"{there}: a mount point, which cannot be replaced; name a folder within it as --output")
            if not is_model(there) and not (there.is_dir() and not any(there.iterdir())):
                raise EmbedxError(f"{there}: not a model folder, so it is not overwritten; choose another --output")
        parent = next(each for each in folder.resolve().parents if each.exists())
        trial = parent / beside(folder.resolve(), "partial").name
        trial.mkdir()
        trial.rmdir()
    except (OSError, RuntimeError) as error:  # the latter of links in a circle
        why = getattr(error, "strerror", None) or error
        raise EmbedxError(f"{folder}: {why}, so it cannot be written to; choose another --output") from error


def save(
    folder: Path,
    *,
    task: str,
    names: Mapping[str, tuple[Sequence[str], np.ndarray | None]],
    arrays: Mapping[str, np.ndarray],
    settings: Mapping[str, Any],
    facts: Mapping[str, Any],
    overwrite: bool = False,
) -> Path:
    """Write a model folder and return its path; at any moment the folder is absent, the old model or the new one, whole.

    names     by the stem of their file; beside them counts, int64 (names,), or None
    arrays    by name; rows may be padded views
    settings  those of the run, as JSON types; `facts` likewise: objective, final loss, seconds
    """
    check_content(names, arrays)
    check_output(folder, overwrite)
    folder = folder.resolve()
    partial = beside(folder, "partial")
    description = {
        "format": FORMAT,
        "embedx": installed_version(),
        "task": task,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "names": {stem: len(each) for stem, (each, _) in names.items()},
        "arrays": {name: {"shape": list(array.shape), "dtype": str(array.dtype)} for name, array in arrays.items()},
        "settings": settings,
        "facts": facts,
    }
    lock = None
    try:
        partial.mkdir(parents=True)
        lock = locks.lock(partial)
        text = json.dumps(description, indent=2, ensure_ascii=False, default=plain) + "\n"
        write_bytes(partial / DESCRIPTION, [text.encode()])
        for name, array in arrays.items():
            write_array(partial / f"{name}.npy", array)
        for stem, (each, counts) in names.items():
            write_bytes(partial / f"{stem}.tsv", name_lines(each, counts))
        sync_folder(partial)
        check_output(folder, overwrite)  # which another process may have made meanwhile
        put_in_place(partial, folder)
    except OSError as error:
        raise EmbedxError(f"{folder}: cannot write the model: {error.strerror or error}; choose another --output") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        locks.unlock(lock)
    sweep(folder)
    return folder


def check_content(names: Mapping[str, tuple[Sequence[str], np.ndarray | None]], arrays: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError for what no caller of ours may pass."""
    for name in (*names, *arrays):
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise ValueError(f"{name}: files have lower-case identifiers as names")
    for stem, (each, counts) in names.items():
        if len(set(each)) != len(each):
            raise ValueError(f"{stem}: no name may stand there twice")
        if counts is not None and len(counts) != len(each):
            raise ValueError(f"{stem}: {len(counts)} counts for {len(each)} names")
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ValueError(f"{name}: arrays are plain numbers")


def write_array(file: Path, array: np.ndarray) -> None:
    """Write `array` as C-order npy, a block of rows at a time, which drops any padding between the rows."""
    with file.open("wb") as out:
        header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
        np.lib.format.write_array_header_1_0(out, header)
        for rows in row_blocks(array):
            out.write(np.ascontiguousarray(rows).data)
        sync(out)


def name_lines(names: Sequence[str], counts: np.ndarray | None) -> Iterator[bytes]:
    if counts is None:
        return (f"{escape(name)}\n".encode() for name in names)
    return (f"{escape(name)}\t{count}\n".encode() for name, count in zip(names, counts.tolist(), strict=True))


def write_bytes(file: Path, pieces: Iterator[bytes] | list[bytes]) -> None:
    with file.open("wb") as out:
        out.writelines(pieces)
        sync(out)


def put_in_place(partial: Path, folder: Path) -> None:
    """Rename `partial` to `folder`; a model that is there makes room first and is deleted last."""
    old, replaced = present(folder), beside(folder, "replaced")
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
        sync_folder(folder.parent)
        if replaced.exists():
            discard(replaced, folder)
    finally:
        locks.unlock(lock)


def discard(old: Path, new: Path) -> None:
    """Delete a model that `new` replaces; what else is in its folder moves there, or stays if there is its like."""
    files = files_of(old)
    with contextlib.suppress(OSError):
        for other in {each.name for each in old.iterdir()} - set(files):
            if not os.path.lexists(new / other):
                with contextlib.suppress(OSError):
                    (old / other).rename(new / other)
        for file in files:
            (old / file).unlink(missing_ok=True)
        old.rmdir()


def sweep(folder: Path) -> None:
    """Delete what killed processes left beside `folder`, which has been written since."""
    for left in (*leftovers(folder, "partial"), *leftovers(folder, "replaced")):
        lock = locks.lock(left, wait=False)
        if lock is not None and is_model(left):
            discard(left, folder)
        locks.unlock(lock)


def beside(folder: Path, kind: str) -> Path:
    """A new name beside `folder`, of a kind that `leftovers` finds."""
    return folder.with_name(f"{folder.name}.{kind}-{secrets.token_hex(4)}")


def leftovers(folder: Path, kind: str) -> list[Path]:
    """The folders that `beside` named."""
    name = re.compile(re.escape(folder.name) + rf"\.{kind}-[0-9a-f]{{8}}")
    try:
        return [each for each in folder.parent.iterdir() if name.fullmatch(each.name) and not each.is_symlink()]
    except OSError:
        return []


def present(folder: Path) -> Path:
    """`folder`, or where its model lies if a process was killed between the two renames of an overwrite."""
    if os.path.exists(folder) or not folder.name:
        return folder
    replaced = [*leftovers(folder, "replaced"), folder.with_name(folder.name + ".replaced")]
    return next((each for each in replaced if is_model(each)), folder)


def is_model(folder: Path) -> bool:
    """Whether `save` wrote it, which its description shows: other programs have a model.json of their own."""
    return bool(files_of(folder))


def files_of(folder: Path) -> list[str]:
    """The files that make up the model in `folder`, its description last; none if that is not one of `save`'s."""
    try:
        description = json.loads((folder / DESCRIPTION).read_bytes())
        if not {"format", "task", "arrays", "settings", "facts"} <= description.keys():
            return []
        arrays, stems = dict(description["arrays"]), dict(description.get("names", {"vocabulary": 0}))
    except (OSError, ValueError, AttributeError, TypeError):
        return []
    files = [*(f"{name}.npy" for name in arrays), *(f"{stem}.tsv" for stem in stems)]
    return [*(file for file in files if re.fullmatch(r"[a-z][a-z0-9_]*\.\w+", file)), DESCRIPTION]


def sync(out: Any) -> None:
    """Have the disk hold what was written to the open file `out`, so that a power cut after the rename finds it."""
    out.flush()
    os.fsync(out.fileno())


def sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere folders cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def plain(value: Any) -> Any:
    """What JSON does not know, as what it does: numpy's numbers and arrays, paths."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value)


def installed_version() -> str:
    try:
        return metadata.version("embedx")
    except metadata.PackageNotFoundError:
        return "unknown"
