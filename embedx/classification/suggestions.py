"""The labels that another program suggests for test rows, read from a file and scored as those of a
classifier.

A line has the suggestions for a row, the best first: as `embedx predict` writes them, in text or
JSON, as `fasttext predict-prob` does, or labels between tabs or as in a cell of the training table.
Ids of rows, and probabilities, are left out, and a label of a line counts once. A line more than
there are rows is a heading, and the cells of CSV stand between commas: columns without any known
label, such as texts, are left out.
"""

import csv
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy import int64, ndarray

from embedx.classification.classifier import Classifier
from embedx.classification.label_metrics import new_metrics, scored_labels
from embedx.errors import DataError, counted
from embedx.labeled.data import Labeled
from embedx.labeled.files import Lines, source_of
from embedx.labeled.ids import decoded
from embedx.labeled.words import PREFIX
from embedx.runtime.progress import SILENT
from embedx.text.tables import delimiter_of

# Maximum number of suggestions of a row that are scored.
MAX_SUGGESTIONS = 10


class Suggestions:
    """The suggestions for the rows of test data, which are scored by the rules of a classifier.

    top  int64 (n_rows, MAX_SUGGESTIONS): ids of labels; after the last one an id that no label has
    """

    def __init__(self, classifier: Classifier, top: ndarray) -> None:
        self._classifier = classifier
        self.top = top

    def evaluate(self, data: Labeled) -> dict[str, float]:
        """The metrics of some of the rows, whose `ids` are their numbers."""
        assert data.ids is not None
        labels, kept = scored_labels(self._classifier, data.labels)
        metrics = new_metrics(self._classifier)
        metrics.add_ranked(self.top[data.ids[kept].astype(int64)], labels)
        return metrics.result()


def read_suggestions(file: str, classifier: Classifier, data: Labeled) -> Suggestions:
    """The suggestions in a file for test data, whose schema names labels that are new.

    Raises `DataError` if the file does not have a line for each row, or has no known label.
    """
    ids = _ids_of_labels(classifier, data)
    separator = _separator_of(data)
    rows = _without_heading(file, [*_rows(file, len(data), ids)], len(data), ids, separator)
    rows = _without_probabilities(_without_ids(rows, data))
    if separator is not None:
        rows = [_split_labels(cells, separator) for cells in rows]

    by_number = data.schema.names is None
    none = max(classifier.n_labels, int(data.labels.ids.max(initial=0)) + 1)
    top = np.full((len(data), MAX_SUGGESTIONS), none, int64)
    for row, labels in enumerate(rows):
        different = [*dict.fromkeys(labels)][:MAX_SUGGESTIONS]
        found = [_number_of(label) if by_number else _id_of(label, ids) for label in different]
        top[row, : len(found)] = [none if label_id is None else label_id for label_id in found]
    if (top == none).all():
        first = next((labels[0] for labels in rows if labels), "")
        problem = f'has no label of the model or of the test data; its first is "{first}"'
        raise DataError(file, None, problem, "write labels as in the test data")
    return Suggestions(classifier, top)


def _id_of(label: str, ids: Mapping[str, int]) -> int | None:
    """The id of a label as it stands there, or without fastText's prefix."""
    return ids.get(label, ids.get(label.removeprefix(PREFIX)))


def _number_of(label: str) -> int | None:
    """The number that a label is, with or without fastText's prefix, if it may be an id."""
    name = label.removeprefix(PREFIX)
    return int(name) if name.isdecimal() and len(name) < 10 else None


def _without_heading(
    file: str, rows: list[list[str]], n_rows: int, ids: Mapping[str, int], separator: str | None
) -> list[list[str]]:
    """The n_rows rows below a heading, without columns that have no known label; all rows if there
    is no heading. Raises `DataError` for another number of rows.
    """
    has_heading = len(rows) == n_rows + 1 and not _columns_of_labels(rows[:1], ids, separator)
    if has_heading:
        return _columns_of_labels(rows[1:], ids, separator) or rows[1:]
    if len(rows) != n_rows:
        problem = f"{counted(len(rows), 'line')} for {counted(n_rows, 'row')} of test data"
        remedy = "write one line for each row, empty where none fits"
        raise DataError(file, None, problem, remedy)
    return rows


def _rows(file: str, n_rows: int, labels: Collection[str]) -> Iterator[list[str]]:
    """The cells of each row of a file, of which the last of n_rows may be empty. CSV is split at
    the delimiter that gives most of these labels.
    """
    lines = Lines(source_of(file), SILENT)
    lines.min_lines = n_rows
    texts = [line for chunk in lines for line in decoded(lines, chunk).split("\n")[:-1]]
    if ".csv" in Path(file).suffixes:
        delimiter = delimiter_of(next(filter(None, texts), ""), labels)
        return _rows_of_csv(file, texts, delimiter)
    return (_suggestions_of(text.rstrip("\r")) for text in texts)


def _rows_of_csv(file: str, lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """The cells of each row. Raises `DataError` for what is no CSV."""
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter)
    try:
        yield from reader
    except csv.Error as error:
        raise DataError(file, reader.line_num, f"no CSV ({error})", "correct that line") from error


def _columns_of_labels(
    rows: Sequence[list[str]], ids: Mapping[str, int], separator: str | None
) -> list[list[str]]:
    """The cells of the columns that have a known label; nothing if none has."""
    kept = [
        column
        for column in zip_longest(*rows, fillvalue="")
        if any(
            label.removeprefix(PREFIX) in ids for label in _split_labels(column, separator or "\n")
        )
    ]
    return [[cell for cell in row if cell] for row in zip(*kept, strict=True)]


def _suggestions_of(line: str) -> list[str]:
    """The cells of a line: labels, perhaps with an id before them and probabilities between."""
    if line.startswith(("[", "{")):
        return _labels_of_json(line)
    if "\t" in line:
        return line.split("\t")
    if line.startswith(PREFIX):
        return line.split()
    return [line] if line.strip() else []


def _labels_of_json(line: str) -> list[str]:
    """The labels of a line of `embedx predict --json`; the line itself if it is none."""
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        return [line]
    if isinstance(value, dict):
        value = value.get("labels", [])
    if not isinstance(value, list):
        return [line]
    names = [item.get("label") if isinstance(item, dict) else item for item in value]
    return [str(name) for name in names if name is not None]


def _without_ids(rows: Sequence[list[str]], data: Labeled) -> list[list[str]]:
    """The rows without ids, if each that is not empty begins with the id of its test row."""
    if data.ids is None:
        return list(rows)
    ids = [" ".join(str(row_id).split()) for row_id in data.ids]
    if all(cells[0] == row_id for cells, row_id in zip(rows, ids, strict=True) if cells):
        return [cells[1:] for cells in rows]
    return list(rows)


def _without_probabilities(rows: Sequence[list[str]]) -> list[list[str]]:
    """The rows without every second cell, where all of these are numbers from 0 to 1."""
    others = [cell for cells in rows for cell in cells[1::2]]
    if others and all(map(_is_probability, others)):
        return [cells[::2] for cells in rows]
    return list(rows)


def _separator_of(data: Labeled) -> str | None:
    """The separator of the labels in a cell of the training table; None if there is none."""
    columns = data.schema.columns
    return None if columns is None else columns.separator


def _split_labels(cells: Sequence[str], separator: str) -> list[str]:
    """The labels of all cells."""
    labels = [label.strip() for cell in cells for label in cell.split(separator)]
    return [label for label in labels if label]


def _is_probability(cell: str) -> bool:
    try:
        return 0 <= float(cell) <= 1.001  # fastText's are a little above 1
    except ValueError:
        return False


def _ids_of_labels(classifier: Classifier, data: Labeled) -> dict[str, int]:
    """The ids of labels by name: those of the model, and those that test rows alone have."""
    names = data.schema.names or []
    ids = {name: label for label, name in enumerate(names)}
    for label in range(classifier.n_labels):
        ids.setdefault(classifier.name(label), label)
    return ids
