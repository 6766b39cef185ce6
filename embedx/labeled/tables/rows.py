"""The rows of a table of any format: features, labels and ids."""

import dataclasses
import functools
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, hstack

from embedx.errors import DataError, Setting, counted
from embedx.labeled.cells import (
    INDICATORS,
    NUMBERS,
    TEXTS,
    CellKind,
    cell,
    labels_between,
    note_separator,
)
from embedx.labeled.data import Columns, FileRows, Labels, TextSchema
from embedx.labeled.files import LabelledFile, LabelledFiles, Lines, MemoryBudget
from embedx.labeled.ids import WORD_BYTES, Numbering, check_utf8
from embedx.labeled.options import ReadOptions
from embedx.labeled.tables.columns import choose_columns
from embedx.labeled.tables.heading import Heading
from embedx.labeled.tables.numbers import interval_indicators, scales_of, standardised
from embedx.labeled.words import TextFeatures, text_features
from embedx.runtime.progress import Progress
from embedx.storage.schema import as_utf8, check_can_be_saved
from embedx.text.tables import BadRecord, listed_columns, value_of

# Rows are read in batches of at most this size; the first decides on the columns.
MAX_BATCH_ROWS = 1000
MAX_BATCH_CELLS = 1 << 20

# (line or row number, values by column)
NumberedRecord = tuple[int, Mapping[str, Any]]
Records = Iterator[NumberedRecord]
# (column, function of cells.py) -> the value of that column in one row
CellReader = Callable[[str, CellKind], Any]


class OpenTable(NamedTuple):
    """A table that is being read.

    records  the values of each row by column, as JSON has them
    heading  that of a CSV or TSV file
    reread   the records once more, with these columns alone
    """

    records: Records
    heading: Heading | None = None
    reread: Callable[[Columns], Records] | None = None


def read_table(
    files: LabelledFiles, options: ReadOptions, open_table: Callable[[LabelledFile], OpenTable]
) -> FileRows:
    """The rows of tables, one after the other. All have the columns of the first."""
    name = files.name
    schema = options.schema
    budget = MemoryBudget(name)
    counter = text_features(options.text, budget, schema.text if schema else None)
    collector = RowCollector(counter, budget)
    columns: Columns | None = None
    for file in files:
        columns_of_file = _collect(file, open_table(file), options, columns, collector)
        if columns is None:
            columns = columns_of_file
    assert columns is not None
    numbers = np.concatenate(collector.numbers)

    if schema is None:
        columns = dataclasses.replace(columns, scales=scales_of(numbers, bool(columns.text)))
    _note_missing(name, columns, collector.n_empty_texts, numbers, files.progress)
    labels = list(collector.label_numbers)
    if schema is None and columns.separator is None:
        note_separator(name, labels, files.progress)

    features, text_schema = _features(columns, counter, numbers)
    return FileRows(
        features,
        Labels.joined(collector.labels),
        labels,
        text=text_schema,
        columns=columns,
        ids=np.array(collector.ids, object) if columns.id else None,
    )


def _collect(
    file: LabelledFile,
    table: OpenTable,
    options: ReadOptions,
    columns_of_first_file: Columns | None,
    collector: "RowCollector",
) -> Columns:
    """The columns of a table, whose rows are added to the collector."""
    batch_size, head = _first_batch(file.name, table.records)
    has_heading = table.heading.is_there if table.heading else None
    first_records = [record for _, record in head]
    columns = choose_columns(
        file.name, first_records, options, has_heading, file.progress, columns_of_first_file
    )
    check_can_be_saved(columns.names, file.name)
    records: Records = itertools.chain(head, table.records)
    if table.reread is not None:
        records = table.reread(columns)

    if columns_of_first_file is not None:
        # Rows have ids, which may be None, where those of the first file do.
        columns = dataclasses.replace(columns, id=columns_of_first_file.id)
    while batch := list(itertools.islice(records, batch_size)):
        collector.add(file.name, columns, batch)
    return columns


def _first_batch(name: str, records: Records) -> tuple[int, list[NumberedRecord]]:
    """How many rows a batch has, and the first batch. Raises `DataError` if there are no rows."""
    first = next(records, None)
    if first is None:
        raise DataError(name, None, "no rows", "check that it was copied whole")
    n_columns = max(1, len(first[1]))
    batch_size = max(1, min(MAX_BATCH_ROWS, MAX_BATCH_CELLS // n_columns))
    return batch_size, [first, *itertools.islice(records, batch_size - 1)]


def checked_lines(lines: Lines) -> Iterator[bytes]:
    """The lines of a text, each with its end. Raises `DataError` for one that is not UTF-8."""
    for chunk in checked_chunks(lines):
        yield from io.BytesIO(chunk)


def checked_chunks(lines: Lines) -> Iterator[bytes]:
    """The chunks of a text. Raises `DataError` for one that is not UTF-8."""
    for chunk in lines:
        check_utf8(lines, chunk)
        yield chunk


def without_bad(
    file: LabelledFile, records: Iterable[tuple[int, Any]], options: ReadOptions
) -> Iterator[tuple[int, Any]]:
    """The records that can be read. The others are left out and counted, or one raises `DataError`,
    as the setting `on_bad_record` says.
    """
    n_bad = 0
    first = ""
    for number, record in records:
        if not isinstance(record, BadRecord):
            yield number, record
        elif options.table.on_bad_record == "skip":
            n_bad += 1
            first = first or f"{file.name}:{number}: {record.problem}"
        else:
            skip = (", or leave such records out by ", Setting("on_bad_record", "skip"))
            remedy = (record.remedy, skip if options.schema is None else "")
            raise DataError(file.name, number, record.problem, remedy)
    if n_bad:
        file.progress.note(f"{file.name}: {counted(n_bad, 'record')} skipped; the first: {first}")


class RowCollector:
    """The text, numbers, labels and ids of rows, added in batches."""

    def __init__(self, counter: TextFeatures, budget: MemoryBudget) -> None:
        self._counter = counter
        self._budget = budget
        self.n_empty_texts = 0
        self.numbers: list[np.ndarray] = []  # float64 (n_rows, n_number_columns) of each batch
        self.labels: list[Labels] = []
        self.ids: list[Any] = []
        self.label_numbers = Numbering(budget)

    def add(self, file: str, columns: Columns, batch: list[NumberedRecord]) -> None:
        """Add rows. Raises `EmbedxError` for a cell without a value, and for too many rows."""
        readers = [functools.partial(cell, file, line, record) for line, record in batch]
        self._add_texts(readers, columns.text)

        rows_of_numbers = [[read(name, NUMBERS) for name in columns.numbers] for read in readers]
        numbers = np.array(rows_of_numbers)
        self.numbers.append(numbers)
        self._add_labels(readers, columns)
        if columns.id:
            self.ids += [value_of(record, columns.id, None) for _, record in batch]
            self._budget.take(WORD_BYTES * len(batch))
        self._budget.take(2 * numbers.nbytes)

    def _add_texts(self, readers: Sequence[CellReader], text_columns: Sequence[str]) -> None:
        texts = [" ".join(read(name, TEXTS) for name in text_columns) for read in readers]
        if text_columns:
            self.n_empty_texts += sum(not text.strip() for text in texts)
        self._counter.add(texts)

    def _add_labels(self, readers: Sequence[CellReader], columns: Columns) -> None:
        for indicator in columns.indicators:
            _ = self.label_numbers[as_utf8(indicator).encode()]
        labels_of_rows = [_labels_of_row(read, columns) for read in readers]
        self.labels.append(
            self.label_numbers.labels_of(
                [as_utf8(label).encode() for label in labels] for labels in labels_of_rows
            )
        )


def _labels_of_row(read: CellReader, columns: Columns) -> list[str]:
    if columns.indicators:
        return [name for name in columns.indicators if read(name, INDICATORS)]
    if not columns.label:
        return []
    labels: list[str] = read(columns.label, labels_between(columns.separator))
    return labels


def _features(
    columns: Columns, counter: TextFeatures, numbers: np.ndarray
) -> tuple[np.ndarray | csr_matrix, TextSchema | None]:
    """Features of all rows: words and intervals or, without text, standardised numbers."""
    if not columns.text:
        return standardised(numbers, columns.scales), None
    features, text_schema = counter.finish()
    if columns.numbers:
        intervals = map(interval_indicators, numbers.T, columns.scales)
        n_features = text_schema.n_features
        unknown_words = features[:, n_features:]
        parts = [features[:, :n_features], *intervals, unknown_words]
        features = csr_matrix(hstack(parts, "csr"))
    return features, text_schema


def _note_missing(
    file: str, columns: Columns, n_empty_texts: int, numbers: np.ndarray, progress: Progress
) -> None:
    """Say how many rows have no text, and how many have no number in each column."""
    counts = {"text": n_empty_texts}
    counts.update(zip(columns.numbers, np.isnan(numbers).sum(axis=0).tolist(), strict=True))
    missing = listed_columns([f"without {name}: {n:,}" for name, n in counts.items() if n])
    if missing:
        substitute = "have no such features" if columns.text else "have the mean"
        progress.note(f"{file}: rows {missing}; these {substitute}")
