"""fastText's .bin models: unsupervised ones (skipgram, cbow) that are not quantised are read; word
vectors are written.

All numbers are little-endian; the layout is that of fastText 0.9.3 (`FastText::saveModel`,
`Dictionary::save`, `Matrix::save`):

    int32 793712314, int32 version 12
    int32 × 12     dim ws epoch minCount neg wordNgrams loss model bucket minn maxn lrUpdateRate,
                   then float64 t
    int32 × 3      words + labels, words, labels;  int64 × 2  tokens, and the size of what pruning
        kept, -1 for all
                   for each: its bytes, a 0, int64 count, int8 type (0 for a word, 1 for a label)
    uint8          1 where the rows that follow are quantised
    int64 × 2      rows and columns, then the rows of the words and those of the buckets of n-grams,
                   float32
    uint8          the same for the output rows, int64 × 2, float32

A word's vector is the mean of its own row and those of its n-grams' buckets (`embedx.text.ngrams`).
The sizes that the file claims are checked against its length before any memory is allocated; rows
of n-grams stay in the file, memory-mapped.
"""

import mmap
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy import float32, int64, ndarray

from embedx.errors import DataError, counted
from embedx.runtime.progress import Progress
from embedx.storage.schema import first_not_finite, row_blocks
from embedx.text.ngrams import MAX_CHARACTERS, NGrams, encoded
from embedx.vectors.formats.contract import (
    AGAIN,
    FileContent,
    Format,
    OpenFile,
    Table,
    check_finite,
    check_memory,
    write_pieces,
)
from embedx.vectors.subwords import Subwords

MAGIC = 793712314
WRITTEN_VERSION = 12
READ_VERSIONS = (11, 12)

HEAD = struct.Struct("<2i12id")
SIZES = struct.Struct("<3i2q")
ENTRY = struct.Struct("<qb")
SHAPE = struct.Struct("<B2q")

SKIPGRAM_MODEL = 2
SUPERVISED_MODEL = 3
NEGATIVE_SAMPLING_LOSS = 2
WORD_TYPE = 0

MAX_WORD_BYTES = 1 << 25
APPROXIMATE_BYTES_PER_WORD = 100
FLOATS_PER_WRITE = 1 << 22
DAMAGED = f"{AGAIN}, because it is damaged or cut short"
SMALLER = "give the .vec file beside it, or a smaller model"


def compiled() -> ModuleType:
    """The compiled functions, which take an import of numba."""
    from embedx.engine import subwords

    return subwords


# ---- reading


class Sizes(NamedTuple):
    """The settings and sizes of a model that reading needs."""

    dim: int
    n_buckets: int
    shortest_ngram: int
    longest_ngram: int
    n_entries: int
    n_words: int
    n_labels: int
    n_tokens: int

    @property
    def ngrams(self) -> NGrams | None:
        """How words are split into n-grams; None for a model without."""
        shortest = max(self.shortest_ngram, 1)
        if self.n_buckets == 0 or self.longest_ngram < shortest:
            return None
        return NGrams(shortest, self.longest_ngram, self.n_buckets)


class Dictionary(NamedTuple):
    """The words of a model, and the place where the dictionary ends."""

    words: list[bytes]
    counts: ndarray  # int64 (words,)
    end: int


def read(file: OpenFile) -> FileContent:
    """The words and n-grams. Raises `EmbedxError` also for a model that is quantised, pruned or a
    classifier.
    """
    name = file.name
    with open(file.path("a fastText model"), "rb") as opened:
        data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)

    sizes = _sizes(name, data)
    ngrams = sizes.ngrams
    encoded_words, counts, end = _dictionary(name, data, sizes)
    n_words = len(encoded_words)
    input_shape = (n_words + sizes.n_buckets, sizes.dim)
    input_rows, end = _matrix(name, data, end, "input", input_shape)
    _, end = _matrix(name, data, end, "output", (None, sizes.dim))
    if end != len(data):
        problem = f"continues for {len(data) - end:,} bytes after the model"
        raise DataError(name, None, problem, AGAIN)

    word_rows = input_rows[:n_words]
    bucket_rows = input_rows[n_words:]
    n_bytes = word_rows.nbytes
    if ngrams is not None:
        n_bytes += compiled().listing_bytes(encoded_words, ngrams)
    words = [word.decode("utf-8", "surrogateescape") for word in encoded_words]
    check_memory(name, n_bytes, SMALLER)
    check_finite(name, words, word_rows, AGAIN, "the row of the word")

    vectors = np.array(word_rows, float32)
    if ngrams is None:
        return FileContent(words, vectors, counts, word_rows, None)
    buckets = _add_ngrams(encoded_words, vectors, bucket_rows, ngrams, file.progress)
    check_finite(name, words, vectors, AGAIN, "the row of an n-gram of the word")
    subwords = _subwords(name, ngrams, bucket_rows, buckets, file.progress)
    return FileContent(words, vectors, counts, word_rows, subwords)


def _subwords(
    name: str, ngrams: NGrams, bucket_rows: ndarray, used_buckets: ndarray, progress: Progress
) -> Subwords:
    """The rows of all buckets, or of the used ones where some row is not finite.

    fastText may leave rows that it does not need as malloc gave them.
    """
    if first_not_finite(bucket_rows) is None:
        return Subwords(ngrams, bucket_rows, np.arange(len(bucket_rows), dtype=np.int32))
    n_unused = len(bucket_rows) - len(used_buckets)
    progress.note(f"{name}: left out: {counted(n_unused, 'row')} of n-grams that no word has")
    return Subwords(ngrams, bucket_rows[used_buckets], used_buckets)


def _sizes(name: str, data: mmap.mmap) -> Sizes:
    """The sizes at the beginning of a model. Raises EmbedxError for a model that is not read."""
    if len(data) < HEAD.size + SIZES.size:
        raise DataError(name, None, "ends within the head of a fastText model", AGAIN)
    _, version, dim, *settings = HEAD.unpack_from(data, 0)
    model, n_buckets, shortest, longest = settings[6:10]
    n_entries, n_words, n_labels, n_tokens, n_pruned = SIZES.unpack_from(data, HEAD.size)
    if version not in READ_VERSIONS:
        problem = f"version {version} of fastText's format, of which 11 and 12 are read"
        raise DataError(name, None, problem, "write it with another version of fastText")
    if model == SUPERVISED_MODEL or n_pruned >= 0:
        problem = "a classifier or a pruned model of fastText, which is not read"
        raise DataError(name, None, problem, "give a skipgram or cbow model")
    sizes = Sizes(dim, n_buckets, shortest, longest, n_entries, n_words, n_labels, n_tokens)
    if not _is_plausible(sizes, len(data)):
        problem = (
            f"{dim} dimensions, {n_buckets} buckets, n-grams of up to {longest} characters (at most"
            f" {MAX_CHARACTERS}) and {n_entries:,} entries in a file of {len(data):,} bytes"
        )
        raise DataError(name, None, problem, DAMAGED)
    return sizes


def _is_plausible(sizes: Sizes, n_bytes: int) -> bool:
    """Whether a model of these sizes fits into a file of `n_bytes`."""
    if sizes.dim < 1 or sizes.longest_ngram > MAX_CHARACTERS:
        return False
    if min(sizes.n_buckets, sizes.n_words, sizes.n_labels, sizes.n_tokens) < 0:
        return False
    if sizes.n_entries != sizes.n_words + sizes.n_labels:
        return False
    min_entry_bytes = ENTRY.size + 1
    return sizes.n_entries * min_entry_bytes <= n_bytes - HEAD.size - SIZES.size


def _dictionary(name: str, data: mmap.mmap, sizes: Sizes) -> Dictionary:
    """The words with their counts; labels stand after them, and have no rows."""
    n_entries = sizes.n_entries
    check_memory(name, APPROXIMATE_BYTES_PER_WORD * n_entries, SMALLER)
    words = []
    counts = np.zeros(sizes.n_words, int64)
    begin = HEAD.size + SIZES.size
    for k in range(n_entries):
        place = f"word {k + 1:,} of {n_entries:,}"
        end = data.find(b"\0", begin, begin + MAX_WORD_BYTES)
        if end < 0 or end + 1 + ENTRY.size > len(data):
            raise DataError(name, None, f"ends within {place}, or that has no end", AGAIN)

        count, entry_type = ENTRY.unpack_from(data, end + 1)
        is_word = k < sizes.n_words
        if count < 0 or (entry_type == WORD_TYPE) != is_word:
            problem = f"{place} has the count {count:,} and the type {entry_type}"
            raise DataError(name, None, problem, AGAIN)

        if is_word:
            words.append(data[begin:end])
            counts[k] = count
        begin = end + 1 + ENTRY.size
    return Dictionary(words, counts, begin)


def _matrix(
    name: str, data: mmap.mmap, begin: int, layer: str, wanted_shape: tuple[int | None, int]
) -> tuple[ndarray, int]:
    """The rows that begin at a byte, a view of the file, and the byte after them.

    wanted_shape  rows and columns; any number of rows where it is None
    """
    if begin + SHAPE.size > len(data):
        raise DataError(name, None, f"ends before its {layer} rows", AGAIN)
    is_quantised, n_rows, dim = SHAPE.unpack_from(data, begin)
    if is_quantised:
        problem = "a quantised model of fastText (.ftz), which is not read"
        raise DataError(name, None, problem, "give the .bin that it was made of")

    begin_rows = begin + SHAPE.size
    bytes_left = len(data) - begin_rows
    wanted_rows, wanted_dim = wanted_shape
    has_wanted_shape = dim == wanted_dim and wanted_rows in (None, n_rows)
    if not has_wanted_shape or n_rows < 0 or 4 * n_rows * dim > bytes_left:
        wanted = f"rows of {wanted_dim:,} numbers"
        if wanted_rows is not None:
            wanted = f"{wanted_rows:,} {wanted}"
        problem = (
            f"{n_rows:,} {layer} rows of {dim:,} numbers in {bytes_left:,} bytes, where {wanted}"
            " should be"
        )
        raise DataError(name, None, problem, DAMAGED)

    rows = np.frombuffer(data, "<f4", n_rows * dim, begin_rows).reshape(n_rows, dim)
    return rows, begin_rows + rows.nbytes


def _add_ngrams(
    words: Sequence[bytes], vectors: ndarray, rows: ndarray, ngrams: NGrams, progress: Progress
) -> ndarray:
    """The buckets of the n-grams of all words; changes the rows in `vectors` to word vectors.

    vectors  float32 (words, dim): the words' own rows, each overwritten by the mean of itself and
             the rows of the word's n-grams
    """
    parts, buckets = compiled().parts_of_words(words, ngrams)
    progress.start("Adding up n-grams", len(words), "words")
    for k in range(len(words)):
        first, end = parts.offsets[k : k + 2]
        # The first part is the word's own row; n-grams are numbered after the words.
        ngram_rows = buckets[parts.rows[first + 1 : end] - len(words)]
        with np.errstate(all="ignore"):  # check_finite reports what is not finite
            vectors[k] += rows[ngram_rows].sum(axis=0)
            vectors[k] /= float32(end - first)
        if k % 10_000 == 0:
            progress.update(k)
    progress.finish()
    return buckets


# ---- writing


def write(path: Path, table: Table) -> None:
    """Write a skip-gram model with negative sampling."""
    word = next((word for word in table.words if "\0" in word), None)
    if word is not None:
        problem = "holds a zero character, which ends words in a fastText .bin model"
        raise DataError(f"the word {word!r}", None, problem)
    write_pieces(path, pieces(table))


def pieces(table: Table) -> Iterator[bytes]:
    """The bytes of a skip-gram model with negative sampling, a piece at a time."""
    n_words, dim = table.rows.shape
    subwords = table.model.subwords
    n_buckets = 0
    word_rows = table.rows
    if subwords is not None:
        n_buckets = subwords.ngrams.n_buckets
        word_rows = table.model.arrays.get("word_part", table.model.vectors)[:n_words]

    yield from _head_pieces(table)
    yield SHAPE.pack(0, n_words + n_buckets, dim)
    yield from map(_as_bytes, row_blocks(word_rows))
    if subwords is not None:
        yield from map(_as_bytes, _bucket_blocks(subwords, dim))
    yield SHAPE.pack(0, n_words, dim)
    yield from map(_as_bytes, row_blocks(_output_rows(table)))


def _head_pieces(table: Table) -> Iterator[bytes]:
    """Settings, sizes and words; settings that only training uses have fastText's defaults."""
    n_words, dim = table.rows.shape
    subwords = table.model.subwords
    ngrams = NGrams(0, 0, 0) if subwords is None else subwords.ngrams
    counts = np.ones(n_words, int64) if table.counts is None else np.maximum(table.counts, 1)
    settings = {
        "dim": dim,
        "ws": table.model.settings.get("window", 5),
        "epoch": 5,
        "minCount": 5,
        "neg": 5,
        "wordNgrams": 1,
        "loss": NEGATIVE_SAMPLING_LOSS,
        "model": SKIPGRAM_MODEL,
        "bucket": ngrams.n_buckets,
        "minn": ngrams.shortest,
        "maxn": ngrams.longest,
        "lrUpdateRate": 100,
        "t": 1e-4,
    }
    yield HEAD.pack(MAGIC, WRITTEN_VERSION, *settings.values())
    yield SIZES.pack(n_words, n_words, 0, int(counts.sum()), -1)
    for word, count in zip(table.words, counts.tolist(), strict=True):
        yield encoded(word) + b"\0" + ENTRY.pack(count, WORD_TYPE)


def _bucket_blocks(subwords: Subwords, dim: int) -> Iterator[ndarray]:
    """The rows of all buckets, float32 (some, dim), 0 for buckets without a vector."""
    n_buckets = subwords.ngrams.n_buckets
    step = max(1, FLOATS_PER_WRITE // dim)
    for first in range(0, n_buckets, step):
        block = np.zeros((min(step, n_buckets - first), dim), float32)
        begin, end = np.searchsorted(subwords.buckets, [first, first + len(block)])
        block[subwords.buckets[begin:end] - first] = subwords.rows[begin:end]
        yield block


def _output_rows(table: Table) -> ndarray:
    """The output vectors of the words, float32 (words, dim); zeros where they have none."""
    outputs = table.model.output_vectors
    if outputs is None or outputs.shape != table.model.vectors.shape:
        return np.broadcast_to(float32(0), table.rows.shape)
    return outputs[: len(table.rows)]


def _as_bytes(rows: ndarray) -> bytes:
    return np.ascontiguousarray(rows, "<f4").tobytes()


FASTTEXT = Format(
    name="fasttext",
    meaning=(
        "a complete fastText skip-gram model (.bin): words, and n-grams for words that were never"
        " seen"
    ),
    programs="fastText, gensim's load_facebook_vectors",
    is_text=True,
    has_ngrams=True,
    recognises=lambda head: head.startswith(struct.pack("<i", MAGIC)),
    read=read,
    write=write,
)
