"""Text out of records: JSON Lines, tables (CSV and the like) and Parquet, of each record the one field that is wanted.

A string is text: each of its lines is a sentence, as in a plain file. A list of strings or whole numbers is one sentence. Empty
ones are left out. A record that has no such value is bad: an error, or skipped and counted. Memory is that of a record, which
may not be longer than MAX_RECORD_BYTES; of a Parquet file that of ROWS_AT_A_TIME and of a page as its writer made it.
"""

import collections
import csv
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from embedx.errors import EmbedxError

MAX_RECORD_BYTES = 1 << 24  # ten times the longest article; JSON of brackets alone takes twenty times as much when it is read
ROWS_AT_A_TIME = 512
BLOCK_BYTES = 1 << 18
DELIMITERS = (",", "\t", ";", "|")
PARQUET_START = b"PAR1"
# What separates tokens and sentences where tokens are taken as they are, white space and all: bytes that UTF-8 never has.
TOKEN_END, SENTENCE_END = b"\xff", b"\xfe"
NONE = object()  # in place of a value that is not there


class BadRecords:
    """Records of a source that have no text: the first is an error, or they are skipped and counted.

    on_bad  `error` or `skip`, as --on-bad-record
    """

    def __init__(self, on_bad: str) -> None:
        self.on_bad = on_bad
        self.count = 0
        self.first = ""  # where it is, and what is wrong with it

    def add(self, place: str, why: str, remedy: str) -> None:
        """The record at `place`, FILE:LINE, is bad. Raises `EmbedxError` unless such records are skipped."""
        if self.on_bad == "error":
            raise EmbedxError(f"{place}: {why}; {remedy}, or leave out such records by --on-bad-record skip")
        self.first = self.first or f"{place}: {why}"
        self.count += 1


class Texts:
    """Makes text of the values of a field, and says where one is none.

    name   the source, as the user knows it
    whole  whether tokens are taken as they are: then TOKEN_END and SENTENCE_END end them, else white space and line feeds
    """

    def __init__(self, name: str, field: str, whole: bool, bad: BadRecords) -> None:
        self.name = name
        self.field = field
        self.whole = whole
        self._bad = bad

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

    def bad(self, line: int, why: str, remedy: str) -> bytes:
        """The record in that line or row is bad; its text, which is empty. Raises `EmbedxError` unless bad ones are skipped."""
        self._bad.add(f"{self.name}:{line}", why, remedy)
        return b""

    def _text(self, line: int, value: Any) -> bytes:
        if isinstance(value, str):
            if not self.whole:
                return _utf8(value) + b"\n"
            return b"".join(self._sentence(tokens) for part in value.split("\n") if (tokens := part.split()))
        if isinstance(value, list):
            tokens = [str(each) if type(each) is int else each for each in value]
            if wrong := [each for each in tokens if not isinstance(each, str)]:
                return self.bad(line, f"{self.field} has {_kind(wrong[0])} in a list", "write strings or whole numbers")
            if not self.whole:
                return _utf8(" ".join(tokens).replace("\n", " ")) + b"\n"
            return self._sentence(tokens)
        return self.bad(line, f"{self.field} is {_kind(value)}, not a string or a list of strings", "choose another field")

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


def _value(record: Mapping[str, Any], field: str, default: Any) -> Any:
    """The value of a field, `b` of the object `a` where none is called `a.b`; the default if there is no such field."""
    if field in record:
        return record[field]
    outer, dot, inner = field.partition(".")
    within = record.get(outer) if dot else None
    return _value(within, inner, default) if isinstance(within, Mapping) else default


def _named(record: Mapping[str, Any] | Iterable[str]) -> str:
    """The names of fields, for messages; those of the objects among them by their paths."""
    values = record if isinstance(record, Mapping) else dict.fromkeys(record)
    names = ([f"{name}.{inner}" for inner in value] if isinstance(value, Mapping) else [name] for name, value in values.items())
    return ", ".join(itertools.chain.from_iterable(names)) or "none"


# ---- lines


def lines_of(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The lines with their ends; an `EmbedxError` if one has more than MAX_RECORD_BYTES."""
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
    if len(line) > MAX_RECORD_BYTES:
        raise EmbedxError(
            f"{name}:{number}: a line of more than {MAX_RECORD_BYTES:,} bytes; is it the right file, with a record a line?"
        )


# ---- JSON Lines


def json_text(lines: Iterable[bytes], name: str, field: str | None, whole: bool, bad: BadRecords) -> Iterator[bytes]:
    """The text of a field of JSON Lines."""
    texts = Texts(name, field or "", whole, bad)
    return texts.blocks(_fields(lines, texts, field))


def _fields(lines: Iterable[bytes], texts: Texts, field: str | None) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, 1):
        text = line.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            why = str(error).partition(":")[0]
            texts.bad(number, f"no JSON ({why})", "write an object in each line")
            continue
        if not isinstance(record, dict):
            texts.bad(number, f"{_kind(record)}, not an object", "write an object in each line")
            continue
        if field is None:
            raise EmbedxError(
                f"{texts.name}: JSON Lines; name the field with the text by --json-field; there are {_named(record)}"
            )
        if (value := _value(record, field, NONE)) is NONE:
            texts.bad(number, f"no field {field}", f"choose --json-field among {_named(record)}")
        else:
            yield number, value


# ---- tables


def table_text(lines: Iterable[bytes], name: str, column: str | None, whole: bool, bad: BadRecords) -> Iterator[bytes]:
    """The text of a column of a table as Python's csv module reads it, separated by commas, tabs, semicolons or bars."""
    texts = Texts(name, column or "", whole, bad)
    return texts.blocks(_cells(lines, texts, column))


def _cells(lines: Iterable[bytes], texts: Texts, column: str | None) -> Iterator[tuple[int, Any]]:
    decoded = (line.decode("utf-8", "surrogateescape") for line in lines)
    first = next(decoded, "").removeprefix("\ufeff")
    if not first:
        return
    again = collections.deque([first])  # lines to be read before the others
    taken: list[str] = []  # lines of the row that is being read, which begins in line `begins`
    begins = 1

    def counted() -> Iterator[str]:
        n_bytes = 0
        while (text := again.popleft() if again else next(decoded, None)) is not None:
            n_bytes = len(text) + (n_bytes if taken else 0)
            if n_bytes > MAX_RECORD_BYTES:
                raise EmbedxError(
                    f"{texts.name}:{begins}: a row of more than {MAX_RECORD_BYTES:,} characters; is a quote not closed?"
                )
            taken.append(text)
            yield text

    csv.field_size_limit(2**31 - 1)  # of all readers of this process, 131,072 by default; here the row has a limit
    delimiter = _delimiter(first, column)
    rows = csv.reader(counted(), delimiter=delimiter, strict=True)
    width = place = 0
    while True:
        taken.clear()
        try:
            row = next(rows, None)
        except csv.Error as error:
            texts.bad(begins, f"no row of a table ({error})", "close each quote, and double those within")
            again.extendleft(reversed(taken[1:]))  # a quote that is not closed takes no other row with it
            begins += 1
            rows = csv.reader(counted(), delimiter=delimiter, strict=True)
            continue
        if row is None:
            return
        is_heading = False
        if row and not width:
            width = len(row)
            place = _place(row, texts.name, column)
            is_heading = column in row
        if row and len(row) != width:
            texts.bad(
                begins,
                f"{len(row)} columns, but {width} in the first row",
                "put fields with a separator, quote or line feed into quotes",
            )
        elif row and not is_heading:
            yield begins, row[place]
        begins += len(taken)


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


def parquet_text(file: Any, name: str, column: str | None, whole: bool, bad: BadRecords) -> Iterator[tuple[float, bytes]]:
    """The text of a column of a Parquet file, which can be read at any place, with the share of the rows read so far."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise EmbedxError(f'{name}: reading Parquet needs pyarrow; pip install "embedx[parquet]"') from error
    try:
        table = pyarrow.parquet.ParquetFile(file, buffer_size=BLOCK_BYTES, pre_buffer=False)

        def structure(fields: Any) -> dict[str, Any]:
            """The columns by name, each with those within it."""
            return {each.name: structure(each.type) if pyarrow.types.is_struct(each.type) else None for each in fields}

        columns = structure(table.schema_arrow)
        if column is None:
            raise EmbedxError(f"{name}: a Parquet file; name the column with the text by --column; there are {_named(columns)}")
        if _value(columns, column, NONE) is NONE:
            raise EmbedxError(f"{name}: no column {column}; choose --column among {_named(columns)}")
        outer = column if column in columns else column.partition(".")[0]
        texts = Texts(name, column, whole, bad)
        done, n_rows = 0, table.metadata.num_rows
        for batch in table.iter_batches(ROWS_AT_A_TIME, columns=[column], use_threads=False):
            values = batch.column(batch.schema.names.index(outer)).to_pylist()
            if outer != column:
                values = [_value({outer: value}, column, None) for value in values]
            for block in texts.blocks(enumerate(values, done + 1)):
                yield done / n_rows, block
            done += batch.num_rows
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise OSError(str(error)) from error
