"""word2vec's text and binary files, fastText's .vec, and GloVe's text.

    word2vec          a first line `words dim`, then a line for each word: the word, a space, its
                      numbers. fastText's .vec is the same, with spaces at the ends of lines
    word2vec-binary   the same first line, then for each word the word, a space, and dim
                      little-endian float32; word2vec.c ends each vector by a newline and gensim did
                      not: both are read
    glove             the lines of word2vec's text without the first; words may hold spaces, as
                      those of Common Crawl do

Mikolov's word2vec.c; Pennington, Socher & Manning 2014; gensim's `load_word2vec_format`. Words are
separated from numbers by U+0020 alone, so a word may hold U+00A0. Numbers are written with the
fewest digits that give the same one again.
"""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np

from embedx.errors import DataError, counted
from embedx.labeled.files import MemoryBudget
from embedx.storage.schema import is_utf8
from embedx.vectors.formats import contract
from embedx.vectors.formats.contract import (
    AGAIN,
    FileContent,
    Format,
    OpenFile,
    Table,
    check_finite,
    check_memory,
    shown,
    write_pieces,
)

HEADER = re.compile(rb"\s*(\d{1,12})\s+(\d{1,9})\s*")
CONTROL_CHARACTER = re.compile(rb"[\x00-\x1f\x7f]")
MAX_FLOAT32 = float(np.finfo(np.float32).max)
CHECK_FORMAT = "check that this is word2vec's binary format"


# ---- recognising


def layout(head: bytes) -> str:
    """The format of a file that begins so; "" if it is none."""
    first, _, rest = head.partition(b"\n")
    fields = first.split()
    if not HEADER.fullmatch(first):
        return "glove" if len(fields) > 1 and is_number(fields[-1]) else ""
    dim = int(fields[1])
    if dim == 0 or not rest.strip():
        return "word2vec"
    second = rest.partition(b"\n")[0]
    return "word2vec" if _is_line_of_text(second.split(), dim) else "word2vec-binary"


def _is_line_of_text(fields: list[bytes], dim: int) -> bool:
    """Whether these are a word, which may hold spaces, and `dim` numbers, or what was meant to be
    such a line: an error can name the number that is misspelt.
    """
    is_word_of_one_field = len(fields) > 1 and all(map(is_number, fields[1:]))
    ends_in_vector = len(fields) > dim and all(map(is_number, fields[-dim:]))
    has_length = len(fields) == dim + 1 and b"".join(fields).isascii()
    return is_word_of_one_field or ends_in_vector or has_length


def header(file: OpenFile) -> tuple[int, int]:
    """Words and dimensions, from the first line, which is read. Raises EmbedxError if
    it cannot be.
    """
    count, dim = map(int, file.stream.readline().split())
    if dim == 0:
        raise DataError(file.name, 1, "the header says 0 dimensions", "write `words dim`")
    return count, dim


def is_number(field: bytes | str) -> bool:
    """Whether Python reads it as a number, which may be infinite or not a number."""
    try:
        float(field)
    except ValueError:
        return False
    return True


# ---- text


def read_text(file: OpenFile) -> FileContent:
    """The words that the header declares."""
    count, dim = header(file)
    content = read_lines(file, dim, count)
    n_words = len(content.words)
    if count != n_words:
        problem = f"the first line declares {count:,} words, but {n_words:,} follow"
        remedy = f"{AGAIN}, or correct the first line"
        raise DataError(file.name, None, problem, remedy)
    return content


def read_glove(file: OpenFile) -> FileContent:
    """The words of all lines; the first has as many dimensions as numbers at its end."""
    fields = file.head.partition(b"\n")[0].split()
    dim = len(fields) - 1
    while dim > 1 and not is_number(fields[-dim]):
        dim -= 1
    return read_lines(file, dim, None)


def read_lines(file: OpenFile, dim: int, count: int | None) -> FileContent:
    """The words and vectors of the lines after the header; `count` is that of the header, None
    without one.
    """
    words = []
    blocks = [np.empty((0, dim), np.float32)]
    next_line = 1 if count is None else 2
    budget = MemoryBudget(file.name)
    file.progress.start("Reading vectors", count, "words")
    for lines in line_blocks(file.name, file.stream):
        block_words, block = parse(file.name, next_line, lines, dim)
        budget.take(2 * block.nbytes + sum(map(len, lines)))
        words += block_words
        blocks.append(block)
        next_line += len(lines)
        file.progress.update(len(words))
    file.progress.finish()
    return FileContent(words, np.concatenate(blocks))


def line_blocks(name: str, stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of the stream, a few megabytes at a time. Raises EmbedxError for a line without
    end.
    """
    lines = []
    n_bytes = 0
    while line := stream.readline(contract.MAX_LINE_BYTES + 1):
        if len(line) > contract.MAX_LINE_BYTES:
            problem = f"a line of more than {contract.MAX_LINE_BYTES:,} bytes"
            raise DataError(name, None, problem, "check that this is a file of vectors")
        lines.append(line)
        n_bytes += len(line)
        if n_bytes >= contract.BLOCK_BYTES:
            yield lines
            lines = []
            n_bytes = 0
    if lines:
        yield lines


def parse(name: str, first: int, lines: list[bytes], dim: int) -> tuple[list[str], np.ndarray]:
    """Words and vectors of some lines, of which `first` is the number of the first; blank lines do
    not count.

    numpy's own reader takes 50 ns for a number; its result is used only where it leaves no doubt.
    """
    parts = [
        line.decode("utf-8", "surrogateescape").partition(" ") for line in lines if line.strip()
    ]
    words = [word for word, _, _ in parts]
    try:
        # numpy warns of no rows at all
        rows = [numbers for _, _, numbers in parts if numbers.strip()] or ["none"]
        vectors = np.loadtxt(rows, np.float32, comments=None, ndmin=2)
    except ValueError:
        vectors = np.empty((0, 0), np.float32)
    if vectors.shape == (len(parts), dim) and np.isfinite(vectors).all() and all(words):
        return words, vectors
    parsed = [
        parse_line(f"{name}:{number}", line, dim)
        for number, line in enumerate(lines, first)
        if line.strip()
    ]
    vectors = np.array([vector for _, vector in parsed], np.float32).reshape(-1, dim)
    return [word for word, _ in parsed], vectors


def parse_line(where: str, line: bytes, dim: int) -> tuple[str, list[float]]:
    """The word and the vector of one line. Raises EmbedxError that says what is wrong with it."""
    word, *numbers = line.decode("utf-8", "surrogateescape").rstrip(" \r\n").split(" ")
    if len(numbers) > dim and not is_number(numbers[-dim - 1]):
        # GloVe's Common Crawl files have words such as ". . ."
        word = " ".join([word, *numbers[:-dim]])
        numbers = numbers[-dim:]
    if not word:
        raise DataError(where, None, "no word before the vector", "delete the line")
    if len(numbers) != dim:
        problem = f"{counted(len(numbers), 'number')} after the word {shown(word)}, not {dim}"
        raise DataError(where, None, problem, "fix or delete the line")
    return word, [_number(where, number, word) for number in numbers]


def _number(where: str, text: str, word: str) -> float:
    """A number of the vector of a word. Raises EmbedxError if it is none, or not finite."""
    kind = "a number"
    if is_number(text):
        number = float(text)
        if abs(number) <= MAX_FLOAT32:
            return number
        kind = "finite"
    problem = f"{shown(text)} in the vector of {shown(word)} is not {kind}"
    raise DataError(where, None, problem, "fix or delete the line")


def header_line(table: Table) -> list[bytes]:
    """The first line: words and dimensions."""
    return [b"%d %d\n" % table.rows.shape]


def text_lines(table: Table) -> Iterator[bytes]:
    """A line for each word."""
    for rows, vectors, _ in table.blocks():
        for word, vector in zip(table.words[rows], vectors, strict=True):
            yield f"{word} {' '.join(map(str, vector))}\n".encode()


def write_text(path: Path, table: Table) -> None:
    """Write word2vec's text."""
    write_pieces(path, chain(header_line(table), text_lines(table)))


def write_glove(path: Path, table: Table) -> None:
    """Write the same without the first line."""
    write_pieces(path, text_lines(table))


# ---- binary


def read_binary(file: OpenFile) -> FileContent:
    """The words that the header declares."""
    count, dim = header(file)
    check_memory(f"{file.name}:1", 4 * count * dim, "is the first line right?")
    vectors = np.empty((count, dim), "<f4")
    words: list[str] = []
    # Each vector ends by a newline in the files of word2vec.c, and did not in those of gensim.
    ends_by_newline = False
    file.progress.start("Reading vectors", count, "words")
    for row in range(count):
        name = _read_name(file, row, count)
        vector = file.stream.read(4 * dim)
        if len(vector) < 4 * dim:
            problem = f"ends within {_place(row, count)}"
            raise DataError(file.name, None, problem, f"{AGAIN}, because it is cut short")
        vectors[row] = np.frombuffer(vector, "<f4")
        has_newline = name.startswith(b"\n")
        if row == 1:
            ends_by_newline = has_newline
        name = name.lstrip(b"\n")
        if row > 0 and (has_newline != ends_by_newline or not is_name(name, has_newline)):
            problem = f"{_place(row, count)} begins with {shown(name)}, which is no name"
            remedy = (
                f"{AGAIN}, because it is damaged, or a name before this one holds a blank, which"
                " ends names in this format"
            )
            raise DataError(file.name, None, problem, remedy)
        words.append(name.decode("utf-8", "surrogateescape"))
        if row % 10_000 == 0:
            file.progress.update(row)
    # A newline may follow the last vector, and another.
    if file.stream.read(3).strip():
        problem = f"continues after the {count:,} words that its first line declares"
        raise DataError(file.name, None, problem, AGAIN)
    file.progress.finish()
    check_finite(file.name, words, vectors, CHECK_FORMAT)
    return FileContent(words, vectors.astype("f4", copy=False))


def _read_name(file: OpenFile, row: int, count: int) -> bytes:
    """The bytes before the next space, which is read too."""
    name = bytearray()
    while (byte := file.stream.read(1)) not in (b" ", b""):
        name += byte
        if len(name) > contract.MAX_LINE_BYTES:
            raise DataError(file.name, None, f"{_place(row, count)} has no end", CHECK_FORMAT)
    return bytes(name)


def _place(row: int, count: int) -> str:
    """What a message calls the word of a row."""
    return f"word {row + 1:,} of {count:,}"


def is_name(name: bytes, after_newline: bool) -> bool:
    """Whether a name is one, and not the end of a vector that was read from a wrong place on.

    A newline before it shows the right place, and none shows gensim's files, whose names are UTF-8.
    Nearly all numbers have bytes that are not, or control characters.
    """
    if after_newline:
        return b"\n" not in name
    is_text = is_utf8(name.decode("utf-8", "surrogateescape"))
    return is_text and not CONTROL_CHARACTER.search(name)


def write_binary(path: Path, table: Table) -> None:
    """Write word2vec's binary format."""
    rows = (zip(table.words[rows], vectors, strict=True) for rows, vectors, _ in table.blocks())
    lines = (
        word.encode() + b" " + vector.tobytes() + b"\n"
        for word, vector in chain.from_iterable(rows)
    )
    write_pieces(path, chain(header_line(table), lines))


WORD2VEC = Format(
    name="word2vec",
    meaning="text: a first line `words dim`, then one word and its numbers per line",
    programs="word2vec.c, gensim, fastText's .vec, spaCy",
    suffixes=(".vec", ".txt"),
    dtypes=("float32", "float16"),
    is_text=True,
    recognises=lambda head: layout(head) == "word2vec",
    read=read_text,
    write=write_text,
)
WORD2VEC_BINARY = Format(
    name="word2vec-binary",
    meaning="binary: a first line `words dim`, then each word and its float32 numbers",
    programs="word2vec.c, gensim",
    suffixes=(".bin",),
    is_text=True,
    recognises=lambda head: layout(head) == "word2vec-binary",
    read=read_binary,
    write=write_binary,
)
GLOVE = Format(
    name="glove",
    meaning="text: as word2vec, without the first line",
    programs="GloVe, gensim",
    dtypes=("float32", "float16"),
    is_text=True,
    recognises=lambda head: layout(head) == "glove",
    read=read_glove,
    write=write_glove,
)
