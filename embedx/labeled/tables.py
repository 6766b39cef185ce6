"""Tables as labelled data: of each row of CSV, TSV, JSON Lines or Parquet the text, the numbers,
the labels and the id.

Text columns are joined by blanks. Numbers beside text are features as words are, one for each
interval between deciles of the training data, so that they weigh as much as words do. On short
texts of four classes with generated columns, LinearSVC has P@1 by z-scores and by intervals: with 4
normal columns .943 and .943, 30 log-normal .907 and .995, 4 of unequal variance .882 and .950, 4 of
noise .885 and .879. Numbers alone are dense features, of mean 0 and standard deviation 1 in the
training data. An empty cell, and one of MISSING, has no interval, or the mean.
"""

import collections
import contextlib
import dataclasses
import functools
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, hstack

from embedx.errors import DataError, EmbedxError, Setting
from embedx.labeled.arrays import content_of, is_plain
from embedx.labeled.cells import cell, labels_of, mark_of, number_of, text_of
from embedx.labeled.data import Columns, DataSchema, FileRows, Labels, offsets_of
from embedx.labeled.files import Lines, MemoryBudget
from embedx.labeled.schema import WORD_BYTES, Numbering, decoded
from embedx.labeled.words import TextFeatureSettings, text_features
from embedx.settings import Settings, param
from embedx.storage.schema import as_utf8, check_can_be_saved
from embedx.text.parquet import parquet_records
from embedx.text.sources import Source, reader_of
from embedx.text.streams import CountedReader, begins_labelled, damage_explained, open_source
from embedx.text.tables import (
    Bad,
    delimiter_of,
    fields_of,
    json_records,
    table_rows,
    value_of,
)
from embedx.training.progress import Progress

ROWS, CELLS = 1000, 1 << 20  # at most, read at a time; the columns are chosen by the first of them
MAX_LISTED, MAX_SHOWN = 30, 40  # names of columns in a message, letters of each
N_INTERVALS = 10  # of the numbers of a column
MAX_DEVIATIONS = 1e6  # numbers further from the mean are held there
# Names of columns, in any case, by which they are chosen where none is given.
LABEL_NAMES = {
    "label",
    "labels",
    "category",
    "categories",
    "class",
    "tag",
    "tags",
    "target",
    "topic",
    "topics",
}
TITLE_NAMES = {"title", "subject", "headline"}
TEXT_NAMES = {
    "text",
    "body",
    "content",
    "message",
    "sentence",
    "document",
    "description",
    "review",
    "comment",
}
# of row numbers that pandas writes; not used unless they are named
INDEX_NAMES = {"", "unnamed: 0", "__index_level_0__"}
SEPARATORS = ";|, "  # of labels in a cell, that a note proposes

Records = Iterator[tuple[int, Mapping[str, Any]]]  # number of the line or row, and values by column


class TableSettings(Settings):
    """Which columns of a table are used. What is None is chosen by the names of the columns and
    their values.
    """

    panel = "Data"

    text_column: str | None = param(
        None,
        "tables: columns with the text; joined by blanks; by default title and text, or the only"
        " one left",
        metavar="name,...",
    )
    label_column: str | None = param(
        None,
        "tables: column with the label or a list of labels, by default label; several are 0/1"
        " columns, one for each label",
        metavar="name,...",
    )
    id_column: str | None = param(
        None,
        "tables: column that `predict` prints first; by default id, if there is one",
        metavar="name",
    )
    label_separator: str | None = param(
        None,
        "separator of several labels in a cell of a table, or a line of --train-labels; by default"
        " each is one label, or a list",
        fine=True,
    )
    feature_columns: str | None = param(
        None,
        "tables: columns with numeric features, separated by commas; by default none beside text,"
        " all without text",
        fine=True,
    )

    header: str | None = param(
        None,
        "tables: whether the first row of CSV and TSV is a heading; by default it is, unless"
        " columns are given by number or it has numbers alone",
        choices=("yes", "no"),
    )

    @property
    def given(self) -> dict[str, list[str]]:
        """The columns that were named, by setting."""
        values = {
            "text_column": self.text_column,
            "label_column": self.label_column,
            "id_column": self.id_column,
            "feature_columns": self.feature_columns,
        }
        return {
            name: [value] if name == "id_column" else [part.strip() for part in value.split(",")]
            for name, value in values.items()
            if value is not None
        }

    @property
    def names(self) -> list[str]:
        """The columns that were named."""
        return [name for names in self.given.values() for name in names]


def format_of(lines: Lines, given: TableSettings, like: Columns | None, is_text: bool) -> str:
    """The format of a table, "json" or "table"; "" if it is none.

    like     the columns of the training data, if these are a table
    is_text  whether lines that are no table are rows of text
    """
    first = lines.first_line
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(json.loads(first), dict):
            return "json"
    if begins_labelled(lines.head):
        return ""
    if (by_name := reader_of(lines.name)) in ("json", "table"):
        return by_name
    fields = [each.strip() for each in first.replace('"', "").split(delimiter_of(first, ()))]
    found, lower = (
        {*fields, *map(str, range(1, len(fields) + 1))},
        {each.lower() for each in fields},
    )
    if (
        given.given
        or given.header
        or (like and (not like.text or {*like.text, *like.numbers} <= found))
    ):
        return "table"
    return (
        "table"
        if not is_text and lower & LABEL_NAMES and lower & (TITLE_NAMES | TEXT_NAMES)
        else ""
    )


def read_table(
    source: Source,
    lines: Lines | None,
    format: str,
    given: TableSettings,
    like: DataSchema | None,
    needs_labels: bool,
    text: TextFeatureSettings,
    progress: Progress,
    given_records: Records | None = None,
) -> FileRows:
    """The rows of a table.

    lines          its text; None: a Parquet file, or the given records
    like           the schema of the training data, if it is not that
    given_records  rows that are in no file
    """
    name, budget, known = (
        source.name,
        lines.budget if lines else MemoryBudget(source.name),
        like.columns if like else None,
    )
    heading = _Heading(name, given, known, progress)
    if given_records is not None:
        records = given_records
    elif lines is None:
        stored = open_source(source) if is_plain(source) else CountedReader(content_of(source))
        records = _parquet_records(source, stored, None)
    else:
        records = (
            _good(name, json_records(_lines_of(lines)))
            if format == "json"
            else _table_records(lines, heading)
        )
    if (first := next(records, None)) is None:
        raise EmbedxError(f"{name}: no rows; is it the right file, and was it copied whole?")
    n_rows = max(1, min(ROWS, CELLS // len(first[1])))
    head = [first, *itertools.islice(records, n_rows - 1)]
    columns = _chosen(
        name, [record for _, record in head], given, like, needs_labels, heading.is_there, progress
    )
    check_can_be_saved(columns.names, name)
    words = text_features(text, budget, like.text if like else None)
    records = (
        _parquet_records(source, stored, columns)
        if lines is None and given_records is None
        else itertools.chain(head, records)
    )
    labels, split = Numbering(budget), functools.partial(labels_of, separator=columns.separator)
    for indicator in columns.indicators:
        _ = labels[as_utf8(indicator).encode()]
    parts, numbers, ids, n_empty = [], [], [], 0
    while rows := list(itertools.islice(records, n_rows)):
        cells = [functools.partial(cell, name, number, record) for number, record in rows]
        texts = [" ".join(cell(each, text_of) for each in columns.text) for cell in cells]
        n_empty += sum(not text.strip() for text in texts if columns.text)
        words.add(texts)
        numbers.append(
            np.array([[cell(each, number_of) for each in columns.numbers] for cell in cells])
        )
        found = [_labels_of_row(cell, columns, split) for cell in cells]
        parts.append(labels.labels_of([as_utf8(label).encode() for label in row] for row in found))
        if columns.id:
            ids += [value_of(record, columns.id, None) for _, record in rows]
            budget.take(WORD_BYTES * len(rows))
        budget.take(2 * numbers[-1].nbytes)
    values = np.concatenate(numbers)
    if like is None:
        columns = dataclasses.replace(columns, scales=_scales(values, bool(columns.text)))
    counts = {"text": n_empty} | dict(
        zip(columns.numbers, np.isnan(values).sum(axis=0).tolist(), strict=True)
    )
    if lacking := _listed([f"{n:,} have no {each}" for each, n in counts.items() if n]):
        progress.note(
            f"{name}: of the rows {lacking}, which counts as"
            f" {'no word' if columns.text else 'the mean'}"
        )
    if like is None and columns.separator is None:
        note_separator(name, list(labels), progress)
    features, by_text = words.finish() if columns.text else (None, None)
    if features is None:
        features = standardised(values, columns.scales)
    elif columns.numbers:
        features = csr_matrix(hstack([features, *map(_intervals, values.T, columns.scales)], "csr"))
    called = np.array(ids, object) if columns.id else None
    return FileRows(
        features, Labels.joined(parts), list(labels), text=by_text, columns=columns, ids=called
    )


# ---- rows, by format


class _Heading:
    """Whether the first row of a table is its heading. It is

    as `header` says, if that is given;
    no heading if columns are given by number: these are positions, from 1. With the training
    data's own columns it is as it was there;
    else a heading, unless all its cells are numbers.
    """

    is_there: bool | None = None  # None: the file is no CSV or TSV

    def __init__(
        self, file: str, given: TableSettings, like: Columns | None, progress: Progress
    ) -> None:
        self._file = file
        self._given = given
        self._like = like
        self._progress = progress
        known = like.names if like else []
        # by which the separator is known
        self.names = [name for name in (*given.names, *known) if not _is_position(name)]

    def names_of(self, first: list[str], line: int) -> list[str]:
        """What the columns are called: by the first row, or by their numbers from 1. Raises
        `DataError` for a heading with two equal names.
        """
        self.is_there = self._decide(first)
        if not self.is_there:
            return [str(number) for number in range(1, len(first) + 1)]
        names = [cell.strip() for cell in first]
        counts = collections.Counter(filter(None, names))
        if counts and (most := counts.most_common(1)[0])[1] > 1:
            raise DataError(
                self._file,
                line,
                f'two columns are called "{most[0]}"',
                ("rename one of them, or say ", Setting("header", "no")),
            )
        return names

    def _decide(self, first: list[str]) -> bool:
        if self._given.header is not None:
            return self._given.header == "yes"
        reason = "columns are given by number"
        names = self._given.names
        if not names and self._like:
            if self._like.has_heading:
                return True
            names = self._like.names
            reason = "the training data have none"
        if names:
            if not all(map(_is_position, names)):
                return True
        elif not all(number_of(cell) is not None for cell in first):
            return True
        else:
            reason = "the first row has numbers alone"
        self._progress.note(
            f"{self._file}: read without a heading, because {reason}:"
            f' "{_listed(first)}" is a row of data (otherwise --header yes)'
        )
        return False


def _is_position(name: str) -> bool:
    return name.isdecimal() and name.isascii()


def _table_records(lines: Lines, heading: _Heading) -> Records:
    """The rows of a table."""
    names: list[str] = []
    for number, row in _good(lines.name, table_rows(_lines_of(lines), lines.name, heading.names)):
        if not names:
            names = heading.names_of(row, number)
            if heading.is_there:
                continue
        yield number, dict(zip(names, row, strict=True))


def _parquet_records(source: Source, file: CountedReader, columns: Columns | None) -> Records:
    with damage_explained(source):
        yield from parquet_records(file, source.name, lambda _: columns.names if columns else None)


def _lines_of(lines: Lines) -> Iterator[bytes]:
    for chunk in lines:
        decoded(lines, chunk)
        yield from io.BytesIO(chunk)


def _good(name: str, records: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    for number, record in records:
        if isinstance(record, Bad):
            raise DataError(name, number, record.why, record.remedy)
        yield number, record


def _labels_of_row(
    cell: Callable[[str, Callable[[Any], Any]], Any],
    columns: Columns,
    split: Callable[[Any], list[str] | None],
) -> list[str]:
    if columns.indicators:
        return [name for name in columns.indicators if cell(name, mark_of)]
    return cell(columns.label, split) if columns.label else []


# ---- columns


def _chosen(
    name: str,
    head: list[Mapping[str, Any]],
    given: TableSettings,
    like: DataSchema | None,
    needs_labels: bool,
    has_heading: bool | None,
    progress: Progress,
) -> Columns:
    """The columns that are used: those given, those of the training data, or those that names and
    values show.
    """
    known = dict.fromkeys(each for record in head for each in fields_of(record))
    named = _named(name, given, known, bool(has_heading))
    text, numbers = named.get("text_column", []), named.get("feature_columns", [])
    label_columns = named.get("label_column", [])
    own_id = next(iter(named.get("id_column", [])), None)
    if like and like.columns:
        before = like.columns
        label_columns = label_columns or before.label_columns
        own_id = own_id or before.id
        used = [*(text or before.text), *before.numbers, *(label_columns if needs_labels else [])]
        if missing := [column for column in used if column not in known]:
            raise DataError(
                name,
                None,
                f'no column "{missing[0]}", as the training data have',
                f"there are {_listed(known)}",
            )
        if not all(column in known for column in label_columns):
            label_columns = []
        is_marked = bool(before.indicators)
        return dataclasses.replace(
            before,
            text=text or before.text,
            label=None if is_marked else next(iter(label_columns), None),
            indicators=label_columns if is_marked else [],
            id=own_id if own_id in known else None,
            has_heading=has_heading,
        )
    taken = {column for columns in named.values() for column in columns}
    free = [column for column in known if column not in taken and column.lower() not in INDEX_NAMES]

    def called(names: set[str]) -> list[str]:
        return [column for column in free if column.lower() in names]

    def numeric(share: float = 1.0) -> list[str]:
        return [
            column
            for column in free
            if _are_numbers((value_of(record, column, None) for record in head), share)
        ]

    own_id = own_id or next(iter(called({"id"})), None)
    free = [column for column in free if column != own_id]
    if not label_columns and len(called(LABEL_NAMES)) == 1:
        label_columns = called(LABEL_NAMES)
    if not text and all(len(called(names)) <= 1 for names in (TITLE_NAMES, TEXT_NAMES)):
        text = called(TITLE_NAMES | TEXT_NAMES)
    taken = {*label_columns, *text}
    free = [column for column in free if column not in taken]
    if needs_labels and not label_columns and (text or numbers) and len(free) == 1:
        label_columns = [free.pop()]
    elif not text and not numbers and (label_columns or not needs_labels):
        if len(free) == 1 and not numeric():
            text = [free.pop()]
        elif numeric(0.5) == free:  # others are mistakes
            numbers, free = free, []
    missing = [] if text or numbers else ["text-column (or --set feature-columns, of numbers)"]
    missing += ["label-column"] if needs_labels and not label_columns else []
    if missing:
        how = (
            f"by --{' and --'.join(missing)}, or if the file has no heading by their numbers,"
            " from 1"
        )
        raise EmbedxError(f"{name}: name the columns to use {how}; there are {_listed(known)}")
    if like and (numbers or like.text is None):
        kinds = [
            "columns of numbers" if numbers else "words",
            "ID:VALUE" if like.text is None else "words",
        ]
        raise EmbedxError(
            f"{name}: features are {kinds[0]}, but those of the training data are {kinds[1]}; give"
            " the same kind"
        )
    more = (
        f" (--set feature-columns={','.join(left[:MAX_LISTED])} takes numbers)"
        if not numbers and (left := numeric())
        else ""
    )
    listed = {
        "text": text,
        "numbers": numbers,
        "label" if len(label_columns) < 2 else "0/1 labels": label_columns,
        "id": [own_id] if own_id else [],
        "not used": free,
    }
    parts = [f"{what}: {_listed(columns)}" for what, columns in listed.items() if columns]
    progress.note(f"{name}: {'; '.join(parts)}{more}")
    is_marked = len(label_columns) > 1
    return Columns(
        text,
        numbers,
        None if is_marked else next(iter(label_columns), None),
        own_id,
        given.label_separator,
        indicators=label_columns if is_marked else [],
        has_heading=has_heading,
    )


def _named(
    file: str, given: TableSettings, known: Mapping[str, Any], has_heading: bool
) -> dict[str, list[str]]:
    """The columns that were named, by setting, as they are called in the file: where it has a
    heading, a number that is no name there is a position, from 1.
    """
    in_order = [*known] if has_heading else []
    named = given.given
    for setting, names in named.items():
        whole = getattr(given, setting)
        if whole in known:  # a name with a comma
            names[:] = [whole]
        for place, column in enumerate(names):
            if column in known:
                continue
            if not (_is_position(column) and 1 <= int(column[:10]) <= len(in_order)):
                raise DataError(
                    file,
                    None,
                    f'no column "{column}"',
                    ("choose ", Setting(setting), f" among {_listed(known)}"),
                )
            names[place] = in_order[int(column) - 1]
    return named


def _listed(names: Iterable[str]) -> str:
    """The first of the names, shortened, for messages."""
    first = [name[:MAX_SHOWN] for name in itertools.islice(names, MAX_LISTED + 1)]
    return ", ".join(first if len(first) <= MAX_LISTED else [*first[:MAX_LISTED], "..."])


def _are_numbers(values: Iterator[Any], share: float) -> bool:
    found = [number_of(each) for each in values]
    return found.count(None) <= (1 - share) * len(found) and any(
        each is not None and each == each for each in found
    )


def _scales(values: np.ndarray, has_text: bool) -> list[list[float]]:
    """Of each column the bounds of its intervals or, without text, the means and the standard
    deviations of all columns.
    """
    if has_text:
        shares = np.arange(1, N_INTERVALS) / N_INTERVALS
        columns = [column[~np.isnan(column)] for column in values.T]
        return [
            np.unique(np.quantile(each, shares)).tolist() if len(each) else [] for each in columns
        ]
    known = np.ma.masked_invalid(values)
    spread = known.std(axis=0).filled(1)
    return [known.mean(axis=0).filled(0).tolist(), np.where(spread > 0, spread, 1).tolist()]


def standardised(values: np.ndarray, scales: Sequence[Sequence[float]]) -> np.ndarray:
    """Numbers less the means and divided by the deviations, float32; 0 where there is none."""
    means, deviations = scales
    z = np.nan_to_num((values - np.array(means)) / np.array(deviations))
    return z.clip(-MAX_DEVIATIONS, MAX_DEVIATIONS).astype(np.float32)


def _intervals(values: np.ndarray, bounds: Sequence[float]) -> csr_matrix:
    """Which interval each number lies in, float32 (n_rows, n_intervals); a row of zeros where there
    is none.
    """
    known = ~np.isnan(values)
    places = np.searchsorted(bounds, values[known], side="right")
    return csr_matrix(
        (np.ones(len(places), np.float32), places, offsets_of(known)),
        (len(values), len(bounds) + 1),
    )


def note_separator(name: str, labels: list[bytes], progress: Progress) -> None:
    """Say so if labels look like several in a cell: there are fewer of them if they are split, or
    they are numbers.
    """
    texts = [label.decode() for label in labels]
    for separator in SEPARATORS:
        whole = [text for text in texts if separator in text]
        if not whole:
            continue
        parts = {part.strip() for text in texts for part in text.split(separator)}
        are_numbers = all(map(str.isdecimal, parts))
        is_list = are_numbers if separator == " " else are_numbers or len(parts) < len(texts)
        if is_list:
            progress.note(
                f'{name}: labels such as "{whole[0]}" are taken whole; --set'
                f' "label-separator={separator}" splits them'
            )
            return
