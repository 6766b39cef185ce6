"""The contract of a format of word vectors: what a file of this folder declares as a `Format`, and
what formats share.

A file is recognised by its content; its name only chooses the format that is written. Vectors are
written a block of rows at a time, and the size that a file claims is compared with the file, or
with the available memory, before memory is allocated.

Numbers other than float32:

    float16    rounded to the nearest
    int8       q = round(v / scale), to be multiplied by the row's scale, its largest absolute value
               / 127
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
from numpy import float32, ndarray

from embedx.errors import DataError, Setting, SettingError, Text
from embedx.runtime.disk import amount
from embedx.runtime.memory import available_memory
from embedx.runtime.progress import Progress
from embedx.storage.schema import first_not_finite, row_blocks
from embedx.vectors.subwords import Subwords

if TYPE_CHECKING:
    from embedx.vectors.model import WordVectors

BLOCK_BYTES = 1 << 22
HEAD_BYTES = 1 << 20  # enough for a header and the first vector, even of 50,000 dimensions
MAX_LINE_BYTES = 1 << 25
MAX_SHOWN = 40  # characters of a word or number that a message repeats
MAX_FLOAT16 = 65504.0
STEPS = 127  # of int8 to either side of zero, as in model2vec: -128 is not used
COMPRESSED = (".gz", ".bz2", ".xz")  # suffixes of compressed files that are written
WHITE_SPACE = re.compile(r"[ \t\n\v\f\r]")  # of ASCII: readers of lines end words at no other
DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "int8": np.dtype("i1"),
}
AGAIN = "write or fetch it again"


class Found(NamedTuple):
    """The content of a file."""

    words: list[str]
    vectors: ndarray  # float32 (words, dim)
    counts: ndarray | None = None  # int64 (words,)
    # float32 (words, dim): the words' own rows, where vectors are means with rows of n-grams
    own: ndarray | None = None
    subwords: Subwords | None = None  # the rows of n-grams


class Opened(NamedTuple):
    """A file that is being read."""

    name: str
    head: bytes  # HEAD_BYTES of it, or all, unpacked
    stream: BinaryIO  # all of it, from the beginning, once
    progress: Progress
    trusted: bool = False  # whether a pickle may be loaded

    def path(self, kind: str) -> Path:
        """The file, for random access. Raises EmbedxError if it is remote, compressed or a pipe."""
        path = Path(self.name)
        if path.is_file():
            with path.open("rb") as raw:
                if raw.read(16) == self.head[:16]:
                    return path
        raise DataError(
            self.name,
            None,
            f"{kind} needs random access",
            "copy it to a file on this machine, unpacked",
        )


@dataclass(frozen=True)
class Table:
    """The words and vectors to write."""

    words: Sequence[str]
    rows: ndarray  # float32 (words, dim)
    counts: ndarray | None  # int64 (words,)
    model: "WordVectors"  # from which they are
    dtype: str
    progress: Progress

    def about(self) -> dict[str, Any]:
        """Settings and facts of the run."""
        return {"settings": self.model.settings, "facts": self.model.facts}

    def blocks(self) -> Iterator[tuple[slice, ndarray, ndarray]]:
        """Rows, their vectors in the type to write, and their scales, float32 (rows,), 1 unless
        int8; megabytes at a time.

        Raises EmbedxError for numbers that float16 cannot hold.
        """
        self.progress.start("Writing vectors", len(self.words), "words")
        done = 0
        for block in row_blocks(self.rows):
            rows = slice(done, done + len(block))
            yield rows, *self._stored(self.words[rows], block)
            done += len(block)
            self.progress.update(done)
        self.progress.finish()

    def _stored(self, words: Sequence[str], block: ndarray) -> tuple[ndarray, ndarray]:
        largest = np.abs(block).max(axis=1, initial=0.0)
        if self.dtype == "int8":
            scale = np.asarray(largest / float32(STEPS), float32)
            with np.errstate(over="ignore"):
                steps = np.divide(
                    block, scale[:, None], out=np.zeros_like(block), where=scale[:, None] > 0
                )
            return np.rint(np.clip(steps, -STEPS, STEPS)).astype(np.int8), scale
        if self.dtype == "float16" and (largest > MAX_FLOAT16).any():
            word = shown(words[int(np.argmax(largest > MAX_FLOAT16))])
            raise SettingError(
                "dtype",
                "float16",
                f"the vector of {word} has numbers above {MAX_FLOAT16:,g}",
                "write float32",
            )
        return block.astype(DTYPES[self.dtype]), np.ones(len(block), float32)

    def arrays(self) -> dict[str, ndarray]:
        """`vectors` (words, dim) in the type to write, with int8 their `scale`, and `counts` where
        they are known.
        """
        vectors = np.empty(self.rows.shape, DTYPES[self.dtype])
        scale = np.empty(len(self.rows), float32)
        for rows, block, block_scale in self.blocks():
            vectors[rows] = block
            scale[rows] = block_scale

        arrays = {"vectors": vectors}
        if self.dtype == "int8":
            arrays["scale"] = scale
        if self.counts is not None:
            arrays["counts"] = np.ascontiguousarray(self.counts)
        return arrays


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format: what it is called, how a file of it is recognised, and the functions that read and
    write it.
    """

    name: str  # of --format
    meaning: str  # the content of a file
    programs: str  # that read or write it
    suffixes: tuple[str, ...] = ()  # of names for which it is the default
    dtypes: tuple[str, ...] = ("float32",)
    extra: str = ""  # that it needs, of pyproject.toml
    # words end at white space, which is written as `_`; the file may be compressed
    is_text: bool = False
    has_ngrams: bool = False  # whether it holds the vectors of n-grams too
    # whether a file that begins so is of this format
    recognises: Callable[[bytes], bool] = lambda head: False
    # raises EmbedxError with file, place and remedy; None for folders
    read: Callable[[Opened], Found] | None = None
    # also further files beside it, under names that begin with its own
    write: Callable[[Path, Table], None]
    # whether all in a folder was written by it; None for a format of files
    owns: Callable[[Path], bool] | None = None

    @property
    def is_folder(self) -> bool:
        return self.owns is not None


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file, compressed if its suffix says so."""
    # Imported here, with an HTTP client, because most commands write no file of vectors.
    import smart_open

    suffix = path.suffix if path.suffix in COMPRESSED else "disable"
    with smart_open.open(str(path), "wb", compression=suffix) as stream:
        stream.writelines(pieces)


def shown(text: object) -> str:
    """A word or a number in a message, which may be of any length where a file is not what it
    seems.
    """
    written = repr(text)
    return written if len(written) <= MAX_SHOWN + 2 else f"{written[: MAX_SHOWN + 1]}…{written[-1]}"


def check_memory(name: str, n_bytes: int, remedy: Text) -> None:
    """Raise EmbedxError where that is more than the available memory."""
    if n_bytes > available_memory():
        raise DataError(
            name, None, f"takes {amount(n_bytes)}, more memory than is available", remedy
        )


def check_finite(
    name: str, words: Sequence[str], vectors: ndarray, remedy: str, whose: str = "the vector of"
) -> None:
    """Raise EmbedxError if a vector is not finite."""
    bad = first_not_finite(vectors)
    if bad is not None:
        raise DataError(name, None, f"{whose} {shown(words[bad])} is not finite", remedy)


def as_vectors(name: str, words: Sequence[Any], arrays: Mapping[str, ndarray]) -> Found:
    """The content of a file of arrays, as `Table.arrays` made them. Raises `EmbedxError` if they do
    not fit together.
    """
    if not all(isinstance(word, str) for word in words):
        raise DataError(name, None, "words that are not text", AGAIN)
    vectors, counts, scale = (arrays.get(each) for each in ("vectors", "counts", "scale"))
    for each, kinds, array in (("counts", "iu", counts), ("scale", "f", scale)):
        if array is not None and (array.shape != (len(words),) or array.dtype.kind not in kinds):
            raise DataError(
                name,
                None,
                f"`{each}` is {array.dtype} {array.shape} for {len(words):,} words",
                AGAIN,
            )
    kind = "f" if scale is None else "i"
    if (
        vectors is None
        or vectors.ndim != 2
        or len(vectors) != len(words)
        or vectors.dtype.kind != kind
    ):
        given = "missing" if vectors is None else f"{vectors.dtype} {vectors.shape}"
        raise DataError(
            name,
            None,
            (
                f"`vectors` is {given} and not ({len(words):,}, dim), of floats, or of "
                "int8 beside `scale`"
            ),
            AGAIN,
        )
    check_memory(name, 4 * vectors.size, ("write fewer words, by ", Setting("top")))
    found = np.empty(vectors.shape, float32)
    with np.errstate(all="ignore"):  # check_finite reports what overflows
        np.multiply(vectors, 1 if scale is None else scale[:, None], out=found, casting="unsafe")
    check_finite(name, words, found, AGAIN)
    return Found(list(words), found, None if counts is None else counts.astype(np.int64))
