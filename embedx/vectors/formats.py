"""Vector files of other programs: word2vec text and binary, fastText .vec, GloVe text; plain or compressed.

    word2vec text, .vec   "words dim", then a line for each word: the word, a space, dim numbers
    GloVe text            the same without the first line
    word2vec binary       "words dim", then for each word: the word, a space, dim little-endian float32 (and a newline, or not)

What a file is follows from its content; its name does not matter. A word that occurs twice keeps its first vector, as in
gensim, and a note says how many did. Words are separated from numbers by U+0020 alone, so a word may hold U+00A0.
"""

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from embedx.errors import EmbedxError
from embedx.labeled.files import Room
from embedx.run.memory import available_memory
from embedx.run.progress import Progress, Silent
from embedx.text.sources import Source, is_url
from embedx.text.streams import UnpackedReader

# First bytes of files one may take for vectors, and what to do with them instead.
FOREIGN = {
    b"\x80": "a pickle, perhaps gensim's own format; opening it would run whatever code is in it: write the vectors by "
    "gensim's KeyedVectors.save_word2vec_format or, if you trust where it is from, add --trust-pickle to `embedx eval`",
    b"\xba\x16\x4f\x2f": "a fastText .bin model; give the .vec file that fastText wrote beside it or, unpacked and on this "
    "machine, the file itself",
    b"\x93NUMPY": "a bare numpy array without words; give the model folder",
    b"PK\x03\x04": "a zip archive; unpack it first",
}
KNOWN = "word2vec text or binary, fastText .vec and GloVe text files are read"

HEADER = re.compile(rb"\s*(\d{1,12})\s+(\d{1,9})\s*")
TWO_NUMBERS = re.compile(rb"\s*\d+\s+\d+\s*")

BLOCK_BYTES = 1 << 22
HEAD_BYTES = 1 << 20  # enough for a header and the first vector, even of 50,000 dimensions
MOST_LINE_BYTES = 1 << 25
MOST_SHOWN = 40  # characters of a word or number that a message repeats


class Layout(NamedTuple):
    """What the head of a file tells."""

    words: int | None  # None without a header
    dim: int
    binary: bool


def read(path: str | Path, progress: Progress | None = None) -> tuple[list[str], np.ndarray]:
    """The words of a vector file and their vectors, float32 (words, dim). Raises EmbedxError with file, line and remedy."""
    progress = progress or Silent()
    name = str(path)
    if not (is_url(name) or os.path.exists(name)):
        raise EmbedxError(f"{name}: no such file or model folder")
    with UnpackedReader(Source(name, "vectors", None)) as file:  # once, for it may be a pipe
        head = first_bytes(file)
        file.unread(head)
        layout = detect(name, head)
        progress.start("Reading vectors", layout.words, "words")
        words, vectors = (read_binary if layout.binary else read_text)(name, io.BufferedReader(file), layout, progress)
        progress.finish()
    if not words:
        raise EmbedxError(f"{name}: holds no word; {KNOWN}")
    return without_duplicates(name, words, vectors, progress)


def first_bytes(file: UnpackedReader) -> bytes:
    """HEAD_BYTES of it, or all."""
    pieces = []
    n_bytes = HEAD_BYTES
    while n_bytes and (piece := file.read(n_bytes)):
        pieces.append(piece)
        n_bytes -= len(piece)
    return b"".join(pieces)


def shown(text: object) -> str:
    """A word or a number in a message, which may be of any length where a file is not what it seems."""
    written = repr(text)
    return written if len(written) <= MOST_SHOWN + 2 else f"{written[: MOST_SHOWN + 1]}…{written[-1]}"


def detect(name: str, head: bytes) -> Layout:
    """What kind of file begins with `head`."""
    for magic, advice in FOREIGN.items():
        if head.startswith(magic):
            raise EmbedxError(f"{name}: this is {advice}")
    first, _, rest = head.partition(b"\n")
    header = HEADER.fullmatch(first)
    if header:
        words, dim = int(header[1]), int(header[2])
        if dim == 0:
            raise EmbedxError(f"{name}:1: the header says 0 dimensions; it must read `words dim`")
        return Layout(words, dim, binary=bool(rest.strip()) and not is_text_row(rest.partition(b"\n")[0], dim))
    if TWO_NUMBERS.fullmatch(first):
        raise EmbedxError(f"{name}:1: numbers too large for a header `words dim`; mend it, or write the file again")
    fields = first.split()
    if len(fields) > 1 and numeric(fields[-1]):
        dim = len(fields) - 1
        while dim > 1 and not numeric(fields[-dim]):  # the word of a GloVe file may hold spaces
            dim -= 1
        return Layout(None, dim, binary=False)
    raise EmbedxError(f"{name}:1: neither a header `words dim` nor a word with its vector; {KNOWN}")


def is_text_row(line: bytes, dim: int) -> bool:
    """Whether `line` is a word and numbers; also when one number is misspelt, so that the error can name it."""
    fields = line.split()
    if len(fields) < 2:
        return False
    return all(map(numeric, fields[1:])) or (len(fields) == dim + 1 and b" ".join(fields[1:]).isascii() and line.isascii())


def numeric(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


# ---- text


def read_text(name: str, stream: BinaryIO, layout: Layout, progress: Progress) -> tuple[list[str], np.ndarray]:
    words: list[str] = []
    blocks = [np.empty((0, layout.dim), np.float32)]
    number = 1  # of the line to be read next
    room = Room(name)
    if layout.words is not None:
        stream.readline()
        number = 2
    for lines in line_blocks(stream):
        if any(len(line) > MOST_LINE_BYTES for line in lines):
            raise EmbedxError(f"{name}: a line of more than {MOST_LINE_BYTES:,} bytes; {KNOWN}")
        block_words, block = parse(name, number, lines, layout)
        room.take(2 * block.nbytes + sum(map(len, lines)))
        words += block_words
        blocks.append(block)
        number += len(lines)
        progress.update(len(words))
    if layout.words not in (None, len(words)):
        raise EmbedxError(
            f"{name}: the first line promises {layout.words:,} words, but {len(words):,} follow; "
            "the file is cut short or its first line wrong: write or fetch it again"
        )
    return words, np.concatenate(blocks)


def line_blocks(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of the stream, a few megabytes at a time."""
    pieces: list[bytes] = []  # of a line that goes on
    n_bytes = 0  # of them
    while (chunk := stream.read(BLOCK_BYTES)) and n_bytes <= MOST_LINE_BYTES:
        n_bytes += len(chunk)
        if b"\n" in chunk:
            *lines, chunk = b"".join([*pieces, chunk]).split(b"\n")
            yield lines
            pieces = []
            n_bytes = len(chunk)
        pieces.append(chunk)
    if tail := b"".join(pieces):
        yield [tail]


def parse(name: str, number: int, lines: list[bytes], layout: Layout) -> tuple[list[str], np.ndarray]:
    """Words and vectors of some lines, the first of which has the given number; blank lines do not count.

    numpy's own reader takes 50 ns for a number, and is followed only where its answer leaves no doubt.
    """
    parts = [line.decode("utf-8", "replace").partition(" ") for line in lines if line.strip()]
    if not parts:
        return [], np.empty((0, layout.dim), np.float32)
    try:
        rows = [numbers for _, _, numbers in parts if numbers.strip()] or ["none"]  # of nothing it warns
        vectors = np.loadtxt(rows, np.float32, comments=None, ndmin=2)
    except ValueError:
        vectors = np.empty((0, 0), np.float32)
    words = [word for word, _, _ in parts]
    if vectors.shape == (len(parts), layout.dim) and np.isfinite(vectors).all() and all(words):
        return words, vectors
    each = [parse_line(f"{name}:{i}", line, layout) for i, line in enumerate(lines, number) if line.strip()]
    return [word for word, _ in each], np.array([vector for _, vector in each], np.float32)


def parse_line(where: str, line: bytes, layout: Layout) -> tuple[str, list[float]]:
    """The word and the vector of one line, or an error that says what is wrong with it."""
    word, *numbers = line.decode("utf-8", "replace").rstrip(" \r").split(" ")
    dim = layout.dim
    if layout.words is None and len(numbers) > dim and not numeric(numbers[-dim - 1].encode()):
        # GloVe's Common Crawl files have words such as ". . ."
        word, numbers = " ".join([word, *numbers[:-dim]]), numbers[-dim:]
    if not word:
        raise EmbedxError(f"{where}: no word before the vector; delete the line")
    if len(numbers) != dim:
        raise EmbedxError(f"{where}: {len(numbers)} numbers after the word {shown(word)}, not {dim}; mend or delete the line")
    for number in numbers:
        which = f"{where}: {shown(number)} in the vector of {shown(word)}"
        if not numeric(number.encode()):
            raise EmbedxError(f"{which} is not a number; mend or delete the line")
        if not abs(float(number)) <= float(np.finfo(np.float32).max):
            raise EmbedxError(f"{which} is not finite; mend or delete the line")
    return word, [float(number) for number in numbers]


# ---- binary


def read_binary(name: str, stream: BinaryIO, layout: Layout, progress: Progress) -> tuple[list[str], np.ndarray]:
    stream.readline()
    count, dim = layout.words or 0, layout.dim
    try:
        if 4 * count * dim > available_memory():
            raise MemoryError
        vectors = np.empty((count, dim), np.dtype("<f4"))
    except (MemoryError, ValueError):
        raise EmbedxError(
            f"{name}:1: {count:,} vectors of {dim:,} numbers do not fit into memory; is the first line right?"
        ) from None
    space = vectors.data.cast("B") if count else memoryview(b"")
    width = 4 * dim
    words: list[str] = []
    chunk, at = b"", 0
    for row in range(count):
        gap = chunk.find(b" ", at)
        while gap < 0 or len(chunk) < gap + 1 + width:
            # Twice as much each time, so that what looks like a long word is not searched over and over.
            more = stream.read(max(BLOCK_BYTES, len(chunk) - at))
            if not more:
                raise EmbedxError(
                    f"{name}: ends within word {row + 1:,} of {count:,}; the file is cut short: write or fetch it again"
                )
            progress.update(row)
            chunk, at = chunk[at:] + more, 0
            gap = chunk.find(b" ")
            if gap < 0 and len(chunk) > MOST_LINE_BYTES:
                raise EmbedxError(f"{name}: word {row + 1:,} of {count:,} has no end; is this really word2vec's binary format?")
        words.append(chunk[at:gap].lstrip(b"\n").decode("utf-8", "replace"))  # word2vec.c ends vectors by a newline
        at = gap + 1 + width
        space[row * width : (row + 1) * width] = chunk[gap + 1 : at]
    if (chunk[at:] + stream.read(2)).strip():
        raise EmbedxError(f"{name}: goes on after the {count:,} words that its first line promises; write or fetch it again")
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        word = words[int(np.argmin(finite))]
        raise EmbedxError(f"{name}: the vector of {shown(word)} is not finite; is this really word2vec's binary format?")
    return words, vectors.astype(np.float32, copy=False)


def without_duplicates(name: str, words: list[str], vectors: np.ndarray, progress: Progress) -> tuple[list[str], np.ndarray]:
    first = {word: row for row, word in reversed(list(enumerate(words)))}
    if len(first) == len(words):
        return words, vectors
    rows = sorted(first.values())
    progress.note(f"{name}: {len(words) - len(rows):,} words occur twice; the first vector of each is kept")
    return [words[row] for row in rows], vectors[rows]
