"""Text from one field of each record of JSON or a table (CSV and similar formats).

A string is text: each line is a sentence, as in a plain file. A list of strings or whole numbers is
one sentence. Empty values are skipped. A record without such a value is bad: an error, or skipped
and counted. Only one record is in memory, of at most MAX_RECORD_BYTES.

A reader yields the values of a field with their line or row numbers, and a `BadRecord` for each bad
record.
"""

import csv
import io
import itertools
import json
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from embedx.errors import DataError, Setting, Text, counted
from embedx.settings import Options, Record
from embedx.text.archives import BlockReader
from embedx.text.event_columns import guess_by_names

# Ten times the longest Wikipedia article. Parsed JSON takes up to twenty times as much memory.
MAX_RECORD_BYTES = 1 << 24
BLOCK_BYTES = 1 << 18
DELIMITERS = (",", "\t", ";", "|")
# Quote characters of tables.
QUOTES = ('"', "'")
# The beginning of a table by which its delimiter and quotes are chosen, in characters, and the most
# lines that a record may have if it is not complete there.
DIALECT_CHARACTERS = 1 << 20
MAX_OPEN_LINES = 100
# Rows below which an unusual dialect may fit by chance.
MIN_ROWS = 10
# First lines by which a spreadsheet says what separates the columns.
SEPARATOR_LINES = tuple(f"sep={mark}" for mark in DELIMITERS)
PARQUET_START = b"PAR1"
# Columns in a message; a table without a heading has cells of text in their place.
MAX_COLUMNS_IN_MESSAGE = 30
MAX_LETTERS_OF_COLUMN = 40
# Kinds of files that are no plain text, with the setting that reads them.
TABLE = "CSV/TSV/Parquet"
JSON = "JSON"
READ_BY = {TABLE: Setting("column"), JSON: Setting("json_field")}
# Ends of tokens and sentences if tokens are used as they are and may contain white space: bytes
# that are never in UTF-8.
TOKEN_END, SENTENCE_END = b"\xff", b"\xfe"


class NotTextError(DataError):
    """A file that is no text under these settings. In a folder it is skipped, and counted under its
    `kind`.
    """

    def __init__(self, file: str, problem: Text, remedy: Text, kind: str) -> None:
        super().__init__(file, None, problem, remedy)
        self.args = (file, problem, remedy, kind)  # for pickle
        self.kind = kind


class LabelledDataError(NotTextError):
    """A file that looks like labelled data where text is expected."""

    def __init__(self, file: str) -> None:
        classify = f"train a classifier on it with `embedx classify {shlex.quote(file)}`"
        remedy = (classify, ", or, if it is text, give ", Setting("format", "text"))
        kind = "labelled data (embedx classify)"
        super().__init__(file, "labelled data, not text", remedy, kind)
        self.args = (file,)


# In place of a field that a record lacks: null is a value of a field.
MISSING = object()


class BadRecord(NamedTuple):
    """In place of the value of a bad record."""

    problem: str
    remedy: Text


def count_bad(report: Record, on_bad: str, file: str, line: int, bad: BadRecord) -> None:
    """Raise an error for a bad record or, if `on_bad` is "skip", count it in the report."""
    if on_bad == "error":
        skip = (", or skip such records with ", Setting("on_bad_record", "skip"))
        raise DataError(file, line, bad.problem, (bad.remedy, skip))
    report["first_bad_record"] = report["first_bad_record"] or f"{file}:{line}: {bad.problem}"
    report["bad_records"] += 1


def text_of(
    values: Iterable[tuple[int, Any]],
    name: str,
    field: str,
    whole: bool,
    note_bad: Callable[[str, int, BadRecord], None],
) -> Iterator[bytes]:
    """The text of a field's values in blocks, UTF-8 if they are well-formed.

    name   the source, as the user gave it
    whole  whether tokens are used as they are: then TOKEN_END and SENTENCE_END end them, else white
           space and line feeds
    """
    pieces = []
    n_bytes = 0
    for line, value in values:
        piece = _text(value, field, whole)
        if isinstance(piece, BadRecord):
            note_bad(name, line, piece)
            continue
        pieces.append(piece)
        n_bytes += len(piece)
        if n_bytes >= BLOCK_BYTES:
            yield b"".join(pieces)
            pieces = []
            n_bytes = 0
    yield b"".join(pieces)


def _text(value: Any, field: str, whole: bool) -> bytes | BadRecord:
    """The text of one value, as `text_of` yields it."""
    if isinstance(value, BadRecord):
        return value
    if isinstance(value, str):
        if not whole:
            return _utf8(value) + b"\n"
        sentences = [line.split() for line in value.split("\n")]
        return b"".join(_sentence(tokens) for tokens in sentences if tokens)
    if not isinstance(value, list):
        return BadRecord(
            f"{field} is {shown(value)}, not a string or a list of strings", "choose another field"
        )
    tokens = [str(item) if type(item) is int else item for item in value]
    wrong = [token for token in tokens if not isinstance(token, str)]
    if wrong:
        return BadRecord(
            f"{field} has {shown(wrong[0])} in a list", "write strings or whole numbers"
        )
    if whole:
        return _sentence(tokens)
    return _utf8(" ".join(tokens).replace("\n", " ")) + b"\n"


def _sentence(tokens: list[str]) -> bytes:
    """Tokens with TOKEN_END between them and SENTENCE_END behind."""
    # Ill-formed bytes of the source stay ill-formed, but become neither TOKEN_END nor SENTENCE_END.
    text = "\0".join(tokens).replace("\udcff", "\udcfd").replace("\udcfe", "\udcfd")
    return _utf8(text).replace(b"\0", TOKEN_END) + SENTENCE_END


def _utf8(text: str) -> bytes:
    """The bytes of a text: those that were not UTF-8 unchanged; unpaired surrogates, which JSON may
    have, as three bytes that are not UTF-8 either.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def shown(value: Any) -> str:
    """The beginning of a value as JSON, for messages."""
    return json.dumps(value, default=str)[:40]


def value_of(record: Options, field: str, default: Any) -> Any:
    """The value of a field, or the default. Without a field called `a.b`, that is field `b` of the
    object `a`.
    """
    if field in record:
        return record[field]
    outer, dot, inner = field.partition(".")
    within = record.get(outer) if dot else None
    return value_of(within, inner, default) if isinstance(within, Mapping) else default


def fields_of(record: Options) -> list[str]:
    """The names of all fields; those within objects as paths."""
    names = []
    for name, value in record.items():
        if isinstance(value, Mapping):
            names += [f"{name}.{inner}" for inner in value]
        else:
            names.append(name)
    return names


def lines_of(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The lines, with line ends. Raises `EmbedxError` for a line of more than MAX_RECORD_BYTES."""
    reader = io.BufferedReader(BlockReader(blocks), BLOCK_BYTES)
    for number, line in enumerate(iter(lambda: reader.readline(MAX_RECORD_BYTES + 1), b""), 1):
        if len(line) > MAX_RECORD_BYTES:
            limit = f"a line of more than {MAX_RECORD_BYTES:,} bytes"
            remedy = "check that it is the right file, with one record per line"
            raise DataError(name, number, limit, remedy)
        yield line


def json_values(
    records: Iterable[tuple[int, Record | BadRecord]], name: str, field: str | None
) -> Iterator[tuple[int, Any]]:
    """The values of a field of JSON records, with line numbers."""
    for number, record in records:
        if field is None:
            fields = fields_of(record) if isinstance(record, dict) else []
            by_field = ("name the field with the text by ", Setting("json_field"))
            there_are = f"; there are {listed_columns(fields) or 'none'}"
            remedy = (by_field, _or_sessions(name, fields), there_are)
            raise NotTextError(name, "JSON", remedy, JSON)
        if isinstance(record, BadRecord):
            yield number, record
            continue
        value = value_of(record, field, MISSING)
        if value is MISSING:
            among = f" among {listed_columns(fields_of(record)) or 'none'}"
            value = BadRecord(f"no field {field}", ("choose ", Setting("json_field"), among))
        yield number, value


def table_rows(
    lines: Iterable[bytes], name: str, columns: Collection[str]
) -> Iterator[tuple[int, list[str] | BadRecord]]:
    """The rows of a table, read by Python's csv module.

    columns  names that the first row may contain
    """
    decoded = (line.decode("utf-8", "surrogateescape") for line in lines)
    sample, is_whole = _beginning(decoded)
    if sample and sample[0].rstrip("\r\n") in SEPARATOR_LINES:
        problem = "says the separator, as a spreadsheet wants it, and is no heading"
        raise DataError(name, 1, problem, "delete this line")
    csv.field_size_limit(MAX_RECORD_BYTES)  # for all readers of this process; default 131,072
    rows = dialect_of(sample, is_whole, columns).rows(itertools.chain(sample, decoded))
    width = 0
    while True:
        begins = rows.line_num + 1
        try:
            row = next(rows, None)
        except csv.Error as error:
            bad = BadRecord(
                f"no row of a table ({error})",
                "close each quote, double those within, and end lines with LF",
            )
            # An unclosed quote has joined lines: it is unknown which of them are rows.
            if rows.line_num > begins:
                raise DataError(name, begins, bad.problem, bad.remedy) from error
            yield begins, bad
            continue
        if row is None:
            return
        width = width or len(row)
        if row and len(row) != width:
            remedy = "put fields with a separator, quote or line feed into quotes"
            if width == 1:
                remedy = "delete the lines before the heading"
            problem = f"{counted(len(row), 'column')}, but {width} in the first row"
            yield begins, BadRecord(problem, remedy)
        elif row:
            yield begins, row


def _beginning(lines: Iterator[str]) -> tuple[list[str], bool]:
    """The first lines, without a byte order mark, and whether they are all there are."""
    sample: list[str] = []
    n_characters = 0
    for line in lines:
        sample.append(line if sample else line.removeprefix("\ufeff"))
        n_characters += len(line)
        if n_characters > DIALECT_CHARACTERS:
            return sample, False
    return sample, True


class Dialect(NamedTuple):
    """What separates the fields of a table and what quotes them; nothing if that is None."""

    delimiter: str
    quote: str | None

    def rows(self, lines: Iterable[str]) -> Any:
        """A reader of the csv module."""
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quotechar=self.quote,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            strict=True,
        )

    def fits(
        self, sample: list[str], is_whole: bool, min_width: int = 1, min_rows: int = 0
    ) -> bool:
        """Whether all rows of the first lines of a table can be read and have as many fields, of
        which there are `min_width` or more, in `min_rows` rows or more.
        """
        rows = self.rows(sample)
        n_rows = 0
        width = 0
        row_end = 0
        try:
            for row in rows:
                width = width or len(row)
                if row and (len(row) != width or width < min_width):
                    return False
                n_rows += 1
                row_end = rows.line_num
        except csv.Error:
            # Quotes may close in a line that is not among the first ones.
            is_open = rows.line_num == len(sample) and not is_whole
            return is_open and len(sample) - row_end <= MAX_OPEN_LINES
        return n_rows >= min_rows


def dialect_of(sample: list[str], is_whole: bool, columns: Collection[str]) -> Dialect:
    """The dialect of a table with these first lines: `delimiter_of` and double quotes. If rows then
    differ in their numbers of fields, it is the first dialect by which all have as many, two or
    more. Only tabs and bars may separate fields without quotes.
    """
    usual = Dialect(delimiter_of(sample[0] if sample else "", columns), QUOTES[0])
    if usual.fits(sample, is_whole):
        return usual
    others = [Dialect(mark, quote) for quote in QUOTES for mark in DELIMITERS]
    others += [Dialect(mark, None) for mark in ("\t", "|")]
    return next((other for other in others if other.fits(sample, is_whole, 2, MIN_ROWS)), usual)


def delimiter_of(first: str, columns: Collection[str]) -> str:
    """The delimiter of a table with this first line: the one that gives most of these columns, then
    most fields.
    """
    line = first.replace('"', "").strip("\r\n")

    def n_columns_and_fields(mark: str) -> tuple[int, int]:
        return len({*columns} & {*line.split(mark)}), first.count(mark)

    return max(DELIMITERS, key=n_columns_and_fields)


def table_values(
    lines: Iterable[bytes], name: str, column: str | None
) -> Iterator[tuple[int, Any]]:
    """The values of a column of a table, with row numbers."""
    place = None
    for number, row in table_rows(lines, name, [column] if column else []):
        if isinstance(row, BadRecord):
            yield number, row
            continue
        if place is None:
            place = _place(row, name, column)
            if column in row:
                continue
        yield number, row[place]


def _place(head: list[str], name: str, column: str | None) -> int:
    """The index of a column, by its name in the first row, or by its number, from 1."""
    if column is None:
        raise no_column_chosen(name, "a table", head)
    if column in head:
        return head.index(column)
    if column.isdecimal() and 1 <= int(column) <= len(head):
        return int(column) - 1
    among = f" among {listed_columns(head)}, or by its number, from 1"
    raise DataError(name, None, f"no column {column}", ("choose ", Setting("column"), among))


def no_column_chosen(file: str, problem: str, columns: Iterable[str]) -> NotTextError:
    """The error for a table if the column of the text is not set."""
    by_column = ("name the column with the text by ", Setting("column"))
    columns = list(columns)
    remedy = (by_column, _or_sessions(file, columns), f"; there are {listed_columns(columns)}")
    return NotTextError(file, problem, remedy, TABLE)


def _or_sessions(file: str, columns: Sequence[str]) -> str:
    """What to do with a table whose columns seem to be those of events, such as orders."""
    if guess_by_names(columns) is None:
        return ""
    return f", or make sessions of its rows by `embedx corpus sessions {shlex.quote(file)}`"


def listed_columns(names: Iterable[str]) -> str:
    """The first of the names of columns, shortened, for messages."""
    shortened = (name[:MAX_LETTERS_OF_COLUMN] or '""' for name in names)
    first = [*itertools.islice(shortened, MAX_COLUMNS_IN_MESSAGE + 1)]
    if len(first) > MAX_COLUMNS_IN_MESSAGE:
        first[MAX_COLUMNS_IN_MESSAGE:] = ["..."]
    return ", ".join(first)
