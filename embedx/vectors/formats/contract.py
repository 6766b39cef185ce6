"""What a format of word vectors is: told by its beginning or its name, read, and written.

A format is a file of this folder with a class derived from `Format`, and a line in the registry, `__init__.py`. What a file is
follows from its content; the name only decides what is written. Vectors are written a block of rows at a time, and whatever a
file claims of its size is compared with the file, or with the memory there is, before memory is taken.

Numbers other than float32:

    float16    rounded to the nearest
    int8       q = round(v / scale), which is to be multiplied by the row's scale, its largest absolute value / 127
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
from embedx.storage.schema import row_blocks
from embedx.text.sources import is_url
from embedx.training.memory import available_memory
from embedx.training.progress import Progress, Silent
from embedx.vectors.subwords import Subwords

BLOCK_BYTES = 1 << 22
HEAD_BYTES = 1 << 20  # enough for a header and the first vector, even of 50,000 dimensions
MOST_LINE_BYTES = 1 << 25
MOST_SHOWN = 40  # characters of a word or number that a message repeats
MOST_FLOAT16 = 65504.0
STEPS = 127  # of int8 to either side of zero, as in model2vec: -128 is not used
WHITE_SPACE = re.compile(r"[ \t\n\v\f\r]")  # at which readers of lines end words: that of ASCII, and no other
DTYPES = ("float32", "float16", "int8")


class Found(NamedTuple):
    """What a file holds."""

    words: list[str]
    vectors: np.ndarray  # float32 (words, dim)
    counts: np.ndarray | None = None  # int64 (words,)
    own: np.ndarray | None = None  # float32 (words, dim): the words' own part of vectors that have parts of n-grams too
    subwords: Subwords | None = None  # the parts of n-grams


class Opened(NamedTuple):
    """A file that is being read."""

    name: str
    head: bytes  # HEAD_BYTES of it, or all, unpacked
    stream: BinaryIO  # all of it, from the beginning, once
    trusted: bool = False  # whether code that is in it may be run

    def path(self, kind: str) -> Path:
        """The file, to be read at any place. Raises EmbedxError if it is remote, packed, or no file."""
        if is_url(self.name) or not os.path.isfile(self.name):
            raise EmbedxError(f"{self.name}: {kind} is read at many places; copy it to a file")
        with open(self.name, "rb") as raw:
            if raw.read(16) != self.head[:16]:
                raise EmbedxError(f"{self.name}: {kind} is read at many places; unpack it first")
        return Path(self.name)


class Rows:
    """The vectors that are written, float32 (words, dim): the first rows of a table, or the sum of two, a slice at a time."""

    def __init__(self, n: int, *tables: np.ndarray) -> None:
        self.tables = tables
        self.shape = (n, int(tables[0].shape[1]))
        self.dtype = np.dtype(np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        first, *others = (table[: self.shape[0]][rows] for table in self.tables)
        for other in others:
            first = first + other
        return first


@dataclass(frozen=True)
class Table:
    """What is to be written."""

    words: Sequence[str]
    rows: Rows
    counts: np.ndarray | None = None  # int64 (words,)
    own: np.ndarray | None = None  # float32 (words, dim), and the n-grams' parts, as in `Found`
    subwords: Subwords | None = None
    outputs: np.ndarray | None = None  # float32 (words, dim): the rows that the words were trained against
    dtype: str = "float32"
    settings: dict[str, Any] = field(default_factory=dict)  # of the run, and its facts
    facts: dict[str, Any] = field(default_factory=dict)
    license: str = "unknown"
    progress: Progress = field(default_factory=Silent)

    def blocks(self) -> Iterator[tuple[Sequence[str], np.ndarray]]:
        """Words and their vectors, float32, some megabytes at a time. Raises EmbedxError for what float16 cannot hold."""
        self.progress.start("Writing vectors", len(self.words), "words")
        done = 0
        for block in row_blocks(self.rows):  # type: ignore[arg-type]
            words = self.words[done : done + len(block)]
            if self.dtype == "float16" and (large := (np.abs(block) > MOST_FLOAT16).any(axis=1)).any():
                raise EmbedxError(
                    f"--dtype float16: the vector of {shown(words[int(np.argmax(large))])} has numbers above "
                    f"{MOST_FLOAT16:,g}; write float32"
                )
            yield words, block
            done += len(block)
            self.progress.update(done)
        self.progress.finish()

    def stored(self) -> Iterator[np.ndarray]:
        """Blocks of the vectors in the type that was asked for; int8 by the scale of each row."""
        for _, block in self.blocks():
            yield quantised(block, scales(block)) if self.dtype == "int8" else block.astype(LITTLE[self.dtype])

    def arrays(self) -> dict[str, np.ndarray]:
        """`vectors` (words, dim) in the type that was asked for, with int8 their `scale`, and `counts` where they are known."""
        vectors = np.empty(self.rows.shape, LITTLE[self.dtype])
        done = 0
        for block in self.stored():
            vectors[done : done + len(block)] = block
            done += len(block)
        found = {"vectors": vectors, "counts": self.counts, "scale": self.scales() if self.dtype == "int8" else None}
        return {name: np.ascontiguousarray(array) for name, array in found.items() if array is not None}

    def scales(self) -> np.ndarray:
        """float32 (words,): what int8 vectors are to be multiplied by."""
        return np.concatenate([scales(block) for block in row_blocks(self.rows)])  # type: ignore[arg-type]


LITTLE: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "float16": np.dtype("<f2"), "int8": np.dtype("i1")}


def scales(block: np.ndarray) -> np.ndarray:
    """float32 (rows,): what int8 of each row are to be multiplied by."""
    return np.asarray(np.abs(block).max(axis=1, initial=0.0) / np.float32(STEPS), np.float32)


def quantised(block: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """int8 (rows, dim) of the numbers of a block; rows of zeros stay so."""
    with np.errstate(over="ignore"):
        shares = np.divide(block, scale[:, None], out=np.zeros_like(block), where=scale[:, None] > 0)
    return np.asarray(np.rint(np.clip(shares, -STEPS, STEPS)), np.int8)


class Format:
    """A format, as a class that is never instantiated."""

    name: ClassVar[str]  # of --format
    meaning: ClassVar[str]  # what there is in a file
    programs: ClassVar[str]  # that have it
    suffixes: ClassVar[tuple[str, ...]] = ()  # of names for which it is what is written by default
    dtypes: ClassVar[tuple[str, ...]] = ("float32",)
    extra: ClassVar[str] = ""  # that it needs, of pyproject.toml
    has_mark: ClassVar[bool] = True  # whether a file's beginning tells it from all others
    is_read: ClassVar[bool] = True
    is_written: ClassVar[bool] = True
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
        """How many words a file has that begins so, for the progress; None where its beginning does not tell."""
        return None

    @classmethod
    def read(cls, file: Opened, progress: Progress) -> Found:
        """All of it. Raises EmbedxError with file, place and remedy."""
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
        """Write the file, packed if its suffix says so, or the folder; others of the format lie beside the file and begin with
        its name. Nobody looks at `place` before it is complete.
        """
        is_packed = cls.is_packed and place.suffix in compression.get_supported_extensions()
        with smart_open.open(str(place), "wb", compression=place.suffix if is_packed else "disable") as stream:
            stream.writelines(cls.pieces(table))

    @classmethod
    def is_own_folder(cls, folder: Path) -> bool:
        """Whether nothing is in the folder that this format did not write, so that it may be replaced."""
        return False


def shown(text: object) -> str:
    """A word or a number in a message, which may be of any length where a file is not what it seems."""
    written = repr(text)
    return written if len(written) <= MOST_SHOWN + 2 else f"{written[: MOST_SHOWN + 1]}…{written[-1]}"


def new_vectors(where: str, count: int, dim: int) -> np.ndarray:
    """float32 (count, dim), not filled. Raises EmbedxError where that is more than the memory there is."""
    try:
        if 4 * count * dim > available_memory():
            raise MemoryError
        return np.empty((count, dim), np.dtype("<f4"))
    except (MemoryError, ValueError):
        raise EmbedxError(
            f"{where}: {count:,} vectors of {dim:,} numbers do not fit into memory; is the first line right?"
            if where.endswith(":1")
            else f"{where}: {count:,} vectors of {dim:,} numbers do not fit into memory; write fewer, by --top"
        ) from None


def check_finite(name: str, words: Sequence[str], vectors: np.ndarray, remedy: str) -> None:
    """Raise EmbedxError if some vector is not finite."""
    done = 0
    for block in row_blocks(vectors):
        finite = np.isfinite(block).all(axis=1)
        if not finite.all():
            word = words[done + int(np.argmin(finite))]
            raise EmbedxError(f"{name}: the vector of {shown(word)} is not finite; {remedy}")
        done += len(block)


def check_words(name: str, words: Sequence[str]) -> None:
    """Raise EmbedxError for a word that cannot be written as UTF-8."""
    for number, word in enumerate(words, 1):
        if not word.isascii() and any(0xD800 <= ord(c) < 0xE000 for c in word):
            raise EmbedxError(f"{name}: word {number:,}, {shown(word)}, is no valid Unicode; write the file again")


def scaled(values: np.ndarray, scale: np.ndarray | None, out: np.ndarray) -> None:
    """Write to `out`, float32, what stored numbers stand for."""
    with np.errstate(all="ignore"):  # what is not finite then is told of
        if scale is None:
            out[:] = values
        else:
            np.multiply(values, scale[:, None], out=out, casting="unsafe")


def as_vectors(name: str, words: list[str], arrays: Mapping[str, np.ndarray], remedy: str) -> Found:
    """What a file of arrays holds, as `Table.arrays` made them. Raises `EmbedxError` if they do not fit together."""
    vectors, counts, scale = (arrays.get(each) for each in ("vectors", "counts", "scale"))
    for each, kinds, array in (("counts", "iu", counts), ("scale", "f", scale)):
        if array is not None and (array.shape != (len(words),) or array.dtype.kind not in kinds):
            raise EmbedxError(f"{name}: `{each}` is {array.dtype} {array.shape} for {len(words):,} words; {remedy}")
    if (
        vectors is None
        or vectors.ndim != 2
        or len(vectors) != len(words)
        or vectors.dtype.kind != ("f" if scale is None else "i")
    ):
        given = "missing" if vectors is None else f"{vectors.dtype} {vectors.shape}"
        raise EmbedxError(
            f"{name}: `vectors` is {given}, where ({len(words):,}, dim) should be, of floats, or of int8 beside `scale`; "
            f"{remedy}"
        )
    found = new_vectors(name, *vectors.shape)
    scaled(vectors, scale, found)
    check_finite(name, words, found, remedy)
    return Found(words, found, None if counts is None else counts.astype(np.int64))
