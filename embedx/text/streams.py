"""The text of a source as a stream of UTF-8 blocks, for every format: plain text, a Wikipedia dump,
JSON Lines, a table, the edges of a graph, or an archive of such files.
"""

import functools
import io
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from embedx.errors import DataError, Setting
from embedx.settings import Record
from embedx.text import archives, tables
from embedx.text.cells import SEPARATOR_NAMES, cell_tokens
from embedx.text.decompression import damage_explained, unpacked, without_mark
from embedx.text.file_kinds import begins_dump, check_is_text
from embedx.text.json_records import json_records
from embedx.text.labelled_starts import begins_labelled
from embedx.text.opening import BLOCK_BYTES, CountedReader
from embedx.text.parquet import parquet_values
from embedx.text.session_items import Separation, item_in_line, no_sessions, session_text
from embedx.text.settings import SESSIONS, TextSettings
from embedx.text.sources import EDGES, LABELLED_ROWS, Source, reader_of
from embedx.text.tables import PARQUET_START, LabelledDataError
from embedx.text.wikipedia import paragraphs

PLAIN = TextSettings()


def new_report(source: Source) -> Record:
    """An empty report of a source, filled while it is read.

    `skipped` is the kind of a file in a folder that is skipped because it is not text; `note` and
    `warning` are messages about the source.
    """
    return {
        "name": source.name,
        "tokens": 0,
        "bad_utf8": 0,
        "first_bad_byte": None,
        "too_long": 0,
        "bad_records": 0,
        "first_bad_record": "",
        "skipped": "",
        "note": "",
        "warning": "",
    }


def text_blocks(
    source: Source,
    file: CountedReader,
    settings: TextSettings = PLAIN,
    threads: int = 1,
    report: Record | None = None,
) -> Iterator[bytes]:
    """Yield the text of an open source in blocks, in UTF-8 unless ill-formed; each has at most a
    few times BLOCK_BYTES, or is one record.

    report  report of the source, in which records without text are counted
    """
    report = report or new_report(source)
    with damage_explained(source):
        if source.members:
            yield from _text_of_members(source, file, settings, report)
        else:
            yield from _text_of_file(source, file, settings, threads, report)


def _text_of_members(
    source: Source, file: CountedReader, settings: TextSettings, report: Record
) -> Iterator[bytes]:
    """Yield the text of the selected members of an archive, in turn."""
    has_sentences = source.has_sentences(settings)
    is_empty = True
    unpack = functools.partial(unpacked, source)
    for name, opened in archives.members(file, source.members, unpack):
        is_empty = False
        reader = source.format(settings)
        if source.reader == "any" and not has_sentences:
            reader = reader_of(name)
        member = replace(source, name=f"{source.name}: {name}", reader=reader, members="")
        text = text_blocks(member, CountedReader(opened), settings, 1, report)
        # the tokenizer skips a byte order mark only at the beginning of a source
        yield from without_mark(text)
        if not has_sentences:
            # ends the last sentence of the member
            yield b"\n"
    if is_empty:
        problem = f"no member matches {source.members}"
        raise DataError(source.name, None, problem, "check that it is the right file")


def _text_of_file(
    source: Source, file: CountedReader, settings: TextSettings, threads: int, report: Record
) -> Iterator[bytes]:
    """The text of a file, by its format."""
    name = source.name
    format = source.format(settings)
    buffered = io.BufferedReader(file, BLOCK_BYTES)
    if format == "table" and settings.format == SESSIONS and settings.column is None:
        raise no_sessions(name, (", name a column of sessions by ", Setting("column")))
    if format == "table" and buffered.peek(len(PARQUET_START)).startswith(PARQUET_START):
        # otherwise the buffer would close the file
        buffered.detach()
        values = parquet_values(file, name, settings.column)
        return _text_of_values(values, settings.column, source, settings, report)

    blocks = unpacked(source, buffered, threads)
    head = next(filter(None, blocks), b"")
    blocks = itertools.chain([head], blocks)
    if source.reader == LABELLED_ROWS and head.startswith(PARQUET_START):
        problem = "Parquet needs random access"
        raise DataError(name, None, problem, "save it to a file first")
    check_is_text(name, head)

    if format == "json":
        records = json_records(blocks, name)
        values = tables.json_values(records, name, settings.json_field)
        return _text_of_values(values, settings.json_field, source, settings, report)
    if format == "table":
        values = _column_values(settings.column, tables.lines_of(blocks, name), name)
        return _text_of_values(values, settings.column, source, settings, report)
    if begins_dump(head):
        return paragraphs(blocks, source.cut_off, threads)
    _check_format(source, settings, head)
    if source.reader == EDGES:
        separator = settings.edge_separator
        return cell_tokens(blocks, name, None if separator is None else SEPARATOR_NAMES[separator])
    if settings.format == SESSIONS:
        return _text_of_sessions(blocks, name, report)
    return blocks


def _text_of_sessions(blocks: Iterable[bytes], name: str, report: Record) -> Iterator[bytes]:
    """The text of sessions, with a space between items; the separator is noted in the report."""

    def note_separation(separation: Separation) -> None:
        report["note"] = separation.note
        report["warning"] = separation.warning

    return session_text(blocks, name, note_separation)


def _check_format(source: Source, settings: TextSettings, head: bytes) -> None:
    """Raise `DataError` if a file with these first bytes, not those of a dump, is not in the format
    in which it is to be read.
    """
    if source.format(settings) == "wikipedia":
        start = "it does not begin with <mediawiki>"
        problem = f"not a Wikipedia dump, despite its name or recipe: {start}"
        raise DataError(source.name, None, problem)
    may_be_labelled = source.reader == LABELLED_ROWS or settings.format in ("text", SESSIONS)
    if not may_be_labelled and begins_labelled(head):
        raise LabelledDataError(source.name)


def _text_of_values(
    values: Iterator[tuple[int, Any]],
    field: str | None,
    source: Source,
    settings: TextSettings,
    report: Record,
) -> Iterator[bytes]:
    """Yield the text of a field; bad records raise an error, or are counted in the report."""
    note_bad = functools.partial(tables.count_bad, report, settings.on_bad_record)
    has_sentences = source.has_sentences(settings)
    if settings.format != SESSIONS or has_sentences:
        return tables.text_of(values, source.name, field or "", has_sentences, note_bad)
    with_items = ((number, _items_as_words(value)) for number, value in values)
    text = tables.text_of(with_items, source.name, field or "", False, note_bad)
    return _text_of_sessions(text, source.name, report)


def _items_as_words(value: Any) -> Any:
    """The items of a list as words; another value unchanged."""
    if not isinstance(value, list):
        return value
    words = []
    for item in value:
        if isinstance(item, str):
            words.append(item_in_line(item))
        else:
            words.append(item)
    return words


def _column_values(
    column: str | None, lines: Iterator[bytes], name: str
) -> Iterator[tuple[int, Any]]:
    """The cells of a column of a table, by the column's name or its number, from 1."""
    if column is not None and column.isdecimal():
        return _values_at(int(column), lines, name)
    return tables.table_values(lines, name, column)


def _values_at(position: int, lines: Iterator[bytes], name: str) -> Iterator[tuple[int, Any]]:
    """The cells of a column of a table, by its number from 1; the first row has one too."""
    for number, row in tables.table_rows(lines, name, ()):
        if isinstance(row, tables.BadRecord):
            yield number, row
            continue
        if not 1 <= position <= len(row):
            columns = tables.listed_columns(row)
            remedy = ("choose ", Setting("column"), f" among {columns}, or by its number, from 1")
            raise DataError(name, None, f"no column {position}", remedy)
        yield number, row[position - 1]
