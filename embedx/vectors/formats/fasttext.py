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
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, int64, ndarray

from embedx.errors import EmbedxError
from embedx.storage.schema import first_not_finite, row_blocks
from embedx.text.ngrams import MAX_CHARACTERS, NGrams, encoded
from embedx.training.progress import Progress
from embedx.vectors.formats.contract import (
    AGAIN,
    Format,
    Found,
    Opened,
    Table,
    check_finite,
    check_memory,
    write_pieces,
)
from embedx.vectors.subwords import Subwords

MAGIC, VERSION, VERSIONS = 793712314, 12, (11, 12)
HEAD, SIZES, ENTRY, SHAPE = (
    struct.Struct(f"<{fields}") for fields in ("2i12id", "3i2q", "qb", "B2q")
)
SKIPGRAM, SUPERVISED, NEGATIVE_SAMPLING = 2, 3, 2
WORD = 0
MAX_WORD_BYTES = 1 << 25
BYTES_OF_STRING = 100  # of a word in memory, about
BLOCK_FLOATS = 1 << 22  # written at a time
SMALLER = "give the .vec file beside it, or a smaller model"


def compiled() -> Any:
    """The compiled functions, which take an import of numba."""
    from embedx.engine import subwords

    return subwords


# ---- reading


class Head(NamedTuple):
    """What stands before the rows, and where these begin."""

    dim: int
    ngrams: NGrams | None
    n_buckets: int
    words: list[bytes]
    counts: ndarray  # int64 (words,)
    end: int


def read(file: Opened) -> Found:
    """Raises `EmbedxError` also for a model that is quantised, pruned or a classifier."""
    name, progress = file.name, file.progress
    with open(file.path("a fastText model"), "rb") as opened:
        data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    head = _head(name, data)
    raw = head.words
    rows, end = _matrix(name, data, head.end, "input", (len(raw) + head.n_buckets, head.dim))
    _, end = _matrix(name, data, end, "output", (None, head.dim))
    if end != len(data):
        raise EmbedxError(
            f"{name}: continues for {len(data) - end:,} bytes after the model; {AGAIN}"
        )
    own, of_buckets = rows[: len(raw)], rows[len(raw) :]
    words = [name.decode("utf-8", "surrogateescape") for name in raw]
    check_memory(
        name,
        own.nbytes + (compiled().listing_bytes(raw, head.ngrams) if head.ngrams else 0),
        SMALLER,
    )
    check_finite(name, words, own, AGAIN, "the row of the word")
    vectors, subwords = np.array(own, float32), None
    if head.ngrams is not None:
        buckets = _add_ngrams(raw, vectors, of_buckets, head.ngrams, progress)
        check_finite(name, words, vectors, AGAIN, "the row of an n-gram of the word")
        subwords = Subwords(head.ngrams, of_buckets, np.arange(len(of_buckets), dtype=np.int32))
        # fastText may leave rows that it does not need as malloc gave them
        if first_not_finite(of_buckets) is not None:
            progress.note(
                f"{name}: {len(of_buckets) - len(buckets):,} rows of n-grams that no word has are"
                " left out"
            )
            subwords = Subwords(head.ngrams, of_buckets[buckets], buckets)
    return Found(words, vectors, head.counts, own, subwords)


def _head(name: str, data: mmap.mmap) -> Head:
    if len(data) < HEAD.size + SIZES.size:
        raise EmbedxError(f"{name}: ends within the head of a fastText model; {AGAIN}")
    _, version, dim, *others = HEAD.unpack_from(data, 0)
    model, n_buckets, shortest, longest = others[6:10]
    size, n_words, n_labels, n_tokens, n_pruned = SIZES.unpack_from(data, HEAD.size)
    if version not in VERSIONS:
        raise EmbedxError(
            f"{name}: version {version} of fastText's format; versions 11 and 12 are read"
        )
    if model == SUPERVISED or n_pruned >= 0:
        raise EmbedxError(
            f"{name}: a classifier or a pruned model of fastText, which is not read; give a"
            " skipgram or cbow model"
        )
    at = HEAD.size + SIZES.size
    has_entries = size == n_words + n_labels and size * (ENTRY.size + 1) <= len(data) - at
    if (
        min(dim - 1, n_buckets, n_words, n_labels, n_tokens) < 0
        or longest > MAX_CHARACTERS
        or not has_entries
    ):
        raise EmbedxError(
            f"{name}: {dim} dimensions, {n_buckets} buckets, n-grams of up to {longest} characters"
            f" (at most {MAX_CHARACTERS}) and {size:,} entries in a file of {len(data):,} bytes; it"
            f" is damaged or cut short: {AGAIN}"
        )
    check_memory(name, BYTES_OF_STRING * size, SMALLER)
    words = []
    counts = np.zeros(n_words, int64)
    for k in range(size):
        end = data.find(b"\0", at, at + MAX_WORD_BYTES)
        if end < 0 or end + 1 + ENTRY.size > len(data):
            raise EmbedxError(
                f"{name}: ends within word {k + 1:,} of {size:,}, or that has no end; {AGAIN}"
            )
        count, kind = ENTRY.unpack_from(data, end + 1)
        if count < 0 or (kind == WORD) != (k < n_words):
            raise EmbedxError(
                f"{name}: word {k + 1:,} of {size:,} has the count {count:,} and the type {kind};"
                f" {AGAIN}"
            )
        if k < n_words:  # labels stand after the words, and have no rows
            words.append(data[at:end])
            counts[k] = count
        at = end + 1 + ENTRY.size
    has_ngrams = n_buckets > 0 and longest >= max(shortest, 1)
    return Head(
        dim,
        NGrams(max(shortest, 1), longest, n_buckets) if has_ngrams else None,
        n_buckets,
        words,
        counts,
        at,
    )


def _matrix(
    name: str, data: mmap.mmap, at: int, what: str, shape: tuple[int | None, int]
) -> tuple[ndarray, int]:
    """The rows that begin at a byte, a view of the file, and their end; `shape` is what they must
    have, None for any.
    """
    if at + SHAPE.size > len(data):
        raise EmbedxError(f"{name}: ends before its {what} rows; {AGAIN}")
    is_quantised, n_rows, dim = SHAPE.unpack_from(data, at)
    if is_quantised:
        raise EmbedxError(
            f"{name}: a quantised model of fastText (.ftz), which is not read; give the .bin that"
            " it was made of"
        )
    begin = at + SHAPE.size
    if (
        dim != shape[1]
        or n_rows < 0
        or shape[0] not in (None, n_rows)
        or 4 * n_rows * dim > len(data) - begin
    ):
        wanted = f"{'' if shape[0] is None else f'{shape[0]:,} '}rows of {shape[1]:,} numbers"
        raise EmbedxError(
            f"{name}: {n_rows:,} {what} rows of {dim:,} numbers in {len(data) - begin:,} bytes,"
            f" where {wanted} should be; it is damaged or cut short: {AGAIN}"
        )
    rows = np.frombuffer(data, "<f4", n_rows * dim, begin).reshape(n_rows, dim)
    return rows, begin + rows.nbytes


def _add_ngrams(
    words: Sequence[bytes], vectors: ndarray, rows: ndarray, ngrams: NGrams, progress: Progress
) -> ndarray:
    """Make each word's own row, in `vectors`, the mean of it and the rows of the word's n-grams;
    the buckets of all words.
    """
    parts, buckets = compiled().listed(words, ngrams)
    progress.start("Adding up n-grams", len(words), "words")
    for k in range(len(words)):
        first, end = parts.offsets[k : k + 2]
        with np.errstate(all="ignore"):  # check_finite reports what is not finite
            vectors[k] += rows[buckets[parts.rows[first + 1 : end] - len(words)]].sum(axis=0)
            vectors[k] /= float32(end - first)
        if k % 10_000 == 0:
            progress.update(k)
    progress.finish()
    return buckets


# ---- writing


def write(path: Path, table: Table) -> None:
    if (wrong := next((word for word in table.words if "\0" in word), None)) is not None:
        raise EmbedxError(
            f"the word {wrong!r} holds a zero character, which ends words in a fastText .bin model"
        )
    write_pieces(path, pieces(table))


def pieces(table: Table) -> Iterator[bytes]:
    """The bytes of a skip-gram model with negative sampling; where the output rows are not those of
    words, zeros.
    """
    (n_words, dim), model = table.rows.shape, table.model
    subwords = model.subwords
    ngrams = subwords.ngrams if subwords else NGrams(0, 0, 0)
    counts = np.ones(n_words, int64) if table.counts is None else np.maximum(table.counts, 1)
    window = model.settings.get("window", 5)
    yield HEAD.pack(  # what only training uses has fastText's defaults
        MAGIC,
        VERSION,
        dim,
        window,
        5,
        5,
        5,
        1,
        NEGATIVE_SAMPLING,
        SKIPGRAM,
        ngrams.n_buckets,
        ngrams.shortest,
        ngrams.longest,
        100,
        1e-4,
    )
    yield SIZES.pack(n_words, n_words, 0, int(counts.sum()), -1)
    for word, count in zip(table.words, counts.tolist(), strict=True):
        yield encoded(word) + b"\0" + ENTRY.pack(count, WORD)
    yield SHAPE.pack(0, n_words + ngrams.n_buckets, dim)
    own = model.arrays.get("word_part", model.vectors)[:n_words] if subwords else table.rows
    yield from map(_bytes_of, row_blocks(own))
    if subwords is not None:
        step = max(1, BLOCK_FLOATS // dim)
        for first in range(0, ngrams.n_buckets, step):
            # stays 0 for buckets without a vector
            block = np.zeros((min(step, ngrams.n_buckets - first), dim), float32)
            begin, end = np.searchsorted(subwords.buckets, [first, first + len(block)])
            block[subwords.buckets[begin:end] - first] = subwords.rows[begin:end]
            yield _bytes_of(block)
    yield SHAPE.pack(0, n_words, dim)
    has_outputs = (
        model.output_vectors is not None and model.output_vectors.shape == model.vectors.shape
    )
    outputs = (
        model.arrays["output"][:n_words]
        if has_outputs
        else np.broadcast_to(float32(0), (n_words, dim))
    )
    yield from map(_bytes_of, row_blocks(outputs))


def _bytes_of(rows: ndarray) -> bytes:
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
