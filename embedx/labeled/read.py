"""`read`: labelled data from files of several formats, recognised by content.

    XC sparse     ROWS FEATURES LABELS, then lines `l1,l2,... f:v f:v ...`, ids from 0
    XC, one file  DATA@SPLIT or DATA@SPLIT:COLUMN: the rows of DATA numbered, from 1, in a column of
                  the file SPLIT
    LIBSVM        the same lines without a header; labels are names; features count from 1, or from
                  0 if feature 0 occurs
    fastText      `__label__a __label__b some words`; a feature is how often its word stands in the
                  line
    table         CSV, TSV, JSON Lines or Parquet; a column of text is read as fastText's lines are,
                  others are numbers
    dense         .npy or IDX, flattened to (rows, features); values as they are
    sparse .npz   of scipy.sparse.save_npz

    digits        generated

Dense and .npz files need a file of labels: .npy or IDX integers, an indicator matrix as .npz, or
lines of text, one for each row: a label, or a list of them. Text may be compressed (.gz, .bz2, .xz,
.zst), remote, or standard input.

A label is the text that stands in the file. XC and LIBSVM files, and .npy and IDX, define labels as
numbers: there +1, 01 and 1 are the same.
"""

import math
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from embedx.errors import DataError, Setting, SettingError
from embedx.labeled.arrays import check_finite, features_in, is_binary, labels_in, read_array
from embedx.labeled.cells import LIST_REMEDY, labels_of
from embedx.labeled.data import Columns, DataSchema, FileRows, Labeled, Labels
from embedx.labeled.digits import GENERATED, digits
from embedx.labeled.files import Lines, head_of, source_of
from embedx.labeled.records import features_of_numbers
from embedx.labeled.schema import MAX_IDS, Numbering, decoded, is_id, settled
from embedx.labeled.sparse import HEADER, check_libsvm, read_libsvm, read_xc
from embedx.labeled.tables import TableSettings, format_of, note_separator, read_table
from embedx.labeled.words import TextFeatureSettings, is_fasttext, read_lines
from embedx.runtime.progress import SILENT, Progress
from embedx.text.sources import COMPRESSED, STANDARD_INPUT, recipe_meant
from embedx.text.tables import PARQUET_START

SPLIT = re.compile(r"(?P<data>.+)@(?P<split>[^@]+?)(:(?P<column>\d{1,9}))?")
URL_HOST = re.compile(r"\w+://[^/]*")
IDX_NAME = re.compile(r"idx\d-")
TEXT = TextFeatureSettings()
TABLE = TableSettings()


def read(
    source: str,
    labels: str | None = None,
    *,
    progress: Progress = SILENT,
    like: DataSchema | None = None,
    keeps_empty: bool = False,
    text: TextFeatureSettings = TEXT,
    table: TableSettings = TABLE,
    names_new_labels: bool = False,
) -> Labeled:
    """The rows in `source`, with the labels in the file `labels` if it has none of its own; they
    may also have none at all.

    `text` says which words and n-grams of text are features, `table` which columns of a table are
    used. `like` is the schema of the training data, which decides that too. Features not in it are
    dropped. Labels not in it are kept: they get ids of at least its `n_labels`, while `n_labels` of
    the result stays that of the training data. With `names_new_labels` the schema has their names
    too. With `keeps_empty` empty lines at the end of a file without a header are rows, as those
    between others always are.
    """
    if source == labels == STANDARD_INPUT:
        problem = "standard input cannot be both the features and the labels"
        raise DataError(STANDARD_INPUT, None, problem, "name a file for one of them")
    if source == GENERATED:
        training, test = digits()
        return training if like is None else test

    name, split, column = _split_named(source)
    if not split:
        is_test = like is not None and not names_new_labels
        split = _split_of_recipe(name, is_test)
        if split:
            progress.note(f"{name}: the rows in {split}")
    try:
        needs_labels = labels is None and not keeps_empty
        data = _rows_of(name, progress, like, keeps_empty, text, table, needs_labels)
        if labels is not None:
            if len(data.labels.ids):
                raise DataError(
                    name, None, "has labels of its own", f"leave out the file of labels, {labels}"
                )
            data = _with_labels(data, labels, table.label_separator, progress, like)
        else:
            _check_separator_is_used(name, table, data)

        if like is not None and not names_new_labels:
            if not keeps_empty:
                _note_unknown_labels(name, data, like, progress)
            data = replace(data, known=replace(data.schema, names=like.names))
        if split:
            data = data.rows(_split_rows(split, column, len(data)))
        return data
    except MemoryError as error:  # where less may be had than is free, as by `ulimit -v`
        raise DataError(
            source, None, "takes more memory than is available", "use fewer rows or more memory"
        ) from error


def _check_separator_is_used(name: str, table: TableSettings, data: Labeled) -> None:
    """Raise `SettingError` for a separator of labels where no cell or line has them."""
    if table.label_separator is not None and data.schema.columns is None:
        raise SettingError(
            "label_separator",
            table.label_separator,
            f"{name} is no table, and there is no file of labels",
            "leave it out",
        )


def _note_unknown_labels(name: str, data: Labeled, like: DataSchema, progress: Progress) -> None:
    """Say so if labels are names, and the training data have none of them."""
    ids = data.labels.ids
    names = data.schema.names
    if names and data.schema.by_name and len(ids) and ids.min() >= like.n_labels:
        progress.note(
            f'{name}: all labels are unknown, such as "{names[-1]}"; the training data have'
            f' "{names[0]}"'
        )


def read_training(
    source: str,
    labels: str | None = None,
    *,
    progress: Progress = SILENT,
    text: TextFeatureSettings = TEXT,
    table: TableSettings = TABLE,
    like: DataSchema | None = None,
) -> Labeled:
    """The rows as `read` gives them, with two labels or more.

    With `like`, the schema of earlier training data, the labels are those and new ones.
    """
    data = read(
        source,
        labels,
        progress=progress,
        text=text,
        table=table,
        like=like,
        names_new_labels=like is not None,
    )
    if like is not None:
        return _with_new_labels(data, like)
    _check_two_labels(data, source, labels)
    return data


def _with_new_labels(data: Labeled, like: DataSchema) -> Labeled:
    """The same rows, with labels that the earlier rows lack counted and named."""
    n_labels = max(like.n_labels, int(data.labels.ids.max(initial=-1)) + 1)
    names = data.schema.names
    if names is not None:
        names = [*names, *map(str, range(len(names), n_labels))]
    schema = replace(data.schema, n_labels=n_labels, names=names)
    return replace(data, n_labels=n_labels, known=schema)


def _check_two_labels(data: Labeled, source: str, labels_file: str | None) -> None:
    """Raise `EmbedxError` if there are fewer than two labels."""
    ids = data.labels.ids
    if not len(ids):
        raise DataError(
            source,
            None,
            "no row has a label",
            ("name the file of the labels with ", Setting("train_labels")),
        )
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


def with_names(data: Labeled, names: Sequence[str], file: str) -> Labeled:
    """Training data whose labels are called by the names that `file` gives to their ids.

    Where the data say labels by name, as LIBSVM and fastText files do, these names must be whole
    numbers: they become the ids.
    """
    labels = data.labels
    known = data.schema
    n_labels = known.n_labels
    numbers = known.names or []
    if known.by_name:
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
            f"{len(names):,} names for {n_labels:,} labels, which count from 0",
            "write one a line for each",
        )
    if known.by_name:
        id_of = np.array([int(number) for number in numbers], np.int32)
        labels = Labels(labels.offsets, id_of[labels.ids])
    known = replace(known, n_labels=n_labels, names=list(names), by_name=False)
    return replace(data, labels=labels, n_labels=n_labels, known=known)


def check_there(source: str) -> None:
    """Raise `EmbedxError` if there are no data of that name, before anything else is read."""
    if source != GENERATED:
        source_of(_split_named(source)[0])


def _split_of_recipe(name: str, is_test: bool) -> str:
    """The file of the numbers of a recipe's training rows or test rows; "" if it has no such files.

    Raises `DataError` if it should be beside the data and is not.
    """
    recipe = recipe_meant(name)
    if recipe is None or not recipe.splits:
        return ""
    data_file = os.path.normpath(recipe.find_files()[0])
    folder = os.path.dirname(data_file)
    wanted = recipe.splits[is_test]
    names = {wanted.lower() + suffix for suffix in ("", *COMPRESSED)}
    for file in sorted(os.listdir(folder or ".")):
        if file.lower() in names:
            return os.path.join(folder, file)
    kind = "test" if is_test else "training"
    source = f"get it {recipe.obtain}, or " if recipe.obtain else ""
    raise DataError(
        name,
        None,
        f"no file {os.path.join(folder, wanted)}, which has the numbers of the {kind} rows in"
        f" {data_file}",
        f"{source}name another: {name}@FILE",
    )


def _split_named(source: str) -> tuple[str, str, int]:
    """(data file, split file, column) as `source` names them; no split is "", and column 1."""
    match = SPLIT.fullmatch(source)
    if not match or os.path.exists(source):
        return source, "", 1
    has_user_name = URL_HOST.fullmatch(match["data"]) is not None  # https://user@host/file
    if has_user_name:
        return source, "", 1
    split_with_colon = source[match.start("split") :]
    if os.path.exists(split_with_colon):
        return match["data"], split_with_colon, 1
    return match["data"], match["split"], int(match["column"] or 1)


def _rows_of(
    name: str,
    progress: Progress,
    like: DataSchema | None,
    keeps_empty: bool,
    text: TextFeatureSettings,
    table: TableSettings,
    needs_labels: bool,
) -> Labeled:
    """The rows of one file, with the features of the training data."""
    rows = _file_rows(name, progress, like, keeps_empty, text, table, needs_labels)
    labels = rows.labels
    names = None
    n_labels = rows.n_labels
    if rows.names is not None:
        if like is None:
            _note_libsvm(name, rows, progress)
        id_of, names = settled(
            rows.names,
            like.by_name if like else True,
            like.names if like else None,
            name,
            rows.labels_are_numbers,
        )
        labels = Labels(labels.offsets, id_of[labels.ids])
        n_labels = len(names or [])

    if like:
        schema = replace(like, names=names or like.names)  # with the names of new labels
        _note_first_feature(name, rows, like, progress)
    else:
        schema = DataSchema(
            rows.features.shape[1],
            n_labels,
            names,
            rows.text,
            rows.names is not None,
            rows.first_feature,
            columns=rows.columns,
        )
    if rows.columns is None:
        _check_no_table_settings(name, table)
        if like and like.columns:
            _check_like_without_table(name, like.columns, progress)
    _fit_features(name, rows.features, schema.n_features, progress)

    data = Labeled(rows.features, labels.distinct(), schema.n_labels, schema, ids=rows.ids)
    if like is None and rows.first_feature is None:
        schema = replace(schema, has_empty_first_column=data.has_empty_first_column)
    return replace(data, known=schema)


def _file_rows(
    name: str,
    progress: Progress,
    like: DataSchema | None,
    keeps_empty: bool,
    text: TextFeatureSettings,
    table: TableSettings,
    needs_labels: bool,
) -> FileRows:
    """The rows of one file by its format, which its content shows."""
    source = source_of(name)
    head = head_of(source)
    if is_binary(head):
        return _array_rows(name, read_array(source, head, progress), like)
    if head and IDX_NAME.search(os.path.basename(name)):
        raise DataError(
            name,
            None,
            (f"no IDX file: it begins with {head[:4].hex(' ')}, not 00 00 TYPE DIMENSIONS"),
            "fetch it again",
        )
    if head.startswith(PARQUET_START):
        return read_table(source, None, "parquet", table, like, needs_labels, text, progress)

    lines = Lines(source, progress)
    columns = like.columns if like else None
    format = format_of(lines, table, columns, bool(like and like.text))
    if format:
        return read_table(source, lines, format, table, like, needs_labels, text, progress)
    return _text_rows(lines, like, keeps_empty, text)


def _array_rows(name: str, array: Any, like: DataSchema | None) -> FileRows:
    """The rows of an array: of features or, like a training table without text, of its numbers."""
    columns = like.columns if like else None
    if columns is not None and not columns.text:
        columns = replace(columns, label=None, indicators=[], id=None)
        features = features_of_numbers(array, columns, name)
    else:
        columns = None
        features = features_in(name, array)
    n_rows = features.shape[0]
    no_labels = Labels(np.zeros(n_rows + 1, np.int64), np.empty(0, np.int32))
    return FileRows(features, no_labels, columns=columns)


def _note_libsvm(name: str, rows: FileRows, progress: Progress) -> None:
    """Say so if the rows are those of a LIBSVM file."""
    if rows.text is None and rows.columns is None:
        progress.note(
            f"{name}: read as LIBSVM, for the first line is no header ROWS FEATURES LABELS;"
            f" labels are names, features count from {rows.first_feature}"
        )


def _note_first_feature(name: str, rows: FileRows, like: DataSchema, progress: Progress) -> None:
    """Say so if features count from 1 where the training data were arrays."""
    if like.first_feature is None and rows.first_feature:
        progress.note(f"{name}: features count from 1, the columns that were trained on from 0")


def _check_no_table_settings(name: str, table: TableSettings) -> None:
    """Raise `SettingError` if a setting of tables is given."""
    settings = [*table.given]
    if table.header:
        settings.append("header")
    for setting in settings:
        raise SettingError(
            setting,
            None,
            f"{name} is no table",
            "it applies to tables: CSV, TSV, JSON Lines and Parquet",
        )


def _check_like_without_table(name: str, trained: Columns, progress: Progress) -> None:
    """Say that numbers of the training table are missing; `EmbedxError` if it has no text."""
    numbers = ", ".join(trained.numbers)
    if not trained.text:
        raise DataError(
            name, None, "no table, as the training data are", f"give a table with {numbers}"
        )
    if trained.numbers:
        progress.note(f"{name}: no table, so that rows have no {numbers}")


def _fit_features(name: str, features: Any, n_features: int, progress: Progress) -> None:
    """Give sparse features the columns of the training data, in place.

    Raises `EmbedxError` if dense features have another number of columns.
    """
    if issparse(features):
        n_values = features.nnz
        features.resize(features.shape[0], n_features)
        n_dropped = n_values - features.nnz
        if n_dropped:
            progress.note(
                f"{name}: {n_dropped:,} values dropped, whose feature ids are not below"
                f" {n_features:,} as in the training data"
            )
        features.sum_duplicates()
        check_finite(name, features.data)  # sums may be too large
    elif features.shape[1] != n_features:
        raise DataError(
            name,
            None,
            f"{features.shape[1]} features, but the training data have {n_features}",
            "give the same",
        )


def _text_rows(
    lines: Lines, like: DataSchema | None, keeps_empty: bool, text: TextFeatureSettings
) -> FileRows:
    """The rows of a text."""
    has_labels = is_fasttext(lines, text.label_prefix)
    if not has_labels and (like is None or like.text is None):
        lines.skip_comments()
    has_header = HEADER.fullmatch(lines.first_line) is not None
    if keeps_empty:
        lines.min_lines = math.inf
    has_words = has_labels or bool(like and like.text is not None and not has_header)
    if like and has_words != (like.text is not None):
        kind = "words" if has_words else "ID:VALUE"
        trained_kind = "ID:VALUE" if has_words else "words"
        raise DataError(
            lines.name,
            None,
            f"features are {kind}, but those of the training data are {trained_kind}",
            "give the same kind",
        )
    if has_words:
        return read_lines(lines, text, like.text if like else None)
    by_name = like.by_name if like else not has_header
    if has_header:
        return read_xc(lines, by_name)
    check_libsvm(lines)
    return read_libsvm(lines, like, by_name)


def _with_labels(
    data: Labeled, file: str, separator: str | None, progress: Progress, like: DataSchema | None
) -> Labeled:
    """The same rows with the labels in the file."""
    source = source_of(file)
    head = head_of(source)
    names = like.names if like else None
    by_name = like.by_name if like else None
    if like is not None and separator is None:
        separator = like.label_separator

    n_labels = 0
    are_numbers = is_binary(head)
    if are_numbers:
        labels, n_labels = labels_in(file, read_array(source, head, progress))
        numbers, ids = np.unique(labels.ids, return_inverse=True)
        words = [b"%d" % number for number in numbers.tolist()]
        labels = Labels(labels.offsets, ids)
        by_name = bool(by_name)
    else:
        labels, words = _label_lines(Lines(source, progress), len(data), separator)
        if like is None and separator is None:
            note_separator(file, words, progress)

    id_of, names = settled(words, by_name, names, file, are_numbers)
    labels = Labels(labels.offsets, id_of[labels.ids])
    if len(labels) != len(data):
        raise DataError(
            file,
            None,
            f"labels of {len(labels)} rows, but the features have {len(data)}",
            "do they belong together?",
        )

    schema = data.schema
    if like is None:
        n_labels = max(n_labels, schema.n_labels, int(labels.ids.max(initial=-1)) + 1)
        by_name = names is not None
        schema = replace(schema, n_labels=n_labels, by_name=by_name, label_separator=separator)
    schema = replace(schema, names=names or schema.names)
    return replace(data, labels=labels.distinct(), n_labels=schema.n_labels, known=schema)


def _label_lines(lines: Lines, n_rows: int, separator: str | None) -> tuple[Labels, list[bytes]]:
    """The labels of a text with a line for each row, by number, and the different labels.

    A line has a label, a list, several labels between separators, or nothing.
    """
    lines.min_lines = n_rows
    numbering = Numbering(lines.budget)
    parts = []
    for chunk in lines:
        rows = []
        for number, line in enumerate(decoded(lines, chunk).split("\n")[:-1], lines.line):
            try:
                labels = labels_of(line, separator) or []
            except ValueError as error:
                raise DataError(lines.name, number, str(error), LIST_REMEDY) from error
            rows.append([label.encode() for label in labels])
        parts.append(numbering.labels_of(rows))
    return Labels.joined(parts), list(numbering)


def _split_rows(file: str, column: int, n_rows: int) -> np.ndarray:
    """The rows of the data, from 0, that a column of a split file names from 1."""
    lines = Lines(source_of(file), SILENT)
    rows = []
    for chunk in lines:
        lines.budget.take(36 * chunk.count(b"\n"))
        for number, line in enumerate(chunk.split(b"\n")[:-1], lines.line):
            # b"" where the line has no such column, which counts from 1
            word = b"".join(line.split()[column - 1 : column]) if column else b""
            row = int(word) if word.isdigit() and len(word) < 20 else 0
            if not 1 <= row <= n_rows:
                text = word.decode("utf-8", "replace")
                raise DataError(
                    lines.name,
                    number,
                    f'column {column} is "{text}", no row of the data, which has rows 1 to'
                    f" {n_rows}",
                    "is it their split?",
                )
            rows.append(row - 1)
    return np.array(rows, np.int64)
