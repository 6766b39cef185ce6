"""The model folder: what training leaves behind.

    input.npy        float32 (words, dim), the word vectors
    output.npy       float32 (outputs, dim), the rows the input was trained against; further arrays as NAME.npy
    vocabulary.tsv   word TAB count, one word a line, most frequent first; line k describes row k
    model.json       format number, embedx version, task, settings as used, facts of the run, shapes of the arrays

Everything is plain: arrays are memory-mapped when a model is loaded, and nothing is ever unpickled. In vocabulary.tsv a
tab, newline, carriage return or backslash within a word is written as `\\t`, `\\n`, `\\r` or `\\\\`.

A folder is written beside its final place and renamed into it, so whoever looks sees a complete model. Overwriting takes
two renames: NAME to NAME.replaced, then the new folder to NAME. A process killed between the two leaves the old model as
NAME.replaced, where `load` still finds it when it is asked for NAME. A process killed earlier leaves a folder
NAME.partial-… that may be deleted.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from embedx.errors import EmbedxError

FORMAT = 1
DESCRIPTION = "model.json"
VOCABULARY = "vocabulary.tsv"
REMEDY = "restore the folder from a copy, or train again"

BLOCK_FLOATS = 1 << 22  # rows are copied and normed 16 MB at a time, so that a huge table is never doubled in memory

ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
UNESCAPES = {escape: character for character, escape in ESCAPES.items()}


def row_blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Consecutive rows of `array`, a few megabytes at a time; at least one block."""
    width = max(1, array[:1].size)
    step = max(1, BLOCK_FLOATS // width)
    for start in range(0, max(1, len(array)), step):
        yield array[start : start + step]


# ---- reading


def read_description(folder: Path) -> dict[str, Any]:
    """The content of model.json, with what `load` relies on checked."""
    file = folder / DESCRIPTION
    if not file.exists():
        raise EmbedxError(
            f"{folder}: not a model folder (it has no {DESCRIPTION}); give one that `embedx train` wrote, or a vector file"
        )
    try:
        description = json.loads(file.read_bytes())
        version, needed = description["format"], [description[key] for key in ("task", "arrays", "settings", "facts")]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbedxError(f"{file}: damaged ({error}); {REMEDY}") from error
    if version != FORMAT:
        raise EmbedxError(f"{file}: format {version}, while this embedx reads format {FORMAT}; upgrade embedx")
    if description["task"] != "skipgram":
        raise EmbedxError(f"{file}: a model of the task {description['task']!r} has no word vectors; give a skipgram model")
    if not all(isinstance(value, dict) for value in needed[1:]):
        raise EmbedxError(f"{file}: damaged (arrays, settings and facts must be objects); {REMEDY}")
    description["facts"] = {"version": description.get("embedx"), "created": description.get("created"), **description["facts"]}
    return dict(description)


def read_array(file: Path, expected: dict[str, Any]) -> np.ndarray:
    """The array in `file`, memory-mapped read-only, which must have the shape and dtype that model.json states."""
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise EmbedxError(f"{file}: missing; {REMEDY}") from None
    except (OSError, ValueError, EOFError) as error:
        raise EmbedxError(f"{file}: damaged ({error}); {REMEDY}") from error
    if [list(array.shape), str(array.dtype)] != [expected.get("shape"), expected.get("dtype")]:
        raise EmbedxError(
            f"{file}: holds {array.dtype} {array.shape}, but {DESCRIPTION} says "
            f"{expected.get('dtype')} {expected.get('shape')}; {REMEDY}"
        )
    return np.asarray(array)  # the same pages without the memmap class, which slows every small slice


def read_vocabulary(file: Path) -> tuple[list[str], np.ndarray | None]:
    """The words, and their counts as int64 where the file has them."""
    try:
        text = file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise EmbedxError(f"{file}: missing; {REMEDY}") from None
    except (OSError, ValueError) as error:
        raise EmbedxError(f"{file}: damaged ({error}); {REMEDY}") from error
    if text and not text.endswith("\n"):
        raise EmbedxError(f"{file}: cut short within its last line; {REMEDY}")
    parts = [line.partition("\t") for line in text.split("\n")[:-1]]
    words = [unescape(word) if "\\" in word else word for word, _, _ in parts]
    if len(set(words)) < len(words):
        raise EmbedxError(f"{file}: some word stands there twice; {REMEDY}")
    if not any(tab for _, tab, _ in parts):
        return words, None
    try:
        counts = np.array([int(count) for _, _, count in parts], np.int64)
    except (ValueError, OverflowError):
        line = next(i for i, (_, _, count) in enumerate(parts, 1) if not re.fullmatch(r"\d{1,18}", count))
        raise EmbedxError(f"{file}:{line}: no count after the word; lines look like `word TAB count`; {REMEDY}") from None
    return words, counts


def escape(word: str) -> str:
    return re.sub(r"[\\\t\n\r]", lambda match: ESCAPES[match[0]], word)


def unescape(word: str) -> str:
    return re.sub(r"\\.", lambda match: UNESCAPES.get(match[0], match[0]), word)


# ---- writing


def check_output(folder: Path, overwrite: bool) -> None:
    """Raise EmbedxError if a model cannot be saved as `folder`; call it before training for hours."""
    folder = folder.resolve()
    there = present(folder)
    if there.exists():
        if not overwrite:
            raise EmbedxError(f"{there}: exists already; add --overwrite, or choose another --output")
        if not there.is_dir() or (any(there.iterdir()) and not (there / DESCRIPTION).exists()):
            raise EmbedxError(f"{there}: not a model folder, so it is not overwritten; choose another --output")
    parent = next(each for each in folder.parents if each.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise EmbedxError(f"{parent}: cannot be written to; choose another --output")


def write_array(file: Path, array: np.ndarray) -> None:
    """Write `array` as C-order npy, a block of rows at a time, which drops any padding between the rows."""
    with file.open("wb") as out:
        header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
        np.lib.format.write_array_header_1_0(out, header)
        for rows in row_blocks(array):
            out.write(np.ascontiguousarray(rows).data)
        sync(out)


def vocabulary_lines(words: Sequence[str], counts: np.ndarray | None) -> Iterator[bytes]:
    if counts is None:
        return (f"{escape(word)}\n".encode() for word in words)
    return (f"{escape(word)}\t{count}\n".encode() for word, count in zip(words, counts.tolist(), strict=True))


def write_bytes(file: Path, pieces: Iterator[bytes] | list[bytes]) -> None:
    with file.open("wb") as out:
        out.writelines(pieces)
        sync(out)


def put_in_place(partial: Path, folder: Path) -> None:
    """Rename `partial` to `folder`; a model that is there makes room first and is deleted last."""
    replaced = replaced_name(folder)
    if folder.exists():
        shutil.rmtree(replaced, ignore_errors=True)  # left by a process killed while it deleted
        folder.rename(replaced)
    try:
        partial.rename(folder)
    except OSError:
        if replaced.exists():
            replaced.rename(folder)
        raise
    sync_folder(folder.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def replaced_name(folder: Path) -> Path:
    return folder.with_name(folder.name + ".replaced")


def present(folder: Path) -> Path:
    """`folder`, or where its model lies if a process was killed between the two renames of an overwrite."""
    if folder.exists() or not folder.name:
        return folder
    replaced = replaced_name(folder)
    return replaced if (replaced / DESCRIPTION).exists() else folder


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
