"""The files of a model folder beside its description: arrays (.npy), names with counts (.tsv)."""

import contextlib
import io
import re
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from embedx.errors import DataError, EmbedxError, Text, counted
from embedx.pages.plain import ESCAPES, escape
from embedx.settings import Record
from embedx.storage.schema import row_blocks

# The description of a folder, which states what its files hold; description.py.
DESCRIPTION = "model.json"
REMEDY = "restore the folder from a copy, or train again"
# Maximum sum of the counts of all names, so that sums stay within int64.
MAX_SUM_OF_COUNTS = 2**62
MAX_LETTERS_IN_MESSAGE = 200
ESCAPE = re.compile(r"\\.")
UNESCAPES = {escape: character for character, escape in ESCAPES.items()}

_reading_header = threading.Lock()


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


def damaged(file: Path, complaint: Text) -> DataError:
    """The error for a damaged file."""
    return DataError(file, None, complaint, REMEDY)


def _reason(error: Exception) -> str:
    """The message of an error, in one line."""
    text = str(getattr(error, "strerror", None) or error)
    if isinstance(error, KeyError):
        text = f"no {error}"
    return shortened(" ".join(text.split()) or type(error).__name__)


def shortened(value: Any) -> str:
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
        raise damaged(file, f"{counted(len(names), 'line')}, but {DESCRIPTION} says {lines}")
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
