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
from embedx.vectors.formats.contract import DTYPES, Format, Found, Opened, Table, check_finite, restore, shown

AGAIN = "write the file again"
BLOCK_ROWS = 4096


class Parquet(Format):
    name = "parquet"
    meaning = "columns `word`, `vector` (a list) and `count`, for int8 also `scale`"
    programs = "DuckDB, ClickHouse, pandas, polars, Spark"
    suffixes = (".parquet",)
    dtypes = tuple(DTYPES)
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
        dim, number = table.rows.shape[1], pyarrow.from_numpy_dtype(DTYPES[table.dtype])
        types = {"word": pyarrow.string(), "vector": pyarrow.list_(number, dim)}
        types |= {} if table.counts is None else {"count": pyarrow.int64()}
        types |= {"scale": pyarrow.float32()} if table.dtype == "int8" else {}
        about = {"settings": table.settings, "facts": table.facts, "license": table.license}
        fields = [pyarrow.field(name, kind, nullable=False) for name, kind in types.items()]
        schema = pyarrow.schema(fields, {"embedx": json.dumps(about, default=plain)})
        with pyarrow.parquet.ParquetWriter(place, schema, compression="zstd") as writer:
            for rows, block, scale in table.blocks():
                columns = {
                    "word": list(table.words[rows]),
                    "vector": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(block.ravel()), dim),
                    "count": None if table.counts is None else table.counts[rows],
                    "scale": scale,
                }
                writer.write_table(pyarrow.table({name: columns[name] for name in types}, schema))


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
    budget = MemoryBudget(name)
    for batch in table.iter_batches(BLOCK_ROWS, columns=wanted, use_threads=False):
        if not batch.num_rows:
            continue
        columns = {each: batch.column(each) for each in wanted}
        if empty := next((each for each, column in columns.items() if column.null_count), None):
            raise EmbedxError(f"{name}: the column `{empty}` has empty cells after row {len(words):,}; {AGAIN}")
        texts = columns["word"].to_pylist()
        if not all(isinstance(word, str) for word in texts):
            raise EmbedxError(f"{name}: the column `word` is {shown(str(columns['word'].type))}, and not text; {AGAIN}")
        numbers = _numbers(name, columns["vector"], len(words), len(blocks[0][0]) if blocks else None)
        block = np.empty(numbers.shape, np.float32)
        budget.take(2 * block.nbytes + batch.nbytes)
        restore(numbers, columns["scale"].to_numpy(zero_copy_only=False) if "scale" in columns else None, block)
        blocks.append(block)
        if "count" in columns:
            counts.append(np.asarray(columns["count"].to_numpy(zero_copy_only=False), np.int64))
        words += texts
        progress.update(len(words))
    vectors = np.concatenate(blocks) if blocks else np.empty((0, 1), np.float32)
    check_finite(name, words, vectors, AGAIN)
    return Found(words, vectors, np.concatenate(counts) if counts else None)


def check_size(name: str, about: Any) -> None:
    """Raise EmbedxError if the numbers that a file claims do not fit into memory: a few bytes may stand for very many."""
    columns = [about.row_group(g).column(c) for g in range(about.num_row_groups) for c in range(about.num_columns)]
    n_values = sum(each.num_values for each in columns if each.path_in_schema.startswith("vector"))
    if 4 * n_values > available_memory():
        raise EmbedxError(f"{name}: {n_values:,} numbers do not fit into memory; write fewer words")


def _numbers(name: str, column: Any, done: int, dim: int | None) -> np.ndarray:
    """(rows, dim): a column of lists, all of which have the same length, that of former blocks if there were any."""
    from pyarrow import compute, types

    is_lists = types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type)
    flat = column.flatten() if is_lists else column
    values = flat.to_numpy(zero_copy_only=False)
    if not is_lists or (values.dtype.kind not in "fiu" and not flat.null_count):
        raise EmbedxError(f"{name}: the column `vector` is {shown(str(column.type))}, and no lists of numbers; {AGAIN}")
    n = dim or len(flat) // len(column)
    if not n or not compute.all(compute.equal(compute.list_value_length(column), n)).as_py():
        raise EmbedxError(f"{name}: vectors of different lengths after row {done:,}; {AGAIN}")
    if flat.null_count:
        raise EmbedxError(f"{name}: a vector has empty places after row {done:,}; {AGAIN}")
    return np.asarray(values.reshape(len(column), n))
