"""Labels, or the names of labels, from a file of their own."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from embedx.errors import DataError, Setting, counted
from embedx.labeled.array_checks import labels_in
from embedx.labeled.cells import LIST_REMEDY, labels_of, note_separator
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.files import LabelledFile, Lines, source_of
from embedx.labeled.formats import array_format_of
from embedx.labeled.ids import MAX_IDS, Numbering, decoded, ids_and_names, is_id
from embedx.labeled.options import ReadOptions
from embedx.runtime.progress import Progress


def with_names(data: Labeled, names: Sequence[str], file: str) -> Labeled:
    """Training data whose labels are called by the names that `file` gives to their ids.

    Where the data say labels by name, as LIBSVM and fastText files do, these names must be whole
    numbers: they become the ids.
    """
    labels = data.labels
    schema = data.schema
    n_labels = schema.n_labels
    numbers = schema.names or []
    if schema.by_name:
        for number in numbers:
            if not is_id(number):
                raise DataError(
                    file,
                    None,
                    f'the labels of the training data have names already, such as "{number}"',
                    (
                        "leave out ",
                        Setting("label_names"),
                        ", which names labels that are whole numbers from 0",
                    ),
                )
        n_labels = max(int(number) if len(number) < 20 else MAX_IDS for number in numbers) + 1
    if len(names) != n_labels:
        raise DataError(
            file,
            None,
            f"{counted(len(names), 'name')} for {counted(n_labels, 'label')}, which count from 0",
            "write one a line for each",
        )
    if schema.by_name:
        id_of = np.array([int(number) for number in numbers], np.int32)
        labels = Labels(labels.offsets, id_of[labels.ids])
    schema = replace(schema, n_labels=n_labels, names=list(names), by_name=False)
    return replace(data, labels=labels, n_labels=n_labels).with_schema(schema)


def with_labels(data: Labeled, file: str, options: ReadOptions, progress: Progress) -> Labeled:
    """The same rows with the labels in the file."""
    labels_file = LabelledFile(source_of(file), progress)
    format = array_format_of(labels_file)
    training_schema = options.schema
    names = training_schema.names if training_schema else None
    by_name = training_schema.by_name if training_schema else None
    separator = options.table.label_separator
    if training_schema is not None and separator is None:
        separator = training_schema.label_separator

    n_labels = 0
    are_numbers = format is not None and format.read_array is not None
    if format is not None and format.read_array is not None:
        labels, n_labels = labels_in(file, format.read_array(labels_file))
        numbers, ids = np.unique(labels.ids, return_inverse=True)
        words = [b"%d" % number for number in numbers.tolist()]
        labels = Labels(labels.offsets, ids)
        by_name = bool(by_name)
    else:
        labels, words = _label_lines(labels_file.lines, len(data), separator)
        if training_schema is None and separator is None:
            note_separator(file, words, progress)

    id_of, names = ids_and_names(words, by_name, names, file, are_numbers)
    labels = Labels(labels.offsets, id_of[labels.ids])
    if len(labels) != len(data):
        raise DataError(
            file,
            None,
            f"labels of {counted(len(labels), 'row')}, but the features have {len(data):,}",
            "check that they belong together",
        )

    schema = data.schema
    if training_schema is None:
        n_labels = max(n_labels, schema.n_labels, int(labels.ids.max(initial=-1)) + 1)
        by_name = names is not None
        schema = replace(schema, n_labels=n_labels, by_name=by_name, label_separator=separator)
    schema = replace(schema, names=names or schema.names)
    data = replace(data, labels=labels.distinct(), n_labels=schema.n_labels)
    return data.with_schema(schema)


def _label_lines(lines: Lines, n_rows: int, separator: str | None) -> tuple[Labels, list[bytes]]:
    """The labels of a text with a line for each row, by number, and the different labels.

    A line has a label, a list, several labels between separators, or nothing.
    """
    lines.min_lines = n_rows
    numbering = Numbering(lines.budget)
    parts = []
    for chunk in lines:
        rows = []
        for number, line in enumerate(decoded(lines, chunk).split("\n")[:-1], lines.chunk_line):
            try:
                labels = labels_of(line, separator) or []
            except ValueError as error:
                raise DataError(lines.name, number, str(error), LIST_REMEDY) from error
            rows.append([label.encode() for label in labels])
        parts.append(numbering.labels_of(rows))
    return Labels.joined(parts), list(numbering)
