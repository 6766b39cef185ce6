"""Labelled rows given from Python: `X` is read by rows_from_python.py, and `y` as the labels of a
file.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy import ndarray
from scipy.sparse import csr_matrix, issparse

from embedx import checks
from embedx.errors import DataError, Setting, SettingError, counted
from embedx.labeled.array_checks import check_finite
from embedx.labeled.cells import LIST_REMEDY, labels_of
from embedx.labeled.data import Columns, DataSchema, Labeled, Labels
from embedx.labeled.files import MemoryBudget
from embedx.labeled.ids import Numbering, ids_and_names, is_id
from embedx.labeled.rows_from_python import NAME, features_of, read_records, records_of
from embedx.labeled.tables.settings import TableSettings
from embedx.storage.schema import as_utf8

# Of the labels, in messages.
LABELS = "y"


def labelled_rows(
    rows: Any,
    labels: Any,
    *,
    schema: DataSchema,
    table: TableSettings,
    names_new_labels: bool = False,
) -> Labeled:
    """The rows with the features and labels of the training data, as `read_test` gives those of a
    file.

    rows    as of `features_of`
    labels  a label for each row, as `predict` gives it, or a list of labels for each; an indicator
            matrix (n_rows, n_labels), dense, sparse or a data frame; None: those of the label
            column of `rows`

    Raises `EmbedxError` for rows or labels of another kind, and where no label is known.
    """
    if labels is None:
        data = _labelled_records(rows, schema, table)
        name = NAME
    else:
        features = features_of(rows, schema)
        data = _with_labels(features, labels, schema)
        name = LABELS
    _check_labels(data, schema, name)
    if names_new_labels:
        return data
    return data.with_schema(schema)


def label_name(label: Any) -> str:
    """A label as files write it: 1.0 is the label 1."""
    is_whole = isinstance(label, float | np.floating) and label.is_integer()
    return str(int(label) if is_whole else label)


def _labelled_records(rows: Any, schema: DataSchema, table: TableSettings) -> Labeled:
    """Records or a data frame with the columns of the training table, one of which has labels."""
    records = records_of(rows)
    if records is None or schema.columns is None:
        problem = "a classifier is scored on rows with labels"
        raise SettingError(LABELS, None, problem, "give the label of each row")
    read = read_records(records, schema, table)
    ids, names = ids_and_names(read.names or [], schema.by_name, schema.names, NAME)
    labels = Labels(read.labels.offsets, ids[read.labels.ids]).distinct()
    schema = replace(schema, names=names or schema.names)
    return Labeled(read.features, labels, schema.n_labels, schema, ids=read.ids)


def _with_labels(features: Any, labels: Any, schema: DataSchema) -> Labeled:
    """Rows of features with their labels. Raises `DataError` unless there are as many."""
    checks.refuse(checks.wrong_sparse(labels), LABELS, "build the matrix anew")
    indicators = _indicators(labels, schema)
    names = schema.names
    if indicators is not None:
        labels_of_rows = Labels.of_matrix(indicators)
    else:
        labels_of_rows, all_names = _numbered(_values_of(labels), schema)
        names = all_names or names
    n_rows = features.shape[0]
    if len(labels_of_rows) != n_rows:
        problem = f"labels of {counted(len(labels_of_rows), 'row')}, but X has {n_rows:,}"
        raise DataError(LABELS, None, problem, "give those of each row")
    return Labeled(features, labels_of_rows, schema.n_labels, replace(schema, names=names))


def _check_labels(data: Labeled, schema: DataSchema, name: str) -> None:
    """Raise `DataError` if no row has a label, or none that the model knows."""
    ids = data.labels.ids
    if not len(ids):
        remedy: Any = "give the label of each row"
        if name == NAME:
            remedy = (remedy, " as y, or name their column by ", Setting("label_column"))
        raise DataError(name, None, "no row has a label", remedy)
    if ids.min() < schema.n_labels:
        return
    known_label = "0"
    unknown_label = str(ids[0])
    if schema.names and data.schema.names:
        known_label = schema.names[0]
        unknown_label = data.schema.names[ids[0]]
    problem = f"all labels are unknown to the model, such as {unknown_label}"
    raise DataError(name, None, problem, f"give labels such as {known_label}")


# ---- labels


def _indicators(labels: Any, schema: DataSchema) -> csr_matrix | None:
    """The indicator matrix, (n_rows, n_labels), that the labels are; None if they are others."""
    if issparse(labels):
        matrix = csr_matrix(labels)
    elif hasattr(labels, "columns"):
        matrix = _columns_in_order(labels, schema)
    elif getattr(labels, "ndim", 1) == 2:
        matrix = np.asarray(labels)
    else:
        matrix = _zeros_and_ones(labels, schema.n_labels)
    if matrix is None or matrix.shape[1] == 1:
        return None
    if matrix.shape[1] != schema.n_labels or matrix.dtype.kind not in "biuf":
        problem = f"shape {matrix.shape} of {matrix.dtype}"
        remedy = f"give a label for each row, or 0 and 1 for each of {schema.n_labels:,} labels"
        raise DataError(LABELS, None, problem, remedy)
    indicators = csr_matrix(matrix)
    check_finite(LABELS, indicators.data)
    return indicators


def _columns_in_order(frame: Any, schema: DataSchema) -> ndarray:
    """The values of a data frame, whose columns are in the order of the labels if they are called
    so.
    """
    columns = {str(name): name for name in frame.columns}
    if schema.names is not None and columns.keys() == set(schema.names):
        frame = frame[[columns[name] for name in schema.names]]
    elif schema.names is not None and len(columns) == schema.n_labels:
        problem = f"columns {', '.join(columns)}, which are not the labels"
        raise DataError(LABELS, None, problem, f"call them {', '.join(schema.names)}")
    return np.asarray(frame)


def _zeros_and_ones(labels: Any, n_labels: int) -> ndarray | None:
    """Lists of 0 and 1 for each label as an array; None if they are something else."""
    if not isinstance(labels, Sequence) or isinstance(labels, str) or not len(labels):
        return None
    if not all(isinstance(row, list | tuple) and len(row) == n_labels for row in labels):
        return None
    is_indicator = {cell in (0, 1) for row in labels for cell in row}
    return np.array(labels) if is_indicator == {True} else None


def _values_of(labels: Any) -> Iterable[Any]:
    """What each row has for its labels; None where a data frame has nothing."""
    if isinstance(labels, str):
        raise DataError(LABELS, None, f"one text, {labels[:40]!r}", "give a list of labels")
    if hasattr(labels, "notna"):
        labels = labels.astype(object).where(labels.notna(), None).to_numpy()
    if getattr(labels, "ndim", 1) == 2:
        labels = np.asarray(labels)[:, 0]
    if getattr(labels, "ndim", 1) != 1:
        problem = f"{labels.ndim} dimensions"
        raise DataError(LABELS, None, problem, "give a label for each row")
    return labels if isinstance(labels, Iterable) else [labels]


def _numbered(values: Iterable[Any], schema: DataSchema) -> tuple[Labels, list[str] | None]:
    """The ids of the labels of each row, and the names of all, also of new ones."""
    names = set(schema.names or ())
    rows = [
        _labels_of_row(value, number, schema.columns, names) for number, value in enumerate(values)
    ]
    numbers = Numbering(MemoryBudget(LABELS))
    labels = numbers.labels_of([as_utf8(label).encode() for label in row] for row in rows)
    by_name = schema.by_name or _are_names(numbers, names)
    ids, all_names = ids_and_names(numbers, by_name, schema.names, LABELS)
    return Labels(labels.offsets, ids[labels.ids]).distinct(), all_names


def _are_names(labels: Iterable[bytes], names: Collection[str]) -> bool:
    """Whether labels are names, where files of the training data had their numbers."""
    texts = {label.decode() for label in labels}
    return bool(names) and (not texts.isdisjoint(names) or not all(map(is_id, texts)))


def _labels_of_row(
    value: Any, number: int, columns: Columns | None, names: Collection[str]
) -> list[str]:
    """The labels of a row: those of a list or, as in a cell of the training table, of a text."""
    if isinstance(value, list | tuple | set | frozenset | ndarray):
        return [label for part in value for label in _labels_of_row(part, number, columns, names)]
    if value is None or value != value:
        return []
    if isinstance(value, bool | np.bool_):
        text = str(value)
        return [text if text in names else text.lower()]
    if isinstance(value, str) and columns is not None:
        try:
            return labels_of(value, columns.separator) or []
        except ValueError as error:
            raise DataError(LABELS, None, f"row {number}: {error}", LIST_REMEDY) from error
    text = label_name(value)
    return [text] if text.strip() else []
