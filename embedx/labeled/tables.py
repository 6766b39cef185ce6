"""Tables as labelled data: of each row of CSV, TSV, JSON Lines or Parquet the text, the numbers,
the labels and the id.

Text columns are joined by blanks. Numbers beside text are features as words are, one for each
interval between deciles of the training data, so that they weigh as much as words do. On short
texts of four classes with generated columns, LinearSVC has P@1 by z-scores and by intervals: with 4
normal columns .943 and .943, 30 log-normal .907 and .995, 4 of unequal variance .882 and .950, 4 of
noise .885 and .879. Numbers alone are dense features, of mean 0 and standard deviation 1 in the
training data. An empty cell, and one of MISSING, has no interval, or the mean.
"""

import ast
import contextlib
import dataclasses
import functools
import io
import itertools
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, hstack

from embedx.errors import EmbedxError
from embedx.labeled.arrays import content_of, is_plain
from embedx.labeled.data import Columns, DataSchema, FileRows, Labels, offsets_of
from embedx.labeled.files import Lines, MemoryBudget
from embedx.labeled.schema import WORD_BYTES, Numbering, decoded
from embedx.labeled.words import TextFeatureSettings, text_features
from embedx.settings import Settings, option_name, param
from embedx.storage.schema import as_utf8, check_can_be_saved
from embedx.text.sources import Source, reader_of
from embedx.text.streams import CountedReader, begins_labelled, damage_explained, open_source
from embedx.text.tables import (
    Bad,
    delimiter_of,
    fields_of,
    json_records,
    parquet_records,
    shown,
    table_rows,
    value_of,
)
from embedx.training.progress import Progress

ROWS, CELLS = 1000, 1 << 20  # at most, read at a time; the columns are chosen by the first of them
MAX_LISTED, MAX_SHOWN = 30, 40  # names of columns in a message, letters of each
N_INTERVALS = 10  # of the numbers of a column
# numbers beyond are an error, and further from the mean are held there
MAX_NUMBER, MAX_DEVIATIONS = 1e38, 1e6
MISSING = ("", "nan", "na", "n/a", "null", "none")
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
SEPARATORS = ";|,"  # of labels in a cell, that a note proposes

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
        None, "tables: column with the label or a list of labels; by default label", metavar="name"
    )
    id_column: str | None = param(
        None,
        "tables: column that `predict` prints first; by default id, if there is one",
        metavar="name",
    )
    label_separator: str | None = param(
        None,
        "tables: separator of several labels in a cell; by default a cell is one label or a list",
        fine=True,
    )
    feature_columns: str | None = param(
        None,
        "tables: columns with numeric features, separated by commas; by default none beside text,"
        " all without text",
        fine=True,
    )

    @property
    def given(self) -> dict[str, list[str]]:
        """The columns that were named, by setting."""
        found = {
            name: value
            for name, value in self.record().items()
            if value is not None and name != "label_separator"
        }
        single = ("label_column", "id_column")
        return {
            name: [v] if name in single else [each.strip() for each in v.split(",")]
            for name, v in found.items()
        }


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
    if given.given or (like and (not like.text or {*like.text, *like.numbers} <= found)):
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
) -> FileRows:
    """The rows of a table.

    lines  its text; None: a Parquet file
    like   the schema of the training data, if it is not that
    """
    name, budget, known = (
        source.name,
        lines.budget if lines else MemoryBudget(source.name),
        like.columns if like else None,
    )
    if lines is None:
        stored = open_source(source) if is_plain(source) else CountedReader(content_of(source))
        records = _parquet_records(source, stored, None)
    else:
        expected = [*itertools.chain(*given.given.values()), *(known.names if known else ())]
        records = (
            _good(name, json_records(_lines_of(lines)))
            if format == "json"
            else _table_records(lines, expected)
        )
    if (first := next(records, None)) is None:
        raise EmbedxError(f"{name}: no rows; is it the right file, and was it copied whole?")
    n_rows = max(1, min(ROWS, CELLS // len(first[1])))
    head = [first, *itertools.islice(records, n_rows - 1)]
    columns = _chosen(name, [record for _, record in head], given, like, needs_labels, progress)
    check_can_be_saved(columns.names, name)
    words = text_features(text, budget, like.text if like else None)
    records = (
        _parquet_records(source, stored, columns)
        if lines is None
        else itertools.chain(head, records)
    )
    labels, split = Numbering(budget), functools.partial(_labels, separator=columns.separator)
    parts, numbers, ids, n_empty = [], [], [], 0
    while rows := list(itertools.islice(records, n_rows)):
        cells = [functools.partial(_cell, f"{name}:{number}", record) for number, record in rows]
        texts = [" ".join(cell(each, _text) for each in columns.text) for cell in cells]
        n_empty += sum(not text.strip() for text in texts if columns.text)
        words.add(texts)
        numbers.append(
            np.array([[cell(each, _number) for each in columns.numbers] for cell in cells])
        )
        found = [cell(columns.label, split) if columns.label else [] for cell in cells]
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
    if lacking := ", ".join(f"{n:,} have no {each}" for each, n in counts.items() if n):
        progress.note(
            f"{name}: of the rows {lacking}, which counts as"
            f" {'no word' if columns.text else 'the mean'}"
        )
    if like is None and columns.separator is None:
        _note_separator(name, list(labels), progress)
    features, by_text = words.finish() if columns.text else (None, None)
    if features is None:
        z = np.nan_to_num((values - columns.scales[0]) / columns.scales[1])
        features = z.clip(-MAX_DEVIATIONS, MAX_DEVIATIONS).astype(np.float32)
    elif columns.numbers:
        features = csr_matrix(hstack([features, *map(_intervals, values.T, columns.scales)], "csr"))
    called = np.array(ids, object) if columns.id else None
    return FileRows(
        features, Labels.joined(parts), list(labels), text=by_text, columns=columns, ids=called
    )


# ---- rows, by format


def _table_records(lines: Lines, expected: list[str]) -> Records:
    """The rows of a table; its columns are called by their numbers if that is what is expected."""
    heading: list[str] = []
    for number, row in _good(lines.name, table_rows(_lines_of(lines), lines.name, expected)):
        if heading:
            yield number, dict(zip(heading, row, strict=True))
            continue
        heading = [each.strip() for each in row]
        if twice := next((each for each in heading if each and heading.count(each) > 1), None):
            raise lines.error(number, f'two columns are called "{twice}"; rename one of them')
        if (
            expected
            and all(each.isdecimal() for each in expected)
            and not {*expected} <= {*heading}
        ):
            heading = [str(k) for k in range(1, len(row) + 1)]
            yield number, dict(zip(heading, row, strict=True))


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
            raise EmbedxError(f"{name}:{number}: {record.why}; {record.remedy}")
        yield number, record


# ---- columns


def _chosen(
    name: str,
    head: list[Mapping[str, Any]],
    given: TableSettings,
    like: DataSchema | None,
    needs_labels: bool,
    progress: Progress,
) -> Columns:
    """The columns that are used: those given, those of the training data, or those that names and
    values show.
    """
    known = list(dict.fromkeys(each for record in head for each in fields_of(record)))
    listed = ", ".join(
        [
            *(each[:MAX_SHOWN] for each in known[:MAX_LISTED]),
            *(["..."] if len(known) > MAX_LISTED else []),
        ]
    )
    named = given.given
    for setting, names in named.items():
        for each in names:
            if each not in known:
                raise EmbedxError(
                    f'{name}: no column "{each}"; choose {option_name(setting)} among {listed}'
                )
    text, numbers = named.get("text_column", []), named.get("feature_columns", [])
    label, own_id = given.label_column, given.id_column
    if like and like.columns:
        before = like.columns
        text, label, own_id = text or before.text, label or before.label, own_id or before.id
        for each in (*text, *before.numbers, *([label] if needs_labels and label else [])):
            if each not in known:
                raise EmbedxError(
                    f'{name}: no column "{each}", as the training data have; there are {listed}'
                )
        label, own_id = (each if each in known else None for each in (label, own_id))
        return dataclasses.replace(before, text=text, label=label, id=own_id)
    free = [
        each
        for each in known
        if each not in itertools.chain(*named.values()) and each.lower() not in INDEX_NAMES
    ]

    def called(names: set[str]) -> list[str]:
        return [each for each in free if each.lower() in names]

    def numeric(share: float = 1.0) -> list[str]:
        return [
            each
            for each in free
            if _are_numbers((value_of(record, each, None) for record in head), share)
        ]

    own_id = own_id or next(iter(called({"id"})), None)
    free = [each for each in free if each != own_id]
    if label is None and len(called(LABEL_NAMES)) == 1:
        (label,) = called(LABEL_NAMES)
    if not text and all(len(called(names)) <= 1 for names in (TITLE_NAMES, TEXT_NAMES)):
        text = called(TITLE_NAMES | TEXT_NAMES)
    free = [each for each in free if each != label and each not in text]
    if needs_labels and label is None and (text or numbers) and len(free) == 1:
        label = free.pop()
    elif not text and not numbers and (label or not needs_labels):
        if len(free) == 1 and not numeric():
            text = [free.pop()]
        elif numeric(0.5) == free:  # others are mistakes
            numbers, free = free, []
    missing = [] if text or numbers else ["text-column (or --set feature-columns, of numbers)"]
    missing += ["label-column"] if needs_labels and label is None else []
    if missing:
        how = (
            f"by --{' and --'.join(missing)}, or if the file has no heading by their numbers,"
            " from 1"
        )
        raise EmbedxError(f"{name}: name the columns to use {how}; there are {listed}")
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
        f" (--set feature-columns={','.join(left)} takes numbers)"
        if not numbers and (left := numeric())
        else ""
    )
    used: dict[str, list[Any]] = {
        "text": text,
        "numbers": numbers,
        "label": [label],
        "id": [own_id],
        "not used": free,
    }
    parts = [f"{what}: {', '.join(map(str, which))}" for what, which in used.items() if any(which)]
    progress.note(f"{name}: {'; '.join(parts)}{more}")
    return Columns(text, numbers, label, own_id, given.label_separator)


def _are_numbers(values: Iterator[Any], share: float) -> bool:
    found = [_number(each) for each in values]
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


def _note_separator(name: str, labels: list[bytes], progress: Progress) -> None:
    """Say so if labels look like several in a cell: there are fewer of them if they are split."""
    for each in SEPARATORS:
        whole = [label.decode() for label in labels if each.encode() in label]
        if whole and len(
            {part.strip() for label in labels for part in label.decode().split(each)}
        ) < len(labels):
            progress.note(
                f'{name}: labels such as "{whole[0]}" are taken whole; --set'
                f' "label-separator={each}" splits them'
            )
            return


# ---- cells


def _cell(place: str, record: Mapping[str, Any], column: str, read: Callable[[Any], Any]) -> Any:
    value = value_of(record, column, None)
    if (found := read(value)) is None:
        what = (
            "no finite float32"
            if read is _number
            else "neither text nor a number, nor a list of these"
        )
        raise EmbedxError(
            f'{place}: column "{column}" is {shown(value)}, {what}; correct it, or choose another'
            " column"
        )
    return found


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        parts = [_text(each) for each in value]
        return None if None in parts else " ".join(map(str, parts))
    if value is None or value != value:
        return ""
    return (
        json.dumps(value)
        if isinstance(value, int | float)
        else value
        if isinstance(value, str)
        else None
    )


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return (
            math.nan
            if value is None or (isinstance(value, str) and value.strip().lower() in MISSING)
            else None
        )
    return None if abs(number) > MAX_NUMBER else number


def _labels(value: Any, separator: str | None) -> list[str] | None:
    # as pandas writes lists to CSV
    if isinstance(value, str) and value[:1] == "[" and value[-1:] == "]":
        with (
            contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # of odd escapes
            value = ast.literal_eval(value)
    parts = value if isinstance(value, list) else [value]
    texts = [
        _text(int(each) if isinstance(each, float) and each.is_integer() else each)
        for each in parts
    ]
    if None in texts:
        return None
    split = [
        each for text in texts for each in (str(text).split(separator) if separator else [text])
    ]
    return [" ".join(each.split()) for each in map(str, split) if each.strip()]
