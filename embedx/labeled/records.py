"""Rows given from Python as features: records, data frames and arrays of numbers, read as the same
rows of a file are.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from embedx.labeled.data import Columns, DataSchema
from embedx.labeled.tables import TableSettings, read_table, standardised
from embedx.labeled.words import TextFeatureSettings
from embedx.text.sources import ROWS, Source
from embedx.training.progress import SILENT

NAME = "X"  # of the rows, in messages


def records_of(rows: Any) -> Iterator[dict[str, Any]] | None:
    """The rows of a data frame, or of a list of mappings; None if they are neither."""
    if hasattr(rows, "to_dicts"):  # polars
        return iter(rows.to_dicts())
    if hasattr(rows, "columns") and hasattr(rows, "notna"):  # pandas
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
    rows = read_table(
        Source(NAME, ROWS, None),
        None,
        "records",
        TableSettings(),
        schema,
        False,
        TextFeatureSettings(),
        SILENT,
        enumerate(records, 1),
    )
    return rows.features


def features_of_numbers(values: ndarray, columns: Columns) -> ndarray:
    """The features of numbers in the order of the training data's columns, float32; what is missing
    is NaN.
    """
    return standardised(np.asarray(values, np.float64), columns.scales)
