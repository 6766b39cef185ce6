"""Rows of text, which word2vec, fastText and GloVe have alike: a word, a space, and its numbers.

Words are separated from numbers by U+0020 alone, so a word may hold U+00A0. Numbers are written with the fewest digits that
give the same one again.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from embedx.errors import EmbedxError
from embedx.labeled.files import MemoryBudget
from embedx.training.progress import Progress
from embedx.vectors.formats import contract
from embedx.vectors.formats.contract import Found, Table, shown

KNOWN = "word2vec text or binary, fastText .vec and GloVe text files are read"
HEADER = re.compile(rb"\s*(\d{1,12})\s+(\d{1,9})\s*")
TWO_NUMBERS = re.compile(rb"\s*\d+\s+\d+\s*")


class Layout(NamedTuple):
    """What the head of a file tells."""

    words: int | None  # None without a header
    dim: int


def header(name: str, head: bytes) -> Layout:
    """What the first line, `words dim`, says. Raises EmbedxError if it cannot be."""
    found = HEADER.fullmatch(head.partition(b"\n")[0])
    if not found:
        raise EmbedxError(f"{name}:1: numbers too large for a header `words dim`; mend it, or write the file again")
    if int(found[2]) == 0:
        raise EmbedxError(f"{name}:1: the header says 0 dimensions; it must read `words dim`")
    return Layout(int(found[1]), int(found[2]))


def has_header(head: bytes) -> bool:
    """Whether the first line is two whole numbers."""
    return bool(TWO_NUMBERS.fullmatch(head.partition(b"\n")[0]))


def goes_on_as_text(head: bytes) -> bool:
    """Whether the lines after a header are text, or there are none."""
    first, _, rest = head.partition(b"\n")
    found = HEADER.fullmatch(first)
    return not (found and int(found[2]) and rest.strip()) or is_text_row(rest.partition(b"\n")[0], int(found[2]))


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


def read_text(name: str, stream: BinaryIO, layout: Layout, progress: Progress) -> Found:
    """The words and vectors of a file, of which the header is still to be read."""
    words: list[str] = []
    blocks = [np.empty((0, layout.dim), np.float32)]
    number = 1  # of the line to be read next
    budget = MemoryBudget(name)
    if layout.words is not None:
        stream.readline()
        number = 2
    for lines in line_blocks(stream):
        if any(len(line) > contract.MOST_LINE_BYTES for line in lines):
            raise EmbedxError(f"{name}: a line of more than {contract.MOST_LINE_BYTES:,} bytes; {KNOWN}")
        block_words, block = parse(name, number, lines, layout)
        budget.take(2 * block.nbytes + sum(map(len, lines)))
        words += block_words
        blocks.append(block)
        number += len(lines)
        progress.update(len(words))
    if layout.words not in (None, len(words)):
        raise EmbedxError(
            f"{name}: the first line promises {layout.words:,} words, but {len(words):,} follow; "
            "the file is cut short or its first line wrong: write or fetch it again"
        )
    return Found(words, np.concatenate(blocks))


def line_blocks(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of the stream, a few megabytes at a time."""
    pieces: list[bytes] = []  # of a line that goes on
    n_bytes = 0  # of them
    while (chunk := stream.read(contract.BLOCK_BYTES)) and n_bytes <= contract.MOST_LINE_BYTES:
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


def text_rows(table: Table) -> Iterator[bytes]:
    """A line for each word."""
    for words, vectors in table.blocks():
        for word, vector in zip(words, vectors.astype(table.dtype), strict=True):
            yield f"{word} {' '.join(map(str, vector))}\n".encode()


def header_line(table: Table) -> bytes:
    return b"%d %d\n" % table.rows.shape
