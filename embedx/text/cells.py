"""Lines of cells: lists of edges, and files about nodes.

What separates the cells of a file is what divides each of its first lines into two or three: tabs,
else commas, else white space, else semicolons or bars. Commas do not where white space divides each
line into two names with equally many commas, such as `Smith,J Doe,A`, and maybe a number. If
nothing divides all lines, tabs or commas separate the cells if the first line has one, else white
space. A cell in double quotes may hold the
separator; a quote within it is doubled. White space around cells is left out.

Comments are lines that begin with `#`, `%` or `//`.
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
WHITE_SPACE = b""  # as a separator
SURE = (b"\t", b",")
LIKELY = (b";", b"|")
# What edges may be said to be separated by, by name.
SEPARATOR_NAMES = {
    "tab": b"\t",
    "comma": b",",
    "semicolon": b";",
    "bar": b"|",
    "blank": WHITE_SPACE,
}
NUMBER = re.compile(rb"[+-]?(?:\d+(?:[.,]\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
N_CELLS = (2, 3)  # of an edge
LOOKED_AT = 50  # lines, to tell what separates cells
BLANKS = b" \t\r\v\f"
# a cell of a line whose cells are separated by white space
CELL = re.compile(rb'"((?:[^"]|"")*+)"(?=\s|\Z)|(\S+)')
# bytes that UTF-8 never has, and that mark the ends of tokens: damage stays damage
DAMAGED = {TOKEN_END: b"\xfd", SENTENCE_END: b"\xfd"}


def separator_of(text: bytes) -> bytes | None:
    """What separates the cells of a file that begins with this text; None where it has comments
    alone.
    """
    lines = _content(text.split(b"\n"))[:LOOKED_AT]
    if not lines:
        return None
    is_divided_by_blanks = _are_edges(lines, WHITE_SPACE)
    for separator in SURE:
        if _are_edges(lines, separator):
            is_in_cells = is_divided_by_blanks and all(
                _is_in_cells(each, separator) for each in lines
            )
            return WHITE_SPACE if is_in_cells else separator
    if is_divided_by_blanks:
        return WHITE_SPACE
    for separator in LIKELY:
        if _are_edges(lines, separator):
            return separator
    for separator in SURE:
        if len(_divided(lines[0], separator)) > 1:
            return separator
    return WHITE_SPACE


def _is_in_cells(line: bytes, separator: bytes) -> bool:
    """Whether a separator seems to stand within cells between blanks: equally often in two names,
    and in a third cell as the decimal comma of a number at most.
    """
    first, second, *others = _divided(line, WHITE_SPACE)
    number = others[0] if others else b"0"
    return first.count(separator) == second.count(separator) and bool(NUMBER.fullmatch(number))


def _content(lines: Iterable[bytes]) -> list[bytes]:
    """The lines that are neither empty nor comments."""
    stripped = (line.strip() for line in lines)
    return [line for line in stripped if line and not line.startswith(COMMENT_STARTS)]


def _are_edges(lines: Sequence[bytes], separator: bytes) -> bool:
    return all(len(_divided(line, separator)) in N_CELLS for line in lines)


def _divided(line: bytes, separator: bytes) -> list[bytes]:
    """The cells of a line, and where quotes are damaged what lies between its separators."""
    cells = cells_of(line, separator)
    return line.split(separator) if cells is None else cells


def cells_of(line: bytes, separator: bytes) -> list[bytes] | None:
    """The cells of a line without the empty ones at its end; None if a quote is not closed where
    its cell ends.
    """
    if b'"' not in line:
        cells = [cell.strip() for cell in line.split(separator or None)]
    elif separator == WHITE_SPACE:
        cells = [_unquoted(quoted, plain) for quoted, plain in CELL.findall(line)]
    else:
        cells = []
        place, end = 0, len(line)
        while place <= end:
            cell = _pattern(separator).match(line, place)
            if cell is None:
                return None
            cells.append(_unquoted(cell[1], cell[2]))
            place = cell.end() + 1 if cell.end() == end else cell.end()
    while cells and not cells[-1]:
        cells.pop()
    return cells


@cache
def _pattern(separator: bytes) -> re.Pattern[bytes]:
    """A cell, in quotes or without, and the separator after it."""
    blanks = b"[%s]*" % re.escape(BLANKS.replace(separator, b""))
    plain = b'([^"%s][^%s]*)?' % (separator, separator)
    return re.compile(
        b'%s(?:"((?:[^"]|"")*+)"%s|%s)(?:%s|\\Z)' % (blanks, blanks, plain, re.escape(separator))
    )


def _unquoted(quoted: bytes | None, plain: bytes | None) -> bytes:
    return (quoted or b"").replace(b'""', b'"').strip() or (plain or b"").strip()


# ---- whole files


def cell_lines(
    blocks: Iterable[bytes], name: str, separator: bytes | None = None
) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each line that has any. Raises `DataError` for empty cells before
    others, and for quotes that are not closed.

    separator  None: recognised by `separator_of`
    """
    number = 1
    for text in _whole_lines(blocks, name):
        if separator is None:
            separator = separator_of(text)
        for line in text.split(b"\n"):
            cells = _checked(line, separator or WHITE_SPACE, name, number)
            if cells:
                yield number, [cell.decode("utf-8", "replace") for cell in cells]
            number += 1
        number -= 1  # nothing follows the last line feed


def cell_tokens(
    blocks: Iterable[bytes], name: str, separator: bytes | None = None
) -> Iterator[bytes]:
    """The lines with TOKEN_END and SENTENCE_END behind their cells and themselves. Raises as
    `cell_lines` does.
    """
    number = 1
    for text in _whole_lines(blocks, name):
        if separator is None:
            separator = separator_of(text)
        for mark, damage in DAMAGED.items():
            text = text.replace(mark, damage)
        yield _marked(text, separator or WHITE_SPACE, name, number)
        number += text.count(b"\n")
    yield SENTENCE_END


def _marked(text: bytes, separator: bytes, name: str, first: int) -> bytes:
    """The lines from number `first` on, with the marks of `cell_tokens`."""
    if _is_simple(text, separator):
        return text.translate(_marks(separator))
    lines = enumerate(text.split(b"\n"), first)
    cells = (_checked(line, separator, name, number) for number, line in lines)
    return b"".join(TOKEN_END.join(line) + SENTENCE_END for line in cells)


def _is_simple(text: bytes, separator: bytes) -> bool:
    """Whether cells end at each separator, and none is empty."""
    if b'"' in text:
        return False
    if separator == WHITE_SPACE:
        return True
    has_empty = text.startswith(separator) or any(
        before + separator in text for before in (b"\n", separator)
    )
    return not has_empty and not any(bytes([c]) in text for c in BLANKS.replace(separator, b""))


@cache
def _marks(separator: bytes) -> bytes:
    """The table by which separators become TOKEN_END, and line feeds SENTENCE_END."""
    ends = separator or BLANKS
    return bytes.maketrans(ends + b"\n", TOKEN_END * len(ends) + SENTENCE_END)


def _checked(line: bytes, separator: bytes, name: str, number: int) -> list[bytes]:
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


def _whole_lines(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The text in pieces that end where lines do. Raises `DataError` for a line of more than
    MAX_RECORD_BYTES.
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
                "is it the right file?",
            )
        if end and is_first:
            is_first = False
            yield text[:end].removeprefix(codecs.BOM_UTF8)
        elif end:
            yield text[:end]
