"""Binary files: NumPy's .npy, SciPy's sparse .npz, and IDX, the format of MNIST.

Compiled code takes the word of an index array, and a memory-mapped file that is cut off while it is mapped ends the process
with SIGBUS. So index arrays are checked when they are read, and arrays are read into memory; only one that takes more than
MAX_SHARE_READ of the memory stays mapped, which is said.

A header may claim any size, and a small file unpack to any: what is claimed is compared with what is there, or with the
available memory, before memory is allocated.
"""

import io
import math
import os
import warnings
import zipfile
from typing import IO, Any

import numpy as np
from scipy.sparse import csr_matrix, issparse, load_npz

from embedx.errors import EmbedxError
from embedx.labeled.files import MAX_SHARE_READ, MemoryBudget, one_line
from embedx.labeled.schema import MAX_IDS
from embedx.text.sources import Source, is_url
from embedx.text.streams import BLOCK_BYTES, UnpackedReader
from embedx.training.memory import available_memory
from embedx.training.progress import Progress

NUMPY_START, ZIP_START = b"\x93NUMPY", b"PK\x03\x04"
# http://yann.lecun.com/exdb/mnist/: two zeros, the type of the elements, the number of dimensions.
IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MAX_IDX_DIMENSIONS = 8
# Version 3 differs in the names of fields alone, which no array of numbers has.
NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,
}
CHECK_BYTES = 1 << 24


def is_binary(head: bytes) -> bool:
    """Whether a file that begins with `head` is one of those read here."""
    return head.startswith((NUMPY_START, ZIP_START)) or _is_idx(head)


def read_array(source: Source, head: bytes, progress: Progress) -> Any:
    """The array in the file: np.ndarray, mapped if it is too large to be read, or csr_matrix whose indices are in range."""
    if _is_idx(head):
        return _idx(source)
    is_sparse = head.startswith(ZIP_START)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is wrong is an error, below
            return _sparse(source) if is_sparse else _dense(source, progress)
    except EmbedxError:
        raise
    except Exception as error:  # damaged bytes make numpy, scipy and zipfile fail in many ways
        kind = "sparse matrix of scipy.sparse.save_npz" if is_sparse else "array of numpy.save"
        raise EmbedxError(f"{source.name}: no readable {kind} ({one_line(error)}); write it again") from error


def features_in(name: str, array: Any) -> Any:
    """The array as float32 (n_rows, n_features), the same memory if it is that already."""
    if array.ndim < 2 or array.dtype.kind not in "biuf":
        raise EmbedxError(
            f"{name}: {array.ndim} dimensions of {array.dtype}; features are numbers in rows and columns, (ROWS, FEATURES)"
        )
    if not array.shape[0]:
        raise EmbedxError(f"{name}: no rows; is it the right file?")
    if not issparse(array) and not array.size:
        raise EmbedxError(f"{name}: {array.shape[0]} rows of no features; is it the right file?")
    if array.dtype != np.float32 or not (issparse(array) or array.flags.c_contiguous):
        MemoryBudget(name).take(4 * array.size)  # for the copy
    with np.errstate(over="ignore"):
        if issparse(array):
            features = csr_matrix(array, dtype=np.float32)
            values = features.data
        else:
            features = values = np.ascontiguousarray(array.reshape(len(array), math.prod(array.shape[1:])), np.float32)
    check_finite(name, values)
    return features


def label_ids_in(name: str, array: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """(offsets, ids, n_labels) of integers (n_rows,) or of a sparse indicator matrix (n_rows, n_labels)."""
    if issparse(array):
        if array.dtype.kind not in "biuf":
            raise EmbedxError(f"{name}: a matrix of {array.dtype}; labels are marked by numbers other than 0")
        check_finite(name, array.data)
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


def _dense(source: Source, progress: Progress) -> np.ndarray:
    if _is_far(source):
        with io.BufferedReader(UnpackedReader(source), BLOCK_BYTES) as file:
            shape, is_fortran, dtype = _npy_header(file)
            values = _filled(source.name, file, math.prod(shape), dtype)
            if len(values) < math.prod(shape):
                raise ValueError(f"it ends after {len(values)} of {math.prod(shape)} values")
            if file.read(1):
                raise ValueError("there are bytes after its last value")
            return values.reshape(shape, order="F" if is_fortran else "C")
    # Only a file on disk, not packed, can be mapped; this looks at its header and its size.
    mapped: np.memmap = np.load(source.name, mmap_mode="r", allow_pickle=False)
    if mapped.offset + mapped.nbytes < os.path.getsize(source.name):
        raise ValueError("there are bytes after its last value")
    if mapped.nbytes <= MAX_SHARE_READ * available_memory():
        return np.asarray(np.load(source.name, allow_pickle=False))
    progress.note(
        f"{source.name}: {mapped.nbytes / 1e9:.1f} GB stay on disk, for they are more than half of the memory there is; "
        "leave the file as it is until the end"
    )
    return mapped


def _sparse(source: Source) -> csr_matrix:
    # Not by its name: numpy leaves a damaged file open.
    with io.BytesIO(_content(source)) if _is_far(source) else open(source.name, "rb") as file:
        _check_sizes(source.name, file)
        matrix = load_npz(file)
    if matrix.ndim != 2:
        raise ValueError(f"{matrix.ndim} dimensions")
    n_rows, n_columns = matrix.shape
    if n_columns > MAX_IDS:
        raise EmbedxError(f"{source.name}: {n_columns} columns, more than the {MAX_IDS} there can be; correct its shape")
    if matrix.format != "csr" and 8 * n_rows > MAX_SHARE_READ * available_memory():  # what csr needs whatever the values
        raise EmbedxError(f"{source.name}: {n_rows} rows do not fit into memory; correct its shape")
    _check_indices(source.name, matrix)
    return csr_matrix(matrix)


def _check_indices(name: str, matrix: Any) -> None:
    """`EmbedxError` unless the index arrays stay within the matrix; scipy's own check passes some that do not."""
    if matrix.format not in ("csr", "csc", "bsr"):
        return  # scipy checks coo, and diagonals need no check
    lines, length = ("columns", matrix.shape[0]) if matrix.format == "csc" else ("rows", matrix.shape[1])
    if matrix.format == "bsr":
        lines, sizes = "blocks of rows", matrix.blocksize
        if any(n % size for n, size in zip(matrix.shape, sizes, strict=True)):
            raise EmbedxError(f"{name}: blocks of {sizes} do not divide the shape {matrix.shape}; write it again")
        length //= sizes[1]
    falls = np.flatnonzero(matrix.indptr[1:] < matrix.indptr[:-1])  # not by np.diff, which may overflow
    if len(falls):
        raise EmbedxError(f"{name}: indptr falls after {falls[0] + 1} {lines}, where it may only rise; write it again")
    out = np.flatnonzero((matrix.indices < 0) | (matrix.indices >= length))
    if len(out):
        raise EmbedxError(
            f"{name}: index {matrix.indices[out[0]]} of value {out[0] + 1} is not from 0 to {length - 1}, as its shape "
            f"{tuple(map(int, matrix.shape))} demands; correct the shape or write it again"
        )


def _is_far(source: Source) -> bool:
    if is_url(source.name):
        return True
    with open(source.name, "rb") as file:
        return not file.read(len(NUMPY_START)).startswith((NUMPY_START, ZIP_START))


def _is_idx(head: bytes) -> bool:
    return len(head) > 4 and head[:2] == b"\0\0" and head[2] in IDX_TYPES and 0 < head[3] <= MAX_IDX_DIMENSIONS


def _idx(source: Source) -> np.ndarray:
    with io.BufferedReader(UnpackedReader(source), BLOCK_BYTES) as file:
        _, _, code, n_dimensions = file.read(4)
        dtype = np.dtype(IDX_TYPES[code])
        sizes = file.read(4 * n_dimensions)
        shape = np.frombuffer(sizes, ">u4").tolist() if len(sizes) == 4 * n_dimensions else [0]
        values = _filled(source.name, file, math.prod(shape), dtype)
        n_bytes = 4 + len(sizes) + values.nbytes + len(file.read(1))
    needed = 4 + 4 * n_dimensions + math.prod(shape) * dtype.itemsize
    if n_bytes != needed:
        is_more = " or more" * (n_bytes > needed)
        raise EmbedxError(f"{source.name}: {n_bytes} bytes{is_more}, but its IDX header says {needed}; fetch or copy it again")
    return values.reshape(shape)


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """(shape, whether columns come first, dtype) of the array whose values come next in the file; ValueError if it has none."""
    version = np.lib.format.read_magic(file)
    if version not in NPY_HEADERS:
        raise ValueError(f"version {version} of the format")
    shape, is_fortran, dtype = NPY_HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError("Object arrays hold code, which is not run")
    return shape, is_fortran, dtype


def _filled(name: str, file: io.BufferedIOBase, n_values: int, dtype: np.dtype) -> np.ndarray:
    """The next values of the file, as many as there are; `EmbedxError` unless there is memory for all."""
    n_bytes = n_values * dtype.itemsize
    MemoryBudget(name).take(n_bytes)
    content = bytearray()  # grows without being copied, by what is there
    while len(content) < n_bytes and (piece := file.read(min(BLOCK_BYTES, n_bytes - len(content)))):
        content += piece
    return np.frombuffer(content, dtype, len(content) // dtype.itemsize if dtype.itemsize else 0)


def _content(source: Source) -> bytes:
    """All that an archive holds that cannot be read where it lies."""
    budget = MemoryBudget(source.name)
    pieces = []
    with UnpackedReader(source) as file:
        while piece := file.read(BLOCK_BYTES):
            budget.take(2 * len(piece))  # there and in what is returned
            pieces.append(piece)
    return b"".join(pieces)


def _check_sizes(name: str, file: IO[bytes]) -> None:
    """`EmbedxError` unless there is memory for the arrays of a .npz, ValueError unless they are as large as they say."""
    budget = MemoryBudget(name)
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            budget.take(member.file_size)
            with archive.open(member) as stream:
                shape, _, dtype = _npy_header(stream)
                claimed = stream.tell() + math.prod(shape) * dtype.itemsize
            if claimed != member.file_size:
                raise ValueError(f"{member.filename} holds {member.file_size} bytes, but its header says {claimed}")
    file.seek(0)


def check_finite(name: str, values: np.ndarray) -> None:
    """`EmbedxError` if some value is not finite; some rows at a time, because a mapped array may be larger than memory."""
    width = values[:1].size or 1
    step = max(CHECK_BYTES // (4 * width), 1)
    for first in range(0, len(values), step):
        finite = np.isfinite(values[first : first + step])
        if not finite.all():
            place = np.argwhere(~finite)[0]
            where = f"row {first + place[0] + 1}, feature {place[1]}" if values.ndim > 1 else f"value {first + place[0] + 1}"
            raise EmbedxError(f"{name}: {where} is not a finite float32; mend or scale it")
