"""Arrays as features and labels, and the checks that keep compiled code within them.

Compiled code follows the indices of a sparse matrix without a check, so they are checked when they
are read.
"""

import contextlib
import math
import zipfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy import ndarray
from scipy.sparse import csr_matrix, issparse, load_npz

from embedx import checks
from embedx.errors import DataError, EmbedxError
from embedx.labeled.data import Labels
from embedx.labeled.files import MemoryBudget
from embedx.labeled.ids import MAX_IDS
from embedx.runtime.memory import check_declared
from embedx.text.opening import reason

NPZ_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# Memory of a row or column of a sparse matrix, whatever it holds.
BYTES_PER_ROW = 16


def features_in(name: str, array: Any) -> Any:
    """The array as float32 (n_rows, n_features), the same memory if it is that already."""
    if array.ndim < 2 or array.dtype.kind not in "biuf" or 0 in array.shape:
        raise DataError(
            name,
            None,
            f"shape {tuple(map(int, array.shape))} of {array.dtype}",
            "give numbers in rows and columns, (ROWS, FEATURES)",
        )
    if array.dtype != np.float32 or not (issparse(array) or array.flags.c_contiguous):
        n_bytes_of_copy = 4 * array.size
        MemoryBudget(name).take(n_bytes_of_copy)
    with np.errstate(over="ignore"):
        if issparse(array):
            features = csr_matrix(array, dtype=np.float32)
        else:
            features = np.ascontiguousarray(
                array.reshape(len(array), math.prod(array.shape[1:])), np.float32
            )
    check_finite(name, features.data if issparse(array) else features)
    return features


def labels_in(name: str, array: Any) -> tuple[Labels, int]:
    """The labels of each row, and how many different ones may occur.

    array  integers (n_rows,) or a sparse indicator matrix (n_rows, n_labels)
    """
    if issparse(array) and array.dtype.kind in "biuf":
        check_finite(name, array.data)
        return Labels.of_matrix(array), int(array.shape[1])
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(
            name,
            None,
            f"{array.ndim} dimensions of {array.dtype}",
            "give integers (ROWS,), or a sparse matrix (ROWS, LABELS) of scipy.sparse.save_npz",
        )
    bad = np.flatnonzero((array < 0) | (array >= MAX_IDS))
    if len(bad):
        raise DataError(
            name, None, f"label {array[bad[0]]} of row {bad[0] + 1}", "number the labels from 0"
        )
    labels = Labels.single(array)
    return labels, int(labels.ids.max(initial=-1)) + 1


@contextlib.contextmanager
def damage_reported(name: str, content: str) -> Iterator[None]:
    """Raise `DataError` for whatever NumPy, SciPy and zipfile raise where bytes are damaged.

    content  what the file should hold
    """
    try:
        yield
    except (EmbedxError, MemoryError):
        raise
    except Exception as error:
        problem = f"no readable {content} ({reason(error)})"
        raise DataError(name, None, problem, "write it again") from error


def load_sparse(name: str, file: IO[bytes]) -> csr_matrix:
    """The matrix in an .npz file of scipy.sparse.save_npz, whose indices are in range. Damaged
    bytes raise whatever NumPy, SciPy and zipfile raise for them: see `damage_reported`.
    """
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
    MemoryBudget(name).take(sum(member.file_size for member in members))
    if any(member.compress_type not in NPZ_METHODS for member in members):
        raise ValueError("packed by bzip2 or LZMA, which NumPy does not write")
    file.seek(0)
    matrix = load_npz(file)
    if matrix.ndim != 2 or matrix.format not in ("csr", "csc", "coo"):
        raise ValueError(f"{matrix.ndim} dimensions as {matrix.format}, not 2 as csr, csc or coo")
    if max(matrix.shape) > MAX_IDS:
        raise ValueError(f"shape {matrix.shape}, of which no number may be above {MAX_IDS}")
    problem = checks.wrong_sparse(matrix)
    if problem:
        raise ValueError(problem)
    remedy = "rows and columns are numbered from 0, so check the largest"
    check_declared(
        name,
        BYTES_PER_ROW * sum(matrix.shape),
        f"{matrix.shape[0]:,} rows and {matrix.shape[1]:,} columns",
        remedy,
    )
    return csr_matrix(matrix)


def check_finite(name: str, values: ndarray) -> None:
    """Raise `EmbedxError` if some value is not finite.

    The sum of the values tells; a mask of them would not fit into memory if the array is mapped.
    """
    with np.errstate(invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return
    for place in np.argwhere(~np.isfinite(values))[:1]:
        if values.ndim > 1:
            where = f"row {place[0] + 1}, feature {place[1]}"
        else:
            where = f"value {place[0] + 1}"
        raise DataError(name, None, f"{where} is not a finite float32", "correct or rescale it")
