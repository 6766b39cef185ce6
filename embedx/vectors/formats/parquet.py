"""Parquet, for databases: columns `word` (string), `vector` (a list of numbers), `count` if it is
known; for int8 `scale`.

duckdb> SELECT word FROM 'vectors.parquet' ORDER BY array_cosine_similarity(vector, ?::FLOAT[100])
DESC LIMIT 10
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from embedx.errors import DataError, EmbedxError
from embedx.storage.description import as_json_types
from embedx.text.opening import reason
from embedx.text.parquet import batches, decoded_bytes
from embedx.vectors.formats.contract import (
    AGAIN,
    DTYPES,
    FileContent,
    Format,
    OpenFile,
    Table,
    as_vectors,
    check_memory,
)

# The arrays of `as_vectors` by column.
ARRAYS = {"vector": "vectors", "count": "counts", "scale": "scale"}


def read(file: OpenFile) -> FileContent:
    """The columns that are ours, of any Parquet file that has them."""
    path = file.path("a Parquet file")
    pyarrow = _library(file.name, "reading")
    try:
        stored = pyarrow.parquet.ParquetFile(path, pre_buffer=False)
        words, arrays = _columns(file.name, path, stored)
    except EmbedxError:
        raise
    except (pyarrow.ArrowException, ValueError, OSError, MemoryError, TypeError, KeyError) as error:
        problem = f"no readable Parquet file with columns `word` and `vector` ({reason(error)})"
        raise DataError(file.name, None, problem, AGAIN) from error
    return as_vectors(file.name, words, arrays)


def _columns(name: str, path: Path, file: Any) -> tuple[list[Any], dict[str, np.ndarray]]:
    """The words, and the arrays that `as_vectors` takes."""
    # A few bytes may stand for very many numbers.
    check_memory(name, 4 * _n_numbers(file.metadata), "write fewer words")
    words = _words(name, path, file)
    columns = [column for column in ARRAYS if column in file.schema_arrow.names]
    table = file.read(columns=columns, use_threads=False)
    arrays = {
        ARRAYS[column]: table.column(column).to_numpy()
        for column in table.column_names
        if column in ("count", "scale")
    }
    numbers = _numbers(name, table.column("vector"))
    if numbers.dtype.kind in "iu" and "scale" not in arrays:
        numbers = numbers.astype(np.float32)
    return words, arrays | {"vectors": numbers.reshape(len(words), -1)}


def _n_numbers(metadata: Any) -> int:
    """How many numbers the vectors of a file have together, by its metadata."""
    columns = [
        metadata.row_group(group).column(column)
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
    ]
    return sum(
        column.num_values for column in columns if column.path_in_schema.startswith("vector")
    )


def _numbers(name: str, lists: Any) -> np.ndarray:
    """The numbers of all vectors, one vector after the other. Raises `DataError` if the vectors
    differ in length.
    """
    from pyarrow import compute

    lengths = compute.list_value_length(lists).to_numpy()
    if len(np.unique(lengths)) > 1:
        raise DataError(name, None, "vectors of different lengths", AGAIN)
    numbers: np.ndarray = compute.list_flatten(lists).to_numpy()
    return numbers


def _words(name: str, path: Path, file: Any) -> list[Any]:
    """The words, a batch at a time, as many as memory has space for."""
    words: list[Any] = []
    n_bytes = 0
    for batch in batches(file, path, name, ["word"]):
        n_bytes += decoded_bytes(batch.to_struct_array())
        check_memory(name, n_bytes, "write fewer words")
        words += batch.column("word").to_pylist()
    return words


def write(path: Path, table: Table) -> None:
    """Write the columns, with settings and facts as metadata."""
    pyarrow = _library(path.name, "writing")
    arrays = table.arrays()
    vectors = arrays.pop("vectors")
    lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])
    columns = {"word": list(table.words), "vector": lists}
    columns |= {column: arrays[name] for column, name in ARRAYS.items() if name in arrays}
    metadata = {"embedx": json.dumps(table.about(), default=as_json_types)}
    content = pyarrow.table(columns).replace_schema_metadata(metadata)
    pyarrow.parquet.write_table(content, path, compression="zstd")


def _library(name: str, doing: str) -> Any:
    """The module pyarrow, with that of Parquet."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        problem = f"{doing} Parquet needs pyarrow"
        raise DataError(name, None, problem, 'pip install "embedx[parquet]"') from error
    return pyarrow


PARQUET = Format(
    name="parquet",
    meaning="columns `word`, `vector` (a list) and `count`, for int8 also `scale`",
    programs="DuckDB, ClickHouse, pandas, polars, Spark",
    suffixes=(".parquet",),
    dtypes=tuple(DTYPES),
    extra="parquet",
    recognises=lambda head: head.startswith(b"PAR1"),
    read=read,
    write=write,
)
