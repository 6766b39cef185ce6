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
# Enough for a header and the first vector, even of 50,000 dimensions.
HEAD_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 25
# Characters of a word or number that a message repeats.
MAX_SHOWN = 40
MAX_FLOAT16 = 65504.0
# Of int8, to either side of zero, as in model2vec: -128 is not used.
STEPS = 127
# Suffixes of compressed files that are written.
COMPRESSED = (".gz", ".bz2", ".xz")
# That of ASCII: readers of lines end words at no other.
WHITE_SPACE = re.compile(r"[ \t\n\v\f\r]")
DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "int8": np.dtype("i1"),
}
AGAIN = "write or fetch it again"


class FileContent(NamedTuple):
    """The content of a file.

    vectors     float32 (words, dim)
    counts      int64 (words,)
    word_parts  float32 (words, dim): the words' own rows, where vectors are means of these and of
                rows of n-grams
    subwords    the rows of n-grams
    """

    words: list[str]
    vectors: ndarray
    counts: ndarray | None = None
    word_parts: ndarray | None = None
    subwords: Subwords | None = None


class OpenFile(NamedTuple):
    """A file that is being read.

    head        the first HEAD_BYTES of it, or all, unpacked
    stream      all of it, from the beginning, once
    is_trusted  whether a pickle may be loaded
    """

    name: str
    head: bytes
    stream: BinaryIO
    progress: Progress
    is_trusted: bool = False

    def path(self, kind: str) -> Path:
        """The file, for random access. Raises EmbedxError if it is remote, compressed or a pipe."""
        path = Path(self.name)
        if path.is_file():
            with path.open("rb") as raw:
                if raw.read(16) == self.head[:16]:
                    return path
        remedy = "copy it to a file on this machine, unpacked"
        raise DataError(self.name, None, f"{kind} needs random access", remedy)


@dataclass(frozen=True)
class Table:
    """The words and vectors to write.

    rows    float32 (words, dim)
    counts  int64 (words,), if they are known
    model   that they are of
    """

    words: Sequence[str]
    rows: ndarray
    counts: ndarray | None
    model: "WordVectors"
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
        """The vectors of some words in the type to write, and their scales."""
        largest = np.abs(block).max(axis=1, initial=0.0)
        if self.dtype == "int8":
            return _in_steps(block, largest)
        is_too_large = largest > MAX_FLOAT16
        if self.dtype == "float16" and is_too_large.any():
            word = shown(words[int(np.argmax(is_too_large))])
            problem = f"the vector of {word} has numbers above {MAX_FLOAT16:,g}"
            raise SettingError("dtype", "float16", problem, "write float32")
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


def _in_steps(block: ndarray, largest: ndarray) -> tuple[ndarray, ndarray]:
    """Vectors as int8, and the scale of each, float32 (rows,).

    largest  the largest absolute value of each
    """
    scale = np.asarray(largest / float32(STEPS), float32)
    column = scale[:, None]
    with np.errstate(over="ignore"):
        steps = np.divide(block, column, out=np.zeros_like(block), where=column > 0)
    return np.rint(np.clip(steps, -STEPS, STEPS)).astype(np.int8), scale


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format: what it is called, how a file of it is recognised, and the functions that read and
    write it.

    name        of --format
    meaning     the content of a file
    programs    that read or write it
    suffixes    of names for which it is the default
    extra       that it needs, of pyproject.toml
    is_text     words end at white space, which is written as `_`; the file may be compressed
    has_ngrams  it holds the vectors of n-grams too
    recognises  whether a file that begins so is of this format
    read        raises EmbedxError with file, place and remedy; None for folders
    write       also further files beside it, under names that begin with its own
    owns        whether all in a folder was written by it; None for a format of files
    """

    name: str
    meaning: str
    programs: str
    suffixes: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float32",)
    extra: str = ""
    is_text: bool = False
    has_ngrams: bool = False
    recognises: Callable[[bytes], bool] = lambda head: False
    read: Callable[[OpenFile], FileContent] | None = None
    write: Callable[[Path, Table], None]
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
    if len(written) <= MAX_SHOWN + 2:
        return written
    return f"{written[: MAX_SHOWN + 1]}…{written[-1]}"


def check_memory(name: str, n_bytes: int, remedy: Text) -> None:
    """Raise EmbedxError where that is more than the available memory."""
    if n_bytes > available_memory():
        problem = f"takes {amount(n_bytes)}, more memory than is available"
        raise DataError(name, None, problem, remedy)


def check_finite(
    name: str, words: Sequence[str], vectors: ndarray, remedy: str, whose: str = "the vector of"
) -> None:
    """Raise EmbedxError if a vector is not finite."""
    bad = first_not_finite(vectors)
    if bad is not None:
        raise DataError(name, None, f"{whose} {shown(words[bad])} is not finite", remedy)


def as_vectors(name: str, words: Sequence[Any], arrays: Mapping[str, ndarray]) -> FileContent:
    """The content of a file of arrays, as `Table.arrays` made them. Raises `EmbedxError` if they do
    not fit together.
    """
    if not all(isinstance(word, str) for word in words):
        raise DataError(name, None, "words that are not text", AGAIN)
    n_words = len(words)
    counts = _column_of(name, arrays, "counts", "iu", n_words)
    scale = _column_of(name, arrays, "scale", "f", n_words)
    stored = _vectors_of(name, arrays, n_words, "f" if scale is None else "i")
    check_memory(name, 4 * stored.size, ("write fewer words, by ", Setting("top")))

    vectors = np.empty(stored.shape, float32)
    factor: Any = 1 if scale is None else scale[:, None]
    with np.errstate(all="ignore"):  # check_finite reports what overflows
        np.multiply(stored, factor, out=vectors, casting="unsafe")
    check_finite(name, words, vectors, AGAIN)
    return FileContent(list(words), vectors, None if counts is None else counts.astype(np.int64))


def _column_of(
    file: str, arrays: Mapping[str, ndarray], name: str, kinds: str, n_words: int
) -> ndarray | None:
    """The numbers of words, if there are any. Raises `DataError` if they do not fit.

    kinds  those of dtype
    """
    column = arrays.get(name)
    if column is None or (column.shape == (n_words,) and column.dtype.kind in kinds):
        return column
    problem = f"`{name}` is {column.dtype} {column.shape} for {n_words:,} words"
    raise DataError(file, None, problem, AGAIN)


def _vectors_of(file: str, arrays: Mapping[str, ndarray], n_words: int, kind: str) -> ndarray:
    """The vectors as they are stored, (n_words, dim). Raises `DataError` if they do not fit.

    kind  that of dtype
    """
    vectors = arrays.get("vectors")
    stored = "missing"
    if vectors is not None:
        if vectors.ndim == 2 and len(vectors) == n_words and vectors.dtype.kind == kind:
            return vectors
        stored = f"{vectors.dtype} {vectors.shape}"
    problem = (
        f"`vectors` is {stored} and not ({n_words:,}, dim), of floats, or of int8 beside `scale`"
    )
    raise DataError(file, None, problem, AGAIN)
