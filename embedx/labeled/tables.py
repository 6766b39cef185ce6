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
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, hstack

from embedx.errors import DataError, Setting, Text, joined
from embedx.labeled.arrays import content_of, is_plain
from embedx.labeled.cells import cell, labels_of, mark_of, number_of, text_of
from embedx.labeled.data import Columns, DataSchema, FileRows, Labels, TextSchema, offsets_of
from embedx.labeled.files import Lines, MemoryBudget
from embedx.labeled.schema import WORD_BYTES, Numbering, decoded
from embedx.labeled.words import TextFeatures, TextFeatureSettings, text_features
from embedx.runtime.progress import Progress
from embedx.settings import Settings, param
from embedx.storage.schema import as_utf8, check_can_be_saved
from embedx.text.decompression import damage_explained
from embedx.text.file_kinds import begins_labelled
from embedx.text.opening import CountedReader, open_source
from embedx.text.parquet import parquet_records
from embedx.text.sources import Source, reader_of
from embedx.text.tables import (
    Bad,
    delimiter_of,
    fields_of,
    json_records,
    table_rows,
    value_of,
)

# Rows are read in batches of at most so many rows and cells; the first decides on the columns.
ROWS = 1000
CELLS = 1 << 20
MAX_COLUMNS_IN_MESSAGE = 30
MAX_LETTERS_OF_COLUMN = 40
INTERVALS_PER_COLUMN = 10
# Standardised numbers are clipped to this many standard deviations.
MAX_DEVIATIONS = 1e6

# Names of columns, in lower case, by which roles are guessed.
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
# Row numbers as pandas writes them; not used unless they are named.
INDEX_NAMES = {"", "unnamed: 0", "__index_level_0__"}
# Separators of labels in a cell that a note may propose.
SEPARATORS = ";|, "

Record = Mapping[str, Any]
# (line or row number, values by column)
NumberedRecord = tuple[int, Record]
Records = Iterator[NumberedRecord]
# (column, function of cells.py) -> the value of that column in one row
CellReader = Callable[[str, Callable[[Any], Any]], Any]


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
    if _is_json_object(lines.first_line):
        return "json"
    if begins_labelled(lines.head):
        return ""
    format_by_name = reader_of(lines.name)
    if format_by_name in ("json", "table"):
        return format_by_name
    if given.given or given.header:
        return "table"

    fields = _fields_of_line(lines.first_line)
    if like and _has_features_of(fields, like):
        return "table"
    if not is_text and _has_labels_and_text(fields):
        return "table"
    return ""


def _is_json_object(line: str) -> bool:
    with contextlib.suppress(ValueError, RecursionError):
        return isinstance(json.loads(line), dict)
    return False


def _fields_of_line(line: str) -> list[str]:
    """The fields of the first line of a table, without quotes and blanks around them."""
    delimiter = delimiter_of(line, ())
    return [field.strip() for field in line.replace('"', "").split(delimiter)]


def _has_features_of(fields: list[str], like: Columns) -> bool:
    """Whether the fields have the features of the training data, by name or by position."""
    if not like.text:
        return True
    positions = map(str, range(1, len(fields) + 1))
    return {*like.text, *like.numbers} <= {*fields, *positions}


def _has_labels_and_text(fields: list[str]) -> bool:
    """Whether a heading has the usual names of a label column and of a text column."""
    names = {field.lower() for field in fields}
    return bool(names & LABEL_NAMES) and bool(names & (TITLE_NAMES | TEXT_NAMES))


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
    name = source.name
    budget = lines.budget if lines else MemoryBudget(name)
    heading = _Heading(name, given, like.columns if like else None, progress)
    parquet = None
    if given_records is not None:
        records = given_records
    elif lines is None:
        parquet = _opened_parquet(source)
        records = _parquet_records(source, parquet, None)
    elif format == "json":
        records = _good(name, json_records(_lines_of(lines)))
    else:
        records = _table_records(lines, heading)

    first = next(records, None)
    if first is None:
        raise DataError(name, None, "no rows", "is it the right file, and was it copied whole?")
    batch_size = max(1, min(ROWS, CELLS // len(first[1])))
    head = [first, *itertools.islice(records, batch_size - 1)]

    columns = choose_columns(
        name, [record for _, record in head], given, like, needs_labels, heading.is_there, progress
    )
    check_can_be_saved(columns.names, name)
    if parquet is not None:
        records = _parquet_records(source, parquet, columns)  # again, without other columns
    else:
        records = itertools.chain(head, records)

    words = text_features(text, budget, like.text if like else None)
    collector = _RowCollector(name, columns, words, budget)
    while batch := list(itertools.islice(records, batch_size)):
        collector.add(batch)
    numbers = np.concatenate(collector.numbers)

    if like is None:
        columns = dataclasses.replace(columns, scales=_scales(numbers, bool(columns.text)))
    _note_missing(name, columns, collector.n_empty_texts, numbers, progress)
    labels = list(collector.label_numbers)
    if like is None and columns.separator is None:
        note_separator(name, labels, progress)

    features, text_schema = _features(columns, words, numbers)
    return FileRows(
        features,
        Labels.joined(collector.labels),
        labels,
        text=text_schema,
        columns=columns,
        ids=np.array(collector.ids, object) if columns.id else None,
    )


class _RowCollector:
    """The text, numbers, labels and ids of rows, added in batches."""

    def __init__(
        self, file: str, columns: Columns, words: TextFeatures, budget: MemoryBudget
    ) -> None:
        self._file = file
        self._columns = columns
        self._words = words
        self._budget = budget
        self.n_empty_texts = 0
        self.numbers: list[np.ndarray] = []  # float64 (n_rows, n_number_columns) of each batch
        self.labels: list[Labels] = []
        self.ids: list[Any] = []
        self.label_numbers = Numbering(budget)
        for indicator in columns.indicators:
            _ = self.label_numbers[as_utf8(indicator).encode()]

    def add(self, batch: list[NumberedRecord]) -> None:
        """Add rows. Raises `EmbedxError` for a cell without a value, and for too many rows."""
        columns = self._columns
        readers = [functools.partial(cell, self._file, line, record) for line, record in batch]
        self._add_texts(readers)

        rows_of_numbers = [[read(name, number_of) for name in columns.numbers] for read in readers]
        numbers = np.array(rows_of_numbers)
        self.numbers.append(numbers)

        labels_of_rows = [_labels_of_row(read, columns) for read in readers]
        self.labels.append(
            self.label_numbers.labels_of(
                [as_utf8(label).encode() for label in labels] for labels in labels_of_rows
            )
        )
        if columns.id:
            self.ids += [value_of(record, columns.id, None) for _, record in batch]
            self._budget.take(WORD_BYTES * len(batch))
        self._budget.take(2 * numbers.nbytes)

    def _add_texts(self, readers: Sequence[CellReader]) -> None:
        texts = [" ".join(read(name, text_of) for name in self._columns.text) for read in readers]
        if self._columns.text:
            self.n_empty_texts += sum(not text.strip() for text in texts)
        self._words.add(texts)


def _labels_of_row(read: CellReader, columns: Columns) -> list[str]:
    if columns.indicators:
        return [name for name in columns.indicators if read(name, mark_of)]
    if not columns.label:
        return []
    split = functools.partial(labels_of, separator=columns.separator)
    labels: list[str] = read(columns.label, split)
    return labels


def _features(
    columns: Columns, words: TextFeatures, numbers: np.ndarray
) -> tuple[np.ndarray | csr_matrix, TextSchema | None]:
    """Features of all rows: words and intervals or, without text, standardised numbers."""
    if not columns.text:
        return standardised(numbers, columns.scales), None
    features, text_schema = words.finish()
    if columns.numbers:
        intervals = map(_intervals, numbers.T, columns.scales)
        features = csr_matrix(hstack([features, *intervals], "csr"))
    return features, text_schema


def _note_missing(
    file: str, columns: Columns, n_empty_texts: int, numbers: np.ndarray, progress: Progress
) -> None:
    """Say how many rows have no text, and how many have no number in each column."""
    counts = {"text": n_empty_texts}
    counts.update(zip(columns.numbers, np.isnan(numbers).sum(axis=0).tolist(), strict=True))
    missing = _listed([f"{n:,} have no {name}" for name, n in counts.items() if n])
    if missing:
        substitute = "no word" if columns.text else "the mean"
        progress.note(f"{file}: of the rows {missing}, which counts as {substitute}")


# ---- rows, by format


class _Heading:
    """Whether the first row of a table is its heading.

    `header` decides, if it is given. Columns given by number are positions, from 1, in a table
    without a heading. Columns of the training data are there as they were in the training file.
    Otherwise the first row is a heading unless all its cells are numbers.
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
        # names that the heading should have; they show which delimiter the file uses
        self.names = [name for name in (*given.names, *known) if not _is_position(name)]

    def names_of(self, first: list[str], line: int) -> list[str]:
        """The names of the columns: the first row, or numbers from 1.

        Raises `DataError` for a heading with two equal names.
        """
        self.is_there = self._decide(first)
        if not self.is_there:
            return [str(number) for number in range(1, len(first) + 1)]
        names = [cell.strip() for cell in first]
        counts = collections.Counter(filter(None, names))
        for name, count in counts.most_common(1):
            if count > 1:
                raise DataError(
                    self._file,
                    line,
                    f'two columns are called "{name}"',
                    ("rename one of them, or say ", Setting("header", "no")),
                )
        return names

    def _decide(self, first: list[str]) -> bool:
        if self._given.header is not None:
            return self._given.header == "yes"
        if not self._given.names and self._like and self._like.has_heading:
            return True
        reason = self._reason_for_no_heading(first)
        if reason is None:
            return True
        self._progress.note(
            f'{self._file}: read without a heading, because {reason}: "{_listed(first)}" is a row'
            " of data (otherwise ",
            Setting("header", "yes"),
            ")",
        )
        return False

    def _reason_for_no_heading(self, first: list[str]) -> str | None:
        """Why the first row is data; None if it is a heading."""
        if self._given.names:
            if all(map(_is_position, self._given.names)):
                return "columns are given by number"
            return None
        if self._like and self._like.names:
            if all(map(_is_position, self._like.names)):
                return "the training data have none"
            return None
        if all(number_of(cell) is not None for cell in first):
            return "the first row has numbers alone"
        return None


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


def _opened_parquet(source: Source) -> CountedReader:
    """The file on disk or, where it is packed or remote, its unpacked content."""
    if is_plain(source):
        return open_source(source)
    return CountedReader(content_of(source))


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


# ---- columns


def choose_columns(
    file: str,
    head: list[Record],
    given: TableSettings,
    like: DataSchema | None,
    needs_labels: bool,
    has_heading: bool | None,
    progress: Progress,
) -> Columns:
    """The columns to use: those named, and others as in the training data or as guessed.

    head  the first rows, whose values are looked at
    """
    available = dict.fromkeys(name for record in head for name in fields_of(record))
    named = _named_columns(file, given, available, bool(has_heading))
    if like and like.columns:
        return _columns_as_trained(file, available, named, like.columns, needs_labels, has_heading)
    roles = _guess_roles(available, named, head, needs_labels)
    _check_roles(file, roles, available, needs_labels)
    if like:
        _check_kind_of_features(file, roles, like)
    _note_roles(file, roles, head, progress)
    return roles.columns(given.label_separator, has_heading)


@dataclasses.dataclass
class _Roles:
    """The role of each column."""

    text: list[str]
    numbers: list[str]
    label: list[str]
    id: str | None
    unused: list[str]

    def columns(self, separator: str | None, has_heading: bool | None) -> Columns:
        """The columns as the model keeps them; several label columns are 0/1 indicators."""
        is_marked = len(self.label) > 1
        return Columns(
            self.text,
            self.numbers,
            self.label[0] if len(self.label) == 1 else None,
            self.id,
            separator,
            indicators=self.label if is_marked else [],
            has_heading=has_heading,
        )


def _guess_roles(
    available: Mapping[str, None],
    named: Mapping[str, list[str]],
    head: list[Record],
    needs_labels: bool,
) -> _Roles:
    """The roles of all columns: as named, then by usual names, then by what is left."""
    text = named.get("text_column", [])
    numbers = named.get("feature_columns", [])
    label = named.get("label_column", [])
    id_column = next(iter(named.get("id_column", [])), None)
    is_index = [name for name in available if name.lower() in INDEX_NAMES]
    unused = _without(available, [*is_index, *text, *numbers, *label, id_column])

    id_column = id_column or guess_id_column(unused)
    unused = _without(unused, [id_column])
    label = label or guess_label_column(unused)
    text = text or guess_text_columns(unused)
    unused = _without(unused, [*label, *text])

    has_features = bool(text or numbers)
    if has_features and needs_labels and not label:
        label = guess_last_label_column(unused)
    elif not has_features and (label or not needs_labels):
        text = guess_last_text_column(unused, head)
        numbers = [] if text else guess_number_columns(unused, head)
    unused = _without(unused, [*label, *text, *numbers])
    return _Roles(text, numbers, label, id_column, unused)


def guess_id_column(columns: list[str]) -> str | None:
    """The first column called "id"."""
    return next(iter(_called(columns, {"id"})), None)


def guess_label_column(columns: list[str]) -> list[str]:
    """The column with a usual name of labels, unless there are several."""
    candidates = _called(columns, LABEL_NAMES)
    return candidates if len(candidates) == 1 else []


def guess_text_columns(columns: list[str]) -> list[str]:
    """The title and the text by their usual names, unless there are several of either."""
    titles = _called(columns, TITLE_NAMES)
    texts = _called(columns, TEXT_NAMES)
    if len(titles) > 1 or len(texts) > 1:
        return []
    return _called(columns, TITLE_NAMES | TEXT_NAMES)


def guess_last_label_column(columns: list[str]) -> list[str]:
    """Beside features that are known: the only column left."""
    return columns if len(columns) == 1 else []


def guess_last_text_column(columns: list[str], head: list[Record]) -> list[str]:
    """Where no features are known: the only column left, unless it has numbers alone."""
    if len(columns) == 1 and not _numeric(columns, head):
        return columns
    return []


def guess_number_columns(columns: list[str], head: list[Record]) -> list[str]:
    """All columns left, if half of the values of each are numbers; the others are mistakes."""
    return columns if _numeric(columns, head, 0.5) == columns else []


def _called(columns: list[str], names: set[str]) -> list[str]:
    """The columns that have one of these names, in any case."""
    return [column for column in columns if column.lower() in names]


def _without(columns: Iterable[str], taken: Iterable[str | None]) -> list[str]:
    taken = {*taken}
    return [column for column in columns if column not in taken]


def _numeric(columns: list[str], head: list[Record], share: float = 1.0) -> list[str]:
    """The columns of which at least this share of the values are numbers, or empty, but not all."""
    return [
        column
        for column in columns
        if _are_numbers([value_of(record, column, None) for record in head], share)
    ]


def _are_numbers(values: list[Any], share: float) -> bool:
    numbers = [number_of(value) for value in values]
    has_number = any(number is not None and not math.isnan(number) for number in numbers)
    return has_number and numbers.count(None) <= (1 - share) * len(numbers)


def _columns_as_trained(
    file: str,
    available: Mapping[str, None],
    named: Mapping[str, list[str]],
    trained: Columns,
    needs_labels: bool,
    has_heading: bool | None,
) -> Columns:
    """The columns of the training data, but for text, label and id where these are named.

    Raises `DataError` if features, or labels that are needed, are missing.
    """
    text = named.get("text_column") or trained.text
    label = named.get("label_column") or trained.label_columns
    id_column = next(iter(named.get("id_column", [])), None) or trained.id

    required = [*text, *trained.numbers]
    if needs_labels:
        required += label
    for column in required:
        if column not in available:
            raise DataError(
                file,
                None,
                f'no column "{column}", as the training data have',
                f"there are {_listed(available)}",
            )

    if not all(column in available for column in label):
        label = []
    is_marked = bool(trained.indicators)
    return dataclasses.replace(
        trained,
        text=text,
        label=None if is_marked else next(iter(label), None),
        indicators=label if is_marked else [],
        id=id_column if id_column in available else None,
        has_heading=has_heading,
    )


def _check_roles(
    file: str, roles: _Roles, available: Mapping[str, None], needs_labels: bool
) -> None:
    """Raise `EmbedxError` if no column has features, or none has labels that are needed."""
    missing: list[Text] = []
    if not roles.text and not roles.numbers:
        numbers = (" (or ", Setting("feature_columns"), ", of numbers)")
        missing.append((Setting("text_column"), numbers))
    if needs_labels and not roles.label:
        missing.append(Setting("label_column"))
    if missing:
        raise DataError(
            file,
            None,
            (
                "name the columns to use by ",
                joined(missing, " and "),
                ", or if the file has no heading by their numbers, from 1",
            ),
            f"there are {_listed(available)}",
        )


def _check_kind_of_features(file: str, roles: _Roles, like: DataSchema) -> None:
    """Raise `EmbedxError` if the training data, which are no table, have other features."""
    if like.text is not None and not roles.numbers:
        return
    kind = "columns of numbers" if roles.numbers else "words"
    trained_kind = "ID:VALUE" if like.text is None else "words"
    raise DataError(
        file,
        None,
        f"features are {kind}, but those of the training data are {trained_kind}",
        "give the same kind",
    )


def _note_roles(file: str, roles: _Roles, head: list[Record], progress: Progress) -> None:
    """Say what each column is used for, and which unused ones could be features."""
    columns_by_role = {
        "text": roles.text,
        "numbers": roles.numbers,
        "label" if len(roles.label) < 2 else "0/1 labels": roles.label,
        "id": [roles.id] if roles.id else [],
        "not used": roles.unused,
    }
    parts = [f"{role}: {_listed(columns)}" for role, columns in columns_by_role.items() if columns]
    note: Text = f"{file}: {'; '.join(parts)}"
    unused_numbers = [] if roles.numbers else _numeric(roles.unused, head)
    if unused_numbers:
        names = ",".join(unused_numbers[:MAX_COLUMNS_IN_MESSAGE])
        note = (note, " (", Setting("feature_columns", names), " takes numbers)")
    progress.note(note)


def _named_columns(
    file: str, given: TableSettings, available: Mapping[str, None], has_heading: bool
) -> dict[str, list[str]]:
    """The columns that were named, by setting, as they are called in the file.

    Where the file has a heading, a number that is no name there is a position, from 1. Raises
    `DataError` for a column that is not there.
    """
    by_position = [*available] if has_heading else []
    columns_by_setting: dict[str, list[str]] = {}
    for setting, names in given.given.items():
        whole = getattr(given, setting)
        if whole in available:  # a name with a comma
            names = [whole]
        columns = columns_by_setting[setting] = []
        for name in names:
            column = _find_column(name, available, by_position)
            if column is None:
                raise DataError(
                    file,
                    None,
                    f'no column "{name}"',
                    ("choose ", Setting(setting), f" among {_listed(available)}"),
                )
            columns.append(column)
    return columns_by_setting


def _find_column(name: str, available: Mapping[str, None], by_position: list[str]) -> str | None:
    """The column of that name or, if there is none, at that position; None if neither exists."""
    if name in available:
        return name
    if _is_position(name):
        position = int(name[:10])
        if 1 <= position <= len(by_position):
            return by_position[position - 1]
    return None


def _listed(names: Iterable[str]) -> str:
    """The first of the names, shortened, for messages."""
    first = [
        name[:MAX_LETTERS_OF_COLUMN] for name in itertools.islice(names, MAX_COLUMNS_IN_MESSAGE + 1)
    ]
    if len(first) > MAX_COLUMNS_IN_MESSAGE:
        first[MAX_COLUMNS_IN_MESSAGE:] = ["..."]
    return ", ".join(first)


# ---- numbers as features


def _scales(values: np.ndarray, has_text: bool) -> list[list[float]]:
    """Bounds of each column's intervals or, without text, all means and standard deviations."""
    if has_text:
        return [_interval_bounds(column) for column in values.T]
    known = np.ma.masked_invalid(values)
    means = known.mean(axis=0).filled(0)
    deviations = known.std(axis=0).filled(1)
    return [means.tolist(), np.where(deviations > 0, deviations, 1).tolist()]


def _interval_bounds(values: np.ndarray) -> list[float]:
    """The distinct deciles of the values that are there."""
    known = values[~np.isnan(values)]
    if not len(known):
        return []
    shares = np.arange(1, INTERVALS_PER_COLUMN) / INTERVALS_PER_COLUMN
    bounds: list[float] = np.unique(np.quantile(known, shares)).tolist()
    return bounds


def standardised(values: np.ndarray, scales: Sequence[Sequence[float]]) -> np.ndarray:
    """Numbers less the means and divided by the deviations, float32; 0 where there is none."""
    means, deviations = scales
    z = np.nan_to_num((values - np.array(means)) / np.array(deviations))
    return z.clip(-MAX_DEVIATIONS, MAX_DEVIATIONS).astype(np.float32)


def _intervals(values: np.ndarray, bounds: Sequence[float]) -> csr_matrix:
    """Indicators of the interval of each number, float32 (n_rows, n_intervals); NaN has none."""
    known = ~np.isnan(values)
    intervals = np.searchsorted(bounds, values[known], side="right")
    ones = np.ones(len(intervals), np.float32)
    shape = (len(values), len(bounds) + 1)
    return csr_matrix((ones, intervals, offsets_of(known)), shape)


def note_separator(name: str, labels: list[bytes], progress: Progress) -> None:
    """Propose a separator if labels look like several in a cell."""
    texts = [label.decode() for label in labels]
    for separator in SEPARATORS:
        with_separator = [text for text in texts if separator in text]
        if with_separator and _looks_like_separator(separator, texts):
            progress.note(
                f'{name}: labels such as "{with_separator[0]}" are taken whole; ',
                Setting("label_separator", separator),
                " splits them",
            )
            return


def _looks_like_separator(separator: str, labels: list[str]) -> bool:
    """Whether splitting gives numbers alone or, but for blanks, fewer different labels."""
    parts = {part.strip() for label in labels for part in label.split(separator)}
    if all(map(str.isdecimal, parts)):
        return True
    return separator != " " and len(parts) < len(labels)
