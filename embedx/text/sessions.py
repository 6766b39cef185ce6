"""Sessions from a table of events: the items of a user, ordered by time, are a sentence.

Memory: 16 bytes per event, and the distinct users and items.
"""

import array
import datetime
import io
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from embedx.errors import (
    DataError,
    InapplicableError,
    Part,
    Setting,
    SettingError,
    Text,
    choice,
    counted,
)
from embedx.runtime.progress import Progress
from embedx.text.decompression import damage_explained, unpacked
from embedx.text.event_columns import USUAL_NAMES, guess_columns, is_heading
from embedx.text.file_kinds import TO_UTF8, check_is_text
from embedx.text.json_records import begins_spread, json_records
from embedx.text.opening import BLOCK_BYTES, CountedReader, open_source
from embedx.text.parquet import parquet_records
from embedx.text.session_items import BLANK_IN_ITEM, item_as_word, item_in_line
from embedx.text.sources import Source, find_sources
from embedx.text.tables import (
    PARQUET_START,
    BadRecord,
    lines_of,
    shown,
    table_rows,
    value_of,
)
from embedx.text.times import SINCE_1970, UNITS, Times

# User, item and time.
N_COLUMNS = 3


def sessions(
    table: str,
    columns: str | None,
    gap: float | None,
    progress: Progress,
    time_unit: str | None = None,
) -> Iterator[str]:
    """The sessions of a CSV, TSV, JSON Lines or Parquet file, ordered by their starts; items are
    separated by spaces, and the words of an item joined by _. Raises `DataError` if there are none.

    columns    names of the columns of user (or order), item and time, separated by commas, or their
               numbers, from 1, in a table without a heading; without a time rows are in their
               order. None: guessed, and said
    gap        a new session begins after a pause longer than this, in seconds; None: one session
               per user
    time_unit  unit of numeric times, one of `times.UNITS`; None: recognised
    """
    if time_unit is not None and time_unit not in UNITS:
        raise SettingError("time_unit", time_unit, choice(time_unit, UNITS))
    names, records = _columns_and_records(table, columns, progress)
    if len(names) == N_COLUMNS:
        events = _read_events(table, names, records, Times(time_unit), progress)
    else:
        _check_needs_no_time(gap, time_unit)
        events = _read_events(table, names, records, None, progress)
    begins, ends = _bounds(events, gap)
    is_short = ends - begins < 2
    _check_lengths(table, ",".join(names), gap, is_short)
    n_short = int(is_short.sum())
    if n_short:
        progress.note(
            f"{table}: left out: {n_short:,} of {counted(len(begins), 'session')}, of a single item"
        )
    for k in np.argsort(events.times[begins], kind="stable"):
        if not is_short[k]:
            items = events.items[begins[k] : ends[k]]
            yield " ".join(item_in_line(events.names[item]) for item in items)


def _names_of_columns(columns: str) -> list[str]:
    """The names of the columns of user and item and, if there is one, of time."""
    names = [name.strip() for name in columns.split(",")]
    if len(names) not in (N_COLUMNS - 1, N_COLUMNS) or not all(names):
        problem = "must be the names of the columns of user and item, and of time if there is one"
        raise SettingError("columns", columns, problem)
    return names


def _columns_and_records(
    table: str, columns: str | None, progress: Progress
) -> tuple[list[str], Iterator[tuple[int, Any]]]:
    """The names of the columns, guessed if they are not given, and the rows of the table."""
    if columns is not None:
        names = _names_of_columns(columns)
        return names, _records(table, names, progress)
    records = _records(table, None, progress)
    number, first = next(records, (1, {}))
    if isinstance(first, BadRecord):
        raise DataError(table, number, first.problem, first.remedy)
    if not first:
        raise DataError(table, None, "no rows", "check that it is the right file")
    guessed = guess_columns(first)
    if guessed is None:
        problem = "its columns of user (or order) and item are not known by their names"
        raise DataError(table, None, problem, _remedy_for_missing(first))
    roles = ", ".join(USUAL_NAMES[: len(guessed)])
    others = [name for name in first if name not in guessed]
    not_taken = f" (not {', '.join(others)})" if others else ""
    guess = f"{table}: {roles} are the columns {', '.join(guessed)}{not_taken}; choose others by "
    progress.note(guess, Setting("columns"))
    return guessed, itertools.chain([(number, first)], records)


def _check_needs_no_time(gap: float | None, time_unit: str | None) -> None:
    """Raise `InapplicableError` for a setting that needs times."""
    problem = ("applies only with a column of times, the third of ", Setting("columns"))
    if gap is not None:
        raise InapplicableError("gap", None, problem)
    if time_unit is not None:
        raise InapplicableError("time_unit", time_unit, problem)


class _Events(NamedTuple):
    """The events of a table, ordered by time within each user.

    users, items  int32 (n,)
    times         (n,), in seconds, or the numbers of the rows
    names         of the items
    """

    users: np.ndarray
    items: np.ndarray
    times: np.ndarray
    names: list[str]


def _read_events(
    table: str,
    names: list[str],
    records: Iterator[tuple[int, Any]],
    times: Times | None,
    progress: Progress,
) -> _Events:
    """The events of a table; without times, in the order of its rows. Raises `DataError` if there
    are none.
    """
    users: dict[str, int] = {}
    items: dict[str, int] = {}
    ids = array.array("i")
    example_of_joined = None
    for line, values in _values(table, names, records):
        user, item = values[:2]
        _check_event(table, line, names, user, item)
        if times is not None:
            _add_time(times, values[2], table, line, names[2])
        word = item_as_word(item)
        if example_of_joined is None and word != item.strip():
            example_of_joined = word
        user_number = users.setdefault(user, len(users))
        item_number = items.setdefault(word, len(items))
        ids.extend((user_number, item_number))
    if not users:
        raise DataError(table, None, "no rows", "check that it is the right file")
    if example_of_joined is not None:
        progress.note(
            f"{table}: the words of an item are joined by {BLANK_IN_ITEM}, as {example_of_joined}"
        )

    user_and_item = np.asarray(ids, np.int32).reshape(-1, 2)
    moments = np.arange(len(user_and_item), dtype=np.float64)
    if times is not None:
        moments, written_as = times.seconds(table)
        progress.note(f"{table}: {names[2]} is read as {written_as}{_range(moments)}")
    # stable: events of one time stay in the order of their rows
    order = np.lexsort((moments, user_and_item[:, 0]))
    user_and_item = user_and_item[order]
    return _Events(user_and_item[:, 0], user_and_item[:, 1], moments[order], list(items))


def _add_time(times: Times, time: str, table: str, line: int, column: str) -> None:
    """Add the time of a row. Raises `DataError` if it is not a time."""
    try:
        times.add(time)
    except ValueError as error:
        problem = f"{column} is {time[:40]!r}, {error}"
        remedy = "write all times in one form, as seconds or as 2026-01-31T12:00"
        raise DataError(table, line, problem, remedy) from error


def _bounds(events: _Events, gap: float | None) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of sessions among the events: a new user, or a pause, begins a session."""
    is_new = np.diff(events.users, prepend=-1) != 0
    if gap is not None:
        is_new |= np.diff(events.times, prepend=events.times[0]) > gap
    begins = np.flatnonzero(is_new)
    return begins, np.append(begins[1:], len(events.times))


def _check_lengths(table: str, columns: str, gap: float | None, is_short: np.ndarray) -> None:
    """Raise `DataError` unless some session has at least two items."""
    if not is_short.all():
        return
    problem = f"each of the {len(is_short):,} sessions has a single item"
    remedy: tuple[Part, ...] = ("check which column is which: ", Setting("columns", columns))
    if gap is not None:
        remedy = ("take a longer ", Setting("gap"), ", or ", *remedy)
    raise DataError(table, None, problem, remedy)


def _check_event(table: str, line: int, names: list[str], user: str, item: str) -> None:
    """Raise `DataError` for a row without a user or an item."""
    if not user.strip():
        raise DataError(table, line, f"{names[0]} is empty", "leave such rows out")
    if not item.strip():
        raise DataError(table, line, f"{names[1]} is empty", "leave such rows out")


def _range(seconds: np.ndarray) -> str:
    """The first and the last time, for a message; "" unless they are dates."""
    if seconds.max() < SINCE_1970["s"]:
        return ""
    try:
        first = datetime.datetime.fromtimestamp(float(seconds.min()), datetime.UTC)
        last = datetime.datetime.fromtimestamp(float(seconds.max()), datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return f", from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} (UTC)"


def _values(
    table: str, names: list[str], records: Iterator[tuple[int, Any]]
) -> Iterator[tuple[int, list[str]]]:
    """Yield the values of the columns, with their line or row."""
    for number, record in records:
        if isinstance(record, BadRecord):
            raise DataError(table, number, record.problem, record.remedy)
        values = [value_of(record, name, None) for name in names]
        if None in values:
            missing = f'no column "{names[values.index(None)]}"'
            raise DataError(table, number, missing, _remedy_for_missing(record))
        pairs = zip(names, values, strict=True)
        yield number, [_text_of(value, table, number, name) for name, value in pairs]


def _remedy_for_missing(record: Mapping[str, Any]) -> Text:
    """The remedy if a row lacks a named column."""
    roles = "name those of user or order, of item and, if there is one, of time by "
    return (roles, Setting("columns"), f"; there are {', '.join(record)}")


def _text_of(value: Any, table: str, line: int, column: str) -> str:
    """The text of a cell; a whole number is written without a fraction. Raises `DataError` for
    lists, objects, bytes and NaN, which cannot name a user, item or time.
    """
    is_single = not isinstance(value, list | tuple | Mapping | bytes)
    if not is_single or value != value:
        problem = f"{column} is {shown(value)}, neither text nor a number"
        raise DataError(table, line, problem, "write an event a row, or choose another column")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value)
    _check_utf8(text.encode("utf-8", "surrogateescape"), table, line)
    return text


def _check_utf8(text: bytes, table: str, line: int) -> None:
    """Raise `DataError` if a text is not UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise DataError(table, line, "not UTF-8", TO_UTF8) from error


def _records(table: str, names: list[str] | None, progress: Progress) -> Iterator[tuple[int, Any]]:
    """Yield the rows of a table, by column, with their line or number.

    names  of columns that are looked for; None: all columns may be
    """
    (source,) = find_sources([table])
    progress.start("reading", source.size, "B")
    with open_source(source) as file, damage_explained(source):
        for record in _opened_records(source, file, table, names, progress):
            progress.update(file.count)
            yield record
    progress.finish()


def _opened_records(
    source: Source, file: CountedReader, table: str, names: list[str] | None, progress: Progress
) -> Iterator[tuple[int, Any]]:
    """The rows of an open table of any format, by column."""
    buffered = io.BufferedReader(file, BLOCK_BYTES)
    if buffered.peek(len(PARQUET_START)).startswith(PARQUET_START):
        # otherwise the buffer would close the file
        buffered.detach()
        return parquet_records(file, table)
    blocks = unpacked(source, buffered)
    head = next(filter(None, blocks), b"")
    check_is_text(table, head)
    blocks = itertools.chain([head], blocks)
    if head.lstrip().startswith(b"{") or begins_spread(head):
        return json_records(blocks, table)
    lines = lines_of(blocks, table)
    first = next(lines, b"")
    _check_utf8(first, table, 1)
    lines = itertools.chain([first], lines)
    return _named(table_rows(lines, table, names or []), names, table, progress)


def _named(
    rows: Iterator[tuple[int, Any]], names: list[str] | None, table: str, progress: Progress
) -> Iterator[tuple[int, Any]]:
    """The rows of a table by column.

    The first row names the columns. If all `names` are numbers that are not in the first row,
    columns are numbered from 1, and the first row is an event if it looks like one. Without
    `names` a first row that is no heading is an event, too.
    """
    first: tuple[int, Any] = next(rows, (1, []))
    number, head = first
    if isinstance(head, BadRecord):
        yield number, head
        return
    head = [name.strip() for name in head]
    if names is None:
        are_numbers = not is_heading(head)
    else:
        are_numbers = all(map(str.isdecimal, names)) and not {*names} <= {*head}
    if are_numbers:
        if names is None or _is_event(head, names):
            rows = itertools.chain([first], rows)
        else:
            progress.note(f"{table}: its first line is taken as a heading, and left out")
        head = [str(k) for k in range(1, len(head) + 1)]
    for number, row in rows:
        if isinstance(row, BadRecord):
            yield number, row
        else:
            yield number, dict(zip(head, row, strict=True))


def _is_event(row: list[str], names: list[str]) -> bool:
    """Whether the first row of a table may be an event, not a heading: its time, if any, contains a
    digit.
    """
    if len(names) < N_COLUMNS:
        return True
    time_column = int(names[-1]) - 1
    return time_column < len(row) and any(map(str.isdigit, row[time_column]))
