"""Sessions from a table of events: a user's items in the order of their times are a sentence.

Memory is 16 bytes per event, and the different users and items.
"""

import array
import datetime
import io
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from embedx.errors import EmbedxError
from embedx.text.sources import resolve
from embedx.text.streams import BLOCK_BYTES, damage_explained, open_source, unpacked
from embedx.text.tables import (
    PARQUET_START,
    Bad,
    json_records,
    lines_of,
    parquet_records,
    table_rows,
    value_of,
)
from embedx.training.progress import Progress


def sessions(table: str, columns: str, gap: float | None, progress: Progress) -> Iterator[str]:
    """The sessions of a CSV, TSV, JSON Lines or Parquet file, in the order of their beginnings;
    items are separated by blanks.

    columns  names of the columns of user, item and time, separated by commas; a time is a number of
             seconds or in ISO 8601
    gap      a new session begins after a pause of more seconds; None: all of a user's items are one
    """
    names = [each.strip() for each in columns.split(",")]
    if len(names) != 3 or not all(names):
        raise EmbedxError(
            f"--columns {columns}: must be three names, of the columns of user, item and time"
        )
    users, items = dict[str, int](), dict[str, int]()
    ids, times = array.array("i"), array.array("d")
    for place, (user, item, time) in _events(table, names, progress):
        if len(item.split()) != 1:
            raise EmbedxError(
                f"{place}: {names[1]} is {item!r}; it must be a word, without white space"
            )
        times.append(_seconds(time, place, names[2]))
        ids.extend((users.setdefault(user, len(users)), items.setdefault(item, len(items))))
    if not times:
        raise EmbedxError(f"{table}: no rows; is it the right file?")
    of, when = np.asarray(ids, np.int32).reshape(-1, 2), np.asarray(times)
    # stable: events of one time stay in the order of their rows
    order = np.lexsort((when, of[:, 0]))
    of, when = of[order], when[order]
    is_new = np.diff(of[:, 0], prepend=-1) != 0
    if gap is not None:
        is_new |= np.diff(when, prepend=when[0]) > gap
    begins = np.flatnonzero(is_new)
    ends, known = np.append(begins[1:], len(when)), list(items)
    n_short = int((ends - begins < 2).sum())
    if n_short:
        progress.note(
            f"{table}: {n_short:,} of {len(begins):,} sessions have a single item, and are left out"
        )
    for k in np.argsort(when[begins], kind="stable"):
        if ends[k] - begins[k] > 1:
            yield " ".join(known[item] for item in of[begins[k] : ends[k], 1])


def _events(table: str, names: list[str], progress: Progress) -> Iterator[tuple[str, list[str]]]:
    """The values of three columns, each with its place in the file."""
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
                else _named(table_rows(lines, table, names))
            )
        for number, record in rows:
            if isinstance(record, Bad):
                raise EmbedxError(f"{table}:{number}: {record.why}; {record.remedy}")
            values = [value_of(record, name, None) for name in names]
            if None in values:
                missing = names[values.index(None)]
                raise EmbedxError(
                    f"{table}:{number}: no {missing}; choose --columns USER,ITEM,TIME among"
                    f" {', '.join(record)}"
                )
            progress.update(file.count)
            yield f"{table}:{number}", [*map(str, values)]
    progress.finish()


def _named(rows: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """The rows of a table by the names in the first one."""
    number, head = next(rows, (1, ()))
    if isinstance(head, Bad):
        yield number, head
    yield from (
        (number, row if isinstance(row, Bad) else dict(zip(head, row, strict=True)))
        for number, row in rows
    )


def _seconds(text: str, place: str, column: str) -> float:
    """A time as seconds."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = datetime.datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError):
            seconds = math.nan
    if not math.isfinite(seconds):
        raise EmbedxError(
            f"{place}: {column} is {text[:40]!r}; write seconds or a date such as 2026-01-31T12:00"
        )
    return seconds
