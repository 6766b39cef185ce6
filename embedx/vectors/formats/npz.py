"""NumPy's .npz: arrays `words` (text), `vectors` and, where they are known, `counts` (int64); beside int8 `scale` (float32).

    data = numpy.load("vectors.npz"); data["vectors"][data["words"] == "city"] * data["scale"][...]

`words` is an array of fixed width, four bytes for each character of the longest, packed; so numpy.load gives it without pickle.
"""

import contextlib
import math
import struct
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from embedx.errors import EmbedxError
from embedx.run.memory import available_memory
from embedx.run.progress import Progress
from embedx.vectors.formats import contract
from embedx.vectors.formats.contract import (
    DTYPES,
    LITTLE,
    Format,
    Found,
    Opened,
    Table,
    check_finite,
    check_words,
    new_vectors,
    read_rows,
    shown,
)

MOST_WORD_BYTES = 1 << 31  # of the array of words, in the memory of whoever loads it
MOST_GAIN = 1040  # bytes that one of a deflated member can become, and a little more
AGAIN = "write the file again"
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class Npz(Format):
    name = "npz"
    meaning = "NumPy: arrays `words`, `vectors` and `counts`, for int8 also `scale`"
    programs = "numpy.load"
    suffixes = (".npz",)
    dtypes = DTYPES

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        """A zip archive whose first member is an array."""
        if not head.startswith(b"PK\x03\x04") or len(head) < 30:
            return False
        return head[30 : 30 + struct.unpack("<H", head[26:28])[0]].endswith(b".npy")

    @classmethod
    def read(cls, file: Opened, progress: Progress) -> Found:
        path = file.path("an .npz file")
        try:
            with warnings.catch_warnings(), zipfile.ZipFile(path) as archive:
                warnings.simplefilter("ignore")  # what is wrong is an error, below
                return _read(Arrays(file.name, archive, path.stat().st_size))
        except EmbedxError:
            raise
        except Exception as error:  # damaged bytes make numpy and zipfile fail in many ways
            why = " ".join(str(error).split()) or type(error).__name__
            raise EmbedxError(f"{file.name}: no readable .npz of word vectors ({why}); {AGAIN}") from error

    @classmethod
    def write(cls, place: Path, table: Table) -> None:
        width = max(map(len, table.words), default=1) or 1
        if bad := next((word for word in table.words if word.endswith("\0")), None):
            raise EmbedxError(f"the word {shown(bad)} ends with a zero byte, which .npz does not keep; write another format")
        if 4 * width * len(table.words) > MOST_WORD_BYTES:
            raise EmbedxError(
                f"{len(table.words):,} words, the longest of {width:,} characters, would take "
                f"{4e-9 * width * len(table.words):.1f} GB in an .npz; write safetensors, or fewer words by --top"
            )
        shape = table.rows.shape
        with zipfile.ZipFile(place, "w") as archive:
            _write(archive, "words", np.dtype(f"<U{width}"), shape[:1], _texts(table, width), zipfile.ZIP_DEFLATED)
            _write(archive, "vectors", LITTLE[table.dtype], shape, table.stored())
            if table.counts is not None:
                _write(archive, "counts", np.dtype("<i8"), shape[:1], [table.counts])
            if table.dtype == "int8":
                _write(archive, "scale", np.dtype("<f4"), shape[:1], [table.scales()])


def _texts(table: Table, width: int) -> Iterator[np.ndarray]:
    step = max(1, contract.BLOCK_BYTES // (4 * width))
    for start in range(0, len(table.words), step):
        yield np.array(table.words[start : start + step], f"<U{width}")


def _write(
    archive: zipfile.ZipFile,
    name: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    blocks: Any,
    how: int = zipfile.ZIP_STORED,
) -> None:
    """Add an array to the archive, by its blocks."""
    member = zipfile.ZipInfo(f"{name}.npy")
    member.compress_type = how
    with archive.open(member, "w", force_zip64=True) as out:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        for block in blocks:
            out.write(np.ascontiguousarray(block, dtype).tobytes())


# ---- reading


class Member(NamedTuple):
    """An array of the archive: what its header says, and its bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    file: IO[bytes]

    def numbers(self, n: int) -> np.ndarray:
        """(n,): the next ones. Raises ValueError where there are fewer."""
        data = self.file.read(n * self.dtype.itemsize)
        if len(data) < n * self.dtype.itemsize:
            raise ValueError("an array ends too early")
        return np.frombuffer(data, self.dtype)


class Arrays:
    """The arrays of an archive. Raises ValueError for what cannot be, and EmbedxError where it can be said better."""

    def __init__(self, name: str, archive: zipfile.ZipFile, size: int) -> None:
        self.name, self.archive, self.size = name, archive, size
        self.members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[Member]:
        """An array, at its first number."""
        member = self.members[name]
        if member.compress_size > self.size or member.file_size > MOST_GAIN * (member.compress_size + 1):
            raise ValueError(f"{name}.npy claims more than there is")
        with self.archive.open(member) as file:
            version = np.lib.format.read_magic(file)
            if version not in HEADERS:
                raise ValueError(f"{name}.npy has the version {version}")
            shape, is_fortran, dtype = HEADERS[version](file)
            n_bytes = math.prod(shape) * dtype.itemsize
            if dtype.hasobject or min(shape, default=0) < 0 or n_bytes + file.tell() != member.file_size:
                raise ValueError(f"{name}.npy is not as large as it says")
            if is_fortran and len(shape) > 1:
                raise ValueError(f"{name}.npy is stored by columns; write it by rows, as numpy.ascontiguousarray has it")
            if n_bytes > available_memory():
                raise EmbedxError(f"{self.name}: {name}.npy takes {n_bytes / 1e9:,.1f} GB, more memory than there is")
            yield Member(shape, dtype, file)

    def words(self) -> list[str]:
        with self.opened("words") as member:
            if member.dtype.kind != "U" or len(member.shape) != 1 or not member.dtype.itemsize:
                raise EmbedxError(f"{self.name}: `words` is {member.dtype} {member.shape}, and not text (words,); {AGAIN}")
            words: list[str] = []
            step = max(1, contract.BLOCK_BYTES // member.dtype.itemsize)
            for start in range(0, member.shape[0], step):
                words += member.numbers(min(step, member.shape[0] - start)).tolist()
        check_words(self.name, words)
        return words

    def each(self, name: str, kinds: str, n: int) -> np.ndarray | None:
        """(n,): one number for each word; None where there is no such array."""
        if name not in self.members:
            return None
        with self.opened(name) as member:
            if member.shape != (n,) or member.dtype.kind not in kinds:
                raise EmbedxError(f"{self.name}: `{name}` is {member.dtype} {member.shape}, where ({n:,},) should be; {AGAIN}")
            return member.numbers(n)

    def vectors(self, n: int, scale: np.ndarray | None) -> np.ndarray:
        """float32 (n, dim)."""
        with self.opened("vectors") as (shape, dtype, file):
            if len(shape) != 2 or shape[0] != n or dtype.kind != ("f" if scale is None else "i"):
                raise EmbedxError(
                    f"{self.name}: `vectors` is {dtype} {shape}, where ({n:,}, dim) should be, of floats, or of int8 beside "
                    f"`scale`; {AGAIN}"
                )
            vectors = new_vectors(self.name, *shape)
            read_rows(file, dtype, scale, vectors)
        return vectors


def _read(arrays: Arrays) -> Found:
    if missing := [each for each in ("words", "vectors") if each not in arrays.members]:
        raise EmbedxError(
            f"{arrays.name}: holds no array `{missing[0]}`, but {shown(', '.join(arrays.members))}; embedx reads .npz files "
            "with arrays `words` and `vectors`"
        )
    words = arrays.words()
    counts = arrays.each("counts", "iu", len(words))
    vectors = arrays.vectors(len(words), arrays.each("scale", "f", len(words)))
    check_finite(arrays.name, words, vectors, AGAIN)
    return Found(words, vectors, None if counts is None else counts.astype(np.int64))
