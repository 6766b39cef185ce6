"""Binary files: NumPy's .npy, SciPy's sparse .npz, and IDX, the format of MNIST.

Compiled code follows the indices of a sparse matrix without a check, and a memory-mapped file that
is cut off while it is mapped ends the process with SIGBUS. So indices are checked when they are
read, and arrays are read into memory; only one that takes more than MAX_SHARE_READ of the memory
stays mapped, with a note. What a small file unpacks to is counted as it grows.
"""

import io
import math
import warnings
import zipfile
from typing import IO, Any

import numpy as np
from numpy import ndarray
from scipy.sparse import csr_matrix, issparse, load_npz

from embedx import checks
from embedx.errors import DataError, EmbedxError
from embedx.labeled.data import Labels
from embedx.labeled.files import MAX_SHARE_READ, MemoryBudget
from embedx.labeled.schema import MAX_IDS
from embedx.runtime.memory import available_memory, check_declared
from embedx.runtime.progress import Progress
from embedx.text.decompression import UnpackedReader
from embedx.text.opening import BLOCK_BYTES, reason
from embedx.text.sources import Source, is_url
from embedx.text.tables import PARQUET_START

NUMPY_START = b"\x93NUMPY"
ZIP_START = b"PK\x03\x04"
# http://yann.lecun.com/exdb/mnist/: two zeros, the type of the elements, the number of dimensions.
IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MAX_IDX_DIMENSIONS = 8
NPZ_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# Memory of a row or column of a sparse matrix, whatever it holds.
BYTES_PER_ROW = 16


def is_binary(head: bytes) -> bool:
    """Whether a file that begins with `head` is one of those read here."""
    return head.startswith((NUMPY_START, ZIP_START)) or _is_idx(head)


def _is_idx(head: bytes) -> bool:
    return (
        len(head) > 4
        and head[:2] == b"\0\0"
        and head[2] in IDX_TYPES
        and 0 < head[3] <= MAX_IDX_DIMENSIONS
    )


def read_array(source: Source, head: bytes, progress: Progress) -> Any:
    """The array in the file, an ndarray or a csr_matrix whose indices are in range.

    An ndarray that is too large to be read is memory-mapped.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is wrong is an error, below
            if head.startswith(NUMPY_START) and is_plain(source):
                return _mapped_or_read(source.name, progress)
            with open(source.name, "rb") if is_plain(source) else content_of(source) as content:
                if head.startswith(ZIP_START):
                    return _sparse(source.name, content)
                if _is_idx(head):
                    return _idx(source.name, content.read())
                return np.load(content, allow_pickle=False)
    except (EmbedxError, MemoryError):
        raise
    except Exception as error:  # damaged bytes make numpy, scipy and zipfile fail in many ways
        raise DataError(
            source.name, None, f"no readable {_kind(head)} ({reason(error)})", "write it again"
        ) from error


def _kind(head: bytes) -> str:
    """What a file that begins with `head` is called in messages."""
    if head.startswith(ZIP_START):
        return "sparse matrix of scipy.sparse.save_npz"
    if _is_idx(head):
        return "IDX file"
    return "array of numpy.save"


def features_in(name: str, array: Any) -> Any:
    """The array as float32 (n_rows, n_features), the same memory if it is that already."""
    if array.ndim < 2 or array.dtype.kind not in "biuf" or 0 in array.shape:
        raise DataError(
            name,
            None,
            f"shape {tuple(map(int, array.shape))} of {array.dtype}",
            "features are numbers in rows and columns, (ROWS, FEATURES)",
        )
    if array.dtype != np.float32 or not (issparse(array) or array.flags.c_contiguous):
        MemoryBudget(name).take(4 * array.size)  # for the copy
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
            (
                "labels are integers (ROWS,), or a sparse matrix (ROWS, LABELS) of "
                "scipy.sparse.save_npz"
            ),
        )
    bad = np.flatnonzero((array < 0) | (array >= MAX_IDS))
    if len(bad):
        raise DataError(
            name, None, f"label {array[bad[0]]} of row {bad[0] + 1}", "number the labels from 0"
        )
    labels = Labels.single(array)
    return labels, int(labels.ids.max(initial=-1)) + 1


def is_plain(source: Source) -> bool:
    """Whether it is a file of NumPy, SciPy or Parquet on disk that is not packed."""
    if is_url(source.name):
        return False
    with open(source.name, "rb") as file:
        return file.read(len(NUMPY_START)).startswith((NUMPY_START, ZIP_START, PARQUET_START))


def _mapped_or_read(name: str, progress: Progress) -> ndarray:
    mapped: np.memmap = np.load(name, mmap_mode="r", allow_pickle=False)
    if mapped.nbytes <= MAX_SHARE_READ * available_memory():
        return np.array(mapped)
    progress.note(
        f"{name}: {mapped.nbytes / 1e9:.1f} GB are memory-mapped, being more than half of the"
        " available memory; do not change the file during the run"
    )
    return mapped


def content_of(source: Source) -> io.BytesIO:
    """All that the file unpacks to."""
    budget = MemoryBudget(source.name)
    content = io.BytesIO()
    with UnpackedReader(source) as file:
        while piece := file.read(BLOCK_BYTES):
            budget.take(2 * len(piece))  # here and in the array
            content.write(piece)
    content.seek(0)
    return content


def _idx(name: str, content: bytes) -> ndarray:
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


def sparse_in(name: str, file: IO[bytes]) -> csr_matrix:
    """The matrix in an .npz file of scipy.sparse.save_npz, whose indices are in range."""
    try:
        return _sparse(name, file)
    except (EmbedxError, MemoryError):
        raise
    except Exception as error:  # damaged bytes make numpy, scipy and zipfile fail in many ways
        raise DataError(
            name,
            None,
            f"no readable matrix of scipy.sparse.save_npz ({reason(error)})",
            "write it again",
        ) from error


def _sparse(name: str, file: IO[bytes]) -> csr_matrix:
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
    if problem := checks.wrong_sparse(matrix):
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

    The sum of the values shows it, because a mapped array may be larger than memory.
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
