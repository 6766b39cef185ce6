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

from embedx.errors import DataError
from embedx.labeled.files import MemoryBudget
from embedx.storage.schema import is_utf8
from embedx.vectors.formats import contract
from embedx.vectors.formats.contract import (
    AGAIN,
    Format,
    Found,
    Opened,
    Table,
    check_finite,
    check_memory,
    shown,
    write_pieces,
)

HEADER = re.compile(rb"\s*(\d{1,12})\s+(\d{1,9})\s*")
CONTROL_CHARACTER = re.compile(rb"[\x00-\x1f\x7f]")
MAX_FLOAT32 = float(np.finfo(np.float32).max)
IS_IT = "is this really word2vec's binary format?"


# ---- recognising


def layout(head: bytes) -> str:
    """The format of a file that begins so; "" if it is none."""
    first, _, rest = head.partition(b"\n")
    fields, next_fields = first.split(), rest.partition(b"\n")[0].split()
    if not HEADER.fullmatch(first):
        return "glove" if len(fields) > 1 and is_number(fields[-1]) else ""
    dim = int(fields[1])
    if dim == 0 or not rest.strip():
        return "word2vec"
    # The next line is text also when one of its numbers is misspelt, so that the error can name it;
    # its word may hold spaces.
    is_word = len(next_fields) > 1 and all(map(is_number, next_fields[1:]))
    ends_in_vector = len(next_fields) > dim and all(map(is_number, next_fields[-dim:]))
    has_length = len(next_fields) == dim + 1 and b"".join(next_fields).isascii()
    return "word2vec" if is_word or ends_in_vector or has_length else "word2vec-binary"


def header(file: Opened) -> tuple[int, int]:
    """Words and dimensions, from the first line, which is read. Raises EmbedxError if
    it cannot be.
    """
    count, dim = map(int, file.stream.readline().split())
    if dim == 0:
        raise DataError(file.name, 1, "the header says 0 dimensions", "it must read `words dim`")
    return count, dim


def is_number(field: bytes | str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


# ---- text


def read_text(file: Opened) -> Found:
    count, dim = header(file)
    found = read_lines(file, dim, count)
    if count != len(found.words):
        raise DataError(
            file.name,
            None,
            f"the first line declares {count:,} words, but {len(found.words):,} follow",
            f"the file is cut short or its first line wrong: {AGAIN}",
        )
    return found


def read_glove(file: Opened) -> Found:
    fields = file.head.partition(b"\n")[0].split()
    dim = len(fields) - 1
    while dim > 1 and not is_number(fields[-dim]):
        dim -= 1
    return read_lines(file, dim, None)


def read_lines(file: Opened, dim: int, count: int | None) -> Found:
    """The words and vectors of the lines after the header; `count` is that of the header, None
    without one.
    """
    words = []
    blocks = [np.empty((0, dim), np.float32)]
    line = 1 if count is None else 2  # number of the line to be read next
    budget = MemoryBudget(file.name)
    file.progress.start("Reading vectors", count, "words")
    for lines in line_blocks(file.name, file.stream):
        block_words, block = parse(file.name, line, lines, dim)
        budget.take(2 * block.nbytes + sum(map(len, lines)))
        words += block_words
        blocks.append(block)
        line += len(lines)
        file.progress.update(len(words))
    file.progress.finish()
    return Found(words, np.concatenate(blocks))


def line_blocks(name: str, stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of the stream, a few megabytes at a time. Raises EmbedxError for a line without
    end.
    """
    lines = []
    n_bytes = 0
    while line := stream.readline(contract.MAX_LINE_BYTES + 1):
        if len(line) > contract.MAX_LINE_BYTES:
            raise DataError(
                name,
                None,
                f"a line of more than {contract.MAX_LINE_BYTES:,} bytes",
                "is this really a file of vectors?",
            )
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
        raise DataError(
            where,
            None,
            f"{len(numbers)} numbers after the word {shown(word)}, not {dim}",
            "fix or delete the line",
        )
    for number in numbers:
        if not is_number(number) or not abs(float(number)) <= MAX_FLOAT32:
            what = "finite" if is_number(number) else "a number"
            raise DataError(
                where,
                None,
                f"{shown(number)} in the vector of {shown(word)} is not {what}",
                "fix or delete the line",
            )
    return word, [float(number) for number in numbers]


def header_line(table: Table) -> list[bytes]:
    return [b"%d %d\n" % table.rows.shape]


def text_lines(table: Table) -> Iterator[bytes]:
    """A line for each word."""
    for rows, vectors, _ in table.blocks():
        for word, vector in zip(table.words[rows], vectors, strict=True):
            yield f"{word} {' '.join(map(str, vector))}\n".encode()


def write_text(path: Path, table: Table) -> None:
    write_pieces(path, chain(header_line(table), text_lines(table)))


def write_glove(path: Path, table: Table) -> None:
    write_pieces(path, text_lines(table))


# ---- binary


def read_binary(file: Opened) -> Found:
    count, dim = header(file)
    width = 4 * dim
    check_memory(f"{file.name}:1", count * width, "is the first line right?")
    vectors = np.empty((count, dim), "<f4")
    words: list[str] = []
    ends_by_newline = False  # each vector, as word2vec.c writes them and gensim did not
    file.progress.start("Reading vectors", count, "words")
    for row in range(count):
        word = bytearray()
        while (byte := file.stream.read(1)) not in (b" ", b""):
            word += byte
            if len(word) > contract.MAX_LINE_BYTES:
                raise DataError(file.name, None, f"word {row + 1:,} of {count:,} has no end", IS_IT)
        vector = file.stream.read(width)
        if len(vector) < width:
            raise DataError(
                file.name,
                None,
                f"ends within word {row + 1:,} of {count:,}",
                f"the file is cut short: {AGAIN}",
            )
        has_newline = word.startswith(b"\n")
        if row == 1:
            ends_by_newline = has_newline
        name = bytes(word.lstrip(b"\n"))
        if row > 0 and (has_newline != ends_by_newline or not is_name(name, has_newline)):
            raise DataError(
                file.name,
                None,
                f"word {row + 1:,} of {count:,} begins with {shown(name)}, which is no name",
                "a name before it holds a blank, which ends names in this format, or the file is"
                f" damaged: {AGAIN}",
            )
        words.append(name.decode("utf-8", "surrogateescape"))
        vectors[row] = np.frombuffer(vector, "<f4")
        if row % 10_000 == 0:
            file.progress.update(row)
    if file.stream.read(3).strip():  # a newline may follow the last vector, and another
        raise DataError(
            file.name,
            None,
            f"continues after the {count:,} words that its first line declares",
            AGAIN,
        )
    file.progress.finish()
    check_finite(file.name, words, vectors, IS_IT)
    return Found(words, vectors.astype("f4", copy=False))


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
