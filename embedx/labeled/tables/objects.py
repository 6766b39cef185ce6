"""Rows from JSON objects, one each. A file that is one object of columns is refused."""

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from embedx.errors import DataError
from embedx.labeled.files import LabelledFile
from embedx.labeled.options import ReadOptions
from embedx.labeled.tables.rows import Records, without_bad
from embedx.text.sources import STANDARD_INPUT
from embedx.text.tables import BadRecord, listed_columns


def object_rows(
    file: LabelledFile, records: Iterable[tuple[int, Any]], options: ReadOptions
) -> Records:
    """The objects that can be read. Raises `DataError` for a single one that holds all rows."""
    records = iter(records)
    first = [*itertools.islice(records, 2)]
    if len(first) == 1 and file.name != STANDARD_INPUT:
        ((_, only),) = first
        if not isinstance(only, BadRecord) and _holds_rows(only):
            raise DataError(
                file.name,
                None,
                f"one object, whose fields are {listed_columns(only)}, instead of one for each row",
                'write an array of objects, as `to_json(orient="records")` of pandas does',
            )
    return without_bad(file, itertools.chain(first, records), options)


def _holds_rows(record: Mapping[str, Any]) -> bool:
    """Whether an object holds the columns of a table, of two rows or more, or a list of rows."""
    values = [value for value in record.values() if isinstance(value, list | dict)]
    if any(isinstance(value, list) and _are_rows(value) for value in values):
        return True
    n_rows = {len(value) for value in values}
    return len(values) == len(record) > 1 and len(n_rows) == 1 and n_rows != {1}


def _are_rows(items: Collection[Any]) -> bool:
    return len(items) > 1 and all(isinstance(item, list | dict) for item in items)
