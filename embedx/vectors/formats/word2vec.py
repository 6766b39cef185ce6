"""word2vec's text and binary files, fastText's .vec, and GloVe's text.

    word2vec          a first line `words dim`, then a line for each word: the word, a space, its numbers. fastText's .vec is
                      the same, with spaces at the ends of lines
    word2vec-binary   the same first line, then for each word the word, a space, and dim little-endian float32; word2vec.c ends
                      each vector by a newline and gensim did not: both are read
    glove             the lines of word2vec's text without the first; words may hold spaces, as those of Common Crawl do

Mikolov's word2vec.c; Pennington, Socher & Manning 2014; gensim's `load_word2vec_format`. Words are separated from numbers by
U+0020 alone, so a word may hold U+00A0. Numbers are written with the fewest digits that give the same one again.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO, ClassVar

import numpy as np

from embedx.errors import EmbedxError
from embedx.labeled.files import MemoryBudget
from embedx.training.progress import Progress
from embedx.vectors.formats import contract
from embedx.vectors.formats.contract import Format, Found, Opened, Table, check_finite, new_vectors, shown

HEADER = re.compile(rb"\s*(\d{1,12})\s+(\d{1,9})\s*")
TWO_NUMBERS = re.compile(rb"\s*\d+\s+\d+\s*")
MAX_FLOAT32 = float(np.finfo(np.float32).max)
IS_IT = "is this really word2vec's binary format?"
AGAIN = "write or fetch it again"


class Word2Vec(Format):
    name = "word2vec"
    meaning = "text: a first line `words dim`, then a word and its numbers a line"
    programs = "word2vec.c, gensim, fastText's .vec, spaCy"
    suffixes: ClassVar[tuple[str, ...]] = (".vec", ".txt")
    dtypes: ClassVar[tuple[str, ...]] = ("float32", "float16")
    is_packed = True
    ends_words = True

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return has_header(head) and continues_as_text(head)

    @classmethod
    def count(cls, name: str, head: bytes) -> int | None:
        return header(name, head)[0]

    @classmethod
    def read(cls, file: Opened, progress: Progress) -> Found:
        return read_text(file.name, file.stream, *header(file.name, file.head), progress)

    @classmethod
    def pieces(cls, table: Table) -> Iterator[bytes]:
        yield b"%d %d\n" % table.rows.shape
        yield from text_rows(table)


class Word2VecBinary(Word2Vec):
    name = "word2vec-binary"
    meaning = "binary: a first line `words dim`, then each word and its float32 numbers"
    programs = "word2vec.c, gensim"
    suffixes = (".bin",)
    dtypes = ("float32",)

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return has_header(head) and not continues_as_text(head)

    @classmethod
    def read(cls, file: Opened, progress: Progress) -> Found:
        return read_binary(file.name, file.stream, *header(file.name, file.head), progress)

    @classmethod
    def pieces(cls, table: Table) -> Iterator[bytes]:
        yield b"%d %d\n" % table.rows.shape
        for rows, vectors, _ in table.blocks():
            for word, vector in zip(table.words[rows], vectors, strict=True):
                yield word.encode() + b" " + vector.tobytes() + b"\n"


class Glove(Format):
    name = "glove"
    meaning = "text: as word2vec, without the first line"
    programs = "GloVe, gensim"
    dtypes = ("float32", "float16")
    has_mark = False
    is_packed = True
    ends_words = True

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        fields = head.partition(b"\n")[0].split()
        return len(fields) > 1 and is_number(fields[-1])

    @classmethod
    def read(cls, file: Opened, progress: Progress) -> Found:
        fields = file.head.partition(b"\n")[0].split()
        dim = len(fields) - 1
        while dim > 1 and not is_number(fields[-dim]):
            dim -= 1
        return read_text(file.name, file.stream, None, dim, progress)

    @classmethod
    def pieces(cls, table: Table) -> Iterator[bytes]:
        return text_rows(table)


# ---- recognising


def header(name: str, head: bytes) -> tuple[int, int]:
    """Words and dimensions, from the first line. Raises EmbedxError if it cannot be."""
    found = HEADER.fullmatch(head.partition(b"\n")[0])
    if not found:
        raise EmbedxError(f"{name}:1: numbers too large for a header `words dim`; fix it, or write the file again")
    if int(found[2]) == 0:
        raise EmbedxError(f"{name}:1: the header says 0 dimensions; it must read `words dim`")
    return int(found[1]), int(found[2])


def has_header(head: bytes) -> bool:
    """Whether the first line is two whole numbers."""
    return bool(TWO_NUMBERS.fullmatch(head.partition(b"\n")[0]))


def continues_as_text(head: bytes) -> bool:
    """Whether the lines after a header are text, or there are none: a word and numbers, also when one number is misspelt, so
    that the error can name it.
    """
    first, _, rest = head.partition(b"\n")
    found, line = HEADER.fullmatch(first), rest.partition(b"\n")[0]
    if not (found and int(found[2]) and rest.strip()):
        return True
    fields = line.split()
    return len(fields) > 1 and (all(map(is_number, fields[1:])) or (len(fields) == int(found[2]) + 1 and line.isascii()))


def is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


# ---- text


def read_text(name: str, stream: BinaryIO, count: int | None, dim: int, progress: Progress) -> Found:
    """The words and vectors of a file, from its beginning; `count` is that of the header, None without one."""
    words: list[str] = []
    blocks = [np.empty((0, dim), np.float32)]
    line = 1  # number of the line to be read next
    budget = MemoryBudget(name)
    if count is not None:
        stream.readline()
        line = 2
    for lines in line_blocks(name, stream):
        block_words, block = parse(name, line, lines, dim, has_header=count is not None)
        budget.take(2 * block.nbytes + sum(map(len, lines)))
        words += block_words
        blocks.append(block)
        line += len(lines)
        progress.update(len(words))
    if count not in (None, len(words)):
        raise EmbedxError(
            f"{name}: the first line promises {count:,} words, but {len(words):,} follow; the file is cut short or its first "
            f"line wrong: {AGAIN}"
        )
    return Found(words, np.concatenate(blocks))


def line_blocks(name: str, stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of the stream, a few megabytes at a time. Raises EmbedxError for a line without end."""
    lines: list[bytes] = []
    n_bytes = 0
    while line := stream.readline(contract.MAX_LINE_BYTES + 1):
        if len(line) > contract.MAX_LINE_BYTES:
            raise EmbedxError(
                f"{name}: a line of more than {contract.MAX_LINE_BYTES:,} bytes; word2vec text or binary, fastText .vec and "
                "GloVe text files are read"
            )
        lines.append(line)
        n_bytes += len(line)
        if n_bytes >= contract.BLOCK_BYTES:
            yield lines
            lines, n_bytes = [], 0
    if lines:
        yield lines


def parse(name: str, first: int, lines: list[bytes], dim: int, has_header: bool) -> tuple[list[str], np.ndarray]:
    """Words and vectors of some lines, of which `first` is the number of the first; blank lines do not count.

    numpy's own reader takes 50 ns for a number; its result is used only where it leaves no doubt.
    """
    parts = [line.decode("utf-8", "replace").partition(" ") for line in lines if line.strip()]
    if not parts:
        return [], np.empty((0, dim), np.float32)
    words = [word for word, _, _ in parts]
    try:
        rows = [numbers for _, _, numbers in parts if numbers.strip()] or ["none"]  # numpy warns of no rows at all
        vectors = np.loadtxt(rows, np.float32, comments=None, ndmin=2)
    except ValueError:
        vectors = np.empty((0, 0), np.float32)
    if vectors.shape == (len(parts), dim) and np.isfinite(vectors).all() and all(words):
        return words, vectors
    each = [parse_line(f"{name}:{i}", line, dim, has_header) for i, line in enumerate(lines, first) if line.strip()]
    return [word for word, _ in each], np.array([vector for _, vector in each], np.float32)


def parse_line(where: str, line: bytes, dim: int, has_header: bool) -> tuple[str, list[float]]:
    """The word and the vector of one line. Raises EmbedxError that says what is wrong with it."""
    word, *numbers = line.decode("utf-8", "replace").rstrip(" \r\n").split(" ")
    if not has_header and len(numbers) > dim and not is_number(numbers[-dim - 1].encode()):
        # GloVe's Common Crawl files have words such as ". . ."
        word, numbers = " ".join([word, *numbers[:-dim]]), numbers[-dim:]
    if not word:
        raise EmbedxError(f"{where}: no word before the vector; delete the line")
    if len(numbers) != dim:
        raise EmbedxError(f"{where}: {len(numbers)} numbers after the word {shown(word)}, not {dim}; fix or delete the line")
    for number in numbers:
        if not is_number(number.encode()) or not abs(float(number)) <= MAX_FLOAT32:
            what = "finite" if is_number(number.encode()) else "a number"
            raise EmbedxError(f"{where}: {shown(number)} in the vector of {shown(word)} is not {what}; fix or delete the line")
    return word, [float(number) for number in numbers]


def text_rows(table: Table) -> Iterator[bytes]:
    """A line for each word."""
    for rows, vectors, _ in table.blocks():
        for word, vector in zip(table.words[rows], vectors, strict=True):
            yield f"{word} {' '.join(map(str, vector))}\n".encode()


# ---- binary


def read_binary(name: str, stream: BinaryIO, count: int, dim: int, progress: Progress) -> Found:
    """The words and vectors of a file, from its beginning."""
    stream.readline()
    vectors = new_vectors(f"{name}:1", count, dim, "is the first line right?")
    buffer = vectors.data.cast("B") if count else memoryview(b"")
    width = 4 * dim
    words: list[str] = []
    chunk, at = b"", 0
    for row in range(count):
        space = chunk.find(b" ", at)
        while space < 0 or len(chunk) < space + 1 + width:
            # Twice as much each time, so that what looks like a long word is not searched over and over.
            more = stream.read(max(contract.BLOCK_BYTES, len(chunk) - at))
            if not more:
                raise EmbedxError(f"{name}: ends within word {row + 1:,} of {count:,}; the file is cut short: {AGAIN}")
            progress.update(row)
            chunk, at = chunk[at:] + more, 0
            space = chunk.find(b" ")
            if space < 0 and len(chunk) > contract.MAX_LINE_BYTES:
                raise EmbedxError(f"{name}: word {row + 1:,} of {count:,} has no end; {IS_IT}")
        words.append(chunk[at:space].lstrip(b"\n").decode("utf-8", "replace"))  # word2vec.c ends vectors by a newline
        at = space + 1 + width
        buffer[row * width : (row + 1) * width] = chunk[space + 1 : at]
    if (chunk[at:] + stream.read(2)).strip():
        raise EmbedxError(f"{name}: continues after the {count:,} words that its first line promises; {AGAIN}")
    check_finite(name, words, vectors, IS_IT)
    return Found(words, vectors.astype("f4", copy=False))
