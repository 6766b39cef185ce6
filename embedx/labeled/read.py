"""Labelled data from files of any format of the registry, `embedx.labeled.formats`.

    read             rows with the labels they have
    read_training    rows to train on
    read_test        rows to score a classifier on
    read_to_predict  rows to predict the labels of
    read_arriving    the same, of standard input as they come

Several files of one format are one data set: named one by one, by a pattern or by their folder.
Arrays need a file of labels: .npy or IDX integers, an indicator matrix as .npz, or lines of text,
one for each row: a label, or a list of them. Text may be compressed (.gz, .bz2, .xz, .zst), remote,
or standard input. `digits` are generated.

A label is the text that stands in the file. XC and LIBSVM files, and .npy and IDX, define labels as
numbers: there +1, 01 and 1 are the same.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, issparse

from embedx.errors import DataError, Setting, SettingError, Text, counted, public_url
from embedx.labeled.array_checks import check_finite
from embedx.labeled.data import (
    Columns,
    DataSchema,
    FileRows,
    Labeled,
    Labels,
    with_unknown_last,
)
from embedx.labeled.digits import GENERATED, digits
from embedx.labeled.documents import (
    Document,
    documents_in,
    read_documents,
    unlabelled_documents,
)
from embedx.labeled.files import (
    UTF8_MARK,
    LabelledFile,
    LabelledFiles,
    arriving_lines,
    source_of,
    sources_of,
)
from embedx.labeled.formats import format_of, format_of_arriving, names_of_tables
from embedx.labeled.formats.contract import Format
from embedx.labeled.formats.fasttext import features_of_lines
from embedx.labeled.ids import ids_and_names
from embedx.labeled.label_files import with_labels
from embedx.labeled.named_data import labels_of_recipe, named, split_of, split_rows
from embedx.labeled.options import ReadOptions
from embedx.labeled.tables.settings import TableSettings
from embedx.labeled.words import TextFeatureSettings
from embedx.runtime.progress import SILENT, Progress
from embedx.text.sources import STANDARD_INPUT

DEFAULT_TEXT = TextFeatureSettings()
DEFAULT_TABLE = TableSettings()


class ArrivedRows(NamedTuple):
    """Rows of standard input: features, and ids where a table has them."""

    features: csr_matrix
    ids: np.ndarray | None


def read(
    source: str | Sequence[str],
    labels: str | None = None,
    *,
    schema: DataSchema | None = None,
    text: TextFeatureSettings = DEFAULT_TEXT,
    table: TableSettings = DEFAULT_TABLE,
    progress: Progress = SILENT,
    threads: int | None = None,
) -> Labeled:
    """The rows in `source`, with their labels; they may have none at all.

    source   one file, or several of one format
    labels   the file of the labels, if the rows have none of their own
    schema   that of the training data, if the rows are not those: of a recipe the test rows are
             read. Features that it lacks are dropped. Labels that it lacks are kept: they get ids
             of at least its `n_labels`, while `n_labels` of the result stays that of the training
             data
    text     which words and n-grams of text are features, where `schema` does not decide
    table    which columns of a table are used, where `schema` does not decide
    threads  how many threads parse the lines of a file; None: one per usable core
    """
    options = ReadOptions(
        schema=schema, text=text, table=table, labels_file=labels, threads=threads
    )
    data = _read(source, options, progress, takes_test_part=schema is not None)
    if schema is None:
        return data
    _note_unknown_labels(_shown(source), data, schema, progress)
    return _without_new_names(data, schema)


def read_training(
    source: str | Sequence[str],
    labels: str | None = None,
    *,
    schema: DataSchema | None = None,
    text: TextFeatureSettings = DEFAULT_TEXT,
    table: TableSettings = DEFAULT_TABLE,
    progress: Progress = SILENT,
    threads: int | None = None,
) -> Labeled:
    """The rows as `read` gives them, with two labels or more.

    schema  that of earlier training data, which training continues from: the labels are those and
            new ones, which are named after them
    """
    options = ReadOptions(
        schema=schema, text=text, table=table, labels_file=labels, threads=threads
    )
    data = _read(source, options, progress, takes_test_part=False)
    _check_any_label(data, _shown(source))
    if schema is not None:
        return _with_new_labels(_without_unknown_words(data, schema), schema)
    _check_two_labels(data, _shown(source), labels)
    _check_features(data, _shown(source))
    return data


def read_test(
    source: str,
    labels: str | None = None,
    *,
    schema: DataSchema,
    table: TableSettings = DEFAULT_TABLE,
    names_new_labels: bool = False,
    progress: Progress = SILENT,
    threads: int | None = None,
) -> Labeled:
    """The test rows in `source`, with the features and labels of the training data; see `read`.

    names_new_labels  whether the schema of the result also names the labels that `schema` lacks

    Raises `DataError` if no row has a label: nothing could be scored.
    """
    options = ReadOptions(schema=schema, table=table, labels_file=labels, threads=threads)
    data = _read(source, options, progress, takes_test_part=True)
    if not len(data.labels.ids):
        remedy = ("name labelled rows, or a file of labels with ", Setting("test_labels"))
        raise _no_label(data, _shown(source), remedy)
    if names_new_labels:
        return data
    _note_unknown_labels(_shown(source), data, schema, progress)
    return _without_new_names(data, schema)


def read_to_predict(
    source: str,
    schema: DataSchema,
    *,
    table: TableSettings = DEFAULT_TABLE,
    progress: Progress = SILENT,
    threads: int | None = None,
) -> Labeled:
    """The rows in `source`, with the features of the training data; see
    `ReadOptions.for_prediction`.
    """
    options = ReadOptions(schema=schema, table=table, for_prediction=True, threads=threads)
    data = _read(source, options, progress, takes_test_part=True)
    return _without_new_names(data, schema)


def read_arriving(
    schema: DataSchema,
    *,
    table: TableSettings = DEFAULT_TABLE,
    progress: Progress = SILENT,
    threads: int | None = None,
) -> Iterator[ArrivedRows]:
    """The rows of standard input, those that are there at a time, so that each can be answered
    before the next is written. A format whose lines are not rows by themselves is read to the end.

    The first line decides on the format, as in a file; formats with the training data's kind of
    features are tried first.
    """
    options = ReadOptions(schema=schema, table=table, for_prediction=True, threads=threads)
    format = None
    arriving = arriving_lines()
    for lines in arriving:
        is_blank = not lines.strip()
        if format is None and not is_blank:
            lines = lines.removeprefix(UTF8_MARK)
            first = _arrived([lines], SILENT).first
            may_have_comments = schema.columns is None and schema.text is None
            is_comment = may_have_comments and not first.lines.first_row
            if is_comment:
                continue
            format = format_of_arriving(first, schema, options)
            if not format.has_row_per_line:
                data = _read_files(_arrived(chain([lines], arriving), progress), options, format)
                yield ArrivedRows(data.features, data.ids)
                return
        if is_blank and schema.columns:
            continue
        yield _rows_of_lines(lines, format, options, progress)
        # Notes about the first rows hold for all.
        progress = SILENT


def _read(
    source: str | Sequence[str], options: ReadOptions, progress: Progress, *, takes_test_part: bool
) -> Labeled:
    """The rows in `source`; with a schema, that of the result has the names of new labels.

    takes_test_part  whether the test rows of a data set by name are meant, not those of training
    """
    names = named(source)
    if options.labels_file == STANDARD_INPUT and STANDARD_INPUT in names:
        problem = "standard input cannot be both the features and the labels"
        raise DataError(STANDARD_INPUT, None, problem, "name a file for one of them")
    if names == [GENERATED]:
        training, test = digits()
        return test if takes_test_part else training

    names, split = split_of(names, takes_test_part, progress)
    if options.labels_file is None:
        options = replace(options, labels_file=labels_of_recipe(names))
    documents = documents_in(names)
    if documents is None and options.schema and options.schema.of_documents:
        documents = unlabelled_documents(names)
    files = LabelledFiles(sources_of(names), progress)
    with _shortage_reported(files.name):
        if documents is None:
            data = _read_files(files, options)
        else:
            data = _read_documents(documents, files, " ".join(names), options)
        data = _with_labels_of_file(data, files.name, options, progress)
        return data if split is None else data.rows(split_rows(split, len(data)))


@contextlib.contextmanager
def _shortage_reported(name: str) -> Iterator[None]:
    """Raise `DataError` where memory ends: less may be had than is free, as by `ulimit -v`."""
    try:
        yield
    except MemoryError as error:
        raise DataError(
            name, None, "takes more memory than is available", "use fewer rows or more memory"
        ) from error


def _with_labels_of_file(
    data: Labeled, name: str, options: ReadOptions, progress: Progress
) -> Labeled:
    """The rows with the labels of `labels_file`, if there is one."""
    if options.labels_file is None:
        _check_separator_is_used(name, options.table, data)
        return data
    if len(data.labels.ids):
        remedy = f"leave out the file of labels, {options.labels_file}"
        raise DataError(name, None, "has labels of its own", remedy)
    return with_labels(data, options.labels_file, options, progress)


def _shown(source: str | Sequence[str]) -> str:
    """The names of the data, for a message."""
    return " ".join(map(public_url, named(source)))


def _without_new_names(data: Labeled, schema: DataSchema) -> Labeled:
    """The same rows, whose schema names the labels of the training data alone."""
    return data.with_schema(replace(data.schema, names=schema.names))


def _without_unknown_words(data: Labeled, schema: DataSchema) -> Labeled:
    """The same rows without the column of unknown words, if they have it."""
    if data.n_features == schema.n_features:
        return data
    return replace(data, features=data.features[:, : schema.n_features])


def _rows_of_lines(
    lines: bytes, format: Format | None, options: ReadOptions, progress: Progress
) -> ArrivedRows:
    """The rows of some lines, whose format is known unless they are all blank."""
    schema = options.schema
    assert schema is not None
    is_text = schema.text is not None and schema.columns is None
    if is_text and (format is None or format.features == "words"):
        assert schema.text is not None
        return ArrivedRows(features_of_lines(lines.split(b"\n")[:-1], schema.text), None)
    if not lines.strip():
        shape = (lines.count(b"\n"), schema.n_features)
        return ArrivedRows(csr_matrix(shape, dtype=np.float32), None)
    data = _read_files(_arrived([lines], progress), options, format)
    return ArrivedRows(data.features, data.ids)


def _arrived(lines: Iterable[bytes], progress: Progress) -> LabelledFiles:
    """Lines of standard input as a file."""
    return LabelledFiles([source_of(STANDARD_INPUT)], progress, lines)


def _check_separator_is_used(name: str, table: TableSettings, data: Labeled) -> None:
    """Raise `SettingError` for a separator of labels where no cell or line has them."""
    if table.label_separator is not None and data.schema.columns is None:
        raise SettingError(
            "label_separator",
            table.label_separator,
            f"{name} is no table, and there is no file of labels",
            "leave it out",
        )


def _note_unknown_labels(name: str, data: Labeled, schema: DataSchema, progress: Progress) -> None:
    """Say so if labels are names, and the training data have none of them."""
    ids = data.labels.ids
    names = data.schema.names
    if names and data.schema.by_name and len(ids) and ids.min() >= schema.n_labels:
        progress.note(
            f'{name}: all labels are unknown, such as "{names[-1]}"; the training data have'
            f' "{names[0]}"'
        )


def _with_new_labels(data: Labeled, schema: DataSchema) -> Labeled:
    """The same rows, whose schema counts and names labels that the earlier schema lacks."""
    n_labels = max(schema.n_labels, int(data.labels.ids.max(initial=-1)) + 1)
    names = data.schema.names
    if names is not None:
        names = [*names, *map(str, range(len(names), n_labels))]
    new_schema = replace(data.schema, n_labels=n_labels, names=names)
    return replace(data, n_labels=n_labels).with_schema(new_schema)


def _no_label(data: Labeled, source: str, remedy: Text) -> DataError:
    """The error for rows without labels.

    remedy  where they are no table with columns of labels
    """
    columns = data.schema.columns
    if columns is not None and columns.label_columns:
        names = ", ".join(columns.label_columns)
        remedy = ("choose another column than ", names, " by ", Setting("label_column"))
    return DataError(source, None, "no row has a label", remedy)


def _check_any_label(data: Labeled, source: str) -> None:
    """Raise `DataError` if no row has a label."""
    if not len(data.labels.ids):
        remedy = ("name the file of the labels with ", Setting("train_labels"))
        raise _no_label(data, source, remedy)


def _check_two_labels(data: Labeled, source: str, labels_file: str | None) -> None:
    """Raise `DataError` if all labels are the same."""
    ids = data.labels.ids
    first = ids[0]
    if (ids == first).all():
        n_rows = np.count_nonzero(data.labels.n_of_row)
        names = data.schema.names
        label = names[first] if names else first
        raise DataError(
            labels_file or source,
            None,
            f'only one label, "{label}", on {n_rows:,} of {len(data):,} rows',
            (
                "give data with two labels or more, or train word vectors on text with "
                "`embedx train`"
            ),
        )


def _check_features(data: Labeled, source: str) -> None:
    """Raise `DataError` if no row has a feature: most likely the file is in another format, such as
    a table whose name does not say so.
    """
    if data.is_sparse and data.features.nnz == 0:
        problem = "no row has a feature, of which labels could be predicted"
        remedy = (
            "check the file; of a table name the columns, by ",
            Setting("text_column"),
            " and ",
            Setting("label_column"),
        )
        raise DataError(source, None, problem, remedy)


def _read_files(
    files: LabelledFiles, options: ReadOptions, format: Format | None = None
) -> Labeled:
    """The rows of files of one format, with the features of the training data."""
    return _as_trained_on(_read_file_rows(files, options, format), files, options)


def _read_documents(
    documents: Sequence[Document], files: LabelledFiles, name: str, options: ReadOptions
) -> Labeled:
    """The rows of documents, with the features of the training data."""
    if options.schema:
        options.schema.check_kind_of_features(name, "words")
    _check_no_table_settings(name, options.table)
    rows = read_documents(documents, name, options, files.progress)
    data = _as_trained_on(rows, files, options)
    if options.schema:
        return data
    return data.with_schema(replace(data.schema, of_documents=True))


def _as_trained_on(rows: FileRows, files: LabelledFiles, options: ReadOptions) -> Labeled:
    """The rows with the features and labels of the training data."""
    training_schema = options.schema
    labels, n_labels, names = _labels_of(rows, training_schema, files.name)
    if training_schema is None:
        return _training_data(files, rows, labels.distinct(), n_labels, names)

    # It also names labels that the training data lack.
    schema = replace(training_schema, names=names or training_schema.names)
    _note_first_feature(files.name, rows, schema, files.progress)
    if schema.columns and rows.columns is None:
        _note_missing_numbers(files.name, schema.columns, files.progress)
    features = rows.features
    n_columns = schema.n_features
    if rows.text is not None:
        features = with_unknown_last(features, rows.text.n_features, schema.n_features)
        n_columns = schema.n_features + 1
    _resize_features(files.name, features, n_columns, files.progress)
    return Labeled(features, labels.distinct(), schema.n_labels, schema, ids=rows.ids)


def _read_file_rows(files: LabelledFiles, options: ReadOptions, format: Format | None) -> FileRows:
    """The rows as their format reads them. Raises `EmbedxError` for files of another kind."""
    first = files.first
    format = format or format_of(first, options)
    if options.schema and format.features in ("words", "ID:VALUE"):
        options.schema.check_kind_of_features(first.name, format.features)
    check = partial(_check_format, format=format, first=first.name, options=options)
    rows = format.read(files.checked_by(check), options)
    if rows.columns is None:
        _check_no_table_settings(files.name, options.table)
    return rows


def _labels_of(
    rows: FileRows, schema: DataSchema | None, file: str
) -> tuple[Labels, int, list[str] | None]:
    """The labels by id, how many ids there are, and the names by id where labels have names."""
    if rows.names is None:
        return rows.labels, rows.n_labels, None
    by_name = schema.by_name if schema else True
    known_names = schema.names if schema else None
    id_of, names = ids_and_names(rows.names, by_name, known_names, file, rows.labels_are_numbers)
    return Labels(rows.labels.offsets, id_of[rows.labels.ids]), len(names or []), names


def _training_data(
    files: LabelledFiles, rows: FileRows, labels: Labels, n_labels: int, names: list[str] | None
) -> Labeled:
    """The rows with a schema of their own."""
    schema = DataSchema(
        rows.features.shape[1],
        n_labels,
        names,
        rows.text,
        rows.names is not None,
        rows.first_feature,
        columns=rows.columns,
    )
    _resize_features(files.name, rows.features, schema.n_features, files.progress)
    data = Labeled(rows.features, labels, n_labels, schema, ids=rows.ids)
    if rows.first_feature is None:
        schema = replace(schema, has_empty_first_column=data.has_empty_first_column)
    return data.with_schema(schema)


def _check_format(file: LabelledFile, format: Format, first: str, options: ReadOptions) -> None:
    """Raise `DataError` for a file that is not of the format of the first one."""
    other = format_of(file, options)
    if other is not format:
        raise DataError(
            file.name,
            None,
            f"its format is {other.name}, but that of {first} is {format.name}",
            "give files of one format",
        )


def _note_first_feature(name: str, rows: FileRows, schema: DataSchema, progress: Progress) -> None:
    """Say so if features count from 1 where the training data were arrays."""
    if schema.first_feature is None and rows.first_feature:
        progress.note(f"{name}: features count from 1, the columns that were trained on from 0")


def _check_no_table_settings(name: str, table: TableSettings) -> None:
    """Raise `SettingError` if a setting of tables is given, for files that are none."""
    settings = [*table.columns_by_setting]
    if table.header:
        settings.append("header")
    if settings:
        raise SettingError(
            settings[0], None, f"{name} is no table", f"use it with {names_of_tables()}"
        )


def _note_missing_numbers(name: str, training_columns: Columns, progress: Progress) -> None:
    """Say that these rows lack the numbers of the training table.

    Raises `DataError` if that table has no text: then nothing is left to predict from.
    """
    numbers = ", ".join(training_columns.numbers)
    if not training_columns.text:
        raise DataError(
            name, None, "no table, as the training data are", f"give a table with {numbers}"
        )
    if training_columns.numbers:
        progress.note(f"{name}: no table, so that rows have no {numbers}")


def _resize_features(name: str, features: Any, n_features: int, progress: Progress) -> None:
    """Resize sparse features to the columns of the training data, in place.

    Raises `EmbedxError` if dense features have another number of columns.
    """
    if issparse(features):
        n_values = features.nnz
        features.resize(features.shape[0], n_features)
        n_dropped = n_values - features.nnz
        if n_dropped:
            progress.note(
                f"{name}: {counted(n_dropped, 'value')} dropped, with feature ids that are not"
                f" below {n_features:,} as in the training data"
            )
        features.sum_duplicates()
        # Sums may be too large.
        check_finite(name, features.data)
    elif features.shape[1] != n_features:
        raise DataError(
            name,
            None,
            f"{counted(features.shape[1], 'feature')}, but the training data have {n_features:,}",
            "give the same",
        )
