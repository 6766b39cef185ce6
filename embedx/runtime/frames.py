"""Data frames of pandas, which is an optional dependency."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from embedx.errors import EmbedxError


def data_frame(
    data: Sequence[Mapping[str, Any]] | Mapping[Any, Any], columns: Sequence[str] | None = None
) -> Any:
    """A `pandas.DataFrame` of rows, or of columns by name. Raises EmbedxError if pandas is not
    installed.

    columns  names of the columns, needed if there may be no rows
    """
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise EmbedxError("a data frame needs pandas; pip install pandas") from None
    return pandas.DataFrame(data, columns=columns)
