"""Binary files: NumPy's .npy, SciPy's sparse .npz, and IDX, the format of MNIST."""

import io
import math
import zipfile
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse, load_npz

from embedx.errors import EmbedxError
from embedx.labeled.files import content_of, one_line
from embedx.text.sources import Source, is_url

NUMPY_START, ZIP_START = b"\x93NUMPY", b"PK\x03\x04"
# http://yann.lecun.com/exdb/mnist/: two zeros, the type of the elements, the number of dimensions.
IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MOST_IDX_DIMENSIONS = 8
CHECK_BYTES = 1 << 24


def is_binary(head: bytes) -> bool:
    """Whether a file that begins with `head` is one of those read here."""
    return head.startswith((NUMPY_START, ZIP_START)) or _is_idx(head)


def read_array(source: Source, head: bytes) -> Any:
    """The array in the file: np.ndarray, mapped where that is possible, or csr_matrix."""
    if _is_idx(head):
        return _idx(source.name, content_of(source))
    try:
        if head.startswith(ZIP_START):
            return csr_matrix(load_npz(_file(source)))
        # Only a file on disk, not packed, can be mapped.
        return np.load(_file(source), mmap_mode=None if _is_far(source) else "r", allow_pickle=False)
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        kind = "sparse matrix of scipy.sparse.save_npz" if head.startswith(ZIP_START) else "array of numpy.save"
        raise EmbedxError(f"{source.name}: no readable {kind} ({one_line(error)}); write it again") from error


def features_in(name: str, array: Any) -> Any:
    """The array as float32 (n_rows, n_features), the same memory if it is that already."""
    if array.ndim < 2 or array.dtype.kind not in "biuf":
        raise EmbedxError(
            f"{name}: {array.ndim} dimensions of {array.dtype}; features are numbers in rows and columns, (ROWS, FEATURES)"
        )
    if not array.shape[0]:
        raise EmbedxError(f"{name}: no rows; is it the right file?")
    with np.errstate(over="ignore"):
        if issparse(array):
            features = csr_matrix(array, dtype=np.float32)
            values = features.data
        else:
            features = values = np.ascontiguousarray(array.reshape(len(array), -1), np.float32)
    _check_finite(name, values)
    return features


def label_ids_in(name: str, array: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """(offsets, ids, n_labels) of integers (n_rows,) or of a sparse indicator matrix (n_rows, n_labels)."""
    if issparse(array):
        matrix = csr_matrix(array)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), int(matrix.shape[1])
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise EmbedxError(
            f"{name}: {array.ndim} dimensions of {array.dtype}; labels are integers (ROWS,), "
            "or a sparse matrix (ROWS, LABELS) of scipy.sparse.save_npz"
        )
    bad = np.flatnonzero((array < 0) | (array >= 2**31 - 1))
    if len(bad):
        raise EmbedxError(f"{name}: label {array[bad[0]]} of row {bad[0] + 1}; number the labels from 0")
    ids = np.array(array, np.int32)
    return np.arange(len(ids) + 1, dtype=np.int64), ids, int(ids.max(initial=-1)) + 1


def _file(source: Source) -> Any:
    return io.BytesIO(content_of(source)) if _is_far(source) else source.name


def _is_far(source: Source) -> bool:
    if is_url(source.name):
        return True
    with open(source.name, "rb") as file:
        return not file.read(len(NUMPY_START)).startswith((NUMPY_START, ZIP_START))


def _is_idx(head: bytes) -> bool:
    return len(head) > 4 and head[:2] == b"\0\0" and head[2] in IDX_TYPES and 0 < head[3] <= MOST_IDX_DIMENSIONS


def _idx(name: str, content: bytes) -> np.ndarray:
    start = 4 + 4 * content[3]
    dtype = np.dtype(IDX_TYPES[content[2]])
    shape = np.frombuffer(content[4:start], ">u4").tolist() if len(content) >= start else [0]
    needed = start + math.prod(shape) * dtype.itemsize
    if len(content) < start or len(content) != needed:
        raise EmbedxError(f"{name}: {len(content)} bytes, but its IDX header says {needed}; fetch or copy it again")
    return np.frombuffer(content, dtype, offset=start).reshape(shape)


def _check_finite(name: str, values: np.ndarray) -> None:
    """Some rows at a time, because a mapped array may be larger than memory."""
    width = values[:1].size or 1
    step = max(CHECK_BYTES // (4 * width), 1)
    for first in range(0, len(values), step):
        finite = np.isfinite(values[first : first + step])
        if not finite.all():
            place = np.argwhere(~finite)[0]
            where = f"row {first + place[0] + 1}, feature {place[1]}" if values.ndim > 1 else f"value {first + place[0] + 1}"
            raise EmbedxError(f"{name}: {where} is not a finite float32; mend or scale it")
