"""Lines of cells: lists of edges, and files about nodes.

The separator of a file is the first of these that divides each of its first lines into two or three
cells: tabs, commas, white space, semicolons, bars. White space precedes commas if it divides each
line into two names with equal numbers of commas, such as `Smith,J Doe,A`, and optionally a number.
If nothing divides all lines, the separator is the tab or comma in the first line, otherwise white
space.

A cell in double quotes may contain the separator; a quote within it is doubled. White space around
cells is removed. Comments are lines that begin with `#`, `%` or `//`.
"""

import codecs
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from embedx.errors import DataError
from embedx.text.tables import MAX_RECORD_BYTES, SENTENCE_END, TOKEN_END

COMMENTS = ("#", "%", "//")
COMMENT_STARTS = tuple(start.encode() for start in COMMENTS)
# As a separator: any run of white space.
WHITE_SPACE = b""
# Separators that are tried before white space, and after it.
BEFORE_WHITE_SPACE = (b"\t", b",")
AFTER_WHITE_SPACE = (b";", b"|")
# The choices of --edge-separator.
SEPARATOR_NAMES = {
    "tab": b"\t",
    "comma": b",",
    "semicolon": b";",
    "bar": b"|",
    "blank": WHITE_SPACE,
}
NUMBER = re.compile(rb"[+-]?(?:\d+(?:[.,]\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
EDGE_CELLS = (2, 3)
# Number of lines by which the separator of a file is recognised.
FIRST_LINES = 50
BLANKS = b" \t\r\v\f"
CELL_BETWEEN_WHITE_SPACE = re.compile(rb'"((?:[^"]|"")*+)"(?=\s|\Z)|(\S+)')
# Bytes that mark the ends of tokens, and their replacements in the text: neither occurs in UTF-8,
# so invalid text stays invalid.
REPLACED_MARKS = {TOKEN_END: b"\xfd", SENTENCE_END: b"\xfd"}


def separator_of(text: bytes) -> bytes | None:
    """The separator of a file that begins with this text; None if it has only comments."""
    lines = _content(text.split(b"\n"))[:FIRST_LINES]
    if not lines:
        return None
    are_divided_by_blanks = _are_edges(lines, WHITE_SPACE)
    for separator in BEFORE_WHITE_SPACE:
        if _are_edges(lines, separator):
            if are_divided_by_blanks and all(_is_within_cells(line, separator) for line in lines):
                return WHITE_SPACE
            return separator
    if are_divided_by_blanks:
        return WHITE_SPACE
    for separator in AFTER_WHITE_SPACE:
        if _are_edges(lines, separator):
            return separator
    for separator in BEFORE_WHITE_SPACE:
        if len(divided(lines[0], separator)) > 1:
            return separator
    return WHITE_SPACE


def _is_within_cells(line: bytes, separator: bytes) -> bool:
    """Whether white space divides a line, and `separator` is part of its cells: both names contain
    it equally often, and a third cell is a number, possibly with a decimal comma.
    """
    first, second, *others = divided(line, WHITE_SPACE)
    if first.count(separator) != second.count(separator):
        return False
    return not others or NUMBER.fullmatch(others[0]) is not None


def _content(lines: Iterable[bytes]) -> list[bytes]:
    """The lines that are neither empty nor comments."""
    stripped = (line.strip() for line in lines)
    return [line for line in stripped if line and not line.startswith(COMMENT_STARTS)]


def _are_edges(lines: Sequence[bytes], separator: bytes) -> bool:
    return all(len(divided(line, separator)) in EDGE_CELLS for line in lines)


def divided(line: bytes, separator: bytes) -> list[bytes]:
    """The cells of a line; if its quotes are damaged, the text between separators."""
    cells = cells_of(line, separator)
    return line.split(separator) if cells is None else cells


def cells_of(line: bytes, separator: bytes) -> list[bytes] | None:
    """The cells of a line without empty ones at its end; None if a quote is not closed at the end
    of its cell.
    """
    cells: list[bytes] | None
    if b'"' not in line:
        cells = [cell.strip() for cell in line.split(separator or None)]
    elif separator == WHITE_SPACE:
        matches = CELL_BETWEEN_WHITE_SPACE.findall(line)
        cells = [_unquoted(quoted, plain) for quoted, plain in matches]
    else:
        cells = _quoted_cells(line, separator)
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _quoted_cells(line: bytes, separator: bytes) -> list[bytes] | None:
    """The cells of a line with quotes; None if one is not closed where its cell ends."""
    cells = []
    place = 0
    while place <= len(line):
        cell = _pattern(separator).match(line, place)
        if cell is None:
            return None
        cells.append(_unquoted(cell[1], cell[2]))
        is_last = cell.end() == len(line)
        place = cell.end() + int(is_last)
    return cells


@cache
def _pattern(separator: bytes) -> re.Pattern[bytes]:
    """The pattern of a cell, quoted or not, and the separator after it."""
    blanks = b"[%s]*" % re.escape(BLANKS.replace(separator, b""))
    plain = b'([^"%s][^%s]*)?' % (separator, separator)
    return re.compile(
        b'%s(?:"((?:[^"]|"")*+)"%s|%s)(?:%s|\\Z)' % (blanks, blanks, plain, re.escape(separator))
    )


def _unquoted(quoted: bytes | None, plain: bytes | None) -> bytes:
    """The text of a cell, quoted or not."""
    return (quoted or b"").replace(b'""', b'"').strip() or (plain or b"").strip()


# ---- whole files


def cell_lines(
    blocks: Iterable[bytes], name: str, separator: bytes | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line that has cells. Raises `DataError` for an empty
    cell before another cell, and for quotes that are not closed.

    separator  None: recognised by `separator_of`
    """
    for first, text, known_separator in _separated(blocks, name, separator):
        for number, line in enumerate(text.split(b"\n"), first):
            cells = _checked(line, known_separator, name, number)
            if cells:
                yield number, [cell.decode("utf-8", "replace") for cell in cells]


def cell_tokens(
    blocks: Iterable[bytes], name: str, separator: bytes | None = None
) -> Iterator[bytes]:
    """The lines with TOKEN_END after each cell and SENTENCE_END after each line. Raises the errors
    of `cell_lines`.
    """
    for first, text, known_separator in _separated(blocks, name, separator):
        for mark, replacement in REPLACED_MARKS.items():
            text = text.replace(mark, replacement)
        yield _marked(text, known_separator, name, first)
    yield SENTENCE_END


def _separated(
    blocks: Iterable[bytes], name: str, separator: bytes | None
) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the text in pieces of whole lines: the number of the first line, the piece, its
    separator.
    """
    first = 1
    for text in whole_lines(blocks, name):
        if separator is None:
            separator = separator_of(text)
        yield first, text, separator or WHITE_SPACE
        first += text.count(b"\n")


def _marked(text: bytes, separator: bytes, name: str, first: int) -> bytes:
    """The lines, numbered from `first`, with the marks described at `cell_tokens`."""
    if _is_simple(text, separator):
        return text.translate(_marks(separator))
    lines = enumerate(text.split(b"\n"), first)
    cells = (_checked(line, separator, name, number) for number, line in lines)
    return b"".join(TOKEN_END.join(line) + SENTENCE_END for line in cells)


def _is_simple(text: bytes, separator: bytes) -> bool:
    """Whether the text between separators is the cells, without quotes or white space to remove,
    and none is empty.
    """
    if b'"' in text:
        return False
    if separator == WHITE_SPACE:
        return True
    other_blanks = BLANKS.replace(separator, b"")
    if any(bytes([blank]) in text for blank in other_blanks):
        return False
    has_empty_cell = text.startswith(separator) or any(
        before + separator in text for before in (b"\n", separator)
    )
    return not has_empty_cell


@cache
def _marks(separator: bytes) -> bytes:
    """The table of `bytes.translate` that replaces separators by TOKEN_END, and line feeds by
    SENTENCE_END.
    """
    ends = separator or BLANKS
    return bytes.maketrans(ends + b"\n", TOKEN_END * len(ends) + SENTENCE_END)


def _checked(line: bytes, separator: bytes, name: str, number: int) -> list[bytes]:
    """The cells of a line; of a comment its words. Raises the errors of `cell_lines`."""
    if line.lstrip().startswith(COMMENT_STARTS):
        return line.split()
    cells = cells_of(line, separator)
    if cells is None:
        raise DataError(
            name,
            number,
            "a quote is not closed where its cell ends",
            'close it, and double quotes within a cell: "the ""old"" town"',
        )
    if b"" in cells:
        raise DataError(
            name, number, f"cell {cells.index(b'') + 1} is empty", "give each node a name"
        )
    return cells


def whole_lines(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield the text in pieces that end at the end of a line. Raises `DataError` for a line of more
    than MAX_RECORD_BYTES.
    """
    rest = b""
    is_first = True
    for block in itertools.chain(blocks, [b""]):
        text = rest + block
        end = text.rfind(b"\n") + 1 if block else len(text)
        rest = text[end:]
        if len(rest) > MAX_RECORD_BYTES:
            raise DataError(
                name,
                None,
                f"a line of more than {MAX_RECORD_BYTES:,} bytes",
                "check that it is the right file",
            )
        if end and is_first:
            is_first = False
            yield text[:end].removeprefix(codecs.BOM_UTF8)
        elif end:
            yield text[:end]
