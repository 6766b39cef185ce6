"""Sessions from a table of events: a user's items in the order of their times are a sentence.

Memory is 16 bytes per event, and the different users and items.
"""

import array
import datetime
import io
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from embedx.errors import DataError, Part, Setting, SettingError, choice
from embedx.runtime.progress import Progress
from embedx.text.decompression import damage_explained, unpacked
from embedx.text.opening import BLOCK_BYTES, open_source
from embedx.text.parquet import parquet_records
from embedx.text.sources import resolve
from embedx.text.tables import (
    PARQUET_START,
    Bad,
    json_records,
    lines_of,
    table_rows,
    value_of,
)
from embedx.text.times import SINCE_1970, UNITS, Times


def sessions(
    table: str,
    columns: str,
    gap: float | None,
    progress: Progress,
    time_unit: str | None = None,
) -> Iterator[str]:
    """The sessions of a CSV, TSV, JSON Lines or Parquet file, in the order of their beginnings;
    items are separated by blanks. Raises `DataError` where there are none.

    columns    names of the columns of user, item and time, separated by commas, or their numbers,
               from 1, in a table without a heading
    gap        a new session begins after a pause of more seconds; None: all of a user's items are
               one
    time_unit  of times that are numbers, one of `times.UNITS`; None: recognised
    """
    names = _three_columns(columns)
    if time_unit is not None and time_unit not in UNITS:
        raise SettingError("time_unit", time_unit, choice(time_unit, UNITS))
    events = _read_events(table, names, Times(time_unit), progress)
    begins, ends = _bounds(events, gap)
    is_short = ends - begins < 2
    _check_lengths(table, columns, gap, is_short)
    n_short = int(is_short.sum())
    if n_short:
        progress.note(
            f"{table}: {n_short:,} of {len(begins):,} sessions have a single item, and are left out"
        )
    for k in np.argsort(events.times[begins], kind="stable"):
        if not is_short[k]:
            yield " ".join(events.names[item] for item in events.items[begins[k] : ends[k]])


def _three_columns(columns: str) -> list[str]:
    """The names of the columns of user, item and time."""
    names = [name.strip() for name in columns.split(",")]
    if len(names) != 3 or not all(names):
        problem = "must be three names, of the columns of user, item and time"
        raise SettingError("columns", columns, problem)
    return names


class _Events(NamedTuple):
    """The events of a table, those of each user in the order of their times.

    users, items  int32 (n,)
    times         (n,), in seconds
    names         of the items
    """

    users: np.ndarray
    items: np.ndarray
    times: np.ndarray
    names: list[str]


def _read_events(table: str, names: list[str], times: Times, progress: Progress) -> _Events:
    """The events of a table. Raises `DataError` where there are none."""
    users: dict[str, int] = {}
    items: dict[str, int] = {}
    ids = array.array("i")
    for line, (user, item, time) in _events(table, names, progress):
        _check_event(table, line, names, user, item)
        try:
            times.add(time)
        except ValueError as error:
            problem = f"{names[2]} is {time[:40]!r}, {error}"
            remedy = "write seconds or a date such as 2026-01-31T12:00"
            raise DataError(table, line, problem, remedy) from error
        user_number = users.setdefault(user, len(users))
        item_number = items.setdefault(item, len(items))
        ids.extend((user_number, item_number))
    if not users:
        raise DataError(table, None, "no rows", "is it the right file?")
    seconds, written_as = times.seconds(table)
    progress.note(f"{table}: {names[2]} is read as {written_as}{_range(seconds)}")
    user_and_item = np.asarray(ids, np.int32).reshape(-1, 2)
    # stable: events of one time stay in the order of their rows
    order = np.lexsort((seconds, user_and_item[:, 0]))
    user_and_item = user_and_item[order]
    return _Events(user_and_item[:, 0], user_and_item[:, 1], seconds[order], list(items))


def _bounds(events: _Events, gap: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Where sessions begin and end among the events: at another user, or after a pause."""
    is_new = np.diff(events.users, prepend=-1) != 0
    if gap is not None:
        is_new |= np.diff(events.times, prepend=events.times[0]) > gap
    begins = np.flatnonzero(is_new)
    return begins, np.append(begins[1:], len(events.times))


def _check_lengths(table: str, columns: str, gap: float | None, is_short: np.ndarray) -> None:
    """Raise `DataError` if no session has two items."""
    if not is_short.all():
        return
    problem = f"each of the {len(is_short):,} sessions has a single item"
    remedy: tuple[Part, ...] = ("check which column is which: ", Setting("columns", columns))
    if gap is not None:
        remedy = ("take a longer ", Setting("gap"), ", or ", *remedy)
    raise DataError(table, None, problem, remedy)


def _check_event(table: str, line: int, names: list[str], user: str, item: str) -> None:
    """Raise `DataError` for a row without a user, or whose item is not a word."""
    if not user.strip():
        raise DataError(table, line, f"{names[0]} is empty", "leave such rows out")
    if len(item.split()) != 1:
        problem = f"{names[1]} is {item[:40]!r}; it must be a word, without white space"
        raise DataError(table, line, problem, "write an id, or _ for blanks")


def _range(seconds: np.ndarray) -> str:
    """From when to when, where these are dates."""
    try:
        first, last = (
            datetime.datetime.fromtimestamp(float(end), datetime.UTC)
            for end in (seconds.min(), seconds.max())
        )
    except (ValueError, OverflowError, OSError):
        return ""
    if seconds.max() < SINCE_1970["s"]:
        return ""
    return f", from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} (UTC)"


def _events(table: str, names: list[str], progress: Progress) -> Iterator[tuple[int, list[str]]]:
    """The values of three columns, each with its line or row."""
    (source,) = resolve([table])
    progress.start("reading", source.size, "B")
    with open_source(source) as file, damage_explained(source):
        buffered = io.BufferedReader(file, BLOCK_BYTES)
        if buffered.peek(4)[:4] == PARQUET_START:
            buffered.detach()  # it would close the file
            rows: Iterator[tuple[int, Any]] = parquet_records(file, table, lambda found: None)
        else:
            lines = lines_of(unpacked(source, buffered), table)
            first = next(lines, b"")
            lines = itertools.chain([first], lines)
            rows = (
                json_records(lines)
                if first.lstrip().startswith(b"{")
                else _named(table_rows(lines, table, names), names, table, progress)
            )
        for number, record in rows:
            if isinstance(record, Bad):
                raise DataError(table, number, record.why, record.remedy)
            values = [value_of(record, name, None) for name in names]
            if None in values:
                remedy = ("choose ", Setting("columns"), f" among {', '.join(record)}")
                raise DataError(table, number, f"no {names[values.index(None)]}", remedy)
            progress.update(file.count)
            yield number, [*map(str, values)]
    progress.finish()


def _named(
    rows: Iterator[tuple[int, Any]], names: list[str], table: str, progress: Progress
) -> Iterator[tuple[int, Any]]:
    """The rows of a table by the names in the first one, or by the numbers of columns, from 1,
    where all are numbers, which the first row does not have; then it is data, if it has a time.
    """
    first: tuple[int, Any] = next(rows, (1, []))
    number, head = first
    if isinstance(head, Bad):
        yield number, head
        return
    if all(map(str.isdecimal, names)) and not {*names} <= {*head}:
        place = int(names[2]) - 1
        if place < len(head) and any(map(str.isdigit, head[place])):
            rows = itertools.chain([first], rows)
        else:
            progress.note(f"{table}: its first line is taken as a heading, and left out")
        head = [str(k) for k in range(1, len(head) + 1)]
    for number, row in rows:
        yield number, row if isinstance(row, Bad) else dict(zip(head, row, strict=True))
