"""Text out of records: JSON Lines, tables (CSV and the like) and Parquet, of each record the one field that is wanted.

A string is text: each of its lines is a sentence, as in a plain file. A list of strings or whole numbers is one sentence. What
is null or empty is left out. Memory is that of a record, which may not be longer than MOST_RECORD_BYTES; of a Parquet file
that of ROWS_AT_A_TIME and of a page as its writer made it.
"""

import csv
import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any

from embedx.errors import EmbedxError

MOST_RECORD_BYTES = 1 << 24  # ten times the longest article; JSON of brackets alone takes twenty times as much when it is read
ROWS_AT_A_TIME = 512
BLOCK_BYTES = 1 << 18
DELIMITERS = (",", "\t", ";", "|")
PARQUET_START = b"PAR1"
# What separates tokens and sentences where tokens are taken as they are, white space and all: bytes that UTF-8 never has.
TOKEN_END, SENTENCE_END = b"\xff", b"\xfe"


class Texts:
    """Makes text of the values of a field, and says where one is none.

    name   the source, as the user knows it
    whole  whether tokens are taken as they are: then TOKEN_END and SENTENCE_END end them, else white space and line feeds
    """

    def __init__(self, name: str, field: str, whole: bool) -> None:
        self.name = name
        self.field = field
        self.whole = whole

    def blocks(self, values: Iterable[tuple[int, Any]]) -> Iterator[bytes]:
        """The text of values that come with the number of their line or row, in blocks, UTF-8 where they are well-formed."""
        pieces: list[bytes] = []
        n_bytes = 0
        for line, value in values:
            piece = self._text(line, value)
            pieces.append(piece)
            n_bytes += len(piece)
            if n_bytes >= BLOCK_BYTES:
                yield b"".join(pieces)
                pieces, n_bytes = [], 0
        yield b"".join(pieces)

    def error(self, line: int, message: str) -> EmbedxError:
        return EmbedxError(f"{self.name}:{line}: {message}")

    def _text(self, line: int, value: Any) -> bytes:
        if isinstance(value, str):
            if not self.whole:
                return _utf8(value) + b"\n"
            return b"".join(self._sentence(tokens) for part in value.split("\n") if (tokens := part.split()))
        if isinstance(value, list):
            tokens = [str(each) if type(each) is int else each for each in value]
            if wrong := [each for each in tokens if not isinstance(each, str)]:
                raise self.error(line, f"{self.field} has {_kind(wrong[0])} in a list; words are strings or whole numbers")
            if not self.whole:
                return _utf8(" ".join(tokens).replace("\n", " ")) + b"\n"
            return self._sentence(tokens)
        if value is None:
            return b""
        raise self.error(line, f"{self.field} is {_kind(value)}, not a string or a list of strings; is it the right field?")

    def _sentence(self, tokens: list[str]) -> bytes:
        # Ill-formed bytes of the source stay ill-formed, but are none of the two.
        text = "\0".join(tokens).replace("\udcff", "\udcfd").replace("\udcfe", "\udcfd")
        return _utf8(text).replace(b"\0", TOKEN_END) + SENTENCE_END


def _utf8(text: str) -> bytes:
    """Bytes that were not UTF-8 as they were, and surrogates that JSON may hold as three that are not UTF-8 either."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _kind(value: Any) -> str:
    """What JSON calls it."""
    names = {dict: "an object", list: "a list", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else f"of type {type(value).__name__}")


def _named(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


# ---- lines


def lines_of(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The lines with their ends; an `EmbedxError` if one has more than MOST_RECORD_BYTES."""
    rest = b""
    number = 1
    for block in blocks:
        *ended, rest = (rest + block).split(b"\n")
        for line in ended:
            _check_length(line, name, number)
            yield line + b"\n"
            number += 1
        _check_length(rest, name, number)
    if rest:
        yield rest + b"\n"


def _check_length(line: bytes, name: str, number: int) -> None:
    if len(line) > MOST_RECORD_BYTES:
        raise EmbedxError(
            f"{name}:{number}: a line of more than {MOST_RECORD_BYTES:,} bytes; is it the right file, with a record a line?"
        )


# ---- JSON Lines


def json_text(lines: Iterable[bytes], name: str, field: str | None, whole: bool) -> Iterator[bytes]:
    """The text of a field of JSON Lines."""
    return Texts(name, field or "", whole).blocks(_fields(lines, name, field))


def _fields(lines: Iterable[bytes], name: str, field: str | None) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, 1):
        text = line.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            why = str(error).partition(":")[0]
            raise EmbedxError(f"{name}:{number}: no JSON ({why}); JSON Lines have an object in each line") from error
        if not isinstance(record, dict):
            raise EmbedxError(f"{name}:{number}: {_kind(record)}, not an object; JSON Lines have an object in each line")
        if field is None:
            raise EmbedxError(f"{name}: JSON Lines; name the field with the text by --json-field; there are {_named(record)}")
        if field not in record:
            raise EmbedxError(f"{name}:{number}: no field {field}; choose --json-field among {_named(record)}")
        yield number, record[field]


# ---- tables


def table_text(lines: Iterable[bytes], name: str, column: str | None, whole: bool) -> Iterator[bytes]:
    """The text of a column of a table as Python's csv module reads it, separated by commas, tabs, semicolons or bars."""
    return Texts(name, column or "", whole).blocks(_cells(lines, name, column))


def _cells(lines: Iterable[bytes], name: str, column: str | None) -> Iterator[tuple[int, Any]]:
    texts = (line.decode("utf-8", "surrogateescape") for line in lines)
    first = next(texts, "").removeprefix("\ufeff")
    if not first:
        return
    n_bytes = 0  # of the row that is being read

    def counted() -> Iterator[str]:
        nonlocal n_bytes
        for text in itertools.chain([first], texts):
            n_bytes += len(text)
            if n_bytes > MOST_RECORD_BYTES:
                raise EmbedxError(
                    f"{name}:{begins}: a row of more than {MOST_RECORD_BYTES:,} characters; is a quote not closed?"
                )
            yield text

    csv.field_size_limit(2**31 - 1)  # of all readers of this process, 131,072 by default; here the row has a limit
    rows = csv.reader(counted(), delimiter=_delimiter(first, column), strict=True)
    begins = 1  # the line in which the row begins
    width = place = 0
    try:
        for row in rows:
            if row and not width:
                width = len(row)
                place = _place(row, name, column)
                if column in row:
                    row = []
            if row and len(row) != width:
                raise EmbedxError(
                    f"{name}:{begins}: {len(row)} columns, but {width} in the first row; a field with a separator, quote or "
                    "line feed in it stands in quotes"
                )
            if row:
                yield begins, row[place]
            begins = rows.line_num + 1
            n_bytes = 0
    except csv.Error as error:
        raise EmbedxError(f"{name}:{begins}: no row of a table ({error}); is a quote not closed, or not doubled?") from error


def _delimiter(first: str, column: str | None) -> str:
    """That by which the first line has the column, else the most frequent."""

    def has_column(delimiter: str) -> bool:
        try:
            return column in next(csv.reader([first], delimiter=delimiter), [])
        except csv.Error:
            return False

    return max(DELIMITERS, key=lambda delimiter: (has_column(delimiter), first.count(delimiter)))


def _place(head: list[str], name: str, column: str | None) -> int:
    """Where the column is in each row: that of the name, or the number, from 1, where the first row names none so."""
    if column is None:
        raise EmbedxError(f"{name}: a table; name the column with the text by --column; there are {_named(head)}")
    if column in head:
        return head.index(column)
    if column.isdecimal() and 1 <= int(column) <= len(head):
        return int(column) - 1
    raise EmbedxError(f"{name}: no column {column}; choose --column among {_named(head)}, or by its number, from 1")


# ---- Parquet


def parquet_text(file: Any, name: str, column: str | None, whole: bool) -> Iterator[tuple[float, bytes]]:
    """The text of a column of a Parquet file, which can be read at any place, with the share of the rows read so far."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise EmbedxError(f"{name}: reading Parquet needs pyarrow; pip install embedx[parquet]") from error
    try:
        table = pyarrow.parquet.ParquetFile(file, buffer_size=BLOCK_BYTES, pre_buffer=False)
        names = table.schema_arrow.names
        if column is None:
            raise EmbedxError(f"{name}: a Parquet file; name the column with the text by --column; there are {_named(names)}")
        if column not in names:
            raise EmbedxError(f"{name}: no column {column}; choose --column among {_named(names)}")
        texts = Texts(name, column, whole)
        done, n_rows = 0, table.metadata.num_rows
        for batch in table.iter_batches(ROWS_AT_A_TIME, columns=[column], use_threads=False):
            for block in texts.blocks(enumerate(batch.column(0).to_pylist(), done + 1)):
                yield done / n_rows, block
            done += batch.num_rows
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise OSError(str(error)) from error
