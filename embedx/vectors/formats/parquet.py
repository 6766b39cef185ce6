"""Parquet, for databases: columns `word` (string), `vector` (a list of numbers), `count` if it is known; for int8 `scale`.

duckdb> SELECT word FROM 'vectors.parquet' ORDER BY array_cosine_similarity(vector, ?::FLOAT[100]) DESC LIMIT 10
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from embedx.errors import EmbedxError
from embedx.labeled.files import MemoryBudget
from embedx.storage.folder import plain
from embedx.training.memory import available_memory
from embedx.training.progress import Progress
from embedx.vectors.formats.contract import DTYPES, Format, Found, Opened, Table, check_finite, quantised, scaled, scales, shown

AGAIN = "write the file again"
ROWS_AT_A_TIME = 4096


class Parquet(Format):
    name = "parquet"
    meaning = "columns `word`, `vector` (a list) and `count`, for int8 also `scale`"
    programs = "DuckDB, ClickHouse, pandas, polars, Spark"
    suffixes = (".parquet",)
    dtypes = DTYPES
    extra = "parquet"
    keeps_license = True

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return head.startswith(b"PAR1")

    @classmethod
    def read(cls, file: Opened, progress: Progress) -> Found:
        path = file.path("a Parquet file")
        pyarrow = _library(file.name, "reading")
        try:
            return _read(file.name, pyarrow.parquet.ParquetFile(path, pre_buffer=False), progress)
        except EmbedxError:
            raise
        except (pyarrow.ArrowException, ValueError, OSError, MemoryError, TypeError, KeyError) as error:
            why = " ".join(str(error).split()) or type(error).__name__
            raise EmbedxError(f"{file.name}: no readable Parquet file of word vectors ({shown(why)}); {AGAIN}") from error

    @classmethod
    def write(cls, place: Path, table: Table) -> None:
        pyarrow = _library(str(place.name), "writing")
        of = {"float32": pyarrow.float32(), "float16": pyarrow.float16(), "int8": pyarrow.int8()}[table.dtype]
        dim = table.rows.shape[1]
        fields = [pyarrow.field("word", pyarrow.string(), False), pyarrow.field("vector", pyarrow.list_(of, dim), False)]
        fields += [pyarrow.field("count", pyarrow.int64(), False)] if table.counts is not None else []
        fields += [pyarrow.field("scale", pyarrow.float32(), False)] if table.dtype == "int8" else []
        about = {"settings": table.settings, "facts": table.facts, "license": table.license}
        schema = pyarrow.schema(fields, {"embedx": json.dumps(about, default=plain)})
        done = 0
        with pyarrow.parquet.ParquetWriter(place, schema, compression="zstd") as writer:
            for words, block in table.blocks():
                scale = scales(block) if table.dtype == "int8" else None
                stored = block.astype(table.dtype) if scale is None else quantised(block, scale)
                columns = [
                    pyarrow.array(list(words), pyarrow.string()),
                    pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(stored.ravel(), of), dim),
                ]
                if table.counts is not None:
                    columns.append(pyarrow.array(table.counts[done : done + len(block)], pyarrow.int64()))
                if scale is not None:
                    columns.append(pyarrow.array(scale, pyarrow.float32()))
                writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))
                done += len(block)


def _library(name: str, doing: str) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise EmbedxError(f'{name}: {doing} Parquet needs pyarrow; pip install "embedx[parquet]"') from error
    return pyarrow


def _read(name: str, table: Any, progress: Progress) -> Found:
    names = table.schema_arrow.names
    if missing := [each for each in ("word", "vector") if each not in names]:
        raise EmbedxError(
            f"{name}: no column `{missing[0]}`, but {shown(', '.join(names))}; embedx reads Parquet files with columns `word` "
            "and `vector`"
        )
    check_size(name, table.metadata)
    wanted = [each for each in ("word", "vector", "count", "scale") if each in names]
    words: list[str] = []
    blocks: list[np.ndarray] = []
    counts: list[np.ndarray] = []
    dim = 0
    budget = MemoryBudget(name)
    for batch in table.iter_batches(ROWS_AT_A_TIME, columns=wanted, use_threads=False):
        if not batch.num_rows:
            continue
        given = {each: batch.column(each) for each in wanted}
        if empty := next((each for each, column in given.items() if column.null_count), None):
            raise EmbedxError(f"{name}: the column `{empty}` has empty cells after row {len(words):,}; {AGAIN}")
        texts = given["word"].to_pylist()
        if not all(isinstance(word, str) for word in texts):
            raise EmbedxError(f"{name}: the column `word` is {shown(str(given['word'].type))}, and not text; {AGAIN}")
        numbers = _numbers(name, given["vector"], len(words))
        dim = dim or numbers.shape[1]
        if numbers.shape[1] != dim or not dim:
            raise EmbedxError(
                f"{name}: vectors of {dim:,} and of {numbers.shape[1]:,} numbers after row {len(words):,}; {AGAIN}"
            )
        block = np.empty(numbers.shape, np.float32)
        budget.take(2 * block.nbytes + batch.nbytes)
        scaled(numbers, given["scale"].to_numpy(zero_copy_only=False) if "scale" in given else None, block)
        blocks.append(block)
        if "count" in given:
            counts.append(np.asarray(given["count"].to_numpy(zero_copy_only=False), np.int64))
        words += texts
        progress.update(len(words))
    vectors = np.concatenate(blocks) if blocks else np.empty((0, 1), np.float32)
    check_finite(name, words, vectors, AGAIN)
    return Found(words, vectors, np.concatenate(counts) if counts else None)


def check_size(name: str, about: Any) -> None:
    """Raise EmbedxError if there is no memory for the numbers that a file says it has: some bytes may stand for very many."""
    columns = [about.row_group(g).column(c) for g in range(about.num_row_groups) for c in range(about.num_columns)]
    n_values = sum(each.num_values for each in columns if each.path_in_schema.startswith("vector"))
    if 4 * n_values > available_memory():
        raise EmbedxError(f"{name}: {n_values:,} numbers do not fit into memory; write fewer words")


def _numbers(name: str, column: Any, done: int) -> np.ndarray:
    """(rows, dim): a column of lists, all of which have the same length."""
    from pyarrow import compute, types

    if not (types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type)):
        raise EmbedxError(f"{name}: the column `vector` is {shown(str(column.type))}, and no lists of numbers; {AGAIN}")
    flat = column.flatten()
    n = len(flat) // len(column)
    if not compute.all(compute.equal(compute.list_value_length(column), n)).as_py():
        raise EmbedxError(f"{name}: vectors of different lengths after row {done:,}; {AGAIN}")
    if flat.null_count:
        raise EmbedxError(f"{name}: a vector has empty places after row {done:,}; {AGAIN}")
    values = flat.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiu":
        raise EmbedxError(f"{name}: the column `vector` is {shown(str(column.type))}, and no lists of numbers; {AGAIN}")
    return np.asarray(values.reshape(len(column), n))
