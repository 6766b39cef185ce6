"""Sessions from a table of events: a user's items in the order of their times are a sentence.

Memory is 16 bytes per event, and the different users and items.
"""

import array
import datetime
import io
import itertools
from collections.abc import Iterator
from typing import Any

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
    names = [name.strip() for name in columns.split(",")]
    if len(names) != 3 or not all(names):
        problem = "must be three names, of the columns of user, item and time"
        raise SettingError("columns", columns, problem)
    if time_unit is not None and time_unit not in UNITS:
        raise SettingError("time_unit", time_unit, choice(time_unit, UNITS))
    users, items = dict[str, int](), dict[str, int]()
    ids = array.array("i")
    times = Times(time_unit)
    for line, (user, item, time) in _events(table, names, progress):
        _check_event(table, line, names, user, item)
        try:
            times.add(time)
        except ValueError as error:
            problem = f"{names[2]} is {time[:40]!r}, {error}"
            raise DataError(
                table, line, problem, "write seconds or a date such as 2026-01-31T12:00"
            ) from error
        ids.extend((users.setdefault(user, len(users)), items.setdefault(item, len(items))))
    if not users:
        raise DataError(table, None, "no rows", "is it the right file?")
    when, written_as = times.seconds(table)
    progress.note(f"{table}: {names[2]} is read as {written_as}{_range(when)}")
    user_and_item = np.asarray(ids, np.int32).reshape(-1, 2)
    # stable: events of one time stay in the order of their rows
    order = np.lexsort((when, user_and_item[:, 0]))
    user_and_item, when = user_and_item[order], when[order]
    is_new = np.diff(user_and_item[:, 0], prepend=-1) != 0
    if gap is not None:
        is_new |= np.diff(when, prepend=when[0]) > gap
    begins = np.flatnonzero(is_new)
    ends = np.append(begins[1:], len(when))
    known = list(items)
    n_short = int((ends - begins < 2).sum())
    if n_short == len(begins):
        problem = f"each of the {n_short:,} sessions has a single item"
        remedy: tuple[Part, ...] = ("check which column is which: ", Setting("columns", columns))
        if gap is not None:
            remedy = ("take a longer ", Setting("gap"), ", or ", *remedy)
        raise DataError(table, None, problem, remedy)
    if n_short:
        progress.note(
            f"{table}: {n_short:,} of {len(begins):,} sessions have a single item, and are left out"
        )
    for k in np.argsort(when[begins], kind="stable"):
        if ends[k] - begins[k] > 1:
            yield " ".join(known[item] for item in user_and_item[begins[k] : ends[k], 1])


def _check_event(table: str, line: int, names: list[str], user: str, item: str) -> None:
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
