"""The contract of a format of word vectors: how files are recognised, read and written.

A format is a file of this folder with a class derived from `Format`, and a line in the registry, `__init__.py`. A file is
recognised by its content; its name only chooses the format that is written. Vectors are written a block of rows at a time, and
the size that a file claims is compared with the file, or with the available memory, before memory is allocated.

Numbers other than float32:

    float16    rounded to the nearest
    int8       q = round(v / scale), to be multiplied by the row's scale, its largest absolute value / 127
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np
import smart_open
from smart_open import compression

from embedx.errors import EmbedxError
from embedx.storage.schema import first_not_finite, row_blocks
from embedx.text.sources import is_url
from embedx.training.memory import available_memory
from embedx.training.progress import Progress, Silent
from embedx.vectors.subwords import Subwords

BLOCK_BYTES = 1 << 22
HEAD_BYTES = 1 << 20  # enough for a header and the first vector, even of 50,000 dimensions
MAX_LINE_BYTES = 1 << 25
MAX_SHOWN = 40  # characters of a word or number that a message repeats
MAX_FLOAT16 = 65504.0
STEPS = 127  # of int8 to either side of zero, as in model2vec: -128 is not used
WHITE_SPACE = re.compile(r"[ \t\n\v\f\r]")  # of ASCII: readers of lines end words at no other
DTYPES: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "float16": np.dtype("<f2"), "int8": np.dtype("i1")}


class Found(NamedTuple):
    """The content of a file."""

    words: list[str]
    vectors: np.ndarray  # float32 (words, dim)
    counts: np.ndarray | None = None  # int64 (words,)
    own: np.ndarray | None = None  # float32 (words, dim): the words' own rows, where vectors are means with rows of n-grams
    subwords: Subwords | None = None  # the rows of n-grams


class Opened(NamedTuple):
    """A file that is being read."""

    name: str
    head: bytes  # HEAD_BYTES of it, or all, unpacked
    stream: BinaryIO  # all of it, from the beginning, once
    trusted: bool = False  # whether a pickle may be loaded

    def path(self, kind: str) -> Path:
        """The file, for random access. Raises EmbedxError if it is remote, compressed or a pipe."""
        if is_url(self.name) or not os.path.isfile(self.name):
            raise EmbedxError(f"{self.name}: {kind} needs random access; copy it to a file")
        with open(self.name, "rb") as raw:
            if raw.read(16) != self.head[:16]:
                raise EmbedxError(f"{self.name}: {kind} needs random access; unpack it first")
        return Path(self.name)


class Rows:
    """The vectors to write, float32 (words, dim): the first n rows of a table, or of the sum of two, computed by slice."""

    def __init__(self, n: int, *tables: np.ndarray) -> None:
        self.tables = tables
        self.shape = (n, int(tables[0].shape[1]))
        self.dtype = np.dtype(np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        first, *others = (table[: self.shape[0]][rows] for table in self.tables)
        return sum(others, start=first)


@dataclass(frozen=True)
class Table:
    """The words and vectors to write."""

    words: Sequence[str]
    rows: Rows
    counts: np.ndarray | None = None  # int64 (words,)
    own: np.ndarray | None = None  # float32 (words, dim), and the rows of n-grams, as in `Found`
    subwords: Subwords | None = None
    outputs: np.ndarray | None = None  # float32 (words, dim): the output vectors of the words
    dtype: str = "float32"
    settings: dict[str, Any] = field(default_factory=dict)  # of the run, and its facts
    facts: dict[str, Any] = field(default_factory=dict)
    license: str = "unknown"
    progress: Progress = field(default_factory=Silent)

    def blocks(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Rows, their vectors in the type to write, and their scales, float32 (rows,), 1 unless int8; megabytes at a time.

        Raises EmbedxError for numbers that float16 cannot hold.
        """
        self.progress.start("Writing vectors", len(self.words), "words")
        done = 0
        for block in row_blocks(self.rows):  # type: ignore[arg-type]
            rows = slice(done, done + len(block))
            yield rows, *self._stored(self.words[rows], block)
            done += len(block)
            self.progress.update(done)
        self.progress.finish()

    def _stored(self, words: Sequence[str], block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        largest = np.abs(block).max(axis=1, initial=0.0)
        if self.dtype == "int8":
            scale = np.asarray(largest / np.float32(STEPS), np.float32)
            with np.errstate(over="ignore"):
                steps = np.divide(block, scale[:, None], out=np.zeros_like(block), where=scale[:, None] > 0)
            return np.rint(np.clip(steps, -STEPS, STEPS)).astype(np.int8), scale
        if self.dtype == "float16" and (largest > MAX_FLOAT16).any():
            word = shown(words[int(np.argmax(largest > MAX_FLOAT16))])
            raise EmbedxError(f"--dtype float16: the vector of {word} has numbers above {MAX_FLOAT16:,g}; write float32")
        return block.astype(DTYPES[self.dtype]), np.ones(len(block), np.float32)

    def arrays(self) -> dict[str, np.ndarray]:
        """`vectors` (words, dim) in the type to write, with int8 their `scale`, and `counts` where they are known."""
        vectors, scale = np.empty(self.rows.shape, DTYPES[self.dtype]), np.empty(len(self.rows), np.float32)
        for rows, block, scales in self.blocks():
            vectors[rows], scale[rows] = block, scales
        arrays = {"vectors": vectors} | ({"scale": scale} if self.dtype == "int8" else {})
        return arrays if self.counts is None else arrays | {"counts": np.ascontiguousarray(self.counts)}


class Format:
    """A format, as a class that is never instantiated."""

    name: ClassVar[str]  # of --format
    meaning: ClassVar[str]  # the content of a file
    programs: ClassVar[str]  # that read or write it
    suffixes: ClassVar[tuple[str, ...]] = ()  # of names for which it is the default
    dtypes: ClassVar[tuple[str, ...]] = ("float32",)
    extra: ClassVar[str] = ""  # that it needs, of pyproject.toml
    has_mark: ClassVar[bool] = True  # whether a file's beginning identifies it
    is_folder: ClassVar[bool] = False
    is_packed: ClassVar[bool] = False  # whether it is compressed where the name says so
    keeps_license: ClassVar[bool] = False
    ends_words: ClassVar[bool] = False  # at white space, which is written as `_`
    has_ngrams: ClassVar[bool] = False  # whether it holds the vectors of n-grams too

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        """Whether a file that begins so is of this format."""
        return False

    @classmethod
    def recognises_folder(cls, folder: Path) -> bool:
        """Whether the folder is one of this format."""
        return False

    @classmethod
    def count(cls, name: str, head: bytes) -> int | None:
        """How many words a file that begins so has, for the progress; None if its beginning does not say."""
        return None

    @classmethod
    def read(cls, file: Opened, progress: Progress) -> Found:
        """The whole file. Raises EmbedxError with file, place and remedy."""
        raise NotImplementedError

    @classmethod
    def read_folder(cls, folder: Path, progress: Progress) -> Found:
        """The same for a folder."""
        raise NotImplementedError

    @classmethod
    def pieces(cls, table: Table) -> Iterator[bytes]:
        """The bytes of the file, one piece after the other."""
        raise NotImplementedError

    @classmethod
    def write(cls, place: Path, table: Table) -> None:
        """Write the file, compressed if its suffix says so, or the folder; further files beside it begin with its name. Nobody
        opens `place` before it is complete.
        """
        is_packed = cls.is_packed and place.suffix in compression.get_supported_extensions()
        with smart_open.open(str(place), "wb", compression=place.suffix if is_packed else "disable") as stream:
            stream.writelines(cls.pieces(table))

    @classmethod
    def is_own_folder(cls, folder: Path) -> bool:
        """Whether this format wrote everything in the folder, so that it may be replaced."""
        return False


def shown(text: object) -> str:
    """A word or a number in a message, which may be of any length where a file is not what it seems."""
    written = repr(text)
    return written if len(written) <= MAX_SHOWN + 2 else f"{written[: MAX_SHOWN + 1]}…{written[-1]}"


def new_vectors(where: str, count: int, dim: int, remedy: str) -> np.ndarray:
    """float32 (count, dim), not filled. Raises EmbedxError where that is more than the available memory."""
    try:
        if 4 * count * dim > available_memory():
            raise MemoryError
        return np.empty((count, dim), np.dtype("<f4"))
    except (MemoryError, ValueError):
        raise EmbedxError(f"{where}: {count:,} vectors of {dim:,} numbers do not fit into memory; {remedy}") from None


def check_finite(name: str, words: Sequence[str], vectors: np.ndarray, remedy: str, whose: str = "the vector of") -> None:
    """Raise EmbedxError if a vector is not finite."""
    bad = first_not_finite(vectors)
    if bad is not None:
        raise EmbedxError(f"{name}: {whose} {shown(words[bad])} is not finite; {remedy}")


def check_words(name: str, words: Sequence[str]) -> None:
    """Raise EmbedxError for a word that cannot be written as UTF-8."""
    for number, word in enumerate(words, 1):
        if not word.isascii() and any(0xD800 <= ord(c) < 0xE000 for c in word):
            raise EmbedxError(f"{name}: word {number:,}, {shown(word)}, is no valid Unicode; write the file again")


def restore(values: np.ndarray, scale: np.ndarray | None, out: np.ndarray) -> None:
    """Write to `out`, float32, what stored numbers stand for."""
    with np.errstate(all="ignore"):  # check_finite reports what overflows
        np.multiply(values, 1 if scale is None else scale[:, None], out=out, casting="unsafe")


def as_vectors(name: str, words: list[str], arrays: Mapping[str, np.ndarray], remedy: str) -> Found:
    """The content of a file of arrays, as `Table.arrays` made them. Raises `EmbedxError` if they do not fit together."""
    vectors, counts, scale = (arrays.get(each) for each in ("vectors", "counts", "scale"))
    for each, kinds, array in (("counts", "iu", counts), ("scale", "f", scale)):
        if array is not None and (array.shape != (len(words),) or array.dtype.kind not in kinds):
            raise EmbedxError(f"{name}: `{each}` is {array.dtype} {array.shape} for {len(words):,} words; {remedy}")
    kind = "f" if scale is None else "i"
    if vectors is None or vectors.ndim != 2 or len(vectors) != len(words) or vectors.dtype.kind != kind:
        given = "missing" if vectors is None else f"{vectors.dtype} {vectors.shape}"
        raise EmbedxError(
            f"{name}: `vectors` is {given}, where ({len(words):,}, dim) should be, of floats, or of int8 beside `scale`; "
            f"{remedy}"
        )
    found = new_vectors(name, len(words), vectors.shape[1], "write fewer, by --top")
    restore(vectors, scale, found)
    check_finite(name, words, found, remedy)
    return Found(words, found, None if counts is None else counts.astype(np.int64))
