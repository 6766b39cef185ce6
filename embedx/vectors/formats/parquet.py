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
from embedx.storage.folder import plain
from embedx.text.opening import reason
from embedx.text.parquet import batches, decoded_bytes
from embedx.vectors.formats.contract import (
    AGAIN,
    DTYPES,
    Format,
    Found,
    Opened,
    Table,
    as_vectors,
    check_memory,
)

ARRAYS = {"vector": "vectors", "count": "counts", "scale": "scale"}  # by the column


def read(file: Opened) -> Found:
    path = file.path("a Parquet file")
    pyarrow = _library(file.name, "reading")
    try:
        stored = pyarrow.parquet.ParquetFile(path, pre_buffer=False)
        words, arrays = _columns(file.name, path, stored)
    except EmbedxError:
        raise
    except (pyarrow.ArrowException, ValueError, OSError, MemoryError, TypeError, KeyError) as error:
        complaint = f"no readable Parquet file with columns `word` and `vector` ({reason(error)})"
        raise DataError(file.name, None, complaint, AGAIN) from error
    return as_vectors(file.name, words, arrays)


def _columns(name: str, path: Path, file: Any) -> tuple[list[Any], dict[str, np.ndarray]]:
    """The words, and the arrays that `as_vectors` takes."""
    from pyarrow import compute

    names, about = file.schema_arrow.names, file.metadata
    columns = [
        about.row_group(g).column(c)
        for g in range(about.num_row_groups)
        for c in range(about.num_columns)
    ]
    n_values = sum(each.num_values for each in columns if each.path_in_schema.startswith("vector"))
    # a few bytes may stand for very many numbers
    check_memory(name, 4 * n_values, "write fewer words")
    words = _words(name, path, file)
    table = file.read(columns=[column for column in ARRAYS if column in names], use_threads=False)
    arrays = {
        ARRAYS[each]: table.column(each).to_numpy()
        for each in table.column_names
        if each in ("count", "scale")
    }
    lists = table.column("vector")
    lengths = compute.list_value_length(lists).to_numpy()
    if len(np.unique(lengths)) > 1:
        raise DataError(name, None, "vectors of different lengths", AGAIN)
    numbers = compute.list_flatten(lists).to_numpy()
    if numbers.dtype.kind in "iu" and "scale" not in arrays:
        numbers = numbers.astype(np.float32)
    return words, arrays | {"vectors": numbers.reshape(len(words), -1)}


def _words(name: str, path: Path, file: Any) -> list[Any]:
    words: list[Any] = []
    n_bytes = 0
    for batch in batches(file, path, name, ["word"]):
        n_bytes += decoded_bytes(batch.to_struct_array())
        check_memory(name, n_bytes, "write fewer words")
        words += batch.column("word").to_pylist()
    return words


def write(path: Path, table: Table) -> None:
    pyarrow = _library(path.name, "writing")
    arrays = table.arrays()
    vectors = arrays.pop("vectors")
    lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])
    columns = {"word": list(table.words), "vector": lists} | {
        name: arrays[kind] for name, kind in ARRAYS.items() if kind in arrays
    }
    made = pyarrow.table(columns).replace_schema_metadata(
        {"embedx": json.dumps(table.about(), default=plain)}
    )
    pyarrow.parquet.write_table(made, path, compression="zstd")


def _library(name: str, doing: str) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(
            name, None, f"{doing} Parquet needs pyarrow", 'pip install "embedx[parquet]"'
        ) from error
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
