"""Rows given from Python as features: texts, records, data frames and arrays, read as the same rows
of a file are.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy import float32, float64, ndarray
from scipy.sparse import csr_matrix, issparse

from embedx import checks
from embedx.errors import DataError, counted
from embedx.labeled.array_checks import check_finite
from embedx.labeled.cells import MAX_NUMBER
from embedx.labeled.data import Columns, DataSchema, FileRows, TextSchema, with_unknown_last
from embedx.labeled.files import LabelledFiles, MemoryBudget
from embedx.labeled.options import ReadOptions
from embedx.labeled.tables.names import missing_column
from embedx.labeled.tables.numbers import standardised
from embedx.labeled.tables.rows import OpenTable, read_table
from embedx.labeled.tables.settings import TableSettings
from embedx.labeled.words import KnownTextFeatures
from embedx.runtime.progress import SILENT
from embedx.text.sources import LABELLED_ROWS, Source

# Of the rows, in messages.
NAME = "X"
# Memory of a number: three float64 while it is standardised.
BYTES_PER_NUMBER = 3 * 8


def features_of(rows: Any, schema: DataSchema) -> Any:
    """The features of rows, float32 (n_rows, n_features), as those of the same rows in a file; of
    text with the number of unknown words in a column after them.

    rows  texts, if the features are those of text; records (dicts) or a data frame with the columns
          of the training table; an array, dense or sparse, of the numeric columns of that table,
          in order, if it has no text; otherwise of the features

    Raises `EmbedxError` for rows of another kind than those of the training data.
    """
    checks.refuse(checks.wrong_sparse(rows), NAME, "build the matrix anew")
    if isinstance(rows, str):
        raise DataError(NAME, None, f"one text, {rows[:40]!r}", "give a list of texts")
    if isinstance(rows, Mapping):
        raise DataError(NAME, None, "one record", f"give {_wanted(schema)}")
    if isinstance(rows, Iterator):
        rows = list(rows)
    if are_texts(rows):
        return features_of_texts(rows, schema)

    columns = schema.columns
    records = records_of(rows)
    if records is not None and columns is not None:
        return features_of_records(records, schema)
    if records is not None and (schema.text is not None or isinstance(rows, Sequence)):
        raise DataError(
            NAME,
            None,
            "rows with named columns, which the training data have not",
            f"give {_wanted(schema)}",
        )
    rows = _with_columns_in_order(rows, schema)
    if columns is not None and not columns.text:
        return features_of_numbers(_array_of(rows, schema, float64), columns)
    with np.errstate(over="ignore"):
        features = _array_of(rows, schema, float32)
    check_finite(NAME, features.data if issparse(features) else features)
    return features


def are_texts(rows: Any) -> bool:
    """Whether rows are texts, as the first of them is."""
    if not hasattr(rows, "__len__") or getattr(rows, "ndim", 1) != 1 or isinstance(rows, Mapping):
        return False
    return len(rows) > 0 and isinstance(next(iter(rows)), str)


def features_of_texts(texts: Any, schema: DataSchema) -> csr_matrix:
    """The features of texts, which have no numbers where the training rows had some, and how many
    of their words are unknown, in a column after them.

    Raises `DataError` for a row that is no text, or if the features are not those of text.
    """
    if schema.text is None:
        raise DataError(NAME, None, "texts", f"give {_wanted(schema)}")
    check_texts(texts)
    counts = text_counts(texts, schema.text)
    return with_unknown_last(counts, schema.text.n_features, schema.n_features)


def check_texts(rows: Any) -> None:
    """Raise `DataError` for a row that is no text."""
    for number, text in enumerate(rows):
        if not isinstance(text, str):
            problem = f"row {number} is {text!r}, but other rows are texts"
            raise DataError(NAME, None, problem, "leave it out, or give an empty text")


def text_counts(texts: Any, text: TextSchema) -> csr_matrix:
    """How often each word and n-gram of a model stands in each text, and unknown words."""
    return KnownTextFeatures(text, MemoryBudget(NAME)).rows(texts)


def _wanted(schema: DataSchema) -> str:
    """What rows should be."""
    if schema.columns is not None:
        columns = ", ".join(_feature_columns(schema))
        instead = "a list of texts" if schema.columns.text else "an array of these"
        return f"a list of records or a data frame with the columns {columns}, or {instead}"
    if schema.text is not None:
        return "a list of texts"
    return f"an array of {schema.n_features:,} features"


def _feature_columns(schema: DataSchema) -> list[str]:
    """The columns of the training table that have features."""
    columns = schema.columns
    return [] if columns is None else [*columns.text, *columns.numbers]


def _array_of(rows: Any, schema: DataSchema, dtype: type) -> Any:
    """The numbers of rows, a matrix of the training data's width.

    Raises `DataError` if they are none, or have another width.
    """
    columns = schema.columns
    n_columns = schema.n_features
    if columns is not None and not columns.text:
        n_columns = len(columns.numbers)
    if issparse(rows):
        array = csr_matrix(rows, dtype=dtype)
        if not array.has_canonical_format:
            array = array.copy()
            array.sum_duplicates()
    else:
        try:
            array = np.asarray(rows, dtype)
        except (TypeError, ValueError):
            array = np.zeros(0)
        if array.shape == (0,) and np.size(rows) == 0:
            array = np.zeros((0, n_columns), dtype)
    if array.ndim != 2:
        kind = "not numbers" if schema.text is None else "neither texts nor numbers"
        raise DataError(NAME, None, f"{kind} in rows and columns", f"give {_wanted(schema)}")
    if array.shape[1] != n_columns:
        problem = f"{counted(array.shape[1], 'column')}, but the training data have {n_columns:,}"
        raise DataError(NAME, None, problem, f"give {_wanted(schema)}")
    return array


def _with_columns_in_order(rows: Any, schema: DataSchema) -> Any:
    """A data frame with the columns of the one that was trained on, in its order; other rows as
    they are. Raises `DataError` for a column that is missing.
    """
    names = schema.feature_names
    if names is None or not hasattr(rows, "columns"):
        return rows
    available = dict.fromkeys(str(name) for name in rows.columns)
    for name in names:
        if name not in available:
            raise missing_column(NAME, name, available)
    return rows[names]


def records_of(rows: Any) -> Iterator[dict[str, Any]] | None:
    """The rows of a data frame, or of a list of mappings; None if they are neither."""
    is_of_polars = hasattr(rows, "to_dicts")
    if is_of_polars:
        return iter(rows.to_dicts())
    is_of_pandas = hasattr(rows, "columns") and hasattr(rows, "notna")
    if is_of_pandas:
        names = [str(name) for name in rows.columns]
        values = rows.astype(object).where(rows.notna(), None).itertuples(index=False, name=None)
        return (dict(zip(names, map(plain, row), strict=True)) for row in values)
    if isinstance(rows, Sequence) and len(rows) and isinstance(rows[0], Mapping):
        return ({str(name): plain(value) for name, value in row.items()} for row in rows)
    return None


def plain(value: Any) -> Any:
    """The value as JSON has it: numpy's numbers and arrays as those of Python."""
    return value.tolist() if isinstance(value, np.generic | ndarray) else value


def features_of_records(records: Iterator[dict[str, Any]], schema: DataSchema) -> Any:
    """The features of records with the columns of the training data, as `Labeled` has them.

    Raises `EmbedxError` for a column that is missing, and a value that is none of its kind.
    """
    return read_records(records, schema, TableSettings()).features


def read_records(
    records: Iterator[dict[str, Any]], schema: DataSchema, table: TableSettings
) -> FileRows:
    """Records as the same rows of a file are read, with their labels if they have any."""
    files = LabelledFiles([Source(NAME, LABELLED_ROWS, None)], SILENT)
    opened = OpenTable(enumerate(records, 1))
    options = ReadOptions(schema=schema, table=table, for_prediction=True)
    return read_table(files, options, lambda _: opened)


def features_of_numbers(values: Any, columns: Columns, name: str = NAME) -> ndarray:
    """The features of numbers in the order of the training data's columns, float32; what is missing
    is NaN.

    values  (n_rows, n_columns), dense or sparse

    Raises `DataError` for another number of columns, and a number that is no finite float32.
    """
    if values.ndim != 2 or values.shape[1] != len(columns.numbers):
        names = ", ".join(columns.numbers)
        problem = f"shape {values.shape}, but the training table has the numbers {names}"
        raise DataError(name, None, problem, "give these columns, in this order")
    MemoryBudget(name).take(BYTES_PER_NUMBER * math.prod(values.shape))
    numbers = np.asarray(values.toarray() if issparse(values) else values, float64)
    too_large = np.argwhere(np.abs(numbers) > MAX_NUMBER)
    if len(too_large):
        row, column = too_large[0]
        value = numbers[row, column]
        problem = f"row {row + 1}, {columns.numbers[column]}: {value} is no finite float32"
        raise DataError(name, None, problem, "correct it, or give NaN for a missing number")
    return standardised(numbers, columns.scales)
