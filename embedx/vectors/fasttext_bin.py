"""fastText's .bin models: unsupervised ones (skipgram, cbow) that are not quantised are read; word vectors are written as such.

All numbers are little-endian; the layout is that of fastText 0.9.3 (`FastText::saveModel`, `Dictionary::save`, `Matrix::save`):

    int32 793712314, int32 version 12
    int32 × 12     dim ws epoch minCount neg wordNgrams loss model bucket minn maxn lrUpdateRate, then float64 t
    int32 × 3      words + labels, words, labels;  int64 × 2  tokens, and the size of what pruning kept, -1 for all
                   for each: its bytes, a 0, int64 count, int8 type (0 for a word, 1 for a label)
    uint8          1 where the rows that follow are quantised
    int64 × 2      rows and columns, then the rows of the words and those of the buckets of n-grams, float32
    uint8          the same for the output rows, int64 × 2, float32

A word's vector is the mean of its own row and those of its n-grams' buckets (`embedx.text.ngrams`). What the file says is
checked against its length before any memory is taken; rows of n-grams stay in the file, memory-mapped.
"""

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedx.errors import EmbedxError
from embedx.storage.disk import amount
from embedx.storage.schema import first_not_finite, row_blocks
from embedx.text.ngrams import MAX_CHARACTERS, NGrams, encoded
from embedx.training.memory import available_memory
from embedx.training.progress import Progress, Silent
from embedx.vectors.subwords import Subwords

MAGIC, VERSION, VERSIONS = 793712314, 12, (11, 12)
HEAD, SIZES, ENTRY, SHAPE = (struct.Struct(f"<{fields}") for fields in ("2i12id", "3i2q", "qb", "B2q"))
SKIPGRAM, SUPERVISED, NEGATIVE_SAMPLING = 2, 3, 2
WORD = 0
SUFFIX = b"\xba\x16\x4f\x2f"  # MAGIC as it stands in the file
REMEDY = "write or fetch it again"
MOST_WORD_BYTES = 1 << 25
BYTES_OF_STRING = 100  # of a word in memory, about
BLOCK_FLOATS = 1 << 22  # rows that are added up at a time


class Content(NamedTuple):
    """What a .bin model holds."""

    words: list[str]
    counts: np.ndarray  # int64 (words,)
    vectors: np.ndarray  # float32 (words, dim): means of rows, where words have n-grams
    own: np.ndarray  # float32 (words, dim): the words' own rows
    subwords: Subwords | None


class _Header(NamedTuple):
    """The numbers before the rows, and where these begin."""

    dim: int
    ngrams: NGrams | None
    n_buckets: int
    begin: int


def is_model(path: str | Path) -> bool:
    """Whether a plain file begins as fastText's models do."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(SUFFIX)) == SUFFIX
    except OSError:
        return False


def read(path: str | Path, progress: Progress | None = None) -> Content:
    """The words of a .bin model and their vectors. Raises `EmbedxError`, with file and remedy, for what is damaged, cut short,
    quantised, pruned or a classifier.
    """
    name, progress = str(path), progress or Silent()
    try:
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise EmbedxError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}; {REMEDY}") from error
    raw, counts, header = _read_head(name, data, progress)
    n_rows = len(raw) + header.n_buckets
    rows, end = _matrix(name, data, header.begin, "input", (n_rows, header.dim))
    _, end = _matrix(name, data, end, "output", (None, header.dim))
    if end != len(data):
        raise EmbedxError(f"{name}: goes on for {len(data) - end:,} bytes after the model; {REMEDY}")
    need = 4 * len(raw) * header.dim
    if header.ngrams is not None:
        need += compiled().listing_bytes(raw, header.ngrams)
    if need > available_memory():
        raise EmbedxError(
            f"{name}: {len(raw):,} words × {header.dim} numbers take {amount(need)}, more memory than there is; give the .vec "
            "file beside it, or a smaller model"
        )
    own, of_buckets = rows[: len(raw)], rows[len(raw) :]
    words = [each.decode("utf-8", "replace") for each in raw]
    check_finite(name, own, words, "")
    vectors, subwords = np.array(own, np.float32), None
    if header.ngrams is not None:
        vectors, buckets = _means(raw, rows, header.ngrams, progress)
        check_finite(name, vectors, words, "an n-gram of ")
        subwords = Subwords(header.ngrams, of_buckets, None)
        if first_not_finite(of_buckets) is not None:  # fastText may leave rows that it does not need as malloc gave them
            progress.note(f"{name}: {len(of_buckets) - len(buckets):,} rows of n-grams that no word has are left out")
            subwords = Subwords(header.ngrams, of_buckets[buckets], buckets)
    kept = sorted({word: k for k, word in reversed(list(enumerate(words)))}.values())
    if len(kept) < len(words):
        progress.note(f"{name}: {len(words) - len(kept):,} words occur twice; the first vector of each is kept")
        words, counts, vectors, own = [words[k] for k in kept], counts[kept], vectors[kept], own[kept]
    return Content(words, counts, vectors, own, subwords)


def _read_head(name: str, data: mmap.mmap, progress: Progress) -> tuple[list[bytes], np.ndarray, _Header]:
    """The words, their counts, and what else stands before the rows."""
    if len(data) < HEAD.size + SIZES.size:
        raise EmbedxError(f"{name}: ends within the head of a fastText model; {REMEDY}")
    magic, version, dim, *others = HEAD.unpack_from(data, 0)
    model, n_buckets, shortest, longest = others[6:10]
    if magic != MAGIC:
        raise EmbedxError(f"{name}: not a fastText .bin model")
    if version not in VERSIONS:
        raise EmbedxError(f"{name}: version {version} of fastText's format; versions 11 and 12 are read")
    if model == SUPERVISED:
        raise EmbedxError(f"{name}: a classifier of fastText, whose labels are not read; give a skipgram or cbow model")
    if dim < 1 or n_buckets < 0 or longest > MAX_CHARACTERS:
        raise EmbedxError(
            f"{name}: {dim} dimensions, {n_buckets} buckets and n-grams of up to {longest} characters (at most "
            f"{MAX_CHARACTERS} are read); {REMEDY}"
        )
    size, n_words, n_labels, n_tokens, n_pruned = SIZES.unpack_from(data, HEAD.size)
    if n_pruned >= 0:
        raise EmbedxError(f"{name}: a pruned model of fastText; give the one that it was made of")
    at = HEAD.size + SIZES.size
    if min(n_words, n_labels, n_tokens) < 0 or size != n_words + n_labels or size * (ENTRY.size + 1) > len(data) - at:
        raise EmbedxError(
            f"{name}: {size:,} entries, {n_words:,} of them words, in a file of {len(data):,} bytes; it is damaged or cut "
            f"short: {REMEDY}"
        )
    if n_words == 0:
        raise EmbedxError(f"{name}: holds no word")
    if BYTES_OF_STRING * size > available_memory():
        raise EmbedxError(f"{name}: {size:,} words take {amount(BYTES_OF_STRING * size)}, more than there is")
    words: list[bytes] = []
    counts = np.zeros(n_words, np.int64)
    progress.start("Reading words", size, "words")
    for k in range(size):
        end = data.find(b"\0", at, at + MOST_WORD_BYTES)
        if end < 0 or end + 1 + ENTRY.size > len(data):
            raise EmbedxError(f"{name}: ends within word {k + 1:,} of {size:,}, or that has no end; {REMEDY}")
        count, kind = ENTRY.unpack_from(data, end + 1)
        if count < 0 or (kind == WORD) != (k < n_words):
            raise EmbedxError(f"{name}: word {k + 1:,} of {size:,} has the count {count:,} and the type {kind}; {REMEDY}")
        if k < n_words:  # labels stand after the words, and have no rows
            words.append(data[at:end])
            counts[k] = count
        at = end + 1 + ENTRY.size
        if k % 100_000 == 0:
            progress.update(k)
    progress.finish()
    has_ngrams = n_buckets > 0 and longest >= max(shortest, 1)
    return words, counts, _Header(dim, NGrams(max(shortest, 1), longest, n_buckets) if has_ngrams else None, n_buckets, at)


def _matrix(name: str, data: mmap.mmap, at: int, what: str, shape: tuple[int | None, int]) -> tuple[np.ndarray, int]:
    """The rows that begin at a byte, a view of the file, and where they end; `shape` is what they must have, None for any."""
    if at + SHAPE.size > len(data):
        raise EmbedxError(f"{name}: ends before its {what} rows; {REMEDY}")
    is_quantised, n_rows, dim = SHAPE.unpack_from(data, at)
    if is_quantised:
        raise EmbedxError(f"{name}: a quantised model of fastText (.ftz), which is not read; give the .bin that it was made of")
    if dim != shape[1] or n_rows < 0 or shape[0] not in (None, n_rows):
        wanted = f"{'' if shape[0] is None else f'{shape[0]:,} '}rows of {shape[1]:,} numbers"
        raise EmbedxError(f"{name}: {n_rows:,} {what} rows of {dim:,} numbers, where {wanted} should be; {REMEDY}")
    begin = at + SHAPE.size
    if 4 * n_rows * dim > len(data) - begin:
        raise EmbedxError(
            f"{name}: {n_rows:,} {what} rows of {dim:,} numbers take {4 * n_rows * dim:,} bytes, but {len(data) - begin:,} "
            f"follow; it is cut short: {REMEDY}"
        )
    rows = np.frombuffer(data, "<f4", n_rows * dim, begin).reshape(n_rows, dim)
    return rows, begin + rows.nbytes


def check_finite(name: str, rows: np.ndarray, words: Sequence[str], whose: str) -> None:
    """Raise `EmbedxError` if one of the rows, or of what they are the means of, holds what is no finite number."""
    bad = first_not_finite(rows)
    if bad is not None:
        word = f"{words[bad][:40]!r}"
        raise EmbedxError(f"{name}: the row of {whose}the word {word} holds what is no finite number; {REMEDY}")


def compiled() -> Any:
    """The compiled functions, which take an import of numba."""
    from embedx.engine import subwords

    return subwords


def _means(words: Sequence[bytes], rows: np.ndarray, ngrams: NGrams, progress: Progress) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the rows of each word, float32 (words, dim), and the buckets that there are among them, ascending."""
    parts, buckets = compiled().listed(words, ngrams)
    out = np.zeros((len(words), rows.shape[1]), np.float32)
    place = np.concatenate([np.arange(len(words)), len(words) + buckets.astype(np.int64)])
    most = max(1, BLOCK_FLOATS // rows.shape[1])  # parts at a time, but for a word of more
    progress.start("Adding up n-grams", len(words), "words")
    first = 0
    while first < len(words):
        last = max(first + 1, int(np.searchsorted(parts.offsets, parts.offsets[first] + most, "right")) - 1)
        here = parts.offsets[first:last] - parts.offsets[first]
        those = place[parts.rows[parts.offsets[first] : parts.offsets[last]]]
        with np.errstate(all="ignore"):  # what is no finite number is told later
            out[first:last] = np.add.reduceat(rows[those], here, axis=0)
        out[first:last] /= np.diff(parts.offsets[first : last + 1])[:, None].astype(np.float32)
        first = last
        progress.update(first)
    progress.finish()
    return out, buckets


# ---- writing


def pieces(
    words: Sequence[str],
    vectors: Any,
    own: np.ndarray | None,
    outputs: np.ndarray | None,
    counts: np.ndarray | None,
    subwords: Subwords | None,
    settings: dict[str, object],
    progress: Progress,
) -> Iterator[bytes]:
    """The bytes of a .bin model, which fastText opens as one of its skipgram models with negative sampling.

    vectors  float32 (words, dim), an array or what is cut like one
    own      float32 (words, dim): the words' own rows, where they have n-grams; else `vectors` are written
    outputs  float32 (words, dim): output rows of the words; zeros are written for others, and for biases
    """
    n_words, dim = vectors.shape
    ngrams = subwords.ngrams if subwords else NGrams(0, 0, 0)
    counts = np.ones(n_words, np.int64) if counts is None else np.maximum(counts, 1)

    def number(name: str, default: int) -> int:
        value = settings.get(name)
        return int(value) if isinstance(value, int | float) and 0 <= value < 2**31 else default

    sample = settings.get("sample")
    yield HEAD.pack(
        MAGIC, VERSION, dim, number("window", 5), number("epochs", 5), number("min_count", 1), number("negatives", 5), 1,
        NEGATIVE_SAMPLING, SKIPGRAM, ngrams.n_buckets, ngrams.shortest, ngrams.longest, 100,
        float(sample) if isinstance(sample, int | float) else 1e-4,
    )  # fmt: skip
    yield SIZES.pack(n_words, n_words, 0, int(counts.sum()), -1)
    for word, count in zip(words, counts.tolist(), strict=True):
        yield encoded(word) + b"\0" + ENTRY.pack(count, WORD)
    progress.start("Writing rows", 2 * n_words + ngrams.n_buckets, "rows")
    yield SHAPE.pack(0, n_words + ngrams.n_buckets, dim)
    yield from (_bytes_of(block) for block in row_blocks(vectors if own is None or subwords is None else own))
    if subwords is not None:
        yield from _rows_of_buckets(subwords, dim, n_words, progress)
    yield SHAPE.pack(0, n_words, dim)
    if outputs is not None and outputs.shape == vectors.shape:
        yield from (_bytes_of(block) for block in row_blocks(outputs))
    else:
        step = max(1, BLOCK_FLOATS // dim)
        yield from (bytes(4 * dim * min(step, n_words - first)) for first in range(0, n_words, step))
    progress.finish()


def _bytes_of(rows: np.ndarray) -> bytes:
    return np.ascontiguousarray(rows, "<f4").tobytes()


def _rows_of_buckets(subwords: Subwords, dim: int, done: int, progress: Progress) -> Iterator[bytes]:
    """The rows of all buckets, of which those without a vector are zeros, a few megabytes at a time."""
    n_buckets, buckets = subwords.ngrams.n_buckets, subwords.buckets
    step = max(1, BLOCK_FLOATS // dim)
    for first in range(0, n_buckets, step):
        last = min(first + step, n_buckets)
        if buckets is None:
            yield _bytes_of(subwords.rows[first:last])
        else:
            begin, end = np.searchsorted(buckets, [first, last])
            block = np.zeros((last - first, dim), np.float32)
            block[buckets[begin:end] - first] = subwords.rows[begin:end]
            yield _bytes_of(block)
        progress.update(done + last)
