"""Binary files of arrays: NumPy's .npy, SciPy's sparse .npz, and IDX, the format of MNIST.

A memory-mapped file that is cut off while it is mapped ends the process with SIGBUS. So arrays are
read into memory; only one that takes more than MAX_SHARE_READ of the memory stays mapped, with a
note. What a small file unpacks to is counted as it grows.
"""

import dataclasses
import functools
import math
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray
from scipy.sparse import csr_matrix

from embedx.errors import DataError, counted
from embedx.labeled.array_checks import damage_reported, features_in, load_sparse
from embedx.labeled.data import FileRows, Labels, joined_rows
from embedx.labeled.files import MAX_SHARE_READ, LabelledFile, LabelledFiles
from embedx.labeled.formats.contract import Format
from embedx.labeled.options import ReadOptions
from embedx.labeled.rows_from_python import features_of_numbers
from embedx.runtime.memory import available_memory
from embedx.runtime.progress import Progress

NUMPY_START = b"\x93NUMPY"
ZIP_START = b"PK\x03\x04"
# http://yann.lecun.com/exdb/mnist/: two zeros, the type of the elements, the number of dimensions.
IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MAX_IDX_DIMENSIONS = 8
IDX_NAME = re.compile(r"idx\d-")


def array_format(
    name: str,
    looks_like: str,
    recognises: Callable[[LabelledFile], bool],
    content: str,
    load: Callable[[LabelledFile], Any],
) -> Format:
    """A format whose files hold one array: features, or the labels of other rows.

    content  what such a file should hold, for messages
    load     the array, an ndarray or a csr_matrix whose indices are in range; may raise anything
             for damaged bytes
    """
    read_array = functools.partial(_read_array, content=content, load=load)
    return Format(
        name=name,
        looks_like=looks_like,
        features="array",
        recognises=lambda file, options: recognises(file),
        read=functools.partial(_read_arrays, read_array=read_array),
        is_binary=True,
        read_array=read_array,
    )


def _read_arrays(
    files: LabelledFiles, options: ReadOptions, read_array: Callable[[LabelledFile], Any]
) -> FileRows:
    """The rows of arrays. Raises `DataError` if they have different numbers of columns."""
    parts: list[FileRows] = []
    for file in files:
        part = _array_rows(file.name, read_array(file), options)
        n_columns = part.features.shape[1]
        if parts and n_columns != parts[0].features.shape[1]:
            of_first = f"{files.first.name} has {parts[0].features.shape[1]}"
            problem = f"{counted(n_columns, 'column')}, but {of_first}"
            raise DataError(file.name, None, problem, "give the same")
        parts.append(part)
    return joined_rows(parts)


def _read_array(file: LabelledFile, content: str, load: Callable[[LabelledFile], Any]) -> Any:
    """The array in a file. Raises `DataError` for one that is damaged."""
    with damage_reported(file.name, content), warnings.catch_warnings():
        # What is wrong is an error.
        warnings.simplefilter("ignore")
        return load(file)


def _array_rows(name: str, array: Any, options: ReadOptions) -> FileRows:
    """The rows of an array: of features or, like a training table without text, of its numbers."""
    columns = options.schema.columns if options.schema else None
    if columns is not None and not columns.text:
        columns = dataclasses.replace(columns, label=None, indicators=[], id=None)
        features = features_of_numbers(array, columns, name)
    else:
        columns = None
        features = features_in(name, array)
    n_rows = features.shape[0]
    no_labels = Labels(np.zeros(n_rows + 1, np.int64), np.empty(0, np.int32))
    return FileRows(features, no_labels, columns=columns)


# ---- .npy


def is_npy(file: LabelledFile) -> bool:
    """Whether the file begins like one of numpy.save."""
    return file.head.startswith(NUMPY_START)


def load_npy(file: LabelledFile) -> ndarray:
    """The array in the file; memory-mapped if it is too large to be read."""
    if file.is_plain:
        return _mapped_or_read(file.name, file.progress)
    with file.open_unpacked() as content:
        array: ndarray = np.load(content, allow_pickle=False)
        return array


def _mapped_or_read(name: str, progress: Progress) -> ndarray:
    mapped: np.memmap = np.load(name, mmap_mode="r", allow_pickle=False)
    if mapped.nbytes <= MAX_SHARE_READ * available_memory():
        return np.array(mapped)
    progress.note(
        f"{name}: {mapped.nbytes / 1e9:.1f} GB are memory-mapped, being more than half of the"
        " available memory; do not change the file during the run"
    )
    return mapped


NPY = array_format(
    ".npy",
    "a dense array of `numpy.save`, with the labels in `--train-labels`",
    is_npy,
    "array of numpy.save",
    load_npy,
)


# ---- .npz


def is_npz(file: LabelledFile) -> bool:
    """Whether the file begins like a zip archive, and is called .npz or its first member is an
    array.
    """
    name_length = int.from_bytes(file.head[26:28], "little")
    has_array = file.head[30 : 30 + name_length].endswith(b".npy")
    return file.head.startswith(ZIP_START) and (has_array or ".npz" in Path(file.name).suffixes)


def load_npz(file: LabelledFile) -> csr_matrix:
    """The matrix in the file."""
    with file.open_unpacked() as content:
        return load_sparse(file.name, content)


NPZ = array_format(
    ".npz",
    "a sparse matrix of `scipy.sparse.save_npz`, with the labels in `--train-labels`",
    is_npz,
    "sparse matrix of scipy.sparse.save_npz",
    load_npz,
)


# ---- IDX


def is_idx(file: LabelledFile) -> bool:
    """Whether the file begins with the type of its elements and the number of its dimensions."""
    head = file.head
    return (
        len(head) > 4
        and head[:2] == b"\0\0"
        and head[2] in IDX_TYPES
        and 0 < head[3] <= MAX_IDX_DIMENSIONS
    )


def check_not_called_idx(file: LabelledFile) -> None:
    """Raise `DataError` for a file that begins unlike an array, but has the name of one of IDX."""
    if file.head and IDX_NAME.search(os.path.basename(file.name)):
        raise DataError(
            file.name,
            None,
            f"no IDX file: it begins with {file.head[:4].hex(' ')}, not 00 00 TYPE DIMENSIONS",
            "fetch it again",
        )


def load_idx(file: LabelledFile) -> ndarray:
    """The array in the file."""
    with file.open_unpacked() as content:
        return _array_of_idx(file.name, content.read())


def _array_of_idx(name: str, content: bytes) -> ndarray:
    start = 4 + 4 * content[3]
    shape = np.frombuffer(content, ">u4", content[3], 4).tolist()
    dtype = np.dtype(IDX_TYPES[content[2]])
    needed = start + math.prod(shape) * dtype.itemsize
    if len(content) != needed:
        raise DataError(
            name,
            None,
            f"{len(content)} bytes, but its IDX header says {needed}",
            "fetch or copy it again",
        )
    return np.frombuffer(content, dtype, offset=start).reshape(shape)


IDX = array_format(
    "IDX",
    "dense arrays of MNIST's format, with the labels in `--train-labels`",
    is_idx,
    "IDX file",
    load_idx,
)
